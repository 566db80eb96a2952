# Written by tools/stubs.py; do not edit.
# mypy: ignore-errors
# ruff: noqa
import builtins
from collections.abc import Callable, Sequence
from typing import Any, overload

from flambeau._device import device as device
from flambeau._dtype import dtype as dtype
from flambeau._memory_format import layout as layout
from flambeau._memory_format import memory_format as memory_format
from flambeau.random import Generator as Generator
from flambeau._tensor import Tensor as Tensor

_int = builtins.int
_float = builtins.float
_bool = builtins.bool
_Number = builtins.int | builtins.float | builtins.complex | builtins.bool
_Device = device | str | builtins.int

LinAlgError: Any

def cholesky(input: Tensor, *, upper: bool = False, out: Tensor | None = None) -> Tensor: ...
def cholesky_ex(
    input: Tensor, *, upper: bool = False, check_errors: bool = False, out: Tensor | None = None
) -> Any: ...
def cond(input: Tensor, p: _Number | None | str = None, *, out: Tensor | None = None) -> Tensor: ...
def cross(input: Tensor, other: Tensor, *, dim: int = -1, out: Tensor | None = None) -> Tensor: ...
def det(A: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor: ...
def eig(input: Tensor, *, out: Tensor | None = None) -> Any: ...
def eigh(input: Tensor, UPLO: str = "L", *, out: Tensor | None = None) -> Any: ...
def eigvals(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def eigvalsh(input: Tensor, UPLO: str = "L", *, out: Tensor | None = None) -> Tensor: ...
def householder_product(input: Tensor, tau: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def inv(A: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def inv_ex(A: Tensor, *, check_errors: bool = False, out: Tensor | None = None) -> Any: ...
def ldl_factor(input: Tensor, *, hermitian: bool = False, out: Tensor | None = None) -> Any: ...
def ldl_factor_ex(
    input: Tensor, *, hermitian: bool = False, check_errors: bool = False, out: Tensor | None = None
) -> Any: ...
def ldl_solve(
    LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: bool = False, out: Tensor | None = None
) -> Tensor: ...
def lstsq(
    input: Tensor,
    b: Tensor,
    rcond: float | None = None,
    *,
    driver: str | None = None,
    out: Tensor | None = None,
) -> Any: ...
def lu(A: Tensor, *, pivot: bool = True, out: Tensor | None = None) -> Any: ...
def lu_factor(A: Tensor, *, pivot: bool = True, out: Tensor | None = None) -> Any: ...
def lu_factor_ex(
    A: Tensor, *, pivot: bool = True, check_errors: bool = False, out: Tensor | None = None
) -> Any: ...
def lu_solve(
    LU: Tensor,
    pivots: Tensor,
    B: Tensor,
    *,
    left: bool = True,
    adjoint: bool = False,
    out: Tensor | None = None,
) -> Tensor: ...
def matmul(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def matrix_exp(input: Tensor) -> Tensor: ...
def matrix_norm(
    input: Tensor,
    ord: _Number | str = "fro",
    dim: Sequence[int] = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: dtype | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
def matrix_power(input: Tensor, n: int, *, out: Tensor | None = None) -> Tensor: ...
def matrix_rank(
    input: Tensor,
    tol: float | Tensor = ...,
    hermitian: bool = False,
    *,
    atol: float | None | Tensor | None = None,
    rtol: float | None | Tensor | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
def multi_dot(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor: ...
def norm(
    input: Tensor,
    ord: _Number | None | str = None,
    dim: Sequence[int] | int | None = None,
    keepdim: bool = False,
    *,
    dtype: dtype | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
def pinv(
    input: Tensor,
    rcond: float | Tensor = ...,
    hermitian: bool = False,
    *,
    atol: float | None | Tensor | None = None,
    rtol: float | None | Tensor | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
def qr(A: Tensor, mode: str = "reduced", *, out: Tensor | None = None) -> Any: ...
def slogdet(A: Tensor, *, out: Tensor | None = None) -> Any: ...
def solve(A: Tensor, B: Tensor, *, left: bool = True, out: Tensor | None = None) -> Tensor: ...
def solve_ex(
    A: Tensor,
    B: Tensor,
    *,
    left: bool = True,
    check_errors: bool = False,
    out: Tensor | None = None,
) -> Any: ...
def solve_triangular(
    input: Tensor,
    B: Tensor,
    *,
    upper: bool,
    left: bool = True,
    unitriangular: bool = False,
    out: Tensor | None = None,
) -> Tensor: ...
def svd(
    A: Tensor, full_matrices: bool = True, *, driver: str | None = None, out: Tensor | None = None
) -> Any: ...
def svdvals(A: Tensor, *, driver: str | None = None, out: Tensor | None = None) -> Tensor: ...
def tensorinv(input: Tensor, ind: int = 2, *, out: Tensor | None = None) -> Tensor: ...
def tensorsolve(
    input: Tensor, other: Tensor, dims: Sequence[int] | None = None, *, out: Tensor | None = None
) -> Tensor: ...
def vander(x: Tensor, *, N: int | None = None) -> Tensor: ...
def vecdot(x: Tensor, y: Tensor, *, dim: int = -1, out: Tensor | None = None) -> Tensor: ...
def vector_norm(
    input: Tensor,
    ord: _Number = 2,
    dim: Sequence[int] | int | None = None,
    keepdim: bool = False,
    *,
    dtype: dtype | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
def __getattr__(name: str) -> Any: ...
