"""Launching layer_norm and rms_norm, forward and backward, and what all normalisations share.

Statistics are saved per row, as PyTorch saves them. Gradients of weights are tallied per chunk of
rows and added up by a second, small kernel. Programs: `codegen/templates/row_programs.py` and
`normalization.py`; table rows: `ops/normalization.py`. Elsewhere: `normalization_groups.py`
(group_norm), `normalization_batch.py` (batch_norm).
"""

import math

from flambeau import _dtype as d
from flambeau import errors
from flambeau._layout import dense_layout, make_layout
from flambeau._tensor import empty_like_layout
from flambeau.codegen.descriptions import Tallies
from flambeau.eager.launching import launches, launches_kernel
from flambeau.eager.plans import Plans
from flambeau.eager.rows import address, contiguous, dense_like, has_work, vector_layout
from flambeau.eager.softmax import GRAIN, along_rows, row_kernel
from flambeau.runtime.cpu import packed


def compute_dtype(dtype):
    return d.float64 if dtype is d.float64 else d.float32


def check_mixed(input, *parameters):
    """Parameters in the dtype of input, or all in float32 beside a half type; gives their dtype."""
    given = [p for p in parameters if p is not None]
    dtypes = {p.dtype for p in given}
    if not dtypes or (len(dtypes) == 1 and input.dtype in dtypes):
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


# -- tallies ---------------------------------------------------------------------------------------


