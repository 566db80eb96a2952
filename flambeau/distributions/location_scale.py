"""What a place and a width describe: Uniform, Normal, Laplace, Cauchy, VonMises on the circle."""

import math
from collections.abc import Sequence
from functools import reduce

import flambeau
from flambeau import Tensor

from . import constraints
from .distribution import Distribution, ExponentialFamily
from .utils import _standard_normal, broadcast_all, lazy_property, passed_on, uniform_like

__all__ = ["Cauchy", "Laplace", "Normal", "Uniform", "VonMises"]


class Uniform(Distribution):
    """All numbers of [low, high) are equally likely.

    Args:
        low: where the interval begins.
        high: where it ends.
    """

    has_rsample = True
    _batched = {"low": 0, "high": 0}

    def __init__(
        self, low: Tensor | float, high: Tensor | float, validate_args: bool | None = None
    ) -> None:
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.size(), validate_args=validate_args)

    @property
    def arg_constraints(self) -> dict[str, constraints.Constraint]:
        below, above = constraints.less_than(self.high), constraints.greater_than(self.low)
        return {"low": below, "high": above}

    @property
    def _width(self) -> Tensor:
        return self.high - self.low

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self):
        return constraints.interval(self.low, self.high)

    @property
    def mean(self) -> Tensor:
        return (self.high + self.low) / 2

    @property
    def mode(self) -> Tensor:
        """nan: no value is likelier than others."""
        return math.nan * self.high

    @property
    def stddev(self) -> Tensor:
        return self._width / 12**0.5

    @property
    def variance(self) -> Tensor:
        return self._width.square() / 12

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        drawn = uniform_like(self.low, self._extended_shape(sample_shape))
        return self.low + drawn * self._width

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        inside = (self.low <= value) & (value < self.high)
        return inside.type_as(self.low).log() - self.entropy()

    def cdf(self, value: Tensor) -> Tensor:
        self._check(value)
        return ((value - self.low) / (self.high - self.low)).clamp(min=0, max=1)

    def icdf(self, value: Tensor) -> Tensor:
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Tensor:
        return (self.high - self.low).log()


