"""The table of operators: one function per meaning, found by name and version of the op set."""

import inspect
from collections import defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["Handler", "find", "SizeRule", "known", "op", "size_op", "sizes_rule"]

ML = "ai.onnx.ml"
TRAINING = "ai.onnx.preview.training"


class Handler(NamedTuple):
    """A function that computes an op, and what the importer has to know about it."""

    run: Callable[..., Any]
    version: int
    static: frozenset[int]  # inputs that are wanted as numbers where they are known when loading
    counts: bool  # does it take `n_outputs`?
    options: frozenset[str]  # the attributes it takes


class SizeRule(NamedTuple):
    """A function on sizes (see `size_op`)."""

    run: Callable[..., Any]
    rank: Callable[..., int | None]
    options: frozenset[str]


_handlers: dict[tuple[str, str], list[Handler]] = defaultdict(list)
_size_rules: dict[str, SizeRule] = {}


def op(
    name: str, *versions: int, static: tuple[int, ...] = (), domain: str = ""
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The function computes `name` from these versions on, until another version says otherwise.

    It gets inputs by position (None where left out) and attributes by name. Several outputs are a
    tuple. A parameter `n_outputs` is given the number of outputs that the node has.
    """

    def register(run: Callable[..., Any]) -> Callable[..., Any]:
        options = keywords(run)
        for version in versions or (1,):
            entry = Handler(run, version, frozenset(static), "n_outputs" in options, options)
            _handlers[domain, name].append(entry)
        _handlers[domain, name].sort(key=lambda handler: handler.version)
        return run

    return register


def keywords(run: Callable[..., Any]) -> frozenset[str]:
    """The attributes that a function takes; functions of torch take none."""
    if not run.__module__.startswith(__package__):
        return frozenset()
    parameters = inspect.signature(run).parameters.values()
    return frozenset(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)


def size_op(
    *names: str, rank: Callable[..., int | None]
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The function computes these ops on sizes: numbers and lists of numbers instead of tensors.

    `rank(ranks, attributes, inputs)` is 0 where it gives a number, 1 where it gives a list, and
    None where the op has to be computed with tensors.
    """

    def register(run: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            _size_rules[name] = SizeRule(run, rank, keywords(run))
        return run

    return register


def find(domain: str, name: str, version: int) -> Handler | None:
    """The newest meaning of an op that is not newer than the op set of the model."""
    fitting = [entry for entry in _handlers.get((domain, name), ()) if entry.version <= version]
    return fitting[-1] if fitting else None


def sizes_rule(name: str) -> SizeRule | None:
    """How an op works on sizes, if it does."""
    return _size_rules.get(name)


def known() -> list[tuple[str, str]]:
    """Domain and name of every op in the table."""
    return sorted(_handlers)
