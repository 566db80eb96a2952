"""PyTorchFileReader: the named records inside a file that `save` wrote, one at a time."""

import copy
import struct
import zipfile
from typing import IO, Any

__all__ = ["PyTorchFileReader"]


class PyTorchFileReader:
    """Reads records by name; the folder that all of them lie in is left out of the names."""

    def __init__(self, name_or_buffer: str | IO[bytes]) -> None:
        self._archive = zipfile.ZipFile(name_or_buffer)
        names = self._archive.namelist()
        self._folder = names[0].partition("/")[0] + "/" if names else ""
        # of several with one name, the first
        self._records = {info.filename: info for info in reversed(self._archive.infolist())}

    def get_all_records(self) -> list[str]:
        """The names of all records."""
        return [name.removeprefix(self._folder) for name in self._archive.namelist()]

    def has_record(self, name: str) -> bool:
        """Is there such a record?"""
        return self._folder + name in self._records

    def get_record(self, name: str) -> bytes:
        """The bytes of a record."""
        info = self._info(name)
        if not info.CRC:  # zero where the bytes came later
            info = copy.copy(info)
            del info.CRC
        return self._archive.read(info)

    def _info(self, name: str) -> zipfile.ZipInfo:
        if not self.has_record(name):
            raise RuntimeError(f"PytorchStreamReader failed locating file {name}: file not found")
        return self._records[self._folder + name]

    def get_record_size(self, name: str) -> int:
        """How many bytes a record has."""
        return self._info(name).file_size

    def get_record_offset(self, name: str) -> int:
        """Where the bytes of a record begin in the file."""
        start = self._info(name).header_offset
        file = self._archive.fp
        assert file is not None
        here = file.tell()
        file.seek(start + 26)
        lengths = struct.unpack("<HH", file.read(4))
        file.seek(here)
        return start + 30 + sum(lengths)

    def __enter__(self) -> "PyTorchFileReader":
        return self

    def __exit__(self, *error: Any) -> None:
        self._archive.close()


def open_zipfile_reader(name_or_buffer: str | IO[bytes]) -> PyTorchFileReader:
    """A reader of records, for a `with` block."""
    return PyTorchFileReader(name_or_buffer)
