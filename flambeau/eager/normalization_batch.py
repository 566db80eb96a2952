"""Launching batch_norm: in training by statistics of the batch, else by running ones.

Channels of a contiguous tensor lie in planes; in an N x C tensor and in channels_last memory they
lie across it. Many channels: one kernel reads each from memory once. Few: pieces of channels,
statistics, joined statistics, results. Programs: `codegen/templates/normalization.py`.
"""

import math
from typing import NamedTuple

from flambeau import errors
from flambeau._layout import Size, dense_layout
from flambeau._tensor import empty_like_layout
from flambeau.autograd.grad_mode import modes
from flambeau.eager.launching import FRONTS, launches
from flambeau.eager.copying import copy_into
from flambeau.eager.fronts import kernel_unless_recorded
from flambeau.eager.kernels import load_kernel, pool
from flambeau.eager.normalization import (
    address,
    check_mixed,
    compute_dtype,
    program_kernel,
    remember,
    total_tallies,
)
from flambeau.eager.normalization_groups import channels_last
from flambeau.eager.rows import contiguous
from flambeau.eager.softmax import GRAIN
from flambeau.runtime.cpu import words

_plans: dict = {}
_forms: dict = {}
_kernels: dict = {}
ENOUGH = 8  # channels (or groups of them) that keep all threads busy


class Form(NamedTuple):
    """How a tensor is walked: the walk, its description, and how many pieces a channel has."""

    layout: object  # of the input as it is walked, and of the result
    walk: str
    at: int
    owner: object
    channels: int
    pieces: int
    size: int  # elements of a channel


def form_of(layout, whole=False):
    """The form of a layout; whole: no channel in pieces."""
    found = _forms.get((layout, whole))
    if found is None:
        found = remember(_forms, (layout, whole), _form(layout, whole))
    return found


