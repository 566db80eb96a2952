"""Launching cross entropy of rows and nll_loss: checks in PyTorch's words, plans, partial totals.

Both give the loss and statistics for the backward: the total weight first, then (cross entropy) two
numbers per row. Kernels: `codegen/templates/rows_cross_entropy.py`; table rows:
`ops/cross_entropy.py`.
"""

import math

from flambeau import _dtype as d
from flambeau import errors
from flambeau._layout import Size, dense_layout
from flambeau._tensor import empty_like_layout
from flambeau.autograd.grad_mode import modes
from flambeau.eager.launching import FRONTS, launches
from flambeau.eager.copying import fill_into
from flambeau.eager.fronts import kernel_unless_recorded
from flambeau.eager.kernels import load_kernel, pool
from flambeau.eager.plan import MAX_PLANS
from flambeau.eager.rows import contiguous
from flambeau.eager.softmax import GRAIN
from flambeau.runtime.cpu import words

_kernels: dict = {}
_plans: dict = {}
POSITIONS = 1 << 14  # per chunk, where one element of each class row is read
HEADER = 2


def _kernel(name, *facts):
    found = _kernels.get((name, facts))
    if found is None:
        from flambeau.codegen.templates import rows_cross_entropy as kernels  # with llvmlite

        found = _kernels[name, facts] = load_kernel(getattr(kernels, "build_" + name)(*facts), name)
    return found


def out_of_bounds(target, classes, ignore_index):
    """The complaint about the first class number that is none."""
    for value in target.flatten().tolist():
        if value != ignore_index and not 0 <= value < classes:
            return IndexError(f"Target {value} is out of bounds.")
    return IndexError("Target is out of bounds.")


