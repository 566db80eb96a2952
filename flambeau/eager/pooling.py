"""Launching pooling: which kernel for which windows and memory format, and how work is cut.

A plan holds what a call needs besides its tensors. Contiguous tensors are pooled plane by plane, by
rows where windows are small (`rows`), else window by window (`planes`); tensors with channels last
keep that order and lanes run over channels (`channels`). Windows and complaints:
`ops/pooling_windows.py`; kernels: `codegen/templates/pooling*.py`; fronts: `pooling_fronts.py`.
"""

from math import prod

from flambeau import _dtype as d
from flambeau import errors
from flambeau._layout import (
    dense_layout,
    make_layout,
    ordered_strides,
    suggests_channels_last,
)
from flambeau._natively import natively
from flambeau._tensor import empty_like_layout
from flambeau.autograd.grad_mode import modes
from flambeau.codegen.descriptions import Windows
from flambeau.eager import rows
from flambeau.eager.copying import CHANNELS_LAST, copy_into
from flambeau.eager.kernels import pool
from flambeau.eager.launching import launches
from flambeau.eager.plans import Plans
from flambeau.eager.rows import contiguous
from flambeau.ops.pooling_windows import uniform
from flambeau.runtime.cpu import packed

GRAIN = 1 << 18  # elements that a chunk looks at
WIDE, FAR = 7, 4  # windows of at most so many columns and distance are pooled by rows
SIDE_BY_SIDE = 16  # the way back from means, if windows touch
NARROW = 4  # windows of fewer columns are not worth a register each
SHARES, COLUMNS = 512, 4096  # windows and columns of a row that the kernels of other means hold
REGISTERS = 4  # of channels that are held at a time, if there are many
INDEX = {"u8": d.uint8, "i32": d.int32, "i64": d.int64}
MISSING = ((), (1, 1), (1,), ())  # sizes of the dimensions before those of windows, by their number
NO_PADDING = ((), (0, 0), (0,), ())
PLAIN = (1, 1, 1, 1, 1, 1, 0, 0, 0)  # dilations, strides, paddings


class Plan:
    """What pooling tensors of one layout needs besides them: layouts, kernel, description."""

    __slots__ = ("source", "out", "chosen", "kernel", "description")

    def __init__(self, source, out, chosen=None, kernel=None, words=None):
        self.source, self.out, self.chosen, self.kernel = source, out, chosen, kernel
        if kernel is not None:
            chunks, self.description = words
            if chunks > 1:
                pool().ensure_workers()

    def largest(self, input):
        """(values, what was chosen or None)."""
        input = as_layout(input, self.source)
        out, chosen, where = empty_like_layout(self.out), None, 0
        if self.chosen is not None:
            chosen = empty_like_layout(self.chosen)
            where = chosen._storage.pointer
        if self.kernel is not None:
            at = input._storage.pointer + input._offset
            self.kernel(self.description, out._storage.pointer, where, at)
        return out, chosen

    def values(self, input):
        """Values alone."""
        return self.largest(input)[0]

    def mean(self, input):
        input = as_layout(input, self.source)
        out = empty_like_layout(self.out)
        if self.kernel is not None:
            at = input._storage.pointer + input._offset
            self.kernel(self.description, out._storage.pointer, at)
        return out

    def back(self, *operands):
        """A gradient of the source, from tensors that have the layout they need."""
        out = empty_like_layout(self.source)
        if self.kernel is not None:
            self.kernel(self.description, out._storage.pointer, *map(place, operands))
        elif out._layout.numel and out._layout.device.runtime.computes:
            out.zero_()
        return out


def as_layout(t, layout):
    """A tensor in a layout of its shape: itself, or a copy."""
    if t._layout is layout:
        return t
    out = empty_like_layout(layout)
    if layout.numel and layout.device.runtime.computes:
        copy_into(out, t)
    return out


def place(t):
    return t._storage.pointer + t._offset


# -- memory formats --------------------------------------------------------------------------------


