"""Names of the array API standard that PyTorch does not have, in PyTorch's words.

The standard (version 2024.12) and PyTorch share most names, and where they differ in what a shared
name does, PyTorch's way is kept: docs/array_api.md lists these places. What is here are the names
that only the standard has, so nobody who writes PyTorch can tell that they were added. They load
when `flambeau.NAME` is first touched; `to_device` and `__array_namespace__` of tensors are in
`_tensor/`.
"""

from typing import NamedTuple

import flambeau
from flambeau import Tensor

KINDS = {
    "bool": ("bool",),
    "signed integer": ("int8", "int16", "int32", "int64"),
    "unsigned integer": ("uint8", "uint16", "uint32", "uint64"),
    "real floating": ("float32", "float64"),
    "complex floating": ("complex64", "complex128"),
}
KINDS["integral"] = KINDS["signed integer"] + KINDS["unsigned integer"]
KINDS["numeric"] = KINDS["integral"] + KINDS["real floating"] + KINDS["complex floating"]


class UniqueAll(NamedTuple):
    """What `unique_all` found."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """What `unique_counts` found."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """What `unique_inverse` found."""

    values: Tensor
    inverse_indices: Tensor


# dtypes


def astype(x, dtype, /, *, copy=True, device=None):
    """x with another dtype; itself if nothing changes and no copy is asked for."""
    return x.to(device=device or x.device, dtype=dtype, copy=copy)


def isdtype(dtype, kind):
    """Is a dtype the given one, of the given kind, or one of several of either?"""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, one) for one in kind)
    if isinstance(kind, flambeau.dtype):
        return dtype == kind
    if kind not in KINDS:
        raise ValueError(f"Unrecognized data type kind: {kind!r}; kinds are {', '.join(KINDS)}")
    # float16 and the like are no part of the standard, but they are what their names say
    return {
        "bool": dtype == flambeau.bool,
        "signed integer": _is_integer(dtype) and dtype.is_signed,
        "unsigned integer": _is_integer(dtype) and not dtype.is_signed,
        "integral": _is_integer(dtype),
        "real floating": dtype.is_floating_point,
        "complex floating": dtype.is_complex,
        "numeric": dtype != flambeau.bool,
    }[kind]


def _is_integer(dtype):
    return dtype != flambeau.bool and not dtype.is_floating_point and not dtype.is_complex


# shapes


def permute_dims(x, /, axes):
    """x with its dimensions in another order."""
    return x.permute(axes)


def expand_dims(x, /, axis=0):
    """x with new dimensions of size one, where they are in the result."""
    if isinstance(axis, int):
        return x.unsqueeze(axis)
    ndim = x.ndim + len(axis)
    for place in axis:
        if not -ndim <= place < ndim:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-ndim}, {ndim - 1}], "
                f"but got {place})"
            )
    places = {place % ndim for place in axis}
    if len(places) < len(axis):
        raise ValueError(f"axis {tuple(axis)} names a dimension twice")
    for place in sorted(places):
        x = x.unsqueeze(place)
    return x


def matrix_transpose(x, /):
    """Every matrix of x transposed."""
    return x.mT


def unstack(x, /, *, axis=0):
    """The slices of x along a dimension."""
    return x.unbind(axis)


def broadcast_arrays(*arrays):
    """All arrays in the shape that they have together."""
    return list(flambeau.broadcast_tensors(*arrays))


def repeat(x, repeats, /, *, axis=None):
    """Every element of x several times, one after the other."""
    if isinstance(repeats, Tensor):
        repeats = repeats.to(flambeau.int64)
    return flambeau.repeat_interleave(x, repeats, dim=axis)


# elements


def bitwise_invert(x, /):
    """Every bit of x turned around."""
    return flambeau.bitwise_not(x)


def take_along_axis(x, indices, /, *, axis=-1):
    """Elements of x by their places along a dimension."""
    return flambeau.take_along_dim(x, indices.to(flambeau.int64), axis)


def vecdot(x1, x2, /, *, axis=-1):
    """Products of vectors along a dimension; the first is conjugated."""
    if x1.shape[axis] != x2.shape[axis]:
        raise ValueError(
            f"vectors of {x1.shape[axis]} and {x2.shape[axis]} elements have no product"
        )
    dtype = flambeau.result_type(x1, x2)
    return (x1.to(dtype).conj() * x2.to(dtype)).sum(axis, dtype=dtype)


def cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False):
    """Running sums along a dimension, after a zero if it is asked for."""
    return _scan(flambeau.cumsum, 0, x, axis, dtype, include_initial)


def cumulative_prod(x, /, *, axis=None, dtype=None, include_initial=False):
    """Running products along a dimension, after a one if it is asked for."""
    return _scan(flambeau.cumprod, 1, x, axis, dtype, include_initial)


def _scan(scan, initial, x, axis, dtype, include_initial):
    if axis is None:
        if x.ndim > 1:
            raise ValueError("axis must be given for arrays of more than one dimension")
        axis = 0
    if dtype is None and isdtype(x.dtype, "unsigned integer"):
        dtype = flambeau.uint64  # of which there is no arithmetic; it is int64's, bit by bit
    out = (
        scan(x, axis, dtype=flambeau.int64).to(dtype)
        if dtype is flambeau.uint64
        else (scan(x, axis, dtype=dtype))
    )
    if not include_initial:
        return out
    shape = list(out.shape)
    shape[axis] = 1
    return flambeau.cat((out.new_full(shape, initial), out), axis)


# sets


def unique_values(x, /):
    """The different elements of x, in order; complex ones by their parts."""
    return _unique(x)[0]


def unique_counts(x, /):
    """The different elements of x, and how often each is there."""
    values, _, counts = _unique(x)
    return UniqueCounts(values, counts)


def unique_inverse(x, /):
    """The different elements of x, and which of them stands where."""
    values, inverse, _ = _unique(x)
    return UniqueInverse(values, inverse)


def unique_all(x, /):
    """The different elements of x, the first place of each, which stands where, and how often."""
    values, inverse, counts = _unique(x)
    places = flambeau.arange(x.numel(), device=x.device)
    first = flambeau.full_like(values, x.numel(), dtype=flambeau.int64)
    first = first.scatter_reduce(0, inverse.reshape(-1), places, "amin")
    return UniqueAll(values, first, inverse, counts)


def _unique(x):
    if not x.dtype.is_complex:
        return flambeau.unique(x, return_inverse=True, return_counts=True)
    rows = flambeau.view_as_real(x.resolve_conj().reshape(-1))
    rows, inverse, counts = flambeau.unique(rows, return_inverse=True, return_counts=True, dim=0)
    return flambeau.view_as_complex(rows), inverse.reshape(x.shape), counts


# what the namespace says of itself


class Info:
    """What can be asked of this namespace: devices, dtypes, abilities."""

    def capabilities(self):
        """Boolean indices, results whose shape depends on data, and the largest rank."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self):
        """Where tensors are made if nobody says where."""
        return flambeau.get_default_device()

    def default_dtypes(self, *, device=None):
        """The dtypes of tensors that are made of Python's numbers."""
        real = flambeau.get_default_dtype()
        return {
            "real floating": real,
            "complex floating": real.to_complex(),
            "integral": flambeau.int64,
            "indexing": flambeau.int64,
        }

    def dtypes(self, *, device=None, kind=None):
        """The standard's dtypes, by name; those of a kind, or of any of several."""
        if kind is None:
            kind = ("bool", "numeric")
        kinds = kind if isinstance(kind, tuple) else (kind,)
        if unknown := [one for one in kinds if one not in KINDS]:
            raise ValueError(f"Unrecognized data type kind: {unknown[0]!r}")
        return {name: getattr(flambeau, name) for one in kinds for name in KINDS[one]}

    def devices(self):
        """All devices that compute."""
        count = flambeau.cuda.device_count() if flambeau.cuda.is_available() else 0
        return [flambeau.device("cpu"), *(flambeau.device("cuda", k) for k in range(count))]


def __array_namespace_info__():
    """What this namespace says of itself."""
    return Info()
