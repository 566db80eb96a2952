"""vmap of rows with indices: gather and scatter, index and index_put, embedding."""

from flambeau._tensor import Tensor
from flambeau.eager import creation
from flambeau.ops.table import TABLE, holds_anywhere, public
from flambeau.transforms.batching import KINDS, batches, called, changed, rank_of, shifted

_DYNAMIC = (
    "vmap: We do not support batching operators that can output dynamic shape. Attempted to vmap "
    "over aten::{}. Please file an issue at https://github.com/pytorch/pytorch/issues if you need "
    "this feature."
)


@batches("masked_select")
def _masked_select(level, op, bound):
    """Where all samples have the same mask, they have as many elements."""
    if level.is_batched(bound["mask"]):
        raise RuntimeError(
            "vmap: Attempted to vmap over `mask` in torch.masked_select(self, mask) We cannot "
            "support this because for each batch this would return a differently shaped Tensor. "
            "Please file an issue at https://github.com/pytorch/pytorch/issues if you need this "
            "feature."
        )
    rank = max(rank_of(bound["input"]), rank_of(bound["mask"]))
    value = level.front(bound["input"], rank)
    value = value if rank else value.unsqueeze(1)
    value, mask = public("broadcast_tensors")(value, level.plain(bound["mask"]))
    return value.flatten(1).index_select(1, mask[0].flatten().nonzero().reshape(-1))


@batches("argwhere", "nonzero_static")
def _equally_many(level, op, bound):
    return NotImplemented  # as many for each sample, by size= or by chance


@batches("nonzero")
def _nonzero(level, op, bound):
    if bound["as_tuple"]:
        raise RuntimeError(
            "Batching rule not implemented for aten::nonzero_numpy. We could not generate a "
            "fallback."
        )
    return _dynamic(level, op, bound)


@batches("nonzero_rows", "_unique2", "_unique_runs", "_unique_lines")
def _dynamic(level, op, bound):
    name = {"nonzero_rows": "nonzero", "_unique_runs": "unique_consecutive",
            "_unique_lines": "unique_dim"}.get(op.name, op.name)  # fmt: skip
    raise RuntimeError(_DYNAMIC.format(name))


# -- one index per element -------------------------------------------------------------------------


@batches("gather", "scatter", "scatter_add", "scatter_reduce")
def _gather(level, op, bound):
    rank = max(rank_of(bound["input"]), rank_of(bound["index"]))
    tensors = {n: v for n, v in bound.items() if isinstance(v, Tensor)}
    values = {n: level.front(v) for n, v in tensors.items()}
    if rank == 0:
        values = {n: v.unsqueeze(1) for n, v in values.items()}
        out = changed(op, level, bound, **values, dim=1)
        return out.squeeze(1)
    new = {n: v.unsqueeze(1) if v.ndim == 1 else v for n, v in values.items()}
    out = changed(op, level, bound, **new, dim=shifted(bound["dim"], rank))
    return (
        out.squeeze(1) if rank_of(bound["index" if op.name == "gather" else "input"]) == 0 else out
    )


# -- a list of places along a dimension ------------------------------------------------------------


def _as_rows(values, shape, dim):
    """Lists of indices, one per sample, spread over the shape that a gather wants."""
    size, count = values.shape
    sizes = [size, *[1] * len(shape)]
    sizes[dim] = count
    full = (size, *shape)
    return values.reshape(sizes).expand(*full[:dim], count, *full[dim + 1 :])


@batches("index_select")
def _index_select(level, op, bound):
    input, index, rank = bound["input"], bound["index"], rank_of(bound["input"])
    if rank == 0:
        values = level.front(input)
        return values.reshape(level.size)
    dim = shifted(bound["dim"], rank)
    if not level.is_batched(index):
        return changed(op, level, bound, dim=dim)
    rows = _as_rows(_listed(index._value), input.shape, dim)
    return public("gather")(level.front(input), dim, rows)


def _listed(value):
    """Numbers per sample as lists of one."""
    return value.unsqueeze(1) if value.ndim == 1 else value


@batches("index_add", "index_copy", "index_fill", "index_reduce")
def _index_write(level, op, bound):
    target, rank = _listed(level.front(bound["input"])), rank_of(bound["input"])
    new = {"input": target, "dim": shifted(bound["dim"], max(rank, 1))}
    if op.name != "index_fill":
        new["source"] = _listed(level.front(bound["source"]))
    if level.is_batched(bound["index"]):
        rows = _as_rows(_listed(bound["index"]._value), target.shape[1:], new["dim"])
        out = _written_by_element(level, op, bound, rows, **new)
    elif op.name == "index_fill" and level.is_batched(bound["value"]):
        out = _filled(level, bound, **new)
    else:
        out = changed(op, level, bound, **new)
    return out if rank else out.squeeze(1)


