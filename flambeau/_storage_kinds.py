"""`torch.FloatStorage` and its kin, and those of `torch.cuda`: older names of typed storages.

They make a TypedStorage of their dtype; `isinstance` asks for the dtype and the device.
"""

import operator
from typing import Any

from flambeau._device import is_there
from flambeau._dtype import QUANTIZED, default_dtype
from flambeau._tensor import Tensor
from flambeau._typed_storage import NAMES, TypedStorage, UntypedStorage


def _is_index(value: Any) -> bool:
    if isinstance(value, Tensor):
        return False  # also of one integer
    try:
        operator.index(value)
    except TypeError:
        return False
    return True


class _Kind(type):
    dtype: Any
    place: str

    @property
    def is_cuda(cls) -> bool:
        """Are they storages on GPUs?"""
        return cls.place == "cuda"

    @property
    def is_sparse(cls) -> bool:
        """Storages never are."""
        return False

    def __instancecheck__(cls, found: Any) -> bool:
        return (
            type(found) is TypedStorage
            and found.dtype == cls.dtype
            and found.is_cuda == cls.is_cuda
        )


class _LegacyStorage(TypedStorage, metaclass=_Kind):
    """What all of them are made from."""

    place = "cpu"

    def __new__(cls, *args: Any, **options: Any) -> Any:
        if cls is _LegacyStorage:
            raise RuntimeError("Only child classes of _LegacyStorage can be instantiated")
        options.pop("_internal", None)
        ways = (
            f"{cls}.__new__ received an invalid combination of arguments. Expected one of:\n"
            " * no arguments\n * (int size)\n * (Sequence data)\n"
            " * (*, UntypedStorage wrap_storage)\n"
        )
        for name in ("device", "dtype"):
            if name in options:
                raise RuntimeError(f"{ways}\nKeyword argument '{name}' cannot be specified")
        wrapped = options.pop("wrap_storage", None)
        if options:
            raise TypeError(
                f"{cls}.__new__() got an unexpected keyword argument '{next(iter(options))}'"
            )
        if wrapped is None:
            if len(args) > 1:
                raise RuntimeError(
                    f"{ways}\nToo many positional arguments given, got {len(args)}, but at most "
                    "1 can be accepted"
                )
            if cls.place == "cuda" and not is_there("cuda"):
                raise AssertionError("Torch not compiled with CUDA enabled")
            if args and isinstance(args[0], str):
                raise TypeError("new(): invalid data type 'str'")
            if args and not (isinstance(args[0], (list, tuple)) or _is_index(args[0])):
                raise TypeError(f"{ways}\nArgument type not recognized: {type(args[0])}")
            return TypedStorage(*args, dtype=cls.dtype, device=cls.place)
        if args:
            raise RuntimeError(
                f"{ways}\nNo positional arguments should be given when using 'wrap_storage'"
            )
        if not isinstance(wrapped, UntypedStorage):
            raise TypeError(
                f"{ways}\nArgument 'wrap_storage' must be UntypedStorage, but got {type(wrapped)}"
            )
        if wrapped.device.type != cls.place:
            raise RuntimeError(
                f"{ways}\nDevice of 'wrap_storage' must be {cls.place}, but got "
                f"{wrapped.device.type}"
            )
        return TypedStorage(wrap_storage=wrapped, dtype=cls.dtype)


class _CUDAStorage(_LegacyStorage):
    place = "cuda"

    @classmethod
    def _refused(cls, *args: Any, **options: Any) -> Any:
        raise RuntimeError("Not available for CUDA storage")

    from_buffer = _new_with_weak_ptr = _new_shared_filename = _refused


def _made(dtype: Any, base: Any, home: str) -> Any:
    return _Kind(NAMES[dtype], (base,), {"__module__": home, "dtype": dtype, "_dtype": dtype})


CLASSES = {NAMES[dtype]: _made(dtype, _LegacyStorage, "torch") for dtype in NAMES}
CUDA_CLASSES = {
    NAMES[dtype]: _made(dtype, _CUDAStorage, "torch.cuda")
    for dtype in NAMES
    if dtype not in QUANTIZED
}
_ALL = {UntypedStorage, TypedStorage, *CLASSES.values(), *CUDA_CLASSES.values()}


def found(name: str, home: str = "torch") -> Any:
    """What a module has under a name: a class, or all classes."""
    if name == "_storage_classes":
        return _ALL
    try:
        return (CLASSES if home == "torch" else CUDA_CLASSES)[name]
    except KeyError:
        raise AttributeError(f"module '{home}' has no attribute '{name}'") from None


def usual() -> Any:
    """`torch.Storage`: the class for the default dtype."""
    return CLASSES[NAMES[default_dtype()]]


def _dtype_to_storage_type_map() -> dict:
    """{dtype: name}, as older files say it."""
    return dict(NAMES)


def _storage_type_to_dtype_map() -> dict:
    """{name: dtype}, as older files say it."""
    return {name: dtype for dtype, name in NAMES.items()}
