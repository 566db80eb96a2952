"""Functions of v2 that tilt and bend: perspectives, and images on rubber."""

from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.vision.transforms.conversion import pil_to_tensor, to_pil_image
from flambeau.vision.transforms.functional import F_pil
from flambeau.vision.transforms.interpolation import pil_modes_mapping
from flambeau.vision.transforms.tensor_checks import working_dtype
from flambeau.vision.transforms.tensor_geometry import _perspective_grid
from flambeau.vision.transforms.v2.functional.boxes import CXCYWHR, XYXY, clamped, converted
from flambeau.vision.transforms.v2.functional.dispatch import kernel, operation, pil_kernel
from flambeau.vision.transforms.v2.functional.placement import (
    as_interpolation,
    as_planes,
    on_boxes,
)
from flambeau.vision.transforms.v2.functional.warping import (
    BILINEAR,
    NEAREST,
    _check_warp,
    _moved_points,
    _sample,
    box_around,
    corners_of,
    moved_boxes,
)
from flambeau.vision.transforms.warps import _get_perspective_coeffs
from flambeau.vision.tv_tensors import (
    BoundingBoxes,
    Image,
    KeyPoints,
    Mask,
    Video,
    is_rotated_bounding_format,
)


@operation
def perspective(
    inpt: Any,
    startpoints: list[list[int]] | None,
    endpoints: list[list[int]] | None,
    interpolation: Any = BILINEAR,
    fill: Any = None,
    coefficients: list[float] | None = None,
) -> Any:
    """The perspective in which four points come to lie on four others, or of given coefficients."""


def _coefficients(startpoints, endpoints, coefficients):
    has_points = startpoints is not None and endpoints is not None
    if coefficients is not None:
        if has_points:
            raise ValueError(
                "The startpoints/endpoints and the coefficients shouldn't be defined concurrently."
            )
        if len(coefficients) != 8:
            raise ValueError("Argument coefficients should have 8 float values")
        return coefficients
    if not has_points:
        raise ValueError(
            "Either the startpoints/endpoints or the coefficients must have non `None` values."
        )
    return _get_perspective_coeffs(startpoints, endpoints)


@kernel(perspective, Tensor, Image, Video)
def perspective_image(
    image: Tensor,
    startpoints: list[list[int]] | None,
    endpoints: list[list[int]] | None,
    interpolation: Any = BILINEAR,
    fill: Any = None,
    coefficients: list[float] | None = None,
) -> Tensor:
    found = _coefficients(startpoints, endpoints, coefficients)
    interpolation = as_interpolation(interpolation)
    _check_warp(image, interpolation, fill)
    height, width = image.shape[-2:]
    grid = _perspective_grid(found, width, height, working_dtype(image), image.device)
    return _sample(image, grid, interpolation, fill)


perspective_video = perspective_image


@pil_kernel(perspective)
def _(image, startpoints, endpoints, interpolation=BILINEAR, fill=None, coefficients=None):
    found = _coefficients(startpoints, endpoints, coefficients)
    mode = pil_modes_mapping[as_interpolation(interpolation)]
    return F_pil.perspective(image, found, mode, fill)


@kernel(perspective, Mask)
def perspective_mask(
    mask: Tensor,
    startpoints: list[list[int]] | None,
    endpoints: list[list[int]] | None,
    fill: Any = None,
    coefficients: list[float] | None = None,
    interpolation: Any = None,
) -> Tensor:
    arguments = (startpoints, endpoints, NEAREST, fill, coefficients)
    return as_planes(perspective_image, mask, *arguments)


def _forward_perspective(coefficients, what):
    """A function that moves points as pixels are moved, which is the inverse of the given map."""
    a, b, c, d, e, f, g, h = coefficients
    denominator = a * e - b * d
    if denominator == 0:
        raise RuntimeError(
            f"Provided perspective_coeffs {coefficients} can not be inverted to transform {what}. "
            f"Denominator is zero, denom={denominator}"
        )
    inverse = [
        (e - f * h) / denominator,
        (-b + c * h) / denominator,
        (b * f - c * e) / denominator,
        (-d + f * g) / denominator,
        (a - c * g) / denominator,
        (-a * f + c * d) / denominator,
        (-e * g + d * h) / denominator,
        (-a * h + b * g) / denominator,
    ]

    def move(points):
        dtype, device = points.dtype, points.device
        above = flambeau.tensor([inverse[:3], inverse[3:6]], dtype=dtype, device=device)
        below = flambeau.tensor([[*inverse[6:], 1.0]], dtype=dtype, device=device)
        ones = flambeau.ones(points.shape[0], 1, dtype=dtype, device=device)
        whole = flambeau.cat((points, ones), dim=-1)
        return flambeau.matmul(whole, above.T) / flambeau.matmul(whole, below.T)

    return move


def perspective_bounding_boxes(
    bounding_boxes: Tensor,
    format: Any,
    canvas_size: tuple[int, int],
    startpoints: list[list[int]] | None,
    endpoints: list[list[int]] | None,
    coefficients: list[float] | None = None,
    clamping_mode: str | None = "soft",
) -> Tensor:
    if bounding_boxes.numel() == 0:
        return bounding_boxes
    found = _coefficients(startpoints, endpoints, coefficients)
    move = _forward_perspective(found, "bounding boxes")
    return moved_boxes(
        bounding_boxes, move, format, canvas_size, clamping_mode, rounds_corners=True
    )


def perspective_keypoints(
    keypoints: Tensor,
    canvas_size: tuple[int, int],
    startpoints: list[list[int]] | None,
    endpoints: list[list[int]] | None,
    coefficients: list[float] | None = None,
) -> Tensor:
    if keypoints.numel() == 0:
        return keypoints
    found = _coefficients(startpoints, endpoints, coefficients)
    return _moved_points(keypoints, _forward_perspective(found, "keypoints"))