def _plan_totals(key):
    """(kernel, description) that adds up tallies of so many pieces into so many results."""
    count, layout, pieces = key
    kernel = layout.device.runtime.kernel(
        "tally_totals", "rows_columns:build_tally_totals", layout.dtype.code, count
    )
    per_chunk = max(64, (GRAIN // pieces) & -64)
    chunks = -(-layout.numel // per_chunk)
    return kernel, packed(Tallies(chunks, pieces, layout.numel, per_chunk))


TOTALS = Plans(_plan_totals)


def total_tallies(outs, tallies, pieces):
    """Sums of tallies (pieces x positions) into outs."""
    kernel, described = TOTALS[len(outs), outs[0]._layout, pieces]
    kernel(described, *[o._storage.pointer for o in outs], *[address(t) for t in tallies])


def gradients_of(dense, weight, bias, needs):
    """(layouts of the gradients of input, weight and bias, None if not needed; names of those)."""
    like = weight if weight is not None else bias
    parameter = None if like is None else dense_like(like)
    layouts = [x if need else None for x, need in zip((dense, parameter, parameter), needs)]
    return layouts, tuple([n for n, need in zip(("dx", "dw", "db"), needs) if need])


def no_gradients(result, runtime):
    """Gradients of an empty tensor are zero; where nothing computes they have no values."""
    if runtime.computes:
        for t in result:
            if t is not None:
                t.fill_(0)
    return result


# -- rows ------------------------------------------------------------------------------------------


def _check_normalized(input, normalized_shape, separator=", "):
    k = len(normalized_shape)
    if k < 1:
        raise RuntimeError(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one "
            f"element, but got normalized_shape = {list(normalized_shape)}"
        )
    if input.ndim < k or input.sizes[input.ndim - k :] != normalized_shape:
        text = ", ".join(map(str, normalized_shape))
        raise RuntimeError(
            f"Given normalized_shape={list(normalized_shape)}, expected input with shape "
            f"[*{separator}{text}], but got input of size{list(input.shape)}"
        )


def _check_parameter(name, p, normalized_shape):
    if p is not None and p.sizes != normalized_shape:
        raise RuntimeError(
            f"Expected {name} to be of same shape as normalized_shape, but got {name} of shape "
            f"{list(p.shape)} and normalized_shape = {list(normalized_shape)}"
        )


def _reduced(layout, normalized_shape, n, dtype):
    """The layout of a number per row of n elements."""
    k = len(normalized_shape)
    lead, ones = layout.ndim - k, (1,) * k
    sizes = layout.sizes[:lead] + ones
    if not layout.is_dense or not n:
        return dense_layout(sizes, dtype, layout.device)
    strides = tuple([s // n for s in layout.strides[:lead]]) + ones
    return make_layout(sizes, strides, dtype, layout.device)


def _plan_layer_norm(key):
    """(layouts of the result and of statistics, kernel, description, must operands be copied?)."""
    layout, normalized_shape, weight, bias = key
    _check_normalized(layout, normalized_shape)
    _check_parameter("weight", weight, normalized_shape)
    _check_parameter("bias", bias, normalized_shape)
    parameter, n = check_mixed(layout, weight, bias), math.prod(normalized_shape)
    if not layout.dtype.is_floating_point:
        raise errors.not_implemented("LayerNormKernelImpl", layout.dtype)
    results = dense_like(layout), _reduced(layout, normalized_shape, n, parameter)
    if not has_work(layout):
        return *results, None, b"", False
    codes = layout.dtype.code, parameter.code, parameter.code
    given = weight is not None, bias is not None
    kernel = row_kernel(layout, "rows", "layer_norm", *codes, *given)
    return *results, kernel, along_rows(layout.numel // n, n)[0], _is_rough(layout, weight, bias)


def _is_rough(*layouts):
    """Has one of the operands to be copied first?"""
    return False in [t is None or t.is_contiguous for t in layouts]


LAYER_NORMS = Plans(_plan_layer_norm)


@launches("native_layer_norm")
def native_layer_norm(input, normalized_shape, weight, bias, eps):
    layout, reduced, kernel, described, is_rough = LAYER_NORMS[
        input._layout,
        normalized_shape,
        None if weight is None else weight._layout,
        None if bias is None else bias._layout,
    ]
    out, mean, rstd = (
        empty_like_layout(layout),
        empty_like_layout(reduced),
        empty_like_layout(reduced),
    )
    if kernel is None:
        if reduced.numel and reduced.device.runtime.computes:
            mean.fill_(math.nan)
            rstd.fill_(math.nan)
        return out, mean, rstd
    if is_rough:
        input, weight, bias = (None if t is None else contiguous(t) for t in (input, weight, bias))
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
    kernel(described, *places, eps)
    return out, mean, rstd


def _plan_gradients(key):
    """(layouts of the gradients, kernel, description, layout of tallies, chunks, is_rough)."""
    name, g, layout, statistics, weight, bias, needs = key
    layouts, wanted = gradients_of(dense_like(layout), weight, bias, needs)
    if not has_work(layout) or not wanted:
        return layouts, None, b"", None, 0, False
    rows = statistics.numel
    n = layout.numel // rows
    described, chunks = along_rows(rows, n)
    compute = compute_dtype(layout.dtype)
    direct = chunks == 1 and not any(x is not None and x.dtype is not compute for x in layouts[1:])
    tally = None if direct else vector_layout(chunks * n, compute, layout.device)
    codes = (layout.dtype.code,)
    if name == "layer_norm_backward":
        codes += (statistics.dtype.code,) * 2
    kernel = row_kernel(layout, "rows", name, *codes, weight is not None, wanted)
    return layouts, kernel, described, tally, chunks, _is_rough(g, layout, statistics, weight)


ROW_GRADIENTS = Plans(_plan_gradients)


def _gradients(name, g, input, statistics, weight, bias, needs):
    """Gradients of a row program: dx, and the tallies of dw and db added up."""
    layouts, kernel, described, tally, chunks, is_rough = ROW_GRADIENTS[
        name,
        g._layout,
        input._layout,
        statistics[0]._layout,
        None if weight is None else weight._layout,
        bias,
        needs,
    ]
    result = [None if x is None else empty_like_layout(x) for x in layouts]
    if kernel is None:
        return no_gradients(result, input._layout.device.runtime)
    operands = [g, input, *statistics]
    if weight is not None:
        operands.append(weight)
    if is_rough:
        operands = [contiguous(t) for t in operands]
    outs = [t for t in result[1:] if t is not None]
    tallies = outs if tally is None else [empty_like_layout(tally) for _ in outs]
    places = [] if result[0] is None else [result[0]._storage.pointer]
    places += [t._storage.pointer for t in tallies]
    kernel(described, *places, *[t._storage.pointer + t._offset for t in operands])
    if tally is not None and outs:
        total_tallies(outs, tallies, chunks)
    return result


@launches_kernel("layer_norm_backward")
def _layer_norm_backward(g, input, normalized_shape, mean, rstd, weight, bias, needs, eps):
    return _gradients("layer_norm_backward", g, input, (mean, rstd), weight, bias, tuple(needs))


# -- rms_norm --------------------------------------------------------------------------------------


def _plan_rms_norm(key):
    """As `_plan_layer_norm`."""
    layout, normalized_shape, weight = key
    _check_normalized(layout, normalized_shape, separator="")
    n = math.prod(normalized_shape)
    reduced = _reduced(layout, normalized_shape, n, compute_dtype(layout.dtype))
    if not has_work(layout):
        return dense_like(layout), reduced, None, b"", False
    kernel = row_kernel(layout, "rows", "rms_norm", layout.dtype.code, weight is not None)
    described = along_rows(layout.numel // n, n)[0]
    return dense_like(layout), reduced, kernel, described, _is_rough(layout, weight)


RMS_NORMS = Plans(_plan_rms_norm)


@launches("rms_norm_rows")
def rms_norm_rows(input, normalized_shape, weight, eps):
    """(result, 1 / root of the mean square of each row)."""
    weights = None if weight is None else weight._layout
    layout, reduced, kernel, described, is_rough = RMS_NORMS[
        input._layout, normalized_shape, weights
    ]
    out, rstd = empty_like_layout(layout), empty_like_layout(reduced)
    if kernel is not None:
        if is_rough:
            input, weight = contiguous(input), None if weight is None else contiguous(weight)
        places = [out._storage.pointer, rstd._storage.pointer, address(input)]
        if weight is not None:
            places.append(address(weight))
        kernel(described, *places, eps)
    return out, rstd


@launches_kernel("rms_norm_backward")
def _rms_norm_backward(g, input, normalized_shape, rstd, weight, needs, eps):
    return _gradients("rms_norm_backward", g, input, (rstd,), weight, None, tuple(needs))
