"""Names: of values in a graph, and of functions and types as PyTorch would write them.

Text made from a graph says `torch.relu`, whatever file the function is defined in here, and runs
with flambeau under the name `torch`.
"""

import builtins
import inspect
import keyword
import math
import re
import types
from collections.abc import Callable
from typing import Any

import flambeau
from flambeau._tensor.attachment import member_of
from flambeau.aten.overloads import OpOverload, OpOverloadPacket
from flambeau.fx.recording import spelled

# -- values ----------------------------------------------------------------------------------------

_ILLEGAL = re.compile(r"[^0-9a-zA-Z_]+")
_COUNTED = re.compile(r"(.*)_(\d+)$")
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")


def custom_builtins() -> dict[str, tuple[str, Any]]:
    """Names that all generated code may use: how to import each, and what it is."""
    from flambeau.fx import _pytree as fx_pytree
    from flambeau.utils import _pytree as pytree

    return {
        "inf": ("from math import inf", math.inf),
        "nan": ("from math import nan", math.nan),
        "NoneType": ("NoneType = type(None)", types.NoneType),
        "torch": ("import torch", flambeau),
        "device": ("from torch import device", flambeau.device),
        "fx_pytree": ("import torch.fx._pytree as fx_pytree", fx_pytree),
        "pytree": ("import torch.utils._pytree as pytree", pytree),
    }


def _snake_case(text: str) -> str:
    """fooBar -> foo_bar"""
    return _HUMP.sub("_", text).lower()


def _is_magic(text: str) -> bool:
    return text.startswith("__") and text.endswith("__")


class _Namespace:
    """Gives out names, each once."""

    def __init__(self) -> None:
        self._obj_to_name: dict[Any, str] = {}
        self._used_names: set[str] = set()
        self._base_count: dict[str, int] = {}

    def create_name(self, candidate: str, obj: Any = None) -> str:
        """A name like the wanted one that is still free; an object keeps the name it has."""
        if obj is not None and obj in self._obj_to_name:
            return self._obj_to_name[obj]
        candidate = _ILLEGAL.sub("_", candidate) or "_unnamed"
        if candidate[0].isdigit():
            candidate = "_" + candidate
        match = _COUNTED.match(candidate)
        base, number = (match[1], int(match[2])) if match else (candidate, 0)
        if self._is_taken(candidate, obj):
            number = self._base_count.get(base, number)
            while self._is_taken(candidate, obj):
                number += 1
                candidate = f"{base}_{number}"
        if number:
            self._base_count[base] = number
        self._used_names.add(candidate)
        if obj is not None:
            self._obj_to_name[obj] = candidate
        return candidate

    def associate_name_with_obj(self, name: str, obj: Any) -> None:
        """Say that a name that was given out belongs to an object."""
        self._obj_to_name[obj] = name

    def _rename_object(self, obj: Any, name: str) -> None:
        self._obj_to_name[obj] = name
        self._used_names.add(name)

    def _is_taken(self, name, obj):
        if name in self._used_names or keyword.iskeyword(name):
            return True
        if name in builtins.__dict__:
            return builtins.__dict__[name] is not obj
        known = custom_builtins().get(name) if name in _CUSTOM else None
        return known is not None and known[1] is not obj


_CUSTOM = frozenset("inf nan NoneType torch device fx_pytree pytree".split())


# -- functions -------------------------------------------------------------------------------------


def torch_path(module: str) -> str:
    """flambeau.nn.functional -> torch.nn.functional"""
    if module == "flambeau" or module.startswith("flambeau."):
        rest = module.removeprefix("flambeau")
        if rest == ".vision" or rest.startswith(".vision."):
            return "torchvision" + rest.removeprefix(".vision")
        return "torch" + rest
    return module


def _get_qualified_name(func: Callable) -> str:
    """Where PyTorch has a function, such as torch._C._nn.gelu; other functions by their module."""
    name = getattr(func, "__name__", None)
    if name is not None and getattr(builtins, name, None) is func:
        return name
    if isinstance(func, (OpOverload, OpOverloadPacket)):
        return f"torch.ops.{func}"
    if name is None:
        raise RuntimeError(f"Unable to find the name of {func!r}")
    module = getattr(func, "__module__", None) or ""
    if module == "flambeau" or module.startswith("flambeau."):
        return spelled(func) or _by_place(func, module, name)
    if module == "torch":  # classes such as Tensor say so themselves
        return f"torch.{name}"
    if not module:
        module = _find_module_of_method(func)
    if name == "<lambda>":
        name = getattr(func, "__qualname__", name)
    return f"{module}.{name}"


def _by_place(func, module, name):
    """Public functions are where users find them, others in their file."""
    if module.startswith(("flambeau.eager", "flambeau.ops", "flambeau._")) or module == "flambeau":
        if getattr(flambeau, name, None) is func:
            return "torch." + name
        if member_of(name) is func:
            return "torch.Tensor." + name
    return f"{torch_path(module)}.{name}"


def _find_module_of_method(func: Callable) -> str:
    owner = getattr(func, "__objclass__", None) or type(getattr(func, "__self__", func))
    return f"{owner.__module__}.{owner.__qualname__}"


def pretty_target(target: Any) -> str:
    """A target in the text of a graph."""
    if isinstance(target, str):
        return target
    if getattr(target, "__module__", None) == "builtins":
        return f"builtins.{target.__name__}"
    if getattr(target, "__module__", None) == "_operator":
        return f"operator.{target.__name__}"
    if not hasattr(target, "__name__"):
        return str(target)
    return _get_qualified_name(target)


# -- types -----------------------------------------------------------------------------------------


def _type_repr(obj):
    """A type as annotations write it."""
    if inspect.isclass(obj) and not isinstance(obj, types.GenericAlias):
        if obj.__module__ == "builtins":
            return obj.__qualname__
        if getattr(flambeau, obj.__qualname__, None) is obj:
            return f"torch.{obj.__qualname__}"
        return f"{torch_path(obj.__module__)}.{obj.__qualname__}"
    if obj is ...:
        return "..."
    if isinstance(obj, types.FunctionType):
        return obj.__name__
    return re.sub(r"\bflambeau\.", "torch.", repr(obj))
