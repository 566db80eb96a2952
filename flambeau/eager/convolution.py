"""Launching convolutions: forward, towards the input, towards the weights.

All three take a checked geometry (stride, padding, dilation as tuples, groups) and plain tensors.
Plans are kept by layouts and geometry. What is legal is asked in convolution_checks.py, rows and
derivatives are in ops/convolution.py, the cutting of work is in convolution_plans.py.
"""

from flambeau import _dtype
from flambeau._layout import Size, dense_layout, make_layout, ordered_strides
from flambeau._tensor import empty_like_layout, empty_tensor
from flambeau.eager import convolution_matrices as matrices
from flambeau.eager.launching import launches
from flambeau.eager.convolution_checks import check
from flambeau.eager.convolution_matrices import FewPixels, fits_matrices, is_few
from flambeau.eager.convolution_plans import (
    Geometry,
    depthwise_weight_words,
    depthwise_words,
    product_words,
    volume,
    weight_words,
)
from flambeau.eager.convolution_squares import fits, square_weight_words, square_words
from flambeau.eager.copying import copy_into, fill_into
from flambeau.eager.kernels import load_kernel, pool
from flambeau.eager.plan import MAX_PLANS
from flambeau.eager.rows import address, contiguous, is_computed
from flambeau.ops.convolution import is_channels_last
from flambeau.ops.table import public as function
from flambeau.runtime.allocator import host_allocator
from flambeau.runtime.cpu import words

_kernels: dict = {}
_plans: dict = {}


def _templates():
    """The modules that write kernels; they load with llvmlite, on first need."""
    from flambeau.codegen.templates import conv, conv_depthwise, conv_panels, conv_winograd
    from flambeau.codegen.templates.conv_patches import WORDS

    return conv, conv_panels, conv_depthwise, conv_winograd, WORDS


def _weight_templates():
    """The same for weight gradients."""
    from flambeau.codegen.templates import conv_depthwise, conv_weight, conv_winograd_weight
    from flambeau.codegen.templates.conv_patches import WORDS

    return conv_weight, conv_depthwise, conv_winograd_weight, WORDS


def _kernel(name, build, *key):
    found = _kernels.get((name, *key))
    if found is None:
        found = _kernels[name, *key] = load_kernel(build(*key), name)
    return found


def _launch(kernel, desc, pointers, slot_bytes):
    """Run a kernel with a slot of scratch for each thread."""
    threads = pool()
    threads.ensure_workers()
    slots = min(threads.get_num_threads(), 64)
    block, give = host_allocator.take(slot_bytes * slots)
    try:
        kernel(desc, *pointers, block, slots)
    finally:
        give(block)


_SUMMED = {"float16": _dtype.float32, "bfloat16": _dtype.float32}
_SUMMED |= dict.fromkeys(("int8", "uint8", "int16"), _dtype.int32)


def _as_summed(t):
    """Weights and bias as kernels want them: dense, of the type sums have."""
    dtype = _SUMMED.get(t.dtype.name, t.dtype)
    if t._layout.is_contiguous and dtype is t.dtype:
        return t
    out = empty_tensor(t.shape, dtype, t.device)
    copy_into(out, t)
    return out


def _plan(key, make):
    found = _plans.get(key)
    if found is None:
        if len(_plans) > MAX_PLANS:
            _plans.clear()
        found = _plans[key] = make()
    return found


def _geometry(x, y, kernel, stride, padding, dilation, groups):
    missing = 3 - len(kernel)
    ones, zeros = (1,) * missing, (0,) * missing
    x_shape, x_strides = volume(x.shape, x.strides, x.itemsize)
    y_shape, y_strides = volume(y.shape, y.strides, y.itemsize)
    return Geometry(
        x_shape,
        x_strides,
        y_shape,
        y_strides,
        (*ones, *kernel),
        (*ones, *stride),
        (*zeros, *padding),
        (*ones, *dilation),
        groups,
    )


def _depthwise(g):
    """Has every group one channel on both sides?"""
    return g.groups > 1 and g.x_shape[1] == g.groups == g.y_shape[1]


def _lines(t):
    """Do lines of pixels lie side by side?"""
    return t._layout.strides[-1] == 1 or t._layout.shape[-1] == 1


