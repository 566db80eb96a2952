"""SqueezeNet: the accuracy of AlexNet with a fiftieth of its parameters (Iandola et al. 2016)."""

import flambeau
from flambeau import Tensor, nn

from ._api import builder
from ._utils import initialize
from .published import published

__all__ = [
    "SqueezeNet",
    "SqueezeNet1_0_Weights",
    "SqueezeNet1_1_Weights",
    "squeezenet1_0",
    "squeezenet1_1",
]

# the first convolution (channels, kernel); then fire modules by the channels that
# they squeeze to (they expand to eight times as many), and "M" for pools
_VERSIONS = {
    "1_0": ((96, 7), "M 16 16 32 M 32 48 48 64 M 64"),
    "1_1": ((64, 3), "M 16 16 M 32 32 M 48 48 64 64"),
}


class Fire(nn.Module):
    """Squeeze to few channels, expand by 1 x 1 and 3 x 3 convolutions side by side."""

    def __init__(
        self, inplanes: int, squeeze_planes: int, expand1x1_planes: int, expand3x3_planes: int
    ) -> None:
        super().__init__()
        self.inplanes = inplanes
        parts = {
            "squeeze": (inplanes, squeeze_planes, 1),
            "expand1x1": (squeeze_planes, expand1x1_planes, 1),
            "expand3x3": (squeeze_planes, expand3x3_planes, 3),
        }
        for name, (before, after, kernel) in parts.items():
            self.add_module(name, nn.Conv2d(before, after, kernel, padding=kernel // 2))
            self.add_module(f"{name}_activation", nn.ReLU(inplace=True))

    def forward(self, x: Tensor) -> Tensor:
        x = self.squeeze_activation(self.squeeze(x))
        small = self.expand1x1_activation(self.expand1x1(x))
        return flambeau.cat([small, self.expand3x3_activation(self.expand3x3(x))], 1)


class SqueezeNet(nn.Module):
    """The network behind `squeezenet1_0` and `squeezenet1_1`."""

    def __init__(self, version: str = "1_0", num_classes: int = 1000, dropout: float = 0.5) -> None:
        if version not in _VERSIONS:
            raise ValueError(f"Unsupported SqueezeNet version {version}: 1_0 or 1_1 expected")
        super().__init__()
        self.num_classes = num_classes
        (channels, kernel), row = _VERSIONS[version]
        self.features = nn.Sequential(nn.Conv2d(3, channels, kernel, 2), nn.ReLU(inplace=True))
        for item in row.split():
            if item == "M":
                self.features.append(nn.MaxPool2d(3, stride=2, ceil_mode=True))
                continue
            half = 4 * int(item)
            self.features.append(Fire(channels, int(item), half, half))
            channels = 2 * half
        last = nn.Conv2d(channels, num_classes, 1)
        scores = last, nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d((1, 1))
        self.classifier = nn.Sequential(nn.Dropout(dropout), *scores)

        def draw(weight: Tensor) -> None:
            if weight is last.weight:
                nn.init.normal_(weight, mean=0.0, std=0.01)
            else:
                nn.init.kaiming_uniform_(weight)

        initialize(self, conv=draw)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.features(x)).flatten(1)


SqueezeNet1_0_Weights = published("SqueezeNet1_0_Weights", __name__)
SqueezeNet1_1_Weights = published("SqueezeNet1_1_Weights", __name__)


@builder(SqueezeNet1_0_Weights)
def squeezenet1_0(**kwargs) -> SqueezeNet:
    """SqueezeNet 1.0."""
    return SqueezeNet("1_0", **kwargs)


@builder(SqueezeNet1_1_Weights)
def squeezenet1_1(**kwargs) -> SqueezeNet:
    """SqueezeNet 1.1: less than half of the work for the same accuracy."""
    return SqueezeNet("1_1", **kwargs)
