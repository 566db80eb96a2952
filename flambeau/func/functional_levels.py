"""A level without writes: what a function does in place becomes ops that give new values.

A tensor of this level stands for a value that is never written. What looks at the same memory in
the program shares a Memory here: the value of the whole, and how often it was replaced. A write
computes a new value, undoes the views that lead to the tensor (scattering.py) and replaces the
value of the whole; other tensors that look at it are made again when they are next used.

Ops are seen as calls of aten, and so are those that the level makes: whoever stands below, a
recorder (fx/experimental) or a mode of the program, sees these and nothing else.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import flambeau
from flambeau import interposing
from flambeau._decomp.composites import names as composite_names
from flambeau._decomp.rewriting import REWRITES
from flambeau._decomp.subscripting import assign, take
from flambeau._tensor import Tensor
from flambeau.aten.calls import as_op, named_call
from flambeau.aten.overloads import OpOverload, current_recorder, namespace, recorded_by
from flambeau.aten.schemas import schemas_of
from flambeau.autograd.grad_mode import modes
from flambeau.errors import cannot_cast
from flambeau.func.scattering import UNDO, View
from flambeau.interposing.dispatching import _WHOLE, _Below, _Entered
from flambeau.library import CustomOpDef
from flambeau.ops.table import MISSING, public
from flambeau.storage import twin
from flambeau.transforms import levels
from flambeau.transforms.levels import Level, Wrapped, is_at, mapped, rebuilt
from flambeau.utils import _pytree as pytree

_QUESTIONS = frozenset("shape.__get__ size numel nelement __len__ stride storage_offset".split())
_READERS = frozenset("item __bool__ is_nonzero __int__ __float__ __index__ __complex__".split())
_SEEN_WHOLE = frozenset("__getitem__ __setitem__".split())
# functions that make a tensor of numbers: does PyTorch detach it?
_LIFTED = {
    "tensor": True,
    "new_tensor": True,
    "as_tensor": False,
    "asarray": False,
    "from_numpy": False,
}
_GRAPH_OPS = frozenset("branches loops_while loops_over".split())
# methods that are ops of aten
_METHODS = {
    "detach": "detach.default",
    "torch.detach": "detach.default",
    "detach_": "detach_.default",
    "zero_": "zero_.default",
}
# ops that let a tensor look at its memory in another way
_TURNS = frozenset(
    "t_ transpose_ swapaxes_ swapdims_ squeeze_ unsqueeze_ as_strided_ detach_".split()
)
_ALIASES = {"swapaxes": "transpose", "swapdims": "transpose"}
_NOT_OURS = (
    "mutating a non-functional tensor with a functional tensor is not allowed. Please ensure that "
    "all of your inputs are wrapped inside of a functionalize() call."
)


class Memory:
    """What tensors look at together: its value now, and how often it was replaced."""

    __slots__ = ("storage", "value", "version")

    def __init__(self, value: Tensor) -> None:
        self.value, self.version = value, 0
        self.storage = twin(value._storage)  # says who shares it, counts writes for derivatives


class Look(NamedTuple):
    """Where a tensor looks: through which views, and which version of the memory it stands for."""

    memory: Memory
    chain: tuple[View, ...]
    version: int


class FunctionalLevel(Level):
    """One run of a function without writes.

    decompositions: ops that are taken apart before their writes are looked for.
    copies: are views made by ops that give new memory?
    """

    hides = False

    def __init__(
        self, decompositions: Mapping[Any, Callable] | None = None, copies: bool = False
    ) -> None:
        super().__init__()
        self.decompositions, self.copies = dict(decompositions or {}), copies
        self.handler = _Functional(self)
        self.composites = composite_names()

    def __enter__(self) -> "FunctionalLevel":
        super().__enter__()
        interposing.push(self.handler)
        self.under = current_recorder()
        self._told = recorded_by(self)
        self._told.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._told.__exit__()
        interposing.pop(self.handler)
        super().__exit__(*error)

    # -- tensors -----------------------------------------------------------------------------
    def lift(self, value: Tensor) -> Wrapped:
        """A tensor that stands for a value, with a memory of its own."""
        return self._looking(Look(Memory(value), (), 0), value)

    def _looking(self, look, value):
        out = levels.wrap(self, value)
        out._storage, out._look = look.memory.storage, look
        return out

    def before_write(self, t: Any) -> Any:
        return self.lift(self.value(t))

    def value(self, t: Any) -> Any:
        """What a tensor stands for now; other things as they are."""
        if not is_at(t, self):
            return t
        memory, chain, version = t._look
        if version < memory.version:
            value = memory.value
            for view in chain:
                value = self._viewed(view, value)
            self._stand(t, self._looking(Look(memory, chain, memory.version), value))
        return t._value

    def values(self, tree: Any) -> Any:
        return pytree.tree_map(self.value, tree)

    def _stand(self, t, other):
        """Let a tensor look where another does."""
        levels.rebind(t, other)
        t._look = other._look

    def lifted(self, result: Any) -> Any:
        """Values of a call as tensors of the level."""
        return pytree.tree_map(self._lifted, result)

    def replace(self, t: Any, value: Tensor) -> None:
        """A tensor has a new value; so has what it looks at."""
        value = self.value(value)
        self.value(t)
        memory, chain, _ = t._look
        parents = [memory.value]
        for view in chain[:-1]:
            parents.append(self._viewed(view, parents[-1]))
        for view, parent in zip(reversed(chain), reversed(parents)):
            value = UNDO[view.name](self.do, view, parent, value)
        memory.value = value
        memory.version += 1
        memory.storage.version += 1
        self.value(t)

    def write(self, t: Any, value: Any, name: str) -> None:
        """The same, for writes into tensors with history."""
        self.replace(t, value)

    def shown(self, t: Any) -> str:
        return f"FunctionalTensor(lvl={levels.depth(self)}, value=\\\n{self.value(t)!r})"

    # -- calls -------------------------------------------------------------------------------
    def below(self, target: OpOverload, args: Any, kwargs: Any) -> Any:
        """An op on values."""
        under, level = self.under, levels.highest((*args, *kwargs.values()))
        with self.off():
            if under is not None and (level is None or level is under):
                recorders = [under, *under.agains] if hasattr(under, "agains") else []
                with interposing.switched_off(*recorders):
                    return under.call(target, *args, **kwargs)
            told = None if level is not None else _mode()
            short = target.overloadpacket.__name__
            if told is None or (short in self.composites and short != "lift_fresh"):
                return target.function()(*args, **kwargs)
            with interposing.switched_off(told):
                return target.tell(told.mode, target.function(), (), tuple(args), kwargs)

    def off(self) -> "_Off":
        """A context in which nothing is seen by this level, but by whoever is below."""
        return _Off(self)

    def do(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """An op on values by its name, that of a copy where views are none."""
        target = _overload(name)
        if target in self.decompositions:
            return self.value(self.call(target, *map(self._lifted, args), **kwargs))
        return self._viewed(View(target, tuple(args[1:]), kwargs), args[0])

    def _viewed(self, view, value):
        found = self.below(self._kind(view.target), (value, *view.args), view.kwargs)
        return found if view.part is None else found[view.part]

    def _kind(self, target):
        """The op that a view is made with."""
        if not self.copies or not target._schema.is_view:
            return target
        copy = namespace("aten").packet(target.overloadpacket.__name__ + "_copy")
        known = schemas_of(copy.__name__)
        return getattr(copy, target._overloadname) if target._overloadname in known else target

    def call(self, name: str | OpOverload, *args: Any, **kwargs: Any) -> Any:
        """An op of aten."""
        target = _overload(name) if isinstance(name, str) else name
        if target in self.decompositions and self._is_mine(args, kwargs):
            return self.decompositions[target](*args, **kwargs)
        return self.call_whole(target, *args, **kwargs)

    def call_whole(self, target: OpOverload, *args: Any, **kwargs: Any) -> Any:
        """The same without taking it apart."""
        if not self._is_mine(args, kwargs):
            return self.below(target, args, kwargs)
        if target.namespace != "aten":
            return self.foreign(target, args, kwargs)
        short, schema = target.overloadpacket.__name__, target._schema
        if schema.is_mutable:
            return self._written(short, target, args, kwargs)
        if schema.is_view or short in UNDO:
            return self._view(target, args, kwargs)
        given, named = self.values((args, kwargs))
        return self.lifted(self.below(target, given, named))

    def call_named(self, short: str, values: dict[str, Any]) -> Any:
        """The same for arguments by their names here."""
        found = as_op(short, values)
        if found is None:
            raise TypeError(f"aten::{short} does not take {list(values)}")
        return self.call(f"{short}.{found[1]}", *found[2], **found[3])

    def foreign(self, function: Callable, args: tuple, kwargs: dict) -> Any:
        """A function that is no op of aten; one that writes does so on copies."""
        if getattr(function, "__name__", "").endswith("_"):
            written = [t for t in pytree.tree_leaves(args[:1]) if is_at(t, self)]
            return self._on_copies(function, written, args, kwargs)
        given, named = self.values((args, kwargs))
        with self.off():
            return self.lifted(function(*given, **named))

    def _is_mine(self, args, kwargs):
        """Has it a tensor of this level, or none at all?"""
        level = levels.highest((*args, *kwargs.values()))
        leaves = () if level is not None else pytree.tree_leaves((args, kwargs))
        return level is self or not any(isinstance(leaf, Tensor) for leaf in leaves)

    def _view(self, target, args, kwargs):
        parent = args[0]
        if not is_at(parent, self):  # of several tensors
            given, named = self.values((args, kwargs))
            return self.lifted(self.below(target, given, named))
        given, named = self.values((args[1:], kwargs))
        memory, chain, _ = parent._look
        result = self.below(self._kind(target), (parent._value, *given), named)
        if result is parent._value:
            return parent
        looks = self.copies or target._schema.is_view

        def look(item, part):
            shares = item._storage is parent._value._storage
            if target.overloadpacket.__name__ not in UNDO or not (
                shares or (looks and self.copies)
            ):
                return self.lift(item)
            view = View(target, tuple(given), named, part)
            # as in PyTorch, whatever looks at memory that was written looks again when it is used
            return self._looking(Look(memory, (*chain, view), 0), item)

        if isinstance(result, Tensor):
            return look(result, None)
        return type(result)(look(item, k) for k, item in enumerate(result))

    # -- writes ------------------------------------------------------------------------------
    def _written(self, short, target, args, kwargs):
        """What an op writes, as a new value."""
        tensor = args[0]
        if short == "requires_grad_":
            return target.function()(*args, **kwargs)
        if not is_at(tensor, self):
            raise RuntimeError(_NOT_OURS)
        if short == "set_" and len(args) == 2 and is_at(args[1], self):
            self._stand(tensor, args[1])
            return tensor
        if short in _TURNS:
            return self._turned(short, target, args, kwargs)
        if short in ("resize_", "resize_as_"):
            size = args[1] if short == "resize_" else list(args[1].shape)
            return self._resized(tensor, list(size))
        plain = _without_write(short, target._overloadname)
        if plain is None:
            schema = target._schema.arguments
            named = dict(zip((a.name for a in schema), args)) | kwargs
            leaves = pytree.tree_leaves([named.get(a.name) for a in schema if a.is_write])
            written = [t for t in leaves if is_at(t, self)]
            run = lambda *args, **kwargs: self.below(target, args, kwargs)
            return self._on_copies(run, written, args, kwargs)
        value = self.call(plain, *_filled(target, args, kwargs), **kwargs)
        if value.dtype is not tensor.dtype or value.shape != tensor.shape:
            value = self._fitting(tensor, value)
        self.replace(tensor, value)
        return tensor

    def _fitting(self, tensor, value):
        if value.shape != tensor.shape:
            raise RuntimeError(
                f"output with shape {list(tensor.shape)} doesn't match the broadcast shape "
                f"{list(value.shape)}"
            )
        if value.dtype.category > tensor.dtype.category:
            raise cannot_cast(value.dtype, tensor.dtype)
        return self.call("_to_copy.default", value, dtype=tensor.dtype, layout=flambeau.strided)

    def _on_copies(self, function, written, args, kwargs):
        """What has no form without a write works on copies of what it writes."""
        values = [self.value(t) for t in written]
        copies = [self.below(_overload("clone.default"), (value,), {}) for value in values]
        fresh = {id(value): copy for value, copy in zip(values, copies)}
        back = {id(copy): t for t, copy in zip(written, copies)}
        given, named = self.values((args, kwargs))
        given, named = pytree.tree_map(lambda v: fresh.get(id(v), v), (given, named))
        with self.off():
            result = function(*given, **named)
        for t, copy in zip(written, copies):
            self.replace(t, copy)
        return pytree.tree_map(lambda v: back[id(v)] if id(v) in back else self._lifted(v), result)

    def _lifted(self, v):
        return self.lift(v) if isinstance(v, Tensor) else v

    def _turned(self, short, target, args, kwargs):
        name = _ALIASES.get(short[:-1], short[:-1])
        kind = "int" if name == "transpose" else target._overloadname
        tensor = args[0]
        other = self.call_whole(_overload(f"{name}.{kind}"), *args, **kwargs)
        other._look = other._look._replace(version=tensor._look.version)
        self._stand(tensor, other)
        return tensor

    def _resized(self, tensor, size):
        """More elements are new memory; fewer are a look at the first ones."""
        old = self.value(tensor)
        if list(old.shape) == size:
            return tensor
        value = self.below(_overload("resize.default"), (old, size), {})
        if value.numel() > old.numel():
            self._stand(tensor, self.lift(value))
            return tensor
        strides = list(value.stride())
        other = self.call_whole(_overload("as_strided.default"), tensor, size, strides)
        self._stand(tensor, other)
        return tensor

    def store(self, out: Any, result: Any) -> Any:
        """out= takes results."""
        outs, results = (out, result) if isinstance(out, (tuple, list)) else ((out,), (result,))
        for o, r in zip(outs, results):
            if not is_at(o, self):
                raise RuntimeError(_NOT_OURS)
            if o.shape != r.shape:
                self._stand(o, self.lift(self.value(r)))
                continue
            if o.dtype is not r.dtype:
                r = self._fitting(o, r)
            self.replace(o, r)
        return rebuilt(result, list(outs)) if isinstance(result, tuple) else out

    # -- rows with history -------------------------------------------------------------------
    def knows(self, op: Any) -> bool:
        return op.name in _WHOLE

    def apply(self, op: Any, bound: dict) -> Any:
        given = {key: value for key, value in bound.items() if value is not MISSING}
        found = as_op(op.name, given)
        if found is None:
            return self.foreign(public(op.name), (), given)
        return self.call(f"{op.name}.{found[1]}", *found[2], **found[3])

    def detached(self, t: Any) -> Any:
        return self.call("detach.default", t)

    def number_of(self, t: Any, what: str) -> Any:
        return self.value(t)

    def made(self, t: Any, make: Callable) -> Any:
        """A tensor like another."""
        with self.off():
            return self.lifted(make(self.value(t)))

    def made_new(self, t: Any, size: Any, make: Callable) -> Any:
        return self.made(t, lambda value: make(value, size))

    # -- as a recorder -----------------------------------------------------------------------
    def lift_fresh(self, tensor: Tensor, detached: bool) -> Any:
        """A tensor of numbers in the program."""
        if is_at(tensor, self):
            return tensor
        if self.under is not None:
            with self.off():
                tensor = self.under.lift_fresh(tensor, False)
        out = self.lift(tensor)
        return self.call("detach.default", out) if detached else out

    def is_known(self, tensor: Tensor) -> bool:
        """Is it the program's, not one of numbers between brackets?"""
        return is_at(tensor, self) or self.under is None or self.under.is_known(tensor)

    def __getattr__(self, name: str) -> Any:
        """Ops of graphs, such as cond, go to whoever records below."""
        if name not in _GRAPH_OPS:
            raise AttributeError(name)
        record = getattr(self.under, name)

        def call(*args: Any) -> Any:
            given = self.values(args)
            with self.off():
                return self.lifted(record(*given))

        return call

    def sizes_of_tensor(self, tensor: Any) -> tuple:
        with self.off():
            return tuple(self.value(tensor).shape)


