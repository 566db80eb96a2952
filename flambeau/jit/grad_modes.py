"""`torch.no_grad` and `torch.enable_grad` as classes of scripts."""

# mypy: ignore-errors

from typing import Any

import flambeau as torch


class no_grad:
    """No gradients inside of a with statement."""

    _jit_class = True

    def __init__(self) -> None:
        self.prev = False

    def __enter__(self) -> None:
        self.prev = torch.is_grad_enabled()
        torch.ops.aten.set_grad_enabled(False)

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        torch.ops.aten.set_grad_enabled(self.prev)


class enable_grad:
    """Gradients inside of a with statement."""

    _jit_class = True

    def __init__(self) -> None:
        self.prev = False

    def __enter__(self) -> None:
        self.prev = torch.is_grad_enabled()
        torch.ops.aten.set_grad_enabled(True)

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        torch.ops.aten.set_grad_enabled(self.prev)


for _cls in (no_grad, enable_grad):
    _cls.__module__ = "flambeau.autograd.grad_mode"
