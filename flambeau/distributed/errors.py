"""Exceptions of torch.distributed, and what many of its functions say."""

__all__ = [
    "DistBackendError",
    "DistError",
    "DistNetworkError",
    "DistStoreError",
    "QueueEmptyError",
    "no_group",
]


class DistError(RuntimeError):
    """Something between processes went wrong."""


class DistBackendError(DistError):
    """A collective could not be completed."""


class DistNetworkError(DistError):
    """A connection could not be made, or was lost."""


class DistStoreError(DistError):
    """A store did not answer in time."""


class QueueEmptyError(DistError):
    """Nothing is in this queue of a store."""


for _kind in (DistError, DistBackendError, DistNetworkError, DistStoreError, QueueEmptyError):
    _kind.__module__ = "torch.distributed"


def no_group() -> ValueError:
    """There is no default process group."""
    return ValueError(
        "Default process group has not been initialized, please make sure to call "
        "init_process_group."
    )
