"""RNN, GRU and LSTM: by the recurrent ops of torch where they mean the same, else step by step."""

from collections.abc import Callable
from typing import Any

import flambeau as torch
from flambeau import Tensor
from flambeau.nn import functional as F
from flambeau.onnx.operators.table import op

Activation = Callable[[Tensor], Tensor]


def activation(name: str, alpha: float | None, beta: float | None) -> Activation:
    """An activation by the name that files give it, with its two constants."""
    low = name.lower()
    a = {"leakyrelu": 0.01, "thresholdedrelu": 1.0, "elu": 1.0, "hardsigmoid": 0.2}.get(low, 1.0)
    a = a if alpha is None else alpha
    b = (0.5 if low == "hardsigmoid" else 0.0) if beta is None else beta
    table: dict[str, Activation] = {
        "relu": torch.relu,
        "tanh": torch.tanh,
        "sigmoid": torch.sigmoid,
        "softsign": F.softsign,
        "softplus": F.softplus,
        "affine": lambda x: a * x + b,
        "leakyrelu": lambda x: F.leaky_relu(x, a),
        "thresholdedrelu": lambda x: torch.where(x > a, x, torch.zeros_like(x)),
        "scaledtanh": lambda x: a * torch.tanh(b * x),
        "hardsigmoid": lambda x: torch.clamp(a * x + b, 0, 1),
        "elu": lambda x: F.elu(x, a),
    }
    if low not in table:
        raise ValueError(f"recurrent ops have no activation {name!r}")
    return table[low]


class Cell:
    """What a direction computes in one step; states are a list (h, and c for LSTM)."""

    gates: int
    default: list[str]

    def __init__(self, w: Tensor, r: Tensor, b: Tensor, clip: float | None, options: Any) -> None:
        self.w, self.r = w, r
        half = self.gates * r.shape[-1]
        self.wb, self.rb = b[:half], b[half:]
        self.clip, self.options = clip, options
        self.act: list[Activation] = []

    def limited(self, x: Tensor) -> Tensor:
        return x if self.clip is None else torch.clamp(x, -self.clip, self.clip)

    def step(self, x: Tensor, states: list[Tensor]) -> list[Tensor]:
        raise NotImplementedError


class PlainCell(Cell):
    gates = 1
    default = ["Tanh"]

    def step(self, x: Tensor, states: list[Tensor]) -> list[Tensor]:
        total = F.linear(x, self.w, self.wb) + F.linear(states[0], self.r, self.rb)
        return [self.act[0](self.limited(total))]


class GatedCell(Cell):
    gates = 3
    default = ["Sigmoid", "Tanh"]

    def step(self, x: Tensor, states: list[Tensor]) -> list[Tensor]:
        (h,) = states
        n = h.shape[-1]
        given = F.linear(x, self.w, self.wb)
        kept = F.linear(h, self.r[: 2 * n], self.rb[: 2 * n])
        z = self.act[0](self.limited(given[..., :n] + kept[..., :n]))
        r = self.act[0](self.limited(given[..., n : 2 * n] + kept[..., n:]))
        if self.options["linear_before_reset"]:
            inner = r * F.linear(h, self.r[2 * n :], self.rb[2 * n :])
        else:
            inner = F.linear(r * h, self.r[2 * n :], self.rb[2 * n :])
        new = self.act[1](self.limited(given[..., 2 * n :] + inner))
        return [(1 - z) * new + z * h]


class LongCell(Cell):
    gates = 4
    default = ["Sigmoid", "Tanh", "Tanh"]

    def step(self, x: Tensor, states: list[Tensor]) -> list[Tensor]:
        h, c = states
        total = F.linear(x, self.w, self.wb) + F.linear(h, self.r, self.rb)
        i, o, f, new = total.chunk(4, -1)
        peep = self.options["peepholes"]
        n = h.shape[-1]
        if peep is not None:
            i, f = i + peep[:n] * c, f + peep[2 * n :] * c
        i, f = self.act[0](self.limited(i)), self.act[0](self.limited(f))
        if self.options["input_forget"]:
            f = 1 - i
        c = f * c + i * self.act[1](self.limited(new))
        if peep is not None:
            o = o + peep[n : 2 * n] * c
        return [self.act[0](self.limited(o)) * self.act[2](c), c]


