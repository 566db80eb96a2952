"""Nested tensors of the strided layout: pieces of any sizes, each function for each piece."""

from typing import Any

import flambeau
from flambeau import Tensor
from flambeau._layout import wrap_dim
from flambeau.nested.answering import Nested, called, made


class PiecewiseTensor(Nested):
    """A batch of tensors of one number of dimensions."""

    pieces: list

    @staticmethod
    def of(pieces: Any) -> "PiecewiseTensor":
        """A nested tensor of pieces, in their graph."""
        pieces = list(pieces)
        if len({t.dim() for t in pieces}) > 1:
            raise RuntimeError(
                "All Tensors given to nested_tensor must have the same dimension. Found dimension "
                f"{pieces[1].dim()} for Tensor at index 1 and dimension {pieces[0].dim()} for "
                "Tensor at index 0."
            )
        out = made(PiecewiseTensor)
        out.pieces = pieces
        return out

    def _held(self) -> Tensor:
        return self.pieces[0] if self.pieces else flambeau.empty(0)

    layout = property(lambda self: flambeau.strided)
    ndim = property(lambda self: self.dim())

    @property
    def shape(self) -> Any:
        raise RuntimeError(
            "Internal error: NestedTensorImpl doesn't support sizes. Please file an issue."
        )

    @property
    def grad(self) -> Any:
        grads = [t.grad for t in self.pieces]
        return None if any(g is None for g in grads) else PiecewiseTensor.of(grads)

    @grad.setter
    def grad(self, value: Any) -> None:
        given = [None] * len(self.pieces) if value is None else value.unbind()
        for t, g in zip(self.pieces, given):
            t.grad = g

    def requires_grad_(self, requires_grad: bool = True) -> "PiecewiseTensor":
        for t in self.pieces:
            t.requires_grad_(requires_grad)
        return self

    def backward(self, gradient: Any = None, *args: Any, **kwargs: Any) -> None:
        flambeau.autograd.backward(self.pieces, gradient.unbind(), *args, **kwargs)

    def dim(self) -> int:
        return 1 + (self.pieces[0].dim() if self.pieces else 0)

    def size(self, dim: int | None = None) -> Any:
        if dim is None:
            return self.shape
        dim = wrap_dim(dim, self.dim())
        if dim == 0:
            return len(self.pieces)
        found = {t.shape[dim - 1] for t in self.pieces}
        if len(found) > 1:
            raise RuntimeError(f"Given dimension {dim} is irregular and does not have a size.")
        return found.pop()

    def numel(self) -> int:
        return sum(t.numel() for t in self.pieces)

    def __len__(self) -> int:
        return len(self.pieces)

    def unbind(self, dim: int = 0) -> tuple:
        if dim:
            raise RuntimeError(
                f"NestedTensor can only be unbound along dimension 0 got dimension {dim} instead."
            )
        return tuple(called(t, "UnbindBackwardAutogradNestedTensor0") for t in self.pieces)

    def values(self) -> Tensor:
        return flambeau.cat([t.reshape(-1) for t in self.pieces])

    def is_contiguous(self, *args: Any, **kwargs: Any) -> bool:
        return all(t.is_contiguous() for t in self.pieces)

    def _nested_tensor_size(self) -> Tensor:
        return flambeau.tensor([list(t.shape) for t in self.pieces])

    def _nested_tensor_strides(self) -> Tensor:
        return flambeau.tensor([list(t.contiguous().stride()) for t in self.pieces])

    def _nested_tensor_storage_offsets(self) -> Tensor:
        counts = flambeau.tensor([t.numel() for t in self.pieces], dtype=flambeau.int64)
        return counts.cumsum(0) - counts

    def data_ptr(self) -> int:
        return self.pieces[0].data_ptr() if self.pieces else 0

    def __reduce_ex__(self, protocol: Any) -> Any:
        return PiecewiseTensor.of, (self.pieces,)

    def select(self, dim: int, index: int) -> Any:
        """One piece, or a slice of each."""
        dim = wrap_dim(dim, self.dim())
        if dim == 0:
            return called(self.pieces[index], "SelectBackwardAutogradNestedTensor0")
        return self.each(lambda t: t.select(dim - 1, index))

    def to_padded_tensor(self, padding: float, output_size: Any = None) -> Tensor:
        """All pieces in one tensor, filled up to the largest (or to a size)."""
        if not self.pieces:
            return flambeau.empty(0)
        sizes = [max(s) for s in zip(*[t.shape for t in self.pieces])]
        if output_size is not None:
            if any(w < s for w, s in zip(output_size[1:], sizes)):
                raise RuntimeError(
                    "Value in output_size is less than NestedTensor padded size. Truncation is "
                    "not supported."
                )
            sizes = list(output_size[1:])
        batch = len(self) if output_size is None else output_size[0]
        pad = flambeau.nn.functional.pad
        filled = []
        for t in self.pieces:
            missing = [p for s, w in zip(t.shape, sizes) for p in (w - s, 0)][::-1]
            filled.append(pad(t, missing, value=padding))
        rest = [flambeau.full_like(filled[0], padding)] * (batch - len(filled))
        found = flambeau.stack([*filled, *rest])
        return called(found, "NestedToPaddedTensorBackward0")

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        if not self.pieces:
            return "nested_tensor([\n\n])"
        shown = [repr(t).replace("\n", "\n  ") for t in self.pieces]
        return "nested_tensor([\n  " + ",\n  ".join(shown) + "\n])"

    # -- functions ---------------------------------------------------------------------------------

    def each(self, function: Any, *others: Any) -> Any:
        """A function of each piece (and of those of others)."""
        rows = [function(*parts) for parts in zip(self.pieces, *[o.pieces for o in others])]
        return PiecewiseTensor.of(rows)

    def local(self, func: Any, name: str, args: tuple, kwargs: dict) -> Any:
        """Element by element; two nested tensors meet piece by piece."""
        for value in args:
            if isinstance(value, PiecewiseTensor) and len(value) != len(self):
                raise RuntimeError("nested tensors of different numbers of pieces cannot meet")

        def part(value: Any, k: int) -> Any:
            return value.pieces[k] if isinstance(value, PiecewiseTensor) else value

        return PiecewiseTensor.of(
            func(*[part(a, k) for a in args], **{key: part(v, k) for key, v in kwargs.items()})
            for k in range(len(self.pieces))
        )

    def _shifted(self, dim: int) -> int:
        dim = wrap_dim(dim, self.dim())
        if dim == 0:
            raise RuntimeError("this function does not take the batch dimension of nested tensors")
        return dim - 1

    def answer_transpose(self, func: Any, args: tuple, kwargs: dict) -> Any:
        one, two = map(self._shifted, args[1:])
        return self.each(lambda t: t.transpose(one, two))

    def answer_softmax(self, func: Any, args: tuple, kwargs: dict) -> Any:
        dim = self._shifted(args[1] if len(args) > 1 else kwargs["dim"])
        return self.each(lambda t: t.softmax(dim))

    def answer_unsqueeze(self, func: Any, args: tuple, kwargs: dict) -> Any:
        dim = args[1] % (self.dim() + 1) - 1
        return self.each(lambda t: t.unsqueeze(dim))

    def answer_squeeze(self, func: Any, args: tuple, kwargs: dict) -> Any:
        dim = self._shifted(args[1])
        return self.each(lambda t: t.squeeze(dim))

    def answer_chunk(self, func: Any, args: tuple, kwargs: dict) -> Any:
        dim = self._shifted(kwargs.get("dim", args[2] if len(args) > 2 else 0))
        parts = [t.chunk(args[1], dim) for t in self.pieces]
        return tuple(PiecewiseTensor.of(column) for column in zip(*parts))

    def answer_split(self, func: Any, args: tuple, kwargs: dict) -> Any:
        dim = self._shifted(kwargs.get("dim", args[2] if len(args) > 2 else 0))
        parts = [t.split(args[1], dim) for t in self.pieces]
        return tuple(PiecewiseTensor.of(column) for column in zip(*parts))

    answer_split_with_sizes = answer_split

    def answer_narrow(self, func: Any, args: tuple, kwargs: dict) -> Any:
        if wrap_dim(args[1], self.dim()):
            raise RuntimeError("narrow(): only dim=0 supported for nested tensors")
        return PiecewiseTensor.of(self.pieces[args[2] : args[2] + args[3]])

    def answer_cat(self, func: Any, args: tuple, kwargs: dict) -> Any:
        dim = kwargs.get("dim", args[1] if len(args) > 1 else 0)
        if dim == 0:
            return PiecewiseTensor.of([t for nested in args[0] for t in nested.pieces])
        dim = self._shifted(dim)
        return self.each(lambda *parts: flambeau.cat(parts, dim), *args[0][1:])

    def _product(self, func: Any, args: tuple, kwargs: dict) -> Any:
        a, b = args
        if func.__name__ == "bmm":
            a, b = (PiecewiseTensor.of(t.unbind(0)) if not t.is_nested else t for t in (a, b))
        if not (isinstance(a, PiecewiseTensor) and isinstance(b, PiecewiseTensor)):
            raise RuntimeError(
                "Expected both to be nested, but got a nested self and non-nested other"
            )
        return a.each(lambda x, y: x @ y, b)

    answer_matmul = answer_bmm = _product

    def _shaped(self, func: Any, args: tuple, kwargs: dict) -> Any:
        shape = args[1] if isinstance(args[1], (tuple, list)) else args[1:]
        inner = list(shape[1:])

        def one(t: Tensor) -> Tensor:
            sizes = [s if s != -1 or k >= t.dim() else t.shape[k] for k, s in enumerate(inner)]
            return t.reshape(sizes if inner.count(-1) > 1 else inner)

        return self.each(one)

    answer_view = answer_reshape = _shaped

    def answer_sum(self, func: Any, args: tuple, kwargs: dict) -> Any:
        dim = args[1] if len(args) > 1 else kwargs.get("dim")
        if dim is None or not kwargs.get("keepdim", len(args) > 2 and args[2]):
            raise RuntimeError("NestedTensor always requires keepdim=True for now.")
        shifted = self._shifted(dim)
        return self.each(lambda t: t.sum(shifted, keepdim=True))

    def answer_scaled_dot_product_attention(self, func: Any, args: tuple, kwargs: dict) -> Any:
        query, key, value, *rest = args
        return query.each(lambda q, k, v: func(q, k, v, *rest, **kwargs), key, value)
