"""Launching scans: cumsum, cumprod, cummax, cummin and logcumsumexp along a dimension.

A contiguous tensor is outer x n x inner; with inner 1 the kernel scans rows (long ones in blocks of
a fixed size), else columns. Kernels: `codegen/templates/scans.py`; table rows: `ops/scans.py`.
"""

import math

from flambeau import _dtype as d
from flambeau import errors, return_types
from flambeau._layout import dense_layout
from flambeau._tensor import empty_like_layout, empty_tensor
from flambeau.eager import outs
from flambeau.eager.launching import FRONTS, LAUNCHERS, call_row, launches
from flambeau.eager.copying import copy_into
from flambeau.eager.kernels import load_kernel, pool
from flambeau.eager.plan import MAX_PLANS
from flambeau.eager.rows import contiguous, dimension, is_computed
from flambeau.runtime.cpu import words

_kernels: dict = {}
_plans: dict = {}
BLOCK = 1 << 15  # elements of a long row that a chunk scans
LONG = 1 << 17


def kernel(kind, name, source, targets):
    key = (kind, name, source, targets)
    found = _kernels.get(key)
    if found is None:
        from flambeau.codegen.templates import scans  # with llvmlite, on first need

        codes = tuple(t.code for t in targets)
        ir = getattr(scans, "build_" + kind)(name, source.code, codes)
        found = _kernels[key] = load_kernel(ir, name)
    return found


def scan(name, input, dim, dtypes):
    """New tensors with the scan of input along dim."""
    layout = input._layout
    plan = _plans.get((name, layout, dim, dtypes))
    if plan is None:
        given, dim = dim, dimension(input, dim)
        if not is_computed(input):
            return tuple(empty_tensor(input.shape, t, input.device) for t in dtypes)
        if not layout.is_contiguous:
            return scan(name, contiguous(input), dim, dtypes)
        if len(_plans) > MAX_PLANS:
            _plans.clear()
        plan = _plans[name, layout, given, dtypes] = _plan(name, layout, dim, dtypes)
    layouts, run, totals, description, owner = plan
    outs = tuple([empty_like_layout(x) for x in layouts])
    places = [o._storage.pointer for o in outs]
    if totals is None:
        run(description, *places, input._storage.pointer + input._offset)
        return outs
    source = input._storage.pointer + input._offset
    _sums, at = words([0] * (2 * owner[1] if totals else 0))
    if totals:
        totals(description, at, source)
    run(description, *places, source, at)
    return outs


def _plan(name, layout, dim, dtypes):
    """(layouts of the results, kernel, kernel of the totals, description).

    Columns need no totals (None), rows of one block neither (False).
    """
    shape, dtype = layout.shape, layout.dtype
    n = shape[dim] if shape else 1
    inner = math.prod(shape[dim + 1 :])
    outer = layout.numel // (n * inner)
    layouts = tuple(dense_layout(shape, t, layout.device) for t in dtypes)
    if inner > 1:
        run, totals = kernel("scan_columns", name, dtype, dtypes), None
        per_group = max(64, BLOCK // n & -64)
        groups = -(-inner // per_group)
        owner, at = words([outer * groups, outer, n, inner, groups, per_group])
    else:
        run, totals = kernel("scan_rows", name, dtype, dtypes), False
        blocks, block = (1, n) if n < LONG else (-(-n // BLOCK), BLOCK)
        if blocks > 1:
            totals = kernel("scan_totals", name, dtype, dtypes)
        pieces, per_chunk = outer * blocks, max(1, BLOCK // block)
        owner, at = words([-(-pieces // per_chunk), pieces, n, block, blocks, per_chunk])
    if owner[0] > 1:
        pool().ensure_workers()
    return layouts, run, totals, at, owner


def _accumulated(name, input, dim, dtype):
    if dtype is None:
        dtype = d.int64 if input.dtype.category < d.FLOATING else input.dtype
    if input.dtype is not dtype and not (input.dtype.category < d.FLOATING and dtype is d.int64):
        dimension(input, dim)
        cast = empty_tensor(input.shape, dtype, input.device)
        copy_into(cast, input)
        input = cast
    return scan(name, input, dim, (dtype,))[0]


@launches("cumsum")
def cumsum(input, dim, dtype):
    return _accumulated("cumsum", input, dim, dtype)


@launches("cumprod")
def cumprod(input, dim, dtype):
    return _accumulated("cumprod", input, dim, dtype)


def _in_place(op, bound):
    """cumsum_ and cumprod_: the result takes the place of the input."""
    input, dtype = bound["input"], bound["dtype"]
    if dtype is not None and dtype is not input.dtype:
        raise RuntimeError(
            f"Bad in-place call: input tensor dtype {input.dtype.cpp_name} and output "
            f"tensor dtype {dtype.cpp_name} should match"
        )
    return input.copy_(call_row(op, bound))


LAUNCHERS |= {"cumsum_": _in_place, "cumprod_": _in_place}


def _in_dtype_of_out(op, function, args, kwargs, out):
    """cumsum(x, 0, out=o) computes in the dtype of o; another one must not be asked for."""
    dtype = kwargs.pop("dtype", None)
    if dtype is not None and dtype is not out.dtype:
        raise outs.not_exact(dtype, out.dtype)
    return function(*args, out=out, dtype=out.dtype, **kwargs)


FRONTS |= dict.fromkeys(("cumsum", "cumprod"), outs.checked(_in_dtype_of_out))
FRONTS |= dict.fromkeys(("cummax", "cummin", "logcumsumexp"), outs.exact(outs.not_expected))


def _extreme(name, input, dim):
    dimension(input, dim)
    if input.dtype.is_complex or input.dtype in (d.uint16, d.uint32, d.uint64):
        raise errors.not_implemented(f"{name}_cpu", input.dtype)
    return getattr(return_types, name)(scan(name, input, dim, (input.dtype, d.int64)))


@launches("cummax")
def cummax(input, dim):
    return _extreme("cummax", input, dim)


@launches("cummin")
def cummin(input, dim):
    return _extreme("cummin", input, dim)


@launches("logcumsumexp")
def logcumsumexp(input, dim):
    dimension(input, dim)
    if not input.dtype.is_floating_point:
        raise errors.not_implemented("logcumsumexp_out_cpu", input.dtype)
    return scan("logcumsumexp", input, dim, (input.dtype,))[0]
