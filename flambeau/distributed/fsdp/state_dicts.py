"""State dicts of `FullyShardedDataParallel`: whole parameters, shards of each, or the vectors."""

import contextlib
from collections.abc import Iterator
from typing import Any

import flambeau
from flambeau import Tensor, distributed
from flambeau.autograd.grad_mode import no_grad
from flambeau.distributed.device_mesh import DeviceMesh
from flambeau.distributed.fsdp.api import (
    FullOptimStateDictConfig,
    FullStateDictConfig,
    LocalOptimStateDictConfig,
    LocalStateDictConfig,
    ShardedOptimStateDictConfig,
    ShardedStateDictConfig,
    StateDictSettings,
    StateDictType,
)
from flambeau.distributed.fsdp.flat_parameters import FlatUnit
from flambeau.distributed.tensor.dtensor import DTensor, made
from flambeau.distributed.tensor.placement_types import Replicate, Shard
from flambeau.distributed.tensor.redistribution import own_part
from flambeau.nn.modules.state import _pending, _run_copy
from flambeau.nn.parameter import Parameter

FULL, LOCAL, SHARDED = (
    StateDictType.FULL_STATE_DICT,
    StateDictType.LOCAL_STATE_DICT,
    StateDictType.SHARDED_STATE_DICT,
)
CONFIGS: dict = {
    FULL: (FullStateDictConfig, FullOptimStateDictConfig),
    LOCAL: (LocalStateDictConfig, LocalOptimStateDictConfig),
    SHARDED: (ShardedStateDictConfig, ShardedOptimStateDictConfig),
}
WRAPPED, FLAT = "_fsdp_wrapped_module", "_flat_param"


def clean(name: str) -> str:
    """The name of a parameter or module without what wrapping added."""
    for added in (WRAPPED, "_checkpoint_wrapped_module"):
        name = name.replace(added + ".", "").removesuffix("." + added).removesuffix(added)
    return name


def settings_for(kind: Any, config: Any = None, optim_config: Any = None) -> StateDictSettings:
    """The settings of a kind of state dict, with its configurations or their defaults."""
    if kind not in CONFIGS:
        raise ValueError(f"Unrecognized StateDictType: {kind}")
    wanted, optim_wanted = CONFIGS[kind]
    config = wanted() if config is None else config
    optim_config = optim_wanted() if optim_config is None else optim_config
    if type(config) is not wanted:
        raise RuntimeError(f"Expected state_dict_config of type {wanted} but got {type(config)}")
    if type(optim_config) is not optim_wanted:
        raise RuntimeError(
            f"Expected optim_state_dict_config of type {optim_wanted} but got {type(optim_config)}"
        )
    return StateDictSettings(kind, config, optim_config)


# -- whole parameters in the modules ---------------------------------------------------------------


@contextlib.contextmanager
def summoned(
    unit: FlatUnit | None, module: Any, writeback: bool = True, with_grads: bool = False
) -> Iterator[None]:
    """Whole parameters stand in the modules in here; what is written to them is kept."""
    if unit is None:
        yield
        return
    unit.reshard()
    whole = unit.gathered(unit.flat_param)
    params = [
        Parameter(view, requires_grad=piece.requires_grad)
        for view, piece in zip(unit.split(whole), unit.pieces)
    ]
    if with_grads:
        _give_gradients(unit, params)
    module._parameters.pop(FLAT, None)
    for param, piece in zip(params, unit.pieces):
        for holder, name in piece.places:
            holder._parameters[name] = param
    try:
        yield
    finally:
        if writeback:
            _write_back(unit, params, whole, with_grads)
        unit._install(False)
        if not unit.uses_originals:
            module._parameters[FLAT] = unit.flat_param


def _give_gradients(unit, params):
    grad = unit.gradient()
    has_one = flambeau.tensor([grad is not None], dtype=flambeau.int64)
    distributed.all_reduce(has_one, op=distributed.ReduceOp.MAX, group=unit.group)
    if not has_one.item():
        return
    own = flambeau.zeros_like(unit.flat_param.detach()) if grad is None else grad
    for param, view in zip(params, unit.split(unit.gathered(own))):
        param.grad = view.clone()


def _write_back(unit, params, whole, with_grads):
    with no_grad():
        for param, view in zip(params, unit.split(whole)):
            if param._storage is not view._storage:  # somebody gave it other data
                view.copy_(param.detach())
        unit.load(whole)
        if with_grads and any(p.grad is not None for p in params):
            grads = [
                (flambeau.zeros_like(p.detach()) if p.grad is None else p.grad).reshape(-1)
                for p in params
            ]
            for p in unit.parameters():
                p.grad = None
            unit.give(unit.cut(flambeau.cat(grads)))


# -- saving ----------------------------------------------------------------------------------------


def mesh_of(unit: FlatUnit) -> DeviceMesh:
    """The mesh of the processes that share a unit."""
    return DeviceMesh.from_group(unit.group, unit.flat_param.device.type)


