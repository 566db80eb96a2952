"""Plans of group_norm: groups of channels of each image, as rows of segments.

Sums for the gradients of weights come per image and channel, and are added up over images by a
second, small kernel. Channels-last memory is copied on the way in and out. Programs:
`codegen/templates/normalization.py`.
"""

import math

from flambeau import errors
from flambeau._layout import dense_layout, is_dense_in_some_order, ordered_strides
from flambeau.codegen.descriptions import Planes
from flambeau.eager.normalization import check_mixed, compute_dtype, gradients_of, tallied
from flambeau.eager.planned import constant, planned, through
from flambeau.eager.rows import chunks_of, dense_like, has_work, vector_layout
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


@planned(
    "native_group_norm",
    "input: dense, weight: dense?, bias: dense?, N, C, HxW, group, eps: number",
    "out, mean, rstd", left_out=True,
)  # fmt: skip
def native_group_norm(input, weight, bias, N, C, HxW, group):
    _check_sizes(input, N, C, HxW, group)
    _check_channels("weight", weight, input, C)
    _check_channels("bias", bias, input, C)
    if not input.dtype.is_floating_point:
        raise errors.not_implemented("GroupNormKernelImpl", input.dtype)
    parameter = check_mixed(input, weight, bias)
    dense = dense_like(input)
    reduced = dense_layout((N, group), parameter, input.device)
    results = input if channels_last(input) else dense, reduced, reduced
    if not has_work(input):
        return constant(math.nan, results)
    codes = input.dtype.code, parameter.code, parameter.code
    given = weight is not None, bias is not None
    kernel = row_kernel(input, "planes", "group_norm", *codes, *given)
    described = _described(N, C, input.numel // (N * C), group)
    return *results, *through(dense, results[0], kernel, described)


@planned(
    "group_norm_backward",
    "g: dense, input: dense, mean: dense, rstd: dense, weight: dense?, bias, N, C, HxW, group, "
    "needs, eps", "dx?, dw?, db?", backward=True, left_out=True,
)  # fmt: skip
def _group_norm_backward(g, input, mean, rstd, weight, bias, N, C, HxW, group, needs, eps):
    dense = dense_like(input)
    returned = input if channels_last(input) else dense
    layouts, wanted = gradients_of(returned, weight, bias, needs)
    if not has_work(input) or not wanted:
        return constant(0, layouts, left_out=True)
    codes = input.dtype.code, mean.dtype.code, mean.dtype.code
    kernel = row_kernel(input, "planes", "group_norm_backward", *codes, weight is not None, wanted)
    described = _described(N, C, input.numel // (N * C), group)
    if needs[0]:
        kernel, described = through(dense, returned, kernel, described)
    tally = vector_layout(N * C, compute_dtype(input.dtype), input.device)
    return tallied(layouts, kernel, described, tally, N)
