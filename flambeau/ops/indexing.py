"""Reading and writing through indices and masks: index, gather, scatter, nonzero and their kin.

The kernels' launchers are in eager/indexing.py (indices) and eager/masking.py (masks); `a[...]`
itself is taken apart in eager/subscripts.py. Derivatives write into fresh zeros in place: those are
recorded as well as the others, and nothing is copied.
"""

import math

from flambeau import _dtype as d
from flambeau._layout import broadcast_shape, wrap_dim
from flambeau._memory_format import contiguous_format
from flambeau.codegen import scalar as m
from flambeau.ops.rules import same
from flambeau.ops.support import refuses
from flambeau.ops.table import (
    Dims,
    Indices,
    OptionalTensor,
    Scalar,
    composite,
    pointwise,
    public,
    template,
)

READ, WRITE = "function method out", "function method inplace"
INTO = WRITE + " out"


def zeros(g, shape):
    return g.new_zeros(shape)


# -- a[...] ----------------------------------------------------------------------------------------


def _index_backward(g, input_shape, indices):
    # masks name no element twice, and writing is quicker than adding
    twice = any(i is not None and i.dtype is not d.bool_ for i in indices)
    return zeros(g, input_shape).index_put_(indices, g, accumulate=twice)


@template("index", linear="input", variants="", grad=_index_backward)
def index(input, indices: tuple):
    """The elements that index tensors name; None keeps a dimension."""


@template(
    "index_put",
    linear="input values",
    variants=WRITE,
    grad=dict(
        input=lambda g, indices, accumulate: (
            g if accumulate else g.index_put(indices, g.new_zeros(()))
        ),
        values=lambda g, indices: index(g, indices),
    ),
)
def index_put(input, indices: Indices, values, accumulate: bool = False):
    """A copy of input with the named elements replaced by (or increased by) values."""


# -- along one dimension, an index per element -----------------------------------------------------


@template(
    "gather",
    linear="input",
    variants=READ,
    grad=lambda g, input_shape, dim, index: zeros(g, input_shape).scatter_add_(dim, index, g),
    exact_out=True,
    apart="input index",
)
def gather(input, dim: int, index, *, sparse_grad: bool = False):
    """out[i][j] = input[index[i][j]][j] for dim 0, and so on."""


def _no_reduce(reduce):
    if reduce is not None:
        raise RuntimeError("derivative for aten::scatter.reduce is not implemented")


def _scatter_input(g, dim, index, reduce):
    _no_reduce(reduce)
    return g.scatter(dim, index, 0)


def _scatter_src(g, dim, index, src_shape, reduce):
    _no_reduce(reduce)
    return padded(g.gather(dim, index), src_shape)


def _scatter_jvp(t, src_t, dim, index, reduce):
    _no_reduce(reduce)
    return t.scatter(dim, index, 0.0 if src_t is None else src_t)


def padded(g, shape):
    """A gradient of the part of src that index speaks of, as one of all of src."""
    if g.shape == shape or not g.ndim:
        return g
    return zeros(g, shape).index_put_(tuple(_corner(g.shape, g.device)), g)


def cut(src, shape):
    """The part of src that index speaks of."""
    return (
        src if src.shape == shape or not src.ndim else index(src, tuple(_corner(shape, src.device)))
    )


def _corner(shape, device):
    """Index tensors of the first elements in every dimension."""
    ndim = len(shape)
    for k, n in enumerate(shape):
        yield public("arange")(n, device=device).reshape([n if d == k else 1 for d in range(ndim)])


@template(
    "scatter",
    variants=INTO,
    numbers_for=("src",),
    grad=dict(input=_scatter_input, src=_scatter_src),
    jvp=_scatter_jvp,
    exact_out=True,
)
def scatter(
    input, dim: int, index, src: OptionalTensor = None, *, value: Scalar = None, reduce: str = None
):
    """A copy of input with out[index[i][j]][j] = src[i][j] for dim 0, and so on."""


