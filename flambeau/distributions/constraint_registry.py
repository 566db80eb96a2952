"""From all real numbers into a set: which transform leads there.

`biject_to(constraint)` is one to one, for change of variables; `transform_to(constraint)` may be
easier on gradients and reach points in several ways, for optimisation.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from . import constraints, transforms

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]


class ConstraintRegistry:
    """Transforms by the class of the constraint that they lead to."""

    def __init__(self) -> None:
        self._registry: dict[type, Callable] = {}

    def register(self, constraint: Any, factory: Callable | None = None) -> Any:
        """Add a factory, a function of the constraint; without one this is a decorator."""
        if factory is None:
            return partial(self.register, constraint)
        kind = constraint if isinstance(constraint, type) else type(constraint)
        if constraints.Constraint not in kind.__mro__:
            raise TypeError(
                "Expected constraint to be either a Constraint subclass or instance, "
                f"but got {constraint}"
            )
        self._registry[kind] = factory
        return factory

    def __call__(self, constraint: constraints.Constraint) -> transforms.Transform:
        """The transform into the set of this constraint."""
        factory = self._registry.get(type(constraint))
        if factory is None:
            raise NotImplementedError(f"Cannot transform {type(constraint).__name__} constraints")
        return factory(constraint)


biject_to = ConstraintRegistry()
transform_to = ConstraintRegistry()


def _above(constraint):
    shift = transforms.AffineTransform(constraint.lower_bound, 1)
    return transforms.ComposeTransform([transforms.ExpTransform(), shift])


def _below(constraint):
    mirror = transforms.AffineTransform(constraint.upper_bound, -1)
    return transforms.ComposeTransform([transforms.ExpTransform(), mirror])


def _between(constraint):
    low, high = constraint.lower_bound, constraint.upper_bound
    if isinstance(low, (int, float)) and isinstance(high, (int, float)) and (low, high) == (0, 1):
        return transforms.SigmoidTransform()
    stretch = transforms.AffineTransform(low, high - low)
    return transforms.ComposeTransform([transforms.SigmoidTransform(), stretch])


for _registry in (biject_to, transform_to):
    for _constraint, _factory in (
        (constraints.real, lambda constraint: transforms.identity_transform),
        (constraints.greater_than, _above),
        (constraints.greater_than_eq, _above),
        (constraints.less_than, _below),
        (constraints.interval, _between),
        (constraints.half_open_interval, _between),
        (constraints.corr_cholesky, lambda constraint: transforms.CorrCholeskyTransform()),
    ):
        _registry.register(_constraint, _factory)

    # these ask the same registry for their parts
    @_registry.register(constraints.independent)
    def _independent(constraint, to=_registry):
        base = to(constraint.base_constraint)
        return transforms.IndependentTransform(base, constraint.reinterpreted_batch_ndims)

    @_registry.register(constraints.cat)
    def _cat(constraint, to=_registry):
        parts = [to(c) for c in constraint.cseq]
        return transforms.CatTransform(parts, constraint.dim, constraint.lengths)

    @_registry.register(constraints.stack)
    def _stack(constraint, to=_registry):
        return transforms.StackTransform([to(c) for c in constraint.cseq], constraint.dim)


biject_to.register(constraints.simplex, lambda constraint: transforms.StickBreakingTransform())
transform_to.register(constraints.simplex, lambda constraint: transforms.SoftmaxTransform())
transform_to.register(
    constraints.lower_cholesky, lambda constraint: transforms.LowerCholeskyTransform()
)
for _kind in (constraints.positive_definite, constraints.positive_semidefinite):
    transform_to.register(_kind, lambda constraint: transforms.PositiveDefiniteTransform())
