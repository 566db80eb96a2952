"""Copies of a model on several devices, whose gradients reach the model's own parameters."""

from collections.abc import Sequence
from typing import Any

import flambeau
from flambeau._tensor import Tensor
from flambeau.nn.modules.module import Module
from flambeau.nn.parallel.scatter_gather import _device

__all__ = ["replicate"]


def replicate(network: Module, devices: Sequence[Any], detach: bool = False) -> list[Module]:
    """One replica per device: parameters are copies that pass gradients on, unless detached."""
    if not _may_be_copied(network):
        raise RuntimeError(
            "Cannot replicate network where python modules are children of ScriptModule"
        )
    return [_replica(network, place, detach) for place in map(_device, devices)]


def _may_be_copied(network: Module) -> bool:
    """Scripted modules hold scripted ones only."""
    scripted = flambeau.jit.ScriptModule
    return all(
        isinstance(child, scripted)
        for module in network.modules()
        if isinstance(module, scripted)
        for child in module.children()
    )


def _replica(network: Module, place: Any, detach: bool) -> Module:
    modules = list(network.modules())
    twins: dict[Module, Any] = {m: m._replicate_for_data_parallel() for m in modules}
    moved: dict[Tensor, Tensor] = {}

    def copied(tensor: Tensor, follows: bool) -> Tensor:
        if tensor not in moved:
            moved[tensor] = (tensor if follows else tensor.detach()).to(place)
        return moved[tensor]

    for module, twin in twins.items():
        twin._former_parameters = {}
        for name, child in module._modules.items():
            twin._modules[name] = None if child is None else twins[child]
        for name, parameter in module._parameters.items():
            if parameter is None:
                twin._parameters[name] = None
                continue
            # a plain attribute: a copy that is no leaf is no parameter
            value = copied(parameter, not detach)
            twin._former_parameters[name] = vars(twin)[name] = value
        for name, buffer in module._buffers.items():
            if buffer is not None:
                follows = buffer.requires_grad and not detach
                twin._buffers[name] = copied(buffer, follows)
    return twins[network]
