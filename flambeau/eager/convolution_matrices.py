"""Convolutions that are plain matrix products: 1 x 1 on channels_last images, and few pixels.

1 x 1: pixels are rows, channels columns, the weights are a matrix already and nothing is copied.
(Where channels come first, the general kernel is as quick as a batch of products.) Few pixels: in
the last layers of a network that looks at one image, the weights are many times larger than the
image. Laying the weights out for the general kernel would cost more than the convolution, so the
patches are laid out instead, a small matrix, and the weights are read once, as they lie.
"""

from flambeau._layout import Size, make_layout, ordered_strides
from flambeau._tensor import alias
from flambeau.eager.folding import unfold_blocks
from flambeau.eager.gemm import multiply_into

FEW = 64  # pixels
MANY = 1 << 18  # weights


def fits(x, y, kernel, stride, padding, groups):
    """Does every pixel of y see one pixel of x, and are both dense with channels innermost?"""
    if x.is_contiguous or groups != 1 or max(kernel) > 1 or max(stride) > 1 or any(padding):
        return False
    return _is_matrix(x) and _is_matrix(y)


def _is_matrix(layout):
    shape = layout.shape
    if layout.ndim < 4 or layout.is_contiguous:
        return False
    expected = ordered_strides(shape, (0, *range(2, layout.ndim), 1))
    return all(s == e for s, e, n in zip(layout.strides, expected, shape) if n != 1)


def _view(t, rows, columns, strides):
    layout = make_layout(Size((rows, columns)), strides, t.dtype, t.device)
    return alias(t, layout, t._offset)


def _pixels(t):
    channels = t.shape[1]
    return _view(t, t._layout.numel // channels, channels, (channels, 1))


def _weights(t, turned):
    """The weights as (m, c), or turned around; t lies side by side."""
    m, c = t.shape[:2]
    return _view(t, c, m, (1, c)) if turned else _view(t, m, c, (c, 1))


def multiply(out, source, weight, bias):
    """out = source @ weights, on pixels as rows."""
    _multiply(out, source, _weights(weight, True), bias)


def multiply_back(out, source, weight, bias):
    _multiply(out, source, _weights(weight, False), bias)


def _multiply(out, source, right, bias):
    addends = ()
    if bias is not None:
        addends = ((_view(bias, 1, bias.shape[0], (bias.shape[0], bias._layout.strides[0])), 1),)
    multiply_into(_pixels(out), _pixels(source), right, addends=addends)


def multiply_weights(out, bias, x, y):
    """The gradient of the weights: gradients times input, summed over pixels."""
    pixels = _pixels(y)
    rows, channels = pixels.shape
    multiply_into(_weights(out, False), _view(y, channels, rows, (1, channels)), _pixels(x))


def is_few(g, code):
    """One image, few pixels, many weights?"""
    n, channels, deep, _, _ = g.x_shape
    _, rows, out_d, out_h, out_w = g.y_shape
    if n != 1 or g.groups != 1 or out_d * out_h * out_w > FEW or code not in ("f32", "f64"):
        return False
    return deep == g.kernel[0] == 1 and channels * rows * g.kernel[1] * g.kernel[2] >= MANY


class FewPixels:
    """A planned convolution of one image: patches, then weights times patches."""

    def __init__(self, g, source):
        self.facts = [tuple(v[1:]) for v in (g.kernel, g.dilation, g.padding, g.stride)]
        self.blocks = g.y_shape[3:]
        self.columns = self.blocks[0] * self.blocks[1]
        image = Size((1, *g.x_shape[1:2], *g.x_shape[3:]))
        strides = [s // source.itemsize for s in g.x_strides]
        self.image = make_layout(
            image, (strides[0], strides[1], *strides[3:]), source.dtype, source.device
        )

    def __call__(self, out, source, weight, bias):
        patches = unfold_blocks(alias(source, self.image, source._offset), *self.facts, self.blocks)
        rows, depth = weight.shape[0], patches.shape[1]
        columns = self.columns
        addends = ()
        if bias is not None:
            addends = ((_view(bias, rows, 1, (bias._layout.strides[0], 1)), 1),)
        multiply_into(
            _view(out, rows, columns, (columns, 1)),
            _view(weight, rows, depth, (depth, 1)),
            _view(patches, depth, columns, (columns, 1)),
            addends=addends,
        )
