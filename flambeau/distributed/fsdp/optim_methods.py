"""Methods of `FullyShardedDataParallel` about the state of optimizers."""

import warnings
from typing import Any

from flambeau import distributed
from flambeau.distributed.fsdp import optim_states
from flambeau.distributed.fsdp.api import OptimStateKeyType, StateDictType
from flambeau.nn.modules.module import Module


class OptimizerStates:
    """States by names of parameters, as `optim_states.py` collects and spreads them."""

    @staticmethod
    def optim_state_dict(
        model: Module, optim: Any, optim_state_dict: dict | None = None, group: Any = None
    ) -> dict:
        """The state of an optimizer by names of parameters, in the kind that is set."""
        settings = _settings(model)
        sharded = settings.state_dict_type is StateDictType.SHARDED_STATE_DICT
        found = optim_states.collected(model, optim, optim_state_dict, sharded)
        only_first = getattr(settings.optim_state_dict_config, "rank0_only", False)
        return {} if only_first and distributed.get_rank(group) else found

    @staticmethod
    def optim_state_dict_to_load(
        model: Module,
        optim: Any,
        optim_state_dict: dict,
        is_named_optimizer: bool = False,
        load_directly: bool = False,
        group: Any = None,
    ) -> dict:
        """A state by names as an optimizer of the model loads it."""
        settings = _settings(model)
        if getattr(settings.optim_state_dict_config, "rank0_only", False):
            box = [optim_state_dict]
            distributed.broadcast_object_list(box, 0, group)
            optim_state_dict = box[0]
        found = optim_states.spread(model, optim, optim_state_dict)
        if load_directly:
            optim.load_state_dict(found)
        return found

    @staticmethod
    def full_optim_state_dict(
        model: Module,
        optim: Any,
        optim_input: Any = None,
        rank0_only: bool = True,
        group: Any = None,
    ) -> dict:
        """Whole states; on the first process alone unless told otherwise."""
        _warn_of_old("full_optim_state_dict", "optim_state_dict")
        found = optim_states.collected(model, optim, None, False)
        return {} if rank0_only and distributed.get_rank(group) else found

    @staticmethod
    def sharded_optim_state_dict(model: Module, optim: Any, group: Any = None) -> dict:
        """States as DTensors."""
        _warn_of_old("sharded_optim_state_dict", "optim_state_dict")
        return optim_states.collected(model, optim, None, True)

    @staticmethod
    def shard_full_optim_state_dict(
        full_optim_state_dict: dict, model: Module, optim_input: Any = None, optim: Any = None
    ) -> dict:
        """Whole states as an optimizer of the model loads them."""
        _warn_of_old("shard_full_optim_state_dict", "optim_state_dict_to_load")
        return optim_states.spread(
            model, _optimizer(model, optim, optim_input), full_optim_state_dict
        )

    @staticmethod
    def scatter_full_optim_state_dict(
        full_optim_state_dict: dict | None,
        model: Module,
        optim_input: Any = None,
        optim: Any = None,
        group: Any = None,
    ) -> dict:
        """The same where only the first process has them."""
        _warn_of_old("scatter_full_optim_state_dict", "optim_state_dict_to_load")
        box = [full_optim_state_dict]
        distributed.broadcast_object_list(box, 0, group)
        return optim_states.spread(model, _optimizer(model, optim, optim_input), box[0] or {})

    @staticmethod
    def flatten_sharded_optim_state_dict(
        sharded_optim_state_dict: dict, model: Module, optim: Any
    ) -> dict:
        """States as DTensors, as an optimizer of the model loads them."""
        _warn_of_old("flatten_sharded_optim_state_dict", "optim_state_dict_to_load")
        return optim_states.spread(model, optim, sharded_optim_state_dict)

    @staticmethod
    def rekey_optim_state_dict(
        optim_state_dict: dict,
        optim_state_key_type: OptimStateKeyType,
        model: Module,
        optim_input: Any = None,
        optim: Any = None,
    ) -> dict:
        """States by numbers of parameters of a model that is not wrapped, or by names."""
        names = [name for name, _ in model.named_parameters()]
        new: Any = dict(enumerate(names))
        if optim_state_key_type is OptimStateKeyType.PARAM_ID:
            new = {name: k for k, name in new.items()}
        groups = [
            {**g, "params": sorted(new[k] for k in g["params"])}
            for g in optim_state_dict["param_groups"]
        ]
        state = {new[k]: v for k, v in optim_state_dict["state"].items()}
        return {"state": state, "param_groups": groups}


def _settings(model):
    """Which state dicts the wrapped parts of a model give."""
    from flambeau.distributed.fsdp.fully_sharded_data_parallel import FullyShardedDataParallel

    return FullyShardedDataParallel.get_state_dict_type(model)


def _warn_of_old(name, instead):
    kind = "FullyShardedDataParallel"
    warnings.warn(
        f"``{kind}.{name}``is being deprecated and is replaced by ``{kind}.{instead}``. "
        f"``{kind}.{name}`` may be removed after PyTorch 2.2.",
        FutureWarning,
        stacklevel=3,
    )


def _optimizer(model, optim, optim_input):
    """An optimizer, or what its parameters would be."""
    if optim is not None:
        return optim
    given = list(optim_input) if optim_input is not None else list(model.parameters())
    groups = given if given and isinstance(given[0], dict) else [{"params": given}]
    return type(
        "_Groups", (), {"param_groups": [{**g, "params": list(g["params"])} for g in groups]}
    )
