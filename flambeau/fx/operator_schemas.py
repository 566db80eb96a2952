"""Arguments of calls matched with signatures: `torch.fx.operator_schemas`."""

import inspect
import operator
import typing
from collections.abc import Callable
from typing import Any, NamedTuple

from flambeau._tensor import Tensor
from flambeau.eager.stub_signatures import plain_signature
from flambeau.nn import Module
from flambeau.ops.table import REQUIRED

__all__ = [
    "ArgsKwargsPair",
    "check_for_mutable_operation",
    "create_type_hint",
    "get_signature_for_torch_op",
    "normalize_function",
    "normalize_module",
    "type_matches",
]


class ArgsKwargsPair(NamedTuple):
    """Arguments by position and by name."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def _signature(function):
    """The signature of a function; of rows without what PyTorch's builtins do not have."""
    found = plain_signature(inspect.unwrap(function))
    kept = []
    for p in found.parameters.values():
        if p.name == "out" or (p.name == "kwargs" and p.kind is p.VAR_KEYWORD):
            continue
        kept.append(p.replace(default=p.empty) if p.default is REQUIRED else p)
    return found.replace(parameters=kept)


def get_signature_for_torch_op(op: Callable, return_schemas: bool = False) -> Any:
    """The signatures of a function of torch: one here, as rows have no overloads."""
    try:
        found = [_signature(op)]
    except (TypeError, ValueError):
        return (None, None) if return_schemas else None
    return (found, []) if return_schemas else found


def normalize_function(
    target: Callable,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    arg_types: tuple[Any] | None = None,
    kwarg_types: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """Arguments of a function of torch, matched with its signature; None if they do not fit."""
    module = getattr(target, "__module__", None) or ""
    if not module.startswith(("flambeau", "torch")):
        return None
    try:
        signature = _signature(target)
    except (TypeError, ValueError):
        return None
    return _args_kwargs_to_normalized_args_kwargs(
        signature, args, kwargs or {}, normalize_to_only_use_kwargs
    )


def normalize_module(
    root: Module,
    target: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """Arguments of a submodule, matched with its forward; None if they do not fit."""
    try:
        module = root.get_submodule(target)
    except AttributeError as error:
        raise RuntimeError(
            f"Tried to normalize arguments for nonexistent module {target}"
        ) from error
    if not type(module).__module__.startswith(("flambeau.nn", "torch.nn")):
        return None
    signature = inspect.signature(module.forward)
    return _args_kwargs_to_normalized_args_kwargs(
        signature, args, kwargs or {}, normalize_to_only_use_kwargs
    )


def _args_kwargs_to_normalized_args_kwargs(
    sig: inspect.Signature,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    normalize_to_only_use_kwargs: bool,
) -> ArgsKwargsPair | None:
    plain = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    if any(p.kind not in plain for p in sig.parameters.values()):
        return None
    try:
        bound = sig.bind(*args, **kwargs)
    except TypeError:
        return None
    bound.apply_defaults()
    pairs = list(bound.arguments.items())
    first_named = 0 if normalize_to_only_use_kwargs else len(args)
    return ArgsKwargsPair(
        tuple(value for _, value in pairs[:first_named]), dict(pairs[first_named:])
    )


_OPERATORS = frozenset(vars(operator)[name] for name in ("and_", "or_", "not_", "is_"))


def check_for_mutable_operation(
    target: Callable, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """Raise an error if a function changes an argument."""
    name = getattr(target, "__name__", "")
    if kwargs.get("out") is not None:
        name = f"aten::{name}.out"
    elif not name.endswith("_") or name.endswith("__") or target in _OPERATORS:
        name = ""
    if name:
        raise RuntimeError(
            f"Tried to trace mutable operation {name}. FX only supports functional code, so "
            "operations that mutate operands in-place (e.g. via `out` arguments) are not supported"
        )


def create_type_hint(x: Any) -> Any:
    """A list or tuple of types as one type."""
    if isinstance(x, (list, tuple)):
        inner = [create_type_hint(item) for item in x]
        if not inner:
            return list[Any] if isinstance(x, list) else tuple[Any, ...]
        first = inner[0] if all(item == inner[0] for item in inner) else Any
        return typing.List[first] if isinstance(x, list) else typing.Tuple[first, ...]  # type: ignore[valid-type]  # noqa: UP006
    return x


def type_matches(signature_type: Any, argument_type: Any) -> bool:
    """Does a value of one type fit where another is wanted?"""
    if signature_type == argument_type or signature_type is Any:
        return True
    origin, parts = typing.get_origin(signature_type), typing.get_args(signature_type)
    if origin is typing.Union:
        return any(type_matches(part, argument_type) for part in parts)
    if origin is list and parts:
        inner = [part for part in typing.get_args(argument_type) if part is not ...]
        fits = bool(inner) and all(type_matches(parts[0], part) for part in inner)
        return argument_type == parts[0] or fits
    if isinstance(signature_type, type) and isinstance(argument_type, type):
        if signature_type is float and argument_type is int:
            return True
        return issubclass(argument_type, signature_type)
    return signature_type is Tensor and argument_type is Tensor
