"""Rows of losses: the value of one element and its derivatives.

Two rows come of each function marked `@loss`: the pointwise one (reduction "none"), and one called
`..._total` that adds the values up in the same kernel and divides by its argument `count`
(`eager/losses.py`). Checks and the functions users call are in `losses.py` and `losses_margin.py`.
"""

import copy
import math

from flambeau.codegen import scalar as m
from flambeau.ops.rules import promoted, same
from flambeau.ops.support import INTEGRAL, refuses
from flambeau.ops.table import REQUIRED, TABLE, Formula, Param, pointwise

NONE, MEAN, SUM = range(3)  # PyTorch's numbers for reductions
SQUARE = 2.0


# -- rows and their totals -------------------------------------------------------------------------


def loss(*, total_node=None, **facts):
    """Register the value of one element, and the row of its total.

    total_node: the name of the total's node where it is not that of the values.
    """

    def decorate(body):
        each = pointwise(variants="", **facts)(body)
        total = copy.copy(each)
        total.name = each.name + "_total"
        total.node_name = total_node or each.node_name
        total.params = (*each.params, Param("count", "float", REQUIRED, True))
        total.body = lambda count, **values: each.body(**values)
        total.grads = {name: _shared(formula) for name, formula in each.grads.items()}
        total.options = each.options | {"family": "total"}
        TABLE[total.name] = total
        return each

    return decorate


def _shared(formula):
    """The derivative of a total: every element gets its share of the gradient."""

    names = formula.names

    def function(g, count, *values):
        # in a kernel the quotient is computed once; on tensors count may be zero
        each = g * (1 / count) if isinstance(count, m.Expr) else g / count
        rest = iter(values)
        return formula.function(*[each if n == "g" else next(rest) for n in names])

    return Formula(function, ("g", "count", *(n for n in names if n != "g")))


def run(name, *args, **kwargs):
    """Call a row that has no public name."""
    return m.tensor_word(name)(*args, **kwargs)


def reduced(name, reduction, *tensors, **options):
    """A loss row with a reduction (a number); the tensors have one shape."""
    if reduction == NONE:
        return run(name, *tensors, **options)
    count = float(tensors[0].numel()) if reduction == MEAN else 1.0
    return run(name + "_total", *tensors, **options, count=count)


# -- dtypes ----------------------------------------------------------------------------------------


def first_dtype(operands):
    """Computed in the common dtype, given in that of the first operand."""
    return promoted(operands)[0], operands[0][0]


def target_dtype(operands):
    return promoted(operands)[0], operands[1][0]


def floats_only(name):
    return refuses(name, INTEGRAL + " complex")


def first_floats(name):
    """A check for rows whose result has the dtype of the first operand."""
    floats = floats_only(name)

    def check(op, operands):
        common, result = op.rule([(o.dtype, 2 if o.ndim else 1) for o in operands])
        if common.category > result.category:
            raise RuntimeError(
                f"result type {common.scalar_name} can't be cast to the desired output type "
                f"{result.scalar_name}"
            )
        floats(op, operands)

    return check


# -- distances -------------------------------------------------------------------------------------


@loss(
    dtype=promoted,
    dtypes=floats_only("mse_cpu"),
    node="MseLossBackward0",
    grad=dict(
        input=lambda g, input, target: (input - target) * SQUARE * g,
        target=lambda g, input, target: (target - input) * SQUARE * g,
    ),
)
def squared_error(input, target):
    """The square of the difference."""
    return (input - target) * (input - target)


@loss(
    dtype=promoted,
    dtypes=floats_only("mse_cpu"),
    node="MulBackward0",
    total_node="SumBackward0",
    grad=dict(
        input=lambda g, input, target, weight: (input - target) * SQUARE * weight * g,
        target=lambda g, input, target, weight: (target - input) * SQUARE * weight * g,
        weight=lambda g, input, target: (input - target) * (input - target) * g,
    ),
)
def weighted_squared_error(input, target, weight):
    """The square of the difference, times a weight."""
    return (input - target) * (input - target) * weight


@loss(
    dtype=promoted,
    dtypes=floats_only("abs_cpu"),
    node="AbsBackward0",
    total_node="MeanBackward0",
    grad=dict(
        input=lambda g, input, target: m.sign(input - target) * g,
        target=lambda g, input, target: m.sign(target - input) * g,
    ),
)
def absolute_error(input, target):
    """The size of the difference."""
    return m.abs(input - target)


