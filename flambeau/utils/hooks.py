"""`torch.utils.hooks`: the handle that registering a hook gives back."""

from flambeau.autograd.node import RemovableHandle

__all__ = ["RemovableHandle", "unserializable_hook"]


def unserializable_hook(f):
    """Marks a hook that has no place in a saved file."""
    f.__torch_unserializable__ = True
    return f
