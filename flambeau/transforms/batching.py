"""vmap: one rule per kind of row, on values whose first dimension is that of samples.

Values of a batch level have their samples first, always; `in_dims` and `out_dims` are views at the
borders. Pointwise rows broadcast, reductions and views shift their dimensions by one. Templates are
in batching_rules.py and its neighbours; those without a rule run once per sample, with a warning.
"""

import textwrap
import warnings
from collections.abc import Callable
from typing import Any

from flambeau._layout import make_layout, wrap_dim
from flambeau._memory_format import contiguous_format
from flambeau._tensor import Tensor
from flambeau.autograd.grad_mode import modes
from flambeau.ops.table import TABLE, public
from flambeau.transforms.levels import (
    Level,
    Wrapped,
    below,
    depth,
    is_at,
    mapped,
    overwrite,
    rebind,
    rebuilt,
    wrap,
)

TEMPLATES: dict[str, Callable] = {}  # row -> function of (level, op, bound) that gives values
DRAWING: set[str] = set()  # rows whose results may differ where arguments do not


def batches(*names: str) -> Callable:
    """Register the rule of rows."""

    def register(function: Callable) -> Callable:
        TEMPLATES.update(dict.fromkeys(names, function))
        return function

    return register


class BatchLevel(Level):
    """One run of vmap."""

    def __init__(self, size: int, randomness: str = "error") -> None:
        super().__init__()
        self.size, self.randomness = size, randomness

    def lift(self, value: Tensor) -> Wrapped:
        return wrap(self, value)

    def batched(self, value: Tensor) -> Wrapped:
        """A value with its samples first as a tensor of this level."""
        return wrap(self, value, 1)

    def is_batched(self, t: Any) -> bool:
        return is_at(t, self) and t._batched

    def plain(self, t: Any) -> Any:
        """The value of a tensor of this level, or what comes from below as it is."""
        return t._value if is_at(t, self) else t

    def front(self, t: Tensor, rank: int | None = None) -> Tensor:
        """The value with samples first, whether it has them or not; rank: that of a sample."""
        if not self.is_batched(t):
            value = self.plain(t)
            value = value.expand(self.size, *value.shape)
        else:
            value = t._value
        return value if rank is None else padded(value, rank)

    def knows(self, op: Any) -> bool:
        return op.name in TEMPLATES and TABLE.get(op.name) is op

    def apply(self, op: Any, bound: dict) -> Any:
        if op.name not in DRAWING and not any(self._has_batch(v) for v in bound.values()):
            plain = {n: mapped(self.plain, v) for n, v in bound.items()}
            return mapped(self.lift, called(op, plain))
        found = (TEMPLATES.get(op.name) or KINDS[op.kind])(self, op, bound)
        if found is NotImplemented:
            found = one_by_one(self, op, bound)
        return mapped(self._wrapped, found)

    def _wrapped(self, value):
        return value if is_at(value, self) else self.batched(value)

    def _has_batch(self, value):
        if type(value) is Wrapped:
            return value._level is self and value._batched
        return type(value) in (list, tuple) and any(self._has_batch(v) for v in value)

    # -- what tensors of this level do besides rows ------------------------------------------------
    def write(self, target: Any, result: Any, name: str) -> None:
        """Put a result where a target is; name: of the function that writes."""
        if not is_at(target, self):
            if self.is_batched(result):
                raise refused_write(name, target, self.front(result))
            target.copy_(self.plain(result))
            return
        if self.is_batched(result) and not target._batched:
            if modes.task is None:
                raise refused_write(name, target, result._value)
            rebind(target, result)  # a sum of gradients, which nobody else holds
            return
        with below(self):
            value = self.plain(result)
            if not self.is_batched(result) and target._batched:
                value = value.expand(self.size, *value.shape)
            overwrite(target._value, value)

    def resize(self, target: Any, size: tuple, memory_format: Any) -> None:
        """Give a tensor another shape in place."""
        value = target._value
        if not target._batched:
            rebind(target, self.lift(value.resize_(size, memory_format=memory_format)))
            return
        if memory_format not in (None, contiguous_format):
            raise RuntimeError(
                "resize_: batching rule only supports None or Contiguous MemoryFormat"
            )
        if value.numel() and value.stride(0) < max(value.stride()):
            raise RuntimeError("NYI: resize_ batch rule for batch dim != 0")
        rebind(target, self.batched(value.resize_(self.size, *size)))

    def promoted(self, t: Tensor) -> Wrapped:
        """A copy of a tensor from below that may be written with tensors of this level."""
        return self.batched(self.front(t).clone())

    def detached(self, t: Wrapped) -> Wrapped:
        return wrap(self, t._value.detach(), int(t._batched))

    def made(self, t: Wrapped, make: Callable) -> Wrapped:
        """A new tensor like another."""
        return wrap(self, make(t._value), int(t._batched))

    def made_new(self, t: Wrapped, size: tuple, make: Callable) -> Wrapped:
        """A new tensor of the kind of another, of another size."""
        if t._batched:
            return self.batched(make(t._value, (self.size, *size)))
        return self.lift(make(t._value, size))

    def number_of(self, t: Any, use: str) -> Any:
        """What may be read from a tensor: nothing, if samples may differ."""
        if not self.is_batched(t):
            return self.plain(t)
        raise RuntimeError(_REFUSED[use])

    def shown(self, t: Wrapped) -> str:
        dim = "0" if t._batched else "None"
        inside = textwrap.indent(repr(t._value), "    ")
        return f"BatchedTensor(lvl={depth(self)}, bdim={dim}, value=\n{inside}\n)"


