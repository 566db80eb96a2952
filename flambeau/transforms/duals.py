"""Forward mode: rows on tensors that move.

A tensor of a dual level has a value (the primal) and a tangent, both from below. How a result moves
follows from the row: views and linear rows are applied to tangents; a pointwise derivative is
diagonal, so the tangent takes the place of `g`; some rows have a formula of their own (`jvp=`). The
rest use that a derivative `v(g)` is linear in `g`: the way forward is the way back of the way back.
"""

import contextlib
import textwrap
import threading
from collections.abc import Callable
from typing import Any

from flambeau import autograd
from flambeau._memory_format import contiguous_format, preserve_format
from flambeau._tensor import Tensor, View
from flambeau.autograd.grad_mode import modes
from flambeau.eager import creation
from flambeau.eager.row_history import ABSENT, arguments
from flambeau.transforms.batching import called
from flambeau.transforms.levels import (
    Level,
    Wrapped,
    below,
    depth,
    highest,
    is_at,
    mapped,
    overwrite,
    rebind,
    rebuilt,
    running,
    same,
    unwrap,
    wrap,
)


class DualLevel(Level):
    """One run of jvp, or a level of autograd.forward_ad."""

    def __init__(self) -> None:
        super().__init__()
        self.is_inferring = modes.inference  # then it is not for this level

    def lift(self, value: Tensor) -> Wrapped:
        return wrap(self, value)

    def dual(self, value: Tensor, tangent: Tensor | None) -> Wrapped:
        """A tensor of this level that moves."""
        out = wrap(self, value)
        out._tangent = tangent
        return out

    def parts(self, t: Tensor) -> tuple[Tensor, Tensor | None]:
        """(primal, tangent) of any tensor."""
        if running.followed is not None:
            running.followed((t,))
        return (t._value, t._tangent) if is_at(t, self) else (t, None)

    def plain(self, t: Any) -> Any:
        return t._value if is_at(t, self) else t

    def knows(self, op: Any) -> bool:
        return bool(op.linear) or op.jvp is not None

    def apply(self, op: Any, bound: dict) -> Any:
        primals = {n: mapped(self.plain, v) for n, v in bound.items()}
        tangents = {
            p.name: _tangents(self, bound[p.name])
            for p in op.params
            if p.kind in ("tensor", "optional", "tensors")
        }
        result = called(op, primals)
        outs = list(result) if isinstance(result, (tuple, list)) else [result]
        tangents = {n: t for n, t in tangents.items() if t is not None}
        if not tangents or not modes_forward.on or (modes.inference and not self.is_inferring):
            return mapped(self.lift, result)
        if not any(_can_move(o) for o in outs):
            return mapped(self.lift, result)
        moved = tangents_of(op, primals, tangents, outs)
        wrapped = [
            self.dual(o, t if _can_move(o) else None) if isinstance(o, Tensor) else o
            for o, t in zip(outs, moved, strict=True)
        ]
        if isinstance(result, Tensor):
            return wrapped[0]
        return rebuilt(result, wrapped)

    # -- what tensors of this level do besides rows ------------------------------------------------
    def write(self, target: Any, result: Tensor, name: str) -> None:
        value, tangent = self.parts(result)
        base = target._view.base if target._view is not None else target
        if not is_at(target, self):
            if tangent is None:
                target.copy_(value)
                return
            become(self, target)
        with below(self):
            self._rise(target, base, tangent)
            overwrite(target._value, value)
            if not modes_forward.on:
                return
            if target._tangent is not None:
                target._tangent.copy_(_zeros(target._tangent) if tangent is None else tangent)
            elif tangent is not None:
                target._tangent = _laid_out(tangent, target._value)

    def _rise(self, target, base, tangent):
        """Let a tangent be of the level of those that are written to it."""
        above = highest([tangent])
        if target._tangent is None or above is None:
            return
        own = highest([target._tangent])
        if own is not None and own.number >= above.number:
            return
        base._tangent = above.promoted(base._tangent)
        if base is not target:
            target._tangent = _window(base._tangent, target, base)

    def resize(self, target: Any, size: tuple, memory_format: Any) -> None:
        """Give a tensor that does not move another shape in place."""
        if target._tangent is not None:
            raise RuntimeError("cannot resize variables that has a forward grad")
        rebind(target, self.lift(target._value.resize_(size, memory_format=memory_format)))

    def promoted(self, t: Tensor) -> Wrapped:
        """A copy of a tensor from below that may be written with tensors of this level."""
        value = t.clone()
        return self.dual(value, _zeros(value))

    def detached(self, t: Wrapped) -> Wrapped:
        return wrap(self, t._value.detach())

    def made(self, t: Wrapped, make: Callable) -> Wrapped:
        value = make(t._value)
        return self.dual(value, _zeros(value) if value.dtype.category >= 2 else None)

    def made_new(self, t: Wrapped, size: tuple, make: Callable) -> Wrapped:
        value = make(t._value, size)
        return self.dual(value, _zeros(value) if value.dtype.category >= 2 else None)

    def number_of(self, t: Any, use: str) -> Any:
        value = self.plain(t)
        return value.detach() if use == "data" else value

    def shown(self, t: Wrapped) -> str:
        if t._tangent is None:
            return f"{t._value!r}"
        inside = textwrap.indent(repr(t._value), "    ")
        return f"GradTrackingTensor(lvl={depth(self)}, value=\n{inside}\n)"


