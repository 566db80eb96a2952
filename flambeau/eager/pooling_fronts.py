"""Quick public functions of pooling, fractional pooling and unpooling.

A front looks up the arguments as they were written beside the layout of the input; what it finds
is a plan, so that a call that was seen before runs its kernel at once. Everything unusual goes to
the body of the row. Plans and most launchers are in `pooling.py`.
"""

from flambeau import _dtype as d
from flambeau import errors
from flambeau._tensor import Tensor, empty_like_layout
from flambeau.autograd.grad_mode import modes
from flambeau.eager import pooling
from flambeau.eager.launching import FRONTS, launches
from flambeau.eager.formula import record_formula
from flambeau.eager.plan import MAX_PLANS
from flambeau.eager.pooling import Plan, as_layout, kernel, place, planned
from flambeau.ops.pooling_adaptive import whole_mean
from flambeau.ops.pooling_windows import adaptive, adaptive_sizes, as_two, plain
from flambeau.ops.table import TABLE


def _quick_largest(op, general):
    name, dims = op.name, int(op.name[8])
    row, known = TABLE[f"_max_pool{max(2, dims)}d"], {}

    def function(
        input,
        kernel_size,
        stride=None,
        padding=0,
        dilation=1,
        ceil_mode=False,
        return_indices=False,
    ):
        recording = modes.grad and isinstance(input, Tensor) and input._requires_grad
        if return_indices or (recording and row is None):
            return general(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)
        try:
            key = (input._layout, kernel_size, stride, padding, dilation, ceil_mode, recording)
            found = known.get(key)
        except (AttributeError, TypeError):  # not a tensor, or lists
            return general(input, kernel_size, stride, padding, dilation, ceil_mode)
        if found is None:
            if len(known) > MAX_PLANS:
                known.clear()
            window = plain(name, dims, input, kernel_size, stride, padding, dilation, ceil_mode)
            plan = pooling.plan_largest(input._layout, window, recording)
            if dims == 1 and recording:
                window = as_two(window)
                plan = pooling.plan_largest(input.unsqueeze(-2)._layout, window, recording)
            found = known[key] = plan, window
        if not recording:
            return pooling.run_largest(found[0], input)[0]
        source = input if dims > 1 else input.unsqueeze(-2)  # the nodes that PyTorch has
        out, chosen = pooling.run_largest(found[0], source)
        record_formula(row, {"input": source, "window": found[1], "kind": "saved"}, (out, chosen))
        return out if dims > 1 else out.squeeze(-2)

    return function


def _quick_mean(op, general):
    name, dims = op.name, int(op.name[8])
    row, known = TABLE[f"_avg_pool{max(2, dims)}d"], {}

    def function(
        input,
        kernel_size,
        stride=None,
        padding=0,
        ceil_mode=False,
        count_include_pad=True,
        divisor_override=None,
    ):
        recording = modes.grad and isinstance(input, Tensor) and input._requires_grad
        given = kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
        try:
            key = (input._layout, given, recording)
            found = known.get(key)
        except (AttributeError, TypeError):
            return general(input, *given[: 5 + (dims > 1)])
        if found is None:
            if len(known) > MAX_PLANS:
                known.clear()
            window = plain(
                name, dims, input, kernel_size, stride, padding, 1, ceil_mode,
                include_pad=bool(count_include_pad), divisor=divisor_override,
            )  # fmt: skip
            plan = pooling.plan_mean(input._layout, window)
            if dims == 1 and recording:
                window = as_two(window)
                plan = pooling.plan_mean(input.unsqueeze(-2)._layout, window)
            found = known[key] = plan, window
        if not recording:
            return pooling.run_mean(found[0], input)
        source = input if dims > 1 else input.unsqueeze(-2)
        out = pooling.run_mean(found[0], source)
        record_formula(row, {"input": source, "window": found[1]}, (out,))
        return out if dims > 1 else out.squeeze(-2)

    return function


