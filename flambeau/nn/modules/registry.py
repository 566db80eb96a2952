"""What a module holds: parameters, buffers and modules, registered by assignment or by name.

`Registry` is the part of Module that answers `module.weight` and keeps the three dictionaries in
order. Everything else that is assigned is an ordinary attribute.
"""

import inspect
from collections import OrderedDict
from typing import Any

from flambeau._tensor import Tensor
from flambeau._tensor.questions import typename
from flambeau.autograd.node import RemovableHandle
from flambeau.nn.parameter import Buffer, Parameter

parameter_hooks: dict = OrderedDict()
buffer_hooks: dict = OrderedDict()
module_hooks: dict = OrderedDict()


def _registered(hooks, hook):
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle


def register_module_buffer_registration_hook(hook):
    """hook(module, name, buffer) runs whenever a buffer is registered; it may return another."""
    return _registered(buffer_hooks, hook)


def register_module_module_registration_hook(hook):
    """hook(module, name, submodule) runs whenever a module is registered."""
    return _registered(module_hooks, hook)


def register_module_parameter_registration_hook(hook):
    """hook(module, name, parameter) runs whenever a parameter is registered."""
    return _registered(parameter_hooks, hook)


def _hooked(hooks, module, name, value):
    for hook in hooks.values():
        found = hook(module, name, value)
        if found is not None:
            value = found
    return value


_DICTIONARIES = tuple(
    "_backward_pre_hooks _backward_hooks _forward_hooks _forward_hooks_with_kwargs "
    "_forward_hooks_always_called _forward_pre_hooks _forward_pre_hooks_with_kwargs "
    "_state_dict_hooks _state_dict_pre_hooks _load_state_dict_pre_hooks "
    "_load_state_dict_post_hooks".split()
)


class _Held:
    """What `module.weight` finds on the class: the way to what the module holds under that name.

    Without it Python would make up an error, drop it and ask __getattr__, which takes four times as
    long. An attribute of the module itself comes first, and where the name is not held __getattr__
    is asked as ever.
    """

    __slots__ = ("name", "place")

    def __init__(self, place, name):
        self.place, self.name = place, name

    def __get__(self, module, owner=None):
        try:
            return module.__dict__[self.place][self.name]
        except (KeyError, AttributeError):
            raise AttributeError(self.name) from None


_PLAIN = frozenset((bool, int, float, str, tuple, type(None)))  # of attributes


def _is_like_a_tensor(value):
    return isinstance(value, Tensor) or hasattr(value, "__torch_function__")


