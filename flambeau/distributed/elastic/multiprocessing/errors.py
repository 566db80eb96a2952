"""Errors of workers, written to a file for the launcher that asks for it.

The file is the one that TORCHELASTIC_ERROR_FILE names; without it nothing is written.
"""

import functools
import json
import os
import time
import traceback
from collections.abc import Callable
from typing import Any

__all__ = ["ErrorHandler", "record"]


class ErrorHandler:
    """Where the error of a worker goes."""

    def initialize(self) -> None:
        """Called before the worker's function."""

    def record_exception(self, e: BaseException) -> None:
        """Write what happened to the file that the launcher named."""
        path = os.environ.get("TORCHELASTIC_ERROR_FILE")
        if path is None:
            return
        stack = "".join(traceback.format_exception(e))
        extra = {"py_callstack": stack, "timestamp": str(int(time.time()))}
        about = {"message": f"{type(e).__name__}: {e}", "extraInfo": extra}
        with open(path, "w") as file:
            json.dump({"message": about}, file)


def record(fn: Callable, error_handler: ErrorHandler | None = None) -> Callable:
    """The main function of a worker, whose exceptions are recorded on their way up."""

    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        handler = error_handler or ErrorHandler()
        handler.initialize()
        try:
            return fn(*args, **kwargs)
        except SystemExit as end:
            if end.code == 0:  # an end like any other
                return None
            raise
        except Exception as error:
            handler.record_exception(error)
            raise

    return wrapper