class _Planes:
    """A call in the words of kernels: images x depth x height x width x channels.

    formats: numbers of dimensions for which tensors with channels last keep that order; outs: sizes
    of the result.
    """

    def __init__(self, layout, outs, formats, taps=None):
        dims = len(outs)
        shape = layout.sizes
        lead, sizes = shape[: len(shape) - dims], shape[len(shape) - dims :]
        self.layout, self.missing = layout, MISSING[dims]
        self.last = dims in formats and len(lead) == 2 and suggests_channels_last(layout)
        self.image = -1 if self.last else rows.plane_step(shape, layout.strides, dims)
        self.source = layout
        if self.image < 0:
            self.source = self.dense(shape)
            self.image = prod(shape[1 if self.last else len(lead) :])
        self.out = self.dense((*lead, *outs))
        self.images, self.channels = (prod(lead[:-1]), lead[-1]) if self.last else (prod(lead), 1)
        self.sizes, self.outs = self.missing + sizes, self.missing + outs
        self.taps = self.missing + (taps or (1,) * dims)
        self.runtime = layout.device.runtime
        self.computes = self.runtime.computes and self.out.numel > 0

    def dense(self, shape, dtype=None):
        dtype = dtype or self.layout.dtype
        if not self.last:
            return dense_layout(shape, dtype, self.layout.device)
        strides = ordered_strides(shape, CHANNELS_LAST[len(shape)])
        return make_layout(shape, strides, dtype, self.layout.device)

    @property
    def gradient(self):
        """The layout of what goes back to the source."""
        return self.dense(tuple(self.layout.shape))

    def kernel(self, name, *key):
        """name: file:function of a builder."""
        return self.runtime.kernel(name.partition(":build_")[2], name, *key)

    def words(self, lines=1, by_columns=False, windows=PLAIN, counts=True, divisor=0):
        """(chunks, description); lines: pieces that an image is cut into; windows: dilations,
        strides and paddings.
        """
        return _described(
            self.images * lines, lines, self.sizes, self.outs, self.channels, self.image,
            self.taps, windows, counts, divisor, by_columns,
        )  # fmt: skip


