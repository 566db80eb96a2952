"""Coordinates of pixels, values between them, and flow in full size."""

from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.nn import functional as F


def grid_sample(
    img: Tensor, absolute_grid: Tensor, mode: str = "bilinear", align_corners: bool | None = None
) -> Tensor:
    """`F.grid_sample` with coordinates in pixels."""
    shares: list[Tensor] = []
    for place, side in zip(absolute_grid.unbind(-1), reversed(img.shape[-2:]), strict=True):
        # a line has no height to divide by, and its only row is where it is
        is_line = side == 1 and bool(shares)
        shares.append(place if is_line else 2 * place / (side - 1) - 1)
    return F.grid_sample(img, flambeau.stack(shares, dim=-1), mode, align_corners=align_corners)


def make_coords_grid(batch_size: int, h: int, w: int, device: Any = "cpu") -> Tensor:
    """(x, y) of every pixel, as (batch, 2, h, w)."""
    axes = flambeau.arange(h, device=device), flambeau.arange(w, device=device)
    y, x = flambeau.meshgrid(*axes, indexing="ij")
    return flambeau.stack([x, y]).float()[None].repeat(batch_size, 1, 1, 1)


def upsample_flow(flow: Tensor, up_mask: Tensor | None = None, factor: int = 8) -> Tensor:
    """Flow in larger pictures: between neighbours, or by learned weights of nine neighbours."""
    batch, channels, h, w = flow.shape
    full = h * factor, w * factor
    if up_mask is None:
        return factor * F.interpolate(flow, size=full, mode="bilinear", align_corners=True)
    weights = up_mask.view(batch, 1, 9, factor, factor, h, w).softmax(dim=2)
    nine = F.unfold(factor * flow, kernel_size=3, padding=1).view(batch, channels, 9, 1, 1, h, w)
    mixed = (weights * nine).sum(dim=2)
    return mixed.permute(0, 1, 4, 2, 5, 3).reshape(batch, channels, *full)
