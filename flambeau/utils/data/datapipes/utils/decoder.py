"""Decoders: bytes to values, by a key such as the end of a file's name."""

import io
import json
import os.path
import pickle
import tempfile
from collections.abc import Callable
from typing import Any

import flambeau

from .common import StreamWrapper

__all__ = [
    "Decoder",
    "ImageHandler",
    "MatHandler",
    "audiohandler",
    "basichandlers",
    "extension_extract_fn",
    "handle_extension",
    "imagehandler",
    "mathandler",
    "videohandler",
]


def _as_text(data: bytes) -> str:
    return data.decode("utf-8")


def _as_number(data: bytes) -> int | None:
    try:
        return int(data)
    except ValueError:
        return None


_BASIC: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("txt", "text", "transcript"), _as_text),
    **dict.fromkeys(("cls", "cls2", "class", "count", "index", "inx", "id"), _as_number),
    **dict.fromkeys(("json", "jsn"), json.loads),
    **dict.fromkeys(("pyd", "pickle"), pickle.loads),
}


def basichandlers(extension: str, data: Any) -> Any:
    """Texts, numbers, JSON and pickles.

    Example:
        >>> from flambeau.utils.data.datapipes.utils.decoder import basichandlers
        >>> basichandlers("json", b'{"a": 1}')
        {'a': 1}
    """
    reader = _BASIC.get(extension)
    return None if reader is None else reader(data)


def handle_extension(extensions: str, f: Callable[[Any], Any]) -> Callable[[str, Any], Any]:
    """A handler that gives a function the bytes of keys with one of some ends.

    Args:
        extensions: the ends, separated by spaces; `b.c` fits keys that end in both.
        f: the function.
    """
    known = extensions.lower().split()

    def handle(key: str, data: Any) -> Any:
        parts = key.lower().split(".")
        for known_parts in (end.split(".") for end in known):
            if parts[-len(known_parts) :] == known_parts:
                return f(data)
        return None

    return handle


_KINDS = {"l": "L", "rgb": "RGB", "rgba": "RGBA"}
imagespecs: dict[str, tuple[str, str | None, str]] = {
    **{f"{mode}8": ("numpy", "uint8", mode) for mode in _KINDS},
    **{mode: ("numpy", "float", mode) for mode in _KINDS},
    **{f"torch{mode}8": ("torch", "uint8", mode) for mode in _KINDS},
    **{f"torch{mode}": ("torch", "float", mode) for mode in _KINDS},
    "torch": ("torch", "float", "rgb"),
    **{f"pil{mode}": ("pil", None, mode) for mode in _KINDS},
    "pil": ("pil", None, "rgb"),
}


class ImageHandler:
    """Images, as what a word says: `torchrgb` for tensors of floats from 0 to 1, channels first;
    `rgb8` for arrays of bytes; `pil` for images of Pillow."""

    def __init__(self, imagespec: str) -> None:
        if imagespec not in imagespecs:
            raise AssertionError(f"unknown image specification: {imagespec.lower()}")
        self.imagespec = imagespec.lower()

    def __call__(self, extension: str, data: bytes) -> Any:
        if extension.lower() not in ("jpg", "jpeg", "png", "ppm", "pgm", "pbm", "pnm"):
            return None
        import numpy

        try:
            import PIL.Image
        except ImportError as error:
            raise _missing("Pillow", "PIL", "image file", error) from error
        what, dtype, mode = imagespecs[self.imagespec]
        with io.BytesIO(data) as stream:
            image = PIL.Image.open(stream).convert(_KINDS[mode])
        if what == "pil":
            return image
        array = numpy.asarray(image)
        if dtype == "float":
            array = array.astype(numpy.float32) / 255
        if what == "numpy":
            return array
        if array.ndim == 3:
            array = array.transpose(2, 0, 1)
        return flambeau.tensor(array)


def imagehandler(imagespec: str) -> ImageHandler:
    """The handler of images for a word such as `torch` or `pil`."""
    return ImageHandler(imagespec)


