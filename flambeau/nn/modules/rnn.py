"""Recurrent layers over sequences: RNN, LSTM, GRU. Their cells are in rnn_cells.py.

Weights of all layers and directions are parameters of the module, in the order in which the op
takes them; the loop over time is one op (ops/recurrence.py). Packed sequences are made in
nn/utils/rnn.py.
"""

import numbers
import warnings
from typing import Any

import flambeau
from flambeau._tensor import Tensor
from flambeau.eager import creation
from flambeau.eager.methods import function
from flambeau.nn.modules.module import Module
from flambeau.nn.modules.rnn_cells import (
    GRUCell,
    LSTMCell,
    RNNCell,
    RNNCellBase,
    draw_uniform,
)
from flambeau.nn.parameter import Parameter
from flambeau.nn.utils.rnn import PackedSequence

__all__ = ["RNNBase", "RNN", "LSTM", "GRU", "RNNCellBase", "RNNCell", "LSTMCell", "GRUCell"]

# mode: the op, and parts of the projections of a step
_MODES = {"RNN_TANH": ("rnn_tanh", 1), "RNN_RELU": ("rnn_relu", 1), "LSTM": ("lstm", 4)}
_MODES["GRU"] = ("gru", 3)


def apply_permutation(tensor: Tensor, permutation: Tensor, dim: int = 1) -> Tensor:
    """The old name of `tensor.index_select(dim, permutation)`."""
    warnings.warn(
        "`apply_permutation` is deprecated, please use `tensor.index_select(dim, permutation)` "
        "instead",
        FutureWarning,
        stacklevel=2,
    )
    return tensor.index_select(dim, permutation)


def _check_options(input_size, hidden_size, num_layers, bias, batch_first, dropout, proj_size):
    if (
        not isinstance(dropout, numbers.Number)
        or isinstance(dropout, bool)
        or not 0 <= dropout <= 1
    ):
        raise ValueError(
            "dropout should be a number in range [0, 1] representing the probability of an element "
            "being zeroed"
        )
    if dropout > 0 and num_layers == 1:
        warnings.warn(
            "dropout option adds dropout after all but last recurrent layer, so non-zero dropout "
            f"expects num_layers greater than 1, but got dropout={dropout} and "
            f"num_layers={num_layers}",
            stacklevel=4,
        )
    for name, value in (("bias", bias), ("batch_first", batch_first)):
        if not isinstance(value, bool):
            raise TypeError(f"{name} should be of type bool, got: {type(value).__name__}")
    for name, value in (("input_size", input_size), ("hidden_size", hidden_size)):
        if not isinstance(value, int):
            raise TypeError(f"{name} should be of type int, got: {type(value).__name__}")
        if value <= 0:
            raise ValueError(f"{name} must be greater than zero")
    if num_layers <= 0:
        raise ValueError("num_layers must be greater than zero")
    if proj_size < 0:
        raise ValueError("proj_size should be a positive integer or zero to disable projections")
    if proj_size >= hidden_size:
        raise ValueError("proj_size has to be smaller than hidden_size")


