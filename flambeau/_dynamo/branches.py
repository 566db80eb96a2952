"""torch.cond in a program that is read: both branches become graphs of their own.

A branch is read like any other call. Its nodes are then taken out of the graph and put into a graph
module whose inputs are the tensors that it uses from around it; `cond` chooses when the program
runs. What a branch computed must not be reached from outside of it other than as its result.
"""

import operator
from typing import Any

from flambeau._dynamo.exc import Break
from flambeau._dynamo.known import known
from flambeau._dynamo.shape_runs import made_fake
from flambeau._dynamo.values import TensorValue
from flambeau._dynamo.varying import Step, seen_of
from flambeau._higher_order_ops.cond import cond, cond_op
from flambeau.autograd.grad_mode import modes
from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule
from flambeau.nn.modules.module import Module


class _Gone(TensorValue):
    """A tensor of a branch that has been read: nothing else may use it."""

    __slots__ = ()

    @property
    def node(self) -> Any:
        raise Break("a tensor that was computed inside of a branch of cond")


class _Branch:
    """What was read of one side."""

    def __init__(self, result: Any, nodes: list, values: list) -> None:
        self.result, self.nodes, self.values = result, nodes, values
        self.leaves = _leaves(result)
        self.ends = [leaf.node for leaf in self.leaves]
        made = set(nodes)
        self.free = list(
            dict.fromkeys(n for node in nodes for n in node.all_input_nodes if n not in made)
        )
        if any(end not in made for end in self.ends):
            raise Break("a branch of cond that gives back what it was given")
        around = {id(n.meta["example_value"]._storage) for n in self.free if _is_tensor(n)}
        if any(id(leaf.fake._storage) in around for leaf in self.leaves):
            raise Break("a branch of cond that gives a view of what it was given")


@known(cond)
def _cond(reader: Any, pred: Any, true_fn: Any, false_fn: Any, operands: Any = ()) -> Any:
    if not isinstance(pred, TensorValue):
        chosen = true_fn if reader.truth(pred) else false_fn
        return reader.call(chosen, tuple(reader.opened(operands)), {})
    if pred.fake.numel() != 1:
        raise Break("cond of more than one element")
    number = sum(name.startswith("cond_true") for name in reader.attributes)
    names = [f"cond_true_{number}", f"cond_false_{number}"]
    reader.attributes.update(dict.fromkeys(names))
    # before anything is read, since inputs go before the first node
    places = [reader.added(reader.graph.get_attr(name)) for name in names]
    operands = tuple(reader.opened(operands))
    sides = [_read(reader, function, operands) for function in (true_fn, false_fn)]
    _check_alike(*sides)
    free = list(dict.fromkeys(node for side in sides for node in side.free))
    for name, side in zip(names, sides):
        reader.attributes[name] = _module(side, free, reader.attributes)
    for side in sides:
        for node in reversed(side.nodes):
            reader.graph.erase_node(node)
    node = reader.graph.call_function(cond_op, (pred.node, *places, tuple(free)))
    reader.count += 1
    ends = zip(sides[0].ends, sides[1].ends, sides[0].leaves)
    results = [_result(reader, node, k, *end) for k, end in enumerate(ends)]
    for value in (*sides[0].values, *sides[1].values):
        reader.by_fake.pop(id(value.fake), None)
        value.__class__ = _Gone
    return _filled(sides[0].result, iter(results))


def _read(reader, function, operands):
    """One side: the call is read, and what it put into the graph is found."""
    before = set(reader.graph.nodes)
    start, mode, wrote = len(reader.log), modes.grad, reader.writes
    values = set(map(id, reader.by_fake.values()))
    reader.writes = False
    result = reader.call(function, operands, {})
    if reader.writes or modes.grad is not mode:
        raise Break("a branch of cond that changes something")
    reader.writes = wrote
    numbers = {step.node for step in reader.log[start:] if step.seen in (int, float)}
    nodes = [n for n in reader.graph.nodes if n not in before and n.op != "placeholder"]
    inside = [n for n in nodes if n not in numbers]
    if any(n in numbers and not set(inside).isdisjoint(n.all_input_nodes) for n in nodes):
        raise Break("sizes of what is computed in a branch of cond")
    made = [v for v in reader.by_fake.values() if id(v) not in values and v.number < 0]
    return _Branch(result, inside, made)


def _module(side, free, attributes):
    """A branch as a function of all that both branches use; it gives a tuple."""
    graph, nodes, root = Graph(), {}, Module()
    for node in free:
        nodes[node] = graph.placeholder(node.name)
        nodes[node].meta = dict(node.meta)
    for node in side.nodes:
        if node.op == "get_attr":  # branches of a branch
            setattr(root, node.target, attributes[node.target])
        nodes[node] = graph.node_copy(node, nodes.__getitem__)
    graph.output(tuple(nodes[end] for end in side.ends))
    return GraphModule(root, graph, "GraphModule")


def _result(reader, node, k, end, other, leaf):
    """The k-th tensor that both branches give. Sizes are those of the first, and stay alike."""
    fake = made_fake(leaf.fake._layout, (leaf.fake._requires_grad, True))
    part = reader.graph.call_function(operator.getitem, (node, k))
    reader.log.append(Step(part, _same, (end,), {}, seen_of(fake, reader.owner_of)))
    reader.log.append(Step(None, _is_alike, (end, other), {}, True))
    return reader.result_of(part, fake, "cond", leaf.varies)


def _same(value):
    return value.view_as(value)  # another object, as the result of an op would be


def _is_alike(one, other):
    return one._layout is other._layout and one._requires_grad == other._requires_grad


def _check_alike(one, other):
    if _shape(one.result) != _shape(other.result):
        raise Break("branches of cond that give different structures")
    for a, b in zip(one.leaves, other.leaves):
        if a.fake.shape != b.fake.shape or a.fake.dtype is not b.fake.dtype:
            raise Break("branches of cond that give tensors of other shapes or dtypes")
        if a.fake.stride() != b.fake.stride() or a.fake.requires_grad != b.fake.requires_grad:
            raise Break("branches of cond that give tensors of other strides, or without gradients")


def _is_tensor(node):
    return hasattr(node.meta.get("example_value"), "_storage")


def _leaves(value):
    """The tensors of a result."""
    if isinstance(value, TensorValue):
        return [value]
    if type(value) in (tuple, list):
        return [leaf for item in value for leaf in _leaves(item)]
    if type(value) is dict:
        return [leaf for item in value.values() for leaf in _leaves(item)]
    raise Break("a branch of cond that gives something else than tensors")


def _shape(value):
    if type(value) in (tuple, list):
        return type(value), *map(_shape, value)
    if type(value) is dict:
        return dict, *[(key, _shape(item)) for key, item in value.items()]
    return None


def _filled(value, results):
    if isinstance(value, TensorValue):
        return next(results)
    if type(value) is dict:
        return {key: _filled(item, results) for key, item in value.items()}
    return type(value)(_filled(item, results) for item in value)
