"""`torch.distributed` as in a PyTorch that was built without it: programs ask, and go on alone."""

__all__ = ["is_available", "is_initialized"]


def is_available() -> bool:
    """Can processes work together?"""
    return False


def is_initialized() -> bool:
    """Is there a process group?"""
    return False
