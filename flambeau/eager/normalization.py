"""Launching layer_norm and rms_norm, forward and backward, and what all normalisations share.

Statistics are saved per row, as PyTorch saves them. Gradients of weights are tallied per chunk of
rows and added up by a second, small kernel. Programs: `codegen/templates/row_programs.py` and
`normalization.py`; table rows: `ops/normalization.py`. Elsewhere: `normalization_groups.py`
(group_norm), `normalization_batch.py` (batch_norm).
"""

import math

from flambeau import _dtype as d
from flambeau import errors
from flambeau._layout import Size, dense_layout
from flambeau._tensor import empty_like_layout
from flambeau.eager.launching import FRONTS, launches
from flambeau.eager.fronts import kernel_unless_recorded
from flambeau.eager.kernels import load_kernel
from flambeau.eager.plan import MAX_PLANS
from flambeau.eager.rows import contiguous
from flambeau.eager.softmax import GRAIN, row_kernel, row_words, walked
from flambeau.runtime.cpu import words

_plans: dict = {}
_kernels: dict = {}


def remember(plans, key, plan):
    if len(plans) > MAX_PLANS:
        plans.clear()
    plans[key] = plan
    return plan


def program_kernel(walk, name, *facts):
    """The kernel of a program of codegen/templates/normalization.py."""
    key = (walk, name, facts)
    found = _kernels.get(key)
    if found is None:
        from flambeau.codegen.templates import normalization  # with llvmlite, on first need

        found = _kernels[key] = walked(walk, getattr(normalization, name)(*facts), name)
    return found


def address(t):
    return t._storage.pointer + t._offset


def compute_dtype(dtype):
    return d.float64 if dtype is d.float64 else d.float32


def check_mixed(input, *parameters):
    """Parameters in the dtype of input, or all in float32 beside a half type; gives their dtype."""
    given = [p for p in parameters if p is not None]
    if not given:
        return input.dtype
    first = given[0].dtype
    if first is not input.dtype:
        if any(p.dtype is not d.float32 for p in given):
            raise RuntimeError("mixed dtype (CPU): expect parameter to have scalar type of Float")
        if input.dtype not in (d.float16, d.bfloat16):
            raise RuntimeError("mixed dtype (CPU): all inputs must share same datatype.")
    for p in given:
        if p.dtype is not first:
            raise RuntimeError(
                f"expected scalar type {first.scalar_name} but found {p.dtype.scalar_name}"
            )
    return first


