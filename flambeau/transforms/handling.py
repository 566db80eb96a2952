"""The handler that sees ops with wrapped arguments, and leads them to the highest level.

What an op is follows from its kind: composites run their bodies, which call other rows; all others
are handed to the level with their arguments by name. Functions that are no rows have an entry in
RULES, or do nothing but call rows. Writes are ops whose result is put where the target is
(writing.py).
"""

from collections.abc import Callable
from typing import Any

from flambeau import interposing
from flambeau._tensor import Tensor
from flambeau.autograd.grad_mode import modes
from flambeau.eager.binding import bind
from flambeau.eager.methods import INPLACE
from flambeau.interposing import Name, Place
from flambeau.interposing.dispatching import _on_tensors
from flambeau.ops.recurrence import layer_on_tensors
from flambeau.ops.recurrence_cells import step_on_tensors
from flambeau.ops.table import TABLE
from flambeau.transforms import history
from flambeau.transforms.levels import (
    HANDLERS,
    Level,
    Wrapped,
    below,
    highest,
    is_at,
    mapped,
    mark_view,
    running,
    same,
)

# functions that are no rows, or rows with a way of their own: key -> (level, place, args, kwargs)
RULES: dict[str, Callable] = {}
# functions that levels above their arguments want to know of: random ones. Key -> function of the
# arguments' level, place, what would be called, args and kwargs; NotImplemented to go on
UNWRAPPED: dict[str, Callable] = {}
# rows with a way of their own, for all levels: name -> function of (level, bound)
ROW_RULES: dict[str, Callable] = {}
_write: list[Callable] = []  # set by writing.py


def rule(*keys: str) -> Callable:
    """Register what is done for functions with wrapped arguments."""

    def register(function: Callable) -> Callable:
        RULES.update(dict.fromkeys(keys, function))
        return function

    return register


class _Transforming(interposing.Handler):
    """Stands around ops while levels run."""

    kinds = frozenset({"op", "python", "data", "method", "property", "function"})
    level = (interposing.CASTING + interposing.DISPATCH_MODES) // 2
    sees = "all"
    is_lasting = True

    def wants(self, place: Place) -> bool:
        return place.kind in self.kinds and (
            place.row in TABLE or place.key in RULES or place.key in UNWRAPPED
            or place.delegates
        )  # fmt: skip

    def around(self, name: Name, function: Callable, args: tuple, kwargs: dict) -> Any:
        if running.followed is not None:
            running.followed((*args, *kwargs.values()))
        level = highest((*args, *kwargs.values()) if kwargs else args)
        place = name.place
        watch = UNWRAPPED.get(place.key)
        if watch is not None and running.levels and level is not running.levels[-1]:
            found = watch(level, place, function, args, kwargs)
            if found is not NotImplemented:
                return found
        if level is None:
            return function(*args, **kwargs)
        if not level.is_live:
            raise RuntimeError(
                "A tensor of a transform that has ended was used: what a function returns is all "
                "that may leave torch.func.vmap, jvp and forward_ad.dual_level."
            )
        found = RULES.get(place.key)
        if found is not None:
            return found(level, place, args, kwargs)
        op = TABLE.get(place.row)
        if op is None:
            return place.copy(*args, **kwargs)
        if _writes(place):
            return _write[0](level, place, op, args, kwargs)
        out = kwargs.get("out")
        if out is not None:
            kwargs = {k: v for k, v in kwargs.items() if k != "out"}
        result = call(level, op, place.copy, args, kwargs)
        return result if out is None else _stored(out, result)


def _writes(place):
    key = place.key
    return key in INPLACE or (key[-1:] == "_" and key[:2] != "__" and key not in TABLE)


def _stored(out, result):
    outs, results = (out, result) if isinstance(out, (tuple, list)) else ((out,), (result,))
    for o, r in zip(outs, results):
        o.copy_(r)
    return out


def call(level: Level, op: Any, copy: Callable, args: tuple, kwargs: dict) -> Any:
    """A row as somebody called it."""
    if op.kind == "composite":
        if op.template == "overloads":
            return copy(*args, **kwargs)
        if op.body.__code__.co_flags & 4:  # *operands: nothing to bind
            return op.body(*args, **kwargs)
    if op.kind == "pointwise" and "alone" in op.options and len(args) == 1 and not kwargs:
        return op.options["alone"](args[0])
    return run(level, op, bind(op, args, kwargs))


def run(level: Level, op: Any, bound: dict) -> Any:
    """A row on bound arguments: worked out by a level, and written into the level's history."""
    own = ROW_RULES.get(op.name)
    if own is not None and TABLE[op.name] is op:  # forms of nn.functional share its name
        return own(level, bound)
    if op.kind == "composite" and not op.is_differentiable and not level.knows(op):
        return op.body(**{n: _lifted(level, v) for n, v in bound.items()})
    if op.kind == "pointwise":
        op, bound = _resolved(op, bound)
    elif bound.get("kind") == "saved" and "max_pool" in op.name:
        bound["kind"] = "i64"  # derivatives want to know, and kernels would not guess it here
    elif op.name in _VECTORS:
        bound[_VECTORS[op.name]] = True
    recorded = modes.grad and op.is_differentiable and history.wants(level, bound)
    if op.kind == "composite" and not level.knows(op):
        # with a derivative of its own: nothing within is recorded
        if recorded:
            result = op.body(**{n: mapped(lambda t: _bare(level, t), v) for n, v in bound.items()})
        else:
            result = op.body(**{n: _lifted(level, v) for n, v in bound.items()})
    else:
        with below(level):
            result = level.apply(op, bound)
    if op.kind == "view" and not op.options.get("fresh"):
        _mark_views(op, bound, result)
    if recorded:
        history.record(level, op, bound, result)
    return result


# derivatives of singular and eigenvalues need vectors, which some callers do without
_VECTORS = {"_linalg_svd": "compute_uv", "_linalg_eigh": "compute_v", "_linalg_eig": "compute_v"}


def _resolved(op, bound):
    """A pointwise row as it is called: its arguments are checked, some call another row."""
    options = op.options
    for word in ("prepare", "check"):
        if word in options:
            options[word](bound)
    name = options["overload"](bound) if "overload" in options else None
    if name is None:
        return op, bound
    other = TABLE[name]
    return _resolved(other, {p.name: bound[p.name] for p in other.params})


def _lifted(level, value):
    """Tensors from below as tensors of the level: bodies compare the devices of layouts."""
    if isinstance(value, Tensor):
        return value if type(value) is Wrapped else level.lift(value)
    return value


def _bare(level, t):
    return same(t) if is_at(t, level) else t


def _mark_views(op, bound, result):
    input = next(iter(bound.values()))
    if isinstance(input, Tensor):
        kind = "multi" if op.options.get("multi") else "plain"
        for out in result if isinstance(result, (tuple, list)) else (result,):
            if out is not input and out._storage is input._storage:
                mark_view(out, input, kind)


# kernels of whole layers: inside of a transform they are what they stand for, step by step
ROW_RULES |= {
    "_rnn_layer": lambda level, bound: layer_on_tensors(**bound),
    "_rnn_step": lambda level, bound: step_on_tensors(**bound),
}
HANDLERS += [_Transforming(), _on_tensors]
