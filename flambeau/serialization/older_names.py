"""Names of `torch.serialization` that programs import, and that matter little here."""

import contextlib
import re
import shutil
import tempfile
from collections.abc import Iterator
from typing import Any

from flambeau.serialization.legacy import MAGIC, PROTOCOL

MAGIC_NUMBER, PROTOCOL_VERSION = MAGIC, PROTOCOL
SHORT_SIZE, INT_SIZE, LONG_SIZE = 2, 4, 8
STORAGE_KEY_SEPARATOR = ","


class StorageType:
    """The name of a kind of storage."""

    def __init__(self, name: str) -> None:
        self._dtype_name = name

    def __str__(self) -> str:
        return f"StorageType(dtype={self._dtype_name})"


@contextlib.contextmanager
def mkdtemp() -> Iterator[str]:
    """A folder that is gone after the `with` block."""
    path = tempfile.mkdtemp()
    try:
        yield path
    finally:
        shutil.rmtree(path)


def check_module_version_greater_or_equal(
    module: Any, req_version_tuple: tuple, error_if_malformed: bool = True
) -> bool:
    """Is the version of a module at least this one?"""
    try:
        numbers = [re.match(r"\d+", part) for part in module.__version__.split(".")]
        found = tuple(
            kind(part[0])
            for kind, part in zip(map(type, req_version_tuple), numbers)
            if part is not None
        )
        return found >= req_version_tuple
    except Exception as error:
        message = (
            f"'{module.__name__}' module version string is malformed '{module.__version__}' and "
            f"cannot be compared with tuple {req_version_tuple}"
        )
        if error_if_malformed:
            raise RuntimeError(message) from error
        return True


def normalize_storage_type(storage_type: Any) -> Any:
    """The class of a storage under its public name."""
    return storage_type


def storage_to_tensor_type(storage: Any) -> Any:
    """The old class of tensors over storages of this kind, such as torch.FloatTensor."""
    from flambeau._tensor.legacy import TYPED

    return TYPED[f"{storage.dtype.scalar_name}Tensor"]