def _form(layout, whole):
    shape = layout.shape
    channels = shape[1]
    across = channels_last(layout)
    if not across:
        layout = dense_layout(shape, layout.dtype, layout.device)
    length = math.prod(shape[2:])
    count = shape[0] * length
    whole = whole or layout.numel <= 2 * GRAIN
    if across or length == 1:
        width = 64
        groups = -(-channels // width)
        pieces, height = 1, count
        if not whole and groups < ENOUGH:
            height = max(1, GRAIN // channels)
            pieces = -(-count // height)
            groups, width = 1, channels
        described = [pieces * groups, count, height, channels, groups, width]
        walk = "columns"
    else:
        pieces, run, part = 1, shape[0], length
        if not whole and channels < ENOUGH:
            wanted = min(256, -(-count // GRAIN))
            if shape[0] >= wanted:
                run = -(-shape[0] // wanted)
                pieces = -(-shape[0] // run)
            else:
                part = (-(-length // wanted) + 63) & -64
                pieces = -(-length // part)
        per_chunk = max(1, GRAIN // max(1, count // pieces))
        items = channels * pieces
        described = [-(-items // per_chunk), channels, length, shape[0], channels * length, length]
        described += [pieces, run, part, 1, per_chunk]
        walk = "planes"
    owner, at = words(described)
    if owner[0] > 1:
        pool().ensure_workers()
    return Form(layout, walk, at, owner, channels, pieces, count)


def _as_layout(t, layout):
    """The tensor in that layout, copied if needed."""
    if t._layout is layout:
        return t
    out = empty_like_layout(layout)
    copy_into(out, t)
    return out


# -- checks, in PyTorch's words --------------------------------------------------------------------


def _check(input, weight, bias, running_mean, running_var, training):
    features = input.shape[1] if input.ndim > 1 else 0
    named = {"running_mean": running_mean, "running_var": running_var}
    for name, t in (named | {"weight": weight, "bias": bias}).items():
        if t is None:
            if name in named and not training:
                raise RuntimeError(f"{name} must be defined in evaluation mode")
        elif t.numel() != features:
            raise RuntimeError(f"{name} should contain {features} elements not {t.numel()}")
    if (running_mean is None) != (running_var is None):
        raise ValueError("running_mean and running_var must either both be None or neither be None")
    if not input.dtype.is_floating_point:
        raise errors.not_implemented("batch_norm", input.dtype)
    return check_mixed(input, weight, bias, running_mean, running_var)


def _check_running(running_mean, running_var):
    for name, t in (("running_mean", running_mean), ("running_var", running_var)):
        if t is not None and t._requires_grad and modes.grad:
            raise RuntimeError(
                "The function 'native_batch_norm' is not differentiable with respect to argument "
                f"'{name}'. This input cannot have requires_grad True."
            )


# -- forward ---------------------------------------------------------------------------------------


class _Forward(NamedTuple):
    form: Form
    statistics: object  # layout of what is saved
    kernel: object
    split: object  # kernels of statistics and of joining them, where channels are in pieces


@launches("native_batch_norm")
def native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps):
    tracked = running_mean is not None and running_var is not None
    if tracked and (running_mean._requires_grad or running_var._requires_grad):
        _check_running(running_mean, running_var)
    key = (
        input._layout,
        None if weight is None else weight._layout,
        None if bias is None else bias._layout,
        None if running_mean is None else running_mean._layout,
        None if running_var is None else running_var._layout,
        training,
    )
    plan = _plans.get(key)
    if plan is None:
        plan = remember(
            _plans, key, _plan(input, weight, bias, running_mean, running_var, training)
        )
    form, statistics, kernel, split = plan
    out = empty_like_layout(form.layout)
    if not training:
        nothing = empty_like_layout(dense_layout(Size((0,)), statistics.dtype, input.device))
        mean, rstd = nothing, empty_like_layout(nothing._layout)
    else:
        mean, rstd = empty_like_layout(statistics), empty_like_layout(statistics)
    if kernel is None:
        return out, mean, rstd
    x = input if input._layout is form.layout else _as_layout(input, form.layout)
    parameters = [_dense(t) for t in (weight, bias) if t is not None]
    places = [p._storage.pointer + p._offset for p in parameters]
    y, source = out._storage.pointer, x._storage.pointer + x._offset
    if not training:
        used = _dense(running_mean), _dense(running_var)
        kernel(form.at, y, source, address(used[0]), address(used[1]), *places, eps)
        return out, mean, rstd
    running = [_dense(running_mean), _dense(running_var)] if tracked else []
    kept = [mean._storage.pointer, rstd._storage.pointer]
    kept += [address(t) for t in running]
    momentum = 0.0 if momentum is None else momentum
    if split is None:
        kernel(form.at, y, *kept, source, *places, eps, momentum)
    else:
        pieces, join, join_at, partials, _ = split
        parts = [empty_like_layout(partials) for _ in range(3)]
        pieces(form.at, *(address(p) for p in parts), source)
        join(join_at, *kept, *(address(p) for p in parts), eps, momentum)
        kernel(form.at, y, source, kept[0], kept[1], *places, eps)
    if tracked:
        for given, t in zip((running_mean, running_var), running):
            # as in PyTorch this is no write that versions count: two batches may go forward before
            # the first goes back, whose gradient does not depend on the running numbers
            if t is not given:
                version = given._storage.version
                copy_into(given, t)
                given._storage.version = version
    return out, mean, rstd


def _dense(t):
    return t if t._layout.is_contiguous else contiguous(t)


def _plan(input, weight, bias, running_mean, running_var, training):
    parameter = _check(input, weight, bias, running_mean, running_var, training)
    form = form_of(input._layout)
    statistics = dense_layout(Size((form.channels,)), parameter, input.device)
    if input._layout.numel == 0 or input.device.type != "cpu":
        return _Forward(form, statistics, None, None)
    codes = input.dtype.code, parameter.code, parameter.code
    facts = weight is not None, bias is not None
    if not training:
        kernel = program_kernel(form.walk, "batch_norm_apply", *codes, *facts, True)
        return _Forward(form, statistics, kernel, None)
    tracked = running_mean is not None
    if form.pieces == 1:
        kernel = program_kernel(form.walk, "batch_norm", *codes, *facts, tracked)
        return _Forward(form, statistics, kernel, None)
    kernel = program_kernel(form.walk, "batch_norm_apply", *codes, *facts, False)
    pieces = program_kernel(form.walk, "batch_norm_statistics", codes[0])
    partials = _partials(form, input)
    owner, at = words([1, form.channels, form.pieces])
    split = pieces, _join_kernel(codes[0], parameter.code, tracked), at, partials, owner
    return _Forward(form, statistics, kernel, split)


def _partials(form, input):
    size = Size((form.pieces * form.channels,))
    return dense_layout(size, compute_dtype(input.dtype), input.device)


def _join_kernel(*facts):
    found = _kernels.get(facts)
    if found is None:
        from flambeau.codegen.templates import normalization  # with llvmlite, on first need

        ir = normalization.build_joined_statistics(*facts)
        found = _kernels[facts] = load_kernel(ir, "joined_statistics")
    return found


# -- backward --------------------------------------------------------------------------------------


def _batch_norm_backward(g, input, weight, bias, mean, second, training, eps, needs):
    """mean and second: saved 1/deviations (training), or running variances."""
    names = ("dx", "dw", "db")
    wanted = tuple(n for n, need in zip(names, needs) if need)
    form = form_of(input._layout, not training)
    like = weight if weight is not None else bias
    found = {n: empty_like_layout(form.layout if n == "dx" else _vector(like)) for n in wanted}
    result = [found.get(n) for n in names]
    if input.device.type != "cpu" or not wanted:
        return result
    if not input._layout.numel:
        for t in found.values():
            t.fill_(0)
        return result
    key = ("back", form.layout, weight is None, mean._layout, training, wanted)
    plan = _plans.get(key)
    if plan is None:
        plan = remember(_plans, key, _backward_plan(form, weight, mean, training, wanted))
    kernel, sums = plan
    g, x = _as_layout(g, form.layout), _as_layout(input, form.layout)
    operands = [g, x, _dense(mean), _dense(second)]
    parameters = [_dense(weight)] if weight is not None else []
    if sums is None:
        places = (*found.values(), *operands, *parameters)
        kernel(form.at, *[t._storage.pointer + t._offset for t in places], eps)
        return result
    parts = [empty_like_layout(_partials(form, input)) for _ in range(2)]
    sums(form.at, *(address(t) for t in (*parts, g, x, operands[2])))
    compute = compute_dtype(input.dtype)
    totals = dense_layout(Size((form.channels,)), compute, input.device)
    totals = [empty_like_layout(totals) for _ in range(2)]
    total_tallies(totals, parts, form.pieces)
    if "dx" in found:
        places = (found["dx"], *operands, *totals, *parameters)
        kernel(form.at, *(address(t) for t in places), float(form.size))
    if "dw" in found:
        result[1] = (totals[1] * second.to(compute)).to(like.dtype)
    if "db" in found:
        result[2] = totals[0].to(like.dtype)
    return result


def _vector(like):
    return dense_layout(like.shape, like.dtype, like.device)


def _backward_plan(form, weight, mean, training, wanted):
    code, statistics = form.layout.dtype.code, mean.dtype.code
    codes, weighted = (code, statistics, statistics), weight is not None
    if form.pieces == 1:
        name = "batch_norm_backward"
        facts = weighted, wanted, not training
        return program_kernel(form.walk, name, *codes, *facts), None
    kernel = program_kernel(form.walk, "batch_norm_backward_apply", *codes, weighted)
    return kernel, program_kernel(form.walk, "batch_norm_backward_sums", code, statistics)


FRONTS["batch_norm_backward"] = kernel_unless_recorded(_batch_norm_backward)
