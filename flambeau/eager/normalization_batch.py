"""Launching batch_norm: in training by statistics of the batch, else by running ones.

Channels of a contiguous tensor lie in planes; in an N x C tensor and in channels_last memory they
lie across it. Many channels: one kernel reads each from memory once. Few: pieces of channels,
statistics, joined statistics, results. Programs: `codegen/templates/normalization.py`.
"""

import math
from typing import NamedTuple

from flambeau import errors
from flambeau._tensor import empty_like_layout
from flambeau.autograd.grad_mode import modes
from flambeau.codegen.descriptions import Columns, Pieces, Planes
from flambeau.eager.copying import copy_into
from flambeau.eager.cuda_sampling import is_cuda
from flambeau.eager.launching import launches
from flambeau.eager.normalization import (
    check_mixed,
    compute_dtype,
    gradients_of,
    plan_totals,
)
from flambeau.eager.normalization_groups import channels_last
from flambeau.eager.planned import constant, planned
from flambeau.eager.plans import Plans
from flambeau.eager.rows import (
    address,
    as_layout,
    chunks_of,
    contiguous,
    dense_like,
    has_work,
    vector_layout,
)
from flambeau.eager.softmax import GRAIN, row_kernel
from flambeau.runtime.cpu import packed

ENOUGH = 8  # channels (or groups of them) that keep all threads busy
GPU_ENOUGH, GPU_GRAIN = 1 << 12, 1 << 14  # the same for a GPU, and elements of a piece


class Form(NamedTuple):
    """How a tensor is walked: the walk, its description, and how many pieces a channel has."""

    layout: object  # of the input as it is walked, and of the result
    walk: str
    described: bytes
    channels: int
    pieces: int
    size: int  # elements of a channel


def form_of(layout, whole=False):
    """The form of a layout; whole: no channel in pieces."""
    batch, channels, *rest = layout.shape
    across = channels_last(layout)
    if not across:
        layout = dense_like(layout)
    length = math.prod(rest)
    count = batch * length
    whole = whole or layout.numel <= 2 * GRAIN
    limits = (GPU_ENOUGH, GPU_GRAIN) if is_cuda(layout.device) else (ENOUGH, GRAIN)
    if across or length == 1:
        walk, (words, pieces) = "columns", _across(count, channels, whole, *limits)
    else:
        walk, (words, pieces) = "planes", _in_planes(batch, channels, length, whole, *limits)
    return Form(layout, walk, packed(words), channels, pieces, count)


