"""`torch.save` and `torch.load`: objects in PyTorch's zip format, both ways.

A file holds a pickle that names PyTorch's functions and types, and one record per storage. By
default a file may only hold data: `restricted.py` reads its pickle and runs nothing. `pickling.py`
writes, `archive.py` is the zip format, `legacy.py` the format before it.
"""

import os
import pickle as _pickle
import sys as _sys
import warnings as _warnings
from collections.abc import Callable
from typing import IO, Any, TypeAlias

from flambeau._device import device as _device
from flambeau.config import forced_weights_only as _forced_weights_only
from flambeau.runtime.cpu import buffer_at as _buffer_at
from flambeau.serialization import files as _files
from flambeau.serialization.archive import ArchiveWriter as _ArchiveWriter
from flambeau.serialization.legacy import read_legacy as _read_legacy
from flambeau.serialization.legacy import write_legacy as _write_legacy
from flambeau.serialization.locations import default_restore_location as default_restore_location
from flambeau.serialization.locations import has_packages as _has_packages
from flambeau.serialization.locations import known_place as _known_place
from flambeau.serialization.locations import location_tag as location_tag
from flambeau.serialization.locations import register_package as register_package
from flambeau.serialization.locations import validate_cuda_device as validate_cuda_device
from flambeau.serialization.locations import validate_hpu_device as validate_hpu_device
from flambeau.serialization.older_names import INT_SIZE as INT_SIZE
from flambeau.serialization.older_names import LONG_SIZE as LONG_SIZE
from flambeau.serialization.older_names import MAGIC_NUMBER as MAGIC_NUMBER
from flambeau.serialization.older_names import PROTOCOL_VERSION as PROTOCOL_VERSION
from flambeau.serialization.older_names import SHORT_SIZE as SHORT_SIZE
from flambeau.serialization.older_names import STORAGE_KEY_SEPARATOR as STORAGE_KEY_SEPARATOR
from flambeau.serialization.older_names import StorageType as StorageType
from flambeau.serialization.older_names import (
    check_module_version_greater_or_equal as check_module_version_greater_or_equal,
)
from flambeau.serialization.older_names import mkdtemp as mkdtemp
from flambeau.serialization.older_names import normalize_storage_type as normalize_storage_type
from flambeau.serialization.older_names import storage_to_tensor_type as storage_to_tensor_type
from flambeau.serialization.options import MAP_PRIVATE as MAP_PRIVATE
from flambeau.serialization.options import MAP_SHARED as MAP_SHARED
from flambeau.serialization.options import LoadEndianness as LoadEndianness
from flambeau.serialization.options import SourceChangeWarning as SourceChangeWarning
from flambeau.serialization.options import get_crc32_options as get_crc32_options
from flambeau.serialization.options import (
    get_default_load_endianness as get_default_load_endianness,
)
from flambeau.serialization.options import get_default_mmap_options as get_default_mmap_options
from flambeau.serialization.options import set_crc32_options as set_crc32_options
from flambeau.serialization.options import (
    set_default_load_endianness as set_default_load_endianness,
)
from flambeau.serialization.options import set_default_mmap_options as set_default_mmap_options
from flambeau.serialization.options import settings as _settings
from flambeau.serialization.options import skip_data as skip_data
from flambeau.serialization.pickling import dumps as _dumps
from flambeau.serialization.reading import read_archive as _read_archive
from flambeau.serialization.record_reader import open_zipfile_reader as _open_zipfile_reader  # noqa: F401
from flambeau.serialization.record_writer import is_zipfile as _is_zipfile  # noqa: F401
from flambeau.serialization.record_writer import open_file_like as _open_file_like  # noqa: F401
from flambeau.serialization.record_writer import open_zipfile_writer as _open_zipfile_writer  # noqa: F401
from flambeau.serialization.safe_names import add_safe_globals as add_safe_globals
from flambeau.serialization.safe_names import clear_safe_globals as clear_safe_globals
from flambeau.serialization.safe_names import get_safe_globals as get_safe_globals
from flambeau.serialization.safe_names import (
    get_unsafe_globals_in_checkpoint as get_unsafe_globals_in_checkpoint,
)
from flambeau.serialization.safe_names import safe_globals as safe_globals
from flambeau.serialization.safetensors import load_file as _load_safetensors

# what `load` takes as map_location, for annotations
MAP_LOCATION: TypeAlias = Any

__all__ = [
    "SourceChangeWarning",
    "mkdtemp",
    "register_package",
    "check_module_version_greater_or_equal",
    "validate_cuda_device",
    "validate_hpu_device",
    "location_tag",
    "default_restore_location",
    "normalize_storage_type",
    "storage_to_tensor_type",
    "save",
    "load",
    "StorageType",
    "LoadEndianness",
    "get_crc32_options",
    "set_crc32_options",
    "get_default_load_endianness",
    "set_default_load_endianness",
    "get_default_mmap_options",
    "set_default_mmap_options",
    "clear_safe_globals",
    "get_safe_globals",
    "add_safe_globals",
    "safe_globals",
    "get_unsafe_globals_in_checkpoint",
    "skip_data",
]

