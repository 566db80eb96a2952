"""DataParallel: a batch split over the GPUs of one process.

Without a GPU it passes everything through; with one, inputs are moved there; with several, each
gets a replica of the model and a piece of the batch. `DistributedDataParallel`, with a process per
GPU, is faster. The wrapper keeps PyTorch's names: the wrapped model is `module`, so saved states
begin with "module.".
"""

from collections.abc import Sequence
from typing import Any

import flambeau
from flambeau._device import device as Device
from flambeau._device import is_there, resolve, runtimes_of
from flambeau._tensor import Tensor
from flambeau.nn.modules.module import Module
from flambeau.nn.parallel.parallel_apply import parallel_apply
from flambeau.nn.parallel.replicate import replicate
from flambeau.nn.parallel.scatter_gather import gather, scatter_kwargs

__all__ = ["DataParallel", "data_parallel"]


def _chosen(device_ids: Any) -> list:
    """The GPUs that are used; none without GPUs."""
    if not is_there("cuda"):
        return []
    if device_ids is None:
        device_ids = range(runtimes_of(Device("cuda")).driver.count())
    return [resolve(Device("cuda", d) if isinstance(d, int) else d) for d in device_ids]


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


def _run(module: Module, places: list, output: Any, inputs: tuple, named: dict, dim: int) -> Any:
    for t in (*module.parameters(), *module.buffers()):
        if t.device != places[0]:
            raise RuntimeError(
                "module must have its parameters and buffers on device "
                f"{places[0]} (device_ids[0]) but found one of them on device: {t.device}"
            )
    if len(places) == 1:
        found = module(*_moved(inputs, places[0]), **_moved(named, places[0]))
        return found if output is None else _moved(found, output)
    pieces, words = scatter_kwargs(inputs, named, places, dim)
    if not pieces:
        pieces, words = ((),), ({},)
    if len(pieces) == 1:
        return _moved(module(*pieces[0], **words[0]), output or places[0])
    places = places[: len(pieces)]
    replicas = replicate(module, places, not flambeau.is_grad_enabled())
    found = parallel_apply(replicas, pieces, words, places)
    return gather(found, output or places[0], dim)


class DataParallel(Module):
    """A model that runs on GPUs whatever its inputs are on."""

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
        return _run(self.module, self._places, place, inputs, kwargs, self.dim)


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Sequence[int | Device] | None = None,
    output_device: int | Device | None = None,
    dim: int = 0,
    module_kwargs: Any | None = None,
) -> Any:
    """module(*inputs), with inputs moved to the GPUs that are used."""
    if not isinstance(inputs, tuple):
        inputs = () if inputs is None else (inputs,)
    places, named = _chosen(device_ids), module_kwargs or {}
    if not places:
        return module(*inputs, **named)
    output = Device("cuda", output_device) if isinstance(output_device, int) else output_device
    output = None if output is None else resolve(output)
    return _run(module, places, output, inputs, named, dim)
