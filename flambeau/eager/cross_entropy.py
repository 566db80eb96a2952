"""Launching cross entropy of rows and nll_loss: checks in PyTorch's words, plans, partial totals.

Both give the loss and statistics for the backward: the total weight first, then (cross entropy) two
numbers per row. Kernels: `codegen/templates/rows_cross_entropy.py`; table rows:
`ops/cross_entropy.py`.
"""

import math

from flambeau import _dtype as d
from flambeau import errors
from flambeau._layout import dense_layout, make_layout
from flambeau._tensor import empty_like_layout
from flambeau.autograd.grad_mode import modes
from flambeau.codegen.descriptions import Positions, Scores, Totals
from flambeau.eager.copying import fill_into
from flambeau.eager.launching import launches, launches_kernel
from flambeau.eager.normalization import compute_dtype
from flambeau.eager.plans import Plans
from flambeau.eager.rows import chunks_of, contiguous, dense_like, has_work, vector_layout
from flambeau.eager.softmax import GRAIN
from flambeau.runtime.base import nothing
from flambeau.runtime.cpu import packed

POSITIONS = 1 << 14  # per chunk, where one element of each class row is read
HEADER = 2  # numbers of the statistics before those of the rows


def out_of_bounds(target, classes, ignore_index):
    """The complaint about the first class number that is none."""
    for value in target.flatten().tolist():
        if value != ignore_index and not 0 <= value < classes:
            return IndexError(f"Target {value} is out of bounds.")
    return IndexError("Target is out of bounds.")


def _kernel(name, x, target, weight, reduction):
    facts = x.dtype.code, target.dtype.code, weight is not None, reduction
    return x.device.runtime.kernel(name, _BUILD[name], *facts)


_BUILD = {
    name: "rows_cross_entropy:build_" + name
    for name in ("cross_entropy", "cross_entropy_backward", "nll_loss", "nll_loss_backward")
}


