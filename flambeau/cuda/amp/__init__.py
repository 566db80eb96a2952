"""`torch.cuda.amp`: the old places of autocast and GradScaler."""

import functools
import warnings

from flambeau import _dtype
from flambeau._dtype import dtype as Dtype
from flambeau.amp import autocast_mode, grad_scaler
from flambeau.cuda.amp import common as common
from flambeau.cuda.amp.common import amp_definitely_not_available

__all__ = ["GradScaler", "amp_definitely_not_available", "autocast", "custom_bwd", "custom_fwd"]


def _warn(name):
    warnings.warn(
        f"`torch.cuda.amp.{name}(args...)` is deprecated. Please use "
        f"`torch.amp.{name}('cuda', args...)` instead.",
        FutureWarning,
        stacklevel=3,
    )


class autocast(autocast_mode.autocast):
    """The same as torch.amp.autocast("cuda", ...)."""

    def __init__(
        self,
        enabled: bool = True,
        dtype: Dtype = _dtype.BY_NAME["float16"],
        cache_enabled: bool = True,
    ) -> None:
        _warn("autocast")
        super().__init__("cuda", dtype, enabled, cache_enabled)


class GradScaler(grad_scaler.GradScaler):
    """The same as torch.amp.GradScaler("cuda", ...)."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        _warn("GradScaler")
        super().__init__(
            "cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled
        )


def custom_fwd(fwd=None, *, cast_inputs: Dtype | None = None):
    """The same as torch.amp.custom_fwd(..., device_type="cuda")."""
    return functools.partial(autocast_mode.custom_fwd, device_type="cuda", cast_inputs=cast_inputs)(
        fwd
    )


def custom_bwd(bwd):
    """The same as torch.amp.custom_bwd(..., device_type="cuda")."""
    return autocast_mode.custom_bwd(bwd, device_type="cuda")
