"""Updates: how an optimizer changes a parameter and its state, element by element.

A rule is written in the scalar language, like the body of a pointwise row: bare parameters are
tensors (None where the options leave them out), `float` ones numbers of this step, `bool` ones are
fixed in the kernel. It returns the new values by name. One native call runs a rule over all tensors
of a group (eager/updating.py). The arithmetic follows PyTorch's, operation by operation, so that
training from the same seed gives the same numbers.
"""

from collections.abc import Callable
from typing import NamedTuple

from flambeau.codegen import scalar as m

UPDATES: dict = {}


class Update(NamedTuple):
    """A rule: its function and the names of its tensors, numbers and flags."""

    name: str
    function: Callable
    tensors: tuple
    numbers: tuple
    flags: tuple


def update(function):
    """Make a rule of a function; its annotations say what each parameter is."""
    code, notes = function.__code__, function.__annotations__
    names = code.co_varnames[: code.co_argcount]
    of = {kind: tuple(n for n in names if notes.get(n) is kind) for kind in (None, float, bool)}
    rule = Update(function.__name__, function, of[None], of[float], of[bool])
    UPDATES[rule.name] = rule
    return rule


def _decayed(param, grad, weight_decay, maximize, decays):
    """The gradient to descend along, with L2 regularisation where asked for."""
    if maximize:
        grad = -grad
    return grad + weight_decay * param if decays else grad


def _toward(old, new, weight):
    """lerp for a weight below one half or not, as `lerp` has it."""
    span = new - old
    if isinstance(weight, float):  # on tensors, in a step that is to be differentiated
        return old + weight * span if abs(weight) < 0.5 else new - span * (1 - weight)
    return m.where(m.abs(weight) < 0.5, old + weight * span, new - span * (1 - weight))


@update
def sgd(
    param, grad, momentum_buffer,
    lr: float, momentum: float, dampening: float, weight_decay: float,
    nesterov: bool, maximize: bool, decays: bool, first: bool,
):  # fmt: skip
    """Stochastic gradient descent. `first`: the buffer is empty and takes the gradient itself."""
    grad = _decayed(param, grad, weight_decay, maximize, decays)
    found = {}
    if momentum_buffer is not None:
        buffer = grad if first else momentum_buffer * momentum + (1 - dampening) * grad
        found["momentum_buffer"] = buffer
        grad = grad + momentum * buffer if nesterov else buffer
    return found | {"param": param - lr * grad}


@update
def adam(
    param, grad, exp_avg, exp_avg_sq, max_exp_avg_sq,
    step_size: float, rest1: float, beta2: float, rest2: float, eps: float, weight_decay: float,
    kept: float, root: float,
    maximize: bool, decays: bool, decoupled: bool,
):  # fmt: skip
    """Adam and AdamW. kept: 1 - lr * weight_decay; root: the square root of the second correction.

    rest1 is 1 - beta1, the weight of the new gradient, and rest2 is 1 - beta2.
    """
    if decays and decoupled:
        param = param * kept
    grad = _decayed(param, grad, weight_decay, maximize, decays and not decoupled)
    average = _toward(exp_avg, grad, rest1)
    square = exp_avg_sq * beta2 + rest2 * grad * grad
    found = {"exp_avg": average, "exp_avg_sq": square}
    if max_exp_avg_sq is not None:
        square = found["max_exp_avg_sq"] = m.maximum(max_exp_avg_sq, square)
    denominator = m.sqrt(square) / root + eps
    return found | {"param": param - step_size * average / denominator}


@update
def adamax(
    param, grad, exp_avg, exp_inf,
    step_size: float, rest1: float, beta2: float, eps: float, weight_decay: float,
    maximize: bool, decays: bool,
):  # fmt: skip
    """Adamax: the second moment is a decaying maximum."""
    grad = _decayed(param, grad, weight_decay, maximize, decays)
    average = _toward(exp_avg, grad, rest1)
    largest = m.maximum(exp_inf * beta2, m.abs(grad) + eps)
    return {
        "exp_avg": average,
        "exp_inf": largest,
        "param": param - step_size * average / largest,
    }


@update
def nadam(
    param, grad, exp_avg, exp_avg_sq,
    rest1: float, beta2: float, rest2: float, eps: float, weight_decay: float, kept: float,
    correction: float, gradient_step: float, average_step: float,
    maximize: bool, decays: bool, decoupled: bool,
):  # fmt: skip
    """Adam with Nesterov momentum: steps along the gradient and along its average."""
    if decays and decoupled:
        param = param * kept
    grad = _decayed(param, grad, weight_decay, maximize, decays and not decoupled)
    average = _toward(exp_avg, grad, rest1)
    square = exp_avg_sq * beta2 + rest2 * grad * grad
    denominator = m.sqrt(square / correction) + eps
    param = param - gradient_step * grad / denominator
    param = param - average_step * average / denominator
    return {"exp_avg": average, "exp_avg_sq": square, "param": param}


