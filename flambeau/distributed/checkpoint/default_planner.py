"""The usual planners: every value is written once, by whoever has least to do."""

import dataclasses
import io
from typing import Any

import flambeau
from flambeau import Size, Tensor

from ._nested_dict import (
    flatten_state_dict,
    set_element,
    unflatten_state_dict,
    written_paths,
)
from .metadata import (
    BytesStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)
from .planner import (
    LoadItemType,
    LoadPlan,
    LoadPlanner,
    ReadItem,
    SavePlan,
    SavePlanner,
    TensorWriteData,
    WriteItem,
    WriteItemType,
)
from .shards import find_piece, pieces_of, read_items

__all__ = [
    "DefaultLoadPlanner",
    "DefaultSavePlanner",
    "create_default_global_load_plan",
    "create_default_global_save_plan",
    "create_default_local_load_plan",
    "create_default_local_save_plan",
]

VERSION = "1.0.0"  # of PyTorch's layout, which this is


# -- saving ----------------------------------------------------------------------------------------


def create_default_local_save_plan(state_dict: dict[str, Any], is_coordinator: bool) -> SavePlan:
    """Everything that this process has of a flat state dict."""
    items = []
    for name, value in state_dict.items():
        if isinstance(value, Tensor):
            items += _tensor_items(name, value)
        else:
            items.append(WriteItem(MetadataIndex(name), WriteItemType.BYTE_IO))
    return SavePlan(items)


def _tensor_items(name, value):
    properties = TensorProperties.create_from_tensor(value)
    pieces = pieces_of(value)
    whole = len(pieces) == 1 and pieces[0][0].sizes == value.size()
    kind = WriteItemType.TENSOR if whole else WriteItemType.SHARD
    return [
        WriteItem(
            MetadataIndex(name, box.offsets),
            kind,
            tensor_data=TensorWriteData(box, properties, value.size()),
        )
        for box, _ in pieces
    ]


def each_once(plans: list[SavePlan], to_lowest: bool = False) -> list[SavePlan]:
    """Of what several processes have, one writes it: the lowest rank, or who has least to do."""
    owners: dict[MetadataIndex, list[int]] = {}
    for rank, plan in enumerate(plans):
        for item in plan.items:
            owners.setdefault(item.index, []).append(rank)
    load = [0] * len(plans)
    chosen: dict[MetadataIndex, int] = {}
    sizes = {i.index: i.tensor_storage_size() or 1 for plan in plans for i in plan.items}
    # what only one can write counts first; then the rest, large ones before small ones
    for index in sorted(owners, key=lambda i: (len(owners[i]) > 1, -sizes[i])):
        ranks = owners[index]
        chosen[index] = ranks[0] if to_lowest else min(ranks, key=lambda r: load[r])
        load[chosen[index]] += sizes[index]
    return [
        dataclasses.replace(plan, items=[i for i in plan.items if chosen[i.index] == rank])
        for rank, plan in enumerate(plans)
    ]


def create_default_global_save_plan(
    all_plans: list[SavePlan], rewrite_index_hints: bool = True
) -> tuple[list[SavePlan], Metadata]:
    """(the plans, what the checkpoint will consist of)"""
    found: dict[str, Any] = {}
    plans = []
    for plan in all_plans:
        items = []
        for item in plan.items:
            place = _noted(found, item)
            if place is not None and rewrite_index_hints:
                item = dataclasses.replace(item, index=dataclasses.replace(item.index, index=place))
            items.append(item)
        plans.append(dataclasses.replace(plan, items=items))
    return plans, Metadata(found, version=VERSION)


def _noted(found, item):
    """Add an item to the description of the checkpoint; the place of its piece in the list."""
    name, data = item.index.fqn, item.tensor_data
    if data is None:
        found[name] = BytesStorageMetadata()
        return None
    entry = found.setdefault(name, TensorStorageMetadata(data.properties, data.size, []))
    if not isinstance(entry, TensorStorageMetadata) or entry.size != data.size:
        raise ValueError(f"{name} is not the same kind of value, or size, on all ranks")
    entry.chunks.append(data.chunk)
    return len(entry.chunks) - 1


