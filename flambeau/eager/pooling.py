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
from flambeau.autograd.grad_mode import modes
from flambeau.codegen.descriptions import Windows
from flambeau.eager import rows
from flambeau.eager.copying import CHANNELS_LAST, FILLS
from flambeau.eager.kernels import pool
from flambeau.eager.launching import launches
from flambeau.eager.planned import constant, idle, planned
from flambeau.ops.pooling_windows import check_not_empty, uniform
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

    def launch(self, results, described, build, *facts):
        """A plan: results, kernel, description, layout of the source. build: file:function."""
        if max(prod(self.sizes), prod(self.outs)) * self.channels >= 1 << 31:
            self._check_image()
        kernel = self.runtime.kernel(build.partition(":build_")[2], build, *facts)
        chunks, words = described
        if chunks > 1:
            pool().ensure_workers()
        return *results, kernel, words, self.source

    def _check_image(self):
        if not self.runtime.is_host:
            raise RuntimeError("pooling on a GPU takes images of less than 2^31 elements")

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
    results, code = (work.out, chosen), layout.dtype.code
    if not work.computes:
        return *idle(*results), work.source
    if form == "rows":
        build, facts = "pooling_rows:build_largest_rows", (code, *work.columns(), index)
    elif form == "planes" and work.kind != "dilated" and prod(work.sizes) < 1 << 31:
        build, facts = "pooling:build_largest_across", (code, index, work.kind)
    else:
        build, facts = "pooling:build_largest", (code, work.registers(), index, work.kind)
    return work.launch(results, work.describe(work.outs), build, *facts)


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


@planned(None, "input: fitted, window, kind", "out, chosen?")
def _largest(input, window, kind):
    _check_largest(input, max(2, window.dims))
    return plan_largest(input, window, kind)


@launches("max_pool")
def max_pool(input, window, kind):
    """(values, chosen); nothing is remembered for backward where nobody will ask."""
    if kind == "saved" and not (input._requires_grad and modes.grad):
        kind = "value"
    return _largest(input, window, kind)


@planned(
    "max_pool_backward", "grad: fitted, chosen: fitted, layout, window, formats",
    order="result chosen grad",
)  # fmt: skip
def max_pool_backward(grad, chosen, layout, window, formats):
    index = next(k for k, t in INDEX.items() if t is chosen.dtype)
    work, form, _ = _largest_work(layout, window, formats)
    fitted = work.out, work.dense(work.out.shape, chosen.dtype)
    if formats:
        _check_adaptive_gradient("max", grad, window)
    if not layout.numel or not work.computes:
        return *constant(0, (work.gradient,)), *fitted
    code = layout.dtype.code
    # fractional windows (no formats) are known by their indices alone; scattered sums of half types
    # would be rounded after every addition
    scattered = form == "planes" and layout.itemsize > 2 and work.runtime.is_host
    if not formats or scattered:
        lines, build, facts = None, "pooling:build_scatter", (code, index)
    elif form == "rows":
        build, facts = "pooling_rows:build_largest_rows_backward", (code, *work.columns(), index)
        lines = work.sizes
    else:
        build, facts = "pooling:build_largest_backward", (code, work.registers(), index, work.kind)
        lines = work.sizes
    return *work.launch((work.gradient,), work.describe(lines), build, *facts)[:-1], *fitted


def _stub(name, layout):
    """PyTorch's kernels for channels that come last have names of their own."""
    return name + "_channels_last" * suggests_channels_last(layout)


@planned("adaptive_max_pool", "input: fitted, window", "out, chosen")
def adaptive_max_pool(input, window):
    return plan_adaptive_largest(input, window, "i64")


def plan_adaptive_largest(layout, window, kind):
    if layout.dtype not in (d.float16, d.bfloat16, d.float32, d.float64):
        name = "adaptive_max_pool3d_cpu"
        if window.dims != 3:
            name = _stub("adaptive_max_pool2d", layout)
        raise errors.not_implemented(name, layout.dtype)
    return plan_largest(layout, window, kind, (2,))


# -- the mean --------------------------------------------------------------------------------------

