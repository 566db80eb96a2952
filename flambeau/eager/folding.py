"""Launching fold, unfold, pixel_shuffle and channel_shuffle.

Blocks have kernels of their own (`codegen/templates/folding.py`); shuffles are one strided copy
each. Table rows and checks: `ops/folding.py`.
"""

from flambeau import _dtype
from flambeau._layout import Size, dense_layout
from flambeau._tensor import empty_like_layout
from flambeau.eager.binding import launches
from flambeau.eager.joining import arranged, shaped_like
from flambeau.eager.kernels import load_kernel, pool
from flambeau.eager.plan import MAX_PLANS, nothing
from flambeau.eager.rows import address, contiguous
from flambeau.runtime.cpu import words

_kernels: dict = {}
_plans: dict = {}
CHUNK = 1 << 15  # elements of a chunk, about
MOST = 64  # chunks of fold, because each has a row of scratch memory


def _kernel(name, pattern):
    found = _kernels.get((name, pattern))
    if found is None:
        from flambeau.codegen.templates import folding  # with llvmlite, on first need

        ir = getattr(folding, "build_" + name)(pattern)
        found = _kernels[name, pattern] = load_kernel(ir, name)
    return found


def _description(planes, rows, image, blocks, facts, work, most):
    """(chunks, description, its owner, elements of scratch per chunk)."""
    kernel_size, dilation, padding, stride = facts
    rows *= planes
    chunks = max(1, min(most, rows, work // CHUNK))
    per_chunk = -(-rows // chunks)
    chunks = -(-rows // per_chunk)
    room = image[1] + 15 & -16
    owner, at = words(
        [chunks, rows, per_chunk, *image, *blocks, *kernel_size, *stride, *padding, *dilation, room]
    )
    if chunks > 1:
        pool().ensure_workers()
    return chunks, at, owner, room


@launches("unfold_blocks")
def unfold_blocks(input, kernel_size, dilation, padding, stride, blocks):
    facts = (kernel_size, dilation, padding, stride)
    found = _plans.get((input._layout, facts))
    if found is None:
        if len(_plans) > MAX_PLANS:
            _plans.clear()
        found = _plans[input._layout, facts] = _plan_unfold(input._layout, facts, blocks)
    layout, run, description, _ = found
    out = empty_like_layout(layout)
    run(description, out._storage.pointer, address(contiguous(input)))
    return out


def _plan_unfold(layout, facts, blocks):
    kernel_size, batch = facts[0], tuple(layout.shape[:-3])
    size, count = kernel_size[0] * kernel_size[1], blocks[0] * blocks[1]
    shape = Size((*batch, layout.shape[-3] * size, count))
    out = dense_layout(shape, layout.dtype, layout.device)
    if not out.numel or out.device.type != "cpu":
        return out, nothing, 0, None
    run = _kernel("unfold", f"i{8 * layout.itemsize}")
    planes = out.numel // (size * count)
    _, at, owner, _ = _description(
        planes, size, layout.shape[-2:], blocks, facts, out.numel, out.numel
    )
    return out, run, at, owner


@launches("fold_blocks")
def fold_blocks(input, output_size, kernel_size, dilation, padding, stride, blocks):
    facts = (kernel_size, dilation, padding, stride)
    key = (input._layout, output_size, facts)
    found = _plans.get(key)
    if found is None:
        if len(_plans) > MAX_PLANS:
            _plans.clear()
        found = _plans[key] = _plan_fold(input._layout, output_size, facts, blocks)
    layout, run, description, _, scratch = found
    out = empty_like_layout(layout)
    room = empty_like_layout(scratch)
    run(description, out._storage.pointer, address(contiguous(input)), room._storage.pointer)
    return out


def _plan_fold(layout, output_size, facts, blocks):
    kernel_size, batch = facts[0], tuple(layout.shape[:-2])
    channels = layout.shape[-2] // (kernel_size[0] * kernel_size[1])
    shape = Size((*batch, channels, *output_size))
    out = dense_layout(shape, layout.dtype, layout.device)
    if not out.numel or out.device.type != "cpu":
        return out, nothing, 0, None, out
    planes = out.numel // (output_size[0] * output_size[1])
    work = layout.numel + out.numel
    chunks, at, owner, room = _description(
        planes, output_size[0], output_size, blocks, facts, work, MOST
    )
    wide = _dtype.float64 if layout.dtype is _dtype.float64 else _dtype.float32
    scratch = dense_layout(Size((chunks * room,)), wide, layout.device)
    return out, _kernel("fold", layout.dtype.code), at, owner, scratch


# -- shuffles --------------------------------------------------------------------------------------


def _plan_pixel_shuffle(layout, r):
    *batch, channels, height, width = layout.shape
    out = shaped_like(layout, (*batch, channels // (r * r), height * r, width * r))
    sizes = (*batch, channels // (r * r), r, r, height, width)
    *outer, c, y, x = layout.strides
    source = (*outer, c * r * r, c * r, c, y, x)
    *outer, c, y, x = out.strides
    return out, [(sizes, (*outer, c, y, x, y * r, x * r), 0, source, 0)]


@launches("pixel_shuffle")
def pixel_shuffle(input, upscale_factor):
    return arranged(_plan_pixel_shuffle, input, upscale_factor)


def _plan_pixel_unshuffle(layout, r):
    *batch, channels, height, width = layout.shape
    out = shaped_like(layout, (*batch, channels * r * r, height // r, width // r))
    sizes = (*batch, channels, r, r, height // r, width // r)
    *outer, c, y, x = layout.strides
    source = (*outer, c, y, x, y * r, x * r)
    *outer, c, y, x = out.strides
    return out, [(sizes, (*outer, c * r * r, c * r, c, y, x), 0, source, 0)]


@launches("pixel_unshuffle")
def pixel_unshuffle(input, downscale_factor):
    return arranged(_plan_pixel_unshuffle, input, downscale_factor)


def _plan_channel_shuffle(layout, groups):
    out = shaped_like(layout, layout.shape)
    batch, channels, *rest = layout.shape
    sizes = (batch, groups, channels // groups, *rest)

    def split(strides, first, second):
        return (strides[0], strides[1] * first, strides[1] * second, *strides[2:])

    source = split(layout.strides, channels // groups, 1)
    return out, [(sizes, split(out.strides, 1, groups), 0, source, 0)]


@launches("channel_shuffle")
def channel_shuffle(input, groups):
    return arranged(_plan_channel_shuffle, input, groups)
