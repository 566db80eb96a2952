"""Which function takes which op apart."""

from collections.abc import Callable
from typing import Any

from flambeau._tensor import Tensor
from flambeau.aten.overloads import (
    OpOverload,
    OpOverloadPacket,
    current_recorder,
    namespace,
)

COMPOSITE: dict[OpOverload, Callable] = {}
CORE: dict[OpOverload, Callable] = {}


def op(name: str) -> OpOverload:
    """An op of aten by its name, as in "add.Tensor"."""
    short, _, kind = name.partition(".")
    return getattr(namespace("aten").packet(short), kind or "default")


def become(tensor: Tensor, value: Tensor) -> None:
    """Write a value; where writes are recorded as values, just let it be the new one."""
    recorder = current_recorder()
    if hasattr(recorder, "replace"):
        recorder.replace(tensor, value)
    else:
        op("copy_").__call__(tensor, value)


def whole(name: str, *args: Any) -> Any:
    """Call an op as it is, although it could be taken apart."""
    recorder = current_recorder()
    return op(name)(*args) if recorder is None else recorder.call_whole(op(name), *args)


def takes_apart(table: dict[OpOverload, Callable], *names: str) -> Callable[[Callable], Callable]:
    """Put a function into a table for ops of these names."""

    def register(function: Callable) -> Callable:
        for name in names:
            table[op(name)] = function
        return function

    return register


def composite(*names: str) -> Callable[[Callable], Callable]:
    """Ops that PyTorch's dispatcher makes of others."""
    return takes_apart(COMPOSITE, *names)


def core(*names: str) -> Callable[[Callable], Callable]:
    """Ops that are taken apart on the way to core aten."""
    return takes_apart(CORE, *names)


def register_decomposition(
    aten_op: Any, registry: Any = None, *, type: str = "post_autograd", unsafe: bool = False
) -> Callable[[Callable], Callable]:
    """Say how an op, or several, are made of others."""
    table = CORE if registry is None else registry

    def register(function: Callable) -> Callable:
        ops = aten_op if isinstance(aten_op, (list, tuple)) else [aten_op]
        for one in ops:
            if isinstance(one, OpOverloadPacket):
                for name in one.overloads():
                    table[getattr(one, name)] = function
            else:
                table[one] = function
        return function

    return register
