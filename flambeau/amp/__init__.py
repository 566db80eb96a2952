"""`torch.amp`: mixed precision: autocast for forward, GradScaler for backward and step."""

from flambeau.amp.autocast_mode import autocast as autocast
from flambeau.amp.autocast_mode import current_settings as current_settings
from flambeau.amp.autocast_mode import custom_bwd as custom_bwd
from flambeau.amp.autocast_mode import custom_fwd as custom_fwd
from flambeau.amp.autocast_mode import is_autocast_available as is_autocast_available
from flambeau.amp.grad_scaler import GradScaler as GradScaler

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
