"""Plans: who writes which pieces, who reads which; and the two interfaces that make them."""

import abc
import enum
import io
import math
from dataclasses import dataclass
from typing import Any

from flambeau import Size, Tensor

from .metadata import ChunkStorageMetadata, Metadata, MetadataIndex, StorageMeta, TensorProperties

__all__ = [
    "BytesIOWriteData",
    "LoadItemType",
    "LoadPlan",
    "LoadPlanner",
    "ReadItem",
    "SavePlan",
    "SavePlanner",
    "TensorWriteData",
    "WriteItem",
    "WriteItemType",
]


# -- writing ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TensorWriteData:
    """Which piece of which tensor."""

    chunk: ChunkStorageMetadata
    properties: TensorProperties
    size: Size

    @property
    def nbytes(self) -> int:
        """How long the piece is."""
        return math.prod(self.chunk.sizes) * self.properties.dtype.itemsize


@dataclass(frozen=True)
class BytesIOWriteData:
    """How long a value is."""

    nbytes: int


class WriteItemType(enum.Enum):
    """What is written: a whole tensor, a piece of one, or anything else."""

    TENSOR = 1
    SHARD = 2
    BYTE_IO = 3


@dataclass(frozen=True)
class WriteItem:
    """One thing to write."""

    index: MetadataIndex
    type: WriteItemType
    bytes_io_data: BytesIOWriteData | None = None
    tensor_data: TensorWriteData | None = None

    def tensor_storage_size(self) -> int | None:
        """The bytes of its piece; None if it is no tensor."""
        return None if self.tensor_data is None else self.tensor_data.nbytes


@dataclass(frozen=True)
class SavePlan:
    """What one process writes."""

    items: list[WriteItem]
    storage_data: Any = None
    planner_data: Any = None
    usable: bool = True


# -- reading ---------------------------------------------------------------------------------------


class LoadItemType(enum.Enum):
    """What is read: (a part of) a tensor, or anything else."""

    TENSOR = 1
    BYTE_IO = 2


@dataclass(frozen=True)
class ReadItem:
    """A box of a stored piece, and the box of a tensor of ours that it goes to."""

    type: LoadItemType
    dest_index: MetadataIndex
    dest_offsets: Size
    storage_index: MetadataIndex
    storage_offsets: Size
    lengths: Size


@dataclass
class LoadPlan:
    """What one process reads."""

    items: list[ReadItem]
    storage_data: Any = None
    planner_data: Any = None


# -- who decides -----------------------------------------------------------------------------------


class SavePlanner(abc.ABC):
    """Decides what is written. `DefaultSavePlanner` is the one to inherit from.

    On every process: set up, create_local_plan, finish_plan with what the coordinator made of it in
    create_global_plan, then resolve_data for each item.
    """

    @abc.abstractmethod
    def set_up_planner(
        self,
        state_dict: dict[str, Any],
        storage_meta: StorageMeta | None = None,
        is_coordinator: bool = False,
    ) -> None:
        """This is to be saved."""

    @abc.abstractmethod
    def create_local_plan(self) -> SavePlan:
        """What this process could write."""

    @abc.abstractmethod
    def create_global_plan(self, all_plans: list[SavePlan]) -> tuple[list[SavePlan], Metadata]:
        """Who writes what of it, and what there will be."""

    @abc.abstractmethod
    def finish_plan(self, new_plan: SavePlan) -> SavePlan:
        """What this process shall write."""

    @abc.abstractmethod
    def resolve_data(self, write_item: WriteItem) -> Tensor | io.BytesIO:
        """The data of an item."""


class LoadPlanner:
    """Decides what is read and where it goes. `DefaultLoadPlanner` is the one to inherit from.

    Plans are made as in saving. Then tensors are asked for (resolve_tensor) and given back when
    they are filled (commit_tensor); anything else is handed over as bytes (load_bytes).
    """

    @abc.abstractmethod
    def set_up_planner(
        self,
        state_dict: dict[str, Any],
        metadata: Metadata | None = None,
        is_coordinator: bool = False,
    ) -> None:
        """This is to be filled."""

    @abc.abstractmethod
    def resolve_tensor(self, read_item: ReadItem) -> Tensor:
        """The part of a tensor of ours that is to be filled."""

    @abc.abstractmethod
    def commit_tensor(self, read_item: ReadItem, tensor: Tensor) -> None:
        """What resolve_tensor gave has been filled."""

    @abc.abstractmethod
    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        """A value that is no tensor has been read."""

    def resolve_bytes(self, read_item: ReadItem) -> io.BytesIO:
        """Where the bytes of a value go, for readers that ask."""
        raise NotImplementedError("LoadPlanner.resolve_bytes is not implemented")

    @abc.abstractmethod
    def create_local_plan(self) -> LoadPlan:
        """What this process needs."""

    @abc.abstractmethod
    def create_global_plan(self, global_plan: list[LoadPlan]) -> list[LoadPlan]:
        """What each reads."""

    @abc.abstractmethod
    def finish_plan(self, central_plan: LoadPlan) -> LoadPlan:
        """What this process shall read."""
