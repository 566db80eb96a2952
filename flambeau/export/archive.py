"""save and load: .pt2 files, in PyTorch's layout.

A file is a zip archive: the program as JSON, its tensors as raw bytes with a list of what they are.
Reading checks all of it and runs nothing.
"""

import io
import json
import os
import pickle
import struct
import zipfile
from pathlib import Path
from typing import Any

import flambeau
from flambeau._tensor import Tensor
from flambeau.export.deserializing import DamagedFile, program_of_json
from flambeau.export.exported_program import ExportedProgram
from flambeau.export.numbers_of_types import DTYPE_OF
from flambeau.export.serializing import program_as_json, tensor_meta
from flambeau.nn import Parameter
from flambeau.serialization import load as load_objects
from flambeau.serialization import save as save_objects

_LARGEST_TEXT = 1 << 30


def save(
    ep: ExportedProgram,
    f: Any,
    *,
    extra_files: dict[str, Any] | None = None,
    opset_version: dict[str, int] | None = None,
    pickle_protocol: int = 2,
) -> None:
    """Write a program to a file: a path or something to write bytes to."""
    if not isinstance(ep, ExportedProgram):
        raise TypeError(
            "The 'ep' parameter must be an instance of 'ExportedProgram', got "
            f"'{type(ep).__name__}' instead."
        )
    named = isinstance(f, (str, os.PathLike))
    root = Path(f).stem if named else "archive"
    entries = dict(_entries(ep, extra_files or {}))
    with zipfile.ZipFile(f, "w", zipfile.ZIP_STORED) as archive:
        for name, data in entries.items():
            archive.writestr(f"{root}/{name}", data)


def _entries(program, extra_files):
    text = json.dumps(program_as_json(program))
    yield from _tensors("data/weights/", "weight_", "model_weights_config.json", program.state_dict)
    yield from _tensors(
        "data/constants/", "tensor_", "model_constants_config.json", program.constants
    )
    yield "models/model.json", text
    if program.example_inputs is not None:
        buffer = io.BytesIO()
        save_objects(program.example_inputs, buffer)
        yield "data/sample_inputs/model.pt", buffer.getvalue()
    for name, content in extra_files.items():
        yield f"extra/{name}", content
    yield "archive_format", "pt2"
    yield "archive_version", "0"
    yield ".data/version", "6\n"
    yield "byteorder", "little"
    yield ".data/serialization_id", "0" * 40


def _tensors(folder, prefix, listing, tensors):
    config = {}
    seen: dict[int, str] = {}
    for name, tensor in tensors.items():
        path = seen.get(id(tensor))
        plain = tensor.detach().contiguous()
        if path is None:
            path = seen[id(tensor)] = f"{prefix}{len(seen)}"
            yield folder + path, bytes(plain.cpu().reshape(-1).view(flambeau.uint8).numpy())
        meta = tensor_meta(plain) | {"requires_grad": bool(tensor.requires_grad)}
        config[name] = {
            "path_name": path,
            "is_param": isinstance(tensor, Parameter),
            "use_pickle": False,
            "tensor_meta": meta,
        }
    yield folder + listing, json.dumps({"config": config})


# -- reading ---------------------------------------------------------------------------------------


def load(
    f: Any,
    *,
    extra_files: dict[str, Any] | None = None,
    expected_opset_version: dict[str, int] | None = None,
) -> ExportedProgram:
    """Read a program from a file; extra_files is filled with what is wanted of those.

    A file that is damaged, or that holds something else, is refused with an error.
    """
    try:
        archive = zipfile.ZipFile(f)
    except _UNREADABLE as error:
        if isinstance(error, OSError):
            raise
        raise DamagedFile(f"{_shown(f)} is not a .pt2 file: {error}") from error
    with archive:
        reading = _Archive(archive, _shown(f))
        for name in extra_files or {}:
            extra_files[name] = reading.bytes(f"extra/{name}").decode("utf-8")  # type: ignore[index]
        state = reading.tensors("data/weights/", "model_weights_config.json")
        constants = reading.tensors("data/constants/", "model_constants_config.json")
        found = reading.json("models/model.json")
        return program_of_json(found, state, constants, reading.examples())


