"""`torch.distributed`: processes that work together.

`groups.py` makes process groups, `collectives.py`, `point_to_point.py` and `objects.py` are what
they do; `docs/design/016-distributed.md` says how. MPI (mpi4py, MPICH) is imported when a group of
several processes is made; the extra is `flambeau[distributed]`.
"""

import os as _os
from typing import Any

from .backends import Backend as Backend
from .backends import BackendConfig as BackendConfig
from .backends import get_default_backend_for_device as get_default_backend_for_device
from .backends import is_backend_available as is_backend_available
from .backends import is_nccl_available as is_nccl_available
from .collectives import all_gather as all_gather
from .collectives import all_gather_coalesced as all_gather_coalesced
from .collectives import all_gather_into_tensor as all_gather_into_tensor
from .collectives import all_gather_single as all_gather_single
from .collectives import all_reduce as all_reduce
from .collectives import all_reduce_coalesced as all_reduce_coalesced
from .collectives import all_to_all as all_to_all
from .collectives import all_to_all_single as all_to_all_single
from .collectives import barrier as barrier
from .collectives import broadcast as broadcast
from .collectives import gather as gather
from .collectives import monitored_barrier as monitored_barrier
from .collectives import reduce as reduce
from .collectives import reduce_scatter as reduce_scatter
from .collectives import reduce_scatter_single as reduce_scatter_single
from .collectives import reduce_scatter_tensor as reduce_scatter_tensor
from .collectives import scatter as scatter
from .constants import default_pg_timeout as default_pg_timeout
from .debug import DebugLevel as DebugLevel
from .debug import get_debug_level as get_debug_level
from .debug import set_debug_level as set_debug_level
from .debug import set_debug_level_from_env as set_debug_level_from_env
from .errors import DistBackendError as DistBackendError
from .errors import DistError as DistError
from .errors import DistNetworkError as DistNetworkError
from .errors import DistStoreError as DistStoreError
from .errors import QueueEmptyError as QueueEmptyError
from .groups import GroupMember as GroupMember
from .groups import ProcessGroup as ProcessGroup
from .groups import destroy_process_group as destroy_process_group
from .groups import get_backend as get_backend
from .groups import get_backend_config as get_backend_config
from .groups import get_global_rank as get_global_rank
from .groups import get_group_rank as get_group_rank
from .groups import get_node_local_rank as get_node_local_rank
from .groups import get_pg_count as get_pg_count
from .groups import get_process_group_ranks as get_process_group_ranks
from .groups import get_rank as get_rank
from .groups import get_world_size as get_world_size
from .groups import group as group
from .groups import init_process_group as init_process_group
from .groups import is_initialized as is_initialized
from .groups import new_group as new_group
from .groups import new_subgroups as new_subgroups
from .groups import new_subgroups_by_enumeration as new_subgroups_by_enumeration
from .groups import split_group as split_group
from .objects import all_gather_object as all_gather_object
from .objects import broadcast_object_list as broadcast_object_list
from .objects import gather_object as gather_object
from .objects import recv_object_list as recv_object_list
from .objects import scatter_object_list as scatter_object_list
from .objects import send_object_list as send_object_list
from .point_to_point import P2POp as P2POp
from .point_to_point import batch_isend_irecv as batch_isend_irecv
from .point_to_point import irecv as irecv
from .point_to_point import isend as isend
from .point_to_point import recv as recv
from .point_to_point import send as send
from .progress import Work as Work
from .reduce_ops import ReduceOp as ReduceOp
from .reduce_ops import reduce_op as reduce_op
from .reduce_ops import supports_complex as supports_complex
from .rendezvous import register_rendezvous_handler as register_rendezvous_handler
from .rendezvous import rendezvous as rendezvous
from .stores import FileStore as FileStore
from .stores import HashStore as HashStore
from .stores import PrefixStore as PrefixStore
from .stores import Store as Store
from .tcp_store import TCPStore as TCPStore


def is_available() -> bool:
    """Can processes work together?"""
    return True


def is_gloo_available() -> bool:
    """Is there a backend of this name? It runs on MPI."""
    return True


is_mpi_available = is_gloo_available


def is_ucc_available() -> bool:
    """Is there a backend of this name? No."""
    return False


is_xccl_available = is_ucc_available


def is_torchelastic_launched() -> bool:
    """Was this process started by `python -m flambeau.distributed.run`?"""
    return "TORCHELASTIC_RUN_ID" in _os.environ


_LATER = {"init_device_mesh": "device_mesh", "DeviceMesh": "device_mesh"}
_LATER |= {"GradBucket": "algorithms.ddp_comm_hooks.buckets"}


def __getattr__(name: str) -> Any:
    """Names and modules that few programs need."""
    import importlib

    if name in _LATER:
        return getattr(importlib.import_module(f"{__name__}.{_LATER[name]}"), name)
    try:
        return importlib.import_module(f"flambeau.distributed.{name}")
    except ModuleNotFoundError as error:
        if error.name != f"flambeau.distributed.{name}":
            raise
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
