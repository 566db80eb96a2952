"""Counting and searching: unique values, binary search, histograms, membership.

Kernels are in `codegen/templates/counting.py`. None of these has a derivative.
"""

import math

from flambeau import _dtype as d
from flambeau import errors
from flambeau import return_types as named
from flambeau.ops.support import not_implemented_derivative, refuse_complex32
from flambeau.ops.table import OptionalTensor, Scalar, composite, public, template

# -- unique ----------------------------------------------------------------------------------------


@template(
    "unique_all",
    variants="function",
    outputs=3,
    node="Unique2Backward0",
    grad=not_implemented_derivative("_unique2"),
)
def _unique2(input, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False):
    """Distinct elements in order, which of them each element is, and how often each occurs."""


@template(
    "unique_consecutive_all",
    variants="",
    outputs=3,
    node="UniqueConsecutiveBackward0",
    grad=not_implemented_derivative("unique_consecutive"),
)
def _unique_runs(input):
    """Elements without repetitions of their neighbours, as _unique2."""


@template(
    "unique_lines",
    variants="",
    outputs=3,
    node="UniqueDimBackward0",
    grad=not_implemented_derivative("unique_dim"),
)
def _unique_lines(input, dim: int, sorting: bool):
    """Distinct slices along dim, as _unique2."""


def _wanted(found, return_inverse, return_counts):
    values, inverse, counts = found
    kept = [values]
    if return_inverse:
        kept.append(inverse)
    if return_counts:
        kept.append(counts)
    return tuple(kept) if len(kept) > 1 else values


@composite(variants="function method", bind=True)
def unique(
    input,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int = None,
):
    """The distinct elements (or slices along dim), in order."""
    if dim is None:
        found = _unique2(input, True, return_inverse, return_counts)
    else:
        found = _unique_lines(input, dim, True)
    return _wanted(found, return_inverse, return_counts)


@composite(variants="function method", bind=True)
def unique_consecutive(
    input, return_inverse: bool = False, return_counts: bool = False, dim: int = None
):
    """The elements (or slices along dim) without repetitions of their neighbours."""
    found = _unique_runs(input) if dim is None else _unique_lines(input, dim, False)
    return _wanted(found, return_inverse, return_counts)


# -- search ----------------------------------------------------------------------------------------


def _search_out(wanted, got):
    return (
        "torch.searchsorted(): output tensor's dtype is wrong, it can only be Int(int32) or "
        "Long(int64) depending on whether out_int32 flag is True, but we got output tensor's "
        f"dtype {got.scalar_name} and out_int32 flag is {wanted is d.int32}"
    )


_SEARCH: dict = dict(variants="function out", numbers_for=("input",), exact_out=_search_out)


@template("searchsorted", **_SEARCH)
def searchsorted(
    sorted_sequence,
    input,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: OptionalTensor = None,
):
    """Where values would go into a sorted sequence (its last dimension) to keep it sorted."""


@template("bucketize", **_SEARCH)
def bucketize(input, boundaries, *, out_int32: bool = False, right: bool = False):
    """The bucket of each value, between sorted boundaries."""


def _one_element(number, like):
    if type(number) is int and number > errors.LARGEST and like.dtype.is_floating_point:
        number = float(number)
    return public("tensor")(number, device=like.device)


