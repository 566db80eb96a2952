"""Objects that save and load themselves within a checkpoint."""

from typing import Any, Protocol, TypeVar, runtime_checkable

__all__ = ["Stateful", "StatefulT"]


@runtime_checkable
class Stateful(Protocol):
    """Has a state_dict, and can take one back: models, optimizers, loaders, your own."""

    def state_dict(self) -> dict[str, Any]:
        """What is to be saved."""
        ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take back what was saved."""
        ...


StatefulT = TypeVar("StatefulT", bound=Stateful)
