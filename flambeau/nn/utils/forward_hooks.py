"""Hooks that compute a weight before every forward: finding, refusing and taking them off."""

from typing import Any

from flambeau.nn.parameter import is_lazy


def find_hook(module: Any, kind: type, name: str) -> Any:
    """(number, hook) of the hook of a kind that computes the tensor of that name, or None."""
    for number, hook in module._forward_pre_hooks.items():
        if isinstance(hook, kind) and getattr(hook, "name", None) == name:
            return number, hook
    return None


def refuse_second(module: Any, kind: type, name: str, what: str) -> None:
    """One hook of a kind per tensor."""
    if find_hook(module, kind, name) is not None:
        raise RuntimeError(f"Cannot register two {what} hooks on the same parameter {name}")


def refuse_lazy(weight: Any, kind: type, what: str) -> None:
    """A weight without a shape has no norm."""
    if is_lazy(weight):
        raise ValueError(
            f"The module passed to `{kind.__name__}` can't have uninitialized parameters. Make "
            f"sure to run the dummy forward before applying {what} normalization"
        )


def take_off(module: Any, kind: type, name: str, what: str) -> None:
    """Undo a hook: it puts an ordinary parameter in its place."""
    found = find_hook(module, kind, name)
    if found is None:
        raise ValueError(f"{what} of '{name}' not found in {module}")
    number, hook = found
    hook.remove(module)
    del module._forward_pre_hooks[number]
