"""Embeddings with rows of 8 or 4 bits: each row has a scale and a zero point of its own."""

from typing import Any

import flambeau as torch
from flambeau import Tensor
from flambeau.ao.quantized_ops.linear import ScriptObject
from flambeau.eager.quantized import integers_of, quantizer_of

PUBLIC = (
    "embedding_bag_prepack embedding_bag_unpack embedding_byte embedding_4bit embedding_bag_byte "
    "embedding_bag_4bit embedding_bag_byte_prepack embedding_bag_byte_unpack "
    "embedding_bag_byte_rowwise_offsets"
).split()


class EmbeddingPackedParams(ScriptObject):
    """A quantized table; the integers of 4-bit rows lie two to a byte."""

    _kind = "quantized.EmbeddingPackedParamsBase"

    def __init__(self, weight: Tensor) -> None:
        self.weight = weight
        quantizer = quantizer_of(weight)
        self.scales = quantizer.scales.float()
        self.shifts = quantizer.zero_points.float()
        self.integers = integers_of(weight)

    def rows(self, indices: Tensor) -> Tensor:
        """The numbers of some rows."""
        flat = indices.reshape(-1).long()
        found = self.integers[flat].float() * self.scales[flat, None]
        return found + (-self.shifts * self.scales)[flat, None]

    def __reduce__(self) -> tuple:
        return EmbeddingPackedParams, (self.weight,)

    def __deepcopy__(self, memo: dict) -> "EmbeddingPackedParams":
        return self


def embedding_bag_prepack(weight):
    """A table quantized per row, packed."""
    return EmbeddingPackedParams(weight)


def embedding_bag_unpack(W_prepack):
    return W_prepack.weight


def embedding_byte(weight, indices, pruned_weights=False):
    """Rows of a table, as floats."""
    return weight.rows(indices).reshape(*indices.shape, weight.integers.shape[1])


def embedding_4bit(weight, indices, pruned_weights=False):
    return embedding_byte(weight, indices, pruned_weights)


def embedding_bag_byte(
    weight, indices, offsets=None, scale_grad_by_freq=False, mode=0, pruned_weights=False,
    per_sample_weights=None, compressed_indices_mapping=None, include_last_offset=False,
):  # fmt: skip
    """Sums of the rows of bags."""
    table, count = weight.rows(indices), indices.numel()
    numbers = torch.arange(count)
    if indices.dim() == 2:
        offsets = torch.arange(0, count, indices.shape[1])
    if per_sample_weights is not None:
        per_sample_weights = per_sample_weights.reshape(-1)
    return torch.nn.functional.embedding_bag(
        numbers, table, offsets.long(), mode=("sum", "mean", "max")[mode],
        per_sample_weights=per_sample_weights, include_last_offset=include_last_offset,
    )  # fmt: skip


def embedding_bag_4bit(*args: Any, **kwargs: Any) -> Tensor:
    return embedding_bag_byte(*args, **kwargs)


def embedding_bag_byte_prepack(weight):
    """Rows as bytes, followed by their scale and offset as floats, all in one table of bytes."""
    low, high = weight.amin(-1, keepdim=True), weight.amax(-1, keepdim=True)
    scale = (high - low) / 255.0
    inverse = 255.0 / (high - low + 1e-8)
    levels = ((weight - low) * inverse).round().clamp(0, 255).to(torch.uint8)
    ends = torch.cat([scale, low], -1).contiguous().view(torch.uint8)
    return torch.cat([levels, ends], -1)


def embedding_bag_byte_unpack(packed):
    ends = packed[..., -8:].contiguous().view(torch.float32)
    return packed[..., :-8].float() * ends[..., :1] + ends[..., 1:]


def embedding_bag_byte_rowwise_offsets(
    weight, indices, offsets=None, scale_grad_by_freq=False, mode=0, pruned_weights=False,
    per_sample_weights=None, compressed_indices_mapping=None, include_last_offset=False,
):  # fmt: skip
    """Sums of the rows of bags of such a table."""
    return torch.nn.functional.embedding_bag(
        indices, embedding_bag_byte_unpack(weight), offsets, mode="sum",
        per_sample_weights=per_sample_weights, include_last_offset=include_last_offset,
    )  # fmt: skip
