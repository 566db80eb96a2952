"""`torch.utils.module_tracker`: which modules run, forward or backward, at a moment."""

import weakref
from typing import Any

from flambeau.autograd.engine import current_pass, queue_callback
from flambeau.autograd.graph import register_multi_grad_hook
from flambeau.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from flambeau.utils import _pytree as pytree

__all__ = ["ModuleTracker"]


class ModuleTracker:
    """Inside of its `with`, `parents` holds the paths of the modules that run.

    "Global" is always among them; in a backward, a module runs from the gradients of its outputs to
    those of its inputs.
    """

    parents: set[str]

    def __init__(self) -> None:
        self.parents = {"Global"}
        self._known: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
        self._seen: weakref.WeakSet = weakref.WeakSet()
        self._handles: list[Any] = []

    @property
    def is_bw(self) -> bool:
        """Does a backward run?"""
        return current_pass() is not None

    def _name(self, module: Any) -> str:
        if module not in self._known:
            self._known[module] = type(module).__name__
        if module not in self._seen:
            for name, child in module.named_children():
                self._known[child] = f"{self._known[module]}.{name}"
                self._name(child)
            self._seen.add(module)
        return self._known[module]

    def _enter(self, name: str, back: bool) -> Any:
        def enter(*_: Any) -> None:
            if back and name not in self.parents:  # what has no gradient never leaves
                queue_callback(self._leave(name))
            self.parents.add(name)

        return enter

    def _leave(self, name: str) -> Any:
        def leave(*_: Any) -> None:
            self.parents.discard(name)

        return leave

    def _before(self, module: Any, inputs: Any) -> None:
        name = self._name(module)
        self._enter(name, False)()
        tensors = _differentiable(inputs)
        if tensors:
            self._handles.append(register_multi_grad_hook(tensors, self._leave(name)))

    def _after(self, module: Any, inputs: Any, result: Any) -> None:
        name = self._name(module)
        self._leave(name)()
        tensors = _differentiable(result)
        if tensors:
            self._handles.append(register_multi_grad_hook(tensors, self._enter(name, True)))

    def __enter__(self) -> "ModuleTracker":
        self._handles = [
            register_module_forward_pre_hook(self._before),
            register_module_forward_hook(self._after, always_call=True),
        ]
        return self

    def __exit__(self, *error: Any) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []


def _differentiable(values: Any) -> list[Any]:
    return [t for t in pytree.tree_leaves(values) if getattr(t, "requires_grad", False)]
