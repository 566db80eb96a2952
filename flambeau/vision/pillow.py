"""Where Pillow is imported: on first need, with a message that says how to get it.

`from_array` makes an image of a NumPy array in a mode that the caller names. Pillow itself guesses
modes from shapes and dtypes; here the bytes are taken as they are.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any


@cache
def pillow(part: str = "Image") -> Any:
    """The module PIL.<part>."""
    try:
        return importlib.import_module(f"PIL.{part}")
    except ModuleNotFoundError as error:
        if error.name not in ("PIL", f"PIL.{part}"):
            raise
        raise ImportError(
            "reading and writing images needs the package pillow: pip install flambeau[vision]"
        ) from error


_frombuffer: Any = None
_fromarray: Any = None


def image_of(array: Any) -> Any:
    """A PIL image of a NumPy array, in the mode that its shape and dtype suggest."""
    global _fromarray
    if _fromarray is None:
        _fromarray = pillow().fromarray
    return _fromarray(array)


def from_array(obj: Any, mode: str) -> Any:
    """A PIL image over a NumPy array of shape (H, W) or (H, W, channels), read in this mode.

    A contiguous array of bytes is not copied: writing into one may change the other until Pillow
    makes its own copy, as with `PIL.Image.fromarray`.
    """
    global _frombuffer
    if _frombuffer is None:
        _frombuffer = pillow().frombuffer
    shape = obj.shape
    data = obj if obj.flags.c_contiguous else obj.tobytes()
    size = (1 if len(shape) == 1 else shape[1], shape[0])
    return _frombuffer(mode, size, data, "raw", mode, 0, 1)


def open_image(path: Any, mode: str | None = None) -> Any:
    """A PIL image from a file, read at once, in another mode if one is named."""
    with open(path, "rb") as file:
        image = pillow().open(file)
        if mode is not None:
            return image.convert(mode)
        image.load()
        return image
