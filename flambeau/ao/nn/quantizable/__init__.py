"""`torch.ao.nn.quantizable`: layers taken apart, so that their parts can be observed."""

from flambeau.ao.nn.quantizable import modules
from flambeau.ao.nn.quantizable.modules import LSTM, LSTMCell, MultiheadAttention

__all__ = ["LSTM", "LSTMCell", "MultiheadAttention", "modules"]
