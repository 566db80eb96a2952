"""`autograd.Function` inside of transforms: its own rules, or ones that follow from it.

For vmap, a function has a `vmap` staticmethod, or says generate_vmap_rule: then forward and
backward run with batched tensors, as one function below. For jvp it has a `jvp` staticmethod.
"""

from typing import Any

from flambeau._tensor import Tensor
from flambeau.autograd.function import Function, FunctionNode, run
from flambeau.autograd.grad_mode import no_grad
from flambeau.autograd.node import Same, edge_of, init_node
from flambeau.transforms.batching import BatchLevel
from flambeau.transforms.duals import DualLevel, checked_tangent, modes_forward
from flambeau.transforms.handling import rule
from flambeau.transforms.levels import Level, Wrapped, is_at, mapped, same, settled

_MORE = "For more details, please see https://pytorch.org/docs/main/notes/extending.func.html"


class VmapInfo:
    """What a `vmap` staticmethod is told."""

    def __init__(self, batch_size: int, randomness: str) -> None:
        self.batch_size, self.randomness = batch_size, randomness

    def __repr__(self) -> str:
        return f"VmapInfo(batch_size={self.batch_size}, randomness={self.randomness!r})"


@rule("Function.apply")
def _apply(level, place, args, kwargs):
    cls, *given = args
    if cls.setup_context is Function.setup_context and isinstance(level, BatchLevel):
        raise RuntimeError(
            "In order to use an autograd.Function with functorch transforms (vmap, grad, jvp, "
            "jacrev, ...), it must override the setup_context staticmethod. " + _MORE
        )
    if not isinstance(level, (BatchLevel, DualLevel)):  # sees the calls that forward makes
        return place.copy(*args, **kwargs)
    if isinstance(level, BatchLevel):
        named = {n: level.plain(v) for n, v in kwargs.items() if isinstance(v, Tensor)}
        if named:
            raise NotImplementedError(
                "Run vmap on autograd.Function with kwarg-only Tensor args. Please do not pass "
                f"kwarg-only Tensors to autograd.Function. Got: {named}"
            )
        known = _batched(level, cls)
    elif _is_alone(level, given):
        return _moving(level, cls, given, kwargs)
    else:
        known = _dual(level, cls)
    if not any(is_at(a, level) and a._requires_grad for a in given):
        return known(*given)
    # recorded at this level too: the function, whose forward is what we have just found
    outer = type(cls.__name__, (_Recorded,), {"inner": cls, "known": staticmethod(known)})
    with settled():  # forward of functions runs without recording
        return place.copy(outer, *given, **kwargs)


class _Recorded(Function):
    """A function at a level, on the tape of its tensors."""

    inner: Any = None
    known: Any = None

    @classmethod
    def forward(cls, ctx, *args):
        ctx.level_args = args
        found = cls.known(*[same(a) if hasattr(a, "_level") else a for a in args])
        outs = found if isinstance(found, tuple) else (found,)
        with no_grad():
            if cls.inner.setup_context is not Function.setup_context:
                cls.inner.setup_context(ctx, args, found)
            else:
                cls.inner.forward(ctx, *args)
        del outs
        return found

    @classmethod
    def backward(cls, ctx, *grads):
        return cls.inner.backward(ctx, *grads)


# -- vmap ------------------------------------------------------------------------------------------


def _batched(level, cls):
    own = cls.__dict__.get("vmap") or getattr(cls, "vmap", None)
    overridden = own is not None and own is not getattr(Function, "vmap", None)
    if cls.generate_vmap_rule and overridden:
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it has both generate_vmap_rule=True and "
            "an overridden vmap staticmethod. Please set generate_vmap_rule=False or delete the "
            f"overridden vmap staticmethod to avoid ambiguity. {_MORE}"
        )
    if overridden:
        return lambda *args: _by_rule(level, cls, args)
    if not cls.generate_vmap_rule:
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it does not have vmap support. Please "
            "override and implement the vmap staticmethod or set generate_vmap_rule=True. " + _MORE
        )
    return lambda *args: _generated(level, cls, args)


def _by_rule(level, cls, args):
    dims = tuple(_dims(level, a) for a in args)
    info = VmapInfo(level.size, level.randomness)
    found = cls.vmap(info, dims, *mapped(level.plain, list(args)))
    if not isinstance(found, tuple) or len(found) != 2:
        got = f"{len(found)} returns" if isinstance(found, tuple) else f"a {type(found)}"
        raise RuntimeError(
            "Expected the vmap staticmethod to have two returns, an output and out_dims with "
            f"pytree structure compatible with the output. Got {got} instead"
        )
    outs, out_dims = found
    several = isinstance(outs, (tuple, list))
    if not isinstance(out_dims, (tuple, list)):
        places = [out_dims] * (len(outs) if several else 1)
    elif type(out_dims) is type(outs) and len(out_dims) == len(outs):
        places = list(out_dims)
    else:
        raise RuntimeError(
            "The autograd.Function's vmap staticmethod returned an incompatible (output, out_dims) "
            f"tuple. Expected out_dims={out_dims} to be compatible with the structure of `output`. "
            + _MORE
        )
    if not several:
        return _placed(level, outs, places[0])
    return tuple(_placed(level, o, d) for o, d in zip(outs, places))


