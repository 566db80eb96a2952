"""Errors of the driver, and a mode that tells of calls that wait for a GPU."""

import warnings
from typing import Any

from flambeau.cuda._devices import needed
from flambeau.errors import AcceleratorError

_MODES = {"default": 0, "warn": 1, "error": 2}
WAITS = "called a synchronizing CUDA operation"


class cudaStatus:
    """Codes of results."""

    SUCCESS: int = 0
    ERROR_NOT_READY: int = 34


class CudaError(RuntimeError):
    """A call that failed, by its code."""

    def __init__(self, code: int) -> None:
        try:
            words = str(needed().driver.error(code))
        except AssertionError:
            words = "CUDA error"
        super().__init__(f"{words} ({code})")


class DeferredCudaCallError(Exception):
    """A call that was to wait for the first use of a GPU failed; none waits here."""


def check_error(res: int) -> None:
    """Raise an error unless a code says that all is well."""
    if int(res) != cudaStatus.SUCCESS:
        raise CudaError(int(res))


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """What calls that wait for a GPU do besides: nothing, a warning, or an error.

    Args:
        debug_mode: "default" or 0, "warn" or 1, "error" or 2.
    """
    found = needed()
    if isinstance(debug_mode, str):
        if debug_mode not in _MODES:
            raise RuntimeError(
                "invalid value of debug_mode, expected one of `default`, `warn`, `error`"
            )
        debug_mode = _MODES[debug_mode]
    found.on_wait = (None, _warn, _refuse)[debug_mode]


def get_sync_debug_mode() -> int:
    """0, 1 or 2: see `set_sync_debug_mode`."""
    return (None, _warn, _refuse).index(needed().on_wait)


def _warn() -> None:
    warnings.warn(WAITS, stacklevel=3)


def _refuse() -> Any:
    raise AcceleratorError(WAITS)
