"""An LSTM of linear layers, sums and products that observers can stand between."""

from typing import Any

import flambeau as torch
from flambeau import Tensor, nn
from flambeau.ao.nn.quantized.modules.functional_modules import FloatFunctional

__all__ = ["LSTMCell", "LSTM"]

_GATES = ("input", "forget", "cell", "output")
_PRODUCTS = ("fgate_cx", "igate_cgate", "fgate_cx_igate_cgate", "ogate_cy")


class LSTMCell(nn.Module):
    """One step. With `split_gates` each gate has layers of its own, and so levels of its own."""

    _FLOAT_MODULE = nn.LSTMCell

    def __init__(
        self, input_dim: int, hidden_dim: int, bias: bool = True, device: Any = None,
        dtype: Any = None, *, split_gates: bool = False,
    ) -> None:  # fmt: skip
        nn.Module.__init__(self)
        self.input_size, self.hidden_size, self.bias = input_dim, hidden_dim, bias
        self.split_gates = split_gates
        width = hidden_dim if split_gates else 4 * hidden_dim

        def layers(make: Any) -> Any:
            return nn.ModuleDict({gate: make() for gate in _GATES}) if split_gates else make()

        self.igates = layers(lambda: nn.Linear(input_dim, width, bias))
        self.hgates = layers(lambda: nn.Linear(hidden_dim, width, bias))
        self.gates = layers(FloatFunctional)
        for gate in _GATES:
            self.add_module(gate + "_gate", nn.Tanh() if gate == "cell" else nn.Sigmoid())
        for name in _PRODUCTS:
            self.add_module(name, FloatFunctional())
        self.initial_hidden_state_qparams = self.initial_cell_state_qparams = (1.0, 0)
        self.hidden_state_dtype = self.cell_state_dtype = torch.quint8

    def _sums(self, x: Tensor, h: Tensor) -> Any:
        """What the gates are told: a part of the input and a part of the state."""
        if not self.split_gates:
            return self.gates.add(self.igates(x), self.hgates(h)).chunk(4, 1)
        return [self.gates[g].add(self.igates[g](x), self.hgates[g](h)) for g in _GATES]

    def forward(
        self, x: Tensor, hidden: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        """(output, memory) after a step."""
        if hidden is None or None in hidden:
            hidden = self.initialize_hidden(x.shape[0], x.is_quantized)
        h, c = hidden
        told = zip(_GATES, self._sums(x, h))
        gate = {name: getattr(self, name + "_gate")(total) for name, total in told}
        kept = self.fgate_cx.mul(gate["forget"], c)
        fresh = self.igate_cgate.mul(gate["input"], gate["cell"])
        c = self.fgate_cx_igate_cgate.add(kept, fresh)
        return self.ogate_cy.mul(gate["output"], torch.tanh(c)), c

    def initialize_hidden(
        self, batch_size: int, is_quantized: bool = False
    ) -> tuple[Tensor, Tensor]:
        zeros = torch.zeros(batch_size, self.hidden_size)
        if not is_quantized:
            return zeros, zeros.clone()
        levels = (
            (self.initial_hidden_state_qparams, self.hidden_state_dtype),
            (self.initial_cell_state_qparams, self.cell_state_dtype),
        )
        h, c = (torch.quantize_per_tensor(zeros, *pair, dtype) for pair, dtype in levels)
        return h, c

    def _get_name(self) -> str:
        return "QuantizableLSTMCell"

    def _take(self, layers: Any, weight: Tensor, bias: Tensor | None) -> None:
        """Layers with a weight, which is cut if there is a layer for each gate."""
        parts = [layers[g] for g in _GATES] if self.split_gates else [layers]
        weights = weight.detach().chunk(len(parts), 0)
        biases = [None] * len(parts) if bias is None else bias.detach().chunk(len(parts), 0)
        for layer, w, b in zip(parts, weights, biases):
            layer.weight = nn.Parameter(w)
            if b is not None:
                layer.bias = nn.Parameter(b)

    @classmethod
    def from_params(
        cls, wi: Tensor, wh: Tensor, bi: Any = None, bh: Any = None, split_gates: bool = False
    ) -> "LSTMCell":
        """From the weights of an input and of a state."""
        if (bi is None) != (bh is None):
            raise AssertionError("bi and bh must both be None or both have values")
        found = cls(wi.shape[1], wh.shape[1], bi is not None, split_gates=split_gates)
        found._take(found.igates, wi, bi)
        found._take(found.hgates, wh, bh)
        return found

    @classmethod
    def from_float(
        cls, other: Any, use_precomputed_fake_quant: bool = False, split_gates: bool = False
    ) -> "LSTMCell":
        """From a cell of floats."""
        parts = other.weight_ih, other.weight_hh, other.bias_ih, other.bias_hh
        found = cls.from_params(*parts, split_gates=split_gates)
        if hasattr(other, "qconfig"):
            found.qconfig = other.qconfig
        return found


class _LSTMSingleLayer(nn.Module):
    """One direction of one layer."""

    def __init__(self, cell: LSTMCell) -> None:
        nn.Module.__init__(self)
        self.cell = cell

    def forward(self, x: Tensor, hidden: Any = None) -> tuple:
        found = []
        for step in range(x.shape[0]):
            hidden = self.cell(x[step], hidden)
            found.append(hidden[0])
        return torch.stack(found, 0), hidden


class _LSTMLayer(nn.Module):
    """One layer, in one direction or in two; the first dimension is time."""

    def __init__(self, forward: LSTMCell, backward: LSTMCell | None = None) -> None:
        nn.Module.__init__(self)
        self.layer_fw = _LSTMSingleLayer(forward)
        self.bidirectional = backward is not None
        if backward is not None:
            self.layer_bw = _LSTMSingleLayer(backward)

    def forward(self, x: Tensor, hidden: Any = None) -> tuple:
        """Outputs, and the states of the directions, each [directions, batch, size]."""
        states = _directions(hidden, self.bidirectional)
        out, after = self.layer_fw(x, states[0])
        if not self.bidirectional:
            return out, tuple(s.unsqueeze(0) for s in after)
        back, other = self.layer_bw(x.flip(0), states[1])
        both = tuple(torch.stack(pair, 0) for pair in zip(after, other))
        return torch.cat([out, back.flip(0)], 2), both


def _directions(hidden: Any, two: bool) -> list:
    if hidden is None:
        return [None, None]
    h, c = hidden
    if h.dim() == 2:
        return [(h, c)]
    return [(h[k], c[k]) for k in range(2 if two else 1)]


class LSTM(nn.Module):
    """Layers of cells that can be observed, and quantized by `convert`."""

    _FLOAT_MODULE = nn.LSTM

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False,
        device: Any = None, dtype: Any = None, *, split_gates: bool = False,
    ) -> None:  # fmt: skip
        nn.Module.__init__(self)
        if isinstance(dropout, bool) or not 0 <= dropout <= 1:
            raise ValueError(
                "dropout should be a number in range [0, 1] representing the probability of an "
                "element being zeroed"
            )
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout = bias, batch_first, float(dropout)
        self.bidirectional, self.training = bidirectional, False
        count = 2 if bidirectional else 1
        sizes = [input_size] + [hidden_size * count] * (num_layers - 1)
        self.layers = nn.ModuleList(
            _LSTMLayer(*(
                LSTMCell(size, hidden_size, bias, split_gates=split_gates) for _ in range(count)
            ))
            for size in sizes
        )  # fmt: skip

    def _get_name(self) -> str:
        return "QuantizableLSTM"

    def forward(self, x: Tensor, hidden: Any = None) -> tuple:
        """Outputs of all steps, and the states after the last."""
        x = x.transpose(0, 1) if self.batch_first else x
        last = []
        for k, layer in enumerate(self.layers):
            x, state = layer(x, None if hidden is None else self._of_layer(hidden, k))
            last.append(state)
            if self.dropout and self.training and k + 1 < self.num_layers:
                x = nn.functional.dropout(x, self.dropout)
        h, c = (torch.cat(parts, 0) for parts in zip(*last))
        return x.transpose(0, 1) if self.batch_first else x, (h, c)

    def _of_layer(self, hidden: tuple, k: int) -> tuple:
        count = 2 if self.bidirectional else 1
        return tuple(s[k * count : (k + 1) * count] for s in hidden)

    @classmethod
    def from_float(cls, other: Any, qconfig: Any = None, split_gates: bool = False) -> Any:
        """From an LSTM with a QConfig; observers are put in at once."""
        from flambeau.ao.quantization.quantize import prepare, prepare_qat

        found = cls(
            other.input_size, other.hidden_size, other.num_layers, other.bias, other.batch_first,
            other.dropout, other.bidirectional, split_gates=split_gates,
        )  # fmt: skip
        found.qconfig = getattr(other, "qconfig", None) or qconfig
        for k, layer in enumerate(found.layers):
            ends = {"layer_fw": "", "layer_bw": "_reverse"}
            for name, single in layer.named_children():
                single.cell = _cell(other, f"_l{k}{ends[name]}", split_gates)
        if other.training:
            return prepare_qat(found.train(), inplace=True)
        return prepare(found.eval(), inplace=True)

    @classmethod
    def from_observed(cls, other: Any) -> Any:
        raise NotImplementedError(
            "It looks like you are trying to convert a non-custom LSTM module. Please use "
            "torch.ao.nn.quantized.LSTM"
        )


def _cell(lstm: nn.LSTM, ending: str, split_gates: bool) -> LSTMCell:
    """The cell with the weights of one direction of a layer."""
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    wi, wh, bi, bh = (getattr(lstm, name + ending, None) for name in names)
    return LSTMCell.from_params(wi, wh, bi, bh, split_gates)  # type: ignore[arg-type]
