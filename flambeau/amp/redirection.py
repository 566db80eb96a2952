"""The switch of autocast: ops that change their dtypes are redirected while it is on.

Nothing of autocast is on the path of a call while it is off. Switching it on exchanges the code of
the public functions that are listed in op_lists.py (a function stays the same object, so methods,
imports by name and calls from other ops are all caught); switching it off puts their own code back.
Autocast belongs to a thread: redirected calls of other threads go straight to the function.
"""

import threading
import types
import weakref

from flambeau import _dtype
from flambeau._tensor import Tensor
from flambeau.amp.op_lists import KEPT, LOWER, PADDING, PROMOTED, SINGLE
from flambeau.eager import methods, observing
from flambeau.ops.table import TABLE


class _State(threading.local):
    """What autocast is in this thread."""

    enabled = False
    dtype = _dtype.bfloat16
    inside = False  # in a redirected op: what it calls keeps its dtypes
    nesting = 0
    cache_enabled = True

    def __init__(self):
        self.cache = {}  # id of a parameter -> (it, weakly; the same in the lower dtype)


state = _State()
_users = 0  # threads with autocast on
_redirected: list = []  # (public function, its own code, the code that redirects)


def switch(enabled):
    """Autocast on or off in this thread."""
    global _users
    if enabled == state.enabled:
        return
    with observing.lock:
        if not _redirected:
            _prepare()
        _users += 1 if enabled else -1
        if enabled and _users == 1:
            _exchange(2)
        elif _users == 0:
            _exchange(1)
    state.enabled = enabled


# -- redirection -----------------------------------------------------------------------------------


def _template(*args, **kwargs):
    redirected = "what runs in place of the function"
    return redirected(args, kwargs)


def _exchange(position):
    """Give every function its own code (1) or the one that redirects (2)."""
    if observing.active():
        for entry in _redirected:
            observing.inner(entry[0]).__code__ = entry[position]
    else:
        for entry in _redirected:
            entry[0].__code__ = entry[position]


def _prepare():
    policies = {_lower: LOWER, _single: SINGLE, _promoted: PROMOTED, _padded: PADDING, _kept: KEPT}
    for policy, names in policies.items():
        for name in names:
            for row in (name, "functional_" + name):
                if row in TABLE:
                    _redirect(methods.function(row), policy)
    for name in ("__matmul__", "__rmatmul__"):  # with ways of their own to kernels
        _redirect(getattr(Tensor, name), _lower)


def _redirect(function, policy):
    if any(function is known for known, _, _ in _redirected):
        return
    own = observing.inner(function).__code__  # the code under an observer's
    copy = types.FunctionType(
        own, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    copy.__kwdefaults__ = function.__kwdefaults__

    def run(args, kwargs):
        if not state.enabled or state.inside or kwargs.get("out") is not None:
            return copy(*args, **kwargs)
        state.inside = True
        try:
            return policy(copy, args, kwargs)
        finally:
            state.inside = False

    consts = tuple(run if type(c) is str else c for c in _template.__code__.co_consts)
    code = _template.__code__.replace(
        co_consts=consts, co_freevars=own.co_freevars, co_name=own.co_name
    )
    _redirected.append((function, own, code))


# -- policies --------------------------------------------------------------------------------------


def _eligible(t):
    layout = t._layout
    return (
        layout.dtype.is_floating_point
        and layout.dtype is not _dtype.float64
        and layout.device.type == "cpu"
    )


def _cast(value, dtype):
    if isinstance(value, Tensor):
        if value._layout.dtype is dtype or not _eligible(value):
            return value
        if state.cache_enabled and value._requires_grad and value._grad_fn is None:
            return _cached(value, dtype)
        return value.to(dtype)
    if type(value) in (list, tuple):
        return type(value)([_cast(v, dtype) for v in value])
    return value


def _cached(t, dtype):
    """A parameter in another dtype: cast once per outermost autocast."""
    if t._layout.dtype is not _dtype.float32 or dtype is not state.dtype or t._view is not None:
        return t.to(dtype)
    found = state.cache.get(id(t))
    if found is None or found[0]() is not t:
        found = state.cache[id(t)] = weakref.ref(t), t.to(dtype)
    return found[1]


def _run(function, args, kwargs, dtype):
    args = [_cast(a, dtype) for a in args]
    return function(*args, **{k: _cast(v, dtype) for k, v in kwargs.items()})


def _lower(function, args, kwargs):
    return _run(function, args, kwargs, state.dtype)


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
    dtype = state.dtype
    for t in _tensors([*args, *kwargs.values()]):
        found = t._layout.dtype
        if found is _dtype.float32 and _eligible(t):
            dtype = found
        elif _eligible(t) and found is not state.dtype:
            raise RuntimeError("Unexpected floating ScalarType in at::autocast::prioritize")
    return _run(function, args, kwargs, dtype)


def _padded(function, args, kwargs):
    """pad: reflection and replication are done in float32, the other modes in any dtype."""
    mode = kwargs.get("mode", args[2] if len(args) > 2 else "constant")
    if mode in ("reflect", "replicate"):
        return _single(function, args, kwargs)
    return function(*args, **kwargs)
