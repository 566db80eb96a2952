"""What ops with index tensors refuse, in PyTorch's words and order; arguments are layouts.

A check gives the dimension, counted from the front, where there is one.
"""

from flambeau import _dtype as d
from flambeau import errors
from flambeau._layout import wrap_dim

INDICES = (d.int64, d.int32)


def _without(sizes, dim):
    return (*sizes[:dim], *sizes[dim + 1 :])


# -- an index per element --------------------------------------------------------------------------


def gather(input, dim, index):
    dim = wrap_dim(dim, input.ndim)
    if not index.numel:
        return dim
    if index.dtype not in INDICES:
        raise RuntimeError("gather(): Expected dtype int32/int64 for index")
    if max(input.ndim, 1) != max(index.ndim, 1):
        raise RuntimeError("Index tensor must have the same number of dimensions as input tensor")
    for k in range(input.ndim if index.ndim else 0):
        if k != dim and index.sizes[k] > input.sizes[k]:
            raise RuntimeError(
                f"Size does not match at dimension {k} expected index {list(index.sizes)} to be no "
                f"larger than self {list(input.sizes)} apart from dimension {dim}"
            )
    return dim


def scatter(layout, dim, index, src):
    """src is None for a number."""
    dim = wrap_dim(dim, layout.ndim)
    if index.dtype not in INDICES and index.numel:
        raise RuntimeError("scatter(): Expected dtype int32/int64 for index")
    if src is not None and src.dtype is not layout.dtype:
        raise RuntimeError("scatter(): Expected self.dtype to be equal to src.dtype")
    if not index.numel:
        return dim
    ndim = max(layout.ndim, 1)
    if ndim != max(index.ndim, 1):
        raise RuntimeError("Index tensor must have the same number of dimensions as self tensor")
    sizes = index.sizes or (1,)
    own = layout.sizes or (1,)
    given = None if src is None else src.sizes or (1,)
    fits = all(k == dim or sizes[k] <= own[k] for k in range(ndim))
    short = given is not None and src.ndim and len(given) < ndim
    if short and fits and all(a <= b for a, b in zip(sizes, given)):
        wrap_dim(len(given), len(given))  # the complaint PyTorch stumbles into
    if given is not None and ndim != len(given):
        raise RuntimeError("Index tensor must have the same number of dimensions as src tensor")
    if not fits or (given is not None and any(a > b for a, b in zip(sizes, given))):
        tail = "" if src is None else f" and to be no larger size than src {list(src.shape)}"
        raise RuntimeError(
            f"Expected index {list(index.shape)} to be no larger than self {list(layout.sizes)} "
            f"apart from dimension {dim}{tail}"
        )
    return dim


def take(input, index):
    if index.dtype is not d.int64:
        raise RuntimeError(
            f"take(): Expected a long tensor for index, but got {index.dtype.scalar_name}"
        )
    if not input.numel and index.numel:
        raise IndexError("take(): tried to take from an empty tensor")


def put(target, index, source):
    if index.dtype is not d.int64:
        raise RuntimeError(
            f"put_(): Expected a long tensor for index, but got {index.dtype.scalar_name}"
        )
    if target.dtype is not source.dtype:
        raise RuntimeError(
            "put_(): self and source expected to have the same dtype, but got self.dtype = "
            f"{target.dtype.scalar_name} and source.dtype = {source.dtype.scalar_name}"
        )
    if source.numel != index.numel:
        raise IndexError(
            "put_(): Expected source and index to have the same number of elements, but got "
            f"source.numel() = {source.numel}, index.numel() = {index.numel}"
        )
    if not target.numel and index.numel:
        raise IndexError("put_(): Tried to put elements into an empty tensor")


# -- an index per slice ----------------------------------------------------------------------------


def index_select(input, dim, index):
    dim, n = wrap_dim(dim, input.ndim), index.numel
    if index.ndim > 1:
        raise IndexError("index_select(): Index is supposed to be a vector")
    if index.dtype not in INDICES:
        raise RuntimeError("index_select(): Expected dtype int32 or int64 for index")
    if not input.ndim and n != 1:
        raise RuntimeError(
            f"index_select(): Index to scalar can have only 1 value, got {n} value(s)"
        )
    return dim


def slices(op, target, dim, index, source):
    """For index_add_ and its kin."""
    dim, n = wrap_dim(dim, target.ndim), index.numel
    if index.ndim > 1:
        raise IndexError(
            f"{op}_(): Index is supposed to be a vector, but got dim: {index.ndim} with "
            f"type: {index.dtype.scalar_name} and size: {list(index.sizes)}"
        )
    if index.dtype not in INDICES:
        raise RuntimeError(
            f"{op}_(): Expected dtype int32/int64 for index but got: {index.dtype.scalar_name}"
        )
    if target.dtype is not source.dtype:
        raise RuntimeError(
            f"{op}_(): self ({target.dtype.scalar_name}) and source ({source.dtype.scalar_name}) "
            "must have the same scalar type"
        )
    if source.ndim:
        wrap_dim(dim, source.ndim)
    elif n != 1:
        raise errors.no_dimensions(dim)
    length = source.sizes[dim] if source.ndim else 1
    if n != length:
        raise RuntimeError(
            f"{op}_(): Number of indices ({n}) should be equal to source.size(dim): ({length}), "
            f"for dim: {dim}"
        )
    own, given = target.sizes, source.sizes
    if own and given:
        own, given = _without(own, dim), _without(given, dim)
    if own != given:
        raise RuntimeError(
            "source tensor shape must match self tensor shape, excluding the specified dimension. "
            f"Got self.shape = {list(target.sizes)} source.shape = {list(source.sizes)}"
        )
    return dim


def index_copy(own, dim, index, given):
    n = index.numel
    dim = wrap_dim(dim, own.ndim)
    start = "index_copy_(): "
    if index.ndim > 1:
        raise IndexError(f"{start}Index should have dimension 1 or 0 (got {index.ndim})")
    if not given.ndim and n != 1:
        raise IndexError(f"{start}When source is scalar, index should have one element (got {n})")
    if given.ndim != own.ndim and given.ndim and own.ndim:
        raise IndexError(
            f"{start}When source and destination are not scalars, their dimensionality must match. "
            f"Source dimensionality ({given.ndim}), destination dimensionality ({own.ndim})"
        )
    if index.dtype is not d.int64:
        raise RuntimeError(
            f"{start}Expected a long tensor for index, but got {index.dtype.scalar_name}"
        )
    if own.dtype is not given.dtype:
        raise RuntimeError(
            f"{start}self and source expected to have the same dtype, but got (self) "
            f"{own.dtype.scalar_name} and (source) {given.dtype.scalar_name}"
        )
    a, b = _without(own.sizes, dim), _without(given.sizes, dim)
    if a != b:
        raise RuntimeError(
            f"{start}Source/destination tensor must have same slice shapes. Destination slice "
            f"shape: {' '.join(map(str, a))} at dimension {dim} and source slice shape: "
            f"{' '.join(map(str, b))} at dimension 0."
        )
    if given.ndim and n != given.sizes[dim]:
        raise IndexError(
            f"{start}Number of indices ({n}) should be equal to source.size(dim) "
            f"({given.sizes[dim]})"
        )
    return dim