class _LocationScale(Distribution):
    """loc + scale * something that has no parameters."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    _batched = {"loc": 0, "scale": 0}
    loc: Tensor
    scale: Tensor

    def _set(self, loc, scale, validate_args):
        self.loc, self.scale = broadcast_all(loc, scale)
        Distribution.__init__(self, self.loc.size(), validate_args=validate_args)

    mode = passed_on("loc")


class Normal(_LocationScale, ExponentialFamily):
    """The normal distribution.

    Args:
        loc: the mean.
        scale: the standard deviation.

    Example:
        >>> Normal(0.0, 1.0).log_prob(torch.tensor(0.0))
        tensor(-0.9189)
    """

    _batched = {"loc": 0, "scale": 0}
    _mean_carrier_measure = 0

    def __init__(
        self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None
    ) -> None:
        self._set(loc, scale, validate_args)

    mean = passed_on("loc")
    stddev = passed_on("scale")

    @property
    def variance(self) -> Tensor:
        return self.scale.square()

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        loc, scale = self.loc.expand(shape), self.scale.expand(shape)
        with flambeau.no_grad():
            return flambeau.normal(loc, scale)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return self.loc + _standard_normal(shape, self.loc.dtype, self.loc.device) * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        squares = (value - self.loc).square() / (2 * self.scale.square())
        return -squares - self.scale.log() - math.log(math.sqrt(2 * math.pi))

    def cdf(self, value: Tensor) -> Tensor:
        self._check(value)
        return 0.5 * (1 + ((value - self.loc) * self.scale.reciprocal() / math.sqrt(2)).erf())

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc + self.scale * (2 * value - 1).erfinv() * math.sqrt(2)

    def entropy(self) -> Tensor:
        return self.scale.log() + (1 + math.log(2 * math.pi)) / 2

    @property
    def _natural_params(self):
        precision = self.scale.square().reciprocal()
        return (self.loc * precision, -0.5 * precision)

    def _log_normalizer(self, x, y):
        return -0.25 * x.square() / y + 0.5 * (-math.pi / y).log()


class Laplace(_LocationScale):
    """Falls off exponentially on both sides of loc.

    Args:
        loc: the mean.
        scale: the mean distance from it.
    """

    _batched = {"loc": 0, "scale": 0}

    def __init__(
        self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None
    ) -> None:
        self._set(loc, scale, validate_args)

    mean = passed_on("loc")

    @property
    def stddev(self) -> Tensor:
        return 2**0.5 * self.scale

    @property
    def variance(self) -> Tensor:
        return 2 * self.scale.square()

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        # never -1, whose logarithm below would be infinite
        u = self.loc.new_empty(shape).uniform_(flambeau.finfo(self.loc.dtype).eps - 1, 1)
        return self.loc - self.scale * u.sign() * (-u.abs()).log1p()

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        return -(2 * self.scale).log() - (value - self.loc).abs() / self.scale

    def cdf(self, value: Tensor) -> Tensor:
        self._check(value)
        distance = value - self.loc
        return 0.5 - 0.5 * distance.sign() * (-distance.abs() / self.scale).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        side = value - 0.5
        return self.loc - self.scale * side.sign() * (-2 * side.abs()).log1p()

    def entropy(self) -> Tensor:
        return 1 + (2 * self.scale).log()


class Cauchy(_LocationScale):
    """The ratio of two normal numbers: so wide that it has no mean.

    Args:
        loc: the median.
        scale: half the width at half the height.
    """

    _batched = {"loc": 0, "scale": 0}

    def __init__(
        self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None
    ) -> None:
        self._set(loc, scale, validate_args)

    @property
    def mean(self) -> Tensor:
        return self.loc.new_full(self._extended_shape(), math.nan)

    @property
    def variance(self) -> Tensor:
        return self.loc.new_full(self._extended_shape(), math.inf)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        eps = self.loc.new_empty(self._extended_shape(sample_shape)).cauchy_()
        return self.loc + eps * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        squares = ((value - self.loc) / self.scale).square()
        return -math.log(math.pi) - self.scale.log() - squares.log1p()

    def cdf(self, value: Tensor) -> Tensor:
        self._check(value)
        return ((value - self.loc) / self.scale).atan() / math.pi + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        return (math.pi * (value - 0.5)).tan() * self.scale + self.loc

    def entropy(self) -> Tensor:
        return self.scale.log() + math.log(4 * math.pi)


# -- on the circle ---------------------------------------------------------------------------------

# log I0 and log I1: polynomials of Abramowitz and Stegun, 9.8.1 to 9.8.4, the first one of each
# order in (x / 3.75)^2 for x up to 3.75, the second one in 3.75 / x beyond
_BESSEL = {
    0: ((1.0, 3.5156229, 3.0899424, 1.2067492, 0.2659732, 0.0360768, 0.0045813),
        (0.39894228, 0.01328592, 0.00225319, -0.00157565, 0.00916281,
         -0.02057706, 0.02635537, -0.01647633, 0.00392377)),
    1: ((0.5, 0.87890594, 0.51498869, 0.15084934, 0.02658733, 0.00301532, 0.00032411),
        (0.39894228, -0.03988024, -0.00362018, 0.00163801, -0.01031555,
         0.02282967, -0.02895312, 0.01787654, -0.00420059)),
}  # fmt: skip


def _log_bessel(x, order):
    near, far = (
        reduce(lambda result, c: c + t * result, reversed(coefficients))
        for coefficients, t in zip(_BESSEL[order], ((x / 3.75).square(), 3.75 / x))
    )
    near = x.abs() * near if order else near
    return flambeau.where(x < 3.75, near.log(), x - 0.5 * x.log() + far.log())


class VonMises(Distribution):
    """The normal distribution of angles.

    Args:
        loc: an angle in radians.
        concentration: large for a narrow distribution.
    """

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real
    has_rsample = False
    _batched = {"loc": 0, "concentration": 0}

    def __init__(
        self, loc: Tensor, concentration: Tensor, validate_args: bool | None = None
    ) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The mean angle."""
        return self.loc

    mode = passed_on("loc")

    @lazy_property
    def variance(self) -> Tensor:
        """The circular variance, 1 - I1 / I0."""
        k = self.concentration
        return 1 - (_log_bessel(k, 1) - _log_bessel(k, 0)).exp()

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        height = self.concentration * (value - self.loc).cos()
        return height - math.log(2 * math.pi) - _log_bessel(self.concentration, 0)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Best and Fisher's rejection from a wrapped Cauchy distribution (1979), in double."""
        shape = self._extended_shape(sample_shape)
        with flambeau.no_grad():
            loc, k = self.loc.double(), self.concentration.double()
            r = _envelope(k)
            angle, done = loc.new_zeros(shape), loc.new_zeros(shape, dtype=flambeau.bool)
            while not done.all():
                tried, accepted = _try_angles(k, r, shape)
                # as in PyTorch, later draws replace accepted ones until all were accepted once
                angle = flambeau.where(accepted, tried, angle)
                done |= accepted
            return ((angle + math.pi + loc) % (2 * math.pi) - math.pi).to(self.loc.dtype)


def _envelope(k):
    """Best and Fisher's r: how wide the Cauchy distribution must be for a concentration."""
    tau = 1 + (1 + 4 * k.square()).sqrt()
    rho = (tau - (2 * tau).sqrt()) / (2 * k)
    return flambeau.where(k < 1e-5, 1 / k + k, (1 + rho.square()) / (2 * rho))


def _try_angles(k, r, shape):
    """Angles from the envelope, and which of them to accept."""
    angle, height, side = flambeau.rand((3, *shape), dtype=k.dtype, device=k.device)
    z = (math.pi * angle).cos()
    f = (1 + r * z) / (r + z)
    c = k * (r - f)
    at_once, after_all = c * (2 - c) - height > 0, (c / height).log() + 1 - c >= 0
    return (side - 0.5).sign() * f.acos(), at_once | after_all
