"""Ops on DTensors: which placements an op can run with, which of them cost least, and the run.

`rules.py` gives the ways in which an op can run along one dimension of a mesh: placements of its
inputs and of its outputs. The one that moves least data is taken, inputs are moved, the op runs on
local tensors, and results are wrapped. An input that all processes have whole, used for results
that differ, gets its gradients added up over them.
"""

import contextlib
from typing import Any

import flambeau
from flambeau import Tensor, distributed
from flambeau.distributed.tensor.dtensor import DTensor, made
from flambeau.distributed.tensor.placement_types import Partial, Replicate, Shard
from flambeau.distributed.tensor.redistribution import REPLICATE, of_gradient, redistributed
from flambeau.distributed.tensor.rules import Call, Way, by_hand, rule_of
from flambeau.distributed.tensor.rules_more import updated
from flambeau.utils import _pytree as pytree

RANDOM = frozenset(
    """
    dropout bernoulli bernoulli_ uniform_ normal_ exponential_ log_normal_ cauchy_ geometric_
    random_ rand randn rand_like randn_like randint_like native_dropout alpha_dropout
    feature_dropout feature_alpha_dropout rrelu rrelu_with_noise poisson multinomial
    """.split()
)


class _State:
    """Settings of this process."""

    plain_is_replicated = False
    seed: int | None = None
    drawn = 0


@contextlib.contextmanager
def implicit_replication() -> Any:
    """A context in which plain tensors beside DTensors count as replicated."""
    before, _State.plain_is_replicated = _State.plain_is_replicated, True
    try:
        yield
    finally:
        _State.plain_is_replicated = before


def run(func: Any, args: tuple, kwargs: dict) -> Any:
    """An op with DTensors among its arguments."""
    name = func._overloadpacket.__name__
    if args and isinstance(args[0], str):  # an optimizer's rule
        return updated(func, args, kwargs)
    hand = by_hand(name)
    if hand is not None:
        found = hand(func, args, kwargs)
        if found is not NotImplemented:
            return found
    leaves, tree = pytree.tree_flatten((args, kwargs))
    mesh = next(t._spec.mesh for t in leaves if isinstance(t, DTensor))
    leaves = [_admitted(t, mesh, func) for t in leaves]
    tensors = [t for t in leaves if isinstance(t, DTensor)]
    call, (way, wanted, backs, outputs) = _planned(func, args, kwargs, leaves, tree, tensors)
    given = iter([_moved(t, *how) for t, *how in zip(tensors, wanted, backs)])
    plain = [next(given) if isinstance(t, DTensor) else t for t in leaves]
    local_args, local_kwargs = pytree.tree_unflatten(plain, tree)
    function = func if way.local is None else way.local(call, outputs)
    with drawing(name, mesh, outputs):
        result = function(*local_args, **local_kwargs)
    if is_inplace(name):
        return args[0]
    return _wrapped(result, call, mesh, outputs)


_plans: dict = {}  # what was decided for calls with tensors of the same kinds


def _planned(func, args, kwargs, leaves, tree, tensors):
    """(the call, how it runs): worked out once for tensors of the same kinds."""
    mesh, name = tensors[0]._spec.mesh, func._overloadpacket.__name__
    key = func, tree, id(mesh), *map(_kind_of, leaves)
    try:
        outside, decided, _ = _plans[key]
        return Call(name, args, kwargs, tensors, func, outside, mesh), decided
    except (KeyError, TypeError):  # an argument may have no hash
        pass
    outside = _outside(func, leaves, tree)
    call = Call(name, args, kwargs, tensors, func, outside, mesh)
    way, wanted, outputs = _chosen(call)
    decided = way, wanted, [_flowing_back(w, outputs) for w in wanted], outputs
    if len(_plans) > 10_000:
        _plans.clear()
    with contextlib.suppress(TypeError):
        _plans[key] = outside, decided, mesh  # a mesh that is kept keeps its id
    return call, decided


def _kind_of(value):
    if isinstance(value, DTensor):
        spec = value._spec
        return spec.shape, spec.stride, spec.placements, value.dtype, value.device
    return type(value), value


def is_inplace(name: str) -> bool:
    """Does the op write to its first argument?"""
    return name.endswith("_") and not name.endswith("__")


def _admitted(value, mesh, func):
    """Plain tensors count as replicated if they are numbers, or the caller said so."""
    if isinstance(value, DTensor):
        if value._spec.mesh != mesh:
            raise RuntimeError(
                f"{func} got DTensors on different meshes: {value._spec.mesh} and {mesh}"
            )
        return value
    if isinstance(value, Tensor):
        if value.dim() == 0 or _State.plain_is_replicated:
            placed = (REPLICATE,) * mesh.ndim
            return made(value, mesh, placed, value.shape, value.stride())
        raise RuntimeError(
            f"{func} got mixed torch.Tensor and DTensor, need to convert all torch.Tensor to "
            "DTensor before calling distributed operators!"
        )
    return value


