"""Launching scans: cumsum, cumprod, cummax, cummin and logcumsumexp along a dimension.

A contiguous tensor is outer x n x inner; with inner 1 the kernel scans rows (long ones in blocks of
a fixed size), else columns. Kernels: `codegen/templates/scans.py`; table rows: `ops/scans.py`.
"""

from math import prod

from flambeau import _dtype as d
from flambeau import errors, return_types
from flambeau._layout import dense_layout, wrap_dim
from flambeau._memory_format import contiguous_format
from flambeau.codegen.descriptions_places import ScanColumns, ScanRows
from flambeau.eager.copying import filled, to_copy
from flambeau.eager.cuda_sampling import is_cuda
from flambeau.eager.launching import LAUNCHERS, call_row, launches, overwrite
from flambeau.eager.planned import idle, launch, planned
from flambeau.eager.rows import address, dense_like, dimension, has_work, vector_layout
from flambeau.ops.support import GROUPS, refuse_complex32
from flambeau.ops.table import public

BLOCK = 1 << 15  # elements of a long row that a chunk scans
LONG = 1 << 17
GPU_BLOCK, GPU_LONG = 1 << 13, 1 << 14  # the same on a GPU, unless there are rows enough
ENOUGH = 1 << 9
# facts of codegen/gpu/chained.py
THREADS, VECTORS, LINE, STRETCH, STATE = 256, 8, 16, 64, 4
CHAINED = (d.float32, d.float64, d.float16, d.bfloat16, d.int64, d.int32, d.int16, d.int8, d.uint8)


