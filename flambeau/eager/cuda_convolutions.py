"""Convolutions on GPUs: plans for eager/convolution.py, by cuDNN where it can, else by a kernel of
our own.

A plan is a function of tensors (out, source, weight, bias), or (out, bias, x, y) for weights, as
those of the host are.
"""

from math import prod

from flambeau._layout import dense_layout, make_layout, ordered_strides, suggests_channels_last
from flambeau._tensor import empty_like_layout
from flambeau.codegen.descriptions import DeviceConvolution
from flambeau.eager import kernels
from flambeau.eager.copying import copy_into
from flambeau.eager.rows import address
from flambeau.ops.table import public as function
from flambeau.runtime import cudnn
from flambeau.runtime.cpu import packed
from flambeau.runtime.switches import switches

ALIGNED = 16  # bytes: what the library expects of addresses
CODES = "f16", "bf16", "f32", "f64"
# plans that the library must not choose where float32 has to stay float32
ROUNDING = "TENSOR_CORE", "DOWN_CONVERT_INPUTS"


class Convolutions:
    """What a GPU does for convolutions."""

    def __init__(self, runtime):
        self.runtime = runtime

    def run(self, out, source, weight, bias, stride, padding, dilation, groups, backward):
        """A plan from layouts: a convolution, or the way back."""
        geometry = stride, padding, dilation

        def own():
            return self._own_run(out, source, weight, bias, *geometry, groups, backward)

        if not self._has_library(out):
            return own()
        mode = "backward" if backward else "forward"
        plan = ByLibrary(self.runtime, mode, (out, source, weight), geometry)

        def convolve(out, source, weight, bias):
            if not plan.run(out, source, weight):
                if plan.own is None:
                    plan.own = own()
                plan.own(out, source, weight, bias)
            elif bias is not None:
                shape = (1, -1, *[1] * (out.ndim - 2))
                function("add")(out, function("reshape")(bias.detach(), shape), out=out)

        return convolve

    def weights(self, out, x, y, stride, padding, dilation, groups):
        """A plan of the gradient of weights; it leaves the bias to others."""
        geometry = stride, padding, dilation

        def own():
            return self._own_weights(out, x, y, *geometry, groups)

        if not self._has_library(out):
            return own()
        plan = ByLibrary(self.runtime, "weight", (out, x, y), geometry)

        def convolve(out, bias, x, y):
            if not plan.run(out, x, y):
                if plan.own is None:
                    plan.own = own()
                plan.own(out, bias, x, y)
            return False

        return convolve

    def _has_library(self, out):
        return out.dtype.code in CODES and self.runtime.cudnn() is not None

    # -- by our own kernel -------------------------------------------------------------------------
    def _own_run(self, out, source, weight, bias, stride, padding, dilation, groups, backward):
        x, y = (out, source) if backward else (source, out)
        words = described(x, y, weight, stride, padding, dilation, groups, out, bias)
        mode, biased = "backward" if backward else "forward", bias is not None
        kernel = self._kernel(out, mode, biased)

        def convolve(out, source, weight, bias):
            more = (address(bias),) if biased else ()
            kernel(words, address(out), address(source), address(weight), *more)

        return convolve

    def _own_weights(self, out, x, y, stride, padding, dilation, groups):
        words = described(x, y, out, stride, padding, dilation, groups, out, None)
        kernel = self._kernel(out, "weight", False)

        def convolve(out, bias, x, y):
            kernel(words, address(out), address(x), address(y))
            return False

        return convolve

    def _kernel(self, out, mode, biased):
        build = "convolution:build"
        return self.runtime.kernel("convolution", build, out.dtype.code, mode, biased)


