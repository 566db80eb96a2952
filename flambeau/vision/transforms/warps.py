"""The numbers behind warps and sizes: matrices of affine maps, coefficients of perspectives."""

import math
from collections.abc import Sequence

import flambeau


def _compute_resized_output_size(
    image_size: Sequence[int],
    size: Sequence[int] | None,
    max_size: int | None = None,
    allow_size_none: bool = False,
) -> list[int]:
    """Height and width after resizing; a size of one number is for the shorter side."""
    if size is not None and len(size) != 1:
        return [size[0], size[1]]
    short, long = sorted(image_size)
    if size is not None:
        new = size[0], int(size[0] * long / short)
        if max_size is not None and max_size <= size[0]:
            raise ValueError(
                f"max_size = {max_size} must be strictly greater than the requested "
                f"size for the smaller edge size = {size}"
            )
        if max_size is not None and max_size < new[1]:
            new = int(max_size * new[0] / new[1]), max_size
    elif not allow_size_none:
        raise ValueError("This should never happen!!")
    elif isinstance(max_size, int):
        new = int(max_size * short / long), max_size
    else:
        raise ValueError(
            f"max_size must be an integer when size is None, but got {max_size} instead."
        )
    is_tall = image_size[0] >= image_size[1]
    return [new[1], new[0]] if is_tall else [new[0], new[1]]


def _get_perspective_coeffs(
    startpoints: list[list[int]], endpoints: list[list[int]]
) -> list[float]:
    """The eight coefficients of the perspective from new places of pixels to old ones.

    (x, y) comes from ((a x + b y + c) / (g x + h y + 1), (d x + e y + f) / (g x + h y + 1)).
    """
    if len(startpoints) != 4 or len(endpoints) != 4:
        raise ValueError(
            f"Please provide exactly four corners, got {len(startpoints)} startpoints and "
            f"{len(endpoints)} endpoints."
        )
    rows: list[list[float]] = []
    for (x, y), (old_x, old_y) in zip(endpoints, startpoints):
        rows.append([x, y, 1, 0, 0, 0, -old_x * x, -old_x * y])
        rows.append([0, 0, 0, x, y, 1, -old_y * x, -old_y * y])
    # places between pixels are rounded to float32 with their products, as PyTorch does
    matrix = flambeau.stack([flambeau.tensor(row).to(flambeau.float64) for row in rows])
    target = flambeau.tensor(startpoints, dtype=flambeau.float64).view(8)
    solution = flambeau.linalg.lstsq(matrix, target, driver="gels").solution
    return solution.to(flambeau.float32).tolist()


def _get_inverse_affine_matrix(
    center: Sequence[float],
    angle: float,
    translate: Sequence[float],
    scale: float,
    shear: Sequence[float],
    inverted: bool = True,
) -> list[float]:
    """Two rows of the matrix from new places to old ones (or, not inverted, from old to new).

    Forward, a point is first taken relative to the centre, then sheared along y and x, turned,
    scaled, and moved.
    """
    turn, shear_x, shear_y = math.radians(angle), math.radians(shear[0]), math.radians(shear[1])
    (center_x, center_y), (move_x, move_y) = center, translate
    a = math.cos(turn - shear_y) / math.cos(shear_y)
    b = -math.cos(turn - shear_y) * math.tan(shear_x) / math.cos(shear_y) - math.sin(turn)
    c = math.sin(turn - shear_y) / math.cos(shear_y)
    d = -math.sin(turn - shear_y) * math.tan(shear_x) / math.cos(shear_y) + math.cos(turn)
    if inverted:
        a, b, c, d = d / scale, -b / scale, -c / scale, a / scale
        x, y = -center_x - move_x, -center_y - move_y
        return [a, b, a * x + b * y + center_x, c, d, c * x + d * y + center_y]
    a, b, c, d = a * scale, b * scale, c * scale, d * scale
    x, y = -center_x, -center_y
    return [
        a,
        b,
        a * x + b * y + (center_x + move_x),
        c,
        d,
        c * x + d * y + (center_y + move_y),
    ]
