"""`torch.nested`: batches of tensors whose sizes differ along one dimension.

jagged.py holds all values in one tensor, with offsets between the pieces; strided.py keeps the
pieces. Both are subclasses of Tensor that answer for functions.
"""

from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.nested.jagged import NestedTensor, from_values
from flambeau.nested.strided import PiecewiseTensor

__all__ = [
    "as_nested_tensor",
    "masked_select",
    "narrow",
    "nested_tensor",
    "nested_tensor_from_jagged",
    "to_padded_tensor",
]


def _checked(layout: Any) -> Any:
    layout = flambeau.strided if layout is None else layout
    if layout not in (flambeau.strided, flambeau.jagged):
        raise RuntimeError(f"Specified layout is unsupported for nested tensors: {layout}")
    return layout


def as_nested_tensor(ts: Any, dtype: Any = None, device: Any = None, layout: Any = None) -> Any:
    """A nested tensor that stays in the graph of its pieces.

    Args:
        ts: tensors, or one whose first dimension is the batch.
    """
    layout = _checked(layout)
    if isinstance(ts, (NestedTensor, PiecewiseTensor)):
        if ts.layout is not layout:
            raise RuntimeError(
                "as_nested_tensor(): Converting between nested tensor layouts is not supported"
            )
        same = dtype in (None, ts.dtype) and device in (None, ts.device)
        return ts if same else ts.to(dtype=dtype or ts.dtype, device=device or ts.device)
    if isinstance(ts, Tensor):
        if ts.dim() < 2:
            raise RuntimeError("as_nested_tensor(): Expected tensor argument to have dim() > 1")
        ts = ts.to(dtype=dtype or ts.dtype, device=device or ts.device)
        batch, rows = ts.shape[:2]
        if layout is flambeau.jagged:  # over its memory, where there are no gaps
            offsets = flambeau.arange(batch + 1, device=ts.device) * rows
            known = {"max_seqlen": rows, "min_seqlen": rows}
            return from_values(ts.reshape(batch * rows, *ts.shape[2:]), offsets, None, 1, known)
        return PiecewiseTensor.of(ts.contiguous().unbind(0))
    if not isinstance(ts, (list, tuple)) or not all(isinstance(t, Tensor) for t in ts):
        raise TypeError(
            "as_nested_tensor(): Expected first argument to be a tensor or a list / tuple of "
            "tensors "
        )
    pieces = [t.to(dtype=dtype or t.dtype, device=device or t.device) for t in ts]
    if layout is flambeau.strided:
        return PiecewiseTensor.packed(pieces)
    return joined(pieces)


def joined(pieces: list) -> NestedTensor:
    """Pieces in one tensor, along the dimension in which they differ."""
    if not pieces:
        raise RuntimeError("Cannot construct a nested tensor from an empty tensor list")
    if pieces[0].dim() == 0:
        raise RuntimeError("Cannot construct a nested tensor from a list of zero-dim tensors")
    if len({t.dim() for t in pieces}) != 1:
        raise RuntimeError(
            "When constructing a nested tensor, all tensors in list must have the same dim"
        )
    differing = {
        k for t in pieces for k, sizes in enumerate(zip(t.shape, pieces[0].shape))
        if sizes[0] != sizes[1]
    } or {0}  # fmt: skip
    if len(differing) > 1:
        raise RuntimeError(
            "Cannot represent given tensor list as a nested tensor with the jagged layout. Note "
            "that the jagged layout only allows for a single ragged dimension. For example: "
            "(B, *, D_0, D_1, ..., D_N), with ragged * dim."
        )
    (dim,) = differing
    counts = [t.shape[dim] for t in pieces]
    lengths = flambeau.tensor(counts, device=pieces[0].device)
    offsets = flambeau.cat([lengths.new_zeros(1), lengths.cumsum(0)])
    known = {"max_seqlen": max(counts), "min_seqlen": min(counts)}
    return from_values(flambeau.cat(pieces, dim), offsets, None, dim + 1, known)


