"""Neural networks. So far only `functional`: rows of the op table that PyTorch keeps in that namespace."""

from flambeau.nn import functional as functional
