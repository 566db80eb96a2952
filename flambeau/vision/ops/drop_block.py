"""DropBlock: dropout of whole squares or cubes (Ghiasi et al. 2018)."""

import math

import flambeau
from flambeau import Tensor
from flambeau.nn import functional as F

from ._utils import Settled


def _drop_block(
    input: Tensor, p: float, block_size: int, inplace: bool, eps: float, training: bool, dims: int
) -> Tensor:
    if p < 0.0 or p > 1.0:
        raise ValueError(f"drop probability has to be between 0 and 1, but got {p}.")
    if input.ndim != dims + 2:
        raise ValueError(f"input should be {dims + 2} dimensional. Got {input.ndim} dimensions.")
    if not training or p == 0.0:
        return input
    sizes = input.shape[2:]
    block = min(block_size, *sizes)
    if block % 2 == 0:
        raise ValueError(f"block size should be odd. Got {block} which is even.")
    centres = [n - block + 1 for n in sizes]  # where a block fits
    chance = p * math.prod(sizes) / (block**dims * math.prod(centres))
    noise = flambeau.empty((*input.shape[:2], *centres), dtype=input.dtype, device=input.device)
    noise = F.pad(noise.bernoulli_(chance), [block // 2] * (2 * dims), value=0)
    pool = F.max_pool2d if dims == 2 else F.max_pool3d
    noise = 1 - pool(noise, stride=1, kernel_size=block, padding=block // 2)
    scale = noise.numel() / (eps + noise.sum())
    return input.mul_(noise).mul_(scale) if inplace else input * noise * scale


def drop_block2d(
    input: Tensor,
    p: float,
    block_size: int,
    inplace: bool = False,
    eps: float = 1e-06,
    training: bool = True,
) -> Tensor:
    """Zero squares of (N, C, H, W) and scale up the rest.

    Args:
        p: the share of elements that go, about.
        block_size: the side of a square, an odd number.
    """
    return _drop_block(input, p, block_size, inplace, eps, training, 2)


def drop_block3d(
    input: Tensor,
    p: float,
    block_size: int,
    inplace: bool = False,
    eps: float = 1e-06,
    training: bool = True,
) -> Tensor:
    """Zero cubes of (N, C, D, H, W) and scale up the rest; see drop_block2d."""
    return _drop_block(input, p, block_size, inplace, eps, training, 3)


class DropBlock2d(Settled):
    """The module of `drop_block2d`."""

    shown = ("p", "block_size", "inplace")
    _dims = 2

    def __init__(
        self, p: float, block_size: int, inplace: bool = False, eps: float = 1e-06
    ) -> None:
        super().__init__(p=p, block_size=block_size, inplace=inplace, eps=eps)

    def forward(self, input: Tensor) -> Tensor:
        rest = self.inplace, self.eps, self.training, self._dims
        return _drop_block(input, self.p, self.block_size, *rest)


class DropBlock3d(DropBlock2d):
    """The module of `drop_block3d`."""

    _dims = 3