DEFAULT_PROTOCOL = 2
FileLike = str | os.PathLike[str] | IO[bytes]


def save(
    obj: object,
    f: FileLike,
    pickle_module: Any = _pickle,
    pickle_protocol: int = DEFAULT_PROTOCOL,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
) -> None:
    """Write an object to a path or a file object.

    A path is replaced when the new file is complete; until then, and if anything
    fails, the file of before stays.

    Args:
        obj: tensors and what holds them; objects of any class that pickle can name.
        f: a path, or an object with `write`.
        pickle_protocol: 2 is what PyTorch reads with `weights_only=True`.

    Example:
        >>> import io
        >>> file = io.BytesIO()
        >>> torch.save({"weight": torch.ones(2), "step": 3}, file)
        >>> torch.load(io.BytesIO(file.getvalue()))
        {'weight': tensor([1., 1.]), 'step': 3}
    """
    _files.check_writable(f)
    if not _use_new_zipfile_serialization:
        if _settings.skips_data:
            raise RuntimeError(
                "Cannot use skip_data=True with _use_new_zipfile_serialization=False"
            )
        return _write_legacy(obj, f, pickle_module, pickle_protocol)
    pickled, storages, _ = _dumps(obj, pickle_protocol, pickle_module)
    with _files.opened_for_writing(f) as file:
        archive = _ArchiveWriter(file, _root_name(f), _settings.compute_crc32)
        order = [] if _disable_byteorder_record else [("byteorder", _sys.byteorder.encode())]
        head = [
            ("data.pkl", memoryview(pickled)),
            (".format_version", b"1"),
            (".storage_alignment", b"64"),
            *order,
        ]
        version = ("version", b"3\n")
        if _settings.skips_data:
            archive.add_all(head)
            for key, storage in enumerate(storages):
                archive.add(f"data/{key}", bytes(storage.nbytes), checksum=0)  # they come later
            archive.add_all([version])
        else:
            data = [(f"data/{key}", _bytes_of(s)) for key, s in enumerate(storages)]
            archive.add_all([*head, *data, version])
        archive.close()


def _bytes_of(storage):
    return _buffer_at(storage.pointer, storage.nbytes) if storage.nbytes else memoryview(b"")


def _root_name(f):
    """The folder that an archive unpacks to: the name of the file without its last suffix."""
    if not _files.is_path(f):
        return "archive"
    return os.path.splitext(os.path.basename(os.fspath(f)))[0] or "archive"


_NOT_ONLY_WEIGHTS = (
    "Environment variable TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD detected, since the`weights_only` "
    "argument was not explicitly passed to `torch.load`, forcing weights_only=False."
)


def load(
    f: FileLike,
    map_location: Callable | str | dict | Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Read what `save` wrote, here or in PyTorch.

    Args:
        f: a path, or a seekable file object; a path that ends in `.safetensors` is read as such.
        map_location: a device for all tensors; a dictionary of devices; a function of a storage and
            the name of its device.
        weights_only: refuse everything but data (the default). With False a file can run any code:
            only for files whose source is trusted.
        mmap: leave the tensors in the file, which must be a path, until they are touched.
    """
    if pickle_module is not None and weights_only:
        raise RuntimeError("Can not safely load weights when explicit pickle_module is specified")
    forced = _forced_weights_only()
    if forced:
        weights_only = True
    elif weights_only is None:
        weights_only = pickle_module is None and forced is None
        if forced is not None:
            _warnings.warn(_NOT_ONLY_WEIGHTS, UserWarning, stacklevel=2)
    if mmap and not _files.is_path(f):
        raise ValueError("f must be a file path in order to use the mmap argument")
    if weights_only and pickle_load_args:
        unknown = set(pickle_load_args) - {"encoding"}
        if unknown:
            raise TypeError(
                "Unpickler.__init__() got an unexpected keyword argument "
                f"{sorted(unknown)[0]!r}; with weights_only=True only encoding= is known"
            )
        _warnings.warn("pickle_load_args only works if `weights_only=False`.", stacklevel=2)
    if isinstance(map_location, (str, _device)) and not _has_packages():
        _known_place(str(map_location))
    if isinstance(f, (str, os.PathLike)) and os.fspath(f).endswith(".safetensors"):
        if map_location is not None and not isinstance(map_location, (str, _device)):
            kind = "dict" if isinstance(map_location, dict) else "callable"
            raise RuntimeError(
                f"Loading safetensors file with {kind} map_location is not supported. Use a device "
                "string or torch.device instead."
            )
        return _load_safetensors(f, map_location or "cpu")
    with _files.opened_for_reading(f) as file:
        start = _files.first_bytes(file, 4)
        arguments = (map_location, pickle_module, weights_only)
        if start == b"PK\x03\x04":
            return _read_archive(file, *arguments, mmap, pickle_load_args)
        if mmap:
            raise RuntimeError(
                "mmap can only be used with files saved with "
                "`torch.save(_use_new_zipfile_serialization=True)`, please torch.save your "
                "checkpoint with this option in order to use mmap."
            )
        return _read_legacy(file, *arguments, pickle_load_args)
