"""Functions of v2 that turn, shear and scale pictures, boxes and points.

Pixels are sampled at the places of a grid, as in `tensor_geometry.py`, whose helpers make the
grids. Points are moved by the matrix itself; an upright box becomes the box around its four moved
corners, a turned one the turned box around them.
"""

import math
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.vision.transforms.arguments import check_fill_count, checked_shears
from flambeau.vision.transforms.functional import F_pil
from flambeau.vision.transforms.interpolation import InterpolationMode, pil_modes_mapping
from flambeau.vision.transforms.tensor_geometry import (
    _affine_grid,
    affine_output_size,
    sampled,
)
from flambeau.vision.transforms.v2.functional.boxes import XYXY, XYXYXYXY, clamped, converted
from flambeau.vision.transforms.v2.functional.dispatch import kernel, operation, pil_kernel
from flambeau.vision.transforms.v2.functional.placement import (
    as_interpolation,
    as_planes,
    on_boxes,
)
from flambeau.vision.transforms.v2.functional.rotated_boxes import around_parallelograms
from flambeau.vision.tv_tensors import (
    BoundingBoxes,
    Image,
    KeyPoints,
    Mask,
    Video,
    is_rotated_bounding_format,
)

NEAREST, BILINEAR = InterpolationMode.NEAREST, InterpolationMode.BILINEAR


# -- sampling --------------------------------------------------------------------------------------


def _check_warp(image, interpolation, fill):
    if not isinstance(fill, (int, float, tuple, list, type(None))):
        raise ValueError("Argument fill should be either int, float, tuple or list")
    check_fill_count(fill, image.shape[-3])
    if interpolation not in (NEAREST, BILINEAR):
        raise ValueError(
            f"Interpolation mode '{interpolation.value}' is unsupported with Tensor input"
        )


def _blend(values, color, inside):
    return (values - color) * inside + color


def _sample(image: Tensor, grid: Tensor, interpolation: InterpolationMode, fill: Any) -> Tensor:
    shape = (*image.shape[:-2], *grid.shape[1:3])
    if image.numel() == 0:
        return image.reshape(shape)
    batch = image.reshape(-1, *image.shape[-3:]).to(grid.dtype)
    out = sampled(batch, grid, interpolation.value, fill, _blend)
    if image.dtype != grid.dtype:
        out = out.round().to(image.dtype)
    return out.reshape(shape)


# -- affine maps -----------------------------------------------------------------------------------


@operation
def affine(
    inpt: Any,
    angle: float,
    translate: list[float],
    scale: float,
    shear: list[float],
    interpolation: Any = NEAREST,
    fill: Any = None,
    center: list[float] | None = None,
) -> Any:
    """Turned clockwise by degrees, moved by pixels, scaled, and sheared by degrees."""


def _affine_arguments(angle, translate, scale, shear, center):
    both = checked_shears(angle, translate, scale, shear, center)
    middle = None if center is None else [float(c) for c in center]
    return float(angle), list(translate), both, middle


def _matrix(center, angle, translate, scale, shear, inverted=True):
    """Two rows of the map from new places to old ones (not inverted: from old to new)."""
    turn, shear_x, shear_y = (math.radians(v) for v in (angle, *shear))
    (center_x, center_y), (move_x, move_y) = center, translate
    new_x, new_y = center_x + move_x, center_y + move_y
    a = math.cos(turn - shear_y) / math.cos(shear_y)
    b = -(a * math.tan(shear_x) + math.sin(turn))
    c = math.sin(turn - shear_y) / math.cos(shear_y)
    d = math.cos(turn) - c * math.tan(shear_x)
    if inverted:
        a, b, c, d = d / scale, -b / scale, -c / scale, a / scale
        x, y = new_x, new_y
        return [a, b, center_x - a * x - b * y, c, d, center_y - c * x - d * y]
    a, b, c, d = a * scale, b * scale, c * scale, d * scale
    x, y = center_x, center_y
    return [a, b, new_x - a * x - b * y, c, d, new_y - c * x - d * y]


def _from_the_middle(center, width, height):
    return [0.0, 0.0] if center is None else [center[0] - width * 0.5, center[1] - height * 0.5]


@kernel(affine, Tensor, Image, Video)
def affine_image(
    image: Tensor,
    angle: float,
    translate: list[float],
    scale: float,
    shear: list[float],
    interpolation: Any = NEAREST,
    fill: Any = None,
    center: list[float] | None = None,
) -> Tensor:
    interpolation = as_interpolation(interpolation)
    angle, translate, shear, center = _affine_arguments(angle, translate, scale, shear, center)
    height, width = image.shape[-2:]
    middle = _from_the_middle(center, width, height)
    matrix = _matrix(middle, angle, [float(t) for t in translate], scale, shear)
    _check_warp(image, interpolation, fill)
    return _sample(image, _affine_grid(matrix, image, width, height), interpolation, fill)


