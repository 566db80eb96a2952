"""DistributedSampler: the share of one process among several.

Every process draws the same permutation, from the seed and the epoch alone, and takes each
`num_replicas`-th index of it. Nothing is exchanged between processes.
"""

import math
from collections.abc import Iterator
from typing import Any

import flambeau

from .sampler import Sampler

__all__ = ["DistributedSampler"]


class DistributedSampler(Sampler[int]):
    """Indices for process `rank` of `num_replicas`, as many for each.

    Args:
        dataset: what has the length.
        num_replicas: how many processes share the dataset; asked of `distributed` if not given.
        rank: which of them this one is; asked of `distributed` if not given.
        shuffle: whether the order is random; `set_epoch` makes it another one in each epoch.
        seed: of the permutation; the same in every process.
        drop_last: leave out what does not divide evenly, rather than repeating the first indices.

    Example:
        >>> from flambeau.utils.data.distributed import DistributedSampler
        >>> [list(DistributedSampler(range(5), 2, rank, shuffle=False)) for rank in (0, 1)]
        [[0, 2, 4], [1, 3, 0]]
    """

    def __init__(
        self,
        dataset: Any,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if num_replicas is None:
            num_replicas = _process_group().get_world_size()
        if rank is None:
            rank = _process_group().get_rank()
        if not 0 <= rank < num_replicas:
            raise ValueError(
                f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]"
            )
        self.dataset, self.drop_last = dataset, drop_last
        self.num_replicas, self.rank, self.epoch = num_replicas, rank, 0
        length = len(dataset)
        if drop_last and length % num_replicas:
            length -= num_replicas
        self.num_samples = math.ceil(length / num_replicas)
        self.total_size = self.num_samples * num_replicas
        self.shuffle, self.seed = shuffle, seed

    def _order(self) -> list[int]:
        """The indices of this epoch, the same in every process."""
        length = len(self.dataset)
        if not self.shuffle:
            return [*range(length)]
        generator = flambeau.Generator().manual_seed(self.epoch + self.seed)
        return flambeau.randperm(length, generator=generator).tolist()

    def __iter__(self) -> Iterator[int]:
        order, wanted = self._order(), self.total_size
        times = math.ceil(wanted / len(order)) if order and not self.drop_last else 1
        dealt = (order * times)[:wanted]  # the first ones again, where there are too few
        if len(dealt) != wanted:
            raise AssertionError(
                f"Number of indices ({len(dealt)}) does not match total_size ({wanted})"
            )
        share = dealt[self.rank :: self.num_replicas]
        if len(share) != self.num_samples:
            raise AssertionError(
                f"Number of subsampled indices ({len(share)}) does not match num_samples "
                f"({self.num_samples})"
            )
        return iter(share)

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Say which epoch comes next, so that its order differs from the others'."""
        self.epoch = epoch


def _process_group() -> Any:
    distributed = getattr(flambeau, "distributed", None)
    if distributed is None or not distributed.is_available():
        raise RuntimeError(
            "Requires distributed package to be available; without it, give num_replicas and rank"
        )
    return distributed