def check_whole(metadata: Metadata) -> None:
    """Do the pieces of every tensor fill it, without overlap?"""
    for name, entry in metadata.state_dict_metadata.items():
        if not isinstance(entry, TensorStorageMetadata):
            continue
        covered = sum(_volume(chunk.sizes) for chunk in entry.chunks)
        ends = [[o + n for o, n in zip(c.offsets, c.sizes)] for c in entry.chunks]
        outside = any(e > size for end in ends for e, size in zip(end, entry.size))
        if covered != _volume(entry.size) or outside:
            raise ValueError(f"Failed to validate global plan: {name} is not covered exactly once")


def _volume(sizes):
    count = 1
    for size in sizes:
        count *= size
    return count


class DefaultSavePlanner(SavePlanner):
    """Saves a state dict: tensors as they are spread, other values as torch.save writes them.

    Args:
        flatten_state_dict: nested dicts under flat names, so that parts can be loaded.
        dedup_save_to_lowest_rank: of equal values the lowest rank's is written.
    """

    mappings: dict[str, Any]

    def __init__(
        self,
        flatten_state_dict: bool = True,
        flatten_sharded_tensors: bool = True,
        dedup_replicated_tensors: bool | None = None,
        dedup_save_to_lowest_rank: bool = False,
        enable_plan_caching: bool = False,
    ) -> None:
        self.flatten_state_dict = flatten_state_dict
        self.flatten_sharded_tensors = flatten_sharded_tensors
        self.dedup_save_to_lowest_rank = dedup_save_to_lowest_rank
        self.mappings = {}

    def set_up_planner(
        self,
        state_dict: dict[str, Any],
        storage_meta: StorageMeta | None = None,
        is_coordinator: bool = False,
    ) -> None:
        if self.flatten_state_dict:
            nested = state_dict
            state_dict, paths = flatten_state_dict(nested)
            self.mappings = written_paths(nested, paths)
        self.state_dict, self.is_coordinator = state_dict, is_coordinator

    def create_local_plan(self) -> SavePlan:
        plan = create_default_local_save_plan(self.state_dict, self.is_coordinator)
        if self.flatten_state_dict:
            plan = dataclasses.replace(plan, planner_data=self.mappings)
        self.plan = plan
        return plan

    def create_global_plan(self, all_plans: list[SavePlan]) -> tuple[list[SavePlan], Metadata]:
        plans = each_once(all_plans, self.dedup_save_to_lowest_rank)
        self.global_plan, self.metadata = create_default_global_save_plan(plans)
        if self.flatten_state_dict:
            merged: dict[str, Any] = {}
            for plan in self.global_plan:
                merged |= plan.planner_data
            self.metadata.planner_data = merged
        check_whole(self.metadata)
        return self.global_plan, self.metadata

    def finish_plan(self, new_plan: SavePlan) -> SavePlan:
        self.plan = new_plan
        return new_plan

    def resolve_data(self, write_item: WriteItem) -> Tensor | io.BytesIO:
        return self.transform_object(write_item, self.lookup_object(write_item.index))

    def lookup_object(self, index: MetadataIndex) -> Any:
        """The value that an index names; to be overridden."""
        value = self.state_dict[index.fqn]
        return find_piece(value, index) if isinstance(value, Tensor) else value

    def transform_object(self, write_item: WriteItem, object: Any) -> Any:
        """What is written for a value; to be overridden."""
        if write_item.type is not WriteItemType.BYTE_IO:
            return object
        file = io.BytesIO()
        flambeau.save(object, file)
        file.seek(0)
        return file


# -- loading ---------------------------------------------------------------------------------------


def create_default_local_load_plan(
    state_dict: dict[str, Any], metadata: Metadata, strict: bool = True
) -> LoadPlan:
    """What this process needs to fill a flat state dict."""
    items: list[ReadItem] = []
    for name, value in state_dict.items():
        if name not in metadata.state_dict_metadata:
            if strict:
                raise RuntimeError(f"Missing key in checkpoint state_dict: {name}.")
            continue
        entry = metadata.state_dict_metadata[name]
        if isinstance(entry, BytesStorageMetadata):
            items.append(_bytes_item(name))
        elif not isinstance(value, Tensor):
            raise ValueError(
                f"Invalid checkpoint metadata for {name}, expected BytesStorageMetadata but found "
                f"{type(entry)}"
            )
        elif entry.size != value.size():
            raise ValueError(
                f"Size mismatch between saved {entry.size} and current: {value.size()} for {name}"
            )
        else:
            items += read_items(name, [box for box, _ in pieces_of(value)], entry.chunks)
    return LoadPlan(items)


