"""Elements in other places: flips, rolls, repeats, triangles, diagonals, and writing into a part.

Every op here makes a new tensor by strided copies (eager/rearranging.py), so none of them needs an
index tensor; a flip is a copy from a layout with negative strides.
"""

from flambeau import _dtype as d
from flambeau._layout import is_dense_in_some_order, wrap_dim
from flambeau._memory_format import contiguous_format
from flambeau.ops.table import Dims, DType, IntList, LayoutName, composite, public, template
from flambeau.ops.views import ints, placed, slice


def distinct_dims(dims, ndim):
    """Dimensions counted from the front; complains about repeated ones."""
    found = [wrap_dim(k, ndim) for k in dims]
    for n, k in enumerate(found):
        if k in found[:n]:
            raise RuntimeError(f"dim {k} appears multiple times in the list of dims")
    return found


@template(
    "flip",
    linear=True,
    grad=lambda g, dims: g.flip(dims),
    varargs="dims",
    variants="function method",
)
def flip(input, dims: Dims):
    """Reverse the order of elements along dimensions."""


@composite(variants="function method")
def fliplr(input):
    """Reverse the columns."""
    if input.ndim < 2:
        raise RuntimeError("Input must be >= 2-d.")
    return input.flip(1)


@composite(variants="function method")
def flipud(input):
    """Reverse the rows."""
    if input.ndim < 1:
        raise RuntimeError("Input must be >= 1-d.")
    return input.flip(0)


@composite(variants="function method", grad=lambda g, k, dims: g.rot90(-k, dims))
def rot90(input, k: int = 1, dims: Dims = (0, 1)):
    """Turn the plane of two dimensions by k right angles."""
    if len(dims) != 2:
        raise RuntimeError(f"expected total rotation dims == 2, but got dims = {len(dims)}")
    if input.ndim < 2:
        raise RuntimeError(f"expected total dims >= 2, but got total dims = {input.ndim}")
    a, b = (wrap_dim(dim, input.ndim) for dim in dims)
    if a == b:
        raise RuntimeError(
            f"expected rotation dims to be different, but got dim0 = {dims[0]} and dim1 = {dims[1]}"
        )
    turned = {0: (), 1: (b,), 2: (a, b), 3: (a,)}[k % 4]
    if not turned:
        return input.clone(memory_format=contiguous_format)
    flipped = input.flip(turned)
    return flipped.transpose_(a, b) if k % 2 else flipped


@template(
    "roll",
    linear=True,
    grad=lambda g, shifts, dims: g.roll(_negative(shifts), dims),
    variants="function method",
)
def roll(input, shifts: Dims, dims: Dims = ()):  # dims=None: as ()
    """Shift elements along dimensions; those pushed out come in at the other end."""


def _negative(shifts):
    return tuple(-s for s in ints("roll", "shifts", shifts))


# -- repeats --------------------------------------------------------------------------------------


def _repeat_backward(g, shape, repeats):
    repeats = ints("repeat", "repeats", repeats)
    if 0 in repeats:
        return g.new_zeros(shape)
    missing = len(repeats) - len(shape)
    pairs = [n for r, s in zip(repeats, (1,) * missing + tuple(shape)) for n in (r, s)]
    return g.reshape(pairs).sum(tuple(range(0, len(pairs), 2))).reshape(shape) if pairs else g


@template(
    "repeat",
    linear=True,
    grad=lambda g, input_shape, repeats: _repeat_backward(g, input_shape, repeats),
    varargs="repeats",
    variants="method",
)
def repeat(input, repeats: Dims):
    """Copies side by side: so many along each dimension."""


@composite(variants="function method", varargs="dims")
def tile(input, dims: Dims):
    """repeat, where missing counts are ones."""
    dims = ints("tile", "dims", dims)
    return input.repeat((1,) * (input.ndim - len(dims)) + dims)


# -- triangles and diagonals ----------------------------------------------------------------------


@template("triangle", linear=True, grad=lambda g, diagonal: g.tril(diagonal), exact_out=True)
def tril(input, diagonal: int = 0, _lower: bool = True):
    """The elements on and below a diagonal, zeros above it."""


@template("triangle", linear=True, grad=lambda g, diagonal: g.triu(diagonal), exact_out=True)
def triu(input, diagonal: int = 0, _lower: bool = False):
    """The elements on and above a diagonal, zeros below it."""


@template("triangle_places", variants="function")
def tril_indices(
    row: int,
    col: int,
    offset: int = 0,
    *,
    dtype: DType = d.int64,
    device: object = None,
    layout: LayoutName = None,
    _lower: bool = True,
):
    """Row and column numbers of the elements on and below a diagonal."""


