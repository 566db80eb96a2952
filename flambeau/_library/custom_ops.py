"""Functions under the name of an op: what `torch.library.custom_op` makes."""

import functools
from collections.abc import Callable, Iterable
from typing import Any

from flambeau import Tensor
from flambeau.autograd import Function
from flambeau.interposing import offer

_OPS: dict[str, "CustomOpDef"] = {}


class CustomOpDef:
    """A function under the name of an op."""

    def __init__(self, name: str, fn: Callable) -> None:
        self._name, self._fn, self.__doc__ = name, fn, fn.__doc__
        self._fake: Callable | None = None
        self._kernels: dict[str, Callable] = {}  # by types of devices
        self._backward: Callable | None = None
        self._setup_context: Callable | None = None
        self.default: Any = None  # the op as an object, as graphs name it

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._name})>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        tensors = tensors_in((*args, *kwargs.values()))
        if self._fake is not None and any(not t.device.runtime.computes for t in tensors):
            return self._fake(*args, **kwargs)
        if self._is_opaque() and any(t.requires_grad for t in tensors):
            return _Differentiable.apply(self, kwargs, *args)
        return self._kernel(tensors)(*args, **kwargs)

    def _is_opaque(self) -> bool:
        """Does a gradient go through it by its own formula only?"""
        return True

    def _kernel(self, tensors: list[Tensor]) -> Callable:
        kinds = [t.device.type for t in tensors]
        return next((self._kernels[k] for k in kinds if k in self._kernels), self._fn)

    def register_kernel(self, device_types: Any, fn: Callable | None = None, /) -> Any:
        """What runs for tensors of some devices, all of them for None; also as a decorator."""
        if fn is None:
            return functools.partial(self.register_kernel, device_types)
        kinds = [device_types] if isinstance(device_types, str) else device_types
        if kinds is None:
            self._fn = fn
        else:
            self._kernels |= dict.fromkeys(kinds, fn)
        return fn

    def register_fake(self, fn: Callable) -> Callable:
        """What gives the shapes for tensors without values."""
        self._fake = fn
        return fn

    def register_autograd(
        self, backward: Callable, /, *, setup_context: Callable | None = None
    ) -> None:
        """backward(ctx, *gradients); setup_context(ctx, inputs, output) keeps what it needs."""
        self._backward, self._setup_context = backward, setup_context


def tensors_in(values: Iterable[Any]) -> list[Tensor]:
    """Tensors among arguments, and in lists of them."""
    found = []
    for value in values:
        items = value if isinstance(value, (list, tuple)) else (value,)
        found += [item for item in items if isinstance(item, Tensor)]
    return found


offer(CustomOpDef.__call__, lambda args, kwargs: args[0]._name)


class _Differentiable(Function):
    @staticmethod
    def forward(ctx, op, kwargs, *args):
        ctx.op = op
        if any(isinstance(value, Tensor) and value.requires_grad for value in kwargs.values()):
            raise NotImplementedError(f"{op._name}: pass tensors with gradients by position")
        output = op._kernel(tensors_in(args))(*args, **kwargs)
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
