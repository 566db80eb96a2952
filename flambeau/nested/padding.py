"""Nested tensors of the strided layout out of tensors that were filled up."""

from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.nested.strided import PiecewiseTensor


def _nested_tensor_from_mask(t: Tensor, mask: Tensor, mask_check: bool = True) -> PiecewiseTensor:
    """The rows of a batch that a mask keeps, which lie in front.

    Args:
        t: (batch, longest, width).
        mask: (batch, longest), true where a row is kept.
    """
    if mask.dtype is not flambeau.bool:
        raise RuntimeError("Expected mask to be of ScalarType Bool, but got another dtype instead")
    if mask.dim() != 2:
        raise RuntimeError("Padding mask should be 2D")
    if t.dim() != 3:
        raise RuntimeError("Input should be a 3D tensor, N * L * D")
    if mask.shape != t.shape[:2]:
        raise RuntimeError("Mask's first dim or second dim doesn't match input's")
    if mask_check and not _nested_tensor_from_mask_left_aligned(t, mask):
        raise RuntimeError("Mask must be left-aligned without gaps")
    counts = mask.sum(1).tolist()
    return PiecewiseTensor.packed(row[:count] for row, count in zip(t.unbind(0), counts))


def _nested_tensor_from_mask_left_aligned(t: Tensor, mask: Tensor) -> bool:
    """Do the rows that a mask keeps lie in front?"""
    return not bool((mask[:, 1:] & ~mask[:, :-1]).any())


def _nested_from_padded(
    padded: Tensor, cpu_nested_shape_example: Tensor, fuse_transform_0213: bool = False
) -> PiecewiseTensor:
    """Pieces of the sizes that an example names, out of the front corners of a filled tensor."""
    if fuse_transform_0213:  # heads move behind the rows, and melt into the width
        padded = padded.transpose(1, 2).flatten(2)
    sizes = cpu_nested_shape_example.tolist()
    corners = ([slice(s) for s in size] for size in sizes)
    return PiecewiseTensor.packed(row[tuple(c)] for row, c in zip(padded.unbind(0), corners))


def _nested_from_padded_and_nested_example(padded: Tensor, nt_example: Any) -> PiecewiseTensor:
    return _nested_from_padded(padded, nt_example._nested_tensor_size())
