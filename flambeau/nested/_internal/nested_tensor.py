"""`torch.nested._internal.nested_tensor`: the class of jagged tensors, and older ways to make them.

Libraries ask for the class; new code calls `torch.nested.nested_tensor_from_jagged`.
"""

from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.nested import joined
from flambeau.nested.jagged import NestedTensor, from_values
from flambeau.nested.sizes import NestedInt, size_of

__all__ = [
    "NestedTensor",
    "ViewNestedFromBuffer",
    "buffer_from_jagged",
    "get_tensor_symint",
    "jagged_from_list",
    "jagged_from_tensor_and_lengths",
    "nested_from_padded",
    "nested_view_from_values_offsets",
    "nested_view_from_values_offsets_lengths",
]


def get_tensor_symint(tensor: Tensor, *, coeff: int = 1) -> NestedInt:
    """The name of the sizes between some offsets."""
    size = size_of(tensor)
    return size if coeff == 1 else size * coeff


def jagged_from_list(
    tensors: list, offsets: Tensor | None, dtype: Any = None, device: Any = None
) -> tuple[NestedTensor, Tensor]:
    """A jagged tensor of pieces, and its offsets (those that are given, if any)."""
    out = joined([t.to(dtype=dtype or t.dtype, device=device or t.device) for t in tensors])
    if offsets is not None:
        out = from_values(out._values, offsets, None, out._ragged_idx, out._metadata_cache)
    return out, out._offsets


def jagged_from_tensor_and_lengths(
    tensor: Tensor, starts: Tensor, lengths: Tensor
) -> tuple[NestedTensor, Tensor, Tensor | None]:
    """Ranges of the rows of a tensor, with their offsets and lengths."""
    out = flambeau.nested.narrow(tensor, 1, starts, lengths, layout=flambeau.jagged)
    return out, out._offsets, out._lengths


def nested_view_from_values_offsets(
    values: Tensor,
    offsets: Tensor,
    ragged_idx: int = 1,
    min_seqlen: int | None = None,
    max_seqlen: int | None = None,
) -> NestedTensor:
    return nested_view_from_values_offsets_lengths(
        values, offsets, None, ragged_idx, min_seqlen, max_seqlen
    )


def nested_view_from_values_offsets_lengths(
    values: Tensor,
    offsets: Tensor,
    lengths: Tensor | None,
    ragged_idx: int = 1,
    min_seqlen: int | None = None,
    max_seqlen: int | None = None,
) -> NestedTensor:
    return flambeau.nested.nested_tensor_from_jagged(
        values, offsets, lengths, ragged_idx, min_seqlen, max_seqlen
    )


def nested_from_padded(
    padded: Tensor,
    offsets: Tensor,
    ragged_idx: int = 1,
    min_seqlen: int | None = None,
    max_seqlen: int | None = None,
    sum_S: int | None = None,
) -> NestedTensor:
    """The rows of a filled tensor that lie within pieces."""
    if ragged_idx != 1:
        raise RuntimeError("nested_from_padded(): only ragged_idx=1 supported for jagged layout")
    sizes = {"min_seqlen": min_seqlen, "max_seqlen": max_seqlen}
    known = {name: size for name, size in sizes.items() if size is not None}
    return from_values(padded[:, :1].flatten(0, 1), offsets, None, 1, known).unpadded(padded)


class ViewNestedFromBuffer:
    """A jagged tensor over values."""

    @staticmethod
    def apply(values: Tensor, offsets: Tensor, metadata_cache: dict | None = None) -> NestedTensor:
        return from_values(values.view_as(values), offsets, None, 1, dict(metadata_cache or {}))


def buffer_from_jagged(jagged: NestedTensor) -> Tensor:
    return jagged.values()
