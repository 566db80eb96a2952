"""Operations on image tensors that move pixels: flips, crops, padding, resizing, warping, erasing.

Warps sample the image at the places of a grid, one place for each new pixel, in coordinates where
the image spans -1 to 1. Pixels from outside take the fill; a plane of ones that is warped along
tells where that is.
"""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.nn.functional import grid_sample, interpolate
from flambeau.nn.functional import pad as pad_tensor
from flambeau.vision.transforms.arguments import (
    check_fill_count,
    check_kinds,
    check_padding_mode,
    check_side_count,
    four_sides,
)
from flambeau.vision.transforms.tensor_checks import (
    AsBatch,
    check_image,
    get_dimensions,
    working_dtype,
)

Fill = int | float | Sequence[float] | None


# -- flips and crops -------------------------------------------------------------------------------


def vflip(img: Tensor) -> Tensor:
    check_image(img)
    return img.flip(-2)


def hflip(img: Tensor) -> Tensor:
    check_image(img)
    return img.flip(-1)


def _along_axis(start: int, length: int, whole: int) -> tuple[slice, list[int]]:
    """What a crop takes of an axis, and how much it lacks before and after."""
    end = start + length
    lacking = min(end, 0) - start, end - max(start, whole)
    return slice(max(start, 0), end), [max(count, 0) for count in lacking]


def part_of(img: Tensor, top: int, left: int, height: int, width: int) -> Tensor:
    """A part of images; what lies outside is zero."""
    rows_of, columns_of = img.shape[-2], img.shape[-1]
    if 0 <= top <= rows_of - height and 0 <= left <= columns_of - width:
        return img[..., top : top + height, left : left + width]
    rows, above_and_below = _along_axis(top, height, rows_of)
    columns, around = _along_axis(left, width, columns_of)
    part, sides = img[..., rows, columns], around + above_and_below
    return pad_tensor(part, sides, value=0.0) if any(sides) else part


def crop(img: Tensor, top: int, left: int, height: int, width: int) -> Tensor:
    check_image(img)
    return part_of(img, top, left, height, width)


def erase(img: Tensor, i: int, j: int, h: int, w: int, v: Tensor, inplace: bool = False) -> Tensor:
    check_image(img)
    return overwritten(img if inplace else img.clone(), (i, j, h, w), v)


def overwritten(img: Tensor, place: tuple[int, int, int, int], new: Tensor) -> Tensor:
    """Images in which a rectangle (its top, left, height and width) was written to."""
    top, left, height, width = place
    img[..., top : top + height, left : left + width] = new
    return img


# -- padding ---------------------------------------------------------------------------------------


def pad(
    img: Tensor,
    padding: int | list[int],
    fill: int | float | None = 0,
    padding_mode: str = "constant",
) -> Tensor:
    check_image(img)
    color = 0 if fill is None else fill
    check_kinds(
        padding=(padding, (int, tuple, list)),
        fill=(color, (int, float)),
        padding_mode=(padding_mode, str),
    )
    check_side_count(padding)
    check_padding_mode(padding_mode)
    if padding_mode == "symmetric" and img.ndim not in (3, 4):
        raise RuntimeError("Symmetric padding of N-D tensors are not supported yet")
    return padded(img, four_sides(padding), color, padding_mode)


_MODES_OF_KERNELS = {"edge": "replicate", "reflect": "reflect"}


def padded(img: Tensor, padding: Sequence[int], fill: float, mode: str) -> Tensor:
    """Images with so many pixels more at the left, top, right and bottom."""
    left, top, right, bottom = padding
    sides = [left, right, top, bottom]
    if mode == "constant":
        return pad_tensor(img, sides, value=float(fill))
    if mode == "symmetric":
        return _pad_symmetric(img, sides)
    batch = img.reshape(img.shape[:-3].numel(), *img.shape[-3:])
    # values are copied, so that those which kernels do not take may pass as floats
    out = pad_tensor(batch.to(working_dtype(img)), sides, mode=_MODES_OF_KERNELS[mode])
    return out.to(img.dtype).reshape(*img.shape[:-2], *out.shape[-2:])


