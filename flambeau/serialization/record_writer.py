"""PyTorchFileWriter: an archive like those of `save`, written one named record at a time."""

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import IO, Any

from flambeau._typed_storage import TypedStorage, UntypedStorage
from flambeau.runtime.cpu import buffer_at
from flambeau.serialization import files
from flambeau.serialization.archive import ArchiveWriter
from flambeau.serialization.options import settings

__all__ = ["PyTorchFileWriter"]


class PyTorchFileWriter:
    """Writes records by name; `write_end_of_file` completes the archive."""

    def __init__(self, file: str | os.PathLike | IO[bytes], compute_crc32: bool = True) -> None:
        self._opened = contextlib.ExitStack()
        root = "archive"
        if isinstance(file, str | os.PathLike):
            root = os.path.splitext(os.path.basename(os.fspath(file)))[0] or root
        files.check_writable(file)
        stream = self._opened.enter_context(files.opened_for_writing(file))
        self._archive = ArchiveWriter(stream, root, compute_crc32)
        self._names: list[str] = []

    def write_record(self, name: str, data: Any, size: int) -> None:
        """The first bytes of data, which are bytes, a text or a storage."""
        if name in self._names:
            raise RuntimeError(f"Tried to serialize file twice: {name}")
        if isinstance(data, str):
            data = data.encode()
        elif isinstance(data, TypedStorage | UntypedStorage):
            block = data.untyped().cpu()
            data = buffer_at(block.data_ptr(), block.nbytes()) if block.nbytes() else b""
        self._names.append(name)
        self._archive.add(name, memoryview(data)[:size])

    def write_record_metadata(self, name: str, size: int) -> None:
        """Room for a record whose bytes come later."""
        self._names.append(name)
        self._archive.add(name, bytes(size), checksum=0)

    def get_all_written_records(self) -> list[str]:
        """The names so far."""
        return list(self._names)

    def archive_name(self) -> str:
        """The folder that all records lie in."""
        return self._archive.root

    def write_end_of_file(self) -> None:
        """What every archive has, and the directory."""
        order = sys.byteorder.encode()
        common = {
            "byteorder": order, "version": b"3\n", ".format_version": b"1",
            ".storage_alignment": b"64",
        }  # fmt: skip
        for name, data in common.items():
            if name not in self._names:
                self.write_record(name, data, len(data))
        self._archive.close()
        self._opened.close()

    def __enter__(self) -> "PyTorchFileWriter":
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is None:
            self.write_end_of_file()
        else:
            self._opened.__exit__(kind, error, trace)


def open_zipfile_writer(name_or_buffer: str | os.PathLike | IO[bytes]) -> PyTorchFileWriter:
    """A writer of records that is completed by the end of the `with` block."""
    return PyTorchFileWriter(name_or_buffer, settings.compute_crc32)


@contextlib.contextmanager
def open_file_like(name_or_buffer: str | os.PathLike | IO[bytes], mode: str) -> Iterator[Any]:
    """The file of a path, which is closed afterwards, or a file object as it is."""
    if files.is_path(name_or_buffer):
        with open(name_or_buffer, mode) as file:  # type: ignore[arg-type]
            yield file
        return
    yield name_or_buffer
    if "w" in mode:
        name_or_buffer.flush()  # type: ignore[union-attr]


def is_zipfile(f: IO[bytes]) -> bool:
    """Does an archive begin here?"""
    return files.first_bytes(f, 4) == b"PK\x03\x04"