def _can_move(out):
    """Integers and truths do not."""
    return isinstance(out, Tensor) and out._layout.dtype.category >= 2


class ForwardLevel(DualLevel):
    """The level of autograd.forward_ad: hides nothing, and its tensors outlive it as plain ones."""

    def __init__(self) -> None:
        super().__init__()
        self.hides, self.known, self.is_inferring = False, [], False

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        for known in self.known or ():
            t = known()
            if type(t) is Wrapped:
                unwrap(t)
        self.known = []

    def shown(self, t: Wrapped) -> str:
        shown = repr(t._value)
        return shown if t._tangent is None else f"{shown[:-1]}, tangent={t._tangent!r})"


class _Forward(threading.local):
    """Does anything move? autograd.forward_ad can switch it off."""

    on = True


modes_forward = _Forward()


@contextlib.contextmanager
def moving_on() -> Any:
    """Things move, though forward mode may be off outside."""
    on, modes_forward.on = modes_forward.on, True
    try:
        yield
    finally:
        modes_forward.on = on


def checked_tangent(primal: Tensor, tangent: Tensor) -> Tensor:
    """A tangent that fits its primal."""
    for name, t in (("primal", primal), ("tangent", tangent)):
        if t.dtype.category < 2:
            raise ValueError(f"Expected {name} to be floating point or complex, but got: {t.dtype}")
    if primal.shape != tangent.shape:
        raise RuntimeError(
            "Trying to set a forward gradient that has a different size than that of the original "
            f"Tensor, this is not supported. Tensor is of size {list(primal.shape)} while the "
            f"given forward gradient is of size {list(tangent.shape)}."
        )
    return tangent if tangent.dtype is primal.dtype else tangent.to(primal.dtype)


def become(level: DualLevel, t: Any) -> None:
    """A plain tensor that a write makes move: from now on it is one of the level.

    What it is a view of moves with it.
    """
    base, tangent = t._view.base if t._view is not None else None, None
    if base is not None:
        if not is_at(base, level):
            become(level, base)
        if base._tangent is None:
            own = base._layout
            base._tangent = _zeros(base._value).as_strided(own.sizes, own.strides)
        tangent = _window(base._tangent, t, base)
    value: Any = same(t) if type(t) is Wrapped else t._make_subclass(type(t), t)
    value._grad_fn, value._output_nr = t._grad_fn, t._output_nr
    value._requires_grad = t._requires_grad
    if base is not None:
        seen = t._view
        value._view = View(base._value, seen.version, seen.kind, None)
    wrapped = level.dual(value, tangent)
    t.__class__ = Wrapped
    t._level, running.followed = level, _follow
    rebind(t, wrapped)
    t._grad_fn, t._output_nr, t._requires_grad, t._view = None, 0, False, None


def _follow(values):
    """Let views of tensors that have become of a level become so, too."""
    for t in values:
        if isinstance(t, Tensor):
            base: Any = t._view.base if t._view is not None else None
            level = base._level if type(base) is Wrapped else None
            if not isinstance(level, DualLevel) or not level.is_live or base._tangent is None:
                continue
            if type(t) is not Wrapped or t._level.number < level.number:
                become(level, t)
        elif type(t) in (list, tuple):
            _follow(t)


def _window(tangent, view, base):
    """The part of a base's tangent that belongs to a view."""
    start = (view._offset - base._offset) // view._layout.itemsize + tangent.storage_offset()
    return tangent.as_strided(view._layout.sizes, view._layout.strides, start)