@composite(variants="function out", first_scalar=True, bind=True, exact_out=True)
def isin(elements, test_elements, *, assume_unique: bool = False, invert: bool = False):
    """Which elements are among the test elements."""
    are_tensors = [hasattr(t, "_layout") for t in (elements, test_elements)]
    if not any(are_tensors):
        raise TypeError(
            "isin() received an invalid combination of arguments - got "
            f"({type(elements).__name__}, {type(test_elements).__name__})"
        )
    like = elements if are_tensors[0] else test_elements
    elements, test_elements = (
        t if known else _one_element(t, like)
        for t, known in zip((elements, test_elements), are_tensors)
    )
    elements, test_elements = elements.detach(), test_elements.detach()
    for t in (elements, test_elements):
        refuse_complex32("isin_default_cpu", t)
        if t.dtype.is_complex or t.dtype is d.bool_:
            raise RuntimeError(
                f"Unsupported input type encountered for isin(): {t.dtype.scalar_name}"
            )
    if test_elements.numel() == 0:
        return public("full")(elements.shape, invert, dtype=d.bool_, device=elements.device)
    if test_elements.numel() <= 4:
        found = elements.unsqueeze(-1) == test_elements.flatten()
        found = found.any(-1)
    else:
        ordered = test_elements.flatten().sort()[0]
        place = searchsorted(ordered, elements.contiguous())
        nearest = ordered.take(place.clamp(max=ordered.numel() - 1))
        found = nearest == elements
    return found.logical_not() if invert else found


# -- histograms ------------------------------------------------------------------------------------


@template(
    "bincount",
    variants="function method",
    node="NotImplemented",
    grad={"weights": not_implemented_derivative("bincount")},
)
def bincount(input, weights: OptionalTensor = None, minlength: int = 0):
    """How often each of 0, 1, 2, ... occurs, or the sum of the weights where it does."""


def _number(x):
    """A bound as PyTorch prints it."""
    return f"{x:g}"


def _bounds(input, low, high):
    """The range of a histogram: the data's own if both ends are equal, never a point."""
    if low == high and input.numel() and input.device.runtime.computes:
        low, high = input.amin().item(), input.amax().item()
    if low == high:
        low, high = low - 1, high + 1
    return low, high


