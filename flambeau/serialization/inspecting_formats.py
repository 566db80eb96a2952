"""The formats that `inspect` knows, one function each; `fill` finds out which it is."""

import ast
import io
import math
import pickle
import struct
import zipfile
import zlib

from flambeau.serialization import files, legacy
from flambeau.serialization.archive import ArchiveReader
from flambeau.serialization.describing import Describer, Made, Name, Stored, TensorFacts, tensors_in
from flambeau.serialization.restricted import Machine
from flambeau.serialization.safe_names import allowed, get_safe_globals, name_of
from flambeau.serialization.safetensors_header import SafetensorError, header_length, parse

MOST_PICKLE = 1 << 30
_NOT_OURS = "it is no file of weights that is known here"
_OTHERS = {
    b"\x1f\x8b": "a gzip file: unpack it first",
    b"BZh": "a bzip2 file: unpack it first",
    b"\xfd7zXZ": "an xz file: unpack it first",
    b"\x28\xb5\x2f\xfd": "a zstd file: unpack it first",
    b"\x89PNG": "a PNG picture",
    b"\xff\xd8\xff": "a JPEG picture",
    b"GIF8": "a GIF picture",
    b"%PDF": "a PDF document",
    b"\x7fELF": "a program",
    b"\x89HDF": "an HDF5 file",
    b"GGUF": "a GGUF file",
    b"#!": "a script",
    b"<": "a text in HTML or XML; a download page rather than the file?",
    b"version https://git-lfs": "a pointer to a file in Git LFS: run `git lfs pull`",
}


class Unknown(Exception):
    """A file that is none of the known ones, or is damaged."""


def fill(found, file, size):
    """Find out the format of a file, and what it holds."""
    start = file.read(32)
    file.seek(0)
    try:
        if not start:
            raise Unknown("the file is empty")
        if start[:4] == b"PK\x03\x04" or start[:4] == b"PK\x05\x06":
            _zip(found, file)
        elif start[:6] == b"\x93NUMPY":
            found.format = "NumPy array"
            _array(found, file, "", size)
        elif _may_be_safetensors(start, size):
            _safetensors(found, file, size)
        else:
            _pickle(found, file, size, start)
    except (RuntimeError, ValueError, pickle.UnpicklingError, EOFError, SafetensorError) as error:
        raise Unknown(f"the file is damaged: {error}") from None
    except (MemoryError, RecursionError, OverflowError) as error:
        raise Unknown(f"the file is damaged: {type(error).__name__} {error}") from None
    except (zipfile.BadZipFile, struct.error, zlib.error, NotImplementedError) as error:
        raise Unknown(f"the file is damaged: {error}") from None


# zip archives


def _zip(found, file):
    try:
        names = zipfile.ZipFile(file).namelist()
    except zipfile.BadZipFile as error:
        raise Unknown(f"a zip archive that is damaged or cut off: {error}") from None
    file.seek(0)
    if names and all(name.endswith(".npy") for name in names):
        return _arrays(found, file, names)
    if not any(name.endswith("/data.pkl") for name in names):
        raise Unknown(f"a zip archive without weights; {_NOT_OURS}")
    archive = ArchiveReader(file)
    script = archive.is_torchscript
    found.format = "TorchScript archive" if script else "archive of torch.save"
    for name, title in (("version", "version"), ("byteorder", "byte order")):
        if name in archive.records:
            found.facts[title] = archive.read(name)[:100].decode("ascii", "replace").strip()
    if script:
        code = [name for name in archive.records if name.startswith("code/")]
        found.facts["code"] = f"{sum(name.endswith('.py') for name in code)} files"
    _records(found, archive)
    for name in ("data.pkl", "constants.pkl") if script else ("data.pkl",):
        folder = name.removesuffix(".pkl")
        data = io.BytesIO(archive.read(name))
        _described(found, data, "constants" if folder == "constants" else "")
    extra = [name for name in archive.records if name.startswith("extra/")]
    for name in extra:
        found.metadata[name.removeprefix("extra/")] = archive.read(name)[:200].decode(
            "utf-8", "replace"
        )


def _records(found, archive):
    packed = [
        name
        for name, info in archive.records.items()
        if info.compress_type != zipfile.ZIP_STORED and name.startswith("data/")
    ]
    if packed:
        found.facts["compressed"] = f"{len(packed)} records"
    for name in archive.records:
        if name.startswith("data/"):
            found.storages[name.removeprefix("data/")] = archive.size_of(name)


# pickles


def _described(found, data, prefix=""):
    """One pickle: its tensors, other values and globals."""
    describer = Describer(data)
    made = describer.load()
    tensors, values = tensors_in(made)
    for tensor in tensors:
        name = ".".join(filter(None, (prefix, tensor.name)))
        key = tensor.storage and ".".join(filter(None, (prefix, tensor.storage)))
        found.tensors.append(tensor._replace(name=name, storage=key))
    for name, value in values.items():
        found.values[".".join(filter(None, (prefix, name)))] = _value(value)
    _note_globals(found, describer.names)
    return describer


def _note_globals(found, names):
    safe = {name_of(item) for item in get_safe_globals()}
    for name in names:
        if name not in found.globals:
            found.globals.append(name)
            if name not in safe and allowed(name) is None:
                found.refused.append(name)


