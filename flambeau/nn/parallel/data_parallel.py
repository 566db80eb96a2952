"""DataParallel: a batch split over devices.

Without a GPU it passes everything through; with one, inputs are moved there first. Batches are not
split over several: `DistributedDataParallel` does that. The wrapper keeps PyTorch's names: the
wrapped model is `module`, so saved states begin with "module.".
"""

from collections.abc import Sequence
from typing import Any

from flambeau._device import device as Device
from flambeau._device import is_there, resolve
from flambeau._tensor import Tensor
from flambeau.nn.modules.module import Module

__all__ = ["DataParallel", "data_parallel"]


def _chosen(device_ids: Any) -> list:
    """The GPU that is used, as a list of one device; none without GPUs."""
    if not is_there("cuda"):
        return []
    ids = ["cuda"] if device_ids is None else list(device_ids)
    return [resolve(Device("cuda", d) if isinstance(d, int) else d) for d in ids[:1]]


def _moved(value: Any, place: Any) -> Any:
    """Tensors, however deep they are in value, on a device."""
    if isinstance(value, Tensor):
        return value.to(place)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*[_moved(v, place) for v in value])
    if isinstance(value, (list, tuple)):
        return type(value)([_moved(v, place) for v in value])
    if isinstance(value, dict):
        return type(value)((k, _moved(v, place)) for k, v in value.items())
    return value


def _run(module: Module, place: Any, output: Any, inputs: tuple, named: dict) -> Any:
    for t in (*module.parameters(), *module.buffers()):
        if t.device != place:
            raise RuntimeError(
                "module must have its parameters and buffers on device "
                f"{place} (device_ids[0]) but found one of them on device: {t.device}"
            )
    found = module(*_moved(inputs, place), **_moved(named, place))
    return found if output is None else _moved(found, output)


class DataParallel(Module):
    """A model that runs on a GPU whatever its inputs are on."""

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
        self._places = _chosen(device_ids)
        self.device_ids: list = [d.index for d in self._places]
        self.dim = dim
        first = self.device_ids[0] if self.device_ids else None
        self.output_device = first if output_device is None else output_device

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        if not self._places:
            return self.module(*inputs, **kwargs)
        output = self.output_device
        place = resolve(Device("cuda", output) if isinstance(output, int) else output)
        return _run(self.module, self._places[0], place, inputs, kwargs)


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Sequence[int | Device] | None = None,
    output_device: int | Device | None = None,
    dim: int = 0,
    module_kwargs: Any | None = None,
) -> Any:
    """module(*inputs), with inputs moved to the GPU that is used."""
    if not isinstance(inputs, tuple):
        inputs = () if inputs is None else (inputs,)
    places, named = _chosen(device_ids), module_kwargs or {}
    if not places:
        return module(*inputs, **named)
    output = Device("cuda", output_device) if isinstance(output_device, int) else output_device
    return _run(module, places[0], None if output is None else resolve(output), inputs, named)
