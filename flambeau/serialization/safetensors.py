"""safetensors files, read and written without the package: the functions of `safetensors.torch`.

Tensors by name and a few strings, and no code, so such a file is safe to open. `load_file` leaves
tensors in the file until they are touched; `save_file` replaces a file when the new one is
complete. The header, and what it must not say, is in `safetensors_header.py`.
"""

import mmap
import os
from collections.abc import Mapping
from typing import Any

from flambeau._device import cpu
from flambeau._device import device as _device
from flambeau._layout import Size, make_layout
from flambeau._memory_format import strided
from flambeau._tensor import Tensor
from flambeau._tensor.admission import admit
from flambeau.runtime.cpu import address_of, buffer_at
from flambeau.serialization import files, pieces
from flambeau.serialization.safetensors_header import (
    DTYPES,
    NAMES,
    Header,
    SafetensorError,
    header_length,
    parse,
    write,
)
from flambeau.serialization.sharing import overlapping, same_memory
from flambeau.storage import borrowed_storage, new_storage

__all__ = [
    "SafetensorError",
    "load",
    "load_file",
    "load_model",
    "safe_open",
    "save",
    "save_file",
    "save_model",
]

_FRAMEWORKS = {"pt": False, "torch": False, "pytorch": False, "np": True, "numpy": True}


# writing


def _checked(tensors):
    """Complain of everything that a file cannot hold as it is."""
    if not isinstance(tensors, dict):
        raise ValueError(f"Expected a dict of [str, torch.Tensor] but received {type(tensors)}")
    for name, value in tensors.items():
        if not isinstance(value, Tensor):
            raise ValueError(
                f"Key `{name}` is invalid, expected torch.Tensor but received {type(value)}"
            )
        if not isinstance(name, str):
            raise TypeError(f"argument 'tensor_dict': {type(name).__name__!r} is not a 'str'")
        if value.layout is not strided:
            raise ValueError(f"You are trying to save a sparse tensors: `{[name]}`")
    shared = [names for names in overlapping(tensors) if len(names) > 1]
    if shared:
        raise RuntimeError(
            "Some tensors share memory, this will lead to duplicate memory on disk and potential "
            f"differences when loading them again: {shared}. A potential way to correctly save "
            "your model is to use `save_model`; or save clones of them."
        )
    for name, value in tensors.items():
        if not value.device.runtime.computes:
            raise NotImplementedError(f"Cannot copy out of meta tensor; no data! (tensor `{name}`)")
        if value.dtype not in NAMES:
            raise KeyError(f"safetensors files cannot hold {value.dtype}, of tensor `{name}`")
        if not value.is_contiguous():
            raise ValueError(
                f"You are trying to save a non contiguous tensor: `{name}` which is not allowed. "
                "If it is a view of another tensor, save that one and slice after loading; "
                "otherwise call `.contiguous()` on it before saving."
            )


def _checked_metadata(metadata):
    if metadata is None:
        return None
    if not isinstance(metadata, Mapping):
        raise TypeError(f"argument 'metadata': expected a dict, not {type(metadata).__name__!r}")
    for item in (*metadata, *metadata.values()):
        if not isinstance(item, str):
            raise TypeError(
                f"argument 'metadata': {type(item).__name__!r} object is not an instance of 'str'"
            )
    return dict(metadata)


def _prepared(tensors, metadata):
    """(header, [memoryview]) of a file; tensors must stay alive."""
    _checked(tensors)
    metadata = _checked_metadata(metadata)
    facts = {
        name: (NAMES[t.dtype], t.shape, t.numel() * t.element_size()) for name, t in tensors.items()
    }
    try:
        head, order = write(facts, metadata)
    except UnicodeEncodeError as error:
        raise SafetensorError(f"Error while serializing: a name is not text: {error}") from None
    blocks = []
    for name in order:
        nbytes = facts[name][2]
        blocks.append(buffer_at(tensors[name].data_ptr(), nbytes) if nbytes else memoryview(b""))
    return head, blocks


def save(tensors: dict[str, Tensor], metadata: dict[str, str] | None = None) -> bytes:
    """Tensors as the bytes of a file.

    Example:
        >>> from flambeau.serialization.safetensors import load, save
        >>> load(save({"weight": torch.ones(2)}))
        {'weight': tensor([1., 1.])}
    """
    head, blocks = _prepared(tensors, metadata)
    return b"".join([head, *blocks])


