"""Views: the same memory under another shape.

The body of a view row takes the input's layout and gives (shape, strides, offset in elements), so
these are plain functions on tuples. Derivatives are written on tensors and are usually the opposite
view. A body that gives None leaves the call to its `otherwise`, which may copy. Rows that cut a
tensor into several views are in splitting.py; what looks at the storage (other dtypes, complex
parts, as_strided) in memory_views.py; what moves elements in rearranging.py.
"""

import math
import operator

from flambeau import _dtype as d
from flambeau import errors
from flambeau._layout import contiguous_strides, infer_size, view_strides, wrap_dim
from flambeau._memory_format import contiguous_format, preserve_format
from flambeau.ops import table
from flambeau.ops.table import Dims, IntList, Start, composite, public

_INT = frozenset((int,))


def ints(op, name, values):
    """A shape or a list of dimensions as a tuple of ints; one int may stand for a list of one."""
    if type(values) is tuple:
        if len(values) == 1 and isinstance(values[0], (tuple, list)):
            values = values[0]
        if _INT.issuperset(map(type, values)):
            return _all_long(op, name, tuple(values))
    if not isinstance(values, (tuple, list)):
        values = (values,)
    for k, v in enumerate(values):
        if type(v) is not int:
            try:
                if type(v) is bool and k == 0:
                    raise TypeError
                operator.index(v)
            except TypeError:
                what = (
                    f"not {type(v).__name__}"
                    if len(values) == 1
                    else f"but found element of type {type(v).__name__} at pos {k}"
                )
                raise TypeError(
                    f"{op}(): argument '{name}' (position 1) must be tuple of ints, {what}"
                ) from None
    return _all_long(op, name, tuple(map(operator.index, values)))


def _all_long(op, name, values):
    for k, v in enumerate(values):
        if not -errors.LARGEST - 1 <= v <= errors.LARGEST:
            raise TypeError(
                f"{op}(): argument '{name}' failed to unpack the object at pos {k + 1} with error "
                '"Overflow when unpacking long long"'
            )
    return values


def placed(g, shape, part):
    """Zeros of a shape with g where part(zeros) is."""
    whole = g.new_zeros(shape)
    part(whole).copy_(g)
    return whole


def _replaced(values, k, new):
    """A tuple with position k replaced by the items of new."""
    return (*values[:k], *new, *values[k + 1 :])


# -- shapes ---------------------------------------------------------------------------------------


def _shaped(layout, shape):
    """The layout's memory in another shape, or None."""
    shape = infer_size(shape, layout.numel)
    if layout.is_dense:
        return shape, contiguous_strides(shape), 0
    strides = view_strides(layout.sizes, layout.strides, shape)
    return None if strides is None else (shape, strides, 0)


def _view_otherwise(input, size):
    if d.meant(size) is not None:
        return public("_view_dtype")(input, d.meant(size))
    raise RuntimeError(
        "view size is not compatible with input tensor's size and stride (at least one dimension "
        "spans across two contiguous subspaces). Use .reshape(...) instead."
    )


@table.view(
    grad=lambda g, input_shape: g.reshape(input_shape),
    varargs="size",
    variants="method",
    natively="_reshaped",
    otherwise=_view_otherwise,
)
def view(input, size: object = None):
    """The same memory in another shape, or read as another dtype."""
    if d.meant(size) is not None:
        return None
    try:
        size = ints("view", "size", size)
    except TypeError:
        kinds = ", ".join(type(s).__name__ for s in size or ())
        raise TypeError(
            f"view() received an invalid combination of arguments - got ({kinds}), but expected "
            "one of:\n"
            " * (torch.dtype dtype)\n * (tuple of ints size)\n"
        ) from None
    return _shaped(input, size)


@table.view(grad=lambda g, input_shape: g.reshape(input_shape), fresh=True, variants="")
def _unsafe_view(input, size: Dims):
    """A view of a tensor that nobody else holds: not a view in the eyes of autograd."""
    return _shaped(input, size)


def _reshape_name(layout):
    return "ViewBackward0" if layout.is_contiguous else "ReshapeAliasBackward0"


def _copied(input, shape):
    return _unsafe_view(input.clone(memory_format=contiguous_format), shape)


