"""Embeddings: rows of a table by number, bags of them, and ones at the places of numbers.

`embedding` and `embedding_bag` are the functions of torch, whose first argument is the table; those
of nn.functional, where it is the second, are below. Gradients of tables are rows of their own, so
that they can be differentiated again. Launchers: `eager/embedding.py`.
"""

import warnings

from flambeau import errors
from flambeau.codegen import scalar as m
from flambeau.ops.table import OptionalTensor, composite, public, template

NN = "nn.functional"
SUM, MEAN, MAX = range(3)  # PyTorch's numbers for the modes of bags


# -- one row per place -----------------------------------------------------------------------------


def _table_gradient(g, weight_shape, indices, padding_idx, scale_grad_by_freq, sparse):
    rows = weight_shape[0]
    if sparse:
        _check_frequency(scale_grad_by_freq)
        return sparse_table_gradient(g, indices, rows, padding_idx)
    return embedding_dense_backward(g, indices, rows, padding_idx, scale_grad_by_freq)


@template("embedding", linear="weight", variants="function", grad={"weight": _table_gradient})
def embedding(
    weight,
    indices,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
):
    """The rows of weight that indices name.

    Args:
        padding_idx: a row that gets no gradient.
        scale_grad_by_freq: divide the gradient of a row by how often it was used?
    """


def _place_gradient(g, indices, num_weights, padding_idx, scale_grad_by_freq):
    found = embedding(g, indices)
    if scale_grad_by_freq:
        counts = indices.reshape(-1).bincount(minlength=num_weights).to(g.dtype)
        found = found / counts[indices].unsqueeze(-1)
    if padding_idx >= 0:
        found = found.masked_fill((indices == padding_idx).unsqueeze(-1), 0)
    return found


@template(
    "embedding_gradient",
    linear="grad_output",
    variants="",
    node="EmbeddingDenseBackwardBackward0",
    grad={"grad_output": _place_gradient},
)
def embedding_dense_backward(
    grad_output, indices, num_weights: int, padding_idx: int, scale_grad_by_freq: bool
):
    """The gradient of a table of num_weights rows: sums of the gradients of the places."""


def _check_frequency(scale_grad_by_freq):
    if scale_grad_by_freq:
        raise RuntimeError(
            "embedding_backward: scale_grad_by_freq not supported with sparse gradients"
        )


@template("sparse_table_gradient", variants="")
def sparse_table_gradient(grad_output, indices, num_weights: int, padding_idx: int):
    """The same as a sparse tensor: a row for each place, however often a row was used."""


@template("embedding_renorm", variants="function")
def embedding_renorm_(self, indices, max_norm: float, norm_type: float):
    """Scale the rows that indices name down to max_norm, in place, where their norm is above it."""


@composite(namespace=NN, variants="")
def functional_embedding(
    input,
    weight,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
):
    """The rows of weight that input names.

    Args:
        padding_idx: a row that gets no gradient; may count from the end.
        max_norm: rows that are used are first scaled down to this norm, in place.
    """
    if padding_idx is None:
        padding_idx = -1
    elif padding_idx:
        rows = weight.shape[0]
        if not -rows <= padding_idx < rows:
            raise AssertionError("Padding_idx must be within num_embeddings")
        padding_idx %= rows
    if max_norm is not None:
        embedding_renorm_(weight.detach(), input, float(max_norm), float(norm_type))
    return embedding(weight, input, padding_idx, scale_grad_by_freq, sparse)


# -- bags ------------------------------------------------------------------------------------------


