"""Plain tensors and modules become distributed ones; new DTensors."""

from collections.abc import Callable, Sequence
from typing import Any

import flambeau
from flambeau import Tensor, distributed
from flambeau._layout import Size, dense_layout
from flambeau.distributed.device_mesh import DeviceMesh, current_mesh
from flambeau.distributed.tensor._utils import compute_local_shape, normalized
from flambeau.distributed.tensor.dispatch import drawing
from flambeau.distributed.tensor.dtensor import DTensor, made
from flambeau.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard
from flambeau.distributed.tensor.redistribution import own_part
from flambeau.nn.modules.module import Module
from flambeau.nn.parameter import Parameter

__all__ = [
    "distribute_module",
    "distribute_tensor",
    "empty",
    "full",
    "ones",
    "rand",
    "randn",
    "zeros",
]


def _placed(placements, mesh, ndim):
    placements = [Replicate()] * mesh.ndim if placements is None else placements
    if len(placements) != mesh.ndim:
        raise ValueError(
            "`placements` must have the same length as `device_mesh.ndim`! Found placements "
            f"length: {len(placements)}, and device_mesh.ndim: {mesh.ndim}."
        )
    placed = normalized(placements, mesh, ndim)
    for placement in placed:
        if isinstance(placement, Shard):
            assert placement.dim < ndim, (
                f"Sharding dim {placement.dim} greater than tensor ndim {ndim}"
            )
    return placed


def distribute_tensor(
    tensor: Tensor,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
    *,
    src_data_rank: int | None = 0,
) -> DTensor:
    """A tensor cut or copied to the processes of a mesh.

    Args:
        tensor: a leaf; the values are those of process src_data_rank along each dimension of the
            mesh, or every process's own where it is None.
        placements: one per dimension of the mesh; replicated if not given.
    """
    mesh = device_mesh if device_mesh is not None else current_mesh()
    if not tensor.is_leaf:
        raise RuntimeError(
            "`distribute_tensor` should be used to distribute leaf tensors! but got non-leaf "
            "tensor!"
        )
    if isinstance(tensor, DTensor):
        if tensor.device_mesh != mesh:
            raise ValueError(
                f"Cannot distribute a DTensor with device mesh {tensor.device_mesh} to a different "
                f"device mesh {mesh}."
            )
        if placements is not None and tensor.placements != tuple(placements):
            raise ValueError(
                f"Cannot distribute a DTensor with placements {tensor.placements} to a different "
                f"placements {list(placements)}. do you want to call `redistribute` instead?"
            )
        return tensor
    placed = _placed(placements, mesh, tensor.dim())
    local = tensor.detach()
    for k, placement in enumerate(placed) if mesh.get_coordinate() is not None else ():
        group = mesh.get_group(k)
        if isinstance(placement, Partial):
            if placement.reduce_op != "sum" and placement.reduce_op != "avg":
                raise RuntimeError(f"cannot distribute a tensor as {placement}")
            local = local if group.rank() == 0 else flambeau.zeros_like(local)
            continue
        if src_data_rank is not None and group.size() > 1:
            local = local.clone(memory_format=flambeau.contiguous_format)
            distributed.broadcast(local, group=group, group_src=src_data_rank)
        if isinstance(placement, Shard):
            local = own_part(local, placement.dim, group)
    if mesh.get_coordinate() is None:
        local = local.new_empty((0,))
    if local.untyped_storage() == tensor.untyped_storage():
        local = local.clone()
    local.requires_grad_(tensor.requires_grad)
    out = made(local, mesh, placed, tensor.shape, tensor.stride())
    if isinstance(tensor, Parameter):
        out._is_param = True
    return out


def distribute_module(
    module: Module,
    device_mesh: DeviceMesh | None = None,
    partition_fn: Callable | None = None,
    input_fn: Callable | None = None,
    output_fn: Callable | None = None,
) -> Module:
    """A module whose parameters are DTensors.

    Args:
        partition_fn: (name, submodule, mesh), replaces parameters by DTensors; what it leaves alone
            is replicated.
        input_fn: (module, inputs, mesh) before each forward.
        output_fn: (module, outputs, mesh) after each forward.
    """
    mesh = device_mesh if device_mesh is not None else current_mesh()
    if getattr(module, "_distribute_module_applied", False):
        raise RuntimeError(
            "distribute_module should only be called once on a module, but it has already been "
            "called on this module!"
        )
    for name, part in module.named_modules():
        if partition_fn is not None:
            partition_fn(name, part, mesh)
        _replicate(part, mesh)
    if input_fn is not None:
        module.register_forward_pre_hook(lambda m, inputs: input_fn(m, inputs, mesh))
    if output_fn is not None:
        module.register_forward_hook(lambda m, inputs, outputs: output_fn(m, outputs, mesh))
    module._distribute_module_applied = True
    return module


def _replicate(module, mesh):
    whole = [Replicate()] * mesh.ndim
    for name, p in module._parameters.items():
        if p is not None and not isinstance(p, DTensor):
            module.register_parameter(name, Parameter(distribute_tensor(p.data, mesh, whole),
                                                      requires_grad=p.requires_grad))  # fmt: skip
    for name, b in module._buffers.items():
        if b is not None and not isinstance(b, DTensor):
            module._buffers[name] = distribute_tensor(b, mesh, whole)


# -- new ones --------------------------------------------------------------------------------------


def _new(function, name, size, mesh, placements, requires_grad, dtype, *values):
    shape = Size(size[0] if len(size) == 1 and isinstance(size[0], (tuple, list)) else size)
    mesh = mesh if mesh is not None else current_mesh()
    placed = _placed(placements, mesh, len(shape))
    with drawing(name, mesh, list(placed)):
        local = function(compute_local_shape(shape, mesh, placed), *values, dtype=dtype)
    stride = dense_layout(shape, local.dtype, local.device).strides
    return made(local.requires_grad_(requires_grad), mesh, placed, shape, stride)


def _factory(name, text):
    def made_new(
        *size: Any,
        dtype: Any = None,
        layout: Any = None,
        requires_grad: bool = False,
        device_mesh: DeviceMesh | None = None,
        placements: Sequence[Placement] | None = None,
    ) -> DTensor:
        function = getattr(flambeau, name)
        return _new(function, name, size, device_mesh, placements, requires_grad, dtype)

    made_new.__name__ = made_new.__qualname__ = name
    made_new.__doc__ = text
    return made_new


zeros = _factory("zeros", "A DTensor of zeros.")
ones = _factory("ones", "A DTensor of ones.")
empty = _factory("empty", "A DTensor whose values are not set.")
rand = _factory("rand", "A DTensor of numbers drawn evenly from 0 to 1.")
randn = _factory("randn", "A DTensor of numbers drawn from the normal distribution.")


def full(
    size: Any,
    fill_value: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    requires_grad: bool = False,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
) -> DTensor:
    """A DTensor filled with a value."""
    return _new(
        flambeau.full, "full", (size,), device_mesh, placements, requires_grad, dtype, fill_value
    )
