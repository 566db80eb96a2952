"""Unfold and Fold: pictures cut into blocks side by side, and blocks added up to pictures."""

from typing import Any

from flambeau.nn.modules.declaring import layer
from flambeau.nn.modules.module import Module

__all__ = ["Fold", "Unfold"]


@layer("fold(input, output_size, kernel_size, dilation, padding, stride)")
class Fold(Module):
    """Adds up sliding blocks: (N, C * prod(kernel_size), L) becomes (N, C, *output_size)."""

    output_size: Any
    kernel_size: Any
    dilation: Any = 1
    padding: Any = 0
    stride: Any = 1


@layer("unfold(input, kernel_size, dilation, padding, stride)")
class Unfold(Module):
    """Takes sliding blocks: (N, C, *) becomes (N, C * prod(kernel_size), L)."""

    kernel_size: Any
    dilation: Any = 1
    padding: Any = 0
    stride: Any = 1
