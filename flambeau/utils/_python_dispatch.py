"""`torch.utils._python_dispatch`, by name; the code is in interposing/dispatching.py."""

from collections.abc import Callable
from typing import Any

from flambeau.interposing.dispatching import (
    TorchDispatchMode,
    current_mode_stack,
    is_traceable_wrapper_subclass,
)

__all__ = [
    "TorchDispatchMode",
    "is_in_torch_dispatch_mode",
    "is_traceable_wrapper_subclass",
    "is_traceable_wrapper_subclass_type",
    "return_and_correct_aliasing",
    "transform_subclass",
]

_get_current_dispatch_mode_stack = current_mode_stack


def _get_current_dispatch_mode() -> TorchDispatchMode | None:
    found = current_mode_stack()
    return found[-1] if found else None


def is_in_torch_dispatch_mode(include_infra_modes: bool = True) -> bool:
    """Has a mode been entered?"""
    return bool(current_mode_stack())


def is_traceable_wrapper_subclass_type(t: type) -> bool:
    """Are tensors of this class made of others, which they can be taken apart to?"""
    return hasattr(t, "__tensor_flatten__") and hasattr(t, "__tensor_unflatten__")


def transform_subclass(
    t: Any,
    callback: Callable[[str, Any], Any],
    outer_size: Any = None,
    outer_stride: Any = None,
) -> Any:
    """A tensor of the same class with callback(name, part) in place of each part."""
    names, facts = t.__tensor_flatten__()
    parts = {name: callback(name, getattr(t, name)) for name in names}
    size = t.size() if outer_size is None else outer_size
    stride = t.stride() if outer_stride is None else outer_stride
    made = type(t).__tensor_unflatten__(parts, facts, size, stride)
    if made.shape != size or made.stride() != stride:
        raise AssertionError(
            f"Expected return value from {type(t)}__tensor_unflatten__() to have shape equal to "
            f"{tuple(size)}, but got: {tuple(made.shape)}"
        )
    return made


def return_and_correct_aliasing(func: Any, args: tuple, kwargs: dict | None, out: Any) -> Any:
    """What a `__torch_dispatch__` gives back: arguments that were written to are themselves.

    Results that are views share the memory of whatever they hold; there is nothing to add.
    """
    schema, given = func._schema, dict(kwargs or {})
    named = dict(zip((a.name for a in schema.arguments if not a.kwarg_only), args)) | given
    written = {a.alias: named.get(a.name) for a in schema.arguments if a.is_write}
    results = [written.get(r.alias) if r.alias else None for r in schema.returns]
    if not any(result is not None for result in results):
        return out
    if len(results) == 1:
        return results[0]
    return type(out)(o if found is None else found for o, found in zip(out, results))