def _pad_symmetric(img: Tensor, sides: list[int]) -> Tensor:
    """Padding with a mirror behind the edge, so that the edge itself appears twice."""
    left, right, top, bottom = sides
    if min(sides) < 0:
        height, width = img.shape[-2:]
        img = img[
            ..., -min(top, 0) : height + min(bottom, 0), -min(left, 0) : width + min(right, 0)
        ]
        left, right, top, bottom = (max(side, 0) for side in sides)

    def places(before, size, after):
        mirrored = [-(i + 1) for i in range(after)]
        return flambeau.tensor(
            [*range(before - 1, -1, -1), *range(size), *mirrored], device=img.device
        )

    rows = places(top, img.shape[-2], bottom)
    columns = places(left, img.shape[-1], right)
    return img[..., rows[:, None], columns[None, :]]


# -- resizing --------------------------------------------------------------------------------------


def resize(
    img: Tensor,
    size: list[int],
    interpolation: str = "bilinear",
    antialias: bool | None = True,
) -> Tensor:
    check_image(img)
    is_smooth = interpolation in ("bilinear", "bicubic")
    batch = AsBatch(img, flambeau.float32, flambeau.float64)
    out = interpolate(
        batch.images,
        size=list(size),
        mode=interpolation,
        align_corners=False if is_smooth else None,
        antialias=bool(antialias) and is_smooth,
    )
    if interpolation == "bicubic" and img.dtype == flambeau.uint8:
        out = out.clamp(min=0, max=255)
    return batch.restore(out)


# -- warping ---------------------------------------------------------------------------------------


def _check_tensor(img, dot=""):
    if not isinstance(img, Tensor):
        raise TypeError(f"Input img should be Tensor{dot}")
    check_image(img)


def _check_matrix(matrix):
    if not isinstance(matrix, list):
        raise TypeError("Argument matrix should be a list")
    if len(matrix) != 6:
        raise ValueError("Argument matrix should have 6 float values")


def _check_outside(img, interpolation, fill):
    """What pixels from outside become, and those between others."""
    if not isinstance(fill, (int, float, tuple, list, type(None))):
        warnings.warn("Argument fill should be either int, float, tuple or list", stacklevel=4)
    check_fill_count(fill, get_dimensions(img)[0])
    if interpolation not in ("nearest", "bilinear"):
        raise ValueError(f"Interpolation mode '{interpolation}' is unsupported with Tensor input")


def sampled(images: Tensor, grid: Tensor, mode: str, fill: Fill, blend: Callable) -> Tensor:
    """A batch at the places of a grid; blend(values, color, inside) mixes in what lies outside."""
    count = len(images)
    places = grid.expand(count, *grid.shape[1:]) if count > 1 else grid
    how = {"mode": mode, "padding_mode": "zeros", "align_corners": False}
    if fill is None:
        return grid_sample(images, places, **how)
    # a plane of ones goes along, to tell how much of each new pixel is from inside
    kind: dict[str, Any] = {"dtype": images.dtype, "device": images.device}
    ones = flambeau.ones((count, 1, images.shape[2], images.shape[3]), **kind)
    both = grid_sample(flambeau.cat((images, ones), dim=1), places, **how)
    values, inside = both[:, :-1], both[:, -1:]
    colors = fill if isinstance(fill, (tuple, list)) else [float(fill)]  # type: ignore[arg-type]
    color = flambeau.tensor(colors, **kind).view(1, -1, 1, 1)
    if mode == "nearest":
        return flambeau.where(inside < 0.5, color, values)
    return blend(values, color, inside)


def _blend(values, color, inside):
    return values * inside + (1.0 - inside) * color


def _sample(img: Tensor, grid: Tensor, mode: str, fill: Fill) -> Tensor:
    batch = AsBatch(img, grid.dtype)
    return batch.restore(sampled(batch.images, grid, mode, fill, _blend))


def _mapped_centers(columns: Tensor, width: int, height: int, start_x: float, start_y: float):
    """x * columns[0] + y * columns[1] + columns[2] at the centre of each pixel: (1, H, W, 2).

    A sum of products in this order, each of them rounded: what PyTorch's product of such narrow
    matrices gives, so that pixels halfway between two others go the same way.
    """
    dtype, device = columns.dtype, columns.device
    x = flambeau.linspace(start_x, start_x + width - 1, steps=width, device=device).to(dtype)
    y = flambeau.linspace(start_y, start_y + height - 1, steps=height, device=device).to(dtype)
    if dtype in (flambeau.float16, flambeau.bfloat16):  # sums are kept in float32
        x, y, columns = x.float(), y.float(), columns.float()
    by_x, by_y, constant = columns.view(3, 1, 1, 1, 2)
    grid = x.view(1, 1, -1, 1) * by_x + y.view(1, -1, 1, 1) * by_y + constant
    return grid.to(dtype)


