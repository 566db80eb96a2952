"""States of models and optimizers under the names that parameters have in the bare model.

So a checkpoint of a wrapped model (DDP, FSDP, compiled) is that of the model, and optimizer states
are kept by names of parameters instead of numbers: they can be loaded into any other wrapping.
"""

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import flambeau
from flambeau import Tensor, distributed
from flambeau.nn import Module
from flambeau.optim import Optimizer

__all__ = [
    "StateDictOptions",
    "get_model_state_dict",
    "get_optimizer_state_dict",
    "get_state_dict",
    "set_model_state_dict",
    "set_optimizer_state_dict",
    "set_state_dict",
]

_WRAPPINGS = {"_fsdp_wrapped_module", "_checkpoint_wrapped_module", "_orig_mod"}


@dataclass
class StateDictOptions:
    """What states look like.

    Attributes:
        full_state_dict: tensors that are spread over processes are put together.
        cpu_offload: tensors on the host; with full_state_dict only rank 0 gets them.
        ignore_frozen_params: leave out parameters that need no gradient.
        keep_submodule_prefixes: for submodules=: names begin at the model, or at the submodule.
        strict: as load_state_dict's.
        broadcast_from_rank0: rank 0 has the whole state, all others get theirs from it.
        flatten_optimizer_state_dict: optimizer states as one flat dict of names.
    """

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False
    dsd_fqn_modifiers: str = "_fqn_modifiers"


# -- names -----------------------------------------------------------------------------------------


def bare_name(model: Module, name: str) -> str:
    """A name without the parts that wrappings have added."""
    here: Any = model
    kept = []
    for part in name.split("."):
        transparent = part in _WRAPPINGS or (part == "module" and _wraps(here))
        here = getattr(here, part, None)
        if not transparent:
            kept.append(part)
    return ".".join(kept)


def _wraps(module):
    kinds = ("DistributedDataParallel", "DataParallel")
    return any(kind.__name__ in kinds for kind in type(module).__mro__)


def _names(model):
    """id of a parameter -> its bare name; the first of several"""
    found: dict[int, str] = {}
    for name, p in model.named_parameters(remove_duplicate=False):
        found.setdefault(id(p), bare_name(model, name))
    return found


def _flattened(model):
    """FSDP where a model has parts whose parameters are one vector, else None."""
    fsdp = sys.modules.get("flambeau.distributed.fsdp")
    if fsdp is None or not fsdp.FullyShardedDataParallel.fsdp_modules(model):
        return None
    return fsdp.FullyShardedDataParallel


def _own_names(model):
    """id of a parameter -> the bare names of what it holds; a vector holds several"""
    if _flattened(model) is None:
        return {key: [name] for key, name in _names(model).items()}
    from flambeau.distributed.fsdp.optim_states import names_by_parameter

    return names_by_parameter(model)


def _below(model, submodules):
    """(prefix, ...) of the names of some submodules."""
    return [
        bare_name(model, name) + "."
        for name, module in model.named_modules()
        if module in submodules
    ]


# -- tensors that are spread -----------------------------------------------------------------------


def _made_whole(value, options):
    if not isinstance(value, Tensor):
        return value
    value = value.detach()
    if options.full_state_dict and hasattr(value, "full_tensor"):
        value = value.full_tensor()
    return value.cpu() if options.cpu_offload else value


def _is_bystander(options):
    """Of a whole state on the host one copy is enough."""
    return (
        options.full_state_dict
        and options.cpu_offload
        and distributed.is_initialized()
        and distributed.get_rank() != 0
    )


def _like(target, value):
    """A whole tensor, spread as the one that it is loaded into."""
    if not hasattr(target, "placements") or hasattr(value, "placements"):
        return value
    from flambeau.distributed.tensor import distribute_tensor

    return distribute_tensor(value.to(target.dtype), target.device_mesh, target.placements)


def _from_rank0(state):
    """Rank 0's flat dict, on every rank."""
    if not distributed.is_initialized():
        return state
    rank = distributed.get_rank()
    facts = {k: (v.size(), v.dtype) if isinstance(v, Tensor) else None for k, v in state.items()}
    others = {k: v for k, v in state.items() if not isinstance(v, Tensor)}
    box = [(facts, others) if rank == 0 else None]
    distributed.broadcast_object_list(box, src=0)
    facts, others = box[0]
    out = {}
    for key, fact in facts.items():
        if fact is None:
            out[key] = others[key]
            continue
        if rank == 0:
            value = state[key].detach().contiguous()
        else:
            value = flambeau.empty(fact[0], dtype=fact[1])
        distributed.broadcast(value, 0)
        out[key] = value
    return out


