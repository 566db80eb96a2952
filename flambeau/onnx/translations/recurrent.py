"""LSTM, GRU and RNN: layer by layer, with gates in the order of ONNX."""

from typing import Any

from flambeau.onnx.building import Value
from flambeau.onnx.translations.table import translates

# Where the gates of ONNX are among those of torch.
ORDERS = {"LSTM": [0, 3, 1, 2], "GRU": [1, 0, 2], "RNN": [0]}


def reordered(g: Any, x: Value, kind: str) -> Value:
    """Gates in the other order, in slices that folding makes constant."""
    order = ORDERS[kind]
    if len(order) == 1:
        return x
    size = x.size(0) // len(order)
    return g.op("Concat", *[g.slice(x, 0, k * size, (k + 1) * size) for k in order], axis=0)


def stacked(g: Any, parts: list[Value]) -> Value:
    wide = [g.unsqueeze(part, [0]) for part in parts]
    return wide[0] if len(wide) == 1 else g.op("Concat", *wide, axis=0)


def run_layers(
    g: Any,
    kind: str,
    x: Value,
    states: list[Value],
    weights: list[Value],
    has_biases: bool,
    layers: int,
    bidirectional: bool,
    batch_first: bool,
    **options: Any,
) -> tuple[Value, ...]:
    """All layers; y, then the last states."""
    directions = 2 if bidirectional else 1
    per = 4 if has_biases else 2
    hidden = weights[1].size(1)
    if x.rank == 2:
        raise NotImplementedError("a recurrent layer without a batch")
    if batch_first:
        x = g.transpose(x, [1, 0, 2])
    lasts: list[list[Value]] = [[] for _ in states]
    for layer in range(layers):
        groups = [
            weights[(layer * directions + d) * per : (layer * directions + d + 1) * per]
            for d in range(directions)
        ]
        w = stacked(g, [reordered(g, group[0], kind) for group in groups])
        r = stacked(g, [reordered(g, group[1], kind) for group in groups])
        b = None
        if has_biases:
            joined = [
                g.op("Concat", reordered(g, a, kind), reordered(g, c, kind), axis=0)
                for _, _, a, c in groups
            ]
            b = stacked(g, joined)
        first = layer * directions
        initial = [s if layers == 1 else g.slice(s, 0, first, first + directions) for s in states]
        results = g.op(
            kind,
            x,
            w,
            r,
            b,
            None,
            *initial,
            hidden_size=hidden,
            direction="bidirectional" if bidirectional else "forward",
            outputs=1 + len(states),
            **options,
        )
        y = results[0]  # (steps, directions, batch, hidden)
        for last, result in zip(lasts, results[1:]):
            last.append(result)
        x = g.reshape(g.transpose(y, [0, 2, 1, 3]), [0, 0, directions * hidden])
    if batch_first:
        x = g.transpose(x, [1, 0, 2])
    finals = [part[0] if layers == 1 else g.op("Concat", *part, axis=0) for part in lasts]
    return (x, *finals)


def as_list(state: Any) -> list[Value]:
    return list(state) if isinstance(state, (list, tuple)) else [state]


def layered(kind: str, activation: str | None = None, **options: Any) -> Any:
    """Sequences through all layers."""

    def write(g: Any, x: Value, state: Any, weights: Any, *rest: Any, out: Any) -> Any:
        if isinstance(rest[0], (list, tuple)):
            raise NotImplementedError("packed sequences")
        has_biases, layers, _, _, bidirectional, batch_first = rest
        more = dict(options)
        if activation:
            more["activations"] = [activation] * (2 if bidirectional else 1)
        return run_layers(
            g, kind, x, as_list(state), list(weights), has_biases, layers, bidirectional,
            batch_first, **more,
        )  # fmt: skip

    return write


def stepped(kind: str, activation: str | None = None, **options: Any) -> Any:
    """One step, which is a sequence of one."""
    run = layered(kind, activation, **options)

    def write(g: Any, x: Value, state: Any, w: Value, r: Value, *biases: Any, out: Any) -> Any:
        states = [g.unsqueeze(s, [0]) for s in as_list(state)]
        wide = g.unsqueeze(x, [0])
        wide.shape = (1, *x.shape)
        weights = [w, r, *(b for b in biases if b is not None)]
        facts = (len(weights) == 4, 1, 0.0, False, False, False)
        _, *lasts = run(g, wide, states, weights, *facts, out=out)
        results = tuple(g.squeeze(last, [0]) for last in lasts)
        return results if len(results) > 1 else results[0]

    return write


for _name, _facts in {
    "lstm": ("LSTM", None, {}),
    "gru": ("GRU", None, {"linear_before_reset": 1}),
    "rnn_tanh": ("RNN", "Tanh", {}),
    "rnn_relu": ("RNN", "Relu", {}),
}.items():
    _kind, _activation, _options = _facts
    translates(_name)(layered(_kind, _activation, **_options))
    translates(_name + "_cell")(stepped(_kind, _activation, **_options))
