"""Launching multi_margin_loss: one kernel per direction (`codegen/templates/losses_margin.py`).

The gradient is a composite row whose body runs only where the call is recorded, so that it can be
differentiated again; everywhere else the kernel takes its place.
"""

from flambeau._layout import dense_layout
from flambeau._tensor import empty_like_layout, empty_tensor
from flambeau.eager.launching import FRONTS, launches
from flambeau.eager.fronts import kernel_unless_recorded
from flambeau.eager.kernels import load_kernel, pool
from flambeau.eager.plan import MAX_PLANS
from flambeau.eager.rows import address, contiguous, is_computed, launch
from flambeau.ops.losses import reduce_tensor
from flambeau.ops.losses_rows import MEAN, NONE
from flambeau.runtime.cpu import words

WORK = 1 << 16  # scores that are worth a chunk

_kernels: dict = {}


def _kernel(name, *facts):
    found = _kernels.get((name, *facts))
    if found is None:
        from flambeau.codegen.templates import losses_margin as templates  # on first need

        ir = getattr(templates, "build_" + name)(*facts)
        found = _kernels[name, *facts] = load_kernel(ir, name)
    return found


def _description(scores):
    samples, classes = scores.shape
    per_chunk = max(1, WORK // max(1, classes))
    return [-(-samples // per_chunk), samples, classes, per_chunk]


def _pointers(*tensors):
    return [0 if t is None else address(t) for t in tensors]


_plans: dict = {}  # (layout of the scores, power, is there a weight) -> layout, kernel, description


@launches("multi_margin")
def multi_margin(input, target, p, margin, weight, reduction):
    plan = _plans.get((input._layout, p, weight is not None))
    if plan is None:
        plan = _plan(input._layout, p, weight is not None)
    layout, run, description, _ = plan
    losses = empty_like_layout(layout)
    if is_computed(losses):
        input, target = contiguous(input), contiguous(target)
        weight = None if weight is None else contiguous(weight)
        if run(description, *_pointers(losses, input, target, weight), margin) is not None:
            raise RuntimeError("target out of range")
    return losses if reduction == NONE else reduce_tensor(losses, reduction)


def _plan(scores, p, weighted):
    run = _kernel("multi_margin", scores.dtype.code, p, weighted)
    owner, at = words(_description(scores))
    if owner[0] > 1:
        pool().ensure_workers()
    losses = dense_layout(scores.shape[:1], scores.dtype, scores.device)
    if len(_plans) > MAX_PLANS:
        _plans.clear()
    plan = _plans[scores, p, weighted] = losses, run, at, owner
    return plan


def _gradient(g, input, target, p, margin, weight, reduction):
    samples, classes = input._layout.shape
    out = empty_tensor(input.shape, input.dtype, input.device)
    if is_computed(out):
        input, target = contiguous(input), contiguous(target)
        weight = None if weight is None else contiguous(weight)
        step = g._layout.strides[0] if reduction == NONE else 0
        share = 1 / (classes * samples if reduction == MEAN else classes)
        run = _kernel("multi_margin_gradient", input.dtype.code, p, weight is not None)
        pointers = _pointers(out, g, input, target, weight)
        launch(run, [*_description(input._layout), step], *pointers, margin, share)
    return out


FRONTS["multi_margin_gradient"] = kernel_unless_recorded(_gradient)
