"""Modules as functions of their parameters, as `functorch` had them before `torch.func`."""

import copy
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.func.modules import check_alike, functional_call
from flambeau.nn.modules.module import Module

__all__: list[str] = []


def _taken(named):
    """(names, tensors, all names of each) of parameters or buffers, the shared ones once."""
    found: dict = {}
    for name, tensor in named:
        found.setdefault(id(tensor), (tensor, []))[1].append(name)
    names = tuple(names[0] for _, names in found.values())
    tensors = tuple(tensor for tensor, _ in found.values())
    return names, tensors, {names[0]: names for _, names in found.values()}


class FunctionalModuleWithBuffers(Module):
    """A module whose parameters and buffers are arguments."""

    def __init__(
        self,
        stateless_model: Module,
        param_names: tuple[str, ...],
        buffer_names: tuple[str, ...],
        param_names_map: dict[str, list[str]],
        buffer_names_map: dict[str, list[str]],
    ) -> None:
        super().__init__()
        self.stateless_model = stateless_model
        self.param_names, self.buffer_names = param_names, buffer_names
        self.all_names_map = {**param_names_map, **buffer_names_map}

    @staticmethod
    def _create_from(model: Module, disable_autograd_tracking: bool = False) -> Any:
        inner = copy.deepcopy(model)
        names, params, names_map = _taken(model.named_parameters(remove_duplicate=False))
        buffer_names, buffers, buffers_map = _taken(model.named_buffers(remove_duplicate=False))
        made = FunctionalModuleWithBuffers(inner, names, buffer_names, names_map, buffers_map)
        return made, _copies(params, disable_autograd_tracking), buffers

    def forward(self, params: Any, buffers: Any, *args: Any, **kwargs: Any) -> Any:
        values = {**dict(zip(self.param_names, params)), **dict(zip(self.buffer_names, buffers))}
        given = {name: t for first, t in values.items() for name in self.all_names_map[first]}
        return functional_call(self.stateless_model, given, args, kwargs)


class FunctionalModule(FunctionalModuleWithBuffers):
    """A module whose parameters are an argument."""

    def __init__(
        self, stateless_model: Module, param_names: tuple[str, ...], names_map: dict[str, list[str]]
    ) -> None:
        super().__init__(stateless_model, param_names, (), names_map, {})

    @staticmethod
    def _create_from(model: Module, disable_autograd_tracking: bool = False) -> Any:
        names, params, names_map = _taken(model.named_parameters(remove_duplicate=False))
        made = FunctionalModule(copy.deepcopy(model), names, names_map)
        return made, _copies(params, disable_autograd_tracking)

    def forward(self, params: Any, *args: Any, **kwargs: Any) -> Any:
        return super().forward(params, (), *args, **kwargs)


def _copies(params, quiet):
    return tuple(p.detach().clone().requires_grad_(p.requires_grad and not quiet) for p in params)


def make_functional(model: Module, disable_autograd_tracking: bool = False) -> Any:
    """(function of parameters and inputs, the parameters)."""
    if any(True for _ in model.buffers()):
        raise RuntimeError(
            "make_functional(model): `model` has buffers. Please use "
            "make_functional_with_buffers(model) instead."
        )
    return FunctionalModule._create_from(model, disable_autograd_tracking)


def make_functional_with_buffers(model: Module, disable_autograd_tracking: bool = False) -> Any:
    """(function of parameters, buffers and inputs, the parameters, the buffers)."""
    return FunctionalModuleWithBuffers._create_from(model, disable_autograd_tracking)


def combine_state_for_ensemble(models: list[Module]) -> Any:
    """One function for models of the same kind, their parameters and buffers stacked."""
    check_alike(models, "combine_state_for_ensemble")
    parts = [make_functional_with_buffers(model) for model in models]

    def stacked(place: int) -> tuple[Tensor, ...]:
        return tuple(flambeau.stack(row) for row in zip(*(part[place] for part in parts)))

    params = tuple(p.detach().requires_grad_() for p in stacked(1))
    return parts[0][0], params, stacked(2)
