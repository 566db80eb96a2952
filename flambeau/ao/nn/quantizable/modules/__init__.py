"""The layers."""

from flambeau.ao.nn.quantizable.modules.activation import MultiheadAttention
from flambeau.ao.nn.quantizable.modules.rnn import LSTM, LSTMCell

__all__ = ["LSTM", "LSTMCell", "MultiheadAttention"]
