"""Parameters as one long vector, and back: for optimizers and tests that think in vectors."""

from collections.abc import Iterable
from typing import Any

import flambeau
from flambeau._tensor import Tensor


def _same_device(param, device):
    """Refuses parameters that do not lie together; gives the device to compare the next with."""
    if device is not None and param.device != device:
        raise TypeError(
            "Found two parameters on different devices, this is currently not supported."
        )
    return param.device


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All elements of all parameters, in order; gradients flow back to them."""
    device, pieces = None, []
    for param in parameters:
        device = _same_device(param, device)
        pieces.append(param.view(-1))
    return flambeau.cat(pieces)


def vector_to_parameters(vec: Tensor, parameters: Iterable[Any]) -> None:
    """Make every parameter a slice of vec: the memory is shared, nothing is copied."""
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {flambeau.typename(vec)}")
    device, start = None, 0
    for param in parameters:
        device = _same_device(param, device)
        end = start + param.numel()
        param.data = vec[start:end].view_as(param).detach()
        start = end
