"""Module: the base of all layers and models.

What a module holds (registry.py), how it is walked and converted (traversal.py), called
(calling.py), saved and loaded (state.py) are parts of one class; its text form is here.
"""

from collections import OrderedDict
from typing import Any

from flambeau.nn.modules import calling, registry
from flambeau.nn.modules.calling import Calling
from flambeau.nn.modules.calling import (
    register_module_backward_hook as register_module_backward_hook,
)
from flambeau.nn.modules.calling import register_module_forward_hook as register_module_forward_hook
from flambeau.nn.modules.calling import (
    register_module_forward_pre_hook as register_module_forward_pre_hook,
)
from flambeau.nn.modules.calling import (
    register_module_full_backward_hook as register_module_full_backward_hook,
)
from flambeau.nn.modules.calling import (
    register_module_full_backward_pre_hook as register_module_full_backward_pre_hook,
)
from flambeau.nn.modules.registry import (
    _DICTIONARIES,
    Registry,
)
from flambeau.nn.modules.registry import (
    register_module_buffer_registration_hook as register_module_buffer_registration_hook,
)
from flambeau.nn.modules.registry import (
    register_module_module_registration_hook as register_module_module_registration_hook,
)
from flambeau.nn.modules.registry import (
    register_module_parameter_registration_hook as register_module_parameter_registration_hook,
)
from flambeau.nn.modules.state import EXTRA_STATE as _EXTRA_STATE_KEY_SUFFIX  # noqa: F401
from flambeau.nn.modules.state import State
from flambeau.nn.modules.state import _IncompatibleKeys as _IncompatibleKeys
from flambeau.nn.modules.traversal import Traversal

_global_forward_hooks = calling.forward_hooks
_global_forward_pre_hooks = calling.forward_pre_hooks
_global_forward_hooks_always_called = calling.forward_hooks_always_called
_global_forward_hooks_with_kwargs = calling.forward_hooks_with_kwargs
_global_backward_hooks = calling.backward_hooks
_global_backward_pre_hooks = calling.backward_pre_hooks
_global_parameter_registration_hooks = registry.parameter_hooks
_global_buffer_registration_hooks = registry.buffer_hooks
_global_module_registration_hooks = registry.module_hooks


def _addindent(text, spaces):
    """text with all lines but the first moved to the right."""
    first, *rest = text.split("\n")
    return "\n".join([first, *(" " * spaces + line for line in rest)])


class Module(Registry, Calling, Traversal, State):
    """Base class of layers and models: subclasses make parameters in __init__ and use them in
    forward.
    """

    dump_patches = False
    _kept: tuple[str, ...] = ()  # arguments that declaring.py made attributes

    def __setstate__(self, state):
        self.__dict__.update(state)
        for name in _DICTIONARIES:
            self.__dict__.setdefault(name, OrderedDict())
        self.__dict__.setdefault("_non_persistent_buffers_set", set())
        self.__dict__.setdefault("_is_full_backward_hook", None)
        for place in ("_parameters", "_buffers", "_modules"):
            for name in self.__dict__.get(place, ()):
                self._show(place, name)

    def __getstate__(self):
        state = self.__dict__.copy()
        state.pop("_compiled_call_impl", None)
        return state

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile this module's calls in place, as `torch.compile` would."""
        import flambeau

        self._compiled_call_impl = flambeau._dynamo.compiled_call(self, *args, **kwargs)

    def _replicate_for_data_parallel(self):
        """A twin that shares everything but the dictionaries; parameters come to it later."""
        twin = object.__new__(type(self))
        own = {"_buffers": dict(self._buffers), "_modules": dict(self._modules)}
        vars(twin).update(vars(self), **own, _parameters={}, _is_replica=True)
        return twin

    # -- text --------------------------------------------------------------------------------
    def _get_name(self):
        return self.__class__.__name__

    def extra_repr(self) -> str:
        """What the text of a module tells beside its name: override it."""
        return ""

    def __repr__(self):
        inside = self.extra_repr()
        if self._modules or "\n" in inside:
            lines = inside.split("\n") if inside else []
            for name, module in self._modules.items():
                lines.append(f"({name}): {_addindent(repr(module), 2)}")
            inside = "".join(f"\n  {line}" for line in lines) + "\n"
        return f"{self._get_name()}({inside})"
