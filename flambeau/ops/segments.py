"""segment_reduce: stretches of rows, each reduced to one row."""

import math

from flambeau import errors
from flambeau._layout import wrap_dim
from flambeau.ops.counting import searchsorted
from flambeau.ops.support import refuse_gradient
from flambeau.ops.table import OptionalTensor, composite, public

# reduction -> (that of scatter_reduce, what it starts with)
_REDUCTIONS = {
    "sum": ("sum", 0.0),
    "mean": ("sum", 0.0),
    "prod": ("prod", 1.0),
    "max": ("amax", -math.inf),
    "amax": ("amax", -math.inf),
    "min": ("amin", math.inf),
    "amin": ("amin", math.inf),
}


def _lengths(data, lengths, offsets, axis, unsafe):
    """How long each segment is, along the last dimension."""
    if lengths is None and offsets is None:
        raise RuntimeError("segment_reduce(): Either lengths or offsets must be defined.")
    given = offsets if lengths is None else lengths
    # offsets come first where both are given
    word, told = ("lengths", lengths) if offsets is None else ("offsets", offsets)
    if data.ndim < told.ndim:
        raise RuntimeError(f"Expected data.dim() >= {word}_value.dim() to be true, but got false.")
    if axis != told.ndim - 1:
        raise RuntimeError(
            f"segment_reduce(): Expected axis to be the last dimension of {word} but got {axis}."
        )
    if given is lengths and not unsafe and given.dtype.is_complex:
        raise errors.not_implemented("min_all", given.dtype)
    if given is lengths and not unsafe and bool((lengths < 0).any()):
        raise RuntimeError("lengths contains negative value!")
    if given.dtype.is_floating_point or given.dtype.is_complex:
        raise errors.not_implemented("_segment_reduce_lengths_cpu_kernel1", given.dtype)
    if lengths is None:
        return offsets.diff(dim=-1)
    if unsafe and bool((lengths < 0).any()):
        raise RuntimeError("Expected segment_length >= 0 to be true, but got false.")
    if not unsafe and not bool((lengths.sum(-1) == data.shape[axis]).all()):
        raise RuntimeError(
            "segment_reduce(): Expected all rows of lengths along axis to sum to "
            "data.size(lengths.dim()-1) when !unsafe."
        )
    return lengths


def _segments(data, lengths, offsets, axis):
    """The segment of each element of data; what is in none has the number after the last."""
    begin = 0 if offsets is None else offsets.narrow(-1, 0, 1)
    n = data.shape[axis]
    places = public("arange")(n, device=data.device).expand(*lengths.shape[:-1], n).contiguous()
    ids = searchsorted((lengths.cumsum(-1) + begin).contiguous(), places, right=True)
    rest = [1] * (data.ndim - axis - 1)
    return ids.reshape(*ids.shape, *rest).expand(data.shape)


def _gradient(g, data, out, reduce, lengths, offsets, axis, initial):
    """Extremes share what arrives among all that are equal to them, a nan among all nan."""
    axis = wrap_dim(axis, data.ndim)
    lengths = offsets.diff(dim=-1) if lengths is None else lengths
    ids = _segments(data, lengths, offsets, axis)
    how, _ = _REDUCTIONS[reduce]
    shape = (*data.shape[:axis], lengths.shape[-1] + 1, *data.shape[axis + 1 :])

    def spread(rows):
        """Values of segments, for each of their elements; 0 for elements of none."""
        return public("cat")([rows, rows.narrow(axis, 0, 1) * 0], axis).gather(axis, ids)

    def total(values, how="sum", start=0.0):
        found = data.new_full(shape, start).scatter_reduce(axis, ids, values, how)
        return found.gather(axis, ids)

    if not lengths.shape[-1]:
        return public("zeros_like")(data)
    if how == "sum":
        if reduce == "mean":
            rest = [1] * (data.ndim - axis - 1)
            g = g / lengths.reshape(*lengths.shape, *rest).to(data.dtype)
        return spread(g)
    if how != "prod":
        chosen = ((data == spread(out)) | (data != data)).to(data.dtype)
        return chosen * spread(g) / total(chosen).clamp(min=1)
    # zeros and nan cannot be divided away: the product of the others is put together
    odd = (data == 0) | (data != data)
    usual = total(data.where(~odd, 1), "prod", 1.0 if initial is None else initial)
    nans, odds = ((data != data).to(data.dtype), odd.to(data.dtype))
    other_nans, others = total(nans) - nans, total(odds) - odds
    missing = usual.where(others == 0, 0).where(other_nans == 0, math.nan)
    return spread(g) * missing.where(odd, spread(out) / data.where(~odd, 1))


@composite(variants="function", aliases="_segment_reduce")
def segment_reduce(
    data, reduce: str, *, lengths: OptionalTensor = None, indices: OptionalTensor = None,
    offsets: OptionalTensor = None, axis: int = 0, unsafe: bool = False, initial: object = None,
):  # fmt: skip
    """Sums, means, products or extremes of segments along axis, told by lengths or offsets."""
    refuse_gradient("segment_reduce", lengths=lengths, indices=indices, offsets=offsets)
    axis = wrap_dim(axis, data.ndim)
    if reduce not in _REDUCTIONS:
        raise RuntimeError(
            f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}"
        )
    if indices is not None:
        raise RuntimeError("segment_reduce(): indices based reduction is not supported yet.")
    return segment_rows(data, reduce, lengths, offsets, axis, unsafe, initial)


@composite(variants="", node="SegmentReduceBackward0", grad=dict(data=_gradient))
def segment_rows(
    data, reduce: str, lengths: OptionalTensor = None, offsets: OptionalTensor = None,
    axis: int = 0, unsafe: bool = False, initial: object = None,
):  # fmt: skip
    """The same, of arguments that have been looked at."""
    lengths = _lengths(data, lengths, offsets, axis, unsafe)
    if not data.dtype.is_floating_point:
        raise errors.not_implemented("_segment_reduce_cpu", data.dtype)
    how, start = _REDUCTIONS[reduce]
    start = start if initial is None else initial
    count, rest = lengths.shape[-1], data.shape[axis + 1 :]
    ids = _segments(data, lengths, offsets, axis)
    shape = (*data.shape[:axis], count + 1, *rest)  # what is in no segment goes to the last row
    found = data.new_full(shape, start).scatter_reduce(axis, ids, data, how)
    found = found.narrow(axis, 0, count)
    if reduce == "mean":
        sizes = lengths.reshape(*lengths.shape, *[1] * len(rest)).to(data.dtype)
        found = found / (sizes if initial is None else sizes.clamp(min=1))
    return found