def _dims(level, value):
    """Where an argument has its samples, in lists and tuples as they are."""
    if type(value) in (list, tuple):
        return type(value)(_dims(level, v) for v in value)
    return 0 if level.is_batched(value) else None


def _placed(level, out, dim):
    if not isinstance(out, Tensor) or dim is None:
        return out
    return level.batched(out.movedim(dim, 0) if dim else out)


class _Lifted(Function):
    """forward and backward of a function on batched tensors, as a function of their values."""

    cls: Any = None
    level: Any = None
    batched: tuple = ()

    @classmethod
    def forward(cls, ctx, *values):
        level = cls.level
        inside = tuple(
            level.batched(v) if b else v for v, b in zip(values, cls.batched, strict=True)
        )
        inner = FunctionNode()
        result = cls.cls.forward(*inside)
        cls.cls.setup_context(inner, inside, result)
        outs = result if isinstance(result, tuple) else (result,)
        ctx.inner, ctx.many = inner, isinstance(result, tuple)
        ctx.batches = tuple(level.is_batched(o) for o in outs)
        _keep(ctx, inner, level)
        found = tuple(level.plain(o) for o in outs)
        marked = {id(t) for t in inner.non_differentiable}
        ctx.mark_non_differentiable(*[f for f, o in zip(found, outs) if id(o) in marked])
        cls.shape = ctx.batches, ctx.many
        return found

    @classmethod
    def backward(cls, ctx, *grads):
        level, inner = cls.level, ctx.inner
        kept = iter(ctx.saved_tensors)
        inner.saved = tuple(
            None if b is None else level.batched(next(kept)) if b else next(kept) for b in ctx.kept
        )
        inner.needs_input_grad = ctx.needs_input_grad
        with _again(level):
            inside = [
                level.batched(g) if b and g is not None else g for g, b in zip(grads, ctx.batches)
            ]
            found = cls.cls.backward(inner, *inside)
        found = found if isinstance(found, tuple) else (found,)
        return tuple(_to_value(level, g, b) for g, b in zip(found, cls.batched))


def _keep(ctx, inner, level):
    """What a function saves, as values."""
    ctx.kept = tuple(None if t is None else level.is_batched(t) for t in inner.to_save)
    ctx.save_for_backward(*[level.plain(t) for t in inner.to_save if t is not None])
    inner.to_save = ()


def _to_value(level, grad, batched):
    if grad is None:
        return None
    if not batched:  # the same argument for all samples
        return level.plain(grad).sum(0) if level.is_batched(grad) else level.plain(grad)
    return level.front(grad)


class _again:
    """A level that runs once more, for a backward pass."""

    def __init__(self, level: Level) -> None:
        self.level, self.was_live = level, level.is_live

    def __enter__(self) -> None:
        if not self.was_live:
            self.level.__enter__()

    def __exit__(self, *error: Any) -> None:
        if not self.was_live:
            self.level.__exit__()


def _generated(level, cls, args):
    facts = {
        "cls": cls,
        "level": level,
        "batched": tuple(level.is_batched(a) for a in args),
        "generate_vmap_rule": False,
    }
    lifted = type(cls.__name__, (_Lifted,), facts)
    found = lifted.apply(*mapped(level.plain, list(args)))
    batches, many = lifted.shape
    outs = tuple(
        level.batched(o) if b else level.lift(o) if isinstance(o, Tensor) else o
        for o, b in zip(found, batches)
    )
    return outs if many else outs[0]


# -- jvp -------------------------------------------------------------------------------------------


def _is_alone(level, args):
    """Does nobody below this level want to know of the function?"""
    values = [level.plain(a) for a in args if isinstance(a, Tensor)]
    if any(type(v) is Wrapped for v in values):
        return False
    return not level.hides or not any(v._requires_grad for v in values)


def _moving(level, cls, args, kwargs):
    """The function on tensors of the level, none of which moves meanwhile, and then its `jvp`."""
    tangents = [a._tangent if is_at(a, level) else None for a in args]
    on, modes_forward.on = modes_forward.on, False
    try:
        node, found = run(cls, args, kwargs)
        outs = list(found) if isinstance(found, tuple) else [found]
        if on and any(t is not None for t in tangents):
            outs = _moved(level, cls, node, args, tangents, outs)
    finally:
        modes_forward.on = on
    if not level.hides:
        for o in outs:
            if is_at(o, level) and o._requires_grad:
                _lead_to(o._value, edge_of(o))
    return tuple(outs) if isinstance(found, tuple) else outs[0]


