"""`torch.library`: functions of a program that go by the name of an op.

`custom_op("space::name")` makes a function an op: `torch.ops.space.name` finds it, tensors without
values go to the function given to `register_fake`, and gradients to the one given to
`register_autograd`. Without the latter a backward through the op is refused rather than forgotten.
"""

from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

from flambeau import Tensor, ops
from flambeau.aten.overloads import OpOverloadPacket
from flambeau.autograd import Function
from flambeau.interposing import offer

__all__ = ["CustomOpDef", "custom_op", "register_autograd", "register_fake"]

_OPS: dict[str, "CustomOpDef"] = {}


class CustomOpDef:
    """A function under the name of an op."""

    def __init__(self, name: str, fn: Callable) -> None:
        self._name, self._fn, self.__doc__ = name, fn, fn.__doc__
        self._fake: Callable | None = None
        self._backward: Callable | None = None
        self._setup_context: Callable | None = None
        self.default: Any = None  # the op as an object, as graphs name it

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._name})>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        tensors = [a for a in (*args, *kwargs.values()) if isinstance(a, Tensor)]
        if self._fake is not None and any(not t.device.runtime.computes for t in tensors):
            return self._fake(*args, **kwargs)
        if any(t.requires_grad for t in tensors):
            return _Differentiable.apply(self, kwargs, *args)
        return self._fn(*args, **kwargs)

    def register_fake(self, fn: Callable) -> Callable:
        """What gives the shapes for tensors without values."""
        self._fake = fn
        return fn

    def register_autograd(
        self, backward: Callable, /, *, setup_context: Callable | None = None
    ) -> None:
        """backward(ctx, *gradients); setup_context(ctx, inputs, output) keeps what it needs."""
        self._backward, self._setup_context = backward, setup_context


offer(CustomOpDef.__call__, lambda args, kwargs: args[0]._name)


class _Differentiable(Function):
    @staticmethod
    def forward(ctx, op, kwargs, *args):
        ctx.op = op
        if any(isinstance(value, Tensor) and value.requires_grad for value in kwargs.values()):
            raise NotImplementedError(f"{op._name}: pass tensors with gradients by position")
        output = op._fn(*args, **kwargs)
        if op._setup_context is not None:
            op._setup_context(ctx=ctx, inputs=args, output=output)
        return output

    @staticmethod
    def backward(ctx, *gradients):
        if ctx.op._backward is None:
            raise RuntimeError(
                f"Trying to backward through {ctx.op._name} but no autograd formula was "
                "registered. Please use register_autograd to add one."
            )
        found = ctx.op._backward(ctx, *gradients)
        return (None, None, *(found if isinstance(found, (tuple, list)) else (found,)))


def custom_op(
    name: str,
    fn: Callable | None = None,
    /,
    *,
    mutates_args: str | Iterable[str],
    device_types: Any = None,
    schema: str | None = None,
    tags: Any = None,
) -> Any:
    """Make a function the op "space::name"; also as a decorator."""
    if fn is None:
        return lambda function: custom_op(name, function, mutates_args=mutates_args)
    space, _, short = name.partition("::")
    if not short:
        raise ValueError(
            f"torch.library.custom_op(): expected a name of the form 'namespace::name', "
            f"got {name!r}"
        )
    found = _OPS[name] = CustomOpDef(name, fn)
    found.default = OpOverloadPacket(space, short, lambda overload="": found).default
    if space not in vars(ops) and space not in ("aten", "quantized"):
        setattr(ops, space, SimpleNamespace())
    setattr(getattr(ops, space), short, found)
    return found


def _found(op: str | CustomOpDef) -> CustomOpDef:
    if isinstance(op, CustomOpDef):
        return op
    if op not in _OPS:
        raise RuntimeError(f"operator {op} does not exist: make it with torch.library.custom_op")
    return _OPS[op]


def register_fake(op: str | CustomOpDef, func: Callable | None = None, /, **options: Any) -> Any:
    """What gives an op's shapes for tensors without values; also as a decorator."""
    return _found(op).register_fake(func) if func is not None else _found(op).register_fake


def register_autograd(
    op: str | CustomOpDef,
    backward: Callable,
    /,
    *,
    setup_context: Callable | None = None,
    lib: Any = None,
) -> None:
    """How gradients go through an op."""
    _found(op).register_autograd(backward, setup_context=setup_context)