@template(
    "scatter_add",
    linear="input src",
    variants=INTO,
    grad=dict(
        input=lambda g: g,
        src=lambda g, dim, index, src_shape: padded(g.gather(dim, index), src_shape),
    ),
    exact_out=True,
)
def scatter_add(input, dim: int, index, src):
    """A copy of input with src[i][j] added to out[index[i][j]][j] for dim 0, and so on."""


def scatter_reduce_backward(g, input, dim, index, src, reduce, include_self, out, name):
    """Gradients of input and src. name: what the function and its src are called."""
    shape, src = src.shape, cut(src, index.shape)
    if reduce == "sum":
        own, given = g, g.gather(dim, index)
    elif reduce == "prod":
        own, given = _prod_backward(g, input, dim, index, src, include_self, out, name)
    elif reduce == "mean":
        count = (g.new_ones if include_self else g.new_zeros)(g.shape)
        count = count.scatter_add_(dim, index, g.new_ones(src.shape))
        own = g / count.masked_fill(count == 0, 1)
        given = own.gather(dim, index)
    else:
        # those that equal the result share its gradient
        own_hit, given_hit = (input == out).to(g.dtype), (src == out.gather(dim, index)).to(g.dtype)
        if not include_self:
            own_hit = own_hit.scatter(dim, index, 0)
        share = g / own_hit.scatter_add(dim, index, given_hit).clamp(min=1)
        own, given = own_hit * share, given_hit * share.gather(dim, index)
    if not include_self:
        own = own.scatter(dim, index, 0)
    return own, padded(given, shape)


def _prod_backward(g, input, dim, index, src, include_self, out, name):
    # out / x is the product of the others, unless x is the only zero: then take it out first
    own_one = input.masked_fill(input == 0, 1)
    own = g * own_one.scatter_reduce(dim, index, src, "prod", include_self=include_self) / own_one
    zero = src == 0
    among = zeros(g, g.shape).scatter_add_(dim, index, zero.to(g.dtype)).gather(dim, index)
    alone = zero & (among == 1)
    others = input.scatter_reduce(
        dim, index, src.masked_fill(alone, 1), "prod", include_self=include_self
    )
    quotient = (g * out).gather(dim, index) / src.masked_fill(zero, 1)
    given = m.where(alone, (g * others).gather(dim, index), quotient)
    if given.requires_grad:
        given.register_hook(lambda _: _refuse_zeros((among > 1).any(), *name))
    return own, given


def _refuse_zeros(several, function, src):
    # the product of the others is written as a constant where two of them are zero
    if several:
        raise RuntimeError(
            f"{function}(): Double backward is unsupported for {src} when >1 zeros in {src} are "
            "scattered to the same position in self"
        )


def _scatter_reduce_grads(g, input, dim, index, src, reduce, include_self, out):
    name = "scatter_reduce", "src"
    own, given = scatter_reduce_backward(g, input, dim, index, src, reduce, include_self, out, name)
    return own, None, given


@template(
    "scatter_reduce",
    variants=INTO,
    edges="input src",
    joint_grad=_scatter_reduce_grads,
    exact_out=True,
)
def scatter_reduce(input, dim: int, index, src, reduce: str, *, include_self: bool = True):
    """A copy of input where the elements of src that index sends to one place are reduced."""


# -- along one dimension, an index per slice -------------------------------------------------------


def spread_index(index, dim, shape):
    """An index vector as a tensor of the given shape, the same in all other dimensions."""
    if not shape:
        return index.reshape(())
    dim = wrap_dim(dim, len(shape))
    return index.reshape([-1 if d == dim else 1 for d in range(len(shape))]).expand(shape)


@template(
    "index_select",
    linear="input",
    variants=READ,
    grad=lambda g, input_shape, dim, index: zeros(g, input_shape).index_add_(
        dim, index, g if input_shape else g.reshape(())
    ),
    exact_out="index_select(): self and result must have the same scalar type",
    apart="input index",
)
def index_select(input, dim: int, index):
    """The slices of input that a vector of indices names."""


