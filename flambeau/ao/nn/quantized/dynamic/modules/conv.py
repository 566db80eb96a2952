"""Convolutions whose input is quantized by its own range: floats in, floats out."""

from typing import Any

import flambeau as torch
from flambeau import Tensor
from flambeau.ao.nn.quantized.modules import conv

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]


class _Dynamic:
    """What they share."""

    def forward(self: Any, input: Tensor, reduce_range: bool = True) -> Tensor:
        run = getattr(torch.ops.quantized, self._stem + "_dynamic")
        return run(self._padded(input), self._packed_params, reduce_range)

    def _get_name(self: Any) -> str:
        return "Dynamic" + super()._get_name()  # type: ignore[misc]


class Conv1d(_Dynamic, conv.Conv1d):
    """Of sequences."""


class Conv2d(_Dynamic, conv.Conv2d):
    """Of pictures."""


class Conv3d(_Dynamic, conv.Conv3d):
    """Of volumes."""


class ConvTranspose1d(_Dynamic, conv.ConvTranspose1d):
    """Of sequences, transposed."""


class ConvTranspose2d(_Dynamic, conv.ConvTranspose2d):
    """Of pictures, transposed."""


class ConvTranspose3d(_Dynamic, conv.ConvTranspose3d):
    """Of volumes, transposed."""
