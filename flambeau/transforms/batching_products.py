"""vmap of products, convolutions and attention."""

from flambeau._tensor import Tensor
from flambeau.ops.table import public
from flambeau.transforms.batching import batches, changed, padded, rank_of


def _product(left: Tensor, right: Tensor) -> Tensor:
    return public("matmul")(left, right)


def _operand(level, t, rank):
    """A value for a product: samples first, or as it is where it has none."""
    return padded(t._value, rank) if level.is_batched(t) else level.plain(t)


def _check_ranks(name, left, right, wanted):
    """Samples of products have fixed numbers of dimensions; matmul would take others."""
    found = rank_of(left), rank_of(right)
    if found != wanted:
        raise RuntimeError(
            f"Shape mismatch: Got incorrect dims for {name}(a, b). a has dim {found[0]}and b has "
            f"dim {found[1]}but expected them to have dim {wanted[0]} and dim {wanted[1]}"
        )


@batches("mm", "bmm", "_batched_product")
def _matrices(level, op, bound):
    left, right = list(bound.values())[:2]
    if op.name != "_batched_product":
        _check_ranks(op.name, left, right, (2, 2) if op.name == "mm" else (3, 3))
    rank = max(rank_of(left), rank_of(right))
    return _product(_operand(level, left, rank), _operand(level, right, rank))


@batches("mv")
def _mv(level, op, bound):
    matrix, vector = bound["input"], bound["vec"]
    _check_ranks("mv", matrix, vector, (2, 1))
    column = (vector._value if level.is_batched(vector) else level.plain(vector)).unsqueeze(-1)
    return _product(_operand(level, matrix, 2), column).squeeze(-1)


@batches("dot")
def _dot(level, op, bound):
    if rank_of(bound["input"]) != 1 or rank_of(bound["tensor"]) != 1:
        raise RuntimeError("Got wrong shapes for dot")
    left, right = level.front(bound["input"]), level.front(bound["tensor"])
    return _product(left.unsqueeze(1), right.unsqueeze(2)).reshape(level.size)


def _added(level, bound, product, rank):
    """beta * input + alpha * product."""
    beta, alpha, input = bound["beta"], bound["alpha"], bound["input"]
    if alpha != 1:
        product = product * alpha
    if beta == 0:
        return product
    start = _operand(level, input, rank)
    start = start.to(product.dtype) if start.dtype is not product.dtype else start
    return product + (start if beta == 1 else start * beta)


@batches("addmm")
def _addmm(level, op, bound):
    product = _product(_operand(level, bound["mat1"], 2), _operand(level, bound["mat2"], 2))
    return _added(level, bound, product, 2)


@batches("baddbmm", "addbmm")
def _baddbmm(level, op, bound):
    product = _product(_operand(level, bound["batch1"], 3), _operand(level, bound["batch2"], 3))
    if op.name == "baddbmm":
        return _added(level, bound, product, 3)
    return _added(level, bound, product.sum(-3), 2)


@batches("addmv")
def _addmv(level, op, bound):
    product = _mv(level, op, {"input": bound["mat"], "vec": bound["vec"]})
    return _added(level, bound, product, 1)


@batches("linear")
def _linear(level, op, bound):
    input, weight, bias = bound["input"], bound["weight"], bound["bias"]
    if not level.is_batched(weight) and not level.is_batched(bias):
        return changed(op, level, bound)
    rank = rank_of(input)
    lines = _operand(level, input, rank)
    if rank == 1:
        lines = lines.unsqueeze(-2)
    matrix = _operand(level, weight, max(rank, 2))
    out = _product(lines, matrix.transpose(-1, -2))
    out = out.squeeze(-2) if rank == 1 else out
    if bias is None:
        return out
    return out + _operand(level, bias, rank)


@batches("linear_to_weight")
def _linear_to_weight(level, op, bound):
    g, input = level.front(bound["g_out"]), level.front(bound["input"])
    if rank_of(bound["input"]) == 1:
        return g.unsqueeze(2) * input.unsqueeze(1)
    g, input = (t.reshape(level.size, -1, t.shape[-1]) for t in (g, input))
    return _product(g.transpose(1, 2), input)


# -- convolutions ----------------------------------------------------------------------------------


