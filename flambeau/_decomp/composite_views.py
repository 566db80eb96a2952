"""Views, and copies that are made of views, made of the ops that PyTorch makes them of."""

import math
from typing import Any

import flambeau
from flambeau import interposing
from flambeau._decomp.registry import composite
from flambeau._tensor import Tensor
from flambeau.aten.overloads import namespace

aten: Any = namespace("aten")


@composite("reshape")
def reshape(self: Tensor, shape: Any) -> Tensor:
    shape = list(shape)
    if can_view(self, shape):
        if -1 in shape and not self.is_contiguous():
            shape[shape.index(-1)] = self.numel() // max(-math.prod(shape), 1)
        return aten.view.default(self, shape)
    copied = aten.clone.default(self, memory_format=flambeau.contiguous_format)
    return aten._unsafe_view.default(copied, shape)


def can_view(tensor: Tensor, shape: list) -> bool:
    """Is there a look at the same memory of this shape?"""
    plain = [getattr(size, "hint", size) for size in shape]
    if tensor.is_contiguous():
        return True
    with interposing.switched_off(*interposing.handlers()):
        empty = flambeau.empty_strided(
            tensor._layout.shape, tensor._layout.strides, dtype=tensor.dtype, device="meta"
        )
        try:
            empty.view(plain)
        except RuntimeError:
            return False
    return True


@composite("flatten.using_ints")
def flatten(self: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    if self.ndim == 0:
        return aten.view.default(self, [1])
    first, last = start_dim % self.ndim, end_dim % self.ndim
    if first == last:
        return self
    shape = list(self.shape)
    joined = [*shape[:first], math.prod(shape[first : last + 1]), *shape[last + 1 :]]
    return aten.reshape.default(self, joined)


@composite("unflatten.int")
def unflatten(self: Tensor, dim: int, sizes: Any) -> Tensor:
    shape, dim = list(self.shape), dim % self.ndim
    sizes = list(sizes)
    if -1 in sizes:
        k = sizes.index(-1)
        sizes[k] = shape[dim] // -math.prod(sizes)
    return aten.view.default(self, [*shape[:dim], *sizes, *shape[dim + 1 :]])


@composite("contiguous")
def contiguous(self: Tensor, *, memory_format: Any = flambeau.contiguous_format) -> Tensor:
    if self.is_contiguous(memory_format=memory_format):
        return self
    return aten.clone.default(self, memory_format=memory_format)


@composite("ravel")
def ravel(self: Tensor) -> Tensor:
    return aten.view.default(aten.contiguous.default(self), [-1])


@composite("narrow")
def narrow(self: Tensor, dim: int, start: int, length: int) -> Tensor:
    start = start + self.shape[dim] if isinstance(start, int) and start < 0 else start
    return aten.slice.Tensor(self, dim, start, start + length)


@composite("numpy_T")
def numpy_t(self: Tensor) -> Tensor:
    return aten.permute.default(self, list(range(self.ndim))[::-1])


@composite("mT", "matrix_H", "adjoint")
def matrix_t(self: Tensor) -> Tensor:
    return aten.transpose.int(self, -2, -1)


@composite("movedim.int", "moveaxis.int")
def movedim(self: Tensor, source: int, destination: int) -> Tensor:
    order = list(range(self.ndim))
    order.insert(destination % self.ndim, order.pop(source % self.ndim))
    return aten.permute.default(self, order)


@composite("swapaxes", "swapdims")
def swapaxes(self: Tensor, axis0: int, axis1: int) -> Tensor:
    return aten.transpose.int(self, axis0, axis1)


@composite("expand_as")
def expand_as(self: Tensor, other: Tensor) -> Tensor:
    return aten.expand.default(self, list(other.shape))


@composite("view_as", "reshape_as")
def view_as(self: Tensor, other: Tensor) -> Tensor:
    return aten.view.default(self, list(other.shape))


@composite("chunk")
def chunk(self: Tensor, chunks: int, dim: int = 0) -> Any:
    size = self.shape[dim]
    return aten.split.Tensor(self, (size + chunks - 1) // chunks, dim)


@composite("tensor_split.sections")
def tensor_split(self: Tensor, sections: int, dim: int = 0) -> list[Tensor]:
    size, found, start = self.shape[dim], [], 0
    for k in range(sections):
        stop = start + size // sections + (1 if k < size % sections else 0)
        found.append(aten.slice.Tensor(self, dim, start, stop))
        start = stop
    return found


@composite("split.sizes")
def split_sizes(self: Tensor, split_size: Any, dim: int = 0) -> Any:
    return aten.split_with_sizes.default(self, list(split_size), dim)


@composite("hstack")
def hstack(tensors: Any) -> Tensor:
    return aten.cat.default(list(tensors), 0 if tensors[0].ndim == 1 else 1)


@composite("vstack", "row_stack")
def vstack(tensors: Any) -> Tensor:
    lines = [aten.unsqueeze.default(t, 0) if t.ndim == 1 else t for t in tensors]
    return aten.cat.default(lines)


@composite("tile")
def tile(self: Tensor, dims: Any) -> Tensor:
    dims = list(dims)
    return aten.repeat.default(self, [1] * (self.ndim - len(dims)) + dims)


@composite("repeat_interleave.self_int")
def repeat_interleave(
    self: Tensor, repeats: int, dim: int | None = None, *, output_size: Any = None
) -> Tensor:
    if dim is None:
        self, dim = aten.reshape.default(self, [-1]), 0
    dim = dim % self.ndim
    shape = list(self.shape)
    more = aten.expand.default(
        aten.unsqueeze.default(self, dim + 1),
        [*shape[: dim + 1], repeats, *shape[dim + 1 :]],
    )
    copied = aten.clone.default(more, memory_format=flambeau.contiguous_format)
    return aten.view.default(copied, [*shape[:dim], shape[dim] * repeats, *shape[dim + 1 :]])


@composite("take_along_dim")
def take_along_dim(self: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    if dim is None:
        return aten.gather.default(aten.view.default(self, [-1]), 0,
                                   aten.view.default(indices, [-1]))  # fmt: skip
    dim = dim % self.ndim
    mine, theirs = list(self.shape), list(indices.shape)
    shape = [max(a, b) if k != dim else a for k, (a, b) in enumerate(zip(mine, theirs))]
    places = aten.expand.default(indices, [*shape[:dim], theirs[dim], *shape[dim + 1 :]])
    values = aten.expand.default(self, [*shape[:dim], mine[dim], *shape[dim + 1 :]])
    return aten.gather.default(values, dim, aten.remainder.Scalar(places, mine[dim]))


@composite("diag")
def diag(self: Tensor, diagonal: int = 0) -> Tensor:
    if self.ndim == 2:
        return aten.diagonal_copy.default(self, diagonal)
    return aten.diag_embed.default(self, diagonal)
