"""GoogLeNet: convolutions of several sizes side by side (Szegedy et al. 2014).

Two auxiliary classifiers in the middle help while learning; then the result is a named tuple.
"""

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import flambeau
from flambeau import Tensor, nn
from flambeau.nn import functional as F

from ._api import builder
from ._utils import _ovewrite_named_param, initialize
from .published import published

__all__ = ["GoogLeNet", "GoogLeNetOutputs", "GoogLeNet_Weights", "_GoogLeNetOutputs", "googlenet"]

Block = Callable[..., nn.Module]


class GoogLeNetOutputs(NamedTuple):
    """What a GoogLeNet with auxiliary classifiers returns while learning."""

    logits: Tensor
    aux_logits2: Tensor | None
    aux_logits1: Tensor | None


_GoogLeNetOutputs = GoogLeNetOutputs

_OPTIONS = "kernel_size", "padding", "stride"
# convolutions: channels in and out, kernel, padding, stride; pools: kernel, stride; the rest: in,
# 1x1, reduced before 3x3, 3x3, reduced before 5x5, 5x5, after the pool
_LAYERS = {
    "conv1": (3, 64, 7, 3, 2),
    "maxpool1": (3, 2),
    "conv2": (64, 64, 1),
    "conv3": (64, 192, 3, 1),
    "maxpool2": (3, 2),
    "inception3a": (192, 64, 96, 128, 16, 32, 32),
    "inception3b": (256, 128, 128, 192, 32, 96, 64),
    "maxpool3": (3, 2),
    "inception4a": (480, 192, 96, 208, 16, 48, 64),
    "inception4b": (512, 160, 112, 224, 24, 64, 64),
    "inception4c": (512, 128, 128, 256, 24, 64, 64),
    "inception4d": (512, 112, 144, 288, 32, 64, 64),
    "inception4e": (528, 256, 160, 320, 32, 128, 128),
    "maxpool4": (2, 2),
    "inception5a": (832, 256, 160, 320, 32, 128, 128),
    "inception5b": (832, 384, 192, 384, 48, 128, 128),
}


def renormalized(x: Tensor) -> Tensor:
    """Images normalized for ImageNet, as the weights that came from TensorFlow want them."""
    stds, means = [0.229, 0.224, 0.225], [0.485, 0.456, 0.406]
    scale = flambeau.tensor([std / 0.5 for std in stds], dtype=x.dtype, device=x.device)
    shift = flambeau.tensor([(m - 0.5) / 0.5 for m in means], dtype=x.dtype, device=x.device)
    return x[:, :3] * scale.view(3, 1, 1) + shift.view(3, 1, 1)


def warn_of_slow_start(name: str) -> None:
    warnings.warn(
        f"The default weight initialization of {name} will be changed in future releases of "
        "torchvision. If you wish to keep the old behavior (which leads to long initialization "
        "times due to scipy/scipy#11299), please set init_weights=True.",
        FutureWarning,
        stacklevel=3,
    )


class BasicConv2d(nn.Module):
    """Convolution, batch normalization, relu."""

    def __init__(self, in_channels: int, out_channels: int, **kwargs: Any) -> None:
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, bias=False, **kwargs)
        self.bn = nn.BatchNorm2d(out_channels, eps=0.001)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.bn(self.conv(x)), inplace=True)


class Inception(nn.Module):
    """Four ways of looking at the same input, joined."""

    def __init__(
        self,
        in_channels: int,
        ch1x1: int,
        ch3x3red: int,
        ch3x3: int,
        ch5x5red: int,
        ch5x5: int,
        pool_proj: int,
        conv_block: Block | None = None,
    ) -> None:
        super().__init__()
        conv = conv_block or BasicConv2d
        reduced = partial(conv, in_channels, kernel_size=1)

        def through(narrow: int, wide: int) -> nn.Sequential:
            # the weights were trained with 3 x 3 everywhere, whatever the names say
            return nn.Sequential(reduced(narrow), conv(narrow, wide, kernel_size=3, padding=1))

        self.branch1 = reduced(ch1x1)
        self.branch2 = through(ch3x3red, ch3x3)
        self.branch3 = through(ch5x5red, ch5x5)
        pool = nn.MaxPool2d(3, 1, padding=1, ceil_mode=True)
        self.branch4 = nn.Sequential(pool, reduced(pool_proj))

    def _forward(self, x: Tensor) -> list[Tensor]:
        return [self.branch1(x), self.branch2(x), self.branch3(x), self.branch4(x)]

    def forward(self, x: Tensor) -> Tensor:
        return flambeau.cat(self._forward(x), 1)


