"""Sets of values: what parameters may be, and where samples lie.

A constraint tells for every event of a tensor whether it lies in the set: `check` drops the last
`event_dim` dimensions and gives booleans for the rest. Ready-made ones (`positive`, `simplex`) are
at the end; those with bounds (`interval(0, 5)`) are classes. How to reach a set from all real
numbers is in `constraint_registry`.
"""

from collections.abc import Callable, Sequence
from typing import Any

import flambeau
from flambeau import Tensor

__all__ = [
    "Constraint",
    "MixtureSameFamilyConstraint",
    "boolean",
    "cat",
    "corr_cholesky",
    "dependent",
    "dependent_property",
    "greater_than",
    "greater_than_eq",
    "half_open_interval",
    "independent",
    "integer_interval",
    "interval",
    "is_dependent",
    "less_than",
    "lower_cholesky",
    "lower_triangular",
    "multinomial",
    "nonnegative",
    "nonnegative_integer",
    "one_hot",
    "positive",
    "positive_definite",
    "positive_integer",
    "positive_semidefinite",
    "real",
    "real_vector",
    "simplex",
    "square",
    "stack",
    "symmetric",
    "unit_interval",
]


class Constraint:
    """A set of values, and a way to ask whether a tensor lies in it.

    Attributes:
        is_discrete: are the values whole numbers or the like?
        event_dim: how many dimensions on the right make up one value.
    """

    is_discrete: bool = False
    event_dim: int = 0

    def check(self, value: Tensor) -> Tensor:
        """One boolean for every event in value."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__[1:]}()"


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise AssertionError(message)


# -- sets that depend on other parameters ----------------------------------------------------------


class _Dependent(Constraint):
    """A set that is known only once the other parameters are."""

    def __init__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented):
        self._is_discrete, self._event_dim = is_discrete, event_dim

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        if self._is_discrete is NotImplemented:
            raise NotImplementedError(".is_discrete cannot be determined statically")
        return self._is_discrete

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        if self._event_dim is NotImplemented:
            raise NotImplementedError(".event_dim cannot be determined statically")
        return self._event_dim

    def __call__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented):
        return _Dependent(
            is_discrete=self._is_discrete if is_discrete is NotImplemented else is_discrete,
            event_dim=self._event_dim if event_dim is NotImplemented else event_dim,
        )

    def check(self, x):
        raise ValueError("Cannot determine validity of dependent constraint")


class _DependentProperty(property, _Dependent):
    """A property of distributions whose value is a constraint.

    On the class it stands for a dependent constraint, on an instance it gives the real one.
    """

    def __init__(
        self,
        fn: Callable[..., Any] | None = None,
        *,
        is_discrete: Any = NotImplemented,
        event_dim: Any = NotImplemented,
    ) -> None:
        super().__init__(fn)
        self._is_discrete, self._event_dim = is_discrete, event_dim

    def __call__(self, fn: Callable[..., Any]) -> "_DependentProperty":  # type: ignore[override]
        return _DependentProperty(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


def is_dependent(constraint: Any) -> bool:
    """Can this constraint only be checked with the distribution at hand?"""
    return isinstance(constraint, _Dependent)


# -- sets made of others ---------------------------------------------------------------------------


class _Wrapping(Constraint):
    """Checks values with another constraint."""

    def __init__(self, base_constraint: Constraint) -> None:
        kind = type(base_constraint).__name__
        _require(
            isinstance(base_constraint, Constraint),
            f"base_constraint must be a Constraint, got {kind}",
        )
        self.base_constraint = base_constraint

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        return self.base_constraint.is_discrete


class _IndependentConstraint(_Wrapping):
    """Events of more dimensions: a value is fine if all of its elements are."""

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        super().__init__(base_constraint)
        count = reinterpreted_batch_ndims
        kind = type(count).__name__
        _require(isinstance(count, int), f"reinterpreted_batch_ndims must be an int, got {kind}")
        _require(count >= 0, f"reinterpreted_batch_ndims must be >= 0, got {count}")
        self.reinterpreted_batch_ndims = count

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        return self.base_constraint.event_dim + self.reinterpreted_batch_ndims

    def check(self, value):
        fine = self.base_constraint.check(value)
        kept = fine.dim() - self.reinterpreted_batch_ndims
        if kept < 0:
            raise ValueError(f"Expected value.dim() >= {self.event_dim} but got {value.dim()}")
        return fine.reshape((*fine.shape[:kept], -1)).all(-1)

    def __repr__(self) -> str:
        name = type(self).__name__[1:]
        return f"{name}({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamilyConstraint(_Wrapping):
    """The support of a mixture: a value must suit every component."""

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        return self.base_constraint.event_dim

    def check(self, value):
        kept = value.dim() - self.event_dim
        fine = self.base_constraint.check(value.unsqueeze(-1 - self.event_dim))
        if kept < 0:
            raise ValueError(f"Expected value.dim() >= {self.event_dim} but got {value.dim()}")
        return fine.reshape((*fine.shape[:kept], -1)).all(-1)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_constraint!r})"


class _Sequence(Constraint):
    """Several constraints, each for its part of a tensor along one dimension."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0) -> None:
        self.cseq, self.dim = list(cseq), dim
        _require(
            all(isinstance(c, Constraint) for c in self.cseq),
            "All elements of cseq must be Constraint instances",
        )

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        return any(c.is_discrete for c in self.cseq)

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        return max(c.event_dim for c in self.cseq)

    def _check_dim(self, value):
        _require(
            -value.dim() <= self.dim < value.dim(),
            f"dim {self.dim} out of range for value with {value.dim()} dimensions",
        )


