"""PixelShuffle and PixelUnshuffle: channels become finer pixels, and pixels become channels."""

from flambeau.nn.modules.declaring import layer
from flambeau.nn.modules.module import Module

__all__ = ["PixelShuffle", "PixelUnshuffle"]


@layer("pixel_shuffle(input, upscale_factor)")
class PixelShuffle(Module):
    """(*, C * r * r, H, W) becomes (*, C, H * r, W * r)."""

    upscale_factor: int


@layer("pixel_unshuffle(input, downscale_factor)")
class PixelUnshuffle(Module):
    """(*, C, H * r, W * r) becomes (*, C * r * r, H, W)."""

    downscale_factor: int