class _Off:
    """Nothing is seen by a level; it may be entered again and again."""

    def __init__(self, level):
        self.parts = interposing.switched_off(level.handler), recorded_by(level.under)

    def __enter__(self):
        for part in self.parts:
            part.__enter__()

    def __exit__(self, *error):
        for part in reversed(self.parts):
            part.__exit__(*error)


def _overload(name):
    short, _, kind = name.partition(".")
    return getattr(namespace("aten").packet(short), kind or "default")


def _mode():
    """The mode of the program that is told first."""
    found = [h for h in interposing.handlers() if isinstance(h, _Entered)]
    return found[-1] if found else None


_PLAIN = {
    "normal_.default": "normal_functional.default",
    "bernoulli_.float": "bernoulli.p",
    "pow_.Scalar": "pow.Tensor_Scalar",
    "pow_.Tensor": "pow.Tensor_Tensor",
}


def _without_write(short, kind):
    """The op that gives what an op writes; None if there is none."""
    plain = _PLAIN.get(f"{short}.{kind}")
    if plain is None and short.endswith("_"):
        known = schemas_of(short[:-1])
        kind = kind if kind in known else "default"
        plain = f"{short[:-1]}.{kind}" if kind in known else None
    return plain


def _filled(target, args, kwargs):
    """Arguments by position with their defaults, which other overloads may lack."""
    rest = [a for a in target._schema.arguments if not a.kwarg_only][len(args) :]
    if any(a.name in kwargs for a in rest):
        return args
    return (*args, *(a.default for a in rest))


