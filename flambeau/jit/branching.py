"""Scripted functions for recorders that keep control flow: conditions on values stay conditions.

A recorder follows Python, and so sees one branch and the rounds of one example. Here `if` and
`while` on a tensor are written as `torch.cond` and `while_loop`, which put both branches, and the
body of the loop, into the program.
"""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from flambeau._higher_order_ops import cond, while_loop
from flambeau.jit import types as T
from flambeau.jit.ir import Block, Node, Value
from flambeau.jit.passes import inlined
from flambeau.jit.running import RunText, python_function

__all__ = ["branching_function"]


def _branched(pred: Any, then: Callable, other: Callable) -> tuple:
    return tuple(cond(pred.reshape(()), then, other, ()))  # type: ignore[operator]


def _looped(going: Any, body: Callable, *carried: Any) -> tuple:
    """The condition is carried along: it is computed where the body ends."""
    going = going.reshape(()).clone()
    found = while_loop(  # type: ignore[operator]
        lambda going, *values: going.clone(), lambda going, *values: body(*values),
        (going, *carried),
    )  # fmt: skip
    return tuple(found[1:])


def _asked(value: Value) -> Value | None:
    """The tensor that a condition asks."""
    node = value.node
    if node.op == "aten::Bool" and node.ins[0].type_ == T.TENSOR:
        return node.ins[0]
    return None


class BranchText(RunText):
    """Writes branches and bodies of loops as functions."""

    def __init__(self) -> None:
        super().__init__()
        self.space |= {"_branched": _branched, "_looped": _looped}
        self.taken |= {"_branched", "_looped"}

    def _function(self, name: str, parameters: str, block: Block, results: list[Value]) -> None:
        self.line(f"def {name}({parameters}):")
        self.level += 1
        self.statements(block)
        self.settle(block.result)
        self.line(f"return ({', '.join(self.read(v) for v in results)},)")
        self.level -= 1

    def _if(self, node: Node) -> None:
        asked = _asked(node.ins[0])
        if asked is None or not node.outs or any(v.type_ != T.TENSOR for v in node.outs):
            return super()._if(node)
        pred = self.fresh("_pred")
        self.line(f"{pred} = {self.read(asked)}")
        names = [self.fresh("_branch"), self.fresh("_branch")]
        for name, block in zip(names, node.blocks_):
            self._function(name, "", block, list(block.outs))
        made = ", ".join(self.name_for(v) for v in node.outs)
        self.line(f"{made}, = _branched({pred}, {', '.join(names)})")

    def _while(self, node, block, index, carried, count, condition):
        asked, again = _asked(condition), _asked(block.outs[0])
        plain = None in (asked, again) or self.uses.get(index, 0) or self._limit(count) is not None
        if plain or any(v.type_ != T.TENSOR for v in carried):
            return super()._while(node, block, index, carried, count, condition)
        going, name = self.fresh("_pred"), self.fresh("_body")
        self.line(f"{going} = {self.read(asked)}")
        values = ", ".join(self.names[v] for v in carried)
        self._function(name, values, block, [again, *block.outs[1:]])
        self.line(f"{values}, = _looped({going}, {name}, {values})")


def branching_function(function: Any) -> Callable:
    """The Python function of a graph, with all that it calls in it."""
    whole = SimpleNamespace(
        name=function.name, qualified_name=function.qualified_name, owner=function.owner,
        graph=inlined(function.graph),
    )  # fmt: skip
    return python_function(whole, BranchText())
