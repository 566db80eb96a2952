"""What constructors and functions make of their arguments, in v1 and in v2 alike.

Transforms keep their settings with `keep` and list them in their texts (`Listed`); the rest are
checks and conversions of sizes, angles, paddings, factors and fills.
"""

import math
import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from flambeau import nn

TWO_DIMENSIONS = "Please provide only two dimensions (h, w) for size."
PADDING_MODES = ("constant", "edge", "reflect", "symmetric")


# -- settings and texts ----------------------------------------------------------------------------


def keep(owner: Any, **settings: Any) -> None:
    """Make settings attributes, in the order in which texts list them."""
    for name, value in settings.items():
        setattr(owner, name, value)


class Listed:
    """A text with the settings that `_listed` names."""

    _listed: tuple[str, ...] = ()

    def _facts(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._listed}

    def __repr__(self) -> str:
        facts = ", ".join(f"{name}={value}" for name, value in self._facts().items())
        return f"{type(self).__name__}({facts})"


class ListedModule(Listed, nn.Module):
    """A module that keeps the settings it is made with: what transforms of v1 are."""

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        keep(self, **settings)


def listing(name: str, lines: Any) -> str:
    """The text of a transform that is made of others: one on each line."""
    return "\n".join([name + "(", *(f"    {line}" for line in lines), ")"])


# -- sizes, angles, pairs --------------------------------------------------------------------------


def one_or_two(size: Any) -> Any:
    """Height and width from one number; anything else as it is."""
    if isinstance(size, (tuple, list)) or not isinstance(size, numbers.Number):
        is_one = isinstance(size, Sequence) and len(size) == 1
        return (*size, *size) if is_one else size
    return (int(size),) * 2  # type: ignore[call-overload]


def _setup_size(size: Any, error_msg: str) -> Any:
    """Height and width from one number or two; two are kept as they are."""
    pair = one_or_two(size)
    if len(pair) != 2:
        raise ValueError(error_msg)
    return pair


def height_and_width(size: Any) -> Any:
    """The size of a crop or of what a transform makes."""
    return _setup_size(size, TWO_DIMENSIONS)


def _check_sequence_input(x: Any, name: str, req_sizes: Sequence[int]) -> None:
    is_sequence = isinstance(x, Sequence)
    if not is_sequence or len(x) not in req_sizes:
        lengths = " or ".join(map(str, req_sizes))
        kind = ValueError if is_sequence else TypeError
        raise kind(f"{name} should be a sequence of length {lengths}.")


def _setup_angle(x: Any, name: str, req_sizes: Sequence[int] = (2,)) -> list[float]:
    """A range of angles; one number stands for the range around zero."""
    if not isinstance(x, numbers.Number):
        _check_sequence_input(x, name, req_sizes)
        return list(map(float, x))
    if x < 0:  # type: ignore[operator]
        raise ValueError(f"If {name} is a single number, it must be positive.")
    return [float(-x), float(x)]  # type: ignore[arg-type,operator]


def pair_or_none(
    values: Any, name: str, refuses: Callable[[Any], bool] | None = None, message: str = ""
) -> Any:
    """Two values, none of which is refused, or None."""
    if values is None:
        return None
    _check_sequence_input(values, name, (2,))
    if refuses is not None and any(map(refuses, values)):
        raise ValueError(message)
    return values


def affine_ranges(degrees: Any, translate: Any, scale: Any, shear: Any) -> dict[str, Any]:
    """The settings of a random affine map, checked."""
    shares = "translation values should be between 0 and 1"
    return {
        "degrees": _setup_angle(degrees, "degrees"),
        "translate": pair_or_none(translate, "translate", lambda t: not 0.0 <= t <= 1.0, shares),
        "scale": pair_or_none(scale, "scale", lambda s: s <= 0, "scale values should be positive"),
        "shear": None if shear is None else _setup_angle(shear, "shear", (2, 4)),
    }


def check_angle(angle: Any) -> None:
    if not isinstance(angle, (int, float)):
        raise TypeError("Argument angle should be int or float")


def check_center(center: Any) -> None:
    if not (center is None or isinstance(center, (list, tuple))):
        raise TypeError("Argument center should be a sequence")


def _two_shears(shear: Any) -> list[Any]:
    """Shears along x and y; one number is for x alone, a sequence of one for both."""
    if isinstance(shear, numbers.Number):
        return [shear, 0.0]
    if not isinstance(shear, (list, tuple)):
        raise TypeError("Shear should be either a single value or a sequence of two values")
    both = list(shear) * (2 if len(shear) == 1 else 1)
    if len(both) != 2:
        raise ValueError(f"Shear should be a sequence containing two values. Got {both}")
    return both


def checked_shears(angle: Any, translate: Any, scale: Any, shear: Any, center: Any) -> list[Any]:
    """The shears along x and y of an affine map; refuses what else is wrong about the map, too."""
    check_angle(angle)
    is_pair = isinstance(translate, (list, tuple))
    if not is_pair or len(translate) != 2:
        more = " of length 2" if is_pair else ""
        kind = ValueError if is_pair else TypeError
        raise kind(f"Argument translate should be a sequence{more}")
    if scale <= 0.0:
        raise ValueError("Argument scale should be positive")
    both = _two_shears(shear)
    check_center(center)
    return both


# -- blurring --------------------------------------------------------------------------------------


