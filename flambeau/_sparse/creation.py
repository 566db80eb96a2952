"""sparse_coo_tensor, sparse_csr_tensor and their kin: arguments, invariants, PyTorch's words."""

from flambeau import _dtype as d
from flambeau._layout import Size
from flambeau._memory_format import sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr
from flambeau._sparse.conversion import emptied
from flambeau._sparse.tensors import (
    BLOCKED,
    BY_ROWS,
    COMPRESSED,
    SHOWN,
    compressed,
    coo,
    flat_places,
)
from flambeau._tensor import Tensor
from flambeau.eager import creation
from flambeau.interposing.overriding import answerable
from flambeau.ops.table import public

_checking = [False]  # are invariants checked unless a call says otherwise?


def invariants_checked():
    return _checking[0]


def check_invariants(value):
    _checking[0] = bool(value)


def _values(values, dtype, device):
    if isinstance(values, Tensor):
        if dtype is not None or device is not None:
            values = values.to(dtype=dtype or values.dtype, device=device or values.device)
        return values
    return creation.tensor(values, dtype=dtype, device=device)


def _indices(indices, device, name="indices"):
    if not isinstance(indices, Tensor):
        indices = creation.tensor(indices, device=device)
        if not indices.numel():
            indices = indices.to(d.int64)
    return indices if device is None else indices.to(device)


def _finish(out, requires_grad):
    return out.requires_grad_(True) if requires_grad and not out.requires_grad else out


def _is_size(value):
    return isinstance(value, (tuple, list)) and all(isinstance(s, int) for s in value)


@answerable
def sparse_coo_tensor(
    indices=None,
    values=None,
    size=None,
    *,
    dtype=None,
    device=None,
    pin_memory=False,
    requires_grad=False,
    check_invariants=None,
    is_coalesced=None,
):
    """A sparse tensor of values at coordinates; sparse_coo_tensor(size) is all zeros.

    Args:
        indices: [dimensions by coordinates, count].
        values: [count, ...]; what follows are dimensions that each value has.
        size: as small as the indices allow if it is not given.

    Example:
        >>> torch.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3)).to_dense()
        tensor([[0., 0., 3.],
                [4., 0., 0.]])
    """
    if values is None:
        if (indices is None or not _is_size(indices)) and size is None:
            raise TypeError("sparse_coo_tensor() received an invalid combination of arguments")
        size = Size(indices if size is None else size)
        dtype, device = _options(dtype, device)
        return _finish(emptied(size, len(size), dtype, device), requires_grad)
    values = _values(values, dtype, device)
    if values.ndim == 0:
        values = values.reshape(1)
    indices = _indices(indices, device)
    if not indices.ndim:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    shape = _coo_size(indices, values, size)
    if indices.ndim != 2:
        raise RuntimeError(f"indices must be sparse_dim x nnz, but got: {list(indices.shape)}")
    if indices.dtype is not d.int64:
        indices = indices.to(d.int64)
    if check_invariants or (check_invariants is None and _checking[0]):
        check_coo(indices, values, shape, is_coalesced)
    coalesced = bool(is_coalesced)
    return _finish(coo(indices.detach(), values, shape, coalesced), requires_grad)


def _options(dtype, device):
    probe = creation.empty(0, dtype=dtype, device=device)
    return probe.dtype, probe.device


def _coo_size(indices, values, size):
    dims, dense = indices.shape[0], values.ndim - 1
    if indices.ndim == 2 and indices.shape[1] != values.shape[0] and size is not None:
        raise RuntimeError(
            "indices and values must have same nnz, but got nnz from indices: "
            f"{indices.shape[1]}, nnz from values: {values.shape[0]}"
        )
    if size is None:
        if indices.ndim != 2:
            raise RuntimeError(f"indices must be sparse_dim x nnz, but got: {list(indices.shape)}")
        return _smallest(indices, values)
    if len(size) != dims + dense:
        raise RuntimeError(
            "'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = "
            f"{len(size)}, sparse_dim = {dims}, dense_dim = {dense}"
        )
    if list(values.shape[1:]) != list(size[dims:]):
        wanted = [values.shape[0], *size[dims:]]
        raise RuntimeError(
            f"values has incorrect size, expected {wanted}, got {list(values.shape)}"
        )
    return Size(size)


