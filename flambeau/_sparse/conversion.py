"""Between dense tensors, coordinates and compressed rows; coalescing; elements at given places."""

from flambeau import _dtype as d
from flambeau._layout import Size
from flambeau._memory_format import sparse_coo, sparse_csr, strided
from flambeau._sparse.tensors import (
    BLOCKED,
    BY_ROWS,
    COMPRESSED,
    SHOWN,
    Coo,
    Pattern,
    bare,
    compressed,
    coo,
    coordinates,
    counting,
    dense_dim,
    flat_places,
    is_coo,
    is_sparse,
    kind_of,
    nnz,
    over,
    parts_of,
    pattern_of,
    sparse_dim,
    values_of,
)
from flambeau.ops.table import public

# -- coordinates -----------------------------------------------------------------------------------


def is_coalesced(t):
    """Are coordinates sorted, and is each there once?"""
    if not is_coo(t):
        raise RuntimeError(
            f"is_coalesced expected sparse coordinate tensor layout but got {SHOWN[kind_of(t)]}"
        )
    return parts_of(t).coalesced


def coalesce(t):
    """Coordinates sorted and each there once; values that met are added."""
    if not is_coo(t):
        raise RuntimeError(
            f"coalesce expected sparse coordinate tensor layout but got {SHOWN[kind_of(t)]}"
        )
    parts = parts_of(t)
    if parts.coalesced:
        return t
    if nnz(t) < 2:
        return over(pattern_of(t), values_of(t), "CoalesceBackward0", coalesced=True)
    shape = t.shape[: sparse_dim(t)]
    _check_inside(parts.indices, shape)
    flat = flat_places(parts.indices, shape)
    flat, order = flat.sort(stable=True)
    values = values_of(t).index_select(0, order)
    first = public("ones")(flat.shape[0], dtype=d.bool_, device=flat.device)
    first[1:] = flat[1:] != flat[:-1]
    if not bool(first.all()):
        group = first.cumsum(0) - 1
        flat = flat[first]
        values = added(values, group, flat.shape[0])
    return coo(coordinates(flat, shape), values, t.shape, True, "CoalesceBackward0")


def added(values, group, count):
    """Sums of values by group; booleans are joined by or."""
    if values.dtype is d.bool_:
        return added(values.to(d.uint8), group, count) != 0
    return values.new_zeros((count, *values.shape[1:])).index_add(0, group, values)


def _check_inside(indices, shape):
    if indices.numel():
        for row, size in zip(indices, shape):
            if int(row.min()) < 0 or int(row.max()) >= size:
                raise RuntimeError(
                    "found an index that is out of bounds for the size of a sparse tensor"
                )


def row_pointers(rows, count):
    """Where each row begins among sorted rows; one more for the end."""
    return public("searchsorted")(rows, public("arange")(count + 1, device=rows.device))


def rows_from(pointers, count):
    """The row of each element, the converse."""
    lengths = pointers.diff()
    numbers = public("arange")(lengths.shape[0], device=pointers.device, dtype=pointers.dtype)
    return numbers.repeat_interleave(lengths, output_size=count)


# -- one kind to another ---------------------------------------------------------------------------


def to_coo(t):
    """Any sparse matrix as coordinates."""
    if is_coo(t):
        return t
    parts, kind = parts_of(t), t._layout.kind
    values, count = values_of(t), nnz(t)
    pieces, places = [], parts.plain
    batch = places.shape[:-1]
    for number in _numbers(batch):
        pointers = parts.compressed[number] if batch else parts.compressed
        major = rows_from(pointers, count)
        minor = places[number] if batch else places
        rows, columns = (major, minor) if kind in BY_ROWS else (minor, major)
        leading = [rows.new_full((count,), n) for n in number]
        pieces.append(public("stack")([*leading, rows.long(), columns.long()]))
    indices = public("cat")(pieces, 1) if pieces else places.new_zeros((2 + len(batch), 0))
    values = values.reshape(indices.shape[1], *values.shape[len(batch) + 1 :])
    if kind in BLOCKED:
        indices, values = _unblocked(indices, values)
    out = coo(indices, values, t.shape, not batch and kind is sparse_csr)
    return out if parts_of(out).coalesced else coalesce(out)


