"""Ops as objects, `torch.ops.aten.add.Tensor`, which is what `__torch_dispatch__` is told.

An op of PyTorch has overloads, one per list of argument types; here it has one function. The
overloads are names for it, told from the arguments of a call: objects that print, compare and are
called as PyTorch's.
"""

import functools
import importlib
import threading
from collections.abc import Callable
from typing import Any

from flambeau._tensor import Tensor
from flambeau._tensor.attachment import METHODS
from flambeau.aten.schemas import FunctionSchema, schemas_of
from flambeau.eager import creation, methods, random_tensors, windows
from flambeau.ops.table import TABLE

# -- which overload --------------------------------------------------------------------------------

# ops with one overload that is not called "default"
_ALWAYS = {
    name: overload
    for overload, names in {
        "Tensor": "add sub mul div add_ sub_ mul_ div_ true_divide multiply subtract slice index "
        "split bitwise_left_shift bitwise_right_shift",
        "int": "select transpose unbind softmax log_softmax transpose_ movedim swapaxes",
        "correction": "var std var_mean std_mean",
        "memory_format": "empty",
        "self": "where",
    }.items()
    for name in names.split()
}
# those with one for a number as second argument and one for a tensor
_SCALAR_OR_TENSOR = frozenset(
    "eq ne lt le gt ge remainder fmod rsub bitwise_and bitwise_or bitwise_xor masked_fill "
    "masked_fill_ fill_ eq_ ne_ lt_ le_ gt_ ge_ remainder_ fmod_ float_power".split()
)
# those with one for a given dimension
_BY_DIM = {
    "sum": "dim_IntList",
    "nansum": "default",
    "prod": "dim_int",
    **dict.fromkeys("mean max min any all squeeze squeeze_ median nanmedian count_nonzero".split(),
                    "dim"),
}  # fmt: skip


def _power(args, kwargs):
    other = args[1] if len(args) > 1 else kwargs.get("exponent")
    if not isinstance(args[0] if args else kwargs.get("input"), Tensor):
        return "Scalar"
    return "Tensor_Tensor" if isinstance(other, Tensor) else "Tensor_Scalar"


def _arange(args, kwargs):
    return {1: "default", 2: "start"}.get(len(args) + len({"start", "step"} & {*kwargs}),
                                          "start_step")  # fmt: skip


def _second(args, kwargs, *names):
    return args[1] if len(args) > 1 else next((kwargs[n] for n in names if n in kwargs), None)


_SPECIAL: dict[str, Callable] = {
    "pow": _power,
    "arange": _arange,
    "lerp": lambda args, kwargs: "Tensor" if isinstance(args[-1], Tensor) else "Scalar",
    "randint": lambda args, kwargs: "low" if len(args) > 2 else "default",
    "scatter": lambda args, kwargs: "src" if isinstance(args[-1], Tensor) else "value",
    "view": lambda args, kwargs: "default" if _is_size(_second(args, kwargs)) else "dtype",
    "clamp": lambda args, kwargs: "Tensor" if isinstance(_second(args, kwargs, "min", "max"),
                                                         Tensor) else "default",
}  # fmt: skip


def _is_size(value):
    return isinstance(value, (int, tuple, list))


def overload_name(name: str, args: tuple, kwargs: dict) -> str:
    """What PyTorch calls the overload that takes such arguments."""
    if name in _ALWAYS:
        return _ALWAYS[name]
    if name in _SPECIAL:
        return _SPECIAL[name](args, kwargs)
    if name in _SCALAR_OR_TENSOR:
        other = args[-1] if name.startswith("masked") else _second(args, kwargs, "other", "value")
        return "Tensor" if isinstance(other, Tensor) else "Scalar"
    if name in _BY_DIM:
        dim = _second(args, kwargs, "dim", "axis", "other")
        if isinstance(dim, Tensor):
            return "other"
        return "default" if dim is None else _BY_DIM[name]
    return "default"


# -- objects ---------------------------------------------------------------------------------------


