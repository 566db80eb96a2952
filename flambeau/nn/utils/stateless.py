"""Calling a module with other parameters and buffers than its own, for the time of one call.

The tensors of the module are exchanged, the module is called, and its own come back, whatever
happens. Public as `torch.func.functional_call`.
"""

import sys
import warnings
from contextlib import contextmanager
from typing import Any

from flambeau._tensor import Tensor

__all__ = ["functional_call"]

_MISSING = object()  # what a module has under a name that only the call knows


def _named(module):
    found = dict(module.named_parameters(remove_duplicate=False))
    found.update(module.named_buffers(remove_duplicate=False))
    return found


def _untied(module, given):
    """given, with every other name of a tensor that has several."""
    groups: dict = {}
    for name, tensor in _named(module).items():
        groups.setdefault(id(tensor), []).append(name)
    found = dict(given)
    for names in groups.values():
        values = {name: given[name] for name in names if name in given}
        if len(names) == 1 or not values:
            continue
        if len({id(v) for v in values.values()}) > 1:
            raise ValueError(
                f"functional_call got multiple values for keys {sorted(names)}, which are tied. "
                "Consider using tie_weights=False"
            )
        for name in names:
            found[name] = next(iter(values.values()))
    return found


def _owner(module, path):
    """The module that holds the tensor of this path, and its name there."""
    *above, name = path.split(".")
    for part in above:
        found = module._modules.get(part) if hasattr(module, "_modules") else None
        if found is None:
            found = getattr(module, part, None)
            if found is None:
                kind = type(module).__name__
                raise AttributeError(f"{kind} has no attribute `{part}`")
        module = found
    return module, name


def _exchange(module, path, value):
    """Put a tensor in the place of another; gives the other."""
    owner, name = _owner(module, path)
    if value is _MISSING:  # it came with the call
        before = getattr(owner, name)
        delattr(owner, name)
        return before
    for fields in (owner._parameters, owner._buffers):
        if name in fields:
            before = fields[name]
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(f"{value} is not an instance of torch.Tensor")
            fields[name] = value
            return before
    before = getattr(owner, name, _MISSING)
    if before is not _MISSING and not isinstance(before, Tensor):
        raise TypeError(f"attribute `{name}`: {before} is not an instance of torch.Tensor")
    setattr(owner, name, value)
    return before


@contextmanager
def _reparametrize_module(module, parameters_and_buffers, tie_weights=False, strict=False):
    tensors = (
        _untied(module, parameters_and_buffers) if tie_weights else dict(parameters_and_buffers)
    )
    if strict:
        _check_names(module, tensors)
    own: dict = {}
    try:
        for path, value in tensors.items():
            own[path] = _exchange(module, path, value)
        yield
    finally:
        for path, value in reversed(own.items()):
            now = _exchange(module, path, value)
            if path in parameters_and_buffers:  # buffers that forward replaced are handed out
                parameters_and_buffers[path] = now


def _check_names(module, tensors):
    known = _named(module)
    unexpected = [name for name in tensors if name not in known]
    missing = [name for name in known if name not in tensors]
    problems = [
        f"{kind} key(s): {', '.join(map(repr, sorted(names)))}."
        for kind, names in (("Unexpected", unexpected), ("Missing", missing))
        if names
    ]
    if problems:
        listed = "\n\t".join(problems)
        raise RuntimeError(f"Error(s) in reparametrizing for {module._get_name()}:\n\t{listed}")


def _functional_call(
    module, parameters_and_buffers, args=None, kwargs=None, *, tie_weights=True, strict=False
):
    from flambeau.nn.parallel.data_parallel import DataParallel

    if isinstance(module, DataParallel):
        raise RuntimeError("The stateless API can't be used with nn.DataParallel module")
    jit = sys.modules.get("flambeau.jit")  # without which there are no such modules
    if jit is not None and isinstance(module, jit.ScriptModule):
        raise RuntimeError("The stateless API can't be used with Jitted modules")
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    with _reparametrize_module(module, parameters_and_buffers, tie_weights, strict):
        return module(*args, **(kwargs or {}))


def functional_call(
    module,
    parameters_and_buffers: dict[str, Tensor],
    args: Any | tuple | None = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
):
    """The old place of torch.func.functional_call."""
    warnings.warn(
        "`torch.nn.utils.stateless.functional_call` is deprecated as of PyTorch 2.0 and will be "
        "removed in a future version of PyTorch. Please use `torch.func.functional_call` instead "
        "which is a drop-in replacement.",
        FutureWarning,
        stacklevel=2,
    )
    return _functional_call(
        module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict
    )