def _across(count, channels, whole, enough, grain):
    """(words of a walk down columns, pieces of a channel)."""
    width = 64
    groups = -(-channels // width)
    pieces, height = 1, count
    if not whole and groups < enough:
        height = max(1, grain // channels)
        pieces = -(-count // height)
        groups, width = 1, channels
    return Columns(chunks_of(pieces * groups, 1), count, height, channels, groups, width), pieces


def _in_planes(batch, channels, length, whole, enough, grain):
    """(words of a walk over planes, pieces of a channel)."""
    pieces, run, part, count = 1, batch, length, batch * length
    if not whole and channels < enough:
        wanted = min(256, -(-count // grain))
        if batch >= wanted:
            run = -(-batch // wanted)
            pieces = -(-batch // run)
        else:
            part = (-(-length // wanted) + 63) & -64
            pieces = -(-length // part)
    per_chunk = max(1, GRAIN // max(1, count // pieces))
    words = Planes(
        chunks_of(channels * pieces, per_chunk), channels, length, segments=batch,
        segment_step=channels * length, row_step=length, pieces=pieces, run=run, part=part,
        period=1, per_chunk=per_chunk,
    )  # fmt: skip
    return words, pieces


# -- checks, in PyTorch's words --------------------------------------------------------------------


def _check(input, weight, bias, running_mean, running_var, training):
    """The dtype of parameters."""
    features = input.shape[1] if input.ndim > 1 else 0
    named = {"running_mean": running_mean, "running_var": running_var}
    for name, t in (named | {"weight": weight, "bias": bias}).items():
        if t is None:
            if name in named and not training:
                raise RuntimeError(f"{name} must be defined in evaluation mode")
        elif t.numel != features:
            raise RuntimeError(f"{name} should contain {features} elements not {t.numel}")
        elif name in named and t.ndim > 1:
            if not input.dtype.is_floating_point:
                raise errors.not_implemented("batch_norm", input.dtype)
            raise RuntimeError(f"TensorAccessor expected 1 dims but tensor has {t.ndim}")
    if (running_mean is None) != (running_var is None):
        raise ValueError("running_mean and running_var must either both be None or neither be None")
    if not input.dtype.is_floating_point:
        raise errors.not_implemented("batch_norm", input.dtype)
    return check_mixed(input, weight, bias, running_mean, running_var)


def _check_running(running_mean, running_var):
    for name, t in (("running_mean", running_mean), ("running_var", running_var)):
        if t is not None and t._requires_grad and modes.grad:
            raise errors.not_differentiable("native_batch_norm", name)


# -- forward ---------------------------------------------------------------------------------------


def _plan(key):
    """(form, layout of what is saved, kernel, joining).

    joining: where channels are in pieces, the kernels of statistics and of joining them, the
    description of the latter, and the layout of what is joined.
    """
    layout, weight, bias, running_mean, _, training = key
    parameter = _check(*key)
    form = form_of(layout)
    saved = vector_layout(form.channels if training else 0, parameter, layout.device)
    if not has_work(layout):
        return form, saved, None, None
    codes = layout.dtype.code, parameter.code, parameter.code
    given, tracked = (weight is not None, bias is not None), running_mean is not None

    def kernel(name, *facts):
        return row_kernel(layout, form.walk, name, *facts)

    if not training:
        return form, saved, kernel("batch_norm_apply", *codes, *given, True), None
    if form.pieces == 1:
        return form, saved, kernel("batch_norm", *codes, *given, tracked), None
    facts = codes[0], parameter.code, tracked
    join = layout.device.runtime.kernel(
        "joined_statistics", "normalization:build_joined_statistics", *facts
    )
    described = packed(Pieces(1, form.channels, form.pieces))
    joining = kernel("batch_norm_statistics", codes[0]), join, described, _partials(form)
    return form, saved, kernel("batch_norm_apply", *codes, *given, False), joining


def _partials(form):
    layout = form.layout
    size = form.pieces * form.channels
    return vector_layout(size, compute_dtype(layout.dtype), layout.device)


PLANS = Plans(_plan)


@launches("native_batch_norm")
def native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps):
    tracked = running_mean is not None and running_var is not None
    if tracked and (running_mean._requires_grad or running_var._requires_grad):
        _check_running(running_mean, running_var)
    form, saved, kernel, joining = PLANS[
        input._layout,
        None if weight is None else weight._layout,
        None if bias is None else bias._layout,
        None if running_mean is None else running_mean._layout,
        None if running_var is None else running_var._layout,
        training,
    ]
    out, mean, rstd = (
        empty_like_layout(form.layout),
        empty_like_layout(saved),
        empty_like_layout(saved),
    )
    if kernel is None:
        return out, mean, rstd
    x = input if input._layout is form.layout else as_layout(input, form.layout)
    parameters = [contiguous(t) for t in (weight, bias) if t is not None]
    places = [p._storage.pointer + p._offset for p in parameters]
    y, source, described = out._storage.pointer, x._storage.pointer + x._offset, form.described
    running = [contiguous(running_mean), contiguous(running_var)] if tracked else []
    numbers = [t._storage.pointer + t._offset for t in running]
    if not training:
        kernel(described, y, source, *numbers, *places, eps)
        return out, mean, rstd
    kept = [mean._storage.pointer, rstd._storage.pointer, *numbers]
    momentum = 0.0 if momentum is None else momentum
    if joining is None:
        kernel(described, y, *kept, source, *places, eps, momentum)
    else:
        pieces, join, join_described, partials = joining
        parts = [empty_like_layout(partials) for _ in range(3)]
        at = [p._storage.pointer for p in parts]
        pieces(described, *at, source)
        join(join_described, *kept, *at, eps, momentum)
        kernel(described, y, source, kept[0], kept[1], *places, eps)
    for given, t in zip((running_mean, running_var), running):
        # as in PyTorch this is no write that versions count: two batches may go forward before
        # the first goes back, whose gradient does not depend on the running numbers
        if t is not given:
            version = given._storage.version
            copy_into(given, t)
            given._storage.version = version
    return out, mean, rstd


# -- backward --------------------------------------------------------------------------------------


def _by_pieces(g, input, weight, bias, mean, second, training, eps, needs):
    """Where channels are in pieces: sums of those, joined, then the gradient."""
    form, weights = form_of(input._layout), None if weight is None else weight._layout
    layouts, _ = gradients_of(form.layout, weights, bias, needs)
    code, numbers = form.layout.dtype.code, mean._layout.dtype.code
    g, x = as_layout(g, form.layout), as_layout(input, form.layout)
    operands = [g, x, contiguous(mean), contiguous(second)]
    parts = [empty_like_layout(_partials(form)) for _ in range(2)]
    sums = row_kernel(form.layout, form.walk, "batch_norm_backward_sums", code, numbers)
    sums(form.described, *[address(t) for t in (*parts, *operands[:3])])
    compute = compute_dtype(form.layout.dtype)
    total = vector_layout(form.channels, compute, form.layout.device)
    totals = [empty_like_layout(total) for _ in range(2)]
    kernel, described = plan_totals(2, total, form.pieces)
    kernel(described, *[address(t) for t in (*totals, *parts)])
    dx, dw, db = layouts
    if dx is not None:
        dx = empty_like_layout(form.layout)
        weights = [] if weight is None else [contiguous(weight)]
        facts = code, numbers, numbers, weight is not None
        kernel = row_kernel(form.layout, form.walk, "batch_norm_backward_apply", *facts)
        places = [dx, *operands, *totals, *weights]
        kernel(form.described, *[address(t) for t in places], float(form.size))
    if dw is not None:
        dw = (totals[1] * second.to(compute)).to(dw.dtype)
    if db is not None:
        db = totals[0].to(db.dtype)
    return dx, dw, db


@planned(
    "batch_norm_backward", "g: fitted, input: fitted, weight: dense?, bias, mean: dense, "
    "second: dense, training, eps: number, needs", "dx?, dw?, db?", backward=True, left_out=True,
    order="dx dw db g input mean second weight eps", otherwise=_by_pieces,
)  # fmt: skip
def _batch_norm_backward(g, input, weight, bias, mean, second, training, needs):
    """mean and second: saved 1/deviations (training), or running variances."""
    form = form_of(input, not training)
    layouts, wanted = gradients_of(form.layout, weight, bias, needs)
    fitted = form.layout, form.layout
    if not has_work(input) or not wanted:
        return *constant(0, layouts, left_out=True), *fitted
    if form.pieces > 1:
        return *layouts, None, b"", *fitted
    codes = input.dtype.code, mean.dtype.code, mean.dtype.code
    facts = *codes, weight is not None, wanted, not training
    kernel = row_kernel(input, form.walk, "batch_norm_backward", *facts)
    return *layouts, kernel, form.described, *fitted
