"""Layers whose weights pass a fake quantization."""

from typing import Any

import flambeau as torch
from flambeau import Tensor, nn
from flambeau.ao.nn.intrinsic.modules import fused

__all__ = ["Conv1d", "Conv2d", "Conv3d", "Embedding", "EmbeddingBag", "Linear"]


class Rounded:
    """A layer whose weight passes a fake quantization before it is used.

    `_facts` names what such a layer is told about the float layer that it is made from.
    """

    _facts: tuple[str, ...] = ()
    _names_what_it_got = True
    qconfig: Any
    weight: Any
    weight_fake_quant: Any

    def _round(self, qconfig: Any) -> None:
        if not qconfig:
            raise AssertionError("qconfig must be provided for QAT module")
        self.qconfig, self.weight_fake_quant = qconfig, qconfig.weight()

    def _rounded(self) -> Tensor:
        return self.weight_fake_quant(self.weight)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """From a float layer with a QConfig, alone or before an activation."""
        cls._check_source(mod)
        layer = mod[0] if isinstance(mod, nn.Sequential) else mod
        facts = {name: getattr(layer, name) for name in cls._facts}
        if "bias" in facts:
            facts["bias"] = layer.bias is not None
        found: Any = cls(**facts, qconfig=mod.qconfig)  # type: ignore[call-arg]
        for name in layer._parameters:
            setattr(found, name, layer._parameters[name])
        return found

    @classmethod
    def _check_source(cls, mod: Any) -> None:
        """A QAT layer is made from the float class of the same name."""
        name = cls.__name__
        if not isinstance(mod, getattr(fused, name, None) or getattr(nn, name)):
            got = f", got {type(mod).__name__}" if cls._names_what_it_got else ""
            raise AssertionError(f"qat.{name}.from_float only works for {name}{got}")
        if not hasattr(mod, "qconfig"):
            raise AssertionError("Input float module must have qconfig defined")
        if not mod.qconfig:
            raise AssertionError("Input float module must have a valid qconfig")

    def to_float(self) -> Any:
        """The float layer again."""
        mine: Any = self
        homes = ("flambeau.nn.", "torch.nn.")
        kind: Any = next(k for k in type(self).__mro__ if k.__module__.startswith(homes))
        facts = {name: getattr(self, name) for name in self._facts}
        found = kind(**facts | ({"bias": mine.bias is not None} if "bias" in facts else {}))
        for name, value in mine._parameters.items():
            if value is not None:
                setattr(found, name, nn.Parameter(value.detach()))
        return found.train(mine.training)


class Linear(Rounded, nn.Linear):
    """A linear layer whose weight is rounded."""

    _FLOAT_MODULE: Any = nn.Linear
    _facts = ("in_features", "out_features", "bias")

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, qconfig: Any = None,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        nn.Linear.__init__(self, in_features, out_features, bias, device, dtype)
        self._round(qconfig)

    def forward(self, input: Tensor) -> Tensor:
        return nn.functional.linear(input, self._rounded(), self.bias)


class RoundedConv(Rounded):
    """What the convolutions share."""

    _facts = (
        "in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation", "groups",
        "bias", "padding_mode",
    )  # fmt: skip

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1,
        padding: Any = 0, dilation: Any = 1, groups: int = 1, bias: bool = True,
        padding_mode: str = "zeros", qconfig: Any = None, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(  # type: ignore[call-arg]
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias,
            padding_mode, device, dtype,
        )  # fmt: skip
        self._round(qconfig)

    def forward(self: Any, input: Tensor) -> Tensor:
        return self._conv_forward(input, self._rounded(), self.bias)


class Conv1d(RoundedConv, nn.Conv1d):
    """A convolution of sequences whose weight is rounded."""


class Conv2d(RoundedConv, nn.Conv2d):
    """A convolution of pictures whose weight is rounded."""


class Conv3d(RoundedConv, nn.Conv3d):
    """A convolution of volumes whose weight is rounded."""


class RoundedTable(Rounded):
    """What the tables share: each row has a scale and a zero point, both floats."""

    _names_what_it_got = False
    _stands_for = "Embedding"

    def _round(self, qconfig: Any) -> None:
        super()._round(qconfig)
        scheme = self.weight_fake_quant.qscheme
        if scheme is not torch.per_channel_affine_float_qparams:
            raise AssertionError(
                f"{self._stands_for} weights requires a qscheme of "
                f"torch.per_channel_affine_float_qparams Got {scheme}"
            )


class Embedding(RoundedTable, nn.Embedding):
    """A table whose rows are rounded."""

    _facts = ("num_embeddings", "embedding_dim", "padding_idx", "max_norm", "norm_type",
              "scale_grad_by_freq", "sparse")  # fmt: skip

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None,
        max_norm: float | None = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False,
        sparse: bool = False, _weight: Tensor | None = None, device: Any = None, dtype: Any = None,
        qconfig: Any = None,
    ) -> None:  # fmt: skip
        nn.Embedding.__init__(self, num_embeddings, embedding_dim, padding_idx, max_norm,
                              norm_type, scale_grad_by_freq, sparse, _weight)  # fmt: skip
        self._round(qconfig)

    def forward(self, input: Tensor) -> Tensor:
        rest = [getattr(self, name) for name in self._facts[2:]]
        return nn.functional.embedding(input, self._rounded(), *rest)


class EmbeddingBag(RoundedTable, nn.EmbeddingBag):
    """The same for bags."""

    _stands_for = "Embedding Bag"

    _facts = ("num_embeddings", "embedding_dim", "max_norm", "norm_type", "scale_grad_by_freq",
              "mode", "sparse", "include_last_offset", "padding_idx")  # fmt: skip

    def __init__(
        self, num_embeddings: int, embedding_dim: int, max_norm: float | None = None,
        norm_type: float = 2.0, scale_grad_by_freq: bool = False, mode: str = "mean",
        sparse: bool = False, _weight: Tensor | None = None, include_last_offset: bool = False,
        padding_idx: int | None = None, qconfig: Any = None, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        nn.EmbeddingBag.__init__(self, num_embeddings, embedding_dim, max_norm, norm_type,
                                 scale_grad_by_freq, mode, sparse, _weight, include_last_offset,
                                 padding_idx)  # fmt: skip
        self._round(qconfig)

    def forward(self, input: Tensor, offsets: Any = None, per_sample_weights: Any = None) -> Tensor:
        facts = {name: getattr(self, name) for name in self._facts[2:]}
        return nn.functional.embedding_bag(
            input, self._rounded(), offsets, per_sample_weights=per_sample_weights, **facts
        )
