"""Checkpoints in folders: a file per process, and `.metadata`, which makes them a checkpoint.

The layout is PyTorch's. Data always goes into files of new names; `.metadata` is replaced in one
step when all of them are on the disk, and only then files of an older checkpoint are removed. So a
process that is killed leaves the older checkpoint as it was.
"""

import contextlib
import enum
import io
import os
import pickle
import re
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.futures import Future
from flambeau.serialization.files import opened_for_writing
from flambeau.serialization.pickling import dumps
from flambeau.serialization.unrestricted import unpickle

from .default_planner import narrowed
from .metadata import Metadata, StorageMeta
from .planner import LoadItemType, LoadPlan, LoadPlanner, SavePlan, SavePlanner, WriteItem
from .staging import BlockingAsyncStager
from .storage import StorageReader, StorageWriter, WriteResult

__all__ = ["FileSystemReader", "FileSystemWriter", "SerializationFormat"]

METADATA = ".metadata"
SUFFIX = ".distcp"


class SerializationFormat(enum.Enum):
    """How tensors are written."""

    TORCH_SAVE = "torch_save"
    SAFETENSORS = "safetensors"


@dataclass
class _StorageInfo:
    """Where an item lies."""

    relative_path: str
    offset: int
    length: int
    transform_descriptors: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if v is not None}


@dataclass
class _StoragePrefix:
    """How the files of one process are called: prefix, number, suffix."""

    prefix: str
    first: int = 0


def _is_local(checkpoint_id):
    return isinstance(checkpoint_id, Path) or "://" not in str(checkpoint_id)


class FileSystemWriter(BlockingAsyncStager, StorageWriter):
    """Writes a checkpoint into a folder.

    Args:
        path: the folder; it is made if it is not there.
        single_file_per_rank: one file per process, else one per value.
        sync_files: wait until data is on the disk, so that a checkpoint survives a loss of power.
        thread_count: so many files per process, written at the same time.
        overwrite: may a checkpoint that is there be replaced?
    """

    def __init__(
        self,
        path: str | os.PathLike,
        single_file_per_rank: bool = True,
        sync_files: bool = True,
        thread_count: int = 1,
        per_thread_copy_ahead: int = 10_000_000,
        cache_staged_state_dict: bool = False,
        overwrite: bool = True,
        _extensions: Any = None,
        serialization_format: SerializationFormat = SerializationFormat.TORCH_SAVE,
    ) -> None:
        super().__init__(cache_staged_state_dict)
        if serialization_format is not SerializationFormat.TORCH_SAVE or _extensions:
            raise NotImplementedError("FileSystemWriter writes pieces as torch.save does")
        self.path = Path(path)
        self.single_file_per_rank, self.sync_files = single_file_per_rank, sync_files
        self.thread_count, self.overwrite = thread_count, overwrite
        self.save_id = str(uuid.uuid4())

    @property
    def checkpoint_id(self) -> str | os.PathLike:
        """The folder."""
        return self.path

    def reset(self, checkpoint_id: str | os.PathLike | None = None) -> None:
        if checkpoint_id is not None:
            self.path = Path(checkpoint_id)
        self.save_id = str(uuid.uuid4())

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        self.is_coordinator = is_coordinator

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        self.path.mkdir(parents=True, exist_ok=True)
        if not self.overwrite and (self.path / METADATA).exists():
            raise RuntimeError(f"Checkpoint already exists and {self.overwrite=}.")
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        first = self._unused_number()
        return [
            replace(plan, storage_data=_StoragePrefix(f"__{rank}_", first))
            for rank, plan in enumerate(plans)
        ]

    def _files(self):
        return [name for name in os.listdir(self.path) if re.fullmatch(r"__\d+_\d+\.distcp", name)]

    def _unused_number(self):
        """Files of the checkpoint that is there, or of one that was not finished, keep theirs."""
        return 1 + max((int(re.split(r"[_.]", name)[3]) for name in self._files()), default=-1)

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future:
        where = plan.storage_data
        tasks = [
            (f"{where.prefix}{where.first + k}{SUFFIX}", items)
            for k, items in enumerate(self._divided(plan.items))
        ]
        with ThreadPoolExecutor(max(1, self.thread_count)) as pool:
            parts = list(pool.map(lambda task: self._write_file(task[0], task[1], planner), tasks))
        done: Future = Future()
        done.set_result([result for part in parts for result in part])
        return done

    def _divided(self, items: list[WriteItem]) -> list[list[WriteItem]]:
        if not self.single_file_per_rank:
            return [[item] for item in items]
        heaps: list[list[WriteItem]] = [[] for _ in range(max(1, self.thread_count))]
        load = [0] * len(heaps)
        for item in sorted(items, key=lambda i: -(i.tensor_storage_size() or 0)):
            k = load.index(min(load))
            heaps[k].append(item)
            load[k] += item.tensor_storage_size() or 1
        return [heap for heap in heaps if heap]

    def _write_file(self, name, items, planner):
        results = []
        with open(self.path / name, "wb") as file:
            for item in items:
                start = file.tell()
                file.write(_encoded(planner.resolve_data(item)))
                info = _StorageInfo(name, start, file.tell() - start)
                results.append(WriteResult(item.index, info.length, info))
            if self.sync_files:
                file.flush()
                os.fsync(file.fileno())
        return results

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        metadata.storage_data = {r.index: r.storage_data for part in results for r in part}
        metadata.storage_meta = self.storage_meta()
        with opened_for_writing(self.path / METADATA) as file:
            file.write(dumps(metadata, 4, pickle)[0])
        used = {info.relative_path for info in metadata.storage_data.values()}
        for name in set(self._files()) - used:
            with contextlib.suppress(OSError):
                os.unlink(self.path / name)

    def storage_meta(self) -> StorageMeta | None:
        return StorageMeta(checkpoint_id=self.path, save_id=self.save_id)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike) -> bool:
        return _is_local(checkpoint_id)