def nested_tensor(
    tensor_list: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Any:
    """A nested tensor that is a leaf of its own.

    Example:
        >>> t = torch.nested.nested_tensor(
        ...     [torch.ones(2, 3), torch.ones(1, 3)], layout=torch.jagged
        ... )
        >>> t.to_padded_tensor(0.0).shape
        torch.Size([2, 2, 3])
    """
    layout = _checked(layout)
    if layout is flambeau.strided and not isinstance(tensor_list, list):
        raise TypeError(
            "Only lists (List[Tensor] and List[List...[Scalar]]) are accepted in nested_tensor"
        )
    pieces = [t.detach() if isinstance(t, Tensor) else flambeau.as_tensor(t) for t in tensor_list]
    if layout is flambeau.strided:
        pieces = [t.to(pieces[0].dtype) for t in pieces]
    with flambeau.no_grad():
        out = as_nested_tensor(pieces, dtype, device, layout)
    return out.requires_grad_(requires_grad)


def nested_tensor_from_jagged(
    values: Tensor,
    offsets: Tensor | None = None,
    lengths: Tensor | None = None,
    jagged_dim: int | None = None,
    min_seqlen: int | None = None,
    max_seqlen: int | None = None,
) -> Any:
    """A jagged tensor over values, with pieces between offsets (or of given lengths)."""
    if offsets is None:
        if lengths is None:
            raise RuntimeError(
                "nested_tensor_from_jagged(): At least one of offsets or lengths is required."
            )
        offsets = flambeau.cat([lengths.new_zeros(1), lengths.cumsum(0)])
        lengths = None
    sizes = {"max_seqlen": max_seqlen, "min_seqlen": min_seqlen}
    known = {name: size for name, size in sizes.items() if size is not None}
    ragged = 1 if jagged_dim is None else jagged_dim
    return from_values(values.view_as(values), offsets, lengths, ragged, known)


def to_padded_tensor(
    input: Any, padding: float, output_size: Any = None, out: Any = None
) -> Tensor:
    """All pieces in one tensor, filled up to the longest (or to a size)."""
    return input.to_padded_tensor(padding, output_size)


def narrow(
    tensor: Tensor, dim: int, start: Any, length: Any, layout: Any = flambeau.strided
) -> Any:
    """Ranges of the rows of a tensor, one per batch, as a nested tensor over its memory."""
    if not isinstance(start, (int, Tensor)):
        raise RuntimeError("start must be an integer or a tensor")
    if not isinstance(length, (int, Tensor)):
        raise RuntimeError("length must be an integer or a tensor")
    if layout is flambeau.strided:
        if isinstance(start, Tensor) or isinstance(length, Tensor):
            raise RuntimeError("start and length must be integers for the strided layout NT impl")
        return PiecewiseTensor.of([t.narrow(dim - 1, start, length) for t in tensor.unbind(0)])
    if dim != 1:
        raise RuntimeError("jagged layout only supports dim=1")
    batch, rows = tensor.shape[:2]
    place = tensor.device
    starts, lengths = (
        flambeau.full((batch,), n, device=place) if isinstance(n, int) else n
        for n in (start, length)
    )
    begin = starts + flambeau.arange(batch, device=place) * rows
    offsets = flambeau.cat([begin, (begin[-1:] + lengths[-1:])])
    whole = flambeau.equal(offsets.diff(), lengths)  # no holes between the ranges
    values = tensor.reshape(batch * rows, *tensor.shape[2:])
    return from_values(values, offsets, None if whole else lengths)


def masked_select(tensor: Tensor, mask: Tensor) -> Any:
    """The elements under a mask, one piece per row."""
    if tensor.layout is not flambeau.strided:
        raise RuntimeError(f"Currently only support strided tensors, got {tensor.layout}")
    if mask.layout is not flambeau.strided:
        raise RuntimeError(f"Currently only support strided masks, got {mask.layout}")
    lengths = mask.expand(tensor.shape).sum(-1).reshape(-1)
    offsets = flambeau.cat([lengths.new_zeros(1), lengths.cumsum(0)])
    return from_values(tensor.masked_select(mask), offsets)
