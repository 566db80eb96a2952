"""DeviceMesh: processes as an array, with a group along each of its dimensions."""

from typing import Any

import flambeau
from flambeau import Tensor

from .groups import (
    ProcessGroup,
    get_process_group_ranks,
    get_rank,
    get_world_size,
    init_process_group,
    is_initialized,
    new_group,
)

__all__ = ["DeviceMesh", "init_device_mesh"]


class DeviceMesh:
    """An array of ranks.

    Args:
        device_type: "cpu".
        mesh: the ranks, nested as the array is.
        mesh_dim_names: a name per dimension; `mesh["dp"]` is then the mesh along that dimension.
    """

    def __init__(
        self,
        device_type: str,
        mesh: Any,
        *,
        mesh_dim_names: tuple[str, ...] | None = None,
        _groups: list | None = None,
    ) -> None:
        self.device_type = device_type
        self.mesh = mesh if isinstance(mesh, Tensor) else flambeau.tensor(mesh)
        self.mesh_dim_names = tuple(mesh_dim_names) if mesh_dim_names else None
        if not is_initialized():
            init_process_group()
        place = self.mesh.eq(get_rank()).nonzero()
        self._coordinate = place[0].tolist() if len(place) else None
        self._groups = self._made() if _groups is None else _groups
        self._root: DeviceMesh | None = None  # the mesh that this one is a part of

    def _made(self):
        """A group along each dimension; all processes make all of them, in the same order."""
        mine: list = []
        for dim in range(self.mesh.dim()):
            lines = self.mesh.movedim(dim, -1).reshape(-1, self.mesh.shape[dim]).tolist()
            found = None
            for line in lines:
                made = new_group(line)
                if isinstance(made, ProcessGroup):
                    found = made
            mine.append(found)
        return mine

    @staticmethod
    def from_group(
        group: Any, device_type: str, mesh: Any = None, *, mesh_dim_names: Any = None
    ) -> "DeviceMesh":
        """The mesh of a group's members, or of several groups with their mesh."""
        if isinstance(group, ProcessGroup):
            ranks = get_process_group_ranks(group)
            return DeviceMesh(device_type, ranks, mesh_dim_names=mesh_dim_names, _groups=[group])
        return DeviceMesh(device_type, mesh, mesh_dim_names=mesh_dim_names, _groups=list(group))

    @property
    def ndim(self) -> int:
        """How many dimensions there are."""
        return self.mesh.dim()

    @property
    def shape(self) -> tuple[int, ...]:
        """How many processes there are along each."""
        return tuple(self.mesh.shape)

    def size(self, mesh_dim: int | None = None) -> int:
        """How many processes there are, in all or along a dimension."""
        return self.mesh.numel() if mesh_dim is None else self.mesh.shape[mesh_dim]

    def get_rank(self) -> int:
        """The rank of this process in the world."""
        return get_rank()

    def get_coordinate(self) -> list[int] | None:
        """Where this process is; None if it is not."""
        return self._coordinate

    def _dim(self, mesh_dim):
        if isinstance(mesh_dim, str):
            names = self.mesh_dim_names or ()
            if mesh_dim not in names:
                raise KeyError(f"Invalid mesh_dim_name {mesh_dim}: the mesh has {names}")
            return names.index(mesh_dim)
        if mesh_dim is None:
            if self.ndim > 1:
                raise RuntimeError(
                    f"Found the DeviceMesh have {self.ndim} dimensions. Optional kwarg `mesh_dim` "
                    "needs to be specified when device_mesh.ndim > 1."
                )
            return 0
        return mesh_dim

    def get_group(self, mesh_dim: int | str | None = None) -> Any:
        """The group along a dimension that this process is in."""
        return self._groups[self._dim(mesh_dim)]

    def get_all_groups(self) -> list:
        """The groups along all dimensions."""
        return list(self._groups)

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """The place of this process along a dimension."""
        assert self._coordinate is not None
        return self._coordinate[self._dim(mesh_dim)]

    def __getitem__(self, names: str | tuple[str, ...]) -> "DeviceMesh":
        """The mesh along some dimensions, through this process."""
        if not self.mesh_dim_names:
            raise RuntimeError("Cannot slice a DeviceMesh without mesh_dim_names!")
        chosen = (names,) if isinstance(names, str) else tuple(names)
        dims = [self._dim(name) for name in chosen]
        assert self._coordinate is not None
        index = tuple(
            slice(None) if d in dims else place for d, place in enumerate(self._coordinate)
        )
        part = DeviceMesh(
            self.device_type,
            self.mesh[index],
            mesh_dim_names=tuple(n for n in self.mesh_dim_names if n in chosen),
            _groups=[self._groups[d] for d in sorted(dims)],
        )
        part._root = self if self._root is None else self._root
        return part

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeviceMesh) and (
            self.device_type == other.device_type
            and self.mesh_dim_names == other.mesh_dim_names
            and self.mesh.tolist() == other.mesh.tolist()
        )

    def __hash__(self) -> int:
        return hash((self.device_type, self.mesh_dim_names, str(self.mesh.tolist())))

    def __enter__(self) -> "DeviceMesh":
        """The mesh of calls that name none."""
        _entered.append(self)
        return self

    def __exit__(self, *error: Any) -> None:
        _entered.pop()

    def __repr__(self) -> str:
        shape: Any = self.shape
        if self.mesh_dim_names:
            shape = "(" + ", ".join(f"{n}={k}" for n, k in zip(self.mesh_dim_names, shape)) + ")"
        return f"DeviceMesh({shape}, '{self.device_type}', stride={self.mesh.stride()})"


_entered: list[DeviceMesh] = []


def current_mesh() -> DeviceMesh:
    """The mesh that has been entered."""
    if not _entered:
        raise RuntimeError("No device mesh is currently active!")
    return _entered[-1]


def init_device_mesh(
    device_type: str,
    mesh_shape: tuple[int, ...],
    *,
    mesh_dim_names: tuple[str, ...] | None = None,
    backend_override: Any = None,
) -> DeviceMesh:
    """All processes as an array of a shape, ranks in order."""
    if mesh_dim_names is not None:
        if len(set(mesh_dim_names)) != len(mesh_dim_names):
            raise RuntimeError(
                "Each mesh_dim_name must be unique. Found repeated mesh_dim_name in "
                f"mesh_dim_names {mesh_dim_names}"
            )
        if len(mesh_shape) != len(mesh_dim_names):
            raise RuntimeError(
                "mesh_shape and mesh_dim_names should have same length! Found "
                f"len(mesh_dim_names): {len(mesh_dim_names)} and len(mesh_shape):{len(mesh_shape)}."
            )
    if not device_type.isalpha():
        raise RuntimeError(
            f"Device type with index is not supported but got {device_type}. ",
            "If you maintained a 'torch.device' object, it's recommended to pass in 'device.type'.",
        )
    if not is_initialized():
        init_process_group()
    count = 1
    for extent in mesh_shape:
        count *= extent
    if count > get_world_size():
        raise RuntimeError(
            f"Mesh should not be bigger than default world size {get_world_size()}, but found "
            f"{count} ranks!"
        )
    ranks = flambeau.arange(count).view(mesh_shape)
    return DeviceMesh(device_type, ranks, mesh_dim_names=mesh_dim_names)
