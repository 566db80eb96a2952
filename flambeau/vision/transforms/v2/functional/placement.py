"""Functions of v2 that move pixels, boxes and points along the axes: flips, sizes, padding.

Crops are in `cropping.py`, turning and bending in `warping.py`.
"""

import warnings
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.nn.functional import interpolate
from flambeau.vision import tv_tensors
from flambeau.vision.transforms import arguments
from flambeau.vision.transforms.functional import F_pil
from flambeau.vision.transforms.interpolation import (
    InterpolationMode,
    _interpolation_modes_from_int,
    pil_modes_mapping,
)
from flambeau.vision.transforms.tensor_geometry import padded
from flambeau.vision.transforms.v2.functional.boxes import (
    CXCYWH,
    CXCYWHR,
    XYWH,
    XYWHR,
    XYXY,
    XYXYXYXY,
    clamped,
    converted,
)
from flambeau.vision.transforms.v2.functional.dispatch import kernel, operation, pil_kernel
from flambeau.vision.transforms.v2.functional.rotated_boxes import (
    _direction,
    around_parallelograms,
)
from flambeau.vision.transforms.warps import _compute_resized_output_size as _size_after_resizing
from flambeau.vision.tv_tensors import (
    BoundingBoxes,
    Image,
    KeyPoints,
    Mask,
    Video,
    is_rotated_bounding_format,
)

Fill = Any
_BY_NAME = {mode.value: mode for mode in InterpolationMode}


def as_interpolation(interpolation: Any) -> InterpolationMode:
    """A mode, by itself, its name or Pillow's number."""
    if isinstance(interpolation, str):
        if interpolation not in _BY_NAME:
            raise ValueError(
                f"Invalid interpolation mode: '{interpolation}'. "
                f"Supported string values are: {list(_BY_NAME)}."
            )
        return _BY_NAME[interpolation]
    if isinstance(interpolation, int):
        return _interpolation_modes_from_int(interpolation)
    if not isinstance(interpolation, InterpolationMode):
        raise ValueError(
            "Argument interpolation should be an `InterpolationMode` or a corresponding Pillow "
            f"integer constant, but got {interpolation}."
        )
    return interpolation


def on_boxes(functional: Any) -> Any:
    """Register what a function does with boxes; it returns boxes and, if new, the canvas."""

    def register(function):
        def run(inpt, *args, **kwargs):
            out = function(inpt, inpt.as_subclass(Tensor), *args, **kwargs)
            if isinstance(out, tuple):
                return tv_tensors.wrap(out[0], like=inpt, canvas_size=out[1])
            return tv_tensors.wrap(out, like=inpt)

        kernel(functional, function.__annotations__["like"], wrapped=False)(run)
        return function

    return register


