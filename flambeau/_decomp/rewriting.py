"""Functions that PyTorch writes in Python around an op: recorded as those ops.

Here they are one function; there the op gives more than they return, or gets prepared arguments.
"""

from collections.abc import Callable
from typing import Any

Values = dict[str, Any]


def _broadcast(name: str, *options: str) -> Callable:
    """Losses between tensors of one shape."""

    def rewrite(recorder: Any, values: Values) -> Any:
        if values.get("weight") is not None or values.get("size_average") is not None:
            return NotImplemented
        pair = recorder.call("broadcast_tensors.default", [values["input"], values["target"]])
        given = {"input": pair[0], "target": pair[1]}
        given |= {key: values[key] for key in ("reduction", *options)}
        return recorder.call_named(name, given)

    return rewrite


def _first_unless_asked(name: str) -> Callable:
    """Pools that give positions as well."""

    def rewrite(recorder: Any, values: Values) -> Any:
        asked = values.pop("return_indices", False)
        result = recorder.call_named(name, values)
        return result if asked else result[0]

    return rewrite


def _pool_with_indices(name: str) -> Callable:
    def rewrite(recorder: Any, values: Values) -> Any:
        if not values.get("return_indices"):
            return NotImplemented
        del values["return_indices"]
        return recorder.call_named(name, values)

    return rewrite


def _bag(recorder: Any, values: Values) -> Any:
    if values.get("offsets") is None or values.get("max_norm") is not None:
        return NotImplemented
    return recorder.call_named("embedding_bag", values)[0]


def _kl_div(recorder: Any, values: Values) -> Any:
    if values.get("reduction") != "batchmean" or values.get("size_average") is not None:
        return NotImplemented
    total = recorder.call_named("kl_div", values | {"reduction": "sum"})
    return recorder.call("div.Tensor", total, values["input"].shape[0])


def _runs(recorder: Any, values: Values) -> Any:
    """Values that differ from those before them; the op gives all that can be asked for."""
    asked = [True, values.get("return_inverse"), values.get("return_counts")]
    found = recorder.call_named("unique_consecutive", values)
    chosen = tuple(part for part, wanted in zip(found, asked) if wanted)
    return chosen if len(chosen) > 1 else chosen[0]


def _lstm(recorder: Any, values: Values) -> Any:
    """States that start as zeros are one tensor here; PyTorch makes two."""
    states = values.get("hx")
    if not isinstance(states, (tuple, list)) or states[0] is not states[1]:
        return NotImplemented
    first = states[0]
    sizes = recorder.sizes_of_tensor(first)
    other = recorder.call(
        "zeros.default", list(sizes), dtype=first.dtype, device=first.device, pin_memory=False
    )
    return recorder.call_named("lstm", values | {"hx": [first, other]})


REWRITES: dict[str, Callable[[Any, Values], Any]] = {
    "mse_loss": _broadcast("mse_loss"),
    "l1_loss": _broadcast("l1_loss"),
    "smooth_l1_loss": _broadcast("smooth_l1_loss", "beta"),
    "huber_loss": _broadcast("huber_loss", "delta"),
    **{f"adaptive_max_pool{n}d": _first_unless_asked(f"adaptive_max_pool{n}d") for n in (1, 2, 3)},
    **{f"max_pool{n}d": _pool_with_indices(f"max_pool{n}d_with_indices") for n in (1, 2, 3)},
    "embedding_bag": _bag,
    "kl_div": _kl_div,
    "unique_consecutive": _runs,
    "lstm": _lstm,
}