def run_direction(
    cell: Cell, x: Tensor, states: list[Tensor], lengths: Tensor | None, backwards: bool
) -> tuple[Tensor, list[Tensor]]:
    """All steps of one direction; an entry that has ended keeps its state and gives zeros."""
    outputs: list[Any] = [None] * x.shape[0]
    steps = range(x.shape[0])
    for t in reversed(steps) if backwards else steps:
        news = cell.step(x[t], states)
        if lengths is not None:
            alive = (lengths > t).unsqueeze(-1)
            outputs[t] = torch.where(alive, news[0], torch.zeros_like(news[0]))
            news = [torch.where(alive, new, old) for new, old in zip(news, states)]
        else:
            outputs[t] = news[0]
        states = news
    return torch.stack(outputs), states


def recur(
    kind: type[Cell],
    inputs: tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None],
    initial: list[Tensor | None],
    options: Any,
    *,
    activations: list[str] | None,
    alphas: list[float] | None,
    betas: list[float] | None,
    clip: float | None,
    direction: str,
    layout: int,
    hidden_size: int,
) -> list[Tensor]:
    """Y, and the last state of each kind, in the layout that the file asks for."""
    x, w, r, b, lengths = inputs
    if layout:
        x = x.transpose(0, 1)
    count, batch = w.shape[0], x.shape[1]
    if b is None:
        b = torch.zeros(count, 2 * r.shape[1], dtype=x.dtype)
    states = []
    for state in initial:
        if state is None:
            state = torch.zeros(count, batch, hidden_size, dtype=x.dtype)
        elif layout:
            state = state.transpose(0, 1)
        states.append(state)
    names = activations or kind.default * count
    per = len(kind.default)
    outputs, lasts = [], []
    for d in range(count):
        own = dict(options)
        if own.get("peepholes") is not None:
            own["peepholes"] = own["peepholes"][d]
        cell = kind(w[d], r[d], b[d], clip, own)
        cell.act = [
            activation(names[k], constant(alphas, k), constant(betas, k))
            for k in range(d * per, (d + 1) * per)
        ]
        backwards = direction == "reverse" or d == 1
        y, last = run_direction(cell, x, [s[d] for s in states], lengths, backwards)
        outputs.append(y)
        lasts.append(last)
    result = [torch.stack(outputs, 1)]
    result += [torch.stack([last[k] for last in lasts]) for k in range(len(initial))]
    if layout:
        result = [result[0].permute(2, 0, 1, 3)] + [s.transpose(0, 1) for s in result[1:]]
    return result


def constant(given: list[float] | None, place: int) -> float | None:
    return given[place] if given and place < len(given) else None


def by_torch(
    name: str,
    inputs: Any,
    initial: list[Tensor | None],
    order: list[int],
    direction: str,
    size: int,
) -> list[Tensor]:
    """The same layer as one op of torch, with gates in its order."""
    x, w, r, b, _ = inputs
    count, batch = w.shape[0], x.shape[1]
    if b is None:
        b = torch.zeros(count, 2 * r.shape[1], dtype=x.dtype)

    def sorted_gates(t: Tensor) -> Tensor:
        return torch.cat([t[g * size : (g + 1) * size] for g in order])

    half = r.shape[1]
    weights = []
    for d in range(count):
        pieces = (w[d], r[d], b[d][:half], b[d][half:])
        weights += [sorted_gates(piece) for piece in pieces]
    states = [torch.zeros(count, batch, size, dtype=x.dtype) if s is None else s for s in initial]
    if direction == "reverse":
        x = torch.flip(x, [0])
    hx = states if name == "lstm" else states[0]
    y, *lasts = getattr(torch, name)(
        x, hx, weights, True, 1, 0.0, False, direction == "bidirectional", False
    )
    if direction == "reverse":
        y = torch.flip(y, [0])
    return [y.unflatten(-1, [count, size]).transpose(1, 2), *lasts]


