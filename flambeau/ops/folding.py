"""Rearranging images: sliding blocks (fold, unfold) and shuffles of pixels and channels.

`unfold` takes an image apart into columns of blocks, `fold` adds blocks up; each is the gradient of
the other. Shuffles move elements between channels and places. Kernels: `eager/folding.py`.
"""

import operator

from flambeau import errors
from flambeau._dtype import INTEGER
from flambeau.ops.table import Ints, composite, public, remembered, template

NN = "nn.functional"


# -- sliding blocks --------------------------------------------------------------------------------


def _pair(name, argument, position, value):
    """Two integers, of one or two."""
    values = tuple(value) if hasattr(value, "__iter__") else (value, value)
    found = []
    for k, n in enumerate(values):
        try:
            if type(n) is bool and not k:
                raise TypeError
            found.append(operator.index(n))
        except TypeError:
            raise TypeError(
                f"{name}(): argument '{argument}' (position {position}) must be tuple of ints, but "
                f"found element of type {type(n).__name__} at pos {k}"
            ) from None
    return tuple(found)


def _facts(name, values, names=("kernel_size", "dilation", "padding", "stride")):
    """output_size (of a fold), kernel_size, dilation, padding and stride as pairs, checked."""
    pairs = [_pair(name, n, 2 + k, v) for k, (n, v) in enumerate(zip(names, values))]
    for n, pair in zip(names, pairs):
        if len(pair) != 2:
            raise RuntimeError(f"It is expected {n} equals to 2, but got size {len(pair)}")
    *output_size, kernel_size, dilation, padding, stride = pairs
    _check_positive("kernel size", "kernel", kernel_size)
    # which complaint comes first is not the same in both
    if output_size:
        _check_positive("stride", "stride", stride)
    _check_positive("dilation", "dilation", dilation)
    if min(padding) < 0:
        raise RuntimeError(
            f"padding should be non-negative, but got pad_height: {padding[0]} pad_width: "
            f"{padding[1]}"
        )
    if not output_size:
        _check_positive("stride", "stride", stride)
    return tuple(pairs)


def _check_positive(what, label, pair):
    if min(pair) <= 0:
        raise RuntimeError(
            f"{what} should be greater than zero, but got {label}_height: {pair[0]} "
            f"{label}_width: {pair[1]}"
        )


def _blocks(size, kernel_size, dilation, padding, stride):
    """How many blocks fit, (high, wide); may be zero or less."""
    return tuple(
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, d, p, s in zip(size, kernel_size, dilation, padding, stride)
    )


def _refuse_integers(name, dtype):
    if dtype.category == INTEGER or dtype.code == "c32":
        raise errors.not_implemented(name, dtype)


@template(
    "unfold_blocks",
    linear=True,
    grad=lambda g, input_shape, kernel_size, dilation, padding, stride, blocks: col2im(
        g, tuple(input_shape[-2:]), kernel_size, dilation, padding, stride, blocks
    ),
    variants="",
    node="Im2ColBackward0",
)
def im2col(
    input,
    kernel_size: Ints,
    dilation: Ints,
    padding: Ints,
    stride: Ints,
    blocks: object,
):
    """Columns of blocks."""


@template(
    "fold_blocks",
    linear=True,
    grad=lambda g, kernel_size, dilation, padding, stride, blocks: im2col(
        g, kernel_size, dilation, padding, stride, blocks
    ),
    variants="",
    node="Col2ImBackward0",
)
def col2im(
    input,
    output_size: Ints,
    kernel_size: Ints,
    dilation: Ints,
    padding: Ints,
    stride: Ints,
    blocks: object,
):
    """Sums of blocks."""


@composite(variants="", namespace=NN)
def functional_unfold(
    input, kernel_size: object, dilation: object = 1, padding: object = 0, stride: object = 1
):
    """Sliding blocks of images as columns: (batch, channels * block size, blocks)."""
    arguments = _check_image(input._layout, kernel_size, dilation, padding, stride)
    if input.dtype.is_complex:
        parts = [im2col(part, *arguments) for part in (input.real, input.imag)]
        return public("complex")(*parts)
    return im2col(input, *arguments)