class RNNBase(Module):
    """What RNN, LSTM and GRU share: their weights, and the checks around the op.

    mode is RNN_TANH, RNN_RELU, LSTM or GRU.
    """

    __constants__ = [
        "mode", "input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout",
        "bidirectional", "proj_size",
    ]  # fmt: skip

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        _check_options(input_size, hidden_size, num_layers, bias, batch_first, dropout, proj_size)
        if mode not in _MODES:
            raise ValueError("Unrecognized RNN mode: " + mode)
        self.mode, self.input_size, self.hidden_size = mode, input_size, hidden_size
        self.num_layers, self.bias, self.dropout = num_layers, bias, float(dropout)
        self.batch_first, self.bidirectional = batch_first, bidirectional
        self.proj_size = proj_size
        self._name_weights()
        gates = _MODES[mode][1] * hidden_size
        width = proj_size or hidden_size
        shapes: dict[str, tuple] = {
            "weight_hh": (gates, width),
            "weight_hr": (proj_size, hidden_size),
        }
        shapes["bias_ih"] = shapes["bias_hh"] = (gates,)
        for k, names in enumerate(self._all_weights):
            first = k < self._directions  # the layer that sees the input
            shapes["weight_ih"] = (gates, input_size if first else width * self._directions)
            for name in names:
                shape = shapes[name.partition("_l")[0]]
                setattr(self, name, Parameter(creation.empty(shape, device=device, dtype=dtype)))
        self.reset_parameters()

    def _name_weights(self):
        """_all_weights: names by layer and direction; _flat_weights_names: one after another."""
        kinds = ["weight_ih", "weight_hh"]
        if self.bias:
            kinds += ["bias_ih", "bias_hh"]
        if self.proj_size:
            kinds.append("weight_hr")
        self._directions = 2 if self.bidirectional else 1
        self._all_weights = [
            [f"{kind}_l{layer}{suffix}" for kind in kinds]
            for layer in range(self.num_layers)
            for suffix in ("", "_reverse")[: self._directions]
        ]
        self._flat_weights_names = [name for names in self._all_weights for name in names]

    @property
    def _flat_weights(self):
        held = self._parameters
        try:
            return [held[name] for name in self._flat_weights_names]
        except KeyError:  # pruned or parametrized: an attribute stands for the parameter
            return [getattr(self, name, None) for name in self._flat_weights_names]

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters of each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def flatten_parameters(self) -> None:
        """Nothing to do: kernels take weights where they lie."""

    def reset_parameters(self) -> None:
        """Draw all weights and biases from one uniform distribution."""
        draw_uniform(self)

    # -- checks ------------------------------------------------------------------------------
    def check_input(self, input: Tensor, batch_sizes: Tensor | None) -> None:
        """Refuse input of another dtype or width than the weights take."""
        dtype = self._flat_weights[0].dtype
        if input.dtype is not dtype and not flambeau.is_autocast_enabled("cpu"):
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({dtype}). Convert "
                f"input: input.to({dtype}), or convert model: model.to({input.dtype})"
            )
        rank = 3 if batch_sizes is None else 2
        if input.ndim != rank:
            raise RuntimeError(f"input must have {rank} dimensions, got {input.ndim}")
        if input.shape[-1] != self.input_size:
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got "
                f"{input.shape[-1]}"
            )

    def _batch(self, input, batch_sizes):
        if batch_sizes is not None:
            return int(batch_sizes[0])
        return input.shape[0 if self.batch_first else 1]

    def get_expected_hidden_size(
        self, input: Tensor, batch_sizes: Tensor | None
    ) -> tuple[int, int, int]:
        """The shape of hidden states for this input."""
        width = self.proj_size or self.hidden_size
        return self.num_layers * self._directions, self._batch(input, batch_sizes), width

    def check_hidden_size(
        self,
        hx: Tensor,
        expected_hidden_size: tuple[int, int, int],
        msg: str = "Expected hidden size {}, got {}",
    ) -> None:
        """Refuse states of another shape."""
        if hx.shape != expected_hidden_size:
            raise RuntimeError(msg.format(expected_hidden_size, list(hx.shape)))

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """Refuse input and states that do not fit."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """States in another order of sequences."""
        return hx if permutation is None else hx.index_select(1, permutation)

    # -- forward -----------------------------------------------------------------------------
    def _initial(self, input, batch_sizes):
        """States of zeros."""
        shape = self.get_expected_hidden_size(input, batch_sizes)
        return creation.zeros(shape, dtype=input.dtype, device=input.device)

    def _batched(self, hx, batched):
        """Given states as the op takes them: with a dimension for the batch."""
        rank = 3 if batched else 2
        if hx.ndim != rank:
            kind = "batched 3-D" if batched else "unbatched 2-D"
            raise RuntimeError(
                f"For {kind} input, hx should also be {rank}-D but got {hx.ndim}-D tensor"
            )
        return hx if batched else hx.unsqueeze(1)

    def _squeezed(self, hx):
        return hx.squeeze(1)

    def _options(self):
        """What the op takes behind data and states."""
        shape = (self.num_layers, self.dropout, self.training, self.bidirectional)
        return (self._flat_weights, self.bias, *shape)

    def _run(self, *arguments):
        """(output, states) from the op."""
        return function(_MODES[self.mode][0])(*arguments)

    def _forward(self, input, hx):
        """(output, last states); input is (T, N, width), (N, T, width), (T, width) or packed."""
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, hx)
        if input.ndim not in (2, 3):
            kind = self.mode.partition("_")[0]
            tensor = " tensor" if kind == "RNN" else ""
            raise ValueError(
                f"{kind}: Expected input to be 2D or 3D, got {input.ndim}D{tensor} instead"
            )
        batched = input.ndim == 3
        if not batched:
            input = input.unsqueeze(0 if self.batch_first else 1)
        hx = self._initial(input, None) if hx is None else self._batched(hx, batched)
        self.check_forward_args(input, hx, None)
        output, hidden = self._run(input, hx, *self._options(), self.batch_first)
        if batched:
            return output, hidden
        return output.squeeze(0 if self.batch_first else 1), self._squeezed(hidden)

    def _forward_packed(self, input, hx):
        data, batch_sizes, order, back = input
        if hx is None:
            hx = self._initial(data, batch_sizes)
        else:
            hx = self.permute_hidden(hx, order)
        self.check_forward_args(data, hx, batch_sizes)
        output, hidden = self._run(data, batch_sizes, hx, *self._options())
        packed = PackedSequence(output, batch_sizes, order, back)
        return packed, self.permute_hidden(hidden, back)

    # -- text and pickles --------------------------------------------------------------------
    def extra_repr(self) -> str:
        usual = dict(
            proj_size=0, num_layers=1, bias=True, batch_first=False, dropout=0, bidirectional=False
        )
        told = [f"{k}={getattr(self, k)}" for k, v in usual.items() if getattr(self, k) != v]
        return ", ".join([str(self.input_size), str(self.hidden_size), *told])

    def __setstate__(self, state):
        """Also of old pickles, which know no projections and hold weights twice."""
        super().__setstate__(state)
        for name in ("all_weights", "_flat_weights", "_flat_weight_refs"):
            self.__dict__.pop(name, None)
        self.__dict__.setdefault("proj_size", 0)
        self._name_weights()


def _refuse_projection(kwargs):
    if "proj_size" in kwargs:
        raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")


class RNN(RNNBase):
    r"""Plain recurrence: h_t = \tanh(W_{ih} x_t + b_{ih} + W_{hh} h_{t-1} + b_{hh}), or relu.

    Args:
        input_size, hidden_size, num_layers=1, nonlinearity="tanh", bias=True, batch_first=False,
        dropout=0.0, bidirectional=False, device=None, dtype=None: in this order.

    Shape: input (T, N, input_size), output (T, N, directions * hidden_size), states
    (layers * directions, N, hidden_size).
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refuse_projection(kwargs)
        if len(args) > 3:
            nonlinearity, args = args[3], args[:3] + args[4:]
        else:
            nonlinearity = kwargs.pop("nonlinearity", "tanh")
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(
                f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'."
            )
        super().__init__("RNN_" + nonlinearity.upper(), *args, **kwargs)
        self.nonlinearity = nonlinearity

    def forward(self, input: Any, hx: Tensor | None = None) -> tuple[Any, Tensor]:
        """(output, last hidden state); a packed sequence gives a packed one."""
        return self._forward(input, hx)