@table.view(
    grad=lambda g, input_shape: g.reshape(input_shape),
    varargs="shape",
    variants="function method",
    naming=_reshape_name,
    natively="_reshaped",
    otherwise=lambda input, shape: _copied(input, ints("reshape", "shape", shape)),
)
def reshape(input, shape: Dims):
    """The same elements in another shape: a view where strides allow it, else a copy."""
    return _shaped(input, ints("reshape", "shape", shape))


@composite(variants="method")
def view_as(input, other):
    """view with the shape of other."""
    return input.view(other.shape)


@composite(variants="method")
def reshape_as(input, other):
    """reshape to the shape of other."""
    return input.reshape(other.shape)


def _flatten_otherwise(input, start_dim, end_dim):
    if input.ndim and wrap_dim(start_dim, input.ndim) == wrap_dim(end_dim, input.ndim):
        return input
    return _copied(input, _flat_shape(input._layout, start_dim, end_dim))


def _flat_shape(layout, start_dim, end_dim):
    start, end = wrap_dim(start_dim, layout.ndim), wrap_dim(end_dim, layout.ndim)
    if start > end:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if not layout.ndim:
        return (1,)
    sizes = layout.sizes
    return (*sizes[:start], math.prod(sizes[start : end + 1]), *sizes[end + 1 :])


@table.view(
    grad=lambda g, input_shape: g.reshape(input_shape),
    variants="function method",
    naming=_reshape_name,
    otherwise=_flatten_otherwise,
)
def flatten(input, start_dim: int = 0, end_dim: int = -1):
    """Merge dimensions start_dim to end_dim into one."""
    shape = _flat_shape(input, start_dim, end_dim)
    return None if input.ndim and len(shape) == input.ndim else _shaped(input, shape)


@table.view(
    grad=lambda g, input_shape: g.reshape(input_shape),
    variants="function method",
    node="ViewBackward0",
    otherwise=lambda input: input.contiguous().view(-1),
)
def ravel(input):
    """All elements in one dimension."""
    return ((input.numel,), (1,), 0) if input.is_contiguous else None


@table.view(
    grad=lambda g, input_shape: g.reshape(input_shape),
    variants="function method",
    node="ViewBackward0",
)
def unflatten(input, dim: int, sizes: IntList):
    """Cut one dimension into several; one of sizes may be -1."""
    sizes = ints("unflatten", "sizes", sizes)
    dim = wrap_dim(dim, input.ndim)
    if not sizes:
        raise RuntimeError("unflatten: sizes must be non-empty")
    if not input.ndim:
        raise RuntimeError("unflatten got an unexpected error:\nthere is no dimension to unflatten")
    size = input.sizes[dim]
    try:
        new = infer_size(sizes, size)
    except RuntimeError as error:
        if "is invalid" not in str(error):
            raise RuntimeError(f"unflatten got an unexpected error:\n{error}") from None
        raise RuntimeError(
            f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim {dim} "
            f"({size}) in the input tensor"
        ) from None
    return _shaped(input, _replaced(input.sizes, dim, new))


# -- order of dimensions --------------------------------------------------------------------------


def _transposed(layout, a, b):
    shape, strides = list(layout.sizes), list(layout.strides)
    if shape:
        shape[a], shape[b] = shape[b], shape[a]
        strides[a], strides[b] = strides[b], strides[a]
    return shape, strides, 0


@table.view(
    grad=lambda g: g.t(),
    natively="_turned",
    turning=(2, "0, 1"),
    variants="function method inplace",
)
def t(input):
    """The transpose of a matrix; vectors and numbers stay as they are."""
    if input.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {input.ndim}D")
    return input.sizes[::-1], input.strides[::-1], 0


@table.view(
    grad=lambda g, dim0, dim1: g.transpose(dim0, dim1),
    natively="_turned",
    variants="function method inplace",
    aliases="swapdims swapaxes",
)
def transpose(input, dim0: int, dim1: int):
    """Swap two dimensions."""
    return _transposed(input, wrap_dim(dim0, input.ndim), wrap_dim(dim1, input.ndim))


def _permuted(layout, dims):
    return [layout.sizes[k] for k in dims], [layout.strides[k] for k in dims], 0


def _order(layout, dims):
    dims = ints("permute", "dims", dims)
    if len(dims) != layout.ndim:
        raise RuntimeError(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the "
            f"length of the desired ordering of dimensions i.e. input.dim() = {layout.ndim} is not "
            f"equal to len(dims) = {len(dims)}"
        )
    found: list = []
    for dim in dims:
        dim = wrap_dim(dim, layout.ndim)
        if dim in found:
            raise RuntimeError("permute(): duplicate dims are not allowed.")
        found.append(dim)
    return found


