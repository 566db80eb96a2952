"""`torch.ao.nn.quantized.dynamic`: layers whose inputs are quantized by their own range."""

from flambeau.ao.nn.quantized.dynamic import modules
from flambeau.ao.nn.quantized.dynamic.modules.conv import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
)
from flambeau.ao.nn.quantized.dynamic.modules.linear import Linear
from flambeau.ao.nn.quantized.dynamic.modules.rnn import (
    GRU,
    LSTM,
    GRUCell,
    LSTMCell,
    RNNCell,
)

__all__ = [
    "GRU", "LSTM", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d",
    "ConvTranspose3d", "GRUCell", "LSTMCell", "Linear", "RNNCell", "modules",
]  # fmt: skip