class _Run:
    """A planned convolution: the weights are laid out for the kernel, then the kernel runs."""

    __slots__ = ("kernel", "owner", "desc", "slot_bytes", "first", "kept", "described", "nbytes")

    def __init__(self, kernel, described, slot_bytes, first=None, strip_words=(), nbytes=0):
        self.kernel, self.slot_bytes = kernel, slot_bytes
        self.owner, self.desc = words(described)
        self.first, self.nbytes = first, nbytes
        self.kept, self.described = words(strip_words)

    def __call__(self, out, source, weight, bias):
        bias = 0 if bias is None else bias._storage.pointer + bias._offset
        weight = weight._storage.pointer + weight._offset
        pointers = out._storage.pointer + out._offset, source._storage.pointer + source._offset
        if self.first is None:
            return _launch(self.kernel, self.desc, (*pointers, weight, bias), self.slot_bytes)
        strips, give = host_allocator.take(self.nbytes)
        try:
            self.first(self.described, strips, weight)
            return _launch(self.kernel, self.desc, (*pointers, strips, bias), self.slot_bytes)
        finally:
            give(strips)


def _make_run(out, source, weight, biased, stride, padding, dilation, groups, backward):
    """Plan y = conv(x, weight), or the way back, for layouts."""
    conv, panels, depthwise, winograd, names = _templates()
    x, y = (out, source) if backward else (source, out)
    g = _geometry(x, y, weight.shape[2:], stride, padding, dilation, groups)
    code = out.dtype.code
    found = _depthwise(g) and depthwise_words(names, g, code, backward, biased)
    if found:
        return _Run(_kernel("convolution_depthwise", depthwise.build, code), *found)
    if not backward and out.is_contiguous and is_few(g, code):
        return FewPixels(g, out, source)
    if fits(g, code):
        plan = square_words(names, g, code, backward, biased)
        kernel = _kernel("convolution_squares", winograd.build, code)
        first = _kernel("convolution_spread_weights", winograd.build_spread, code)
    else:
        plan = product_words(names, g, code, backward, biased, panels.chunk_rows())
        own = plan.strip_words is None
        kernel = _kernel("convolution", conv.build, code, own)
        if own:
            return _Run(kernel, plan.words, plan.slot_bytes)
        first = _kernel("convolution_strips", panels.build, code)
    return _Run(kernel, plan.words, plan.slot_bytes, first, plan.strip_words, plan.strip_bytes)


def _product(out, source, weight, bias, stride, padding, dilation, groups, backward):
    """y = conv(x, weight), or the way back; gives the plan if it may be run again as it is."""
    if not is_computed(out):
        return None
    if source._layout.numel == 0 or weight._layout.numel == 0:
        fill_into(out, 0)
        return None
    shape = weight.shape[2:], stride, padding, groups
    if weight._layout.is_contiguous and fits_matrices(source._layout, out._layout, *shape):
        matrices.multiply(out, source, weight, bias, backward)
        return None
    given = source, weight, bias, out
    # Kernels read and write lines of pixels; where channels lie innermost, a quick copy before and
    # after costs less than reaching for single elements.
    source = source if _lines(source) else contiguous(source)
    target = out if _lines(out) else empty_tensor(out.shape, out.dtype, out.device)
    bias = None if bias is None else _as_summed(bias)
    weight = _as_summed(weight)
    layouts = target._layout, source._layout, weight._layout, bias is not None
    key = (*layouts, stride, padding, dilation, groups, backward)
    run = _plan(key, lambda: _make_run(*key))
    run(target, source, weight, bias)
    if target is not out:
        copy_into(out, target)
    same = zip(given, (source, weight, bias, target))
    return run if all(a is b for a, b in same) else None


def _ordered(shape, like, last):
    """A dense layout, with channels innermost if last."""
    shape = Size(shape)
    if not last:
        return dense_layout(shape, like.dtype, like.device)
    strides = ordered_strides(shape, (0, *range(2, len(shape)), 1))
    return make_layout(shape, strides, like.dtype, like.device)


_calls: dict = {}


@launches("convolution")
def convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    """Any convolution; what was checked once for these layouts is not checked again."""
    like, other = input._layout, weight._layout
    key = (like, other, None if bias is None else bias._layout)
    key += (stride, padding, dilation, transposed, output_padding, groups)
    found = _calls.get(key)
    if found is None:
        if len(_calls) > MAX_PLANS:
            _calls.clear()
        call = check(*key)
        last = is_channels_last(like) or is_channels_last(other)
        found = _calls[key] = [_ordered(call.shape, like, last), None, call]
    layout, run, call = found
    out = empty_like_layout(layout)
    if run is not None:
        run(out, input, weight, bias)
    else:
        shape = call.stride, call.padding, call.dilation
        found[1] = _product(out, input, weight, bias, *shape, groups, transposed)
    return out