def _affine_grid(matrix: list[float], img: Tensor, out_width: int, out_height: int) -> Tensor:
    dtype, device = working_dtype(img), img.device
    theta = flambeau.tensor(matrix, dtype=dtype, device=device).view(2, 3)
    half = flambeau.tensor([0.5 * img.shape[-1], 0.5 * img.shape[-2]], dtype=dtype, device=device)
    start_x, start_y = -out_width * 0.5 + 0.5, -out_height * 0.5 + 0.5
    return _mapped_centers(theta.T / half, out_width, out_height, start_x, start_y)


def affine(
    img: Tensor, matrix: list[float], interpolation: str = "nearest", fill: Fill = None
) -> Tensor:
    _check_tensor(img)
    _check_matrix(matrix)
    _check_outside(img, interpolation, fill)
    grid = _affine_grid(matrix, img, img.shape[-1], img.shape[-2])
    return _sample(img, grid, interpolation, fill)


def affine_output_size(matrix: list[float], width: int, height: int) -> tuple[int, int]:
    """Width and height of the box around a warped image."""
    x, y = 0.5 * width, 0.5 * height
    corners = flambeau.tensor([[-x, -y, 1.0], [-x, y, 1.0], [x, y, 1.0], [x, -y, 1.0]])
    theta = flambeau.tensor(matrix, dtype=flambeau.float32).view(2, 3)
    moved = corners @ theta.T
    middle = flambeau.tensor((x, y))
    # corners that should lie on a whole number must not be rounded up by an error of arithmetic
    tolerance = 1e-4
    most = ((moved.amax(dim=0) + middle) / tolerance).trunc() * tolerance
    least = ((moved.amin(dim=0) + middle) / tolerance).trunc() * tolerance
    out_width, out_height = (most.ceil() - least.floor()).tolist()
    return int(out_width), int(out_height)


def rotate(
    img: Tensor,
    matrix: list[float],
    interpolation: str = "nearest",
    expand: bool = False,
    fill: Fill = None,
) -> Tensor:
    _check_tensor(img)
    _check_matrix(matrix)
    _check_outside(img, interpolation, fill)
    width, height = img.shape[-1], img.shape[-2]
    if expand:
        width, height = affine_output_size(matrix, width, height)
    return _sample(img, _affine_grid(matrix, img, width, height), interpolation, fill)


def _perspective_grid(coefficients: list[float], width: int, height: int, dtype, device) -> Tensor:
    a, b, c, d, e, f, g, h = coefficients
    above = flambeau.tensor([[a, d], [b, e], [c, f]], dtype=dtype, device=device)
    below = flambeau.tensor([[g, g], [h, h], [1.0, 1.0]], dtype=dtype, device=device)
    half = flambeau.tensor([0.5 * width, 0.5 * height], dtype=dtype, device=device)
    above, below = (
        _mapped_centers(columns, width, height, 0.5, 0.5) for columns in (above / half, below)
    )
    return above / below - 1.0


def perspective(
    img: Tensor,
    perspective_coeffs: list[float],
    interpolation: str = "bilinear",
    fill: Fill = None,
) -> Tensor:
    _check_tensor(img, ".")
    if len(perspective_coeffs) != 8:
        raise ValueError("Argument coeffs should have 8 float values")
    _check_outside(img, interpolation, fill)
    width, height = img.shape[-1], img.shape[-2]
    grid = _perspective_grid(perspective_coeffs, width, height, working_dtype(img), img.device)
    return _sample(img, grid, interpolation, fill)


def identity_grid(size: list[int]) -> Tensor:
    """The grid at which sampling gives the image itself, (1, height, width, 2)."""
    lines = [flambeau.linspace((1 - s) / s, (s - 1) / s, s) for s in size]
    y, x = flambeau.meshgrid(lines, indexing="ij")
    return flambeau.stack([x, y], -1).unsqueeze(0)


def elastic_transform(
    img: Tensor, displacement: Tensor, interpolation: str = "bilinear", fill: Fill = None
) -> Tensor:
    if not isinstance(img, Tensor):
        raise TypeError(f"img should be Tensor. Got {type(img)}")
    grid = identity_grid(list(img.shape[-2:])).to(img.device) + displacement.to(img.device)
    return _sample(img, grid, interpolation, fill)
