"""Modules that learn the sizes of their parameters from the first input they see.

A lazy module holds parameters without a shape and two hooks: one gives them shapes before the first
forward, one takes shapes from a state_dict. Afterwards the module becomes one of the ordinary class
`cls_to_become`, and nothing of this remains.
"""

import itertools
from typing import Any

from flambeau.autograd.grad_mode import no_grad
from flambeau.nn.parameter import is_lazy


class LazyModuleMixin:
    """Comes first among the bases of a lazy module; the other one is the ordinary module.

    A subclass says what `initialize_parameters(*inputs)` does: materialize and fill them.
    """

    cls_to_become: Any = None
    _parameters: dict[str, Any]
    _buffers: dict[str, Any]
    _register_load_state_dict_pre_hook: Any
    register_forward_pre_hook: Any
    _non_persistent_buffers_set: set[str]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        before_call, before_load = self._infer_parameters, self._lazy_load_hook
        self._initialize_hook = self.register_forward_pre_hook(before_call, with_kwargs=True)
        self._load_hook = self._register_load_state_dict_pre_hook(before_load)

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        """As every module does, but what has no shape yet is saved as it is."""
        kept = (
            (name, value)
            for name, value in itertools.chain(self._parameters.items(), self._buffers.items())
            if value is not None and name not in self._non_persistent_buffers_set
        )
        for name, value in kept:
            whole = is_lazy(value) or keep_vars
            destination[prefix + name] = value if whole else value.detach()

    def _lazy_load_hook(self, state_dict, prefix, *rest):
        """What waits for a shape takes that of the tensor it is about to be given."""
        for name, value in itertools.chain(self._parameters.items(), self._buffers.items()):
            saved = state_dict.get(prefix + name)
            if saved is not None and is_lazy(value) and not is_lazy(saved):
                with no_grad():
                    value.materialize(saved.shape)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Give shapes and values to the parameters, seeing the first input."""
        raise NotImplementedError(
            f"initialize_parameters is not implemented for {type(self).__name__}"
        )

    def has_uninitialized_params(self) -> bool:
        """Does anything still wait for a shape?"""
        return any(map(is_lazy, itertools.chain(self._parameters.values(), self._buffers.values())))

    def _infer_parameters(self, module, args, kwargs=None):
        """The hook before the first forward. module is self, or a copy of it."""
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(f"module {module._get_name()} has not been fully initialized")
        for name in ("_initialize_hook", "_load_hook"):
            module.__dict__.pop(name).remove()
        become = module.cls_to_become
        module.__class__ = type(module) if become is None else become

    def _replicate_for_data_parallel(self):
        raise RuntimeError(
            "Modules with uninitialized parameters can't be used with `DataParallel`. Run a dummy "
            "forward pass to correctly initialize the modules"
        )