@launches("convolution_to_input")
def towards_input(input, weight, shape, stride, padding, dilation, groups, last=False):
    """What the gradient of a result contributes to an input of the given shape."""
    out = empty_like_layout(_ordered(shape, input._layout, last))
    _product(out, input, weight, None, stride, padding, dilation, groups, True)
    return out


@launches("convolution_to_weight")
def towards_weight(input, other, shape, stride, padding, dilation, groups, last=False):
    """The gradient of weights that take input to a result with gradient `other`."""
    out = empty_like_layout(_ordered(shape, input._layout, last))
    _weight_gradient(out, None, input, other, stride, padding, dilation, groups)
    return out


@launches("convolution_to_weight_and_bias")
def towards_weight_and_bias(input, other, shape, stride, padding, dilation, groups, last=False):
    """The same, and the gradient of the bias, in one pass over `other` where that is possible."""
    out = empty_like_layout(_ordered(shape, input._layout, last))
    bias = empty_tensor(Size((shape[0],)), input.dtype, input.device)
    geometry = stride, padding, dilation, groups
    if not _weight_gradient(out, bias, input, other, *geometry):
        bias = function("sum")(other.detach(), (0, *range(2, other.ndim)))
    return out, bias


def _weight_gradient(out, bias, input, other, stride, padding, dilation, groups):
    """Fill out (and bias); is the bias filled, too?"""
    if not is_computed(out):
        return False
    if input._layout.numel == 0 or other._layout.numel == 0:
        fill_into(out, 0)
        return False
    kernel = out.shape[2:]
    target = out
    if not out._layout.is_contiguous:
        target = empty_tensor(out.shape, out.dtype, out.device)
    if fits_matrices(input._layout, other._layout, kernel, stride, padding, groups):
        matrices.multiply_weights(target, input, other)
        done = False
    else:
        x, y = (t if _lines(t) else contiguous(t) for t in (input, other))
        key = (x._layout, y._layout, kernel, stride, padding, dilation, groups, bias is not None)
        done = _plan(key, lambda: _make_weight_run(*key))(target, bias, x, y)
    if target is not out:
        copy_into(out, target)
    return done


class _WeightRun:
    """A planned weight gradient: shares, then their sum; or all at once, channel by channel."""

    def __init__(self, kernel, described, slot_bytes, biased, last=None, gather=(), share_bytes=0):
        self.kernel, self.slot_bytes = kernel, slot_bytes
        self.owner, self.desc = words(described)
        self.last, self.share_bytes, self.biased = last, share_bytes, biased
        self.kept, self.gather = words(gather)

    def __call__(self, out, bias, x, y):
        """Gives whether bias was computed, too."""
        if self.last is None:
            _launch(self.kernel, self.desc, (address(out), address(x), address(y)), self.slot_bytes)
            return False
        shares, give = host_allocator.take(self.share_bytes)
        try:
            _launch(self.kernel, self.desc, (shares, address(x), address(y)), self.slot_bytes)
            if self.biased is None:  # a kernel that knows nothing of biases
                self.last(self.gather, address(out), shares)
            else:
                self.last(self.gather, address(out), shares, address(bias) if self.biased else 0)
        finally:
            give(shares)
        return bool(self.biased)


def _make_weight_run(x, y, kernel, stride, padding, dilation, groups, biased):
    weights, depthwise, squares, names = _weight_templates()
    g = _geometry(x, y, kernel, stride, padding, dilation, groups)
    code = x.dtype.code
    found = _depthwise(g) and depthwise_weight_words(names, g, code)
    if found:
        first = _kernel("convolution_depthwise_weight", depthwise.build_weight, code)
        return _WeightRun(first, *found, None)
    if fits(g, code):
        plan, biased = square_weight_words(names, g, code), None
        first = _kernel("convolution_squares_weight", squares.build, code)
        last = _kernel("convolution_squares_weight_sum", squares.build_gathering, code)
    else:
        plan = weight_words(names, g, code, biased)
        first = _kernel("convolution_weight", weights.build, code)
        last = _kernel("convolution_weight_sum", weights.build_gathering, code)
    described = plan.words, plan.slot_bytes, biased, last, plan.gather_words, plan.share_bytes
    return _WeightRun(first, *described)
