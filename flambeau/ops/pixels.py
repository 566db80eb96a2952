"""Rows behind image transforms: what a pixel's bytes become, and how channels are normalised.

They have no public names; `vision/transforms/` registers them by importing this file, so that
programs without images never see them.
"""

from flambeau import _dtype as d
from flambeau.codegen import scalar as m
from flambeau.ops.rules import same
from flambeau.ops.table import pointwise


def _unit_float(operands):
    return d.int32, d.float32


@pointwise(dtype=_unit_float, variants="")
def pixel_channel(input, shift):
    """One byte of each 32-bit pixel, as a float between 0 and 1."""
    return m.cast((input >> shift) & 255, "f32") / 255


def _byte(operands):
    return d.int32, d.uint8


@pointwise(dtype=_byte, variants="")
def pixel_byte(input, shift):
    """One byte of each 32-bit pixel."""
    return m.cast((input >> shift) & 255, "u8")


@pointwise(
    dtype=same,
    variants="",
    grad=dict(
        input=lambda g, std: g / std,
        mean=lambda g, std: -g / std,
        std=lambda g, out, std: -g * out / std,
    ),
)
def normalize_channel(input, mean, std):
    """How many standard deviations each element lies above the mean."""
    return (input - mean) / std
