"""Launching fold, unfold, pixel_shuffle and channel_shuffle.

Blocks have kernels of their own (`codegen/templates/folding.py`); shuffles are one strided copy
each. Table rows and checks: `ops/folding.py`.
"""

from flambeau import _dtype
from flambeau._layout import Size, dense_layout
from flambeau._tensor import empty_like_layout
from flambeau.eager.kernels import load_kernel, pool
from flambeau.eager.launching import launches
from flambeau.eager.plan import MAX_PLANS, nothing
from flambeau.eager.rearranging import arranged, shaped_like
from flambeau.eager.rows import address, contiguous
from flambeau.runtime.cpu import words

_kernels: dict = {}
_plans: dict = {}
CHUNK = 1 << 15  # elements of a chunk, about
MOST = 64  # chunks of fold, because each has a row of scratch memory


def _kernel(name, *pattern):
    found = _kernels.get((name, pattern))
    if found is None:
        from flambeau.codegen.templates import folding  # with llvmlite, on first need

        ir = getattr(folding, "build_" + name)(*pattern)
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
    if not out.numel or not out.device.runtime.computes:
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
    if not out.numel or not out.device.runtime.computes:
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
    *batch, channels, height, width = layout.shape
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
    *batch, channels, height, width = layout.shape
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
    found = _plans.get((input._layout, factor, apart))
    if found is None:
        if len(_plans) > MAX_PLANS:
            _plans.clear()
        found = _plans[input._layout, factor, apart] = _plan_lines(
            input._layout, factor, plan, apart
        )
    layout, run, description, _ = found
    if run is None:
        return arranged(plan, input, factor)
    out = empty_like_layout(layout)
    run(description, out._storage.pointer, address(input))
    return out


def _plan_lines(layout, factor, plan, apart):
    """(output layout, kernel or None, description, its owner)."""
    out = plan(layout, factor)[0]
    if not out.numel or not out.device.runtime.computes:
        return out, nothing, 0, None
    if not layout.is_contiguous or layout.itemsize > 8:
        return out, None, 0, None
    from flambeau.codegen.templates.folding import INTERLEAVED

    pixels, channels = (layout, out) if apart else (out, layout)
    height, width = channels.shape[-2:]
    lines = pixels.numel // pixels.shape[-1]
    chunks = max(1, min(lines, out.numel // CHUNK))
    per_chunk = -(-lines // chunks)
    chunks = -(-lines // per_chunk)
    owner, at = words([chunks, lines, per_chunk, height, width, factor])
    if chunks > 1:
        pool().ensure_workers()
    static = factor if factor <= INTERLEAVED else 0
    return out, _kernel("pixels", f"i{8 * layout.itemsize}", static, apart), at, owner


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
            f"{list(layout.shape)}"
        )
    if groups <= 0:
        raise RuntimeError(
            f"Number of groups to divide channels in must be positive. Value of groups:{groups}"
        )
    batch, channels, *rest = layout.shape
    if channels % groups:
        raise RuntimeError(
            f"Number of channels must be divisible by groups. Got {channels} channels and {groups} "
            "groups."
        )
    out = shaped_like(layout, layout.shape)
    sizes = (batch, groups, channels // groups, *rest)

    def split(strides, first, second):
        return (strides[0], strides[1] * first, strides[1] * second, *strides[2:])

    source = split(layout.strides, channels // groups, 1)
    return out, [(sizes, split(out.strides, 1, groups), 0, source, 0)]


@launches("channel_shuffle")
def channel_shuffle(input, groups):
    return arranged(_plan_channel_shuffle, input, groups)