def _missing(package: str, module: str, kind: str, error: ImportError) -> ModuleNotFoundError:
    return ModuleNotFoundError(
        f"Package `{module}` is required to be installed for {kind}."
        f"Please use `pip install {package}`to install the package"
    )


def _from_file(data: bytes, extension: str, read: Callable[[str], Any]) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, f"file.{extension}")
        with open(path, "wb") as stream:
            stream.write(data)
        return read(path)


def videohandler(extension: str, data: bytes) -> Any:
    """Films, through torchvision."""
    if extension not in ("mp4", "ogv", "mjpeg", "avi", "mov", "h264", "mpg", "webm", "wmv"):
        return None
    try:
        import torchvision.io  # type: ignore[import-not-found]
    except ImportError as error:
        kind = "default video"
        raise _missing("torchvision", "torchvision", f"{kind} file loader", error) from error
    return _from_file(data, extension, torchvision.io.read_video)


def audiohandler(extension: str, data: bytes) -> Any:
    """Sounds, through torchaudio."""
    if extension not in ("flac", "mp3", "sox", "wav", "m4a", "ogg", "wma"):
        return None
    try:
        import torchaudio  # type: ignore[import-not-found]
    except ImportError as error:
        raise _missing("torchaudio", "torchaudio", "default audio file loader", error) from error
    return _from_file(data, extension, torchaudio.load)


class MatHandler:
    """Files of MATLAB, through SciPy."""

    def __init__(self, **loadmat_kwargs: Any) -> None:
        try:
            import scipy.io
        except ImportError as error:
            raise _missing("scipy", "scipy", "mat file", error) from error
        self.sio, self.loadmat_kwargs = scipy.io, loadmat_kwargs

    def __call__(self, extension: str, data: bytes) -> Any:
        if extension != "mat":
            return None
        with io.BytesIO(data) as stream:
            return self.sio.loadmat(stream, **self.loadmat_kwargs)


def mathandler(**loadmat_kwargs: Any) -> MatHandler:
    """The handler of MATLAB's files, with arguments for SciPy's `loadmat`."""
    return MatHandler(**loadmat_kwargs)


def extension_extract_fn(pathname: str) -> str:
    """The end of a file's name, without its dot."""
    return os.path.splitext(pathname)[1].removeprefix(".")


class Decoder:
    """Handlers, asked one after the other.

    Args:
        handler: functions of a key and bytes that answer None for what they do not know.
        key_fn: the key of a path.
    """

    def __init__(
        self, *handler: Callable[..., Any], key_fn: Callable[..., Any] = extension_extract_fn
    ) -> None:
        self.handlers, self.key_fn = list(handler), key_fn

    def add_handler(self, *handler: Callable[..., Any]) -> None:
        """Functions that are asked before the others."""
        self.handlers = [*handler, *self.handlers]

    @staticmethod
    def _is_stream_handle(data: Any) -> bool:
        inner = data.file_obj if isinstance(data, StreamWrapper) else data
        return isinstance(inner, (io.BufferedIOBase, io.RawIOBase))

    def decode1(self, key: str, data: Any) -> Any:
        """The value of the bytes, or of the stream, of a key."""
        if not data:
            return data
        if self._is_stream_handle(data):
            stream, data = data, b"".join(data)
            stream.close()
        for handler in self.handlers:
            value = handler(key, data)
            if value is not None:
                return value
        return data

    def decode(self, data: Any) -> dict[str, Any]:
        """The values of pairs of a path and its bytes, by their paths."""
        pairs = [data] if isinstance(data, tuple) else data or []
        found = {}
        for path, value in pairs:
            if path[0] == "_":
                found[path] = value.decode("utf-8") if isinstance(value, bytes) else value
            else:
                found[path] = self.decode1(self.key_fn(path), value)
        return found

    def __call__(self, data: Any) -> dict[str, Any]:
        return self.decode(data)