def _quick_adaptive(op, general):
    """adaptive_avg_pool2d and its kin: what the body made of the arguments is kept."""
    _, kind, shape = op.name.split("_")[:3]
    row, known = TABLE[f"_adaptive_{kind}_{shape}"], {}
    is_mean, dims = kind == "avg", int(shape[-2])

    def function(input, output_size, return_indices=False):
        if is_mean and return_indices:
            raise TypeError(f"{op.name}() got an unexpected keyword argument 'return_indices'")
        try:
            found = known.get((input._layout, output_size))
        except (AttributeError, TypeError):
            found = None
        if found is None:
            out = general(input, output_size) if is_mean else general(input, output_size, True)
            _remember(known, input, output_size, is_mean, dims)
            return out if is_mean or return_indices else out[0]
        plan, window = found
        if plan is None:
            return whole_mean(input, dims)
        if is_mean:
            out = pooling.run_mean(plan, input)
            if input._requires_grad and modes.grad:
                record_formula(row, {"input": input, "window": window}, (out,))
            return out
        outs = pooling.run_largest(plan, input)
        if input._requires_grad and modes.grad:
            record_formula(row, {"input": input, "window": window}, outs)
        return outs if return_indices else outs[0]

    return function


def _remember(known, input, output_size, is_mean, dims):
    """Arguments that were found to be right; the mean of everything has its own way."""
    if type(output_size) is list:
        return
    window = adaptive(adaptive_sizes(output_size, input.shape[-dims:]))
    if len(known) > MAX_PLANS:
        known.clear()
    if is_mean and all(o == 1 for o in window.outs):
        known[input._layout, output_size] = None, window
        return
    plan = pooling.plan_adaptive(input._layout, window, is_mean)
    known[input._layout, output_size] = plan, window


FRONTS |= {
    "quick_max_pool": _quick_largest,
    "quick_avg_pool": _quick_mean,
    "quick_adaptive": _quick_adaptive,
}


# -- fractional pooling ----------------------------------------------------------------------------


def _fractional_plan(layout, taps, outs):
    dims = len(outs)
    work = pooling.PlaneWork(layout, dims, outs, taps)
    plan = Plan(work.source, work.out, work.like_out(d.int64))
    if work.computes:
        found = kernel("fractional", "fractional", layout.dtype.code, dims)
        plan.describe(found, work.words())
    return plan


@launches("fractional_max_pool")
def fractional_max_pool(input, samples, taps, outs):
    plan = planned(_fractional_plan, input._layout, taps, outs)
    out, chosen = empty_like_layout(plan.out), empty_like_layout(plan.chosen)
    if plan.kernel is not None:
        input, samples = as_layout(input, plan.source), pooling.contiguous(samples)
        pointers = out._storage.pointer, chosen._storage.pointer, place(input), place(samples)
        plan.kernel(plan.description, *pointers)
    return out, chosen


# -- unpooling -------------------------------------------------------------------------------------


def _unpool_plan(layout, outs):
    work = pooling.PlaneWork(layout, len(outs), outs, None, channels_last=len(outs) == 2)
    plan = Plan(work.source, work.out, work.like_source(d.int64))
    if layout.device.type == "cpu" and work.out.numel:
        plan.describe(kernel("largest", "unpool", layout.dtype.code), work.words())
    return plan


@launches("max_unpool")
def max_unpool(input, indices, outs):
    if not input.dtype.is_floating_point:
        raise errors.not_implemented(f"max_unpool{len(outs)}d", input.dtype)
    plan = planned(_unpool_plan, input._layout, outs)
    out = empty_like_layout(plan.out)
    if plan.kernel is not None:
        input, indices = as_layout(input, plan.source), as_layout(indices, plan.chosen)
        status = plan.kernel(plan.description, out._storage.pointer, place(indices), place(input))
        if status is not None:
            raise RuntimeError(
                f"Found an invalid max index: {(status - 1) // 2} (output volumes are of size "
                f"{'x'.join(map(str, outs))})"
            )
    return out
