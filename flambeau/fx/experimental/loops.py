"""Loops of a program: the body is recorded once, as a graph of its own."""

from collections.abc import Callable
from typing import Any

import flambeau
from flambeau import interposing
from flambeau._tensor import Tensor
from flambeau.aten.overloads import recorded_by
from flambeau.fx.experimental.branches import record_branch, same_kind


def record_while(
    recorder: Any, target: Any, cond_fn: Callable, body_fn: Callable, carried: tuple
) -> tuple:
    """while_loop of flat tensors."""
    with interposing.switched_off(recorder, *recorder.agains), recorded_by(None):
        free: list[Tensor] = []
        _, found = record_branch(recorder, body_fn, carried, free)
        same_kind(tuple(found), carried)
        cond, _ = record_branch(recorder, cond_fn, carried, free)
        body, _ = record_branch(recorder, body_fn, carried, free)  # with all that both need
        output = cond.graph.output_node()
        output.args = (output.args[0][0],)
        cond.recompile()
        result = target.function()(cond, body, carried, tuple(free))
        for leaf, given in zip(result, carried):
            recorder.adopt(leaf, given, recorder)
        graphs = {"while_loop_cond_graph": cond, "while_loop_body_graph": body}
        return recorder.write_graph_op(target, graphs, (carried, tuple(free)), result)


def record_over(
    recorder: Any, target: Any, name: str, function: Callable, groups: tuple, kept: int
) -> tuple:
    """map and scan of flat tensors: (carried, sliced, others); `kept` results are carried ones."""
    with interposing.switched_off(recorder, *recorder.agains), recorded_by(None):
        carried, sliced, others = groups
        free: list[Tensor] = []
        sources = (*carried, *sliced, *others)
        operands = (*carried, *[x[0] for x in sliced], *others)
        body, leaves = record_branch(recorder, function, operands, free, sources)
        more = [*others, *free]
        result = tuple(target.function()(body, *_arguments(target, carried, sliced, more)))
        for leaf, given in zip(result, carried):
            recorder.adopt(leaf, given, recorder)
        for leaf, one in zip(result[kept:], tuple(leaves)[kept:]):
            _adopt_stack(recorder, leaf, one, sliced[0])
        arguments = _arguments(target, carried, sliced, more)
        return recorder.write_graph_op(target, {name: body}, arguments, result)


def _arguments(target, carried, sliced, more):
    """The groups of tensors as the op takes them."""
    if target.__name__ == "map_impl":
        return list(sliced), list(more)
    return list(carried), list(sliced), tuple(more)


def _adopt_stack(recorder, result, one, along):
    """A stack of results is as long as what was sliced."""
    shadows = recorder.shadows
    if id(along) not in shadows and id(one) not in shadows:
        return
    count = len(recorder.env.samples) - 1
    lengths = [x.shape[0] for x in shadows.get(id(along), [along] * count)]
    parts = [tuple(x.shape) for x in shadows.get(id(one), [one] * count)]
    recorder.shadow(
        result,
        [
            flambeau.empty((n, *shape), dtype=result.dtype, device="meta")
            for n, shape in zip(lengths, parts)
        ],
    )
