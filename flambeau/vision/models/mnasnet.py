"""MNASNet: inverted residuals found by a search that timed them on telephones (Tan et al. 2018)."""

import warnings
from typing import Any

from flambeau import Tensor, nn

from ._api import builder
from ._utils import fan_out, initialize
from .published import published

__all__ = [
    "MNASNet",
    "MNASNet0_5_Weights",
    "MNASNet0_75_Weights",
    "MNASNet1_0_Weights",
    "MNASNet1_3_Weights",
    "mnasnet0_5",
    "mnasnet0_75",
    "mnasnet1_0",
    "mnasnet1_3",
]

_BN_MOMENTUM = 1 - 0.9997  # TensorFlow's 0.9997

# kernel, stride, expansion, repeats of the rows of blocks
_STACKS = [(3, 2, 3, 3), (5, 2, 3, 3), (5, 2, 6, 3), (3, 1, 6, 2), (5, 2, 6, 4), (3, 1, 6, 1)]


class _InvertedResidual(nn.Module):
    def __init__(
        self,
        in_ch: int,
        out_ch: int,
        kernel_size: int,
        stride: int,
        expansion_factor: int,
        bn_momentum: float = 0.1,
    ) -> None:
        super().__init__()
        if stride not in (1, 2):
            raise ValueError(f"stride should be 1 or 2 instead of {stride}")
        if kernel_size not in (3, 5):
            raise ValueError(f"kernel_size should be 3 or 5 instead of {kernel_size}")
        wide = in_ch * expansion_factor
        self.apply_residual = in_ch == out_ch and stride == 1
        self.layers = nn.Sequential(
            nn.Conv2d(in_ch, wide, 1, bias=False),
            nn.BatchNorm2d(wide, momentum=bn_momentum),
            nn.ReLU(inplace=True),
            nn.Conv2d(
                wide,
                wide,
                kernel_size,
                padding=kernel_size // 2,
                stride=stride,
                groups=wide,
                bias=False,
            ),
            nn.BatchNorm2d(wide, momentum=bn_momentum),
            nn.ReLU(inplace=True),
            nn.Conv2d(wide, out_ch, 1, bias=False),
            nn.BatchNorm2d(out_ch, momentum=bn_momentum),
        )

    def forward(self, input: Tensor) -> Tensor:
        result = self.layers(input)
        return result + input if self.apply_residual else result


def _stack(
    in_ch: int,
    out_ch: int,
    kernel_size: int,
    stride: int,
    exp_factor: int,
    repeats: int,
    bn_momentum: float,
) -> nn.Sequential:
    """Blocks in a row; only the first one changes the shape."""
    if repeats < 1:
        raise ValueError(f"repeats should be >= 1, instead got {repeats}")
    return nn.Sequential(
        *[
            _InvertedResidual(
                in_ch if place == 0 else out_ch,
                out_ch,
                kernel_size,
                stride if place == 0 else 1,
                exp_factor,
                bn_momentum=bn_momentum,
            )
            for place in range(repeats)
        ]
    )