def _plan_scan(name, layout, dim, *dtypes):
    """(layouts of the results, kernel, description, layout of totals).

    Only rows of several blocks need totals.
    """
    layout, dim = dense_like(layout), wrap_dim(dim, layout.ndim)
    shape, device = layout.sizes, layout.device
    layouts = [layout if t is layout.dtype else dense_layout(shape, t, device) for t in dtypes]
    if not has_work(layout):
        return *idle(*layouts), None
    if shape:
        refuse_complex32(f"{name}_out_cpu", layouts[0])
    n = shape[dim] if shape else 1
    inner = prod(shape[dim + 1 :])
    outer, totals = layout.numel // (n * inner), None
    key = name, layout.dtype.code, tuple([t.code for t in dtypes])
    if inner > 1:
        build, per_group = "scans:build_scan_columns", max(64, BLOCK // n & -64)
        groups = -(-inner // per_group)
        words = ScanColumns(outer * groups, n, inner, groups, per_group)
    else:
        build, blocks, block = "scans:build_scan_rows", 1, n
        on_gpu = is_cuda(device)
        if on_gpu and n >= GPU_LONG and outer < ENOUGH and layout.dtype in CHAINED:
            return _plan_chain(layouts, name, key, outer, n, layout.itemsize)
        if (n >= GPU_LONG and outer < ENOUGH) if on_gpu else n >= LONG:
            block = GPU_BLOCK if on_gpu else BLOCK
            blocks = -(-n // block)
            totals = vector_layout(2 * outer * blocks, d.int64, device)
        pieces, per_chunk = outer * blocks, max(1, BLOCK // block)
        words = ScanRows(-(-pieces // per_chunk), pieces, n, block, blocks, per_chunk)
    *_, kernel, desc = launch(layouts, words, name, build, *key)
    if totals is not None:
        count = device.runtime.kernel(name, "scans:build_scan_totals", *key)
        kernel, desc = _in_blocks, (count, kernel, desc)
    return *layouts, kernel, desc, totals


def _plan_chain(layouts, name, key, rows, n, item):
    """The same for long rows on a GPU: a tile per group of threads, which tell each other."""
    block = THREADS * VECTORS * min(8, LINE // item)
    blocks = -(-n // block)
    words = ScanRows(1, rows * blocks, n, block, blocks, 1)
    *_, kernel, desc = launch(layouts, words, name, "chained:build_scan", *key)
    slots = rows * (blocks + -(-blocks // STRETCH))
    room = vector_layout(1 + slots * STATE, d.int64, layouts[0].device)
    return *layouts, _chained, (kernel, desc, room), None


def _chained(plan, *places):
    """The kernel of long rows on a GPU, with room to publish totals."""
    kernel, desc, room = plan
    *given, _ = places
    memory = filled(room, 0)
    kernel(desc, *given, address(memory))


def _in_blocks(plan, *places):
    """The kernel of long rows: totals of blocks, then the scan."""
    count, kernel, desc = plan
    *_, source, totals = places
    count(desc, totals, source)
    kernel(desc, *places)


@planned(None, "name, input: dense, dim, dtype", room=True)
def _scan(name, input, dim, dtype):
    return _plan_scan(name, input, dim, dtype)


@planned(None, "name, input: dense, dim", "values, indices", room=True)
def _scan_places(name, input, dim):
    return _plan_scan(name, input, dim, input.dtype, d.int64)


_NOT_SUMMED = frozenset(("bool", "wide", "float8"))


def _accumulated(name, input, dim, dtype):
    if dtype is None:
        dtype = d.int64 if input.dtype.category < d.FLOATING else input.dtype
    if GROUPS[dtype] in _NOT_SUMMED and input.ndim and input._layout.numel:
        raise errors.not_implemented(f"{name}_out_cpu", dtype)
    if input.dtype is not dtype and not (input.dtype.category < d.FLOATING and dtype is d.int64):
        dimension(input, dim)
        input = to_copy(input, dtype, None, contiguous_format)
    return _scan(name, input, dim, dtype)


@launches("cumsum")
def cumsum(input, dim, dtype):
    return _accumulated("cumsum", input, dim, dtype)


@launches("cumprod")
def cumprod(input, dim, dtype):
    return _accumulated("cumprod", input, dim, dtype)


def _in_place(op, bound):
    """cumsum_ and cumprod_: the result takes the place of the input."""
    input, dtype = bound["input"], bound["dtype"]
    bound["dtype"] = input.dtype
    if dtype is not None and dtype is not input.dtype:
        raise RuntimeError(
            f"Bad in-place call: input tensor dtype {input.dtype.cpp_name} and output "
            f"tensor dtype {dtype.cpp_name} should match"
        )
    return overwrite(input, lambda: call_row(op, bound))


LAUNCHERS |= {"cumsum_": _in_place, "cumprod_": _in_place}


def _extreme(name, input, dim):
    if not input._layout.numel or not input.ndim:  # dtypes do not count, nor dimensions of nothing
        if not input.ndim:
            dimension(input, dim)
        indices = filled(dense_layout(input._layout.sizes, d.int64, input.device), 0)
        return getattr(return_types, name)((input.clone(), indices))
    dimension(input, dim)
    if input.dtype.is_complex or input.dtype in (d.uint16, d.uint32, d.uint64):
        raise errors.not_implemented(f"{name}_cpu", input.dtype)
    return getattr(return_types, name)(_scan_places(name, input, dim))


@launches("cummax")
def cummax(input, dim):
    return _extreme("cummax", input, dim)


@launches("cummin")
def cummin(input, dim):
    return _extreme("cummin", input, dim)


@launches("logcumsumexp")
def logcumsumexp(input, dim):
    at = dimension(input, dim)
    refuse_complex32("logcumsumexp_out_cpu", input)
    if input.dtype.is_complex and input._layout.numel:
        return _complex_logcumsumexp(input.detach(), at)
    if not input.dtype.is_floating_point and (input._layout.numel or not input.dtype.is_complex):
        raise errors.not_implemented("logcumsumexp_out_cpu", input.dtype)
    return _scan("logcumsumexp", input, dim, input.dtype)


def _complex_logcumsumexp(x, dim):
    """One element after the other: which multiple of 2 pi a logarithm has depends on the order."""
    if not x.ndim:
        return x.clone()
    add, pieces = public("logaddexp"), [x.select(dim, 0)]
    for k in range(1, x.shape[dim]):
        pieces.append(add(x.select(dim, k), pieces[-1]))
    return public("stack")(pieces, dim)
