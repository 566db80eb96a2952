"""torch.cond in a program that is read: both branches become graphs of their own.

A branch is a region (regions.py) whose inputs are the tensors that it uses from around it; `cond`
chooses when the program runs.
"""

import operator
from typing import Any

from flambeau._dynamo.exc import Break
from flambeau._dynamo.known import known
from flambeau._dynamo.regions import Region, filled, is_tensor, leaves_of, module_of, reserved
from flambeau._dynamo.shape_runs import made_fake
from flambeau._dynamo.values import TensorValue
from flambeau._dynamo.varying import Step, seen_of
from flambeau._higher_order_ops.cond import cond, cond_op

_WHAT = "a branch of cond"


class _Branch(Region):
    """What was read of one side."""

    def __init__(self, reader: Any, function: Any, operands: tuple) -> None:
        super().__init__(reader, _WHAT)
        self.result = reader.call(function, operands, {})
        if reader.writes:
            raise Break(f"{_WHAT} that changes something")
        self.close()
        self.leaves = leaves_of(self.result, _WHAT)
        self.ends = [leaf.node for leaf in self.leaves]
        made = set(self.nodes)
        if any(end not in made for end in self.ends):
            raise Break(f"{_WHAT} that gives back what it was given")
        self.free = self.used([])
        around = {id(n.meta["example_value"]._storage) for n in self.free if is_tensor(n)}
        if any(id(leaf.fake._storage) in around for leaf in self.leaves):
            raise Break(f"{_WHAT} that gives a view of what it was given")


@known(cond)
def _cond(reader: Any, pred: Any, true_fn: Any, false_fn: Any, operands: Any = ()) -> Any:
    if not isinstance(pred, TensorValue):
        chosen = true_fn if reader.truth(pred) else false_fn
        return reader.call(chosen, tuple(reader.opened(operands)), {})
    if pred.fake.numel() != 1:
        raise Break("cond of more than one element")
    names, places = reserved(reader, "cond_true", "cond_false")
    operands = tuple(reader.opened(operands))
    sides = [_Branch(reader, function, operands) for function in (true_fn, false_fn)]
    _check_alike(*sides)
    free = list(dict.fromkeys(node for side in sides for node in side.free))
    for name, side in zip(names, sides):
        reader.attributes[name] = module_of(side.nodes, free, side.ends, reader)
    node = reader.graph.call_function(cond_op, (pred.node, *places, tuple(free)))
    reader.count += 1
    ends = zip(sides[0].ends, sides[1].ends, sides[0].leaves)
    results = [_result(reader, node, k, *end) for k, end in enumerate(ends)]
    found = filled(sides[0].result, iter(results))
    for side in sides:
        side.erase()
    return found


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


def _shape(value):
    if type(value) in (tuple, list):
        return type(value), *map(_shape, value)
    if type(value) is dict:
        return dict, *[(key, _shape(item)) for key, item in value.items()]
    return None