class _Plan:
    """How one kind of call runs: layouts, kernels and descriptions."""

    __slots__ = ("out", "statistics", "kernel", "at", "owner", "partials", "total", "total_at")

    def __init__(self, name, x, target, weight, reduction, per_row):
        code, device = x.dtype.code, x.device
        compute = d.float64 if code == "f64" else d.float32
        n = x.shape[1]
        inner = math.prod(x.shape[2:])
        positions = target.numel
        shape = target.shape if reduction == "none" else Size()
        self.out = dense_layout(shape, x.dtype, device)
        size = HEADER + (2 * positions if per_row else 0)
        self.statistics = dense_layout(Size((size,)), compute, device)
        facts = code, target.dtype.code, weight is not None, reduction
        self.kernel = _kernel(name, *facts)
        if per_row:
            per_chunk = max(1, GRAIN // max(n, 1))
            described = [positions, n, per_chunk]
        else:
            per_chunk = POSITIONS
            described = [positions, n, inner, per_chunk]
        chunks = max(1, -(-positions // per_chunk))  # one even for nothing: it writes the total
        self.owner, self.at = words([chunks, *described])
        self.partials = self.total = None
        if chunks > 1:
            pool().ensure_workers()
            if reduction != "none":
                self.partials = dense_layout(Size((2 * chunks,)), d.float64, device)
                self.total = _kernel("total", code, reduction)
                owner, self.total_at = words([1, chunks])
                self.owner = self.owner, owner

    def run(self, input, target, weight, ignore_index):
        loss, statistics = empty_like_layout(self.out), empty_like_layout(self.statistics)
        out, kept = loss._storage.pointer, statistics._storage.pointer
        partials = empty_like_layout(self.partials)._storage if self.partials is not None else None
        status = self.kernel(
            self.at,
            out,
            kept,
            partials.pointer if partials is not None else 0,
            input._storage.pointer + input._offset,
            target._storage.pointer + target._offset,
            0 if weight is None else weight._storage.pointer + weight._offset,
            ignore_index,
        )
        if status is not None:
            raise out_of_bounds(target, input._layout.shape[1], ignore_index)
        if partials is not None:
            self.total(self.total_at, out, kept, partials.pointer)
        return loss, statistics


def _launcher(name, per_row):
    def launch(input, target, weight, ignore_index, reduction):
        if weight is not None and weight._requires_grad and modes.grad:
            raise _constant_weight(input)
        key = (
            name,
            input._layout,
            target._layout,
            None if weight is None else weight._layout,
            reduction,
        )
        plan = _plans.get(key)
        if plan is None:
            check(name, input, target, weight, reduction)
            if input._layout.device.type != "cpu":
                return _without_values(input, target, reduction, per_row)
            if input.shape[1] == 0 and target.numel():
                raise out_of_bounds(target, 0, None)  # where there are no classes, none can be read
            given = input, target, weight
            dense = [None if t is None else contiguous(t) for t in given]
            layouts = [None if t is None else t._layout for t in dense]
            plan = _Plan(name, *layouts, reduction, per_row)
            if all(a is b for a, b in zip(dense, given)):
                if len(_plans) > MAX_PLANS:
                    _plans.clear()
                _plans[key] = plan
            input, target, weight = dense
        return plan.run(input, target, weight, ignore_index)

    return launch


def _without_values(input, target, reduction, per_row):
    """Results on the meta device."""
    shape = target.shape if reduction == "none" else Size()
    compute = d.float64 if input.dtype is d.float64 else d.float32
    size = HEADER + (2 * target.numel() if per_row else 0)
    return tuple(
        empty_like_layout(dense_layout(s, t, input.device))
        for s, t in ((shape, input.dtype), (Size((size,)), compute))
    )


launches("cross_entropy_rows")(_launcher("cross_entropy", True))
launches("nll_loss_positions")(_launcher("nll_loss", False))


# -- checks, in PyTorch's words --------------------------------------------------------------------


def batch_mismatch(input, target):
    return ValueError(
        f"Expected input batch_size ({input.shape[0]}) to match target batch_size "
        f"({target.shape[0]})."
    )


def _constant_weight(input):
    name = "nll_loss_forward" if input.ndim == 2 else "nll_loss2d_forward"
    return RuntimeError(
        f"The function '{name}' is not differentiable with respect to argument 'weight'. This "
        "input cannot have requires_grad True."
    )


def check(name, input, target, weight, reduction):
    classes = input.shape[1]
    if input.ndim == 2:
        if target.ndim > 1:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        if input.shape[0] != target.shape[0]:
            raise batch_mismatch(input, target)
        if weight is not None and (weight.ndim != 1 or weight.shape[0] != classes):
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
        if weight is not None and weight.numel() != classes:
            raise RuntimeError("weight tensor should be defined either for all or no classes")
    kernel = "log_softmax_lastdim_kernel_impl"
    if name == "nll_loss":
        kernel = "nll_loss_out_frame" if input.ndim == 2 else "nll_loss2d_forward_out_frame"
    if not input.dtype.is_floating_point:
        raise errors.not_implemented(kernel, input.dtype)
    if target.dtype not in (d.int64, d.uint8):
        raise RuntimeError(
            f"expected target dtype to be Long or Byte, but got {target.dtype.scalar_name}"
        )
    if weight is not None and weight.dtype is not input.dtype:
        raise RuntimeError(
            f"expected scalar type {input.dtype.scalar_name} but found {weight.dtype.scalar_name}"
        )


# -- backward --------------------------------------------------------------------------------------


def _backward_plan(name, key, x, target, weight, g, reduction):
    n, inner, positions = x.shape[1], math.prod(x.shape[2:]), target.numel
    step = 0 if reduction != "none" else 1
    if name == "cross_entropy_backward":
        per_chunk = max(1, GRAIN // max(n, 1))
        described = [positions, n, per_chunk, step]
    else:
        per_chunk = POSITIONS
        described = [positions, n, inner, per_chunk, step]
    owner, at = words([-(-positions // per_chunk), *described])
    if owner[0] > 1:
        pool().ensure_workers()
    kernel = _kernel(name, x.dtype.code, target.dtype.code, weight is not None, reduction)
    if len(_plans) > MAX_PLANS:
        _plans.clear()
    plan = _plans[key] = dense_layout(x.shape, x.dtype, x.device), kernel, at, owner
    return plan


def _rows_backward(g, input, target, weight, statistics, ignore_index, reduction):
    key = ("rows back", input._layout, target._layout, weight is None, g._layout, reduction)
    plan = _plans.get(key)
    if plan is None:
        layout = input._layout
        if layout.device.type != "cpu" or layout.numel == 0:
            return empty_like_layout(dense_layout(layout.shape, layout.dtype, layout.device))
    input, target, g = _dense(input), _dense(target), _dense(g)
    weight = None if weight is None else _dense(weight)
    if plan is None:
        layouts = input._layout, target._layout, weight, g._layout
        plan = _backward_plan("cross_entropy_backward", key, *layouts, reduction)
    layout, kernel, at, _ = plan
    dx = empty_like_layout(layout)
    kernel(
        at,
        dx._storage.pointer,
        g._storage.pointer + g._offset,
        input._storage.pointer + input._offset,
        target._storage.pointer + target._offset,
        0 if weight is None else weight._storage.pointer + weight._offset,
        statistics._storage.pointer + statistics._offset,
        ignore_index,
    )
    return dx


def _positions_backward(g, input, target, weight, statistics, ignore_index, reduction):
    layout = dense_layout(input.shape, input.dtype, input.device)
    dx = empty_like_layout(layout)
    if layout.device.type != "cpu" or layout.numel == 0:
        return dx
    key = ("positions back", layout, target._layout, weight is None, reduction)
    target, g = _dense(target), _dense(g)
    weight = None if weight is None else _dense(weight)
    plan = _plans.get(key) or _backward_plan(
        "nll_loss_backward", key, layout, target._layout, weight, g, reduction
    )
    fill_into(dx, 0)
    plan[1](
        plan[2],
        dx._storage.pointer,
        g._storage.pointer + g._offset,
        statistics._storage.pointer + statistics._offset,
        target._storage.pointer + target._offset,
        0 if weight is None else weight._storage.pointer + weight._offset,
        ignore_index,
    )
    return dx


def _dense(t):
    return t if t._layout.is_contiguous else contiguous(t)


FRONTS["cross_entropy_rows_backward"] = kernel_unless_recorded(_rows_backward)
FRONTS["nll_loss_positions_backward"] = kernel_unless_recorded(_positions_backward)