affine_video = affine_image


@pil_kernel(affine)
def _(
    image,
    angle,
    translate,
    scale,
    shear,
    interpolation=NEAREST,
    fill=None,
    center=None,
):
    interpolation = as_interpolation(interpolation)
    angle, translate, shear, center = _affine_arguments(angle, translate, scale, shear, center)
    middle = [image.width * 0.5, image.height * 0.5] if center is None else center
    matrix = _matrix(middle, angle, translate, scale, shear)
    return F_pil.affine(image, matrix, pil_modes_mapping[interpolation], fill)


@kernel(affine, Mask)
def affine_mask(
    mask: Tensor,
    angle: float,
    translate: list[float],
    scale: float,
    shear: list[float],
    fill: Any = None,
    center: list[float] | None = None,
    interpolation: Any = None,
) -> Tensor:
    arguments = (angle, translate, scale, shear, NEAREST, fill, center)
    return as_planes(affine_image, mask, *arguments)


class _Map:
    """An affine map of a canvas onto another, for points and boxes."""

    def __init__(self, canvas_size, angle, translate, scale, shear, center, expand=False):
        angle, translate, shear, center = _affine_arguments(angle, translate, scale, shear, center)
        height, width = canvas_size
        middle = [width * 0.5, height * 0.5] if center is None else center
        self.numbers = _matrix(middle, angle, translate, scale, shear, inverted=False)
        self.canvas_size = canvas_size
        self.corners = None
        if expand:
            back = _matrix(middle, angle, translate, scale, shear)
            new_width, new_height = affine_output_size(back, width, height)
            self.canvas_size = (new_height, new_width)
            x, y = float(width), float(height)
            self.corners = [[0.0, 0.0], [0.0, y], [x, y], [x, 0.0]]

    def __call__(self, points: Tensor) -> Tensor:
        """Where points, (..., 2) of floats, come to lie."""
        columns = flambeau.tensor(self.numbers, dtype=points.dtype, device=points.device)
        columns = columns.reshape(2, 3).T

        def moved(places):
            ones = flambeau.ones(*places.shape[:-1], 1, dtype=places.dtype, device=places.device)
            return flambeau.matmul(flambeau.cat((places, ones), dim=-1), columns)

        out = moved(points)
        if self.corners is None:
            return out
        corners = flambeau.tensor(self.corners, dtype=points.dtype, device=points.device)
        return out - moved(corners).amin(dim=0)


def corners_of(boxes: Tensor) -> Tensor:
    """The four corners of boxes, (N, 4) from corner to corner: (4 N, 2)."""
    return boxes.reshape(-1, 4)[:, [0, 1, 2, 1, 2, 3, 0, 3]].reshape(-1, 2)


def box_around(points: Tensor) -> Tensor:
    """The upright box around each four points."""
    by_box = points.reshape(-1, 4, 2)
    return flambeau.cat((by_box.amin(dim=1), by_box.amax(dim=1)), dim=1)


def moved_boxes(
    boxes: Tensor,
    move: Any,
    format: Any,
    canvas_size: Any,
    clamping_mode: str | None,
    rounds_corners: bool = False,
) -> Tensor:
    """Boxes around the moved corners of boxes; move: a function of points, (..., 2) of floats.

    rounds_corners: whether boxes of integers have corners at whole places.
    """
    is_rotated = is_rotated_bounding_format(format)
    between = XYXYXYXY if is_rotated else XYXY
    floats = boxes if boxes.is_floating_point() or rounds_corners else boxes.float()
    floats = converted(floats, format, between)
    floats = floats if floats.is_floating_point() else floats.float()
    if is_rotated:
        points = move(floats.reshape(-1, 2)).reshape(-1, 8)
        out = around_parallelograms(points)
    else:
        out = box_around(move(corners_of(floats)))
    out = converted(clamped(out, between, canvas_size, clamping_mode), between, format)
    return out.reshape(boxes.shape).to(boxes.dtype)


def _moved_points(points: Tensor, move: Any) -> Tensor:
    floats = points if points.is_floating_point() else points.float()
    return move(floats.reshape(-1, 2)).reshape(points.shape).to(points.dtype)


def affine_bounding_boxes(
    bounding_boxes: Tensor,
    format: Any,
    canvas_size: tuple[int, int],
    angle: float,
    translate: list[float],
    scale: float,
    shear: list[float],
    center: list[float] | None = None,
    clamping_mode: str | None = "soft",
) -> Tensor:
    if bounding_boxes.numel() == 0:
        return bounding_boxes
    move = _Map(canvas_size, angle, translate, scale, shear, center)
    return moved_boxes(bounding_boxes, move, format, canvas_size, clamping_mode)


