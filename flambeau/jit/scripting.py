"""`torch.jit.script`: functions, classes and modules become programs."""

import inspect
import itertools
from typing import Any

from flambeau._tensor.questions import typename
from flambeau.jit import marks
from flambeau.jit import types as T
from flambeau.jit.functions import ScriptFunction
from flambeau.jit.module_types import method_source, module_type
from flambeau.jit.modules import (
    RecursiveScriptModule,
    ScriptModule,
    fill_module,
    new_module,
    python_class,
)
from flambeau.jit.units import unit
from flambeau.nn import Module
from flambeau.nn.parameter import is_lazy


def script(
    obj: Any,
    optimize: Any = None,
    _frames_up: int = 0,
    _rcb: Any = None,
    example_inputs: Any = None,
) -> Any:
    """A program from a function, a class, an enumeration or a module.

    Source is compiled, with types from annotations; what is not annotated is a Tensor. A module
    comes back as a RecursiveScriptModule that shares its parameters, a function as ScriptFunction.
    """
    if isinstance(obj, (ScriptModule, ScriptFunction)):
        return obj
    if isinstance(obj, Module):
        return script_module(obj)
    if hasattr(obj, "__script_if_tracing_wrapper"):
        obj = obj.__original_fn
    if isinstance(obj, dict):
        return {key: script(value) for key, value in obj.items()}
    if isinstance(obj, list):
        return [script(value) for value in obj]
    if inspect.isclass(obj):
        return _script_class(obj)
    if inspect.ismethod(obj):
        raise RuntimeError("methods are scripted with their module; script the function instead")
    if inspect.isfunction(inspect.unwrap(obj)):
        known = getattr(obj, "_script", None)
        if isinstance(known, ScriptFunction):
            return known
        return ScriptFunction(unit.function(obj), obj)
    raise RuntimeError(f"cannot script {obj!r}")


def _script_class(cls):
    if issubclass(cls, Module):
        raise RuntimeError(
            f"Type '{cls}' cannot be compiled since it inherits from nn.Module, consider passing "
            "an instance instead"
        )
    if len(cls.__mro__) > 2 and not issubclass(cls, (tuple,)) and not _is_enum(cls):
        raise RuntimeError(
            f"TorchScript classes does not support inheritance yet. Please directly inherit from "
            f"'object'. '{cls.__name__}' does not"
        )
    if not (issubclass(cls, tuple) or _is_enum(cls)):
        unit.class_type(cls)
    return cls


def _is_enum(cls):
    import enum

    return issubclass(cls, enum.Enum)


def script_module(module: Any) -> RecursiveScriptModule:
    """A module with its methods compiled: forward, those marked with export, and what they call."""
    if isinstance(module, ScriptModule):
        return module  # type: ignore[return-value]
    for inner in module.modules():
        _check_shapes_are_known(inner)
    kind = module_type(module)
    _compile(module, kind)
    return _made(module, kind, {})


def _check_shapes_are_known(module):
    """Lazy modules are compiled when they have seen an input."""
    named = itertools.chain(module._parameters.items(), module._buffers.items())
    waiting = [name for name, tensor in named if is_lazy(tensor)]
    if waiting:
        raise RuntimeError(
            f"'{typename(module)}' has uninitialized parameters {', '.join(waiting)}. Did "
            "you forget to run a forward pass?"
        )


def _compile(module, kind):
    for name, inner in module._modules.items():
        if inner is not None and not isinstance(inner, ScriptModule):
            own = kind.attributes.get(name)
            _compile(inner, own if isinstance(own, T.ClassType) and not own.is_interface
                     else module_type(inner))  # fmt: skip
    forward = method_source(type(module), "forward")
    ignored = marks.mark_of(forward) in ("ignore", "unused", "drop")
    if forward is not None and not ignored and kind.container not in ("ModuleList", "ModuleDict"):
        kind.method("forward")
    for name in dir(type(module)):
        member = inspect.getattr_static(type(module), name, None)
        if marks.mark_of(member) == "export":
            kind.method(name)


def _made(module, kind, memo):
    """A script module for a module; one for each, however often it is met."""
    if isinstance(module, ScriptModule):
        return module
    if id(module) in memo:
        return memo[id(module)]
    made = memo[id(module)] = new_module(kind)
    made.__dict__["original_name"] = type(module).__name__
    fill_module(made, kind, module, lambda inner: _made(inner, module_type(inner), memo))
    for name, hooks in vars(module).items():
        if name.endswith("_hooks") and hooks and hasattr(hooks, "copy"):
            made.__dict__[name] = hooks.copy()
    python_class(kind)
    return made
