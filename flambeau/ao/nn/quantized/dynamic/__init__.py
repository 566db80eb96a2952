"""`torch.ao.nn.quantized.dynamic`: layers whose inputs are quantized by their own range."""

from flambeau.ao.nn.quantized.dynamic import modules
from flambeau.ao.nn.quantized.dynamic.modules.linear import Linear
from flambeau.ao.nn.quantized.dynamic.modules.rnn import (
    GRU,
    LSTM,
    GRUCell,
    LSTMCell,
    RNNCell,
)

__all__ = ["GRU", "LSTM", "GRUCell", "LSTMCell", "Linear", "RNNCell", "modules"]
