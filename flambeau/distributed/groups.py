"""Process groups: who belongs to one, how it is made and destroyed, what is asked about it.

A group has a lane of programs (progress.py) and an engine: memory in common where all members are
on one machine (shared_memory.py), MPI's messages otherwise (messages.py). Messages between two
members always are MPI's. A group of one needs neither.
"""

import os
import warnings
from collections.abc import Generator, Sequence
from datetime import timedelta
from typing import Any

from .backends import Backend, BackendConfig, check_backend
from .constants import default_pg_timeout
from .errors import DistBackendError, no_group
from .messages import Messages
from .progress import MESSAGE_GRACE, Lane, Work
from .rendezvous import rendezvous
from .stores import FileStore, PrefixStore, Store
from .world import World, mpi_world, world

__all__ = [
    "GroupMember",
    "ProcessGroup",
    "destroy_process_group",
    "get_backend",
    "get_backend_config",
    "get_global_rank",
    "get_group_rank",
    "get_node_local_rank",
    "get_pg_count",
    "get_process_group_ranks",
    "get_rank",
    "get_world_size",
    "group",
    "init_process_group",
    "is_initialized",
    "new_group",
    "new_subgroups",
    "new_subgroups_by_enumeration",
    "split_group",
]


def check_timeout(timeout: Any) -> float:
    """Seconds of a timedelta."""
    if not isinstance(timeout, timedelta):
        raise TypeError(
            f"Expected timeout argument to be of type datetime.timedelta, got {timeout}"
        )
    return timeout.total_seconds()


class ProcessGroup:
    """Some processes of the world that work together."""

    def __init__(
        self,
        members: World,
        ranks: list[int],
        backend: str,
        store: Store,
        seconds: float,
        name: str,
        description: str = "undefined",
    ) -> None:
        self._world, self._ranks, self._backend = members, ranks, backend
        self._store, self._seconds = store, seconds
        self.group_name, self.group_desc = name, description
        self._index = ranks.index(members.rank)
        self._comm, self._shared = members.engines(ranks, seconds, name)
        self.messages = None if self._comm is None else Messages(members.mpi, self._comm)
        self.engine: Any = self._shared if self._shared is not None else self.messages
        grace = 0.02 if self._shared is not None else MESSAGE_GRACE
        self._lane = Lane(ranks, members.health, grace)
        if self._shared is not None and self._shared.bells is not None:
            self._lane.doze = self._shared.doze
        self._calls = 0  # for DETAIL: how many collectives there were
        devices = BackendConfig(backend).device_backend_map
        self._uses_nccl = devices.get("cuda") == "nccl"
        self._gpus: dict[int, Any] = {}  # GPU -> its engine, made when first used

    def rank(self) -> int:
        """Which member this process is."""
        return self._index

    def size(self) -> int:
        """How many members there are."""
        return len(self._ranks)

    def name(self) -> str:
        """The name of its backend."""
        found = BackendConfig(self._backend).device_backend_map
        return str(found.get("cpu", found.get("cuda", self._backend)))

    def _get_backend_name(self):
        return self.name()

    def get_group_store(self) -> Store:
        """A store for the members."""
        return self._store

    def set_timeout(self, timeout: timedelta) -> None:
        """From now on wait so long for others."""
        self._seconds = check_timeout(timeout)

    def serves(self, tensor: Any) -> bool:
        """Is there an engine for tensors where this one is? Others go through the host."""
        return not tensor.is_cuda or self._uses_nccl

    def engine_for(self, tensor: Any) -> Any:
        """Who does collectives of such a tensor."""
        if not tensor.is_cuda:
            return self.engine
        index = tensor.device.index
        if index not in self._gpus:
            from .gpus import GpuEngine

            self._gpus[index] = GpuEngine(self, index)
        return self._gpus[index]

    def run(
        self, name: str, program: Generator, async_op: bool, result: list, on_gpu: bool = False
    ) -> Work | None:
        """A program of all members: now, or in the background; on a GPU in a stream."""
        work: Work
        if on_gpu:
            from .gpus import StreamWork

            work = StreamWork(self._lane, name, program, result, self._seconds)
        else:
            work = Work(self._lane, name, program, result, self._seconds)
            self._lane.submit(work, async_op)
        if async_op:
            return work
        work.wait()
        return None

    def run_message(self, name: str, make: Any, result: list) -> Work:
        """A message to or from one other member, beside everything else."""
        lane = Lane(self._ranks, self._world.health, MESSAGE_GRACE)
        lane.error = self._lane.error
        work = Work(lane, name, iter(()), result, self._seconds)  # type: ignore[arg-type]
        work._program = make(work)
        lane.submit(work, True)
        lane.look()  # the request itself starts now, in the order of the program
        return work

    def shutdown(self) -> None:
        """Members need it no more."""
        for engine in self._gpus.values():
            engine.close()
        if self._lane.error is None and not self._lane.queue:
            self._world.put_back(self._ranks, self._comm, self._shared)
        self._lane.error = self._lane.error or DistBackendError("it was destroyed")

    abort = shutdown

    # PyTorch's own methods, which libraries call now and then
    def allreduce(self, tensors: Any, op: Any = None, **_: Any) -> Work:
        """all_reduce of the tensors given."""
        from . import collectives

        each = tensors if isinstance(tensors, (list, tuple)) else [tensors]
        op = collectives.ReduceOp.SUM if op is None else getattr(op, "reduceOp", op)
        works = [collectives.all_reduce(t, op, self, async_op=True) for t in each]
        return works[-1]

    def broadcast(self, tensors: Any, root: Any = 0, **_: Any) -> Work:
        """broadcast of the tensors given, from a member."""
        from . import collectives

        each = tensors if isinstance(tensors, (list, tuple)) else [tensors]
        source = getattr(root, "rootRank", root)
        works = [
            collectives.broadcast(t, group=self, async_op=True, group_src=source) for t in each
        ]
        return works[-1]

    def barrier(self, *_: Any, **__: Any) -> Work:
        """Until all members are here."""
        from . import collectives

        return collectives.barrier(self, async_op=True)


