"""Launching convolutions: forward, towards the input, towards the weights.

All three take a checked geometry (stride, padding, dilation as tuples, groups) and plain tensors. A
plan, found by layouts and geometry, is what runs: the weights are laid out for the kernel, then the
kernel runs in a slot of scratch per thread. What is legal is asked in ops/convolution_checks.py,
rows and derivatives are in ops/convolution.py, the cutting of work is in planning/convolutions.py.
"""

from math import prod

from flambeau import _dtype
from flambeau._layout import (
    dense_layout,
    make_layout,
    ordered_strides,
    suggests_channels_last,
)
from flambeau._tensor import check_room, empty_like_layout, empty_tensor
from flambeau.eager import convolution_matrices as matrices
from flambeau.eager.copying import copy_into, fill_into
from flambeau.eager.kernels import pool
from flambeau.eager.launching import launches
from flambeau.eager.plans import Plans
from flambeau.eager.rows import address
from flambeau.ops.convolution_checks import check, resized
from flambeau.ops.table import public as function
from flambeau.planning.convolution_squares import fits, square_plan, square_weight_plan
from flambeau.planning.convolutions import (
    Geometry,
    depthwise_plan,
    depthwise_weight_plan,
    multiplies_pairs,
    product_plan,
    volume,
    weight_plan,
)

MOST_SLOTS = 64
FILLED = 32  # products of a sum that fill a matrix register
_SUMMED = {"float16": _dtype.float32, "bfloat16": _dtype.float32}
_SUMMED |= dict.fromkeys(("int8", "uint8", "int16"), _dtype.int32)


def _take(pool_for, shared, slot_bytes):
    """Memory while a plan runs: some bytes, then a slot per thread. (pool, address, slots)"""
    slots = min(pool().get_num_threads(), MOST_SLOTS)
    memory = pool_for(shared + slot_bytes * slots)
    try:
        return memory, memory.pop(), slots
    except IndexError:
        return memory, memory.grow(), slots


def _pages(nbytes):
    return (nbytes + 4095) & -4096


def _geometry(x, y, kernel, stride, padding, dilation, groups):
    x_shape, x_strides = volume(tuple(x.shape), x.strides, x.itemsize)
    y_shape, y_strides = volume(tuple(y.shape), y.strides, y.itemsize)
    missing = 3 - len(kernel)
    if missing:
        ones, zeros = (1,) * missing, (0,) * missing
        kernel, stride, dilation = ones + kernel, ones + stride, ones + dilation
        padding = zeros + padding
    return Geometry(
        x_shape, x_strides, y_shape, y_strides, kernel, stride, padding, dilation, groups
    )  # fmt: skip


def _depthwise(g):
    """Has every group one channel on both sides?"""
    return g.groups > 1 and g.x_shape[1] == g.groups == g.y_shape[1]


def _lined(layout):
    """A layout of the same shape in which lines of pixels lie side by side.

    Kernels read and write lines of pixels; where channels lie innermost, a quick copy before and
    after costs less than reaching for single elements.
    """
    if layout.strides[-1] == 1 or layout.shape[-1] == 1:
        return layout
    return dense_layout(layout.shape, layout.dtype, layout.device)


def _as_summed(layout):
    """The layout of weights and bias as most kernels want them: dense, of the type sums have."""
    return _dense(layout, _SUMMED.get(layout.dtype.name, layout.dtype))


def _dense(layout, dtype=None):
    dtype = dtype or layout.dtype
    if layout.is_contiguous and dtype is layout.dtype:
        return layout
    return dense_layout(layout.shape, dtype, layout.device)


def _paired(g, code, backward):
    """Are channels summed over two at a time? In matrix registers where there are enough."""
    channels = g.y_shape[1] if backward else g.x_shape[1]
    if channels == g.groups:
        return False
    found = multiplies_pairs(code)
    return found if channels // g.groups * prod(g.kernel) >= FILLED else bool(found)


def _copied(t, layout):
    """A tensor in another layout: itself, or a copy."""
    if t is None or t._layout is layout:
        return t
    out = empty_like_layout(layout)
    copy_into(out, t)
    return out


# -- a convolution, or the way back ---------------------------------------------------------------


class _Run:
    """A planned convolution."""

    __slots__ = ("kernel", "desc", "first", "first_desc", "memory", "room")

    def __init__(self, runtime, kernel, plan, first=None):
        self.desc, slot_bytes, self.first_desc, first_bytes, shared_bytes = plan
        self.kernel, self.first = kernel, first
        self.room = _pages(first_bytes)
        self.memory = runtime.pool_for, self.room + shared_bytes, slot_bytes
        pool().ensure_workers()

    def __call__(self, out, source, weight, bias):
        bias = 0 if bias is None else bias._storage.pointer + bias._offset
        weight = weight._storage.pointer + weight._offset
        source = source._storage.pointer + source._offset
        out = out._storage.pointer + out._offset
        memory, block, slots = _take(*self.memory)
        try:
            if self.first is None:
                self.kernel(self.desc, out, source, weight, bias, block, slots)
                return
            self.first(self.first_desc, block, weight)
            self.kernel(self.desc, out, source, block, bias, block + self.room, slots)
        finally:
            memory.give(block)