def _inverse(order):
    return tuple(sorted(range(len(order)), key=order.__getitem__))


@table.view(
    grad=lambda g, dims, input_layout: g.permute(_inverse(_order(input_layout, dims))),
    varargs="dims",
    variants="function method",
    natively="_permuted",
)
def permute(input, dims: Dims):
    """Dimensions in another order."""
    return _permuted(input, _order(input, dims))


def _moved(layout, source, destination):
    if isinstance(source, (tuple, list)) != isinstance(destination, (tuple, list)):
        forms = "int source, int destination", "tuple of ints source, tuple of ints destination"
        raise errors.combination("movedim", (source, destination), forms)
    source, destination = (
        ints("movedim", "source", source),
        ints("movedim", "destination", destination),
    )
    if len(source) != len(destination):
        raise RuntimeError(
            f"movedim: Invalid source or destination dims: source ({list(source)} dims) should "
            f"contain the same number of dims as destination ({list(destination)} dims)"
        )
    src, dst = (
        [wrap_dim(k, layout.ndim) for k in source],
        [wrap_dim(k, layout.ndim) for k in destination],
    )
    for name, dims, given in (("source", src, source), ("destination", dst, destination)):
        if len(set(dims)) < len(dims):
            raise RuntimeError(f"movedim: repeated dim in `{name}` ({list(given)})")
    if not layout.ndim:
        return []
    rest = iter(k for k in range(layout.ndim) if k not in src)
    placed = dict(zip(dst, src))
    return [placed[k] if k in placed else next(rest) for k in range(layout.ndim)]


@table.view(
    grad=lambda g, input_layout, source, destination: g.permute(
        _inverse(_moved(input_layout, source, destination))
    ),
    variants="function method",
    aliases="moveaxis",
    node="PermuteBackward0",
)
def movedim(input, source: Dims, destination: Dims):
    """Move dimensions to other places; the rest keep their order."""
    return _permuted(input, _moved(input, source, destination))


@table.view(
    grad=lambda g: g.permute(tuple(range(g.ndim))[::-1]),
    variants="property",
    node="PermuteBackward0",
)
def T(input):
    """The tensor with its dimensions reversed."""
    return input.sizes[::-1], input.strides[::-1], 0


def _check_matrix(input, shown):
    if input.ndim == 1:
        raise RuntimeError(
            f"{shown} is only supported on matrices or batches of matrices. Got 1-D tensor."
        )


@table.view(
    grad=lambda g: g.transpose(-2, -1),
    variants="property",
    node="TransposeBackward0",
    otherwise=lambda input: input,
)
def mT(input):
    """The matrix, or every matrix of the batch, transposed."""
    _check_matrix(input, "tensor.mT")
    return _transposed(input, -2, -1) if input.ndim else None


def _conj(input):
    return input.conj() if input.dtype.is_complex else input


@composite(variants="property")
def mH(input):
    """mT, conjugated."""
    _check_matrix(input, "tensor.mH")
    return _conj(input.mT)


@composite(variants="function method")
def adjoint(input):
    """mT, conjugated."""
    _check_matrix(input, "tensor.adjoint()")
    return _conj(input.mT)


@composite(variants="property")
def H(input):
    """The conjugate transpose of a matrix."""
    if input.ndim not in (0, 2):
        more = " For batches of matrices, consider using tensor.mH" if input.ndim > 2 else ""
        raise RuntimeError(
            f"tensor.H is only supported on matrices (2-D tensors). Got {input.ndim}-D "
            f"tensor.{more}"
        )
    return _conj(input.transpose(0, 1)) if input.ndim else input


# -- dimensions of size one -----------------------------------------------------------------------


def _squeezed(layout, dim):
    if dim is None:
        return [k for k in range(layout.ndim) if layout.sizes[k] != 1]
    gone = [wrap_dim(k, layout.ndim) for k in ints("squeeze", "dim", dim)]
    if len(set(gone)) < len(gone):
        again = next(k for n, k in enumerate(gone) if k in gone[:n])
        raise RuntimeError(f"dim {again} appears multiple times in the list of dims")
    return [k for k in range(layout.ndim) if k not in gone or layout.sizes[k] != 1]


