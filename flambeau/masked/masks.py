"""Masks themselves: of the shape and layout of an input, of a result; choices by sparse masks.

Functions of `functions.py` compute on dense tensors; here is how a sparse input becomes one, and
what of the result stays.
"""

import functools
import inspect
import math
from typing import Any

import flambeau
from flambeau import Tensor

_range = range
REDUCTIONS = frozenset(
    "sum prod amax amin argmax argmin mean median logsumexp norm var std all any".split()
)
_SPARSE = (flambeau.sparse_coo, flambeau.sparse_csr)


def canonical_dims(dim: Any, ndim: int) -> tuple[int, ...]:
    """Dimensions counted from the front; all of them for None and for ()."""
    if dim is None or dim == ():
        return tuple(_range(ndim))
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    found = tuple(_place(d, ndim) for d in dims)
    if len(set(found)) != len(found):
        raise RuntimeError("dim appears multiple times in the list of dims")
    return found


def _place(dim: int, ndim: int) -> int:
    if -ndim <= dim < ndim:
        return dim % ndim
    low, high = -max(ndim, 1), max(ndim, 1) - 1
    if ndim == 0 and dim in (0, -1):
        return 0
    raise IndexError(
        f"Dimension out of range (expected to be in range of [{low}, {high}], but got {dim})"
    )


def dense(t: Any) -> Any:
    """A tensor with all of its elements."""
    return t.to_dense() if isinstance(t, Tensor) and t.layout is not flambeau.strided else t


def _in_layout(t: Tensor, layout: Any) -> Tensor:
    """A dense tensor in one of the layouts that masked functions know."""
    if layout is flambeau.sparse_csr:
        return t.to_sparse_csr()
    return t.to_sparse() if layout is flambeau.sparse_coo else t


def input_mask(input: Tensor, *args: Any, mask: Tensor | None = None, **kwargs: Any) -> Tensor:
    """The mask in the shape and the layout of an input."""
    if input.layout not in (flambeau.strided, *_SPARSE):
        raise ValueError(
            f"_input_mask expects strided or sparse COO or sparse CSR tensor but got {input.layout}"
        )
    if mask is None:
        raise ValueError("_input_mask requires explicit mask")
    if mask.shape == input.shape and mask.layout is input.layout:
        return mask.to(flambeau.bool)
    if mask.ndim > input.ndim:
        raise IndexError(
            "_input_mask expected broadcastable mask (got mask dimensionality higher than of the "
            "input)"
        )
    whole = flambeau.broadcast_to(dense(mask).to(flambeau.bool), input.shape)
    return _in_layout(whole, input.layout)


def output_mask(op: Any, input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Which elements of a result have one that counted: op is a function of `torch.masked`."""
    name = op.__name__
    if name == "logaddexp":
        whole = flambeau.ones(input.shape, dtype=flambeau.bool, device=input.device)
        masks = [kwargs.get(word) for word in ("input_mask", "other_mask")]
        one, two = (whole if m is None else input_mask(input, mask=m) for m in masks)
        return flambeau.logical_or(one, two)
    mask = input_mask(input, mask=kwargs.get("mask"))
    if name not in REDUCTIONS:
        return mask
    given = inspect.signature(op).bind(input, *args, **kwargs).arguments
    keepdim = bool(given.get("keepdim"))
    left = dense(mask)
    for d in sorted(canonical_dims(given.get("dim"), input.ndim), reverse=True):
        left = left.any(d, keepdim) if left.ndim else left
    return _in_layout(left, mask.layout)


def identity_of(op_name: str, input: Tensor, *args: Any) -> Any:
    """The number that changes nothing in a reduction; None where there is none."""
    dtype = input.dtype
    inexact = dtype.is_floating_point or dtype.is_complex
    if op_name in ("sum", "cumsum", "any"):
        return 0
    if op_name in ("prod", "cumprod", "all"):
        return 1
    if op_name in ("amax", "argmax", "logsumexp"):
        return -math.inf if inexact else flambeau.iinfo(dtype).min
    if op_name in ("amin", "argmin"):
        return math.inf if inexact else flambeau.iinfo(dtype).max
    if op_name == "norm":
        return math.inf if args and args[0] is not None and args[0] < 0 else 0
    if op_name in ("mean", "var", "std", "median"):
        return None
    raise NotImplementedError(f"identity of {op_name} on {dtype} input")


def combine(op: Any, input: Tensor, mask: Tensor | None, *args: Any) -> Tensor:
    """Elements, and the identity of a reduction where the mask leaves nothing."""
    if mask is None:
        return input
    value = identity_of(op.__name__, input, *args)
    return where(mask, input, flambeau.tensor(value, dtype=input.dtype, device=input.device))


def where(mask: Tensor, input: Tensor, fill_value: Tensor) -> Tensor:
    """Elements where the mask is true, a number elsewhere.

    Of a sparse mask only true elements stay: all others are not there.
    """
    if mask.layout is flambeau.strided:
        return flambeau.where(mask, dense(input), fill_value)
    if mask.layout not in _SPARSE:
        raise ValueError(
            f"_where expects strided or sparse COO or sparse CSR tensor but got {mask.layout}"
        )
    by_places = mask.to_sparse() if mask.layout is flambeau.sparse_csr else mask.coalesce()
    flags = by_places.values()
    rows = flags.reshape(flags.shape[0], -1).any(1) if flags.shape[0] else flags
    kept = flambeau.sparse_coo_tensor(
        by_places.indices()[:, rows], flags[rows], mask.shape, is_coalesced=True
    )
    values = dense(input).sparse_mask(kept).values()
    chosen = flambeau.where(kept.values(), values, fill_value)
    found = flambeau.sparse_coo_tensor(kept.indices(), chosen, mask.shape, is_coalesced=True)
    return found.to_sparse_csr() if mask.layout is flambeau.sparse_csr else found


def in_own_layout(function: Any) -> Any:
    """The same for sparse inputs: the result has their layout, and the elements of its mask."""

    @functools.wraps(function)
    def called(input: Any, *args: Any, **kwargs: Any) -> Any:
        layout = getattr(input, "layout", flambeau.strided)
        if layout not in _SPARSE or (kwargs.get("mask") is None and function.__name__ != "sum"):
            return function(input, *args, **kwargs)
        mask = kwargs.pop("mask", None)
        whole = dense(input)
        if mask is None:
            return _in_layout(function(whole, *args, **kwargs), layout)
        mask = dense(input_mask(whole, mask=dense(mask)))
        found = function(whole, *args, mask=mask, **kwargs)
        kept = output_mask(function, whole, *args, mask=mask, **kwargs)
        return found.sparse_mask(_in_layout(kept, layout))

    return called
