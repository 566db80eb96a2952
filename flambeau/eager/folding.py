"""Launching fold, unfold, pixel_shuffle and channel_shuffle.

Blocks have kernels of their own (`codegen/templates/folding.py`); shuffles are one strided copy
each. Table rows and checks: `ops/folding.py`.
"""

from flambeau import _dtype, errors
from flambeau._layout import dense_layout
from flambeau.codegen.descriptions_places import FoldedBlocks, PixelLines
from flambeau.eager.planned import idle, launch, planned
from flambeau.eager.rearranging import arranged, arranges, shaped_like
from flambeau.eager.rows import has_work, vector_layout
from flambeau.ops.support import refuse_complex32

CHUNK = 1 << 15  # elements of a chunk, about
MOST = 64  # chunks of fold, because each has a row of scratch memory
INTERLEAVED = 4  # up to this factor, lines of pixels are interleaved in registers


def _cut(rows, work, most):
    """(chunks, rows per chunk)."""
    per_chunk = -(-rows // max(1, min(most, rows, work // CHUNK)))
    return -(-rows // per_chunk), per_chunk


def _described(rows, image, blocks, facts, work, most):
    kernel_size, dilation, padding, stride = facts
    cut = _cut(rows, work, most)
    room = image[1] + 15 & -16  # elements of scratch memory per chunk
    return FoldedBlocks(
        cut[0], rows, cut[1], *image, *blocks, *kernel_size, *stride, *padding, *dilation, room
    )


@planned("unfold_blocks", "input: dense, kernel_size, dilation, padding, stride, blocks")
def unfold_blocks(input, *geometry):
    *facts, blocks = geometry
    *batch, channels, height, width = input.sizes
    size, count = facts[0][0] * facts[0][1], blocks[0] * blocks[1]
    out = dense_layout((*batch, channels * size, count), input.dtype, input.device)
    if not has_work(out):
        return idle(out)
    words = _described(out.numel // count, (height, width), blocks, facts, out.numel, out.numel)
    return launch(out, words, "unfold", "folding:build_unfold", 8 * input.itemsize)


@planned(
    "fold_blocks", "input: dense, output_size, kernel_size, dilation, padding, stride, blocks",
    room=True,
)  # fmt: skip
def fold_blocks(input, image, *geometry):
    *facts, blocks = geometry
    *batch, channels, _ = input.sizes
    channels //= facts[0][0] * facts[0][1]
    out = dense_layout((*batch, channels, *image), input.dtype, input.device)
    if not has_work(out):
        return *idle(out), None
    rows = out.numel // image[1]
    words = _described(rows, image, blocks, facts, input.numel + out.numel, MOST)
    wide = _dtype.float64 if input.dtype is _dtype.float64 else _dtype.float32
    room = vector_layout(words.chunks * words.room, wide, input.device)
    return *launch(out, words, "fold", "folding:build_fold", input.dtype.code), room


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


def _pixels(template, plan, apart):
    """Shuffle pixels by lines where they are side by side, else by a strided copy."""

    @planned(
        template, "input: tensor, factor", otherwise=lambda input, r: arranged(plan, input, r)
    )  # fmt: skip
    def lines(layout, factor):
        out = plan(layout, factor)[0]
        if not has_work(out):
            return idle(out)
        refuse_complex32(template, layout)
        if not layout.is_contiguous or layout.itemsize > 8:
            return out, None, None
        pixels, channels = (layout, out) if apart else (out, layout)
        height, width = channels.sizes[-2:]
        lines = pixels.numel // (width * factor)
        chunks, per_chunk = _cut(lines, out.numel, lines)
        facts = 8 * layout.itemsize, factor if factor <= INTERLEAVED else 0, apart
        words = PixelLines(chunks, lines, per_chunk, height, width, factor)
        return launch(out, words, "pixels", "folding:build_pixels", *facts)


_pixels("pixel_shuffle", _plan_pixel_shuffle, False)
_pixels("pixel_unshuffle", _plan_pixel_unshuffle, True)


@arranges("channel_shuffle")
def channel_shuffle(layout, groups):
    if layout.ndim < 3:
        raise RuntimeError(
            "channel_shuffle expects input with > 2 dims, but got input with sizes "
            f"{list(layout.sizes)}"
        )
    refuse_complex32("channel_shuffle", layout)
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