# what the name of a function that writes becomes in a refusal: these, aten's, or no name at all
_ARITHMETIC = frozenset(
    "sub_ mul_ div_ divide_ multiply_ true_divide_ copy_ clamp_max_ clamp_min_ logical_and_ "
    "logical_or_ logical_xor_".split()
)
_BARE = frozenset("fill_ index_add_ index_fill_ index_put_ scatter_add_".split())
_BY_SHAPE = frozenset(
    "add_ atan2_ arctan2_ bitwise_and_ bitwise_or_ bitwise_xor_ bitwise_left_shift_ "
    "bitwise_right_shift_ copysign_ gcd_ lcm_".split()
)


def refused_write(name, target, value):
    """The error of a write of samples into a tensor that all share."""
    if name in _BY_SHAPE:
        return RuntimeError(
            f"output with shape {list(target.shape)} doesn't match the broadcast shape "
            f"{list(value.shape)}"
        )
    called = name if name in _BARE else "inplace arithmetic" if name in _ARITHMETIC else None
    called = called or ("inplace bernoulli" if name == "bernoulli_" else f"aten::{name}")
    return RuntimeError(
        f"vmap: {called}(self, *extra_args) is not possible because there exists a Tensor `other` "
        "in extra_args that has more elements than `self`. This happened due to `other` being "
        "vmapped over but `self` not being vmapped over in a vmap. Please try to use out-of-place "
        f"operators instead of {called}. If said operator is being called inside the PyTorch "
        "framework, please file a bug report instead."
    )


_REFUSED = {
    "item": "vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over "
    "calling .item() on a Tensor, please try to rewrite what you're doing with other operations. "
    "If error is occurring somewhere inside PyTorch internals, please file a bug report.",
    "bool": "vmap: It looks like you're attempting to use a Tensor in some data-dependent control "
    "flow. We don't support that yet, please file an issue at "
    "https://github.com/pytorch/pytorch/issues .",
    "data": "Cannot access data pointer of Tensor that doesn't have storage",
}


def padded(value: Tensor, rank: int) -> Tensor:
    """A value with samples first, its samples with dimensions of size one before the others."""
    missing = rank + 1 - value._layout.ndim
    if missing <= 0:
        return value
    sizes = value.shape
    return value.reshape(sizes[0], *[1] * missing, *sizes[1:])


