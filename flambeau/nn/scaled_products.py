"""Products of float8 matrices whose scales are described by recipes: `nn.functional.scaled_mm`."""

import enum
from typing import Any

from flambeau import _dtype as d
from flambeau.eager.float8 import _scaled_mm

__all__ = ["ScalingType", "SwizzleType", "scaled_mm"]


class ScalingType(enum.IntEnum):
    """Which part of a matrix has one scale."""

    TensorWise = 0
    RowWise = 1
    BlockWise1x16 = 2
    BlockWise1x32 = 3
    BlockWise1x128 = 4
    BlockWise128x128 = 5


class SwizzleType(enum.IntEnum):
    """In which order scales of blocks lie."""

    NO_SWIZZLE = 0
    SWIZZLE_32_4_4 = 1


def _single(given: Any, name: str) -> Any:
    """The one entry of a list: several levels of scales are those of smaller dtypes."""
    if not isinstance(given, (list, tuple)):
        return given
    if len(given) != 1:
        raise ValueError(f"{name} must have one entry for float8, got {len(given)}")
    return given[0]


def scaled_mm(
    mat_a: Any,
    mat_b: Any,
    scale_a: Any,
    scale_recipe_a: Any,
    scale_b: Any,
    scale_recipe_b: Any,
    swizzle_a: Any = None,
    swizzle_b: Any = None,
    bias: Any = None,
    output_dtype: Any = d.bfloat16,
    contraction_dim: Any = (),
    use_fast_accum: bool = False,
) -> Any:
    """(scale_a mat_a) (scale_b mat_b) + bias, of two matrices of float8.

    Scales are for whole matrices or for rows of mat_a and columns of mat_b; those of blocks are
    refused, as on all processors.
    """
    scales = _single(scale_a, "scale_a"), _single(scale_b, "scale_b")
    kinds = {_single(scale_recipe_a, "scale_recipe_a"), _single(scale_recipe_b, "scale_recipe_b")}
    if len(kinds) > 1 or not kinds <= {ScalingType.TensorWise, ScalingType.RowWise}:
        raise ValueError(
            "Invalid scaling configuration.\n"
            "- scales are of one kind for both matrices: TensorWise or RowWise"
        )
    return _scaled_mm(
        mat_a, mat_b, *scales, bias, None, output_dtype, use_fast_accum=use_fast_accum
    )
