"""`torch.distributed.tensor`: a tensor spread over processes; no tensor is one."""

from typing import Any

__all__ = ["DTensor"]


class DTensor:
    """Libraries ask whether a tensor is one; none can be made."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError("torch.distributed.tensor is not implemented in flambeau")
