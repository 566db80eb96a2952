"""Saving: plans of all processes become one, each writes its part, one finishes."""

import enum
import os
import warnings
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from flambeau import distributed

from .default_planner import DefaultSavePlanner
from .filesystem import FileSystemWriter
from .metadata import Metadata
from .planner import SavePlan, SavePlanner
from .staging import AsyncStager, BlockingAsyncStager
from .stateful import Stateful
from .storage import StorageWriter
from .team import Team

__all__ = ["AsyncCheckpointerType", "AsyncSaveResponse", "async_save", "save", "save_state_dict"]


class AsyncCheckpointerType(enum.Enum):
    """Who writes meanwhile; here it is always a thread."""

    THREAD = "thread"
    PROCESS = "process"


@dataclass
class AsyncSaveResponse:
    """Two futures: the state is copied; the checkpoint is written."""

    staging_completion: Future
    upload_completion: Future


def warn_if_alone(no_dist: bool, verb: str) -> bool:
    """Without a process group a checkpoint is that of this process."""
    if no_dist or (distributed.is_available() and distributed.is_initialized()):
        return no_dist
    warnings.warn(
        "torch.distributed is disabled, unavailable or uninitialized, assuming the intent is to "
        f"{verb} in a single process.",
        stacklevel=3,
    )
    return True


def chosen_storage(storage: Any, checkpoint_id: Any, kind: Any) -> Any:
    """The storage that was given, or one for a folder."""
    if storage is None:
        if not checkpoint_id:
            raise RuntimeError(
                "`checkpoint_id` must be specified if storage_reader/storage_writer is None."
            )
        if not kind.validate_checkpoint_id(checkpoint_id):
            raise RuntimeError(
                f"Cannot detect which StorageReader or StorageWriter to use for {checkpoint_id}"
            )
        storage = kind(checkpoint_id)
    storage.reset(checkpoint_id)
    return storage


def stated(state_dict: dict[str, Any]) -> dict[str, Any]:
    """Objects that have a state become it."""
    return {
        key: value.state_dict() if isinstance(value, Stateful) else value
        for key, value in state_dict.items()
    }


def save(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: str | os.PathLike | None = None,
    storage_writer: StorageWriter | None = None,
    planner: SavePlanner | None = None,
    process_group: Any = None,
    no_dist: bool = False,
    use_collectives: bool = True,
) -> Metadata:
    """Save a state dict of all processes; all of them call this.

    Each writes the pieces that it holds; what several hold is written once.

    Args:
        checkpoint_id: the folder.
        storage_writer: where to, if it is not a folder.
        planner: decides what is written.
        process_group: who takes part; everybody by default.
        no_dist: this process alone.

    Example:
        >>> import flambeau as torch, tempfile, warnings
        >>> import flambeau.distributed.checkpoint as dcp
        >>> warnings.simplefilter("ignore")
        >>> folder = tempfile.mkdtemp()
        >>> _ = dcp.save({"w": torch.arange(3), "epoch": 7}, checkpoint_id=folder)
        >>> state = {"w": torch.zeros(3, dtype=torch.int64), "epoch": 0}
        >>> dcp.load(state, checkpoint_id=folder)
        >>> state
        {'w': tensor([0, 1, 2]), 'epoch': 7}
    """
    if not use_collectives:
        raise NotImplementedError("save(use_collectives=False) is not implemented in flambeau")
    no_dist = warn_if_alone(no_dist, "save")
    writer = chosen_storage(storage_writer, checkpoint_id, FileSystemWriter)
    team = Team(process_group, no_dist)
    return _saved(stated(state_dict), writer, planner or DefaultSavePlanner(), team)


def _saved(state_dict, writer, planner, team):
    described: list[Metadata] = []

    def local():
        planner.set_up_planner(state_dict, writer.storage_meta(), team.is_coordinator)
        writer.set_up_storage_writer(team.is_coordinator)
        return writer.prepare_local_plan(planner.create_local_plan())

    def together(plans: list[SavePlan]) -> list[SavePlan]:
        plans, metadata = planner.create_global_plan(plans)
        described.append(metadata)
        return writer.prepare_global_plan(plans)

    plan = team.each(local, together)

    def write():
        return writer.write_data(planner.finish_plan(plan), planner).wait()

    def finish(results):
        writer.finish(described[0], results)
        return described[0]

    return team.all(write, finish)


def save_state_dict(
    state_dict: dict[str, Any],
    storage_writer: StorageWriter,
    process_group: Any = None,
    coordinator_rank: int = 0,
    no_dist: bool = False,
    planner: SavePlanner | None = None,
) -> Metadata:
    """The older name of save."""
    storage_writer.reset()
    team = Team(process_group, no_dist, coordinator_rank)
    return _saved(state_dict, storage_writer, planner or DefaultSavePlanner(), team)


# -- meanwhile -------------------------------------------------------------------------------------

_writers: dict[int, ThreadPoolExecutor] = {}  # process -> its thread


def _thread():
    if os.getpid() not in _writers:
        _writers[os.getpid()] = ThreadPoolExecutor(1, "checkpoints")
    return _writers[os.getpid()]


def _own_group(group):
    """The same members once more: what the thread sends must not mix with what training sends."""
    given = distributed.groups.given_group(group)
    if getattr(given, "_for_checkpoints", None) is None:
        ranks = distributed.get_process_group_ranks(given)
        given._for_checkpoints = distributed.new_group(ranks, use_local_synchronization=True)
    return given._for_checkpoints


def async_save(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: str | os.PathLike | None = None,
    storage_writer: StorageWriter | None = None,
    planner: SavePlanner | None = None,
    process_group: Any = None,
    async_checkpointer_type: AsyncCheckpointerType = AsyncCheckpointerType.THREAD,
    async_stager: AsyncStager | None = None,
    no_dist: bool = False,
    use_collectives: bool = True,
) -> Future | AsyncSaveResponse:
    """save, while the program goes on: the state is copied now and written by a thread.

    Returns:
        a future of the metadata. Checkpoints are written one after the other.
    """
    no_dist = warn_if_alone(no_dist, "save")
    writer = chosen_storage(storage_writer, checkpoint_id, FileSystemWriter)
    stager = async_stager or (writer if isinstance(writer, AsyncStager) else BlockingAsyncStager())
    copied = stager.stage(stated(state_dict))
    group = None if no_dist else _own_group(process_group)
    return _thread().submit(
        save,
        copied,
        storage_writer=writer,
        planner=planner,
        process_group=group,
        no_dist=no_dist,
        use_collectives=use_collectives,
    )