def _bytes_item(name):
    index, start = MetadataIndex(name), Size([0])
    return ReadItem(LoadItemType.BYTE_IO, index, start, index, start, start)


def create_default_global_load_plan(all_plans: list[LoadPlan]) -> list[LoadPlan]:
    """Everybody reads what it needs."""
    return all_plans


class DefaultLoadPlanner(LoadPlanner):
    """Loads into a state dict: tensors in place, other values are replaced.

    Args:
        flatten_state_dict: as it was saved.
        allow_partial_load: what the checkpoint does not have stays as it is.
    """

    original_state_dict: dict[str, Any]
    mappings: dict[str, Any]

    def __init__(
        self,
        flatten_state_dict: bool = True,
        flatten_sharded_tensors: bool = True,
        allow_partial_load: bool = False,
    ) -> None:
        self.flatten_state_dict = flatten_state_dict
        self.flatten_sharded_tensors = flatten_sharded_tensors
        self.allow_partial_load = allow_partial_load
        self.original_state_dict, self.mappings = {}, {}

    def set_up_planner(
        self,
        state_dict: dict[str, Any],
        metadata: Metadata | None = None,
        is_coordinator: bool = False,
    ) -> None:
        self.original_state_dict = state_dict
        if self.flatten_state_dict:
            state_dict, self.mappings = flatten_state_dict(state_dict)
        self.state_dict, self.metadata = state_dict, metadata
        self.is_coordinator = is_coordinator

    def create_local_plan(self) -> LoadPlan:
        assert self.metadata is not None, "metadata is None"
        strict = not self.allow_partial_load
        return create_default_local_load_plan(self.state_dict, self.metadata, strict)

    def create_global_plan(self, global_plan: list[LoadPlan]) -> list[LoadPlan]:
        return create_default_global_load_plan(global_plan)

    def finish_plan(self, central_plan: LoadPlan) -> LoadPlan:
        return central_plan

    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        name = read_item.dest_index.fqn
        loaded = flambeau.load(value, weights_only=False)
        self.state_dict[name] = loaded
        if self.flatten_state_dict:
            set_element(self.original_state_dict, self.mappings[name], loaded)

    def resolve_tensor(self, read_item: ReadItem) -> Tensor:
        return self.transform_tensor(read_item, self.lookup_tensor(read_item.dest_index))

    def commit_tensor(self, read_item: ReadItem, tensor: Tensor) -> None:
        """Nothing is left to do: the tensor was filled in place."""

    def lookup_tensor(self, index: MetadataIndex) -> Tensor:
        """The piece of ours that an index names; to be overridden."""
        return find_piece(self.state_dict[index.fqn], index)

    def transform_tensor(self, read_item: ReadItem, tensor: Tensor) -> Tensor:
        """The box of a piece that is to be filled; to be overridden."""
        return narrowed(tensor, read_item.dest_offsets, read_item.lengths)


def narrowed(tensor: Tensor, offsets: Size, lengths: Size) -> Tensor:
    """A box of a tensor, as a view."""
    tensor = tensor.detach()
    for dim, (start, length) in enumerate(zip(offsets, lengths)):
        if length != tensor.size(dim):
            tensor = tensor.narrow(dim, start, length)
    return tensor


def _empty(described):
    """A place for a value of a checkpoint."""
    if isinstance(described, TensorStorageMetadata):
        return flambeau.empty(described.size, dtype=described.properties.dtype)
    return None


class _EmptyStateDictLoadPlanner(DefaultLoadPlanner):
    """Loads a whole checkpoint, or the given keys and what is below them, into an empty dict."""

    def __init__(self, keys: set[str] | None = None, *args: Any, **kwargs: Any) -> None:
        self.keys = keys
        super().__init__(*args, **kwargs)

    def _is_wanted(self, name):
        return self.keys is None or any(
            name == key or name.startswith(f"{key}.") for key in self.keys
        )

    def set_up_planner(
        self,
        state_dict: dict[str, Any],
        metadata: Metadata | None = None,
        is_coordinator: bool = False,
    ) -> None:
        assert not state_dict, "the state dict to be filled is not empty"
        assert metadata is not None, "metadata is None"
        wanted = {
            n: _empty(m) for n, m in metadata.state_dict_metadata.items() if self._is_wanted(n)
        }
        if metadata.planner_data:
            state_dict.update(unflatten_state_dict(wanted, metadata.planner_data))
        else:
            state_dict.update(wanted)
        super().set_up_planner(state_dict, metadata, is_coordinator)