@template(
    "index_add",
    linear="input source",
    variants=INTO,
    grad=dict(
        input=lambda g: g,
        source=lambda g, dim, index, alpha, source_shape: (
            _slices(g, dim, index, source_shape) * alpha
        ),
    ),
    exact_out=True,
)
def index_add(input, dim: int, index, source, *, alpha: Scalar = 1):
    """A copy of input with alpha * source added to the slices that index names."""


def _slices(g, dim, index, shape):
    found = g.index_select(dim, index)
    return found if found.shape == shape else found.reshape(shape)


@template(
    "index_copy",
    linear="input source",
    variants=INTO,
    grad=dict(
        input=lambda g, dim, index: g.index_fill(dim, index, 0),
        source=lambda g, dim, index, source_shape: _slices(g, dim, index, source_shape),
    ),
    exact_out=True,
)
def index_copy(input, dim: int, index, source):
    """A copy of input with the slices that index names replaced by those of source."""


@template(
    "index_fill",
    linear="input value",
    variants=WRITE,
    numbers_for=("value",),
    node="IndexFillBackward1",
    bare_node="IndexFillBackward0",
    grad=dict(
        input=lambda g, dim, index: g.index_fill(dim, index, 0),
        value=lambda g, dim, index: (g - g.index_fill(dim, index, 0)).sum(),
    ),
)
def index_fill(input, dim: int, index, value):
    """A copy of input with the slices that index names set to value."""


def _index_reduce_grads(g, input, dim, index, source, reduce, include_self, out):
    index = spread_index(index, dim, source.shape)
    name = "index_reduce", "source"
    own, given = scatter_reduce_backward(
        g, input, dim, index, source, reduce, include_self, out, name
    )
    return own, None, given


@template(
    "index_reduce",
    variants=INTO,
    edges="input source",
    joint_grad=_index_reduce_grads,
    exact_out=True,
)
def index_reduce(input, dim: int, index, source, reduce: str, *, include_self: bool = True):
    """A copy of input where the slices of source that index sends to one place are reduced."""


# -- the tensor as if it were flat -----------------------------------------------------------------


@template(
    "take",
    linear="input",
    variants=READ,
    grad=lambda g, input_shape, index: zeros(g, input_shape).put_(index, g, accumulate=True),
    exact_out="take(): self and out expected to have the same dtype, but got self.dtype = "
    "{wanted.scalar_name} and out.dtype = {got.scalar_name}",
    apart="input index",
)
def take(input, index):
    """The elements at flat positions."""


@template(
    "put",
    linear="input source",
    variants=WRITE,
    grad=dict(
        input=lambda g, index, accumulate: (
            g if accumulate else g.put(index, g.new_zeros(()).expand(index.shape))
        ),
        source=lambda g, index, source_shape: g.take(index).reshape(source_shape),
    ),
)
def put(input, index, source, accumulate: bool = False):
    """A copy of input with the elements at flat positions replaced by (or increased by) source."""


@composite(variants=READ, exact_out=True)
def take_along_dim(input, indices, dim: int = None):
    """gather, with broadcasting; without dim, from the flattened input."""
    name = "torch.take_along_dim()"
    if dim is None and not indices.numel():
        return input.reshape(-1)[:0]  # indices of any dtype: none of them is read
    if indices.dtype.name != "int64" and (dim is not None or indices.dtype.name != "int32"):
        raise RuntimeError(
            f"{name}: dtype of indices should be Long but got {indices.dtype.scalar_name}"
        )
    if dim is None:
        return input.reshape(-1).gather(0, indices.reshape(-1))
    if input.ndim != indices.ndim:
        raise RuntimeError(
            f"{name}: input and indices should have the same number of dimensions, but got "
            f"{input.ndim} dimensions for input, and {indices.ndim} dimensions for indices"
        )
    dim = wrap_dim(dim, input.ndim)
    shape = [max(a, b) if a and b else 0 for a, b in zip(input.shape, indices.shape)]
    for k, (a, b) in enumerate(zip(input.shape, indices.shape)):
        shape[k] = b if a == 1 else a
    wanted, own = list(shape), list(shape)
    wanted[dim], own[dim] = indices.shape[dim], input.shape[dim]
    # PyTorch wraps every index into range by the remainder, however far out it is
    return input.expand(own).gather(dim, indices.expand(wanted) % max(input.shape[dim], 1))


