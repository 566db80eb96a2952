"""Options of `FullyShardedDataParallel`."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from flambeau.nn.modules.batchnorm import _BatchNorm

__all__ = [
    "BackwardPrefetch",
    "CPUOffload",
    "FullOptimStateDictConfig",
    "FullStateDictConfig",
    "LocalOptimStateDictConfig",
    "LocalStateDictConfig",
    "MixedPrecision",
    "OptimStateDictConfig",
    "OptimStateKeyType",
    "ShardedOptimStateDictConfig",
    "ShardedStateDictConfig",
    "ShardingStrategy",
    "StateDictConfig",
    "StateDictSettings",
    "StateDictType",
]


class StateDictType(Enum):
    """Whole parameters, the shards as they are, or each parameter as a DTensor."""

    FULL_STATE_DICT = auto()
    LOCAL_STATE_DICT = auto()
    SHARDED_STATE_DICT = auto()


@dataclass
class StateDictConfig:
    """Where the tensors of a state dict go."""

    offload_to_cpu: bool = False


@dataclass
class ShardedStateDictConfig(StateDictConfig):
    """Shards of each parameter."""

    _use_dtensor: bool = False


@dataclass
class LocalStateDictConfig(StateDictConfig):
    """Shards as they are."""


@dataclass
class FullStateDictConfig(StateDictConfig):
    """rank0_only: other processes get nothing."""

    rank0_only: bool = False


@dataclass
class OptimStateDictConfig:
    """Where the tensors of an optimizer's state dict go."""

    offload_to_cpu: bool = True


@dataclass
class ShardedOptimStateDictConfig(OptimStateDictConfig):
    """Shards of the state of each parameter."""

    _use_dtensor: bool = False


@dataclass
class LocalOptimStateDictConfig(OptimStateDictConfig):
    """Shards as they are."""

    offload_to_cpu: bool = False


@dataclass
class FullOptimStateDictConfig(OptimStateDictConfig):
    """rank0_only: other processes get nothing."""

    rank0_only: bool = False


@dataclass
class StateDictSettings:
    """Which state dicts a model gives."""

    state_dict_type: StateDictType
    state_dict_config: StateDictConfig
    optim_state_dict_config: OptimStateDictConfig


class OptimStateKeyType(Enum):
    """How the state of an optimizer is keyed."""

    PARAM_NAME = auto()
    PARAM_ID = auto()


class ShardingStrategy(Enum):
    """What is cut, and when it is whole."""

    FULL_SHARD = auto()  # whole only while a module runs, forward or backward
    SHARD_GRAD_OP = auto()  # whole from forward to the end of backward
    NO_SHARD = auto()  # always whole: as DistributedDataParallel
    HYBRID_SHARD = auto()  # FULL_SHARD within a group, replicas between groups
    _HYBRID_SHARD_ZERO2 = auto()  # SHARD_GRAD_OP within a group, replicas between groups


@dataclass
class CPUOffload:
    """Shards in the memory of the host, where they are anyway."""

    offload_params: bool = False


@dataclass
class MixedPrecision:
    """Dtypes of computation, of sums of gradients and of buffers."""

    param_dtype: Any = None
    reduce_dtype: Any = None
    buffer_dtype: Any = None
    keep_low_precision_grads: bool = False
    cast_forward_inputs: bool = False
    cast_root_forward_inputs: bool = True
    _module_classes_to_ignore: Sequence[type] = (_BatchNorm,)


class BackwardPrefetch(Enum):
    """When backward gathers what it needs next: before or after gradients of a module."""

    BACKWARD_PRE = auto()
    BACKWARD_POST = auto()
