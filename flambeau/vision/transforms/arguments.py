"""What constructors of transforms make of sizes, angles and ranges."""

import numbers
from collections.abc import Sequence
from typing import Any

TWO_DIMENSIONS = "Please provide only two dimensions (h, w) for size."


def _setup_size(size: Any, error_msg: str) -> Any:
    """Height and width from one number or two; two are kept as they are."""
    if isinstance(size, numbers.Number):
        return int(size), int(size)  # type: ignore[call-overload]
    if isinstance(size, Sequence) and len(size) == 1:
        return size[0], size[0]
    if len(size) != 2:
        raise ValueError(error_msg)
    return size


def _check_sequence_input(x: Any, name: str, req_sizes: Sequence[int]) -> None:
    lengths = " or ".join(str(size) for size in req_sizes)
    if not isinstance(x, Sequence):
        raise TypeError(f"{name} should be a sequence of length {lengths}.")
    if len(x) not in req_sizes:
        raise ValueError(f"{name} should be a sequence of length {lengths}.")


def _setup_angle(x: Any, name: str, req_sizes: Sequence[int] = (2,)) -> list[float]:
    """A range of angles; one number stands for the range around zero."""
    if isinstance(x, numbers.Number):
        if x < 0:  # type: ignore[operator]
            raise ValueError(f"If {name} is a single number, it must be positive.")
        x = [-x, x]  # type: ignore[operator]
    else:
        _check_sequence_input(x, name, req_sizes)
    return [float(d) for d in x]


def checked_fill(fill: Any) -> Any:
    """The colour of pixels from outside; None is black."""
    if fill is None:
        return 0
    if not isinstance(fill, (Sequence, numbers.Number)):
        raise TypeError("Fill should be either a sequence or a number.")
    return fill


def fill_of_tensor(fill: Any, channels: int) -> Any:
    """A fill as operations on tensors take it: a float for each channel."""
    if isinstance(fill, (int, float)):
        return [float(fill)] * channels
    return None if fill is None else [float(f) for f in fill]


def check_ranges(scale: Any, ratio: Any) -> bool:
    """Scale and ratio must be sequences; whether their bounds are in order."""
    if not isinstance(scale, Sequence):
        raise TypeError("Scale should be a sequence")
    if not isinstance(ratio, Sequence):
        raise TypeError("Ratio should be a sequence")
    return scale[0] <= scale[1] and ratio[0] <= ratio[1]


def listing(name: str, lines: Any) -> str:
    """The text of a transform that is made of others: one on each line."""
    return "\n".join([name + "(", *(f"    {line}" for line in lines), ")"])