# -- masks -----------------------------------------------------------------------------------------


def _check_masked_fill(op, operands):
    _, mask, value = operands
    if mask.dtype.name != "bool":
        raise RuntimeError(
            "masked_fill_ only supports boolean masks, but got mask with dtype "
            f"{mask.dtype.cpp_name}"
        )
    if not isinstance(value, type) and value.ndim:
        raise RuntimeError(
            "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with "
            f"{value.ndim} dimension(s)."
        )
    refuses("masked_fill", "")(op, operands)


_RANGE = dict.fromkeys(d.ALL, (-(2.0**63), 2.0**63))  # bounds that surely hold, for a quick answer
_RANGE |= {t: (d.iinfo(t).min, d.iinfo(t).max) for t in d.ALL if t.category == d.INTEGER}
_RANGE |= {t: (d.finfo(t).min, d.finfo(t).max) for t in d.ALL if t.category == d.FLOATING}
_RANGE[d.complex32] = _RANGE[d.float16]
_RANGE |= dict.fromkeys(d.FLOAT8.values(), (-1.0, 1.0))


def check_fits(value, dtype):
    """Complain if a number is out of a dtype's range."""
    if type(value) is not complex:
        low, high = _RANGE[dtype]
        if low <= value <= high:
            return
    d.check_fits(value, dtype)


def _check_fits(bound):
    value, dtype = bound["value"], bound["input"].dtype
    if isinstance(value, (int, float, complex)):
        check_fits(value, dtype)
    elif value.dtype.is_complex and not dtype.is_complex:
        check_fits(1j, dtype)
    if bound["mask"].shape != bound["input"].shape:
        broadcast_shape(bound["mask"].shape, bound["input"].shape)  # PyTorch names the mask first


@pointwise(
    dtype=same,
    dtypes=_check_masked_fill,
    variants=WRITE,
    prepare=_check_fits,
    numbers_for=("value",),
    overlapping=True,
    sparing=True,
    node=lambda tensors, statics: f"MaskedFillBackward{int('value' in tensors)}",
    grad=dict(
        input=lambda g, mask: m.where(mask != 0, 0, g),
        value=lambda g, mask: m.where(mask != 0, g, 0),
    ),
)
def masked_fill(input, mask, value):
    """A copy of input with value where mask is true."""
    return m.where(mask != 0, value, input)


def _spread(g, shape):
    return g if g.shape == shape else g.sum_to_size(shape)


def _masked_select_backward(g, input_shape, mask):
    whole = broadcast_shape(input_shape, mask.shape)
    return _spread(zeros(g, whole).masked_scatter_(mask, g), input_shape)


@template(
    "masked_select",
    linear="input",
    variants="function method out",
    grad=_masked_select_backward,
    exact_out="masked_select(): self and result must have the same scalar type",
    apart="input mask",
)
def masked_select(input, mask):
    """The elements where mask is true, as a vector."""


def _masked_scatter_source(g, mask, source_shape):
    picked = g.masked_select(mask)
    rest = math.prod(source_shape) - picked.numel()
    if rest:
        picked = zeros(g, (math.prod(source_shape),)).index_put_(
            (public("arange")(picked.numel(), device=picked.device),), picked
        )
    return picked.reshape(source_shape)


@template(
    "masked_scatter",
    linear="input source",
    variants=WRITE,
    grad=dict(input=lambda g, mask: g.masked_fill(mask, 0), source=_masked_scatter_source),
)
def masked_scatter(input, mask, source):
    """A copy of input where the elements under the mask are taken from source in order."""


def _no_tuple(out, input, as_tuple):
    if as_tuple:
        raise RuntimeError("nonzero does not support the out kwarg when as_tuple is True")


