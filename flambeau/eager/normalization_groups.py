"""Launching group_norm: groups of channels of each image, as rows of segments.

Sums for the gradients of weights come per image and channel, and are added up over images by a
second, small kernel. Channels-last memory is copied on the way in and out. Programs:
`codegen/templates/normalization.py`.
"""

import math

from flambeau import errors
from flambeau._layout import dense_layout, is_dense_in_some_order, ordered_strides
from flambeau._tensor import empty_like_layout
from flambeau.codegen.descriptions import Planes
from flambeau.eager.copying import copy_into
from flambeau.eager.launching import launches, launches_kernel
from flambeau.eager.normalization import (
    check_mixed,
    compute_dtype,
    gradients_of,
    no_gradients,
    total_tallies,
)
from flambeau.eager.plans import Plans
from flambeau.eager.rows import chunks_of, contiguous, dense_like, has_work, vector_layout
from flambeau.eager.softmax import GRAIN, row_kernel
from flambeau.runtime.cpu import packed


def channels_last(layout):
    """Is this dense with the channels innermost, and so not contiguous?"""
    if layout.is_contiguous or layout.ndim not in (4, 5):
        return False
    sizes = tuple(layout.shape)
    wanted = ordered_strides(sizes, [0, *range(2, layout.ndim), 1])
    return is_dense_in_some_order(layout) and all(
        s == 1 or a == b for s, a, b in zip(sizes, layout.strides, wanted)
    )


def _check_channels(name, p, input, channels):
    if p is not None and p.shape != (channels,):
        raise RuntimeError(
            f"Expected {name} to be a vector of size equal to the number of channels in input, but "
            f"got {name} of shape {list(p.shape)} and input of shape {list(input.shape)}"
        )


def _described(batch, channels, positions, groups):
    """Rows of channels / groups segments."""
    segments, rows = channels // groups, batch * groups
    size = segments * positions
    per_chunk = max(1, GRAIN // size)
    return packed(
        Planes(
            chunks_of(rows, per_chunk), rows, length=positions, segments=segments,
            segment_step=positions, row_step=size, pieces=1, run=segments, part=positions,
            period=groups, per_chunk=per_chunk,
        )
    )  # fmt: skip


def _check_sizes(layout, N, C, HxW, group):
    """What group_norm has worked out itself, others may say as they like."""
    if group <= 0:
        raise RuntimeError(f"Expected num groups to be greater than 0, got {group}")
    if C % group:
        raise RuntimeError(
            "Expected number of channels in input to be divisible by num_groups, but got input of "
            f"shape {list(layout.shape)} and num_groups={group}"
        )
    if min(N, C, HxW) < 0 or layout.numel != N * C * HxW:
        raise RuntimeError("Expected X.numel() == N * C * HxW to be true, but got false.")


def _plan(key):
    """(layouts of the result as computed, of statistics, as returned, kernel, description)."""
    layout, weight, bias, N, C, HxW, group = key
    _check_sizes(layout, N, C, HxW, group)
    _check_channels("weight", weight, layout, C)
    _check_channels("bias", bias, layout, C)
    if not layout.dtype.is_floating_point:
        raise errors.not_implemented("GroupNormKernelImpl", layout.dtype)
    parameter = check_mixed(layout, weight, bias)
    dense = dense_like(layout)
    reduced = dense_layout((N, group), parameter, layout.device)
    returned = layout if channels_last(layout) else dense
    if not has_work(layout):
        return dense, reduced, returned, None, b""
    codes = layout.dtype.code, parameter.code, parameter.code
    given = weight is not None, bias is not None
    kernel = row_kernel(layout, "planes", "group_norm", *codes, *given)
    return dense, reduced, returned, kernel, _described(N, C, layout.numel // (N * C), group)


PLANS = Plans(_plan)


@launches("native_group_norm")
def native_group_norm(input, weight, bias, N, C, HxW, group, eps):
    dense, reduced, returned, kernel, described = PLANS[
        input._layout,
        None if weight is None else weight._layout,
        None if bias is None else bias._layout,
        N,
        C,
        HxW,
        group,
    ]
    out, mean, rstd = (
        empty_like_layout(dense),
        empty_like_layout(reduced),
        empty_like_layout(reduced),
    )
    if kernel is not None:
        given = [
            t if t._layout.is_contiguous else contiguous(t)
            for t in (input, weight, bias)
            if t is not None
        ]
        places = [t._storage.pointer + t._offset for t in (out, mean, rstd, *given)]
        kernel(described, *places, eps)
    elif reduced.numel and reduced.device.runtime.computes:
        mean.fill_(math.nan)
        rstd.fill_(math.nan)
    if returned is not dense:
        out = _as_layout(out, returned)
    return out, mean, rstd


def _as_layout(t, layout):
    out = empty_like_layout(layout)
    copy_into(out, t)
    return out


def _plan_gradients(key):
    """(layouts of the gradients, kernel, description, layout of tallies, of dx as returned)."""
    layout, statistics, weight, bias, N, C, group, needs = key
    layouts, wanted = gradients_of(dense_like(layout), weight, bias, needs)
    returned = layout if needs[0] and channels_last(layout) else None
    if not has_work(layout) or not wanted:
        return layouts, None, b"", None, None
    codes = layout.dtype.code, statistics.dtype.code, statistics.dtype.code
    kernel = row_kernel(layout, "planes", "group_norm_backward", *codes, weight is not None, wanted)
    tally = vector_layout(N * C, compute_dtype(layout.dtype), layout.device)
    described = _described(N, C, layout.numel // (N * C), group)
    return layouts, kernel, described, tally, returned


GROUP_GRADIENTS = Plans(_plan_gradients)


@launches_kernel("group_norm_backward")
def _group_norm_backward(g, input, mean, rstd, weight, bias, N, C, HxW, group, needs, eps):
    weights = None if weight is None else weight._layout
    layouts, kernel, described, tally, returned = GROUP_GRADIENTS[
        input._layout, mean._layout, weights, bias, N, C, group, tuple(needs)
    ]
    result = [None if x is None else empty_like_layout(x) for x in layouts]
    if kernel is None:
        return no_gradients(result, input._layout.device.runtime)
    outs = [t for t in result[1:] if t is not None]
    tallies = [empty_like_layout(tally) for _ in outs]
    places = tallies if result[0] is None else [result[0], *tallies]
    operands = [contiguous(t) for t in (g, input, mean, rstd, weight) if t is not None]
    kernel(described, *[t._storage.pointer + t._offset for t in (*places, *operands)])
    if outs:
        total_tallies(outs, tallies, N)
    if returned is not None:
        result[0] = _as_layout(result[0], returned)
    return result
