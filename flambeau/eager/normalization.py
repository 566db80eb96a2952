"""Plans of layer_norm and rms_norm, forward and backward, and what all normalisations share.

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
from flambeau.eager.planned import constant, idle, planned
from flambeau.eager.rows import dense_like, has_work, vector_layout
from flambeau.eager.softmax import GRAIN, along_rows, row_by_row, row_kernel
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


def plan_totals(count, layout, pieces):
    """(kernel, description) that adds up tallies of so many pieces into so many results."""
    per_chunk = max(64, (GRAIN // pieces) & -64)
    words = Tallies(-(-layout.numel // per_chunk), pieces, layout.numel, per_chunk)
    build = "rows_columns:build_tally_totals"
    kernel = layout.device.runtime.kernel("tally_totals", build, layout.dtype.code, count)
    return kernel, packed(words)


def gradients_of(dense, weight, bias, needs):
    """(layouts of the gradients of input, weight and bias, None if not needed; names of those)."""
    like = weight if weight is not None else bias
    parameter = None if like is None else dense_like(like)
    layouts = [x if need else None for x, need in zip((dense, parameter, parameter), needs)]
    return layouts, tuple([n for n, need in zip(("dx", "dw", "db"), needs) if need])


def tallied(layouts, kernel, described, tally, pieces):
    """The plan of gradients of which those of parameters are sums of so many tallies."""
    outs = [x for x in layouts[1:] if x is not None]
    if not outs:
        return *layouts, kernel, described
    lead = len([x for x in layouts if x is not None]) - len(outs)
    total = plan_totals(len(outs), outs[0], pieces)
    return *layouts, _add_tallies, (kernel, described, lead, len(outs), tally, *total)


def _add_tallies(plan, *places):
    kernel, described, lead, count, layout, total, total_described = plan
    tallies = [empty_like_layout(layout) for _ in range(count)]
    at, last = [t._storage.pointer for t in tallies], lead + count
    kernel(described, *places[:lead], *at, *places[last:])
    total(total_described, *places[lead:last], *at)


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


@planned(
    "native_layer_norm",
    "input: dense, normalized_shape, weight: dense?, bias: dense?, eps: number",
    "out, mean, rstd", left_out=True,
)  # fmt: skip
def native_layer_norm(input, normalized_shape, weight, bias):
    _check_normalized(input, normalized_shape)
    _check_parameter("weight", weight, normalized_shape)
    _check_parameter("bias", bias, normalized_shape)
    parameter, n = check_mixed(input, weight, bias), math.prod(normalized_shape)
    if not input.dtype.is_floating_point:
        raise errors.not_implemented("LayerNormKernelImpl", input.dtype)
    reduced = _reduced(input, normalized_shape, n, parameter)
    results = dense_like(input), reduced, reduced
    if not has_work(input):
        return constant(math.nan, results)
    codes = input.dtype.code, parameter.code, parameter.code
    given = weight is not None, bias is not None
    kernel = row_kernel(input, "rows", "layer_norm", *codes, *given)
    return *results, kernel, row_by_row(input.numel // n, n)


def _plan_gradients(name, input, statistics, weight, bias, needs):
    """Gradients of a row program: dx, and the tallies of dw and db added up."""
    layouts, wanted = gradients_of(dense_like(input), weight, bias, needs)
    if not has_work(input) or not wanted:
        return constant(0, layouts, left_out=True)
    rows = statistics.numel
    n = input.numel // rows
    described, chunks = along_rows(rows, n, input.device)
    compute = compute_dtype(input.dtype)
    codes = (input.dtype.code,)
    if name == "layer_norm_backward":
        codes += (statistics.dtype.code,) * 2
    kernel = row_kernel(input, "rows", name, *codes, weight is not None, wanted)
    if chunks == 1 and not any(x is not None and x.dtype is not compute for x in layouts[1:]):
        return *layouts, kernel, described
    tally = vector_layout(chunks * n, compute, input.device)
    return tallied(layouts, kernel, described, tally, chunks)


@planned(
    "layer_norm_backward", "g: dense, input: dense, normalized_shape, mean: dense, rstd: dense, "
    "weight: dense?, bias, needs, eps", "dx?, dw?, db?", backward=True, left_out=True,
)  # fmt: skip
def _layer_norm_backward(g, input, normalized_shape, mean, rstd, weight, bias, needs, eps):
    return _plan_gradients("layer_norm_backward", input, mean, weight, bias, needs)


# -- rms_norm --------------------------------------------------------------------------------------


@planned(
    "rms_norm_rows", "input: dense, normalized_shape, weight: dense?, eps: number", "out, rstd",
    left_out=True,
)  # fmt: skip
def rms_norm_rows(input, normalized_shape, weight):
    """(result, 1 / root of the mean square of each row)."""
    _check_normalized(input, normalized_shape, separator="")
    n = math.prod(normalized_shape)
    results = dense_like(input), _reduced(input, normalized_shape, n, compute_dtype(input.dtype))
    if not has_work(input):
        return idle(*results)
    kernel = row_kernel(input, "rows", "rms_norm", input.dtype.code, weight is not None)
    return *results, kernel, row_by_row(input.numel // n, n)


@planned(
    "rms_norm_backward", "g: dense, input: dense, normalized_shape, rstd: dense, weight: dense?, "
    "needs, eps", "dx?, dw?", backward=True, left_out=True,
)  # fmt: skip
def _rms_norm_backward(g, input, normalized_shape, rstd, weight, needs, eps):
    return _plan_gradients("rms_norm_backward", input, rstd, weight, None, needs)
