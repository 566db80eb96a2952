"""autograd.Function in a program that is read: forward and backward become graphs of their own.

Both are read where the function is applied: forward on the arguments, backward on gradients that
are as dense as they are made when the graph runs. `ctx` is an object of the reader. Where nothing
records gradients, forward is read like any other call.
"""

import operator
from typing import Any

import flambeau
from flambeau._dynamo.exc import Break
from flambeau._dynamo.known import KNOWN, known
from flambeau._dynamo.regions import Region, filled, module_of, recording, reserved
from flambeau._dynamo.shape_runs import made_fake
from flambeau._dynamo.values import MadeObject, TensorValue, holds_symbols
from flambeau._dynamo.varying import Step, seen_of
from flambeau._higher_order_ops.custom_functions import function_op
from flambeau.amp.redirection import state as autocasting
from flambeau.autograd.function import (
    Function,
    FunctionCtx,
    FunctionNode,
    once_differentiable,
)
from flambeau.autograd.grad_mode import modes

_ONCE = once_differentiable(lambda: None).__code__
_WHAT = "an autograd.Function"


class Context(MadeObject):
    """What forward and backward know as ctx."""

    __slots__ = ("fixed", "materialize", "saved")
    is_plain = False

    def __init__(self, cls: type, args: tuple) -> None:
        super().__init__(cls)
        self.saved: tuple = ()
        self.fixed: tuple = ()  # results without gradients
        self.materialize = True
        self.fields["needs_input_grad"] = tuple(map(_wants, args))

    def describe(self) -> str:
        return "the ctx of an autograd.Function"


def _wants(value):
    return isinstance(value, TensorValue) and value.fake._requires_grad


@known(FunctionCtx.save_for_backward)
def _save_for_backward(reader, ctx, *tensors):
    if not all(t is None or isinstance(t, TensorValue) for t in tensors):
        raise Break("save_for_backward of something else than tensors")
    ctx.saved = tensors


@known(FunctionCtx.mark_non_differentiable)
def _mark_non_differentiable(reader, ctx, *tensors):
    ctx.fixed = tensors


@known(FunctionCtx.set_materialize_grads)
def _set_materialize_grads(reader, ctx, value):
    ctx.materialize = reader.truth(value)


@known(FunctionCtx.mark_dirty)
def _mark_dirty(reader, ctx, *tensors):
    raise Break(f"{_WHAT} that writes its inputs")


_members: dict[str, Any] = dict(vars(Function))
_saved_tensors: Any = FunctionNode.__dict__["saved_tensors"]
KNOWN[_saved_tensors.fget] = lambda reader, ctx: ctx.saved


@known(_members["apply"].__func__)
def _apply(reader: Any, cls: Any, *args: Any, **kwargs: Any) -> Any:
    if cls.vjp is not Function.vjp or cls.apply.__func__ is not _members["apply"].__func__:
        raise Break(f"{_WHAT} with its own ways")
    if reader.transforms or reader.is_backward:
        raise Break(f"{_WHAT} inside of a transform or of another's backward")
    args = tuple(map(reader.opened, args))
    if modes.grad and any(map(_wants, args)):
        return _recorded(reader, cls, args, kwargs)
    mode = modes.grad
    reader.set_grad(False)
    result = _forward(reader, cls, Context(cls._backward_cls, args), args, kwargs)
    given = {id(a) for a in args if isinstance(a, TensorValue)}
    alias = lambda r: reader.tensor_method(r, "view_as", (r,), {}) if id(r) in given else r
    result = tuple(map(alias, result)) if type(result) is tuple else alias(result)
    reader.set_grad(mode)
    return result


def _forward(reader, cls, ctx, args, kwargs):
    """The result of forward, with what it tells ctx."""
    forward = reader.attribute(cls, "forward")
    if cls.setup_context is Function.setup_context:
        return reader.call(forward, (ctx, *args), kwargs)
    if kwargs or (forward.__defaults__ and forward.__code__.co_argcount != len(args)):
        raise Break(f"{_WHAT} whose setup_context sees defaults")
    result = reader.call(forward, args, {})
    reader.call(reader.attribute(cls, "setup_context"), (ctx, args, result), {})
    return result