@loss(
    dtype=promoted,
    dtypes=floats_only("abs_cpu"),
    node="MulBackward0",
    total_node="SumBackward0",
    grad=dict(
        input=lambda g, input, target, weight: m.sign(input - target) * weight * g,
        target=lambda g, input, target, weight: m.sign(target - input) * weight * g,
        weight=lambda g, input, target: m.abs(input - target) * g,
    ),
)
def weighted_absolute_error(input, target, weight):
    """The size of the difference, times a weight."""
    return m.abs(input - target) * weight


def _bent_slope(difference, beta):
    """From -1 to 1, straight between -beta and beta."""
    inside = m.where(difference >= beta, 1.0, difference / beta)
    return m.where(difference <= -beta, -1.0, inside)


@loss(
    dtype=promoted,
    dtypes=floats_only("smooth_l1_cpu"),
    node="SmoothL1LossBackward0",
    grad=dict(
        input=lambda g, input, target, beta: _bent_slope(input - target, beta) * g,
        target=lambda g, input, target, beta: _bent_slope(target - input, beta) * g,
    ),
)
def smooth_absolute_error(input, target, beta: float):
    """The size of the difference, less half of beta; a parabola where it is below beta."""
    z = m.abs(input - target)
    return m.where(z < beta, z * z * 0.5 / beta, z - beta * 0.5)


def _clamped(difference, delta):
    inside = m.where(difference >= delta, delta, difference)
    return m.where(difference <= -delta, -delta, inside)


def _huber(difference, delta):
    z = m.abs(difference)
    return m.where(z < delta, z * z * 0.5, (z - delta * 0.5) * delta)


@loss(
    dtype=first_dtype,
    dtypes=first_floats("huber_cpu"),
    node="HuberLossBackward0",
    grad=dict(
        input=lambda g, input, target, delta: _clamped(input - target, delta) * g,
        target=lambda g, input, target, delta: _clamped(target - input, delta) * g,
    ),
)
def huber_error(input, target, delta: float):
    """Half the square of the difference; a line where it is above delta."""
    return _huber(input - target, delta)


@loss(
    dtype=first_dtype,
    dtypes=first_floats("huber_cpu"),
    node="MulBackward0",
    total_node="MeanBackward0",
    grad=dict(
        input=lambda g, input, target, weight, delta: _clamped(input - target, delta) * weight * g,
        target=lambda g, input, target, weight, delta: _clamped(target - input, delta) * weight * g,
        weight=lambda g, input, target, delta: _huber(input - target, delta) * g,
    ),
)
def weighted_huber_error(input, target, weight, delta: float):
    """huber_error times a weight."""
    return _huber(input - target, delta) * weight


# -- probabilities ---------------------------------------------------------------------------------


def _clamped_log(x):
    return m.where(x < -100, -100.0, x)  # a certain mistake costs 100, not infinity


def _binary(input, target):
    return (target - 1) * _clamped_log(m.log1p(-input)) - target * _clamped_log(m.log(input))


def _binary_slope(input, target):
    width = (1 - input) * input
    return (input - target) / m.where(width < 1e-12, 1e-12, width)


_PROBABILITIES = dict(
    dtype=same,
    dtypes=floats_only("binary_cross_entropy"),
    node="BinaryCrossEntropyBackward0",
    error=RuntimeError("all elements of input should be between 0 and 1"),
)


def _checked(input, target, value):
    inside = (input >= 0) & (input <= 1) & (target >= 0) & (target <= 1)
    return m.check(inside, value)


@loss(
    **_PROBABILITIES,
    grad=dict(
        input=lambda g, input, target: _binary_slope(input, target) * g,
        target=lambda g, input: (m.log1p(-input) - m.log(input)) * g,
    ),
)
def binary_entropy(input, target):
    """Cross entropy of a target with the probability input."""
    return _checked(input, target, _binary(input, target))


@loss(
    **_PROBABILITIES,
    grad=dict(
        input=lambda g, input, target, weight: _binary_slope(input, target) * weight * g,
        target=lambda g, input, weight: (m.log1p(-input) - m.log(input)) * weight * g,
    ),
)
def weighted_binary_entropy(input, target, weight):
    """binary_entropy times a weight."""
    return _checked(input, target, _binary(input, target) * weight)


def _log_sigmoid(x):
    return m.where(x > 0, 0.0, x) - m.log1p(m.exp(-m.abs(x)))


_LOGITS = dict(
    dtype=target_dtype,
    dtypes=floats_only("log_sigmoid_cpu"),
    node="BinaryCrossEntropyWithLogitsBackward0",
)


@loss(
    **_LOGITS,
    grad=dict(
        input=lambda g, input, target: (m.sigmoid(input) - target) * g,
        target=lambda g, input: -input * g,
    ),
)
def logit_entropy(input, target):
    """Cross entropy of a target with the probability sigmoid(input)."""
    return (1 - target) * input - _log_sigmoid(input)


