"""`torch.cuda.comm`: tensors copied to, cut over and gathered from several GPUs of one process."""

from collections.abc import Iterable, Sequence
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.cuda._devices import Device, index_of

__all__ = [
    "broadcast",
    "broadcast_coalesced",
    "gather",
    "reduce_add",
    "reduce_add_coalesced",
    "scatter",
]


def _place(given: Any) -> Any:
    return Device("cuda", index_of(given))


def broadcast(
    tensor: Tensor, devices: Iterable[Any] | None = None, *, out: Sequence[Tensor] | None = None
) -> tuple[Tensor, ...]:
    """A copy on each device; on its own device, the tensor itself."""
    if (devices is None) == (out is None):
        raise RuntimeError(
            "Exactly one of 'devices' and 'out' must be specified, but got "
            f"devices={devices} and out={out}"
        )
    if out is not None:
        return tuple(t.copy_(tensor) for t in out)
    return tuple(tensor.to(_place(d)) for d in devices or ())


def broadcast_coalesced(
    tensors: Sequence[Tensor], devices: Iterable[Any], buffer_size: int = 10485760
) -> tuple[tuple[Tensor, ...], ...]:
    """Copies of all tensors for each device; none of them is a view of a buffer here."""
    return tuple(tuple(t.to(place) for t in tensors) for place in map(_place, devices))


def reduce_add(inputs: Sequence[Tensor], destination: Any = None) -> Tensor:
    """The sum of tensors that lie on several devices, on one of them."""
    place, shape = _place(destination), inputs[0].shape
    for t in inputs:
        if not t.is_cuda:
            raise AssertionError("reduce_add expects all inputs to be on GPUs")
        if t.shape != shape:
            got, expected = "x".join(map(str, t.shape)), "x".join(map(str, shape))
            raise ValueError(f"input 1 has invalid size: got {got}, but expected {expected}")
    if all(t.device != place for t in inputs):
        raise RuntimeError(
            "reduce_add expects destination to be on the same GPU with one of the tensors"
        )
    total = inputs[0].to(place)
    for t in inputs[1:]:
        total = total + t.to(place)
    return total


def reduce_add_coalesced(
    inputs: Sequence[Sequence[Tensor]], destination: Any = None, buffer_size: int = 10485760
) -> tuple[Tensor, ...]:
    """The same for a row of tensors per device."""
    return tuple(reduce_add(row, destination) for row in zip(*inputs, strict=True))


def scatter(
    tensor: Tensor,
    devices: Iterable[Any] | None = None,
    chunk_sizes: Sequence[int] | None = None,
    dim: int = 0,
    streams: Sequence[Any] | None = None,
    *,
    out: Sequence[Tensor] | None = None,
) -> tuple[Tensor, ...]:
    """A tensor cut along dim, a piece for each device."""
    if out is not None:
        if devices is not None or chunk_sizes is not None:
            raise RuntimeError(
                "'devices' and 'chunk_sizes' must not be specified when 'out' is specified, but "
                f"got devices={devices} and chunk_sizes={chunk_sizes}"
            )
        pieces = tensor.split([t.shape[dim] for t in out], dim)
        return tuple(t.copy_(piece) for t, piece in zip(out, pieces))
    places = [_place(d) for d in devices or ()]
    if chunk_sizes is None:
        pieces = tensor.chunk(len(places), dim)
    else:
        pieces = tensor.split(list(chunk_sizes), dim)
    return tuple(piece.to(place) for piece, place in zip(pieces, places))


def gather(
    tensors: Sequence[Tensor], dim: int = 0, destination: Any = None, *, out: Tensor | None = None
) -> Tensor:
    """Pieces that lie on several devices side by side, on one of them or on the host."""
    if out is not None:
        if destination is not None:
            raise RuntimeError(
                "'destination' must not be specified when 'out' is specified, but got "
                f"destination={destination}"
            )
        return out.copy_(flambeau.cat([t.to(out.device) for t in tensors], dim))
    if destination == "cpu" or getattr(destination, "type", "") == "cpu" or destination == -1:
        place = Device("cpu")
    else:
        place = _place(destination)
    return flambeau.cat([t.to(place) for t in tensors], dim)