def save_file(
    tensors: dict[str, Tensor],
    filename: str | os.PathLike[str],
    metadata: dict[str, str] | None = None,
) -> None:
    """Write tensors to a path, which is replaced when the new file is complete and on the disk.

    Tensors that share memory and tensors that are not contiguous are refused, as by safetensors.
    """
    head, blocks = _prepared(tensors, metadata)
    try:
        files.check_writable(os.fspath(filename))
        with files.opened_for_writing(filename) as file:
            file.write(head)
            _write(file, blocks, len(head))
    except (OSError, RuntimeError) as error:
        raise SafetensorError(f"Error while serializing: I/O error: {error}") from error


def _write(file, blocks, place):
    descriptor = files.own_descriptor(file)
    if descriptor is None or not pieces.POSSIBLE:
        for block in blocks:
            file.write(block)
        return
    file.flush()
    placed = []
    for block in blocks:
        placed.append((block, place))
        place += len(block)
    pieces.write_blocks(descriptor, placed, with_checksums=False)
    file.seek(place)


# reading


def _tensor(entry, storage, offset=0):
    layout = make_layout(Size(entry.shape), _strides(entry.shape), DTYPES[entry.dtype], cpu)
    return admit(layout, storage, offset)


def _strides(shape):
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    if step > 2**63 - 1:
        raise SafetensorError("Error while deserializing header: Stride calculation overflowed")
    return tuple(reversed(strides))


def _known(entry):
    if entry.dtype not in DTYPES:
        raise SafetensorError(
            f"tensor `{entry.name:.100}` has dtype {entry.dtype}, which flambeau does not have yet"
        )
    return entry