def _bag_gradient(
    g,
    weight_shape,
    indices,
    scale_grad_by_freq,
    mode,
    per_sample_weights,
    padding_idx,
    sparse,
    out1,
    out2,
    out3,
):
    if mode == MAX:
        g = m.where((out2 > 0).unsqueeze(-1), g, 0.0)
        return g.new_zeros(weight_shape).scatter_add_(0, out3, g)
    used = out1.shape[0]  # places after the last offset belong to no bag
    if used != indices.shape[0]:
        indices = indices[:used]
        per_sample_weights = None if per_sample_weights is None else per_sample_weights[:used]
    factors = per_sample_weights
    if mode == MEAN:
        factors = out2.clamp(min=1).to(g.dtype).reciprocal()[out1]
    if sparse:
        _check_frequency(scale_grad_by_freq)
        rows = g.index_select(0, out1)
        rows = rows if factors is None else rows * factors.unsqueeze(-1)
        return sparse_table_gradient(rows, indices, weight_shape[0], padding_idx)
    return bag_gradient(g, indices, out1, factors, weight_shape[0], padding_idx, scale_grad_by_freq)


def _weights_gradient(g, weight, indices, padding_idx, out1):
    used = out1.shape[0]
    found = bag_dots(g, weight, indices[:used], out1, padding_idx)
    unused = indices.shape[0] - used
    return public("cat")([found, found.new_zeros(unused)]) if unused else found


@template(
    "bags",
    variants="",
    outputs=4,
    node="EmbeddingBagBackward0",
    grad=dict(weight=_bag_gradient, per_sample_weights=_weights_gradient),
)
def bags(
    weight,
    indices,
    offsets: OptionalTensor,
    per_bag: int,
    scale_grad_by_freq: bool,
    mode: int,
    per_sample_weights: OptionalTensor,
    include_last_offset: bool,
    padding_idx: int,
    sparse: bool = False,
):
    """The result, the bag of each place, the size of each bag and, for maxima, whose they are.

    Bags start at offsets or, if there are none, have per_bag places each; padding_idx is a row that
    does not count, or -1.
    """


def _check_table(weight):
    dtype = weight.dtype
    if not dtype.is_floating_point:
        name = dtype.scalar_name
        name = f"CPU{name}Type" if dtype.is_complex else f"torch.{name}Tensor"
        raise RuntimeError(
            "Expected tensor for argument #1 'weight' to have one of the following scalar types: "
            f"Half, BFloat16, Float, Double; but got {name} instead "
            "(while checking arguments for embedding_bag)"
        )


def _bag_of_call(overload, out, arguments):
    return _all_of_bags(*arguments)


_BAG = "Tensor weight, Tensor indices, Tensor offsets, "


@composite(
    "overloads",
    variants="function",
    choose=_bag_of_call,
    signatures=(
        _BAG + "bool scale_grad_by_freq=False, int mode=0, bool sparse=False, "
        "Tensor? per_sample_weights=None, bool include_last_offset=False",
        # a padding_idx goes with all the others
        _BAG + "bool scale_grad_by_freq, int mode, bool sparse, Tensor? per_sample_weights, "
        "bool include_last_offset, int? padding_idx",
    ),
    outputs=4,
)
def embedding_bag(
    weight,
    indices,
    offsets,
    scale_grad_by_freq: bool = False,
    mode: int = SUM,
    sparse: bool = False,
    per_sample_weights: OptionalTensor = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
):
    """Sums, means or maxima (mode 0, 1, 2) of the rows that bags of indices name.

    Returns the result, the bag of each place, the sizes of bags and the rows of maxima.
    """


def _all_of_bags(
    weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights,
    include_last_offset, padding_idx=None,
):  # fmt: skip
    if weight.ndim != 2:
        raise RuntimeError(
            f"weight has to be a 2D Tensor, but got Tensor of dimension {weight.ndim}"
        )
    _check_table(weight)
    padding = _padding(weight, padding_idx)
    out, places, sizes, whose = bags(
        weight,
        indices,
        offsets,
        0,
        scale_grad_by_freq,
        mode,
        per_sample_weights,
        include_last_offset,
        padding,
        sparse,
    )
    if mode == SUM:  # as in PyTorch, which has no use for these here
        if padding_idx is None and weight.dtype.name != "float64":
            places = places.new_empty(0)
        sizes = sizes.new_zeros(offsets.shape[0])
    return out, places, sizes, whose if mode == MAX else sizes.clone()


