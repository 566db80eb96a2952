"""`torch.distributed.autograd`: gradients through remote calls, which flambeau does not make.

Libraries import it beside what they need. Gradients that cross processes are those of
`torch.distributed.nn.functional`.
"""

from typing import Any, NoReturn

__all__ = ["backward", "context", "get_gradients", "is_available"]


def is_available() -> bool:
    """Can gradients go through remote calls? No."""
    return False


def backward(*args: Any, **kwargs: Any) -> NoReturn:
    """Refused."""
    raise NotImplementedError(
        "torch.distributed.autograd is not implemented, for there are no remote calls; "
        "torch.distributed.nn.functional has collectives with gradients"
    )


get_gradients = backward


class context:
    """Refused, when it is entered."""

    def __enter__(self) -> NoReturn:
        backward()

    def __exit__(self, *error: Any) -> None:
        """Never reached."""
