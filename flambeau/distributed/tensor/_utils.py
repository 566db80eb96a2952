"""Which part of a tensor lies where: the arithmetic of shards."""

from collections.abc import Sequence
from typing import Any

from flambeau._layout import Size
from flambeau.distributed.device_mesh import DeviceMesh
from flambeau.distributed.tensor.placement_types import Placement, Shard, part_of

__all__ = ["compute_local_shape", "compute_local_shape_and_global_offset", "part_of"]


def compute_local_shape_and_global_offset(
    global_shape: Sequence[int], mesh: DeviceMesh, placements: Sequence[Placement]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shape of this process's part, and where it begins in the whole."""
    place = mesh.get_coordinate()
    if place is None:
        return (0,), ()
    shape, offset = list(global_shape), [0] * len(global_shape)
    for k, placement in enumerate(placements):
        if isinstance(placement, Shard):
            d = placement.dim
            shape[d], begin = part_of(shape[d], mesh.size(k), place[k])
            offset[d] += begin
    return tuple(shape), tuple(offset)


def compute_local_shape(
    global_shape: Sequence[int], mesh: DeviceMesh, placements: Sequence[Placement]
) -> Size:
    """The shape of this process's part."""
    return Size(compute_local_shape_and_global_offset(global_shape, mesh, placements)[0])


def compute_global_tensor_info(
    tensor: Any, mesh: DeviceMesh, placements: Sequence[Placement]
) -> tuple[list[int], list[int]]:
    """(shape, strides) of the whole if every process has as much as this one."""
    shape, stride = list(tensor.shape), list(tensor.stride())
    for k, placement in enumerate(placements):
        if isinstance(placement, Shard):
            d, count = placement.dim, mesh.size(k)
            if d >= len(shape):
                raise RuntimeError(
                    f"Sharding dim {d} greater than tensor ndim {len(shape)} for placement "
                    f"number {k}"
                )
            shape[d] *= count
            own = stride[d]
            stride = [s * count if s > own else s for s in stride]
    return shape, stride


def normalized(placements: Any, mesh: DeviceMesh, ndim: int) -> tuple[Placement, ...]:
    """Placements as a tuple, with dimensions counted from the front."""
    found: list[Placement] = []
    for placement in placements:
        if not isinstance(placement, Placement):
            raise RuntimeError(f"expected placements, but got {placement!r}")
        if isinstance(placement, Shard) and placement.dim < 0:
            placement = Shard(placement.dim + ndim)
        found.append(placement)
    return tuple(found)
