"""`torch.nn.attention`: which implementations scaled_dot_product_attention may choose from.

The choice is kept and can be read back; on the CPU there is one implementation, which all of them
stand for.
"""

import contextlib
import enum
from collections.abc import Callable, Iterator

from flambeau.ops.attention import ALLOWED

__all__ = [
    "WARN_FOR_UNFUSED_KERNELS",
    "SDPBackend",
    "activate_flash_attention_impl",
    "current_flash_attention_impl",
    "list_flash_attention_impls",
    "register_flash_attention_impl",
    "restore_flash_attention_impl",
    "sdpa_kernel",
]

WARN_FOR_UNFUSED_KERNELS = False


class SDPBackend(enum.IntEnum):
    """Implementations of scaled_dot_product_attention, by PyTorch's names."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4

    def __str__(self):
        return f"SDPBackend.{self.name}"


_ORDER = [
    SDPBackend.CUDNN_ATTENTION,
    SDPBackend.FLASH_ATTENTION,
    SDPBackend.EFFICIENT_ATTENTION,
    SDPBackend.MATH,
    SDPBackend.OVERRIDEABLE,
]
_FLAGS = {
    SDPBackend.CUDNN_ATTENTION: "cudnn",
    SDPBackend.FLASH_ATTENTION: "flash",
    SDPBackend.EFFICIENT_ATTENTION: "mem_efficient",
    SDPBackend.MATH: "math",
    SDPBackend.OVERRIDEABLE: "overrideable",
}
_priority = list(_ORDER)


def _cur_sdpa_kernel_backends(with_priority: bool = False) -> list[SDPBackend]:
    """The implementations that may be chosen now."""
    return [b for b in (_priority if with_priority else _ORDER) if ALLOWED[_FLAGS[b]]]


@contextlib.contextmanager
def sdpa_kernel(
    backends: list[SDPBackend] | SDPBackend, set_priority: bool = False
) -> Iterator[dict]:
    """Within this context only the given implementations may be chosen.

    Args:
        set_priority: the order of the list is the order of preference.

    Example:
        >>> from flambeau.nn.attention import SDPBackend, sdpa_kernel
        >>> q = torch.ones(1, 2, 3, 4)
        >>> with sdpa_kernel(SDPBackend.MATH):
        ...     torch.nn.functional.scaled_dot_product_attention(q, q, q).shape
        torch.Size([1, 2, 3, 4])
    """
    global _priority
    if not isinstance(backends, (list, SDPBackend)):
        raise AssertionError(
            "Backend must be an instance of SDPBackend or a list of SDPBackend instances, got "
            + type(backends).__name__
        )
    wanted = [backends] if isinstance(backends, SDPBackend) else list(dict.fromkeys(backends))
    before, flags = _priority, dict(ALLOWED)
    if set_priority:
        _priority = [*wanted, *(b for b in before if b not in wanted)]
    ALLOWED.update({name: b in wanted for b, name in _FLAGS.items()})
    try:
        yield {}
    finally:
        _priority = before
        ALLOWED.update(flags)


# -- other implementations by name -----------------------------------------------------------------

_registered: dict = {}
_active: str | None = None


def register_flash_attention_impl(impl: str, *, register_fn: Callable) -> None:
    """Name an implementation; register_fn is called when it is activated."""
    _registered[impl] = register_fn


def activate_flash_attention_impl(impl: str) -> None:
    """Let a registered implementation do what it does to become the one in use."""
    global _active
    if impl not in _registered:
        raise ValueError(f"Unknown flash attention impl '{impl}'. Available: {sorted(_registered)}")
    _registered[impl]()
    _active = impl


def list_flash_attention_impls() -> list[str]:
    """Names of registered implementations."""
    return sorted(_registered)


def current_flash_attention_impl() -> str | None:
    """The name of the one in use; None for that of flambeau."""
    return _active


def restore_flash_attention_impl() -> None:
    """Back to that of flambeau."""
    global _active
    _active = None
