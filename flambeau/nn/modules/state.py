"""The state of a module: saving it by name, and loading it all or not at all.

Loading first looks at everything and lists all problems; only if there are none is anything copied,
so a failed load leaves the module as it was, unless it has extra state. Modules may override
`_save_to_state_dict` and `_load_from_state_dict`; the copies of those that call the inherited ones
wait as well.
"""

import warnings
import weakref
from collections import OrderedDict, namedtuple
from collections.abc import Mapping
from typing import Any

from flambeau import __future__ as future
from flambeau._tensor import Tensor
from flambeau.autograd.grad_mode import no_grad
from flambeau.autograd.node import RemovableHandle
from flambeau.nn.parameter import Parameter, is_lazy
from flambeau.utils.swapping import swap_tensors

EXTRA_STATE = "_extra_state"
_pending: list = []  # copies that wait, per load_state_dict that is under way


class _IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    """What load_state_dict returns."""

    __slots__ = ()

    def __repr__(self):
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


def _register(hooks, hook):
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle


class _WithModule:
    """A hook that wants the module as its first argument, and does not keep it alive."""

    def __init__(self, hook, module):
        self.hook, self.module = hook, weakref.ref(module)

    def __call__(self, *args):
        return self.hook(self.module(), *args)

    def __getstate__(self):
        return self.hook, self.module()

    def __setstate__(self, state):
        self.__init__(*state)


