"""The ways in which ops can run on parts of tensors, along one dimension of a mesh.

A way names the placement of every input and of the output (or a tuple, one per output). That
everything is replicated is always a way and is not said. Most rules follow from the row of an op:
pointwise ops, reductions and views; the rest are in `rules_more.py`.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import flambeau
from flambeau import Tensor
from flambeau._layout import broadcast_shape
from flambeau.distributed.tensor._utils import compute_local_shape
from flambeau.distributed.tensor.placement_types import Partial, Placement, Shard
from flambeau.distributed.tensor.redistribution import REPLICATE
from flambeau.ops.table import TABLE
from flambeau.utils import _pytree as pytree

PARTIAL = Partial()
BY_NAME: dict[str, Callable] = {}
BY_HAND: dict[str, Callable] = {}


class Way(NamedTuple):
    """Placements with which an op gives the right result; local: what runs in its place."""

    inputs: tuple[Placement, ...]
    outputs: Any
    local: Callable | None = None


class Call(NamedTuple):
    """An op with its arguments, as rules see it."""

    name: str
    args: tuple
    kwargs: dict
    tensors: list
    func: Any
    outside: Any  # the whole result, without memory
    mesh: Any

    def given(self, position: int, *names: str, default: Any = None) -> Any:
        """An argument by position or name."""
        if len(self.args) > position:
            return self.args[position]
        return next((self.kwargs[n] for n in names if n in self.kwargs), default)


def rule(names: str) -> Callable:
    """The decorated function gives the ways of some ops."""

    def kept(function):
        for name in names.split():
            BY_NAME[name] = function
        return function

    return kept


def hand(names: str) -> Callable:
    """The decorated function runs some ops itself, or returns NotImplemented."""

    def kept(function):
        for name in names.split():
            BY_HAND[name] = function
        return function

    return kept


def by_hand(name: str) -> Callable | None:
    """What runs an op in its own way, if something does."""
    _load()
    return BY_HAND.get(name)


def rule_of(name: str) -> Callable:
    """The rule of an op: its own, or that of its kind."""
    _load()
    if name in BY_NAME:
        return BY_NAME[name]
    row = TABLE.get(name) or TABLE.get(name.removesuffix("_")) or TABLE.get("_" + name)
    if row is None:
        return nothing
    return {"pointwise": pointwise, "reduction": reduction, "view": view}.get(row.kind, nothing)


def _load() -> None:
    from flambeau.distributed.tensor import rules_more  # noqa: F401  fills the tables


def nothing(call: Call, size: int) -> Iterable[Way]:
    """Only whole tensors."""
    return ()


# -- pointwise -------------------------------------------------------------------------------------

# sums of what they are given: a summand of the input gives a summand of the output
LINEAR = frozenset(
    "neg clone alias detach contiguous _to_copy to positive zeros_like zero_ conj real imag".split()
)
ADDS = frozenset("add sub add_ sub_ rsub copy_".split())
SCALES = frozenset("mul mul_ multiply masked_scale".split())
DIVIDES = frozenset("div div_ true_divide divide".split())


def pointwise(call: Call, size: int) -> Iterable[Way]:
    """Every input is cut as the output is, along dimensions that it has."""
    shape = broadcast_shape(*[t.shape for t in call.tensors])
    for d in range(len(shape)):
        if shape[d] > 1:
            yield Way(tuple(cut_alike(t, d, shape) for t in call.tensors), Shard(d))
    yield from _linear(call)


def cut_alike(t: Any, d: int, shape: Any) -> Placement:
    """The placement of an input that is broadcast to a shape which is cut along d."""
    own = d - (len(shape) - t.dim())
    return Shard(own) if own >= 0 and t.shape[own] == shape[d] else REPLICATE


def _linear(call):
    count, name = len(call.tensors), call.name
    numbers = any(isinstance(a, (int, float, complex)) for a in call.args)
    for summand in (PARTIAL, Partial("avg")):
        if name in LINEAR or (name in ADDS and not numbers and count > 1):
            yield Way((summand,) * count, summand)
        elif name in SCALES:
            for k in range(count):
                yield Way(tuple(summand if j == k else REPLICATE for j in range(count)), summand)
        elif name in DIVIDES and isinstance(call.args[0], Tensor) and not call.kwargs:
            yield Way((summand, *(REPLICATE,) * (count - 1)), summand)


for _name in (
    "clone _to_copy to detach alias contiguous dropout masked_scale bernoulli zero_ fill_ copy_ "
    "uniform_ normal_ bernoulli_ exponential_ zeros_like ones_like empty_like full_like rand_like "
    "randn_like native_dropout masked_fill masked_fill_ where positive requires_grad_ real imag "
    "type_as float double half bfloat16 isclose"
).split():
    BY_NAME[_name] = pointwise


# -- reductions ------------------------------------------------------------------------------------


def _reduced_dims(call):
    dim = call.given(1, "dim", "axis")
    if isinstance(dim, (bool, Tensor)):
        dim = None
    ndim = call.tensors[0].dim()
    if dim is None or (isinstance(dim, (tuple, list)) and not dim):
        return list(range(ndim))
    dims = dim if isinstance(dim, (tuple, list)) else [dim]
    return [d % ndim for d in dims] if ndim else []


def reduction(call: Call, size: int) -> Iterable[Way]:
    """Dimensions that stay may be cut; sums and means may be of parts, too."""
    x = call.tensors[0]
    if len(call.tensors) > 1:
        return
    dims = _reduced_dims(call)
    results = [t for t in pytree.tree_leaves(call.outside) if isinstance(t, Tensor)]
    keeps = results[0].dim() == x.dim()
    for d in range(x.dim()):
        if d not in dims:
            out = d if keeps else d - sum(r < d for r in dims)
            yield Way((Shard(d),), Shard(out))
        elif call.name in ("sum", "nansum"):
            yield Way((Shard(d),), PARTIAL)
        elif call.name == "mean" and x.shape[d] % call.mesh.size() == 0:
            yield Way((Shard(d),), Partial("avg"))
    if call.name in ("sum", "mean"):
        yield Way((PARTIAL,), PARTIAL)
        yield Way((Partial("avg"),), Partial("avg"))


for _name in "max min argmax argmin aminmax var std var_mean std_mean logsumexp median".split():
    BY_NAME[_name] = reduction


# -- views -----------------------------------------------------------------------------------------


def _distinct(shape):
    """Strides that tell dimensions apart."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1) + 1
    return strides[::-1]


