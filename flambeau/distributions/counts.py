"""Successes and events counted: Bernoulli, Binomial, Geometric, NegativeBinomial, Poisson.

The chance of one success is given as a probability (`probs`) or as its log odds (`logits`);
whichever was not given is computed when asked for (`ChanceDistribution`).
"""

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import flambeau
from flambeau import Tensor
from flambeau.nn import functional as F

from . import constraints
from .distribution import Distribution, ExponentialFamily
from .gammas import Gamma
from .utils import broadcast_all, lazy_property, logits_to_probs, passed_on, probs_to_logits

__all__ = ["Bernoulli", "Binomial", "Geometric", "NegativeBinomial", "Poisson"]


class ChanceDistribution(Distribution):
    """What has either probs or logits for its parameter; the other one follows when asked for."""

    _is_binary: ClassVar[bool]  # one event that happens or not, or a choice along the last dim
    _param: Tensor

    @lazy_property
    def logits(self) -> Tensor:
        return probs_to_logits(self.probs, self._is_binary)

    @lazy_property
    def probs(self) -> Tensor:
        return logits_to_probs(self.logits, self._is_binary)

    param_shape = passed_on("_param.shape")

    def _new(self, *args, **kwargs):
        return self._param.new(*args, **kwargs)


def the_chance_given(probs: Any, logits: Any) -> tuple[str, Any]:
    """The one of the two parameters that is not None, after its name."""
    given = [(name, x) for name, x in (("probs", probs), ("logits", logits)) if x is not None]
    if len(given) != 1:
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")
    return given[0]


class OddsDistribution(ChanceDistribution):
    """The part about probs and logits of one event that happens or not."""

    arg_constraints: Any = {"probs": constraints.unit_interval, "logits": constraints.real}
    _batched = {"probs": 0, "logits": 0, "_param": 0}
    _is_binary = True

    def _set_odds(self, probs: Any, logits: Any, *others: Any) -> list[Tensor]:
        """Keep the parameter that was given; broadcast others with it, and return them."""
        name, given = the_chance_given(probs, logits)
        *rest, value = broadcast_all(*others, given)
        self.__dict__[name] = self._param = value
        return rest

    def _numbers_below(self, count: int, expand: bool) -> Tensor:
        given = self._param
        values = flambeau.arange(count, dtype=given.dtype, device=given.device)
        return self._along_batch(values, expand)


class Bernoulli(OddsDistribution, ExponentialFamily):
    """1 with probability probs, else 0.

    Args:
        probs: the probability of a 1.
        logits: its log odds; give one of the two.

    Example:
        >>> Bernoulli(0.25).variance
        tensor(0.1875)
    """

    support = constraints.boolean
    has_enumerate_support = True
    _batched = OddsDistribution._batched
    _mean_carrier_measure = 0

    def __init__(
        self,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._set_odds(probs, logits)
        super().__init__(self._param.size(), validate_args=validate_args)

    mean = passed_on("probs")

    @property
    def mode(self) -> Tensor:
        """nan where both values are equally likely."""
        likelier = (self.probs >= 0.5).to(self.probs)
        return flambeau.where(self.probs == 0.5, math.nan, likelier)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with flambeau.no_grad():
            return flambeau.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        logits, value = broadcast_all(self.logits, value)
        return -F.binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self) -> Tensor:
        return F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._numbers_below(2, expand)

    @property
    def _natural_params(self):
        return (flambeau.logit(self.probs),)

    def _log_normalizer(self, x):
        return x.exp().log1p()