def _value(value):
    if isinstance(value, Stored):
        return f"a storage of {value.numel} elements"
    if isinstance(value, (Name, Made)):
        return repr(value)[:200]
    if isinstance(value, int) and value.bit_length() > 1000:
        return f"an integer of {value.bit_length()} bits"
    if isinstance(value, (str, bytes, bytearray)):
        return repr(value[:200])
    if isinstance(value, (set, frozenset)):
        return f"a set of {len(value)}"
    if isinstance(value, (list, tuple)):
        shown = ", ".join(map(_value, value[:20])) + (", ..." if len(value) > 20 else "")
        return f"[{shown}]" if isinstance(value, list) else f"({shown})"
    return repr(value)[:200]


def _pickle(found, file, size, start):
    for magic, what in _OTHERS.items():
        if start.startswith(magic) and start[:1] != b"\x80":
            raise Unknown(f"{what}; {_NOT_OURS}")
    if size > MOST_PICKLE and start[:1] != b"\x80":
        raise Unknown(_NOT_OURS)
    try:
        first = Machine(file, lambda identity: None).load()
    except (pickle.UnpicklingError, EOFError):
        first = None
    if type(first) is int and first == legacy.MAGIC:
        return _legacy(found, file)
    file.seek(0)
    try:
        describer = _described(found, file)
    except (pickle.UnpicklingError, EOFError) as error:
        if start[:1] == b"\x80":
            raise
        raise Unknown(_NOT_OURS) from error
    left = size - file.tell()
    # almost any text is a pickle of a few steps, so a file must be one to its end
    if start[:1] != b"\x80" and (left or not _says_something(describer, found)):
        raise Unknown(_NOT_OURS)
    found.format = "pickle"
    found.facts["note"] = "a plain pickle, not of torch.save; torch.load does not read it"
    if left:
        found.facts["after the pickle"] = f"{left} bytes"


def _says_something(describer, found):
    return bool(describer.names or found.tensors or found.values)


def _legacy(found, file):
    found.format = "file of torch.save in the older format"
    version = Machine(file, lambda identity: None).load()
    facts = Machine(file, lambda identity: None).load()
    found.facts["version"] = str(version)[:20]
    if isinstance(facts, dict):
        little = facts.get("little_endian")
        found.facts["byte order"] = "little" if little else "big"
    describer = _described(found, file)
    found.storages = {key: stored.nbytes for key, stored in describer.storages.items()}
    left = files.size_of(file) - file.tell()
    if left < sum(found.storages.values()):
        raise Unknown("the file is damaged: it ends before all of its storages")


# safetensors


def _may_be_safetensors(start, size):
    if len(start) < 10:
        return False
    (length,) = struct.unpack("<Q", start[:8])
    return 2 <= length <= size - 8 and start[8:9] in b"{ "


def _safetensors(found, file, size):
    length = header_length(file.read(8), size)
    header = parse(file.read(length), size)
    found.format = "safetensors"
    found.metadata = dict(header.metadata or {})
    for entry in header.entries:
        nbytes = entry.end - entry.begin
        found.tensors.append(
            TensorFacts(entry.name, entry.dtype, entry.shape, (), 0, None, nbytes, "")
        )


# NumPy


def _array(found, file, name, size):
    """The header of a NumPy file."""
    magic = file.read(8)
    if len(magic) < 8 or magic[:6] != b"\x93NUMPY" or magic[6] not in (1, 2, 3):
        raise Unknown("a NumPy file of an unknown version")
    form = "<H" if magic[6] == 1 else "<I"
    (length,) = struct.unpack(form, file.read(struct.calcsize(form)))
    if length > min(size, 1 << 20):
        raise Unknown("the file is damaged: its header is larger than the file")
    text = file.read(length).decode("utf-8" if magic[6] == 3 else "latin1")
    try:
        facts = ast.literal_eval(text.strip())
        shape, kind = tuple(map(int, facts["shape"])), facts["descr"]
        order = bool(facts["fortran_order"])
    except (SyntaxError, KeyError, TypeError) as error:
        raise Unknown(f"the file is damaged: {error}") from None
    if isinstance(kind, str) and kind.endswith("O"):
        found.refused.append("a pickle of objects")
        found.facts["objects"] = f"{name or 'the array'} holds a pickle, which can run any code"
    width = _width(kind)
    nbytes = width * math.prod(shape)
    before = 8 + struct.calcsize(form) + length
    if width and before + nbytes > size:
        raise Unknown("the file is damaged: it ends before its array does")
    note = "by columns" if order and len(shape) > 1 else ""
    found.tensors.append(TensorFacts(name, str(kind), shape, (), 0, None, nbytes, note))


def _width(kind):
    digits = kind[2:].partition("[")[0] if isinstance(kind, str) else ""
    return int(digits) * (4 if kind[1] == "U" else 1) if digits.isdigit() else 0


def _arrays(found, file, names):
    found.format = "NumPy archive (npz)"
    with zipfile.ZipFile(file) as archive:
        for name in names:
            info = archive.getinfo(name)
            with archive.open(info) as member:
                _array(found, member, name.removesuffix(".npy"), info.file_size)