@remembered
def _check_image(input, kernel_size, dilation, padding, stride):
    facts = _facts("im2col", (kernel_size, dilation, padding, stride))
    shape = input.shape
    if input.ndim < 2 or (input.ndim == 2 and shape[1]):
        raise errors.dimension_out_of_range(max(input.ndim, 1), input.ndim)
    if not 3 <= input.ndim <= 4 or 0 in shape[-3:]:
        raise RuntimeError(
            "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero "
            f"dimensions for input, but got: {list(shape)}"
        )
    blocks = _blocks(shape[-2:], *facts)
    if min(blocks) < 1:
        kernel_size, dilation, padding, _ = facts
        raise RuntimeError(
            f"Given input with spatial size {tuple(shape[-2:])}, kernel_size={kernel_size}, "
            f"dilation={dilation}, padding={padding}, calculated shape of the array of sliding "
            f"blocks as {blocks}, but its components must be at least one."
        )
    _refuse_integers("im2col_out_cpu", input.dtype)
    return (*facts, blocks)


@composite(variants="", namespace=NN)
def fold(
    input,
    output_size: object,
    kernel_size: object,
    dilation: object = 1,
    padding: object = 0,
    stride: object = 1,
):
    """Sliding blocks, given as columns, added up to images of output_size."""
    facts = kernel_size, dilation, padding, stride
    arguments = _check_columns(input._layout, output_size, *facts)
    if input.dtype.is_complex:
        parts = [col2im(part, *arguments) for part in (input.real, input.imag)]
        return public("complex")(*parts)
    if input.dtype.code == "bool":
        return col2im(input.float(), *arguments) != 0
    return col2im(input, *arguments)


@remembered
def _check_columns(input, *given):
    names = ("output_size", "kernel_size", "dilation", "padding", "stride")
    facts = _facts("col2im", given, names)
    output_size, kernel_size, dilation, padding, stride = facts
    shape = input.shape
    if input.ndim not in (2, 3) or 0 in shape[-2:]:
        raise RuntimeError(
            "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and "
            f"non-zero dimensions for input, but got: {list(shape)}"
        )
    # the complaints count dimensions as if there were a batch
    if shape[-2] % (kernel_size[0] * kernel_size[1]):
        raise RuntimeError(
            "Expected size of input's dimension 1 to be divisible by the product of kernel_size, "
            f"but got input.size(1)={shape[-2]} and kernel_size={kernel_size}."
        )
    high, wide = _blocks(output_size, kernel_size, dilation, padding, stride)
    given = (
        f"Given output_size={output_size}, kernel_size={kernel_size}, dilation={dilation}, "
        f"padding={padding}, stride={stride}, "
    )
    if shape[-1] != high * wide:
        raise RuntimeError(
            f"{given}expected size of input's dimension 2 to match the calculated number of "
            f"sliding blocks {high} * {wide} = {high * wide}, but got input.size(2)={shape[-1]}."
        )
    if min(high, wide) < 1:
        raise RuntimeError(
            f"{given}calculated shape of the array of sliding blocks as ({high}, {wide}), which is "
            "too small (non-positive)"
        )
    _refuse_integers("col2im_out_cpu", input.dtype)
    return (*facts, (high, wide))


# -- shuffles --------------------------------------------------------------------------------------


@template(
    "pixel_shuffle",
    linear=True,
    grad=lambda g, upscale_factor: pixel_unshuffle(g, upscale_factor),
    variants="function",
    namespace=NN,
)
def pixel_shuffle(input, upscale_factor: int):
    """Channels become places: (..., C r², H, W) to (..., C, H r, W r)."""


@template(
    "pixel_unshuffle",
    linear=True,
    grad=lambda g, downscale_factor: pixel_shuffle(g, downscale_factor),
    variants="function",
    namespace=NN,
)
def pixel_unshuffle(input, downscale_factor: int):
    """Places become channels: (..., C, H r, W r) to (..., C r², H, W)."""


def _shuffled_back(g, input_shape, groups):
    return channel_shuffle(g, max(1, input_shape[1] // groups))


@template("channel_shuffle", linear=True, grad=_shuffled_back, variants="function", namespace=NN)
def channel_shuffle(input, groups: int):
    """Channels of several groups, one of each in turn."""


@template("channel_shuffle", linear=True, grad=_shuffled_back, variants="function", namespace=NN)
def native_channel_shuffle(input, groups: int):
    """channel_shuffle, by another name."""