class _Going(threading.local):
    """Calls that a mode has been told of in this thread: overload -> how to go on with them."""

    def __init__(self):
        self.calls: dict = {}
        self.recorder: Any = None  # who writes down calls of these objects


_going = _Going()


# functions of (op, arguments, keywords) that may answer calls, or give NotImplemented
asked_first: list[Callable] = []


class OpOverload:
    """An op for certain types of arguments."""

    def __init__(self, packet: "OpOverloadPacket", overload: str) -> None:
        self._overloadpacket, self._overloadname = packet, overload
        self.namespace = packet.namespace
        self.__name__ = f"{packet.__name__}.{overload}"
        self.__qualname__ = f"{self.namespace}.{self.__name__}"
        self.__module__ = packet.__module__
        self.tags: tuple = ()
        self._function: Callable | None = None
        self.told: dict[type, Callable] = {}  # by library.register_torch_dispatch

    @property
    def overloadpacket(self) -> "OpOverloadPacket":
        return self._overloadpacket

    def name(self) -> str:
        """As in schemas: aten::add.Tensor."""
        ending = "" if self._overloadname == "default" else "." + self._overloadname
        return f"{self.namespace}::{self._overloadpacket.__name__}{ending}"

    def __str__(self) -> str:
        return self.__qualname__

    def __repr__(self) -> str:
        return f"<OpOverload(op='{self._overloadpacket}', overload='{self._overloadname}')>"

    def __deepcopy__(self, memo: Any) -> "OpOverload":
        return self

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if _going.recorder is not None:
            return _going.recorder.call(self, *args, **kwargs)
        for answer in asked_first:
            found = answer(self, args, kwargs)
            if found is not NotImplemented:
                return found
        going = _going.calls.get(self)
        return (going[-1] if going else self.function())(*args, **kwargs)

    def function(self) -> Callable:
        """What runs it, with arguments as in its schema."""
        if self._function is None:
            self._function = self._overloadpacket.function(self._overloadname)
        return self._function

    @property
    def _schema(self) -> FunctionSchema:
        """Its arguments and results."""
        found = self._overloadpacket.schemas
        if self._overloadname not in found:
            raise AttributeError(f"there is no schema of {self.name()}")
        return found[self._overloadname]

    @property
    def is_view(self) -> bool:
        return self._schema.is_view

    def tell(self, who: Any, function: Callable, types: tuple, args: tuple, kwargs: dict) -> Any:
        """Tell a mode or a class of a call; calling this object inside goes on with it."""
        going = _going.calls.setdefault(self, [])
        going.append(function)
        try:
            if isinstance(who, type) and who in self.told:
                return self.told[who](self, types, args, kwargs)
            if type(who) in self.told:
                return self.told[type(who)](who, self, types, args, kwargs)
            return who.__torch_dispatch__(self, types, args, kwargs)
        finally:
            going.pop()


class OpOverloadPacket:
    """An op with its overloads as attributes."""

    def __init__(
        self,
        namespace: str,
        name: str,
        find: Callable[..., Callable],
        schemas: dict[str, FunctionSchema] | None = None,
    ) -> None:
        self.namespace, self.__name__, self.function = namespace, name, find
        self._schemas = schemas
        self.__qualname__ = f"{namespace}::{name}"
        self._qualified_op_name = self.__qualname__
        self.__module__ = f"torch._ops.{namespace}"

    def __str__(self) -> str:
        return f"{self.namespace}.{self.__name__}"

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self}')>"

    def __deepcopy__(self, memo: Any) -> "OpOverloadPacket":
        return self

    def overloads(self) -> list[str]:
        """Names of its overloads."""
        return list(self.schemas or ["default"])

    @property
    def schemas(self) -> dict[str, FunctionSchema]:
        """By the names of overloads; none of ops that only have a name."""
        if self._schemas is not None:
            return self._schemas
        return schemas_of(self.__name__) if self.namespace == "aten" else {}

    @property
    def _overload_names(self) -> list[str]:
        return self.overloads()

    def __getattr__(self, overload: str) -> OpOverload:
        if overload.startswith("_"):
            raise AttributeError(overload)
        known = self.schemas
        if known and overload not in known and overload != "default":
            raise AttributeError(f"The underlying op of '{self}' has no overload name '{overload}'")
        found = self.__dict__[overload] = OpOverload(self, overload)
        return found

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self.function()(*args, **kwargs)


