"""Modules at work on inputs of their own, each in a thread."""

import threading
from collections.abc import Sequence
from typing import Any

import flambeau
from flambeau._tensor import Tensor
from flambeau.nn.modules.module import Module
from flambeau.nn.parallel.scatter_gather import _device

__all__ = ["get_a_var", "parallel_apply"]


def get_a_var(obj: Any) -> Tensor | None:
    """A tensor out of any nesting; None if there is none."""
    if isinstance(obj, Tensor):
        return obj
    if isinstance(obj, dict):
        obj = list(obj.items())
    if isinstance(obj, (list, tuple)):
        return next((t for t in map(get_a_var, obj) if t is not None), None)
    return None


def parallel_apply(
    modules: Sequence[Module],
    inputs: Sequence[Any],
    kwargs_tup: Sequence[dict[str, Any]] | None = None,
    devices: Sequence[Any] | None = None,
) -> list[Any]:
    """modules[k](*inputs[k], **kwargs_tup[k]) for all k at once."""
    from flambeau.utils.data.worker_errors import Failure

    count = len(modules)
    if count != len(inputs):
        raise AssertionError(
            f"The number of modules {count} is not equal to the number of inputs {len(inputs)}"
        )
    named: Sequence[dict[str, Any]] = [{}] * count if kwargs_tup is None else kwargs_tup
    places: Sequence[Any] = [None] * count if devices is None else devices
    if not len(named) == len(places) == count:
        raise AssertionError("modules, kwargs_tup and devices are not of one length")
    found: list[Any] = [None] * count
    records = flambeau.is_grad_enabled()
    casts = {
        kind: (flambeau.is_autocast_enabled(kind), flambeau.get_autocast_dtype(kind))
        for kind in ("cpu", "cuda")
    }

    def work(k: int) -> None:
        given = inputs[k] if isinstance(inputs[k], (list, tuple)) else (inputs[k],)
        first = get_a_var(given) if places[k] is None else None
        place = _device(places[k]) if places[k] is not None else getattr(first, "device", "cpu")
        kind = flambeau.device(place).type
        on, dtype = casts.get(kind, (False, None))
        try:
            with (
                flambeau.set_grad_enabled(records),
                flambeau.cuda.device(place if kind == "cuda" else -1),
                flambeau.autocast(kind if kind in casts else "cpu", dtype=dtype, enabled=on),
            ):
                found[k] = modules[k](*given, **named[k])
        except Exception as error:  # raised again by the caller, with the replica named
            found[k] = Failure(error, f"in replica {k} on device {_number(place)}")

    if count > 1:
        threads = [threading.Thread(target=work, args=(k,)) for k in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    else:
        work(0)
    for value in found:
        if isinstance(value, Failure):
            value.reraise()
    return found


def _number(place: Any) -> Any:
    """The number of a GPU; the name of another device."""
    index = flambeau.device(place).index
    return place if index is None else index
