"""Feature pyramids: small maps are blown up and added to large ones (Lin et al. 2017)."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from flambeau import Tensor, nn
from flambeau.nn import functional as F

from .misc import Conv2dNormActivation


class ExtraFPNBlock(nn.Module):
    """Adds maps at the end of a pyramid."""

    def forward(
        self, results: list[Tensor], x: list[Tensor], names: list[str]
    ) -> tuple[list[Tensor], list[str]]:
        """From the maps so far, the inputs and the names of the maps to more maps and names."""
        raise NotImplementedError


class FeaturePyramidNetwork(nn.Module):
    """Maps of several sizes, all with the same channels and all knowing of the smaller ones.

    Args:
        in_channels_list: channels of the maps that `forward` gets, the largest map first.
        out_channels: channels of all results.
        extra_blocks: adds maps at the end.
        norm_layer: called with the channels, after each convolution.
    """

    _version = 2

    def __init__(
        self,
        in_channels_list: list[int],
        out_channels: int,
        extra_blocks: ExtraFPNBlock | None = None,
        norm_layer: Callable[..., nn.Module] | None = None,
    ) -> None:
        super().__init__()
        self.inner_blocks = nn.ModuleList()
        self.layer_blocks = nn.ModuleList()
        for channels in in_channels_list:
            if channels == 0:
                raise ValueError("in_channels=0 is currently not supported")
            inner = Conv2dNormActivation(
                channels,
                out_channels,
                kernel_size=1,
                padding=0,
                norm_layer=norm_layer,
                activation_layer=None,
            )
            layer = Conv2dNormActivation(
                out_channels,
                out_channels,
                kernel_size=3,
                norm_layer=norm_layer,
                activation_layer=None,
            )
            self.inner_blocks.append(inner)
            self.layer_blocks.append(layer)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_uniform_(module.weight, a=1)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        if extra_blocks is not None and not isinstance(extra_blocks, ExtraFPNBlock):
            raise TypeError(
                f"extra_blocks should be of type ExtraFPNBlock not {type(extra_blocks)}"
            )
        self.extra_blocks = extra_blocks

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: dict[str, Any], *rest: Any
    ) -> None:
        if local_metadata.get("version", 1) < 2:  # a block used to be the convolution itself
            for block in ("inner_blocks", "layer_blocks"):
                for place in range(len(self.inner_blocks)):
                    for kind in ("weight", "bias"):
                        old = f"{prefix}{block}.{place}.{kind}"
                        if old in state_dict:
                            state_dict[f"{prefix}{block}.{place}.0.{kind}"] = state_dict.pop(old)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    def get_result_from_inner_blocks(self, x: Tensor, idx: int) -> Tensor:
        return self.inner_blocks[idx](x)

    def get_result_from_layer_blocks(self, x: Tensor, idx: int) -> Tensor:
        return self.layer_blocks[idx](x)

    def forward(self, x: dict[str, Tensor]) -> dict[str, Tensor]:
        """From maps by name, the largest first, to maps by the same names."""
        names, maps = list(x.keys()), list(x.values())
        inner = self.get_result_from_inner_blocks(maps[-1], -1)
        results = [self.get_result_from_layer_blocks(inner, -1)]
        for place in reversed(range(len(maps) - 1)):
            lateral = self.get_result_from_inner_blocks(maps[place], place)
            above = F.interpolate(inner, size=lateral.shape[-2:], mode="nearest")
            inner = lateral + above
            results.insert(0, self.get_result_from_layer_blocks(inner, place))
        if self.extra_blocks is not None:
            results, names = self.extra_blocks(results, maps, names)
        return OrderedDict(zip(names, results, strict=False))


class LastLevelMaxPool(ExtraFPNBlock):
    """One more map, every second element of the last."""

    def forward(
        self, results: list[Tensor], x: list[Tensor], names: list[str]
    ) -> tuple[list[Tensor], list[str]]:
        names.append("pool")
        results.append(F.max_pool2d(results[-1], kernel_size=1, stride=2, padding=0))
        return results, names


class LastLevelP6P7(ExtraFPNBlock):
    """Two more maps, by convolutions with stride 2, as in RetinaNet."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.p6 = nn.Conv2d(in_channels, out_channels, 3, 2, 1)
        self.p7 = nn.Conv2d(out_channels, out_channels, 3, 2, 1)
        for module in (self.p6, self.p7):
            nn.init.kaiming_uniform_(module.weight, a=1)
            nn.init.zeros_(module.bias)
        self.use_P5 = in_channels == out_channels

    def forward(
        self, results: list[Tensor], x: list[Tensor], names: list[str]
    ) -> tuple[list[Tensor], list[str]]:
        p6 = self.p6(results[-1] if self.use_P5 else x[-1])
        results.extend([p6, self.p7(F.relu(p6))])
        names.extend(["p6", "p7"])
        return results, names