def _numbers(batch):
    found: list[tuple] = [()]
    for size in batch:
        found = [(*head, k) for head in found for k in range(size)]
    return found


def _unblocked(indices, values):
    """Blocks of elements as elements."""
    count, high, wide = values.shape[:3]
    rows = (indices[-2] * high)[:, None, None] + counting(high, indices)[None, :, None]
    columns = (indices[-1] * wide)[:, None, None] + counting(wide, indices)[None, None, :]
    shape = (count, high, wide)
    spread = [row[:, None, None].expand(shape).reshape(-1) for row in indices[:-2]]
    spread += [part.expand(shape).reshape(-1) for part in (rows, columns)]
    return public("stack")(spread), values.reshape(count * high * wide, *values.shape[3:])


def to_compressed(t, kind, blocksize=None):
    """Any matrix by rows or columns, in blocks if so asked."""
    if kind_of(t) is kind:
        return t
    if kind in BLOCKED:
        return _blocked(t, kind, blocksize)
    t = coalesce(to_coo(t)) if is_sparse(t) else to_coordinates(t)
    if sparse_dim(t) > 2:
        return _batched(t, kind)
    if sparse_dim(t) != 2:
        raise RuntimeError(
            f"tensor dimensionality must be sum of batch, base, and dense dimensionalities; only "
            f"matrices can be converted to {SHOWN[kind]}"
        )
    indices, values = parts_of(t).indices, values_of(t)
    rows, columns = indices[0], indices[1]
    count = t.shape[0]
    if kind is not sparse_csr:
        order = columns.sort(stable=True)[1]
        rows, columns, values = columns[order], rows[order], values.index_select(0, order)
        count = t.shape[1]
    return compressed(kind, row_pointers(rows, count), columns.contiguous(), values, t.shape)


def _batched(t, kind):
    """Several matrices, each with as many elements as the others."""
    indices, values = parts_of(t).indices, values_of(t)
    sizes = t.shape[: sparse_dim(t)]
    batch = tuple(sizes[:-2])
    which = flat_places(indices[:-2], batch)
    total = Size(batch).numel()
    each = which.bincount(minlength=total)
    count = int(each[0]) if total else 0
    if not bool((each == count).all()):
        raise RuntimeError("Expect the same number of specified elements per batch.")
    major, minor = (indices[-2], indices[-1]) if kind in BY_ROWS else (indices[-1], indices[-2])
    high = sizes[-2] if kind in BY_ROWS else sizes[-1]
    key = which * high + major
    if kind not in BY_ROWS:
        order = key.sort(stable=True)[1]
        key, minor, values = key[order], minor[order], values.index_select(0, order)
    pointers = row_pointers(key, total * high)
    starts = pointers[:-1].reshape(*batch, high)
    ends = pointers[1:].reshape(*batch, high)[..., -1:]
    base = starts[..., :1]
    crow = public("cat")([starts - base, ends - base], -1)
    values = values.reshape(*batch, count, *values.shape[1:])
    return compressed(kind, crow, minor.reshape(*batch, count), values, t.shape)


