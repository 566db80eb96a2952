"""Convolutions on GPUs: plans for eager/convolution.py, by libraries where they can, else by a
kernel of our own.

A plan is a function of tensors (out, source, weight, bias), or (out, bias, x, y) for weights, as
those of the host are.
"""

from math import prod

from flambeau.codegen.descriptions import DeviceConvolution
from flambeau.eager.rows import address
from flambeau.runtime.cpu import packed


class Convolutions:
    """What a GPU does for convolutions."""

    def __init__(self, runtime):
        self.runtime = runtime

    def run(self, out, source, weight, bias, stride, padding, dilation, groups, backward):
        """A plan from layouts: a convolution, or the way back."""
        x, y = (out, source) if backward else (source, out)
        words = described(x, y, weight, stride, padding, dilation, groups, out, bias)
        mode, biased = "backward" if backward else "forward", bias is not None
        kernel = self._kernel(out, mode, biased)

        def convolve(out, source, weight, bias):
            more = (address(bias),) if biased else ()
            kernel(words, address(out), address(source), address(weight), *more)

        return convolve

    def weights(self, out, x, y, stride, padding, dilation, groups):
        """A plan of the gradient of weights; it leaves the bias to others."""
        words = described(x, y, out, stride, padding, dilation, groups, out, None)
        kernel = self._kernel(out, "weight", False)

        def convolve(out, bias, x, y):
            kernel(words, address(out), address(x), address(y))
            return False

        return convolve

    def _kernel(self, out, mode, biased):
        build = "convolution:build"
        return self.runtime.kernel("convolution", build, out.dtype.code, mode, biased)


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