@composite(
    variants="function method out",
    bind=True,
    exact_out="torch.histogram: input tensor and hist tensor should have the same dtype, but got "
    "input {wanted.cpp_name} and hist {got.cpp_name}",
)
def histc(input, bins: int = 100, min: Scalar = 0, max: Scalar = 0):
    """How many elements fall into each of equal bins between min and max; others do not count."""
    input = input.detach()
    check_bins(bins)
    if max < min:
        raise RuntimeError("torch.histc: max must be larger than min")
    if input.dtype.is_complex and min == max:
        raise errors.not_implemented("aminmax_cpu", input.dtype)
    refuse_complex32("linspace_cpu", input)
    if not input.dtype.is_floating_point:
        empty = min == max and input.dtype is d.uint8 and input.device.runtime.computes
        if empty and not bool((input != 0).any()):
            raise d.overflow(input.dtype)  # the range becomes [-1, 1]
        raise errors.not_implemented("histogram_cpu", input.dtype)
    if not input.device.runtime.computes:
        return input.new_zeros((bins,))
    low, high = _bounds(input, min, max)
    if not (math.isfinite(low) and math.isfinite(high)):
        ends = (
            "-nan" if math.isnan(low) else _number(low),
            "-nan" if math.isnan(high) else _number(high),
        )
        raise RuntimeError(f"torch.histc: range of [{ends[0]}, {ends[1]}] is not finite")
    x = input.flatten()
    inside = (x >= low) & (x <= high)
    if high == low:  # one number, so large that one more makes no difference
        place = (x * 0).add_(bins // 2)
    else:
        place = (x - low) * bins / (high - low)
    place = place.masked_fill(inside.logical_not(), 0).to(d.int64).clamp(max=bins - 1)
    return collected(place, inside, None, bins, input)


def collected(place, inside, weight, bins, like):
    """Sums of weights (or counts) by bin; what is not inside counts nothing."""
    if weight is None and not place.device.runtime.is_host:  # counts are quicker there
        place = place.masked_fill(inside.logical_not(), bins)
        return bincount(place, minlength=bins + 1)[:bins].to(like.dtype)
    wide = d.float64 if like.dtype is d.float64 else d.float32
    weight = inside.to(wide) if weight is None else weight.to(wide) * inside.to(wide)
    return bincount(place, weight, minlength=bins).to(like.dtype)


def check_range(name, bins, range):
    """Does a signature take these? A range goes with a number of bins, and is a list."""
    if range is not None and (not isinstance(range, (tuple, list)) or hasattr(bins, "_layout")):
        kinds = errors.kind_name(bins), errors.kind_name(range)
        raise TypeError(
            f"{name}() received an invalid combination of arguments - got (Tensor, {kinds[0]}, "
            f"range={kinds[1]})"
        )


def check_counted(input):
    if input.dtype not in (d.float32, d.float64):
        raise errors.not_implemented("histogramdd", input.dtype)


def _check_histogram(input, bins, weight):
    if type(bins) is int:
        check_bins(bins)
    elif hasattr(bins, "_layout"):
        _check_edges(bins, input, 0)
    check_counted(input)
    if weight is not None:
        if weight.numel() != input.numel():
            raise RuntimeError(
                "torch.histogramdd: if weight tensor is provided it should have the same shape as "
                "the input tensor excluding its innermost dimension, but got input with shape "
                f"{[input.numel(), 1]} and weight with shape {list(weight.shape)}"
            )
        if weight.dtype is not input.dtype:
            raise RuntimeError(
                "torch.histogramdd: if weight tensor is provided, input tensor and weight tensor "
                f"should have the same dtype, but got input(float) and weight({weight.dtype.name})"
            )


def _check_edges(edges, input, k):
    if edges.dtype is not input.dtype:
        raise RuntimeError(
            "torch.histogramdd: input tensor and bins tensors should have the same dtype, but "
            f"got input with dtype {input.dtype.cpp_name} and bins for dimension {k} with "
            f"dtype {edges.dtype.cpp_name}"
        )


def check_bins(bins, k=0):
    if bins <= 0:
        raise RuntimeError(f"torch.histogram(): bins must be > 0, but got {bins} for dimension {k}")


def wrong_range(n, range):
    return RuntimeError(
        f"torch.histogramdd: for a {n}-dimensional histogram range should have {2 * n} elements, "
        f"but got {len(range)}"
    )


def bin_edges(input, bins, range, k=0):
    """The edges of the bins along dimension k: given, or evenly spread."""
    if hasattr(bins, "_layout"):
        _check_edges(bins, input, k)
        return bins
    check_bins(bins, k)
    if range is None:
        if not input.numel():
            low, high = 0.0, 1.0
        else:
            low, high = input.amin().item(), input.amax().item()
    else:
        if len(range) != 2:
            raise wrong_range(1, range)
        low, high = range
    if not (math.isfinite(low) and math.isfinite(high)):
        raise RuntimeError(
            f"torch.histogramdd: dimension {k}'s range [{_number(low)}, {_number(high)}] is not "
            "finite"
        )
    if low > high:
        raise RuntimeError(
            f"torch.histogramdd: min should not exceed max, but got min {_number(low)} max "
            f"{_number(high)} for dimension {k}"
        )
    if low == high:
        low, high = low - 0.5, high + 0.5
    return public("linspace")(low, high, bins + 1, dtype=input.dtype, device=input.device)


@composite(variants="function method out", bind=True, outputs=2)
def histogram(
    input,
    bins: object = 100,
    *,
    range: object = None,
    weight: OptionalTensor = None,
    density: bool = False,
):
    """Counts (or sums of weights) by bin, and the edges of the bins."""
    check_range("histogram", bins, range)
    input = input.detach()
    _check_histogram(input, bins, weight)
    edges = bin_edges(input, bins, range)
    count = edges.numel() - 1
    x = input.flatten()
    first, last = edges.select(0, 0), edges.select(0, count)
    inside = (x >= first) & (x <= last)
    # the last bin includes its upper edge
    place = (searchsorted(edges, x, right=True) - 1).clamp(0, count - 1)
    weight = None if weight is None else weight.detach().flatten()
    hist = collected(place, inside, weight, count, input)
    if density:
        hist = hist / hist.sum() / edges.diff()
    return named.histogram((hist, edges))