def _padding(weight, padding_idx):
    """The number of the row that does not count, or -1."""
    if padding_idx is None:
        return -1
    rows = weight.shape[0]
    if not -rows <= padding_idx < rows:
        raise RuntimeError(
            f"padding_idx must be within the number of embeddings, {-rows} through {rows - 1}, but "
            f"got {padding_idx}"
        )
    return padding_idx % rows


def _rows_of_bags(g, indices, bags, factors, padding_idx, scale_grad_by_freq):
    """A gradient of a table as gradients of places."""
    rows = _place_gradient(g, indices, g.shape[0], padding_idx, scale_grad_by_freq)
    return rows if factors is None else rows * factors.unsqueeze(-1)


def _bag_gradient_again(
    g, grad_output_shape, indices, bags, factors, padding_idx, scale_grad_by_freq
):
    rows = _rows_of_bags(g, indices, bags, factors, padding_idx, scale_grad_by_freq)
    return g.new_zeros(grad_output_shape).index_add_(0, bags, rows)


def _factor_gradient(g, grad_output, indices, bags, padding_idx, scale_grad_by_freq):
    rows = _place_gradient(g, indices, g.shape[0], padding_idx, scale_grad_by_freq)
    return (rows * grad_output.index_select(0, bags)).sum(-1)


@template(
    "bag_gradient",
    variants="",
    node="EmbeddingBagBackwardBackward0",
    grad=dict(grad_output=_bag_gradient_again, factors=_factor_gradient),
)
def bag_gradient(
    grad_output,
    indices,
    bags,
    factors: OptionalTensor,
    num_weights: int,
    padding_idx: int,
    scale_grad_by_freq: bool,
):
    """The gradient of a table: sums of the gradients of the bags that used each row."""


def _dots_bag_gradient(g, grad_output_shape, weight, indices, bags, padding_idx):
    rows = _rows_of_bags(weight, indices, bags, g, padding_idx, False)
    return g.new_zeros(grad_output_shape).index_add_(0, bags, rows)


@template(
    "bag_dots",
    linear="grad_output, weight",
    variants="",
    node="EmbeddingBagPerSampleWeightsBackwardBackward0",
    grad=dict(
        grad_output=_dots_bag_gradient,
        weight=lambda g, grad_output, weight_shape, indices, bags, padding_idx: bag_gradient(
            grad_output, indices, bags, g, weight_shape[0], padding_idx, False
        ),
    ),
)
def bag_dots(grad_output, weight, indices, bags, padding_idx: int):
    """Gradients of the weights of places: the row of each times the gradient of its bag."""


_MODES = {"sum": SUM, "mean": MEAN, "max": MAX}


