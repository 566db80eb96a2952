"""Filling tensors with random integers: how many bits a number takes.

PyTorch draws base + bits % range; what the range is depends on the dtype, because a float must not
round up to the excluded bound. See `ops/sampling_bounds.py`. The memory side is in `sampling.py`.
"""

from flambeau import _dtype as d
from flambeau.eager.rows import is_computed
from flambeau.eager.sampling import COMMON, check_overlap, fill, fills, require
from flambeau.ops.sampling_bounds import (
    DIGITS,
    bound,
    check_bounds,
    check_order,
    largest,
    next_above,
    next_below,
)
from flambeau.ops.table import MISSING


@fills("random_")
def random_(out, low, high, generator):
    """random_(), random_(high) or random_(low, high); a high of None means: as far as it goes."""
    if low is MISSING and high is MISSING:
        random_all(out, generator)
    elif high is MISSING:
        random_from_to(out, 0, bound(low), generator)
    else:
        low = 0 if low is MISSING else bound(low)
        random_from_to(out, low, high if high is None else bound(high), generator)


def random_all(out, generator):
    """Everything a dtype holds: 0 to the largest integer, or to 2^digits for floats."""
    if not is_computed(out):
        return
    dtype = out.dtype
    check_overlap(out)
    require(dtype, COMMON | {d.bool_}, "random_kernel_cpu")
    if dtype is d.bool_:
        span = 2
    else:
        span = 2 ** DIGITS[dtype] + 1 if dtype in DIGITS else d.iinfo(dtype).max + 1
    _draw_integers(out, dtype in (d.float64, d.int64), span, 0, generator)


def random_from_to(out, low, high, generator):
    """[low, high); high None: up to the largest of the dtype; low -2^63 as well: all 64 bits."""
    if not out.device.runtime.computes:
        return
    dtype = out.dtype
    if high is None and low == -(2**63):
        _draw_all_bits(out, generator)
        return
    if high is not None:
        check_order(low, high, low < high, "'from' to be less than 'to'", ">= to")
    if dtype in DIGITS:
        low = next_above(low, dtype)
    if high is None:
        last = 2 ** DIGITS[dtype] if dtype in DIGITS else largest(dtype)
        if dtype in DIGITS:
            words = "'from' casted to dtype to be less than or equal to 'to_inc' casted to dtype"
            check_order(low, last, low < last, words, "> to_inc")
    else:
        if dtype in DIGITS:
            high = next_below(high, dtype)
            words = "'from' casted to dtype to be less than 'to' casted to dtype"
            check_order(low, high, low < high, words, ">= to")
        last = high - 1
    check_bounds(dtype, ((low, "from"), (last, "to - 1")))
    span = last - low + 1
    # beyond 2^28 the remainder of 32 bits would favour small numbers noticeably
    _draw_integers(out, span >= 2**28, span, low, generator)


def _draw_integers(out, wide, span, base, generator):
    span = span - 2**64 if span >= 2**63 else span  # the kernel takes signed words
    fill(out, "random", (out.dtype.code, wide), generator, span, base)


def _draw_all_bits(out, generator):
    if out.numel() == 0:
        return
    name = "random_full_64_bits_range_kernel_cpu"
    require(out.dtype, COMMON - {d.float16}, name)
    if out.dtype not in (d.int64, d.float64, d.float32, d.bfloat16):
        raise RuntimeError(f"{name} handles only int64, double, float and bfloat16")
    _draw_integers(out, True, 0, 0, generator)
