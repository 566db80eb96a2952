"""Modules as functions of their parameters.

`functional_call` calls a module with given parameters; `stack_module_state` collects those of
several models. The exchange of tensors is in nn/utils/stateless.py.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import flambeau
from flambeau._tensor import Tensor
from flambeau.nn.utils.stateless import _functional_call

__all__ = ["functional_call", "replace_all_batch_norm_modules_", "stack_module_state"]


def functional_call(
    module,
    parameter_and_buffer_dicts: dict[str, Tensor] | Sequence[dict[str, Tensor]],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """module(*args, **kwargs), as if it had these parameters and buffers.

    tie_weights: a tensor that the module has under several names need be given only once.
    """
    given = parameter_and_buffer_dicts
    if not isinstance(given, dict):
        given = _merged(given)
    return _functional_call(module, given, args, kwargs, tie_weights=tie_weights, strict=strict)


def _merged(dicts):
    if not isinstance(dicts, Sequence):
        raise ValueError(
            "Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got "
            f"{type(dicts)}"
        )
    if not all(isinstance(d, dict) for d in dicts):
        raise ValueError("Expected all elements of parameter_and_buffer_dicts to be dictionaries")
    counts = Counter(key for d in dicts for key in d)
    repeated = [key for key, count in counts.items() if count > 1]
    if repeated:
        raise ValueError(
            f"{repeated} appeared in multiple dictionaries; behavior of functional call is "
            "ambiguous"
        )
    return {key: value for d in dicts for key, value in d.items()}


def stack_module_state(models) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parameters and buffers of models of one kind, each stacked along a new first dimension."""
    check_alike(models, "stack_module_state")
    return (
        _stacked([dict(m.named_parameters()) for m in models]),
        _stacked([dict(m.named_buffers()) for m in models]),
    )


def check_alike(models, name: str) -> None:
    """Models that are stacked are of one class and in one mode."""
    if len(models) == 0:
        raise RuntimeError(f"{name}: Expected at least one model, got 0.")
    if len({bool(m.training) for m in models}) > 1:
        raise RuntimeError(f"{name}: Expected all models to have the same training/eval mode.")
    if any(type(m) is not type(models[0]) for m in models):
        raise RuntimeError(f"{name}: Expected all models to be of the same class.")


def _stacked(states):
    found = {}
    for name in states[0]:
        tensors = [state[name] for state in states]
        wanting = {t.requires_grad for t in tensors}
        if len(wanting) > 1:
            raise RuntimeError(f"Expected {name} from each model to have the same .requires_grad")
        stacked = flambeau.stack(tensors)
        found[name] = stacked.detach().requires_grad_() if wanting == {True} else stacked
    return found


def replace_all_batch_norm_modules_(root):
    """Let batch norms of a module, at any depth, keep no running statistics; gives the module."""
    for module in root.modules():
        if hasattr(module, "track_running_stats") and hasattr(module, "running_mean"):
            module.running_mean = module.running_var = None
            module.num_batches_tracked, module.track_running_stats = None, False
    return root
