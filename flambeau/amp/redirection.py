"""What autocast does to a call: arguments of listed ops are cast before it goes on.

Autocast is a handler (interposing/) that stands around the ops of op_lists.py. It belongs
to a thread, as its settings do.
"""

import threading
import weakref

from flambeau import _dtype, interposing
from flambeau._tensor import Tensor
from flambeau.amp.op_lists import KEPT, LOWER, PADDING, PROMOTED, SINGLE


class Settings:
    """What autocast is in a thread."""

    __slots__ = ("cache", "cache_enabled", "devices", "dtype", "enabled", "nesting")

    def __init__(self):
        self.enabled, self.dtype = False, _dtype.bfloat16
        self.nesting, self.cache_enabled = 0, True
        self.cache = {}  # id of a parameter -> (it, weakly; the same in the lower dtype)
        self.devices = ("cpu",)  # whose tensors are cast

    def imagined(self):
        """The same for a program that is read, with tensors without memory."""
        other = Settings()
        other.enabled, other.dtype = self.enabled, self.dtype
        other.nesting, other.cache_enabled = self.nesting + 1, self.cache_enabled
        other.devices = ("cpu", "meta")
        return other


class _Threads(threading.local):
    def __init__(self):
        self.me = Settings()


state = _Threads()


def switch(enabled):
    """Autocast on or off in this thread."""
    me = state.me
    if enabled is not me.enabled:
        (interposing.push if enabled else interposing.pop)(_casting)
        me.enabled = enabled


class _Casting(interposing.Handler):
    """Stands around listed ops; what these call keeps its dtypes."""

    kinds = frozenset({"op", "python"})
    level = interposing.CASTING
    is_lasting = forks = True

    def __init__(self):
        self.policies = {}  # Place -> how its arguments are cast

    def wants(self, place):
        policy = _policy(place) if place.kind in self.kinds else None
        if policy is not None:
            self.policies[place] = policy
        return policy is not None

    def around(self, name, function, args, kwargs):
        if kwargs.get("out") is not None:
            return function(*args, **kwargs)
        return self.policies[name.place](function, args, kwargs)


_casting = _Casting()


def _policy(place):
    """How arguments of a function are cast, None if they are not."""
    if place.key in ("__matmul__", "__rmatmul__"):  # with ways of their own to kernels
        return _lower
    is_inplace = place.key[-1] == "_" and place.row[-1:] != "_"
    return None if is_inplace else _policies.get(place.row.removeprefix("functional_"))


# -- policies --------------------------------------------------------------------------------------


def _eligible(t):
    layout = t._layout
    return (
        layout.dtype.is_floating_point
        and layout.dtype is not _dtype.float64
        and layout.device.type in state.me.devices
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
    if found is None or found[0]() is not t:
        found = me.cache[id(t)] = weakref.ref(t), t.to(dtype)
    return found[1]


def _run(function, args, kwargs, dtype):
    args = [_cast(a, dtype) for a in args]
    return function(*args, **{k: _cast(v, dtype) for k, v in kwargs.items()})


def _lower(function, args, kwargs):
    return _run(function, args, kwargs, state.me.dtype)


def _single(function, args, kwargs):
    return _run(function, args, kwargs, _dtype.float32)


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


_policies = {
    name: policy
    for policy, names in (
        (_lower, LOWER),
        (_single, SINGLE),
        (_promoted, PROMOTED),
        (_padded, PADDING),
        (_kept, KEPT),
    )
    for name in names
}