def _logit_slope(input, target, pos_weight):
    positive = target * pos_weight
    return (positive + 1 - target) * m.sigmoid(input) - positive


@loss(
    **_LOGITS,
    grad=dict(
        input=lambda g, input, target, weight, pos_weight: (
            _logit_slope(input, target, pos_weight) * weight * g
        ),
        target=lambda g, input, weight, pos_weight: (
            (_log_sigmoid(-input) - pos_weight * _log_sigmoid(input)) * weight * g
        ),
        # these two only in forward mode: callers refuse weights that want gradients
        weight=lambda g, input, target, pos_weight: (
            ((1 - target) * input - (1 + (pos_weight - 1) * target) * _log_sigmoid(input)) * g
        ),
        pos_weight=lambda g, input, target, weight: -target * _log_sigmoid(input) * weight * g,
    ),
)
def weighted_logit_entropy(input, target, weight, pos_weight):
    """logit_entropy times weight, positive targets times pos_weight."""
    factor = m.where(pos_weight == 1, 1, 1 + (pos_weight - 1) * target)  # of any target
    value = (1 - target) * input - factor * _log_sigmoid(input)
    return value * weight


def _divergence_slope(input, target):
    # 0 log 0 is 0, but its slope is not a number; so in PyTorch
    return m.where(target == 0, 0.0, m.log(target)) + target / target - input


@loss(
    dtype=promoted,
    node="SubBackward0",
    total_node="MeanBackward0",
    grad=dict(
        input=lambda g, target: -target * g,
        target=lambda g, input, target: _divergence_slope(input, target) * g,
    ),
)
def divergence(input, target):
    """target * (log(target) - input)."""
    return m.where(target == 0, target * 0, target * m.log(target)) - target * input


@loss(
    dtype=promoted,
    node="MulBackward0",
    total_node="MeanBackward0",
    grad=dict(
        input=lambda g, target: -m.exp(target) * g,
        target=lambda g, input, target: m.exp(target) * (target - input + 1) * g,
    ),
)
def log_divergence(input, target):
    """exp(target) * (target - input)."""
    return m.exp(target) * (target - input)


def _poisson_slope(input, target, log_input, eps):
    return m.exp(input) - target if log_input else 1 - target / (input + eps)


def _poisson_target_slope(input, target, log_input, full, eps):
    slope = -input if log_input else -m.log(input + eps)
    return slope + m.where(target > 1, m.log(target) + 0.5 / target, 0.0) if full else slope


@loss(
    dtype=promoted,
    node="SubBackward0",
    total_node="MeanBackward0",
    grad=dict(
        input=lambda g, input, target, log_input, eps: (
            _poisson_slope(input, target, log_input, eps) * g
        ),
        target=lambda g, input, target, log_input, full, eps: (
            _poisson_target_slope(input, target, log_input, full, eps) * g
        ),
    ),
)
def poisson_likelihood(
    input, target, log_input: bool = True, full: bool = False, eps: float = 1e-8
):
    """Minus the log likelihood of a count; full adds Stirling's approximation of log(target!)."""
    if log_input:
        value = m.exp(input) - target * input
    else:
        value = input - target * m.log(input + eps)
    if full:
        log_factorial = target * m.log(target) - target + m.log(target * (2 * math.pi)) * 0.5
        value = value + m.where(target <= 1, 0.0, log_factorial)
    return value


def _above(x, least):
    return m.where(x < least, x * 0 + least, x)


def _variance_slope(input, target, var, eps):
    v, difference = _above(var, eps), input - target
    return 0.5 / v - difference * difference * 0.5 / (v * v)


@loss(
    dtype=promoted,
    node="AddBackward0",
    total_node="MeanBackward0",
    dtypes=floats_only("gaussian_nll_loss"),
    error=ValueError("var has negative entry/entries"),
    grad=dict(
        input=lambda g, input, target, var, eps: (input - target) / _above(var, eps) * g,
        target=lambda g, input, target, var, eps: (target - input) / _above(var, eps) * g,
        var=lambda g, input, target, var, eps: _variance_slope(input, target, var, eps) * g,
    ),
)
def gaussian_likelihood(input, target, var, full: bool = False, eps: float = 1e-6):
    """Minus the log likelihood of a normal target; full adds the constant."""
    v = m.check(~(var < 0), _above(var, eps))
    value = (m.log(v) + (input - target) * (input - target) / v) * 0.5
    return value + 0.5 * math.log(2 * math.pi) if full else value
