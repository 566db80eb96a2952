"""What a checkpoint consists of: which tensors, cut how, and where each piece lies.

Files hold these classes as a pickle, with the fields and the states that PyTorch's have.
"""

import enum
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import flambeau
from flambeau import Size, Tensor

__all__ = [
    "BytesStorageMetadata",
    "ChunkStorageMetadata",
    "Metadata",
    "MetadataIndex",
    "StorageMeta",
    "TensorProperties",
    "TensorStorageMetadata",
]


@dataclass
class ChunkStorageMetadata:
    """One piece of a tensor: where it begins in the whole, and how large it is."""

    offsets: Size
    sizes: Size


class _MEM_FORMAT_ENCODING(enum.Enum):
    TORCH_CONTIGUOUS_FORMAT = 0
    TORCH_CHANNELS_LAST = 1
    TORCH_PRESERVE_FORMAT = 2


_FORMATS = (flambeau.contiguous_format, flambeau.channels_last, flambeau.preserve_format)


@dataclass
class TensorProperties:
    """What a tensor is, besides its values."""

    dtype: Any = field(default_factory=flambeau.get_default_dtype)
    layout: Any = flambeau.strided
    requires_grad: bool = False
    memory_format: Any = flambeau.contiguous_format
    pin_memory: bool = False

    def __getstate__(self) -> tuple:
        code = _MEM_FORMAT_ENCODING(_FORMATS.index(self.memory_format))
        return self.dtype, self.layout, self.requires_grad, code, self.pin_memory

    def __setstate__(self, state: tuple) -> None:
        self.dtype, self.layout, self.requires_grad, code, self.pin_memory = state
        self.memory_format = _FORMATS[code.value]

    @staticmethod
    def create_from_tensor(tensor: Tensor) -> "TensorProperties":
        """Those of a tensor; pieces are written contiguous."""
        return TensorProperties(tensor.dtype, tensor.layout, tensor.requires_grad)


@dataclass
class TensorStorageMetadata:
    """A tensor of a checkpoint, and the pieces it was cut into."""

    properties: TensorProperties
    size: Size
    chunks: list[ChunkStorageMetadata]


@dataclass
class BytesStorageMetadata:
    """Any other value of a checkpoint."""


@dataclass(frozen=True)
class MetadataIndex:
    """Names a value, or a piece of a tensor by its offset; index guesses its place in the list."""

    fqn: str
    offset: Size | None = None
    index: int | None = field(hash=False, compare=False, default=None)

    def __init__(
        self, fqn: str, offset: Sequence[int] | None = None, index: int | None = None
    ) -> None:
        for name, value in (
            ("fqn", fqn),
            ("offset", None if offset is None else Size(offset)),
            ("index", index),
        ):
            object.__setattr__(self, name, value)


@dataclass
class StorageMeta:
    """Which checkpoint this is."""

    checkpoint_id: str | os.PathLike | None = None
    save_id: str | None = None
    load_id: str | None = None
    modules: list[str] = field(default_factory=list)


@dataclass
class Metadata:
    """A whole checkpoint.

    Attributes:
        state_dict_metadata: what is in it, by flat name.
        planner_data: for every flat name the keys that lead to it.
        storage_data: for every MetadataIndex the file and the bytes of it.
    """

    state_dict_metadata: dict[str, TensorStorageMetadata | BytesStorageMetadata]
    planner_data: Any = None
    storage_data: Any = None
    storage_meta: StorageMeta | None = None
    version: str | None = None
