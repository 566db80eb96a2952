"""Sets of values: what parameters may be, and where samples lie.

A constraint tells for every event of a tensor whether it lies in the set: `check` drops the last
`event_dim` dimensions and gives booleans for the rest. Ready-made ones (`simplex`) are described by
their condition alone (`_set`), those with bounds (`interval(0, 5)`) by how a value must compare
with each bound (`_numbers`). How to reach a set from all real numbers is in `constraint_registry`.
"""

import operator
from collections.abc import Callable, Sequence
from functools import reduce
from itertools import accumulate
from typing import Any, ClassVar, TypeVar

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


Kind = TypeVar("Kind", bound=type)


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


def _called(name: str) -> Callable[[Kind], Kind]:
    """Give a class the name that messages and pickles of PyTorch know it by."""

    def rename(kind: Kind) -> Kind:
        kind.__name__ = kind.__qualname__ = name
        globals()[name] = kind
        return kind

    return rename


def _set(name: str, condition: Callable[[Any], Any], **attributes: Any) -> Constraint:
    """The set of all values that meet a condition."""
    attributes |= {"check": lambda self, value: condition(value), "__module__": __name__}
    return _called(name)(type(name, (Constraint,), attributes))()


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise AssertionError(message)


# -- sets that depend on other parameters ----------------------------------------------------------


class _IfKnown:
    """An attribute of a set that is not known yet: there if it was told in advance."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self
        if self.name in instance._known:
            return instance._known[self.name]
        raise NotImplementedError(f".{self.name} cannot be determined statically")


class _Dependent(Constraint):
    """A set that is known only once the other parameters are."""

    is_discrete: Any = _IfKnown()
    event_dim: Any = _IfKnown()

    def __init__(
        self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented
    ) -> None:
        told = {"is_discrete": is_discrete, "event_dim": event_dim}
        self._known = {name: x for name, x in told.items() if x is not NotImplemented}

    def __call__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented):
        more = _Dependent(is_discrete=is_discrete, event_dim=event_dim)
        more._known = self._known | more._known
        return more

    def check(self, x):
        raise ValueError("Cannot determine validity of dependent constraint")


dependent = _Dependent()


@_called("_DependentProperty")
class dependent_property(property, _Dependent):
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
        property.__init__(self, fn)
        _Dependent.__init__(self, is_discrete=is_discrete, event_dim=event_dim)

    def __call__(self, fn: Callable[..., Any]) -> "dependent_property":  # type: ignore[override]
        return dependent_property(fn, **self._known)


def is_dependent(constraint: Any) -> bool:
    """Can this constraint only be checked with the distribution at hand?"""
    return isinstance(constraint, _Dependent)


# -- numbers ---------------------------------------------------------------------------------------


class _Bounded(Constraint):
    """Numbers that compare in the right way with each bound; bounds are attributes."""

    compare: ClassVar[list[tuple[str, Callable[[Any, Any], Any]]]]

    def check(self, value):
        fine = value % 1 == 0 if self.is_discrete else None
        for bound, test in self.compare:
            answer = test(value, getattr(self, bound))
            fine = answer if fine is None else fine & answer
        return fine

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


def _numbers(name: str, shape: str, whole: bool = False) -> Any:
    """The class of intervals of a shape: "[)" holds its lower bound and not its upper one."""
    lower = {"[": operator.ge, "(": operator.gt}.get(shape[0])
    upper = {"]": operator.le, ")": operator.lt}.get(shape[1])
    base = _UpTo if lower is None else _From if upper is None else _Between
    bounds = {"lower_bound": lower, "upper_bound": upper}
    compare = [(bound, test) for bound, test in bounds.items() if test is not None]
    attributes = {"compare": compare, "is_discrete": whole, "__module__": __name__}
    return _called(name)(type(name, (base,), attributes))


greater_than = _numbers("_GreaterThan", "( ")
greater_than_eq = _numbers("_GreaterThanEq", "[ ")
less_than = _numbers("_LessThan", " )")
interval = _numbers("_Interval", "[]")
half_open_interval = _numbers("_HalfOpenInterval", "[)")
integer_interval = _numbers("_IntegerInterval", "[]", whole=True)
_integers_from = _numbers("_IntegerGreaterThan", "[ ", whole=True)
_integers_up_to = _numbers("_IntegerLessThan", " ]", whole=True)

positive, nonnegative = greater_than(0.0), greater_than_eq(0.0)
positive_integer, nonnegative_integer = _integers_from(1), _integers_from(0)
unit_interval = interval(0.0, 1.0)
# infinities are numbers too, nan is none
real = _set("_Real", lambda value: value == value)
boolean = _set("_Boolean", lambda value: (value == 0) | (value == 1), is_discrete=True)


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

    def _all_after(self, kept: int, fine: Tensor, value: Tensor) -> Tensor:
        """Where all answers agree, over the dimensions after the first ones."""
        if kept < 0:
            raise ValueError(f"Expected value.dim() >= {self.event_dim} but got {value.dim()}")
        return fine.reshape((*fine.shape[:kept], -1)).all(-1)


@_called("_IndependentConstraint")
class independent(_Wrapping):
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
        return self._all_after(fine.dim() - self.reinterpreted_batch_ndims, fine, value)

    def __repr__(self) -> str:
        name = type(self).__name__[1:]
        return f"{name}({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamilyConstraint(_Wrapping):
    """The support of a mixture: a value must suit every component."""

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        return self.base_constraint.event_dim

    def check(self, value):
        fine = self.base_constraint.check(value.unsqueeze(-1 - self.event_dim))
        return self._all_after(value.dim() - self.event_dim, fine, value)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_constraint!r})"


class _Pieces(Constraint):
    """Several constraints, each for its piece of a tensor along one dimension."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0) -> None:
        self.cseq, self.dim = list(cseq), dim
        _require(
            all(isinstance(c, Constraint) for c in self.cseq),
            "All elements of cseq must be Constraint instances",
        )

    is_discrete = property(lambda self: any(c.is_discrete for c in self.cseq))

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        return max(c.event_dim for c in self.cseq)

    def _checks(self, value, split):
        """The answers for the pieces into which split cuts the value."""
        _require(
            -value.dim() <= self.dim < value.dim(),
            f"dim {self.dim} out of range for value with {value.dim()} dimensions",
        )
        return [c.check(piece) for c, piece in zip(self.cseq, split(value))]


