"""Sums, products and joins as modules, so that they can be observed and quantized."""

from typing import Any

import flambeau as torch
from flambeau import Tensor, nn

__all__ = ["FloatFunctional", "FXFloatFunctional", "QFunctional"]


def _unsupported(self: Any, x: Any) -> Any:
    name = type(self).__name__
    raise RuntimeError(
        f"{name} is not intended to use the 'forward'. Please use the underlying operation"
    )


class FloatFunctional(nn.Module):
    """Before quantization: results pass through an observer."""

    def __init__(self) -> None:
        super().__init__()
        self.activation_post_process = nn.Identity()

    forward = _unsupported

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        return self.activation_post_process(torch.add(x, y))

    def add_scalar(self, x: Tensor, y: float) -> Tensor:
        return torch.add(x, y)  # its levels follow from those of x

    def mul(self, x: Tensor, y: Tensor) -> Tensor:
        return self.activation_post_process(torch.mul(x, y))

    def mul_scalar(self, x: Tensor, y: float) -> Tensor:
        return torch.mul(x, y)

    def cat(self, x: Any, dim: int = 0) -> Tensor:
        return self.activation_post_process(torch.cat(x, dim=dim))

    def add_relu(self, x: Tensor, y: Tensor) -> Tensor:
        return self.activation_post_process(nn.functional.relu(torch.add(x, y)))

    def matmul(self, x: Tensor, y: Tensor) -> Tensor:
        return self.activation_post_process(torch.matmul(x, y))


class FXFloatFunctional(nn.Module):
    """The same without observers, which a graph has anyway."""

    forward = _unsupported

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.add(x, y)

    def add_scalar(self, x: Tensor, y: float) -> Tensor:
        return torch.add(x, y)

    def mul(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.mul(x, y)

    def mul_scalar(self, x: Tensor, y: float) -> Tensor:
        return torch.mul(x, y)

    def cat(self, x: Any, dim: int = 0) -> Tensor:
        return torch.cat(x, dim=dim)

    def add_relu(self, x: Tensor, y: Tensor) -> Tensor:
        return nn.functional.relu(torch.add(x, y))

    def matmul(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.matmul(x, y)


class QFunctional(nn.Module):
    """After it: on quantized tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.zero_point = 1.0, 0
        self.activation_post_process = nn.Identity()

    forward = _unsupported

    def _get_name(self) -> str:
        return "QFunctional"

    def extra_repr(self) -> str:
        return f"scale={self.scale}, zero_point={self.zero_point}"

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "scale"] = torch.tensor(self.scale)
        destination[prefix + "zero_point"] = torch.tensor(self.zero_point)

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, *rest: Any
    ) -> None:
        self.scale = float(state_dict.pop(prefix + "scale"))
        self.zero_point = int(state_dict.pop(prefix + "zero_point"))
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, *rest)

    def _run(self, name: str, *args: Any) -> Tensor:
        run = getattr(torch.ops.quantized, name)
        return self.activation_post_process(run(*args, self.scale, self.zero_point))

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        return self._run("add", x, y)

    def add_scalar(self, x: Tensor, y: float) -> Tensor:
        return torch.ops.quantized.add_scalar(x, y)

    def mul(self, x: Tensor, y: Tensor) -> Tensor:
        return self._run("mul", x, y)

    def mul_scalar(self, x: Tensor, y: float) -> Tensor:
        return torch.ops.quantized.mul_scalar(x, y)

    def cat(self, x: Any, dim: int = 0) -> Tensor:
        run = torch.ops.quantized.cat
        return self.activation_post_process(run(x, dim, self.scale, self.zero_point))

    def add_relu(self, x: Tensor, y: Tensor) -> Tensor:
        return self._run("add_relu", x, y)

    def matmul(self, x: Tensor, y: Tensor) -> Tensor:
        return self._run("matmul", x, y)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> "QFunctional":
        scale, zero_point = mod.activation_post_process.calculate_qparams()
        found = QFunctional()
        found.scale, found.zero_point = float(scale), int(zero_point)
        return found
