"""Functions of v2 that take parts: anywhere, in the middle, resized, five and ten at a time."""

from typing import Any

from flambeau import Tensor
from flambeau.vision.transforms.arguments import height_and_width, one_or_two
from flambeau.vision.transforms.functional import F_pil
from flambeau.vision.transforms.interpolation import InterpolationMode
from flambeau.vision.transforms.tensor_geometry import padded, part_of
from flambeau.vision.transforms.v2.functional.boxes import XYXYXYXY, clamped
from flambeau.vision.transforms.v2.functional.dispatch import kernel, operation, pil_kernel
from flambeau.vision.transforms.v2.functional.placement import (
    _moves,
    _resize_pil,
    _shifted,
    _warn_of_antialias,
    as_planes,
    on_boxes,
    resize_bounding_boxes,
    resize_image,
    resize_keypoints,
    resize_mask,
)
from flambeau.vision.transforms.v2.functional.rotated_boxes import around_parallelograms
from flambeau.vision.tv_tensors import BoundingBoxes, Image, KeyPoints, Mask, Video


@operation
def crop(inpt: Any, top: int, left: int, height: int, width: int) -> Any:
    """A part of a picture; what lies outside is zero."""


@kernel(crop, Tensor, Image, Video)
def crop_image(image: Tensor, top: int, left: int, height: int, width: int) -> Tensor:
    return part_of(image, top, left, height, width)


crop_video = crop_image
pil_kernel(crop)(lambda image, *args, **kwargs: F_pil.crop(image, *args, **kwargs))


@kernel(crop, Mask)
def crop_mask(mask: Tensor, top: int, left: int, height: int, width: int) -> Tensor:
    return as_planes(crop_image, mask, top, left, height, width)


def crop_keypoints(
    keypoints: Tensor, top: int, left: int, height: int, width: int
) -> tuple[Tensor, tuple[int, int]]:
    return _shifted(keypoints, [-left, -top]), (height, width)


def crop_bounding_boxes(
    bounding_boxes: Tensor,
    format: Any,
    top: int,
    left: int,
    height: int,
    width: int,
    clamping_mode: str | None = "soft",
) -> tuple[Tensor, tuple[int, int]]:
    boxes = _shifted(bounding_boxes, _moves(format, -left, -top))
    if format == XYXYXYXY:
        boxes = around_parallelograms(boxes)
    return clamped(boxes, format, (height, width), clamping_mode), (height, width)


@on_boxes(crop)
def _(like: BoundingBoxes, boxes, top, left, height, width):
    return crop_bounding_boxes(boxes, like.format, top, left, height, width, like.clamping_mode)


@on_boxes(crop)
def _(like: KeyPoints, points, top, left, height, width):
    return crop_keypoints(points, top, left, height, width)


@operation
def center_crop(inpt: Any, output_size: Any) -> Any:
    """The middle, padded with zeros where the input is smaller."""


def _center_anchor(output_size, canvas_size):
    """Top and left of the middle part of that size, and the size."""
    height, width = one_or_two(output_size)
    top, left = round((canvas_size[0] - height) / 2.0), round((canvas_size[1] - width) / 2.0)
    return top, left, height, width


