"""Pooling of nn.functional that tells where maxima were, as scripts; see functional_forms.py."""

# mypy: ignore-errors

from typing import Annotated, List, Optional, Tuple  # noqa: UP035

import flambeau as torch
from flambeau import Tensor
from flambeau.jit.functional_forms import (
    List1,
    List2,
    List3,
    OptionalList1,
    OptionalList2,
    OptionalList3,
    _output_size,
    adaptive_max_pool1d,
    adaptive_max_pool2d,
    max_pool1d,
    max_pool2d,
    max_pool3d,
)

# ruff: noqa: UP006, UP045, B006


def max_pool1d_with_indices(
    input: Tensor,
    kernel_size: List1,
    stride: OptionalList1 = None,
    padding: List1 = [0],
    dilation: List1 = [1],
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tuple[Tensor, Tensor]:
    if stride is None:
        stride = torch.jit.annotate(List[int], [])
    found, places = torch.ops.aten.max_pool1d_with_indices(
        input, kernel_size, stride, padding, dilation, ceil_mode
    )
    return found, places


def max_pool2d_with_indices(
    input: Tensor,
    kernel_size: List2,
    stride: OptionalList2 = None,
    padding: List2 = [0, 0],
    dilation: List2 = [1, 1],
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tuple[Tensor, Tensor]:
    if stride is None:
        stride = torch.jit.annotate(List[int], [])
    found, places = torch.ops.aten.max_pool2d_with_indices(
        input, kernel_size, stride, padding, dilation, ceil_mode
    )
    return found, places


def max_pool3d_with_indices(
    input: Tensor,
    kernel_size: List3,
    stride: OptionalList3 = None,
    padding: List3 = [0, 0, 0],
    dilation: List3 = [1, 1, 1],
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tuple[Tensor, Tensor]:
    if stride is None:
        stride = torch.jit.annotate(List[int], [])
    found, places = torch.ops.aten.max_pool3d_with_indices(
        input, kernel_size, stride, padding, dilation, ceil_mode
    )
    return found, places


def adaptive_max_pool1d_with_indices(
    input: Tensor, output_size: List1, return_indices: bool = False
) -> Tuple[Tensor, Tensor]:
    found, places = torch.ops.aten.adaptive_max_pool1d(input, output_size)
    return found, places


def adaptive_max_pool2d_with_indices(
    input: Tensor, output_size: Annotated[List[Optional[int]], 2], return_indices: bool = False
) -> Tuple[Tensor, Tensor]:
    sizes = _output_size(output_size, input.size())
    found, places = torch.ops.aten.adaptive_max_pool2d(input, sizes)
    return found, places


def adaptive_max_pool3d(
    input: Tensor, output_size: Annotated[List[Optional[int]], 3], return_indices: bool = False
) -> Tensor:
    sizes = _output_size(output_size, input.size())
    found, _ = torch.ops.aten.adaptive_max_pool3d(input, sizes)
    return found


def adaptive_max_pool3d_with_indices(
    input: Tensor, output_size: Annotated[List[Optional[int]], 3], return_indices: bool = False
) -> Tuple[Tensor, Tensor]:
    sizes = _output_size(output_size, input.size())
    found, places = torch.ops.aten.adaptive_max_pool3d(input, sizes)
    return found, places


_PLACES = {"return_indices": 6}
_ADAPTIVE_PLACES = {"return_indices": 2}
# flags by name and place, and the form for each of their settings
POOLS = {
    "max_pool1d": (_PLACES, {(False,): max_pool1d, (True,): max_pool1d_with_indices}),
    "max_pool2d": (_PLACES, {(False,): max_pool2d, (True,): max_pool2d_with_indices}),
    "max_pool3d": (_PLACES, {(False,): max_pool3d, (True,): max_pool3d_with_indices}),
    "adaptive_max_pool1d": (
        _ADAPTIVE_PLACES,
        {(False,): adaptive_max_pool1d, (True,): adaptive_max_pool1d_with_indices},
    ),
    "adaptive_max_pool2d": (
        _ADAPTIVE_PLACES,
        {(False,): adaptive_max_pool2d, (True,): adaptive_max_pool2d_with_indices},
    ),
    "adaptive_max_pool3d": (
        _ADAPTIVE_PLACES,
        {(False,): adaptive_max_pool3d, (True,): adaptive_max_pool3d_with_indices},
    ),
}