MEAN_FORMATS = (2,)


@planned("avg_pool", "input: fitted, window")
def avg_pool(input, window):
    work = _Work(input, window, MEAN_FORMATS)
    if work.computes or window.kernel is not None:
        _check_mean(input, window)
    if not work.computes:
        return *idle(work.out), work.source
    code, form = input.dtype.code, work.form()
    if form == "channels" or input.dtype.category == d.INTEGER:
        build, facts = "pooling_means:build_mean", (code, work.registers(), work.kind)
    elif form == "rows":
        build, facts = "pooling_rows:build_mean_rows", (code, *work.columns())
    else:
        build, facts = "pooling_means:build_mean_across", (code, work.kind)
    return work.launch((work.out,), work.describe(work.outs), build, *facts)


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


def _check_adaptive_gradient(kind, grad, window):
    """PyTorch has no way back from planes of nothing that adaptive pooling gave."""
    if window.kernel is None and not grad.numel:
        dims = window.dims
        check_not_empty(
            f"adaptive_{kind}_pool{dims}d_backward(): Expected grad_output to have non-zero size "
            "for non-batch dimensions, but grad_output has sizes ",
            grad.shape,
            1,
        )


@planned("avg_pool_backward", "grad: fitted, layout, window")
def avg_pool_backward(grad, layout, window):
    _check_adaptive_gradient("avg", grad, window)
    work = _Work(layout, window, MEAN_FORMATS)
    if not layout.numel or not work.computes:
        return *constant(0, (work.gradient,)), work.out
    code, form = layout.dtype.code, work.form()
    touching = work.kind == "plain" and work.taps[2] == work.window.stride[-1] <= SIDE_BY_SIDE
    if form == "rows" or (form == "planes" and touching):
        build, facts = "pooling_rows:build_mean_rows_backward", (code, *work.columns())
    elif form == "channels" or work.outs[2] > SHARES or work.sizes[2] > COLUMNS:
        build, facts = "pooling_means:build_mean_backward", (code, work.registers(), work.kind)
    else:
        build, facts = "pooling_means:build_mean_backward_across", (code, work.kind)
    found = work.launch((work.gradient,), work.describe(work.sizes), build, *facts)
    return *found[:-1], work.out


# -- fractional pooling, unpooling -----------------------------------------------------------------


@planned("fractional_max_pool", "input: fitted, samples: dense, taps, outs", "out, chosen")
def fractional_max_pool(input, samples, taps, outs):
    work = _Planes(input, outs, (), taps)
    results = work.out, work.dense(work.out.shape, d.int64)
    if not work.computes:
        return *idle(*results), work.source
    build = "pooling_fractional:build_fractional"
    return work.launch(results, work.words(), build, input.dtype.code, len(outs))


def _wrong_place(input, indices, outs):
    """The complaint about the first index that lies outside."""
    volume = prod(outs)
    bad = next(i for i in indices.flatten().tolist() if not 0 <= i < volume)
    return RuntimeError(
        f"Found an invalid max index: {bad} (output volumes are of size {'x'.join(map(str, outs))})"
    )


@planned(
    "max_unpool", "input: fitted, indices: fitted, outs", order="result indices input",
    fails=_wrong_place,
)  # fmt: skip
def max_unpool(input, indices, outs):
    if not input.dtype.is_floating_point:
        raise errors.not_implemented(f"max_unpool{len(outs)}d", input.dtype)
    work = _Planes(input, outs, (2,))
    fitted = work.source, work.dense(work.source.shape, d.int64)
    if not work.computes:
        return *idle(work.out), *fitted
    found = work.launch((work.out,), work.words(), "pooling:build_unpool", input.dtype.code)
    out, kernel, words, _ = found
    if not work.runtime.is_host:  # where many threads put elements, others have to be there before
        kernel, words = _onto_zeros, (kernel, words, work.out)
    return out, kernel, words, *fitted


def _onto_zeros(plan, out, *others):
    """A kernel that puts elements into zeros."""
    kernel, words, layout = plan
    fill, described = FILLS[layout, int]
    fill(described, out, 0)
    kernel(words, out, *others)