class Binomial(OddsDistribution):
    """How many of total_count trials succeed.

    Args:
        total_count: the number of trials.
        probs: the probability of a success.
        logits: its log odds; give one of the two.
    """

    arg_constraints = {
        "total_count": constraints.nonnegative_integer,
        **OddsDistribution.arg_constraints,
    }
    has_enumerate_support = True
    _batched = {"total_count": 0, **OddsDistribution._batched}

    def __init__(
        self,
        total_count: Tensor | int = 1,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        (count,) = self._set_odds(probs, logits, total_count)
        self.total_count = count.type_as(self._param)
        super().__init__(self._param.size(), validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self):
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        n = self.total_count
        return (self.probs * (n + 1)).floor().clamp(max=n)

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with flambeau.no_grad():
            return flambeau.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        n, logits = self.total_count, self.logits
        # log(1 + e^logits) without overflow; the maximum with 0 has the slope 1/2 at 0
        positive_part = (logits.clamp(min=0) + logits - logits.clamp(max=0)) / 2
        log_failure = positive_part + (-logits.abs()).exp().log1p()
        orders = (n + 1).lgamma() - (value + 1).lgamma() - (n - value + 1).lgamma()
        return value * logits + orders - n * log_failure

    def _common_count(self, method: str) -> int:
        count = int(self.total_count.max())
        if self.total_count.min() != count:
            raise NotImplementedError(f"Inhomogeneous total count not supported by `{method}`.")
        return count

    def entropy(self) -> Tensor:
        self._common_count("entropy")
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(log_prob.exp() * log_prob).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._numbers_below(1 + self._common_count("enumerate_support"), expand)


class Geometric(OddsDistribution):
    """How many trials fail before the first success.

    Args:
        probs: the probability of a success, above 0.
        logits: its log odds; give one of the two.
    """

    support = constraints.nonnegative_integer
    _batched = {"probs": 0, "logits": 0, "_param": 0}

    def __init__(
        self,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._set_odds(probs, logits)
        super().__init__(self._param.size(), validate_args=validate_args)
        if self._validate_args and probs is not None and not (self.probs > 0).all():
            invalid = self.probs.detach()[~(self.probs > 0)]
            raise ValueError(
                "Expected parameter probs "
                f"({type(self.probs).__name__} of shape {tuple(self.probs.shape)}) "
                f"of distribution {self!r} "
                f"to be positive but found invalid values:\n{invalid}"
            )

    @property
    def mean(self) -> Tensor:
        return 1 / self.probs - 1

    @property
    def mode(self) -> Tensor:
        return flambeau.zeros_like(self.probs)

    @property
    def variance(self) -> Tensor:
        return (1 / self.probs - 1) / self.probs

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        least = flambeau.finfo(self.probs.dtype).tiny
        with flambeau.no_grad():
            failing = (-self.probs).log1p()  # log of the chance that a trial fails
            drawn = failing.new_empty(self._extended_shape(sample_shape)).uniform_(least, 1)
            return (drawn.log() / failing).floor()

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        value, probs = broadcast_all(value, self.probs)
        # a sure success at once: 0 * log(0) = 0
        failing = probs.masked_fill(probs.eq(1) & value.eq(0), 0.0)
        return value * (-failing).log1p() + self.probs.log()

    def entropy(self) -> Tensor:
        one = F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")
        return one / self.probs


class NegativeBinomial(OddsDistribution):
    """How many trials succeed before total_count of them have failed.

    Args:
        total_count: the number of failures at which to stop; it need not be whole.
        probs: the probability of a success, below 1.
        logits: its log odds; give one of the two.
    """

    arg_constraints = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer
    _batched = {"total_count": 0, **OddsDistribution._batched}

    def __init__(
        self,
        total_count: Tensor | float,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        (count,) = self._set_odds(probs, logits, total_count)
        self.total_count = count.type_as(self._param)
        super().__init__(self._param.size(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.logits.exp() * self.total_count

    @property
    def mode(self) -> Tensor:
        odds = self.logits.exp()
        return (odds * (self.total_count - 1)).floor().clamp(min=0)

    @property
    def variance(self) -> Tensor:
        return self.mean / (-self.logits).sigmoid()

    @lazy_property
    def _gamma(self) -> Gamma:
        return Gamma(self.total_count, (-self.logits).exp(), validate_args=False)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with flambeau.no_grad():  # a Poisson distribution whose rate is gamma distributed
            return flambeau.poisson(self._gamma.sample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        n = self.total_count
        orders = (n + value).lgamma() - (1 + value).lgamma() - n.lgamma()
        orders = orders.masked_fill(n + value == 0, 0.0)
        return n * F.logsigmoid(-self.logits) + value * F.logsigmoid(self.logits) + orders


class Poisson(ExponentialFamily):
    """How many events happen, if rate of them are expected.

    Args:
        rate: the mean.
    """

    arg_constraints = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer
    _batched = {"rate": 0}

    def __init__(self, rate: Tensor | float, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.size(), validate_args=validate_args)

    mean = passed_on("rate")

    @property
    def mode(self) -> Tensor:
        return self.rate.floor()

    variance = passed_on("rate")

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with flambeau.no_grad():
            return flambeau.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        value = flambeau.as_tensor(value)
        return value.xlogy(self.rate) - self.rate - (value + 1).lgamma()

    @property
    def _natural_params(self):
        return (self.rate.log(),)

    def _log_normalizer(self, x):
        return x.exp()
