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

# Fire modules as (in, squeezed, expanded to twice as many), None for a pool
_FIRES = {
    "1_0": [
        None,
        (96, 16, 64),
        (128, 16, 64),
        (128, 32, 128),
        None,
        (256, 32, 128),
        (256, 48, 192),
        (384, 48, 192),
        (384, 64, 256),
        None,
        (512, 64, 256),
    ],
    "1_1": [
        None,
        (64, 16, 64),
        (128, 16, 64),
        None,
        (128, 32, 128),
        (256, 32, 128),
        None,
        (256, 48, 192),
        (384, 48, 192),
        (384, 64, 256),
        (512, 64, 256),
    ],
}


class Fire(nn.Module):
    """Squeeze to few channels, expand by 1 x 1 and 3 x 3 convolutions side by side."""

    def __init__(
        self, inplanes: int, squeeze_planes: int, expand1x1_planes: int, expand3x3_planes: int
    ) -> None:
        super().__init__()
        self.inplanes = inplanes
        self.squeeze = nn.Conv2d(inplanes, squeeze_planes, kernel_size=1)
        self.squeeze_activation = nn.ReLU(inplace=True)
        self.expand1x1 = nn.Conv2d(squeeze_planes, expand1x1_planes, kernel_size=1)
        self.expand1x1_activation = nn.ReLU(inplace=True)
        self.expand3x3 = nn.Conv2d(squeeze_planes, expand3x3_planes, kernel_size=3, padding=1)
        self.expand3x3_activation = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        x = self.squeeze_activation(self.squeeze(x))
        small = self.expand1x1_activation(self.expand1x1(x))
        return flambeau.cat([small, self.expand3x3_activation(self.expand3x3(x))], 1)


class SqueezeNet(nn.Module):
    """The network behind `squeezenet1_0` and `squeezenet1_1`."""

    def __init__(self, version: str = "1_0", num_classes: int = 1000, dropout: float = 0.5) -> None:
        super().__init__()
        self.num_classes = num_classes
        if version not in _FIRES:
            raise ValueError(f"Unsupported SqueezeNet version {version}: 1_0 or 1_1 expected")
        channels, kernel = (96, 7) if version == "1_0" else (64, 3)
        layers = [nn.Conv2d(3, channels, kernel_size=kernel, stride=2), nn.ReLU(inplace=True)]
        for fire in _FIRES[version]:
            if fire is None:
                layers.append(nn.MaxPool2d(kernel_size=3, stride=2, ceil_mode=True))
            else:
                before, squeezed, half = fire
                layers.append(Fire(before, squeezed, half, half))
        self.features = nn.Sequential(*layers)
        last = nn.Conv2d(512, num_classes, kernel_size=1)
        self.classifier = nn.Sequential(
            nn.Dropout(p=dropout), last, nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d((1, 1))
        )

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
