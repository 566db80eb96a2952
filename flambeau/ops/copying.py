"""Copies and casts as rows: clone and the dtype or device change behind `Tensor.to`."""

from flambeau.ops.table import MemoryFormat, template


@template("clone", linear=True, grad=lambda g: g, variants="function method")
def clone(input, *, memory_format: MemoryFormat = None):
    """A copy of the tensor, part of the graph."""


@template("to_copy", linear=True, grad=lambda g: g, variants="", node="ToCopyBackward0")
def _to_copy(input, dtype: object = None, device: object = None, memory_format: object = None):
    """A copy with another dtype or on another device."""