class _Cat(_Sequence):
    """Pieces of the given lengths, as `torch.cat` joins them."""

    def __init__(self, cseq, dim=0, lengths=None):
        super().__init__(cseq, dim)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        _require(
            len(self.lengths) == len(self.cseq),
            f"lengths ({len(self.lengths)}) must match cseq ({len(self.cseq)})",
        )

    def check(self, value):
        self._check_dim(value)
        starts = [sum(self.lengths[:i]) for i in range(len(self.lengths))]
        parts = zip(self.cseq, starts, self.lengths)
        checks = [c.check(value.narrow(self.dim, start, length)) for c, start, length in parts]
        return flambeau.cat(checks, self.dim)


class _Stack(_Sequence):
    """Slices, as `torch.stack` joins them."""

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        dim = max(c.event_dim for c in self.cseq)
        return dim + 1 if self.dim + dim < 0 else dim

    def check(self, value):
        self._check_dim(value)
        slices = value.unbind(self.dim)
        return flambeau.stack([c.check(v) for c, v in zip(self.cseq, slices)], self.dim)


# -- numbers ---------------------------------------------------------------------------------------


class _Bounded(Constraint):
    """Sets with bounds, which are their attributes."""

    def __repr__(self) -> str:
        bounds = ", ".join(f"{name}={value}" for name, value in vars(self).items())
        return f"{type(self).__name__[1:]}({bounds})"


class _From(_Bounded):
    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound


class _UpTo(_Bounded):
    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound


class _Between(_Bounded):
    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound


class _Real(Constraint):
    """All numbers, infinities too; nan is none."""

    def check(self, value):
        return value == value


class _GreaterThan(_From):
    """Numbers above lower_bound."""

    def check(self, value):
        return self.lower_bound < value


class _GreaterThanEq(_From):
    """lower_bound and numbers above it."""

    def check(self, value):
        return self.lower_bound <= value


class _LessThan(_UpTo):
    """Numbers below upper_bound."""

    def check(self, value):
        return value < self.upper_bound


class _Interval(_Between):
    """Numbers in [lower_bound, upper_bound]."""

    def check(self, value):
        return (self.lower_bound <= value) & (value <= self.upper_bound)


class _HalfOpenInterval(_Between):
    """Numbers in [lower_bound, upper_bound)."""

    def check(self, value):
        return (self.lower_bound <= value) & (value < self.upper_bound)


class _Boolean(Constraint):
    """0 and 1."""

    is_discrete = True

    def check(self, value):
        return (value == 0) | (value == 1)


class _IntegerInterval(_Between):
    """Whole numbers from lower_bound to upper_bound."""

    is_discrete = True

    def check(self, value):
        inside = (self.lower_bound <= value) & (value <= self.upper_bound)
        return (value % 1 == 0) & inside


