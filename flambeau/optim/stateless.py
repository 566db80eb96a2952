"""An optimizer with other parameters and other state for a while.

Inside `with swap_in_optimizer_params_and_state(...)` a step acts on the given tensors, parameters
and state alike; afterwards the optimizer is what it was before.
"""

from collections import defaultdict
from contextlib import contextmanager
from typing import Any

from flambeau._tensor import Tensor
from flambeau.optim.optimizer import Optimizer

_NAME = "swap_in_optimizer_params_and_state"


@contextmanager
def swap_in_optimizer_params_and_state(
    optimizer: Optimizer,
    swapin_parameters: dict[str, Tensor],
    swapin_optim_state: dict[str, Any],
):
    """Optimize other parameters, with state in the form of `state_dict`, inside a block.

    Args:
        swapin_parameters: as many tensors as the optimizer has parameters, in the same order.
        swapin_optim_state: tensors in it are changed in place; new ones are not put into it.
    """
    live_state, live_groups = optimizer.state, optimizer.param_groups
    groups, state = _prepared(optimizer, list(swapin_parameters.values()), swapin_optim_state)
    optimizer.param_groups, optimizer.state = groups, state
    try:
        yield
    finally:
        optimizer.param_groups, optimizer.state = live_groups, live_state


def _prepared(optimizer, params, swapin):
    if not optimizer.state:
        raise RuntimeError(f"{_NAME} requires initialized optimizer state.")
    if not isinstance(swapin, dict):
        raise RuntimeError(f"{_NAME} requires a DCP-style optimizer state_dict.")
    _check_state(swapin.get("state"))
    groups = swapin.get("param_groups")
    _check_groups(groups, optimizer.param_groups)
    numbers = [number for group in groups for number in group["params"]]
    extra = [key for key in swapin["state"] if key not in set(numbers)]
    if extra:
        raise RuntimeError(
            f"{_NAME} requires swapin_optim_state['state'] to be keyed only by packed parameter "
            f"ids from param_groups[*]['params']; got extra keys {extra!r}."
        )
    if len(params) != len(numbers):
        raise RuntimeError(
            f"{_NAME} requires the explicit parameter state to match optimizer.param_groups "
            "ordering."
        )
    by_number = dict(zip(numbers, params))
    state = defaultdict(dict)
    for number, kept in swapin["state"].items():
        state[by_number[number]] = dict(kept)
    found = [{**group, "params": [by_number[k] for k in group["params"]]} for group in groups]
    return found, state


def _check_state(state):
    if not isinstance(state, dict):
        raise RuntimeError(
            f"{_NAME} requires swapin_optim_state['state'] to be a dict mapping packed parameter "
            f"ids to per-param state dicts, got {type(state).__name__}."
        )
    if any(isinstance(key, Tensor) for key in state):
        raise RuntimeError(
            f"{_NAME} requires optimizer.state_dict()-style state keyed by packed parameter ids."
        )
    if not all(isinstance(kept, dict) for kept in state.values()):
        raise RuntimeError(
            f"{_NAME} requires per-parameter optimizer state entries to be dictionaries."
        )


def _check_groups(groups, live):
    if not isinstance(groups, list):
        raise RuntimeError(
            f"{_NAME} requires swapin_optim_state['param_groups'] to be a list of param-group "
            f"dicts, got {type(groups).__name__}."
        )
    if len(groups) != len(live):
        raise RuntimeError(
            "swapin_optim_state has a different number of parameter groups than the live optimizer."
        )
    for number, (group, own) in enumerate(zip(groups, live)):
        if not isinstance(group, dict):
            raise RuntimeError(f"{_NAME} requires each optimizer param group to be a dictionary.")
        params = group.get("params")
        if not isinstance(params, list) or not all(isinstance(k, int) for k in params):
            raise RuntimeError(
                f"{_NAME} requires optimizer.state_dict()-style param_groups[*]['params'] entries "
                "keyed by packed parameter ids."
            )
        if len(params) != len(own["params"]):
            raise RuntimeError(
                f"swapin_optim_state param group {number} has a different number of params than "
                "the live optimizer param group."
            )
        if set(group) != set(own):
            raise RuntimeError(
                f"{_NAME} requires optimizer.state_dict()-style param group keys to exactly match "
                f"the live optimizer group keys for group {number}. Keys only in swap-in: "
                f"{sorted(set(group) - set(own))}. Keys only in live: "
                f"{sorted(set(own) - set(group))}."
            )