def _aten_function(name, overload=""):
    """The function of an op of aten that takes arguments as its schema says."""
    # written in the public API, they load when an op is first called by its own name
    functions = importlib.import_module("flambeau._decomp.functions_private").FUNCTIONS
    found = functions.get(f"{name}.{overload}") or functions.get(name) or _function(name)
    if found is None and name.endswith("_") and schemas_of(name):
        found = _in_place(_aten_function(name[:-1], overload))
    return found


def _in_place(function):
    """An op that writes what another gives."""
    return lambda self, *args, **kwargs: self.copy_(function(self, *args, **kwargs))


def current_recorder() -> Any:
    """Who writes down calls of ops as objects; None if nobody does."""
    return _going.recorder


class recorded_by:
    """In a block, calls of ops as objects go to somebody who writes them down, or to nobody."""

    __slots__ = ("recorder", "saved")

    def __init__(self, recorder: Any) -> None:
        self.recorder = recorder

    def __enter__(self) -> None:
        self.saved, _going.recorder = _going.recorder, self.recorder

    def __exit__(self, *error: Any) -> None:
        _going.recorder = self.saved


def _function(name):
    """The function of an op of aten; None if there is none."""
    if methods.is_function(name):
        return methods.function(name)
    if name.endswith("_") and methods.is_inplace(name[:-1]):
        return methods.inplace_function(name[:-1])
    for module in (creation, random_tensors, windows):
        if name in module.PUBLIC:
            return getattr(module, name)
    found = METHODS.get(name) or getattr(Tensor, name, None)
    if found is None and name in TABLE:  # a function of torch.nn.functional
        found = methods.function(name)
    return found


_OPERATORS = frozenset(
    "__and__ __or__ __xor__ __lshift__ __rshift__ __iand__ __ior__ __ixor__ __ilshift__ "
    "__irshift__".split()
)


class OpNamespace:
    """torch.ops.aten: ops by name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"<module 'torch.ops.{self.name}' from 'torch.ops'>"

    def __getattr__(self, name: str) -> OpOverloadPacket:
        if name.startswith("__") and name not in _OPERATORS:
            raise AttributeError(name)
        known = self.name == "higher_order"  # of others, ops are put here as they are registered
        known |= self.name == "aten" and bool(schemas_of(name) or _function(name))
        if not known:
            raise AttributeError(f"'_OpNamespace' '{self.name}' object has no attribute '{name}'")
        return self.packet(name)

    def packet(self, name: str) -> OpOverloadPacket:
        """The op of a name, whether or not it has a function of its own."""
        found = self.__dict__.get(name)
        if found is None:
            find = functools.partial(_aten_function, name)
            found = OpOverloadPacket(self.name, name, find)
            self.__dict__[name] = found
        return found


_namespaces: dict[str, OpNamespace] = {}


def namespace(name: str) -> OpNamespace:
    """All ops of a namespace such as aten."""
    found = _namespaces.get(name)
    if found is None:
        found = _namespaces[name] = OpNamespace(name)
    return found


_PRODUCTS = {(1, 1): "dot", (2, 1): "mv", (2, 2): "mm", (3, 3): "bmm"}
_RENAMED = {"item": "_local_scalar_dense"}


def overload_of(shown: str, args: tuple, kwargs: dict) -> OpOverload:
    """The op and overload of a call, from its shown name such as aten::add."""
    space, _, name = shown.partition("::")
    if name == "matmul":
        name = _PRODUCTS.get((args[0].ndim, args[1].ndim), name)
    name = _RENAMED.get(name, name)
    name, _, overload = name.partition(".")
    packet = namespace(space).packet(name)
    if space != "aten" and packet.schemas:  # registered by a program
        return getattr(packet, overload or "default")
    return getattr(packet, overload_name(name, args, kwargs))
