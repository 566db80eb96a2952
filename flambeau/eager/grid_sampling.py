"""Launching grid_sample and its gradients.

Kernels: `codegen/templates/grid_sampling.py`. The gradient has two ways: kernels, and (where it is
to be differentiated again) the same formula on tensors, `ops/grid_sampling.py`.
"""

import math

from flambeau import _dtype, errors
from flambeau._layout import Size, dense_layout
from flambeau._tensor import empty_like_layout, empty_tensor
from flambeau.autograd.grad_mode import modes
from flambeau.eager.launching import FRONTS, launches
from flambeau.eager.copying import copy_into
from flambeau.eager.kernels import load_kernel, pool
from flambeau.eager.plan import MAX_PLANS, nothing
from flambeau.eager.rows import address, contiguous
from flambeau.ops.table import TABLE
from flambeau.runtime.cpu import words

_kernels: dict = {}
_plans: dict = {}
PLACES = 1 << 15  # elements of a chunk, about
MODES, PADDINGS = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")


def _kernel(name, pattern):
    found = _kernels.get((name, pattern))
    if found is None:
        from flambeau.codegen.templates import grid_sampling  # with llvmlite, on first need

        ir = getattr(grid_sampling, "build_" + name)(grid_sampling.Pattern(*pattern))
        found = _kernels[name, pattern] = load_kernel(ir, f"grid_{name}")
    return found


def _plan(name, input, grid, mode, padding, align_corners):
    """(kernel, description, its owner); cut by channels for the image, by places for the others."""
    from flambeau.codegen.templates.grid_sampling import TAPS

    shape, dims = input.shape, input.ndim - 2
    mode, padding = MODES[min(mode, 2)], PADDINGS[min(padding, 2)]
    wide = math.prod(shape[2:]) >= 1 << 31
    run = _kernel(name, (input.dtype.code, dims, mode, padding, align_corners, wide))
    places = grid.numel // (grid.shape[0] * dims)
    channels, batches = shape[1], shape[0]
    taps = TAPS[mode] ** dims
    if name == "image_gradient":
        # every chunk computes the taps of all places, so there are few
        chunks = min(channels, max(1, min(8 // batches, channels * places * taps // PLACES)))
        per_chunk = -(-channels // chunks)
        chunks = -(-channels // per_chunk)
    else:
        per_chunk = max(64, PLACES // (channels * taps + 8 * taps) & -64)
        chunks = -(-places // per_chunk)
    owner, at = words([batches * chunks, *reversed(shape[2:]), places, channels, per_chunk, chunks])
    if owner[0] > 1:
        pool().ensure_workers()
    return run, at, owner


def _launch(name, input, grid, facts, *pointers):
    key = (name, input._layout, grid._layout, facts)
    found = _plans.get(key)
    if found is None:
        if len(_plans) > MAX_PLANS:
            _plans.clear()
        found = _plans[key] = _plan(name, input._layout, grid._layout, *facts)
    found[0](found[1], *pointers)


@launches("grid_sampler")
def grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners):
    facts = (interpolation_mode, padding_mode, align_corners)
    found = _samples.get((input._layout, grid._layout, facts))
    if found is None:
        found = _plan_sample(input, grid, facts)
    layout, run, description, _ = found
    out = empty_like_layout(layout)
    run(description, out._storage.pointer, address(contiguous(input)), address(contiguous(grid)))
    return out


_samples: dict = {}


def _plan_sample(input, grid, facts):
    """(output layout, kernel, description, its owner)."""
    layout, places = input._layout, grid._layout
    dtype = layout.dtype
    if not dtype.is_floating_point:
        name = "grid_sampler_2d_cpu_kernel_impl" if input.ndim == 4 else "grid_sampler3d_cpu"
        raise errors.not_implemented(name, dtype)
    if places.dtype is not dtype:
        raise RuntimeError(
            f"expected scalar type {dtype.scalar_name} but found {places.dtype.scalar_name}"
        )
    shape = Size((*layout.shape[:2], *places.shape[1:-1]))
    out = dense_layout(shape, dtype, layout.device)
    plan = nothing, 0, None
    if out.numel and out.device.type == "cpu":
        plan = _plan("sample", layout, places, *facts)
    if len(_samples) > MAX_PLANS:
        _samples.clear()
    found = _samples[layout, places, facts] = (out, *plan)
    return found


@launches("grid_sampler_backward")
def grid_sampler_backward(
    grad_output, input, grid, interpolation_mode, padding_mode, align_corners, needs
):
    facts = (interpolation_mode, padding_mode, align_corners)
    layout = input._layout
    empty = not (grad_output._layout.numel and layout.numel) or layout.device.type != "cpu"
    if not empty:
        grad_output, input, grid = contiguous(grad_output), contiguous(input), contiguous(grid)
    image = places = None
    if needs[0]:
        image = _image_gradient(grad_output, input, grid, facts, empty)
    if needs[1]:
        places = empty_tensor(grid.shape, grid.dtype, grid.device)
        if empty or interpolation_mode == 1:
            places.zero_()
        else:
            _launch(
                "grid_gradient",
                input,
                grid,
                facts,
                places._storage.pointer,
                address(grad_output),
                address(input),
                address(grid),
            )
    return image, places


def _image_gradient(grad_output, input, grid, facts, empty):
    # sums of half types are kept in float32 and rounded once
    dtype = input.dtype if input.dtype.itemsize > 2 else _dtype.float32
    found = empty_tensor(input.shape, dtype, input.device)
    if empty:
        found.zero_()
    else:
        _launch(
            "image_gradient",
            input,
            grid,
            facts,
            found._storage.pointer,
            address(grad_output),
            address(grid),
        )
    if dtype is input.dtype:
        return found
    rounded = empty_tensor(input.shape, input.dtype, input.device)
    copy_into(rounded, found)
    return rounded


def _backward_front(op, general):
    """Kernels, or tensors where somebody wants the graph of the gradient."""

    def backward(g, input, grid, *facts):
        if modes.grad and (g._requires_grad or input._requires_grad or grid._requires_grad):
            return TABLE["_grid_sampler_backward_on_tensors"](g, input, grid, *facts)
        return grid_sampler_backward(g, input, grid, *facts)

    return backward


FRONTS["grid_sampler_backward"] = _backward_front
