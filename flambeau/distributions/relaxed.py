"""Smooth stand-ins for discrete distributions, through which gradients flow.

RelaxedBernoulli and RelaxedOneHotCategorical come close to their discrete namesakes at low
temperatures (Maddison et al., 2017; Jang et al., 2017); ContinuousBernoulli is a proper likelihood
for values between 0 and 1 (Loaiza-Ganem and Cunningham, 2019).
"""

import math
from collections.abc import Sequence
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.nn import functional as F

from . import constraints
from .categorical import Categorical, _OverCategorical
from .counts import OddsDistribution
from .distribution import ExponentialFamily
from .transformed_distribution import TransformedDistribution
from .transforms import ExpTransform, SigmoidTransform
from .utils import (
    broadcast_all,
    clamp_probs,
    lazy_property,
    log_odds,
    logits_to_probs,
    passed_on,
    uniform_like,
)

__all__ = [
    "ContinuousBernoulli",
    "ExpRelaxedCategorical",
    "LogitRelaxedBernoulli",
    "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
]


class LogitRelaxedBernoulli(OddsDistribution):
    """The logit of a RelaxedBernoulli number.

    Args:
        temperature: a tensor; low ones are close to Bernoulli.
        probs: the probability of a 1.
        logits: its log odds; give one of the two.
    """

    support = constraints.real
    _batched = OddsDistribution._batched
    _shared = ("temperature",)

    def __init__(
        self,
        temperature: Tensor,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self.temperature = temperature
        self._set_odds(probs, logits)
        super().__init__(self._param.size(), validate_args=validate_args)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        drawn = uniform_like(self.probs, self._extended_shape(sample_shape))
        noise = log_odds(clamp_probs(drawn))  # of the logistic distribution
        return (noise + log_odds(clamp_probs(self.probs))) / self.temperature

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        t = self.temperature
        x = self.logits - t * value
        return t.log() + x - 2 * x.exp().log1p()


class _RelaxedOver(TransformedDistribution):
    """Parameters are those of the distribution underneath."""

    has_rsample = True

    temperature = passed_on("base_dist.temperature")
    logits = passed_on("base_dist.logits")
    probs = passed_on("base_dist.probs")


class RelaxedBernoulli(_RelaxedOver):
    """Numbers between 0 and 1, close to the ends at low temperatures.

    Args:
        temperature: a tensor; low ones are close to Bernoulli.
        probs: the probability of a 1.
        logits: its log odds; give one of the two.
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    _batched = {}

    def __init__(
        self,
        temperature: Tensor,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        base = LogitRelaxedBernoulli(temperature, probs, logits)
        super().__init__(base, SigmoidTransform(), validate_args=validate_args)


class ExpRelaxedCategorical(_OverCategorical):
    """The logarithm of a RelaxedOneHotCategorical vector.

    Args:
        temperature: a tensor; low ones are close to one-hot vectors.
        probs: probabilities or weights of the places.
        logits: their logarithms, up to a constant; give one of the two.
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.real_vector
    has_rsample = True
    _batched = {"_categorical": 0}
    _shared = ("temperature",)

    def __init__(
        self,
        temperature: Tensor,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self.temperature = temperature
        super().__init__(Categorical(probs, logits), validate_args)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        drawn = uniform_like(self.logits, self._extended_shape(sample_shape))
        gumbel = -(-clamp_probs(drawn).log()).log()
        return ((self.logits + gumbel) / self.temperature).log_softmax(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        t, k = self.temperature, self._categorical._num_events
        scores = (self.logits - t * value).log_softmax(-1)
        return scores.sum(-1) + (k - 1) * t.log() + math.lgamma(k)


class RelaxedOneHotCategorical(_RelaxedOver):
    """Vectors of probabilities, close to one-hot at low temperatures.

    Args:
        temperature: a tensor; low ones are close to one-hot vectors.
        probs: probabilities or weights of the places.
        logits: their logarithms, up to a constant; give one of the two.
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.simplex
    _batched = {}

    def __init__(
        self,
        temperature: Tensor,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)


class ContinuousBernoulli(OddsDistribution, ExponentialFamily):
    """Density probs^x (1 - probs)^(1 - x) on [0, 1], scaled.

    The scale is 0 / 0 at probs = 1/2, so around it a Taylor series takes over.

    Args:
        probs: the parameter; not the mean.
        logits: its log odds; give one of the two.
        lims: the range of probs where the series is used.
    """

    support = constraints.unit_interval
    has_rsample = True
    _batched = OddsDistribution._batched
    _shared = ("_lims",)
    _mean_carrier_measure = 0

    def __init__(
        self,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        self._set_odds(probs, logits)
        if probs is not None:
            if validate_args is not None and not constraints.unit_interval.check(self.probs).all():
                raise ValueError("The parameter probs has invalid values")
            self.probs = self._param = clamp_probs(self.probs)
        self._lims = lims
        super().__init__(self._param.size(), validate_args=validate_args)

    @lazy_property
    def probs(self) -> Tensor:
        return clamp_probs(logits_to_probs(self.logits, is_binary=True))

    def _by_region(self, formula: Any, near: Any) -> Tensor:
        """formula(p), or near(p - 1/2) where p is close to 1/2."""
        low, high = self._lims
        p = self.probs
        far = (p <= low) | (p > high)
        # where the series is used the formula gets a harmless number, for the gradient's sake
        return flambeau.where(far, formula(flambeau.where(far, p, low)), near(p - 0.5))

    def _cont_bern_log_norm(self) -> Tensor:
        def formula(p):
            below, above = flambeau.where(p <= 0.5, p, 0.0), flambeau.where(p >= 0.5, p, 1.0)
            span = flambeau.where(p <= 0.5, (-2 * below).log1p(), (2 * above - 1).log())
            return ((-p).log1p() - p.log()).abs().log() - span

        def near(x):
            x = x.square()
            return math.log(2) + (4 / 3 + 104 / 45 * x) * x

        return self._by_region(formula, near)

    @property
    def mean(self) -> Tensor:
        return self._by_region(
            lambda p: p / (2 * p - 1) + 1 / ((-p).log1p() - p.log()),
            lambda x: 0.5 + (1 / 3 + 16 / 45 * x.square()) * x,
        )

    @property
    def variance(self) -> Tensor:
        def near(x):
            x = x.square()
            return 1 / 12 - (1 / 15 - 128 / 945 * x) * x

        return self._by_region(
            lambda p: p * (p - 1) / (1 - 2 * p).square() + ((-p).log1p() - p.log()).pow(-2), near
        )

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return self.icdf(flambeau.rand(shape, dtype=self.probs.dtype, device=self.probs.device))

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        logits, value = broadcast_all(self.logits, value)
        bernoulli = -F.binary_cross_entropy_with_logits(logits, value, reduction="none")
        return bernoulli + self._cont_bern_log_norm()

    def cdf(self, value: Tensor) -> Tensor:
        self._check(value)
        inside = self._by_region(
            lambda p: (p.pow(value) * (1 - p).pow(1 - value) + p - 1) / (2 * p - 1),
            lambda x: value,
        )
        return flambeau.where(value <= 0, 0.0, flambeau.where(value >= 1, 1.0, inside))

    def icdf(self, value: Tensor) -> Tensor:
        def formula(p):
            total = (-p + value * (2 * p - 1)).log1p() - (-p).log1p()
            return total / (p.log() - (-p).log1p())

        return self._by_region(formula, lambda x: value)

    def entropy(self) -> Tensor:
        log0, log1 = (-self.probs).log1p(), self.probs.log()
        return self.mean * (log0 - log1) - self._cont_bern_log_norm() - log0

    @property
    def _natural_params(self):
        return (self.logits,)

    def _log_normalizer(self, x):
        low, high = self._lims[0] - 0.5, self._lims[1] - 0.5
        far = (x <= low) | (x > high)
        safe = flambeau.where(far, x, low)
        series = 0.5 * x + x.square() / 24 - x.pow(4) / 2880
        return flambeau.where(far, safe.expm1().abs().log() - safe.abs().log(), series)
