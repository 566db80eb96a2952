"""The MPI world of this process: made once, from processes that anything has started.

`world(...)` is asked by every init_process_group. A world of one needs no MPI. Where a launcher of
MPI has started us (`mpiexec`, Slurm with PMI), its world is used. Otherwise process 0 serves PMI
(world_server.py) and tells its address through the store.
"""

import atexit
import contextlib
import os
import re
import secrets
import socket
import zlib
from typing import Any

import flambeau
from flambeau.runtime import mpi as runtime_mpi

from .errors import DistBackendError
from .progress import bounded
from .shared_memory import SharedMemory, bytes_needed
from .stores import Store
from .tcp_store import TCPStore
from .world_server import Watch, WorldServer

__all__ = ["World", "world", "mpi_world", "under_mpi_launcher"]

MISSING = (
    "torch.distributed over several processes needs mpi4py and MPICH: "
    "pip install 'flambeau[distributed]'"
)


class Alone:
    """The health of a world of one."""

    gone: dict[int, str] = {}

    def bye(self) -> None:
        """Nobody is there to be told."""


class World:
    """Processes that MPI can reach.

    Attributes:
        rank, size: of this process, and of all.
        comm: their communicator, None in a world of one.
        nodes: for every rank, the machine it runs on.
        health: `gone` tells who has died or left.
    """

    def __init__(self, identity: str, rank: int, size: int) -> None:
        self.identity, self.rank, self.size = identity, rank, size
        self.mpi: Any = None
        self.comm: Any = None
        self.nodes = [""] * size
        self.health: Any = Alone()
        self.server: WorldServer | None = None
        self.ours = True  # is the world our own making, and not a launcher's?
        self.idle: dict[tuple, list] = {}  # members -> (communicator, memory) of destroyed groups

    def engines(self, ranks: list[int], seconds: float, name: str) -> tuple[Any, Any]:
        """(communicator, memory in common or None) for some ranks, of which this is one.

        The name of the group keeps apart those that are formed at the same time.
        """
        if len(ranks) == 1:
            return None, SharedMemory(bytearray(bytes_needed(1)), 1, 0)
        key = tuple(ranks)
        if self.idle.get(key):
            return self.idle[key].pop(0)
        tag = zlib.crc32(name.encode()) % 32768
        what = "the forming of a group"
        return bounded(lambda: self._join(ranks, tag), seconds, self.health, what)

    def _join(self, ranks, tag):
        mpi, everybody = self.mpi, self.comm.Get_group()
        comm = self.comm.Create_group(everybody.Incl(ranks), tag)
        if len({self.nodes[rank] for rank in ranks}) > 1:
            return comm, None
        mine = bytes_needed(len(ranks)) if comm.rank == 0 else 0
        window = mpi.Win.Allocate_shared(mine, 1, comm=comm)
        memory, _ = window.Shared_query(0)
        shared = SharedMemory(memory, len(ranks), comm.rank, window.Sync)
        shared.window = window
        if comm.rank == 0:
            shared.words[:] = memoryview(bytes(8 * len(shared.words))).cast("q")
        comm.Barrier()
        return comm, shared

    def put_back(self, ranks: list[int], comm: Any, shared: Any) -> None:
        """A group is destroyed: the next one of the same members may have its memory."""
        if len(ranks) > 1:
            self.idle.setdefault(tuple(ranks), []).append((comm, shared))


_world: World | None = None


def under_mpi_launcher() -> bool:
    """Has somebody who speaks PMI started this process?"""
    return any(name in os.environ for name in ("PMI_FD", "PMI_PORT", "PMIX_RANK", "PMIX_NAMESPACE"))


def machine() -> str:
    """The same text for processes that can share memory."""
    boot = ""
    with contextlib.suppress(OSError), open("/proc/sys/kernel/random/boot_id") as file:
        boot = file.read().strip()
    with contextlib.suppress(OSError):
        boot += str(os.stat("/dev/shm").st_dev)  # containers of one machine may have several
    return f"{socket.gethostname()} {boot}"


def import_mpi() -> Any:
    """mpi4py.MPI, not yet initialised unless somebody has done so."""
    try:
        import mpi4py
    except ImportError as error:
        raise ImportError(MISSING) from error
    mpi4py.rc.initialize = mpi4py.rc.finalize = False
    os.environ.setdefault("MPIR_CVAR_ENABLE_GPU", "0")  # looking for them takes time
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise ImportError(f"{MISSING} ({error})") from error
    return MPI


