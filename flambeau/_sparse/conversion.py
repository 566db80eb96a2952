"""Between dense tensors, coordinates and compressed rows; coalescing; elements at given places."""

from flambeau import _dtype as d
from flambeau._layout import Size, sparse_layout
from flambeau._memory_format import sparse_coo, sparse_csr, strided
from flambeau._sparse.tensors import (
    BLOCKED,
    BY_ROWS,
    COMPRESSED,
    SHOWN,
    Compressed,
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
    recorded,
    sparse_dim,
    values_of,
    write,
)
from flambeau.autograd.grad_mode import no_grad
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
    """Any sparse matrix as coordinates, in their order."""
    if is_coo(t):
        return t
    found = coordinates_of(t)
    return found if parts_of(found).coalesced else coalesce(found)


def coordinates_of(t):
    """Any sparse matrix as coordinates, its elements in the order that they have."""
    if is_coo(t):
        return t
    with no_grad():
        found = _spelled(t)
    return recorded("ToSparseBackward1", found, (t,), converted_back)


def _spelled(t):
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
    return coo(indices, values, t.shape, kind is sparse_csr)


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


def to_compressed(t, kind, blocksize=None, dense_dim=0):
    """Any matrix by rows or columns, in blocks if so asked; batches of them, too."""
    if kind_of(t) is kind and (blocksize is None or blocksize == blocks_of(t)):
        return t
    with no_grad():
        found = _compressed(t, kind, blocksize, dense_dim)
        if is_sparse(t) and not is_coo(t):
            found = _numbered(found, parts_of(t).plain.dtype)
    word = kind.name.removeprefix("sparse_").capitalize()
    return recorded(f"ToSparse{word}Backward0", found, (t,), converted_back)


def _numbered(t, dtype):
    """The same matrix with places of a dtype."""
    parts = parts_of(t)
    if parts.plain.dtype is dtype:
        return t
    places = parts.compressed.to(dtype), parts.plain.to(dtype)
    return compressed(t._layout.kind, *places, parts.values, t.shape)


def blocks_of(t):
    """The sizes of the blocks of a tensor; None where it has none."""
    if kind_of(t) not in BLOCKED:
        return None
    parts = parts_of(t)
    return tuple(parts.values.shape[parts.plain.ndim : parts.plain.ndim + 2])


def converted_back(g, t):
    """A gradient in the layout that a tensor has."""
    if not is_sparse(t):
        return to_dense(g)
    if not is_coo(t):
        return to_compressed(g, t._layout.kind, blocks_of(t), dense_dim(t))
    return coordinates_of(g) if is_sparse(g) else to_coordinates(g, sparse_dim(t))


def _compressed(t, kind, blocksize, dense):
    if kind in BLOCKED:
        return _blocked(t, kind, blocksize, dense)
    if kind_of(t) in BLOCKED:
        raise RuntimeError(
            f"sparse_compressed_to_{kind.name}: expected SparseCsr or SparseCsc layout but got "
            f"{SHOWN[kind_of(t)]}"
        )
    return _by_lines(_with_coordinates(t, dense), kind, t.shape)


def _with_coordinates(t, dense):
    return coalesce(to_coo(t)) if is_sparse(t) else to_coordinates(t, t.ndim - (dense or 0))


def _by_lines(t, kind, shape):
    """Coordinates by rows or columns; their values may be blocks."""
    by_rows = kind in BY_ROWS
    if sparse_dim(t) > 2:
        return _batched(t, kind, shape)
    if sparse_dim(t) != 2:
        raise RuntimeError(
            f"tensor dimensionality must be sum of batch, base, and dense dimensionalities; only "
            f"matrices can be converted to {SHOWN[kind]}"
        )
    indices, values = parts_of(t).indices, values_of(t)
    rows, columns = indices[0], indices[1]
    count = t.shape[0]
    if not by_rows:
        order = columns.sort(stable=True)[1]
        rows, columns, values = columns[order], rows[order], values.index_select(0, order)
        count = t.shape[1]
    return compressed(kind, row_pointers(rows, count), columns.contiguous(), values, shape)


def _batched(t, kind, shape):
    """Several matrices, each with as many elements as the others."""
    indices, values = parts_of(t).indices, values_of(t)
    sizes = t.shape[: sparse_dim(t)]
    batch = tuple(sizes[:-2])
    which = flat_places(indices[:-2], batch)
    total = Size(batch).numel()
    if not total:
        raise RuntimeError(
            f"to_sparse_{kind.name[-3:]}: Expected product of batch dimensions to be non-zero."
        )
    each = which.bincount(minlength=total)
    count = int(each[0])
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
    if not high:
        crow = pointers.new_zeros((*batch, 1))
    values = values.reshape(*batch, count, *values.shape[1:])
    return compressed(kind, crow, minor.reshape(*batch, count), values, shape)


