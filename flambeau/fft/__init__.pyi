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

Tensor: Any

def fft(
    input: Tensor,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def fft2(
    input: Tensor,
    s: Sequence[int] | int | None = None,
    dim: Sequence[int] | int = (-2, -1),
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def fftfreq(*args: Any, **kwargs: Any) -> Tensor: ...
def fftn(
    input: Tensor,
    s: Sequence[int] | int | None = None,
    dim: Sequence[int] | int | None = None,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def fftshift(input: Tensor, dim: Sequence[int] | int | None = None) -> Tensor: ...
def hfft(
    input: Tensor,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def hfft2(
    input: Tensor,
    s: Sequence[int] | int | None = None,
    dim: Sequence[int] | int = (-2, -1),
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def hfftn(
    input: Tensor,
    s: Sequence[int] | int | None = None,
    dim: Sequence[int] | int | None = None,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def ifft(
    input: Tensor,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def ifft2(
    input: Tensor,
    s: Sequence[int] | int | None = None,
    dim: Sequence[int] | int = (-2, -1),
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def ifftn(
    input: Tensor,
    s: Sequence[int] | int | None = None,
    dim: Sequence[int] | int | None = None,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def ifftshift(input: Tensor, dim: Sequence[int] | int | None = None) -> Tensor: ...
def ihfft(
    input: Tensor,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def ihfft2(
    input: Tensor,
    s: Sequence[int] | int | None = None,
    dim: Sequence[int] | int = (-2, -1),
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def ihfftn(
    input: Tensor,
    s: Sequence[int] | int | None = None,
    dim: Sequence[int] | int | None = None,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def irfft(
    input: Tensor,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def irfft2(
    input: Tensor,
    s: Sequence[int] | int | None = None,
    dim: Sequence[int] | int = (-2, -1),
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def irfftn(
    input: Tensor,
    s: Sequence[int] | int | None = None,
    dim: Sequence[int] | int | None = None,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def rfft(
    input: Tensor,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def rfft2(
    input: Tensor,
    s: Sequence[int] | int | None = None,
    dim: Sequence[int] | int = (-2, -1),
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def rfftfreq(*args: Any, **kwargs: Any) -> Tensor: ...
def rfftn(
    input: Tensor,
    s: Sequence[int] | int | None = None,
    dim: Sequence[int] | int | None = None,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def __getattr__(name: str) -> Any: ...