@template("nonzero", variants="")
def nonzero_rows(input):
    """Coordinates of the elements that are not zero, one per row."""


_NONZERO_OUT = (
    "{name}: Expected out tensor to have scalar type {{wanted.scalar_name}} but got "
    "scalar type{{got.scalar_name}}"
)


@composite(
    variants="function method out",
    before_out=_no_tuple,
    exact_out=_NONZERO_OUT.format(name="nonzero"),
    apart="input",
)
def nonzero(input, *, as_tuple: bool = False):
    """Coordinates of the elements that are not zero: a matrix, or one vector per dimension."""
    if not as_tuple:
        return nonzero_rows(input)
    if input.ndim == 0:
        input = input.unsqueeze(0)
    return nonzero(input).unbind(1)


@composite(
    variants="function method out",
    exact_out=_NONZERO_OUT.format(name="nonzero_static"),
    apart="input",
)
def nonzero_static(input, *, size: int, fill_value: int = -1):
    """So many rows of coordinates of elements that are not zero: cut off, or filled up."""
    if size < 0:
        raise RuntimeError("nonzero_static: 'size' must be an non-negative integer")
    rows = nonzero(input)[:size]
    missing = rows.new_full((size - rows.shape[0], input.ndim), fill_value)
    return public("cat")([rows, missing]) if missing.shape[0] else rows


@composite(variants="function method")
def argwhere(input):
    """Coordinates of the elements that are not zero, one per row."""
    return nonzero(input)


@template("count_nonzero", variants="")
def count_all_nonzero(input):
    """How many elements are not zero."""


@composite(variants="function method")
def count_nonzero(input, dim: Dims = None):
    """How many elements are not zero, along some dimensions or altogether."""
    if dim is None or dim == ():
        return count_all_nonzero(input)
    return (input != 0).sum(dim)


# -- repetition ------------------------------------------------------------------------------------


@template("repeated_positions", variants="")
def repeated_positions(repeats, output_size: int = None):
    """Each position as often as repeats says."""


def _repeat_interleave(overload, out, arguments):
    if overload == 0:
        return repeated_positions(*arguments)
    input, repeats, dim, output_size = arguments
    if dim is None:
        input, dim = input.flatten(), 0
    elif not input.ndim:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [-1, 0], but got {dim + 1})"
            if isinstance(repeats, int)
            else f"Dimension specified as {dim} but tensor has no dimensions"
        )
    dim = wrap_dim(dim, input.ndim)
    size = input.shape[dim]
    if isinstance(repeats, int):
        if repeats < 0:
            raise RuntimeError("Repeats must be non-negative")
        if output_size not in (None, size * repeats):
            raise RuntimeError(
                f"repeat_interleave: Invalid output_size, expected {size * repeats} but got "
                f"{output_size}"
            )
        shape = [*input.shape[: dim + 1], repeats, *input.shape[dim + 1 :]]
        return (
            input.unsqueeze(dim + 1)
            .expand(shape)
            .clone(memory_format=contiguous_format)
            .flatten(dim, dim + 1)
        )
    if repeats.ndim > 1:
        raise RuntimeError("repeats must be 0-dim or 1-dim tensor")
    if repeats.numel() == 1:
        repeats = repeats.reshape(1).expand(size)
    if repeats.numel() != size:
        raise RuntimeError(
            "repeats must have the same size as input along dim, but got repeats.size(0) = "
            f"{repeats.numel()} and input.size({dim}) = {size}"
        )
    return input.index_select(dim, repeated_positions(repeats, output_size))


@composite(
    "overloads",
    variants="function method",
    choose=_repeat_interleave,
    signatures=(
        "Tensor repeats, *, int? output_size=None",
        "Tensor input, Tensor repeats, int? dim=None, *, int? output_size=None",
        "Tensor input, int repeats, int? dim=None, *, int? output_size=None",
    ),
)
def repeat_interleave(input, repeats: object = None, dim: int = None, *, output_size: int = None):
    """Each element (or slice) repeated, next to itself."""
