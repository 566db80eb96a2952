"""Levels, and tensors that are wrapped at one.

A level is one run of a transform. A wrapped tensor looks like what the program inside sees: its
layout is that of one sample, or of the primal. It says "meta", so that whatever overlooks the
wrapper computes nothing, and its storage is the value's, so that versions are counted as usual.
"""

import itertools
import threading
import weakref
from collections.abc import Callable
from math import inf
from typing import Any

from flambeau import _device, interposing
from flambeau._layout import make_layout
from flambeau._tensor import Tensor, View, make_tensor
from flambeau.autograd.grad_mode import modes
from flambeau.interposing.overriding import disabled

META = _device.resolve("meta")
_numbers = itertools.count(1)


class _Running(threading.local):
    """The levels of a thread, the latest last."""

    def __init__(self) -> None:
        self.levels: list[Level] = []
        self.drawn = inf  # levels from this number on have drawn random numbers for their samples
        self.followed: Callable | None = None  # for arguments that may have to become of a level
        self.tapes = 0  # functions that run to be differentiated by func.grad and the like


running = _Running()


class Level:
    """One run of a transform. Subclasses say what it does with rows.

    grad: whether values below are recorded while somebody differentiates at this level, to whom
    the switches belong then; None at other times: switches are for everybody below.
    hides: does it ever keep switches from those below?
    """

    grad: bool | None = None
    hides = True
    known: list | None = None  # weak references to its tensors, where it must know them

    def __init__(self) -> None:
        self.number, self.is_live = next(_numbers), False

    def __enter__(self) -> Any:
        if not running.levels:
            for handler in HANDLERS:
                interposing.push(handler)
        running.levels.append(self)
        self.is_live = True
        return self

    def __exit__(self, *error: Any) -> None:
        running.levels.remove(self)
        self.is_live = False
        if not running.levels:
            running.followed = None
            for handler in reversed(HANDLERS):
                interposing.pop(handler)

    def before_write(self, t: Any) -> Any:
        """A tensor of this level as it is, which derivatives may need when it is written."""
        old = same(t)
        with below(self):
            old._value = t._value.clone()
            old._storage, old._offset = old._value._storage, old._value._offset
            if old._tangent is not None:
                old._tangent = t._tangent.clone()
        return old

    def lift(self, value: Tensor) -> "Wrapped":
        """A value from below as a tensor of this level that does not depend on the transform."""
        raise NotImplementedError

    def knows(self, op: Any) -> bool:
        """Has it a rule for a composite, which would do without?"""
        raise NotImplementedError

    def apply(self, op: Any, bound: dict) -> Any:
        """A row on bound arguments; gives wrapped results."""
        raise NotImplementedError


HANDLERS: list[interposing.Handler] = []  # those that are there while levels run


class below:
    """Work on values: recorded unless somebody above who differentiates did not want it."""

    __slots__ = ("level", "saved")

    def __init__(self, level: Level) -> None:
        self.level = level

    def __enter__(self) -> None:
        self.saved = modes.grad
        if self.level.grad is not None:
            modes.grad = self.level.grad

    def __exit__(self, *error: Any) -> None:
        modes.grad = self.saved


class settled:
    """Differentiate at the level that runs: switches that are turned inside mean that level only,
    values below it are recorded as they are here."""

    __slots__ = ("level",)
    level: Level | None

    def __enter__(self) -> None:
        level = innermost()
        self.level = None
        if level is not None and level.hides and level.grad is None:
            self.level, level.grad = level, modes.grad

    def __exit__(self, *error: Any) -> None:
        if self.level is not None:
            self.level.grad = None


def innermost() -> Level | None:
    """The level that runs now, if any."""
    return running.levels[-1] if running.levels else None


def depth(level: Level) -> int:
    """How many levels there are up to this one, as messages count."""
    return running.levels.index(level) + 1 if level in running.levels else -1


# -- wrapped tensors -------------------------------------------------------------------------------


def bottom(t: Tensor) -> Tensor:
    """The plain tensor at the bottom of a wrapped one."""
    while type(t) is Wrapped:
        t = t._value
    return t


