"""Writes into wrapped tensors: ops in place, copy_, and assignments between brackets.

A write computes its result as if it were not one, then the level puts the result where the target
is. What follows for the graph is the same for all of them: the old elements are gone, the gradient
goes on to the result.
"""

from typing import Any

from flambeau import errors
from flambeau._tensor import Tensor
from flambeau.autograd import views
from flambeau.autograd.grad_mode import modes
from flambeau.autograd.node import Node, edge_of, init_node
from flambeau.eager import subscripts
from flambeau.eager.binding import bind
from flambeau.eager.creation import scalar_tensor, size_from
from flambeau.ops.table import TABLE, public
from flambeau.transforms import handling, history
from flambeau.transforms.handling import rule, run
from flambeau.transforms.levels import Level, Wrapped, is_at, mapped, rebind


class WriteBackward0(Node):
    """A write: nothing is left of the old elements."""

    __slots__ = ()

    def apply(self, grads, create_graph):
        return [None, grads[0]]


def _write(level, place, op, args, kwargs):
    """op_ of a row."""
    bound = bind(op, args, kwargs)
    first = next(iter(bound))
    target = bound[first]
    if op.kind == "view":
        return _turn(level, op, bound, target)
    recorded = modes.grad and op.is_differentiable and history.wants(level, bound)
    if recorded:
        views.check_inplace(target)
        bound[first] = _before(level, target)
    result = run(level, op, bound)
    if isinstance(result, tuple):
        result = result[0]
    if result.dtype.category > target.dtype.category:
        raise errors.cannot_cast(result.dtype, target.dtype)
    if tuple(result.shape) != tuple(target.shape):
        raise RuntimeError(
            f"output with shape {list(target.shape)} doesn't match the broadcast shape "
            f"{list(result.shape)}"
        )
    return put(level, target, result, place.key)


handling._write.append(_write)


def _before(level, target):
    """The target as it was, which derivatives may need."""
    if not is_at(target, level):
        return target
    old = level.before_write(target)
    old._grad_fn, old._output_nr = target._grad_fn, target._output_nr
    old._requires_grad = target._requires_grad
    if target._requires_grad:
        old._grad_fn, old._output_nr = edge_of(target)
        if isinstance(old._grad_fn, Tensor):
            old._grad_fn = None
    return old


def _turn(level, op, bound, target):
    """transpose_ and the like: the tensor looks at its memory in another way."""
    result = run(level, op, bound)
    rebind(target, result)
    target._grad_fn, target._output_nr = result._grad_fn, result._output_nr
    target._requires_grad = result._requires_grad
    return target


def put(level: Level, target: Any, result: Tensor, name: str = "copy_") -> Tensor:
    """Write a result of the same shape over a target."""
    level.write(target, result, name)  # type: ignore[attr-defined]
    if is_at(target, level) and is_at(result, level) and result._requires_grad and modes.grad:
        before = edge_of(target) if target._requires_grad else None
        node = object.__new__(WriteBackward0)
        views.rebase(target, init_node(node, (before, edge_of(result)), ()))
    elif is_at(target, level) and target._requires_grad and modes.grad:
        _forget(target)
    return target


def _forget(target):
    """A write of constants: no gradient reaches what was there."""
    if target._view is None:
        target._grad_fn, target._output_nr, target._requires_grad = None, 0, False
        return
    node = object.__new__(WriteBackward0)
    views.rebase(target, init_node(node, (edge_of(target), None), ()))


@rule("copy_")
def _copy(level, place, args, kwargs):
    target, source = args[0], args[1] if len(args) > 1 else kwargs["src"]
    if not isinstance(source, Tensor):
        source = scalar_tensor(source)
    wanted = target._requires_grad or (is_at(source, level) and source._requires_grad)
    if modes.grad and is_at(target, level) and wanted:
        views.check_inplace(target)
    source = source.to(target.dtype)
    if source.shape != target.shape:
        source = source.expand(target.shape)
    return put(level, target, source)


@rule("zero_")
def _zero(level, place, args, kwargs):
    return args[0].fill_(0)


@rule("fill_diagonal_")
def _fill_diagonal(level, place, args, kwargs):
    input, value = args[0], args[1] if len(args) > 1 else kwargs["fill_value"]
    input.diagonal().fill_(value)
    return input


@rule("resize_", "resize_as_")
def _resize(level, place, args, kwargs):
    """Another shape over the memory of all samples, as PyTorch has it."""
    target, *size = args
    if not is_at(target, level):  # only the template is wrapped
        return target.resize_(tuple(size[0].shape), **kwargs)
    if target._requires_grad:
        raise RuntimeError("cannot resize variables that require grad")
    if place.key == "resize_as_":
        size = [tuple(size[0].shape)]
    level.resize(target, size_from(size, "resize_"), kwargs.get("memory_format"))
    return target


# -- between brackets ------------------------------------------------------------------------------


def _numbers_as_lists(key):
    """Wrapped numbers among indices as lists of one; are there no other index tensors?"""
    items = key if type(key) is tuple else (key,)
    found, only, any_number = [], True, False
    for item in items:
        if type(item) is Wrapped and item.ndim == 0 and item.dtype.category == 1:
            found.append(item.unsqueeze(0))
            any_number = True
        else:
            if isinstance(item, (Tensor, list)):
                only = False
            found.append(item)
    return tuple(found), any_number and only


def _parts(input, key):
    key, single = _numbers_as_lists(key)
    if type(key) is tuple and len(key) == 1 and type(key[0]) is bool:
        key = key[0]
    part, indices = subscripts._take_apart(input, key)
    dim = None
    if single and indices is not None:
        places = [k for k, t in enumerate(indices) if t is not None]
        together = places[-1] - places[0] + 1 == len(places)
        dim = places[0] if together else 0
    return part, indices, dim


@rule("__getitem__")
def _get_item(level, place, args, kwargs):
    input, key = args
    part, indices, dim = _parts(input, key)
    if indices is None:
        return part
    found = public("index")(part, indices)
    return found if dim is None else found.squeeze(dim)


@rule("__setitem__")
def _set_item(level, place, args, kwargs):
    input, key, value = args
    if key is False:
        return
    part, indices, dim = _parts(input, key if key is not True else None)
    if not isinstance(value, Tensor):
        value = scalar_tensor(value, dtype=part.dtype, device=part.device)
    if indices is not None:
        if dim is not None and value.ndim:
            value = value.unsqueeze(dim) if value.ndim >= part.ndim - len(indices) else value
        public("index_put_")(part, indices, value.to(part.dtype))
        return
    if value.ndim > part.ndim:
        value = subscripts._without_ones(value)
    part.copy_(value)


@rule("index_put_", "_index_put_impl_")
def _index_put(level, place, args, kwargs):
    op = TABLE["index_put"]
    bound = bind(op, args, kwargs)
    bound["values"] = bound["values"].to(bound["input"].dtype)
    return _write(level, place, op, tuple(bound.values()), {})


__all__ = ["mapped", "put"]
