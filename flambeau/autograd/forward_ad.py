"""`torch.autograd.forward_ad`: forward mode by tensors that carry their tangents.

    with forward_ad.dual_level():
        x = forward_ad.make_dual(primal, tangent)
        value, moved = forward_ad.unpack_dual(function(x))

There is one level at a time; `torch.func.jvp` nests. How results move is in flambeau/transforms.
"""

import threading
from typing import Any, NamedTuple

from flambeau._tensor import Tensor
from flambeau.autograd.grad_mode import _Switch
from flambeau.autograd.node import Node, edge_of, init_node
from flambeau.transforms import rules as rules
from flambeau.transforms.duals import ForwardLevel, checked_tangent, modes_forward
from flambeau.transforms.levels import is_at

__all__ = [
    "UnpackedDualTensor",
    "dual_level",
    "enter_dual_level",
    "exit_dual_level",
    "make_dual",
    "unpack_dual",
]


class _Levels(threading.local):
    """The level of a thread, if it has one."""

    def __init__(self) -> None:
        self.all: list[ForwardLevel] = []


_levels = _Levels()


def _number():
    return len(_levels.all) - 1


def __getattr__(name: str) -> int:
    if name == "_current_level":
        return _number()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def enter_dual_level() -> int:
    """Begin a level; gives its number."""
    if _levels.all:
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    level = ForwardLevel()
    level.__enter__()
    _levels.all.append(level)
    return _number()


def exit_dual_level(*, level: int | None = None) -> None:
    """End a level: its tensors are plain ones from now on, without tangents."""
    if level is None:
        level = _number()
    if level < 0:
        raise RuntimeError("Dual level must be a positive number.")
    if level != _number():
        raise RuntimeError(
            "Trying to exit a forward AD level that was not the last one that was created. This "
            "is not supported."
        )
    _levels.all.pop().__exit__(None, None, None)


class dual_level(_Switch):
    """A context with a level."""

    def __init__(self) -> None:
        pass

    def __enter__(self) -> Any:
        return enter_dual_level()

    def __exit__(self, *error: Any) -> None:
        exit_dual_level()


class UnpackedDualTensor(NamedTuple):
    """A value and how it moves, None for not at all."""

    primal: Tensor
    tangent: Tensor | None


class MakeDualBackward0(Node):
    """From a dual to the primal it was made of."""

    __slots__ = ()

    def apply(self, grads, create_graph):
        return grads


def make_dual(tensor: Any, tangent: Any, *, level: int | None = None) -> Any:
    """A tensor with a tangent.

    Example:
        >>> import flambeau as torch
        >>> from flambeau.autograd import forward_ad
        >>> with forward_ad.dual_level():
        ...     x = forward_ad.make_dual(torch.tensor(0.0), torch.tensor(2.0))
        ...     forward_ad.unpack_dual(x.sin()).tangent
        tensor(2.)
    """
    if level is None:
        level = _number()
    if level < 0:
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to "
            "enter_dual_level() first."
        )
    current = _levels.all[level]
    if is_at(tensor, current) and tensor._tangent is not None:
        raise RuntimeError(
            "Making a dual Tensor based on a Tensor that already has a forward gradient at the "
            f"same level {level} is not supported."
        )
    value = current.plain(tensor)
    out: Any = current.dual(value, checked_tangent(tensor, current.plain(tangent)))
    if tensor._requires_grad:
        edge = edge_of(tensor)
        out._grad_fn = init_node(object.__new__(MakeDualBackward0), (edge,), ())
        out._requires_grad = True
    return out


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """The value and the tangent of a tensor."""
    if level is None:
        level = _number()
    if level < 0:
        return UnpackedDualTensor(tensor, None)
    return UnpackedDualTensor(*_levels.all[level].parts(tensor))


class _set_fwd_grad_enabled(_Switch):
    """Whether anything moves: at once when called, until the end when used with `with`."""

    def __init__(self, mode: bool) -> None:
        self.previous = modes_forward.on
        modes_forward.on = mode
        self.mode = mode

    def clone(self) -> "_set_fwd_grad_enabled":
        return _set_fwd_grad_enabled(self.mode)

    def __enter__(self) -> None:
        modes_forward.on = self.mode

    def __exit__(self, *error: Any) -> None:
        modes_forward.on = self.previous


def _is_fwd_grad_enabled() -> bool:
    """Does anything move?"""
    return modes_forward.on
