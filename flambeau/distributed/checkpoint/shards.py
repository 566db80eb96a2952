"""Tensors as boxes: which pieces of a value this process holds, and which pieces meet."""

from typing import Any

from flambeau import Size, Tensor

from .metadata import ChunkStorageMetadata
from .planner import LoadItemType, MetadataIndex, ReadItem

__all__ = ["find_piece", "pieces_of", "read_items"]


def pieces_of(value: Tensor) -> list[tuple[ChunkStorageMetadata, Tensor]]:
    """(box within the whole, the values in it) for what this process holds of a tensor."""
    if not _is_spread(value):
        return [(ChunkStorageMetadata(Size([0] * value.dim()), value.size()), value)]
    spread: Any = value
    local = spread.to_local()
    offsets = _offsets(spread)
    if offsets is None or (local.numel() == 0 and spread.numel() > 0):
        return []  # the mesh is that of others, or this process has got nothing
    return [(ChunkStorageMetadata(Size(offsets), local.size()), local)]


def _is_spread(value):
    return hasattr(value, "to_local") and hasattr(value, "placements")


def _offsets(spread):
    """Where the part of this process begins, per dimension; None if it has no part."""
    from flambeau.distributed.tensor._utils import compute_local_shape_and_global_offset

    mesh = spread.device_mesh
    if mesh.get_coordinate() is None:
        return None
    return compute_local_shape_and_global_offset(spread.size(), mesh, spread.placements)[1]


def find_piece(value: Tensor, index: MetadataIndex) -> Tensor:
    """The piece that an index names."""
    pieces = pieces_of(value)
    if index.offset is None and len(pieces) == 1:
        return pieces[0][1]
    for box, piece in pieces:
        if box.offsets == index.offset:
            return piece
    raise ValueError(f"Could not find shard at '{index.offset}' for FQN: '{index.fqn}'")


def _common(a: ChunkStorageMetadata, b: ChunkStorageMetadata) -> tuple[list, list] | None:
    """(start, lengths) of what two boxes share, or None."""
    start = [max(x, y) for x, y in zip(a.offsets, b.offsets)]
    end = [min(x + m, y + n) for x, m, y, n in zip(a.offsets, a.sizes, b.offsets, b.sizes)]
    lengths = [e - s for s, e in zip(start, end)]
    return (start, lengths) if all(n > 0 for n in lengths) else None


def read_items(
    name: str, wanted: list[ChunkStorageMetadata], stored: list[ChunkStorageMetadata]
) -> list[ReadItem]:
    """What must be read of the stored pieces of a tensor to fill the wanted ones."""
    items = []
    for k, target in enumerate(wanted):
        for n, source in enumerate(stored):
            common = _common(target, source)
            if common is None:
                continue
            start, lengths = common
            items.append(
                ReadItem(
                    LoadItemType.TENSOR,
                    MetadataIndex(name, target.offsets, k),
                    Size([s - o for s, o in zip(start, target.offsets)]),
                    MetadataIndex(name, source.offsets, n),
                    Size([s - o for s, o in zip(start, source.offsets)]),
                    Size(lengths),
                )
            )
    return items
