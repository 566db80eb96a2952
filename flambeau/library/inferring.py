"""Schemas from annotations: `(x: Tensor, n: int = 2)` says `(Tensor x, SymInt n=2)`."""

import collections.abc
import inspect
import types
import typing
from collections.abc import Callable, Iterable
from typing import Any

import flambeau
from flambeau import Tensor

_ITEMS = {
    Tensor: "Tensor", int: "SymInt", float: "float", bool: "bool", str: "str",
    flambeau.dtype: "ScalarType", flambeau.device: "Device",
}  # fmt: skip
_LISTED = (Tensor, int, float, bool)
_NUMBER = frozenset((int, float, bool))
_RETURNS = (Tensor, int, float, bool)


def _without_none(kind):
    """(the type without None, whether None was allowed)."""
    if typing.get_origin(kind) not in (typing.Union, types.UnionType):
        return kind, False
    members = typing.get_args(kind)
    rest = tuple(m for m in members if m is not type(None))
    if frozenset(rest) == _NUMBER:
        return _NUMBER, len(rest) < len(members)
    if len(rest) == 1:
        return rest[0], True
    return None, False


def _item(kind):
    found = None if kind is None else "Scalar" if kind is _NUMBER else None
    try:
        return found or _ITEMS.get(kind)
    except TypeError:  # what has no hash is no type
        return None


def _parameter_type(kind):
    """The word of a schema for an annotation; None if there is none."""
    plain, optional = _without_none(kind)
    ending = "?" if optional else ""
    origin = typing.get_origin(plain)
    if origin in (list, collections.abc.Sequence):
        inner, inner_optional = _without_none(typing.get_args(plain)[0])
        allowed = inner in _LISTED or inner is _NUMBER
        if not allowed or (inner_optional and (inner is not Tensor or optional)):
            return None
        if optional and inner is Tensor:
            return None
        return f"{_item(inner)}{'?' if inner_optional else ''}[]{ending}"
    word = _item(plain)
    return None if word is None else word + ending


def _return_type(kind):
    plain, optional = _without_none(kind)
    if optional:
        return None
    if typing.get_origin(plain) is list and typing.get_args(plain) == (Tensor,):
        return "Tensor[]"
    return _item(plain) if plain in _RETURNS or plain is _NUMBER else None


def _default(value):
    """A default as a schema writes it; None if it has no words for it."""
    if value is None or isinstance(value, (bool, int, float)):
        return str(value)
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, flambeau.device):
        return f'"{value}"'
    if isinstance(value, flambeau.dtype):
        return str(value).removeprefix("torch.")
    return None


class _Words:
    """Parts of the schema of one function."""

    def __init__(self, function: Callable, mutates: Any) -> None:
        self.function, self.signature = function, inspect.signature(function)
        self.mutates = mutates

    def refuse(self, text: str) -> Any:
        raise ValueError(
            f"infer_schema(func): {text} Got func with signature {self.signature})"
        ) from None

    def resolved(self, annotation: Any) -> Any:
        if not isinstance(annotation, str):
            return annotation
        try:
            return eval(annotation, self.function.__globals__)
        except Exception:
            return self.refuse(f"Unsupported type annotation {annotation}. It is not a type.")

    def parameters(self) -> str:
        parts, seen, by_name = [], set(), False
        for k, (name, parameter) in enumerate(self.signature.parameters.items()):
            if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                self.refuse("We do not support positional-only args, varargs, or varkwargs.")
            if parameter.kind is parameter.KEYWORD_ONLY and not by_name:
                parts.append("*")
                by_name = True
            if parameter.annotation is parameter.empty:
                self.refuse(f"Parameter {name} must have a type annotation.")
            word = self.parameter_word(name, self.resolved(parameter.annotation))
            seen.add(name)
            if self.is_written(name, word):
                if not word.startswith("Tensor"):
                    self.refuse(
                        f"Parameter {name} is in mutable_args but only Tensors or collections of "
                        "Tensors can be mutated"
                    )
                word = f"Tensor(a{k}!){word.removeprefix('Tensor')}"
            parts.append(self.with_default(f"{word} {name}", name, parameter))
        if self.mutates != "unknown" and (missing := {*self.mutates} - seen):
            self.refuse(
                f"{missing} in mutates_args were not found in the custom op's signature. "
                "mutates_args should contain the names of all args that the custom op mutates, or "
                "just the string 'unknown' if you don't know."
            )
        return f"({', '.join(parts)})"

    def is_written(self, name: str, word: str) -> bool:
        if self.mutates == "unknown":
            return word.startswith("Tensor")
        return name in self.mutates

    def parameter_word(self, name: str, kind: Any) -> str:
        word = _parameter_type(kind)
        if word is not None:
            return word
        hint = ""
        if typing.get_origin(kind) is tuple:
            hint = (
                " We do not support Tuple inputs in schema. As a workaround, please try to use "
                "List instead. For example, list["
                + ", ".join(getattr(a, "__name__", str(a)) for a in typing.get_args(kind)[:1])
                + "]."
            )
        return self.refuse(f"Parameter {name} has unsupported type {kind}.{hint}")

    def with_default(self, text: str, name: str, parameter: inspect.Parameter) -> str:
        if parameter.default is parameter.empty:
            return text
        shown = _default(parameter.default)
        if shown is None:
            self.refuse(
                f"Parameter {name} has an unsupported default value type "
                f"{type(parameter.default)}. Please file an issue on GitHub so we can "
                "prioritize this."
            )
        return f"{text}={shown}"

    def results(self) -> str:
        annotation = self.signature.return_annotation
        if annotation is inspect.Signature.empty:
            self.refuse("No return type annotation was provided. Please add one.")
        kind = self.resolved(annotation)
        if kind is None:
            return "()"
        if typing.get_origin(kind) is tuple or kind is tuple:
            words = [self.result_word(k, kind) for k in typing.get_args(kind)]
            return f"(({words[0]}))" if len(words) == 1 else f"({', '.join(words)})"
        return self.result_word(kind, kind)

    def result_word(self, kind: Any, whole: Any) -> str:
        word = _return_type(kind)
        return word if word is not None else self.refuse(f"Return has unsupported type {whole}.")


def infer_schema(
    prototype_function: Callable,
    /,
    *,
    mutates_args: str | Iterable[str],
    op_name: str | None = None,
    tags: Any = (),
) -> str:
    """The schema that the annotations of a function say.

    Args:
        mutates_args: names of tensors that the function writes to, or "unknown": all of them.

    Example:
        >>> def scaled(x: torch.Tensor, times: float = 2.0) -> torch.Tensor: ...
        >>> torch.library.infer_schema(scaled, mutates_args=())
        '(Tensor x, float times=2.0) -> Tensor'
    """
    if isinstance(mutates_args, str) and mutates_args != "unknown":
        raise ValueError(
            "mutates_args must either be a sequence of the names of the arguments that are mutated "
            "or the string 'unknown'. "
        )
    words = _Words(prototype_function, mutates_args)
    return f"{op_name or ''}{words.parameters()} -> {words.results()}"
