"""`torch.distributed.rpc`: calls of functions in other processes, which flambeau does not make.

Libraries import it beside what they need. Collectives and messages between processes are in
`torch.distributed` itself.
"""

from typing import Any, NoReturn

__all__ = ["init_rpc", "is_available", "remote", "rpc_async", "rpc_sync", "shutdown"]


def is_available() -> bool:
    """Can functions of other processes be called? No."""
    return False


def init_rpc(*args: Any, **kwargs: Any) -> NoReturn:
    """Refused."""
    raise NotImplementedError(
        "torch.distributed.rpc is not implemented; torch.distributed has collectives and messages"
    )


rpc_sync = rpc_async = remote = shutdown = init_rpc