# -- models ----------------------------------------------------------------------------------------


def get_model_state_dict(
    model: Module,
    *,
    submodules: set[Module] | None = None,
    options: StateDictOptions | None = None,
) -> dict[str, Any]:
    """The state of a model, however it is wrapped, under its bare names."""
    options = options or StateDictOptions()
    state = _state_of(model, options.full_state_dict)
    frozen = {n for n, p in model.named_parameters(remove_duplicate=False) if not p.requires_grad}
    for name in list(state):
        value = state.pop(name)
        if options.ignore_frozen_params and name in frozen:
            continue
        state[bare_name(model, name)] = _made_whole(value, options)
    if submodules:
        state = _chosen(state, _below(model, submodules), options)
    return {} if _is_bystander(options) else state


def _state_of(model, is_whole):
    fsdp = _flattened(model)
    if fsdp is None:
        return model.state_dict()
    kinds = sys.modules["flambeau.distributed.fsdp"].StateDictType
    kind = kinds.FULL_STATE_DICT if is_whole else kinds.SHARDED_STATE_DICT
    with fsdp.state_dict_type(model, kind):
        return model.state_dict()


def _chosen(state, prefixes, options):
    return {
        name if options.keep_submodule_prefixes else name[len(prefix) :]: value
        for prefix in prefixes
        for name, value in state.items()
        if name.startswith(prefix)
    }


def set_model_state_dict(
    model: Module,
    model_state_dict: dict[Any, Any],
    *,
    options: StateDictOptions | None = None,
) -> Any:
    """Load what get_model_state_dict has given; (missing keys, unexpected keys)."""
    options = options or StateDictOptions()
    state = _of_submodules(model, model_state_dict)
    if options.broadcast_from_rank0:
        state = _from_rank0(state)
    own = model.state_dict()
    wrapped = {bare_name(model, name): name for name in own}
    given = {}
    for name, value in state.items():
        name = wrapped.get(name, name)
        given[name] = _like(own[name], value) if name in own else value
    return model.load_state_dict(given, strict=options.strict)


def _of_submodules(model, state):
    """A dict of submodules to their states, as one state."""
    if not state or not isinstance(next(iter(state)), Module):
        return dict(state)
    names = {module: bare_name(model, name) for name, module in model.named_modules()}
    return {
        f"{names[module]}.{name}" if names[module] else name: value
        for module, part in state.items()
        for name, value in part.items()
    }


# -- optimizers ------------------------------------------------------------------------------------


def _listed(optimizers: Optimizer | Iterable[Optimizer]) -> list[Optimizer]:
    return [optimizers] if isinstance(optimizers, Optimizer) else list(optimizers)


def _warm_up(optimizer):
    """A step that changes nothing gives a fresh optimizer the states that a checkpoint fills."""
    params = [p for group in optimizer.param_groups for p in group["params"]]
    if optimizer.state or any(p.grad is not None for p in params):
        return
    rates = [group["lr"] for group in optimizer.param_groups]
    for p in params:
        if p.requires_grad:
            p.grad = flambeau.zeros_like(p)
    for group in optimizer.param_groups:
        still = isinstance(group["lr"], Tensor)
        group["lr"] = flambeau.zeros_like(group["lr"]) if still else 0.0
    optimizer.step(closure=None)
    for group, rate in zip(optimizer.param_groups, rates):
        group["lr"] = rate
    optimizer.zero_grad(set_to_none=True)


def get_optimizer_state_dict(
    model: Module,
    optimizers: Optimizer | Iterable[Optimizer],
    *,
    submodules: set[Module] | None = None,
    options: StateDictOptions | None = None,
) -> dict[str, Any]:
    """The states of optimizers of a model, by names of parameters.

    An optimizer that has not stepped yet makes a step of rate 0 first, so that there are states for
    a checkpoint to be loaded into. submodules= is taken and, as in PyTorch, without effect.
    """
    options = options or StateDictOptions()
    names = _own_names(model)
    out: dict[str, Any] = {"state": {}, "param_groups": []}
    for optimizer in _listed(optimizers):
        _warm_up(optimizer)
        if _flattened(model) is None:
            _add_state(out, optimizer, names, options)
        else:
            _add_vectors(out, model, optimizer, options)
    if _is_bystander(options):
        return {}
    return _flat(out) if options.flatten_optimizer_state_dict else out


def _add_state(out, optimizer, names, options):
    saved = optimizer.state_dict()
    in_order: list[str] = []
    for group, packed in zip(optimizer.param_groups, saved["param_groups"]):
        own = _in_group(group, names)
        in_order += own
        out["param_groups"].append({**packed, "params": own})
    for place, state in saved["state"].items():
        out["state"][in_order[place]] = {k: _made_whole(v, options) for k, v in state.items()}


