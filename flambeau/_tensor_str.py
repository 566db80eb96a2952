"""`torch._tensor_str`: the pieces that texts of tensors are put together from, for subclasses."""

from typing import Any

from flambeau import printing
from flambeau.printing import get_printoptions, printoptions, set_printoptions

__all__ = ["get_printoptions", "printoptions", "set_printoptions"]


def _tensor_str(self: Any, indent: int) -> str:
    """The numbers of a tensor as text that starts in column `indent`."""
    return "[]" if self.numel() == 0 else printing.contents(self.detach(), indent)


def _add_suffixes(tensor_str: str, suffixes: list[str], indent: int, force_newline: bool) -> str:
    """The text with words after it, and the bracket that ends it."""
    if force_newline and suffixes:
        first, *rest = suffixes
        return printing.appended(f"{tensor_str},\n{' ' * indent}{first}", rest, indent)
    return printing.appended(tensor_str, suffixes, indent)


def _str(self: Any, *, tensor_contents: str | None = None) -> str:
    """The whole text; `tensor_contents` stands in for the numbers."""
    return printing.tensor_repr(self, tensor_contents=tensor_contents)


_str_intern = _str


def __getattr__(name: str) -> Any:
    """PRINT_OPTS, as they are now."""
    if name == "PRINT_OPTS":
        return printing._options
    raise AttributeError(f"module 'torch._tensor_str' has no attribute '{name}'")
