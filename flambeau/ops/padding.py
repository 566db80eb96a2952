"""Padding: a tensor with more elements around it, constant or taken from its own edges.

The middle is copied as it is, the sides are constant, repeated (replicate), reversed (reflect) or
taken from the other end (circular). Derivatives add the sides to what they were read from. Kernels:
`eager/padding.py`.
"""

from flambeau.ops.table import IntList, Scalar, composite, remembered, template
from flambeau.ops.views import ints


def _negative(pad):
    return tuple(-p for p in pad)


@template(
    "constant_pad",
    linear="input value",
    grad=lambda g, pad: constant_pad_nd(g, _negative(pad), 0),
    variants="function",
    node="ConstantPadNdBackward0",
)
def constant_pad_nd(input, pad: IntList, value: Scalar = 0):
    """value around the tensor; negative widths cut."""


def _cut(g, dim, low, high):
    """g without low elements at the start of dim and high at its end (more, where negative)."""
    for_pad = (0, 0) * (g.ndim - 1 - dim) + (-low, -high)
    return constant_pad_nd(g, for_pad, 0)


def _folded(g, dim, size, low, high, mode):
    """The gradient of padding one dimension of the given size."""
    if mode == "circular":  # which first cuts, then pads what is left
        kept = size + min(low, 0) + min(high, 0)
        g = _unpadded(g, dim, kept, max(low, 0), max(high, 0), mode)
        return _cut(g, dim, min(low, 0), min(high, 0))
    return _unpadded(g, dim, size, low, high, mode)


def _unpadded(g, dim, size, low, high, mode):
    middle = _cut(g, dim, low, high)
    n = g.shape[dim]
    for width, is_low in ((low, True), (high, False)):
        if width <= 0:
            continue
        side = g.narrow(dim, 0 if is_low else n - width, width)
        if mode == "replicate":
            side = side.sum(dim, keepdim=True)
            start = 0 if is_low else size - 1
        elif mode == "reflect":
            side = side.flip(dim)
            start = 1 if is_low else size - 1 - width
        else:
            start = size - width if is_low else 0
        middle = middle + _cut(side, dim, -start, start + side.shape[dim] - size)
    return middle


def edge_gradient(g, shape, pad, mode):
    """The gradient of an edge mode, folding side after side onto what it was read from."""
    for k in range(len(pad) // 2):
        dim = len(shape) - 1 - k
        g = _folded(g, dim, shape[dim], pad[2 * k], pad[2 * k + 1], mode)
    return g


_NAMES = {"reflect": "ReflectionPad", "replicate": "ReplicationPad", "circular": "CircularPad"}


def _edge_row(mode, dims):
    """The row behind pad for one mode and number of dimensions; its gradient is a row too."""

    def body(input, pad: object, mode: str = mode):
        pass

    def backward(grad_output, input_size: object, pad: object, mode: str = mode):
        pass

    body.__name__ = f"_{mode}_pad{dims}d"
    body.__doc__ = f"pad with mode {mode} in {dims} dimensions."
    backward.__name__ = f"_{mode}_pad{dims}d_backward"
    backward.__doc__ = f"The gradient of pad with mode {mode} in {dims} dimensions."
    row = template(
        "edge_pad",
        linear=True,
        grad=lambda g, input_shape, pad: turned(g, input_shape, pad),
        variants="",
        node=f"{_NAMES[mode]}{dims}DBackward0",
        flat=mode != "circular",
    )(body)
    turned = template(
        "edge_pad_backward",
        linear=True,
        grad=lambda g, pad: row(g, pad),
        variants="",
        node=f"{_NAMES[mode]}{dims}DBackwardBackward0",
    )(backward)
    return row


_EDGES = {(mode, dims): _edge_row(mode, dims) for mode in _NAMES for dims in (1, 2, 3)}


@composite(variants="", namespace="nn.functional", python=False)
def pad(input, pad: IntList, mode: str = "constant", value: float | None = None):
    """A tensor with elements added around it, from the last dimension backward.

    Args:
        pad: widths before and after, for the last dimension, then the one before it, and so on.
        mode: constant, reflect, replicate or circular.
    """
    row, arguments = _resolve(input.ndim, pad, mode, value)
    return row(input, *arguments)


@remembered
def _resolve(ndim, pad, mode, value):
    """(row, its arguments) of a call of pad, for an input of so many dimensions."""
    if not isinstance(pad, (tuple, list)):
        raise TypeError(
            f"pad(): argument 'pad' (position 2) must be tuple of ints, not {type(pad).__name__}"
        )
    try:
        pad = ints("pad", "pad", pad)
    except TypeError as error:
        raise TypeError(str(error).replace("position 1", "position 2")) from None
    if mode != "constant" and mode not in _NAMES:
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    if len(pad) % 2:
        raise RuntimeError("Padding length must be divisible by 2")
    if len(pad) > 2 * ndim:
        raise RuntimeError(
            "Padding length should be less than or equal to two times the input dimension but got "
            f"padding length {len(pad)} and input of dimension {ndim}"
        )
    if mode == "constant":
        return constant_pad_nd, (pad, _number(value))
    if value is not None and value != 0:
        raise RuntimeError(f'Padding mode "{mode}" doesn\'t take in value argument')
    dims = len(pad) // 2
    if not (0 < dims <= 3 and ndim in (dims + 1, dims + 2)):
        raise NotImplementedError(
            f"Padding size {len(pad)} is not supported for {ndim}D input tensor.\n"
            "Supported combinations for non-constant padding:\n"
            "  - 2D or 3D input: padding size = 2 (pads last dimension)\n"
            "  - 3D or 4D input: padding size = 4 (pads last 2 dimensions)\n"
            "  - 4D or 5D input: padding size = 6 (pads last 3 dimensions)"
        )
    return _EDGES[mode, dims], (pad,)


def _number(value):
    if value is None:
        return 0
    if isinstance(value, (str, bytes, complex)) or not hasattr(value, "__float__"):
        raise TypeError(
            f"pad(): argument 'value' (position 4) must be float, not {type(value).__name__}"
        )
    return value