class Registry:
    """Registration and attributes."""

    call_super_init = False
    _shows_names = True  # containers of many names do without _Held
    training: bool
    _parameters: dict[str, Any]
    _buffers: dict[str, Any]
    _modules: dict[str, Any]
    _non_persistent_buffers_set: set[str]

    def __init__(self, *args, **kwargs):
        if not self.call_super_init:
            name = type(self).__name__
            if kwargs:
                raise TypeError(
                    f"{name}.__init__() got an unexpected keyword argument '{next(iter(kwargs))}'"
                )
            if args:
                raise TypeError(
                    f"{name}.__init__() takes 1 positional argument but {len(args) + 1} were given"
                )
        fields = self.__dict__
        fields["training"] = True
        fields["_parameters"], fields["_buffers"] = {}, {}
        fields["_non_persistent_buffers_set"] = set()
        fields["_is_full_backward_hook"] = None
        for name in _DICTIONARIES:
            fields[name] = OrderedDict()
        fields["_modules"] = {}
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    def _show(self, place, name):
        """Make a registered name quick to read."""
        kind = type(self)
        plain = kind.__getattr__ is Registry.__getattr__ and self._shows_names
        plain = plain and Registry not in kind.__bases__  # Module itself stays as it is
        if plain and name.isidentifier() and not any(name in c.__dict__ for c in kind.__mro__):
            setattr(kind, name, _Held(place, name))

    # -- by name -----------------------------------------------------------------------------
    def _check_name(self, kind, name, kept):
        if kept not in self.__dict__:
            raise AttributeError(f"cannot assign {kind} before Module.__init__() call")
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {typename(name)}")
        if hasattr(self, name) and name not in self.__dict__[kept]:
            raise KeyError(f"attribute '{name}' already exists")
        if "." in name:
            got = f", got: {name}" if kind == "module" else ""
            raise KeyError(f'{kind} name can\'t contain "."{got}')
        if name == "":
            raise KeyError(f'{kind} name can\'t be empty string ""')

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Keep a tensor that is not learned; persistent ones are part of the state_dict."""
        self._check_name("buffer", name, "_buffers")
        if tensor is not None and not _is_like_a_tensor(tensor):
            raise TypeError(
                f"cannot assign '{typename(tensor)}' object to buffer '{name}' (torch Tensor or "
                "None required)"
            )
        self._buffers[name] = _hooked(buffer_hooks, self, name, tensor)
        self._show("_buffers", name)
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Keep a parameter under a name."""
        self._check_name("parameter", name, "_parameters")
        self._show("_parameters", name)
        if param is None:
            self._parameters[name] = None
            return
        if not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{typename(param)}' object to parameter '{name}' "
                "(torch.nn.Parameter or None required)"
            )
        if param.grad_fn is not None:
            raise ValueError(
                f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be "
                f"created explicitly. To express '{name}' as a function of another Tensor, compute "
                "the value in the forward() method."
            )
        self._parameters[name] = _hooked(parameter_hooks, self, name, param)

    def add_module(self, name: str, module: Any) -> None:
        """Keep a module under a name."""
        if module is not None and not isinstance(module, Registry):
            raise TypeError(f"{typename(module)} is not a Module subclass")
        self._check_name("module", name, "_modules")
        self._modules[name] = _hooked(module_hooks, self, name, module)

    def register_module(self, name: str, module: Any) -> None:
        """The same as add_module."""
        self.add_module(name, module)

    def get_submodule(self, target: str) -> Any:
        """The module at a path such as "features.0.conv"."""
        found: Any = self
        for name in target.split(".") if target else ():
            if not hasattr(found, name):
                raise AttributeError(f"{found._get_name()} has no attribute `{name}`")
            found = getattr(found, name)
            if not isinstance(found, Registry):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return found

    def set_submodule(self, target: str, module: Any, strict: bool = False) -> None:
        """Put a module at a path; strict: only in place of another."""
        if target == "":
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, Registry):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(f"{parent._get_name()} has no attribute `{name}`")
        if hasattr(parent, name) and not isinstance(getattr(parent, name), Registry):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def _member(self, target):
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
        return module, name

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at a path."""
        module, name = self._member(target)
        found = getattr(module, name)
        if not isinstance(found, Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return found

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at a path."""
        module, name = self._member(target)
        if name not in module._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        return getattr(module, name)

    # -- by attribute ------------------------------------------------------------------------
    def __getattr__(self, name: str) -> Any:
        fields = self.__dict__
        if "_parameters" in fields:  # every forward comes here: no loop
            kept = fields["_parameters"]
            if name in kept:
                return kept[name]
        if "_buffers" in fields:
            kept = fields["_buffers"]
            if name in kept:
                return kept[name]
        if "_modules" in fields:
            kept = fields["_modules"]
            if name in kept:
                return kept[name]
        found = [c.__dict__[name] for c in type(self).__mro__ if name in c.__dict__]
        if len(found) > 1 and isinstance(found[0], _Held):  # it hides what another base defines
            behind = next((v for v in found if not isinstance(v, _Held)), found[0])
            if behind is not found[0]:
                return behind.__get__(self, type(self)) if hasattr(behind, "__get__") else behind
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def _forget(self, name, *places):
        """Remove a name from everywhere else, since it is about to mean something new."""
        for place in places:
            place.pop(name, None) if isinstance(place, dict) else place.discard(name)

    def __setattr__(self, name: str, value: Any) -> None:
        fields = self.__dict__
        parameters = fields.get("_parameters")
        other = type(value) not in _PLAIN  # whether it is a parameter takes longer to find out
        if other and isinstance(value, Parameter):
            if parameters is None:
                raise AttributeError("cannot assign parameters before Module.__init__() call")
            self._forget(
                name, fields, self._buffers, self._modules, self._non_persistent_buffers_set
            )
            self.register_parameter(name, value)
            return
        if parameters is not None and name in parameters:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{typename(value)}' as parameter '{name}' "
                    "(torch.nn.Parameter or None expected)"
                )
            self.register_parameter(name, value)
            return
        modules = fields.get("_modules")
        if other and isinstance(value, Registry):
            if modules is None:
                raise AttributeError("cannot assign module before Module.__init__() call")
            self._forget(
                name, fields, self._parameters, self._buffers, self._non_persistent_buffers_set
            )
            modules[name] = _hooked(module_hooks, self, name, value)
            self._show("_modules", name)
            return
        if modules is not None and name in modules:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{typename(value)}' as child module '{name}' (torch.nn.Module "
                    "or None expected)"
                )
            modules[name] = _hooked(module_hooks, self, name, value)
            return
        buffers = fields.get("_buffers")
        if (other and isinstance(value, Buffer)) or (buffers is not None and name in buffers):
            self._set_buffer(name, value, buffers)
            return
        object.__setattr__(self, name, value)

    def _set_buffer(self, name, value, buffers):
        if buffers is None:
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        if value is not None and not _is_like_a_tensor(value):
            raise TypeError(
                f"cannot assign '{typename(value)}' as buffer '{name}' (torch.nn.Buffer, "
                "torch.Tensor or None expected)"
            )
        if isinstance(value, Buffer) and name not in buffers:
            self._register_buffer_as(name, value)
            return
        if isinstance(value, Buffer):
            if value.persistent:
                self._non_persistent_buffers_set.discard(name)
            else:
                self._non_persistent_buffers_set.add(name)
        buffers[name] = _hooked(buffer_hooks, self, name, value)

    def _register_buffer_as(self, name, value):
        """By register_buffer, which a subclass may have written without `persistent`."""
        register = self.register_buffer
        if type(self).register_buffer is Registry.register_buffer or (
            "persistent" in inspect.signature(register).parameters
        ):
            register(name, value, value.persistent)
            return
        if not value.persistent:
            raise RuntimeError(
                "Registering a non-persistent buffer on a Module subclass that implements "
                "register_buffer() without the persistent argument is not allowed."
            )
        register(name, value)

    def __delattr__(self, name):
        for kept in (self._parameters, self._buffers, self._modules):
            if name in kept:
                del kept[name]
                self._non_persistent_buffers_set.discard(name)  # there if it was a buffer
                return
        object.__delattr__(self, name)

    def __dir__(self):
        held = {
            name
            for kind in type(self).__mro__
            for name, value in vars(kind).items()
            if isinstance(value, _Held)
        }
        own = {*dir(type(self))} - held
        own |= {*self.__dict__, *self._parameters, *self._modules, *self._buffers}
        return sorted(name for name in own if not name[:1].isdigit())
