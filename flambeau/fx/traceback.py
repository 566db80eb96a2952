"""What the nodes that are recorded next inherit: `torch.fx.traceback`."""

import contextlib
import copy
import traceback
from collections.abc import Iterator
from typing import Any

from flambeau.fx.node import Node

__all__ = [
    "annotate",
    "format_stack",
    "get_current_meta",
    "has_preserved_node_meta",
    "preserve_node_meta",
    "reset_grad_fn_seq_nr",
    "set_current_meta",
    "set_grad_fn_seq_nr",
    "set_stack_trace",
]

current_meta: dict[str, Any] = {}
_preserving = [False]


@contextlib.contextmanager
def preserve_node_meta(enable: bool = True) -> Iterator[None]:
    """A context in which new nodes inherit the meta that is set."""
    before, _preserving[0] = _preserving[0], enable
    saved = dict(current_meta)
    try:
        yield
    finally:
        _preserving[0] = before
        current_meta.clear()
        current_meta.update(saved)


def has_preserved_node_meta() -> bool:
    """Do new nodes inherit meta?"""
    return _preserving[0]


def get_current_meta() -> dict[str, Any]:
    """What new nodes inherit."""
    return current_meta


@contextlib.contextmanager
def set_current_meta(node: Node, pass_name: str = "") -> Iterator[None]:
    """A context in which new nodes inherit the meta of a node."""
    if not (_preserving[0] and node.meta):
        yield
        return
    saved = dict(current_meta)
    current_meta.clear()
    current_meta.update(copy.copy(node.meta))
    try:
        yield
    finally:
        current_meta.clear()
        current_meta.update(saved)


@contextlib.contextmanager
def annotate(annotation_dict: dict[str, Any]) -> Iterator[None]:
    """A context in which nodes carry some more words, under meta["custom"]."""
    before = current_meta.get("custom")
    current_meta["custom"] = {**(before or {}), **annotation_dict}
    was, _preserving[0] = _preserving[0], True
    try:
        yield
    finally:
        _preserving[0] = was
        if before is None:
            current_meta.pop("custom", None)
        else:
            current_meta["custom"] = before


def set_stack_trace(stack: list[str]) -> None:
    """Let new nodes say that they come from here."""
    if _preserving[0] and stack:
        current_meta["stack_trace"] = "".join(stack)


def set_grad_fn_seq_nr(seq_nr: int) -> None:
    """Note which step of backward new nodes belong to."""
    if _preserving[0]:
        current_meta["grad_fn_seq_nr"] = [*current_meta.get("grad_fn_seq_nr", []), seq_nr]
        current_meta["in_grad_fn"] = current_meta.get("in_grad_fn", 0) + 1


def reset_grad_fn_seq_nr() -> None:
    """Undo the last of those notes."""
    if _preserving[0] and current_meta.get("in_grad_fn", 0) > 0:
        current_meta["in_grad_fn"] -= 1
        current_meta["grad_fn_seq_nr"] = current_meta["grad_fn_seq_nr"][:-1]


def format_stack() -> list[str]:
    """Where the current node comes from, or where this is called."""
    if _preserving[0]:
        return [current_meta.get("stack_trace", "")]
    return traceback.format_list(traceback.extract_stack()[:-1])
