"""Functions of torch that take arguments of several kinds, as scripts: one form for each kind.

VARIANTS are tried in order, until one fits the types of a call. CHOICES depend on flags that are
written in the call: how many results there are is then known where it is compiled. As in
functional_forms.py, these functions are compiled from this source, never run by Python.
"""

# mypy: ignore-errors

from typing import List, Optional, Tuple  # noqa: UP035

import flambeau as torch
from flambeau import Tensor
from flambeau.jit.functional_forms import OptionalList1

# ruff: noqa: UP006, UP045


# -- tensordot: a number of dimensions, or two lists of them ------------------------------------
def tensordot(a: Tensor, b: Tensor, dims: int = 2) -> Tensor:
    if dims < 0:
        raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
    if dims > min(a.dim(), b.dim()):
        raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
    return torch.ops.aten.tensordot(a, b, list(range(a.dim() - dims, a.dim())), list(range(dims)))


def tensordot_of_pair(a: Tensor, b: Tensor, dims: Tuple[List[int], List[int]]) -> Tensor:
    of_a, of_b = dims
    return torch.ops.aten.tensordot(a, b, of_a, of_b)


def tensordot_of_lists(a: Tensor, b: Tensor, dims: List[List[int]]) -> Tensor:
    return torch.ops.aten.tensordot(a, b, dims[0], dims[1])


def tensordot_of_tensor(a: Tensor, b: Tensor, dims: Tensor) -> Tensor:
    if dims.numel() > 1:
        of_a = torch.jit.annotate(List[int], dims[0].tolist())
        of_b = torch.jit.annotate(List[int], dims[1].tolist())
        result = torch.ops.aten.tensordot(a, b, of_a, of_b)
    else:
        result = tensordot(a, b, int(dims.item()))
    return result


# -- stft: with or without padding around it -----------------------------------------------------
def stft(
    input: Tensor,
    n_fft: int,
    hop_length: Optional[int] = None,
    win_length: Optional[int] = None,
    window: Optional[Tensor] = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: Optional[bool] = None,
    return_complex: Optional[bool] = None,
    align_to_window: Optional[bool] = None,
) -> Tensor:
    return torch.ops.aten.stft(
        input,
        n_fft,
        hop_length,
        win_length,
        window,
        center,
        pad_mode,
        normalized,
        onesided,
        return_complex,
        align_to_window,
    )


# -- norm: by name or by number ------------------------------------------------------------------
def norm_by_name(
    input: Tensor,
    p: str = "fro",
    dim: OptionalList1 = None,
    keepdim: bool = False,
    dtype: Optional[int] = None,
) -> Tensor:
    if p == "fro":
        return torch.linalg.vector_norm(input, 2, dim, keepdim, dtype=dtype)
    if p != "nuc":
        raise RuntimeError(f"only valid string values are 'fro' and 'nuc', found {p}")
    if dim is None:
        return torch.linalg.matrix_norm(input, "nuc", [0, 1], keepdim, dtype=dtype)
    return torch.linalg.matrix_norm(input, "nuc", dim, keepdim, dtype=dtype)


def norm(
    input: Tensor,
    p: Optional[float] = 2.0,
    dim: OptionalList1 = None,
    keepdim: bool = False,
    dtype: Optional[int] = None,
) -> Tensor:
    order = 2.0 if p is None else p
    return torch.linalg.vector_norm(input, order, dim, keepdim, dtype=dtype)


# -- unique: what is found, where it came from, how often ----------------------------------------
def _unique(input: Tensor, sorted: bool, dim: Optional[int]) -> Tuple[Tensor, Tensor, Tensor]:
    if dim is None:
        values, inverse, counts = torch.ops.aten._unique2(input, sorted, True, True)
    else:
        values, inverse, counts = torch.ops.aten.unique_dim(input, dim, sorted, True, True)
    return values, inverse, counts


def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: Optional[int] = None,
) -> Tensor:
    values, _, _ = _unique(input, sorted, dim)
    return values


def unique_inverse(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: Optional[int] = None,
) -> Tuple[Tensor, Tensor]:
    values, inverse, _ = _unique(input, sorted, dim)
    return values, inverse


def unique_counts(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: Optional[int] = None,
) -> Tuple[Tensor, Tensor]:
    values, _, counts = _unique(input, sorted, dim)
    return values, counts


def unique_both(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: Optional[int] = None,
) -> Tuple[Tensor, Tensor, Tensor]:
    return _unique(input, sorted, dim)


def runs(
    input: Tensor,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: Optional[int] = None,
) -> Tensor:
    values, _, _ = torch.ops.aten.unique_consecutive(input, True, True, dim)
    return values


def runs_inverse(
    input: Tensor,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: Optional[int] = None,
) -> Tuple[Tensor, Tensor]:
    values, inverse, _ = torch.ops.aten.unique_consecutive(input, True, True, dim)
    return values, inverse


def runs_counts(
    input: Tensor,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: Optional[int] = None,
) -> Tuple[Tensor, Tensor]:
    values, _, counts = torch.ops.aten.unique_consecutive(input, True, True, dim)
    return values, counts


def runs_both(
    input: Tensor,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: Optional[int] = None,
) -> Tuple[Tensor, Tensor, Tensor]:
    values, inverse, counts = torch.ops.aten.unique_consecutive(input, True, True, dim)
    return values, inverse, counts


# -- lu, with and without what went wrong --------------------------------------------------------
def lu(A: Tensor, pivot: bool = True, get_infos: bool = False) -> Tuple[Tensor, Tensor]:
    found, pivots, _ = torch.ops.aten._lu_with_info(A, pivot, True)
    return found, pivots


def lu_with_infos(
    A: Tensor, pivot: bool = True, get_infos: bool = False
) -> Tuple[Tensor, Tensor, Tensor]:
    found, pivots, infos = torch.ops.aten._lu_with_info(A, pivot, False)
    return found, pivots, infos


# the forms that are tried one after the other; a text is an op
VARIANTS = {
    "tensordot": (tensordot_of_tensor, tensordot, tensordot_of_pair, tensordot_of_lists),
    "norm": ("aten::norm", norm, norm_by_name),
    "stft": (stft,),
}
# flags by name and place, and the form for each of their settings
CHOICES = {
    "unique": (
        {"return_inverse": 2, "return_counts": 3},
        {
            (False, False): unique,
            (True, False): unique_inverse,
            (False, True): unique_counts,
            (True, True): unique_both,
        },
    ),
    "unique_consecutive": (
        {"return_inverse": 1, "return_counts": 2},
        {
            (False, False): runs,
            (True, False): runs_inverse,
            (False, True): runs_counts,
            (True, True): runs_both,
        },
    ),
    "lu": ({"get_infos": 2}, {(False,): lu, (True,): lu_with_infos}),
}
