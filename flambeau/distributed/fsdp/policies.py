"""Options of `fully_shard`."""

from dataclasses import dataclass
from typing import Any

__all__ = ["CPUOffloadPolicy", "DataParallelMeshDims", "MixedPrecisionPolicy", "OffloadPolicy"]


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """Dtypes of computation and of sums of gradients.

    Args:
        param_dtype: of gathered parameters, and of inputs if cast_forward_inputs.
        reduce_dtype: in which gradients are added up; param_dtype by default.
        output_dtype: of what forward gives.
    """

    param_dtype: Any = None
    reduce_dtype: Any = None
    output_dtype: Any = None
    cast_forward_inputs: bool = True


@dataclass
class OffloadPolicy:
    """Shards stay where they are."""


@dataclass
class CPUOffloadPolicy(OffloadPolicy):
    """Shards are kept in the memory of the host, where they are anyway."""

    pin_memory: bool = True


@dataclass(frozen=True)
class DataParallelMeshDims:
    """Which dimensions of a mesh shard, and which replicate."""

    shard: Any = None
    replicate: Any = None