def _smallest(indices, values):
    if not indices.shape[1]:
        return Size((0,) * indices.shape[0] + tuple(values.shape[1:]))
    low = indices.amin(1).tolist()
    for k, least in enumerate(low):
        if least < 0:
            raise RuntimeError(f"found negative index {int(least)} for dim {k}")
    return Size([int(n) + 1 for n in indices.amax(1).tolist()] + list(values.shape[1:]))


def check_coo(indices, values, shape, is_coalesced=None):
    """What must hold of coordinates."""
    if not indices.numel():
        return
    for k, row in enumerate(indices):
        least, most = int(row.min()), int(row.max())
        if least < 0:
            raise RuntimeError(f"found negative index {least} for dim {k}")
        if most >= shape[k]:
            raise RuntimeError(
                f"size is inconsistent with indices: for dim {k}, size is {shape[k]} but found "
                f"index {most}"
            )
    if is_coalesced:
        flat = flat_places(indices, shape)
        if not bool((flat[1:] > flat[:-1]).all()):
            raise RuntimeError(
                "cannot set is_coalesced to true if indices correspond to uncoalesced COO tensor"
            )


# -- rows and columns ------------------------------------------------------------------------------

_LINES = {
    sparse_csr: "rows",
    sparse_csc: "columns",
    sparse_bsr: "row blocks",
    sparse_bsc: "column blocks",
}
_WORDS = {True: ("crow", "col", "nrows", "ncols"), False: ("ccol", "row", "ncols", "nrows")}


@answerable
def sparse_compressed_tensor(
    compressed_indices,
    plain_indices,
    values,
    size=None,
    *,
    dtype=None,
    layout=None,
    device=None,
    pin_memory=False,
    requires_grad=False,
    check_invariants=None,
):
    """A sparse matrix by rows or columns: where each begins, the place of each value, the values.

    Args:
        layout: sparse_csr, sparse_csc, sparse_bsr or sparse_bsc.
    """
    if layout is None:
        raise TypeError(
            "sparse_compressed_tensor expected sparse compressed tensor layout but got none"
        )
    if layout not in COMPRESSED:
        raise RuntimeError(
            "sparse_compressed_tensor_unsafe expected sparse compressed tensor layout but got "
            f"{layout}"
        )
    values = _values(values, dtype, device)
    pointers, places = _indices(compressed_indices, device), _indices(plain_indices, device)
    if size is None:
        size = _matrix_size(pointers, places, values, layout)
    if check_invariants or (check_invariants is None and _checking[0]):
        check_compressed(pointers, places, values, Size(size), layout)
    out = compressed(layout, pointers.detach(), places.detach(), values, size)
    return _finish(out, requires_grad)


def _matrix_size(pointers, places, values, layout):
    if not pointers.ndim:
        crow = _WORDS[layout in BY_ROWS][0]
        raise RuntimeError(f"{crow}_indices must have dimensionality >= 1 but got 0")
    batch = tuple(pointers.shape[:-1])
    major = pointers.shape[-1] - 1
    minor = int(places.max()) + 1 if places.numel() else 0
    dense = tuple(values.shape[len(batch) + 1 :])
    high = wide = 1
    if layout in BLOCKED:
        (high, wide), dense = dense[:2], dense[2:]
    rows, columns = (major, minor) if layout in BY_ROWS else (minor, major)
    return (*batch, rows * high, columns * wide, *dense)


def check_compressed(pointers, places, values, shape, layout):
    """What must hold of rows (or columns) and their places."""
    crow, col, *_ = _WORDS[layout in BY_ROWS]
    batch = _check_parts(pointers, places, values, crow, col)
    sides = _check_sizes(pointers, places, values, shape, layout, batch, crow, col)
    high, wide = sides if layout in BY_ROWS else sides[::-1]
    count = values.shape[batch]
    if pointers.shape[-1] != high + 1:
        raise RuntimeError(
            f"{crow}_indices.shape[-1] must be equal to the number of {_LINES[layout]} + 1 "
            f"(={high + 1}), but got {pointers.shape[-1]}"
        )
    if places.shape[-1] != count:
        raise RuntimeError(
            f"{col}_indices.shape[-1] must be equal to nnz (={count}) as defined by "
            f"values.shape[{batch}], but got {places.shape[-1]}"
        )
    first, second = pointers.dtype.scalar_name, places.dtype.scalar_name
    if first != second:
        raise RuntimeError(
            f"{crow}_indices and {col}_indices must have the same dtype, bot got {first} and "
            f"{second}, respectively"
        )
    if pointers.dtype not in (d.int32, d.int64):
        raise RuntimeError(
            f"{crow}_indices and {col}_indices dtype must be Int or Long, but got {first}"
        )
    check_places(pointers, places, wide, count, layout in BY_ROWS)


