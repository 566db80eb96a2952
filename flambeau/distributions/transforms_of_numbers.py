"""Transforms of single numbers: exp, powers, sigmoid, loc + scale * x and others."""

import math
from typing import Any

import flambeau
from flambeau import Size, Tensor
from flambeau.nn import functional as F

from . import constraints
from .distribution import Distribution
from .transforming import Transform
from .utils import _sum_rightmost, broadcast_all, lazy_property, log_odds, passed_on

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "CumulativeDistributionTransform",
    "ExpTransform",
    "PowerTransform",
    "SigmoidTransform",
    "SoftplusTransform",
    "TanhTransform",
]


def clipped_sigmoid(x: Tensor) -> Tensor:
    """sigmoid(x), kept inside (0, 1), so that it can be undone."""
    limits = flambeau.finfo(x.dtype)
    return x.sigmoid().clamp(min=limits.tiny, max=1 - limits.eps)


class _Rising(Transform):
    """A rising function without parameters; two of the same class are equal."""

    domain = constraints.real
    bijective = True
    sign: Any = 1

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)


class ExpTransform(_Rising):
    """y = exp(x)"""

    codomain = constraints.positive

    def _call(self, x):
        return x.exp()

    def _inverse(self, y):
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x


class SigmoidTransform(_Rising):
    """y = 1 / (1 + exp(-x)), with x = logit(y)"""

    codomain = constraints.unit_interval

    def _call(self, x):
        return clipped_sigmoid(x)

    def _inverse(self, y):
        limits = flambeau.finfo(y.dtype)
        return log_odds(y.clamp(limits.tiny, 1 - limits.eps))

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return F.logsigmoid(x) + F.logsigmoid(-x)


class SoftplusTransform(_Rising):
    """y = log(1 + exp(x)); x itself where that is no different"""

    codomain = constraints.positive

    def _call(self, x):
        return F.softplus(x)

    def _inverse(self, y):
        return y + (-(-y).expm1()).log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return F.logsigmoid(x)


class TanhTransform(_Rising):
    """y = tanh(x); rounds to 1 for large x, so give a cache where the inverse matters"""

    codomain = constraints.interval(-1.0, 1.0)

    def _call(self, x):
        return x.tanh()

    def _inverse(self, y):
        return y.atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        # log(1 - tanh(x)^2), without the cancellation
        return 2 * (math.log(2) - x - F.softplus(-2 * x))


class AbsTransform(Transform):
    """y = |x|; the inverse gives the positive of the two"""

    domain = constraints.real
    codomain = constraints.positive

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AbsTransform)

    def _call(self, x):
        return x.abs()

    def _inverse(self, y):
        return y


class PowerTransform(Transform):
    """y = x ^ exponent, for positive x

    Args:
        exponent: a number or a tensor; negative ones fall.
    """

    domain = constraints.positive
    codomain = constraints.positive
    bijective = True
    _arguments = ("exponent",)

    def __init__(self, exponent: Tensor | float, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        (self.exponent,) = broadcast_all(exponent)

    @lazy_property
    def sign(self) -> Any:
        return self.exponent.sign()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PowerTransform) and _same(self.exponent, other.exponent)

    def _call(self, x):
        return x**self.exponent

    def _inverse(self, y):
        return y ** (1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        slope = self.exponent * y / x
        return slope.abs().log()

    def forward_shape(self, shape: Size) -> Size:
        return flambeau.broadcast_shapes(shape, self.exponent.shape)

    inverse_shape = forward_shape


class AffineTransform(Transform):
    """y = loc + scale * x

    Args:
        loc: what is added, a number or a tensor.
        scale: the factor, a number or a tensor.
        event_dim: how many dimensions on the right make one event.
    """

    bijective = True
    _arguments = ("loc", "scale", "event_dim")

    def __init__(
        self,
        loc: Tensor | float,
        scale: Tensor | float,
        event_dim: int = 0,
        cache_size: int = 0,
    ) -> None:
        super().__init__(cache_size=cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim

    event_dim = passed_on("_event_dim")

    @constraints.dependent_property(is_discrete=False)
    def domain(self):
        real, count = constraints.real, self.event_dim
        return constraints.independent(real, count) if count else real

    codomain = domain

    @property
    def sign(self) -> Any:
        if isinstance(self.scale, Tensor):
            return self.scale.sign()
        return (self.scale > 0) - (self.scale < 0)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AffineTransform):
            return False
        return _same(self.loc, other.loc) and _same(self.scale, other.scale)

    def _call(self, x):
        return x * self.scale + self.loc

    def _inverse(self, y):
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if isinstance(self.scale, Tensor):
            stretch = self.scale.abs().log()
        else:
            stretch = flambeau.full_like(x, math.log(abs(self.scale)))
        shape = x.shape[: x.dim() - self.event_dim]
        return _sum_rightmost(stretch, self.event_dim).expand(shape)

    def forward_shape(self, shape: Size) -> Size:
        own = [t.shape for t in (self.loc, self.scale) if isinstance(t, Tensor)]
        return flambeau.broadcast_shapes(shape, *own)

    inverse_shape = forward_shape


def _same(a, b) -> bool:
    """Are two parameters, tensors or numbers, equal everywhere?"""
    equal = a == b
    return bool(equal.all()) if isinstance(equal, Tensor) else equal


class CumulativeDistributionTransform(Transform):
    """y = distribution.cdf(x): values of a distribution become uniform ones.

    Args:
        distribution: one of single numbers, with `cdf` and `icdf`.
    """

    codomain = constraints.unit_interval
    bijective = True
    sign: Any = 1
    _arguments = ("distribution",)

    def __init__(self, distribution: Distribution, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.distribution = distribution

    domain = passed_on("distribution.support")

    def _call(self, x):
        return self.distribution.cdf(x)

    def _inverse(self, y):
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return self.distribution.log_prob(x)
