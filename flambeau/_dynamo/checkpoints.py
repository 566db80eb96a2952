"""torch.utils.checkpoint in a program that is read: what runs again becomes a graph of its own."""

import operator
from typing import Any

from flambeau._dynamo.exc import Break
from flambeau._dynamo.known import known
from flambeau._dynamo.regions import Region, filled, leaves_of, module_of, reserved
from flambeau._dynamo.shape_runs import made_fake
from flambeau._dynamo.values import TensorValue
from flambeau._dynamo.varying import Step, seen_of
from flambeau._higher_order_ops.checkpoints import checkpoint_op
from flambeau.utils.checkpoint import checkpoint

_WHAT = "a function that is checkpointed"


@known(checkpoint)
def _checkpoint(reader: Any, function: Any, *args: Any, use_reentrant: Any = None,
                preserve_rng_state: bool = True, **kwargs: Any) -> Any:  # fmt: skip
    if use_reentrant is not False or not isinstance(preserve_rng_state, bool):
        raise Break("a checkpoint that is reentrant")
    if not kwargs.keys().isdisjoint(("context_fn", "determinism_check", "debug", "early_stop")):
        raise Break("a checkpoint with its own contexts or checks")
    if reader.casts or reader.transforms:
        raise Break("a checkpoint under autocast or inside of a transform")
    names, places = reserved(reader, "wrap_body")
    region = Region(reader, _WHAT)
    result = reader.call(function, args, kwargs)
    region.close()
    leaves = leaves_of(result, _WHAT)
    ends = [leaf.node for leaf in leaves]
    made = set(map(id, region.values))
    memory = {id(v.fake._storage) for v in reader.by_fake.values() if id(v) not in made}
    if any(id(leaf) not in made or id(leaf.fake._storage) in memory for leaf in leaves):
        raise Break(f"{_WHAT} that gives back what it was given")
    inputs = region.used(ends)
    reader.attributes[names[0]] = module_of(region.nodes, inputs, ends, reader)
    call = (*places, tuple(inputs), preserve_rng_state)
    node = reader.graph.call_function(checkpoint_op, call)
    reader.count += 1
    values = [_result(reader, node, k, leaf) for k, leaf in enumerate(leaves)]
    found = filled(result, iter(values))
    region.erase()
    return found


def _result(reader, node, k, leaf: TensorValue):
    """The k-th result."""
    fake = _alike(leaf.fake)
    part = reader.graph.call_function(operator.getitem, (node, k))
    step = Step(part, _alike, (leaf.node,), {}, seen_of(fake, reader.owner_of))
    reader.log.append(step)
    return reader.result_of(part, fake, "checkpoint", leaf.varies)


def _alike(value):
    return made_fake(value._layout, (value._requires_grad, True))
