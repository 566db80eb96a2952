"""DataParallel: a batch split over devices.

With one device, or none but the CPU, it passes everything through. The wrapper keeps PyTorch's
names: the wrapped model is `module`, so saved states begin with "module.".
"""

from collections.abc import Sequence
from typing import Any

from flambeau._device import device as Device
from flambeau.nn.modules.module import Module

__all__ = ["DataParallel", "data_parallel"]


class DataParallel(Module):
    """A model whose batches are split along dim over device_ids."""

    module: Any

    def __init__(
        self,
        module: Module,
        device_ids: Sequence[int | Device] | None = None,
        output_device: int | Device | None = None,
        dim: int = 0,
    ) -> None:
        super().__init__()
        self.module = module
        self.device_ids: list = []
        self.dim = dim
        self.output_device = output_device

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Sequence[int | Device] | None = None,
    output_device: int | Device | None = None,
    dim: int = 0,
    module_kwargs: Any | None = None,
) -> Any:
    """module(*inputs), the batch split over devices."""
    if not isinstance(inputs, tuple):
        inputs = () if inputs is None else (inputs,)
    return module(*inputs, **(module_kwargs or {}))
