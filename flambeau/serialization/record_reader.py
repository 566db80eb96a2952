"""PyTorchFileReader: the named records inside a file that `save` wrote, one at a time."""

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
        if not self.has_record(name):
            raise RuntimeError(f"PytorchStreamReader failed locating file {name}: file not found")
        return self._archive.read(self._records[self._folder + name])

    def __enter__(self) -> "PyTorchFileReader":
        return self

    def __exit__(self, *error: Any) -> None:
        self._archive.close()
