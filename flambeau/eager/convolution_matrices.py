"""1 x 1 convolutions of channels_last images: plain matrix products, without any copy.

Pixels are rows, channels columns; the weights are a matrix already. (Where channels come first, the
general kernel is as quick as a batch of products.)
"""

from flambeau._layout import Size, make_layout, ordered_strides
from flambeau._tensor import alias
from flambeau.eager.gemm import multiply_into


def fits_matrices(x, y, kernel, stride, padding, groups):
    """Does every pixel of y see one pixel of x, and are both dense with channels innermost?"""
    if groups != 1 or max(kernel) > 1 or max(stride) > 1 or any(padding):
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


def multiply(out, source, weight, bias, backward):
    """out = source @ weights, on pixels as rows."""
    addends = ()
    if bias is not None:
        addends = ((_view(bias, 1, bias.shape[0], (bias.shape[0], bias._layout.strides[0])), 1),)
    right = _weights(weight, not backward)
    multiply_into(_pixels(out), _pixels(source), right, addends=addends)


def multiply_weights(out, x, y):
    """The gradient of the weights: gradients times input, summed over pixels."""
    pixels = _pixels(y)
    rows, channels = pixels.shape
    multiply_into(_weights(out, False), _view(y, channels, rows, (1, channels)), _pixels(x))