def _written_by_element(level, op, bound, rows, input, dim, source=None):
    """Each sample has places of its own: as the row that has one for each element."""
    if op.name == "index_fill":
        source = bound["value"]
        if isinstance(source, Tensor):
            source = level.front(source, input.ndim - 1).to(input.dtype).expand(rows.shape)
        return public("scatter")(input, dim, rows, source)
    if op.name == "index_copy":
        return public("scatter")(input, dim, rows, source)
    if op.name == "index_reduce":
        keeps = bound["include_self"]
        return public("scatter_reduce")(
            input, dim, rows, source, bound["reduce"], include_self=keeps
        )
    source = source if bound["alpha"] == 1 else source * bound["alpha"]
    return public("scatter_add")(input, dim, rows, source)


def _filled(level, bound, input, dim):
    """A value per sample: as a source that is copied."""
    index = level.plain(bound["index"])
    shape = [*input.shape]
    shape[dim] = index.numel()
    value = level.front(bound["value"])
    source = value.reshape(level.size, *[1] * (input.ndim - 1)).expand(shape).to(input.dtype)
    return public("index_copy")(input, dim, index, source)


@batches("take")
def _take(level, op, bound):
    input, index = bound["input"], bound["index"]
    if not level.is_batched(input):
        return changed(op, level, bound)
    flat, places = input._value.reshape(level.size, -1), level.front(index)
    found = flat.gather(1, _positive(places, flat.shape[1]).reshape(level.size, -1))
    return found.reshape(places.shape)


def _positive(index, size):
    return public("where")(index < 0, index + size, index)


@batches("put")
def _put(level, op, bound):
    input = level.front(bound["input"])
    flat = input.reshape(level.size, -1)
    places = _positive(level.front(bound["index"]), flat.shape[1]).reshape(level.size, -1)
    source = level.front(bound["source"]).reshape(level.size, -1)
    write = "scatter_add" if bound["accumulate"] else "scatter"
    return public(write)(flat, 1, places, source).reshape(input.shape)


# -- anything between brackets ---------------------------------------------------------------------


def _sample_numbers(level, rank):
    """The number of each sample, to broadcast with indices of a rank."""
    return creation.arange(level.size).reshape(level.size, *[1] * rank)


def _indices(level, bound, input):
    """(indices per dimension of a sample, as values; is the one of samples needed?)"""
    found, masks = [], False
    for t in bound["indices"]:
        if t is None:
            found.append(None)
            continue
        if t.dtype.category == 0 or str(t.dtype) == "torch.uint8":
            if level.is_batched(t):
                raise RuntimeError(
                    "vmap: We do not support batching operators that can support dynamic shape. "
                    "Attempting to batch over indexing with a boolean mask."
                )
            found += list(level.plain(t).nonzero(as_tuple=True))
            masks = True
            continue
        found.append(t)
    del masks
    return found


def _rest_first(indices, rank):
    """Are index tensors apart from each other, so that their dimensions come first?"""
    places = [k for k, t in enumerate(indices) if t is not None]
    return places[-1] - places[0] + 1 != len(places), places[0]


def _ranks(level, indices):
    return max(rank_of(t) for t in indices if t is not None)


@batches("index")
def _index(level, op, bound):
    input = bound["input"]
    indices = _indices(level, bound, input)
    batched = any(level.is_batched(t) for t in indices if t is not None)
    if not batched:  # the same places for all samples
        plain = [None, *[None if t is None else level.plain(t) for t in indices]]
        apart, _ = _rest_first(indices, 0)
        out = public("index")(input._value, tuple(plain))
        return out.movedim(_ranks(level, indices), 0) if apart else out
    rank = _ranks(level, indices)
    values = [None if t is None else _padded(level, t, rank) for t in indices]
    apart, first = _rest_first(indices, 0)
    if not level.is_batched(input):
        out = public("index")(level.plain(input), tuple(values))
        return out if apart or first == 0 else out.movedim(first, 0)
    numbers = _sample_numbers(level, rank).to(input.device)
    out = public("index")(input._value, (numbers, *values))
    # samples and places come first unless the index tensors began at the first dimension
    if apart or first == 0:
        return out
    return out.movedim(tuple(range(1, rank + 1)), tuple(range(first + 1, first + rank + 1)))


def _padded(level, t, rank):
    """An index with samples first, or as it is."""
    if not level.is_batched(t):
        return level.plain(t)
    value = t._value
    return value.reshape(level.size, *[1] * (rank + 1 - value.ndim), *value.shape[1:])


@batches("index_put")
def _index_put(level, op, bound):
    input, values = bound["input"], bound["values"]
    indices = _indices(level, bound, input)
    rank = _ranks(level, indices)
    apart, first = _rest_first(indices, 0)
    numbers = _sample_numbers(level, rank).to(input.device)
    given = [None if t is None else _padded(level, t, rank) for t in indices]
    target = level.front(input)
    # the shape that a sample's values fill, with places where the index tensors are
    shape = public("broadcast_tensors")(*[g for g in [numbers, *given] if g is not None])[0].shape
    places = shape[1:]
    slices = [input.shape[k] for k in range(rank_of(input)) if k >= len(given) or given[k] is None]
    before = 0 if apart else sum(1 for k in range(first) if indices[k] is None)
    inner = (*slices[:before], *places, *slices[before:])
    v = values._value if level.is_batched(values) else level.plain(values)
    own = rank_of(values)
    if level.is_batched(values):
        v = v.reshape(level.size, *[1] * (len(inner) - own), *v.shape[1:])
    v = v.expand(level.size, *inner)
    if before:  # with the samples' numbers as an index, places come first
        v = v.movedim(tuple(range(before + 1, before + rank + 1)), tuple(range(1, rank + 1)))
    index = (numbers, *given)
    return public("index_put")(target, index, v, accumulate=bound["accumulate"])


