"""Plans of cross entropy of rows and nll_loss, partial totals among them.

Both give the loss and statistics for the backward: the total weight first, then (cross entropy) two
numbers per row. Kernels: `codegen/templates/rows_cross_entropy.py`; table rows and checks:
`ops/cross_entropy.py`.
"""

import math

from flambeau import _dtype as d
from flambeau._layout import dense_layout
from flambeau.codegen.descriptions import Positions, Scores, Totals
from flambeau.eager.cuda_sampling import is_cuda
from flambeau.eager.normalization import compute_dtype
from flambeau.eager.planned import idle, launch, on_zeros, planned
from flambeau.eager.rows import dense_like, has_work, vector_layout
from flambeau.eager.softmax import ROW
from flambeau.ops.cross_entropy import check_layouts
from flambeau.runtime.cpu import packed

GRAIN = 1 << 14  # elements per chunk, and as many as a row's beginning costs
POSITIONS = 1 << 14  # per chunk, where one element of each class row is read
# A chunk is the work of one group of threads on a GPU, of which there should be many.
GPU_GRAIN, GPU_POSITIONS = 1 << 13, 1 << 11
HEADER = 2  # numbers of the statistics before those of the rows


def _share(rows, n):
    """Rows of a chunk: equal shares, as many as are worth the addition of their totals."""
    chunks = rows * (n + ROW) // GRAIN & -2
    return max(1, -(-rows // min(chunks, rows)) if chunks else rows)


def _launch(results, name, x, target, weight, reduction, wide=False):
    """The plan of a kernel; at least one chunk even for nothing: it writes the total.

    wide: are losses in float32, whatever scores are?
    """
    positions, n = target.numel, x.sizes[1]
    step = 1 if reduction == "none" else 0
    if name.startswith("cross_entropy"):
        per_chunk = max(1, GPU_GRAIN // max(n, 1)) if is_cuda(x.device) else _share(positions, n)
        words = Scores(max(1, -(-positions // per_chunk)), positions, n, per_chunk, step)
    else:
        per_chunk = GPU_POSITIONS if is_cuda(x.device) else POSITIONS
        inner, chunks = math.prod(x.sizes[2:]), max(1, -(-positions // per_chunk))
        words = Positions(chunks, positions, n, inner, per_chunk, step)
    facts = x.dtype.code, target.dtype.code, weight is not None, reduction
    facts = (*facts, d.float32.code) if wide else facts
    return *launch(results, words, name, "rows_cross_entropy:build_" + name, *facts), words.chunks


def _forward(template, name, wide=False):
    @planned(
        template, "input: dense, target: dense, weight: dense?, ignore_index: number, reduction",
        "loss, statistics", order="loss statistics room input target weight ignore_index",
        room=True, fails=_out_of_bounds,
    )  # fmt: skip
    def plan(input, target, weight, reduction):
        check_layouts(name, input, target, weight)
        shape = target.shape if reduction == "none" else ()
        kind = d.float32 if wide else input.dtype
        out = dense_layout(shape, kind, input.device)
        size = HEADER + (2 * target.numel if name == "cross_entropy" else 0)
        statistics = vector_layout(size, compute_dtype(input.dtype), input.device)
        if not input.device.runtime.computes:
            return *idle(out, statistics), None
        if not input.sizes[1] and target.numel:
            return out, statistics, _no_classes, b"", None
        facts = name, input, target, weight, reduction
        *_, kernel, described, chunks = _launch((out, statistics), *facts, wide)
        if chunks == 1 or reduction == "none":
            return out, statistics, kernel, described, None
        build = "rows_cross_entropy:build_total"
        total = input.device.runtime.kernel("total", build, kind.code, reduction)
        both = kernel, described, total, packed(Totals(1, chunks))
        return out, statistics, _in_parts, both, vector_layout(2 * chunks, d.float64, input.device)


def _no_classes(*args):
    """The kernel where there are no classes, so that none can be read: it fails."""
    return 1


def _in_parts(both, loss, statistics, partials, *operands):
    """The kernel of several chunks: their totals, then what they come to."""
    kernel, described, total, total_described = both
    if kernel(described, loss, statistics, partials, *operands) is not None:
        return 1
    return total(total_described, loss, statistics, partials)


def _out_of_bounds(input, target, weight, ignore_index, reduction):
    """The complaint about the first class number that is none."""
    classes = input._layout.sizes[1]
    ignored = ignore_index if classes else None
    for value in target.flatten().tolist():
        if value != ignored and not 0 <= value < classes:
            return IndexError(f"Target {value} is out of bounds.")
    return IndexError("Target is out of bounds.")


_forward("cross_entropy_rows", "cross_entropy")
_forward("cross_entropy_wide", "cross_entropy", True)
_forward("nll_loss_positions", "nll_loss")


def _backward(template, name, input, wide=False):
    order = f"result g {input} target weight statistics ignore_index"

    @planned(
        template, "g: dense, input: dense, target: dense, weight: dense?, statistics: tensor, "
        "ignore_index: number, reduction", order=order, backward=True,
    )  # fmt: skip
    def plan(g, input, target, weight, statistics, reduction):
        layout = dense_like(input)
        if not has_work(layout):
            return idle(layout)
        *_, kernel, described, _ = _launch(layout, name, input, target, weight, reduction, wide)
        if name == "nll_loss_backward":  # which writes at the classes only
            kernel, described = on_zeros(layout, kernel, described)
        return layout, kernel, described


_backward("cross_entropy_rows_backward", "cross_entropy_backward", "input")
_backward("cross_entropy_wide_backward", "cross_entropy_backward", "input", True)
_backward("nll_loss_positions_backward", "nll_loss_backward", "")