def load(data: bytes) -> dict[str, Tensor]:
    """The tensors of a file that was read into bytes."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError(
            f"argument 'bytes': {type(data).__name__!r} object is not an instance of 'bytes'"
        )
    view = memoryview(data).cast("B")
    length = header_length(bytes(view[:8]), len(view))
    header = parse(bytes(view[8 : 8 + length]), len(view))
    out = {}
    for entry in header.entries:
        _known(entry)
        size = entry.end - entry.begin
        storage = new_storage(size)
        if size:
            start = header.length + entry.begin
            buffer_at(storage.pointer, size)[:] = view[start : start + size]
        out[entry.name] = _tensor(entry, storage)
    return out


class _Source:
    """An open file: its header, and tensors that are mapped or read."""

    def __init__(self, filename, backend):
        if backend not in ("mmap", "pread"):
            raise SafetensorError(f"backend {backend} is invalid, expected 'mmap' or 'pread'")
        self.file = open(os.fspath(filename), "rb")  # noqa: SIM115, closed by `close`
        try:
            size = files.size_of(self.file)
            length = header_length(self.file.read(8), size)
            self.header: Header = parse(self.file.read(length), size)
            self.entries = {entry.name: entry for entry in self.header.entries}
            self.mapping = None
            if backend == "mmap" and size:
                self.mapping = mmap.mmap(self.file.fileno(), 0, access=mmap.ACCESS_COPY)
        except BaseException:
            self.file.close()
            raise

    def close(self):
        self.file.close()  # tensors keep the mapping alive

    def entry(self, name):
        try:
            return _known(self.entries[name])
        except KeyError:
            raise SafetensorError(f"File does not contain tensor {name}") from None

    def tensors(self, names):
        """{name: tensor}"""
        out, wanted = {}, []
        for entry in map(self.entry, names):
            size, start = entry.end - entry.begin, self.header.length + entry.begin
            aligned = start % DTYPES[entry.dtype].itemsize == 0
            if self.mapping is not None and size and aligned:
                place = address_of(self.mapping) + start
                storage = borrowed_storage(place, size, self.mapping)
            else:
                storage = new_storage(size)
                if size:
                    wanted.append((buffer_at(storage.pointer, size), start))
            out[entry.name] = _tensor(entry, storage)
        self._read(wanted)
        return out

    def _read(self, wanted):
        descriptor = files.descriptor_of(self.file) if pieces.POSSIBLE else None
        try:
            if descriptor is not None:
                pieces.read_blocks(descriptor, wanted, with_checksums=False)
                return
            for target, start in wanted:
                self.file.seek(start)
                if files.read_into(self.file, target) != len(target):
                    raise EOFError("the file ends within a tensor")
        except EOFError as error:
            raise SafetensorError(f"Error while deserializing: {error}") from None


class safe_open:
    """A file from which tensors are taken one by one, or parts of them.

    Example:
        >>> import os, tempfile
        >>> from flambeau.serialization.safetensors import safe_open, save_file
        >>> folder = tempfile.TemporaryDirectory()
        >>> path = os.path.join(folder.name, "w.safetensors")
        >>> save_file({"a": torch.arange(4.0)}, path, metadata={"format": "pt"})
        >>> with safe_open(path, framework="pt") as f:
        ...     print(f.keys(), f.metadata(), f.get_slice("a")[1:3])
        ['a'] {'format': 'pt'} tensor([1., 2.])
        >>> folder.cleanup()
    """

    def __init__(
        self,
        filename: str | os.PathLike[str],
        framework: str,
        device: Any = "cpu",
        *,
        backend: str = "mmap",
    ) -> None:
        if framework not in _FRAMEWORKS:
            raise SafetensorError(f"framework {framework} is invalid, expected 'pt' or 'np'")
        self._as_arrays, self._device = _FRAMEWORKS[framework], device
        self._source: _Source | None = _Source(filename, backend)

    def __enter__(self) -> "safe_open":
        return self

    def __exit__(self, *error: object) -> None:
        if self._source is not None:
            self._source.close()
            self._source = None

    def __del__(self) -> None:
        if getattr(self, "_source", None) is not None:
            self.__exit__()

    @property
    def _open(self):
        if self._source is None:
            raise SafetensorError("File is closed")
        return self._source

    def keys(self) -> list[str]:
        """The names of the tensors, sorted."""
        return sorted(self._open.entries)

    def offset_keys(self) -> list[str]:
        """The names of the tensors in the order of the file."""
        return list(self._open.entries)

    def metadata(self) -> dict[str, str] | None:
        """The strings that were saved beside the tensors."""
        return self._open.header.metadata

    def _given(self, tensor):
        if self._as_arrays:
            return tensor.numpy()
        place = _device(self._device)
        return tensor if place == cpu else tensor.to(place)

    def get_tensor(self, name: str) -> Any:
        return self.get_tensors([name])[name]

    def get_tensors(self, names: list[str] | None = None) -> dict[str, Any]:
        found = self._open.tensors(list(self._open.entries) if names is None else names)
        return {name: self._given(tensor) for name, tensor in found.items()}

    def get_slice(self, name: str) -> "TensorSlice":
        """A tensor of which parts are taken with `[...]`; only what they touch is read."""
        self._open.entry(name)
        return TensorSlice(self, name)


class TensorSlice:
    """A tensor of an open file, by parts."""

    def __init__(self, source, name):
        self._source, self._name = source, name

    def get_shape(self) -> list[int]:
        return list(self._source._open.entries[self._name].shape)

    def get_dtype(self) -> str:
        return self._source._open.entries[self._name].dtype

    def __getitem__(self, index: Any) -> Any:
        part = self._source._open.tensors([self._name])[self._name][index]
        return self._source._given(part.clone() if part.numel() else part)


def load_file(
    filename: str | os.PathLike[str], device: Any = "cpu", *, backend: str = "mmap"
) -> dict[str, Tensor]:
    """The tensors of a file.

    Args:
        device: where the tensors go.
        backend: "mmap" leaves them in the file until they are touched; "pread" reads all at once.
    """
    with safe_open(filename, "pt", device, backend=backend) as file:
        return file.get_tensors()


# models


def save_model(
    model: Any,
    filename: str | os.PathLike[str],
    metadata: dict[str, str] | None = None,
    force_contiguous: bool = True,
) -> None:
    """Write the state of a module; of tensors that are one, such as tied weights, one is written.

    The names of the others are kept in the metadata, each with the name that stands for it.
    """
    state = model.state_dict()
    metadata = None if metadata is None else dict(metadata)
    for kept, others in same_memory(state).items():
        for name in others:
            metadata = {} if metadata is None else metadata
            metadata.setdefault(name, kept)
            del state[name]
    if force_contiguous:
        state = {name: value.contiguous() for name, value in state.items()}
    try:
        save_file(dict(state), filename, metadata)
    except ValueError as error:
        raise ValueError(f"{error} Or use save_model(..., force_contiguous=True).") from None


def load_model(
    model: Any,
    filename: str | os.PathLike[str],
    strict: bool = True,
    device: Any = "cpu",
    *,
    backend: str = "mmap",
) -> tuple[set[str], list[str]]:
    """Give a module the state of a file; (missing, unexpected) names, an error if strict."""
    state = load_file(filename, device, backend=backend)
    groups = same_memory(model.state_dict(), preferred=state)
    found = model.load_state_dict(state, strict=False)
    missing, unexpected = set(found.missing_keys), list(found.unexpected_keys)
    for name in (name for others in groups.values() for name in others):
        if name in missing:
            missing.remove(name)
        else:
            unexpected.append(name)
    if strict and (missing or unexpected):
        lines = [f"Error(s) in loading state_dict for {type(model).__name__}:"]
        for what, names in (("Missing", missing), ("Unexpected", unexpected)):
            if names:
                listed = ", ".join(f'"{name}"' for name in sorted(names))
                lines.append(f"    {what} key(s) in state_dict: {listed}")
        raise RuntimeError("\n".join(lines))
    return missing, unexpected