def _check_parts(pointers, places, values, crow, col):
    """What must hold of the three parts by themselves; how many dimensions a batch has."""
    for name, part in ((crow, pointers), (col, places)):
        if part.ndim and part.shape[-1] > 1 and part.stride(-1) != 1:
            raise RuntimeError(f"expected {name}_indices to be a contiguous tensor per batch")
    if pointers.ndim < 1:
        raise RuntimeError(f"{crow}_indices must have dimensionality >= 1 but got {pointers.ndim}")
    if pointers.ndim != places.ndim:
        raise RuntimeError(
            f"{crow}_indices and {col}_indices dimensionalities must be equal but got "
            f"{pointers.ndim} and {places.ndim}, respectively"
        )
    return pointers.ndim - 1


def _check_sizes(pointers, places, values, shape, layout, batch, crow, col):
    """What must hold of sizes; how many rows and columns (of blocks) there are."""
    block = 2 if layout in BLOCKED else 0
    if values.ndim <= batch + block:
        raise RuntimeError(
            f"values must have dimensionality > sum of batch and block dimensionalities (={batch} "
            f"+ {block}) but got {values.ndim}"
        )
    dense = values.ndim - batch - block - 1
    if len(shape) != batch + 2 + dense:
        raise RuntimeError(
            "tensor dimensionality must be sum of batch, base, and dense dimensionalities "
            f"(={batch} + 2 + {dense}) but got {len(shape)}"
        )
    batches = [list(part.shape[:batch]) for part in (pointers, places, values)]
    if any(sizes != list(shape[:batch]) for sizes in batches):
        raise RuntimeError(
            f"all batch dimensions of {crow}_indices (={batches[0]}), {col}_indices "
            f"(={batches[1]}), and values (={batches[2]}) must be equal to tensor batch dimensions "
            f"(={list(shape[:batch])})"
        )
    sides = list(shape[batch : batch + 2])
    for k in range(block):
        size = values.shape[batch + 1 + k]
        if not size or sides[k] % size:
            raise RuntimeError(
                f"tensor shape[{batch + k}] (={sides[k]}) must be divisible with blocksize[{k}] "
                f"(={size}) as defined by values shape"
            )
        sides[k] //= size
    return sides


def check_places(pointers, places, wide, count, by_rows):
    """What must hold of the numbers in both: where rows begin and which places they name."""
    crow, col, major, minor = _WORDS[by_rows]

    def demand(holds, words):
        if not bool(holds):
            raise RuntimeError(f"`{words}` is not satisfied.")

    demand((pointers[..., 0] == 0).all(), f"{crow}_indices[..., 0] == 0")
    demand((pointers[..., -1] == count).all(), f"{crow}_indices[..., -1] == nnz")
    steps = pointers.diff()
    demand(
        ((steps >= 0) & (steps <= wide)).all(),
        f"0 <= {crow}_indices[..., 1:] - {crow}_indices[..., :-1] <= {minor}",
    )
    demand(((places >= 0) & (places < wide)).all(), f"0 <= {col}_indices < {minor}")
    batches = Size(pointers.shape[:-1]).numel()
    demand(
        _ascending(pointers.reshape(batches, pointers.shape[-1]), places.reshape(batches, count)),
        f"{col}_indices[..., {crow}_indices[..., i - 1]:{crow}_indices[..., i]] for all i = 1, "
        f"..., {major} are sorted and distinct along the last dimension values",
    )


def _ascending(pointers, places):
    """Do places grow within each row?"""
    for begin, row in zip(pointers, places):
        new = row.new_zeros(row.shape[0] + 1, dtype=d.bool_)
        new[begin.long()] = True
        if not bool((new[1:-1] | (row[1:] > row[:-1])).all()):
            return False
    return True


def _validate_sparse_compressed_tensor_args(
    compressed_indices, plain_indices, values, size, layout, check_pinning=None
):
    """An error where parts do not make a sparse matrix."""
    if layout not in COMPRESSED:
        raise RuntimeError(
            "validate_sparse_compressed_tensor_args expected sparse compressed tensor layout but "
            f"got {SHOWN.get(layout, layout)}"
        )
    check_compressed(compressed_indices, plain_indices, values, Size(size), layout)