# what zipfile raises where bytes are wrong; they may seem packed in other ways, or with a password
_UNREADABLE = (
    zipfile.BadZipFile, EOFError, OSError, ValueError, RuntimeError, struct.error,
)  # fmt: skip


def _shown(f):
    return str(f) if isinstance(f, (str, os.PathLike)) else "the file"


class _Archive:
    """The entries of a file."""

    def __init__(self, archive: zipfile.ZipFile, shown: str) -> None:
        self.archive, self.shown = archive, shown
        names = archive.namelist()
        roots = {name.partition("/")[0] for name in names}
        if len(roots) != 1 or f"{next(iter(roots))}/models/model.json" not in names:
            raise DamagedFile(f"{shown} is not a .pt2 file: it holds no program")
        self.root, self.names = roots.pop(), set(names)

    def bytes(self, name: str) -> bytes:
        """The content of an entry."""
        full = f"{self.root}/{name}"
        if full not in self.names:
            raise DamagedFile(f"{self.shown} is damaged: {name} is missing")
        try:
            return self.archive.read(full)
        except _UNREADABLE as error:
            raise DamagedFile(f"{self.shown} is damaged: {name} cannot be read: {error}") from error

    def json(self, name: str) -> dict[str, Any]:
        """The content of an entry that is JSON."""
        data = self.bytes(name)
        if len(data) > _LARGEST_TEXT:
            raise DamagedFile(f"{self.shown} is damaged: {name} is too large")
        try:
            found = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise DamagedFile(f"{self.shown} is damaged: {name} is no JSON: {error}") from error
        if not isinstance(found, dict):
            raise DamagedFile(f"{self.shown} is damaged: {name} is no list of names")
        return found

    def tensors(self, folder: str, listing: str) -> dict[str, Tensor]:
        """Tensors by name."""
        found = {}
        kept: dict[str, Tensor] = {}
        try:
            for name, entry in self.json(folder + listing)["config"].items():
                path = str(entry["path_name"])
                if path not in kept:
                    kept[path] = self._tensor(folder, name, entry)
                found[name] = kept[path]
        except (KeyError, TypeError, AttributeError) as error:
            raise DamagedFile(f"{self.shown} is damaged: {listing}: {error!r}") from error
        return found

    def _tensor(self, folder, name, entry):
        if entry.get("use_pickle"):
            raise DamagedFile(f"{self.shown}: {name} is a pickled object, which is not loaded")
        meta, data = entry["tensor_meta"], self.bytes(folder + str(entry["path_name"]))
        dtype = DTYPE_OF.get(meta["dtype"])
        sizes = [size["as_int"] for size in meta["sizes"]]
        strides = [step["as_int"] for step in meta["strides"]]
        offset = meta["storage_offset"]["as_int"]
        numbers = [*sizes, *strides, offset]
        if dtype is None or any(type(n) is not int or n < 0 for n in numbers):
            raise DamagedFile(f"{self.shown} is damaged: {name} is {meta}")
        if len(strides) != len(sizes):
            raise DamagedFile(f"{self.shown} is damaged: {name} is {meta}")
        last = offset + sum((n - 1) * s for n, s in zip(sizes, strides))
        needed = 0 if 0 in sizes else (last + 1) * dtype.itemsize
        if needed > len(data):
            raise DamagedFile(
                f"{self.shown} is damaged: {name} has {len(data)} bytes, it needs {needed}"
            )
        if 0 in sizes:
            tensor = flambeau.empty(sizes, dtype=dtype)
        else:
            usable = len(data) // dtype.itemsize * dtype.itemsize
            flat = flambeau.frombuffer(bytearray(data[:usable]), dtype=dtype)
            tensor = flat.as_strided(sizes, strides, offset).clone()
        if entry.get("is_param"):
            return Parameter(tensor, requires_grad=bool(meta["requires_grad"]))
        return tensor

    def examples(self) -> Any:
        """The inputs that the program was recorded with, if they are tensors and numbers."""
        name = "data/sample_inputs/model.pt"
        if f"{self.root}/{name}" not in self.names:
            return None
        try:
            return load_objects(io.BytesIO(self.bytes(name)), weights_only=True)
        except (RuntimeError, pickle.UnpicklingError, ValueError, KeyError, EOFError):
            return None
