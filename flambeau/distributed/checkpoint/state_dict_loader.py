"""Loading: each process reads the pieces it needs, however the checkpoint was cut."""

import os
from typing import Any

from flambeau import distributed

from .default_planner import DefaultLoadPlanner
from .filesystem import FileSystemReader
from .planner import LoadPlanner
from .state_dict_saver import chosen_storage, warn_if_alone
from .stateful import Stateful
from .storage import StorageReader
from .team import Team

__all__ = ["load", "load_state_dict"]


def load(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: str | os.PathLike | None = None,
    storage_reader: StorageReader | None = None,
    planner: LoadPlanner | None = None,
    process_group: Any = None,
    no_dist: bool = False,
) -> None:
    """Fill a state dict from a checkpoint; all processes call this, with the same keys.

    Tensors are filled in place, pieces of tensors that are spread over processes too, also when
    another number of processes has saved them. Other values are replaced. Objects with a
    state_dict get theirs by load_state_dict.

    Args:
        checkpoint_id: the folder.
        storage_reader: where from, if it is not a folder.
        planner: decides what is read.
        process_group: who takes part; everybody by default.
        no_dist: this process alone.
    """
    no_dist = warn_if_alone(no_dist, "load")
    reader = chosen_storage(storage_reader, checkpoint_id, FileSystemReader)
    team = Team(process_group, no_dist)
    keys = list(state_dict) if team.alone else _all_keys(state_dict, team)
    wanted = {}
    for key in keys:  # in one order everywhere: state_dict() of an object may be a collective
        if key in state_dict:
            value = state_dict[key]
            wanted[key] = value.state_dict() if isinstance(value, Stateful) else value
    _load_state_dict(wanted, reader, process_group, 0, no_dist, planner)
    for key in keys:
        if key not in state_dict:
            continue
        value = state_dict[key]
        if isinstance(value, Stateful):
            value.load_state_dict(wanted[key])
        else:
            state_dict[key] = wanted[key]


def _all_keys(state_dict, team):
    everybodys: list = [None] * team.size
    distributed.all_gather_object(everybodys, list(state_dict), team.group)
    return sorted({key for keys in everybodys for key in keys}, key=str)


def _load_state_dict(
    state_dict: dict[str, Any],
    storage_reader: StorageReader,
    process_group: Any = None,
    coordinator_rank: int = 0,
    no_dist: bool = False,
    planner: LoadPlanner | None = None,
) -> None:
    team = Team(process_group, no_dist, coordinator_rank)
    planner = planner or DefaultLoadPlanner()

    def local():
        metadata = storage_reader.read_metadata()
        planner.set_up_planner(state_dict, metadata, team.is_coordinator)
        storage_reader.set_up_storage_reader(metadata, team.is_coordinator)
        return storage_reader.prepare_local_plan(planner.create_local_plan())

    def together(plans):
        return storage_reader.prepare_global_plan(planner.create_global_plan(plans))

    plan = team.each(local, together)

    def read():
        storage_reader.read_data(planner.finish_plan(plan), planner).wait()

    team.all(read, lambda results: None)


def load_state_dict(
    state_dict: dict[str, Any],
    storage_reader: StorageReader,
    process_group: Any = None,
    coordinator_rank: int = 0,
    no_dist: bool = False,
    planner: LoadPlanner | None = None,
) -> None:
    """The older name of load; objects with a state are not asked for it."""
    storage_reader.reset()
    _load_state_dict(state_dict, storage_reader, process_group, coordinator_rank, no_dist, planner)
