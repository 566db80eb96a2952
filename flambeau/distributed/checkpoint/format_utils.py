"""Between folders of checkpoints and files of torch.save."""

import os
from typing import Any

import flambeau
from flambeau import Tensor, distributed
from flambeau.futures import Future

from ._nested_dict import flatten_state_dict
from .default_planner import DefaultLoadPlanner, _EmptyStateDictLoadPlanner, narrowed
from .filesystem import FileSystemReader
from .metadata import ChunkStorageMetadata, Metadata, TensorProperties, TensorStorageMetadata
from .planner import LoadItemType, LoadPlan, LoadPlanner
from .state_dict_loader import _load_state_dict
from .state_dict_saver import save
from .storage import StorageReader
from .team import Team

__all__ = [
    "BroadcastingTorchSaveReader",
    "DynamicMetaLoadPlanner",
    "dcp_to_torch_save",
    "torch_save_to_dcp",
]


def dcp_to_torch_save(
    dcp_checkpoint_dir: str | os.PathLike, torch_save_path: str | os.PathLike
) -> None:
    """Write a checkpoint, whole, as torch.save does; one process does this."""
    state: dict[str, Any] = {}
    reader = FileSystemReader(dcp_checkpoint_dir)
    _load_state_dict(state, reader, no_dist=True, planner=_EmptyStateDictLoadPlanner())
    flambeau.save(state, torch_save_path)


def torch_save_to_dcp(
    torch_save_path: str | os.PathLike, dcp_checkpoint_dir: str | os.PathLike
) -> None:
    """Make a checkpoint of what torch.save has written; one process does this."""
    state = flambeau.load(torch_save_path, weights_only=False)
    save(state, checkpoint_id=dcp_checkpoint_dir, no_dist=True)


class DynamicMetaLoadPlanner(DefaultLoadPlanner):
    """Takes the sizes of tensors from the state dict that is to be filled."""

    def set_up_planner(
        self,
        state_dict: dict[str, Any],
        metadata: Metadata | None = None,
        is_coordinator: bool = False,
    ) -> None:
        super().set_up_planner(state_dict, metadata, is_coordinator)
        described: dict[str, Any] = {}
        for name, value in self.state_dict.items():
            if not isinstance(value, Tensor):
                raise RuntimeError(
                    f"Non-tensor value identified at {name}. "
                    "At this time DynamicMetaLoadPlanner only supports loading Tensors."
                )
            whole = ChunkStorageMetadata(flambeau.Size([0] * value.dim()), value.size())
            properties = TensorProperties(value.dtype)
            described[name] = TensorStorageMetadata(properties, value.size(), [whole])
        self.metadata = Metadata(described)


class BroadcastingTorchSaveReader(StorageReader):
    """Reads a file of torch.save on one process, and gives every process its part.

    Goes with DynamicMetaLoadPlanner.
    """

    def __init__(
        self, checkpoint_id: str | os.PathLike | None = None, coordinator_rank: int = 0
    ) -> None:
        self.checkpoint_id, self.coordinator_rank = checkpoint_id, coordinator_rank

    def reset(self, checkpoint_id: str | os.PathLike | None = None) -> None:
        self.checkpoint_id = checkpoint_id or self.checkpoint_id

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        return Metadata({})

    def set_up_storage_reader(
        self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any
    ) -> None:
        self.is_coordinator = is_coordinator

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future:
        team = Team(coordinator=self.coordinator_rank)
        stored: dict[str, Any] = {}
        if self.is_coordinator:
            assert self.checkpoint_id is not None, "the reader has no checkpoint_id"
            loaded = flambeau.load(self.checkpoint_id, map_location="cpu", weights_only=False)
            stored, _ = flatten_state_dict(loaded)
        for item in plan.items:
            if item.type is LoadItemType.BYTE_IO:
                raise RuntimeError("BroadcastingTorchSaveReader reads tensors only")
            whole = _everywhere(team, stored.get(item.storage_index.fqn))
            target = planner.resolve_tensor(item).detach()
            target.copy_(narrowed(whole, item.storage_offsets, item.lengths))
            planner.commit_tensor(item, target)
        done: Future = Future()
        done.set_result(None)
        return done

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike) -> bool:
        return os.path.isfile(checkpoint_id)


def _everywhere(team, value):
    """The coordinator's tensor, on every process."""
    if team.alone:
        return value
    facts = [None if value is None else (value.size(), value.dtype)]
    distributed.broadcast_object_list(facts, group_src=team.coordinator, src=None)
    if facts[0] is None:
        raise RuntimeError("the file does not have all tensors of the state dict")
    if value is None:
        value = flambeau.empty(facts[0][0], dtype=facts[0][1])
    value = value.contiguous()
    distributed.broadcast(value, group_src=team.coordinator)
    return value
