"""How a tensor lies on the processes along one dimension of a mesh."""

from typing import Any

__all__ = ["Partial", "Placement", "Replicate", "Shard"]


class Placement:
    """One of Shard, Replicate and Partial."""

    def is_shard(self, dim: int | None = None) -> bool:
        """Does each process have a part (along a dimension of the tensor)?"""
        return isinstance(self, Shard) and (dim is None or self.dim == dim)

    def is_replicate(self) -> bool:
        """Does each process have all of it?"""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Does each process have a summand?"""
        return isinstance(self, Partial) and reduce_op in (None, self.reduce_op)

    def _key(self) -> tuple:
        return ()

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._key() == self._key()

    def __hash__(self) -> int:
        return hash((type(self).__name__, self._key()))


def part_of(size: int, parts: int, index: int) -> tuple[int, int]:
    """(length, begin) of a part of a dimension, cut as `torch.chunk` does; it may be empty."""
    step = -(-size // parts)
    begin = min(index * step, size)
    return min(step, size - begin), begin


class Shard(Placement):
    """Process k has the k-th part along a dimension, cut as `torch.chunk` does."""

    def __init__(self, dim: int) -> None:
        self.dim = dim

    @staticmethod
    def local_shard_size_and_offset(
        curr_local_size: int, num_chunks: int, rank: int
    ) -> tuple[int, int]:
        """The length of a process's part, and where it begins."""
        return part_of(curr_local_size, num_chunks, rank)

    def _local_shard_size_and_offset(
        self, curr_local_size: int, num_chunks: int, rank: int
    ) -> tuple[int, int]:
        return part_of(curr_local_size, num_chunks, rank)

    def _key(self) -> tuple:
        return (self.dim,)

    def __repr__(self) -> str:
        return f"Shard(dim={self.dim})"

    def __str__(self) -> str:
        return f"S({self.dim})"


class _StridedShard(Placement):
    """Process k has the k-th part of each of several groups; tensors cannot lie so yet."""

    def __init__(self, dim: int, *, split_factor: int = 1, sf: int | None = None) -> None:
        self.dim, self.split_factor = dim, split_factor if sf is None else sf

    def _key(self) -> tuple:
        return (self.dim, self.split_factor)

    def __repr__(self) -> str:
        return f"_StridedShard(dim={self.dim}, sf={self.split_factor})"

    def __str__(self) -> str:
        return f"_S({self.dim}, {self.split_factor})"


class Replicate(Placement):
    """Every process has all of it."""

    def __repr__(self) -> str:
        return "Replicate()"

    def __str__(self) -> str:
        return "R"


class Partial(Placement):
    """Every process has a summand (or, by reduce_op, a factor of an average, a candidate)."""

    def __init__(self, reduce_op: str = "sum") -> None:
        self.reduce_op = reduce_op

    def _key(self) -> tuple:
        return (self.reduce_op,)

    def __repr__(self) -> str:
        return f"Partial({self.reduce_op})"

    def __str__(self) -> str:
        return f"P({self.reduce_op})"


def short(placements: Any) -> str:
    """Placements as they are written in specs."""
    return "".join(map(str, placements))
