"""MNASNet: inverted residuals found by a search that timed them on telephones (Tan et al. 2018)."""

import warnings
from functools import partial
from itertools import pairwise
from typing import Any

from flambeau import Tensor, nn

from ._api import builder
from ._utils import fan_out, initialize
from .parts import conv_norm, row_of_blocks
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

_LAST = 1280  # channels before the classifier


def _conv(
    before: int, after: int, kernel: int = 1, *, momentum: float = _BN_MOMENTUM, **options: Any
) -> list[nn.Module]:
    relu = nn.ReLU(inplace=True)
    return conv_norm(before, after, kernel, relu=relu, momentum=momentum, **options)


def _depthwise(
    channels: int, kernel: int, stride: int, momentum: float = _BN_MOMENTUM
) -> list[nn.Module]:
    """A filter for each channel."""
    spread = {"stride": stride, "groups": channels, "momentum": momentum}
    return _conv(channels, channels, kernel, **spread)


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
        for name, value, known in (
            ("stride", stride, (1, 2)),
            ("kernel_size", kernel_size, (3, 5)),
        ):
            if value not in known:
                raise ValueError(f"{name} should be {known[0]} or {known[1]} instead of {value}")
        super().__init__()
        wide = expansion_factor * in_ch
        self.apply_residual = (in_ch, 1) == (out_ch, stride)
        self.layers = nn.Sequential(
            *_conv(in_ch, wide, momentum=bn_momentum),
            *_depthwise(wide, kernel_size, stride, momentum=bn_momentum),
            *conv_norm(wide, out_ch, momentum=bn_momentum),
        )

    def forward(self, input: Tensor) -> Tensor:
        change = self.layers(input)
        return input + change if self.apply_residual else change


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

    def block(before: int, after: int, stride: int) -> _InvertedResidual:
        return _InvertedResidual(before, after, kernel_size, stride, exp_factor, bn_momentum)

    return nn.Sequential(*row_of_blocks(block, in_ch, out_ch, stride, repeats))


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
    separable = _depthwise(first, 3, 1) + conv_norm(first, second, momentum=_BN_MOMENTUM)
    return _conv(3, first, 3, stride=2) + separable


class MNASNet(nn.Module):
    """The network behind all functions of this file (the B1 of the paper).

    Args:
        alpha: multiplies the channels everywhere.
    """

    _version = 2  # the first one did not scale the stem

    def __init__(self, alpha: float, num_classes: int = 1000, dropout: float = 0.2) -> None:
        if not alpha > 0.0:
            raise ValueError(f"alpha should be greater than 0.0 instead of {alpha}")
        super().__init__()
        self.num_classes, self.alpha = num_classes, alpha
        first, *widths = _get_depths(alpha)
        stem = _stem(first, widths[0])
        rows = [
            _stack(*channels, *row, _BN_MOMENTUM)
            for channels, row in zip(pairwise(widths), _STACKS, strict=True)
        ]
        self.layers = nn.Sequential(*stem, *rows, *_conv(widths[-1], _LAST))
        last = nn.Linear(_LAST, num_classes)
        self.classifier = nn.Sequential(nn.Dropout(dropout, inplace=True), last)
        uniform = partial(nn.init.kaiming_uniform_, mode="fan_out", nonlinearity="sigmoid")
        initialize(self, conv=fan_out, linear=uniform)

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
