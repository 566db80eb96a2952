"""`torch.cpu.amp`: the old places of autocast and GradScaler for the CPU."""

import warnings

from flambeau import _dtype
from flambeau._dtype import dtype as Dtype
from flambeau.amp import autocast_mode, grad_scaler

__all__ = ["GradScaler", "autocast"]


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


class GradScaler(grad_scaler.GradScaler):
    """The same as torch.amp.GradScaler("cpu", ...)."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        warnings.warn(
            "`torch.cpu.amp.GradScaler(args...)` is deprecated. Please use "
            "`torch.amp.GradScaler('cpu', args...)` instead.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__("cpu", init_scale, growth_factor, backoff_factor, growth_interval, enabled)
