"""Launching pooling: which kernel for which windows and memory format, and how work is cut.

A plan holds what a call needs besides its tensors. Contiguous tensors are pooled plane by plane, by
rows where windows are small (`rows`), else window by window (`planes`); tensors with channels last
keep that order and lanes run over channels (`channels`). Windows and complaints:
`ops/pooling_windows.py`; kernels: `codegen/templates/pooling*.py`.
"""

from itertools import pairwise
from math import prod

from flambeau import _dtype as d
from flambeau import errors
from flambeau._layout import Size, dense_layout, make_layout, ordered_strides
from flambeau._tensor import empty_like_layout
from flambeau.autograd.grad_mode import modes
from flambeau.eager.launching import launches
from flambeau.eager.copying import CHANNELS_LAST, copy_into
from flambeau.eager.kernels import load_kernel, pool
from flambeau.eager.plan import MAX_PLANS
from flambeau.eager.rows import contiguous as contiguous
from flambeau.ops.pooling_windows import covers, pooled_shape, ranges, uniform
from flambeau.runtime.cpu import words

_kernels: dict = {}
_plans: dict = {}
GRAIN = 1 << 18  # elements that a chunk looks at
WIDE, FAR = 7, 4  # windows of at most so many columns and distance are pooled by rows
SIDE_BY_SIDE = 16  # the way back from means, if windows touch
NARROW = 4  # windows of fewer columns are not worth a register each
SHARES = 512  # windows in a row that the kernels of other means hold
REGISTERS = 4  # of channels that are held at a time, if there are many
INDEX = {"u8": d.uint8, "i32": d.int32, "i64": d.int64}


def kernel(file, name, *pattern):
    key = (name, pattern)
    found = _kernels.get(key)
    if found is None:
        from flambeau.codegen.templates import (  # with llvmlite, on first need
            pooling,
            pooling_fractional,
            pooling_means,
            pooling_rows,
        )

        homes = {"largest": pooling, "means": pooling_means, "rows": pooling_rows}
        home = homes.get(file, pooling_fractional)
        found = _kernels[key] = load_kernel(getattr(home, "build_" + name)(*pattern), name)
    return found


class Plan:
    """What pooling tensors of one layout needs besides them."""

    __slots__ = ("source", "out", "chosen", "kernel", "description", "owner")

    def __init__(self, source, out, chosen=None):
        self.source, self.out, self.chosen = source, out, chosen
        self.kernel = self.description = self.owner = None

    def describe(self, kernel, described):
        self.kernel = kernel
        self.owner, self.description = words(described)
        if described[0] > 1:
            pool().ensure_workers()


def planned(build, *key):
    """A plan from the cache, or a new one."""
    plan = _plans.get((build, *key))
    if plan is None:
        if len(_plans) > MAX_PLANS:
            _plans.clear()
        plan = _plans[build, *key] = build(*key)
    return plan


def as_layout(t, layout):
    """A tensor in a layout of its shape: itself, or a copy."""
    if t._layout is layout:
        return t
    out = empty_like_layout(layout)
    if layout.numel and layout.device.type == "cpu":
        copy_into(out, t)
    return out


def place(t):
    return t._storage.pointer + t._offset


# -- memory formats --------------------------------------------------------------------------------


def suggests_channels_last(layout):
    """Do the strides look as if channels were last? (PyTorch's test; size-1 dimensions count.)"""
    order = CHANNELS_LAST.get(layout.ndim)
    if order is None or layout.is_contiguous:
        return False
    shape, strides = layout.shape, layout.strides
    if strides[1] == 0:
        return False
    least = 0
    for k in reversed(order):
        if shape[k] == 0 or strides[k] < least or (k == 0 and least == strides[1]):
            return False
        least = strides[k] * max(shape[k], 1)
    return True


def _dense(shape, like, channels_last, dtype=None):
    dtype = dtype or like.dtype
    if not channels_last:
        return dense_layout(Size(shape), dtype, like.device)
    strides = ordered_strides(shape, CHANNELS_LAST[len(shape)])
    return make_layout(Size(shape), strides, dtype, like.device)


