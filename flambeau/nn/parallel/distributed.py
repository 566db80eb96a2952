"""DistributedDataParallel: importable, as programs for one process or many import it."""

from typing import Any

from flambeau.nn.modules.module import Module

__all__ = ["DistributedDataParallel"]


class DistributedDataParallel(Module):
    """A model whose gradients are averaged over processes. Without a process group it refuses."""

    def __init__(self, module: Module, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        raise ValueError(
            "Default process group has not been initialized, please make sure to call "
            "init_process_group. (flambeau has no process groups yet.)"
        )
