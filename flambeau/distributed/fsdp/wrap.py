"""Which modules are wrapped: policies, and wrapping by hand.

A policy is a function (module, recurse, nonwrapped_numel). With recurse it says whether to look
into a module, without whether to wrap it; nonwrapped_numel counts parameters that no part of the
module has taken yet. `ModuleWrapPolicy` and `CustomPolicy` decide by class and by a function.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from flambeau.nn import ModuleDict, ModuleList, MultiheadAttention
from flambeau.nn.modules.module import Module

__all__ = [
    "CustomPolicy",
    "ModuleWrapPolicy",
    "always_wrap_policy",
    "enable_wrap",
    "lambda_auto_wrap_policy",
    "size_based_auto_wrap_policy",
    "transformer_auto_wrap_policy",
    "wrap",
]


def always_wrap_policy(*args: Any, **kwargs: Any) -> bool:
    """Every module."""
    return True


def lambda_auto_wrap_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, lambda_fn: Callable
) -> bool:
    """Modules for which a function says so."""
    return True if recurse else lambda_fn(module)


def transformer_auto_wrap_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, transformer_layer_cls: set
) -> bool:
    """Modules of some classes."""
    return True if recurse else isinstance(module, tuple(transformer_layer_cls))


def size_based_auto_wrap_policy(
    module: Module,
    recurse: bool,
    nonwrapped_numel: int,
    min_num_params: int = int(1e8),
    force_leaf_modules: set | None = None,
    exclude_wrap_modules: set | None = None,
) -> bool:
    """Modules with at least min_num_params parameters that no part of them has taken.

    Args:
        force_leaf_modules: classes that are not looked into.
        exclude_wrap_modules: classes that are not wrapped.
    """
    policy: Any = size_based_auto_wrap_policy
    leaves = policy.FORCE_LEAF_MODULES if force_leaf_modules is None else force_leaf_modules
    excluded = policy.EXCLUDE_WRAP_MODULES if exclude_wrap_modules is None else exclude_wrap_modules
    is_large = nonwrapped_numel >= min_num_params
    if recurse:
        return is_large and not isinstance(module, tuple(leaves))
    return is_large and not isinstance(module, tuple(excluded))


size_based_auto_wrap_policy.EXCLUDE_WRAP_MODULES = {ModuleList, ModuleDict}  # type: ignore[attr-defined]
size_based_auto_wrap_policy.FORCE_LEAF_MODULES = {MultiheadAttention}  # type: ignore[attr-defined]


class ModuleWrapPolicy:
    """Modules of some classes.

    It may be called as a policy function, too.
    """

    def __init__(self, module_classes: Iterable[type]) -> None:
        self._module_classes = set(module_classes)

    def options_for(self, module: Module) -> bool | dict:
        """Is a module wrapped, and with which options?"""
        return isinstance(module, tuple(self._module_classes))

    def __call__(self, module: Module, recurse: bool, *args: Any, **kwargs: Any) -> bool:
        return True if recurse else bool(self.options_for(module))

    def __repr__(self) -> str:
        return f"ModuleWrapPolicy({self._module_classes})"


class CustomPolicy:
    """Modules for which a function gives True, or a dictionary of options."""

    def __init__(self, lambda_fn: Callable[[Module], bool | dict]) -> None:
        self._lambda_fn = lambda_fn

    def options_for(self, module: Module) -> bool | dict:
        """Is a module wrapped, and with which options?"""
        found = self._lambda_fn(module)
        if not isinstance(found, (bool, dict)):
            raise ValueError(
                "The lambda_fn passed to CustomPolicy should return False/True or a kwarg dict, "
                f"but it returned {found}"
            )
        return found


# -- wrapping by hand ------------------------------------------------------------------------------


class _Enabled:
    wrapper: Any = None
    options: dict = {}


@contextlib.contextmanager
def enable_wrap(*, wrapper_cls: Any, **wrapper_kwargs: Any) -> Iterator[None]:
    """A context in which `wrap` wraps with a class and options."""
    before = _Enabled.wrapper, _Enabled.options
    _Enabled.wrapper, _Enabled.options = wrapper_cls, wrapper_kwargs
    try:
        yield
    finally:
        _Enabled.wrapper, _Enabled.options = before


def wrap(module: Module, **wrap_overrides: Any) -> Module:
    """The module wrapped as `enable_wrap` says; outside of it, the module itself."""
    if _Enabled.wrapper is None:
        return module
    return _Enabled.wrapper(module, **{**_Enabled.options, **wrap_overrides})


# -- wrapping by a policy --------------------------------------------------------------------------


def wrap_parts(root: Module, policy: Any, wrapper: Any, options: dict, ignored: set[int]) -> None:
    """Wrap parts of a module, inner ones first, but not the module itself."""
    taken: set[int] = set()
    if hasattr(policy, "options_for"):
        _wrap_chosen(root, policy, wrapper, options, ignored, {})
    else:
        _wrap_large(root, policy, wrapper, options, ignored, taken)


def _wrap_chosen(module, policy, wrapper, options, ignored, done):
    for name, child in list(module.named_children()):
        if id(child) in ignored:
            continue
        if id(child) not in done:
            _wrap_chosen(child, policy, wrapper, options, ignored, done)
            answer = policy.options_for(child)
            done[id(child)] = child
            if answer is not False and not isinstance(child, wrapper):
                given = options | (answer if isinstance(answer, dict) else {})
                done[id(child)] = wrapper(child, **given)
        if done[id(child)] is not child:
            module._modules[name] = done[id(child)]


def _numel(module, ignored):
    """Parameters of a module, without those of ignored ones."""
    hidden = {id(p) for m in module.modules() if id(m) in ignored for p in m.parameters()}
    return sum(p.numel() for p in module.parameters() if id(p) not in hidden)


def _wrap_large(module, policy, wrapper, options, ignored, done):
    """How many parameters of a module its wrapped parts have taken."""
    taken = 0
    if not policy(module=module, recurse=True, nonwrapped_numel=_numel(module, ignored)):
        return 0
    for name, child in list(module.named_children()):
        if id(child) in ignored or isinstance(child, wrapper) or id(child) in done:
            continue
        total = _numel(child, ignored)
        inside = _wrap_large(child, policy, wrapper, options, ignored, done)
        if policy(module=child, recurse=False, nonwrapped_numel=total - inside):
            done.add(id(child))
            module._modules[name] = wrapper(child, **options)
            inside = total
        taken += inside
    return taken