def _round_to_multiple_of(val: float, divisor: int, round_up_bias: float = 0.9) -> int:
    """The nearest multiple, but never below `round_up_bias` times the value."""
    if not 0.0 < round_up_bias < 1.0:
        raise ValueError(
            "round_up_bias should be greater than 0.0 and smaller than 1.0 instead of "
            f"{round_up_bias}"
        )
    rounded = max(divisor, int(val + divisor / 2) // divisor * divisor)
    return rounded if rounded >= round_up_bias * val else rounded + divisor


def _get_depths(alpha: float) -> list[int]:
    return [_round_to_multiple_of(n * alpha, 8) for n in (32, 16, 24, 40, 80, 96, 192, 320)]


def _stem(first: int, second: int) -> list[nn.Module]:
    """A convolution, and a depthwise separable one."""
    return [
        nn.Conv2d(3, first, 3, padding=1, stride=2, bias=False),
        nn.BatchNorm2d(first, momentum=_BN_MOMENTUM),
        nn.ReLU(inplace=True),
        nn.Conv2d(first, first, 3, padding=1, stride=1, groups=first, bias=False),
        nn.BatchNorm2d(first, momentum=_BN_MOMENTUM),
        nn.ReLU(inplace=True),
        nn.Conv2d(first, second, 1, padding=0, stride=1, bias=False),
        nn.BatchNorm2d(second, momentum=_BN_MOMENTUM),
    ]


class MNASNet(nn.Module):
    """The network behind all functions of this file (the B1 of the paper).

    Args:
        alpha: multiplies the channels everywhere.
    """

    _version = 2  # the first one did not scale the stem

    def __init__(self, alpha: float, num_classes: int = 1000, dropout: float = 0.2) -> None:
        super().__init__()
        if alpha <= 0.0:
            raise ValueError(f"alpha should be greater than 0.0 instead of {alpha}")
        self.alpha = alpha
        self.num_classes = num_classes
        depths = _get_depths(alpha)
        layers = _stem(depths[0], depths[1])
        for before, after, row in zip(depths[1:], depths[2:], _STACKS, strict=False):
            layers.append(_stack(before, after, *row, _BN_MOMENTUM))
        layers += [
            nn.Conv2d(depths[7], 1280, 1, padding=0, stride=1, bias=False),
            nn.BatchNorm2d(1280, momentum=_BN_MOMENTUM),
            nn.ReLU(inplace=True),
        ]
        self.layers = nn.Sequential(*layers)
        self.classifier = nn.Sequential(
            nn.Dropout(p=dropout, inplace=True), nn.Linear(1280, num_classes)
        )
        initialize(
            self,
            fan_out,
            lambda weight: nn.init.kaiming_uniform_(weight, mode="fan_out", nonlinearity="sigmoid"),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.layers(x).mean([2, 3]))

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: dict[str, Any], *rest: Any
    ) -> None:
        version = local_metadata.get("version", 2)  # plain dicts, as of safetensors, know none
        if version not in (1, 2):
            raise ValueError(f"version should be set to 1 or 2 instead of {version}")
        if version == 1 and self.alpha != 1.0:
            stem = _stem(32, 16)
            stem.append(_stack(16, _get_depths(self.alpha)[2], *_STACKS[0], _BN_MOMENTUM))
            for place, layer in enumerate(stem):
                self.layers[place] = layer
            self._version = 1  # it is saved as what it is now
            warnings.warn(
                "A new version of MNASNet model has been implemented. Your checkpoint was saved "
                "using the previous version. This checkpoint will load and work as before, but "
                "you may want to upgrade by training a newer model or transfer learning from an "
                "updated ImageNet checkpoint.",
                stacklevel=2,
            )
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)


MNASNet0_5_Weights = published("MNASNet0_5_Weights", __name__)
MNASNet0_75_Weights = published("MNASNet0_75_Weights", __name__)
MNASNet1_0_Weights = published("MNASNet1_0_Weights", __name__)
MNASNet1_3_Weights = published("MNASNet1_3_Weights", __name__)


@builder(MNASNet0_5_Weights)
def mnasnet0_5(**kwargs) -> MNASNet:
    """MNASNet, half width."""
    return MNASNet(0.5, **kwargs)


@builder(MNASNet0_75_Weights)
def mnasnet0_75(**kwargs) -> MNASNet:
    """MNASNet, three quarters of the width."""
    return MNASNet(0.75, **kwargs)


@builder(MNASNet1_0_Weights)
def mnasnet1_0(**kwargs) -> MNASNet:
    """MNASNet."""
    return MNASNet(1.0, **kwargs)


@builder(MNASNet1_3_Weights)
def mnasnet1_3(**kwargs) -> MNASNet:
    """MNASNet, 1.3 times as wide."""
    return MNASNet(1.3, **kwargs)