def _recorded(reader, cls, args, kwargs):
    """A call that has a node in the graph of gradients."""
    if kwargs or autocasting.me.on["cpu"] or autocasting.me.on["cuda"]:
        raise Break(f"{_WHAT} with keywords or under autocast")
    names, places = reserved(reader, "fwd_body", "bwd_body")
    inputs = [a for a in args if isinstance(a, TensorValue)]
    there = Region(reader, f"forward of {_WHAT}")
    ctx = Context(cls._backward_cls, args)
    with recording(reader, False):
        result = _forward(reader, cls, ctx, args, {})
    there.close()
    outs = result if type(result) is tuple else (result,)
    leaves = [o for o in outs if isinstance(o, TensorValue)]
    if any(holds_symbols(o) and not isinstance(o, TensorValue) for o in outs):
        raise Break(f"{_WHAT} that gives something else than tensors")
    if not ctx.materialize and len(outs) > 1:
        raise Break(f"{_WHAT} whose gradients may be missing")
    back = Region(reader, f"backward of {_WHAT}")
    reader.is_backward = True
    with recording(reader, False):
        grads, found, once = _backward(reader, cls, ctx, args, outs)
    reader.is_backward = False
    back.close()
    given = [g for g, a in zip(found, args) if isinstance(a, TensorValue)]
    # the graphs
    slots = {g.node for g in grads if g is not None}
    inside = [n for n in back.nodes if n not in slots]
    ends = [leaf.node for leaf in leaves]
    made = set(there.nodes)
    wanted = dict.fromkeys(n for n in inside for n in n.all_input_nodes)
    wanted |= dict.fromkeys(g.node for g in given if g is not None)
    wanted = [n for n in wanted if n not in back.nodes]
    firsts = list(dict.fromkeys(a.node for a in inputs))
    around = [*there.used(ends), *(n for n in wanted if n not in made)]
    ends += [n for n in wanted if n in made and n not in ends]
    others = [n for n in dict.fromkeys(around) if n not in firsts]
    pool = [*(a.node for a in inputs), *others, *ends]
    reader.attributes[names[0]] = module_of(there.nodes, [*firsts, *others], ends, reader)
    entries = [*wanted, *(g.node for g in grads if g is not None)]
    results = [None if g is None else g.node for g in given]
    reader.attributes[names[1]] = module_of(inside, entries, results, reader)
    # the call
    wants = tuple(_has_gradient(leaf, ctx) for leaf in leaves)
    nodes = [a.node for a in inputs]
    plan = {
        "distinct": tuple(nodes.index(n) for n in firsts),
        "saved": tuple(pool.index(n) for n in wanted),
        "wants": wants,
        "once": once,
    }
    node = reader.graph.call_function(function_op, (*places, tuple(nodes), tuple(others)), plan)
    reader.count += 1
    values = [_result(reader, node, k, *p) for k, p in enumerate(zip(leaves, wants))]
    found = filled(result, iter(values))
    back.erase()
    there.erase()
    return found


def _has_gradient(leaf, ctx):
    kind = leaf.fake.dtype
    return (kind.is_floating_point or kind.is_complex) and not any(leaf is t for t in ctx.fixed)


def _backward(reader, cls, ctx, args, outs):
    """(gradients of results, those of arguments, may backward be differentiated only once?)."""
    grads = [_gradient(reader, o) if isinstance(o, TensorValue) else None for o in outs]
    backward = reader.attribute(cls, "backward")
    once = getattr(backward, "__code__", None) is _ONCE
    if once:
        backward = backward.__wrapped__
    found = reader.call(backward, (ctx, *grads), {})
    found = found if type(found) is tuple else (found,)
    if all(g is None for g in found[len(args) :]):
        found = found[: len(args)]
    if len(found) != len(args):
        raise Break(f"{_WHAT} that gives another number of gradients")
    for g, a in zip(found, args):
        if g is not None and not (isinstance(g, TensorValue) and isinstance(a, TensorValue)):
            raise Break(f"{_WHAT} that gives gradients that are none")
    return grads, found, once


def _gradient(reader, leaf):
    """The gradient of a result, which is dense when the graph runs."""
    node = reader.added(reader.graph.call_function(_dense, (leaf.node,)))
    fake = _dense(leaf.fake)
    reader.log.append(Step(node, _dense, (leaf.node,), {}, seen_of(fake, reader.owner_of)))
    return reader.result_of(node, fake, "a gradient", leaf.varies)


def _dense(value):
    return flambeau.empty(value.shape, dtype=value.dtype, device=value.device)


def _result(reader, node, k, leaf, wants):
    """The k-th result, with the call as its history."""
    fake = _told(leaf.fake, wants)
    part = reader.graph.call_function(operator.getitem, (node, k))
    step = Step(part, _told, (leaf.node, wants), {}, seen_of(fake, reader.owner_of))
    reader.log.append(step)
    return reader.result_of(part, fake, "apply", leaf.varies)


def _told(value, wants):
    return made_fake(value._layout, (wants, True))
