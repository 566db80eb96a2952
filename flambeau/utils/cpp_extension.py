"""`torch.utils.cpp_extension`: C++ written for PyTorch, of whose headers there are none here.

Libraries import these names where they have an extension and Python in its place; asking for the
extension says what is the matter.
"""

from typing import Any, NoReturn

__all__ = ["load", "load_inline"]

CUDA_HOME = None


def load(name: str, sources: str | list[str], *args: Any, **kwargs: Any) -> NoReturn:
    """Compile and load an extension: never possible."""
    raise RuntimeError(
        f"Error building extension '{name}': it is C++ for PyTorch's headers, of which flambeau, "
        "a framework in Python, has none"
    )


def load_inline(name: str, cpp_sources: Any, *args: Any, **kwargs: Any) -> NoReturn:
    """Compile and load an extension from text: never possible."""
    load(name, [])