def as_shard(whole: Tensor, unit: FlatUnit) -> Tensor:
    """A tensor that all have, as a DTensor."""
    mesh = mesh_of(unit)
    whole = whole.detach()
    if whole.dim() == 0:
        return made(whole.clone(), mesh, (Replicate(),), whole.shape, whole.stride())
    part = own_part(whole, 0, unit.group).clone()
    return made(part, mesh, (Shard(0),), whole.shape, whole.contiguous().stride())


def saved(fsdp: Any, destination: Any, prefix: str, keep_vars: bool) -> Any:
    """The state dict of a wrapped module, in the kind that it is set to."""
    settings, unit, module = fsdp._settings, fsdp._unit, fsdp._fsdp_wrapped_module
    kind = settings.state_dict_type
    given = {"destination": destination, "prefix": prefix, "keep_vars": keep_vars}
    if kind is LOCAL:
        return _saved_vectors(unit, module, given)
    with summoned(unit, module, writeback=False):
        destination = module.state_dict(**given)
        for piece in unit.pieces if unit is not None else ():
            for key in names_of(piece, module, prefix):
                value = destination[key]
                destination[key] = as_shard(value, unit) if kind is SHARDED else value.clone()
    if getattr(settings.state_dict_config, "rank0_only", False) and distributed.get_rank():
        for key in [k for k in destination if k.startswith(prefix)]:
            del destination[key]
    return destination


def _saved_vectors(unit, module, given):
    prefix = given["prefix"]
    if unit is None:
        return module.state_dict(**given)
    unit.reshard()
    destination = module.state_dict(**given)
    for piece in unit.pieces:
        for key in names_of(piece, module, prefix):
            destination.pop(key, None)
    flat = unit.flat_param.detach()
    count = unit.length * unit.parts
    destination[prefix + FLAT] = (
        made(flat, mesh_of(unit), (Shard(0),), (count,), (1,)) if unit.shards else flat
    )
    destination.move_to_end(prefix + FLAT, last=False)
    return destination


def names_of(piece: Any, module: Any, prefix: str = "") -> list[str]:
    """All names of a parameter below a module."""
    paths = {id(m): name for name, m in module.named_modules(remove_duplicate=False)}
    found = []
    for holder, name in piece.places:
        path = clean(paths[id(holder)])
        found.append(prefix + (f"{path}.{name}" if path else name))
    return found


# -- loading ---------------------------------------------------------------------------------------


def offered(fsdp: Any, state: dict, prefix: str, missing: list, problems: list) -> None:
    """Take what belongs to the unit out of a state, and name the rest as wrapped modules do."""
    unit, module = fsdp._unit, fsdp._fsdp_wrapped_module
    inner = f"{prefix}{WRAPPED}."
    for key in [k for k in state if k.startswith(prefix) and not k.startswith(inner)]:
        state[inner + key[len(prefix) :]] = state.pop(key)
    if unit is None:
        return
    unit.reshard()
    if inner + FLAT in state:
        _take_vector(unit, inner + FLAT, state)
    else:
        _take_parameters(unit, module, prefix, inner, state, missing, problems)
    if unit.uses_originals:  # modules copy their shards onto themselves
        for piece in unit.pieces:
            for name in names_of(piece, module):
                state[inner + name] = piece.shard.detach()
    else:
        state[inner + FLAT] = unit.flat_param.detach()


def _later(key, param, value, copy, problems):
    """Copies wait until everything has been looked at."""
    if _pending:
        _pending[-1].append((key, param, value, copy, problems))
    else:
        _run_copy(key, param, value, copy, problems)


def _take_vector(unit, key, state):
    value = state.pop(key)
    value = value.to_local() if isinstance(value, DTensor) else value

    def copy():
        with no_grad():
            unit.flat_param.detach().copy_(value)

    _later(key, unit.flat_param, value, copy, [])


def _take_parameters(unit, module, prefix, inner, state, missing, problems):
    values: dict = {}
    for piece in unit.pieces:
        for name in names_of(piece, module):
            if inner + name not in state:
                missing.append(prefix + name)
                continue
            value = state.pop(inner + name)
            value = value.full_tensor() if isinstance(value, DTensor) else value
            if value.shape != piece.shape:
                problems.append(
                    f"size mismatch for {prefix + name}: copying a param with shape {value.shape} "
                    f"from checkpoint, the shape in current model is {piece.shape}."
                )
            else:
                values[piece] = value

    def copy():
        with no_grad():
            part = unit.flat_param.detach()
            for piece, value in values.items():
                low, high = piece.within(unit.begin, unit.length)
                first = unit.begin + low - piece.begin
                part[low:high] = value.reshape(-1)[first : first + high - low].to(part.dtype)

    if values:
        _later(prefix, unit.flat_param, unit.flat_param, copy, problems)
