"""What random transforms draw: one function for each, which v1 and v2 share.

Draws come in torchvision's order, so that equal seeds give equal results.
"""

import math
import numbers
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.vision.transforms import draws
from flambeau.vision.transforms.arguments import check_ranges

Place = tuple[int, int, int, int]  # top, left, height and width
_TRIALS = 10  # that a rectangle of the wanted area and shape may take to fit


# -- rectangles ------------------------------------------------------------------------------------


def place_within(canvas: Sequence[int], size: Sequence[int]) -> tuple[int, int]:
    """Where a part of this size starts, somewhere on a canvas: top and left."""
    top = draws.integer(0, canvas[0] - size[0] + 1)
    return top, draws.integer(0, canvas[1] - size[1] + 1)


def _long_and_short(canvas: Sequence[int], scale: Any, ratio: Any) -> Iterator[tuple[int, int]]:
    """Sides of rectangles with a drawn area and a drawn ratio of the first side to the second."""
    bounds = draws.logarithms(ratio)
    for _ in range(_TRIALS):
        area = canvas[0] * canvas[1] * draws.uniform(scale[0], scale[1])
        stretch = draws.exponential_between(bounds[0], bounds[1])
        yield round(math.sqrt(area * stretch)), round(math.sqrt(area / stretch))


def crop(canvas: tuple[int, int], size: tuple[int, int]) -> Place:
    """A crop of this size; nothing is drawn where it is all of the canvas."""
    if size[0] > canvas[0] or size[1] > canvas[1]:
        raise ValueError(f"Required crop size {size} is larger than input image size {canvas}")
    start = (0, 0) if size == canvas else place_within(canvas, size)
    return (*start, *size)


def resized_crop(canvas: Sequence[int], scale: Any, ratio: Any) -> Place:
    """A crop of random area and shape; ratio: bounds of its width / height."""
    height, width = canvas
    for w, h in _long_and_short(canvas, scale, ratio):
        if 0 < w <= width and 0 < h <= height:
            return (*place_within(canvas, (h, w)), h, w)
    # nothing fitted: the largest part in the middle that has a permitted shape
    whole = float(width) / height
    shape = min(max(whole, min(ratio)), max(ratio))
    size = round(width / shape) if whole < shape else height, width
    if shape < whole:
        size = height, round(height * shape)
    return (height - size[0]) // 2, (width - size[1]) // 2, *size


# -- erasing ---------------------------------------------------------------------------------------


def check_erasing(value: Any, scale: Any, ratio: Any) -> None:
    """Refuse what cannot be written into a rectangle, and areas beyond the image."""
    if isinstance(value, str):
        if value != "random":
            raise ValueError("If value is str, it should be 'random'")
    elif not isinstance(value, (list, tuple, numbers.Number)):
        raise TypeError("Argument value should be either a number or str or a sequence")
    warn_of_ranges(scale, ratio, stacklevel=4)
    if scale[0] < 0 or scale[1] > 1:
        raise ValueError("Scale should be between 0 and 1")


def warn_of_ranges(scale: Any, ratio: Any, stacklevel: int = 3) -> None:
    """Say so where bounds are not in order, to whoever makes the transform."""
    if not check_ranges(scale, ratio):
        warnings.warn("Scale and ratio should be of kind (min, max)", stacklevel=stacklevel)


def erasing_values(value: Any) -> Any:
    """What to write, one float for each channel or one for all; None: noise."""
    if isinstance(value, str):
        return None
    if isinstance(value, (list, tuple)):
        return [float(v) for v in value]
    return [float(value)] if isinstance(value, (int, float)) else value


def check_erasing_values(values: Any, channels: int, what: str) -> None:
    """Refuse values that are neither one nor one for each channel."""
    if values is not None and len(values) not in (1, channels):
        raise ValueError(
            "If value is a sequence, it should have either a single value or "
            f"{channels} (number of {what} channels)"
        )


def erasure(shape: Sequence[int], scale: Any, ratio: Any, values: Any) -> Any:
    """Where to write (ratio: bounds of height / width), and what; None if nothing fitted."""
    channels, *canvas = shape
    for size in _long_and_short(canvas, scale, ratio):
        if size[0] < canvas[0] and size[1] < canvas[1]:
            if values is None:
                new = flambeau.empty([channels, *size], dtype=flambeau.float32).normal_()
            else:
                new = flambeau.tensor(values).view(-1, 1, 1)
            return (*place_within(canvas, size), *size, new)
    return None


# -- colours ---------------------------------------------------------------------------------------


def jitter(*bounds: Any) -> tuple[Tensor, list[float | None]]:
    """An order of changes, and a factor for each that has bounds."""
    order = flambeau.randperm(len(bounds))
    return order, [None if b is None else draws.uniform(b[0], b[1]) for b in bounds]


# -- warps -----------------------------------------------------------------------------------------


def affine(
    degrees: Any, translate: Any, scale: Any, shear: Any, size: Sequence[int]
) -> tuple[float, tuple[int, int], float, tuple[float, float]]:
    """Angle, moves, scale and shears; size: width and height, of which moves are shares."""
    angle = draws.uniform(degrees[0], degrees[1])
    most = [] if translate is None else [float(t * s) for t, s in zip(translate, size)]
    moves = [round(draws.uniform(-far, far)) for far in most] or [0, 0]
    factor = 1.0 if scale is None else draws.uniform(scale[0], scale[1])
    bounds = shear or []
    turns = [draws.uniform(*bounds[i : i + 2]) for i in range(0, len(bounds), 2)]
    along_x, along_y = (*turns, 0.0, 0.0)[:2]
    return angle, (moves[0], moves[1]), factor, (along_x, along_y)


def perspective(
    width: int, height: int, distortion_scale: float
) -> tuple[list[list[int]], list[list[int]]]:
    """The corners of an image, clockwise from the first, and where they go."""
    right, bottom = width - 1, height - 1
    room_x = int(distortion_scale * (width // 2))
    room_y = int(distortion_scale * (height // 2))
    corners = [[0, 0], [right, 0], [right, bottom], [0, bottom]]
    moved = []
    for x, y in corners:
        low_x, low_y = (x - room_x if x else 0), (y - room_y if y else 0)
        across = draws.integer(low_x, low_x + room_x + 1)
        moved.append([across, draws.integer(low_y, low_y + room_y + 1)])
    return corners, moved


def displacement(
    alpha: Sequence[float], sigma: Sequence[float], size: Sequence[int], blur: Callable
) -> Tensor:
    """How far each pixel moves along x and y, (1, height, width, 2): noise, smoothed by blur."""
    moves = []
    for axis, far in enumerate(alpha[:2]):
        noise = flambeau.rand([1, 1, *size]) * 2 - 1
        if sigma[axis] > 0.0:
            taps = int(8 * sigma[axis] + 1) | 1  # odd, so that it has a middle
            noise = blur(noise, [taps, taps], sigma)
        moves.append(noise * far / size[1 - axis])
    return flambeau.cat(moves, 1).permute([0, 2, 3, 1])
