"""Shares of the samples, for workers and processes."""

from collections.abc import Iterator, Sized
from enum import IntEnum
from typing import Any

from .._decorator import functional_datapipe
from ..datapipe import IterDataPipe
from .utils import no_length

__all__ = ["SHARDING_PRIORITIES", "ShardingFilterIterDataPipe"]


class SHARDING_PRIORITIES(IntEnum):
    """Groups of shares, the first to be taken first."""

    DEFAULT = 1
    DISTRIBUTED = 2
    MULTIPROCESSING = 3


class _ShardingIterDataPipe(IterDataPipe[Any]):
    def apply_sharding(self, num_of_instances: int, instance_id: int, sharding_group: Any) -> None:
        raise NotImplementedError


@functional_datapipe("sharding_filter")
class ShardingFilterIterDataPipe(_ShardingIterDataPipe):
    """Every n-th sample, of as many as there are workers (functional name: ``sharding_filter``).

    A loader says which: each of its workers, in each process of a job, has a share of its own.

    Args:
        source_datapipe: the source.
        sharding_group_filter: the only group of shares that counts here; all if not given.

    Example:
        >>> from flambeau.utils.data.datapipes.iter import IterableWrapper
        >>> pipe = IterableWrapper(range(7)).sharding_filter()
        >>> pipe.apply_sharding(3, 1)
        >>> list(pipe)
        [1, 4]
    """

    def __init__(
        self, source_datapipe: IterDataPipe[Any], sharding_group_filter: Any = None
    ) -> None:
        self.source_datapipe = source_datapipe
        self.sharding_group_filter = sharding_group_filter
        self.groups: dict[int, tuple[int, int]] = {}
        self.num_of_instances, self.instance_id = 1, 0

    def apply_sharding(
        self,
        num_of_instances: int,
        instance_id: int,
        sharding_group: Any = SHARDING_PRIORITIES.DEFAULT,
    ) -> None:
        if instance_id >= num_of_instances:
            raise ValueError(
                f"instance_id({instance_id}) should be smaller than "
                f"num_of_instances({num_of_instances})"
            )
        default = SHARDING_PRIORITIES.DEFAULT
        if any((sharding_group == default) != (group == default) for group in self.groups):
            raise RuntimeError("ShardingFilter cannot mix DEFAULT and non DEFAULT groups")
        self.groups[sharding_group] = num_of_instances, instance_id
        self._update_num_of_instances()

    def _update_num_of_instances(self) -> None:
        only = self.sharding_group_filter
        self.num_of_instances, self.instance_id = 1, 0
        for group in sorted(self.groups):
            if only is None or group == only:
                count, number = self.groups[group]
                self.instance_id += self.num_of_instances * number
                self.num_of_instances *= count

    def __iter__(self) -> Iterator[Any]:
        for place, sample in enumerate(self.source_datapipe):
            if place % self.num_of_instances == self.instance_id:
                yield sample

    def __len__(self) -> int:
        if not isinstance(self.source_datapipe, Sized):
            raise no_length(self)
        return len(range(self.instance_id, len(self.source_datapipe), self.num_of_instances))