@natively
def _described(pieces, lines, sizes: tuple, outs: tuple, channels, image, taps: tuple,
               windows: tuple, counts_padding, divisor, by_columns):  # fmt: skip
    d, h, w = sizes
    out_d, out_h, out_w = outs
    taps_d, taps_h, taps_w = taps
    work = max(out_d * out_h * out_w * taps_d * taps_h * taps_w, d * h * w) * channels
    per_chunk = max(1, GRAIN // max(1, work // max(1, lines)))
    chunks = -(-pieces // per_chunk)
    head = [chunks, per_chunk, pieces, *sizes, *outs, channels, image, *taps, *windows]
    return chunks, packed([*head, counts_padding, divisor, by_columns])


assert Windows._fields[2:14:11] == ("pieces", "taps_w") and len(Windows._fields) == 14 + 9 + 3


class _Work(_Planes):
    """The same with windows."""

    def __init__(self, layout, window, formats):
        dims = len(window.outs)
        sizes = tuple(layout.shape)[-dims:]
        self.window = window = uniform(window, sizes)
        self.kind = "plain"
        if window.kernel is None:
            self.kind = "adaptive"
            taps = tuple([-(-n // o) + 1 if o else 1 for n, o in zip(sizes, window.outs)])
        else:
            taps = window.kernel
            if max(window.dilation) > 1:
                self.kind = "dilated"
        super().__init__(layout, window.outs, formats, taps)

    def form(self, limit=1 << 62):
        """rows, planes or channels: how this is best pooled."""
        if self.last:
            return "channels"
        if self.kind != "plain" or self.taps[2] > WIDE or self.window.stride[-1] > FAR:
            return "planes"
        return "rows" if limit == 1 << 62 or prod(self.taps) <= limit else "planes"

    def registers(self):
        """How kernels for channels are built; 0 for planes."""
        return (REGISTERS if self.channels >= 40 else 1) if self.last else 0

    def columns(self):
        return self.taps[2], self.window.stride[-1]

    def describe(self, lines):
        """The words of a walk over lines of "outs" or of "sizes", or (None) over whole images."""
        window, width, outs = self.window, self.sizes[2], self.outs[2]
        count = 1 if lines is None else lines[0] * lines[1]
        if self.kind == "adaptive":
            shared = outs > 1 and width % outs > 0
            return self.words(count, shared or width < NARROW * outs)
        missing, none = self.missing, NO_PADDING[len(window.outs)]
        windows = missing + window.dilation + missing + window.stride + none + window.padding
        narrow = self.taps[2] < NARROW or (outs > 1 and window.stride[-1] < self.taps[2])
        return self.words(count, narrow, windows, window.include_pad, window.divisor or 0)


# -- the largest element ---------------------------------------------------------------------------

LARGEST_FORMATS = (2, 3)


def _largest_work(layout, window, formats):
    work = _Work(layout, window, formats)
    form = work.form(limit=256)
    # planes of more elements than 32 bits count need wide indices
    wide = prod(work.sizes) >= 1 << 31
    if form != "channels" and wide:
        form = "planes"
    return work, form, "i64" if wide else "u8" if form == "rows" else "i32"


def plan_largest(layout, window, kind, formats=LARGEST_FORMATS):
    """kind: "value", "saved" (what backward needs) or "i64" (indices for the caller)."""
    work, form, saved = _largest_work(layout, window, formats)
    index = {"value": None, "saved": saved, "i64": "i64"}[kind]
    chosen = None if index is None else work.dense(work.out.shape, INDEX[index])
    if not work.computes:
        return Plan(work.source, work.out, chosen)
    code = layout.dtype.code
    if form == "rows":
        found = work.kernel("pooling_rows:build_largest_rows", code, *work.columns(), index)
    elif form == "planes" and work.kind != "dilated" and prod(work.sizes) < 1 << 31:
        found = work.kernel("pooling:build_largest_across", code, index, work.kind)
    else:
        found = work.kernel("pooling:build_largest", code, work.registers(), index, work.kind)
    return Plan(work.source, work.out, chosen, found, work.describe(work.outs))


def _check_largest(layout, dims):
    dtype = layout.dtype
    if dtype.is_complex or dtype in (d.bool_, d.uint16, d.uint32, d.uint64):
        raise errors.not_implemented(f"max_pool{dims}d", dtype)


def plan_values(layout, window):
    """A plan for values alone, checked."""
    if window.dims == 1 and not layout.dtype.is_floating_point:
        raise errors.not_implemented("max_pool1d_impl", layout.dtype)
    _check_largest(layout, window.dims)
    return plan_largest(layout, window, "value")


def _plan_checked(key):
    layout, window, kind = key
    _check_largest(layout, max(2, window.dims))
    return plan_largest(layout, window, kind)


LARGEST = Plans(_plan_checked, by_default=False)


@launches("max_pool")
def max_pool(input, window, kind):
    """(values, chosen); nothing is remembered for backward where nobody will ask."""
    if kind == "saved" and not (input._requires_grad and modes.grad):
        kind = "value"
    return LARGEST[input._layout, window, kind].largest(input)


def _plan_largest_backward(key):
    layout, window, dtype, formats = key
    index = next(k for k, t in INDEX.items() if t is dtype)
    work, form, _ = _largest_work(layout, window, formats)
    chosen = work.dense(work.out.shape, dtype)
    if not layout.numel or not work.computes:
        return Plan(work.gradient, work.out, chosen)
    code = layout.dtype.code
    # fractional windows (no formats) are known by their indices alone; scattered sums of half types
    # would be rounded after every addition
    if not formats or (form == "planes" and layout.itemsize > 2):
        found, lines = work.kernel("pooling:build_scatter", code, index), None
    elif form == "rows":
        name = "pooling_rows:build_largest_rows_backward"
        found, lines = work.kernel(name, code, *work.columns(), index), work.sizes
    else:
        key = code, work.registers(), index, work.kind
        found, lines = work.kernel("pooling:build_largest_backward", *key), work.sizes
    return Plan(work.gradient, work.out, chosen, found, work.describe(lines))


LARGEST_BACKWARD = Plans(_plan_largest_backward, by_default=False)


@launches("max_pool_backward")
def max_pool_backward(grad, chosen, layout, window, formats):
    plan = LARGEST_BACKWARD[layout, window, chosen._layout.dtype, formats]
    return plan.back(as_layout(chosen, plan.chosen), as_layout(grad, plan.out))


def _stub(name, layout):
    """PyTorch's kernels for channels that come last have names of their own."""
    return name + "_channels_last" * suggests_channels_last(layout)


def plan_adaptive_largest(key):
    layout, window = key
    if layout.dtype not in (d.float16, d.bfloat16, d.float32, d.float64):
        name = "adaptive_max_pool3d_cpu"
        if window.dims != 3:
            name = _stub("adaptive_max_pool2d", layout)
        raise errors.not_implemented(name, layout.dtype)
    return plan_largest(layout, window, "i64", (2,))


ADAPTIVE_LARGEST = Plans(plan_adaptive_largest, by_default=False)


@launches("adaptive_max_pool")
def adaptive_max_pool(input, window):
    return ADAPTIVE_LARGEST[input._layout, window].largest(input)


# -- the mean --------------------------------------------------------------------------------------

MEAN_FORMATS = (2,)


def plan_mean(key):
    layout, window = key
    _check_mean(layout, window)
    work = _Work(layout, window, MEAN_FORMATS)
    if not work.computes:
        return Plan(work.source, work.out)
    code, form = layout.dtype.code, work.form()
    if form == "channels" or layout.dtype.category == d.INTEGER:
        found = work.kernel("pooling_means:build_mean", code, work.registers(), work.kind)
    elif form == "rows":
        found = work.kernel("pooling_rows:build_mean_rows", code, *work.columns())
    else:
        found = work.kernel("pooling_means:build_mean_across", code, work.kind)
    return Plan(work.source, work.out, None, found, work.describe(work.outs))


def _check_mean(layout, window):
    dtype, dims = layout.dtype, max(2, window.dims)
    if window.kernel is None:
        if not dtype.is_floating_point and layout.numel:
            name = "adaptive_avg_pool3d_cpu" if dims == 3 else _stub("adaptive_avg_pool2d", layout)
            raise errors.not_implemented(name, dtype)
        return
    if not dtype.is_floating_point and dtype is not d.int64:
        name = "avg_pool3d_out_frame" if dims == 3 else _stub("avg_pool2d", layout)
        raise errors.not_implemented(name, dtype)


MEANS = Plans(plan_mean, by_default=False)


@launches("avg_pool")
def avg_pool(input, window):
    return MEANS[input._layout, window].mean(input)


def _plan_mean_backward(key):
    layout, window = key
    work = _Work(layout, window, MEAN_FORMATS)
    if not layout.numel or not work.computes:
        return Plan(work.gradient, work.out)
    code, form = layout.dtype.code, work.form()
    touching = work.kind == "plain" and work.taps[2] == work.window.stride[-1] <= SIDE_BY_SIDE
    if form == "rows" or (form == "planes" and touching):
        found = work.kernel("pooling_rows:build_mean_rows_backward", code, *work.columns())
    elif form == "channels" or work.outs[2] > SHARES or work.sizes[2] > COLUMNS:
        key = code, work.registers(), work.kind
        found = work.kernel("pooling_means:build_mean_backward", *key)
    else:
        found = work.kernel("pooling_means:build_mean_backward_across", code, work.kind)
    return Plan(work.gradient, work.out, None, found, work.describe(work.sizes))


MEANS_BACKWARD = Plans(_plan_mean_backward, by_default=False)


@launches("avg_pool_backward")
def avg_pool_backward(grad, layout, window):
    plan = MEANS_BACKWARD[layout, window]
    return plan.back(as_layout(grad, plan.out))


# -- fractional pooling, unpooling -----------------------------------------------------------------


def _plan_fractional(key):
    layout, taps, outs = key
    work = _Planes(layout, outs, (), taps)
    chosen = work.dense(work.out.shape, d.int64)
    if not work.computes:
        return Plan(work.source, work.out, chosen)
    name = "pooling_fractional:build_fractional"
    found = work.kernel(name, layout.dtype.code, len(outs))
    return Plan(work.source, work.out, chosen, found, work.words())


FRACTIONAL = Plans(_plan_fractional, by_default=False)


@launches("fractional_max_pool")
def fractional_max_pool(input, samples, taps, outs):
    plan = FRACTIONAL[input._layout, taps, outs]
    out, chosen = empty_like_layout(plan.out), empty_like_layout(plan.chosen)
    if plan.kernel is not None:
        input, samples = as_layout(input, plan.source), contiguous(samples)
        pointers = out._storage.pointer, chosen._storage.pointer, place(input), place(samples)
        plan.kernel(plan.description, *pointers)
    return out, chosen


def _plan_unpool(key):
    layout, outs = key
    work = _Planes(layout, outs, (2,))
    chosen = work.dense(work.source.shape, d.int64)
    if not work.computes:
        return Plan(work.source, work.out, chosen)
    found = work.kernel("pooling:build_unpool", layout.dtype.code)
    return Plan(work.source, work.out, chosen, found, work.words())


UNPOOL = Plans(_plan_unpool, by_default=False)


@launches("max_unpool")
def max_unpool(input, indices, outs):
    if not input.dtype.is_floating_point:
        raise errors.not_implemented(f"max_unpool{len(outs)}d", input.dtype)
    plan = UNPOOL[input._layout, outs]
    out = empty_like_layout(plan.out)
    if plan.kernel is not None:
        input, indices = as_layout(input, plan.source), as_layout(indices, plan.chosen)
        status = plan.kernel(plan.description, out._storage.pointer, place(indices), place(input))
        if status is not None:
            raise RuntimeError(
                f"Found an invalid max index: {(status - 1) // 2} (output volumes are of size "
                f"{'x'.join(map(str, outs))})"
            )
    return out
