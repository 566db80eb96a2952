"""Switches of PyTorch's executors. There is one way to run a program here: they are only kept."""

import contextlib
from collections.abc import Iterator
from typing import Any

from flambeau.jit.ir import Graph
from flambeau.jit.passes import inlined
from flambeau.jit.state import state

_strategy: list[tuple[str, int]] = [("STATIC", 2), ("DYNAMIC", 10)]
_switches = {"onednn": False}


class ScriptWarning(Warning):
    """A script that may not do what its writer thinks."""


def set_fusion_strategy(strategy: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """How often a program may be compiled again for other shapes; gives the strategy of before."""
    global _strategy
    for kind, _ in strategy:
        if kind not in ("STATIC", "DYNAMIC"):
            raise RuntimeError(f"FusionBehavior only supported 'STATIC' or 'DYNAMIC', got: {kind}")
    before, _strategy = _strategy, list(strategy)
    return before


@contextlib.contextmanager
def optimized_execution(should_optimize: bool) -> Iterator[None]:
    """Programs run the same way with and without."""
    yield


@contextlib.contextmanager
def fuser(name: str) -> Iterator[None]:
    """Choose a compiler for parts of programs by its name."""
    if name not in ("fuser0", "fuser1", "fuser2", "fuser3"):
        raise Exception(f"unrecognized fuser option (name: {name})")
    yield


class strict_fusion(contextlib.nullcontext):
    """Wants everything inside to be fused; says nothing here."""

    def __init__(self) -> None:
        super().__init__()


def enable_onednn_fusion(enabled: bool) -> None:
    _switches["onednn"] = bool(enabled)


def onednn_fusion_enabled() -> bool:
    return _switches["onednn"]


def last_executed_optimized_graph() -> Graph | None:
    """The graph of the program that this thread called last."""
    return None if state.last is None else inlined(state.last.graph)


def export_opnames(m: Any) -> list[str]:
    """The ops that a program calls, by name and overload."""
    found = set()
    for function in m._type.methods.values():
        for node in inlined(function.graph).all_nodes():
            if node.schema_ is not None:
                ending = f".{node.schema_.overload}" if node.schema_.overload else ""
                found.add(node.op + ending)
    return sorted(found)