@template("triangle_places", variants="function")
def triu_indices(
    row: int,
    col: int,
    offset: int = 0,
    *,
    dtype: DType = d.int64,
    device: object = None,
    layout: LayoutName = None,
    _lower: bool = False,
):
    """Row and column numbers of the elements on and above a diagonal."""


@template(
    "diag_embed",
    linear=True,
    grad=lambda g, offset, dim1, dim2: g.diagonal(offset, dim1, dim2),
    variants="function method",
)
def diag_embed(input, offset: int = 0, dim1: int = -2, dim2: int = -1):
    """The last dimension as a diagonal of two new dimensions."""


@composite(
    grad=lambda g, input_shape, offset: placed(g, input_shape, lambda z: z.diagonal(offset)),
    variants="",
    node="DiagonalBackward0_copy",
)
def _diagonal_copy(input, offset: int = 0):
    """A copy of a diagonal."""
    return input.diagonal(offset).clone(memory_format=contiguous_format)


@composite(variants="function method out", exact_out=True)
def diag(input, diagonal: int = 0):
    """A matrix from its diagonal, or the diagonal of a matrix."""
    if input.ndim not in (1, 2):
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {input.ndim}D")
    return input.diag_embed(diagonal) if input.ndim == 1 else _diagonal_copy(input, diagonal)


@composite(variants="function method")
def diagflat(input, offset: int = 0):
    """A matrix with all elements on a diagonal."""
    return input.reshape(-1).diag_embed(offset)


# -- writing into a part, out of place ------------------------------------------------------------


def _written(input, src, part):
    out = input.detach().clone()
    where = part(out)
    if where.shape != src.shape:
        raise RuntimeError(
            "expected src to have a size equal to the slice of self. "
            f"src size = {list(src.shape)}, slice size = {list(where.shape)}"
        )
    where.copy_(src)
    return out


def _without(g, part):
    """g with zeros where part(g) is."""
    rest = g.clone()
    part(rest).zero_()
    return rest


@composite(
    linear="input src",
    variants="function method",
    grad=dict(
        input=lambda g, offset, dim1, dim2: _without(g, lambda z: z.diagonal(offset, dim1, dim2)),
        src=lambda g, offset, dim1, dim2: g.diagonal(offset, dim1, dim2),
    ),
)
def diagonal_scatter(input, src, offset: int = 0, dim1: int = 0, dim2: int = 1):
    """input with src on a diagonal."""
    return _written(input, src, lambda z: z.diagonal(offset, dim1, dim2))


@composite(
    linear="input src",
    variants="function method",
    grad=dict(
        input=lambda g, dim, index: _without(g, lambda z: z.select(dim, index)),
        src=lambda g, dim, index: g.select(dim, index),
    ),
)
def select_scatter(input, src, dim: int, index: int):
    """input with src at one position of a dimension."""
    return _written(input, src, lambda z: z.select(dim, index))


@composite(
    linear="input src",
    variants="function method out",
    grad=dict(
        input=lambda g, dim, start, end, step: _without(
            g, lambda z: slice(z, dim, start, end, step)
        ),
        src=lambda g, dim, start, end, step: slice(g, dim, start, end, step),
    ),
    exact_out=True,
)
def slice_scatter(input, src, dim: int = 0, start: int = None, end: int = None, step: int = 1):
    """input with src in a slice of a dimension."""
    wrap_dim(dim, input.ndim)
    return _written(input, src, lambda z: slice(z, dim, start, end, step))


def _laid_out(g, layout):
    """A gradient in memory as a copy of what has this layout: places in memory are what counts."""
    if layout.is_contiguous or not is_dense_in_some_order(layout):
        return g.contiguous()
    return public("empty_strided")(layout.shape, layout.strides, dtype=g.dtype).copy_(g)


@composite(
    linear="input src",
    variants="function method",
    grad=dict(
        input=lambda g, input_layout, size, stride, storage_offset: _without(
            _laid_out(g, input_layout), lambda z: z.as_strided(size, stride, storage_offset)
        ),
        src=lambda g, input_layout, size, stride, storage_offset: _laid_out(
            g, input_layout
        ).as_strided(size, stride, storage_offset),
    ),
)
def as_strided_scatter(input, src, size: IntList, stride: IntList, storage_offset: int = None):
    """input with src in a strided part of it."""
    return _written(input, src, lambda z: z.as_strided(size, stride, storage_offset))
