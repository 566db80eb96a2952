"""Launching fold, unfold, pixel_shuffle and channel_shuffle.

Blocks have kernels of their own (`codegen/templates/folding.py`); shuffles are one strided copy
each. Table rows and checks: `ops/folding.py`.
"""

from flambeau import _dtype, errors
from flambeau._layout import dense_layout
from flambeau._tensor import empty_like_layout
from flambeau.codegen.descriptions_places import FoldedBlocks, PixelLines
from flambeau.eager.launching import launches
from flambeau.eager.plan import NO_WORK
from flambeau.eager.plans import Plans
from flambeau.eager.rearranging import arranged, shaped_like
from flambeau.eager.rows import address, chunks_of, contiguous, has_work, vector_layout
from flambeau.runtime.base import nothing
from flambeau.runtime.cpu import packed

CHUNK = 1 << 15  # elements of a chunk, about
MOST = 64  # chunks of fold, because each has a row of scratch memory
INTERLEAVED = 4  # up to this factor, lines of pixels are interleaved in registers


def _cut(rows, work, most):
    """(chunks, rows per chunk)."""
    per_chunk = -(-rows // max(1, min(most, rows, work // CHUNK)))
    return chunks_of(rows, per_chunk), per_chunk


def _described(rows, image, blocks, facts, work, most):
    kernel_size, dilation, padding, stride = facts
    cut = _cut(rows, work, most)
    room = image[1] + 15 & -16  # elements of scratch memory per chunk
    return FoldedBlocks(
        cut[0], rows, cut[1], *image, *blocks, *kernel_size, *stride, *padding, *dilation, room
    )


@launches("unfold_blocks")
def unfold_blocks(input, kernel_size, dilation, padding, stride, blocks):
    facts = (kernel_size, dilation, padding, stride)
    layout, kernel, desc = UNFOLDED[input._layout, facts, blocks]
    out = empty_like_layout(layout)
    source = contiguous(input)  # kept until the kernel is done
    kernel(desc, out._storage.pointer, address(source))
    return out


def _plan_unfold(key):
    layout, facts, blocks = key
    *batch, channels, height, width = layout.sizes
    size, count = facts[0][0] * facts[0][1], blocks[0] * blocks[1]
    out = dense_layout((*batch, channels * size, count), layout.dtype, layout.device)
    if not has_work(out):
        return out, nothing, NO_WORK
    kernel = out.device.runtime.kernel("unfold", "folding:build_unfold", 8 * layout.itemsize)
    rows = out.numel // count
    return (
        out,
        kernel,
        packed(_described(rows, (height, width), blocks, facts, out.numel, out.numel)),
    )


UNFOLDED = Plans(_plan_unfold)


@launches("fold_blocks")
def fold_blocks(input, output_size, kernel_size, dilation, padding, stride, blocks):
    facts = (kernel_size, dilation, padding, stride)
    layout, kernel, desc, scratch = FOLDED[input._layout, output_size, facts, blocks]
    out, room = empty_like_layout(layout), empty_like_layout(scratch)
    source = contiguous(input)
    kernel(desc, out._storage.pointer, address(source), room._storage.pointer)
    return out


def _plan_fold(key):
    layout, image, facts, blocks = key
    *batch, channels, _ = layout.sizes
    channels //= facts[0][0] * facts[0][1]
    out = dense_layout((*batch, channels, *image), layout.dtype, layout.device)
    if not has_work(out):
        return out, nothing, NO_WORK, out
    rows = out.numel // image[1]
    words = _described(rows, image, blocks, facts, layout.numel + out.numel, MOST)
    wide = _dtype.float64 if layout.dtype is _dtype.float64 else _dtype.float32
    scratch = vector_layout(words.chunks * words.room, wide, layout.device)
    kernel = out.device.runtime.kernel("fold", "folding:build_fold", layout.dtype.code)
    return out, kernel, packed(words), scratch


FOLDED = Plans(_plan_fold)


# -- shuffles --------------------------------------------------------------------------------------


def _check_pixels(name, factor_name, layout, factor):
    if layout.ndim < 3:
        raise RuntimeError(
            f"{name} expects input to have at least 3 dimensions, but got input with {layout.ndim} "
            "dimension(s)"
        )
    if factor <= 0:
        raise RuntimeError(f"{name} expects a positive {factor_name}, but got {factor}")


def _plan_pixel_shuffle(layout, r):
    _check_pixels("pixel_shuffle", "upscale_factor", layout, r)
    if r * r > errors.LARGEST:
        raise ValueError(
            f"upscale factor is too large, (upscale_factor)^2 overflowed: upscale_factor={r}"
        )
    *batch, channels, height, width = layout.sizes
    if channels % (r * r):
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square "
            f"of upscale_factor, but input.size(-3)={channels} is not divisible by {r * r}"
        )
    out = shaped_like(layout, (*batch, channels // (r * r), height * r, width * r))
    sizes = (*batch, channels // (r * r), r, r, height, width)
    *outer, c, y, x = layout.strides
    source = (*outer, c * r * r, c * r, c, y, x)
    *outer, c, y, x = out.strides
    return out, [(sizes, (*outer, c, y, x, y * r, x * r), 0, source, 0)]


def _plan_pixel_unshuffle(layout, r):
    _check_pixels("pixel_unshuffle", "downscale_factor", layout, r)
    *batch, channels, height, width = layout.sizes
    for what, dim, n in (("height", -2, height), ("width", -1, width)):
        if n % r:
            raise RuntimeError(
                f"pixel_unshuffle expects {what} to be divisible by downscale_factor, but "
                f"input.size({dim})={n} is not divisible by {r}"
            )
    out = shaped_like(layout, (*batch, channels * r * r, height // r, width // r))
    sizes = (*batch, channels, r, r, height // r, width // r)
    *outer, c, y, x = layout.strides
    source = (*outer, c, y, x, y * r, x * r)
    *outer, c, y, x = out.strides
    return out, [(sizes, (*outer, c * r * r, c * r, c, y, x), 0, source, 0)]


def _shuffled(input, factor, plan, apart):
    """Shuffle pixels by lines where they are side by side, else by a strided copy."""
    layout, kernel, desc = LINES[input._layout, factor, plan, apart]
    if kernel is None:
        return arranged(plan, input, factor)
    out = empty_like_layout(layout)
    kernel(desc, out._storage.pointer, input._storage.pointer + input._offset)
    return out


def _plan_lines(key):
    """(layout of the result, kernel or None, description)."""
    layout, factor, plan, apart = key
    out = plan(layout, factor)[0]
    if not has_work(out):
        return out, nothing, NO_WORK
    if not layout.is_contiguous or layout.itemsize > 8:
        return out, None, None
    pixels, channels = (layout, out) if apart else (out, layout)
    height, width = channels.sizes[-2:]
    lines = pixels.numel // (width * factor)
    chunks, per_chunk = _cut(lines, out.numel, lines)
    static = factor if factor <= INTERLEAVED else 0
    kernel = out.device.runtime.kernel(
        "pixels", "folding:build_pixels", 8 * layout.itemsize, static, apart
    )
    return out, kernel, packed(PixelLines(chunks, lines, per_chunk, height, width, factor))


LINES = Plans(_plan_lines)


@launches("pixel_shuffle")
def pixel_shuffle(input, upscale_factor):
    return _shuffled(input, upscale_factor, _plan_pixel_shuffle, False)


@launches("pixel_unshuffle")
def pixel_unshuffle(input, downscale_factor):
    return _shuffled(input, downscale_factor, _plan_pixel_unshuffle, True)


def _plan_channel_shuffle(layout, groups):
    if layout.ndim < 3:
        raise RuntimeError(
            "channel_shuffle expects input with > 2 dims, but got input with sizes "
            f"{list(layout.sizes)}"
        )
    if groups <= 0:
        raise RuntimeError(
            f"Number of groups to divide channels in must be positive. Value of groups:{groups}"
        )
    batch, channels, *rest = layout.sizes
    if channels % groups:
        raise RuntimeError(
            f"Number of channels must be divisible by groups. Got {channels} channels and {groups} "
            "groups."
        )
    out = shaped_like(layout, layout.sizes)
    sizes = (batch, groups, channels // groups, *rest)

    def split(strides, first, second):
        return (strides[0], strides[1] * first, strides[1] * second, *strides[2:])

    source = split(layout.strides, channels // groups, 1)
    return out, [(sizes, split(out.strides, 1, groups), 0, source, 0)]


@launches("channel_shuffle")
def channel_shuffle(input, groups):
    return arranged(_plan_channel_shuffle, input, groups)