@composite(namespace=NN, variants="")
def functional_embedding_bag(
    input,
    weight,
    offsets: OptionalTensor = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: object = False,
    mode: str = "mean",
    sparse: object = False,
    per_sample_weights: OptionalTensor = None,
    include_last_offset: object = False,
    padding_idx: int | None = None,
):
    """Sums, means or maxima of the rows that bags of indices name.

    Args:
        input: a matrix with a bag per row, or a vector of bags that start at offsets.
        include_last_offset: is the last of the offsets the end of the last bag?
        per_sample_weights: a factor per index, for sums.
    """
    if weight.dtype.name == "int64" and input.dtype.is_floating_point:
        warnings.warn(
            "Argument order of nn.functional.embedding_bag was changed. Usage "
            "`embedding_bag(weight, input, ...)` is deprecated, and should now be "
            "`embedding_bag(input, weight, ...)`.",
            stacklevel=3,
        )
        weight, input = input, weight
    _check_bags(input, weight, offsets, per_sample_weights)
    per_bag = 0
    if input.ndim == 2:
        per_bag = input.shape[1]
        if not per_bag:
            raise RuntimeError("step must be nonzero")
        if input.dtype.is_complex or input.dtype.code == "bool":
            raise errors.not_implemented("arange_cpu", input.dtype)
        include_last_offset = False
        input = input.reshape(-1)
        if per_sample_weights is not None:
            per_sample_weights = per_sample_weights.reshape(-1)
    _check_mode(mode, scale_grad_by_freq, sparse)
    if max_norm is not None:
        embedding_renorm_(weight.detach(), input, float(max_norm), float(norm_type))
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported "
            f"for mode='sum' (got mode='{mode}'). Please open a feature request on GitHub."
        )
    scale_grad_by_freq = _flag("scale_grad_by_freq", 4, scale_grad_by_freq)
    sparse = _flag("sparse", 6, sparse)
    include_last_offset = _flag("include_last_offset", 8, include_last_offset)
    _check_table(weight)
    return bags(
        weight,
        input,
        offsets,
        per_bag,
        scale_grad_by_freq,
        _MODES[mode],
        per_sample_weights,
        include_last_offset,
        _padding(weight, padding_idx),
        sparse,
    )[0]


def _flag(name, place, given):
    if not isinstance(given, bool | None):
        raise TypeError(
            f"embedding_bag(): argument '{name}' (position {place}) must be bool, not "
            f"{errors.kind_name(given)}"
        )
    return bool(given)


def _check_bags(input, weight, offsets, per_sample_weights):
    if per_sample_weights is not None and input.shape != per_sample_weights.shape:
        raise ValueError(
            f"embedding_bag: If per_sample_weights ({per_sample_weights.shape}) is not None, then "
            f"it must have the same shape as the input ({input.shape})"
        )
    if weight.ndim != 2:
        raise ValueError(f"weight has to be a 2D Tensor, but got Tensor of dimension {weight.ndim}")
    if input.ndim == 2 and offsets is not None:
        raise ValueError(
            "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of "
            f"fixed length sequences. However, found offsets of type {type(offsets)}"
        )
    if input.ndim == 1 and (offsets is None or offsets.ndim != 1):
        raise ValueError(
            "offsets has to be a 1D Tensor" + (" but got None" if offsets is None else "")
        )
    if input.ndim not in (1, 2):
        raise ValueError(
            f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.ndim}"
        )


def _check_mode(mode, scale_grad_by_freq, sparse):
    if mode not in _MODES:
        raise ValueError("mode has to be one of sum, mean or max")
    if mode == "max" and scale_grad_by_freq:
        raise ValueError("max mode does not support scaling the gradient by the frequency")
    if mode == "max" and sparse:
        raise ValueError("max mode does not support sparse weights")


# -- ones at the places of numbers -----------------------------------------------------------------


@composite(namespace=NN, variants="", python=False)
def one_hot(input, num_classes: int = -1):
    """A one at the place of each number, zeros at all others, along a new last dimension.

    Args:
        num_classes: how many places; as many as the largest number needs if -1.
    """
    if input.dtype.name != "int64":
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    if input.numel() == 0:
        if num_classes <= 0:
            raise RuntimeError("Can not infer total number of classes from empty tensor.")
        return input.new_zeros((*input.shape, num_classes))
    if num_classes == -1:
        num_classes = max(input.max().item() + 1, 1)
    if num_classes > 0:
        return ones_at(input, num_classes)
    raise wrong_class(input)


def wrong_class(input, *given):
    """The complaint about an element that is no class."""
    if input.min().item() < 0:
        return RuntimeError("Class values must be non-negative.")
    return RuntimeError("Class values must be smaller than num_classes.")


@template("ones_at", variants="")
def ones_at(input, num_classes: int):
    """one_hot with a number of classes."""


for _row in (functional_embedding, functional_embedding_bag):
    _row.name = _row.name.removeprefix("functional_")  # what messages call them