def called(op: Any, bound: dict) -> Any:
    """The public function of a row on bound arguments, as somebody would write it."""
    given = [(p, bound[p.name]) for p in op.params if not p.keyword_only]
    if op.params[0].kind == "tensors" and op.options.get("varargs"):
        return op(*bound[op.params[0].name])
    while given and given[-1][1] is given[-1][0].default:
        given.pop()
    named = {
        p.name: bound[p.name]
        for p in op.params
        if p.keyword_only and bound[p.name] is not p.default
    }
    return op(*[value for _, value in given], **named)


def changed(op: Any, level: BatchLevel, bound: dict, **new: Any) -> Any:
    """A row with some arguments changed, the others as values."""
    plain = {n: new[n] if n in new else mapped(level.plain, v) for n, v in bound.items()}
    return called(op, plain)


def rank_of(t: Tensor) -> int:
    """The number of dimensions that the program inside sees."""
    return t._layout.ndim


def shifted(dim: int, rank: int) -> int:
    """A dimension of a sample as one of the value."""
    return wrap_dim(dim, rank) + 1


# -- pointwise -------------------------------------------------------------------------------------


def _pointwise(level, op, bound):
    if op.options.get("family") == "total":
        return _total(level, op, bound)
    tensors = {n: v for n, v in bound.items() if isinstance(v, Tensor)}
    rank = max(map(rank_of, tensors.values()))
    cast = _cast(level, tensors)
    found = {}
    for name, t in tensors.items():
        value = padded(t._value, rank) if level.is_batched(t) else level.plain(t)
        if rank == 0 and value.ndim == 0:
            value = value.unsqueeze(0)  # counts as much as the others
        if name in cast:
            value = value.to(cast[name])
        found[name] = value
    return changed(op, level, bound, **found)


def _cast(level, tensors):
    """Tensors without dimensions do not widen others; their values have one and would."""
    if len({t.dtype for t in tensors.values()}) < 2:
        return {}
    alone = [n for n, t in tensors.items() if rank_of(t) == 0 and level.is_batched(t)]
    if not alone:
        return {}
    others = [t for t in tensors.values() if rank_of(t)] or list(tensors.values())
    top = max(t.dtype.category for t in others)
    wide = [t.dtype for t in others if t.dtype.category == top]
    return {
        n: wide[0]
        for n in alone
        if tensors[n].dtype.category <= top
        and tensors[n].dtype.category > 0
        and all(tensors[n].dtype is not w for w in wide)
        and rank_of(others[0])
    }


def _total(level, op, bound):
    """A loss that is summed in the same kernel: its elements, then the sum of each sample."""
    row = TABLE[op.name.removesuffix("_total")]
    elements = _pointwise(level, row, {p.name: bound[p.name] for p in row.params})
    count, dims = bound["count"], tuple(range(1, elements.ndim))
    total = elements.sum(dims) if dims else elements
    return total if count == 1 else total / count


# -- reductions ------------------------------------------------------------------------------------


def _reduction(level, op, bound):
    names = [p.name for p in op.params]
    first = names[0]
    t = bound[first]
    value, rank = t._value, rank_of(t)
    if "dim" not in names:
        return _whole(level, op, bound, value)
    dim, keep = bound["dim"], bound.get("keepdim", False)
    if rank == 0:
        if dim is not None and dim != ():
            for d in dim if isinstance(dim, tuple) else (dim,):
                wrap_dim(d, 0)
        return changed(op, level, bound, **{first: value.unsqueeze(1), "dim": _one(op), **_no(op)})
    if dim is None or dim == ():
        if next(p for p in op.params if p.name == "dim").wants == "ints":
            return changed(op, level, bound, **{first: value, "dim": tuple(range(1, rank + 1))})
        found = changed(
            op, level, bound, **{first: value.flatten(1), "dim": 1, **_no(op)}
        )  # one dimension only
        shape = (level.size, *[1] * rank)
        return mapped(lambda v: v.reshape(shape), found) if keep else found
    many = isinstance(dim, (tuple, list))
    new = tuple(shifted(d, rank) for d in dim) if many else shifted(dim, rank)
    return changed(op, level, bound, **{first: value, "dim": new})


