"""Recurrent layers: inputs are quantized by the range of all steps, states by that of each."""

from typing import Any

import flambeau as torch
from flambeau import Tensor, nn
from flambeau.ao.nn.quantized.modules.utils import KeepsState
from flambeau.ao.quantization.utils import quantized_weight
from flambeau.ao.quantized_ops.linear import ScriptObject
from flambeau.nn.utils.rnn import PackedSequence

__all__ = ["LSTM", "GRU", "LSTMCell", "GRUCell", "RNNCell"]


class CellParams(ScriptObject):
    """The two packed weights of one direction of a layer."""

    _kind = "rnn.CellParamsBase"

    def __init__(self, packed_ih: Any, packed_hh: Any, reduce_range: bool = True) -> None:
        self.packed_ih, self.packed_hh, self.reduce_range = packed_ih, packed_hh, reduce_range

    def __reduce__(self) -> tuple:
        return CellParams, (self.packed_ih, self.packed_hh, self.reduce_range)

    def __deepcopy__(self, memo: dict) -> "CellParams":
        return self

    def of_input(self, x: Tensor) -> Tensor:
        return _times(x, self.packed_ih, self.reduce_range)

    def of_state(self, h: Tensor) -> Tensor:
        return _times(h, self.packed_hh, self.reduce_range)


def _times(x: Tensor, packed: Any, reduce_range: bool) -> Tensor:
    if packed.weight.dtype is torch.qint8:
        return torch.ops.quantized.linear_dynamic(x, packed, reduce_range)
    return torch.ops.quantized.linear_dynamic_fp16(x, packed)


class PackedParameter(KeepsState):
    """Holds the packed weights of one direction of a layer, for its state."""

    _stated = ("param",)

    def __init__(self, param: Any) -> None:
        nn.Module.__init__(self)
        self.param = param

    def _to_save(self) -> dict[str, Any]:
        return {"param": self.param}

    def _restore(self, param: Any) -> None:  # type: ignore[override]
        self.param = param


def packed_cell(weights: list, biases: list, qconfig: Any, reduce_range: bool = True) -> CellParams:
    """Two float weights as packed ones."""
    of_input, of_state = (_packed(w, b, qconfig) for w, b in zip(weights, biases))
    return CellParams(of_input, of_state, reduce_range)


def _packed(weight: Tensor, bias: Tensor | None, qconfig: Any) -> Any:
    from flambeau.ao.quantization.qconfig import default_dynamic_qconfig

    maker = (qconfig or default_dynamic_qconfig).weight
    observer = maker()
    if observer.dtype is torch.float16:
        return torch.ops.quantized.linear_prepack_fp16(weight.detach(), bias)
    observer(weight)
    return torch.ops.quantized.linear_prepack(quantized_weight(weight, observer), bias)


# -- steps -----------------------------------------------------------------------------------------


