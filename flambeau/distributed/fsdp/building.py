"""What `FullyShardedDataParallel` needs before it shards: groups, exceptions, values."""

import os
from typing import Any

import flambeau
from flambeau import Tensor, distributed
from flambeau.distributed.fsdp.api import MixedPrecision, ShardingStrategy
from flambeau.distributed.fsdp.units import cast_floats, tensors_in
from flambeau.distributed.fsdp.wrap import CustomPolicy, wrap_parts
from flambeau.distributed.groups import given_group
from flambeau.nn.modules.module import Module
from flambeau.nn.parallel.reducer import broadcast_coalesced

HYBRID = (ShardingStrategy.HYBRID_SHARD, ShardingStrategy._HYBRID_SHARD_ZERO2)


def ignored(modules: Any, states: Any) -> tuple[set[int], set[int]]:
    """(ids of modules that are left alone, ids of parameters)."""
    given = list(modules or ()) + list(states or ())
    some = {id(m): m for top in given if isinstance(top, Module) for m in top.modules()}
    params = {id(p) for p in given if isinstance(p, Tensor)}
    params |= {id(p) for m in some.values() for p in m.parameters(recurse=False)}
    return set(some), params


def groups(process_group: Any, mesh: Any, strategy: Any) -> tuple:
    """(the group that shares, the group of replicas or None)."""
    if mesh is not None:
        if process_group is not None:
            raise ValueError("Cannot pass both process_group and device_mesh at the same time.")
        every = mesh.get_all_groups()
        if strategy in HYBRID and mesh.ndim != 2:
            raise ValueError(
                f"Device mesh for hybrid sharding must have two dimensions, not {mesh.ndim}"
            )
        return (every[-1], every[0]) if strategy in HYBRID else (every[-1], None)
    if strategy not in HYBRID:
        return given_group(process_group), None
    if process_group is None:
        local = min(distributed.get_world_size(), _processes_here())
        mine, every = distributed.new_subgroups(local)
        ranks = [distributed.get_process_group_ranks(g) for g in every]
        others = [distributed.new_group(list(row)) for row in zip(*ranks)]
        return mine, others[distributed.get_rank(mine)]
    if not (isinstance(process_group, (tuple, list)) and len(process_group) == 2):
        raise ValueError(
            "Expected process_group to be passed in as either None or "
            f"Tuple[dist.ProcessGroup, dist.ProcessGroup] but got {type(process_group)}"
        )
    return tuple(process_group)


def _processes_here():
    """How many processes a machine runs."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", distributed.get_world_size()))


def owned(module: Any) -> list[Module]:
    """A module and those below it, but for wrapped ones."""
    found: dict[int, Module] = {}

    def visit(m):
        if "_unit" not in m.__dict__ and id(m) not in found:
            found[id(m)] = m
            for child in m.children():
                visit(child)

    visit(module)
    return list(found.values())


def materialize(modules: list[Module], param_init_fn: Any) -> None:
    """Parameters on the meta device get memory and values."""
    for m in modules:
        own = [*m.parameters(recurse=False), *m.buffers(recurse=False)]
        if any(t.is_meta for t in own):
            if param_init_fn is not None:
                param_init_fn(m)
            else:
                m.to_empty(device="cpu", recurse=False)
                m.reset_parameters()


def synchronize(modules: list[Module], group: Any, replicas: Any) -> None:
    """Everybody takes the parameters and buffers of the first."""
    tensors = [t for m in modules for t in (*m.parameters(False), *m.buffers(False))]
    unique = list({id(t): t for t in tensors}.values())
    for each in (group, replicas):
        if each is not None:
            broadcast_coalesced(unique, each)


def cast_buffers(fsdp: Any, dtype: Any) -> None:
    """Buffers in another dtype."""
    for m in owned(fsdp._fsdp_wrapped_module):
        for name, b in m._buffers.items():
            if b is not None and b.is_floating_point():
                m._buffers[name] = b.to(dtype)


def wrap_exceptions(
    wrapper: Any, module: Module, precision: Any, options: dict, ignored: set
) -> None:
    """Layers that keep their precision are wrapped on their own."""
    if precision is None or not precision._module_classes_to_ignore:
        return
    if precision.param_dtype is None and precision.buffer_dtype is None:
        return
    kinds = tuple(precision._module_classes_to_ignore)
    plain = MixedPrecision(param_dtype=flambeau.float32, cast_forward_inputs=True)

    def chosen(child):
        return isinstance(child, kinds)

    given = {**options, "mixed_precision": plain}
    before = set(map(id, wrapper.fsdp_modules(module)))
    wrap_parts(module, CustomPolicy(chosen), wrapper, given, ignored)
    for part in wrapper.fsdp_modules(module):
        if id(part) not in before:
            part.register_forward_hook(_as_inputs)


def _as_inputs(module, inputs, output):
    """An output in the dtype that the inputs came in."""
    return cast_floats(output, next(iter(tensors_in(inputs))).dtype)