def world(store: Store, rank: int, size: int, seconds: float) -> World:
    """The world of these processes; all of them call this."""
    global _world
    mine = _world.identity if _world is not None and _world.rank == rank else ""
    if _world is not None and _world.size == 1:
        mine = ""
    if size == 1:
        if _world is None:
            return World("one", 0, 1)
        return World("one", 0, 1) if _world.size > 1 else _world
    store.set(f"identity/{rank}", mine)
    known = {store.get(f"identity/{r}").decode() for r in range(size)}
    if known == {""}:
        _world = _made(store, rank, size, seconds)
    elif len(known) > 1 or _world is None:
        raise DistBackendError(
            "an MPI world is made once in the life of a process: the same processes can form a "
            "process group again, others cannot join them."
        )
    if any(how == "died" for how in _world.health.gone.values()):
        raise DistBackendError("a process of this world has died; start all of them anew.")
    return _world


def _made(store, rank, size, seconds):
    mpi = import_mpi()
    launched = mpi.Is_initialized() or (under_mpi_launcher() and _launcher_has(size))
    if rank == 0:
        server = WorldServer(size)
        store.set(
            "world", f"{socket.gethostname()}\n{server.port}\n{secrets.token_hex(8)}\n{machine()}"
        )
    host, port, identity, where = store.get("world").decode().split("\n")
    host = "127.0.0.1" if where == machine() else _reachable(host, store)
    made = World(identity, rank, size)
    made.server = server if rank == 0 else None
    made.mpi, made.ours = mpi, not launched
    made.health = Watch(host, int(port), rank, seconds)
    if not launched:
        os.environ.update(
            PMI_PORT=f"{host}:{port}", PMI_ID=str(rank), PMI_RANK=str(rank), PMI_SIZE=str(size)
        )
    try:
        bounded(lambda: _enter(made), seconds, made.health, "the forming of the MPI world")
    finally:
        if not launched:
            for name in ("PMI_PORT", "PMI_ID", "PMI_RANK", "PMI_SIZE"):
                os.environ.pop(name, None)
    if rank == 0:
        atexit.register(_last_words, made)
    else:
        atexit.register(made.health.bye)
    if launched:
        atexit.register(_finalize, made)  # runs before the good-byes
    return made


def _launcher_has(size):
    told = os.environ.get("PMI_SIZE") or os.environ.get("SLURM_NTASKS")
    return told is None or int(told) == size


def _reachable(host, store):
    """Where process 0 is, from another machine: its name, or the address of the store."""
    try:
        socket.getaddrinfo(host, None)
        return host
    except OSError:
        while hasattr(store, "underlying_store"):
            store = store.underlying_store
        return getattr(store, "host", host)


def _enter(made):
    """MPI_Init, and who is where; blocks until all are there."""
    mpi = made.mpi
    if not mpi.Is_initialized():
        runtime_mpi.init(mpi.__file__)
    if mpi.COMM_WORLD.size != made.size:
        raise DistBackendError(
            f"MPI was initialised with {mpi.COMM_WORLD.size} processes, not {made.size}."
        )
    made.comm = mpi.COMM_WORLD.Split(0, made.rank)
    made.nodes = made.comm.allgather(machine())
    made.comm.Barrier()
    if made.ours:
        _unlink_memory()


def _unlink_memory():
    """MPI would unlink its segment in the end; all have it mapped, so its name may go now."""
    with contextlib.suppress(OSError), open("/proc/self/maps") as maps:
        for path in set(re.findall(r"/dev/shm/mpich_shm\S+", maps.read())):
            with contextlib.suppress(OSError):
                os.unlink(path)


def _finalize(made):
    """A launcher of MPI takes an end without this for a failure."""
    if not any(how == "died" for how in made.health.gone.values()) and not made.mpi.Is_finalized():
        with contextlib.suppress(Exception):
            bounded(made.mpi.Finalize, 5, made.health, "the end of MPI")


def _last_words(made):
    """Process 0 serves: it says good-bye for itself, which reaches all who still watch."""
    made.health.bye()
    assert made.server is not None
    made.server.tell(0, "left")


def mpi_world(seconds: float) -> tuple[Store, int, int]:
    """backend="mpi" without a rendezvous: rank and size as MPI knows them, and a store."""
    mpi = import_mpi()
    if not under_mpi_launcher() and not mpi.Is_initialized():
        store: Any = flambeau.distributed.HashStore()
        return store, 0, 1

    def enter():
        if not mpi.Is_initialized():
            mpi.Init_thread(mpi.THREAD_MULTIPLE)
        comm, server = mpi.COMM_WORLD, None
        if comm.rank == 0:
            server = TCPStore("127.0.0.1", 0, is_master=True)
        address = comm.bcast((socket.gethostname(), server.port, machine()) if server else None)
        if server is None:
            host = "127.0.0.1" if address[2] == machine() else address[0]
            server = TCPStore(host, address[1])
        return server, comm.rank, comm.size

    return bounded(enter, seconds, Alone(), "the forming of the MPI world")
