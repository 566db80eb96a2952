"""What autocast does to a call: arguments of listed ops are cast before it goes on.

Autocast is a handler (interposing/) that stands around the ops of op_lists.py. It belongs
to a thread, as its settings do.
"""

import threading
import weakref

from flambeau import _dtype, interposing
from flambeau._tensor import Tensor
from flambeau.amp.op_lists import (
    CUDA_LOWER,
    CUDA_PROMOTED,
    CUDA_REFUSED,
    CUDA_SINGLE,
    KEPT,
    LOWER,
    PADDING,
    PROMOTED,
    SINGLE,
)
from flambeau.autograd.grad_mode import modes
from flambeau.ops.cross_entropy import of_halves


class Settings:
    """What autocast is in a thread; `kind` and `dtype` are those of the call that is cast."""

    __slots__ = ("cache", "cache_enabled", "dtypes", "kind", "nesting", "on", "stands")

    def __init__(self):
        self.on = {"cpu": False, "cuda": False}
        self.dtypes = {"cpu": _dtype.bfloat16, "cuda": _dtype.float16}
        self.kind = "cpu"
        self.nesting, self.cache_enabled = 0, True
        self.cache = {}  # id of a parameter -> (it, weakly; the same in the lower dtype)
        self.stands = {"cpu": "cpu", "cuda": "cuda"}  # device of a tensor -> whose autocast it is

    def imagined(self):
        """The same for a program that is read, with tensors without memory."""
        other = Settings()
        other.on, other.dtypes = dict(self.on), dict(self.dtypes)
        other.nesting, other.cache_enabled = self.nesting + 1, self.cache_enabled
        other.stands["meta"] = "cuda" if self.on["cuda"] else "cpu"
        return other

    @property
    def enabled(self):
        return self.on["cpu"]

    @property
    def dtype(self):
        return self.dtypes[self.kind]


class _Threads(threading.local):
    def __init__(self):
        self.me = Settings()


state = _Threads()


def switch(enabled, kind="cpu"):
    """Autocast on or off in this thread, for tensors of a kind of device."""
    on = state.me.on
    before, on[kind] = any(on.values()), enabled
    if any(on.values()) is not before:
        (interposing.pop if before else interposing.push)(_casting)


class _Casting(interposing.Handler):
    """Stands around listed ops; what these call keeps its dtypes."""

    kinds = frozenset({"op", "python"})
    level = interposing.CASTING
    is_lasting = forks = True

    def __init__(self):
        self.policies = {}  # Place -> how its arguments are cast

    def wants(self, place):
        found = _policies_of(place) if place.kind in self.kinds else None
        if found is not None:
            self.policies[place] = found
        return found is not None

    def around(self, name, function, args, kwargs):
        if kwargs.get("out") is not None:
            return function(*args, **kwargs)
        me, kind = state.me, _kind(args, kwargs)
        policy = self.policies[name.place].get(kind) if me.on.get(kind) else None
        if policy is None:
            return function(*args, **kwargs)
        before, me.kind = me.kind, kind
        try:
            return policy(function, args, kwargs)
        finally:
            me.kind = before


_casting = _Casting()


def _kind(args, kwargs):
    """The kind of device whose autocast a call is under: that of its first tensor."""
    stands = state.me.stands
    for t in _tensors([*args, *kwargs.values()]):
        where = t._layout.device if type(t) is Tensor else t.device  # a transform hides it
        if t._layout.ndim or where.type != "cpu":
            return stands.get(where.type)
    return "cpu"


def _policies_of(place):
    """How arguments of a function are cast, by kind of device; None if they are not."""
    if place.key in ("__matmul__", "__rmatmul__"):  # with ways of their own to kernels
        return {"cpu": _lower, "cuda": _lower}
    if place.key in ("__rpow__", "__rtruediv__"):
        return {"cuda": _single}
    if place.key[-1] == "_" and place.row[-1:] != "_":  # in place
        return None
    row = place.row.removeprefix("functional_")
    found = {kind: table[row] for kind, table in _policies.items() if row in table}
    return found or None


# -- policies --------------------------------------------------------------------------------------