def total_tallies(outs, tallies, pieces):
    """Sums of tallies (pieces x positions) into outs."""
    layout = outs[0]._layout
    key = ("tally", len(outs), layout, pieces)
    plan = _plans.get(key)
    if plan is None:
        name = layout.dtype.code, len(outs)
        found = _kernels.get(("tally", name))
        if found is None:
            from flambeau.codegen.templates import rows_columns  # with llvmlite

            found = load_kernel(rows_columns.build_tally_totals(*name), "tally_totals")
            _kernels["tally", name] = found
        n = layout.numel
        per_chunk = max(64, (GRAIN // pieces) & -64)
        owner, at = words([-(-n // per_chunk), pieces, n, per_chunk])
        plan = remember(_plans, key, (found, at, owner))
    plan[0](plan[1], *(o._storage.pointer for o in outs), *(address(t) for t in tallies))


# -- layer_norm ------------------------------------------------------------------------------------


def _check_normalized(input, normalized_shape, separator=", "):
    k = len(normalized_shape)
    if k < 1:
        raise RuntimeError(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one "
            f"element, but got normalized_shape = {list(normalized_shape)}"
        )
    if input.ndim < k or tuple(input.shape[input.ndim - k :]) != tuple(normalized_shape):
        text = ", ".join(map(str, normalized_shape))
        raise RuntimeError(
            f"Given normalized_shape={list(normalized_shape)}, expected input with shape "
            f"[*{separator}{text}], but got input of size{list(input.shape)}"
        )


def _check_parameter(name, p, normalized_shape):
    if p is not None and tuple(p.shape) != tuple(normalized_shape):
        raise RuntimeError(
            f"Expected {name} to be of same shape as normalized_shape, but got {name} of shape "
            f"{list(p.shape)} and normalized_shape = {list(normalized_shape)}"
        )


def _layer_norm_plan(input, normalized_shape, weight, bias):
    """(layouts of the results, kernel, description, what keeps it alive)."""
    _check_normalized(input, normalized_shape)
    _check_parameter("weight", weight, normalized_shape)
    _check_parameter("bias", bias, normalized_shape)
    if not input.dtype.is_floating_point:
        raise errors.not_implemented("LayerNormKernelImpl", input.dtype)
    parameter = check_mixed(input, weight, bias)
    k, device = input.ndim - len(normalized_shape), input.device
    reduced = dense_layout(
        Size((*input.shape[:k], *([1] * len(normalized_shape)))), parameter, device
    )
    layouts = dense_layout(input.shape, input.dtype, device), reduced
    if input._layout.numel == 0 or device.type != "cpu":
        return (*layouts, None, None, None)
    n = math.prod(normalized_shape)
    owner, at = row_words(input._layout.numel // n, n)
    codes = input.dtype.code, parameter.code, parameter.code
    kernel = row_kernel("rows", "layer_norm", *codes, weight is not None, bias is not None)
    return (*layouts, kernel, at, owner)


@launches("native_layer_norm")
def native_layer_norm(input, normalized_shape, weight, bias, eps):
    key = (
        input._layout,
        normalized_shape,
        None if weight is None else weight._layout,
        None if bias is None else bias._layout,
    )
    plan = _plans.get(key)
    if plan is None:
        plan = _layer_norm_plan(input, normalized_shape, weight, bias)
        given = (input, weight, bias)
        if any(t is not None and not t._layout.is_contiguous for t in given):
            given = [None if t is None else contiguous(t) for t in given]
            return native_layer_norm(given[0], normalized_shape, given[1], given[2], eps)
        remember(_plans, key, plan)
    layout, reduced, kernel, at, _ = plan
    out, mean, rstd = (
        empty_like_layout(layout),
        empty_like_layout(reduced),
        empty_like_layout(reduced),
    )
    if kernel is not None:
        places = [
            out._storage.pointer,
            mean._storage.pointer,
            rstd._storage.pointer,
            input._storage.pointer + input._offset,
        ]
        if weight is not None:
            places.append(weight._storage.pointer + weight._offset)
        if bias is not None:
            places.append(bias._storage.pointer + bias._offset)
        kernel(at, *places, eps)
    elif reduced.numel and reduced.device.type == "cpu":
        mean.fill_(math.nan)
        rstd.fill_(math.nan)
    return out, mean, rstd


def _gradients(name, key, g, input, statistics, weight, bias, needs):
    """Gradients of a row program: dx, and the tallies of dw and db added up.

    key: what a plan depends on; a plan is kept only if all operands lie side by side.
    """
    plan = _plans.get(key)
    if plan is None:
        operands = [g, input, *statistics] + ([weight] if weight is not None else [])
        dense = all(t._layout.is_contiguous for t in operands)
        if not dense:
            g, input, *statistics = (contiguous(t) for t in (g, input, *statistics))
            weight = None if weight is None else contiguous(weight)
        plan = _gradient_plan(name, input, statistics, weight, bias, needs)
        if dense:
            remember(_plans, key, plan)
    layouts, kernel, at, tally, chunks, _ = plan
    result = [None if x is None else empty_like_layout(x) for x in layouts]
    if kernel is None:
        return _nothing(result, input)
    outs = [t for t in result[1:] if t is not None]
    tallies = outs if tally is None else [empty_like_layout(tally) for _ in outs]
    places = [] if result[0] is None else [result[0]._storage.pointer]
    places += [t._storage.pointer for t in tallies]
    places += [t._storage.pointer + t._offset for t in (g, input, *statistics)]
    if weight is not None:
        places.append(weight._storage.pointer + weight._offset)
    kernel(at, *places)
    if tally is not None and outs:
        total_tallies(outs, tallies, chunks)
    return result


def _nothing(result, input):
    """Gradients of an empty tensor are zero; on the meta device they have no values."""
    if input.device.type == "cpu":
        for t in result:
            if t is not None:
                t.fill_(0)
    return result


def _gradient_plan(name, input, statistics, weight, bias, needs):
    """(layouts of the gradients, kernel, description, layout of tallies, chunks, owner)."""
    layout = dense_layout(input.shape, input.dtype, input.device)
    like = weight if weight is not None else bias
    parameter = None if like is None else dense_layout(like.shape, like.dtype, like.device)
    wanted = tuple(n for n, need in zip(("dx", "dw", "db"), needs) if need)
    layouts = [x if need else None for x, need in zip((layout, parameter, parameter), needs)]
    if layout.numel == 0 or layout.device.type != "cpu" or not wanted:
        return layouts, None, None, None, 0, None
    rows = statistics[0]._layout.numel
    n = layout.numel // rows
    owner, at = row_words(rows, n)
    chunks, compute = owner[0], compute_dtype(layout.dtype)
    direct = chunks == 1 and (parameter is None or parameter.dtype is compute)
    tally = None if direct else dense_layout(Size((chunks * n,)), compute, layout.device)
    codes = (layout.dtype.code,)
    if name == "layer_norm_backward":
        codes += (statistics[0].dtype.code,) * 2
    kernel = row_kernel("rows", name, *codes, weight is not None, wanted)
    return layouts, kernel, at, tally, chunks, owner


def _layer_norm_backward(g, input, normalized_shape, mean, rstd, weight, bias, needs, eps):
    key = (
        g._layout,
        input._layout,
        mean._layout,
        None if weight is None else weight._layout,
        bias,
        *needs,
    )
    return _gradients("layer_norm_backward", key, g, input, (mean, rstd), weight, bias, needs)


FRONTS["layer_norm_backward"] = kernel_unless_recorded(_layer_norm_backward)


# -- rms_norm --------------------------------------------------------------------------------------


@launches("rms_norm_rows")
def rms_norm_rows(input, normalized_shape, weight, eps):
    """(result, 1 / root of the mean square of each row)."""
    key = (input._layout, normalized_shape, None if weight is None else weight._layout, "rms")
    plan = _plans.get(key)
    if plan is None:
        check_normalized_rms(input, normalized_shape)
        if not all(t is None or t._layout.is_contiguous for t in (input, weight)):
            weight = None if weight is None else contiguous(weight)
            return rms_norm_rows(contiguous(input), normalized_shape, weight, eps)
        k, device = input.ndim - len(normalized_shape), input.device
        shape = Size((*input.shape[:k], *([1] * len(normalized_shape))))
        layouts = (
            dense_layout(input.shape, input.dtype, device),
            dense_layout(shape, compute_dtype(input.dtype), device),
        )
        kernel = at = owner = None
        if input._layout.numel and device.type == "cpu":
            n = math.prod(normalized_shape)
            owner, at = row_words(input._layout.numel // n, n)
            kernel = row_kernel("rows", "rms_norm", input.dtype.code, weight is not None)
        plan = remember(_plans, key, (*layouts, kernel, at, owner))
    layout, reduced, kernel, at, _ = plan
    out, rstd = empty_like_layout(layout), empty_like_layout(reduced)
    if kernel is not None:
        places = [out._storage.pointer, rstd._storage.pointer, address(input)]
        if weight is not None:
            places.append(address(weight))
        kernel(at, *places, eps)
    return out, rstd


def check_normalized_rms(input, normalized_shape):
    _check_normalized(input, normalized_shape, separator="")


def _rms_norm_backward(g, input, normalized_shape, rstd, weight, needs, eps):
    weights = None if weight is None else weight._layout
    key = (g._layout, input._layout, rstd._layout, weights, *needs)
    return _gradients("rms_norm_backward", key, g, input, (rstd,), weight, None, needs)


FRONTS["rms_norm_backward"] = kernel_unless_recorded(_rms_norm_backward)