@update
def radam(
    param, grad, exp_avg, exp_avg_sq,
    lr: float, rest1: float, beta2: float, rest2: float, eps: float, weight_decay: float,
    kept: float, correction: float, root: float, rectification: float,
    maximize: bool, decays: bool, decoupled: bool, rectified: bool,
):  # fmt: skip
    """Rectified Adam: plain momentum until the variance of the step is tractable."""
    if decays and decoupled:
        param = param * kept
    grad = _decayed(param, grad, weight_decay, maximize, decays and not decoupled)
    average = _toward(exp_avg, grad, rest1)
    square = exp_avg_sq * beta2 + rest2 * grad * grad
    step = average / correction * lr
    if rectified:
        step = step * (root / (m.sqrt(square) + eps)) * rectification
    return {"exp_avg": average, "exp_avg_sq": square, "param": param - step}


@update
def rmsprop(
    param, grad, square_avg, momentum_buffer, grad_avg,
    lr: float, alpha: float, rest: float, eps: float, weight_decay: float, momentum: float,
    maximize: bool, decays: bool,
):  # fmt: skip
    """RMSprop, centred where a running mean of the gradient is kept."""
    grad = _decayed(param, grad, weight_decay, maximize, decays)
    square = square_avg * alpha + rest * grad * grad
    found = {"square_avg": square}
    if grad_avg is not None:
        mean = found["grad_avg"] = _toward(grad_avg, grad, rest)
        square = square - mean * mean
    size = m.sqrt(square) + eps
    if momentum_buffer is None:
        return found | {"param": param - lr * grad / size}
    buffer = momentum_buffer * momentum + grad / size
    return found | {"momentum_buffer": buffer, "param": param - lr * buffer}


@update
def adagrad(
    param, grad, sum,
    lr: float, eps: float, weight_decay: float,
    maximize: bool, decays: bool,
):  # fmt: skip
    """Adagrad: steps shrink with the sum of all squares so far."""
    grad = _decayed(param, grad, weight_decay, maximize, decays)
    total = sum + grad * grad
    return {"sum": total, "param": param - lr * grad / (m.sqrt(total) + eps)}


@update
def adadelta(
    param, grad, square_avg, acc_delta,
    lr: float, rho: float, rest: float, eps: float, weight_decay: float,
    maximize: bool, decays: bool,
):  # fmt: skip
    """Adadelta: the step has the size of former steps."""
    grad = _decayed(param, grad, weight_decay, maximize, decays)
    square = square_avg * rho + rest * grad * grad
    delta = m.sqrt(acc_delta + eps) / m.sqrt(square + eps) * grad
    return {
        "square_avg": square,
        "acc_delta": acc_delta * rho + rest * delta * delta,
        "param": param - lr * delta,
    }


@update
def asgd(
    param, grad, ax,
    kept: float, eta: float, mu: float, weight_decay: float,
    maximize: bool, decays: bool, averages: bool,
):  # fmt: skip
    """Averaged stochastic gradient descent. kept: 1 - lambd * eta."""
    grad = _decayed(param, grad, weight_decay, maximize, decays)
    param = param * kept - eta * grad
    return {"param": param, "ax": ax + (param - ax) * mu if averages else param}


@update
def rprop(
    param, grad, prev, step_size,
    etaminus: float, etaplus: float, smallest: float, largest: float,
    maximize: bool,
):  # fmt: skip
    """Resilient propagation: only the signs of gradients count."""
    if maximize:
        grad = -grad
    agreement = grad * prev
    shorter = m.where(agreement < 0, step_size * etaminus, step_size)
    step = m.where(agreement > 0, step_size * etaplus, shorter)
    step = m.where(step < smallest, smallest, m.where(step > largest, largest, step))
    grad = m.where(agreement < 0, 0.0, grad)
    downhill = m.where(grad > 0, -step, m.where(grad < 0, step, 0.0))
    return {"param": param + downhill, "prev": grad, "step_size": step}


@update
def averaged(param, other, weight: float):
    """A running mean takes in a new value with this weight."""
    return {"param": _toward(param, other, weight)}


@update
def averaged_evenly(param, other, count: float):
    """The mean of count - 1 values takes in one more."""
    return {"param": param + (other - param) / count}


@update
def whitened(square, grad, least: float, sign: float):
    """A gradient over the root of its estimated square, in the memory of the square."""
    return {"square": sign * grad / m.sqrt(m.maximum(square, least))}


@update
def moved(param, other, kept: float, factor: float):
    """What is kept of a parameter, and a step."""
    return {"param": param * kept + factor * other}


@update
def counted(step):
    """One step more."""
    return {"step": step + 1}


@update
def replaced(kept, value: float):
    """A number takes the place of what there was."""
    return {"kept": value}


@update
def scaled(grad, factor: float):
    """grad times a number: gradient clipping."""
    return {"grad": grad * factor}


@update
def clamped(grad, low: float, high: float):
    """grad within bounds; nan stays nan."""
    return {"grad": m.minimum(m.maximum(grad, low), high)}