def affine_keypoints(
    keypoints: Tensor,
    canvas_size: tuple[int, int],
    angle: float,
    translate: list[float],
    scale: float,
    shear: list[float],
    center: list[float] | None = None,
) -> tuple[Tensor, tuple[int, int]]:
    if keypoints.numel() == 0:
        return keypoints, canvas_size
    move = _Map(canvas_size, angle, translate, scale, shear, center)
    return _moved_points(keypoints, move), canvas_size


@on_boxes(affine)
def _(
    like: BoundingBoxes,
    boxes,
    angle,
    translate,
    scale,
    shear,
    interpolation=None,
    fill=None,
    center=None,
):
    return affine_bounding_boxes(
        boxes,
        like.format,
        like.canvas_size,
        angle,
        translate,
        scale,
        shear,
        center,
        like.clamping_mode,
    )


@on_boxes(affine)
def _(
    like: KeyPoints,
    points,
    angle,
    translate,
    scale,
    shear,
    interpolation=None,
    fill=None,
    center=None,
):
    return affine_keypoints(points, like.canvas_size, angle, translate, scale, shear, center)


# -- rotations -------------------------------------------------------------------------------------


@operation
def rotate(
    inpt: Any,
    angle: float,
    interpolation: Any = NEAREST,
    expand: bool = False,
    center: list[float] | None = None,
    fill: Any = None,
) -> Any:
    """Turned counter-clockwise, by degrees."""


@kernel(rotate, Tensor, Image, Video)
def rotate_image(
    image: Tensor,
    angle: float,
    interpolation: Any = NEAREST,
    expand: bool = False,
    center: list[float] | None = None,
    fill: Any = None,
) -> Tensor:
    angle = angle % 360
    height, width = image.shape[-2:]
    if center is None:  # quarters need no arithmetic
        if angle == 0:
            return image.clone()
        if angle == 180 or (angle in (90, 270) and (expand or width == height)):
            return flambeau.rot90(image, k=int(angle) // 90, dims=(-2, -1))
    interpolation = as_interpolation(interpolation)
    middle = _from_the_middle(center, width, height)
    matrix = _matrix(middle, -angle, [0.0, 0.0], 1.0, [0.0, 0.0])
    _check_warp(image, interpolation, fill)
    size = affine_output_size(matrix, width, height) if expand else (width, height)
    return _sample(image, _affine_grid(matrix, image, *size), interpolation, fill)


rotate_video = rotate_image


@pil_kernel(rotate)
def _(image, angle, interpolation=NEAREST, expand=False, center=None, fill=None):
    mode = pil_modes_mapping[as_interpolation(interpolation)]
    return F_pil.rotate(image, angle, mode, expand, center, fill)


@kernel(rotate, Mask)
def rotate_mask(
    mask: Tensor,
    angle: float,
    expand: bool = False,
    center: list[float] | None = None,
    fill: Any = None,
    interpolation: Any = None,
) -> Tensor:
    return as_planes(rotate_image, mask, angle, NEAREST, expand, center, fill)


def _rotation(canvas_size, angle, expand, center):
    return _Map(canvas_size, -angle, [0.0, 0.0], 1.0, [0.0, 0.0], center, expand)


def rotate_bounding_boxes(
    bounding_boxes: Tensor,
    format: Any,
    canvas_size: tuple[int, int],
    angle: float,
    expand: bool = False,
    center: list[float] | None = None,
    clamping_mode: str | None = "soft",
) -> tuple[Tensor, tuple[int, int]]:
    if bounding_boxes.numel() == 0:
        return bounding_boxes, canvas_size
    move = _rotation(canvas_size, angle, expand, center)
    out = moved_boxes(bounding_boxes, move, format, move.canvas_size, clamping_mode)
    return out, move.canvas_size


def rotate_keypoints(
    keypoints: Tensor,
    canvas_size: tuple[int, int],
    angle: float,
    expand: bool = False,
    center: list[float] | None = None,
) -> tuple[Tensor, tuple[int, int]]:
    if keypoints.numel() == 0:
        return keypoints, canvas_size
    move = _rotation(canvas_size, angle, expand, center)
    return _moved_points(keypoints, move), move.canvas_size


@on_boxes(rotate)
def _(like: BoundingBoxes, boxes, angle, interpolation=None, expand=False, center=None, fill=None):
    return rotate_bounding_boxes(
        boxes, like.format, like.canvas_size, angle, expand, center, like.clamping_mode
    )


@on_boxes(rotate)
def _(like: KeyPoints, points, angle, interpolation=None, expand=False, center=None, fill=None):
    return rotate_keypoints(points, like.canvas_size, angle, expand, center)