def usual(activations: Any, default: list[str], clip: Any, lengths: Any, layout: int) -> bool:
    """Is nothing asked for that torch does not have?"""
    names = None if activations is None else [name.lower() for name in activations]
    wanted = [name.lower() for name in default]
    return names in (None, wanted, wanted * 2) and clip is None and lengths is None and not layout


@op("RNN", 7)
def rnn(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    lengths: Tensor | None = None,
    h: Tensor | None = None,
    *,
    activation_alpha: list[float] | None = None,
    activation_beta: list[float] | None = None,
    activations: list[str] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    layout: int = 0,
    n_outputs: int,
) -> Any:
    size = r.shape[-1] if hidden_size is None else hidden_size
    inputs = (x, w, r, b, lengths)
    for name, default in (("rnn_tanh", ["Tanh"]), ("rnn_relu", ["Relu"])):
        named = activations if activations is not None or name == "rnn_tanh" else ["?"]
        if usual(named, default, clip, lengths, layout):
            return picked(by_torch(name, inputs, [h], [0], direction, size), n_outputs)
    common: dict[str, Any] = dict(
        activations=activations, alphas=activation_alpha, betas=activation_beta, clip=clip
    )
    common |= dict(direction=direction, layout=layout, hidden_size=size)
    return picked(recur(PlainCell, inputs, [h], {}, **common), n_outputs)


@op("GRU", 7)
def gru(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    lengths: Tensor | None = None,
    h: Tensor | None = None,
    *,
    activation_alpha: list[float] | None = None,
    activation_beta: list[float] | None = None,
    activations: list[str] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    layout: int = 0,
    linear_before_reset: int = 0,
    n_outputs: int,
) -> Any:
    size = r.shape[-1] if hidden_size is None else hidden_size
    inputs = (x, w, r, b, lengths)
    if linear_before_reset and usual(activations, GatedCell.default, clip, lengths, layout):
        return picked(by_torch("gru", inputs, [h], [1, 0, 2], direction, size), n_outputs)
    common: dict[str, Any] = dict(
        activations=activations, alphas=activation_alpha, betas=activation_beta, clip=clip
    )
    common |= dict(direction=direction, layout=layout, hidden_size=size)
    options = {"linear_before_reset": linear_before_reset}
    return picked(recur(GatedCell, inputs, [h], options, **common), n_outputs)


@op("LSTM", 7)
def lstm(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    lengths: Tensor | None = None,
    h: Tensor | None = None,
    c: Tensor | None = None,
    p: Tensor | None = None,
    *,
    activation_alpha: list[float] | None = None,
    activation_beta: list[float] | None = None,
    activations: list[str] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    input_forget: int = 0,
    layout: int = 0,
    n_outputs: int,
) -> Any:
    size = r.shape[-1] if hidden_size is None else hidden_size
    inputs = (x, w, r, b, lengths)
    plain = p is None and not input_forget
    if plain and usual(activations, LongCell.default, clip, lengths, layout):
        return picked(by_torch("lstm", inputs, [h, c], [0, 2, 3, 1], direction, size), n_outputs)
    common: dict[str, Any] = dict(
        activations=activations, alphas=activation_alpha, betas=activation_beta, clip=clip
    )
    common |= dict(direction=direction, layout=layout, hidden_size=size)
    options = {"peepholes": p, "input_forget": input_forget}
    return picked(recur(LongCell, inputs, [h, c], options, **common), n_outputs)


def picked(results: list[Tensor], count: int) -> Any:
    return tuple(results[:count]) if count > 1 else results[0]
