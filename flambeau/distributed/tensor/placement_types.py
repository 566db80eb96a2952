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


class Shard(Placement):
    """Process k has the k-th part along a dimension, cut as `torch.chunk` does."""

    def __init__(self, dim: int) -> None:
        self.dim = dim

    def _key(self) -> tuple:
        return (self.dim,)

    def __repr__(self) -> str:
        return f"Shard(dim={self.dim})"

    def __str__(self) -> str:
        return f"S({self.dim})"


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