class _Functional(_Below):
    """Shows calls to a level."""

    kinds = frozenset({"op", "property", "method", "data"})
    level = (interposing.CASTING + interposing.DISPATCH_MODES) // 2
    sees = "all"
    forks = False

    def __init__(self, level: FunctionalLevel) -> None:
        self.mine = level

    def wants(self, place: interposing.Place) -> bool:
        if place.kind in ("property", "method"):
            return place.key in _QUESTIONS or place.key in _METHODS
        if place.kind == "data":
            return place.key in _LIFTED or place.key in ("tolist", "numpy")
        if place.key in _SEEN_WHOLE or super().wants(place):
            return True
        name = str(place.naming).partition("::")[2]
        return place.kind == "op" and bool({name, place.key} & self.mine.composites)

    def around(self, name: interposing.Name, function: Callable, args: tuple, kwargs: dict) -> Any:
        mine, key = self.mine, name.place.key
        level = levels.highest((*args, *kwargs.values()) if kwargs else args)
        if level is not None and level is not mine:
            return function(*args, **kwargs)
        if key in _METHODS:
            return mine.call(_METHODS[key], args[0]) if level is mine else function(*args, **kwargs)
        if name.kind in ("property", "method"):
            with mine.off():
                return function(args[0]._value if level is mine else args[0], *args[1:], **kwargs)
        if key in _READERS or key in ("tolist", "numpy"):
            given, named = mine.values((args, kwargs)) if level is mine else (args, kwargs)
            with mine.off():
                return function(*given, **named)
        if name.kind == "data":
            with mine.off():
                result = function(*args, **kwargs)
            if mine.under is None and _mode() is not None:
                result = mine.below(_overload("lift_fresh.default"), (result,), {})
            out = mine.lift(result)
            return mine.call("detach.default", out) if _LIFTED[key] else out
        if level is None and any(isinstance(v, Tensor) for v in pytree.tree_leaves((args, kwargs))):
            return function(*args, **kwargs)
        if modes.grad and level is mine and _wants_history(mine, args, kwargs):
            return function(*args, **kwargs)
        return self._call(name, function, args, kwargs)

    def _call(self, name, function, args, kwargs):
        mine, key = self.mine, name.place.key
        if key == "__getitem__":
            return take(mine, *args)
        if key == "__setitem__":
            return assign(mine, *args)
        if isinstance(args[0] if args else None, CustomOpDef):
            return mine.foreign(function, args, kwargs)
        out = kwargs.get("out")
        if out is not None:
            kwargs = {k: v for k, v in kwargs.items() if k != "out"}
            mine.values(out)
            return mine.store(out, self._call(name, name.place.function(), args, kwargs))
        found = named_call(name, args, kwargs)
        if found is not None and found[0] in REWRITES:
            result = REWRITES[found[0]](mine, dict(found[1]))
            if result is not NotImplemented:
                return result
        call = None if found is None else as_op(*found)
        if call is None:
            return mine.foreign(name.place.function(), args, kwargs)
        target = _overload(f"{call[0]}.{call[1]}")
        if target.function() is None and target not in mine.decompositions:
            return mine.foreign(name.place.function(), args, kwargs)
        return mine.call(target, *call[2], **call[3])


def _wants_history(level, args, kwargs):
    found = []
    mapped(lambda t: found.append(is_at(t, level) and t._requires_grad), [*args, *kwargs.values()])
    return any(found)
