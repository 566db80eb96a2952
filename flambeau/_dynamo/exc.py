"""What can go wrong while a program is read or compiled, under PyTorch's names."""

from typing import Any

__all__ = [
    "BackendCompilerFailed",
    "Break",
    "FailOnRecompileLimitHit",
    "InternalTorchDynamoError",
    "InvalidBackend",
    "RecompileError",
    "RecompileLimitExceeded",
    "SizesInside",
    "TorchDynamoException",
    "Unsupported",
    "UserError",
]


class TorchDynamoException(RuntimeError):
    """What all of these are."""


class Unsupported(TorchDynamoException):
    """Something cannot be captured, and `fullgraph=True` asks for everything."""

    def __init__(self, msg: str, *, case_name: str | None = None) -> None:
        super().__init__(msg)
        self.msg, self.case_name = msg, case_name


class UserError(Unsupported):
    """The same, where the program asked for something impossible."""


class InternalTorchDynamoError(TorchDynamoException):
    """A fault of the reader itself."""


class RecompileError(TorchDynamoException):
    """A program would be read again although that is forbidden."""


class RecompileLimitExceeded(Unsupported):
    """A program was read too often."""


FailOnRecompileLimitHit = RecompileLimitExceeded


class InvalidBackend(TorchDynamoException):
    """There is no backend of this name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"Invalid backend: {name!r}, see `torch._dynamo.list_backends()` for "
                         "available backends.")  # fmt: skip


class BackendCompilerFailed(TorchDynamoException):
    """A backend raised an error while it compiled a graph."""

    def __init__(self, backend_fn: Any, inner_exception: Exception, *unused: Any) -> None:
        self.backend_name = getattr(backend_fn, "__name__", "?")
        self.inner_exception = inner_exception
        super().__init__(
            f"backend={self.backend_name!r} raised:\n{type(inner_exception).__name__}: "
            f"{inner_exception}"
        )


class Break(Exception):
    """Reading cannot go on here: the statement runs as plain Python instead.

    The reason names what was met; `place` is (file, line) of the innermost statement.
    """

    def __init__(self, reason: str, error: Exception | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.error = error  # what an op complained of, which the plain call will do as well
        self.place: tuple[str, int] | None = None
        self.stack: list[tuple[str, int, str]] = []


class SizesInside(Break):
    """Sizes that vary are asked for where they cannot be counted; fixed ones are no trouble."""