class _Work:
    """A call in the words of kernels: images x depth x height x width x channels."""

    def __init__(self, layout, window, formats):
        dims = window.dims
        self.window = window = uniform(window, layout.shape[-dims:])
        self.last = dims in formats and layout.ndim == dims + 2 and suggests_channels_last(layout)
        self.source = _dense(layout.shape, layout, self.last)
        self.out = _dense(pooled_shape(layout.shape, window), layout, self.last)
        missing = 3 - dims
        self.sizes = (1,) * missing + tuple(layout.shape[-dims:])
        self.outs = (1,) * missing + window.outs
        lead = layout.shape[: layout.ndim - dims]
        self.images, self.channels = (prod(lead[:-1]), lead[-1]) if self.last else (prod(lead), 1)
        self.lines = [[(0, 0, 1, 1)]] * missing + ranges(window, layout.shape[-dims:])
        ones = (1,) * missing
        self.kernel = ones + window.kernel if window.kernel else None
        self.steps = ones + (window.dilation or (1,) * dims)
        self.computes = self.out.device.type == "cpu" and self.out.numel > 0

    def form(self, limit=1 << 62):
        """rows, planes or channels: how this is best pooled."""
        if self.last:
            return "channels"
        if self.kernel is None or self.steps != (1, 1, 1):
            return "planes"
        small = self.kernel[2] <= WIDE and self.window.stride[-1] <= FAR
        return "rows" if small and prod(self.kernel) <= limit else "planes"

    def registers(self):
        """How kernels for channels are built; 0 for planes."""
        return (REGISTERS if self.channels >= 40 else 1) if self.last else 0

    def columns(self):
        return self.kernel[2], self.window.stride[-1]

    def describe(self, over, backward=False):
        """Description words; over: pieces are rows of "outs" or of "sizes", or whole "images"."""
        rows = 1 if over == "images" else prod(getattr(self, over)[:2])
        pieces = self.images * rows
        looks = prod(max((b - a for _, a, b, _ in line), default=1) for line in self.lines)
        work = max(prod(self.outs) * looks, prod(self.sizes)) * self.channels // max(1, rows)
        per_chunk = max(1, GRAIN // max(1, work))
        columns = self.lines[2]
        overlap = any(a[0] + a[2] > b[0] + b[1] for a, b in pairwise(columns))
        overlap |= any(b - a < NARROW for _, a, b, _ in columns)
        padding = self.window.padding[-1] if self.window.padding else 0
        found = [-(-pieces // per_chunk), per_chunk, pieces, *self.sizes, *self.outs]
        found += [self.channels, *(self.kernel or (0, 0, 0)), *self.steps, padding, int(overlap)]
        for line in self.lines:
            for fields in line:
                found += fields
        found += [fields[3] for fields in columns]
        if backward:
            taps = self.kernel or (1,) * (3 - self.window.dims) + (None,) * self.window.dims
            for facts in zip(self.sizes, self.lines, taps, self.steps):
                for pair in covers(*facts):
                    found += pair
        return found


class PlaneWork:
    """Work on whole planes, without ranges: fractional pooling and unpooling."""

    def __init__(self, layout, dims, outs, taps, channels_last=False):
        last = channels_last and layout.ndim == dims + 2 and suggests_channels_last(layout)
        lead = layout.shape[: layout.ndim - dims]
        self.last = last
        self.source = _dense(layout.shape, layout, last)
        self.out = _dense((*lead, *outs), layout, last)
        missing = (1,) * (3 - dims)
        self.sizes, self.outs = missing + tuple(layout.shape[-dims:]), missing + tuple(outs)
        self.images, self.channels = (prod(lead[:-1]), lead[-1]) if last else (prod(lead), 1)
        self.taps = missing + tuple(taps or (1,) * dims)
        self.computes = layout.device.type == "cpu" and self.out.numel > 0

    def like_out(self, dtype):
        return _dense(self.out.shape, self.out, self.last, dtype)

    def like_source(self, dtype):
        return _dense(self.source.shape, self.source, self.last, dtype)

    def words(self):
        work = max(prod(self.outs) * prod(self.taps), prod(self.sizes)) * self.channels
        per_chunk = max(1, GRAIN // max(1, work))
        found = [-(-self.images // per_chunk), per_chunk, self.images, *self.sizes, *self.outs]
        return [*found, self.channels, *self.taps, 1, 1, 1, 0, 0]


# -- the largest element ---------------------------------------------------------------------------

LARGEST_FORMATS = (2, 3)


def _largest_work(layout, window, formats):
    work = _Work(layout, window, formats)
    form = work.form(limit=256)
    # planes of more elements than 32 bits count need wide indices
    if form != "channels" and prod(work.sizes) >= 1 << 31:
        form = "planes"
    saved = "u8" if form == "rows" else "i32"
    return work, form, "i64" if prod(work.sizes) >= 1 << 31 else saved


def _largest_plan(layout, window, kind, formats):
    """kind: "value", "saved" (what backward needs) or "i64" (indices for the caller)."""
    work, form, saved = _largest_work(layout, window, formats)
    index = {"value": None, "saved": saved, "i64": "i64"}[kind]
    chosen = None
    if index is not None:
        chosen = _dense(work.out.shape, layout, work.last, INDEX[index])
    plan = Plan(work.source, work.out, chosen)
    if work.computes:
        code = layout.dtype.code
        if form == "rows":
            found = kernel("rows", "largest_rows", code, *work.columns(), index)
        elif form == "planes" and work.steps[2] == 1 and prod(work.sizes) < 1 << 31:
            found = kernel("largest", "largest_across", code, index)
        else:
            found = kernel("largest", "largest", code, work.registers(), index)
        plan.describe(found, work.describe("outs"))
    return plan


def run_largest(plan, input):
    """(values, what was chosen or None)."""
    input = as_layout(input, plan.source)
    out, chosen = empty_like_layout(plan.out), None
    if plan.chosen is not None:
        chosen = empty_like_layout(plan.chosen)
    if plan.kernel is not None:
        where = chosen._storage.pointer if chosen is not None else 0
        plan.kernel(plan.description, out._storage.pointer, where, place(input))
    return out, chosen


def _check_largest(layout, dims):
    dtype = layout.dtype
    if dtype.is_complex or dtype in (d.bool_, d.uint16, d.uint32, d.uint64):
        raise errors.not_implemented(f"max_pool{dims}d", dtype)


def plan_largest(layout, window, recording):
    """A plan for values, and what backward needs if they are recorded."""
    if window.dims == 1 and not layout.dtype.is_floating_point:
        raise errors.not_implemented("max_pool1d_impl", layout.dtype)
    _check_largest(layout, window.dims)
    kind = "saved" if recording else "value"
    return planned(_largest_plan, layout, window, kind, LARGEST_FORMATS)


@launches("max_pool")
def max_pool(input, window, kind):
    """(values, chosen); nothing is remembered for backward where nobody will ask."""
    if kind == "saved" and not (input._requires_grad and modes.grad):
        kind = "value"
    plan = _plans.get((_largest_plan, input._layout, window, kind, LARGEST_FORMATS))
    if plan is None:
        _check_largest(input._layout, max(2, window.dims))
        plan = planned(_largest_plan, input._layout, window, kind, LARGEST_FORMATS)
    return run_largest(plan, input)


def _largest_backward_plan(layout, window, index, formats):
    work, form, _ = _largest_work(layout, window, formats)
    plan = Plan(work.source, work.out, _dense(work.out.shape, layout, work.last, INDEX[index]))
    if layout.device.type == "cpu" and layout.numel and work.out.numel:
        code = layout.dtype.code
        # fractional windows (no formats) are known by their indices alone; scattered sums of half
        # types would be rounded after every addition
        if not formats or (form == "planes" and layout.itemsize > 2):
            plan.describe(kernel("largest", "scatter", code, index), work.describe("images"))
            return plan
        if form == "rows":
            found = kernel("rows", "largest_rows_backward", code, *work.columns(), index)
        else:
            found = kernel("largest", "largest_backward", code, work.registers(), index)
        plan.describe(found, work.describe("sizes", backward=True))
    return plan


@launches("max_pool_backward")
def max_pool_backward(grad, chosen, layout, window, formats):
    index = next(k for k, t in INDEX.items() if t is chosen.dtype)
    plan = planned(_largest_backward_plan, layout, window, index, formats)
    out = empty_like_layout(plan.source)
    if plan.kernel is not None:
        grad, chosen = as_layout(grad, plan.out), as_layout(chosen, plan.chosen)
        plan.kernel(plan.description, out._storage.pointer, place(chosen), place(grad))
    elif out._layout.numel and out._layout.device.type == "cpu":
        out.zero_()
    return out


def _stub(name, layout):
    """PyTorch's kernels for channels that come last have names of their own."""
    return name + "_channels_last" * suggests_channels_last(layout)


@launches("adaptive_max_pool")
def adaptive_max_pool(input, window):
    dims = window.dims
    if input.dtype not in (d.float16, d.bfloat16, d.float32, d.float64):
        name = (
            "adaptive_max_pool3d_cpu" if dims == 3 else _stub("adaptive_max_pool2d", input._layout)
        )
        raise errors.not_implemented(name, input.dtype)
    return run_largest(planned(_largest_plan, input._layout, window, "i64", (2,)), input)


# -- the mean --------------------------------------------------------------------------------------

MEAN_FORMATS = (2,)


def _mean_plan(layout, window):
    work = _Work(layout, window, MEAN_FORMATS)
    plan = Plan(work.source, work.out)
    if work.computes:
        code, form = layout.dtype.code, work.form()
        if form == "channels" or layout.dtype.category == d.INTEGER:
            found = kernel("means", "mean", code, work.registers())
        elif form == "rows":
            found = kernel("rows", "mean_rows", code, *work.columns())
        else:
            found = kernel("means", "mean_across", code)
        plan.describe(found, work.describe("outs"))
    return plan


def run_mean(plan, input):
    input = as_layout(input, plan.source)
    out = empty_like_layout(plan.out)
    if plan.kernel is not None:
        plan.kernel(plan.description, out._storage.pointer, place(input))
    return out


def _check_mean(layout, window):
    dtype, dims = layout.dtype, max(2, window.dims)
    if window.kernel is None:
        if not dtype.is_floating_point:
            name = "adaptive_avg_pool3d_cpu" if dims == 3 else _stub("adaptive_avg_pool2d", layout)
            raise errors.not_implemented(name, dtype)
        return
    if not dtype.is_floating_point and dtype is not d.int64:
        name = "avg_pool3d_out_frame" if dims == 3 else _stub("avg_pool2d", layout)
        raise errors.not_implemented(name, dtype)


def plan_mean(layout, window):
    _check_mean(layout, window)
    return planned(_mean_plan, layout, window)


@launches("avg_pool")
def avg_pool(input, window):
    plan = _plans.get((_mean_plan, input._layout, window))
    if plan is None:
        _check_mean(input._layout, window)
        plan = planned(_mean_plan, input._layout, window)
    return run_mean(plan, input)


def _mean_backward_plan(layout, window):
    work = _Work(layout, window, MEAN_FORMATS)
    plan = Plan(work.source, work.out)
    if layout.device.type == "cpu" and layout.numel and work.out.numel:
        code, form = layout.dtype.code, work.form()
        touching = work.kernel and work.kernel[2] == work.window.stride[-1] <= SIDE_BY_SIDE
        if form == "rows" or (form == "planes" and touching):
            found = kernel("rows", "mean_rows_backward", code, *work.columns())
        elif form == "channels" or work.outs[2] > SHARES:
            found = kernel("means", "mean_backward", code, work.registers())
        else:
            found = kernel("means", "mean_backward_across", code)
        plan.describe(found, work.describe("sizes", backward=True))
    return plan


def plan_adaptive(layout, window, is_mean):
    """A plan for arguments that were checked before."""
    if is_mean:
        return planned(_mean_plan, layout, window)
    return planned(_largest_plan, layout, window, "i64", (2,))


@launches("avg_pool_backward")
def avg_pool_backward(grad, layout, window):
    plan = planned(_mean_backward_plan, layout, window)
    out = empty_like_layout(plan.source)
    if plan.kernel is not None:
        grad = as_layout(grad, plan.out)
        plan.kernel(plan.description, out._storage.pointer, place(grad))
    elif out._layout.numel and out._layout.device.type == "cpu":
        out.zero_()
    return out
