"""`torch.fx._compatibility`: marks of how stable an API is."""

from collections.abc import Callable
from typing import Any

_BACK_COMPAT_OBJECTS: dict[Any, None] = {}
_MARKED_WITH_COMPATIBILITY: dict[Any, None] = {}


def compatibility(is_backward_compatible: bool) -> Callable:
    """Decorates a function or class; it comes back as it is."""

    def mark(thing: Any) -> Any:
        _MARKED_WITH_COMPATIBILITY[thing] = None
        if is_backward_compatible:
            _BACK_COMPAT_OBJECTS[thing] = None
        return thing

    return mark
