"""ShardedGradScaler: a GradScaler whose processes skip a step together."""

from typing import Any

from flambeau import distributed
from flambeau.amp.grad_scaler import GradScaler

__all__ = ["ShardedGradScaler"]


class ShardedGradScaler(GradScaler):
    """Each process sees its part of the gradients, so all are asked whether theirs are finite."""

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        backoff_factor: float = 0.5,
        growth_factor: float = 2.0,
        growth_interval: int = 2000,
        enabled: bool = True,
        process_group: Any = None,
    ) -> None:
        super().__init__(
            device,
            init_scale=init_scale,
            backoff_factor=backoff_factor,
            growth_factor=growth_factor,
            growth_interval=growth_interval,
            enabled=enabled,
        )
        self.process_group = process_group

    def _unscale_grads_(self, optimizer, inv_scale, found_inf, allow_fp16):
        found = super()._unscale_grads_(optimizer, inv_scale, found_inf, True)
        if distributed.is_initialized() and distributed.get_world_size(self.process_group) > 1:
            for bad in found.values():
                distributed.all_reduce(bad, group=self.process_group)
        return found
