"""Distributions made of others: batches read as events, and mixtures."""

from collections.abc import Sequence
from typing import Generic, TypeVar

import flambeau
from flambeau import Size, Tensor

from . import constraints
from .categorical import Categorical
from .distribution import Distribution
from .utils import _sum_rightmost, passed_on

__all__ = ["Independent", "MixtureSameFamily"]


D = TypeVar("D", bound=Distribution)


class Independent(Distribution, Generic[D]):
    """Reads the last batch dimensions of a distribution as dimensions of its events.

    Args:
        base_distribution: the distribution of the parts.
        reinterpreted_batch_ndims: how many dimensions become part of the event.
    """

    arg_constraints: dict[str, constraints.Constraint] = {}
    _shared = ("reinterpreted_batch_ndims",)

    def __init__(
        self,
        base_distribution: D,
        reinterpreted_batch_ndims: int,
        validate_args: bool | None = None,
    ) -> None:
        available = len(base_distribution.batch_shape)
        if reinterpreted_batch_ndims > available:
            raise ValueError(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), "
                f"actual {reinterpreted_batch_ndims} vs {available}"
            )
        shape = base_distribution.batch_shape + base_distribution.event_shape
        cut = available - reinterpreted_batch_ndims
        self.base_dist = base_distribution
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    @property
    def _batched(self):
        return {"base_dist": self.reinterpreted_batch_ndims}

    has_rsample = passed_on("base_dist.has_rsample")

    @property
    def has_enumerate_support(self) -> bool:  # type: ignore[override]
        return self.reinterpreted_batch_ndims <= 0 and self.base_dist.has_enumerate_support

    @constraints.dependent_property
    def support(self):
        inner = self.base_dist.support
        count = self.reinterpreted_batch_ndims
        return constraints.independent(inner, count) if count else inner

    mean = passed_on("base_dist.mean")
    mode = passed_on("base_dist.mode")
    variance = passed_on("base_dist.variance")

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        return _sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        return _sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError("Enumeration over cartesian product is not implemented")
        return self.base_dist.enumerate_support(expand=expand)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_dist}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamily(Distribution):
    """A mixture: first a component is drawn, then a value from it.

    Args:
        mixture_distribution: a Categorical with the weights of the components.
        component_distribution: the components, along its last batch dimension.
    """

    arg_constraints: dict[str, constraints.Constraint] = {}
    has_rsample = False
    _batched = {"_component_distribution": 1, "_mixture_distribution": 0}
    _shared = ("_num_component", "_event_ndims")

    def __init__(
        self,
        mixture_distribution: Categorical,
        component_distribution: Distribution,
        validate_args: bool | None = None,
    ) -> None:
        self._mixture_distribution = mixture_distribution
        self._component_distribution = component_distribution
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(
                " The Mixture distribution needs to be an "
                " instance of torch.distributions.Categorical"
            )
        if not isinstance(component_distribution, Distribution):
            raise ValueError(
                "The Component distribution needs to be an "
                "instance of torch.distributions.Distribution"
            )
        weights = mixture_distribution.batch_shape
        batch_shape = component_distribution.batch_shape[:-1]
        if any(m != 1 and n != 1 and m != n for m, n in zip(weights[::-1], batch_shape[::-1])):
            raise ValueError(
                f"`mixture_distribution.batch_shape` ({weights}) is not compatible with "
                f"`component_distribution.batch_shape`({batch_shape})"
            )
        count = mixture_distribution.logits.shape[-1]
        if count != component_distribution.batch_shape[-1]:
            raise ValueError(
                f"`mixture_distribution component` ({count}) does not equal "
                "`component_distribution.batch_shape[-1]` "
                f"({component_distribution.batch_shape[-1]})"
            )
        self._num_component = count
        event_shape = component_distribution.event_shape
        self._event_ndims = len(event_shape)
        super().__init__(batch_shape, event_shape, validate_args=validate_args)

    @constraints.dependent_property
    def support(self):
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    mixture_distribution = passed_on("_mixture_distribution")
    component_distribution = passed_on("_component_distribution")

    def _over_components(self, value):
        """The mean over the components, each with its weight."""
        probs = self.mixture_distribution.probs
        weights_batch = len(self.mixture_distribution.batch_shape)
        # weights without a batch of their own apply to every event of the batch
        missing = 0 if weights_batch == 1 else len(self.batch_shape) - weights_batch
        ones = (1,) * missing, (1,) * self._event_ndims
        weights = probs.reshape((*probs.shape[:-1], *ones[0], probs.shape[-1], *ones[1]))
        return (weights * value).sum(-1 - self._event_ndims)

    def _pad(self, x):
        return x.unsqueeze(-1 - self._event_ndims)

    @property
    def mean(self) -> Tensor:
        return self._over_components(self.component_distribution.mean)

    @property
    def variance(self) -> Tensor:
        parts = self.component_distribution
        within = self._over_components(parts.variance)
        between = self._over_components((parts.mean - self._pad(self.mean)).square())
        return within + between

    def cdf(self, x: Tensor) -> Tensor:
        return (
            self.component_distribution.cdf(self._pad(x)) * self.mixture_distribution.probs
        ).sum(-1)

    def log_prob(self, x: Tensor) -> Tensor:
        self._check(x)
        log_weights = self.mixture_distribution.logits.log_softmax(-1)
        return (self.component_distribution.log_prob(self._pad(x)) + log_weights).logsumexp(-1)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with flambeau.no_grad():
            dim = len(sample_shape) + len(self.batch_shape)
            chosen = self.mixture_distribution.sample(sample_shape)
            drawn = self.component_distribution.sample(sample_shape)
            index = chosen.reshape(chosen.shape + (1,) * (1 + self._event_ndims))
            index = index.expand(chosen.shape + Size((1,)) + self.event_shape)
            return drawn.gather(dim, index).squeeze(dim)

    def __repr__(self) -> str:
        return (
            f"MixtureSameFamily(\n  {self.mixture_distribution},\n  {self.component_distribution})"
        )