def _moved(level, cls, node, args, tangents, outs):
    """The same outputs as they move."""
    unwritten = {id(t): +t._storage.version for t in tangents if t is not None}
    moved = [level.plain(t) for t in _pushed(cls, node, args, tangents, len(outs))]
    for a, t in zip(args, tangents):
        dirty = t is not None and any(a is d for d in node.dirty_tensors)
        if dirty and t._storage.version == unwritten[id(t)]:
            raise RuntimeError(_WAYS["inplace"])
    return [
        _with_tangent(level, node, args, tangents, k, o, t)
        for k, (o, t) in enumerate(zip(outs, moved, strict=True))
    ]


def _lead_to(value, edge):
    """Let a value have the history of the tensor that stands for it."""
    value._grad_fn, value._output_nr = init_node(object.__new__(Same), (edge,), ()), 0
    value._requires_grad = True


_WAYS = {
    "inplace": "An inplace custom Function is not modifying the forward mode gradients inplace. If "
    "the forward is modifying an input inplace, then the jvp function must modify the "
    "corresponding gradient inplace.",
    "view": "A custom Function's forward is returning a view (or an input as-is) but the jvp is "
    "not returning a view.",
    "input": "A custom Function is returning a view but the jvp is not returning a view of the "
    "given grad input.",
    "base": "A custom Function is returning a view but the jvp is not returning a view of the same "
    "base as the given grad input.",
    "fixed": "Function's jvp returned a gradient at position {k}, but  the corresponding forward "
    "output is not a differentiable Tensor.You should return None at that position instead.",
}


def _with_tangent(level, node, args, tangents, k, out, tangent):
    """An output that moves as `jvp` says, if that is what forward did."""
    marked = any(out is t for t in node.non_differentiable)
    if not isinstance(out, Tensor) or marked or out._layout.dtype.category < 2:
        if tangent is not None and isinstance(out, Tensor):
            raise RuntimeError(_WAYS["fixed"].format(k=k))
        return out
    if tangent is None:
        return out
    if out._view is not None and not any(out is t for t in node.dirty_tensors):
        _check_view(out, tangent, args, tangents)
    if not is_at(out, level):
        fresh: Any = level.lift(out.detach())
        fresh._grad_fn, fresh._output_nr = out._grad_fn, out._output_nr
        fresh._requires_grad, out = out._requires_grad, fresh
    out._tangent = checked_tangent(out, tangent)
    return out


def _check_view(out, tangent, args, tangents):
    """What is a view of an argument has to move as a view of its tangent."""
    base = out._view.base
    for a, given in zip(args, tangents):
        if given is None or base is not (a if a._view is None else a._view.base):
            continue
        if tangent._view is None:
            raise RuntimeError(_WAYS["view"])
        if a._view is None:
            if tangent._view.base is not (given if given._view is None else given._view.base):
                raise RuntimeError(_WAYS["input"])
        elif given._view is None or tangent._view.base is not given._view.base:
            raise RuntimeError(_WAYS["base"])
        return


def _dual(level: DualLevel, cls: Any) -> Any:
    """The function on values, and its `jvp` on tangents; both are seen by levels below."""

    def known(*args: Any) -> Any:
        primals = [level.plain(a) for a in args]
        found = cls.apply(*primals)
        tangents = [a._tangent if is_at(a, level) else None for a in args]
        if all(t is None for t in tangents):
            return mapped(level.lift, found)
        ctx = cls._backward_cls()
        ctx.needs_input_grad = tuple(t is not None for t in tangents)
        with no_grad():
            if cls.setup_context is not Function.setup_context:
                cls.setup_context(ctx, tuple(primals), found)
            else:
                cls.forward(ctx, *primals)
        outs = found if isinstance(found, tuple) else (found,)
        moved = _pushed(cls, ctx, primals, tangents, len(outs))
        wrapped = tuple(
            level.dual(o, t) if isinstance(o, Tensor) else o for o, t in zip(outs, moved)
        )
        return wrapped if isinstance(found, tuple) else wrapped[0]

    return known


def _pushed(cls, ctx, args, tangents, count):
    """What the `jvp` staticmethod says of tangents; it sees what was saved for it."""
    if ctx.materialize_grads:
        tangents = [
            t.new_zeros(a.shape, dtype=a.dtype)
            if g is None and isinstance(a, Tensor) and a._layout.dtype.category >= 2
            else g
            for a, g in zip(args, tangents)
            for t in [next(t for t in tangents if t is not None)]
        ]
    kept, ctx.saved = ctx.saved, getattr(ctx, "saved_for_forward", ())
    try:
        moved = cls.jvp(ctx, *tangents)
    finally:
        ctx.saved = kept
    moved = moved if isinstance(moved, tuple) else (moved,)
    if len(moved) != count:
        raise RuntimeError(
            "Function's jvp returned an invalid number of forward gradients (expected "
            f"{count} but got {len(moved)})"
        )
    for k, t in enumerate(moved):
        if t is not None and not isinstance(t, Tensor):
            raise RuntimeError(
                f"expected Variable or None (got {type(t).__name__}) for grad output {k}."
            )
    return moved