# -- what the whole result is like -----------------------------------------------------------------


def _outside(func, leaves, tree):
    """The op on tensors without memory: shapes and strides of the whole results."""
    args, kwargs = pytree.tree_unflatten([_without_memory(t) for t in leaves], tree)
    if kwargs.get("device") is not None:
        kwargs["device"] = "meta"
    with flambeau.no_grad():
        return func(*args, **kwargs)


def _without_memory(value):
    if isinstance(value, DTensor):
        stride = value._spec.stride
        return flambeau.empty_strided(value.shape, stride, dtype=value.dtype, device="meta")
    return flambeau.device("meta") if isinstance(value, flambeau.device) else value


def _wrapped(result, call, mesh, outputs):
    """Local results as DTensors with the shapes of the whole ones."""
    found, tree = pytree.tree_flatten(result)
    wholes = pytree.tree_leaves(call.outside)
    out = []
    for k, (t, whole) in enumerate(zip(found, wholes)):
        if isinstance(t, Tensor):
            placed = tuple(_at(o, k) for o in outputs)
            t = made(t, mesh, placed, whole.shape, whole.stride())
        out.append(t)
    return pytree.tree_unflatten(out, tree)


def _at(output, k):
    return output[k] if isinstance(output, tuple) else output


# -- the cheapest way ------------------------------------------------------------------------------


def _chosen(call):
    """(the last way, placements wanted of each input, output placement per mesh dimension)."""
    wanted: list[list] = [[] for _ in call.tensors]
    outputs, last = [], None
    ways_of = rule_of(call.name)
    for k in range(call.mesh.ndim):
        now = [t._spec.placements[k] for t in call.tensors]
        ways = [*ways_of(call, call.mesh.size(k)), Way((REPLICATE,) * len(now), REPLICATE)]
        if is_inplace(call.name):
            ways = [w for w in ways if w.inputs[0] == now[0] and w.outputs == now[0]]
            if not ways:
                raise RuntimeError(
                    f"{call.name}: in-place operations that require placement changes are not "
                    f"supported, got {now}"
                )
        best = min(ways, key=lambda w: _cost(call, now, w))
        for place, placement in zip(wanted, best.inputs):
            place.append(placement)
        outputs.append(best.outputs)
        last = best if last is None or last.local is None else last
    return last, [tuple(w) for w in wanted], outputs


def _cost(call, now, way):
    total = 0.0
    for t, have, want in zip(call.tensors, now, way.inputs):
        if have != want:
            total += 1e-3 + t.numel() * _price(have, want)
    return total


def _price(have, want):
    if isinstance(have, Replicate):
        return 0.01 if isinstance(want, Shard) else 0.02
    if isinstance(have, Partial):
        return 1.0 if isinstance(want, Shard) else 2.0
    if isinstance(want, Partial):
        return 1e9  # nobody makes summands of parts
    return 1.0 if isinstance(want, Replicate) else 1.1  # gathered, and cut anew


def _flowing_back(wanted, outputs):
    """How gradients come back to an input that has been given the wanted placements."""
    back = list(of_gradient(wanted))
    for k, placement in enumerate(wanted):
        if isinstance(placement, Replicate):
            every = outputs[k] if isinstance(outputs[k], tuple) else (outputs[k],)
            if any(not isinstance(o, Replicate) for o in every):
                back[k] = Partial()
    return tuple(back)


def _moved(t, wanted, back):
    spec = t._spec
    return redistributed(t._local_tensor, spec.shape, spec.mesh, spec.placements, wanted, back)


# -- random numbers --------------------------------------------------------------------------------


def drawing(name: str, mesh: Any, outputs: list) -> Any:
    """Processes that have the same part draw the same numbers, others different ones."""
    return _drawn_alike(mesh, outputs) if name in RANDOM else contextlib.nullcontext()


@contextlib.contextmanager
def _drawn_alike(mesh, outputs):
    if _State.seed is None:
        seed = flambeau.randint(0, 1 << 60, ())
        distributed.broadcast(seed, 0)
        _State.seed = int(seed)
    part, place = 0, mesh.get_coordinate()
    for k, output in enumerate(outputs):
        if isinstance(_at(output, 0), Shard):
            part = part * mesh.size(k) + place[k]
    _State.drawn += 1
    with flambeau.random.fork_rng(devices=[]):
        flambeau.manual_seed((_State.seed + _State.drawn * 1_000_003 + part) % (1 << 63))
        yield


def manual_seed(seed: int, device_mesh: Any) -> None:
    """Start the numbers of DTensors anew; every process gives the same seed."""
    _State.seed, _State.drawn = seed, 0