def _make_run(out, source, weight, biased, stride, padding, dilation, groups, backward):
    """Plan y = conv(x, weight), or the way back, for layouts: what runs, and on which weights."""
    x, y = (out, source) if backward else (source, out)
    g = _geometry(x, y, tuple(weight.shape)[2:], stride, padding, dilation, groups)
    code, runtime = out.dtype.code, out.device.runtime
    kernel = runtime.kernel
    found = depthwise_plan(g, code, backward, biased) if _depthwise(g) else None
    if found is not None:
        main = kernel("convolution_depthwise", "conv_depthwise:build", code)
        return _Run(runtime, main, found), _as_summed(weight)
    paired = _paired(g, code, backward)
    if not backward and out.is_contiguous and matrices.is_few(g, code):
        return matrices.FewPixels(g, source), _as_summed(weight)
    if not paired and fits(g, code):
        main = kernel("convolution_squares", "conv_winograd:build", code)
        first = kernel("convolution_spread_weights", "conv_winograd:build_spread", code)
        run = _Run(runtime, main, square_plan(g, code, backward, biased), first)
        return run, _as_summed(weight)
    plan = product_plan(g, code, backward, biased, paired)
    own = plan.first_description is None
    main = kernel("convolution", "conv:build", code, own, paired)
    first = None if own else kernel("convolution_strips", "conv_panels:build", code, paired)
    return _Run(runtime, main, plan, first), _dense(weight) if paired else _as_summed(weight)


def _planned(out, source, weight, bias, stride, padding, dilation, groups, backward):
    """A function of (out, source, weight, bias) for these layouts."""
    if out.numel == 0 or not out.device.runtime.computes:
        return _nothing
    check_room(out)  # before strides and taps are listed
    if source.numel == 0 or weight.numel == 0:
        return _zeros
    if out.device.runtime.convolutions is not None:
        return out.device.runtime.convolutions.run(
            out, source, weight, bias, stride, padding, dilation, groups, backward
        )
    if weight.is_contiguous and not source.is_contiguous:
        kernel = tuple(weight.shape)[2:]
        if matrices.fits(source, out, kernel, stride, padding, groups):
            return matrices.multiply_back if backward else matrices.multiply
    lined, target = _lined(source), _lined(out)
    added = None if bias is None else _as_summed(bias)
    rest = stride, padding, dilation, groups, backward
    run, summed = _make_run(target, lined, weight, bias is not None, *rest)
    if lined is source and target is out and summed is weight and added is bias:
        return run

    def with_copies(out, source, weight, bias):
        to = out if out._layout is target else empty_like_layout(target)
        run(to, _copied(source, lined), _copied(weight, summed), _copied(bias, added))
        if to is not out:
            copy_into(out, to)

    return with_copies


def _nothing(*tensors):
    """Nobody has memory, or there is nothing in it."""


def _zeros(out, *tensors):
    fill_into(out, 0)


def _ordered(shape, like, last):
    """A dense layout, with channels innermost if last."""
    if not last:
        return dense_layout(shape, like.dtype, like.device)
    strides = ordered_strides(shape, (0, *range(2, len(shape)), 1))
    return make_layout(shape, strides, like.dtype, like.device)


def _checked(input, weight, *rest):
    """The Call of layouts; all but the sizes of an image is looked at once."""
    transposed = rest[4]
    if transposed or not input.numel or input.ndim != weight.ndim or input.ndim < 3:
        return check(input, weight, *rest)
    mark = input.ndim, input.sizes[1], input.dtype, weight, *rest
    known = _SETTLED[mark]
    if known is None:
        _SETTLED[mark] = known = check(input, weight, *rest)
        return known
    return resized(known, input, weight)


_SETTLED = Plans(lambda mark: None, by_default=False)


def _plan_forward(key):
    """(layout of the result, what fills it)."""
    input, weight, bias, _, _, _, transposed, _, groups = key
    call = _checked(*key)
    last = suggests_channels_last(input) or suggests_channels_last(weight)
    layout = _ordered(call.shape, input, last)
    geometry = call.stride, call.padding, call.dilation, groups, transposed
    return layout, _planned(layout, input, weight, bias, *geometry)


FORWARD = Plans(_plan_forward, by_default=False)


@launches("convolution")
def convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    """Any convolution; what was checked once for these layouts is not checked again."""
    layouts = input._layout, weight._layout, None if bias is None else bias._layout
    layout, run = FORWARD[*layouts, stride, padding, dilation, transposed, output_padding, groups]
    out = empty_like_layout(layout)
    run(out, input, weight, bias)
    return out


def _plan_to_input(key):
    input, weight, shape, stride, padding, dilation, groups, last = key
    layout = _ordered(shape, input, last)
    return layout, _planned(layout, input, weight, None, stride, padding, dilation, groups, True)


