"""A mode that libraries enter around vmap; as any mode that sees calls, it cannot be entered."""

from flambeau.overrides import TorchFunctionMode

__all__ = ["TransformGetItemToIndex"]


class TransformGetItemToIndex(TorchFunctionMode):
    """Lets a mapped tensor be an index, in PyTorch."""