def _described(name, x, target, reduction):
    """(description, chunks); at least one chunk even for nothing: it writes the total."""
    positions, n = target.numel, x.sizes[1]
    step = 1 if reduction == "none" else 0
    by_row = name.startswith("cross_entropy")
    per_chunk = max(1, GRAIN // max(n, 1)) if by_row else POSITIONS
    chunks = max(1, chunks_of(positions, per_chunk))
    if by_row:
        return packed(Scores(chunks, positions, n, per_chunk, step)), chunks
    inner = math.prod(x.sizes[2:])
    return packed(Positions(chunks, positions, n, inner, per_chunk, step)), chunks


def _plan(key):
    """(layouts of loss and statistics, kernel, description, joining, is_rough).

    joining: where there are several chunks, the layout of their totals, and the kernel and the
    description that join them. is_rough: has an operand to be copied first?
    """
    name, x, target, weight, reduction = key
    check(name, x, target, weight)
    device, runtime = x.device, x.device.runtime
    if reduction == "none":
        out = dense_layout(target.shape, x.dtype, device)
    else:
        out = make_layout((), (), x.dtype, device)
    size = HEADER + (2 * target.numel if name == "cross_entropy" else 0)
    statistics = vector_layout(size, compute_dtype(x.dtype), device)
    if not runtime.computes:
        return out, statistics, nothing, b"", None, False
    kernel = _no_classes
    if x.sizes[1] or not target.numel:
        kernel = _kernel(name, x, target, weight, reduction)
    described, chunks = _described(name, x, target, reduction)
    joining = None
    if chunks > 1 and reduction != "none":
        build = "rows_cross_entropy:build_total"
        total = runtime.kernel("total", build, x.dtype.code, reduction)
        partials = vector_layout(2 * chunks, d.float64, device)
        joining = partials, total, packed(Totals(1, chunks))
    is_rough = not (
        x.is_contiguous and target.is_contiguous and (weight is None or weight.is_contiguous)
    )
    return out, statistics, kernel, described, joining, is_rough


def _no_classes(*args):
    """The kernel where there are no classes, so that none can be read: it fails."""
    return 1


PLANS = Plans(_plan)


def _launcher(name):
    def launch(input, target, weight, ignore_index, reduction):
        if weight is not None and weight._requires_grad and modes.grad:
            raise _constant_weight(input)
        weights = None if weight is None else weight._layout
        out, saved, kernel, described, joining, is_rough = PLANS[
            name, input._layout, target._layout, weights, reduction
        ]
        if is_rough:
            input, target = contiguous(input), contiguous(target)
            weight = None if weight is None else contiguous(weight)
        loss, statistics = empty_like_layout(out), empty_like_layout(saved)
        to, kept = loss._storage.pointer, statistics._storage.pointer
        partials = None if joining is None else empty_like_layout(joining[0])._storage
        status = kernel(
            described,
            to,
            kept,
            0 if partials is None else partials.pointer,
            input._storage.pointer + input._offset,
            target._storage.pointer + target._offset,
            0 if weight is None else weight._storage.pointer + weight._offset,
            ignore_index,
        )
        if status is not None:
            classes = input._layout.shape[1]
            raise out_of_bounds(target, classes, ignore_index if classes else None)
        if partials is not None:
            joining[1](joining[2], to, kept, partials.pointer)
        return loss, statistics

    return launch


launches("cross_entropy_rows")(_launcher("cross_entropy"))
launches("nll_loss_positions")(_launcher("nll_loss"))


# -- checks, in PyTorch's words --------------------------------------------------------------------


def batch_mismatch(input, target):
    return ValueError(
        f"Expected input batch_size ({input.shape[0]}) to match target batch_size "
        f"({target.shape[0]})."
    )


def _constant_weight(input):
    name = "nll_loss_forward" if input.ndim == 2 else "nll_loss2d_forward"
    return errors.not_differentiable(name, "weight")


def check(name, input, target, weight):
    """Complain about layouts that do not fit together."""
    classes = input.sizes[1]
    if input.ndim == 2:
        if target.ndim > 1:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        if input.sizes[0] != target.sizes[0]:
            raise batch_mismatch(input, target)
        if weight is not None and weight.shape != (classes,):
            raise RuntimeError(
                f"weight tensor should be defined either for all {classes} classes or no classes "
                f"but got weight tensor of shape: {list(weight.shape)}"
            )
    else:
        if target.ndim != input.ndim - 1:
            raise RuntimeError(
                "only batches of spatial targets supported (3D tensors) but got targets of "
                f"dimension: {target.ndim}"
            )
        if target.shape != (input.shape[0], *input.shape[2:]):
            raise RuntimeError(
                f"size mismatch (got input: {list(input.shape)} , target: {list(target.shape)}"
            )
        if weight is not None and weight.numel != classes:
            raise RuntimeError("weight tensor should be defined either for all or no classes")
    kernel = "log_softmax_lastdim_kernel_impl"
    if name == "nll_loss":
        kernel = "nll_loss_out_frame" if input.ndim == 2 else "nll_loss2d_forward_out_frame"
    known = target.dtype in (d.int64, d.uint8)
    if not input.dtype.is_floating_point and (known or name != "nll_loss"):
        raise errors.not_implemented(kernel, input.dtype)
    if not known:
        raise RuntimeError(
            f"expected target dtype to be Long or Byte, but got {target.dtype.scalar_name}"
        )
    if weight is not None and weight.dtype is not input.dtype:
        raise RuntimeError(
            f"expected scalar type {input.dtype.scalar_name} but found {weight.dtype.scalar_name}"
        )


# -- backward --------------------------------------------------------------------------------------


def _plan_gradient(key):
    """(layout of the gradient, kernel, description)."""
    name, x, target, _, reduction = key
    layout = dense_like(x)
    if not has_work(x):
        return layout, nothing, b""
    return layout, _kernel(*key), _described(name, x, target, reduction)[0]


GRADIENTS = Plans(_plan_gradient)


def _gradient(name):
    fills = name == "nll_loss_backward"  # which writes at the classes only

    def launch(g, input, target, weight, statistics, ignore_index, reduction):
        weights = None if weight is None else weight._layout
        layout, kernel, described = GRADIENTS[
            name, input._layout, target._layout, weights, reduction
        ]
        given = [contiguous(g), *(() if fills else (contiguous(input),)), contiguous(target)]
        dx = empty_like_layout(layout)
        if fills and kernel is not nothing:
            fill_into(dx, 0)
        weight = None if weight is None else contiguous(weight)
        kernel(
            described,
            dx._storage.pointer,
            *[t._storage.pointer + t._offset for t in given],
            0 if weight is None else weight._storage.pointer + weight._offset,
            statistics._storage.pointer + statistics._offset,
            ignore_index,
        )
        return dx

    return launch


launches_kernel("cross_entropy_rows_backward")(_gradient("cross_entropy_backward"))
launches_kernel("nll_loss_positions_backward")(_gradient("nll_loss_backward"))