def _squeeze_number(dim):
    """PyTorch's SqueezeBackward0, 1 and 2: of all dimensions, of one, of several."""
    if dim is None:
        return 0
    return 1 if type(dim) is int or (len(dim) == 1 and type(dim[0]) is int) else 2


@table.view(
    grad=lambda g, input_shape, dim: g.reshape(input_shape),
    variants="function method inplace",
    varargs="dim",
    number=_squeeze_number,
    overloads=3,
)
def squeeze(input, dim: Dims = None):
    """Drop dimensions of size one: all, or those named."""
    return _permuted(input, _squeezed(input, dim))


@table.view(
    grad=lambda g, dim: g.squeeze(dim),
    variants="function method inplace",
    natively="_unsqueezed",
)
def unsqueeze(input, dim: int):
    """Insert a dimension of size one."""
    dim = wrap_dim(dim, input.ndim + 1)
    shape, strides = input.sizes, input.strides
    step = shape[dim] * strides[dim] if dim < input.ndim else 1
    return (*shape[:dim], 1, *shape[dim:]), (*strides[:dim], step, *strides[dim:]), 0


# -- larger and smaller ---------------------------------------------------------------------------


@table.view(grad=lambda g: g, varargs="size", variants="method", natively="_expanded")
def expand(input, size: Dims):
    """Repeat dimensions of size one without copying; -1 keeps a size."""
    size = ints("expand", "size", size)
    missing = len(size) - input.ndim
    if missing < 0:
        raise RuntimeError(
            f"expand(torch.{input.dtype.scalar_name}Tensor{{{list(input.sizes)}}}, "
            f"size={list(size)}): the number of sizes "
            f"provided ({len(size)}) must be greater or equal to the number of dimensions in the "
            f"tensor ({input.ndim})"
        )
    shape, strides = list(size), [0] * len(size)
    for k in range(len(size) - 1, -1, -1):
        old = input.sizes[k - missing] if k >= missing else 1
        if k >= missing:
            strides[k] = input.strides[k - missing]
        elif k + 1 < len(size):
            strides[k] = shape[k + 1] * strides[k + 1]
        if shape[k] == -1:
            if k < missing:
                raise RuntimeError(
                    "The expanded size of the tensor (-1) isn't allowed in a leading, "
                    f"non-existing dimension {k}"
                )
            shape[k] = old
        elif shape[k] != old:
            if old != 1:
                raise RuntimeError(
                    f"The expanded size of the tensor ({shape[k]}) must match the existing size "
                    f"({old}) at non-singleton dimension {k}.  Target sizes: {list(size)}.  Tensor "
                    f"sizes: {list(input.sizes)}"
                )
            strides[k] = 0
    return shape, strides if input.ndim else [0] * len(size), 0


@composite(variants="method")
def expand_as(input, other):
    """expand to the shape of other."""
    return input.expand(other.shape)


@composite(variants="function method", varargs="size")
def broadcast_to(input, size: Dims):
    """The tensor spread over a larger shape."""
    return input.expand(size)


