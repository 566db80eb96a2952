"""Fusing modules by name: the first of them becomes all of them, the others do nothing."""

import copy
from collections.abc import Callable
from typing import Any

from flambeau import nn
from flambeau.ao.quantization.fuser_method_mappings import get_fuser_method
from flambeau.ao.quantization.utils import getattr_from_fqn

__all__ = ["fuse_known_modules", "fuse_modules", "fuse_modules_qat"]


def _set_module(model: nn.Module, key: str, module: nn.Module) -> None:
    *parents, name = key.split(".")
    setattr(getattr_from_fqn(model, ".".join(parents)) if parents else model, name, module)


def fuse_known_modules(
    mod_list: list, is_qat: bool, additional_fuser_method_mapping: dict | None = None
) -> list:
    """Modules in place of a list of them: all in one, then Identity."""
    kinds = tuple(type(m) for m in mod_list)
    method = get_fuser_method(kinds, additional_fuser_method_mapping)
    if method is None:
        raise NotImplementedError(f"Cannot fuse modules: {kinds}")
    fused = method(is_qat, *mod_list)
    for first, hooks in ((mod_list[0], "_forward_pre_hooks"), (mod_list[-1], "_forward_hooks")):
        for hook in getattr(first, hooks).values():
            register = "register_forward_pre_hook" if "pre" in hooks else "register_forward_hook"
            getattr(fused, register)(hook)
        getattr(first, hooks).clear()
    rest: list[nn.Module] = []
    for m in mod_list[1:]:
        nothing = nn.Identity()
        nothing.training = m.training
        rest.append(nothing)
    return [fused, *rest]


def _fuse(model, groups, is_qat, inplace, fuser_func, custom):
    if not inplace:
        model = copy.deepcopy(model)
    if all(isinstance(name, str) for name in groups):
        groups = [groups]
    mapping = (custom or {}).get("additional_fuser_method_mapping", {})
    for names in groups:
        modules = [getattr_from_fqn(model, name) for name in names]
        for name, module in zip(names, fuser_func(modules, is_qat, mapping)):
            _set_module(model, name, module)
    return model


def fuse_modules(
    model: nn.Module,
    modules_to_fuse: list,
    inplace: bool = False,
    fuser_func: Callable = fuse_known_modules,
    fuse_custom_config_dict: Any = None,
) -> nn.Module:
    """Modules fused for quantization after training; batch norms are folded in."""
    return _fuse(model, modules_to_fuse, False, inplace, fuser_func, fuse_custom_config_dict)


def fuse_modules_qat(
    model: nn.Module,
    modules_to_fuse: list,
    inplace: bool = False,
    fuser_func: Callable = fuse_known_modules,
    fuse_custom_config_dict: Any = None,
) -> nn.Module:
    """Modules fused for training; batch norms stay."""
    return _fuse(model, modules_to_fuse, True, inplace, fuser_func, fuse_custom_config_dict)
