"""Distributions of a transformed number: LogNormal, Gumbel, Weibull, Pareto and others.

Most are a `TransformedDistribution` with names for its parameters and with moments in closed form.
`_batched` names the parameters that are attributes of their own.
"""

import math
from collections.abc import Sequence

import flambeau
from flambeau import Tensor

from . import constraints
from .distribution import Distribution
from .gammas import Exponential, Gamma
from .location_scale import Cauchy, Normal, Uniform
from .transformed_distribution import TransformedDistribution
from .transforms import (
    AbsTransform,
    AffineTransform,
    ExpTransform,
    PowerTransform,
    StickBreakingTransform,
)
from .utils import broadcast_all, euler_constant, passed_on

__all__ = [
    "GeneralizedPareto",
    "Gumbel",
    "HalfCauchy",
    "HalfNormal",
    "InverseGamma",
    "Kumaraswamy",
    "LogNormal",
    "LogisticNormal",
    "Pareto",
    "Weibull",
]


# -- of normal numbers -----------------------------------------------------------------------------


class LogNormal(TransformedDistribution):
    """exp of a normal number.

    Args:
        loc: the mean of the logarithm.
        scale: its standard deviation.
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.positive
    has_rsample = True
    _batched = {}

    def __init__(
        self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None
    ) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    loc = passed_on("base_dist.loc")
    scale = passed_on("base_dist.scale")

    @property
    def mean(self) -> Tensor:
        return (self.loc + self.scale.square() / 2).exp()

    @property
    def mode(self) -> Tensor:
        square = self.scale.square()
        return (self.loc - square).exp()

    @property
    def variance(self) -> Tensor:
        square = self.scale.square()
        return square.expm1() * (2 * self.loc + square).exp()

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() + self.loc


class LogisticNormal(TransformedDistribution):
    """Probabilities from normal numbers, by breaking sticks.

    Args:
        loc: the means of the K - 1 normal numbers.
        scale: their standard deviations.
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.simplex
    has_rsample = True
    _batched = {}

    def __init__(
        self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None
    ) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        if not base.batch_shape:
            base = base.expand([1])
        super().__init__(base, StickBreakingTransform(), validate_args=validate_args)

    loc = passed_on("base_dist.base_dist.loc")
    scale = passed_on("base_dist.base_dist.scale")


