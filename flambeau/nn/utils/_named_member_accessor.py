"""Tensors of a module put in place of others, by their names."""

from typing import Any

from flambeau import Tensor
from flambeau.nn.modules.module import Module
from flambeau.nn.parameter import Parameter

__all__: list[str] = []


def _checked(module, name):
    if not isinstance(module, Module):
        raise TypeError(f"{module} is not an instance of torch.nn.Module")
    if "." in name:
        raise KeyError('tensor name can\'t contain "."')
    if name == "":
        raise KeyError('tensor name can\'t be empty string ""')


def set_tensor(module: Module, name: str, tensor: Tensor) -> None:
    """Put a tensor where a parameter or a buffer is."""
    _checked(module, name)
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{tensor} is not an instance of torch.Tensor")
    swap_tensor(module, name, tensor, allow_missing=True)


def swap_tensor(module: Module, name: str, tensor: Any, allow_missing: bool = False) -> Any:
    """The same; gives what was there."""
    _checked(module, name)
    for homes in (module._parameters, module._buffers):
        if name in homes:
            before = homes[name]
            homes[name] = tensor
            return before
    before = vars(module).get(name)
    if before is None and not allow_missing:
        raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
    if before is not None and not isinstance(before, Tensor):
        raise TypeError(f"attribute `{name}`: {before} is not an instance of torch.Tensor")
    if isinstance(tensor, Parameter):
        vars(module).pop(name, None)
        module._parameters[name] = tensor
    else:
        setattr(module, name, tensor)
    return before


def swap_submodule(module: Module, name: str, submodule: Module) -> Module:
    """Another module under this name; gives the one that was there."""
    if not isinstance(module, Module):
        raise TypeError(f"{module} is not an instance of torch.nn.Module")
    if name not in module._modules:
        raise KeyError(f"submodule {name} does not exist")
    before = module._modules[name]
    module._modules[name] = submodule
    assert before is not None
    return before
