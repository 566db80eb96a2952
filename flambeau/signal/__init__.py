"""`torch.signal`: windows."""

from flambeau.signal import windows as windows

__all__ = ["windows"]