def _validating(layout):
    def validate(compressed_indices, plain_indices, values, size, check_pinning=None):
        check_compressed(compressed_indices, plain_indices, values, Size(size), layout)

    validate.__name__ = validate.__qualname__ = (
        f"_validate_{layout.name.removeprefix('torch.')}_tensor_args"
    )
    validate.__doc__ = "An error where parts do not make a sparse matrix of this layout."
    return validate


_validate_sparse_csr_tensor_args = _validating(sparse_csr)
_validate_sparse_csc_tensor_args = _validating(sparse_csc)
_validate_sparse_bsr_tensor_args = _validating(sparse_bsr)
_validate_sparse_bsc_tensor_args = _validating(sparse_bsc)


def _validate_sparse_coo_tensor_args(indices, values, size, is_coalesced=None, check_pinning=None):
    """An error where indices and values do not make a sparse tensor."""
    if indices.ndim != 2:
        raise RuntimeError(f"indices must be sparse_dim x nnz, but got: {list(indices.shape)}")
    check_coo(indices, values, _coo_size(indices, values, size), is_coalesced)


def _validate_compressed_sparse_indices(is_crow, compressed_idx, plain_idx, cdim, dim, nnz):
    """An error where row (or column) pointers and places do not fit together."""
    check_places(compressed_idx, plain_idx, dim, nnz, is_crow)


def _of_layout(layout, name, doc):
    def make(
        compressed_indices,
        plain_indices,
        values,
        size=None,
        *,
        dtype=None,
        device=None,
        pin_memory=False,
        requires_grad=False,
        check_invariants=None,
    ):
        return sparse_compressed_tensor(
            compressed_indices, plain_indices, values, size, dtype=dtype, layout=layout,
            device=device, requires_grad=requires_grad, check_invariants=check_invariants,
        )  # fmt: skip

    make.__name__ = make.__qualname__ = name
    make.__doc__ = doc
    return make


def _by_names(make, first, second):
    """The same with its arguments by the names that rows (or columns) have."""

    def named(*args, **kwargs):
        for name, own in ((first, "compressed_indices"), (second, "plain_indices")):
            if name in kwargs:
                kwargs[own] = kwargs.pop(name)
        return make(*args, **kwargs)

    named.__name__ = named.__qualname__ = make.__name__
    named.__doc__ = make.__doc__
    return answerable(named)


sparse_csr_tensor = _by_names(
    _of_layout(sparse_csr, "sparse_csr_tensor", "A sparse matrix by rows."),
    "crow_indices", "col_indices",
)  # fmt: skip
sparse_csc_tensor = _by_names(
    _of_layout(sparse_csc, "sparse_csc_tensor", "A sparse matrix by columns."),
    "ccol_indices", "row_indices",
)  # fmt: skip
sparse_bsr_tensor = _by_names(
    _of_layout(sparse_bsr, "sparse_bsr_tensor", "A sparse matrix of blocks, by rows."),
    "crow_indices", "col_indices",
)  # fmt: skip
sparse_bsc_tensor = _by_names(
    _of_layout(sparse_bsc, "sparse_bsc_tensor", "A sparse matrix of blocks, by columns."),
    "ccol_indices", "row_indices",
)  # fmt: skip


def _sparse_coo_tensor_unsafe(indices, values, size=None, dtype=None, device=None, **options):
    """The same without checks, as PyTorch names it."""
    return sparse_coo_tensor(indices, values, size, dtype=dtype, device=device,
                             check_invariants=False,
                             is_coalesced=options.get("is_coalesced"))  # fmt: skip


def zeros_in(layout, size, dtype, device, name="zeros"):
    """zeros(..., layout=torch.sparse_coo) and the like."""
    if layout is sparse_coo:
        return emptied(Size(size), len(size), dtype, device)
    if layout in BLOCKED:
        raise RuntimeError(
            f"{name}_sparse_compressed expected sparse compressed (non-block) tensor layout but "
            f"got {SHOWN[layout]}"
        )
    if len(size) < 2:
        raise RuntimeError(
            f"torch.{name}: Only batched sparse compressed (non-block) tensors are supported, but "
            f"got size {list(size)}"
        )
    *batch, rows, columns = size
    zeros, count = public("zeros"), rows if layout in BY_ROWS else columns
    pointers = zeros((*batch, count + 1), dtype=d.int64, device=device)
    values = zeros((*batch, 0), dtype=dtype, device=device)
    return compressed(layout, pointers, zeros((*batch, 0), dtype=d.int64, device=device), values,
                      size)  # fmt: skip
