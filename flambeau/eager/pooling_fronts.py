"""Quick public functions of pooling: arguments as they were written lead to a plan.

A front looks up the layout of the input beside the other arguments, in whatever spelling; what it
finds is a plan for the kernel, and the row that records the call. Unusual calls go to the body of
the row. Plans and launchers are in `pooling.py`.
"""

from flambeau._tensor import Tensor
from flambeau.autograd.grad_mode import modes
from flambeau.eager import pooling
from flambeau.eager.launching import FRONTS
from flambeau.eager.plans import Plans
from flambeau.ops.pooling import _ADAPTIVE_MAX, _ADAPTIVE_MEAN, _MAX, _MEAN
from flambeau.ops.pooling_adaptive import whole_mean
from flambeau.ops.pooling_windows import adaptive, adaptive_sizes, as_two, plain


def _front(find):
    """find(dims, name, layout, **arguments): (function of the input, row that records, statics).

    Nothing where the body must look.
    """

    def build(op, general):
        names, dims = [p.name for p in op.params], int(op.name.split("pool")[1][0])

        def plan(key):
            layout, args, *more = key
            given = dict(zip(names[1:], args)) | dict(more)
            if len(args) >= len(names) or not given.keys() <= set(names):
                return None
            return find(dims, op.name, layout, **given)

        plans = Plans(plan, by_default=False)

        def function(input, *args, **kwargs):
            try:
                layout = input._layout
                found = plans[(layout, args, *kwargs.items()) if kwargs else (layout, args)]
            except (AttributeError, TypeError):  # not a tensor, lists, wrong arguments
                found = None
            if found is None:
                return general(input, *args, **kwargs)
            run, row, statics = found
            if not (input._requires_grad and modes.grad):
                return run(input)
            # one dimension is pooled as two: the nodes that PyTorch has
            result = row(input if dims > 1 else input.unsqueeze(-2), *statics)
            if type(result) is tuple and run.__name__ != "largest":
                result = result[0]
            return result if dims > 1 else result.squeeze(-2)

        return function

    return build


def _find_largest(
    dims, name, layout, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False,
    return_indices=False,
):  # fmt: skip
    if return_indices:
        return None
    window = plain(name, dims, layout, kernel_size, stride, padding, dilation, ceil_mode)
    recorded = as_two(window) if dims == 1 else window
    run = pooling.plan_values(layout, window).values
    return run, _MAX[max(2, dims)], (recorded, "saved")


def _find_mean(
    dims, name, layout, kernel_size, stride=None, padding=0, ceil_mode=False,
    count_include_pad=True, divisor_override=None,
):  # fmt: skip
    window = plain(
        name, dims, layout, kernel_size, stride, padding, 1, ceil_mode,
        include_pad=bool(count_include_pad), divisor=divisor_override,
    )  # fmt: skip
    recorded = as_two(window) if dims == 1 else window
    run = pooling.plan_mean((layout, window)).mean
    return run, _MEAN[max(2, dims)], (recorded,)


def _find_adaptive(dims, name, layout, output_size, return_indices=False):
    """What the body would make of the arguments, if it finds nothing wrong with them."""
    shape, is_mean = tuple(layout.shape), "avg" in name
    if len(shape) not in (dims + 1, dims + 2):
        return None
    outs = adaptive_sizes(output_size, shape[-dims:])
    if len(outs) != dims or min(outs) < 0 or 0 in shape:
        return None
    window = adaptive(outs)
    if is_mean and max(outs) == 1 == min(outs):  # the body knows a shorter way
        return None
    if is_mean:
        run = pooling.plan_mean((layout, window)).mean
        return run, _ADAPTIVE_MEAN[dims], (window,)
    plan = pooling.plan_adaptive_largest((layout, window))
    return plan.largest if return_indices else plan.values, _ADAPTIVE_MAX[dims], (window,)


def _quick_adaptive(op, general):
    """The mean of everything needs no plan of pooling."""
    function = _front(_find_adaptive)(op, general)
    if "max" in op.name:
        return function
    dims = int(op.name.split("pool")[1][0])
    ones, axes = (1,) * dims, tuple(range(-dims, 0))

    def mean(input, *args, **kwargs):
        whole = len(args) == 1 and (args[0] == 1 or args[0] == ones) and not kwargs
        if whole and isinstance(input, Tensor) and input._layout.ndim >= dims:
            return whole_mean(input, dims, axes)
        return function(input, *args, **kwargs)

    return mean


FRONTS |= {
    "quick_max_pool": _front(_find_largest),
    "quick_avg_pool": _front(_find_mean),
    "quick_adaptive": _quick_adaptive,
}
