"""Layers whose weights pass a fake quantization."""

from typing import Any

from flambeau import Tensor, nn


def weight_fake_quant(qconfig: Any) -> nn.Module:
    """What the weight of a layer passes."""
    if not qconfig:
        raise AssertionError("qconfig must be provided for QAT module")
    return qconfig.weight()


def taken_over(found: Any, mod: Any) -> Any:
    """A new layer with the parameters of another."""
    found.weight, found.bias = mod.weight, mod.bias
    return found


class Linear(nn.Linear):
    """A linear layer whose weight is rounded."""

    _FLOAT_MODULE: Any = nn.Linear

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, qconfig: Any = None,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(in_features, out_features, bias, device, dtype)
        self.qconfig = qconfig
        self.weight_fake_quant = weight_fake_quant(qconfig)

    def forward(self, input: Tensor) -> Tensor:
        return nn.functional.linear(input, self.weight_fake_quant(self.weight), self.bias)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """From a float layer with a QConfig."""
        qconfig = mod.qconfig
        source = mod[0] if isinstance(mod, nn.Sequential) else mod
        found = cls(source.in_features, source.out_features, source.bias is not None, qconfig)
        return taken_over(found, source)

    def to_float(self) -> nn.Linear:
        """The float layer again."""
        found = nn.Linear(self.in_features, self.out_features, self.bias is not None)
        found.weight = nn.Parameter(self.weight.detach())
        if self.bias is not None:
            found.bias = nn.Parameter(self.bias.detach())
        return found.train(self.training)


class _ConvNd:
    """What the convolutions share."""

    def _round(self, qconfig: Any) -> None:
        self.qconfig = qconfig
        self.weight_fake_quant = weight_fake_quant(qconfig)

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight_fake_quant(self.weight), self.bias)  # type: ignore[attr-defined]

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """From a float layer with a QConfig."""
        qconfig = mod.qconfig
        source = mod[0] if isinstance(mod, nn.Sequential) else mod
        found: Any = cls(
            source.in_channels, source.out_channels, source.kernel_size, source.stride,
            source.padding, source.dilation, source.groups, source.bias is not None,
            source.padding_mode, qconfig=qconfig,
        )  # type: ignore[call-arg]  # fmt: skip
        return taken_over(found, source)


class Conv1d(_ConvNd, nn.Conv1d):
    def __init__(self, *args: Any, qconfig: Any = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._round(qconfig)


class Conv2d(_ConvNd, nn.Conv2d):
    def __init__(self, *args: Any, qconfig: Any = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._round(qconfig)


class Conv3d(_ConvNd, nn.Conv3d):
    def __init__(self, *args: Any, qconfig: Any = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._round(qconfig)


class Embedding(nn.Embedding):
    """A table whose rows are rounded."""

    def __init__(self, *args: Any, qconfig: Any = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.qconfig = qconfig
        self.weight_fake_quant = weight_fake_quant(qconfig)

    def forward(self, input: Tensor) -> Tensor:
        return nn.functional.embedding(
            input, self.weight_fake_quant(self.weight), self.padding_idx, self.max_norm,
            self.norm_type, self.scale_grad_by_freq, self.sparse,
        )  # fmt: skip

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        found = cls(mod.num_embeddings, mod.embedding_dim, mod.padding_idx, qconfig=mod.qconfig)
        found.weight = mod.weight
        return found


class EmbeddingBag(nn.EmbeddingBag):
    """The same for bags."""

    def __init__(self, *args: Any, qconfig: Any = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.qconfig = qconfig
        self.weight_fake_quant = weight_fake_quant(qconfig)

    def forward(self, input: Tensor, offsets: Any = None, per_sample_weights: Any = None) -> Tensor:
        return nn.functional.embedding_bag(
            input, self.weight_fake_quant(self.weight), offsets, mode=self.mode,
            per_sample_weights=per_sample_weights, include_last_offset=self.include_last_offset,
        )  # fmt: skip

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        found = cls(
            mod.num_embeddings, mod.embedding_dim, mode=mod.mode,
            include_last_offset=mod.include_last_offset, qconfig=mod.qconfig,
        )  # fmt: skip
        found.weight = mod.weight
        return found


__all__ = ["Conv1d", "Conv2d", "Conv3d", "Embedding", "EmbeddingBag", "Linear"]