def as_planes(function: Any, mask: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """What a function does with images, done with a mask, which may be a plane."""
    if mask.ndim >= 3:
        return function(mask, *args, **kwargs)
    return function(mask.unsqueeze(0), *args, **kwargs).squeeze(0)


# -- flips -----------------------------------------------------------------------------------------


@operation
def horizontal_flip(inpt: Any) -> Any:
    """Left and right exchanged."""


@operation
def vertical_flip(inpt: Any) -> Any:
    """Top and bottom exchanged."""


hflip, vflip = horizontal_flip, vertical_flip


@kernel(horizontal_flip, Tensor, Image, Video, Mask)
def horizontal_flip_image(image: Tensor) -> Tensor:
    return image.flip(-1)


@kernel(vertical_flip, Tensor, Image, Video, Mask)
def vertical_flip_image(image: Tensor) -> Tensor:
    return image.flip(-2)


horizontal_flip_mask = horizontal_flip_video = horizontal_flip_image
vertical_flip_mask = vertical_flip_video = vertical_flip_image
pil_kernel(horizontal_flip)(lambda image: F_pil.hflip(image))
pil_kernel(vertical_flip)(lambda image: F_pil.vflip(image))


def horizontal_flip_keypoints(keypoints: Tensor, canvas_size: tuple[int, int]) -> Tensor:
    x, y = keypoints.unbind(-1)
    return flambeau.stack((-(x - (canvas_size[1] - 1)), y), dim=-1)


def vertical_flip_keypoints(keypoints: Tensor, canvas_size: tuple[int, int]) -> Tensor:
    x, y = keypoints.unbind(-1)
    return flambeau.stack((x, -(y - (canvas_size[0] - 1))), dim=-1)


_OTHER_CORNERS = [2, 3, 0, 1, 6, 7, 4, 5]


def _flipped_boxes(boxes, format, length, axis):
    """Boxes mirrored along an axis (0: x, 1: y) of this length."""
    columns = list(boxes.unbind(-1))
    if format == XYXY:
        columns[axis], columns[axis + 2] = length - columns[axis + 2], length - columns[axis]
    elif format == XYWH:
        columns[axis] = length - (columns[axis] + columns[axis + 2])
    elif format == CXCYWH:
        columns[axis] = length - columns[axis]
    elif format == XYXYXYXY:
        for i in range(axis, 8, 2):
            columns[i] = length - columns[i]
        columns = [columns[i] for i in _OTHER_CORNERS]
    else:
        if format == XYWHR:  # the corner at the other end of the width leads
            cos, sin = _direction(boxes)
            columns[0] = columns[0] + columns[2] * cos
            columns[1] = columns[1] - columns[2] * sin
        columns[axis] = length - columns[axis]
        columns[4] = -columns[4] if axis == 0 else 180 - columns[4]
    return flambeau.stack(columns, dim=-1)


def horizontal_flip_bounding_boxes(
    bounding_boxes: Tensor, format: Any, canvas_size: tuple[int, int]
) -> Tensor:
    return _flipped_boxes(bounding_boxes, format, canvas_size[1], 0)


def vertical_flip_bounding_boxes(
    bounding_boxes: Tensor, format: Any, canvas_size: tuple[int, int]
) -> Tensor:
    return _flipped_boxes(bounding_boxes, format, canvas_size[0], 1)


@on_boxes(horizontal_flip)
def _(like: BoundingBoxes, boxes):
    return horizontal_flip_bounding_boxes(boxes, like.format, like.canvas_size)


@on_boxes(vertical_flip)
def _(like: BoundingBoxes, boxes):
    return vertical_flip_bounding_boxes(boxes, like.format, like.canvas_size)


@on_boxes(horizontal_flip)
def _(like: KeyPoints, points):
    return horizontal_flip_keypoints(points, like.canvas_size)


@on_boxes(vertical_flip)
def _(like: KeyPoints, points):
    return vertical_flip_keypoints(points, like.canvas_size)


# -- resizing --------------------------------------------------------------------------------------


@operation
def resize(
    inpt: Any,
    size: Any,
    interpolation: Any = InterpolationMode.BILINEAR,
    max_size: int | None = None,
    antialias: bool | None = True,
) -> Any:
    """Another size; one number is the length of the shorter side."""


def _new_size(canvas_size: Any, size: Any, max_size: int | None = None) -> tuple[int, int]:
    lengths = [size] if isinstance(size, int) else size
    if not (max_size is None or lengths is None or len(lengths) == 1):
        raise ValueError(
            "max_size should only be passed if size is None or specifies the length of the "
            "smaller edge, i.e. size should be an int or a sequence of length 1 in torchscript "
            "mode."
        )
    height, width = _size_after_resizing(canvas_size, lengths, max_size, allow_size_none=True)
    return height, width


_SMOOTH = (InterpolationMode.BILINEAR, InterpolationMode.BICUBIC)
_NEAREST = (InterpolationMode.NEAREST, InterpolationMode.NEAREST_EXACT)
_NATIVE = (flambeau.float32, flambeau.float64, flambeau.uint8)


@kernel(resize, Tensor, Image, Video)
def resize_image(
    image: Tensor,
    size: Any,
    interpolation: Any = InterpolationMode.BILINEAR,
    max_size: int | None = None,
    antialias: bool | None = True,
) -> Tensor:
    interpolation = as_interpolation(interpolation)
    is_lanczos = interpolation is InterpolationMode.LANCZOS
    if is_lanczos and not antialias:
        raise ValueError("InterpolationMode.LANCZOS requires antialias=True")
    is_smooth = interpolation in _SMOOTH or is_lanczos
    channels, height, width = image.shape[-3:]
    new_height, new_width = _new_size((height, width), size, max_size)
    if (new_height, new_width) == (height, width):
        return image
    shape = (*image.shape[:-3], channels, new_height, new_width)
    if image.numel() == 0:
        return image.reshape(shape)
    batch = image.reshape(-1, channels, height, width)
    out = interpolate(
        batch if image.dtype in _NATIVE else batch.to(flambeau.float32),
        size=[new_height, new_width],
        mode=interpolation.value,
        align_corners=False if is_smooth else None,
        antialias=bool(antialias) and is_smooth,
    )
    if image.dtype not in _NATIVE:
        out = (out if image.is_floating_point() else out.round()).to(image.dtype)
    return out.reshape(shape)


resize_video = resize_image


def _resize_pil(image, size, interpolation, max_size=None):
    new_height, new_width = _new_size((image.height, image.width), size, max_size)
    interpolation = as_interpolation(interpolation)
    if (new_height, new_width) == (image.height, image.width):
        return image
    return image.resize((new_width, new_height), resample=pil_modes_mapping[interpolation])


def _warn_of_antialias(antialias):
    if antialias is False:
        warnings.warn(
            "Anti-alias option is always applied for PIL Image input. "
            "Argument antialias is ignored.",
            stacklevel=5,
        )


@pil_kernel(resize)
def _(image, size, interpolation=InterpolationMode.BILINEAR, max_size=None, antialias=True):
    _warn_of_antialias(antialias)
    return _resize_pil(image, size, interpolation, max_size)


@kernel(resize, Mask)
def resize_mask(
    mask: Tensor,
    size: Any,
    interpolation: Any = InterpolationMode.BILINEAR,
    max_size: int | None = None,
    antialias: Any = None,
) -> Tensor:
    interpolation = as_interpolation(interpolation)
    mode = interpolation if interpolation in _NEAREST else InterpolationMode.NEAREST
    return as_planes(resize_image, mask, size, mode, max_size)


def resize_keypoints(
    keypoints: Tensor, size: Any, canvas_size: tuple[int, int], max_size: int | None = None
) -> tuple[Tensor, tuple[int, int]]:
    new = _new_size(canvas_size, size, max_size)
    if new == tuple(canvas_size):
        return keypoints, canvas_size
    ratios = flambeau.tensor([new[1] / canvas_size[1], new[0] / canvas_size[0]])
    return keypoints.mul(ratios.to(keypoints.device)).to(keypoints.dtype), new


def resize_bounding_boxes(
    bounding_boxes: Tensor,
    canvas_size: tuple[int, int],
    size: Any,
    max_size: int | None = None,
    format: Any = XYXY,
    clamping_mode: str | None = "soft",
) -> tuple[Tensor, tuple[int, int]]:
    new = _new_size(canvas_size, size, max_size)
    if new == tuple(canvas_size):
        return bounding_boxes, canvas_size
    ratios = flambeau.tensor(
        [new[1] / canvas_size[1], new[0] / canvas_size[0]], device=bounding_boxes.device
    )
    if not is_rotated_bounding_format(format):
        return bounding_boxes.mul(ratios.tile(2)).to(bounding_boxes.dtype), new
    corners = converted(bounding_boxes, format, XYXYXYXY).reshape(-1, 8).mul(ratios.tile(4))
    corners = clamped(around_parallelograms(corners), XYXYXYXY, new, clamping_mode)
    out = converted(corners, XYXYXYXY, format).to(bounding_boxes.dtype)
    return out.reshape(bounding_boxes.shape), new


@on_boxes(resize)
def _(like: BoundingBoxes, boxes, size, interpolation=None, max_size=None, antialias=None):
    return resize_bounding_boxes(
        boxes, like.canvas_size, size, max_size, like.format, like.clamping_mode
    )


@on_boxes(resize)
def _(like: KeyPoints, points, size, interpolation=None, max_size=None, antialias=None):
    return resize_keypoints(points, size, like.canvas_size, max_size)


# -- padding ---------------------------------------------------------------------------------------


@operation
def pad(inpt: Any, padding: Any, fill: Fill = None, padding_mode: str = "constant") -> Any:
    """More pixels around a picture, a larger canvas around boxes and points."""


def four_sides(padding: Any) -> tuple[int, ...]:
    """Left, top, right and bottom, from one, two or four numbers."""
    if not isinstance(padding, (int, tuple, list)):
        raise TypeError(
            f"`padding` should be an integer or tuple or list of integers, but got {padding}"
        )
    if not isinstance(padding, int) and len(padding) not in (1, 2, 4):
        raise ValueError(
            f"Padding must be an int or a 1, 2, or 4 element tuple or list. Found {len(padding)}"
        )
    return arguments.four_sides(padding)


@kernel(pad, Tensor, Image, Video)
def pad_image(
    image: Tensor, padding: Any, fill: Fill = None, padding_mode: str = "constant"
) -> Tensor:
    sides = four_sides(padding)
    if padding_mode not in arguments.PADDING_MODES:
        raise ValueError(
            "`padding_mode` should be either `'constant'`, `'edge'`, `'reflect'` or "
            f"`'symmetric'`, but got `'{padding_mode}'`."
        )
    colors = [fill or 0] if fill is None or isinstance(fill, (int, float)) else fill
    if len(colors) == 1:
        return padded(image, sides, colors[0], padding_mode)
    if padding_mode != "constant":
        raise ValueError(f"Padding mode '{padding_mode}' is not supported if fill is not scalar")
    return _with_colored_border(padded(image, sides, 0, "constant"), sides, colors)


def _with_colored_border(image: Tensor, sides: Any, colors: Any) -> Tensor:
    left, top, right, bottom = sides
    color = flambeau.tensor(colors, device=image.device).to(image.dtype).view(-1, 1, 1)
    # columns are the rows of the transposed image
    for view, before, after in ((image, top, bottom), (image.mT, left, right)):
        if before > 0:
            view[..., :before, :] = color
        if after > 0:
            view[..., -after:, :] = color
    return image


pad_video = pad_image


@pil_kernel(pad)
def _(image, padding, fill=None, padding_mode="constant"):
    return F_pil.pad(image, padding, 0 if fill is None else fill, padding_mode)


@kernel(pad, Mask)
def pad_mask(
    mask: Tensor, padding: Any, fill: Fill = None, padding_mode: str = "constant"
) -> Tensor:
    if isinstance(fill, (tuple, list)):
        raise ValueError("Non-scalar fill value is not supported")
    return as_planes(pad_image, mask, padding, fill or 0, padding_mode)


def _moves(format, x, y):
    """What a move by (x, y) adds to each number of a box."""
    if format == XYXYXYXY:
        return [x, y] * 4
    if format in (XYWHR, CXCYWHR):
        return [x, y, 0, 0, 0]
    return [x, y, x, y] if format == XYXY else [x, y, 0, 0]


def _shifted(values, moves):
    return values + flambeau.tensor(moves, dtype=values.dtype, device=values.device)


def pad_keypoints(
    keypoints: Tensor, canvas_size: tuple[int, int], padding: Any, padding_mode: str = "constant"
) -> tuple[Tensor, tuple[int, int]]:
    if padding_mode != "constant":
        raise ValueError(
            f"Padding mode '{padding_mode}' is not supported with KeyPoints "
            "(supported modes are constant)"
        )
    left, top, right, bottom = four_sides(padding)
    canvas = (canvas_size[0] + top + bottom, canvas_size[1] + left + right)
    return _shifted(keypoints, [left, top]), canvas


def pad_bounding_boxes(
    bounding_boxes: Tensor,
    format: Any,
    canvas_size: tuple[int, int],
    padding: Any,
    padding_mode: str = "constant",
    clamping_mode: str | None = "soft",
) -> tuple[Tensor, tuple[int, int]]:
    if padding_mode != "constant":
        raise ValueError(f"Padding mode '{padding_mode}' is not supported with bounding boxes")
    left, top, right, bottom = four_sides(padding)
    boxes = _shifted(bounding_boxes, _moves(format, left, top))
    canvas = (canvas_size[0] + top + bottom, canvas_size[1] + left + right)
    return clamped(boxes, format, canvas, clamping_mode), canvas


@on_boxes(pad)
def _(like: BoundingBoxes, boxes, padding, fill=None, padding_mode="constant"):
    return pad_bounding_boxes(
        boxes, like.format, like.canvas_size, padding, padding_mode, like.clamping_mode
    )


@on_boxes(pad)
def _(like: KeyPoints, points, padding, fill=None, padding_mode="constant"):
    return pad_keypoints(points, like.canvas_size, padding, padding_mode)
