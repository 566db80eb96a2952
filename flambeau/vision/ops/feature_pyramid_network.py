"""Feature pyramids: small maps are blown up and added to large ones (Lin et al. 2017)."""

from collections import OrderedDict
from collections.abc import Callable, Iterator
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


def _start(pyramid: nn.Module) -> None:
    """Start values of all convolutions."""
    for layer in pyramid.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_uniform_(layer.weight, a=1)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)


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
        if 0 in in_channels_list:
            raise ValueError("in_channels=0 is currently not supported")
        if not isinstance(extra_blocks, (ExtraFPNBlock, type(None))):
            raise TypeError(
                f"extra_blocks should be of type ExtraFPNBlock not {type(extra_blocks)}"
            )
        super().__init__()
        plain = {"norm_layer": norm_layer, "activation_layer": None}
        self.inner_blocks, self.layer_blocks = nn.ModuleList(), nn.ModuleList()
        for channels in in_channels_list:
            self.inner_blocks.append(Conv2dNormActivation(channels, out_channels, 1, **plain))
            self.layer_blocks.append(Conv2dNormActivation(out_channels, out_channels, 3, **plain))
        _start(self)
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
        names, maps = list(x), list(x.values())
        found = list(self._smallest_first(maps))[::-1]
        if self.extra_blocks is not None:
            found, names = self.extra_blocks(found, maps, names)
        return OrderedDict(zip(names, found, strict=False))

    def _smallest_first(self, maps: list[Tensor]) -> Iterator[Tensor]:
        """Each map with what comes from above, that is from the smaller ones."""
        above = None
        for place in (-1, *range(len(maps) - 2, -1, -1)):
            own = self.get_result_from_inner_blocks(maps[place], place)
            above = own if above is None else own + F.interpolate(above, own.shape[-2:])
            yield self.get_result_from_layer_blocks(above, place)


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
        self.use_P5 = out_channels == in_channels
        for name, before in (("p6", in_channels), ("p7", out_channels)):
            self.add_module(name, nn.Conv2d(before, out_channels, 3, stride=2, padding=1))
        _start(self)

    def forward(
        self, results: list[Tensor], x: list[Tensor], names: list[str]
    ) -> tuple[list[Tensor], list[str]]:
        p6 = self.p6(results[-1] if self.use_P5 else x[-1])
        results.extend([p6, self.p7(F.relu(p6))])
        names.extend(["p6", "p7"])
        return results, names
