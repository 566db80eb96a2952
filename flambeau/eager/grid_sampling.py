"""Plans of grid_sample and its gradients.

Kernels: `codegen/templates/grid_sampling.py`. The gradient has two ways: kernels, and (where it is
to be differentiated again) the same formula on tensors, `ops/grid_sampling.py`.
"""

import math

from flambeau import _dtype, errors
from flambeau._layout import dense_layout
from flambeau.codegen.descriptions_images import GridSampling
from flambeau.eager.planned import constant, idle, launch, planned, through
from flambeau.eager.rows import dense_like, has_work
from flambeau.runtime.cpu import packed

PLACES = 1 << 15  # elements of a chunk, about
MODES, PADDINGS = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")
TAPS = (2, 1, 4)  # of a mode along each dimension


def _plan(name, result, input, grid, mode, padding, align_corners):
    """The plan of a kernel; cut by channels for the image, by places for the others."""
    (batches, channels, *sizes), dims = input.shape, input.ndim - 2
    mode, padding = min(mode, 2), PADDINGS[min(padding, 2)]
    wide = math.prod(sizes) >= 1 << 31
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
    sizes = [*reversed(sizes), 1][:3]
    words = GridSampling(batches * parts, *sizes, places, channels, per_chunk, parts)
    facts = input.dtype.code, dims, MODES[mode], padding, align_corners, wide
    sorts = input.device.runtime.sorts
    if name == "image_gradient" and sorts is not None:
        return result, sorts.taken(result, facts, taps, words), packed(words)
    return launch(result, words, "grid_" + name, "grid_sampling:build_" + name, *facts)


@planned("grid_sampler", "input: dense, grid: dense, mode, padding, align_corners")
def grid_sampler(input, grid, *facts):
    dtype = input.dtype
    if not dtype.is_floating_point:
        name = "grid_sampler_2d_cpu_kernel_impl" if input.ndim == 4 else "grid_sampler3d_cpu"
        raise errors.not_implemented(name, dtype)
    if grid.dtype is not dtype:
        raise RuntimeError(
            f"expected scalar type {dtype.scalar_name} but found {grid.dtype.scalar_name}"
        )
    out = dense_layout(input.sizes[:2] + grid.sizes[1:-1], dtype, input.device)
    return _plan("sample", out, input, grid, *facts) if has_work(out) else idle(out)


@planned(
    "grid_sampler_backward",
    "grad: dense, input: dense, grid: dense, mode, padding, align_corners, needs",
    "image?, places?", backward=True,
)  # fmt: skip
def _grid_sampler_backward(grad, input, grid, mode, padding, align_corners, needs):
    results = [dense_like(t) if need else None for t, need in zip((input, grid), needs)]
    if not (has_work(grad) and has_work(input)):
        return constant(0, results)
    facts, image, places = (input, grid, mode, padding, align_corners), None, None
    if needs[0]:
        # sums of half types are kept in float32 and rounded once
        dtype = input.dtype if input.itemsize > 2 else _dtype.float32
        summed = dense_layout(input.sizes, dtype, input.device)
        _, *found = _plan("image_gradient", summed, *facts)
        image = through(summed, results[0], *found)
    if needs[1]:
        flat = mode == 1
        found = constant(0, results[1:]) if flat else _plan("grid_gradient", results[1], *facts)
        places = found[1:]
    return *results, _both, (image, places)


def _both(plans, image, places, grad, input, grid):
    """The kernels of both gradients, as far as they are wanted."""
    if plans[0] is not None:
        plans[0][0](plans[0][1], image, grad, grid)
    if plans[1] is not None:
        plans[1][0](plans[1][1], places, grad, input, grid)
