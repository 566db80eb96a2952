"""`torch.distributed.tensor`: tensors that are spread over processes.

`dtensor.py` is the tensor, `dispatch.py` runs ops on it by the rules of `rules.py`,
`redistribution.py` moves data; `parallel/` spreads modules.
"""

from flambeau.distributed.device_mesh import DeviceMesh, init_device_mesh
from flambeau.distributed.tensor.dispatch import manual_seed
from flambeau.distributed.tensor.distributing import (
    distribute_module,
    distribute_tensor,
    empty,
    full,
    ones,
    rand,
    randn,
    zeros,
)
from flambeau.distributed.tensor.dtensor import DTensor, DTensorSpec
from flambeau.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard

__all__ = [
    "DTensor",
    "DTensorSpec",
    "DeviceMesh",
    "Partial",
    "Placement",
    "Replicate",
    "Shard",
    "distribute_module",
    "distribute_tensor",
    "empty",
    "full",
    "init_device_mesh",
    "manual_seed",
    "ones",
    "rand",
    "randn",
    "zeros",
]
DTensor.__module__ = __name__