def _blocked(t, kind, blocksize, dense):
    if blocksize is None:
        raise RuntimeError(
            f"to_sparse_{kind.name[-3:]}: conversion from {SHOWN[kind_of(t)]} to {SHOWN[kind]} "
            "needs blocksize"
        )
    if len(blocksize) != 2:
        raise RuntimeError(f"blocksize needs to be a tuple of size 2, but got {len(blocksize)}")
    own = blocks_of(t)
    if own is not None and own != tuple(blocksize):
        raise RuntimeError(
            f"sparse_compressed_to_{kind.name}: conversion from {SHOWN[kind_of(t)]} to "
            f"{SHOWN[kind]} with blocksize changed from {list(own)} to {list(blocksize)} is not "
            "supported"
        )
    if is_coo(t) and sparse_dim(t) != 2:
        raise RuntimeError(
            f"coo_to_{kind.name}: conversion from Sparse to {SHOWN[kind]} for input tensors with "
            "sparse_dim()!=2 is not supported"
        )
    (high, wide), batch = blocksize, t.ndim - 2 - (dense_dim(t) if is_sparse(t) else dense or 0)
    rows, columns = t.shape[batch : batch + 2]
    if high <= 0 or wide <= 0 or rows % high or columns % wide:
        raise RuntimeError(
            f"tensor sparse size ({rows}, {columns}) must be divisible by given blocksize "
            f"({high}, {wide})"
        )
    if is_sparse(t):
        blocks = _gathered(_with_coordinates(t, 0), high, wide)
    else:
        order = [*range(batch + 1), batch + 2, batch + 1]
        blocks = t.unflatten(batch + 1, (-1, wide)).unflatten(batch, (-1, high))
        blocks = blocks.permute(*order, *range(batch + 3, blocks.ndim))
        blocks = to_coordinates(blocks, batch + 2)
    return _by_lines(blocks, kind, t.shape)