def _zeros(like):
    return creation.zeros_like(like)


def _laid_out(tangent, value):
    """A copy with the strides of a value, for its views read their part of both by these."""
    if highest([tangent]) is not highest([value]):
        form = contiguous_format if value.is_contiguous() else preserve_format
        return tangent.clone(memory_format=form)
    return _zeros(value.detach()).copy_(tangent)


def _tangents(level, value):
    if isinstance(value, Tensor):
        return value._tangent if is_at(value, level) else None
    if type(value) in (list, tuple):
        found = [_tangents(level, v) for v in value]
        return found if any(t is not None for t in found) else None
    return None


# -- how results move ------------------------------------------------------------------------------


def tangents_of(op: Any, primals: dict, tangents: dict, outs: list) -> list:
    """A tangent, or None, for each result of a row."""
    if op.jvp is not None:
        return _many(op.jvp.function(*_jvp_arguments(op, primals, tangents, outs)), outs)
    if op.kind == "view":
        first = next(iter(primals))
        if first not in tangents:
            return [None] * len(outs)
        found = called(op, {**primals, first: tangents[first]})
        return _many(found, outs)
    groups = linear_groups(op)
    if groups:
        return _many(_linear(op, groups, primals, tangents, outs), outs)
    if not op.is_differentiable:
        return [None] * len(outs)
    if op.kind == "pointwise" and len(outs) == 1:
        if not _is_complex(tangents, outs):
            return [_diagonal(op, primals, tangents, outs[0])]
        if outs[0].dtype.is_complex and op.name not in _NOT_HOLOMORPHIC:
            turned = {n: t.conj() for n, t in tangents.items()}
            found = _diagonal(op, primals, turned, outs[0])
            return [None if found is None else found.conj()]
    return _back_of_back(op, primals, tangents, outs)


# A derivative of complex numbers multiplies g by the conjugate of the slope; conjugated around,
# that is the way forward. These have no slope that is one number.
_NOT_HOLOMORPHIC = frozenset(("sgn", "conj_kernel", "complex", "polar"))


def _jvp_arguments(op, primals, tangents, outs):
    """What a jvp= is called with."""
    find, found = _lookup(primals, outs), []
    for name in op.jvp.names:
        if name == "t":
            found.append(_part(next(iter(primals)), primals, tangents))
        elif name.endswith("_t"):
            found.append(tangents.get(name.removesuffix("_t")))
        else:
            found.append(find(name))
    return found


def _many(found, outs):
    found = list(found) if isinstance(found, (tuple, list)) else [found]
    return found + [None] * (len(outs) - len(found))


def _is_complex(tangents, outs):
    flat = [t for v in tangents.values() for t in (v if type(v) is list else [v])]
    return any(t is not None and t.dtype.is_complex for t in [*flat, *outs])


def linear_groups(op: Any) -> list[tuple[str, ...]]:
    """Sets of parameters in which a row is linear together, while all others are fixed."""
    if op.linear is True:
        return [tuple(op.grads)]
    return [tuple(g.split()) for g in op.linear.split(",")] if op.linear else []


def _linear(op, groups, primals, tangents, outs):
    total, used = None, set()
    for group in groups:
        fresh = [n for n in group if n in tangents and n not in used]
        if not fresh:
            continue
        changed = {n: _part(n, primals, tangents if n in fresh else {}) for n in group}
        used |= set(fresh)
        found = called(op, {**primals, **changed})
        found = found[0] if isinstance(found, (tuple, list)) else found
        total = found if total is None else total + found
    return total


def _part(name, primals, tangents):
    """A tangent, or zeros where there is none."""
    value, tangent = primals[name], tangents.get(name)
    if type(value) in (list, tuple):
        tangent = tangent or [None] * len(value)
        return [_zeros(v) if t is None else t for v, t in zip(value, tangent)]
    if tangent is not None:
        return tangent
    return _zeros(value) if isinstance(value, Tensor) else None if value is None else value * 0


