"""Checkpoints as safetensors files, in the folders that Hugging Face's libraries read.

A file says of each tensor where it begins in the whole one, so that processes may write parts of
the same tensor; a file that says nothing holds whole ones.
"""

import json
import os
from dataclasses import dataclass, replace
from typing import Any

from flambeau import Size
from flambeau.futures import Future
from flambeau.serialization import safetensors

from .default_planner import narrowed
from .filesystem import FileSystemReader, FileSystemWriter
from .metadata import (
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)
from .planner import LoadPlan, LoadPlanner, SavePlan, SavePlanner, WriteItemType
from .storage import WriteResult

__all__ = ["HuggingFaceStorageReader", "HuggingFaceStorageWriter"]

SUFFIX = ".safetensors"
INDEX = "model.safetensors.index.json"
SHARDS = "DCP_SHARDING_INFO"


@dataclass
class _HFStorageInfo:
    """Where a piece lies."""

    relative_path: str
    shape: Size
    dtype: Any


class HuggingFaceStorageWriter(FileSystemWriter):
    """Writes tensors into safetensors files.

    Args:
        path: the folder.
        fqn_to_index_mapping: the number of the file, from 1, for each name; else all go into one.
        save_distributed: every process writes its parts into files of its own.
        enable_consolidation: joining such files is not done here; read them as they are.
    """

    def __init__(
        self,
        path: str,
        fqn_to_index_mapping: dict[str, int] | None = None,
        thread_count: int = 1,
        save_distributed: bool = False,
        enable_consolidation: bool = False,
        thread_count_consolidation: int = 1,
    ) -> None:
        if enable_consolidation:
            raise NotImplementedError("files of several processes are not joined")
        super().__init__(path, thread_count=thread_count)
        self.fqn_to_index_mapping = fqn_to_index_mapping
        self.save_distributed = save_distributed

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        return [replace(plan, storage_data=rank + 1) for rank, plan in enumerate(plans)]

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future:
        numbers = self.fqn_to_index_mapping or {}
        last = max(numbers.values(), default=1)
        start = f"shard-{plan.storage_data:05d}-" if self.save_distributed else ""
        files: dict[str, list] = {}
        for item in plan.items:
            if item.type is WriteItemType.BYTE_IO:
                raise ValueError(f"safetensors files hold tensors only: {item.index.fqn}")
            number = numbers.get(item.index.fqn, 1)
            files.setdefault(f"{start}model-{number:05d}-of-{last:05d}{SUFFIX}", []).append(item)
        done: Future = Future()
        done.set_result(
            [r for name, items in files.items() for r in self._wrote(name, items, planner)]
        )
        return done

    def _wrote(self, name, items, planner):
        tensors, shards, results = {}, {}, []
        for item in items:
            fqn = item.index.fqn
            tensors[fqn] = planner.resolve_data(item).detach().cpu().contiguous().clone()
            offsets = item.index.offset or [0] * tensors[fqn].dim()
            shards[fqn] = {"saved_offsets": list(offsets)}
            info = _HFStorageInfo(name, tensors[fqn].shape, tensors[fqn].dtype)
            results.append(WriteResult(item.index, tensors[fqn].nbytes, info))
        facts = {"format": "pt", "DCP_VERSION": "1.0", SHARDS: json.dumps(shards)}
        safetensors.save_file(tensors, self.path / name, facts)
        return results

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        if self.save_distributed:
            return
        flat = [result for part in results for result in part]
        index = {
            "metadata": {"total_size": sum(r.size_in_bytes for r in flat)},
            "weight_map": {r.index.fqn: r.storage_data.relative_path for r in flat},
        }
        (self.path / INDEX).write_text(json.dumps(index, indent=2))


class HuggingFaceStorageReader(FileSystemReader):
    """Reads tensors of all safetensors files of a folder, whole or in parts."""

    def __init__(self, path: str, thread_count: int = 1) -> None:
        super().__init__(path)
        self.thread_count = thread_count

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        tensors: dict[str, Any] = {}
        places = {}
        for name in sorted(n for n in os.listdir(self.path) if n.endswith(SUFFIX)):
            path = str(self.path / name)
            with safetensors.safe_open(path, "pt") as file:
                shards = json.loads((file.metadata() or {}).get(SHARDS, "{}"))
                for fqn in file.keys():  # noqa: SIM118
                    part = file.get_slice(fqn)
                    shape, dtype = Size(part.get_shape()), safetensors.DTYPES[part.get_dtype()]
                    offsets = Size(shards.get(fqn, {}).get("saved_offsets", [0] * len(shape)))
                    _add(tensors, fqn, dtype, ChunkStorageMetadata(offsets, shape))
                    places[MetadataIndex(fqn, offsets)] = _HFStorageInfo(path, shape, dtype)
        return Metadata(
            state_dict_metadata=tensors,
            storage_data=places,
            storage_meta=StorageMeta(load_id=self.load_id),
        )

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future:
        files: dict[str, list] = {}
        for item in plan.items:
            info = self.storage_data[item.storage_index]
            files.setdefault(info.relative_path, []).append(item)
        for path, items in files.items():
            with safetensors.safe_open(path, "pt") as file:
                for item in items:
                    stored = file.get_tensor(item.storage_index.fqn)
                    target = planner.resolve_tensor(item).detach()
                    target.copy_(narrowed(stored, item.storage_offsets, item.lengths))
                    planner.commit_tensor(item, target)
        done: Future = Future()
        done.set_result(None)
        return done


def _add(tensors, fqn, dtype, chunk):
    """One more piece of a tensor, which ends where its last piece does."""
    found = tensors.setdefault(fqn, TensorStorageMetadata(TensorProperties(dtype), Size(()), []))
    found.chunks.append(chunk)
    ends = [begin + length for begin, length in zip(chunk.offsets, chunk.sizes)]
    found.size = Size(map(max, ends, found.size or ends))
