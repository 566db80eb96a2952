"""Nested tensors of the jagged layout: all values in one tensor, offsets between the pieces.

The shape is (batch, ..., j, ...): j is the dimension in which pieces differ (sizes.py). Functions
of single elements run on the values; those that need pieces side by side fill them up first.
"""

import copy
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau._layout import wrap_dim
from flambeau.masked.functions import highest, lowest
from flambeau.nested.answering import Nested, called, made
from flambeau.nested.sizes import NestedInt, size_of

_BY_VECTORS = ("linear", "rms_norm", "embedding")  # what else they take is dense


def from_values(
    values: Tensor,
    offsets: Tensor,
    lengths: Tensor | None = None,
    ragged: int = 1,
    known: dict | None = None,
) -> "NestedTensor":
    """A jagged tensor over values, in their graph.

    Args:
        known: the sizes of the shortest and the longest piece, where they are known.
    """
    out = made(NestedTensor)
    out._metadata_cache = {} if known is None else known
    out._values, out._offsets, out._lengths, out._ragged_idx = values, offsets, lengths, ragged
    return out


class NestedTensor(Nested):
    """A batch of tensors that differ in one dimension."""

    def __new__(
        cls,
        values: Tensor,
        offsets: Tensor,
        *,
        lengths: Tensor | None = None,
        _ragged_idx: int = 1,
        _metadata_cache: dict | None = None,
    ) -> "NestedTensor":
        return from_values(values, offsets, lengths, _ragged_idx, _metadata_cache)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """All is done where it is made."""

    _values: Tensor
    _offsets: Tensor
    _lengths: Tensor | None
    _ragged_idx: int
    _metadata_cache: dict  # shared by all that have the same offsets

    def _held(self) -> Tensor:
        return self._values

    layout = property(lambda self: flambeau.jagged)
    ndim = property(lambda self: self._values.dim() + 1)

    @property
    def shape(self) -> Any:
        sizes: list[Any] = [self._offsets.shape[0] - 1, *self._values.shape]
        sizes[self._ragged_idx] = size_of(self._offsets)
        return flambeau.Size(sizes)

    @property
    def grad(self) -> Any:
        found = self._values.grad
        return None if found is None else self.over(found)

    @grad.setter
    def grad(self, value: Any) -> None:
        held: Any = self._values
        held.grad = None if value is None else value._values

    def requires_grad_(self, requires_grad: bool = True) -> "NestedTensor":
        self._values.requires_grad_(requires_grad)
        return self

    def retain_grad(self) -> None:
        self._values.retain_grad()

    def register_hook(self, hook: Any) -> Any:
        return self._values.register_hook(lambda g: getattr(hook(self.over(g)), "_values", None))

    def backward(self, gradient: Any = None, *args: Any, **kwargs: Any) -> None:
        self._values.backward(None if gradient is None else gradient._values, *args, **kwargs)

    def over(self, values: Tensor, ragged: int | None = None) -> "NestedTensor":
        """Other values between the same offsets."""
        ragged = self._ragged_idx if ragged is None else ragged
        return from_values(values, self._offsets, self._lengths, ragged, self._metadata_cache)

    # -- facts -------------------------------------------------------------------------------------

    def dim(self) -> int:
        return self._values.dim() + 1

    def size(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.shape[dim]

    def numel(self) -> int:
        return self._values.numel()

    def __len__(self) -> int:
        return self._offsets.shape[0] - 1

    def values(self) -> Tensor:
        return called(self._values, "NestedGetValuesBackward0")

    def offsets(self) -> Tensor:
        return self._offsets

    def lengths(self) -> Tensor | None:
        return self._lengths

    def _counts(self) -> Tensor:
        return self._offsets.diff() if self._lengths is None else self._lengths

    def _get_max_seqlen(self) -> int:
        """The size of the longest piece, counted once."""
        known = self._metadata_cache
        if "max_seqlen" not in known:
            known["max_seqlen"] = int(self._counts().max())
        return known["max_seqlen"]

    def _get_min_seqlen(self) -> int:
        known = self._metadata_cache
        if "min_seqlen" not in known:
            known["min_seqlen"] = int(self._counts().min())
        return known["min_seqlen"]

    def _known(self, name: str) -> Tensor | None:
        """A size as tensors of PyTorch carry it: that of an empty tensor."""
        size = self._metadata_cache.get(name)
        return None if size is None else flambeau.empty(size, 0)

    _max_seqlen_tensor = property(lambda self: self._known("max_seqlen"))
    _min_seqlen_tensor = property(lambda self: self._known("min_seqlen"))
    _max_seqlen = property(_get_max_seqlen)
    _min_seqlen = property(_get_min_seqlen)
    _base = property(lambda self: self._values._base)

    def _is_view(self) -> bool:
        return self._values._is_view()

    def _view_func(self, base: Tensor) -> "NestedTensor":
        return self.over(base.reshape(self._values.shape))

    def share_memory_(self) -> "NestedTensor":
        for part in (self._values, self._offsets, self._lengths):
            if part is not None:
                part.share_memory_()
        return self

    def is_shared(self) -> bool:
        return self._values.is_shared()

    def is_same_size(self, other: Any) -> bool:
        """Is the jagged dimension the same, too, not only as long in each piece?"""
        return tuple(self.shape) == tuple(other.shape)

    def apply_(self, function: Any) -> "NestedTensor":
        self._values.apply_(function)
        return self

    def map_(self, *args: Any) -> Any:
        raise RuntimeError(".map_ is not supported for tensor subclasses.")

    def stride(self, dim: int | None = None) -> Any:
        inner: Any = self._values.stride()
        around = [1, *inner]
        around[0] = size_of(self._offsets) * inner[self._ragged_idx - 1]
        for s in self._values.shape[: self._ragged_idx - 1]:
            around[0] = around[0] * s
        return tuple(around) if dim is None else around[dim]

    def data_ptr(self) -> int:
        return 0

    def __deepcopy__(self, memo: dict) -> Any:
        parts = (self._values, self._offsets, self._lengths)
        return from_values(*copy.deepcopy(parts, memo), self._ragged_idx, self._metadata_cache)

    def saved_parts(self) -> tuple:
        """What files say of it, as PyTorch's do: known sizes are those of empty tensors."""
        sizes = {k: self._known(k) for k in ("min_seqlen", "max_seqlen")}
        return (
            {
                "values": self._values.detach(),
                "offsets": self._offsets,
                "lengths": self._lengths,
                "_ragged_idx": self._ragged_idx,
                "_metadata_cache": {k: t for k, t in sizes.items() if t is not None},
                "requires_grad": self.requires_grad,
            },
        )

    def __reduce_ex__(self, protocol: Any) -> Any:
        parts = (self._values, self._offsets, self._lengths, self._ragged_idx)
        return from_values, (*parts, self._metadata_cache)

    def select(self, dim: int, index: int) -> Tensor:
        """One piece, or a slice of each."""
        dim = wrap_dim(dim, self.dim())
        if dim == 0:
            return called(self.unbind()[index], "SelectBackwardAutogradNestedTensor0")
        found = self._values.select(self._inner(dim, "select"), index)
        return self.over(found, self._ragged_idx - (dim < self._ragged_idx))

    def _range(self, dim: int, key: slice) -> Any:
        place = [slice(None)] * self._inner(dim, "slice")
        return self.over(self._values[(*place, key)])

    def is_contiguous(self, *args: Any, **kwargs: Any) -> bool:
        return self._lengths is None and self._values.is_contiguous()

    def unbind(self, dim: int = 0) -> tuple:
        """The pieces, as views."""
        if dim:
            raise RuntimeError("unbind(): only supported for NestedTensor on dim=0")
        axis = self._ragged_idx - 1
        pairs = list(zip(self._offsets.tolist(), self._counts().tolist()))
        end = self._values.shape[axis]
        if any(begin + count > end for begin, count in pairs):
            raise RuntimeError(
                "unbind(): nested tensor offsets and lengths do not match ragged_idx dimension: "
                f"a piece is out of bounds of {end} rows"
            )
        name = "UnbindBackwardAutogradNestedTensor0"
        return tuple(
            called(self._values.narrow(axis, begin, count), name) for begin, count in pairs
        )

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        text = f"NestedTensor(size={tuple(self.shape)}, offsets={self._offsets}"
        grad = self.grad_fn
        if grad is not None:
            text += f", grad_fn={grad}"
        elif self.requires_grad:
            text += ", requires_grad=True"
        return f"{text}, contiguous={self.is_contiguous()})"

    # -- side by side ------------------------------------------------------------------------------

    def _places(self, longest: int) -> tuple[Tensor, Tensor]:
        """(numbers of rows among the values, their places among rows that are filled up)."""
        counts = self._counts().long()
        batch = flambeau.arange(len(self), device=counts.device).repeat_interleave(counts)
        each = flambeau.arange(batch.shape[0], device=counts.device)
        within = each - (counts.cumsum(0) - counts)[batch]
        source, goal = self._offsets[:-1].long()[batch] + within, batch * longest + within
        if longest < self._max_seqlen:  # what is longer is cut
            kept = within < longest
            return source[kept], goal[kept]
        return source, goal

    def padded(self, padding: Any, longest: int | None = None) -> Tensor:
        """(batch, longest, ...): pieces filled up, their differing dimension first."""
        longest = self._max_seqlen if longest is None else longest
        rows = self._values.movedim(self._ragged_idx - 1, 0)
        source, goal = self._places(longest)
        if source.shape[0] != rows.shape[0]:
            rows = rows.index_select(0, source)
        room = rows.new_full((len(self) * longest, *rows.shape[1:]), padding)
        found = room.index_copy(0, goal, rows)
        return found.reshape(len(self), longest, *rows.shape[1:])

    def unpadded(self, t: Tensor) -> "NestedTensor":
        """The converse, for a tensor (batch, longest, ...); pieces are in front then."""
        _, goal = self._places(t.shape[1])
        rows = t.reshape(-1, *t.shape[2:]).index_select(0, goal)
        if self._lengths is None:
            return from_values(rows, self._offsets)
        counts = self._counts()
        return from_values(rows, flambeau.cat([counts.new_zeros(1), counts.cumsum(0)]))

    def to_padded_tensor(self, padding: float, output_size: Any = None) -> Tensor:
        """All pieces in one tensor, filled up to the longest (or to a size)."""
        if self._lengths is not None:
            raise RuntimeError("to_padded_tensor(): not supported for nested tensors with holes")
        longest = None if output_size is None else output_size[self._ragged_idx]
        found = self.padded(padding, longest)
        return called(found.movedim(1, self._ragged_idx), "ToPaddedTensorBackward0")

    # -- functions ---------------------------------------------------------------------------------

    def _operand(self, value: Any, name: str = "add") -> Any:
        """An argument as it meets the values."""
        if isinstance(value, NestedTensor):
            moved = value.dim() == self.dim() and value._ragged_idx != self._ragged_idx
            if moved or size_of(value._offsets) != size_of(self._offsets):
                raise RuntimeError(
                    f"cannot call binary pointwise function {name}.Tensor with inputs of shapes "
                    f"{tuple(self.shape)} and {tuple(value.shape)}"
                )
            return value._values
        if isinstance(value, NestedInt):
            raise RuntimeError(f"NestedTensor {name}.Tensor: invalid argument {value}")
        if not isinstance(value, Tensor) or value.dim() < self.dim():
            return value
        if value.dim() > self.dim():
            raise NotImplementedError("NYI: broadcasting NT with T with larger dim")
        if value.shape[self._ragged_idx] == self._max_seqlen and value.shape[0] == len(self):
            rows = self.unpadded(value.movedim(self._ragged_idx, 1))._values
            return rows.movedim(0, self._ragged_idx - 1)
        if value.shape[self._ragged_idx] != 1:
            raise RuntimeError(
                "a dense tensor meets a nested one only where its size is 1 along the jagged "
                "dimension"
            )
        rows = value.squeeze(self._ragged_idx)
        rows = rows.expand(len(self), *rows.shape[1:])
        counts = self._offsets.diff()
        return rows.repeat_interleave(counts, 0).movedim(0, self._ragged_idx - 1)

    def local(self, func: Any, name: str, args: tuple, kwargs: dict) -> Any:
        """Element by element, or vector by vector."""
        by_vectors = name.removeprefix("functional_") in _BY_VECTORS
        given = [
            self._operand(a, name) if isinstance(a, Nested) or not (by_vectors or k > 1) else a
            for k, a in enumerate(args)
        ]
        named = {k: self._operand(v) if isinstance(v, Nested) else v for k, v in kwargs.items()}
        found = func(*given, **named)
        return self if found is self._values else self.over(found)

    def answer_contiguous(self, func: Any, args: tuple, kwargs: dict) -> Any:
        if self.is_contiguous():
            return self
        if self._lengths is None:
            return self.over(self._values.contiguous())
        counts = self._counts()
        offsets = flambeau.cat([counts.new_zeros(1), counts.cumsum(0)])
        axis = self._ragged_idx - 1
        return from_values(flambeau.cat(self.unbind(), axis), offsets, None, self._ragged_idx)

    def answer_copy_(self, func: Any, args: tuple, kwargs: dict) -> Any:
        """Copies piece by piece: offsets need not be the same."""
        source = args[1]
        if not isinstance(source, NestedTensor):
            raise ValueError("copy_(): expected src to be a jagged layout NestedTensor")
        if not Nested.is_same_size(self, source):  # piece by piece
            raise RuntimeError(
                "copy_(): expected compatible input and src shapes, but got: "
                f"{self.shape} and {source.shape}"
            )
        if size_of(self._offsets) == size_of(source._offsets):
            self._values.copy_(source._values)
        else:
            for one, other in zip(self.unbind(), source.unbind()):
                one.copy_(other)
        return self

    def answer_layer_norm(self, func: Any, args: tuple, kwargs: dict) -> Any:
        names = ("input", "normalized_shape", "weight", "bias", "eps")
        given = {**dict(zip(names, args)), **kwargs}
        shape = given.pop("normalized_shape")
        shape = [shape] if isinstance(shape, int | NestedInt) else list(shape)
        if self.dim() <= 2:
            raise RuntimeError(
                "layer_norm(): not supported for NestedTensor objects with 2 or fewer dimensions"
            )
        if len(shape) >= self.dim():
            raise RuntimeError(
                "layer_norm(): not supported when normalizing over the batch dimension for "
                "NestedTensor"
            )
        rest = {k: v for k, v in given.items() if k != "input"}
        if not any(isinstance(s, NestedInt) for s in shape):
            return self.over(func(self._values, shape, **rest))
        self._refuse_holes(
            "layer_norm(): not supported where lengths is not None if operating on the ragged "
            "dimension for NestedTensor"
        )
        axis = self._ragged_idx - 1
        rows = [func(t, t.shape[-len(shape) :], **rest) for t in self.unbind()]
        return self.over(flambeau.cat(rows, axis))

    def _refuse_holes(self, complaint: str) -> None:
        if self._lengths is not None:
            raise RuntimeError(complaint)

    def _inner(self, dim: int, name: str) -> int:
        """A dimension behind the batch that is not the jagged one, among the values'."""
        dim = wrap_dim(dim, self.dim())
        if dim in (0, self._ragged_idx):
            place = "dim=0" if dim == 0 else "ragged dim"
            raise RuntimeError(f"{name}(): not supported for NestedTensor on {place}")
        return dim - 1

    def answer_transpose(self, func: Any, args: tuple, kwargs: dict) -> Any:
        one, two = sorted(wrap_dim(d, self.dim()) for d in args[1:])
        if one == 0:
            raise ValueError("Transpose is not supported on the batch dimension for jagged NT")
        ragged = {one: two, two: one}.get(self._ragged_idx, self._ragged_idx)
        return self.over(self._values.transpose(one - 1, two - 1), ragged)

    def answer_permute(self, func: Any, args: tuple, kwargs: dict) -> Any:
        order = args[1] if isinstance(args[1], (tuple, list)) else args[1:]
        if len(order) != self.dim():
            raise ValueError(
                f"permute(): number of dimensions in the tensor input ({self.dim()}) does not "
                f"match the length of the desired ordering of dimensions ({len(order)})."
            )
        order = [wrap_dim(d, self.dim()) for d in order]
        if len(set(order)) < len(order):
            raise ValueError("permute(): duplicate dims are not allowed.")
        if order[0]:
            raise ValueError("Permute is not supported on the batch dimension for jagged NT")
        return self.over(
            self._values.permute([d - 1 for d in order[1:]]), order.index(self._ragged_idx)
        )

    def answer_movedim(self, func: Any, args: tuple, kwargs: dict) -> Any:
        source, goal = (wrap_dim(d, self.dim()) for d in args[1:])
        order = [d for d in range(self.dim()) if d != source]
        return self.permute(*order[:goal], source, *order[goal:])

    def answer_unsqueeze(self, func: Any, args: tuple, kwargs: dict) -> Any:
        dim = args[1] % (self.dim() + 1)
        if dim == 0:
            raise RuntimeError("unsqueeze(): not supported for NestedTensor on dim=0")
        ragged = self._ragged_idx + (dim <= self._ragged_idx)
        return self.over(self._values.unsqueeze(dim - 1), ragged)

    def answer_squeeze(self, func: Any, args: tuple, kwargs: dict) -> Any:
        dim = self._inner(args[1], "squeeze")
        found = self._values.squeeze(dim)
        moved = found.dim() < self._values.dim() and dim + 1 < self._ragged_idx
        return self.over(found, self._ragged_idx - moved)

    def answer_unflatten(self, func: Any, args: tuple, kwargs: dict) -> Any:
        dim = self._inner(args[1], "unflatten")
        ragged = self._ragged_idx + (len(args[2]) - 1) * (dim + 1 < self._ragged_idx)
        return self.over(self._values.unflatten(dim, args[2]), ragged)

    def answer_flatten(self, func: Any, args: tuple, kwargs: dict) -> Any:
        begin = args[1] if len(args) > 1 else kwargs.get("start_dim", 0)
        end = args[2] if len(args) > 2 else kwargs.get("end_dim", -1)
        begin, end = (wrap_dim(d, self.dim()) for d in (begin, end))
        if begin == 0 or begin <= self._ragged_idx <= end:
            raise RuntimeError("flatten(): not supported for NestedTensor on ragged dim")
        return self.over(self._values.flatten(begin - 1, end - 1),
                         self._ragged_idx - (end - begin) * (end < self._ragged_idx))  # fmt: skip

    def _shaped(self, func: Any, args: tuple, kwargs: dict) -> Any:
        shape = args[1] if isinstance(args[1], (tuple, list)) else args[1:]
        inner = list(shape[1:])
        if self._ragged_idx != 1:
            if tuple(shape) == tuple(self.shape):
                return self.over(self._values.view(self._values.shape))
            raise RuntimeError(
                "view(): does not support ragged_idx != 1 except when inp._size == size. inp._size "
                f"is ({tuple(self.shape)}) and size is ({list(shape)})."
            )
        fits = len(shape) > 1 and shape[0] in (-1, len(self))
        if not fits or not (inner[0] == size_of(self._offsets) or inner[0] == -1):
            raise RuntimeError(f"view(): cannot view shape {tuple(self.shape)} as {list(shape)}")
        return self.over(self._values.reshape(self._values.shape[0], *inner[1:]))

    answer_view = answer_reshape = _shaped

    def answer_view_as(self, func: Any, args: tuple, kwargs: dict) -> Any:
        return self.over(self._values)

    def answer_expand(self, func: Any, args: tuple, kwargs: dict) -> Any:
        sizes = list(args[1] if isinstance(args[1], (tuple, list)) else args[1:])
        whole = {0: len(self), self._ragged_idx: size_of(self._offsets)}
        if len(sizes) != self.dim() or any(sizes[k] not in (-1, n) for k, n in whole.items()):
            raise RuntimeError(f"expand(): cannot expand shape {tuple(self.shape)} -> {sizes}")
        sizes[self._ragged_idx] = -1
        return self.over(self._values.expand(sizes[1:]))

    def answer_expand_as(self, func: Any, args: tuple, kwargs: dict) -> Any:
        return args[0].expand(args[1].shape)

    def answer_repeat_interleave(self, func: Any, args: tuple, kwargs: dict) -> Any:
        names = ("input", "repeats", "dim")
        given = {**dict(zip(names, args)), **kwargs}
        if given.get("dim") is None:
            raise RuntimeError("repeat_interleave(): a nested tensor is repeated along a dimension")
        given["dim"] = self._inner(given["dim"], "repeat_interleave")
        return self.over(func(self._values, **{k: v for k, v in given.items() if k != "input"}))

    def answer_one_hot(self, func: Any, args: tuple, kwargs: dict) -> Any:
        return self.over(func(self._values, *args[1:], **kwargs))

    def answer_l1_loss(self, func: Any, args: tuple, kwargs: dict) -> Any:
        """A loss of elements: all of them side by side, whichever pieces they are in."""
        given = [self._operand(a) if isinstance(a, Nested) else a for a in args]
        named = {k: self._operand(v) if isinstance(v, Nested) else v for k, v in kwargs.items()}
        found = func(*given, **named)
        return self.over(found) if found.dim() else found

    answer_kl_div = answer_poisson_nll_loss = answer_l1_loss

    def _between(self, first: int, last: int) -> "NestedTensor":
        """Some of the pieces."""
        offsets = self._offsets[first : last + 1]
        begin, end = int(offsets[0]), int(offsets[-1])
        values = self._values.narrow(self._ragged_idx - 1, begin, end - begin)
        lengths = None if self._lengths is None else self._lengths[first:last]
        return from_values(values, offsets - begin, lengths, self._ragged_idx)

    def answer_chunk(self, func: Any, args: tuple, kwargs: dict) -> Any:
        dim = kwargs.get("dim", args[2] if len(args) > 2 else 0)
        if wrap_dim(dim, self.dim()) == 0:
            each = -(-len(self) // args[1])
            return tuple(
                self._between(k, min(k + each, len(self))) for k in range(0, len(self), each)
            )
        return tuple(map(self.over, self._values.chunk(args[1], self._inner(dim, "chunk"))))

    def answer_split(self, func: Any, args: tuple, kwargs: dict) -> Any:
        dim = kwargs.get("dim", args[2] if len(args) > 2 else 0)
        name = "split" if isinstance(args[1], int) else "split_with_sizes"
        return tuple(map(self.over, self._values.split(args[1], self._inner(dim, name))))

    answer_split_with_sizes = answer_split

    def answer_tensor_split(self, func: Any, args: tuple, kwargs: dict) -> Any:
        dim = kwargs.get("dim", args[2] if len(args) > 2 else 0)
        inner = self._inner(dim, "tensor_split")
        return tuple(map(self.over, self._values.tensor_split(args[1], inner)))

    def answer_stack(self, func: Any, args: tuple, kwargs: dict) -> Any:
        dim = kwargs.get("dim", args[1] if len(args) > 1 else 0) % (self.dim() + 1)
        if dim <= self._ragged_idx:
            place = "ragged dim" if dim else "dim=0"
            raise RuntimeError(f"stack(): not supported for NestedTensor on {place}")
        return self.over(flambeau.stack([self._operand(t) for t in args[0]], dim - 1))

    def answer_grad(self, func: Any, args: tuple, kwargs: dict) -> Any:
        """torch.autograd.grad of what follows from nested inputs."""
        outputs, inputs, *rest = args
        inputs = inputs if isinstance(inputs, (tuple, list)) else (inputs,)
        held = [t._values if isinstance(t, NestedTensor) else t for t in inputs]
        grads = func(outputs, held, *rest, **kwargs)
        return tuple(
            t.over(g) if isinstance(t, NestedTensor) and g is not None else g
            for t, g in zip(inputs, grads)
        )

    def answer_narrow(self, func: Any, args: tuple, kwargs: dict) -> Any:
        return self.over(self._values.narrow(self._inner(args[1], "narrow"), *args[2:]))

    def answer_cat(self, func: Any, args: tuple, kwargs: dict) -> Any:
        dim = self._inner(kwargs.get("dim", args[1] if len(args) > 1 else 0), "cat")
        return self.over(flambeau.cat([self._operand(t) for t in args[0]], dim))

    def answer_softmax(self, func: Any, args: tuple, kwargs: dict) -> Any:
        dim = wrap_dim(args[1] if len(args) > 1 else kwargs["dim"], self.dim())
        name = func.__name__
        if dim == 0:
            raise RuntimeError(
                f"{name}(): not supported when reducing across the batch dimension for NestedTensor"
            )
        if dim != self._ragged_idx:
            rest = {k: v for k, v in kwargs.items() if k != "dim"}
            return self.over(func(self._values, self._inner(dim, name), *args[2:], **rest))
        self._refuse_holes(
            f"{name}(): not supported where lengths is not None if reducing across the ragged "
            "dimension for NestedTensor"
        )
        found = self.unpadded(func(self.padded(float("-inf")), 1))
        return self.over(found._values.movedim(0, self._ragged_idx - 1))

    answer_log_softmax = answer_softmax

    def answer_matmul(self, func: Any, args: tuple, kwargs: dict) -> Any:
        a, b = args
        if isinstance(a, NestedTensor) and not isinstance(b, NestedTensor) and b.dim() == 2:
            if a._ragged_idx < a.dim() - 1:
                return a.over(a._values @ b)
        elif isinstance(a, NestedTensor) and isinstance(b, NestedTensor):
            inside = a._ragged_idx == a.dim() - 1 and b._ragged_idx == b.dim() - 2
            if inside:  # the jagged dimension is summed over
                return a.to_padded_tensor(0.0) @ b.to_padded_tensor(0.0)
            if a._ragged_idx == b._ragged_idx < min(a.dim(), b.dim()) - 2:
                return a.over(a._values @ a._operand(b))
        if a.dim() == b.dim() == 3 and len({isinstance(t, NestedTensor) for t in (a, b)}) == 2:
            nested = a if isinstance(a, NestedTensor) else b
            outer = a.dim() - 2 if nested is a else a.dim() - 1
            if nested._ragged_idx == outer and a.shape[0] == b.shape[0]:
                dense = [t.to_padded_tensor(0.0) if t is nested else t for t in (a, b)]
                found = nested.unpadded((dense[0] @ dense[1]).movedim(outer, 1))
                return nested.over(found._values.movedim(0, outer - 1))
        shapes = [tuple(t.shape) for t in (a, b)]
        raise RuntimeError(
            f"matmul(): not supported between inputs of shapes {shapes[0]} and {shapes[1]}"
        )

    answer_bmm = answer_matmul

    def _reduced(self, func: Any, args: tuple, kwargs: dict) -> Any:
        name = func.__name__
        dim = args[1] if len(args) > 1 else kwargs.pop("dim", None)
        rest = dict(kwargs)
        if len(args) > 2:
            rest["keepdim"] = args[2]
        if dim is None:
            return func(self._values, **rest)
        dims = [wrap_dim(d, self.dim()) for d in ((dim,) if isinstance(dim, int) else dim)]
        if 0 in dims and self._ragged_idx not in dims:
            raise RuntimeError(
                f"{name}(): reducing along the batch dimension but not the ragged dimension is not "
                "supported for nested tensors"
            )
        inner = [d - 1 for d in dims if d not in (0, self._ragged_idx)]
        if self._ragged_idx not in dims:
            out = func(self._values, inner[0] if len(inner) == 1 else inner, **rest)
            lost = 0 if rest.get("keepdim") else sum(d < self._ragged_idx - 1 for d in inner)
            if isinstance(out, tuple):  # values and indices
                return type(out)([self.over(t, self._ragged_idx - lost) for t in out])
            return self.over(out, self._ragged_idx - lost)
        if 0 in dims:
            out = func(self._values, [self._ragged_idx - 1, *inner], **rest)
            return out.unsqueeze(0) if rest.get("keepdim") else out
        return self._over_pieces(name, dims, rest.get("keepdim", False))

    def _over_pieces(self, name: str, dims: list, keepdim: bool) -> Tensor:
        """A reduction along the jagged dimension: what fills up changes nothing."""
        self._refuse_holes(
            f"{name}(): reducing across the ragged dimension is not supported for non-contiguous "
            "nested tensors with holes"
        )
        fill = {"prod": 1, "all": True}.get(name, 0)
        if name.removeprefix("arg") in ("max", "min", "amax", "amin"):
            fill = lowest(self.dtype) if "max" in name else highest(self.dtype)
        t = self.to_padded_tensor(fill)
        if name != "mean":
            return getattr(t, name)(dims if len(dims) > 1 else dims[0], keepdim)
        total = t.sum(dims, keepdim)
        counts = self._counts().to(t.dtype).view(-1, *[1] * (total.dim() - 1))
        others = 1
        for d in dims:
            others *= 1 if d == self._ragged_idx else t.shape[d]
        return total / (counts * others)

    answer_sum = answer_mean = answer_amax = answer_amin = answer_prod = _reduced
    answer_max = answer_min = answer_any = answer_all = answer_argmax = answer_argmin = _reduced

    def answer_scaled_dot_product_attention(self, func: Any, args: tuple, kwargs: dict) -> Any:
        """Attention of (batch, heads, j, width): pieces filled up, with a mask."""
        names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
        given = {**dict(zip(names, args)), **kwargs}
        query, key, value = (given.pop(n) for n in ("query", "key", "value"))
        if query._ragged_idx == 1 and query.dim() == 4:  # pieces are batches
            rest = {k: v for k, v in given.items() if k != "attn_mask"}
            return query.over(func(query._values, key._values, value._values, **rest))
        if query._ragged_idx != 2:
            raise RuntimeError(
                "scaled_dot_product_attention takes nested tensors of (batch, heads, jagged, width)"
            )
        if given.pop("attn_mask", None) is not None:
            raise RuntimeError("Masks are not yet supported!")
        q, k, v = (t.to_padded_tensor(0.0) for t in (query, key, value))
        there = flambeau.arange(k.shape[2], device=k.device) < key._counts().unsqueeze(1)
        mask = there[:, None, None, :]
        if given.pop("is_causal", False):
            mask = mask & mask.new_ones(q.shape[2], k.shape[2]).tril()
        out = func(q, k, v, attn_mask=mask, **given)
        found = query.unpadded(out.movedim(2, 1))
        return query.over(found._values.movedim(0, 1))