def kernel_pair(kernel_size: Any) -> Any:
    """The widths of a filter along x and y, which must have a middle."""
    sizes = _setup_size(kernel_size, "Kernel size should be a tuple/list of two integers")
    if not all(size > 0 and size % 2 for size in sizes):
        raise ValueError("Kernel size value should be an odd and positive number.")
    return sizes


def blur_sizes(kernel_size: Any, sigma: Any) -> tuple[list[int], list[float]]:
    """Sizes and widths of a bell along x and y; widths follow from sizes where there are none."""
    sizes = [kernel_size] * 2 if isinstance(kernel_size, int) else list(kernel_size)
    if len(sizes) != 2:
        raise ValueError(f"If kernel_size is a sequence its length should be 2. Got {len(sizes)}")
    if any(size < 0 or size % 2 == 0 for size in sizes):
        raise ValueError(f"kernel_size should have odd and positive integers. Got {kernel_size}")
    if sigma is None:
        return sizes, [0.15 * size + 0.35 for size in sizes]
    if not isinstance(sigma, (int, float, list, tuple)):
        raise TypeError(f"sigma should be either float or sequence of floats. Got {type(sigma)}")
    widths = [float(sigma)] if isinstance(sigma, (int, float)) else sigma
    if len(widths) == 1:
        widths = [widths[0], widths[0]]
    if len(widths) != 2:
        raise ValueError(f"If sigma is a sequence, its length should be 2. Got {len(widths)}")
    if any(width <= 0.0 for width in widths):
        raise ValueError(f"sigma should have positive values. Got {widths}")
    return sizes, list(widths)


# -- padding and fills -----------------------------------------------------------------------------


def check_kinds(**given: tuple[Any, Any]) -> None:
    """Refuse the first argument that is of none of its types."""
    for name, (value, kinds) in given.items():
        if not isinstance(value, kinds):
            raise TypeError(f"Got inappropriate {name} arg")


def check_side_count(padding: Any) -> None:
    if isinstance(padding, (tuple, list)) and len(padding) not in (1, 2, 4):
        raise ValueError(
            "Padding must be an int or a 1, 2, or 4 element tuple, "
            f"not a {len(padding)} element tuple"
        )


def check_padding_mode(padding_mode: Any) -> None:
    if padding_mode not in PADDING_MODES:
        raise ValueError("Padding mode should be either constant, edge, reflect or symmetric")


def four_sides(padding: Any) -> tuple[Any, ...]:
    """Left, top, right and bottom from one, two or four numbers, whose count was checked."""
    sides = tuple(padding) if isinstance(padding, (tuple, list)) else (padding,)
    return sides * (4 // len(sides))


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


def check_fill_count(fill: Any, channels: int) -> None:
    """Refuse several colours that are not one for each channel."""
    if isinstance(fill, (tuple, list)) and len(fill) not in (0, 1, channels):
        raise ValueError(
            "The number of elements in 'fill' cannot broadcast to match the number of channels of "
            f"the image ({len(fill)} != {channels})"
        )


# -- factors and ranges ----------------------------------------------------------------------------


def check_factor(name: str, factor: float) -> None:
    """Refuse factors below zero."""
    if factor < 0:
        raise ValueError(f"{name} ({factor}) is not non-negative.")


def check_hue(hue_factor: float) -> None:
    """Refuse turns by more than half of the circle of hues."""
    if not -0.5 <= hue_factor <= 0.5:
        raise ValueError(f"hue_factor ({hue_factor}) is not in [-0.5, 0.5].")


def check_gamma(gamma: float) -> None:
    if gamma < 0:
        raise ValueError("Gamma should be a non-negative real number")


def check_ranges(scale: Any, ratio: Any) -> bool:
    """Scale and ratio must be sequences; whether their bounds are in order."""
    for name, bounds in (("Scale", scale), ("Ratio", ratio)):
        if not isinstance(bounds, Sequence):
            raise TypeError(f"{name} should be a sequence")
    return all(bounds[0] <= bounds[1] for bounds in (scale, ratio))


@dataclass(frozen=True)
class JitterRule:
    """How ranges of factors may be given: the types of amounts and of pairs, and what is said.

    An amount v stands for (1 - v, 1 + v), not below zero; for hues, for (-v, v).
    """

    amount: Any
    pair: Any
    convert: Callable[[Any], Any]  # amounts, before they are counted with
    malformed: str
    outside: str

    def bounds(self, name: str, given: Any) -> tuple[float, float] | None:
        """The least and the largest factor; None where all would stay as it is."""
        neutral, limits = _JITTERS.get(name, (1.0, (0, math.inf)))
        if isinstance(given, self.amount):
            if given < 0:
                raise ValueError(f"If {name} is a single number, it must be non negative.")
            amount = self.convert(given)
            low, high = neutral - amount, neutral + amount
            low = low if name in _JITTERS else max(low, 0.0)
        elif isinstance(given, self.pair) and len(given) == 2:
            low, high = map(float, given)
        else:
            raise TypeError(self.malformed.format(name=name, given=given))
        if not limits[0] <= low <= high <= limits[1]:
            raise ValueError(self.outside.format(name=name, limits=limits, found=[low, high]))
        return None if low == high == neutral else (float(low), float(high))


_JITTERS = {"hue": (0, (-0.5, 0.5))}  # the others are factors around one