class _Half(TransformedDistribution):
    """The right half of a distribution that is symmetric around 0."""

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    scale = passed_on("base_dist.scale")

    @property
    def mode(self) -> Tensor:
        return flambeau.zeros_like(self.scale)

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        log_prob = self.base_dist.log_prob(value) + math.log(2)
        return flambeau.where(value >= 0, log_prob, -math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        self._check(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, prob: Tensor) -> Tensor:
        return self.base_dist.icdf((prob + 1) / 2)

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() - math.log(2)


class HalfNormal(_Half):
    """The size of a normal number with mean 0.

    Args:
        scale: the standard deviation of the normal number.
    """

    _batched = {}

    def __init__(self, scale: Tensor | float, validate_args: bool | None = None) -> None:
        base = Normal(0, scale, validate_args=False)
        super().__init__(base, AbsTransform(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Tensor:
        return self.scale.square() * (1 - 2 / math.pi)


class HalfCauchy(_Half):
    """The size of a Cauchy distributed number with median 0.

    Args:
        scale: the width of the Cauchy distribution.
    """

    _batched = {}

    def __init__(self, scale: Tensor | float, validate_args: bool | None = None) -> None:
        base = Cauchy(0, scale, validate_args=False)
        super().__init__(base, AbsTransform(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.scale.new_full(self._extended_shape(), math.inf)

    variance = passed_on("base_dist.variance")

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        value = flambeau.as_tensor(value, dtype=self.scale.dtype, device=self.scale.device)
        return super().log_prob(value)


# -- of uniform numbers ----------------------------------------------------------------------------


class Gumbel(TransformedDistribution):
    """The largest of many numbers, in the limit: loc - scale log(-log u) for a uniform u.

    Args:
        loc: the mode.
        scale: the width.
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    _batched = {"loc": 0, "scale": 0}

    def __init__(
        self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None
    ) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        limits = flambeau.finfo(self.loc.dtype)
        low = flambeau.full_like(self.loc, limits.tiny)
        high = flambeau.full_like(self.loc, 1 - limits.eps)
        log, minus = ExpTransform().inv, AffineTransform(0, -flambeau.ones_like(self.scale))
        last = AffineTransform(loc, -self.scale)
        base = Uniform(low, high, validate_args=validate_args)
        super().__init__(base, [log, minus, ExpTransform().inv, last], validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.loc + self.scale * euler_constant

    mode = passed_on("loc")

    @property
    def stddev(self) -> Tensor:
        return math.pi / math.sqrt(6) * self.scale

    @property
    def variance(self) -> Tensor:
        return self.stddev.square()

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        y = (self.loc - value) / self.scale
        return y - y.exp() - self.scale.log()

    def entropy(self) -> Tensor:
        return self.scale.log() + (1 + euler_constant)


class Kumaraswamy(TransformedDistribution):
    """Much like a Beta distribution, with a simple cdf: 1 - (1 - x^concentration1)^concentration0.

    Args:
        concentration1: pulls towards 1.
        concentration0: pulls towards 0.
    """

    arg_constraints = {
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support = constraints.unit_interval
    has_rsample = True
    _batched = {"concentration1": 0, "concentration0": 0}

    def __init__(
        self,
        concentration1: Tensor | float,
        concentration0: Tensor | float,
        validate_args: bool | None = None,
    ) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        transforms = [
            PowerTransform(self.concentration0.reciprocal()),
            AffineTransform(1.0, -1.0),
            PowerTransform(self.concentration1.reciprocal()),
        ]
        zeros = flambeau.zeros_like(self.concentration0)
        base = Uniform(zeros, zeros + 1, validate_args=validate_args)
        super().__init__(base, transforms, validate_args=validate_args)

    def _moment(self, n):
        """The mean of x^n: b B(1 + n / a, b)."""
        first, b = 1 + n / self.concentration1, self.concentration0
        return b * (first.lgamma() + b.lgamma() - (first + b).lgamma()).exp()

    @property
    def mean(self) -> Tensor:
        return self._moment(1)

    @property
    def mode(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        log_mode = b.reciprocal() * (-b).log1p() - (-b * a).log1p()
        return log_mode.masked_fill((b < 1) | (a < 1), math.nan).exp()

    @property
    def variance(self) -> Tensor:
        return self._moment(2) - self.mean.square()

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        harmonic = (b + 1).digamma() + euler_constant
        return (1 - 1 / b) + (1 - 1 / a) * harmonic - a.log() - b.log()


# -- of exponential and gamma numbers --------------------------------------------------------------


class Weibull(TransformedDistribution):
    """A power of an exponential number: lifetimes.

    Args:
        scale: the factor.
        concentration: the shape; above 1, things age.
    """

    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive
    _batched = {"scale": 0, "concentration": 0, "concentration_reciprocal": 0}

    def __init__(
        self,
        scale: Tensor | float,
        concentration: Tensor | float,
        validate_args: bool | None = None,
    ) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        self.concentration_reciprocal = self.concentration.reciprocal()
        transforms = [PowerTransform(self.concentration_reciprocal), AffineTransform(0, self.scale)]
        base = Exponential(flambeau.ones_like(self.scale), validate_args=validate_args)
        super().__init__(base, transforms, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.scale * (1 + self.concentration_reciprocal).lgamma().exp()

    @property
    def mode(self) -> Tensor:
        k = self.concentration
        return self.scale * ((k - 1) / k) ** k.reciprocal()

    @property
    def variance(self) -> Tensor:
        r = self.concentration_reciprocal
        spread = (1 + 2 * r).lgamma().exp() - (2 * (1 + r).lgamma()).exp()
        return self.scale.square() * spread

    def entropy(self) -> Tensor:
        r = self.concentration_reciprocal
        return euler_constant * (1 - r) + (self.scale * r).log() + 1


class Pareto(TransformedDistribution):
    """Powers that fall off slowly: scale * exp of an exponential number.

    Args:
        scale: the smallest value.
        alpha: the shape; small for heavy tails.
    """

    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}
    _batched = {"scale": 0, "alpha": 0}

    def __init__(
        self, scale: Tensor | float, alpha: Tensor | float, validate_args: bool | None = None
    ) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        base = Exponential(self.alpha, validate_args=validate_args)
        transforms = [ExpTransform(), AffineTransform(0, self.scale)]
        super().__init__(base, transforms, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self):
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self) -> Tensor:
        """Infinite up to alpha = 1."""
        alpha = self.alpha.clamp(min=1)
        return self.scale * alpha / (alpha - 1)

    mode = passed_on("scale")

    @property
    def variance(self) -> Tensor:
        """Infinite up to alpha = 2."""
        a = self.alpha.clamp(min=2)
        return self.scale.square() * a / ((a - 1).square() * (a - 2))

    def entropy(self) -> Tensor:
        width = self.scale / self.alpha
        return width.log() + 1 + 1 / self.alpha


class InverseGamma(TransformedDistribution):
    """1 / x for a gamma distributed x.

    Args:
        concentration: the shape of the gamma distribution.
        rate: its rate.
    """

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive
    has_rsample = True
    _batched = {}

    def __init__(
        self,
        concentration: Tensor | float,
        rate: Tensor | float,
        validate_args: bool | None = None,
    ) -> None:
        base = Gamma(concentration, rate, validate_args=validate_args)
        minus_one = -flambeau.ones_like(base.rate)
        super().__init__(base, PowerTransform(minus_one), validate_args=validate_args)

    concentration = passed_on("base_dist.concentration")
    rate = passed_on("base_dist.rate")

    @property
    def mean(self) -> Tensor:
        """Infinite up to a concentration of 1."""
        a = self.concentration
        return flambeau.where(a > 1, self.rate / (a - 1), math.inf)

    @property
    def mode(self) -> Tensor:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        """Infinite up to a concentration of 2."""
        a = self.concentration
        finite = self.rate.square() / ((a - 1).square() * (a - 2))
        return flambeau.where(a > 2, finite, math.inf)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a + self.rate.log() + a.lgamma() - (1 + a) * a.digamma()


# -- tails -----------------------------------------------------------------------------------------


class GeneralizedPareto(Distribution):
    """What lies beyond a high threshold.

    Args:
        loc: the threshold.
        scale: the width.
        concentration: the shape; 0 is exponential, negative ones end somewhere.
    """

    arg_constraints = {
        "loc": constraints.real,
        "scale": constraints.positive,
        "concentration": constraints.real,
    }
    has_rsample = True
    _batched = {"loc": 0, "scale": 0, "concentration": 0}

    def __init__(
        self,
        loc: Tensor | float,
        scale: Tensor | float,
        concentration: Tensor | float,
        validate_args: bool | None = None,
    ) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.size(), validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self):
        end = self.loc - self.scale / self.concentration
        return constraints.interval(self.loc, flambeau.where(self.concentration < 0, end, math.inf))

    @property
    def mean(self) -> Tensor:
        """nan from a concentration of 1 on."""
        exists = self.concentration < 1
        c = flambeau.where(exists, self.concentration, 0.5)
        return flambeau.where(exists, self.loc + self.scale / (1 - c), math.nan)

    mode = passed_on("loc")

    @property
    def variance(self) -> Tensor:
        """nan from a concentration of 1/2 on."""
        exists = self.concentration < 0.5
        c = flambeau.where(exists, self.concentration, 0.25)
        variance = self.scale.square() / ((1 - c).square() * (1 - 2 * c))
        return flambeau.where(exists, variance, math.nan)

    def _is_exponential(self) -> tuple[Tensor, Tensor]:
        """Where the concentration is 0, and concentrations that one may divide by."""
        c = self.concentration
        is_zero = flambeau.isclose(c, flambeau.zeros_like(c))
        return is_zero, flambeau.where(is_zero, 1.0, c)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return self.icdf(flambeau.rand(shape, dtype=self.loc.dtype, device=self.loc.device))

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        z = (value - self.loc) / self.scale
        is_zero, c = self._is_exponential()
        power = 1 / c + flambeau.ones_like(z)
        fall = flambeau.where(power == 0, power, power * (c * z).log1p())
        return -self.scale.log() - flambeau.where(is_zero, z, fall)

    def log_survival_function(self, value: Tensor) -> Tensor:
        """log of the probability of more than value."""
        self._check(value)
        z = (value - self.loc) / self.scale
        is_zero, c = self._is_exponential()
        return flambeau.where(is_zero, -z, -(c * z).log1p() / c)

    def log_cdf(self, value: Tensor) -> Tensor:
        """log of `cdf`."""
        return (-self.log_survival_function(value).exp()).log1p()

    def cdf(self, value: Tensor) -> Tensor:
        return self.log_cdf(value).exp()

    def icdf(self, value: Tensor) -> Tensor:
        is_zero, c = self._is_exponential()
        log_left = (-value).log1p()
        tail = self.loc + self.scale / c * (-c * log_left).expm1()
        return flambeau.where(is_zero, self.loc - self.scale * log_left, tail)

    def entropy(self) -> Tensor:
        return self.scale.log() + self.concentration + 1
