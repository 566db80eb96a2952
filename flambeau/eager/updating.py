"""One native call for many tensors: optimizer steps, total norms, clipping.

`update` runs a rule of ops/updates.py over lists of tensors, column by column; `norm_of_all` joins
the norms of all elements, `scale_all` clips. The cutting into pieces is planned once per list of
layouts, the pointers are filled in at every call. Kernels are in codegen/templates/updates.py.
"""

import struct
from array import array

from flambeau._dtype import float64
from flambeau._layout import dense_layout, is_dense_in_some_order
from flambeau._tensor import empty_like_layout
from flambeau.eager.copying import copy_into
from flambeau.eager.kernels import pool
from flambeau.eager.plans import Plans
from flambeau.ops.table import public
from flambeau.ops.updates import UPDATES

PIECE = 1 << 13  # elements of a tensor that are walked in one go
CHUNK = 1 << 16  # elements per chunk, more or less

_REAL = {"c64": "f32", "c128": "f64"}


def _build(name, codes, flags):
    from flambeau.codegen.gpu import updates as on_gpus  # with llvmlite, on first need
    from flambeau.codegen.target import current
    from flambeau.codegen.templates import updates

    build = (on_gpus if current().gpu else updates).build_update
    return build(UPDATES[name], codes, flags)


def _table(key):
    """Words for tensors of some layouts: (where the pointers start, chunks, words)."""
    layouts, columns = key
    found = _cut([_numbers(layout) for layout in layouts], columns)
    if found[1] > 1:
        pool().ensure_workers()
    return found


_TABLES = Plans(_table, by_default=False)


def _numbers(layout):
    return layout.numel * (2 if layout.dtype.is_complex else 1)


def _cut(sizes, columns):
    firsts, pieces, filled = [0], [], 0
    for tensor, size in enumerate(sizes):
        for begin in range(0, size, PIECE):
            pieces += (tensor, begin)
            filled += min(PIECE, size - begin)
            if filled >= CHUNK:
                firsts.append(len(pieces) // 2)
                filled = 0
    if filled or len(firsts) == 1:
        firsts.append(len(pieces) // 2)
    chunks = len(firsts) - 1
    start = 4 + len(firsts) + len(pieces)
    words = [chunks, PIECE, start, len(sizes), *firsts, *pieces, *sizes]
    words += [0] * (columns * len(sizes))
    return start + len(sizes), chunks, array("q", words)


def _flat(layout):
    """Do the elements fill one piece of memory, in whatever order of dimensions?"""
    return layout.is_contiguous or is_dense_in_some_order(layout)


def _parallel(columns):
    """Is element k of every tensor of a row at the same place in memory?"""
    lead = columns[0]
    for t in lead:
        if not _flat(t._layout):
            return False
    for column in columns[1:]:
        for t, other in zip(column, lead):
            if t._layout is not other._layout and t._layout.strides != other._layout.strides:
                return False
    return True


def update(name, columns, numbers=(), flags=()):
    """Run a rule in place. columns: a list of tensors (or None) per tensor of the rule.

    The tensors of a row have one shape, those of a column one dtype. Numbers and flags come in the
    order in which the rule names them.
    """
    present = [c for c in columns if c is not None]
    if not _parallel(present):
        return _update_copies(name, columns, numbers, flags)
    lead = present[0]
    layouts = tuple([t._layout for t in lead])
    first, _, words = _TABLES[layouts, len(present)]
    words = words[:]  # another thread may be using the table
    count = len(lead)
    for column in present:
        words[first : first + count] = array("q", [t._storage.pointer + t._offset for t in column])
        first += count
    codes = tuple([None if c is None else _code(c[0]) for c in columns])
    runtime = layouts[0].device.runtime
    kernel = runtime.kernel(name, _build, name, codes, flags)
    kernel(runtime.given(words), *numbers)
    for t in lead:
        t._storage.version += 1


def _code(t):
    """The dtype in memory; complex numbers are pairs of reals to a rule."""
    code = t._layout.dtype.code
    return _REAL.get(code, code)


def _update_copies(name, columns, numbers, flags):
    """The same for tensors with gaps or different orders of dimensions: on dense copies."""
    dense = [None if c is None else [_dense(t) for t in c] for c in columns]
    update(name, dense, numbers, flags)
    for column, copies in zip(columns, dense):
        for t, copy in zip(column or (), copies or ()):
            copy_into(t, copy)
    for t in columns[0]:
        t._storage.version += 1


def _dense(t):
    out = empty_like_layout(dense_layout(t.shape, t.dtype, t.device))
    copy_into(out, t)
    return out


# -- norms ----------------------------------------------------------------------------------------

_PARTS = struct.Struct("qq")
_KINDS = {2.0: "2", 1.0: "1", 0.0: "0", float("inf"): "max", float("-inf"): "min"}


def _norm_elsewhere(tensors, power, dtype):
    """The same where results of kernels do not lie in memory of the host."""
    norm = public("linalg_vector_norm")
    parts = public("stack")([norm(t, power) for t in tensors])
    return (parts.sum() if power == 0 else norm(parts, power)).to(dtype)


def norm_of_all(tensors, norm_type, dtype):
    """The norm of the elements of all tensors (of one dtype) as if they were one vector."""
    power = float(norm_type)
    kind = _KINDS.get(power, "p")
    if not tensors[0].device.runtime.is_host:
        return _norm_elsewhere(tensors, power, dtype)
    tensors = [t if _flat(t._layout) else _dense(t) for t in tensors]
    layouts = tuple([t._layout for t in tensors])
    first, chunks, words = _TABLES[layouts, 1]
    words = words[:]
    words[first:] = array("q", [t._storage.pointer + t._offset for t in tensors])
    place = layouts[0].device
    runtime = place.runtime
    parts = empty_like_layout(dense_layout((chunks,), float64, place))
    total = empty_like_layout(dense_layout((), dtype, place))
    kernel = runtime.kernel("norm", "updates:build_norm", _code(tensors[0]), kind)
    kernel(runtime.given(words), parts._storage.pointer, power)
    kernel = runtime.kernel("norm", "updates:build_norm_total", dtype.code, kind)
    kernel(_PARTS.pack(1, chunks), parts._storage.pointer, total._storage.pointer, power)
    return total


def total_norm(tensors, norm_type):
    """The same as a Python number."""
    return norm_of_all(tensors, norm_type, float64).item()


def scale_all(tensors, factor):
    """Multiply tensors (of one dtype) by one without dimensions; nothing is done if that is 1."""
    if not all(_flat(t._layout) for t in tensors):
        for t in tensors:
            t.mul_(factor)
        return
    layouts = tuple([t._layout for t in tensors])
    first, _, words = _TABLES[layouts, 1]
    words = words[:]
    words[first:] = array("q", [t._storage.pointer + t._offset for t in tensors])
    runtime = layouts[0].device.runtime
    codes = _code(tensors[0]), factor._layout.dtype.code
    kernel = runtime.kernel("scaled", "updates:build_scaled", *codes)
    kernel(runtime.given(words), factor._storage.pointer + factor._offset)
    for t in tensors:
        t._storage.version += 1