def _one(op):
    wants = next(p for p in op.params if p.name == "dim").wants
    return (1,) if wants == "ints" else 1


def _no(op):
    return {"keepdim": False} if any(p.name == "keepdim" for p in op.params) else {}


def _whole(level, op, bound, value):
    """Reductions of everything that have no dim."""
    flat = value.flatten(1) if value.ndim > 1 else value.unsqueeze(1)
    return public({"_max_all": "amax", "_min_all": "amin"}[op.name])(flat, 1)


# -- views -----------------------------------------------------------------------------------------


def _view(level, op, bound):
    rule = VIEWS.get(op.name)
    names = [p.name for p in op.params]
    t, rest = bound[names[0]], [bound[n] for n in names[1:]]
    if rule is None:
        rank = rank_of(t)
        dims = {n: shifted(bound[n], rank) for n in ("dim", "dim0", "dim1") if n in bound}
        if rank == 0:
            return NotImplemented
        return changed(op, level, bound, **{names[0]: t._value, **dims})
    return rule(level.size, t._value, rank_of(t), *rest)


def _sizes(size):
    return tuple(size) if isinstance(size, (tuple, list)) else (size,)


def _viewed(name):
    def rule(batch, v, rank, size):
        if not isinstance(size, (tuple, list, int)):
            return VIEWS["_view_dtype"](batch, v, rank, size)
        size = _sizes(size)
        if len(size) == 1 and isinstance(size[0], (tuple, list)):
            size = tuple(size[0])
        return public(name)(v, (batch, *_known(size, v, batch)))

    return rule


