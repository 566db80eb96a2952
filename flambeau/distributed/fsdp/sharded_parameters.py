"""A unit of `fully_shard`: each process has a part of every parameter, as a DTensor."""

from typing import Any, NamedTuple

import flambeau
from flambeau import Tensor, distributed
from flambeau.autograd.grad_mode import no_grad
from flambeau.distributed.device_mesh import DeviceMesh
from flambeau.distributed.fsdp.memory import fill, free, is_there, unnoticed
from flambeau.distributed.fsdp.policies import MixedPrecisionPolicy
from flambeau.distributed.fsdp.units import Unit
from flambeau.distributed.tensor._utils import part_of
from flambeau.distributed.tensor.dtensor import DTensor, made
from flambeau.distributed.tensor.placement_types import Replicate, Shard
from flambeau.nn.parameter import Parameter

__all__ = ["ShardedUnit"]


class Slot:
    """One parameter: where it is used, its shard and its whole."""

    def __init__(self, param: Any, places: list, dim: int, unit: "ShardedUnit") -> None:
        self.places, self.dim = places, dim
        local = param._local_tensor if isinstance(param, DTensor) else param
        self.shape, self.stride = local.shape, local.stride()
        count, size = unit.size, self.shape[dim] if self.shape else 1
        if dim and size % count:
            raise NotImplementedError(
                f"FSDP does not support uneven sharding on dim {dim}: {self.shape} "
                f"(world size: {count})"
            )
        self.step = -(-size // count)
        length, begin = part_of(size, count, unit.group.rank())
        with no_grad():
            part = (
                local.detach()
                .narrow(dim, begin, length)
                .clone(memory_format=flambeau.contiguous_format)
            )
        self.numel = self.step * (local.numel() // size if size else 0)  # of a padded part
        part.requires_grad_(param.requires_grad)
        mesh, placed = unit.layout(param, dim)
        self.sharded = made(part, mesh, placed, param.shape, param.stride())
        self.sharded._is_param = True
        self.make_leaf(unit.policy.param_dtype, param._spec if isinstance(param, DTensor) else None)

    def make_leaf(self, dtype: Any, spec: Any) -> None:
        """The whole parameter, without memory; spec: of a model that is spread already."""
        local = self.sharded._local_tensor
        self.dtype, self.device, self.spec = dtype or local.dtype, local.device, spec
        memory = flambeau.empty(self.shape, dtype=self.dtype, device=self.device)
        self.nbytes = memory.nbytes
        self.leaf = Parameter(memory, requires_grad=local.requires_grad)
        if self.device.type != "meta":
            free(self.leaf)
        self.whole: Any = self.leaf
        if spec is not None:
            self.whole = made(self.leaf, spec.mesh, spec.placements, spec.shape, spec.stride)
            self.whole._is_param = True

    def is_stale(self, dtype: Any) -> bool:
        """Has the shard been moved or converted since the whole was made?"""
        local = self.current()
        return self.device != local.device or self.dtype != (dtype or local.dtype)

    def current(self) -> Tensor:
        """The local shard; somebody may have put another one into the module."""
        module, name = self.places[0]
        held = module._parameters.get(name)
        if isinstance(held, DTensor) and held is not self.whole:
            self.sharded = held
        return self.sharded._local_tensor

    def padded(self) -> Tensor:
        """The shard, flat, as long as everybody's."""
        flat = self.current().detach().reshape(-1).to(self.dtype)
        missing = self.numel - flat.numel()
        return flambeau.cat([flat, flat.new_zeros(missing)]) if missing else flat

    def parts_to_whole(self, parts: Tensor) -> Tensor:
        """Everybody's shards, one per row, as one tensor."""
        shape = list(self.shape)
        if self.dim == 0:
            rows = parts.reshape(self.step * parts.shape[0], *shape[1:])
            return rows[: shape[0]]
        shape[self.dim] = self.step
        return flambeau.cat(list(parts.reshape(parts.shape[0], *shape)), self.dim)

    def whole_to_parts(self, whole: Tensor, count: int) -> Tensor:
        """The other way round, with zeros where shards are short."""
        if self.dim:
            return flambeau.stack([t.reshape(-1) for t in whole.chunk(count, self.dim)])
        missing = count * self.numel - whole.numel()
        flat = whole.reshape(-1)
        flat = flambeau.cat([flat, flat.new_zeros(missing)]) if missing else flat
        return flat.view(count, self.numel)


class _Bucket(NamedTuple):
    """What travels in one collective: slots of one dtype."""

    slots: list
    buffer: Tensor
    source: Tensor


class ShardedUnit(Unit):
    """Parameters of some modules, each cut along a dimension."""

    def __init__(
        self,
        found: dict,
        mesh: DeviceMesh,
        policy: MixedPrecisionPolicy,
        dim_of: Any = None,
    ) -> None:
        groups = mesh.get_all_groups()
        super().__init__(groups[-1], groups[0] if mesh.ndim > 1 else None)
        self.mesh, self.policy = mesh, policy
        self.slots = [
            Slot(p, places, _dim(p, dim_of, self.group.size()), self)
            for p, places in found.values()
        ]
        self.leaves = [s.leaf for s in self.slots]
        self.after_all_reduce: Any = None
        self._buckets: list[_Bucket] = []
        self._sums: list = []
        self._partial: dict[int, Tensor] = {}  # shards of sums that wait for other replicas
        self._install(False)
        self.listen()

    def layout(self, param: Any, dim: int) -> tuple:
        """(mesh, placements) of a shard."""
        own = (Replicate(), Shard(dim))[-self.mesh.ndim :]
        if not isinstance(param, DTensor):
            return self.mesh, own
        spec = param._spec
        return joined_mesh(spec.mesh, self.mesh), (*spec.placements, *own)

    def refresh(self) -> None:
        """Shards have been moved or converted from outside."""
        wanted = self.policy.param_dtype
        stale = [slot.is_stale(wanted) for slot in self.slots]  # each looks at its module
        if any(stale):
            for slot in self.slots:
                slot.make_leaf(wanted, slot.spec)
            self.leaves = [s.leaf for s in self.slots]
            self.listen()
        self._install(False)

    # -- gathering ---------------------------------------------------------------------------------
    def _gather_start(self) -> Any:
        works = []
        self._buckets = []
        for same in by_dtype(self.slots, lambda s: s.dtype):
            with no_grad():
                source = flambeau.cat([s.padded() for s in same]) if len(same) > 1 else (
                    same[0].padded().contiguous()
                )  # fmt: skip
            buffer = source.new_empty(self.size * source.numel())
            works.append(
                distributed.all_gather_into_tensor(buffer, source, group=self.group, async_op=True)
            )
            self._buckets.append(_Bucket(same, buffer, source))
        return Works(works)

    def _gather_finish(self) -> None:
        for bucket in self._buckets:
            rows, begin = bucket.buffer.view(self.size, -1), 0
            for slot in bucket.slots:
                parts = rows[:, begin : begin + slot.numel]
                begin += slot.numel
                if not is_there(slot.leaf, slot.nbytes):
                    fill(slot.leaf, slot.nbytes)
                with no_grad(), unnoticed(slot.leaf):
                    slot.leaf.detach().copy_(slot.parts_to_whole(parts))
        self._buckets = []

    def _install(self, whole: bool) -> None:
        for slot in self.slots:
            for module, name in slot.places:
                module._parameters[name] = slot.whole if whole else slot.sharded

    def _free(self) -> None:
        for slot in self.slots:
            free(slot.leaf)

    # -- gradients ---------------------------------------------------------------------------------
    def _reduce_start(self) -> list:
        works = []
        with no_grad():
            present = [s for s in self.slots if s.leaf.grad is not None]
            kinds = by_dtype(present, lambda s: self.policy.reduce_dtype or s.leaf.grad.dtype)
            for same in kinds:
                dtype = self.policy.reduce_dtype or same[0].leaf.grad.dtype
                parts = [s.whole_to_parts(s.leaf.grad.to(dtype), self.size) for s in same]
                source = flambeau.cat(parts, 1).contiguous().view(-1)
                for slot in same:
                    slot.leaf.grad = None
                out = source.new_empty(source.numel() // self.size)
                works.append(
                    distributed.reduce_scatter_tensor(out, source, group=self.group, async_op=True)
                )
                self._sums.append((same, out, source))
        return works

    def _reduce_finish(self) -> None:
        with no_grad():
            for slots, total, _ in self._sums:
                total = self._over_replicas(slots, total)
                if total is not None:
                    total /= self.factor()
                    self._spread(slots, total)
        self._sums = []

    def _over_replicas(self, slots, total):
        """Sums over replicas, too; None if that is to be done another time."""
        if self.replicas is None:
            return total
        key = id(slots[0])
        kept = self._partial.pop(key, None)
        total = total if kept is None else total + kept
        if not self.all_reduces:
            self._partial[key] = total
            return None
        distributed.all_reduce(total, group=self.replicas)
        if self.after_all_reduce is not None:
            self.after_all_reduce(total)
        return total

    def _spread(self, slots, total):
        begin = 0
        for slot in slots:
            local = slot.current()
            grad = total[begin : begin + local.numel()].view(local.shape).to(local.dtype)
            begin += slot.numel
            held = local.grad
            local.grad = grad.clone() if held is None else held + grad


class Works:
    """Several collectives under way as one."""

    def __init__(self, works: list) -> None:
        self.works = works

    def wait(self) -> None:
        """Wait for all."""
        for work in self.works:
            work.wait()


def by_dtype(slots: list, kind: Any) -> list[list]:
    """Slots in groups of one dtype."""
    found: dict = {}
    for slot in slots:
        found.setdefault(kind(slot), []).append(slot)
    return list(found.values())


def _dim(param, dim_of, count):
    """The dimension along which a parameter is cut."""
    placement = dim_of(param) if dim_of is not None else None
    if placement is None:
        return 0
    dim = placement.dim + param.dim() if placement.dim < 0 else placement.dim
    if dim >= param.dim():
        raise AssertionError(
            f"Shard dim {placement.dim} is invalid for {param.dim()}D tensor: {param.shape}"
        )
    return dim


def joined_mesh(first: DeviceMesh, second: DeviceMesh) -> DeviceMesh:
    """The mesh of two parts of one mesh, which cuts by the first before it cuts by the second."""
    root = first._root
    if root is None or second._root is not root or not root.mesh_dim_names:
        raise ValueError(
            "FSDP requires the DP and model parallel TP/EP mesh to have the same parent mesh but "
            f"got: DP's global mesh: {second._root} TP/EP's global mesh: {root}"
        )
    names = (*(first.mesh_dim_names or ()), *(second.mesh_dim_names or ()))
    every = root.mesh_dim_names
    place = root.get_coordinate() or []
    dims = [every.index(n) for n in names]
    index = tuple(slice(None) if d in dims else place[d] for d in range(len(every)))
    part = root.mesh[index]
    kept = [d for d in range(len(every)) if d in dims]
    return DeviceMesh(
        root.device_type,
        part.permute([kept.index(d) for d in dims]).contiguous(),
        mesh_dim_names=names,
        _groups=[root.get_group(d) for d in dims],
    )