ProcessGroup.__module__ = "torch.distributed.distributed_c10d"


class State:
    """What this process knows of its groups."""

    default: ProcessGroup | None = None
    store: Store | None = None
    groups: list = []  # live ones
    made = 0  # how many there have ever been; names follow
    backend = "undefined"


class _WorldMeta(type):
    @property
    def WORLD(cls) -> ProcessGroup | None:
        """The default group."""
        return State.default

    @WORLD.setter
    def WORLD(cls, value: ProcessGroup | None) -> None:
        State.default = value


class group(metaclass=_WorldMeta):
    """`group.WORLD` is the default group."""


class GroupMember(metaclass=_WorldMeta):
    """What new_group returns to processes that are not in the group."""

    NON_GROUP_MEMBER = -100


# -- making ----------------------------------------------------------------------------------------


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Store | None = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
    _ranks: list[int] | None = None,
) -> None:
    """Make the default process group: all processes call this.

    Args:
        backend: "gloo" and "mpi" mean the same here; "nccl" needs GPUs.
        init_method: where processes meet: tcp://host:port, file:///path or env://, the default.
        timeout: how long others are waited for, here and in collectives.
        world_size, rank: how many processes there are, and which this is, unless the URL says it.
        store: where processes meet, instead of init_method.
    """
    if State.default is not None:
        raise ValueError("trying to initialize the default process group twice!")
    assert store is None or init_method is None, "Cannot specify both init_method and store."
    if store is not None:
        assert world_size > 0, "world_size must be positive if using store"
        assert rank >= 0, "rank must be non-negative if using store"
    timeout = default_pg_timeout if timeout is None else timeout
    seconds = check_timeout(timeout)
    name = check_backend(backend)
    if store is None:
        if name == "mpi" and init_method is None and rank < 0 and "RANK" not in os.environ:
            store, rank, world_size = mpi_world(seconds)
        else:
            url = init_method or "env://"
            store, rank, world_size = next(rendezvous(url, rank, world_size, timeout=timeout))
    store.set_timeout(timeout)
    State.store = store
    State.made += 1
    label = group_name or str(State.made - 1)
    corner = PrefixStore(f"default_pg/{label}", store)
    members = world(corner, rank, world_size, seconds)
    State.backend = name
    State.default = ProcessGroup(
        members, list(range(world_size)), name, corner, seconds, label, "default_pg"
    )
    State.groups = [State.default]


def new_group(
    ranks: Sequence[int] | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: Any = None,
    sort_ranks: bool = True,
) -> Any:
    """A group of some processes. All processes call this, in the same order.

    Returns:
        the group, or GroupMember.NON_GROUP_MEMBER for processes that are not in it.
    """
    default = default_group()
    members, count = default._world, default.size()
    name = check_backend(backend) if backend else State.backend
    seconds = default._seconds if timeout is None else check_timeout(timeout)
    chosen = list(range(count)) if ranks is None else list(ranks)
    if sort_ranks:
        chosen.sort()
    if len(chosen) > count:
        raise ValueError(
            "the new group's world size should be less or equal to the world size set by "
            "init_process_group"
        )
    if len(set(chosen)) != len(chosen):
        raise ValueError(f"ranks list must not contain duplicate entries, got {chosen}")
    for rank in chosen:
        if rank < 0 or rank >= count:
            raise ValueError(
                "The new group's rank should be within the world_size set by init_process_group"
            )
    label = str(State.made)
    State.made += 1
    if members.rank not in chosen:
        return GroupMember.NON_GROUP_MEMBER
    if use_local_synchronization:
        label = "local_" + "_".join(map(str, chosen))
    assert State.store is not None
    made = ProcessGroup(
        members,
        chosen,
        name,
        PrefixStore(f"group/{label}", State.store),
        seconds,
        label,
        group_desc or "undefined",
    )
    State.groups.append(made)
    return made


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list: Sequence[Sequence[int]],
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[ProcessGroup, list]:
    """One group per list of ranks; (the one of this process, all of them)."""
    if not ranks_per_subgroup_list:
        raise ValueError("The arg 'ranks_per_subgroup_list' cannot be empty")
    owners: dict[int, int] = {}
    for number, ranks in enumerate(ranks_per_subgroup_list):
        for rank in ranks:
            if rank in owners:
                raise ValueError(
                    f"Rank {rank} has appeared in both subgroup "
                    f"{ranks_per_subgroup_list[owners[rank]]} and {ranks}"
                )
            owners[rank] = number
    groups = [new_group(ranks, timeout, backend) for ranks in ranks_per_subgroup_list]
    return groups[owners[get_rank()]] if get_rank() in owners else None, groups  # type: ignore[return-value]


