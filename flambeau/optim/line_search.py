"""A line search for the strong Wolfe conditions (Nocedal and Wright, algorithms 3.5 and 3.6).

First the step grows until it brackets a minimum, then the bracket shrinks by cubic interpolation
until the loss has gone down enough (c1) and the slope has become flat enough (c2).
"""

import math
from typing import Any, NamedTuple


class _Point(NamedTuple):
    """What is known at a length of the step. Lengths and slopes may be tensors."""

    length: Any
    loss: float
    gradient: Any
    slope: Any


def _cubic_minimum(a, b, bounds=None):
    """The minimum of the cubic through two points with their slopes, kept within bounds."""
    low, high = bounds or ((a.length, b.length) if a.length <= b.length else (b.length, a.length))
    d1 = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.length - b.length)
    square = d1**2 - a.slope * b.slope
    if not square >= 0:
        return (low + high) / 2.0
    d2 = square.sqrt() if hasattr(square, "sqrt") else math.sqrt(square)
    left, right = (a, b) if a.length <= b.length else (b, a)
    span = right.length - left.length
    found = right.length - span * ((right.slope + d2 - d1) / (right.slope - left.slope + 2 * d2))
    return min(max(found, low), high)


def strong_wolfe(
    evaluate, length, direction, loss, gradient, slope, c1=1e-4, c2=0.9, change=1e-9, most=25
):
    """(loss, gradient, length, evaluations) at a step that fulfils the conditions.

    evaluate(length) gives loss and gradient there; slope is the derivative along direction at the
    start, which is negative.
    """
    size = direction.abs().max()
    start = _Point(0, loss, gradient.clone(), slope)

    def at(length):
        loss, gradient = evaluate(length)
        return _Point(length, loss, gradient.clone(), gradient.dot(direction))

    def too_high(point):
        return point.loss > start.loss + c1 * point.length * slope

    here, previous = at(length), start
    evaluations, count, bracket = 1, 0, None
    while count < most:
        if too_high(here) or (count > 1 and here.loss >= previous.loss):
            bracket = [previous, here]
            break
        if abs(here.slope) <= -c2 * slope:
            return here.loss, here.gradient, here.length, evaluations
        if here.slope >= 0:
            bracket = [previous, here]
            break
        least = here.length + 0.01 * (here.length - previous.length)
        further = _cubic_minimum(previous, here, (least, here.length * 10))
        previous, here = here, at(further)
        evaluations += 1
        count += 1
    if bracket is None:
        bracket = [start, here]

    stuck = False
    low, high = (0, 1) if bracket[0].loss <= bracket[1].loss else (1, 0)
    while count < most:
        lengths = [point.length for point in bracket]
        width = abs(lengths[1] - lengths[0])
        if width * size < change:
            break
        length = _cubic_minimum(*bracket)
        # close to an end of the bracket twice in a row: move away from it by a tenth
        margin = 0.1 * (max(lengths) - min(lengths))
        if min(max(lengths) - length, length - min(lengths)) < margin:
            if stuck or length >= max(lengths) or length <= min(lengths):
                near_top = abs(length - max(lengths)) < abs(length - min(lengths))
                length = max(lengths) - margin if near_top else min(lengths) + margin
                stuck = False
            else:
                stuck = True
        else:
            stuck = False
        here = at(length)
        evaluations += 1
        count += 1
        if too_high(here) or here.loss >= bracket[low].loss:
            bracket[high] = here
            low, high = (0, 1) if bracket[0].loss <= bracket[1].loss else (1, 0)
            continue
        flat = abs(here.slope) <= -c2 * slope
        if not flat and here.slope * (bracket[high].length - bracket[low].length) >= 0:
            bracket[high] = bracket[low]
        bracket[low] = here
        if flat:
            break
    best = bracket[low]
    return best.loss, best.gradient, best.length, evaluations