def _add_vectors(out, model, optimizer, options):
    """The same where an optimizer sees vectors of parameters."""
    from flambeau.distributed.fsdp.optim_states import collected

    found = collected(model, optimizer, None, not options.full_state_dict)
    out["param_groups"] += found["param_groups"]
    for name, state in found["state"].items():
        out["state"][name] = {k: _made_whole(v, options) for k, v in state.items()}


def _in_group(group, names):
    return [name for p in group["params"] for name in names[id(p)]]


def _flat(nested):
    flat = {f"state.{n}.{k}": v for n, each in nested["state"].items() for k, v in each.items()}
    for group in nested["param_groups"]:
        for name in group["params"]:
            flat |= {f"param_groups.{name}.{k}": v for k, v in group.items() if k != "params"}
    return flat


def _parted(flat, optimizer, names):
    """The nested form of a flat dict, for one optimizer."""
    out: dict[str, Any] = {"state": {}, "param_groups": []}
    for group in optimizer.param_groups:
        own = _in_group(group, names)
        packed: dict[str, Any] = {"params": own}
        for key in group:
            found = [
                flat[f"param_groups.{n}.{key}"] for n in own if f"param_groups.{n}.{key}" in flat
            ]
            if found:
                packed[key] = found[0]
        out["param_groups"].append(packed)
        for name in own:
            start = f"state.{name}."
            state = {k[len(start) :]: v for k, v in flat.items() if k.startswith(start)}
            if state:
                out["state"][name] = state
    return out


def set_optimizer_state_dict(
    model: Module,
    optimizers: Optimizer | Iterable[Optimizer],
    optim_state_dict: dict[str, Any],
    *,
    options: StateDictOptions | None = None,
) -> None:
    """Load what get_optimizer_state_dict has given."""
    options = options or StateDictOptions()
    names = _own_names(model)
    if options.broadcast_from_rank0:
        flat = "state" not in optim_state_dict and "param_groups" not in optim_state_dict
        optim_state_dict = _from_rank0(optim_state_dict if flat else _flat(optim_state_dict))
    for optimizer in _listed(optimizers):
        nested = optim_state_dict
        if "param_groups" not in optim_state_dict:
            nested = _parted(optim_state_dict, optimizer, names)
        _warm_up(optimizer)
        if _flattened(model) is None:
            nested = _numbered(nested, optimizer, names)
        else:
            nested = sys.modules["flambeau.distributed.fsdp.optim_states"].spread(
                model, optimizer, nested
            )
        optimizer.load_state_dict(nested)


def _numbered(nested, optimizer, names):
    """A state dict of this optimizer's own form: parameters by number."""
    by_name = {name: group for group in nested["param_groups"] for name in group["params"]}
    out: dict[str, Any] = {"state": {}, "param_groups": []}
    number = 0
    for group in optimizer.param_groups:
        own = _in_group(group, names)
        saved = next((by_name[name] for name in own if name in by_name), {})
        packed = {k: v for k, v in group.items() if k != "params"}
        packed |= {k: v for k, v in saved.items() if k != "params"}
        packed["params"] = list(range(number, number + len(own)))
        out["param_groups"].append(packed)
        for place, (name, p) in enumerate(zip(own, group["params"])):
            if name in nested["state"]:
                out["state"][number + place] = _spread_state(nested["state"][name], p)
        number += len(own)
    return out


def _spread_state(state, p):
    return {
        key: _like(p, value) if isinstance(value, Tensor) and value.dim() else value
        for key, value in state.items()
    }


# -- both ------------------------------------------------------------------------------------------


def get_state_dict(
    model: Module,
    optimizers: Optimizer | Iterable[Optimizer],
    *,
    submodules: set[Module] | None = None,
    options: StateDictOptions | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """(get_model_state_dict, get_optimizer_state_dict)"""
    return (
        get_model_state_dict(model, submodules=submodules, options=options),
        get_optimizer_state_dict(model, optimizers, submodules=submodules, options=options),
    )


def set_state_dict(
    model: Module,
    optimizers: Optimizer | Iterable[Optimizer],
    *,
    model_state_dict: dict[str, Any],
    optim_state_dict: dict[str, Any],
    options: StateDictOptions | None = None,
) -> Any:
    """Load what get_state_dict has given; (missing keys, unexpected keys) of the model."""
    if optim_state_dict or _listed(optimizers):
        set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    return set_model_state_dict(model, model_state_dict, options=options)