def _encoded(data):
    """The bytes of an item; a tensor brings its own elements, and not all of its storage."""
    if not isinstance(data, Tensor):
        return data.getbuffer()
    data = data.detach().cpu()
    if data.untyped_storage().nbytes() != data.nbytes:
        data = data.clone(memory_format=flambeau.contiguous_format)
    file = io.BytesIO()
    flambeau.save(data, file)
    return file.getbuffer()


class FileSystemReader(StorageReader):
    """Reads a checkpoint of a folder.

    A `.metadata` is a pickle: read checkpoints whose source is trusted.
    """

    def __init__(self, path: str | os.PathLike, _extension_registry: Any = None) -> None:
        self.path = Path(path)
        self.storage_data: dict = {}
        self.load_id = str(uuid.uuid4())

    @property
    def checkpoint_id(self) -> str | os.PathLike:
        """The folder."""
        return self.path

    def reset(self, checkpoint_id: str | os.PathLike | None = None) -> None:
        self.storage_data = {}
        if checkpoint_id is not None:
            self.path = Path(checkpoint_id)
        self.load_id = str(uuid.uuid4())

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        with open(self.path / METADATA, "rb") as file:
            found = unpickle(file, _no_storage, pickle, {})
        found.storage_meta = found.storage_meta or StorageMeta()
        found.storage_meta.load_id = self.load_id
        return found

    def set_up_storage_reader(
        self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any
    ) -> None:
        assert metadata.storage_data is not None, "the checkpoint does not say where its data is"
        self.storage_data = metadata.storage_data

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future:
        by_place: dict[tuple, list] = {}
        for item in plan.items:
            info = self.storage_data[item.storage_index]
            if getattr(info, "transform_descriptors", None):
                raise NotImplementedError(f"{info.relative_path} is compressed")
            by_place.setdefault((info.relative_path, info.offset, info.length), []).append(item)
        with contextlib.ExitStack() as files:
            opened: dict[str, Any] = {}
            for (name, offset, length), items in sorted(by_place.items(), key=lambda x: x[0]):
                if name not in opened:
                    opened[name] = files.enter_context(open(self.path / name, "rb"))
                opened[name].seek(offset)
                _deliver(opened[name].read(length), length, items, planner)
        done: Future = Future()
        done.set_result(None)
        return done

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike) -> bool:
        return _is_local(checkpoint_id)


def _no_storage(identity):
    raise pickle.UnpicklingError(f"metadata of a checkpoint has no tensors, but names {identity}")


def _deliver(data, length, items, planner):
    """What one place of a file holds goes to all items that want some of it."""
    if len(data) != length:
        raise RuntimeError(f"{items[0].storage_index.fqn}: its file has ended too early")
    stored: Tensor | None = None
    for item in items:
        if item.type is LoadItemType.BYTE_IO:
            planner.load_bytes(item, io.BytesIO(data))
            continue
        if stored is None:
            stored = flambeau.load(io.BytesIO(data), map_location="cpu", weights_only=True)
        part = narrowed(stored, item.storage_offsets, item.lengths)
        target = planner.resolve_tensor(item).detach()
        if target.size() != part.size():
            raise AssertionError(
                f"req {item.storage_index} mismatch sizes {target.size()} vs {part.size()}"
            )
        target.copy_(part)
        planner.commit_tensor(item, target)
