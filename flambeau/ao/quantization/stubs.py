"""Where numbers become quantized, and back."""

from typing import Any

from flambeau import Tensor, nn
from flambeau.ao.quantization.qconfig import QConfigAny


class QuantStub(nn.Module):
    """Observes what passes; `convert` makes a Quantize of it."""

    def __init__(self, qconfig: QConfigAny = None) -> None:
        super().__init__()
        if qconfig:
            self.qconfig = qconfig

    def forward(self, x: Tensor) -> Tensor:
        return x


class DeQuantStub(nn.Module):
    """`convert` makes a DeQuantize of it."""

    def __init__(self, qconfig: Any = None) -> None:
        super().__init__()
        if qconfig:
            self.qconfig = qconfig

    def forward(self, x: Tensor) -> Tensor:
        return x


class QuantWrapper(nn.Module):
    """A module between two stubs."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        qconfig = getattr(module, "qconfig", None)
        self.add_module("quant", QuantStub(qconfig))
        self.add_module("dequant", DeQuantStub(qconfig))
        self.add_module("module", module)
        self.train(module.training)

    def forward(self, X: Tensor) -> Tensor:
        return self.dequant(self.module(self.quant(X)))