@batches("masked_scatter")
def _masked_scatter(level, op, bound):
    """Each place that is written takes the next element of the source."""
    input, mask = level.front(bound["input"]), level.front(bound["mask"])
    source = level.front(bound["source"]).reshape(level.size, -1)
    rank = max(rank_of(bound["input"]), rank_of(bound["mask"]))
    input, mask = level.front(bound["input"], rank), level.front(bound["mask"], rank)
    input, mask = public("broadcast_tensors")(input, mask)
    if not source.shape[1]:  # then nothing is written, or the row complains
        source = source.new_zeros(level.size, 1)
        if holds_anywhere(mask):
            return NotImplemented
    order = mask.reshape(level.size, -1).cumsum(1) - 1
    taken = source.gather(1, order.clamp(0, source.shape[1] - 1)).reshape(input.shape)
    return public("where")(mask, taken, input)


@batches("masked_fill")
def _masked_fill(level, op, bound):
    value = bound["value"]
    if not isinstance(value, Tensor):
        return KINDS["pointwise"](level, op, bound)
    kind, own = bound["input"].dtype, level.plain(value)
    value = level.batched(own.to(kind)) if level.is_batched(value) else own.to(kind)
    given = {"condition": bound["mask"], "input": value, "other": bound["input"]}
    return KINDS["pointwise"](level, TABLE["where"], given)


@batches("fill")
def _fill(level, op, bound):
    input, value = bound["input"], bound["value"]
    if not level.is_batched(value):
        return changed(op, level, bound)
    shape = (level.size, *[1] * rank_of(input))
    filled = value._value.to(input.dtype).reshape(shape)
    return filled.expand(level.size, *input.shape).clone()


# -- tables ----------------------------------------------------------------------------------------


@batches("embedding")
def _embedding(level, op, bound):
    weight, indices = bound["weight"], bound["indices"]
    if not level.is_batched(weight):
        return changed(op, level, bound)
    table = weight._value
    places = level.front(indices)
    rank = rank_of(indices)
    start = _sample_numbers(level, rank).to(table.device) * table.shape[1]
    new = {
        "weight": table.reshape(level.size * table.shape[1], table.shape[2]),
        "indices": places + start,
        "padding_idx": -1,
    }
    return called(op, {**bound, **new})


@batches("embedding_dense_backward")
def _embedding_backward(level, op, bound):
    if bound["scale_grad_by_freq"]:
        return NotImplemented
    g, places = level.front(bound["grad_output"]), level.front(bound["indices"])
    count, pad = bound["num_weights"], bound["padding_idx"]
    start = _sample_numbers(level, places.ndim - 1).to(g.device) * count
    kept = g if pad < 0 else g * (places != pad).unsqueeze(-1)
    row = TABLE["embedding_dense_backward"]
    found = row(kept, places + start, count * level.size, -1, False)
    return found.reshape(level.size, count, found.shape[-1])


@batches("one_hot")
def _one_hot(level, op, bound):
    if bound["num_classes"] <= 0:
        raise RuntimeError(
            "When vmap-ing torch.nn.functional.one_hot, please provide an explicit positive "
            "num_classes argument."
        )
    return op.body(**bound)


@batches("searchsorted")
def _searchsorted(level, op, bound):
    edges, input = bound["sorted_sequence"], bound["input"]
    if not isinstance(input, Tensor):
        return NotImplemented
    if not level.is_batched(edges) and rank_of(edges) == 1 and bound["sorter"] is None:
        return changed(op, level, bound)
    if rank_of(edges) == 1 and bound["sorter"] is None:
        values = level.front(input)
        flat = values.reshape(level.size, -1)
        new = {"sorted_sequence": level.front(edges), "input": flat}
        return changed(op, level, bound, **new).reshape(values.shape)
    names = [n for n in ("sorted_sequence", "input", "sorter") if isinstance(bound[n], Tensor)]
    return changed(op, level, bound, **{n: level.front(bound[n]) for n in names})


@batches("bucketize")
def _bucketize(level, op, bound):
    if level.is_batched(bound["boundaries"]):
        row = TABLE["searchsorted"]
        given = {p.name: bound.get(p.name, p.default) for p in row.params}
        given["sorted_sequence"] = bound["boundaries"]
        return _searchsorted(level, row, given)
    return changed(op, level, bound)


@batches("histogram", "histc")
def _histogram(level, op, bound):
    return NotImplemented  # each sample has edges of its own, and they are read