class _IntegerLessThan(_UpTo):
    """Whole numbers up to upper_bound."""

    is_discrete = True

    def check(self, value):
        return (value % 1 == 0) & (value <= self.upper_bound)


class _IntegerGreaterThan(_From):
    """Whole numbers from lower_bound on."""

    is_discrete = True

    def check(self, value):
        return (value % 1 == 0) & (value >= self.lower_bound)


# -- vectors ---------------------------------------------------------------------------------------


class _Simplex(Constraint):
    """Probabilities: nothing negative, and a sum of 1."""

    event_dim = 1

    def check(self, value):
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _OneHot(Constraint):
    """A single 1 among zeros."""

    is_discrete = True
    event_dim = 1

    def check(self, value):
        return boolean.check(value).all(-1) & (value.sum(-1) == 1)


class _Multinomial(Constraint):
    """Counts, with a sum of at most upper_bound."""

    is_discrete = True
    event_dim = 1

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, x):
        return (x >= 0).all(-1) & (x.sum(-1) <= self.upper_bound)


# -- matrices --------------------------------------------------------------------------------------


class _LowerTriangular(Constraint):
    """Zeros above the diagonal."""

    event_dim = 2

    def check(self, value):
        return (value.tril() == value).flatten(-2).all(-1)


class _LowerCholesky(_LowerTriangular):
    """Lower triangular matrices with a positive diagonal."""

    def check(self, value):
        return super().check(value) & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


class _CorrCholesky(_LowerCholesky):
    """Cholesky factors of correlation matrices: rows have length 1."""

    def check(self, value):
        tolerance = 10 * value.size(-1) * flambeau.finfo(value.dtype).eps
        length = flambeau.linalg.norm(value.detach(), dim=-1)
        return super().check(value) & ((length - 1).abs() <= tolerance).all(-1)


class _Square(Constraint):
    """As many rows as columns."""

    event_dim = 2

    def check(self, value):
        rows, columns = value.shape[-2:]
        options = {"dtype": flambeau.bool, "device": value.device}
        return flambeau.full(value.shape[:-2], rows == columns, **options)


class _Symmetric(_Square):
    """Square matrices that equal their transpose, up to rounding."""

    def check(self, value):
        is_square = super().check(value)
        if not is_square.all():
            return is_square
        return flambeau.isclose(value, value.mT, atol=1e-6).all(-2).all(-1)


class _PositiveSemidefinite(_Symmetric):
    """Symmetric matrices without negative eigenvalues."""

    def check(self, value):
        is_symmetric = super().check(value)
        if not is_symmetric.all():
            return is_symmetric
        return (flambeau.linalg.eigvalsh(value) >= 0).all(-1)


class _PositiveDefinite(_Symmetric):
    """Symmetric matrices that have a Cholesky factor."""

    def check(self, value):
        is_symmetric = super().check(value)
        if not is_symmetric.all():
            return is_symmetric
        return flambeau.linalg.cholesky_ex(value).info == 0


# -- what users write ------------------------------------------------------------------------------

dependent = _Dependent()
dependent_property = _DependentProperty
independent = _IndependentConstraint
boolean = _Boolean()
one_hot = _OneHot()
nonnegative_integer = _IntegerGreaterThan(0)
positive_integer = _IntegerGreaterThan(1)
integer_interval = _IntegerInterval
real = _Real()
real_vector = independent(real, 1)
positive = _GreaterThan(0.0)
nonnegative = _GreaterThanEq(0.0)
greater_than = _GreaterThan
greater_than_eq = _GreaterThanEq
less_than = _LessThan
multinomial = _Multinomial
unit_interval = _Interval(0.0, 1.0)
interval = _Interval
half_open_interval = _HalfOpenInterval
simplex = _Simplex()
lower_triangular = _LowerTriangular()
lower_cholesky = _LowerCholesky()
corr_cholesky = _CorrCholesky()
square = _Square()
symmetric = _Symmetric()
positive_semidefinite = _PositiveSemidefinite()
positive_definite = _PositiveDefinite()
cat = _Cat
stack = _Stack