class LSTM(RNNBase):
    r"""Long short-term memory: c_t = f \odot c_{t-1} + i \odot g, h_t = o \odot \tanh(c_t).

    The gates i, f, o are sigmoids and g a tanh of W_{ih} x_t + b_{ih} + W_{hh} h_{t-1} + b_{hh}.

    Args:
        input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0,
        bidirectional=False, proj_size=0, device=None, dtype=None: in this order. With proj_size
        the hidden state is W_{hr} h_t, of that width.

    Shape: as of RNN; states are a pair (h, c).
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def forward(
        self, input: Any, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Any, tuple[Tensor, Tensor]]:
        """(output, (last hidden state, last cell state)); a packed sequence gives a packed one."""
        return self._forward(input, hx)

    def get_expected_cell_size(
        self, input: Tensor, batch_sizes: Tensor | None
    ) -> tuple[int, int, int]:
        """The shape of cell states for this input."""
        batch = self._batch(input, batch_sizes)
        return self.num_layers * self._directions, batch, self.hidden_size

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """Refuse input and states that do not fit."""
        self.check_input(input, batch_sizes)
        for k, expected in enumerate((self.get_expected_hidden_size, self.get_expected_cell_size)):
            text = f"Expected hidden[{k}] size {{}}, got {{}}"
            self.check_hidden_size(hidden[k], expected(input, batch_sizes), text)

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """States in another order of sequences."""
        if permutation is None:
            return hx
        return hx[0].index_select(1, permutation), hx[1].index_select(1, permutation)

    def _initial(self, input, batch_sizes):
        hidden = super()._initial(input, batch_sizes)
        if not self.proj_size:
            return hidden, hidden
        shape = self.get_expected_cell_size(input, batch_sizes)
        return hidden, creation.zeros(shape, dtype=input.dtype, device=input.device)

    def _batched(self, hx, batched):
        hidden, cell = hx[0], hx[1]
        rank = 3 if batched else 2
        if hidden.ndim != rank or cell.ndim != rank:
            kind = "batched 3-D" if batched else "unbatched 2-D"
            raise RuntimeError(
                f"For {kind} input, hx and cx should also be {rank}-D but got ({hidden.ndim}-D, "
                f"{cell.ndim}-D) tensors"
            )
        return (hidden, cell) if batched else (hidden.unsqueeze(1), cell.unsqueeze(1))

    def _squeezed(self, hx):
        return hx[0].squeeze(1), hx[1].squeeze(1)

    def _run(self, *arguments):
        output, hidden, cell = function("lstm")(*arguments)
        return output, (hidden, cell)


class GRU(RNNBase):
    r"""Gated recurrent units: h_t = (1 - z) \odot n + z \odot h_{t-1}.

    The gates r, z are sigmoids; n = \tanh(W_{in} x_t + b_{in} + r \odot (W_{hn} h_{t-1} + b_{hn})).

    Args:
        input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0,
        bidirectional=False, device=None, dtype=None: in this order.

    Shape: as of RNN.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refuse_projection(kwargs)
        super().__init__("GRU", *args, **kwargs)

    def forward(self, input: Any, hx: Tensor | None = None) -> tuple[Any, Tensor]:
        """(output, last hidden state); a packed sequence gives a packed one."""
        return self._forward(input, hx)