class Wrapped(Tensor):
    """A tensor inside of a transform. _level: whose it is; _value: what it stands for below.

    _batched (vmap): is the first dimension of the value that of samples? _tangent (jvp): how it
    moves, None for not at all. _look (functionalize): which memory it looks at, and how.
    """

    __slots__ = ()
    _level: Level
    _value: Tensor
    _batched: bool
    _tangent: Tensor | None
    _look: Any = None

    __torch_function__ = disabled

    device = property(lambda self: bottom(self)._layout.device)
    is_meta = property(lambda self: bottom(self).is_meta)
    is_cuda = property(lambda self: bottom(self).is_cuda)
    is_cpu = property(lambda self: bottom(self).is_cpu)
    is_sparse = property(lambda self: False)
    _bottom = property(bottom)

    def get_device(self) -> int:
        return bottom(self).get_device()

    def data_ptr(self) -> int:
        raise RuntimeError("Cannot access data pointer of Tensor that doesn't have storage")

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return self._level.shown(self)  # type: ignore[attr-defined]

    def __format__(self, spec: str) -> str:
        return repr(self)

    def __copy__(self) -> Any:
        return same(self)

    def __deepcopy__(self, memo: dict) -> Any:
        return self.clone().detach()

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a 0-d tensor")
        return self.shape[0]


Wrapped.__name__, Wrapped.__qualname__ = Tensor.__name__, Tensor.__qualname__  # in messages
Wrapped.__module__ = Tensor.__module__


def varies(t: Tensor) -> bool:
    """May samples of a vmap have different values?"""
    while type(t) is Wrapped:
        if t._batched:
            return True
        t = t._value
    return False


def wrap(level: Level, value: Any, skip: int = 0) -> Any:
    """A value as a tensor of a level, without its first `skip` dimensions."""
    own = value._layout
    layout = make_layout(own.sizes[skip:], own.strides[skip:], own.dtype, META)
    out: Any = make_tensor(layout, value._storage, value._offset, Wrapped)
    out._level, out._value, out._batched, out._tangent = level, value, bool(skip), None
    if level.known is not None:
        level.known.append(weakref.ref(out))
    return out


def rebind(t: Any, like: Any) -> Any:
    """Let a wrapped tensor stand for the value of another."""
    t._layout, t._storage, t._offset = like._layout, like._storage, like._offset
    t._value, t._batched, t._tangent = like._value, like._batched, like._tangent
    return t


def same(t: Any) -> Any:
    """Another tensor for the same value, without history."""
    out: Any = make_tensor(t._layout, t._storage, t._offset, Wrapped)
    out._level, out._value, out._batched, out._tangent = (
        t._level,
        t._value,
        t._batched,
        t._tangent,
    )
    if t._look is not None:
        out._look = t._look
    if t._level.known is not None:
        t._level.known.append(weakref.ref(out))
    return out


def unwrap(t: Any) -> None:
    """Let a tensor be its value from now on; what it is called in the graph stays."""
    value: Any = t._value
    t._layout = value._layout
    if not t._requires_grad:
        t._grad_fn, t._output_nr, t._requires_grad = (
            value._grad_fn,
            value._output_nr,
            value._requires_grad,
        )
    for name in ("_level", "_value", "_batched", "_tangent"):
        del t.__dict__[name]
    t.__class__ = type(value)
    t.__dict__.update(value.__dict__)


def is_at(t: Any, level: Level | None) -> bool:
    """Is it a tensor of this very level?"""
    return type(t) is Wrapped and t._level is level


def overwrite(target: Tensor, value: Tensor) -> None:
    """Write over a value from below; where nothing is written, it is replaced."""
    replace = getattr(getattr(target, "_level", None), "replace", None)
    recorded = target._requires_grad or value._requires_grad
    alike = value.dtype is target.dtype and value.stride() == target.stride()
    if replace is None or recorded or not alike:
        target.copy_(value)
    else:
        replace(target, value)


def mark_view(out: Any, input: Any, kind: str = "plain") -> None:
    """Tell autograd that a tensor is a view of another."""
    above = input._view
    if kind == "plain" and above is not None:
        kind = above.kind
    if kind == "plain" and not modes.grad:
        kind = "no_grad"
    base = input if above is None else above.base
    out._view = View(base, input._storage.version, kind, None)


def highest(values: Any) -> Level | None:
    """The highest level among arguments, also those in lists and tuples."""
    found: Level | None = None
    for value in values:
        kind = type(value)
        if kind is Wrapped:
            level = value._level
            if found is None or level.number > found.number:
                found = level
        elif kind is tuple or kind is list:
            level = highest(value)
            if level is not None and (found is None or level.number > found.number):
                found = level
    return found


def mapped(function: Any, value: Any) -> Any:
    """A function of all tensors in an argument, also in lists and tuples."""
    kind = type(value)
    if isinstance(value, Tensor):
        return function(value)
    if kind is list or kind is tuple:
        return kind([mapped(function, v) for v in value])
    return (
        rebuilt(value, [mapped(function, v) for v in value]) if isinstance(value, tuple) else value
    )


def rebuilt(like: tuple, items: list) -> Any:
    """Items as a tuple with the names of another."""
    kind: Any = type(like)
    return kind(*items) if hasattr(like, "_fields") else kind(items)