@_called("_Cat")
class cat(_Pieces):
    """Pieces of the given lengths, as `torch.cat` joins them."""

    def __init__(self, cseq, dim=0, lengths=None):
        super().__init__(cseq, dim)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        _require(
            len(self.lengths) == len(self.cseq),
            f"lengths ({len(self.lengths)}) must match cseq ({len(self.cseq)})",
        )

    def check(self, value):
        starts = accumulate(self.lengths[:-1], initial=0)

        def split(value):
            return (value.narrow(self.dim, *piece) for piece in zip(starts, self.lengths))

        return flambeau.cat(self._checks(value, split), self.dim)


@_called("_Stack")
class stack(_Pieces):
    """Slices, as `torch.stack` joins them."""

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        dim = max(c.event_dim for c in self.cseq)
        return dim + 1 if self.dim + dim < 0 else dim

    def check(self, value):
        return flambeau.stack(self._checks(value, lambda value: value.unbind(self.dim)), self.dim)


# -- vectors ---------------------------------------------------------------------------------------

real_vector = independent(real, 1)
# probabilities: nothing negative, and a sum of 1
simplex = _set(
    "_Simplex",
    lambda value: (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6),
    event_dim=1,
)
# a single 1 among zeros
one_hot = _set(
    "_OneHot",
    lambda value: boolean.check(value).all(-1) & (value.sum(-1) == 1),
    is_discrete=True,
    event_dim=1,
)


@_called("_Multinomial")
class multinomial(Constraint):
    """Counts, with a sum of at most upper_bound."""

    is_discrete = True
    event_dim = 1

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, x):
        return (x >= 0).all(-1) & (x.sum(-1) <= self.upper_bound)


# -- matrices --------------------------------------------------------------------------------------


def _zeros_above(value):
    return (value.tril() == value).flatten(-2).all(-1)


def _diagonal_above_zero(value):
    return (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


def _rows_of_length_one(value):
    tolerance = 10 * value.size(-1) * flambeau.finfo(value.dtype).eps
    length = flambeau.linalg.norm(value.detach(), dim=-1)
    return ((length - 1).abs() <= tolerance).all(-1)


def _matrices(name, *conditions):
    """Matrices that meet all conditions."""
    return _set(
        name,
        lambda value: reduce(operator.and_, [holds(value) for holds in conditions]),
        event_dim=2,
    )


lower_triangular = _matrices("_LowerTriangular", _zeros_above)
lower_cholesky = _matrices("_LowerCholesky", _zeros_above, _diagonal_above_zero)
# roots of correlation matrices
corr_cholesky = _matrices("_CorrCholesky", _zeros_above, _diagonal_above_zero, _rows_of_length_one)


def _is_square(value):
    rows, columns = value.shape[-2:]
    options = {"dtype": flambeau.bool, "device": value.device}
    return flambeau.full(value.shape[:-2], rows == columns, **options)


def _equals_transpose(value):
    return flambeau.isclose(value, value.mT, atol=1e-6).all(-2).all(-1)


def _no_negative_eigenvalue(value):
    return (flambeau.linalg.eigvalsh(value) >= 0).all(-1)


def _has_root(value):
    return flambeau.linalg.cholesky_ex(value).info == 0


def _matrices_in_steps(name, *conditions):
    """Matrices that meet all conditions; one that some fail ends the checks, and is the answer."""

    def check(value):
        for holds in conditions:
            fine = holds(value)
            if not flambeau._is_all_true(fine):
                break
        return fine

    return _set(name, check, event_dim=2)


square = _matrices_in_steps("_Square", _is_square)
symmetric = _matrices_in_steps("_Symmetric", _is_square, _equals_transpose)
positive_semidefinite = _matrices_in_steps(
    "_PositiveSemidefinite", _is_square, _equals_transpose, _no_negative_eigenvalue
)
positive_definite = _matrices_in_steps(
    "_PositiveDefinite", _is_square, _equals_transpose, _has_root
)
