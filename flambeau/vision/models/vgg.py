"""VGG: 3 x 3 convolutions in rows, halved five times (Simonyan and Zisserman 2014)."""

from functools import partial
from typing import Any

from flambeau import Tensor, nn

from ._api import builder
from ._utils import fan_out, initialize
from .published import published

__all__ = [
    "VGG",
    "VGG11_BN_Weights",
    "VGG11_Weights",
    "VGG13_BN_Weights",
    "VGG13_Weights",
    "VGG16_BN_Weights",
    "VGG16_Weights",
    "VGG19_BN_Weights",
    "VGG19_Weights",
    "vgg11",
    "vgg11_bn",
    "vgg13",
    "vgg13_bn",
    "vgg16",
    "vgg16_bn",
    "vgg19",
    "vgg19_bn",
]


def _stages(*lengths: int) -> list[str | int]:
    """So many convolutions of 64, 128, 256, 512 and 512 channels, each row followed by a pool."""
    setting: list[str | int] = []
    for length, channels in zip(lengths, (64, 128, 256, 512, 512), strict=True):
        setting += [channels] * length + ["M"]
    return setting


# the letters are those of the paper
cfgs = {
    "A": _stages(1, 1, 2, 2, 2),
    "B": _stages(2, 2, 2, 2, 2),
    "D": _stages(2, 2, 3, 3, 3),
    "E": _stages(2, 2, 4, 4, 4),
}


class VGG(nn.Module):
    """The network behind `vgg11` to `vgg19_bn`: given features, and a classifier after them."""

    def __init__(
        self,
        features: nn.Module,
        num_classes: int = 1000,
        init_weights: bool = True,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        side, hidden = 7, 4096
        self.features = features
        self.avgpool = nn.AdaptiveAvgPool2d((side, side))
        self.classifier = nn.Sequential()
        for width in (512 * side * side, hidden):
            layers = nn.Linear(width, hidden), nn.ReLU(inplace=True), nn.Dropout(dropout)
            self.classifier.extend(nn.Sequential(*layers))
        self.classifier.append(nn.Linear(hidden, num_classes))
        if init_weights:
            initialize(self, fan_out, partial(nn.init.normal_, std=0.01))

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.avgpool(self.features(x)).flatten(1))


def make_layers(cfg: list[str | int], batch_norm: bool = False) -> nn.Sequential:
    """Features from a list of channels, where "M" stands for a pool."""
    layers: list[nn.Module] = []
    channels = 3
    for item in cfg:
        if isinstance(item, str):
            layers.append(nn.MaxPool2d(kernel_size=2, stride=2))
            continue
        layers.append(nn.Conv2d(channels, item, kernel_size=3, padding=1))
        if batch_norm:
            layers.append(nn.BatchNorm2d(item))
        layers.append(nn.ReLU(inplace=True))
        channels = item
    return nn.Sequential(*layers)


VGG11_Weights = published("VGG11_Weights", __name__)
VGG11_BN_Weights = published("VGG11_BN_Weights", __name__)
VGG13_Weights = published("VGG13_Weights", __name__)
VGG13_BN_Weights = published("VGG13_BN_Weights", __name__)
VGG16_Weights = published("VGG16_Weights", __name__)
VGG16_BN_Weights = published("VGG16_BN_Weights", __name__)
VGG19_Weights = published("VGG19_Weights", __name__)
VGG19_BN_Weights = published("VGG19_BN_Weights", __name__)


def _no_draws(weights: Any, kwargs: dict[str, Any]) -> None:
    kwargs["init_weights"] = False


@builder(VGG11_Weights, decide=_no_draws)
def vgg11(**kwargs) -> VGG:
    """VGG-11, configuration A."""
    return VGG(make_layers(cfgs["A"]), **kwargs)


@builder(VGG11_BN_Weights, decide=_no_draws)
def vgg11_bn(**kwargs) -> VGG:
    """VGG-11 with batch normalization."""
    return VGG(make_layers(cfgs["A"], batch_norm=True), **kwargs)


@builder(VGG13_Weights, decide=_no_draws)
def vgg13(**kwargs) -> VGG:
    """VGG-13, configuration B."""
    return VGG(make_layers(cfgs["B"]), **kwargs)


@builder(VGG13_BN_Weights, decide=_no_draws)
def vgg13_bn(**kwargs) -> VGG:
    """VGG-13 with batch normalization."""
    return VGG(make_layers(cfgs["B"], batch_norm=True), **kwargs)


@builder(VGG16_Weights, decide=_no_draws)
def vgg16(**kwargs) -> VGG:
    """VGG-16, configuration D."""
    return VGG(make_layers(cfgs["D"]), **kwargs)


@builder(VGG16_BN_Weights, decide=_no_draws)
def vgg16_bn(**kwargs) -> VGG:
    """VGG-16 with batch normalization."""
    return VGG(make_layers(cfgs["D"], batch_norm=True), **kwargs)


@builder(VGG19_Weights, decide=_no_draws)
def vgg19(**kwargs) -> VGG:
    """VGG-19, configuration E."""
    return VGG(make_layers(cfgs["E"]), **kwargs)


@builder(VGG19_BN_Weights, decide=_no_draws)
def vgg19_bn(**kwargs) -> VGG:
    """VGG-19 with batch normalization."""
    return VGG(make_layers(cfgs["E"], batch_norm=True), **kwargs)