def _center_padding(output_size, canvas_size):
    """How much must be added at the left, top, right and bottom; None: nothing."""
    height, width = one_or_two(output_size)
    more_x, more_y = max(width - canvas_size[1], 0), max(height - canvas_size[0], 0)
    if not more_x and not more_y:
        return None
    return [more_x // 2, more_y // 2, (more_x + 1) // 2, (more_y + 1) // 2]


@kernel(center_crop, Tensor, Image, Video)
def center_crop_image(image: Tensor, output_size: Any) -> Tensor:
    height, width = one_or_two(output_size)
    if image.numel() == 0:
        return image.reshape(*image.shape[:-2], height, width)
    padding = _center_padding((height, width), image.shape[-2:])
    if padding is not None:
        image = padded(image, padding, 0, "constant")
        if tuple(image.shape[-2:]) == (height, width):
            return image
    top, left, _, _ = _center_anchor((height, width), image.shape[-2:])
    return image[..., top : top + height, left : left + width]


center_crop_video = center_crop_image


@pil_kernel(center_crop)
def _center_crop_pil(image, output_size):
    height, width = one_or_two(output_size)
    padding = _center_padding((height, width), (image.height, image.width))
    if padding is not None:
        image = F_pil.pad(image, padding, fill=0)
        if image.size == (width, height):
            return image
    return F_pil.crop(image, *_center_anchor((height, width), (image.height, image.width)))


@kernel(center_crop, Mask)
def center_crop_mask(mask: Tensor, output_size: Any) -> Tensor:
    return as_planes(center_crop_image, mask, output_size)


def center_crop_keypoints(
    inpt: Tensor, canvas_size: tuple[int, int], output_size: Any
) -> tuple[Tensor, tuple[int, int]]:
    return crop_keypoints(inpt, *_center_anchor(output_size, canvas_size))


def center_crop_bounding_boxes(
    bounding_boxes: Tensor,
    format: Any,
    canvas_size: tuple[int, int],
    output_size: Any,
    clamping_mode: str | None = "soft",
) -> tuple[Tensor, tuple[int, int]]:
    top, left, height, width = _center_anchor(output_size, canvas_size)
    return crop_bounding_boxes(bounding_boxes, format, top, left, height, width, clamping_mode)


@on_boxes(center_crop)
def _(like: BoundingBoxes, boxes, output_size):
    return center_crop_bounding_boxes(
        boxes, like.format, like.canvas_size, output_size, like.clamping_mode
    )


@on_boxes(center_crop)
def _(like: KeyPoints, points, output_size):
    return center_crop_keypoints(points, like.canvas_size, output_size)


@operation
def resized_crop(
    inpt: Any,
    top: int,
    left: int,
    height: int,
    width: int,
    size: Any,
    interpolation: Any = InterpolationMode.BILINEAR,
    antialias: bool | None = True,
) -> Any:
    """A part, resized."""


@kernel(resized_crop, Tensor, Image, Video)
def resized_crop_image(
    image: Tensor,
    top: int,
    left: int,
    height: int,
    width: int,
    size: Any,
    interpolation: Any = InterpolationMode.BILINEAR,
    antialias: bool | None = True,
) -> Tensor:
    part = crop_image(image, top, left, height, width)
    return resize_image(part, size, interpolation, antialias=antialias)


resized_crop_video = resized_crop_image


@pil_kernel(resized_crop)
def _(
    image,
    top,
    left,
    height,
    width,
    size,
    interpolation=InterpolationMode.BILINEAR,
    antialias=True,
):
    _warn_of_antialias(antialias)
    return _resize_pil(F_pil.crop(image, top, left, height, width), size, interpolation)


@kernel(resized_crop, Mask)
def resized_crop_mask(
    mask: Tensor, top: int, left: int, height: int, width: int, size: Any, **ignored: Any
) -> Tensor:
    return resize_mask(crop_mask(mask, top, left, height, width), size)


def resized_crop_keypoints(
    keypoints: Tensor, top: int, left: int, height: int, width: int, size: Any
) -> tuple[Tensor, tuple[int, int]]:
    points, canvas = crop_keypoints(keypoints, top, left, height, width)
    return resize_keypoints(points, size, canvas)


def resized_crop_bounding_boxes(
    bounding_boxes: Tensor,
    format: Any,
    top: int,
    left: int,
    height: int,
    width: int,
    size: Any,
    clamping_mode: str | None = "soft",
) -> tuple[Tensor, tuple[int, int]]:
    boxes, canvas = crop_bounding_boxes(
        bounding_boxes, format, top, left, height, width, clamping_mode
    )
    return resize_bounding_boxes(boxes, canvas, size, format=format, clamping_mode=clamping_mode)


@on_boxes(resized_crop)
def _(like: BoundingBoxes, boxes, top, left, height, width, size, **ignored):
    return resized_crop_bounding_boxes(
        boxes, like.format, top, left, height, width, size, like.clamping_mode
    )


@on_boxes(resized_crop)
def _(like: KeyPoints, points, top, left, height, width, size, **ignored):
    return resized_crop_keypoints(points, top, left, height, width, size)


# -- several crops ---------------------------------------------------------------------------------


@operation
def five_crop(inpt: Any, size: Any) -> Any:
    """The four corners and the middle."""


@operation
def ten_crop(inpt: Any, size: Any, vertical_flip: bool = False) -> Any:
    """The four corners and the middle of a picture and of its mirror image."""


def _five(image, size, canvas_size, crop_one, crop_middle):
    height, width = height_and_width(size)
    if width > canvas_size[1] or height > canvas_size[0]:
        raise ValueError(
            f"Requested crop size {size} is bigger than input size {tuple(canvas_size)}"
        )
    right, bottom = canvas_size[1] - width, canvas_size[0] - height
    corners = ((0, 0), (0, right), (bottom, 0), (bottom, right))
    parts = [crop_one(image, top, left, height, width) for top, left in corners]
    return (*parts, crop_middle(image, [height, width]))


@kernel(five_crop, Tensor, Image, Video)
def five_crop_image(image: Tensor, size: Any) -> tuple[Tensor, ...]:
    return _five(image, size, tuple(image.shape[-2:]), crop_image, center_crop_image)


@kernel(ten_crop, Tensor, Image, Video)
def ten_crop_image(image: Tensor, size: Any, vertical_flip: bool = False) -> tuple[Tensor, ...]:
    mirrored = image.flip(-2 if vertical_flip else -1)
    return five_crop_image(image, size) + five_crop_image(mirrored, size)


five_crop_video, ten_crop_video = five_crop_image, ten_crop_image


@pil_kernel(five_crop)
def _five_crop_pil(image, size):
    return _five(image, size, (image.height, image.width), F_pil.crop, _center_crop_pil)


@pil_kernel(ten_crop)
def _(image, size, vertical_flip=False):
    mirrored = F_pil.vflip(image) if vertical_flip else F_pil.hflip(image)
    return _five_crop_pil(image, size) + _five_crop_pil(mirrored, size)
