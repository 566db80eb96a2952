"""Plans of multi_margin_loss: one kernel per direction (`codegen/templates/losses_margin.py`).

The gradient is a composite row whose body runs only where the call is recorded, so that it can be
differentiated again; everywhere else the kernel takes its place.
"""

from flambeau.codegen.descriptions import Margins
from flambeau.eager.launching import launches, launches_kernel
from flambeau.eager.planned import idle, launch, planned
from flambeau.eager.rows import dense_like, has_work, share_of, vector_layout
from flambeau.ops.losses import reduce_tensor
from flambeau.ops.losses_rows import MEAN, NONE

WORK = 1 << 16  # scores that are worth a chunk


def _plan(name, layout, scores, p, weight, step=0):
    """step: from gradient to gradient."""
    samples, classes = scores.shape
    if not has_work(layout):
        return idle(layout)
    per_chunk = share_of(layout.device, max(1, WORK // max(1, classes)))
    words = Margins(-(-samples // per_chunk), samples, classes, per_chunk, step)
    facts = scores.dtype.code, p, weight is not None
    return launch(layout, words, name, "losses_margin:build_" + name, *facts)


@planned(
    None, "input: dense, target: dense, p, margin: number, weight: dense?",
    fails=lambda *given: RuntimeError("target out of range"),
)  # fmt: skip
def _losses(input, target, p, weight):
    layout = vector_layout(input.sizes[0], input.dtype, input.device)
    return _plan("multi_margin", layout, input, p, weight)


@launches("multi_margin")
def multi_margin(input, target, p, margin, weight, reduction):
    losses = _losses(input, target, p, margin, weight)
    return losses if reduction == NONE else reduce_tensor(losses, reduction)


@planned(
    None, "g: tensor, input: dense, target: dense, p, margin: number, weight: dense?, step, "
    "share: number",
)  # fmt: skip
def _gradients(g, input, target, p, weight, step):
    return _plan("multi_margin_gradient", dense_like(input), input, p, weight, step)


@launches_kernel("multi_margin_gradient")
def _gradient(g, input, target, p, margin, weight, reduction):
    samples, classes = input._layout.sizes
    step = g._layout.strides[0] if reduction == NONE else 0
    share = 1 / ((classes * samples if reduction == MEAN else classes) or 1)
    return _gradients(g, input, target, p, margin, weight, step, share)
