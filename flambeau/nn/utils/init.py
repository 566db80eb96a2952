"""Making a module without drawing its initial values, when they will be overwritten anyway."""

import inspect

from flambeau.nn.modules.module import Module


def skip_init(module_cls, *args, **kwargs):
    """module_cls(*args, **kwargs) with memory for parameters, but nothing written to it."""
    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    device = kwargs.pop("device", "cpu")
    return module_cls(*args, **kwargs, device="meta").to_empty(device=device)