class State:
    """state_dict and load_state_dict."""

    _version: int = 1
    _modules: dict[str, Any]
    _parameters: dict[str, Any]
    _buffers: dict[str, Any]
    _non_persistent_buffers_set: set[str]
    _state_dict_hooks: Any
    _state_dict_pre_hooks: Any
    _load_state_dict_pre_hooks: Any
    _load_state_dict_post_hooks: Any

    # -- hooks -------------------------------------------------------------------------------
    def register_state_dict_pre_hook(self, hook: Any) -> RemovableHandle:
        """hook(module, prefix, keep_vars) runs before state_dict."""
        return _register(self._state_dict_pre_hooks, hook)

    def _register_state_dict_hook(self, hook):
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError(
                "Cannot register the same function as the state dict post hook that was previously "
                "registered via register_state_dict_post_hook"
            )
        return _register(self._state_dict_hooks, hook)

    def register_state_dict_post_hook(self, hook: Any) -> RemovableHandle:
        """hook(module, state_dict, prefix, local_metadata) runs after state_dict, in place."""
        hook._from_public_api = True
        return _register(self._state_dict_hooks, hook)

    def _register_load_state_dict_pre_hook(self, hook, with_module=False):
        return _register(
            self._load_state_dict_pre_hooks, _WithModule(hook, self) if with_module else hook
        )

    def register_load_state_dict_pre_hook(self, hook: Any) -> RemovableHandle:
        """hook(module, state_dict, prefix, ...) runs before a module loads its part."""
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def register_load_state_dict_post_hook(self, hook: Any) -> RemovableHandle:
        """hook(module, incompatible_keys) runs after load_state_dict."""
        return _register(self._load_state_dict_post_hooks, hook)

    # -- saving ------------------------------------------------------------------------------
    def get_extra_state(self) -> Any:
        """What else to save: override together with set_extra_state."""
        raise RuntimeError(
            "Reached a code path in Module.get_extra_state() that should never be called. Please "
            "file an issue at https://github.com/pytorch/pytorch/issues/new?template=bug-report.yml"
            " to report this bug."
        )

    def set_extra_state(self, state: Any) -> None:
        """Take over what get_extra_state gave."""
        raise RuntimeError(
            "Reached a code path in Module.set_extra_state() that should never be called. Please "
            "file an issue at https://github.com/pytorch/pytorch/issues/new?template=bug-report.yml"
            " to report this bug."
        )

    def _persistent(self):
        """(name, tensor) of parameters, then of buffers that are saved."""
        yield from self._parameters.items()
        for name, buffer in self._buffers.items():
            if name not in self._non_persistent_buffers_set:
                yield name, buffer

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        """The parameters and buffers of this module alone."""
        for name, tensor in self._persistent():
            if tensor is not None:
                destination[prefix + name] = tensor if keep_vars else tensor.detach()
        if type(self).get_extra_state is not State.get_extra_state:
            destination[prefix + EXTRA_STATE] = self.get_extra_state()

    def state_dict(
        self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> Any:
        """All parameters and persistent buffers by path, sharing memory with the module."""
        if args:
            warnings.warn(
                "Positional args are being deprecated, use kwargs instead. Refer to "
                "https://pytorch.org/docs/main/generated/torch.nn.Module.html"
                "#torch.nn.Module.state_dict for details.",
                FutureWarning,
                stacklevel=2,
            )
            given = {"destination": destination, "prefix": prefix, "keep_vars": keep_vars}
            for (name, value), plain, old in zip(given.items(), (None, "", False), args):
                given[name] = old if value == plain else value
            return self.state_dict(**given)
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        return self._write_state(destination, prefix, keep_vars)

    def _write_state(self, destination, prefix, keep_vars):
        """Everything into a dictionary that exists, with the hooks before and after."""
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        about = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = about
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, child in self._modules.items():
            if child is not None:
                path = f"{prefix}{name}."
                child.state_dict(destination=destination, prefix=path, keep_vars=keep_vars)
        for hook in self._state_dict_hooks.values():
            changed = hook(self, destination, prefix, about)
            if changed is None:
                continue
            if getattr(hook, "_from_public_api", False):
                raise RuntimeError("state_dict post-hook must return None")
            destination = changed
        return destination

    # -- loading -----------------------------------------------------------------------------
    def _load_from_state_dict(
        self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    ):
        """The part of this module alone; problems are listed, copies wait until all is well."""
        for hook in self._load_state_dict_pre_hooks.values():
            hook(
                state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                error_msgs,
            )  # fmt: skip
        own = {name: tensor for name, tensor in self._persistent() if tensor is not None}
        assign = local_metadata.get("assign_to_params_buffers", False)
        for name, param in own.items():
            key = prefix + name
            if key in state_dict:
                self._load_one(name, param, key, state_dict[key], assign, error_msgs)
            elif strict:
                missing_keys.append(key)
        self._load_extra(state_dict, prefix, strict, missing_keys, unexpected_keys)
        if strict:
            for key in state_dict:
                if key.startswith(prefix) and key != prefix + EXTRA_STATE:
                    first, *below = key[len(prefix) :].split(".", 1)
                    known = first in self._modules if below else first in own
                    if not known:
                        unexpected_keys.append(key)

    def _load_one(self, name, param, key, value, assign, error_msgs):
        if not isinstance(value, Tensor):
            error_msgs.append(
                f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like '
                f"object from checkpoint but received {type(value)}"
            )
            return
        lazy = is_lazy(param)
        if lazy and is_lazy(value):  # neither has a shape yet: nothing to copy
            return
        if not lazy:
            if len(param.shape) == 0 and len(value.shape) == 1 and value.shape[0] == 1:
                value = value[0]  # numbers used to be saved as vectors of one element
            if value.shape != param.shape:
                error_msgs.append(
                    f"size mismatch for {key}: copying a param with shape {value.shape} from "
                    f"checkpoint, the shape in current model is {param.shape}."
                )
                return
            if param.is_meta and not value.is_meta and not assign:
                warnings.warn(
                    f"for {key}: copying from a non-meta parameter in the checkpoint to a meta "
                    "parameter in the current model, which is a no-op. (Did you mean to pass "
                    "`assign=True` to assign items in the state dictionary to their corresponding "
                    "key in the module instead of copying them in place?)",
                    stacklevel=2,
                )

        def copy():
            with no_grad():
                if future.get_swap_module_params_on_conversion():
                    _exchange(param, value, assign)
                    return
                if not assign:
                    param.copy_(value)
                    return
                new = value
                if isinstance(param, Parameter):
                    if isinstance(value, Parameter):
                        new = value.requires_grad_(param.requires_grad)
                    else:
                        new = Parameter(value, requires_grad=param.requires_grad)
                setattr(self, name, new)

        if _pending:
            _pending[-1].append((key, param, value, copy, error_msgs))
        else:  # called on its own, outside load_state_dict
            _run_copy(key, param, value, copy, error_msgs)

    def _load_extra(self, state_dict, prefix, strict, missing_keys, unexpected_keys):
        key = prefix + EXTRA_STATE
        if type(self).set_extra_state is not State.set_extra_state:
            if key in state_dict:
                # at once, for it may bring modules and parameters which the state has as well
                for waiting in _pending[-1:]:
                    _run_copies(waiting)
                self.set_extra_state(state_dict[key])
            elif strict:
                missing_keys.append(key)
        elif strict and key in state_dict:
            unexpected_keys.append(key)

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> Any:
        """Copy saved parameters and buffers into this module and those below it.

        strict: names must match. assign: take over the tensors themselves instead of copying.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        keys = _IncompatibleKeys([], [])
        problems: list[str] = []
        _pending.append([])
        try:
            loaded = _offer_state(self, state_dict, assign, keys, problems)
        finally:
            waiting = _pending.pop()
        for module in loaded:
            module._run_load_hooks(keys)
        if strict:
            problems[:0] = _key_problems(keys)
        if not problems:
            _run_copies(waiting)
        if problems:
            listed = "\n\t".join(problems)
            raise RuntimeError(
                f"Error(s) in loading state_dict for {type(self).__name__}:\n\t{listed}"
            )
        return keys

    def _run_load_hooks(self, keys):
        for hook in self._load_state_dict_post_hooks.values():
            if hook(self, keys) is not None:
                raise AssertionError(
                    "Hooks registered with ``register_load_state_dict_post_hook`` are not expected "
                    "to return new values, if incompatible_keys need to be modified, it should be "
                    "done inplace."
                )


def _offer_state(root, state_dict, assign, keys, problems):
    """Show each module its part of a state, parents first; all modules, children first.

    They look at keys with strict=True, whatever the user said: what is missing is listed anyway.
    """
    metadata = getattr(state_dict, "_metadata", None)
    state: Any = OrderedDict(state_dict)
    if metadata is not None:
        state._metadata = metadata
    return [*_offered(root, state, "", metadata or {}, assign, (True, *keys, problems))]


def _offered(module, part, prefix, metadata, assign, rest):
    about = metadata.get(prefix[:-1], {})
    if assign:
        about["assign_to_params_buffers"] = assign
    module._load_from_state_dict(part, prefix, about, *rest)
    for name, child in module._modules.items():
        if child is not None:
            path = f"{prefix}{name}."
            below = {k: v for k, v in part.items() if k.startswith(path)}
            yield from _offered(child, below, path, metadata, assign, rest)
    yield module


def _key_problems(keys):
    """What is said about keys that do not match."""
    for kind, names in (("Missing", keys.missing_keys), ("Unexpected", keys.unexpected_keys)):
        if names:
            listed = ", ".join(f'"{name}"' for name in names)
            yield f"{kind} key(s) in state_dict: {listed}. "


def _exchange(param, value, assign):
    """A parameter or buffer turns into what its `module_load` makes of a value."""
    new = param.module_load(value, assign=assign)
    if new is param or new is value:
        raise RuntimeError(
            "module_load returned one of self or other, please .detach() the result if returning "
            "one of the inputs in module_load"
        )
    if isinstance(param, Parameter):
        if isinstance(new, Parameter):
            new.requires_grad_(param.requires_grad)
        else:
            new = Parameter(new, requires_grad=param.requires_grad)
    swap_tensors(param, new)


def _run_copies(waiting):
    for entry in waiting:
        _run_copy(*entry)
    waiting.clear()


def _run_copy(key, param, value, copy, error_msgs):
    try:
        copy()
    except Exception as error:
        shapes = (
            ""
            if param is None
            else (
                f"whose dimensions in the model are {param.shape} and whose dimensions in the "
                f"checkpoint are {value.shape}, "
            )
        )
        error_msgs.append(
            f'While copying the parameter named "{key}", {shapes}an exception occurred : '
            f"{error.args}."
        )
