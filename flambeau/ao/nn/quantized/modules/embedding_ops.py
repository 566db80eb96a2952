"""Embeddings with quantized tables."""

from typing import Any

import flambeau as torch
from flambeau import Tensor, nn
from flambeau.ao.nn.quantized.modules.utils import (
    KeepsState,
    hide_packed_params_repr,
    observed_weight,
)

__all__ = ["EmbeddingPackedParams", "Embedding", "EmbeddingBag"]


class EmbeddingPackedParams(KeepsState):
    """A packed table; saved as a tensor and the dtype."""

    _version = 1
    _stated = ("dtype", "_packed_weight")

    def __init__(self, num_embeddings: int, embedding_dim: int, dtype: Any = torch.quint8) -> None:
        nn.Module.__init__(self)
        if dtype not in (torch.quint8, torch.quint4x2):
            raise NotImplementedError(f"Unsupported dtype on dynamic quantized embedding: {dtype}")
        self.dtype = dtype
        scales, shifts = torch.ones(num_embeddings), torch.zeros(num_embeddings)
        levels = torch.zeros(num_embeddings, embedding_dim, dtype=torch.uint8)
        self.set_weight(torch._make_per_channel_quantized_tensor(levels, scales, shifts, 0))

    def set_weight(self, weight: Tensor) -> None:
        self._packed_weight = torch.ops.quantized.embedding_bag_prepack(weight)

    def _weight(self) -> Tensor:
        return self._packed_weight.weight

    def forward(self, x: Tensor) -> Tensor:
        return x

    def _to_save(self) -> dict[str, Any]:
        return {"dtype": self.dtype, "_packed_weight": self._weight()}

    def _restore(self, dtype: Any, weight: Tensor) -> None:
        self.dtype = dtype
        self.set_weight(weight)

    def __repr__(self) -> str:
        return repr(self._weight())


class Embedding(nn.Module):
    """Rows of a quantized table, as floats."""

    _version = 1
    _name = "QuantizedEmbedding"

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None,
        max_norm: float | None = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False,
        sparse: bool = False, _weight: Tensor | None = None, dtype: Any = torch.quint8,
    ) -> None:  # fmt: skip
        nn.Module.__init__(self)
        self.num_embeddings, self.embedding_dim, self.dtype = num_embeddings, embedding_dim, dtype
        self._packed_params = EmbeddingPackedParams(num_embeddings, embedding_dim, dtype)
        if _weight is not None:
            self.set_weight(_weight)

    def forward(self, indices: Tensor) -> Tensor:
        return torch.ops.quantized.embedding_byte(self._packed_params._packed_weight, indices)

    def _get_name(self) -> str:
        return self._name

    def extra_repr(self) -> str:
        facts = {
            "num_embeddings": self.num_embeddings, "embedding_dim": self.embedding_dim,
            "dtype": self._packed_params.dtype, "qscheme": self.weight().qscheme(),
        }  # fmt: skip
        return ", ".join(f"{name}={value}" for name, value in facts.items())

    def __repr__(self) -> str:
        return hide_packed_params_repr(self, EmbeddingPackedParams)

    def set_weight(self, w: Tensor) -> None:
        self._packed_params.set_weight(w)

    def weight(self) -> Tensor:
        return self._packed_params._weight()

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """From a float table with a QConfig for weights."""
        dtype = mod.qconfig.weight().dtype
        weight = observed_weight(mod) if dtype is torch.quint8 else _four_bits(mod)
        found = cls(mod.num_embeddings, mod.embedding_dim, dtype=dtype)
        found.set_weight(weight)
        return found


def _four_bits(mod: Any) -> Tensor:
    """The table in levels from 0 to 15, kept one to a byte."""
    observer = mod.qconfig.weight()
    observer(mod.weight)
    scales, shifts = observer.calculate_qparams()
    levels = (mod.weight.detach() / scales[:, None] + shifts[:, None]).round().clamp(0, 15)
    return torch._make_per_channel_quantized_tensor(
        levels.to(torch.uint8), scales, shifts.float(), 0
    )


class EmbeddingBag(Embedding):
    """Sums of rows of bags."""

    _name = "QuantizedEmbeddingBag"

    def __init__(
        self, num_embeddings: int, embedding_dim: int, max_norm: float | None = None,
        norm_type: float = 2.0, scale_grad_by_freq: bool = False, mode: str = "sum",
        sparse: bool = False, _weight: Tensor | None = None, include_last_offset: bool = False,
        dtype: Any = torch.quint8,
    ) -> None:  # fmt: skip
        super().__init__(num_embeddings, embedding_dim, _weight=_weight, dtype=dtype)
        self.mode, self.include_last_offset = mode, include_last_offset
        self.pruned_weights = False

    def forward(
        self, indices: Tensor, offsets: Tensor | None = None,
        per_sample_weights: Tensor | None = None, compressed_indices_mapping: Any = None,
    ) -> Tensor:  # fmt: skip
        return torch.ops.quantized.embedding_bag_byte(
            self._packed_params._packed_weight, indices, offsets, False,
            ("sum", "mean", "max").index(self.mode), self.pruned_weights, per_sample_weights,
            compressed_indices_mapping, self.include_last_offset,
        )  # fmt: skip

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        found = super().from_float(mod)
        found.mode, found.include_last_offset = mod.mode, mod.include_last_offset
        return found