def _known(size, v, batch):
    """A shape without -1, which nobody can tell if there are no samples."""
    if -1 not in size or batch:
        return size
    count, rest = 1, 1
    for n in v.shape[1:]:
        count *= n
    for n in size:
        rest *= n if n != -1 else 1
    return tuple(count // rest if n == -1 and rest else n for n in size)


def _flattened(batch, v, rank, start, end):
    if rank == 0:
        return v.unsqueeze(1)
    return v.flatten(shifted(start, rank), shifted(end, rank))


def _permuted(batch, v, rank, dims):
    dims = _sizes(dims)
    if len(dims) == 1 and isinstance(dims[0], (tuple, list)):
        dims = tuple(dims[0])
    return v.permute(0, *[shifted(d, rank) for d in dims])


def _moved(batch, v, rank, source, destination):
    source, destination = _sizes(source), _sizes(destination)
    return v.movedim(
        tuple(shifted(d, rank) for d in source), tuple(shifted(d, rank) for d in destination)
    )


def _squeezed(batch, v, rank, dim):
    if dim is None:
        dims = tuple(k for k in range(1, rank + 1) if v.shape[k] == 1)
        return v.squeeze(dims) if dims else v.view(v.shape)
    many = isinstance(dim, (tuple, list))
    if rank == 0:
        if not all(-1 <= d <= 0 for d in (dim if many else (dim,))):
            raise RuntimeError(
                "Dimension is out of range (expected to be in range of [-1, 0], but got "
                f"[{', '.join(map(str, dim if many else (dim,)))}]"
            )
        return v.view(v.shape)
    return v.squeeze(tuple(shifted(d, rank) for d in dim) if many else shifted(dim, rank))


def _expanded(batch, v, rank, size):
    size = _sizes(size)
    if len(size) == 1 and isinstance(size[0], (tuple, list)):
        size = tuple(size[0])
    return padded(v, len(size)).expand(batch, *size)


def _strided(batch, v, rank, size, stride, offset):
    """Within the memory that the first sample can see; the others are as far apart as they are."""
    if len(size) != len(stride):
        raise RuntimeError(
            "Tensor.as_strided(size, stride, ...): size and stride must have the same length! Got "
            f"size {list(size)} and stride {list(stride)}"
        )
    first = v.storage_offset()
    offset = first if offset is None else offset
    last = offset + sum((n - 1) * s for n, s in zip(size, stride))
    end = first + sum((n - 1) * s for n, s in zip(v.shape[1:], v.stride()[1:]))
    if 0 not in size and not first <= offset <= last <= end:
        raise RuntimeError(
            f"result = tensor.as_strided({list(size)}, {list(stride)}, {offset}) can access "
            "memory outside of `tensor`. `result` can access some memory in range "
            f"[{offset}, {last + 1}], but `tensor` can only access some memory in range "
            f"[{first}, {end + 1}]. This is not supported inside of vmap, please try to rewrite "
            "the `as_strided` call as a sequence "
            "of PyTorch view operations"
        )
    return v.as_strided((batch, *size), (v.stride(0), *stride), offset)


def _other_numbers(name):
    """The last dimension is made of others: numbers that have none are for the row to judge."""

    def read(batch, v, rank, *dtype):
        if rank == 0:
            TABLE[name].body(make_layout((), (), v.dtype, v.device), *dtype)
        return public(name)(v, *dtype)

    return read


VIEWS: dict[str, Callable] = {
    "view": _viewed("view"),
    "_unsafe_view": _viewed("reshape"),
    "reshape": _viewed("reshape"),
    "flatten": _flattened,
    "ravel": lambda batch, v, rank: v.flatten(1) if rank else v.unsqueeze(1),
    "t": lambda batch, v, rank: v.transpose(1, 2) if rank == 2 else v.view(v.shape),
    "transpose": lambda batch, v, rank, a, b: (
        v.transpose(shifted(a, rank), shifted(b, rank)) if rank else v.view(v.shape)
    ),
    "permute": _permuted,
    "movedim": _moved,
    "T": lambda batch, v, rank: v.permute(0, *range(rank, 0, -1)),
    "mT": lambda batch, v, rank: v.mT if rank else v,
    "squeeze": _squeezed,
    "unsqueeze": lambda batch, v, rank, dim: v.unsqueeze(wrap_dim(dim, rank + 1) + 1),
    "expand": _expanded,
    "diagonal": lambda batch, v, rank, offset, a, b: v.diagonal(
        offset, shifted(a, rank), shifted(b, rank)
    ),
    "unfold": lambda batch, v, rank, dim, size, step: (
        v.unfold(shifted(dim, rank), size, step)
        if rank
        else v.unsqueeze(1).unfold(1, size, step).squeeze(1)
    ),
    "alias": lambda batch, v, rank: v.view(v.shape),
    "as_strided": _strided,
    "view_as_real": lambda batch, v, rank: public("view_as_real")(v),
    "view_as_complex": _other_numbers("view_as_complex"),
    "_view_dtype": _other_numbers("_view_dtype"),
}


# -- without a rule --------------------------------------------------------------------------------


def _template(level, op, bound):
    return NotImplemented


def one_by_one(level: BatchLevel, op: Any, bound: dict) -> Any:
    """A row once per sample."""
    if level.size == 0:
        raise RuntimeError(
            f"vmap: {op.name} has no batching rule, and without samples nobody knows its result"
        )
    warnings.warn(
        "There is a performance drop because we have not yet implemented the batching rule for "
        f"{op.name}. It runs once per sample.",
        UserWarning,
        stacklevel=6,
    )
    runs = []
    for k in range(level.size):
        sample = {
            n: mapped(lambda t: t._value[k] if level.is_batched(t) else level.plain(t), v)  # noqa: B023
            for n, v in bound.items()
        }
        runs.append(called(op, sample))
    first = runs[0]
    if isinstance(first, Tensor):
        return public("stack")(runs)
    columns = [public("stack")(column) for column in zip(*runs)]
    return rebuilt(first, columns)


KINDS: dict[str, Callable] = {
    "pointwise": _pointwise,
    "reduction": _reduction,
    "view": _view,
    "template": _template,
}
