"""Where numbers become quantized, and back."""

from typing import Any

from flambeau import Tensor, nn


class _Stub(nn.Module):
    """Hands on what it gets, until `convert` puts something else in its place."""

    def __init__(self, qconfig: Any = None) -> None:
        nn.Module.__init__(self)
        self.__dict__.update({"qconfig": qconfig} if qconfig else {})

    def forward(self, x: Tensor) -> Tensor:
        return x


class QuantStub(_Stub):
    """A place to quantize at: observed first, a Quantize later."""


class DeQuantStub(_Stub):
    """A place to return to floats at."""


class QuantWrapper(nn.Module):
    """A module between two stubs."""

    def __init__(self, module: nn.Module) -> None:
        nn.Module.__init__(self)
        wanted = getattr(module, "qconfig", None)
        parts = {"quant": QuantStub(wanted), "dequant": DeQuantStub(wanted), "module": module}
        for name, part in parts.items():
            self.add_module(name, part)
        self.train(module.training)

    def forward(self, X: Tensor) -> Tensor:
        inside = self.module(self.quant(X))
        return self.dequant(inside)
