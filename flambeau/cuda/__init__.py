"""`torch.cuda`: what programs ask before they use a GPU."""

from flambeau.cuda import amp as amp

__all__ = ["device_count", "is_available"]


def is_available() -> bool:
    """Can tensors be on a GPU?"""
    return False


def device_count() -> int:
    """The number of GPUs that can be used."""
    return 0