def _diagonal(op, primals, tangents, out):
    total = None
    layouts = {n: v._layout for n, v in primals.items() if isinstance(v, Tensor)}
    for name, tangent in tangents.items():
        formula = op.grads.get(name)
        if formula is None:
            continue
        unknown = getattr(formula.function, "without_derivative", None)
        if unknown is not None:
            raise NotImplementedError(
                f"Trying to use forward AD with {unknown} that does not support it because it has "
                "not been implemented yet."
            )
        given = arguments(formula, [tangent], [tangent], _lookup(primals, [out]), layouts, (True,))
        found = formula.function(*given)
        if not isinstance(found, Tensor):
            found = tangent.new_full(tangent.shape, found)
        if op.options.get("family") == "total":
            found = found.sum()
        total = found if total is None else total + found
    return None if total is None else shaped_as(total, out)


def shaped_as(tangent: Tensor, out: Tensor) -> Tensor:
    """A tangent in the shape and dtype of a result."""
    if tangent.dtype is not out.dtype:
        tangent = tangent.to(out.dtype)
    return tangent if tangent.shape == out.shape else tangent.expand(out.shape)


def _lookup(primals, outs):
    def find(name):
        if name in primals:
            return primals[name]
        if name == "out":
            return outs[0]
        if name[:3] == "out" and name[3:].isdigit():
            return outs[int(name[3:])]
        if name == "origin":
            return primals["input"].storage_offset()
        return ABSENT

    return find


def _back_of_back(op, primals, tangents, outs):
    """The derivative v(g) is linear: its own derivative with respect to g, times the tangent."""
    recorded = modes.grad
    smooth = len(outs) if op.smooth is None else op.smooth
    places = [
        k for k, o in enumerate(outs[:smooth]) if isinstance(o, Tensor) and o.dtype.category >= 2
    ]
    with autograd.inference_mode(False):  # records, wherever we are
        seeds = [_zeros(outs[k].detach()).requires_grad_() for k in places]
        grads: list = [None] * len(outs)
        for k, seed in zip(places, seeds):
            grads[k] = seed
        backs, weights = _way_back(op, primals, tangents, outs, grads)
        pairs = [
            (b, w)
            for b, w in zip(backs, weights)
            if b is not None and w is not None and b.requires_grad
        ]
        if not pairs:
            return [None] * len(outs)
        found = autograd.grad(
            [b for b, _ in pairs],
            seeds,
            [shaped_as(w, b) for b, w in pairs],
            create_graph=recorded,
            allow_unused=True,
        )
    moved: list = [None] * len(outs)
    for k, t in zip(places, found):
        moved[k] = t
    return moved


def _way_back(op, primals, tangents, outs, grads):
    """(gradients of arguments, their tangents), for those that move."""
    layouts: dict = {}
    order = []
    for p in op.params:
        value = primals[p.name]
        if p.kind in ("tensor", "optional"):
            layouts[p.name] = value._layout if isinstance(value, Tensor) else None
            order.append((p.name, None))
        elif p.kind == "tensors":
            layouts[p.name] = tuple([t._layout for t in value])
            order += [(p.name, k) for k in range(len(value))]
    filled = [g if g is not None else o for g, o in zip(grads, outs)]
    find = _lookup(primals, outs)

    def tangent(name, k):
        found = tangents.get(name)
        return found if k is None or found is None else found[k]

    weights = [tangent(*place) for place in order]
    if op.joint_grad is not None:
        needs = tuple(w is not None for w in weights)
        given = arguments(op.joint_grad, filled, grads, find, layouts, needs)
        backs = op.joint_grad.function(*given)
        backs = list(backs) if isinstance(backs, (tuple, list)) else [backs]
        flat: list = []
        for b in backs:
            flat += b if isinstance(b, (tuple, list)) else [b]
        return _fit_all(flat, order, layouts), weights
    backs = []
    done = {}
    for (name, k), weight in zip(order, weights):
        formula = op.grads.get(name)
        if formula is None or weight is None:
            backs.append(None)
            continue
        if name not in done:
            given = arguments(formula, filled, grads, find, layouts, (True,))
            done[name] = formula.function(*given)
        backs.append(done[name] if k is None else done[name][k])
    return _fit_all(backs, order, layouts), weights


def _fit_all(backs, order, layouts):
    found = []
    for b, (name, k) in zip(backs, order):
        layout = layouts[name] if k is None or layouts[name] is None else layouts[name][k]
        if isinstance(b, Tensor) and b._layout.sizes != layout.sizes:
            b = b.sum_to_size(layout.shape)
        if isinstance(b, Tensor) and b.dtype.is_complex and not layout.dtype.is_complex:
            b = b.real
        found.append(b if isinstance(b, Tensor) else None)
    return found
