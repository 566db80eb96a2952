"""Graphs to draw, and what two drawings of the same graph have in common.

Keys in a DOT text are object ids, so `summary` replaces them by the labels they stand for.
"""

from __future__ import annotations

import re


def _leaf(torch, *shape):
    return torch.ones(*shape, requires_grad=True)


def _perceptron(torch):
    w, b, v = _leaf(torch, 4, 3), _leaf(torch, 4), _leaf(torch, 2, 4)
    hidden = (torch.ones(5, 3) @ w.t() + b).tanh()
    return (hidden @ v.t()).sigmoid().mean(), {"w": w, "b": b, "v": v}


def _residual(torch):
    x = _leaf(torch, 3)
    return x + (x.relu() * x).exp(), {"x": x}


def _two_outputs(torch):
    x = _leaf(torch, 2, 3)
    y = x * 2
    return (y.sum(), y.exp()), None


def _view(torch):
    a = _leaf(torch, 3, 4)
    return (a * 2)[0], {"a": a}


def _leaf_alone(torch):
    return _leaf(torch, 2), None


def _no_history(torch):
    return torch.ones(2), None


def _joined(torch):
    a, b = _leaf(torch, 2), _leaf(torch, 3)
    return torch.cat([a, b, a * 2]).sum(), {"a": a}


CASES = {
    "perceptron": _perceptron,
    "residual": _residual,
    "two outputs": _two_outputs,
    "view": _view,
    "leaf alone": _leaf_alone,
    "no history": _no_history,
    "joined": _joined,
}

_BOX = re.compile(r'^\t(\d+) \[label="?([^"\]]*?)"?( fillcolor=(\w+))?\]$', re.MULTILINE)
_ARROW = re.compile(r"^\t(\d+) -> (\d+)( \[([^\]]*)\])?$", re.MULTILINE)


def summary(source: str) -> dict:
    """Boxes and arrows of a DOT text by label, in an order of their own."""
    source = source.replace("torch::autograd::", "")
    boxes = {key: f"{label} {colour}" for key, label, _, colour in _BOX.findall(source)}
    arrows = {(tail, head, style) for tail, head, _, style in _ARROW.findall(source)}
    return {
        "boxes": sorted(boxes.values()),
        "arrows": sorted(f"{boxes[t]} -> {boxes[h]} {style}" for t, h, style in arrows),
    }