def _eligible(t):
    layout = t._layout
    where = layout.device if type(t) is Tensor else t.device
    return (
        layout.dtype.is_floating_point
        and layout.dtype is not _dtype.float64
        and state.me.stands.get(where.type) == state.me.kind
    )


def _cast(value, dtype):
    if isinstance(value, Tensor):
        if value._layout.dtype is dtype or not _eligible(value):
            return value
        if state.me.cache_enabled and value._requires_grad and value._grad_fn is None:
            return _cached(value, dtype)
        return value.to(dtype)
    if type(value) in (list, tuple):
        return type(value)([_cast(v, dtype) for v in value])
    return value


def _cached(t, dtype):
    """A parameter in another dtype: cast once per outermost autocast."""
    me = state.me
    if t._layout.dtype is not _dtype.float32 or dtype is not me.dtype or t._view is not None:
        return t.to(dtype)
    found = me.cache.get(id(t))
    # what was cast while nothing was recorded has no way back to the parameter
    lost = found is not None and modes.grad and not found[1]._requires_grad
    if found is None or lost or found[0]() is not t:
        found = me.cache[id(t)] = weakref.ref(t), t.to(dtype)
    return found[1]


def _run(function, args, kwargs, dtype):
    args = [_cast(a, dtype) for a in args]
    return function(*args, **{k: _cast(v, dtype) for k, v in kwargs.items()})


def _lower(function, args, kwargs):
    return _run(function, args, kwargs, state.me.dtype)


def _single(function, args, kwargs):
    return _run(function, args, kwargs, _dtype.float32)


_SCORED = "input target weight size_average ignore_index reduce reduction label_smoothing".split()
_ROWS = {"input", "target", "ignore_index", "reduction"}  # what rows of scores can be given


def _is_default(value):
    return value is None or (type(value) is float and value == 0.0)


def _scored(function, args, kwargs):
    """cross_entropy on a GPU: in float32, but scores need not be written in it."""
    given = dict(zip(_SCORED, args)) | kwargs
    given = {k: v for k, v in given.items() if k in _ROWS or not _is_default(v)}
    tensors = given.get("input"), given.get("target")
    is_plain = {*given} <= _ROWS and all(type(t) is Tensor for t in tensors)
    if is_plain and not interposing.handlers():  # nobody else looks at what is called
        found = of_halves(**given)
        if found is not None:
            return found
    return _single(function, args, kwargs)


def _kept(function, args, kwargs):
    return function(*args, **kwargs)


def _tensors(value):
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for v in value:
            yield from _tensors(v)


def _promoted(function, args, kwargs):
    """The widest of the arguments' dtypes."""
    lower = dtype = state.me.dtype
    for t in _tensors([*args, *kwargs.values()]):
        found = t._layout.dtype
        if found is _dtype.float32 and _eligible(t):
            dtype = found
        elif _eligible(t) and found is not lower:
            raise RuntimeError("Unexpected floating ScalarType in at::autocast::prioritize")
    return _run(function, args, kwargs, dtype)


def _padded(function, args, kwargs):
    """pad: reflection and replication are done in float32, the other modes in any dtype."""
    mode = kwargs.get("mode", args[2] if len(args) > 2 else "constant")
    if mode in ("reflect", "replicate"):
        return _single(function, args, kwargs)
    return function(*args, **kwargs)


def _refused(function, args, kwargs):
    raise RuntimeError(
        "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\n"
        "Many models use a sigmoid layer right before the binary cross entropy layer.\n"
        "In this case, combine the two layers using "
        "torch.nn.functional.binary_cross_entropy_with_logits\n"
        "or torch.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and BCEWithLogits are\n"
        "safe to autocast."
    )


def _table(*pairs):
    return {name: policy for policy, names in pairs for name in names}


_policies = {
    "cpu": _table(
        (_lower, LOWER),
        (_single, SINGLE),
        (_promoted, PROMOTED),
        (_padded, PADDING),
        (_kept, KEPT),
    ),
    "cuda": _table(
        (_lower, CUDA_LOWER),
        (_single, CUDA_SINGLE),
        (_scored, ["cross_entropy"]),
        (_promoted, CUDA_PROMOTED),
        (_refused, CUDA_REFUSED),
    ),
}
