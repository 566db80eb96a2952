"""The state of optimizers of sharded models, by the names of parameters."""

from typing import Any

import flambeau
from flambeau import Tensor, distributed
from flambeau.distributed.fsdp.flat_parameters import FlatUnit
from flambeau.distributed.fsdp.state_dicts import as_shard, clean, names_of
from flambeau.distributed.tensor.dtensor import DTensor

# -- who is who ------------------------------------------------------------------------------------


def units_of(model: Any) -> list[tuple[FlatUnit, str, Any]]:
    """(unit, prefix of its names, wrapped module) of all wrapped parts of a model."""
    found = []
    for name, m in model.named_modules():
        unit = m.__dict__.get("_unit")
        if isinstance(unit, FlatUnit):
            path = clean(name)
            found.append((unit, f"{path}." if path else "", m._fsdp_wrapped_module))
    return found


def names_by_parameter(model: Any) -> dict[int, list[str]]:
    """Names of what each parameter that an optimizer sees stands for."""
    found: dict[int, list[str]] = {}
    for unit, prefix, module in units_of(model):
        unit.reshard()
        names = [names_of(piece, module, prefix)[0] for piece in unit.pieces]
        if unit.uses_originals:
            found.update({id(p.shard): [n] for p, n in zip(unit.pieces, names)})
        else:
            found[id(unit.flat_param)] = names
    for name, p in model.named_parameters():
        found.setdefault(id(p), [clean(name)])
    return found


# -- from an optimizer -----------------------------------------------------------------------------


def collected(model: Any, optim: Any, state_dict: Any, as_dtensors: bool) -> dict:
    """{"state": by name, "param_groups": with names} with whole tensors, or DTensors."""
    source = optim.state_dict() if state_dict is None else state_dict
    names = names_by_parameter(model)
    params = [p for group in optim.param_groups for p in group["params"]]
    keys = [k for group in source["param_groups"] for k in group["params"]]
    by_id = {id(p): source["state"].get(k) for p, k in zip(params, keys)}
    state: dict = {}
    taken: set[int] = set()
    for unit, prefix, module in units_of(model):
        taken |= {id(p) for p in unit.parameters()}
        labels = [names_of(piece, module, prefix)[0] for piece in unit.pieces]
        state.update(_of_unit(unit, labels, by_id, as_dtensors))
    for p in params:
        if id(p) not in taken and by_id.get(id(p)) is not None:
            state[names[id(p)][0]] = by_id[id(p)]
    groups = []
    for group, saved in zip(optim.param_groups, source["param_groups"]):
        own = [name for p in group["params"] for name in names.get(id(p), [])]
        groups.append({**{k: v for k, v in saved.items() if k != "params"}, "params": own})
    order = [name for group in groups for name in group["params"]]
    return {"state": {n: state[n] for n in order if n in state}, "param_groups": groups}


def _of_unit(unit, labels, by_id, as_dtensors):
    """States of the parameters of a unit, put together from all processes."""
    vectors: dict[str, Tensor] = {}
    values: list[dict] = [{} for _ in unit.pieces]
    for k, piece in enumerate(unit.pieces):
        param = piece.shard if unit.uses_originals else unit.flat_param
        for key, value in (by_id.get(id(param)) or {}).items():
            if isinstance(value, Tensor) and value.dim() > 0:
                _place(vectors, key, value, unit, piece)
            else:
                values[k][key] = _copied(value)
    mine = {key: str(v.dtype) for key, v in vectors.items()}, values
    everybodys: list = [None] * unit.group.size()
    distributed.all_gather_object(everybodys, mine, group=unit.group)
    for _, theirs in everybodys:
        for own, other in zip(values, theirs):
            for key, value in other.items():
                own.setdefault(key, value)
    kinds = {key: kind for some, _ in everybodys for key, kind in some.items()}
    found: dict = {label: {} for label, own in zip(labels, values) if own or kinds}
    for key in sorted(kinds):
        part = vectors.get(key)
        if part is None:
            dtype = getattr(flambeau, kinds[key].removeprefix("torch."))
            part = unit.flat_param.detach().new_zeros(unit.length, dtype=dtype)
        for label, view in zip(labels, unit.split(unit.gathered(part))):
            found[label][key] = as_shard(view, unit) if as_dtensors else view.clone()
    for label, own in zip(labels, values):
        if label in found:
            found[label].update(own)
    return found


def _copied(value):
    """Counts are changed in place by optimizers: each gets its own."""
    return value.clone() if isinstance(value, Tensor) else value


def _place(vectors, key, value, unit, piece):
    """A tensor of a state, where it belongs in this process's part of the vector."""
    if not unit.uses_originals:
        vectors[key] = value
        return
    if key not in vectors:
        vectors[key] = value.new_zeros(unit.length)
    low, high = piece.within(unit.begin, unit.length)
    vectors[key][low:high] = value.reshape(-1)


# -- to an optimizer -------------------------------------------------------------------------------


def spread(model: Any, optim: Any, state_dict: dict) -> dict:
    """What `optim.load_state_dict` takes, from states by name."""
    names = names_by_parameter(model)
    parts = {}
    for unit, prefix, module in units_of(model):
        labels = [names_of(piece, module, prefix)[0] for piece in unit.pieces]
        parts.update(_to_unit(unit, labels, state_dict["state"]))
    state: dict = {}
    groups = []
    count = 0
    for group in optim.param_groups:
        ids = []
        wanted = [n for p in group["params"] for n in names.get(id(p), [])]
        for p in group["params"]:
            own = parts.get(id(p))
            if own is None:
                label = names.get(id(p), [""])[0]
                own = state_dict["state"].get(label)
            if own:
                state[count] = own
            ids.append(count)
            count += 1
        saved = _group_with(state_dict["param_groups"], wanted)
        options = {k: v for k, v in (saved or group).items() if k != "params"}
        groups.append({**options, "params": ids})
    return {"state": state, "param_groups": groups}


def _group_with(groups, names):
    """The saved group that has some of these names."""
    return next((g for g in groups if set(names) & set(g["params"])), None)


def _to_unit(unit, labels, state):
    """States of what an optimizer sees of a unit."""
    whole: dict[str, Tensor] = {}
    values: list[dict] = [{} for _ in labels]
    for k, (label, piece) in enumerate(zip(labels, unit.pieces)):
        for key, value in state.get(label, {}).items():
            if isinstance(value, DTensor):
                value = value.full_tensor()
            if isinstance(value, Tensor) and value.dim() > 0:
                if key not in whole:
                    whole[key] = value.new_zeros(unit.total)
                whole[key][piece.begin : piece.end] = value.reshape(-1)
            else:
                values[k][key] = _copied(value)
    own = {key: unit.cut(v) for key, v in whole.items()}
    if not unit.uses_originals:
        common: dict = {}
        for v in values:
            common.update(v)
        return {id(unit.flat_param): {**common, **own}}
    found = {}
    for piece, v in zip(unit.pieces, values):
        low, high = piece.within(unit.begin, unit.length)
        shape = piece.shard.shape
        if v or high > low:
            cut = {key: t[low:high].clone().view(shape) for key, t in own.items()}
            found[id(piece.shard)] = {**v, **(cut if v or own else {})}
    return found
