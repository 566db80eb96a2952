"""Launching grid_sample and its gradients.

Kernels: `codegen/templates/grid_sampling.py`. The gradient has two ways: kernels, and (where it is
to be differentiated again) the same formula on tensors, `ops/grid_sampling.py`.
"""

import math

from flambeau import _dtype, errors
from flambeau._layout import dense_layout
from flambeau._tensor import empty_like_layout
from flambeau.codegen.descriptions_images import GridSampling
from flambeau.eager.copying import copy_into
from flambeau.eager.launching import launches, launches_kernel
from flambeau.eager.plans import Plans
from flambeau.eager.rows import address, chunks_of, contiguous, dense_like, has_work
from flambeau.runtime.base import nothing
from flambeau.runtime.cpu import packed

PLACES = 1 << 15  # elements of a chunk, about
MODES, PADDINGS = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")
TAPS = (2, 1, 4)  # of a mode along each dimension


def _plan(key):
    """(kernel, description); cut by channels for the image, by places for the others."""
    name, input, grid, mode, padding, align_corners = key
    (batches, channels, *sizes), dims = input.shape, input.ndim - 2
    mode, padding = min(mode, 2), PADDINGS[min(padding, 2)]
    wide = math.prod(sizes) >= 1 << 31
    facts = input.dtype.code, dims, MODES[mode], padding, align_corners, wide
    build = "grid_sampling:build_" + name
    kernel = input.device.runtime.kernel("grid_" + name, build, *facts)
    places = grid.numel // (batches * dims)
    taps = TAPS[mode] ** dims
    if name == "image_gradient":
        # every chunk computes the taps of all places, so there are few
        parts = min(channels, max(1, min(8 // batches, channels * places * taps // PLACES)))
        per_chunk = -(-channels // parts)
        parts = -(-channels // per_chunk)
    else:
        per_chunk = max(64, PLACES // (channels * taps + 8 * taps) & -64)
        parts = -(-places // per_chunk)
    chunks, sizes = chunks_of(batches * parts, 1), [*reversed(sizes), 1][:3]
    return kernel, packed(GridSampling(chunks, *sizes, places, channels, per_chunk, parts))


PLANS = Plans(_plan)


def _plan_sample(key):
    """(layout of the result, kernel, description)."""
    layout, places, *_ = key
    dtype = layout.dtype
    if not dtype.is_floating_point:
        name = "grid_sampler_2d_cpu_kernel_impl" if layout.ndim == 4 else "grid_sampler3d_cpu"
        raise errors.not_implemented(name, dtype)
    if places.dtype is not dtype:
        raise RuntimeError(
            f"expected scalar type {dtype.scalar_name} but found {places.dtype.scalar_name}"
        )
    shape = tuple(layout.shape)[:2] + tuple(places.shape)[1:-1]
    out = dense_layout(shape, dtype, layout.device)
    if not has_work(out):
        return out, nothing, b""
    return out, *PLANS["sample", *key]


SAMPLES = Plans(_plan_sample)


@launches("grid_sampler")
def grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners):
    layout, kernel, described = SAMPLES[
        input._layout, grid._layout, interpolation_mode, padding_mode, align_corners
    ]
    out = empty_like_layout(layout)
    input, grid = contiguous(input), contiguous(grid)
    kernel(described, out._storage.pointer, address(input), address(grid))
    return out


@launches_kernel("grid_sampler_backward")
def _grid_sampler_backward(
    grad_output, input, grid, interpolation_mode, padding_mode, align_corners, needs
):
    facts = interpolation_mode, padding_mode, align_corners
    is_empty = not (has_work(grad_output._layout) and has_work(input._layout))
    if not is_empty:
        grad_output, input, grid = contiguous(grad_output), contiguous(input), contiguous(grid)
    image = places = None
    if needs[0]:
        image = _image_gradient(grad_output, input, grid, facts, is_empty)
    if needs[1]:
        places = empty_like_layout(dense_like(grid._layout))
        if is_empty or interpolation_mode == 1:
            places.zero_()
        else:
            kernel, described = PLANS["grid_gradient", input._layout, grid._layout, *facts]
            operands = grad_output, input, grid
            kernel(described, places._storage.pointer, *[address(t) for t in operands])
    return image, places


def _image_gradient(grad_output, input, grid, facts, is_empty):
    # sums of half types are kept in float32 and rounded once
    layout = dense_like(input._layout)
    dtype = layout.dtype if layout.itemsize > 2 else _dtype.float32
    found = empty_like_layout(dense_layout(layout.shape, dtype, layout.device))
    if is_empty:
        found.zero_()
    else:
        kernel, described = PLANS["image_gradient", input._layout, grid._layout, *facts]
        kernel(described, found._storage.pointer, address(grad_output), address(grid))
    if dtype is layout.dtype:
        return found
    rounded = empty_like_layout(layout)
    copy_into(rounded, found)
    return rounded
