"""DenseNet: every layer of a block sees the results of all layers before it (Huang et al. 2016)."""

from collections import OrderedDict
from typing import Any

import flambeau
from flambeau import Tensor, nn
from flambeau.nn import functional as F
from flambeau.utils.checkpoint import checkpoint

from ._api import builder
from ._utils import initialize
from .published import published

__all__ = [
    "DenseNet",
    "DenseNet121_Weights",
    "DenseNet161_Weights",
    "DenseNet169_Weights",
    "DenseNet201_Weights",
    "densenet121",
    "densenet161",
    "densenet169",
    "densenet201",
]


def _norm_first(before: int, after: int, kernel: int) -> "OrderedDict[str, nn.Module]":
    """A convolution after its normalization and relu."""
    convolution = nn.Conv2d(before, after, kernel, padding=kernel // 2, bias=False)
    return OrderedDict(norm=nn.BatchNorm2d(before), relu=nn.ReLU(inplace=True), conv=convolution)


class _DenseLayer(nn.Module):
    """From all features so far to `growth_rate` new ones, through a bottleneck."""

    def __init__(
        self,
        num_input_features: int,
        growth_rate: int,
        bn_size: int,
        drop_rate: float,
        memory_efficient: bool = False,
    ) -> None:
        super().__init__()
        self.memory_efficient, self.drop_rate = memory_efficient, float(drop_rate)
        narrow = bn_size * growth_rate
        for number, shape in (
            ("1", (num_input_features, narrow, 1)),
            ("2", (narrow, growth_rate, 3)),
        ):
            for kind, layer in _norm_first(*shape).items():
                self.add_module(kind + number, layer)

    def bn_function(self, inputs: list[Tensor]) -> Tensor:
        return self.conv1(self.relu1(self.norm1(flambeau.cat(inputs, 1))))

    def forward(self, input: Tensor | list[Tensor]) -> Tensor:
        seen = [input] if isinstance(input, Tensor) else input
        if self.memory_efficient and self.any_requires_grad(seen):
            narrow = self.call_checkpoint_bottleneck(seen)
        else:
            narrow = self.bn_function(seen)
        new = self.conv2(self.relu2(self.norm2(narrow)))
        return F.dropout(new, self.drop_rate, self.training) if self.drop_rate > 0 else new

    def any_requires_grad(self, input: list[Tensor]) -> bool:
        wanted = [tensor.requires_grad for tensor in input]
        return any(wanted)

    @flambeau.jit.unused
    def call_checkpoint_bottleneck(self, input: list[Tensor]) -> Tensor:
        """What was concatenated and normalized is computed again on the way back."""

        def narrowed(*tensors: Tensor) -> Tensor:
            return self.bn_function(list(tensors))

        return checkpoint(narrowed, *input, use_reentrant=False)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        # the published files still say "norm.1" for what is "norm1"
        for kind in ("norm", "relu", "conv"):
            for number in ("1", "2"):
                old = f"{prefix}{kind}.{number}."
                for key in [key for key in state_dict if key.startswith(old)]:
                    state_dict[f"{prefix}{kind}{number}.{key[len(old) :]}"] = state_dict.pop(key)
        super()._load_from_state_dict(state_dict, prefix, *rest)


class _DenseBlock(nn.ModuleDict):
    _version = 2

    def __init__(
        self,
        num_layers: int,
        num_input_features: int,
        bn_size: int,
        growth_rate: int,
        drop_rate: float,
        memory_efficient: bool = False,
    ) -> None:
        super().__init__()
        for place in range(num_layers):
            width = num_input_features + place * growth_rate
            layer = _DenseLayer(width, growth_rate, bn_size, drop_rate, memory_efficient)
            self.add_module(f"denselayer{place + 1}", layer)

    def forward(self, init_features: Tensor) -> Tensor:
        features = [init_features]
        for _, layer in self.items():
            features.append(layer(features))
        return flambeau.cat(features, 1)


class _Transition(nn.Sequential):
    """Fewer channels, half the size."""

    def __init__(self, num_input_features: int, num_output_features: int) -> None:
        layers = _norm_first(num_input_features, num_output_features, 1)
        super().__init__(OrderedDict(layers, pool=nn.AvgPool2d(2, stride=2)))


class DenseNet(nn.Module):
    """The network behind `densenet121` to `densenet201`.

    Args:
        growth_rate: channels that each layer adds (k in the paper).
        block_config: layers in each block.
        num_init_features: channels before the first block.
        bn_size: the bottleneck of a layer has `bn_size * growth_rate` channels.
        memory_efficient: compute normalized features again on the way back rather than keep them.
    """

    def __init__(
        self,
        growth_rate: int = 32,
        block_config: tuple[int, int, int, int] = (6, 12, 24, 16),
        num_init_features: int = 64,
        bn_size: int = 4,
        drop_rate: float = 0,
        num_classes: int = 1000,
        memory_efficient: bool = False,
    ) -> None:
        super().__init__()
        stem = nn.Conv2d(3, num_init_features, kernel_size=7, stride=2, padding=3, bias=False)
        self.features = nn.Sequential(
            OrderedDict(
                conv0=stem,
                norm0=nn.BatchNorm2d(num_init_features),
                relu0=nn.ReLU(inplace=True),
                pool0=nn.MaxPool2d(kernel_size=3, stride=2, padding=1),
            )
        )
        width = num_init_features
        for place, layers in enumerate(block_config, 1):
            block = _DenseBlock(layers, width, bn_size, growth_rate, drop_rate, memory_efficient)
            self.features.add_module(f"denseblock{place}", block)
            width += layers * growth_rate
            if place < len(block_config):
                self.features.add_module(f"transition{place}", _Transition(width, width // 2))
                width //= 2
        self.features.add_module("norm5", nn.BatchNorm2d(width))
        self.classifier = nn.Linear(width, num_classes)
        initialize(self, conv=nn.init.kaiming_normal_)
        nn.init.zeros_(self.classifier.bias)

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.features(x), inplace=True)
        return self.classifier(F.adaptive_avg_pool2d(out, (1, 1)).flatten(1))


DenseNet121_Weights = published("DenseNet121_Weights", __name__)
DenseNet161_Weights = published("DenseNet161_Weights", __name__)
DenseNet169_Weights = published("DenseNet169_Weights", __name__)
DenseNet201_Weights = published("DenseNet201_Weights", __name__)


@builder(DenseNet121_Weights)
def densenet121(**kwargs) -> DenseNet:
    """DenseNet-121."""
    return DenseNet(32, (6, 12, 24, 16), 64, **kwargs)


@builder(DenseNet161_Weights)
def densenet161(**kwargs) -> DenseNet:
    """DenseNet-161."""
    return DenseNet(48, (6, 12, 36, 24), 96, **kwargs)


@builder(DenseNet169_Weights)
def densenet169(**kwargs) -> DenseNet:
    """DenseNet-169."""
    return DenseNet(32, (6, 12, 32, 32), 64, **kwargs)


@builder(DenseNet201_Weights)
def densenet201(**kwargs) -> DenseNet:
    """DenseNet-201."""
    return DenseNet(32, (6, 12, 48, 32), 64, **kwargs)