def new_subgroups(
    group_size: int | None = None,
    group: ProcessGroup | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[ProcessGroup, list]:
    """Groups of group_size neighbours each; (the one of this process, all of them)."""
    count = get_world_size()
    if group_size is None:
        group_size = int(os.environ.get("LOCAL_WORLD_SIZE", count))
        warnings.warn("Default group size is the number of processes per machine", stacklevel=2)
    if group_size <= 0:
        raise ValueError(f"The arg 'group_size' ({group_size}) must be positive")
    if group_size > count:
        raise ValueError(
            f"The arg 'group_size' ({group_size}) must not exceed the world size ({count})"
        )
    if count % group_size:
        raise ValueError(f"The world size ({count}) must be divisible by '{group_size=}'")
    blocks = [list(range(a, a + group_size)) for a in range(0, count, group_size)]
    return new_subgroups_by_enumeration(blocks, timeout, backend)


def split_group(
    parent_pg: ProcessGroup | None = None,
    split_ranks: list | None = None,
    timeout: timedelta | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
    backend: str | None = None,
) -> ProcessGroup | None:
    """A group per list of members of parent_pg; the one of this process."""
    parent = given_group(parent_pg)
    if not split_ranks:
        raise ValueError("split_ranks cannot be None or empty")
    mine = None
    for ranks in split_ranks:
        made = new_group([parent._ranks[r] for r in ranks], timeout, backend)
        mine = made if made != GroupMember.NON_GROUP_MEMBER else mine
    return mine


def destroy_process_group(group: Any = None) -> None:
    """End a group, or with the default group all of them."""
    if group == GroupMember.NON_GROUP_MEMBER:
        return
    chosen = State.default if group is None else group
    assert chosen is not None, "Process group cannot be None"
    if chosen not in State.groups:
        raise ValueError("Invalid process group specified")
    if chosen is not State.default:
        State.groups.remove(chosen)
        chosen.shutdown()
        return
    for each in State.groups:
        each.shutdown()
    store: Any = State.store
    if isinstance(store, FileStore):
        store.leave()
    State.default, State.store, State.groups = None, None, []


# -- asking ----------------------------------------------------------------------------------------


def is_initialized() -> bool:
    """Is there a default process group?"""
    return State.default is not None


def default_group() -> ProcessGroup:
    """The default group, or an error."""
    if State.default is None:
        raise no_group()
    return State.default


def given_group(group: Any) -> ProcessGroup:
    """What group= means."""
    return default_group() if group is None else group


def not_in_group(group: Any) -> bool:
    """Is this the group of others?"""
    return group is not None and group == GroupMember.NON_GROUP_MEMBER


def get_rank(group: Any = None) -> int:
    """Which member of a group this process is; -1 if none."""
    return -1 if not_in_group(group) else given_group(group).rank()


def get_world_size(group: Any = None) -> int:
    """How many members a group has; -1 if this process is none."""
    return -1 if not_in_group(group) else given_group(group).size()


def get_backend(group: Any = None) -> Backend:
    """The name of a group's backend."""
    if not_in_group(group):
        raise ValueError("Invalid process group specified")
    return Backend(given_group(group)._backend)


def get_backend_config(group: Any = None) -> str:
    """Which backend serves which device."""
    return str(BackendConfig(get_backend(group)))


def get_process_group_ranks(group: Any) -> list[int]:
    """The ranks of a group's members in the world."""
    return list(given_group(group)._ranks)


def get_group_rank(group: ProcessGroup, global_rank: int) -> int:
    """The place within a group of a rank of the world."""
    ranks = given_group(group)._ranks
    if global_rank not in ranks:
        raise ValueError(f"Global rank {global_rank} is not part of group {group}")
    return ranks.index(global_rank)


def get_global_rank(group: ProcessGroup, group_rank: int) -> int:
    """The rank in the world of a group's member."""
    ranks = given_group(group)._ranks
    if not 0 <= group_rank < len(ranks):
        raise ValueError(f"Group rank {group_rank} is not part of group {group}")
    return ranks[group_rank]


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """LOCAL_RANK, which launchers set."""
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is not None:
        return int(fallback_rank)
    raise RuntimeError(
        "LOCAL_RANK is not in the environment. Consider passing fallback_rank to allow "
        "`get_node_local_rank` to work, assuming you are not running in a multi-device context "
        "and want the code to run locally instead."
    )


def get_pg_count() -> int:
    """How many groups there are."""
    return len(State.groups)
