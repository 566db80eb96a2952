"""Settings of save and load: checksums, byte order, kind of mapping, files without their data.

The functions are PyTorch's. Settings belong to a thread.
"""

import enum
import mmap as _mmap
import threading
from typing import Any

MAP_PRIVATE = getattr(_mmap, "MAP_PRIVATE", 2)
MAP_SHARED = getattr(_mmap, "MAP_SHARED", 1)


class LoadEndianness(enum.Enum):
    """The order of bytes of files that do not say it."""

    NATIVE = 1
    LITTLE = 2
    BIG = 3


class SourceChangeWarning(Warning):
    """The source of a saved class has changed; files no longer hold it."""


class _Settings(threading.local):
    compute_crc32 = True
    endianness: LoadEndianness | None = None
    mmap_flags: int = MAP_PRIVATE
    skips_data = False


settings = _Settings()


def get_crc32_options() -> bool:
    """Whether `save` works out the checksum of every record."""
    return settings.compute_crc32


def set_crc32_options(compute_crc32: bool) -> None:
    """Let `save` write checksums or zeros; `load` checks them where there are any."""
    settings.compute_crc32 = bool(compute_crc32)


def get_default_load_endianness() -> LoadEndianness | None:
    """What `load` assumes of files that do not say their byte order; None is this machine's."""
    return settings.endianness


def set_default_load_endianness(endianness: LoadEndianness | None) -> None:
    if endianness is not None and not isinstance(endianness, LoadEndianness):
        raise TypeError("Invalid argument type in function set_default_load_endianness")
    settings.endianness = endianness


def get_default_mmap_options() -> int | None:
    """MAP_PRIVATE or MAP_SHARED, for `load(mmap=True)`."""
    return settings.mmap_flags


class set_default_mmap_options:
    """How `load(mmap=True)` maps files, from now on or within a `with` block.

    With MAP_SHARED, what is written into a tensor is written into the file.
    """

    def __init__(self, flags: int) -> None:
        if flags not in (MAP_PRIVATE, MAP_SHARED):
            raise ValueError(
                "Invalid argument in function set_default_mmap_options, expected mmap.MAP_PRIVATE "
                f"or mmap.MAP_SHARED, but got {flags}"
            )
        self.before, settings.mmap_flags = settings.mmap_flags, flags

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: Any) -> None:
        settings.mmap_flags = self.before


class skip_data:
    """Within a `with` block, `save` leaves room for the bytes of storages, and `load` skips them.

    A file saved so has zeros where the data will be; tensors loaded so have any values.
    """

    def __init__(self, materialize_fake_tensors: bool = False) -> None:
        self.materialize_fake_tensors = materialize_fake_tensors

    def __enter__(self) -> None:
        self.before, settings.skips_data = settings.skips_data, True

    def __exit__(self, *error: Any) -> None:
        settings.skips_data = self.before
