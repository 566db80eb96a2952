"""DTensor: a tensor that is spread over the processes of a mesh.

It has the shape of the whole and a local tensor. Ops come to `dispatch.py`, which lets them run on
local tensors; gradients are recorded there, too, so all that autograd keeps is the local tensor's.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import flambeau
from flambeau import Tensor, interposing
from flambeau._layout import Size, make_layout
from flambeau._tensor import make_tensor
from flambeau.distributed.device_mesh import DeviceMesh
from flambeau.distributed.tensor._utils import (
    compute_global_tensor_info,
    compute_local_shape,
    normalized,
)
from flambeau.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard, short
from flambeau.distributed.tensor.redistribution import of_gradient, redistributed
from flambeau.interposing.overriding import PASSING, disabled, notice_tensor
from flambeau.storage import new_storage

__all__ = ["DTensor", "DTensorSpec", "TensorMeta"]


class TensorMeta(NamedTuple):
    """What the whole tensor is like."""

    shape: Size
    stride: tuple[int, ...]
    dtype: Any


class DTensorSpec:
    """The mesh, the placements and the facts of a DTensor."""

    def __init__(
        self, mesh: DeviceMesh, placements: tuple[Placement, ...], tensor_meta: TensorMeta
    ) -> None:
        self.mesh, self.placements, self.tensor_meta = mesh, placements, tensor_meta

    device_mesh = property(lambda self: self.mesh)
    shape = property(lambda self: self.tensor_meta.shape)
    stride = property(lambda self: self.tensor_meta.stride)
    ndim = property(lambda self: len(self.tensor_meta.shape))

    def is_replicated(self) -> bool:
        """Does every process have all of it?"""
        return all(p.is_replicate() for p in self.placements)

    def is_sharded(self) -> bool:
        """Does no process have all of it?"""
        return any(p.is_shard() for p in self.placements)

    @property
    def num_shards(self) -> int:
        """Into how many parts it is cut."""
        count = 1
        for k, placement in enumerate(self.placements):
            count *= self.mesh.size(k) if placement.is_shard() else 1
        return count

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DTensorSpec) and (
            self.mesh == other.mesh
            and self.placements == other.placements
            and self.tensor_meta == other.tensor_meta
        )

    def __hash__(self) -> int:
        return hash((self.mesh, self.placements, self.tensor_meta.shape))

    def __repr__(self) -> str:
        shape = list(self.tensor_meta.shape)
        return f"Spec({self.tensor_meta.dtype}{shape}({short(self.placements)}))"


class _Nowhere:
    """Memory in name: what a DTensor as a whole points at, and nobody reads."""

    storage: Any = None


def nowhere(nbytes: int) -> Any:
    """At least nbytes that are never touched; one block serves all DTensors."""
    if _Nowhere.storage is None or _Nowhere.storage.nbytes < nbytes:
        _Nowhere.storage = new_storage(nbytes)
    return _Nowhere.storage


# -- autograd.backward and autograd.grad see local tensors -----------------------------------------


class _Passes(interposing.Handler):
    kinds = frozenset({"python"})
    level = interposing.ARGUMENTS
    sees = "all"
    all_threads = is_lasting = forks = True
    passing = PASSING

    def wants(self, place: Any) -> bool:
        return str(place.naming) in ("torch.autograd.backward", "torch.autograd.grad")

    def around(self, name: Any, function: Callable, args: tuple, kwargs: dict) -> Any:
        inputs = args[1] if len(args) > 1 else kwargs.get("inputs")
        given = function(*localized(args), **localized(kwargs))
        if not name.endswith("grad") or inputs is None:
            return given
        inputs = (inputs,) if isinstance(inputs, Tensor) else inputs
        return tuple(
            gradient_of(t, g) if isinstance(t, DTensor) and g is not None else g
            for t, g in zip(inputs, given)
        )


_PASSES = _Passes()


def localized(value: Any) -> Any:
    """Arguments with local tensors in place of DTensors; partial ones are added up."""
    if isinstance(value, DTensor):
        return value._local_tensor
    if isinstance(value, dict):
        return {k: localized(v) for k, v in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(localized, value))
    return value


def gradient_of(t: "DTensor", local: Tensor) -> "DTensor":
    """A local gradient of a DTensor as a DTensor."""
    return made(local, t._spec.mesh, of_gradient(t._spec.placements), t.shape, t._spec.stride)


def made(
    local: Tensor,
    mesh: DeviceMesh,
    placements: tuple[Placement, ...],
    shape: Sequence[int],
    stride: Sequence[int],
    cls: Any = None,
) -> "DTensor":
    """A DTensor around a local tensor."""
    shape, stride = Size(shape), tuple(stride)
    reach = 1 + sum((n - 1) * s for n, s in zip(shape, stride))
    layout = make_layout(shape, stride, local.dtype, local.device)
    out = make_tensor(layout, nowhere(max(reach, 0) * local.dtype.itemsize), 0, cls or DTensor)
    out._local_tensor = local
    out._spec = DTensorSpec(mesh, placements, TensorMeta(shape, stride, local.dtype))
    if not interposing.is_pushed(_PASSES):
        interposing.push(_PASSES)
        notice_tensor(DTensor)
    return out


class DTensor(Tensor):
    """A tensor spread over a mesh; made by `distribute_tensor` or `DTensor.from_local`.

    Example:
        >>> import flambeau.distributed as dist
        >>> from flambeau.distributed.tensor import Shard, distribute_tensor, init_device_mesh
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> mesh = init_device_mesh("cpu", (1,))
        >>> x = distribute_tensor(flambeau.ones(4, 2), mesh, [Shard(0)])
        >>> x.sum().full_tensor()
        tensor(8.)
        >>> dist.destroy_process_group()
    """

    __torch_function__ = disabled
    _local_tensor: Tensor
    _spec: DTensorSpec
    _is_param: bool

    def __new__(
        cls, local_tensor: Tensor, spec: DTensorSpec, *, requires_grad: bool = False
    ) -> Any:
        if not isinstance(local_tensor, Tensor):
            raise TypeError(
                "_dtensor__new__(): argument 'local_tensor' (position 2) must be Tensor, not "
                f"{type(local_tensor).__name__}"
            )
        local = local_tensor.detach().requires_grad_(requires_grad)
        return made(local, spec.mesh, spec.placements, spec.shape, spec.stride, cls)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    @classmethod
    def __torch_dispatch__(
        cls, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        from flambeau.distributed.tensor.dispatch import run

        return run(func, args, kwargs or {})

    # -- making and changing -----------------------------------------------------------------------
    @staticmethod
    def from_local(
        local_tensor: Tensor,
        device_mesh: DeviceMesh | None = None,
        placements: Sequence[Placement] | None = None,
        *,
        run_check: bool = False,
        shape: Any = None,
        stride: Any = None,
        grad_placements: Sequence[Placement] | None = None,
    ) -> "DTensor":
        """The DTensor whose parts are the processes' local tensors."""
        mesh = device_mesh if device_mesh is not None else everybody()
        placements = [Replicate()] * mesh.ndim if placements is None else placements
        placed = normalized(placements, mesh, local_tensor.dim())
        if (shape is None) != (stride is None):
            raise RuntimeError(
                "Please pass both shape and stride, or none of them: "
                f"got shape:{shape}, stride:{stride}"
            )
        if shape is None:
            shape, stride = compute_global_tensor_info(local_tensor, mesh, placed)
        if run_check:
            local_tensor = _checked(local_tensor, mesh, placed)
        if grad_placements is not None:
            back = normalized(grad_placements, mesh, local_tensor.dim())
            # what flows back to the local tensor lies as the caller says
            local_tensor = _flowing(local_tensor, shape, mesh, placed, back)
        elif local_tensor.requires_grad:
            local_tensor = local_tensor.view(local_tensor.shape)
        return made(local_tensor, mesh, placed, shape, stride or ())

    def to_local(self, *, grad_placements: Sequence[Placement] | None = None) -> Tensor:
        """This process's part; grad_placements says how gradients that come back to it lie."""
        local, spec = self._local_tensor, self._spec
        if grad_placements is not None:
            back = normalized(grad_placements, spec.mesh, self.dim())
            return redistributed(
                local, spec.shape, spec.mesh, spec.placements, spec.placements, back
            )
        if not flambeau.is_grad_enabled():
            return local.detach() if local.requires_grad else local
        return local.view(local.shape) if local.requires_grad else local

    def full_tensor(self, *, grad_placements: Sequence[Placement] | None = None) -> Tensor:
        """All of it, on every process."""
        whole = self.redistribute(placements=[Replicate()] * self._spec.mesh.ndim)
        return whole.to_local(grad_placements=grad_placements)

    def redistribute(
        self,
        device_mesh: DeviceMesh | None = None,
        placements: Sequence[Placement] | None = None,
        *,
        async_op: bool = False,
        forward_dtype: Any = None,
        backward_dtype: Any = None,
    ) -> "DTensor":
        """The same tensor with other placements; backward goes the way back."""
        spec = self._spec
        if placements is None:
            raise RuntimeError("placements is needed for redistribute!")
        if device_mesh is not None and device_mesh != spec.mesh:
            raise NotImplementedError("Cross device mesh comm not supported yet!")
        placed = normalized(placements, spec.mesh, self.dim())
        if len(placed) != spec.mesh.ndim:
            raise ValueError(
                "`placements` must have the same length as `device_mesh.ndim`! Found placements "
                f"length: {len(placed)}, and device_mesh.ndim: {spec.mesh.ndim}."
            )
        for now, then in zip(spec.placements, placed):
            if isinstance(then, Partial) and now != then:
                raise RuntimeError(
                    f"Can not redistribute from {now} to {then}, redistributing to Partial is for "
                    "internal use only!"
                )
        return moved(self, placed)

    @property
    def device_mesh(self) -> DeviceMesh:
        """Where it lies."""
        return self._spec.mesh

    @property
    def placements(self) -> tuple[Placement, ...]:
        """How it lies along each dimension of the mesh."""
        return self._spec.placements

    # -- what autograd keeps -----------------------------------------------------------------------
    requires_grad = property(
        lambda self: self._local_tensor.requires_grad,
        lambda self, value: setattr(self._local_tensor, "requires_grad", value),
    )
    grad_fn = property(lambda self: self._local_tensor.grad_fn)
    is_leaf = property(lambda self: self._local_tensor.is_leaf)
    _version = property(lambda self: self._local_tensor._version)
    retains_grad = property(lambda self: self._local_tensor.retains_grad)

    def requires_grad_(self, requires_grad: bool = True) -> "DTensor":
        """Record what is computed with it."""
        self._local_tensor.requires_grad_(requires_grad)
        return self

    def _get_grad(self):
        local = self._local_tensor.grad
        if local is None:
            return None
        kept = self.__dict__.get("_wrapped_grad")
        if kept is None or kept._local_tensor is not local:
            kept = self._wrapped_grad = gradient_of(self, local)
        return kept

    def _set_grad(self, value):
        if value is not None and not isinstance(value, DTensor):
            raise RuntimeError(
                f"assigned grad has data of a different type: expected DTensor, got {type(value)}"
            )
        if value is not None:
            value = moved(value, of_gradient(self._spec.placements))
        self._local_tensor.grad = None if value is None else value._local_tensor
        self._wrapped_grad = value

    grad = property(_get_grad, _set_grad, lambda self: self._set_grad(None))

    def _get_data(self):
        spec = self._spec
        return made(self._local_tensor.data, spec.mesh, spec.placements, spec.shape, spec.stride)

    def _set_data(self, value):
        if not isinstance(value, DTensor):
            raise RuntimeError("data of a DTensor has to be a DTensor")
        self._local_tensor.data = value._local_tensor
        self._spec, self._layout, self._storage = value._spec, value._layout, value._storage

    data = property(_get_data, _set_data)

    def backward(self, gradient: Any = None, *args: Any, **kwargs: Any) -> None:
        """Gradients of this tensor with respect to leaves."""
        start = gradient
        if isinstance(gradient, DTensor):
            start = moved(gradient, of_gradient(self._spec.placements))._local_tensor
        elif gradient is None and self.numel() == 1:
            start = flambeau.ones_like(self._local_tensor.detach())
        self._local_tensor.backward(start, *args, **kwargs)

    def retain_grad(self) -> None:
        """Keep .grad though this is no leaf."""
        self._local_tensor.retain_grad()

    def register_hook(self, hook: Callable) -> Any:
        """hook(grad) when the gradient is known."""

        def told(local):
            given = hook(gradient_of(self, local))
            return given._local_tensor if isinstance(given, DTensor) else given

        return self._local_tensor.register_hook(told)

    def register_post_accumulate_grad_hook(self, hook: Callable) -> Any:
        """hook(tensor) after .grad has been updated."""
        return self._local_tensor.register_post_accumulate_grad_hook(lambda _: hook(self))

    def detach_(self) -> "DTensor":
        """Leave the graph."""
        self._local_tensor.detach_()
        return self

    # -- values ------------------------------------------------------------------------------------
    def item(self) -> Any:
        """The value of a tensor of one element."""
        if self.numel() != 1:
            raise RuntimeError(
                f"a Tensor with {self.numel()} elements cannot be converted to Scalar"
            )
        return self.detach().full_tensor().item()

    def __bool__(self) -> bool:
        return bool(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __index__(self) -> int:
        return self.item().__index__()

    def tolist(self) -> Any:
        raise RuntimeError(".tolist() is not supported for tensor subclasses, got DTensor")

    def numpy(self, *, force: bool = False) -> Any:
        raise RuntimeError(".numpy() is not supported for tensor subclasses.")

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        return self.numpy()

    def data_ptr(self) -> int:
        return 0

    def untyped_storage(self) -> Any:
        return self._local_tensor.untyped_storage()

    def share_memory_(self) -> "DTensor":
        self._local_tensor.share_memory_()
        return self

    def is_shared(self) -> bool:
        return self._local_tensor.is_shared()

    def stride(self, dim: int | None = None) -> Any:
        return self._spec.stride if dim is None else self._spec.stride[dim]

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if self.dim() == 0 and spec else repr(self)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        local = self._local_tensor
        shown = local.item() if local.dim() == 0 else local.detach()
        return (
            f"DTensor(local_tensor={shown}, device_mesh={self._spec.mesh}, "
            f"placements={self._spec.placements})"
        )

    def __deepcopy__(self, memo: dict) -> "DTensor":
        if id(self) not in memo:
            spec, kept = self._spec, self._local_tensor
            local = kept.detach().clone().requires_grad_(kept.requires_grad)
            copied = made(local, spec.mesh, spec.placements, spec.shape, spec.stride, type(self))
            if self.__dict__.get("_is_param"):
                copied._is_param = True
            memo[id(self)] = copied
            if self.grad is not None:
                copied.grad = self.grad.detach().clone()
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> Any:
        spec = self._spec
        facts = spec.mesh.device_type, spec.mesh.mesh.tolist(), spec.mesh.mesh_dim_names
        return _rebuilt, (
            self._local_tensor.detach(),
            facts,
            spec.placements,
            tuple(spec.shape),
            spec.stride,
            self.requires_grad,
            "_is_param" in self.__dict__,
        )


def _rebuilt(local, facts, placements, shape, stride, requires_grad, is_param):
    """A DTensor from a file, on a mesh of the same ranks."""
    kind, ranks, names = facts
    mesh = known_mesh(kind, ranks, names)
    out = made(local.requires_grad_(requires_grad), mesh, placements, shape, stride)
    if is_param:
        out._is_param = True
    return out


_meshes: dict = {}


def known_mesh(kind: str, ranks: Any, names: Any) -> DeviceMesh:
    """A mesh of some ranks, made once."""
    key = kind, str(ranks), names
    if key not in _meshes:
        _meshes[key] = DeviceMesh(kind, ranks, mesh_dim_names=names)
    return _meshes[key]


def everybody() -> DeviceMesh:
    """The mesh of all processes, for calls that name none."""
    from flambeau.distributed.device_mesh import current_mesh

    return current_mesh()


def _flowing(local, shape, mesh, placed, back):
    """A local tensor to which gradients come with other placements than its own."""
    if not local.requires_grad:
        return local
    out = local.view(local.shape)
    out.register_hook(lambda g: redistributed(g, shape, mesh, of_gradient(placed), back))
    return out


def _checked(local, mesh, placed):
    """Replicated tensors become those of the first process along each dimension."""
    from flambeau import distributed

    copied = local.detach().clone(memory_format=flambeau.contiguous_format)
    for k, placement in enumerate(placed):
        if isinstance(placement, Replicate):
            distributed.broadcast(copied, group=mesh.get_group(k), group_src=0)
    return local + (copied - local).detach() if local.requires_grad else copied


def moved(t: DTensor, placed: tuple[Placement, ...]) -> DTensor:
    """A DTensor with other placements."""
    spec = t._spec
    if placed == spec.placements:
        return t
    local = redistributed(t._local_tensor, spec.shape, spec.mesh, spec.placements, placed)
    return made(local, spec.mesh, placed, spec.shape, spec.stride)


def local_shape_of(t: DTensor) -> Size:
    """The shape that this process's part has."""
    return compute_local_shape(t.shape, t._spec.mesh, t._spec.placements)


def is_cut(t: DTensor, dim: int) -> bool:
    """Is a dimension spread over processes?"""
    return any(isinstance(p, Shard) and p.dim == dim for p in t._spec.placements)
