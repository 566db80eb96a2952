"""A distribution of transformed values."""

from collections.abc import Sequence
from typing import Any, ClassVar

import flambeau
from flambeau import Size, Tensor

from . import constraints
from .composition import Independent
from .distribution import Distribution
from .transforms import ComposeTransform, Transform
from .utils import _sum_rightmost, passed_on

__all__ = ["TransformedDistribution"]


def _listed(transforms: Any) -> list[Transform]:
    if isinstance(transforms, list):
        if all(isinstance(t, Transform) for t in transforms):
            return transforms
        raise ValueError("transforms must be a Transform or a list of Transforms")
    if isinstance(transforms, Transform):
        return [transforms]
    raise ValueError(f"transforms must be a Transform or list, but was {transforms}")


class TransformedDistribution(Distribution):
    """What becomes of the values of a distribution under transforms.

    With y = t(x): log q(y) = log p(x) - log |det dy/dx|.

    Args:
        base_distribution: where x comes from.
        transforms: one transform, or a list, applied in order.
    """

    arg_constraints: Any = {}
    _batched: ClassVar[Any] = {}  # parameters beside those of the base

    def __init__(
        self,
        base_distribution: Distribution,
        transforms: Transform | list[Transform],
        validate_args: bool | None = None,
    ) -> None:
        self.transforms = _listed(transforms)

        # parameters of transforms may be larger than the batch: the base grows with them
        whole = ComposeTransform(self.transforms)
        into, out = whole.domain.event_dim, whole.codomain.event_dim
        base_shape = base_distribution.batch_shape + base_distribution.event_shape
        base_event_dim = len(base_distribution.event_shape)
        if len(base_shape) < into:
            raise ValueError(
                "base_distribution needs to have shape with size at least "
                f"{into}, but got {base_shape}."
            )
        shape = whole.forward_shape(base_shape)
        grown = whole.inverse_shape(shape)
        if grown != base_shape:
            base_distribution = base_distribution.expand(grown[: len(grown) - base_event_dim])
        if into > base_event_dim:
            base_distribution = Independent(base_distribution, into - base_event_dim)
        self.base_dist: Any = base_distribution
        cut = len(shape) - max(out, base_event_dim + out - into)
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        home = next(c for c in type(self).__mro__ if "_batched" in vars(c))
        new = self._get_checked_instance(home, _instance)
        batch, event = Size(batch_shape), self.event_shape
        vars(new).update({name: vars(self)[name].expand(batch) for name in self._batched})
        inside = ComposeTransform(self.transforms).inverse_shape(batch + event)
        inside = inside[: len(inside) - len(self.base_dist.event_shape)]
        new.base_dist, new.transforms = self.base_dist.expand(inside), self.transforms
        Distribution.__init__(new, batch, event, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @constraints.dependent_property(is_discrete=False)
    def support(self):
        reached = self.transforms[-1].codomain if self.transforms else self.base_dist.support
        missing = len(self.event_shape) - reached.event_dim if self.transforms else 0
        return constraints.independent(reached, missing) if missing > 0 else reached

    has_rsample = passed_on("base_dist.has_rsample")

    def _transformed(self, x: Tensor) -> Tensor:
        for transform in self.transforms:
            x = transform(x)
        return x

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with flambeau.no_grad():
            return self._transformed(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self._transformed(self.base_dist.rsample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        # dimensions on the right that belong to one event, but not to what a transform maps
        dims = len(self.event_shape)
        thinned: Any = 0
        for transform, x, y in self._undone(value):
            dims -= transform.codomain.event_dim
            stretch = transform.log_abs_det_jacobian(x, y)
            thinned = thinned - _sum_rightmost(stretch, dims)
            dims += transform.domain.event_dim
            value = x
        density = self.base_dist.log_prob(value)
        return thinned + _sum_rightmost(density, dims - len(self.base_dist.event_shape))

    def _undone(self, y):
        """Each transform with what it takes and gives, from the result back to the base."""
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            yield transform, x, y
            y = x

    def _follow_sign(self, probability):
        """Falling transforms exchange "up to" and "from": p becomes 1 - p."""
        sign = ComposeTransform(self.transforms).sign
        if isinstance(sign, int) and sign == 1:
            return probability
        return sign * (probability - 0.5) + 0.5

    def cdf(self, value: Tensor) -> Tensor:
        value = ComposeTransform(self.transforms).inv(value)
        if self._validate_args:
            self.base_dist._validate_sample(value)
        return self._follow_sign(self.base_dist.cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        return self._transformed(self.base_dist.icdf(self._follow_sign(value)))