def view(call: Call, size: int) -> Iterable[Way]:
    """Dimensions that the view leaves as they are may be cut; found by their strides."""
    x = call.tensors[0]
    before = flambeau.empty_strided(x.shape, _distinct(x.shape), device="meta")
    after = call.func(before, *call.args[1:], **call.kwargs)
    first = after[0] if isinstance(after, (tuple, list)) else after
    for d in range(x.dim()):
        for e in range(first.dim()):
            same = first.stride(e) == before.stride(d) and first.shape[e] == x.shape[d]
            if same and x.shape[d] > 1:
                local = expanded if call.name == "expand" else None
                yield Way((Shard(d),), Shard(e), local)
    for summand in (PARTIAL, Partial("avg")):
        yield Way((summand,), summand)


def _local_shape(call, outputs):
    placed = [o[0] if isinstance(o, tuple) else o for o in outputs]
    return compute_local_shape(call.outside.shape, call.mesh, placed)


def expanded(call: Call, outputs: list) -> Callable:
    """Local expand: to the shape of the local result."""
    return lambda t, *args, **kwargs: t.expand(_local_shape(call, outputs))


def reshaped(call: Call, outputs: list) -> Callable:
    """Local reshape: to the shape of the local result."""
    return lambda t, *args, **kwargs: t.reshape(_local_shape(call, outputs))


RESHAPES = "view _unsafe_view reshape flatten ravel unflatten view_as".split()


def groups_of(before: Any, after: Any) -> Iterable[tuple[list[int], list[int]]]:
    """Dimensions of two shapes that hold the same elements, group by group."""
    i = j = 0
    while i < len(before) or j < len(after):
        mine: list[int] = []
        theirs: list[int] = []
        have = want = 1
        while i < len(before) and (not mine or have < want or before[i] == 1):
            have, i = have * before[i], i + 1
            mine.append(i - 1)
            while j < len(after) and (want < have or (after[j] == 1 and want == have)):
                want, j = want * after[j], j + 1
                theirs.append(j - 1)
        if not mine:
            theirs, j = [*theirs, *range(j, len(after))], len(after)
        yield mine, theirs


@rule(" ".join(RESHAPES))
def reshape(call: Call, size: int) -> Iterable[Way]:
    """The leading dimension of what is joined or split may be cut, if cuts fall between rows."""
    x, shape = call.tensors[0], call.outside.shape
    if isinstance(call.given(1), flambeau.dtype) or len(call.tensors) > 1:
        return
    for mine, theirs in groups_of(x.shape, shape):
        lead = next((d for d in mine if x.shape[d] != 1), None)
        out = next((d for d in theirs if shape[d] != 1), None)
        if lead is None or out is None:
            continue
        parts = size
        for k, p in enumerate(x._spec.placements):
            if p.is_shard(lead) and call.mesh.ndim > 1:
                parts = max(parts, call.mesh.size() if k else parts)
        is_same = x.shape[lead] == shape[out]
        if is_same or (x.shape[lead] % parts == 0 and shape[out] % parts == 0):
            yield Way((Shard(lead),), Shard(out), reshaped)
    for summand in (PARTIAL, Partial("avg")):
        yield Way((summand,), summand)
