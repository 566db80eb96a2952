"""What several families of models share, and what programs import from torchvision.models._utils.

Rounding of channel numbers, the start values of a whole model, and a module that hands out the
results of inner layers.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from flambeau import Tensor, nn

from ._api import overwrite_named_param as _ovewrite_named_param  # torchvision spells it so

__all__ = ["IntermediateLayerGetter", "_make_divisible", "_ovewrite_named_param", "initialize"]


class IntermediateLayerGetter(nn.ModuleDict):
    """The results of some children of a model whose children run one after another.

    Args:
        model: its children are called in the order in which they were registered, up to the last
            one that is asked for.
        return_layers: names of children, and the names of their results.

    Example:
        >>> import flambeau as torch
        >>> from flambeau.vision.models._utils import IntermediateLayerGetter
        >>> net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 5))
        >>> list(IntermediateLayerGetter(net, {"1": "hidden"})(torch.zeros(2, 3)))
        ['hidden']
    """

    _version = 2

    def __init__(self, model: nn.Module, return_layers: dict[str, str]) -> None:
        names = [name for name, _ in model.named_children()]
        if not set(return_layers).issubset(names):
            raise ValueError("return_layers are not present in model")
        last = max((names.index(str(name)) for name in return_layers), default=0)
        super().__init__(OrderedDict(list(model.named_children())[: last + 1]))
        self.return_layers = return_layers

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        found: dict[str, Tensor] = OrderedDict()
        called = self.return_layers
        for name, layer in self.items():
            x = layer(x)
            if name in called:
                found[called[name]] = x
        return found


def _make_divisible(v: float, divisor: int, min_value: int | None = None) -> int:
    """The nearest multiple of `divisor`, but never less than nine tenths of `v`."""
    least = divisor if min_value is None else min_value
    rounded = max(least, int(v + divisor / 2) // divisor * divisor)
    return rounded + divisor if rounded < 0.9 * v else rounded


def fan_out(weight: Tensor) -> None:
    """Kaiming's normal distribution for what comes out, the start of most convolutions here."""
    nn.init.kaiming_normal_(weight, mode="fan_out", nonlinearity="relu")


def initialize(
    model: nn.Module,
    conv: Callable[[Tensor], Any] | None = None,
    linear: Callable[[Tensor], Any] | None = None,
    biases: tuple[type[nn.Module], ...] = (nn.Conv2d, nn.Conv3d, nn.Linear),
) -> None:
    """Give start values to all layers, in the order of `modules()`, which is that of the draws.

    Args:
        conv, linear: draw the weights of such layers; None leaves them.
        biases: of which of these layers the biases become zero too.
    """
    for module in model.modules():
        if isinstance(module, (nn.Conv2d, nn.Conv3d)):
            draw = conv
        elif isinstance(module, nn.Linear):
            draw = linear
        else:
            if isinstance(module, (nn.BatchNorm2d, nn.BatchNorm3d, nn.GroupNorm)):
                nn.init.ones_(module.weight)
                nn.init.zeros_(module.bias)
            continue
        if draw is not None:
            draw(module.weight)
            if module.bias is not None and isinstance(module, biases):
                nn.init.zeros_(module.bias)