def _sliced(layout, dim, start, end, step):
    shape, strides, size = layout.sizes, layout.strides, layout.sizes[dim]
    start, end = (k + size if k < 0 else k for k in (start, end))
    start = min(max(start, 0), size)
    end = min(max(end, start), size)
    new = _replaced(shape, dim, (-(-(end - start) // step),))
    return new, _replaced(strides, dim, (strides[dim] * step,)), start * strides[dim]


@table.view(
    grad=lambda g, input_shape, dim, start, end, step: placed(
        g, input_shape, lambda z: slice(z, dim, start, end, step)
    ),
    variants="",
)
def slice(input, dim: int = 0, start: int = None, end: int = None, step: int = 1):
    """input[start:end:step] along one dimension."""
    if not input.ndim:
        raise IndexError("slice() cannot be applied to a 0-dim tensor.")
    if step <= 0:
        raise RuntimeError("slice step must be positive")
    dim = wrap_dim(dim, input.ndim)
    return _sliced(
        input, dim, 0 if start is None else start, input.sizes[dim] if end is None else end, step
    )


@table.view(
    grad=lambda g, input_shape, dim, start, length: placed(
        g, input_shape, lambda z: z.narrow(dim, start, length)
    ),
    variants="function method",
    node="SliceBackward0",
)
def narrow(input, dim: int, start: Start, length: int):
    """length elements from start on, along one dimension."""
    if not input.ndim:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    if length < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    dim = wrap_dim(dim, input.ndim)
    size = input.sizes[dim]
    if not -size <= start <= size:
        raise IndexError(
            f"start out of range (expected to be in range of [{-size}, {size}], but got {start})"
        )
    start += size if start < 0 else 0
    if start + length > size:
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({size}).")
    return _sliced(input, dim, start, start + length, 1)


def _select_error(input, dim, index):
    return IndexError(
        f"select(): index {index} out of range for tensor of size {list(input.sizes)} at dimension "
        f"{dim}"
    )


@table.view(
    grad=lambda g, input_shape, dim, index: placed(g, input_shape, lambda z: z.select(dim, index)),
    variants="function method",
)
def select(input, dim: int, index: int):
    """One position of a dimension, which disappears."""
    if not input.ndim:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    dim = wrap_dim(dim, input.ndim)
    size = input.sizes[dim]
    if not -size <= index < size:
        raise _select_error(input, dim, index)
    place = (index + size if index < 0 else index) * input.strides[dim]
    return _replaced(input.sizes, dim, ()), _replaced(input.strides, dim, ()), place


@table.view(
    grad=lambda g, input_shape, offset, dim1, dim2: placed(
        g, input_shape, lambda z: z.diagonal(offset, dim1, dim2)
    ),
    variants="function method",
)
def diagonal(input, offset: int = 0, dim1: int = 0, dim2: int = 1):
    """The diagonals of two dimensions, as the last dimension."""
    a, b = wrap_dim(dim1, input.ndim), wrap_dim(dim2, input.ndim)
    if a == b:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    rows, columns, step = input.sizes[a], input.sizes[b], input.strides
    length = max(min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns), 0)
    keep = [k for k in range(input.ndim) if k not in (a, b)]
    place = 0 if not length else offset * step[b] if offset >= 0 else -offset * step[a]
    return (
        [input.sizes[k] for k in keep] + [length],
        [step[k] for k in keep] + [step[a] + step[b]],
        place,
    )


def _unfold_backward(g, shape, dimension, size, step):
    if not shape:
        return g.reshape(shape) if size else g.new_zeros(shape)
    whole = g.new_zeros(shape)
    dimension = wrap_dim(dimension, len(shape))
    count = g.shape[dimension]
    for k in range(size):  # the windows overlap: one position of each at a time
        slice(whole, dimension, k, k + step * (count - 1) + 1, step).add_(g.select(-1, k))
    return whole


@table.view(
    grad=lambda g, input_shape, dimension, size, step: _unfold_backward(
        g, input_shape, dimension, size, step
    ),
    variants="method",
)
def unfold(input, dimension: int, size: int, step: int):
    """Windows of a dimension, their elements in a new last dimension."""
    dim = wrap_dim(dimension, input.ndim)
    longest = input.sizes[dim] if input.ndim else 1
    if size < 0:
        raise RuntimeError(f"size is {size} but must be >= 0")
    if size > longest:
        raise RuntimeError(
            f"maximum size for tensor at dimension {dim} is {longest} but size is {size}"
        )
    if step <= 0:
        raise RuntimeError(f"step is {step} but must be > 0")
    if not input.ndim:
        return (size,), (1,), 0
    count = (longest - size) // step + 1
    shape, strides = (
        _replaced(input.sizes, dim, (count,)),
        _replaced(input.strides, dim, (input.strides[dim] * step,)),
    )
    return (*shape, size), (*strides, input.strides[dim]), 0


@table.view(grad=lambda g: g, variants="")
def alias(input):
    """The same view once more."""
    return input.sizes, input.strides, 0


# -- memory formats -------------------------------------------------------------------------------


@composite(variants="method")
def contiguous(input, memory_format: object = contiguous_format):
    """The tensor itself if its memory is in the wanted order, else a copy that is."""
    if memory_format is contiguous_format:
        return input if input._layout.is_contiguous else input.clone(memory_format=memory_format)
    if memory_format is preserve_format:
        raise RuntimeError("preserve memory format is unsupported by the contiguous operator")
    if memory_format is None:
        raise TypeError(
            "contiguous(): argument 'memory_format' must be torch.memory_format, not NoneType"
        )
    return (
        input
        if input.is_contiguous(memory_format=memory_format)
        else input.clone(memory_format=memory_format)
    )
