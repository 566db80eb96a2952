"""`torch.cpu.amp`: the old place of autocast for the CPU."""

import warnings

from flambeau import _dtype
from flambeau._dtype import dtype as Dtype
from flambeau.amp import autocast_mode

__all__ = ["autocast"]


class autocast(autocast_mode.autocast):
    """The same as torch.amp.autocast("cpu", ...)."""

    def __init__(
        self,
        enabled: bool = True,
        dtype: Dtype = _dtype.BY_NAME["bfloat16"],
        cache_enabled: bool = True,
    ) -> None:
        warnings.warn(
            "`torch.cpu.amp.autocast(args...)` is deprecated. Please use "
            "`torch.amp.autocast('cpu', args...)` instead.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__("cpu", dtype, enabled, cache_enabled)
