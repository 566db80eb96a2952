"""Where checkpoints are kept: what every storage is asked, and the two interfaces."""

import abc
import os
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from flambeau.futures import Future

from .metadata import Metadata, MetadataIndex, StorageMeta
from .planner import LoadPlan, LoadPlanner, SavePlan, SavePlanner

__all__ = ["StorageReader", "StorageWriter", "WriteResult"]

Plan = TypeVar("Plan", SavePlan, LoadPlan)
Id = str | os.PathLike


@dataclass(frozen=True)
class WriteResult:
    """An item that has been written, how long it is, and where the storage has put it."""

    index: MetadataIndex
    size_in_bytes: int
    storage_data: Any


class _Storage(abc.ABC, Generic[Plan]):
    """What writers and readers are both asked."""

    @classmethod
    @abc.abstractmethod
    def validate_checkpoint_id(cls, checkpoint_id: Id) -> bool:
        """Is it the name of a checkpoint that this kind of storage can have?"""

    @abc.abstractmethod
    def reset(self, checkpoint_id: Id | None = None) -> None:
        """From now on it is about another checkpoint; on every process, before anything else."""

    @abc.abstractmethod
    def prepare_local_plan(self, plan: Plan) -> Plan:
        """Look at, or change, the plan of this process."""

    @abc.abstractmethod
    def prepare_global_plan(self, plans: list[Plan]) -> list[Plan]:
        """Look at, or change, all plans; on the coordinator."""


class StorageWriter(_Storage[SavePlan]):
    """Writes checkpoints: reset, set up, prepare plans, write_data, finish."""

    @abc.abstractmethod
    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Is this process the coordinator? On every process."""

    def storage_meta(self) -> StorageMeta | None:
        """What planners may want to know about the storage; nothing, unless a writer says so."""

    @abc.abstractmethod
    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future:
        """Write the items of a plan; a future of a list of WriteResult."""

    @abc.abstractmethod
    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Everything is written: make it a checkpoint; on the coordinator."""


class StorageReader(_Storage[LoadPlan]):
    """Reads checkpoints: reset, read_metadata, set up, prepare plans, read_data."""

    @abc.abstractmethod
    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """What is in the checkpoint."""

    @abc.abstractmethod
    def set_up_storage_reader(
        self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any
    ) -> None:
        """What is in it, and whether this process is the coordinator."""

    @abc.abstractmethod
    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future:
        """Read the items of a plan into what the planner gives for them."""
