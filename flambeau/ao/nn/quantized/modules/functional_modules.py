"""Sums, products and joins as modules, so that they can be observed and quantized."""

from collections.abc import Callable
from typing import Any

import flambeau as torch
from flambeau import Tensor, nn
from flambeau.ao.nn.quantized.modules.utils import KeepsState

__all__ = ["FloatFunctional", "FXFloatFunctional", "QFunctional"]


def _unsupported(self: Any, x: Any) -> Any:
    name = type(self).__name__
    raise RuntimeError(
        f"{name} is not intended to use the 'forward'. Please use the underlying operation"
    )


def _watched(function: Callable) -> Callable:
    """A function of two values as a method whose results pass an observer."""

    def method(self: Any, x: Any, y: Any) -> Any:
        return self.activation_post_process(function(x, y))

    return method


def _plain(function: Callable) -> Callable:
    """The same where levels follow from those of x, or nothing observes."""

    def method(self: Any, x: Any, y: Any) -> Any:
        return function(x, y)

    return method


def _levelled(name: str) -> Callable:
    """A quantized op as a method that tells it the levels of the results."""

    def method(self: Any, x: Any, y: Any) -> Any:
        return self._run(name, x, y)

    return method


def _add_relu(x: Tensor, y: Tensor) -> Tensor:
    return nn.functional.relu(torch.add(x, y))


class FloatFunctional(nn.Module):
    """Before quantization: results pass through an observer."""

    def __init__(self) -> None:
        nn.Module.__init__(self)
        self.activation_post_process = nn.Identity()

    forward = _unsupported
    add, mul, matmul = _watched(torch.add), _watched(torch.mul), _watched(torch.matmul)
    add_relu = _watched(_add_relu)
    add_scalar, mul_scalar = _plain(torch.add), _plain(torch.mul)

    def cat(self, x: Any, dim: int = 0) -> Tensor:
        return self.activation_post_process(torch.cat(x, dim=dim))


class FXFloatFunctional(nn.Module):
    """The same without observers, which a graph has anyway."""

    forward = _unsupported
    add, mul, matmul = _plain(torch.add), _plain(torch.mul), _plain(torch.matmul)
    add_relu = _plain(_add_relu)
    add_scalar, mul_scalar = add, mul

    def cat(self, x: Any, dim: int = 0) -> Tensor:
        return torch.cat(x, dim=dim)


class QFunctional(KeepsState):
    """After it: on quantized tensors."""

    scale, zero_point = 1.0, 0

    def __init__(self) -> None:
        nn.Module.__init__(self)
        self.activation_post_process = nn.Identity()

    forward = _unsupported
    add, mul, matmul = _levelled("add"), _levelled("mul"), _levelled("matmul")
    add_relu = _levelled("add_relu")
    add_scalar = _plain(lambda x, y: torch.ops.quantized.add_scalar(x, y))
    mul_scalar = _plain(lambda x, y: torch.ops.quantized.mul_scalar(x, y))

    def _get_name(self) -> str:
        return "QFunctional"

    def extra_repr(self) -> str:
        return f"scale={self.scale}, zero_point={self.zero_point}"

    def _run(self, name: str, *args: Any) -> Tensor:
        run = getattr(torch.ops.quantized, name)
        return self.activation_post_process(run(*args, self.scale, self.zero_point))

    def cat(self, x: Any, dim: int = 0) -> Tensor:
        return self._run("cat", x, dim)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> "QFunctional":
        found = QFunctional()
        found._restore(*mod.activation_post_process.calculate_qparams())
        return found