class ByLibrary:
    """A convolution of cuDNN: which graph runs depends on switches that programs may change.

    mode: forward, backward (towards the input) or weight; layouts: of the result and of the two
    that it is made from. They are copied where they are neither dense nor channels last, and all
    are channels last if one is.
    """

    def __init__(self, runtime, mode, layouts, geometry):
        self.runtime, self.mode, self.geometry = runtime, mode, geometry
        last = any(map(suggests_channels_last, layouts))
        self.layouts = [_ordered(t, last) for t in layouts]
        self.fits = all(_same(t, wanted) for t, wanted in zip(layouts, self.layouts))
        self.works: dict = {}  # by switches; None where the library does not do it
        self.own = None  # a plan of our own for that case

    def run(self, out, a, b):
        """Has the library done it?"""
        mark = switches.convolving
        if mark not in self.works:
            self.works[mark] = self._made(*mark)
        work = self.works[mark]
        if work is None:
            return False
        left, right = address(a), address(b)
        if self.fits and not (left | right) % ALIGNED:
            work(b"", address(out), left, right)
            return True
        a, b = (_copied(t, wanted) for t, wanted in zip((a, b), self.layouts[1:]))
        made = empty_like_layout(self.layouts[0])
        work(b"", address(made), address(a), address(b))
        copy_into(out, made)
        return True

    def _made(self, enabled, tf32, deterministic, tries):
        if not enabled:
            return None
        without = ROUNDING if self.layouts[0].dtype.code == "f32" and not tf32 else ()
        if deterministic:
            without += ("NONDETERMINISTIC",)
        try:
            work = self._graph().built(without, tries)
        except cudnn.Refused:
            return None
        return kernels.python_kernel("cudnn_convolution", work, self.runtime)

    def _graph(self):
        """The result is tensor 1, what it is made from are 2 and 3."""
        graph = self.runtime.cudnn().graph(self.layouts[0].dtype.code)
        to, left, right = [_volume(t) for t in self.layouts]
        a, b = graph.given(2, *left), graph.given(3, *right)
        missing = max(0, 2 - len(self.geometry[0]))
        steps, edges, spread = [
            [fill] * missing + list(given) for fill, given in zip((1, 0, 1), self.geometry)
        ]
        names = {"forward": "conv_fprop", "backward": "conv_dgrad", "weight": "conv_wgrad"}
        act = getattr(graph.inner, names[self.mode])
        graph.wanted(act(a, b, padding=edges, stride=steps, dilation=spread), 1, *to)
        return graph


def _ordered(layout, last):
    """A dense layout of the same shape, with channels innermost if last."""
    if not last:
        return dense_layout(layout.shape, layout.dtype, layout.device)
    strides = ordered_strides(layout.shape, (0, *range(2, layout.ndim), 1))
    return make_layout(layout.shape, strides, layout.dtype, layout.device)


def _same(layout, other):
    """Does every element lie at the same place in both?"""
    pairs = zip(layout.sizes, layout.strides, other.strides)
    return all(size == 1 or x == y for size, x, y in pairs)


def _volume(layout):
    """Sizes and strides as the library wants them: of two dimensions at least."""
    sizes, strides = list(layout.sizes), list(layout.strides)
    if layout.ndim == 3:
        sizes.insert(2, 1)
        strides.insert(2, sizes[3] * strides[2])
    return sizes, strides


def _copied(t, layout):
    """A tensor in another layout: itself, or a copy."""
    if not address(t) % ALIGNED and _same(t._layout, layout):
        return t
    out = empty_like_layout(layout)
    copy_into(out, t)
    return out


def described(x, y, w, stride, padding, dilation, groups, result, bias):
    """The words of a convolution of layouts."""
    missing = 3 - len(stride)
    ones, zeros = (1,) * missing, (0,) * missing
    item = x.itemsize
    per_group = w.sizes[0] // groups
    words = [
        *DeviceConvolution(
            1, prod(result.sizes), x.sizes[0], x.sizes[1], y.sizes[1], w.sizes[1], per_group,
            0 if bias is None else bias.strides[0] * item,
        ),
        *ones, *x.sizes[2:], *ones, *y.sizes[2:], *ones, *w.sizes[2:],
        *ones, *stride, *zeros, *padding, *ones, *dilation,
    ]  # fmt: skip
    for t in (x, y, w):
        strides = [s * item for s in t.strides]
        words += [*strides[:2], *zeros, *strides[2:]]
    return packed(words)
