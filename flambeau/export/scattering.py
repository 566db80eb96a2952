"""How a new value of a view becomes one of what it looks at."""

from collections.abc import Callable
from typing import Any, NamedTuple

from flambeau._tensor import Tensor
from flambeau.fx.node import Node


class View(NamedTuple):
    """A tensor that looks at the memory of another: view(parent, *args), or a part of that."""

    parent: Tensor
    target: Any
    args: tuple
    kwargs: dict[str, Any]
    part: int | None

    @property
    def name(self) -> str:
        return self.target.overloadpacket.__name__


Undo = Callable[[Any, View, Node, Node], Node]


def _do(recorder: Any, view: View, name: str, *args: Any) -> Node:
    """Record an op whose result stands for the tensor that a view was made of."""
    from flambeau.fx.experimental.recorder import overload

    target = overload(name)
    if target in recorder.decompositions:
        return _taken_apart(recorder, view, target, args)
    short = target.overloadpacket.__name__
    node = recorder.graph.create_node("call_function", target, recorder.argument(args), {}, short)
    recorder.finish(node, None)
    node.meta["val"] = recorder.remembered(view.parent)
    return node


def _taken_apart(recorder, view, target, args):
    """The same in terms of other ops, run on stand-ins for values that are nodes."""
    import flambeau

    tensors = []
    for arg in args:
        if not isinstance(arg, Node):
            tensors.append(arg)
            continue
        known = arg.meta["val"]
        stand_in = flambeau.zeros(known._layout.shape, dtype=known.dtype)
        recorder.nodes[id(stand_in)] = arg
        recorder.alive.append(stand_in)
        if id(view.parent) in recorder.shapes and known.ndim == view.parent.ndim:
            recorder.shapes[id(stand_in)] = recorder.shapes[id(view.parent)]
            recorder.shadows[id(stand_in)] = recorder.shadows[id(view.parent)]
        tensors.append(stand_in)
    result = recorder.take_apart(target, tuple(tensors), {})
    return recorder.leaf(result)


def _select(recorder, view, parent, node):
    return _do(recorder, view, "select_scatter.default", parent, node, *view.args)


def _slice(recorder, view, parent, node):
    return _do(recorder, view, "slice_scatter.default", parent, node, *view.args)


def _diagonal(recorder, view, parent, node):
    return _do(recorder, view, "diagonal_scatter.default", parent, node, *view.args)


def _strided(recorder, view, parent, node):
    return _do(recorder, view, "as_strided_scatter.default", parent, node, *view.args)


def _reshaped(recorder, view, parent, node):
    shape = recorder.shapes.get(id(view.parent), tuple(view.parent._layout.shape))
    return _do(recorder, view, "view.default", node, list(shape))


def _permuted(recorder, view, parent, node):
    order = [d % view.parent.ndim for d in view.args[0]]
    return _do(recorder, view, "permute.default", node, [order.index(k) for k in range(len(order))])


def _transposed(recorder, view, parent, node):
    dims = view.args or (0, 1)
    if view.name == "t":
        return _do(recorder, view, "t.default", node)
    return _do(recorder, view, "transpose.int", node, *dims)


def _unsqueezed(recorder, view, parent, node):
    return _do(recorder, view, "squeeze.dim", node, view.args[0])


def _same(recorder, view, parent, node):
    return node


def _split(recorder, view, parent, node):
    """A part between two places."""
    dim = view.args[1] if len(view.args) > 1 else 0
    sizes = view.args[0]
    if isinstance(sizes, int):
        start = view.part * sizes
        stop = min(start + sizes, view.parent._layout.shape[dim])
    else:
        start = sum(sizes[: view.part])
        stop = start + sizes[view.part]
    return _do(recorder, view, "slice_scatter.default", parent, node, dim, start, stop)


def _unbound(recorder, view, parent, node):
    dim = view.args[0] if view.args else 0
    return _do(recorder, view, "select_scatter.default", parent, node, dim, view.part)


def _expanded(recorder, view, parent, node):
    raise RuntimeError(
        "a write to an expanded tensor cannot be recorded without writing: several of its elements "
        "are one in memory"
    )


UNDO: dict[str, Undo] = {
    "select": _select,
    "slice": _slice,
    "diagonal": _diagonal,
    "as_strided": _strided,
    **dict.fromkeys("view _unsafe_view reshape flatten squeeze unflatten".split(), _reshaped),
    "permute": _permuted,
    **dict.fromkeys(("t", "transpose"), _transposed),
    "unsqueeze": _unsqueezed,
    **dict.fromkeys(("alias", "detach", "view_as"), _same),
    **dict.fromkeys(("split", "split_with_sizes"), _split),
    "unbind": _unbound,
    "expand": _expanded,
}