def _gathered(t, high, wide):
    """The same elements with whole blocks as values."""
    indices, values = parts_of(t).indices, values_of(t)
    first = len(indices) - 2
    size = [*t.shape[:first], t.shape[first] // high, t.shape[first + 1] // wide]
    rows, columns = indices[-2:]
    places = public("stack")([*indices[:-2], rows // high, columns // wide])
    used, which = flat_places(places, size).unique(return_inverse=True)
    inside = (which * high + rows % high) * wide + columns % wide
    filled = values.new_zeros((used.shape[0] * high * wide, *values.shape[1:]))
    filled = filled.index_add(0, inside, values)
    filled = filled.reshape(used.shape[0], high, wide, *values.shape[1:])
    shape = [*size, high, wide, *values.shape[1:]]
    return coo(coordinates(used, size), filled, shape, True)


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
    with no_grad():
        values = t.reshape(shape.numel(), *t.shape[dims:]).index_select(0, flat)
        found = coo(coordinates(flat, shape), values, t.shape, True)
    return recorded("ToSparseBackward1", found, (t,), converted_back)


def to_sparse(t, sparse_dims=None, *, layout=None, blocksize=None, dense_dim=None):
    """A tensor by coordinates, or in another sparse layout."""
    if isinstance(blocksize, list):
        blocksize = tuple(blocksize)
    if blocksize is not None and len(blocksize) != 2:
        name = "sparse" if is_sparse(t) else "dense"
        raise RuntimeError(
            f"{name}_to_sparse: blocksize needs to be a tuple of size 2, but got {len(blocksize)}"
        )
    if layout is strided:
        return to_dense(t) if is_sparse(t) else t
    if layout is not None and not is_layout(layout):
        raise RuntimeError(
            f"to_sparse: conversion from {SHOWN[kind_of(t)]} to {SHOWN.get(layout)} "
            "is not supported"
        )
    if layout is not None and layout is not sparse_coo:
        return to_compressed(t, layout, blocksize, dense_dim)
    if not is_sparse(t):
        return to_coordinates(t, sparse_dims)
    if sparse_dims is not None and sparse_dims != sparse_dim(t):
        kind, own = SHOWN[kind_of(t)], "self.sparse_dim()" if is_coo(t) else "2"
        name = "to_sparse" if is_coo(t) else "sparse_compressed_to_sparse"
        raise RuntimeError(
            f"{name}: conversion from {kind} to Sparse with sparse_dim argument !={own} is not "
            "supported"
        )
    return coordinates_of(t)


def is_layout(value):
    return value is sparse_coo or value in COMPRESSED


def to_dense(t, dtype=None, *, masked_grad=None):
    """All elements, zeros among them."""
    if not is_sparse(t):
        return t if dtype is None else t.to(dtype)
    with no_grad():
        found = _filled(t if dtype is None else with_values(t, values_of(t).to(dtype)))
    back = _unmasked if masked_grad is False else _masked
    return recorded("ToDenseBackward0", found, (t,), back)


def _masked(g, t):
    return sparse_mask(g, coalesce(t) if is_coo(t) else t)


def _unmasked(g, t):
    return g.to(t.dtype) if is_sparse(g) else converted_back(g, t)


def _filled(t):
    t = coordinates_of(t)
    dims, parts, values = sparse_dim(t), parts_of(t), values_of(t)
    shape = t.shape[:dims]
    _check_inside(parts.indices, shape)
    flat = flat_places(parts.indices, shape)
    if not dims:
        return values.sum(0, dtype=t.dtype)
    return added(values, flat, shape.numel()).reshape(t.shape)


def with_values(t, values, name=None):
    """The same places with other values; the node has the name of theirs."""
    node = values._grad_fn
    if name is None:
        name = "CloneBackward0" if node is None else type(node).__name__
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
    check_resize(t, shape, dims, dense)
    parts = parts_of(t)
    values = parts.values
    if tuple(values.shape[1:]) != tuple(shape[dims:]):  # elements stay side by side
        flat, size = values.reshape(-1), Size((nnz(t), *shape[dims:]))
        missing = flat.new_zeros(size.numel() - flat.shape[0])
        values = public("cat")([flat, missing]).reshape(size)
    indices = parts.indices
    if dims != indices.shape[0]:
        indices = indices.new_zeros((dims, 0))
    t._layout = bare(Coo(indices, values, parts.coalesced), shape, sparse_coo)._layout
    t._storage.held[0] = Coo(indices, values, parts.coalesced)
    return t


def check_resize(t, shape, dims, dense):
    """Can a tensor with elements get another size?"""
    if not nnz(t):
        return
    told = "on a non-empty sparse tensor is not supported."
    for word, own, asked in (("sparse", sparse_dim(t), dims), ("dense", dense_dim(t), dense)):
        if own != asked:
            raise RuntimeError(
                f"changing the number of {word} dimensions (from {own} to {asked}) {told}"
            )
    for word, part in (("sparse", slice(0, dims)), ("dense", slice(dims, None))):
        mine, sizes = list(t.shape[part]), list(shape[part])
        if any(size < old for old, size in zip(mine, sizes)):
            raise RuntimeError(
                f"shrinking the size of {word} dimensions (from {mine} to {sizes}) {told}"
            )


def resized_rows(t, shape):
    """In place: a compressed matrix of another size; rows that are gone take their elements."""
    if len(shape) < 2:
        raise RuntimeError(
            "torch.resize_: Only batched sparse CSR matrices are supported, but got size "
            f"{list(shape)}"
        )
    if shape[-1] < t.shape[-1]:
        raise RuntimeError(
            "torch.resize_: Resizing columns of sparse CSR tensors to a smaller value is not "
            f"supported. The original number of columns is {t.shape[-1]} while the requested new "
            f"number of columns is {shape[-1]}."
        )
    parts, batch = parts_of(t), tuple(shape[:-2])
    kept = min(nnz(t), shape[-2] * shape[-1])
    pointers = _resized_pointers(parts.compressed, (*batch, shape[-2] + 1))
    pointers[..., -1] = kept
    places, values = (_with_elements(part, (*batch, kept)) for part in (parts.plain, parts.values))
    t._layout = sparse_layout(shape, t.dtype, t.device, t._layout.kind)
    return write(t, Compressed(pointers, places, values))


def _resized_pointers(pointers, shape):
    """Where rows begin among more or fewer of them."""
    if tuple(pointers.shape[:-1]) != shape[:-1]:
        return _with_elements(pointers, shape)
    missing = max(shape[-1] - pointers.shape[-1], 0)
    last = pointers[..., -1:].expand(*shape[:-1], missing)
    return public("cat")([pointers[..., : shape[-1]], last], -1)


def _with_elements(part, shape):
    """The first elements of a part, zeros after the last, in another shape."""
    flat, count = part.reshape(-1), Size(shape).numel()
    missing = flat.new_zeros(max(count - flat.shape[0], 0))
    return public("cat")([flat[:count], missing]).reshape(shape)


def emptied(shape, dims, dtype, device):
    """A sparse tensor without elements."""
    indices = public("zeros")((dims, 0), dtype=d.int64, device=device)
    values = public("zeros")((0, *shape[dims:]), dtype=dtype, device=device)
    return bare(Coo(indices, values, True), shape, sparse_coo)


def rows_at(rows, places, count, left_out=-1):
    """A sparse matrix of `count` rows: those given, each at its place; without those at one."""
    places = places.reshape(-1).long()
    rows = rows.reshape(places.numel(), rows.shape[-1])
    if left_out >= 0:
        kept = (places != left_out).nonzero()[:, 0]
        rows, places = rows.index_select(0, kept), places.index_select(0, kept)
    return coo(places.unsqueeze(0), rows, (count, rows.shape[1]))
