"""`torch.types`: names for annotations."""

import builtins
import os
from collections.abc import Sequence
from typing import IO, Any, TypeAlias

from flambeau import Size, Tensor, device, dtype, layout
from flambeau._typed_storage import UntypedStorage

__all__ = ["Number", "Device", "FileLike", "Storage"]

Number: TypeAlias = builtins.int | builtins.float | builtins.bool
Device: TypeAlias = device | str | int | None
FileLike: TypeAlias = str | os.PathLike[str] | IO[builtins.bytes]
Storage: TypeAlias = UntypedStorage
IntLikeType: TypeAlias = builtins.int
FloatLikeType: TypeAlias = builtins.float
BoolLikeType: TypeAlias = builtins.bool
_int, _float, _bool, _complex = builtins.int, builtins.float, builtins.bool, builtins.complex
_str, _bytes, _dtype, _device, _layout = builtins.str, builtins.bytes, dtype, device, layout
_size: TypeAlias = Size | list[builtins.int] | tuple[builtins.int, ...]
_Number = (builtins.int, builtins.float, builtins.bool)
_TensorOrTensors: TypeAlias = Tensor | Sequence[Tensor]
_TensorOrOptionalTensors: TypeAlias = Tensor | Sequence[Tensor | None]
_TensorOrTensorsOrGradEdge: TypeAlias = Any
