"""What a transform is, its inverse, and transforms made of others.

A transform maps values (`t(x)`), maps them back (`t.inv(y)`), says by how much it stretches space
(`log_abs_det_jacobian`) and between which sets it leads (`domain`, `codomain`). With `cache_size=1`
it remembers the last pair, so that an inverse that is hard to compute comes back unchanged.
"""

import math
from collections.abc import Callable, Sequence
from functools import reduce
from operator import add
from typing import Any, ClassVar

import flambeau
from flambeau import Size, Tensor

from . import constraints
from .utils import _sum_rightmost, lazy_property, passed_on

__all__ = [
    "CatTransform",
    "ComposeTransform",
    "IndependentTransform",
    "ReshapeTransform",
    "StackTransform",
    "Transform",
    "identity_transform",
]


class Transform:
    """A function of tensors that can be undone, at least on one side.

    Subclasses give `domain`, `codomain`, `_call`, `_inverse` and, where values correspond one to
    one (`bijective`), `log_abs_det_jacobian`; `sign` tells whether a function of numbers rises.

    Args:
        cache_size: 1 to remember the last value and its image, or 0.
    """

    bijective: Any = False
    domain: Any
    codomain: Any
    # the arguments of __init__ before cache_size, which are attributes too; None: unknown
    _arguments: ClassVar[tuple[str, ...] | None] = None

    def __init__(self, cache_size: int = 0) -> None:
        super().__init__()  # a transform may be a module, too
        if cache_size not in (0, 1):
            raise ValueError("cache_size must be 0 or 1")
        self._cache_size = cache_size
        self._inv: Any = None
        self._cached_x_y: Any = (None, None)

    def __getstate__(self):
        return {**vars(self), "_inv": None}  # made again when asked for

    @property
    def event_dim(self) -> int:
        """How many dimensions on the right belong together."""
        before, after = self.domain.event_dim, self.codomain.event_dim
        if before != after:
            raise ValueError("Please use either .domain.event_dim or .codomain.event_dim")
        return before

    @property
    def inv(self) -> Any:
        """The inverse, which is a transform too; `t.inv.inv is t`."""
        if self._inv is None:
            self._inv = _InverseTransform(self)
        return self._inv

    @property
    def sign(self) -> Any:
        """1 for rising, -1 for falling functions of single numbers."""
        raise NotImplementedError

    def with_cache(self, cache_size: int = 1) -> Any:
        """This transform, or one like it with such a cache."""
        if self._cache_size == cache_size:
            return self
        kind: Any = type(self)
        names = () if kind.__init__ is Transform.__init__ else self._arguments
        if names is None:
            raise NotImplementedError(f"{kind}.with_cache is not implemented")
        given = [getattr(self, name) for name in names]
        return kind(*given, cache_size=cache_size)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __call__(self, x: Tensor) -> Tensor:
        """The image of x."""
        return self._remembered(0, x, self._call)

    def _inv_call(self, y):
        return self._remembered(1, y, self._inverse)

    def _remembered(self, place, known, function):
        """What belongs to the value at a place of the pair (x, y): from memory, or computed."""
        if not self._cache_size:
            return function(known)
        if self._cached_x_y[place] is not known:
            found = function(known)
            self._cached_x_y = (found, known) if place else (known, found)
        return self._cached_x_y[1 - place]

    def _call(self, x):
        raise NotImplementedError

    def _inverse(self, y):
        raise NotImplementedError

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log |det dy/dx| of every event, for y = t(x)."""
        raise NotImplementedError

    def forward_shape(self, shape: Size) -> Size:
        """The shape of the image of a tensor of this shape."""
        return shape

    def inverse_shape(self, shape: Size) -> Size:
        """The shape of what has an image of this shape."""
        return shape

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


_OTHER_END = {"domain": "codomain", "codomain": "domain"}


def _both_ends(describe: Callable[[Any, str], Any], **known: Any) -> tuple[Any, Any]:
    """Domain and codomain from one description: describe(transform, "domain" or "codomain")."""

    def end(name):
        return constraints.dependent_property(lambda self: describe(self, name), **known)

    return end("domain"), end("codomain")


class _InverseTransform(Transform):
    """A transform read backwards."""

    def __init__(self, transform: Transform) -> None:
        super().__init__(cache_size=transform._cache_size)
        self._inv = transform

    def __getstate__(self):
        return vars(self)

    domain, codomain = _both_ends(
        lambda self, end: getattr(self._inv, _OTHER_END[end]), is_discrete=False
    )
    bijective = passed_on("_inv.bijective")
    sign = passed_on("_inv.sign")

    def with_cache(self, cache_size: int = 1) -> Any:
        return self._inv.with_cache(cache_size).inv

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _InverseTransform) and self._inv == other._inv

    def __call__(self, x: Tensor) -> Tensor:
        return self._inv._inv_call(x)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -self._inv.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Size) -> Size:
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape: Size) -> Size:
        return self._inv.forward_shape(shape)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._inv!r})"


class ComposeTransform(Transform):
    """One transform after the other.

    Args:
        parts: the transforms, first things first.
    """

    _arguments = ("parts",)

    def __init__(self, parts: list[Transform], cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.parts = [part.with_cache(cache_size) for part in parts] if cache_size else parts

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    def _end(self, end: str) -> Any:
        """The set at one end, with the dimensions that an event needs on the whole way there."""
        if not self.parts:
            return constraints.real
        start, way = _OTHER_END[end], self.parts[:: 1 if end == "codomain" else -1]
        needed = getattr(way[0], start).event_dim
        for part in way:
            reached = getattr(part, end)
            grown = needed + reached.event_dim - getattr(part, start).event_dim
            needed = max(grown, reached.event_dim)
        missing = needed - reached.event_dim
        return constraints.independent(reached, missing) if missing else reached

    domain, codomain = _both_ends(_end, is_discrete=False)

    @lazy_property
    def bijective(self) -> bool:
        return all(part.bijective for part in self.parts)

    @lazy_property
    def sign(self) -> Any:
        return math.prod((part.sign for part in self.parts), start=1)

    @property
    def inv(self) -> Any:
        if self._inv is None:
            self._inv = ComposeTransform([part.inv for part in reversed(self.parts)])
            self._inv._inv = self
        return self._inv

    def __call__(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if not self.parts:
            return flambeau.zeros_like(x)
        event_dim, here, terms = self.domain.event_dim, x, []
        for place, part in enumerate(self.parts, 1):
            there = part(here) if place < len(self.parts) else y
            stretch = part.log_abs_det_jacobian(here, there)
            terms.append(_sum_rightmost(stretch, event_dim - part.domain.event_dim))
            event_dim += part.codomain.event_dim - part.domain.event_dim
            here = there
        return reduce(add, terms)

    def forward_shape(self, shape: Size) -> Size:
        return reduce(lambda found, part: part.forward_shape(found), self.parts, shape)

    def inverse_shape(self, shape: Size) -> Size:
        return reduce(lambda found, part: part.inverse_shape(found), self.parts[::-1], shape)

    def __repr__(self) -> str:
        parts = ",\n    ".join(map(repr, self.parts))
        return f"{type(self).__name__}(\n    {parts}\n)"


identity_transform = ComposeTransform([])


class IndependentTransform(Transform):
    """Treats the last dimensions as one event: stretches are summed over them.

    Args:
        base_transform: what is done to the values.
        reinterpreted_batch_ndims: how many dimensions belong together, beyond the transform's own.
    """

    _arguments = ("base_transform", "reinterpreted_batch_ndims")

    def __init__(
        self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0
    ) -> None:
        super().__init__(cache_size=cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    def _end(self, end: str) -> Any:
        base = getattr(self.base_transform, end)
        return constraints.independent(base, self.reinterpreted_batch_ndims)

    domain, codomain = _both_ends(_end, is_discrete=False)
    bijective = passed_on("base_transform.bijective")
    sign = passed_on("base_transform.sign")

    def _call(self, x):
        _need_dims(x.dim(), self.domain.event_dim)
        return self.base_transform(x)

    def _inverse(self, y):
        _need_dims(y.dim(), self.codomain.event_dim)
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        stretch = self.base_transform.log_abs_det_jacobian(x, y)
        return _sum_rightmost(stretch, self.reinterpreted_batch_ndims)

    def forward_shape(self, shape: Size) -> Size:
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Size) -> Size:
        return self.base_transform.inverse_shape(shape)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_transform!r}, {self.reinterpreted_batch_ndims})"


def _need_dims(count: int, needed: int) -> None:
    if count < needed:
        raise ValueError("Too few dimensions on input")


class ReshapeTransform(Transform):
    """The same numbers in another shape.

    Args:
        in_shape: the last dimensions of what comes in.
        out_shape: what becomes of them.
    """

    bijective = True
    _arguments = ("in_shape", "out_shape")

    def __init__(
        self, in_shape: Sequence[int], out_shape: Sequence[int], cache_size: int = 0
    ) -> None:
        super().__init__(cache_size=cache_size)
        self.in_shape, self.out_shape = Size(in_shape), Size(out_shape)
        if math.prod(self.in_shape) != math.prod(self.out_shape):
            raise ValueError("in_shape, out_shape have different numbers of elements")

    def _end(self, end: str) -> Any:
        shape = self.in_shape if end == "domain" else self.out_shape
        return constraints.independent(constraints.real, len(shape))

    domain, codomain = _both_ends(_end)

    def _call(self, x):
        return x.reshape(x.shape[: x.dim() - len(self.in_shape)] + self.out_shape)

    def _inverse(self, y):
        return y.reshape(y.shape[: y.dim() - len(self.out_shape)] + self.in_shape)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x.new_zeros(x.shape[: x.dim() - len(self.in_shape)])

    def forward_shape(self, shape: Size) -> Size:
        return _exchange(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Size) -> Size:
        return _exchange(shape, self.out_shape, self.in_shape)


def _exchange(shape, old, new):
    """shape with other dimensions on its right."""
    cut = len(shape) - len(old)
    _need_dims(len(shape), len(old))
    if shape[cut:] != old:
        raise ValueError(f"Shape mismatch: expected {shape[cut:]} but got {old}")
    return shape[:cut] + new


# -- a transform for every piece -------------------------------------------------------------------


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise AssertionError(message)


class _Pieces(Transform):
    """Several transforms, each for its piece of a tensor along one dimension.

    Subclasses say how a tensor is cut into pieces (`_cut`), how pieces are joined (`_join`), and
    how the sets of the transforms are (`_end`).
    """

    # the length that tensors must have along the dimension, and its name in messages
    _size: tuple[int, str]

    def __init__(self, tseq: Sequence[Transform], dim: int, cache_size: int) -> None:
        _require(
            all(isinstance(t, Transform) for t in tseq),
            "All elements of tseq must be Transform instances",
        )
        super().__init__(cache_size=cache_size)
        self.transforms = [t.with_cache(cache_size) for t in tseq] if cache_size else list(tseq)
        self.dim = dim

    @property
    def bijective(self) -> bool:
        return all(t.bijective for t in self.transforms)

    def _end(self, end: str) -> Any:
        raise NotImplementedError

    def _cut(self, tensor):
        raise NotImplementedError

    def _join(self, pieces):
        raise NotImplementedError

    domain, codomain = _both_ends(lambda self, end: self._end(end))

    def _pieces(self, name, tensor, what="tensor"):
        dim, (size, size_name) = self.dim, self._size
        _require(
            -tensor.dim() <= dim < tensor.dim(),
            f"dim {dim} out of range for {what} with {tensor.dim()} dimensions",
        )
        _require(
            tensor.size(dim) == size,
            f"{name}.size({dim}) = {tensor.size(dim)} must equal {size_name} {size}",
        )
        return self._cut(tensor)

    def _call(self, x):
        return self._join([t(piece) for t, piece in zip(self.transforms, self._pieces("x", x))])

    def _inverse(self, y):
        return self._join([t.inv(piece) for t, piece in zip(self.transforms, self._pieces("y", y))])

    def _stretches(self, x, y):
        pieces = zip(self._pieces("x", x, "x"), self._pieces("y", y, "y"))
        return [t.log_abs_det_jacobian(*pair) for t, pair in zip(self.transforms, pieces)]


class CatTransform(_Pieces):
    """Pieces of given lengths, as `torch.cat` joins them.

    Args:
        tseq: a transform for each piece.
        dim: where the pieces lie side by side.
        lengths: how long each piece is; 1 by default.
    """

    _arguments = ("transforms", "dim", "lengths")

    def __init__(
        self,
        tseq: Sequence[Transform],
        dim: int = 0,
        lengths: Sequence[int] | None = None,
        cache_size: int = 0,
    ) -> None:
        super().__init__(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        _require(
            len(self.lengths) == len(self.transforms),
            f"lengths ({len(self.lengths)}) must match transforms ({len(self.transforms)})",
        )

    @lazy_property
    def event_dim(self) -> int:
        return max(t.event_dim for t in self.transforms)

    @lazy_property
    def length(self) -> int:
        return sum(self.lengths)

    def _end(self, end):
        return constraints.cat([getattr(t, end) for t in self.transforms], self.dim, self.lengths)

    @property
    def _size(self):
        return self.length, "length"

    def _cut(self, tensor):
        return tensor.split(self.lengths, self.dim)

    def _join(self, pieces):
        return flambeau.cat(pieces, self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        stretches = [
            _sum_rightmost(stretch, self.event_dim - t.event_dim)
            for t, stretch in zip(self.transforms, self._stretches(x, y))
        ]
        dim = (self.dim - x.dim() if self.dim >= 0 else self.dim) + self.event_dim
        return flambeau.cat(stretches, dim) if dim < 0 else reduce(add, stretches)


class StackTransform(_Pieces):
    """Slices, as `torch.stack` joins them.

    Args:
        tseq: a transform for each slice.
        dim: along which the slices follow each other.
    """

    _arguments = ("transforms", "dim")

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(tseq, dim, cache_size)

    def _end(self, end):
        return constraints.stack([getattr(t, end) for t in self.transforms], self.dim)

    @property
    def _size(self):
        return len(self.transforms), "len(transforms)"

    def _cut(self, tensor):
        return tensor.unbind(self.dim)

    def _join(self, pieces):
        return flambeau.stack(pieces, self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return self._join(self._stretches(x, y))
