"""Launching group_norm: groups of channels of each image, as rows of segments.

Sums for the gradients of weights come per image and channel, and are added up over images by a
second, small kernel. Channels-last memory is copied on the way in and out. Programs:
`codegen/templates/normalization.py`.
"""

import math

from flambeau import errors
from flambeau._layout import Size, dense_layout, is_dense_in_some_order, ordered_strides
from flambeau._tensor import empty_like_layout
from flambeau.eager.launching import FRONTS, launches
from flambeau.eager.copying import copy_into
from flambeau.eager.fronts import kernel_unless_recorded
from flambeau.eager.kernels import pool
from flambeau.eager.normalization import (
    address,
    check_mixed,
    compute_dtype,
    program_kernel,
    remember,
    total_tallies,
)
from flambeau.eager.rows import contiguous
from flambeau.eager.softmax import GRAIN
from flambeau.runtime.cpu import words

_plans: dict = {}


def channels_last(layout):
    """Is this dense with the channels innermost, and so not contiguous?"""
    if layout.is_contiguous or layout.ndim not in (4, 5):
        return False
    order = [0, *range(2, layout.ndim), 1]
    wanted = ordered_strides(layout.shape, order)
    return is_dense_in_some_order(layout) and all(
        s == 1 or a == b for s, a, b in zip(layout.shape, layout.strides, wanted)
    )


def _check_channels(name, p, input, channels):
    if p is not None and (p.ndim != 1 or p.numel() != channels):
        raise RuntimeError(
            f"Expected {name} to be a vector of size equal to the number of channels in input, but "
            f"got {name} of shape {list(p.shape)} and input of shape {list(input.shape)}"
        )


def _group_words(batch, channels, positions, groups):
    """Description of rows of channels / groups segments."""
    segments = channels // groups
    rows = batch * groups
    size = segments * positions
    per_chunk = max(1, GRAIN // size)
    described = [rows, positions, segments, positions, size, 1, segments, positions]
    owner, at = words([-(-rows // per_chunk), *described, groups, per_chunk])
    if owner[0] > 1:
        pool().ensure_workers()
    return owner, at


def _group_norm_plan(input, weight, bias, N, C, HxW, group):
    """(layouts of the results, that of the returned one, kernel, description, owner)."""
    _check_channels("weight", weight, input, C)
    _check_channels("bias", bias, input, C)
    if not input.dtype.is_floating_point:
        raise errors.not_implemented("GroupNormKernelImpl", input.dtype)
    parameter = check_mixed(input, weight, bias)
    layout, device = input._layout, input.device
    dense = dense_layout(input.shape, input.dtype, device)
    reduced = dense_layout(Size((N, group)), parameter, device)
    returned = layout if channels_last(layout) else dense
    if layout.numel == 0 or device.type != "cpu":
        return dense, reduced, returned, None, None, None
    owner, at = _group_words(N, C, HxW, group)
    codes = input.dtype.code, parameter.code, parameter.code
    facts = weight is not None, bias is not None
    kernel = program_kernel("planes", "group_norm", *codes, *facts)
    return dense, reduced, returned, kernel, at, owner


@launches("native_group_norm")
def native_group_norm(input, weight, bias, N, C, HxW, group, eps):
    key = (
        input._layout,
        None if weight is None else weight._layout,
        None if bias is None else bias._layout,
        group,
        N,
        C,
    )
    plan = _plans.get(key)
    if plan is None:
        plan = remember(_plans, key, _group_norm_plan(input, weight, bias, N, C, HxW, group))
    dense, reduced, returned, kernel, at, _ = plan
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
        kernel(at, *places, eps)
    elif reduced.numel and reduced.device.type == "cpu":
        mean.fill_(math.nan)
        rstd.fill_(math.nan)
    if returned is not dense:
        given, out = out, empty_like_layout(returned)
        if returned.device.type == "cpu":
            copy_into(out, given)
    return out, mean, rstd


def _group_norm_backward(g, input, mean, rstd, weight, bias, N, C, HxW, group, needs, eps):
    names = ("dx", "dw", "db")
    wanted = tuple(n for n, need in zip(names, needs) if need)
    dense = dense_layout(input.shape, input.dtype, input.device)
    like = weight if weight is not None else bias
    parameters = None if like is None else dense_layout(like.shape, like.dtype, like.device)
    found = {n: empty_like_layout(dense if n == "dx" else parameters) for n in wanted}
    result = [found.get(n) for n in names]
    if input.device.type != "cpu" or not wanted:
        return result
    if not dense.numel:
        for t in found.values():
            t.fill_(0)
        return result
    parameter, compute = mean.dtype.code, compute_dtype(input.dtype)
    key = ("group back", dense, group, weight is None, parameter, wanted)
    plan = _plans.get(key)
    if plan is None:
        owner, at = _group_words(N, C, HxW, group)
        codes = input.dtype.code, parameter, parameter
        facts = weight is not None, wanted
        kernel = program_kernel("planes", "group_norm_backward", *codes, *facts)
        tally = dense_layout(Size((N * C,)), compute, input.device)
        plan = remember(_plans, key, (kernel, at, tally, owner))
    kernel, at, tally, _ = plan
    outs = [found[n] for n in wanted if n != "dx"]
    tallies = [empty_like_layout(tally) for _ in outs]
    places = ([found["dx"]] if "dx" in found else []) + tallies
    operands = [g, input, mean, rstd] + ([weight] if weight is not None else [])
    operands = [contiguous(t) for t in operands]
    kernel(at, *(address(t) for t in (*places, *operands)))
    if outs:
        total_tallies(outs, tallies, N)
    if channels_last(input._layout) and "dx" in found:
        result[0] = empty_like_layout(input._layout)
        copy_into(result[0], found["dx"])
    return result


FRONTS["group_norm_backward"] = kernel_unless_recorded(_group_norm_backward)
