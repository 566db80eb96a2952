"""Reductions, scans and softmax over the elements that a mask leaves (True: it counts).

What is masked out is replaced by a number that changes nothing: zero for sums, one for products,
the lowest number for maxima. Where nothing is left, that number is the result, or nan for means.
"""

import functools
import math
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.masked.masks import canonical_dims, dense, in_own_layout


def _wants_strided(name: str, input: Tensor) -> None:
    if input.layout is not flambeau.strided:
        raise ValueError(f"masked {name} expects strided tensor (got {input.layout} tensor)")


def _wants_mask(name: str, input: Tensor, mask: Tensor | None) -> None:
    if mask is None and input.layout is not flambeau.strided:
        raise ValueError(
            f"masked {name} expects explicit mask for {str(input.layout)[6:]} tensor input"
        )


def _parts(input: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """(elements, mask of their shape or None)."""
    if mask is None:
        return input, None
    mask = dense(mask)
    if mask.shape != input.shape:
        mask = flambeau.broadcast_to(mask, input.shape)
    return input, mask.bool()


def filled(input: Tensor, mask: Tensor | None, value: Any) -> Tensor:
    """Elements, and a number (or what gives one for a dtype) in place of what is masked out."""
    input, mask = _parts(input, mask)
    if mask is None:
        return input
    value = value(input.dtype) if callable(value) else value
    return flambeau.where(mask, input, flambeau.tensor(value, dtype=input.dtype))


def lowest(dtype: Any) -> Any:
    """The number below all others."""
    if dtype is flambeau.bool:
        raise NotImplementedError("identity of amax on torch.bool input")
    return -math.inf if dtype.is_floating_point else flambeau.iinfo(dtype).min


def highest(dtype: Any) -> Any:
    """The number above all others."""
    if dtype is flambeau.bool:
        raise NotImplementedError("identity of amin on torch.bool input")
    return math.inf if dtype.is_floating_point else flambeau.iinfo(dtype).max


def _summed_dtype(input: Tensor, dtype: Any) -> Any:
    if dtype is None and not (input.is_floating_point() or input.is_complex()):
        return flambeau.int64
    return input.dtype if dtype is None else dtype


def _floating(name: str, input: Tensor, dtype: Any) -> Any:
    dtype = input.dtype if dtype is None else dtype
    if not (dtype.is_floating_point or dtype.is_complex):
        raise ValueError(
            f"{name}(): Could not infer output dtype. Input dtype must be either a floating point "
            f"or complex dtype. Got: {dtype}"
        )
    return dtype


def _dims(input: Tensor, dim: Any) -> tuple[int, ...]:
    return canonical_dims(dim, input.ndim)


def _first(input: Tensor, dim: Any) -> int:
    """The one dimension of functions that go along one; the first of several."""
    return _dims(input, dim)[0]


def _opened(function: Any) -> Any:
    """The same where a MaskedTensor comes: its mask counts, and the result is a plain tensor."""

    @functools.wraps(function)
    def called(input: Any, *args: Any, **kwargs: Any) -> Any:
        mask = getattr(input, "_mask", None)
        if mask is not None:
            given = kwargs.pop("mask", None)
            return function(
                input.get_data(), *args, mask=mask if given is None else given, **kwargs
            )
        return function(input, *args, **kwargs)

    return called


@_opened
@in_own_layout
def sum(
    input: Tensor,
    dim: Any = None,
    *,
    keepdim: bool | None = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Sums."""
    dtype = _summed_dtype(input, dtype)
    return filled(input, mask, 0).to(dtype).sum(_dims(input, dim), bool(keepdim), dtype=dtype)


@_opened
@in_own_layout
def prod(
    input: Tensor,
    dim: Any = None,
    *,
    keepdim: bool | None = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Products."""
    _wants_mask("prod", input, mask)
    found = filled(input, mask, 1).to(_summed_dtype(input, dtype))
    for d in sorted(_dims(input, dim), reverse=True):
        found = found.prod(d, bool(keepdim))
    return found


@_opened
@in_own_layout
def amax(
    input: Tensor,
    dim: Any = None,
    *,
    keepdim: bool | None = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The largest elements."""
    _wants_mask("amax", input, mask)
    input = input if dtype is None else input.to(dtype)
    return filled(input, mask, lowest).amax(_dims(input, dim), bool(keepdim))


@_opened
@in_own_layout
def amin(
    input: Tensor,
    dim: Any = None,
    *,
    keepdim: bool | None = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The smallest elements."""
    _wants_mask("amin", input, mask)
    input = input if dtype is None else input.to(dtype)
    return filled(input, mask, highest).amin(_dims(input, dim), bool(keepdim))


@_opened
def argmax(
    input: Tensor,
    dim: int | None = None,
    *,
    keepdim: bool | None = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Where the largest elements are."""
    _wants_strided("argmax", input)
    dtype = input.dtype if dtype is None else dtype
    return filled(input, mask, lowest).argmax(dim, bool(keepdim)).to(dtype)


@_opened
def argmin(
    input: Tensor,
    dim: int | None = None,
    *,
    keepdim: bool | None = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Where the smallest elements are."""
    _wants_strided("argmin", input)
    dtype = input.dtype if dtype is None else dtype
    return filled(input, mask, highest).argmin(dim, bool(keepdim)).to(dtype)


def _count(input: Tensor, dims: tuple, keepdim: bool, mask: Tensor | None, dtype: Any) -> Tensor:
    _, mask = _parts(input, mask)
    there = flambeau.ones_like(input, dtype=dtype) if mask is None else mask.to(dtype)
    return there.sum(dims, keepdim)


@_opened
@in_own_layout
def mean(
    input: Tensor,
    dim: Any = None,
    *,
    keepdim: bool | None = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Means."""
    dtype, dims = _floating("mean", input, dtype), _dims(input, dim)
    total = sum(input, dims, keepdim=keepdim, dtype=dtype, mask=mask)
    return total / _count(input, dims, bool(keepdim), mask, dtype)


@_opened
def median(
    input: Tensor,
    dim: int = -1,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The lower of the middle elements; of the dtype of the input, whatever is asked for."""
    _wants_strided("median", input)
    place, own = _first(input, dim), input.dtype
    if not own.is_floating_point:
        input = (input.real if own.is_complex else input).to(flambeau.get_default_dtype())
    elements, whole = _parts(input, mask)
    if whole is None:
        return elements.median(place, keepdim).values.to(own)
    found = filled(elements, whole, math.nan).nanmedian(place, keepdim).values
    if not own.is_floating_point and bool(found.isnan().any()):
        raise ValueError("masked median expects an element in every line of integers")
    return found.to(own)


@_opened
def logsumexp(
    input: Tensor,
    dim: Any = None,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The logarithm of sums of exponentials."""
    dtype = input.dtype if dtype is None else dtype
    inexact = dtype.is_floating_point or dtype.is_complex
    floats = input.to(dtype if inexact else flambeau.float32)
    return filled(floats, mask, -math.inf).logsumexp(_dims(input, dim), keepdim).to(dtype)


def logaddexp(
    input: Tensor,
    other: Tensor,
    *,
    dtype: Any = None,
    input_mask: Tensor | None = None,
    other_mask: Tensor | None = None,
) -> Tensor:
    """log(exp(input) + exp(other)), element by element."""
    dtype = input.dtype if dtype is None else dtype
    a, b = input.to(dtype), other.to(dtype)
    return flambeau.logaddexp(filled(a, input_mask, -math.inf), filled(b, other_mask, -math.inf))


@_opened
@in_own_layout
def norm(
    input: Tensor,
    ord: float | None = 2.0,
    dim: Any = None,
    *,
    keepdim: bool | None = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Norms."""
    dtype = input.dtype if dtype is None else dtype
    order = 2.0 if ord is None else float(ord)
    identity = math.inf if order < 0 else 0.0
    elements = filled(input.to(dtype), mask, identity)
    return flambeau.linalg.vector_norm(elements, order, _dims(input, dim), bool(keepdim))


def _spread(input, dim, unbiased, correction, keepdim, dtype, mask):
    if unbiased is not None and correction is not None:
        raise ValueError("Only one of unbiased and correction may be given")
    if correction is None:
        correction = 1 if unbiased is None else int(unbiased)
    dtype, dims = input.dtype if dtype is None else dtype, _dims(input, dim)
    if not (dtype.is_floating_point or dtype.is_complex):
        dtype = flambeau.float32
    middle = mean(input, dims, keepdim=True, dtype=dtype, mask=mask)
    away = input.to(dtype) - middle
    square = away * away.conj() if dtype.is_complex else away * away
    total = filled(square, mask, 0).sum(dims, bool(keepdim))
    count = _count(input, dims, bool(keepdim), mask, dtype.to_real())
    return total / (count - correction).clamp(min=0)


@_opened
@in_own_layout
def var(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool | None = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Variances."""
    return _spread(input, dim, unbiased, correction, keepdim, dtype, mask)


@_opened
@in_own_layout
def std(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    *,
    correction: int | None = None,
    keepdim: bool | None = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Standard deviations."""
    return _spread(input, dim, unbiased, correction, keepdim, dtype, mask).sqrt()


# -- along a dimension -----------------------------------------------------------------------------


@_opened
@in_own_layout
def softmax(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """Softmax; what is masked out gets nothing."""
    return filled(input, mask, lowest).softmax(_first(input, dim), dtype=dtype)


@_opened
@in_own_layout
def log_softmax(
    input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """The logarithm of softmax."""
    return filled(input, mask, lowest).log_softmax(_first(input, dim), dtype=dtype)


@_opened
@in_own_layout
def softmin(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """Softmax of what is left, turned around."""
    input = input if dtype is None else input.to(dtype)
    return (-filled(input, mask, math.inf)).softmax(_first(input, dim))


@_opened
@in_own_layout
def normalize(
    input: Tensor,
    ord: float,
    dim: int,
    *,
    eps: float = 1e-12,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Elements by their norm."""
    dtype = input.dtype if dtype is None else dtype
    length = norm(input, ord, _first(input, dim), keepdim=True, dtype=dtype, mask=mask)
    return filled(input.to(dtype), mask, 0) / length.clamp(min=eps)


@_opened
def cumsum(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """Running sums."""
    dtype = _summed_dtype(input, dtype)
    return filled(input, mask, 0).to(dtype).cumsum(_first(input, dim))


@_opened
def cumprod(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """Running products."""
    dtype = _summed_dtype(input, dtype)
    return filled(input, mask, 1).to(dtype).cumprod(_first(input, dim))
