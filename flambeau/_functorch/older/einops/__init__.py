"""`functorch.einops`: rearrange."""

from flambeau.func.rearranging import rearrange

__all__ = ["rearrange"]
