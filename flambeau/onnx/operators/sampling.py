"""Operators that draw random numbers."""

from typing import Any

import flambeau as torch
from flambeau import Tensor
from flambeau.onnx.operators.table import op
from flambeau.onnx.operators.values import dtype_of


def generator(seed: float | None) -> Any:
    return None if seed is None else torch.Generator().manual_seed(int(seed))


def kind(x: Tensor | None, dtype: int | None) -> torch.dtype:
    if dtype is not None:
        return dtype_of(dtype)
    return torch.float32 if x is None or not x.is_floating_point() else x.dtype


@op("RandomNormal")
def random_normal(
    *,
    shape: list[int],
    dtype: int | None = None,
    mean: float = 0.0,
    scale: float = 1.0,
    seed: float | None = None,
) -> Tensor:
    return torch.randn(shape, dtype=kind(None, dtype), generator=generator(seed)) * scale + mean


@op("RandomNormalLike")
def random_normal_like(
    x: Tensor,
    *,
    dtype: int | None = None,
    mean: float = 0.0,
    scale: float = 1.0,
    seed: float | None = None,
) -> Tensor:
    return torch.randn(x.shape, dtype=kind(x, dtype), generator=generator(seed)) * scale + mean


@op("RandomUniform")
def random_uniform(
    *,
    shape: list[int],
    dtype: int | None = None,
    high: float = 1.0,
    low: float = 0.0,
    seed: float | None = None,
) -> Tensor:
    drawn = torch.rand(shape, dtype=kind(None, dtype), generator=generator(seed))
    return drawn * (high - low) + low


@op("RandomUniformLike")
def random_uniform_like(
    x: Tensor,
    *,
    dtype: int | None = None,
    high: float = 1.0,
    low: float = 0.0,
    seed: float | None = None,
) -> Tensor:
    drawn = torch.rand(x.shape, dtype=kind(x, dtype), generator=generator(seed))
    return drawn * (high - low) + low


@op("Bernoulli", 15)
def bernoulli(x: Tensor, *, dtype: int | None = None, seed: float | None = None) -> Tensor:
    drawn = torch.bernoulli(x, generator=generator(seed))
    return drawn if dtype is None else drawn.to(dtype_of(dtype))


@op("Multinomial", 7)
def multinomial(
    x: Tensor, *, dtype: int = 6, sample_size: int = 1, seed: float | None = None
) -> Tensor:
    """Rows hold logarithms of probabilities."""
    chances = torch.softmax(x, -1)
    drawn = torch.multinomial(chances, sample_size, True, generator=generator(seed))
    return drawn.to(dtype_of(dtype))
