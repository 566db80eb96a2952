"""Operations on image tensors that move pixels: flips, crops, padding, resizing, warping, erasing.

Warps sample the image at the places of a grid, one place for each new pixel, in coordinates where
the image spans -1 to 1. Pixels from outside take the fill; a plane of ones that is warped along
tells where that is.
"""

import warnings
from collections.abc import Sequence

import flambeau
from flambeau import Tensor
from flambeau.nn.functional import grid_sample, interpolate
from flambeau.nn.functional import pad as pad_tensor
from flambeau.vision.transforms.tensor_checks import (
    AsBatch,
    check_image,
    get_dimensions,
    working_dtype,
)

Fill = int | float | Sequence[float] | None
_PADDING_MODES = ["constant", "edge", "reflect", "symmetric"]


# -- flips and crops -------------------------------------------------------------------------------


def vflip(img: Tensor) -> Tensor:
    check_image(img)
    return img.flip(-2)


def hflip(img: Tensor) -> Tensor:
    check_image(img)
    return img.flip(-1)


def crop(img: Tensor, top: int, left: int, height: int, width: int) -> Tensor:
    _, h, w = get_dimensions(img)
    right, bottom = left + width, top + height
    if left >= 0 and top >= 0 and right <= w and bottom <= h:
        return img[..., top:bottom, left:right]
    padding = [
        max(min(0, right) - left, 0),
        max(min(0, bottom) - top, 0),
        max(right - max(w, left), 0),
        max(bottom - max(h, top), 0),
    ]
    return pad(img[..., max(top, 0) : bottom, max(left, 0) : right], padding, fill=0)


def erase(img: Tensor, i: int, j: int, h: int, w: int, v: Tensor, inplace: bool = False) -> Tensor:
    check_image(img)
    if not inplace:
        img = img.clone()
    img[..., i : i + h, j : j + w] = v
    return img


# -- padding ---------------------------------------------------------------------------------------


def _sides(padding: int | list[int]) -> list[int]:
    """Left, right, top and bottom, from one, two or four numbers."""
    if isinstance(padding, int):
        padding = [padding]
    if len(padding) == 1:
        return [padding[0]] * 4
    if len(padding) == 2:
        return [padding[0], padding[0], padding[1], padding[1]]
    return [padding[0], padding[2], padding[1], padding[3]]


def pad(
    img: Tensor,
    padding: int | list[int],
    fill: int | float | None = 0,
    padding_mode: str = "constant",
) -> Tensor:
    check_image(img)
    if fill is None:
        fill = 0
    if not isinstance(padding, (int, tuple, list)):
        raise TypeError("Got inappropriate padding arg")
    if not isinstance(fill, (int, float)):
        raise TypeError("Got inappropriate fill arg")
    if not isinstance(padding_mode, str):
        raise TypeError("Got inappropriate padding_mode arg")
    if isinstance(padding, (tuple, list)) and len(padding) not in (1, 2, 4):
        raise ValueError(
            "Padding must be an int or a 1, 2, or 4 element tuple, "
            f"not a {len(padding)} element tuple"
        )
    if padding_mode not in _PADDING_MODES:
        raise ValueError("Padding mode should be either constant, edge, reflect or symmetric")
    sides = _sides(padding)
    if padding_mode == "symmetric":
        return _pad_symmetric(img, sides)
    is_single = img.ndim < 4
    out = img.unsqueeze(0) if is_single else img
    if padding_mode == "constant":
        out = pad_tensor(out, sides, mode="constant", value=float(fill))
    else:
        mode = "replicate" if padding_mode == "edge" else padding_mode
        if img.dtype not in (flambeau.float32, flambeau.float64):
            out = out.to(flambeau.float32)
        out = pad_tensor(out, sides, mode=mode).to(img.dtype)
    return out.squeeze(0) if is_single else out


def _pad_symmetric(img: Tensor, sides: list[int]) -> Tensor:
    """Padding with a mirror behind the edge, so that the edge itself appears twice."""
    left, right, top, bottom = sides
    if min(sides) < 0:
        height, width = img.shape[-2:]
        img = img[
            ..., -min(top, 0) : height + min(bottom, 0), -min(left, 0) : width + min(right, 0)
        ]
        left, right, top, bottom = (max(side, 0) for side in sides)
    if img.ndim not in (3, 4):
        raise RuntimeError("Symmetric padding of N-D tensors are not supported yet")

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


def _check_warp(img, interpolation, fill, matrix=None, coefficients=None):
    if not isinstance(img, Tensor):
        raise TypeError("Input img should be Tensor")
    check_image(img)
    if matrix is not None and not isinstance(matrix, list):
        raise TypeError("Argument matrix should be a list")
    if matrix is not None and len(matrix) != 6:
        raise ValueError("Argument matrix should have 6 float values")
    if coefficients is not None and len(coefficients) != 8:
        raise ValueError("Argument coeffs should have 8 float values")
    if fill is not None and not isinstance(fill, (int, float, tuple, list)):
        warnings.warn("Argument fill should be either int, float, tuple or list", stacklevel=4)
    channels = get_dimensions(img)[0]
    if isinstance(fill, (tuple, list)) and len(fill) > 1 and len(fill) != channels:
        raise ValueError(
            "The number of elements in 'fill' cannot broadcast to match the number of channels of "
            f"the image ({len(fill)} != {channels})"
        )
    if interpolation not in ("nearest", "bilinear"):
        raise ValueError(f"Interpolation mode '{interpolation}' is unsupported with Tensor input")


def _sample(img: Tensor, grid: Tensor, mode: str, fill: Fill) -> Tensor:
    batch = AsBatch(img, grid.dtype)
    images = batch.images
    shape = images.shape
    if shape[0] > 1:
        grid = grid.expand(shape[0], *grid.shape[1:])
    if fill is None:
        out = grid_sample(images, grid, mode=mode, padding_mode="zeros", align_corners=False)
        return batch.restore(out)
    plane = (shape[0], 1, shape[2], shape[3])
    ones = flambeau.ones(plane, dtype=images.dtype, device=images.device)
    images = flambeau.cat((images, ones), dim=1)
    out = grid_sample(images, grid, mode=mode, padding_mode="zeros", align_corners=False)
    out, inside = out[:, :-1], out[:, -1:]
    colors = list(fill) if isinstance(fill, (tuple, list)) else [float(fill)]  # type: ignore[arg-type]
    color = flambeau.tensor(colors, dtype=images.dtype, device=images.device).view(1, -1, 1, 1)
    if mode == "nearest":
        out = flambeau.where(inside < 0.5, color, out)
    else:
        out = out * inside + (1.0 - inside) * color
    return batch.restore(out)


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
    _check_warp(img, interpolation, fill, matrix=matrix)
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
    _check_warp(img, interpolation, fill, matrix=matrix)
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
    if not isinstance(img, Tensor):
        raise TypeError("Input img should be Tensor.")
    _check_warp(img, interpolation, fill, coefficients=perspective_coeffs)
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