@on_boxes(perspective)
def _(
    like: BoundingBoxes,
    boxes,
    startpoints,
    endpoints,
    interpolation=None,
    fill=None,
    coefficients=None,
):
    return perspective_bounding_boxes(
        boxes,
        like.format,
        like.canvas_size,
        startpoints,
        endpoints,
        coefficients,
        like.clamping_mode,
    )


@on_boxes(perspective)
def _(
    like: KeyPoints,
    points,
    startpoints,
    endpoints,
    interpolation=None,
    fill=None,
    coefficients=None,
):
    return perspective_keypoints(points, like.canvas_size, startpoints, endpoints, coefficients)


# -- rubber ----------------------------------------------------------------------------------------


@operation
def elastic(
    inpt: Any,
    displacement: Tensor,
    interpolation: Any = BILINEAR,
    fill: Any = None,
) -> Any:
    """Each pixel taken from a place that a displacement, (1, H, W, 2), says."""


elastic_transform = elastic


def _check_displacement(displacement, height, width):
    if not isinstance(displacement, Tensor):
        raise TypeError("Argument displacement should be a Tensor")
    expected = (1, height, width, 2)
    if tuple(displacement.shape) != expected:
        raise ValueError(
            f"Argument displacement shape should be {expected}, but given {displacement.shape}"
        )


def _identity_grid(height, width, dtype, device):
    x = flambeau.linspace((1 - width) / width, (width - 1) / width, width, dtype=dtype)
    y = flambeau.linspace((1 - height) / height, (height - 1) / height, height, dtype=dtype)
    places = flambeau.meshgrid(y, x, indexing="ij")
    return flambeau.stack(places[::-1], dim=-1).unsqueeze(0).to(device)


@kernel(elastic, Tensor, Image, Video)
def elastic_image(
    image: Tensor,
    displacement: Tensor,
    interpolation: Any = BILINEAR,
    fill: Any = None,
) -> Tensor:
    if not isinstance(displacement, Tensor):
        raise TypeError("Argument displacement should be a Tensor")
    interpolation = as_interpolation(interpolation)
    height, width = image.shape[-2:]
    is_half = image.dtype == flambeau.float16
    dtype = flambeau.float32 if is_half else working_dtype(image)
    _check_displacement(displacement, height, width)
    grid = _identity_grid(height, width, dtype, image.device)
    grid = grid + displacement.to(dtype=dtype, device=image.device)
    out = _sample(image.to(dtype) if is_half else image, grid, interpolation, fill)
    return out.to(image.dtype)


elastic_video = elastic_image


@pil_kernel(elastic)
def _(image, displacement, interpolation=BILINEAR, fill=None):
    out = elastic_image(pil_to_tensor(image), displacement, interpolation, fill)
    return to_pil_image(out, mode=image.mode)


@kernel(elastic, Mask)
def elastic_mask(
    mask: Tensor, displacement: Tensor, fill: Any = None, interpolation: Any = None
) -> Tensor:
    return as_planes(elastic_image, mask, displacement, NEAREST, fill)


def _displaced(points: Tensor, displacement: Tensor, canvas_size: Any) -> Tensor:
    """Where the pixels at whole places, (N, 2), go: against their displacement."""
    height, width = canvas_size
    moves = displacement.to(dtype=working_dtype(points), device=points.device)
    grid = _identity_grid(height, width, moves.dtype, points.device) - moves
    x, y = points.to(flambeau.int64).unbind(-1)
    places = grid[0, y.clamp(0, height - 1), x.clamp(0, width - 1)]
    half = flambeau.tensor([0.5 * width, 0.5 * height], dtype=moves.dtype, device=points.device)
    return (places + 1) * half - 0.5


def elastic_bounding_boxes(
    bounding_boxes: Tensor,
    format: Any,
    canvas_size: tuple[int, int],
    displacement: Tensor,
    clamping_mode: str | None = "soft",
) -> Tensor:
    _check_displacement(displacement, *canvas_size)
    if bounding_boxes.numel() == 0:
        return bounding_boxes

    def move(points):
        whole = points.ceil() if points.is_floating_point() else points
        return _displaced(whole, displacement, canvas_size)

    # upright boxes follow their corners, turned ones only their middle
    if is_rotated_bounding_format(format):
        between = CXCYWHR
        boxes = converted(bounding_boxes, format, between).reshape(-1, 5)
        out = flambeau.cat((move(boxes[:, :2]), boxes[:, 2:]), dim=1)
    else:
        between = XYXY
        boxes = converted(bounding_boxes, format, between)
        out = box_around(move(corners_of(boxes)))
    out = clamped(out.to(boxes.dtype), between, canvas_size, clamping_mode)
    return converted(out, between, format).reshape(bounding_boxes.shape)


def elastic_keypoints(
    keypoints: Tensor, canvas_size: tuple[int, int], displacement: Tensor
) -> Tensor:
    _check_displacement(displacement, *canvas_size)
    if keypoints.numel() == 0:
        return keypoints
    moved = _displaced(keypoints.reshape(-1, 2), displacement, canvas_size)
    return moved.to(keypoints.dtype).reshape(keypoints.shape)


@on_boxes(elastic)
def _(like: BoundingBoxes, boxes, displacement, interpolation=None, fill=None):
    return elastic_bounding_boxes(
        boxes, like.format, like.canvas_size, displacement, like.clamping_mode
    )


@on_boxes(elastic)
def _(like: KeyPoints, points, displacement, interpolation=None, fill=None):
    return elastic_keypoints(points, like.canvas_size, displacement)
