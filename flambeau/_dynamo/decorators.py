"""What programs say about themselves: marks on functions and sizes, questions while reading."""

from collections.abc import Callable
from typing import Any, TypeVar

from flambeau._dynamo import known, marks
from flambeau._dynamo.exc import Break

F = TypeVar("F", bound=Callable[..., Any])


def is_compiling() -> bool:
    """Is this being compiled? False in code that runs; True is what the reader sees."""
    return False


def is_dynamo_compiling() -> bool:
    """The same."""
    return False


def is_exporting() -> bool:
    """Is this being exported? Never, here."""
    return False


def graph_break(msg: str = "") -> None:
    """Nothing; a compiled function is cut in two here."""


def _each(fn, word):
    for function in fn if isinstance(fn, (list, tuple)) else (fn,):
        marks.mark(function, word)
    return fn


def allow_in_graph(fn: Any) -> Any:
    """A function that graphs call as a whole: it has no effects, and works on meta tensors."""
    return _each(fn, "in graph")


nonstrict_trace = allow_in_graph


def disallow_in_graph(fn: Any) -> Any:
    """A function that graphs do not call: it runs as plain Python between them."""
    return _each(fn, "out of graph")


forbid_in_graph = disallow_in_graph


def assume_constant_result(fn: F) -> F:
    """A function whose result never changes: it is called while a program is read."""
    return _each(fn, "constant")


def substitute_in_graph(original_fn: Any, **options: Any) -> Callable:
    """A Python function that is read in place of another."""

    def register(function):
        known.KNOWN[original_fn] = lambda reader, *args, **kwargs: reader.call(
            function, args, kwargs
        )
        return function

    return register


def run(fn: Any = None) -> Any:
    """Run what was compiled before, compile nothing new: here, the function as it is."""
    original = marks.original_of(fn)
    return fn if original is None else original


def _mark_sizes(t, name, index):
    dims = index if isinstance(index, (list, tuple)) else (index,)
    setattr(t, name, {*getattr(t, name, ()), *dims})


def mark_dynamic(t: Any, index: Any, **options: Any) -> None:
    """Which sizes of an argument vary: an error says so where a program fixes one of them."""
    _mark_sizes(t, "_dynamo_dynamic_indices", index)


def maybe_mark_dynamic(t: Any, index: Any) -> None:
    """The same without an error."""
    _mark_sizes(t, "_dynamo_weak_dynamic_indices", index)


def mark_unbacked(t: Any, index: Any, **options: Any) -> None:
    """Sizes that nothing may be decided by; here as those that may vary."""
    _mark_sizes(t, "_dynamo_unbacked_indices", index)


def mark_static(t: Any, index: Any = None) -> None:
    """Which sizes of an argument never vary: another size is read on its own. All by default."""
    _mark_sizes(t, "_dynamo_static_indices", tuple(range(t.dim())) if index is None else index)


def mark_static_address(t: Any, guard: bool = False) -> None:
    """An argument that stays where it is in memory; nothing relies on it."""


@known.known(is_compiling, is_dynamo_compiling)
def _is_compiling(reader: Any) -> bool:
    return True


@known.known(is_exporting)
def _is_exporting(reader: Any) -> bool:
    return False


@known.known(graph_break)
def _graph_break(reader: Any, msg: str = "") -> None:
    raise Break("graph_break() is called" + (f": {msg}" if msg else ""))


@known.known(mark_dynamic, maybe_mark_dynamic, mark_unbacked, mark_static, mark_static_address)
def _mark(reader: Any, *args: Any, **kwargs: Any) -> None:
    """Says nothing that matters here."""