def _channels_joined(value: Tensor) -> Tensor:
    """(samples, images, channels, ...) as (images, samples x channels, ...)."""
    turned = value.transpose(0, 1)
    return turned.reshape(turned.shape[0], turned.shape[1] * turned.shape[2], *turned.shape[3:])


def _channels_apart(level, value: Tensor) -> Tensor:
    """The other way round."""
    channels = value.shape[1] // level.size
    cut = value.reshape(value.shape[0], level.size, channels, *value.shape[2:])
    return cut.transpose(0, 1)


def _images_joined(value: Tensor) -> Tensor:
    return value.reshape(value.shape[0] * value.shape[1], *value.shape[2:])


def _images_apart(level, value: Tensor) -> Tensor:
    return value.reshape(level.size, value.shape[0] // level.size, *value.shape[1:])


@batches("convolution")
def _convolution(level, op, bound):
    input, weight, bias = bound["input"], bound["weight"], bound["bias"]
    if level.is_batched(bias):
        new = {**bound, "bias": None}
        alone = not (level.is_batched(input) or level.is_batched(weight))
        out = changed(op, level, new).unsqueeze(0) if alone else _convolution(level, op, new)
        values = bias._value
        return out + values.reshape(level.size, 1, values.shape[1], *[1] * (out.ndim - 3))
    if not level.is_batched(weight):
        found = changed(op, level, bound, input=_images_joined(input._value))
        return _images_apart(level, found)
    plain_bias = None if bias is None else level.plain(bias)
    if not level.is_batched(input) and bound["groups"] == 1 and not bound["transposed"]:
        # all kernels at once on the same images
        new = {"weight": _images_joined(weight._value), "bias": None}
        out = _channels_apart(level, changed(op, level, bound, **new))
    else:
        new = {
            "input": _channels_joined(level.front(input)),
            "weight": _images_joined(weight._value),
            "bias": None,
            "groups": bound["groups"] * level.size,
        }
        out = _channels_apart(level, changed(op, level, bound, **new))
    if plain_bias is None:
        return out
    return out + plain_bias.reshape(-1, *[1] * (out.ndim - 3))


@batches("convolution_to_input")
def _to_input(level, op, bound):
    gradient, weight, shape = bound["input"], bound["weight"], tuple(bound["shape"])
    if not level.is_batched(weight):
        new = {
            "input": _images_joined(level.front(gradient)),
            "shape": (shape[0] * level.size, *shape[1:]),
        }
        return _images_apart(level, changed(op, level, bound, **new))
    new = {
        "input": _channels_joined(level.front(gradient)),
        "weight": _images_joined(weight._value),
        "shape": (shape[0], shape[1] * level.size, *shape[2:]),
        "groups": bound["groups"] * level.size,
    }
    return _channels_apart(level, changed(op, level, bound, **new))


@batches("convolution_to_weight", "convolution_to_weight_and_bias")
def _to_weight(level, op, bound):
    """Each sample is a group of channels, so that its weights have a gradient of their own."""
    shape = tuple(bound["shape"])
    other = level.front(bound["other"])
    new = {
        "input": _channels_joined(level.front(bound["input"])),
        "other": _channels_joined(other),
        "shape": (shape[0] * level.size, *shape[1:]),
        "groups": bound["groups"] * level.size,
    }
    found = changed(op, level, bound, **new)
    if isinstance(found, Tensor):
        return _images_apart(level, found)
    return tuple(_images_apart(level, f) for f in found)


# -- attention -------------------------------------------------------------------------------------


@batches("_attention")
def _attention(level, op, bound):
    """Samples count as more entries of the first of four dimensions."""
    query = level.front(bound["query"])
    count = query.shape[1]
    new = {n: _images_joined(level.front(bound[n])) for n in ("query", "key", "value")}
    for name in ("attn_mask", "keep"):
        mask = bound[name]
        if mask is None or not level.is_batched(mask):
            if mask is not None and rank_of(mask) == 4 and mask.shape[0] != 1:
                new[name] = _images_joined(level.front(mask))
            continue
        value = padded(mask._value, 4)
        value = value.expand(level.size, count, *value.shape[2:])
        new[name] = _images_joined(value)
    found = changed(op, level, bound, **new)
    return tuple(f.reshape(level.size, count, *f.shape[1:]) for f in found)