def _blocked(t, kind, blocksize):
    if blocksize is None:
        raise RuntimeError(
            f"to_sparse_{kind.name[-3:]}: conversion from {SHOWN[kind_of(t)]} to {SHOWN[kind]} "
            "needs blocksize"
        )
    high, wide = blocksize
    if high <= 0 or wide <= 0 or t.shape[0] % high or t.shape[1] % wide:
        raise RuntimeError(
            f"tensor sparse size ({t.shape[0]}, {t.shape[1]}) must be divisible by given blocksize "
            f"({high}, {wide})"
        )
    t = coalesce(to_coo(t)) if is_sparse(t) else to_coordinates(t)
    indices, values = parts_of(t).indices, values_of(t)
    size = t.shape[0] // high, t.shape[1] // wide
    rows, columns = indices[0], indices[1]
    blocks = flat_places(public("stack")([rows // high, columns // wide]), size)
    if kind not in BY_ROWS:
        blocks = (columns // wide) * size[0] + rows // high
    used, which = blocks.unique(return_inverse=True)
    inside = (which * high + rows % high) * wide + columns % wide
    filled = values.new_zeros((used.shape[0] * high * wide, *values.shape[1:]))
    filled = filled.index_add(0, inside, values)
    filled = filled.reshape(used.shape[0], high, wide, *values.shape[1:])
    across = size[1] if kind in BY_ROWS else size[0]
    count = size[0] if kind in BY_ROWS else size[1]
    return compressed(kind, row_pointers(used // across, count), used % across, filled, t.shape)


# -- dense tensors ---------------------------------------------------------------------------------


def to_coordinates(t, dims=None):
    """A dense tensor by the coordinates of what is not zero, along its first dimensions."""
    dims = t.ndim if dims is None else dims
    if not 0 <= dims <= t.ndim or (dims == 0 and t.ndim):
        raise RuntimeError(
            f"sparse_dim argument must be in >= 1 and <= {t.ndim} but got {dims}"
            if t.ndim
            else "sparse_dim must be 0 for a tensor without dimensions"
        )
    there = t.detach() != 0
    if dims < t.ndim:
        there = there.flatten(dims).any(-1)
    shape = t.shape[:dims]
    flat = there.reshape(-1).nonzero()[:, 0]
    values = t.reshape(shape.numel(), *t.shape[dims:]).index_select(0, flat)
    return coo(coordinates(flat, shape), values, t.shape, True, "ToSparseBackward0")


def to_sparse(t, sparse_dims=None, *, layout=None, blocksize=None, dense_dim=None):
    """A tensor by coordinates, or in another sparse layout."""
    if isinstance(blocksize, list):
        blocksize = tuple(blocksize)
    if layout is strided or (layout is not None and not is_layout(layout)):
        raise RuntimeError(
            f"to_sparse: conversion from {SHOWN[kind_of(t)]} to {SHOWN.get(layout)} "
            "is not supported"
        )
    if layout is not None and layout is not sparse_coo:
        return to_compressed(t, layout, blocksize)
    if is_sparse(t):
        return to_coo(t)
    return to_coordinates(t, sparse_dims)


def is_layout(value):
    return value is sparse_coo or value in COMPRESSED


def to_dense(t, dtype=None, *, masked_grad=None):
    """All elements, zeros among them."""
    if not is_sparse(t):
        return t if dtype is None else t.to(dtype)
    if dtype is not None and dtype is not t.dtype:
        t = with_values(t, values_of(t).to(dtype))
    t = to_coo(t)
    dims, parts, values = sparse_dim(t), parts_of(t), values_of(t)
    shape = t.shape[:dims]
    _check_inside(parts.indices, shape)
    flat = flat_places(parts.indices, shape)
    if not dims:
        return values.sum(0)
    return added(values, flat, shape.numel()).reshape(t.shape)


def with_values(t, values, name="MulBackward0"):
    """The same places with other values."""
    return over(pattern_of(t), values, name)


# -- elements at places ----------------------------------------------------------------------------


def picked(t, pattern):
    """Values of any tensor at the places of a pattern, in its order; zero where there are none."""
    if is_sparse(t) and pattern.same(pattern_of(t)):
        return values_of(t)
    if pattern.kind is not sparse_coo:
        return _picked_compressed(t, pattern)
    indices = pattern.parts.indices
    dims = indices.shape[0]
    flat = flat_places(indices, pattern.shape[:dims])
    if not is_sparse(t):
        rows = t.reshape(pattern.shape[:dims].numel(), *pattern.shape[dims:])
        return rows.index_select(0, flat)
    return _found(coalesce(to_coo(t)), flat, pattern.shape)


def _found(t, flat, shape):
    """The same from a coalesced tensor, by a search."""
    dims, values = sparse_dim(t), values_of(t)
    own = flat_places(parts_of(t).indices, shape[:dims])
    if not own.shape[0]:
        return values.new_zeros((flat.shape[0], *values.shape[1:]))
    at = public("searchsorted")(own, flat).clamp(max=own.shape[0] - 1)
    missing = own[at] != flat
    values = values.index_select(0, at)
    return values.masked_fill(missing.reshape(-1, *[1] * (values.ndim - 1)), 0)


def _picked_compressed(t, pattern):
    """The same where a pattern is by rows or columns: its own order, by coordinates."""
    parts = pattern.parts
    if is_sparse(t) and not is_coo(t):
        t = to_coo(t)
    numbered = public("arange")(parts.values.numel(), device=parts.values.device)
    probe = bare(parts._replace(values=numbered.reshape(parts.values.shape)), pattern.shape,
                 pattern.kind)  # fmt: skip
    places = parts_of(to_coo(probe))
    elements = picked(t, Pattern(places, pattern.shape, sparse_coo))
    order = places.values.reshape(-1)
    rows = elements.reshape(-1)
    return rows.new_zeros(rows.shape).index_copy(0, order, rows).reshape(parts.values.shape)


def sparse_mask(t, mask):
    """The elements of a tensor at the places of a sparse one."""
    if not is_sparse(mask):
        raise RuntimeError("sparse_mask: expected mask to have a sparse layout")
    if t.shape != mask.shape:
        raise RuntimeError(
            "sparse_mask(): operands have incompatible sizes; self has size "
            f"{list(t.shape)} but mask has size {list(mask.shape)}"
        )
    return over(pattern_of(mask), picked(t, pattern_of(mask)), "SparseMaskBackward0")


# -- shapes ----------------------------------------------------------------------------------------


def resized(t, shape, dims, dense):
    """In place: another size; elements stay where they are."""
    if not is_coo(t):
        raise RuntimeError("sparse_resize_: expected a tensor of layout Sparse")
    if dims + dense != len(shape):
        raise RuntimeError(
            "'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = "
            f"{len(shape)}, sparse_dim = {dims}, dense_dim = {dense}"
        )
    parts = parts_of(t)
    if nnz(t) and (dims != sparse_dim(t) or dense != dense_dim(t)):
        raise RuntimeError(
            "changing the number of sparse or dense dimensions of a non-empty sparse tensor is not "
            "supported"
        )
    values = parts.values
    if tuple(values.shape[1:]) != tuple(shape[dims:]):
        values = values.new_zeros((nnz(t), *shape[dims:]))
        own = tuple(slice(0, min(a, b)) for a, b in zip(parts.values.shape[1:], shape[dims:]))
        values[(slice(None), *own)] = parts.values[(slice(None), *own)]
    indices = parts.indices
    if dims != indices.shape[0]:
        indices = indices.new_zeros((dims, 0))
    t._layout = bare(Coo(indices, values, parts.coalesced), shape, sparse_coo)._layout
    t._storage.held[0] = Coo(indices, values, parts.coalesced)
    return t


def emptied(shape, dims, dtype, device):
    """A sparse tensor without elements."""
    indices = public("zeros")((dims, 0), dtype=d.int64, device=device)
    values = public("zeros")((0, *shape[dims:]), dtype=dtype, device=device)
    return bare(Coo(indices, values, True), shape, sparse_coo)


def rows_at(rows, places, count, left_out=-1):
    """A sparse matrix of `count` rows: those given, each at its place; without those at one."""
    rows, places = rows.reshape(-1, rows.shape[-1]), places.reshape(-1).long()
    if left_out >= 0:
        kept = (places != left_out).nonzero()[:, 0]
        rows, places = rows.index_select(0, kept), places.index_select(0, kept)
    return coo(places.unsqueeze(0), rows, (count, rows.shape[1]))