TO_INPUT = Plans(_plan_to_input, by_default=False)


@launches("convolution_to_input")
def towards_input(input, weight, shape, stride, padding, dilation, groups, last=False):
    """What the gradient of a result contributes to an input of the given shape."""
    geometry = shape, stride, padding, dilation, groups, last
    layout, run = TO_INPUT[input._layout, weight._layout, *geometry]
    out = empty_like_layout(layout)
    run(out, input, weight, None)
    return out


# -- weights --------------------------------------------------------------------------------------


class _WeightRun:
    """A planned weight gradient: shares, then their sum; or all at once, channel by channel."""

    __slots__ = ("kernel", "desc", "last", "gather", "memory", "biased")

    def __init__(self, runtime, kernel, plan, last=None, biased=None):
        self.desc, slot_bytes, self.gather, share_bytes = plan
        self.kernel, self.last = kernel, last
        self.memory = runtime.pool_for, _pages(share_bytes), slot_bytes
        self.biased = biased  # None: the kernel knows nothing of biases
        pool().ensure_workers()

    def __call__(self, out, bias, x, y):
        """Gives whether bias was computed, too."""
        memory, block, slots = _take(*self.memory)
        room = block + self.memory[1]
        shares = address(out) if self.last is None else block
        try:
            self.kernel(self.desc, shares, address(x), address(y), room, slots)
            if self.last is not None:
                more = () if self.biased is None else (address(bias) if self.biased else 0,)
                self.last(self.gather, address(out), shares, *more)
        finally:
            memory.give(block)
        return bool(self.biased)


def _make_weight_run(x, y, kernel, stride, padding, dilation, groups, biased):
    g = _geometry(x, y, kernel, stride, padding, dilation, groups)
    code, runtime = x.dtype.code, x.device.runtime
    load = runtime.kernel
    found = depthwise_weight_plan(g, code) if _depthwise(g) else None
    if found is not None:
        first = load("convolution_depthwise_weight", "conv_depthwise:build_weight", code)
        return _WeightRun(runtime, first, found)
    if fits(g, code) and not multiplies_pairs(code):
        first = load("convolution_squares_weight", "conv_winograd_weight:build", code)
        last = load("convolution_squares_weight_sum", "conv_winograd_weight:build_gathering", code)
        return _WeightRun(runtime, first, square_weight_plan(g, code), last)
    paired = multiplies_pairs(code)
    first = load("convolution_weight", "conv_weight:build", code, paired)
    last = load("convolution_weight_sum", "conv_weight:build_gathering", code)
    return _WeightRun(runtime, first, weight_plan(g, code, biased, paired), last, biased)


def _plan_to_weight(key):
    """(layout of the gradient, what fills it and perhaps the bias; is the bias filled, too?)"""
    input, other, shape, stride, padding, dilation, groups, last, biased = key
    layout = _ordered(shape, input, last)
    if layout.numel == 0 or not layout.device.runtime.computes:
        return layout, _nothing
    if input.numel == 0 or other.numel == 0:
        return layout, _zeros
    own = layout.device.runtime.convolutions
    if own is not None:
        return layout, own.weights(layout, input, other, stride, padding, dilation, groups)
    target = layout
    if not layout.is_contiguous:
        target = dense_layout(shape, layout.dtype, layout.device)
    kernel = tuple(shape)[2:]
    if matrices.fits(input, other, kernel, stride, padding, groups):
        run, x, y = matrices.multiply_weights, input, other
    else:
        x, y = _lined(input), _lined(other)
        run = _make_weight_run(x, y, kernel, stride, padding, dilation, groups, biased)
    if target is layout and x is input and y is other:
        return layout, run

    def with_copies(out, bias, input, other):
        to = out if target is layout else empty_like_layout(target)
        done = run(to, bias, _copied(input, x), _copied(other, y))
        if to is not out:
            copy_into(out, to)
        return done

    return layout, with_copies


TO_WEIGHT = Plans(_plan_to_weight, by_default=False)


@launches("convolution_to_weight")
def towards_weight(input, other, shape, stride, padding, dilation, groups, last=False):
    """The gradient of weights that take input to a result with gradient `other`."""
    geometry = shape, stride, padding, dilation, groups, last
    layout, run = TO_WEIGHT[input._layout, other._layout, *geometry, False]
    out = empty_like_layout(layout)
    run(out, None, input, other)
    return out


@launches("convolution_to_weight_and_bias")
def towards_weight_and_bias(input, other, shape, stride, padding, dilation, groups, last=False):
    """The same, and the gradient of the bias, in one pass over `other` where that is possible."""
    geometry = shape, stride, padding, dilation, groups, last
    layout, run = TO_WEIGHT[input._layout, other._layout, *geometry, True]
    out = empty_like_layout(layout)
    bias = empty_tensor((shape[0],), input.dtype, input.device)
    if not run(out, bias, input, other):
        bias = function("sum")(other.detach(), (0, *range(2, other.ndim)))
    return out, bias
