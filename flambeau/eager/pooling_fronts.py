"""Quick public functions of pooling: arguments as they were written lead to a plan.

A front, generated with the signature of its row, looks up the layout of the input beside the other
arguments; what it finds is a plan for the kernel, and the row that records the call. Unusual calls
go to the body of the row. Plans and launchers are in `pooling.py`.
"""

from flambeau.eager import pooling
from flambeau.eager.arguments import fits
from flambeau.eager.fragments import allocated, compile_text
from flambeau.eager.fronts import WHOLE
from flambeau.eager.launching import FRONTS
from flambeau.eager.plans import Plans
from flambeau.eager.rows import as_layout
from flambeau.ops.pooling import _ADAPTIVE_MAX, _ADAPTIVE_MEAN, _MAX, _MEAN
from flambeau.ops.pooling_adaptive import whole_mean
from flambeau.ops.pooling_windows import adaptive, adaptive_sizes, as_two, plain
from flambeau.ops.table import REQUIRED

_FRONT = """def {name}({params}):
{out}{first}    try:
        found = plans[input._layout, {names}]
    except (AttributeError, TypeError):  # not a tensor, lists, wrong arguments
        found = None
    if found is None or not _even({whole}):
        return general(input, {names})
    layout0, {chosen}kernel, desc, source, row, statics = found
    if input._requires_grad and modes.grad:
        return record(input, row, statics)
    if input._layout is not source:
        input = as_layout(input, source)
{allocated}    kernel(desc, p0, {nothing}input._storage.pointer + input._offset)
    return out0
"""
_OUT = """    if out is not None:
        return general(input, {names}, out=out)
"""
# what kernels of the largest elements could tell, and nobody asks for here
_CHOSEN = ({"chosen": "", "nothing": ""}, {"chosen": "_, ", "nothing": "0, "})
# the mean of everything needs no plan of pooling
_WHOLE = """    if (output_size == 1 or output_size == ones) and isinstance(input, Tensor):
        if input._layout.ndim >= dims and _even(output_size):
            return whole_mean(input, dims, axes)
"""


def _front(find):
    """find(dims, name, layout, *arguments): (*plan for values, row that records, statics).

    Nothing where the body must look.
    """

    def build(op, general):
        name, dims = op.name, int(op.name.split("pool")[1][0])
        params = ", ".join(
            [p.name + f"=_d_{p.name}" * (p.default is not REQUIRED) for p in op.params]
        )
        others = ", ".join([p.name for p in op.params[1:]])
        whole = _WHOLE if name.startswith("adaptive_avg") else ""
        out = ""
        if "out" in op.variants:
            params, out = f"{params}, *, out=None", _OUT.format(names=others)
        ints = ", ".join([p.name for p in op.params[1:] if p.wants in WHOLE])
        text = _FRONT.format(
            name=name, params=params, names=others, first=whole, out=out, whole=ints,
            allocated=allocated(1), **_CHOSEN["max" in name],
        )  # fmt: skip
        plans = Plans(lambda key: find(dims, name, *_looked_at(op, key)), by_default=False)
        space = {f"_d_{p.name}": p.default for p in op.params}
        space |= {"plans": plans, "general": general, "whole_mean": whole_mean, "dims": dims}
        space |= {"record": _record_line if dims == 1 else _record, "ones": (1,) * dims}
        space |= {"axes": tuple(range(-dims, 0)), "as_layout": as_layout}
        return compile_text(text, space, f"{name} front")[name]

    return build


def _looked_at(op, key):
    """The key of a plan, unless an argument is of a wrong type."""
    for p, value in zip(op.params[1:], key[1:]):
        if p.wants and value is not p.default and not fits(p.wants, value):
            raise TypeError("to be bound")
    return key


def _record(input, row, statics):
    result = row(input, *statics)
    return result[0] if type(result) is tuple else result


def _record_line(input, row, statics):
    """One dimension is pooled as two: the nodes that PyTorch has."""
    return _record(input.unsqueeze(-2), row, statics).squeeze(-2)


def _find_largest(
    dims, name, layout, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False,
    return_indices=False,
):  # fmt: skip
    if return_indices:
        return None
    window = plain(name, dims, layout, kernel_size, stride, padding, dilation, ceil_mode)
    recorded = as_two(window) if dims == 1 else window
    return *pooling.plan_values(layout, window), _MAX[max(2, dims)], (recorded, "saved")


def _find_mean(
    dims, name, layout, kernel_size, stride=None, padding=0, ceil_mode=False,
    count_include_pad=True, divisor_override=None,
):  # fmt: skip
    window = plain(
        name, dims, layout, kernel_size, stride, padding, 1, ceil_mode,
        include_pad=bool(count_include_pad), divisor=divisor_override,
    )  # fmt: skip
    recorded = as_two(window) if dims == 1 else window
    return *pooling.avg_pool.plan(layout, window), _MEAN[max(2, dims)], (recorded,)


def _find_adaptive(dims, name, layout, output_size, return_indices=False):
    """What the body would make of the arguments, if it finds nothing wrong with them."""
    shape, is_mean = tuple(layout.shape), "avg" in name
    outs = adaptive_sizes(output_size, shape, dims)
    if len(shape) not in (dims + 1, dims + 2):
        return None
    if len(outs) != dims or min(outs) < 0 or 0 in shape:
        return None
    window = adaptive(outs)
    if return_indices or (is_mean and max(outs) == 1 == min(outs)):  # the body knows a shorter way
        return None
    if is_mean:
        return *pooling.avg_pool.plan(layout, window), _ADAPTIVE_MEAN[dims], (window,)
    plan = pooling.plan_adaptive_largest(layout, window, "value")
    return *plan, _ADAPTIVE_MAX[dims], (window,)


FRONTS |= {
    "quick_max_pool": _front(_find_largest),
    "quick_avg_pool": _front(_find_mean),
    "quick_adaptive": _front(_find_adaptive),
}
