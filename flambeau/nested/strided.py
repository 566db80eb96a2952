"""Nested tensors of the strided layout: pieces of any sizes, each function for each piece."""

from itertools import pairwise
from math import prod
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
        for k, (one, two) in enumerate(pairwise(pieces)):
            if one.dim() != two.dim():
                raise RuntimeError(
                    "All Tensors given to nested_tensor must have the same dimension. Found "
                    f"dimension {two.dim()} for Tensor at index {k + 1} and dimension {one.dim()} "
                    f"for Tensor at index {k}."
                )
        out = made(PiecewiseTensor)
        out.pieces = pieces
        return out

    @staticmethod
    def packed(pieces: Any) -> "PiecewiseTensor":
        """Copies of pieces, one behind the other in one memory."""
        pieces = list(pieces)
        if not pieces:
            return PiecewiseTensor.of(pieces)
        memory = flambeau.cat([t.reshape(-1) for t in pieces])
        parts = memory.split([t.numel() for t in pieces])
        return PiecewiseTensor.of(p.view(t.shape) for p, t in zip(parts, pieces))

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
        if all(g is None for g in grads):
            return None
        return PiecewiseTensor.of(
            flambeau.zeros_like(t) if g is None else g for t, g in zip(self.pieces, grads)
        )

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
        ends: dict[Any, int] = {}  # of what came before in each memory
        for t in self.pieces:
            end = ends.get(t._storage, 0)
            if not t.is_contiguous() or (t.numel() and t.storage_offset() != end):
                return False
            ends[t._storage] = end + t.numel()
        return True

    def stride(self, dim: int | None = None) -> Any:
        raise RuntimeError(
            "Internal error: NestedTensorImpl doesn't support strides. Please file an issue."
        )

    def tolist(self) -> Any:
        return self.stride()

    def numpy(self, *args: Any, **kwargs: Any) -> Any:
        return self.shape

    def _nested_tensor_size(self) -> Tensor:
        return flambeau.tensor([list(t.shape) for t in self.pieces])

    def _nested_tensor_strides(self) -> Tensor:
        return flambeau.tensor([list(t.stride()) for t in self.pieces])

    def _nested_tensor_storage_offsets(self) -> Tensor:
        counts = flambeau.tensor([t.numel() for t in self.pieces], dtype=flambeau.int64)
        return counts.cumsum(0) - counts

    def saved_parts(self) -> tuple:
        """(memory, sizes, strides, offsets), as files have nested tensors."""
        spans = [
            1 + sum((s - 1) * step for s, step in zip(t.shape, t.stride())) if t.numel() else 0
            for t in self.pieces
        ]
        memory = [
            t.detach().as_strided((span,), (1,), t.storage_offset())
            for t, span in zip(self.pieces, spans)
        ]
        ends = flambeau.tensor(spans, dtype=flambeau.int64).cumsum(0)
        leaf = self.is_leaf and self.requires_grad
        return (
            flambeau.cat(memory).requires_grad_(leaf) if memory else flambeau.empty(0),
            self._nested_tensor_size(),
            self._nested_tensor_strides(),
            ends - flambeau.tensor(spans, dtype=flambeau.int64),
        )

    def data_ptr(self) -> int:
        return self.pieces[0].data_ptr() if self.pieces else 0

    def __reduce_ex__(self, protocol: Any) -> Any:
        return PiecewiseTensor.of, (self.pieces,)

    def select(self, dim: int, index: int) -> Any:
        """One piece, or a slice of each."""
        dim = wrap_dim(dim, self.dim())
        if dim == 0:
            if not -len(self) <= index < len(self):
                raise IndexError(
                    f"index {index} is out of bounds for dimension 0 with size {len(self)}"
                )
            return called(self.pieces[index], "SelectBackwardAutogradNestedTensor0")
        return self.each(lambda t: t.select(dim - 1, index))

    def to_padded_tensor(self, padding: float, output_size: Any = None) -> Tensor:
        """All pieces in one tensor, filled up to the largest (or to a size)."""
        if not self.pieces:
            return flambeau.empty(0)
        self._without_gaps("for now to_padded_tensor only supports contiguous nested tensor")
        if not self.numel():
            raise RuntimeError(
                "to_padded_tensor: at least one constituent tensor should have non-zero numel"
            )
        if output_size is not None and len(output_size) != self.dim():
            raise RuntimeError(
                "Length of output_size does not match NestedTensor dims. Broadcasting is not "
                "supported."
            )
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

    def _without_gaps(self, complaint: str) -> None:
        if not self.is_contiguous():
            raise RuntimeError(complaint)

    def _width(self) -> int:
        """The size of the last dimension, which all pieces share."""
        widths = [t.shape[-1] for t in self.pieces]
        for width in widths:
            if width != widths[0]:
                raise RuntimeError(
                    "Expected all tensors in nested tensor to have the same trailing dimension, "
                    f"instead last dimension equals:  {width}"
                )
        return widths[0]

    def local(self, func: Any, name: str, args: tuple, kwargs: dict) -> Any:
        """Element by element; two nested tensors meet piece by piece."""
        bare = name.strip("_")
        if bare in _BUFFERED:
            self._without_gaps("NestedTensor must be contiguous to get buffer.")
        if bare.removeprefix("r") in _MEETING:
            _check_meeting(bare, *args[:2])
        if name == "fill_" and isinstance(args[1], Tensor) and args[1].dim():
            raise RuntimeError(
                "fill_ only supports 0-dimension value tensor but got tensor with "
                f"{args[1].dim()} dimensions."
            )
        if name == "copy_" and not self.is_same_size(args[1]):
            raise RuntimeError(
                "copy_ only supports tensors that are the same size for Nested implementations"
            )
        for value in args:
            if isinstance(value, PiecewiseTensor) and len(value) != len(self):
                raise RuntimeError("nested tensors of different numbers of pieces cannot meet")

        def part(value: Any, k: int) -> Any:
            return value.pieces[k] if isinstance(value, PiecewiseTensor) else value

        found = [
            func(*[part(a, k) for a in args], **{key: part(v, k) for key, v in kwargs.items()})
            for k in range(len(self.pieces))
        ]
        if all(a is b for a, b in zip(found, self.pieces)):  # in place, or nothing to change
            return self
        return PiecewiseTensor.of(found)

    def answer_contiguous(self, func: Any, args: tuple, kwargs: dict) -> Any:
        return self if self.is_contiguous() else PiecewiseTensor.packed(self.pieces)

    def _formatted(self, func: Any, args: tuple, kwargs: dict) -> Any:
        wanted = kwargs.get("memory_format")
        if wanted not in (None, flambeau.preserve_format, flambeau.contiguous_format):
            text = {flambeau.channels_last: "ChannelsLast"}.get(wanted, "ChannelsLast3d")
            raise RuntimeError(
                f"Nested tensor {func.__name__} supports Preserve and Contiguous memory formats, "
                f"called {func.__name__} with memory format: {text}"
            )
        return self.local(func, func.__name__, args, kwargs)

    answer_clone = answer_empty_like = _formatted

    def answer_linear(self, func: Any, args: tuple, kwargs: dict) -> Any:
        given = _named(("input", "weight", "bias"), args, kwargs)
        weight, bias = given["weight"], given.get("bias")
        if isinstance(weight, PiecewiseTensor):
            raise RuntimeError(
                "Linear does not support nested weight when input is a nested tensor."
            )
        if self.dim() != 3 or weight.dim() != 2:
            raise RuntimeError(
                "Linear requires nested_tensor.dim == 3 and dense_matrix.dim == 2. Nested tensor "
                f"dim: {self.dim()}. Dense tensor dim: {weight.dim()}"
            )
        self._without_gaps("for now linear only supports contiguous nested tensor")
        if self._width() != weight.shape[1]:
            raise RuntimeError(
                "Shape mismatch for NestedTensor Linear: Expected input's (a nested tensor) "
                f"'last_dim' to equal 'weight.size(1), but got: last_dim = {self._width()}, and "
                f"weight.size(1) = {weight.shape[1]}"
            )
        return self.each(lambda t: func(t, weight, bias))

    def answer_layer_norm(self, func: Any, args: tuple, kwargs: dict) -> Any:
        names = ("input", "normalized_shape", "weight", "bias", "eps")
        given = _named(names, args, kwargs)
        shape = given["normalized_shape"]
        shape = [shape] if isinstance(shape, int) else list(shape)
        if given.get("weight") is None or given.get("bias") is None:
            raise ValueError("NestedTensor layer_norm requires weight and bias")
        sizes = [{t.shape[k] for t in self.pieces} for k in range(self.dim() - 1)]
        for k, wanted in zip(range(-1, -len(shape) - 1, -1), shape[::-1]):
            if -k > len(sizes) or len(sizes[k]) > 1:
                raise RuntimeError(
                    "normalized_shape extends into irregular dimensions for the nested tensor"
                )
            if sizes[k] != {wanted}:
                raise RuntimeError(
                    f"The shape at dimension {len(shape) + k} of normalized_shape doesn't match "
                    "the input"
                )
        rest = {k: v for k, v in given.items() if k != "input"}
        return self.each(lambda t: func(t, **rest))

    def _shifted(self, dim: int, complaint: str) -> int:
        """A dimension of the nested tensor, among those of pieces."""
        dim = wrap_dim(dim, self.dim())
        if dim == 0:
            raise RuntimeError(complaint)
        return dim - 1

    def answer_transpose(self, func: Any, args: tuple, kwargs: dict) -> Any:
        given = _named(("input", "dim0", "dim1"), args, kwargs)
        complaint = "Nested tensor dimension 0 cannot be transposed"
        one, two = (self._shifted(given[d], complaint) for d in ("dim0", "dim1"))
        return self.each(lambda t: t.transpose(one, two))

    def answer_softmax(self, func: Any, args: tuple, kwargs: dict) -> Any:
        given = _named(("input", "dim"), args, kwargs)
        if not self.pieces:
            return self
        dim = self._shifted(given["dim"], "Cannot apply softmax across nested dimension 0")
        return self.each(lambda t: t.softmax(dim, dtype=given.get("dtype")))

    def answer_unsqueeze(self, func: Any, args: tuple, kwargs: dict) -> Any:
        dim = wrap_dim(_named(("input", "dim"), args, kwargs)["dim"], self.dim() + 1)
        if dim == 0:
            raise RuntimeError(
                "unsqueeze(): For nested tensors, unsqueezing dimension 0 is not supported at the "
                "moment"
            )
        return self.each(lambda t: t.unsqueeze(dim - 1))

    def answer_squeeze(self, func: Any, args: tuple, kwargs: dict) -> Any:
        dim = _named(("input", "dim"), args, kwargs).get("dim")
        if dim is None:
            raise RuntimeError(
                "squeeze(): For nested tensors, squeeze without the dim argument is not supported "
                "at the moment, however you can use squeeze(Tensor self, int dim) instead"
            )
        shifted = self._shifted(
            dim, "squeeze(): For nested tensors, squeezing dimension 0 is not supported"
        )
        if self.dim() == 2:
            raise RuntimeError(
                "squeeze(): For nested tensors, squeezing a nested tensor of singleton tensors is "
                "not supported at the moment"
            )
        if any(t.shape[shifted] != 1 for t in self.pieces):
            return self
        return self.each(lambda t: t.squeeze(shifted))

    def answer_chunk(self, func: Any, args: tuple, kwargs: dict) -> Any:
        given = _named(("input", "chunks", "dim"), args, kwargs)
        chunks = given["chunks"]
        if wrap_dim(given.get("dim", 0), self.dim()) != self.dim() - 1:
            raise RuntimeError(
                "Chunk for nested tensors is currently only supported for the last dimension."
            )
        if chunks <= 0:
            raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
        self._without_gaps("chunk expects `self` to be contiguous.")
        width = self._width()
        if width % chunks:
            raise RuntimeError(
                "Chunk for nested tensors is only supported for nested tensors with trailing "
                f"dimension divisible by chunks, got: {width} % {chunks} != 0"
            )
        return self._columns([width // chunks] * chunks)

    def _columns(self, widths: list) -> tuple:
        parts = [t.split(widths, -1) for t in self.pieces]
        return tuple(PiecewiseTensor.of(column) for column in zip(*parts))

    def answer_split(self, func: Any, args: tuple, kwargs: dict) -> Any:
        sizes = "split_sizes" if func.__name__ == "split_with_sizes" else "split_size_or_sections"
        given = _named(("input", sizes, "dim"), args, kwargs)
        dim = wrap_dim(given.get("dim", 0), self.dim())
        if dim != self.dim() - 1:
            raise RuntimeError(
                "split_with_sizes for nested tensors is currently only supported for the last "
                "dimension."
            )
        self._without_gaps("split_with_sizes expects `self` to be contiguous.")
        width = self._width()
        widths: Any = given.get(sizes, given.get("split_size"))
        if isinstance(widths, int):
            return self._columns([min(widths, width - k) for k in range(0, width, widths)])
        if sum(widths) != width:
            raise RuntimeError(
                f"split_with_sizes expects split_sizes to sum exactly to {width} (input tensor's "
                f"size at dimension {dim}), but got split_sizes={list(widths)}"
            )
        return self._columns(list(widths))

    answer_split_with_sizes = answer_split

    def answer_narrow(self, func: Any, args: tuple, kwargs: dict) -> Any:
        given = _named(("input", "dim", "start", "length"), args, kwargs)
        dim, start, length = wrap_dim(given["dim"], self.dim()), given["start"], given["length"]
        if dim:
            raise RuntimeError(f"narrow(): only dim=0 supported for nested tensors, but got: {dim}")
        self._without_gaps("narrow(): only contiguous nested tensors supported")
        if start + length > len(self):
            raise RuntimeError(
                f"start ({start}) + length ({length}) exceeds dimension size ({len(self)})."
            )
        return PiecewiseTensor.of(self.pieces[start : start + length])

    def answer_cat(self, func: Any, args: tuple, kwargs: dict) -> Any:
        given = _named(("tensors", "dim"), args, kwargs)
        tensors, dim = given["tensors"], given.get("dim", 0)
        if not all(isinstance(t, PiecewiseTensor) for t in tensors):
            raise RuntimeError("cat(): expected each tensor in given list to be nested")
        if dim == 0:
            return PiecewiseTensor.of([t for nested in tensors for t in nested.pieces])
        dim = wrap_dim(dim, self.dim()) - 1
        for nested in tensors:
            nested._without_gaps("cat(): only contiguous nested tensors are supported")
            if any(
                len({t.shape[k] for t in nested.pieces}) > 1 for k in range(1, nested.dim() - 1)
            ):
                raise RuntimeError(
                    "cat(): only nested tensors with a single ragged dim next to the batch dim "
                    "are supported"
                )
        around = {tuple(t.shape[:dim] + t.shape[dim + 1 :] for t in n.pieces) for n in tensors}
        if len(around) > 1:
            raise RuntimeError(
                "cat(): expected all nested tensors to have matching ragged structures outside of "
                "the concatenated dim"
            )
        return self.each(lambda *parts: flambeau.cat(parts, dim), *tensors[1:])

    def answer_bmm(self, func: Any, args: tuple, kwargs: dict) -> Any:
        given = _named(("input", "mat2"), args, kwargs)
        pair = [given["input"], given["mat2"]]
        for k, t in enumerate(pair):
            if t.dim() != 3:
                raise RuntimeError(f"batch{k + 1} must be a 3D tensor")
        a, b = (t.pieces if isinstance(t, PiecewiseTensor) else t.unbind(0) for t in pair)
        if len(a) != len(b):
            raise RuntimeError(
                "Expected size for the 1st dimension of batch2 tensor to be: "
                f"{len(a)} but got: {len(b)}."
            )
        for k, (x, y) in enumerate(zip(a, b)):
            if x.shape[1] != y.shape[0]:
                raise RuntimeError(
                    f"{k}-th nested matrices in batch cannot be multiplied "
                    f"({x.shape[0]}x{x.shape[1]} and {y.shape[0]}x{y.shape[1]})"
                )
        return PiecewiseTensor.of(x @ y for x, y in zip(a, b))

    def answer_matmul(self, func: Any, args: tuple, kwargs: dict) -> Any:
        given = _named(("input", "other"), args, kwargs)
        a, b = given["input"], given["other"]
        if isinstance(a, PiecewiseTensor) and not b.is_nested and b.dim() == 2 and a.dim() > 3:
            return a.each(lambda t: t @ b)
        _check_nested("Expected both", a, b)
        for place, t in (("1st", a), ("2nd", b)):
            if t.dim() < 3:
                raise RuntimeError(
                    "matmul: For nested tensors, only inputs with >= 3 dims are currently "
                    f"supported. {place} input has rank: {t.dim()}"
                )
        if len(a) != len(b):
            raise RuntimeError(
                "matmul: Expected size for the 1st dimension of 2nd input tensor to be: "
                f"{len(a)} but got: {len(b)}."
            )
        for x, y in zip(a.pieces, b.pieces):
            if x.shape[:-2] != y.shape[:-2]:
                raise RuntimeError(
                    "matmul: For nested tensors, batch dimensions must have the same sizes, no "
                    "broadcasting is currently performed. Got batch shapes for self  "
                    f"{list(x.shape[:-2])} and batch shapes for other {list(y.shape[:-2])}"
                )
            if x.shape[-1] != y.shape[-2]:
                raise RuntimeError(
                    "matmul: Nested tensors cannot be matrix multiplied, last dimension of self "
                    f"has sizes {x.shape[-1]} second to last dimension of other has sizes "
                    f"{y.shape[-2]}"
                )
        return a.each(lambda x, y: x @ y, b)

    def _shaped(self, func: Any, args: tuple, kwargs: dict) -> Any:
        shape = args[1] if isinstance(args[1], (tuple, list)) else args[1:]
        name, inner = func.__name__, list(shape[1:])
        if not shape:
            raise RuntimeError("shape '[]' is invalid for a nested tensor")
        if not self.pieces:
            raise RuntimeError("empty nested tensor cannot be reshaped")
        if shape[0] != len(self):
            raise RuntimeError(
                f"{name}: For now nested {name} cannot change or infer the implicit batch dimension"
            )
        # a dimension that was there may keep its size; only one more is worked out
        old = self.dim() - 1
        if sum(s == -1 for s in inner) > 1 and len(inner) > old:
            raise RuntimeError("only one dimension can be inferred")

        def one(t: Tensor) -> Tensor:
            kept = len(inner) >= old
            sizes = [t.shape[k] if s == -1 and kept and k < old else s for k, s in enumerate(inner)]
            if -1 not in sizes and prod(sizes) != t.numel():
                raise RuntimeError(
                    f"shape '{list(shape)}' is invalid for input of size {t.numel()}"
                )
            return t.view(sizes) if name == "view" else t.reshape(sizes)

        return self.each(one)

    answer_view = answer_reshape = _shaped

    def answer_sum(self, func: Any, args: tuple, kwargs: dict) -> Any:
        given = _named(("input", "dim", "keepdim"), args, kwargs)
        dims = given.get("dim")
        if dims is None:
            raise NotImplementedError(
                "Could not run 'aten::sum' with arguments from the 'NestedTensorCPU' backend."
            )
        dims = [dims] if isinstance(dims, int) else list(dims)
        if len(dims) != 1:
            raise RuntimeError("NestedTensor only allows reduction of a single dimension for now.")
        dim = wrap_dim(dims[0], self.dim())
        if dim != self.dim() - 1:
            raise RuntimeError(
                "NestedTensor can only be reduced across the last dimension for now got "
                f"dimension {dim} instead."
            )
        if not given.get("keepdim"):
            raise RuntimeError("NestedTensor always requires keepdim=True for now.")
        return self.each(lambda t: t.sum(-1, keepdim=True, dtype=given.get("dtype")))

    def answer_scaled_dot_product_attention(self, func: Any, args: tuple, kwargs: dict) -> Any:
        names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
        given = _named(names, args, kwargs)
        pieces = [given.pop(name) for name in names[:3]]
        _check_nested("Expected both", *pieces[:2])
        if given.pop("attn_mask", None) is not None:
            raise RuntimeError(
                "Scaled_dot_product_attention: Nested tensors for query / key are not supported "
                "when an explicit attn_mask is set"
            )
        if given.get("is_causal"):
            raise RuntimeError(
                "_scaled_dot_product_attention: Nested tensors for query / key are not supported "
                "when is_causal=True"
            )
        query, key, value = pieces
        return query.each(lambda q, k, v: func(q, k, v, **given), key, value)


# functions that PyTorch takes over all values at once, so that there must be no gaps
_BUFFERED = frozenset(
    """
    relu gelu tanh neg silu abs sgn logical_not sin cos isinf isposinf isneginf isnan sqrt
    """.split()
)
_MEETING = frozenset("add sub mul div true_divide truediv iadd imul isub idiv itruediv".split())


def _named(names: tuple, args: tuple, kwargs: dict) -> dict:
    """Arguments by name."""
    return {**dict(zip(names, args)), **kwargs}


def _check_nested(words: str, a: Any, b: Any) -> None:
    kinds = ["nested" if getattr(t, "is_nested", False) else "non-nested" for t in (a, b)]
    if "non-nested" in kinds:
        raise RuntimeError(f"{words} to be nested, but got a {kinds[0]} self and {kinds[1]} other")


def _check_meeting(name: str, a: Any, b: Any) -> None:
    """May two operands of arithmetic meet?"""
    if not (isinstance(a, Tensor) and isinstance(b, Tensor)):
        return
    if isinstance(a, PiecewiseTensor) and isinstance(b, PiecewiseTensor):
        if not a.is_same_size(b):
            bare = {"truediv": "div", "true_divide": "div"}.get(name, name)
            raise RuntimeError(f"{bare} does not support broadcasting when given a NestedTensor")
    elif a.dim() and b.dim():
        _check_nested("Expected both self and other", a, b)