class InceptionAux(nn.Module):
    """A small classifier in the middle of the network."""

    def __init__(
        self,
        in_channels: int,
        num_classes: int,
        conv_block: Block | None = None,
        dropout: float = 0.7,
    ) -> None:
        super().__init__()
        narrow, side, hidden = 128, 4, 1024
        self.conv = (conv_block or BasicConv2d)(in_channels, narrow, kernel_size=1)
        self.fc1 = nn.Linear(narrow * side * side, hidden)
        self.fc2 = nn.Linear(hidden, num_classes)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(F.adaptive_avg_pool2d(x, (4, 4))).flatten(1)
        return self.fc2(self.dropout(F.relu(self.fc1(x), inplace=True)))


class GoogLeNet(nn.Module):
    """The network behind `googlenet`.

    Args:
        aux_logits: with the two auxiliary classifiers.
        transform_input: images are normalized for ImageNet; undo that.
        init_weights: draw from truncated normal distributions.
        blocks: classes to use for BasicConv2d, Inception and InceptionAux.
    """

    def __init__(
        self,
        num_classes: int = 1000,
        aux_logits: bool = True,
        transform_input: bool = False,
        init_weights: bool | None = None,
        blocks: list[Block] | None = None,
        dropout: float = 0.2,
        dropout_aux: float = 0.7,
    ) -> None:
        if init_weights is None:
            warn_of_slow_start("GoogleNet")
        if blocks is None:
            blocks = [BasicConv2d, Inception, InceptionAux]
        elif len(blocks) != 3:
            raise ValueError(f"blocks length should be 3 instead of {len(blocks)}")
        super().__init__()
        self.transform_input, self.aux_logits = transform_input, aux_logits
        conv, inception, auxiliary = blocks
        for name, settings in _LAYERS.items():
            if name.startswith("maxpool"):
                kernel, stride = settings
                layer: nn.Module = nn.MaxPool2d(kernel, stride, ceil_mode=True)
            elif name.startswith("conv"):
                before, after, *options = settings
                layer = conv(before, after, **dict(zip(_OPTIONS, options, strict=False)))
            else:
                layer = inception(*settings)
            self.add_module(name, layer)
        for name, channels in (("aux1", 512), ("aux2", 528)):
            aside = auxiliary(channels, num_classes, dropout=dropout_aux) if aux_logits else None
            setattr(self, name, aside)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.dropout = nn.Dropout(dropout)
        self.fc = nn.Linear(1024, num_classes)
        if init_weights is not False:
            draw = partial(nn.init.trunc_normal_, std=0.01, a=-2, b=2)
            initialize(self, draw, draw, biases=())

    def _transform_input(self, x: Tensor) -> Tensor:
        return renormalized(x) if self.transform_input else x

    def _forward(self, x: Tensor) -> tuple[Tensor, Tensor | None, Tensor | None]:
        x = self.maxpool2(self.conv3(self.conv2(self.maxpool1(self.conv1(x)))))
        x = self.maxpool3(self.inception3b(self.inception3a(x)))
        x = self.inception4a(x)
        aux1: Tensor | None = None
        if self.aux1 is not None and self.training:
            aux1 = self.aux1(x)
        x = self.inception4d(self.inception4c(self.inception4b(x)))
        aux2: Tensor | None = None
        if self.aux2 is not None and self.training:
            aux2 = self.aux2(x)
        x = self.maxpool4(self.inception4e(x))
        x = self.avgpool(self.inception5b(self.inception5a(x))).flatten(1)
        return self.fc(self.dropout(x)), aux2, aux1

    @flambeau.jit.unused
    def eager_outputs(
        self, x: Tensor, aux2: Tensor | None, aux1: Tensor | None
    ) -> GoogLeNetOutputs | Tensor:
        return GoogLeNetOutputs(x, aux2, aux1) if self.training and self.aux_logits else x

    def forward(self, x: Tensor) -> GoogLeNetOutputs | Tensor:
        x, aux2, aux1 = self._forward(self._transform_input(x))
        if flambeau.jit.is_scripting():  # one type, whatever the mode
            return GoogLeNetOutputs(x, aux2, aux1)
        return self.eager_outputs(x, aux2, aux1)


GoogLeNet_Weights = published("GoogLeNet_Weights", __name__)


def decide(weights: Any, kwargs: dict[str, Any]) -> None:
    """Published weights hold auxiliary classifiers, and come from TensorFlow."""
    kwargs.setdefault("transform_input", True)
    _ovewrite_named_param(kwargs, "aux_logits", True)
    _ovewrite_named_param(kwargs, "init_weights", False)


def _finish(model: Any, asked: dict[str, Any]) -> None:
    if asked.get("aux_logits", False):
        warnings.warn(
            "auxiliary heads in the pretrained googlenet model are NOT pretrained, so make sure to "
            "train them",
            stacklevel=4,
        )
    else:
        model.aux_logits, model.aux1, model.aux2 = False, None, None


@builder(GoogLeNet_Weights, decide=decide, finish=_finish)
def googlenet(**kwargs) -> GoogLeNet:
    """GoogLeNet (Inception v1). With weights, there are no auxiliary classifiers unless asked."""
    return GoogLeNet(**kwargs)
