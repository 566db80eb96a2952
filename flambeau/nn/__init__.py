"""Neural networks. So far only `functional`, the rows that PyTorch keeps in that namespace."""

from flambeau.nn import functional as functional