def lstm_step(cell: CellParams, from_input: Tensor, state: tuple) -> tuple:
    """(state after a step), of which the first part is the result."""
    h, c = state
    gates = from_input + cell.of_state(h)
    i, f, g, o = gates.chunk(4, -1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def gru_step(cell: CellParams, from_input: Tensor, state: tuple) -> tuple:
    (h,) = state
    ri, zi, ni = from_input.chunk(3, -1)
    rh, zh, nh = cell.of_state(h).chunk(3, -1)
    r, z = (ri + rh).sigmoid(), (zi + zh).sigmoid()
    n = (ni + r * nh).tanh()
    return (n + z * (h - n),)


class RNNBase(nn.Module):
    """Layers of cells, one or two directions."""

    _gates = 4
    _states = 2
    _name = ""

    def __init__(
        self, mode: str, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False,
        dtype: Any = torch.qint8,
    ) -> None:  # fmt: skip
        nn.Module.__init__(self)
        self.mode, self.input_size, self.hidden_size = mode, input_size, hidden_size
        self.num_layers, self.bias, self.batch_first = num_layers, bias, batch_first
        self.dropout, self.bidirectional, self.dtype = float(dropout), bidirectional, dtype
        self.version, self.training = 2, False
        self._all_weight_values = nn.ModuleList()

    def _get_name(self) -> str:
        return self._name

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        for name, usual in (("num_layers", 1), ("bias", True), ("batch_first", False),
                            ("dropout", 0.0), ("bidirectional", False)):  # fmt: skip
            if getattr(self, name) != usual:
                text += f", {name}={getattr(self, name)}"
        return text

    def __repr__(self) -> str:
        return f"{self._get_name()}({self.extra_repr()})"

    @staticmethod
    def _step(cell: CellParams, from_input: Tensor, state: tuple) -> tuple:
        raise NotImplementedError

    def _zeros(self, batch: int) -> tuple:
        directions = self.num_layers * (2 if self.bidirectional else 1)
        return tuple(torch.zeros(directions, batch, self.hidden_size) for _ in range(self._states))

    def _layer(self, x: Tensor, cell: CellParams, state: tuple, backward: bool) -> tuple:
        steps = list(cell.of_input(x).unbind(0))  # the input of all steps has one range
        found = []
        for one in reversed(steps) if backward else steps:
            state = self._step(cell, one, state)
            found.append(state[0])
        return torch.stack(found[::-1] if backward else found), state

    def _layers(self, x: Tensor, states: tuple) -> tuple:
        directions = 2 if self.bidirectional else 1
        last: list = [[] for _ in states]
        for layer in range(self.num_layers):
            parts = []
            for d in range(directions):
                k = layer * directions + d
                cell = self._all_weight_values[k].param
                out, state = self._layer(x, cell, tuple(s[k] for s in states), bool(d))
                parts.append(out)
                for kept, s in zip(last, state):
                    kept.append(s)
            x = parts[0] if directions == 1 else torch.cat(parts, -1)
        return x, tuple(torch.stack(kept) for kept in last)

    def forward(self, input: Any, hx: Any = None) -> tuple:
        """Results of all steps, and the states after the last."""
        if isinstance(input, PackedSequence):
            return self._of_packed(input, hx)
        alone = input.dim() == 2
        x = input.unsqueeze(1) if alone else input.transpose(0, 1) if self.batch_first else input
        states = self._given(hx, alone) or self._zeros(x.shape[1])
        with torch.no_grad():
            out, states = self._layers(x, states)
        if alone:
            out, states = out.squeeze(1), tuple(s.squeeze(1) for s in states)
        elif self.batch_first:
            out = out.transpose(0, 1)
        return out, states if self._states == 2 else states[0]

    def _given(self, hx: Any, alone: bool) -> tuple | None:
        if hx is None:
            return None
        states = tuple(hx) if self._states == 2 else (hx,)
        return tuple(s.unsqueeze(1) for s in states) if alone else states

    def _of_packed(self, packed: PackedSequence, hx: Any) -> tuple:
        """Sequences of several lengths, one by one."""
        padded, lengths = nn.utils.rnn.pad_packed_sequence(packed)
        found, states = [], []
        for k, length in enumerate(lengths.tolist()):
            given = None
            if hx is not None:
                pair = hx if self._states == 2 else (hx,)
                given = tuple(s[:, k : k + 1] for s in pair)
            out, state = self._layers(padded[:length, k : k + 1], given or self._zeros(1))
            found.append(out.squeeze(1))
            states.append(state)
        out = nn.utils.rnn.pack_sequence(found, enforce_sorted=False)
        joined = tuple(torch.cat(s, 1) for s in zip(*states))
        return out, joined if self._states == 2 else joined[0]

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """From a float layer with a QConfig."""
        qconfig = getattr(mod, "qconfig", None)
        dtype = torch.qint8 if qconfig is None else qconfig.weight().dtype
        found = cls(
            mod.input_size, mod.hidden_size, mod.num_layers, mod.bias, mod.batch_first,
            mod.dropout, mod.bidirectional, dtype=dtype,
        )  # fmt: skip
        for layer in range(mod.num_layers):
            for ending in ("", "_reverse") if mod.bidirectional else ("",):
                names = [f"{n}_l{layer}{ending}" for n in ("ih", "hh")]
                weights = [getattr(mod, "weight_" + n) for n in names]
                biases = [getattr(mod, "bias_" + n) if mod.bias else None for n in names]
                cell = packed_cell(weights, biases, qconfig)
                found._all_weight_values.append(PackedParameter(cell))
        return found


class LSTM(RNNBase):
    """A long short-term memory with quantized weights."""

    _name = "DynamicQuantizedLSTM"
    _step = staticmethod(lstm_step)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)


class GRU(RNNBase):
    """Gated recurrent units with quantized weights."""

    _name = "DynamicQuantizedGRU"
    _gates, _states = 3, 1
    _step = staticmethod(gru_step)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("GRU", *args, **kwargs)


class RNNCellBase(KeepsState):
    """One step."""

    _states = 1
    _stated = ("_packed_weight_ih", "_packed_weight_hh")

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True,
                 dtype: Any = torch.qint8) -> None:  # fmt: skip
        nn.Module.__init__(self)
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        self.weight_dtype = dtype
        self._cell: Any = None

    def _get_name(self) -> str:
        return "DynamicQuantized" + type(self).__name__

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        return text if self.bias else text + f", bias={self.bias}"

    def _to_save(self) -> dict[str, Any]:
        return dict(zip(self._stated, (self._cell.packed_ih, self._cell.packed_hh)))

    def _restore(self, of_input: Any, of_state: Any) -> None:
        self._cell = CellParams(of_input, of_state)

    def _state(self, x: Tensor, hx: Any) -> tuple:
        if hx is not None:
            return tuple(hx) if self._states == 2 else (hx,)
        return tuple(torch.zeros(*x.shape[:-1], self.hidden_size) for _ in range(self._states))

    def forward(self, input: Tensor, hx: Any = None) -> Any:
        """The state after a step."""
        found = self._step(self._cell, self._cell.of_input(input), self._state(input, hx))
        return found if self._states == 2 else found[0]

    @staticmethod
    def _step(cell: CellParams, from_input: Tensor, state: tuple) -> tuple:
        raise NotImplementedError

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """From a float cell with a QConfig."""
        more = (mod.nonlinearity,) if isinstance(mod, nn.RNNCell) else ()
        found: Any = cls(mod.input_size, mod.hidden_size, mod.bias, *more)
        weights, biases = [mod.weight_ih, mod.weight_hh], [mod.bias_ih, mod.bias_hh]
        found._cell = packed_cell(weights, biases, getattr(mod, "qconfig", None))
        return found


class RNNCell(RNNCellBase):
    def __init__(self, input_size: int, hidden_size: int, bias: bool = True,
                 nonlinearity: str = "tanh", dtype: Any = torch.qint8) -> None:  # fmt: skip
        RNNCellBase.__init__(self, input_size, hidden_size, bias, dtype)
        self.nonlinearity = nonlinearity

    def _step(self, cell: CellParams, from_input: Tensor, state: tuple) -> tuple:  # type: ignore[override]
        total = from_input + cell.of_state(*state)
        return (total.tanh() if self.nonlinearity == "tanh" else total.relu(),)


class LSTMCell(RNNCellBase):
    _states = 2
    _step = staticmethod(lstm_step)


class GRUCell(RNNCellBase):
    _step = staticmethod(gru_step)
