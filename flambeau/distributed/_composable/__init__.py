"""`torch.distributed._composable`: an older place of functions that change modules in place."""

from flambeau.distributed._composable import fsdp as fsdp
from flambeau.distributed.fsdp import fully_shard as fully_shard

__all__ = ["fsdp", "fully_shard"]
