"""Modules, by PyTorch's names."""

from flambeau.nn.modules.module import Module as Module
from flambeau.nn.modules.rnn import GRU as GRU
from flambeau.nn.modules.rnn import GRUCell as GRUCell
from flambeau.nn.modules.rnn import LSTM as LSTM
from flambeau.nn.modules.rnn import LSTMCell as LSTMCell
from flambeau.nn.modules.rnn import RNN as RNN
from flambeau.nn.modules.rnn import RNNBase as RNNBase
from flambeau.nn.modules.rnn import RNNCell as RNNCell
from flambeau.nn.modules.rnn import RNNCellBase as RNNCellBase
