"""Modules, by PyTorch's names."""

from flambeau.nn.modules.module import Module as Module
