"""What every distribution is and can do, and the exponential families.

A distribution holds parameters whose leading dimensions are a batch of distributions; one draw
from one of them is an event. So a sample has the shape `sample_shape + batch_shape + event_shape`.
A class says in `arg_constraints` what its parameters may be, in `support` what comes out, and in
`_batched` which of its attributes grow when the batch is expanded.
"""

import warnings
from collections.abc import Sequence
from typing import Any, ClassVar

import flambeau
from flambeau import Size, Tensor

from . import constraints
from .utils import _sum_rightmost, lazy_property

__all__ = ["Distribution", "ExponentialFamily"]


class Distribution:
    """The base of all distributions.

    Args:
        batch_shape: the shape of the batch of distributions.
        event_shape: the shape of one draw from one of them.
        validate_args: check parameters and values; None asks `set_default_validate_args`.
    """

    has_rsample = False
    has_enumerate_support = False
    _validate_args = __debug__

    # attributes that expand with the batch (tensors, distributions), and how many dimensions on
    # their right stay as they are; then those that an expanded distribution shares
    _batched: ClassVar[Any] = None
    _shared: ClassVar[tuple[str, ...]] = ()

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Turn the checks of all distributions on or off; `python -O` starts with them off."""
        if value not in (True, False):
            raise ValueError
        Distribution._validate_args = value

    def __init__(
        self,
        batch_shape: Size = Size(),  # noqa: B008
        event_shape: Size = Size(),  # noqa: B008
        validate_args: bool | None = None,
    ) -> None:
        self._batch_shape, self._event_shape = batch_shape, event_shape
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._validate_parameters()

    # -- shapes, sets and moments ------------------------------------------------------------------

    @property
    def batch_shape(self) -> Size:
        """The shape of the batch of distributions."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """The shape of one draw from one distribution."""
        return self._event_shape

    @property
    def arg_constraints(self) -> dict[str, constraints.Constraint]:
        """What the parameters may be, by name."""
        raise NotImplementedError

    @property
    def support(self) -> Any:
        """The set of possible values."""
        raise NotImplementedError

    @property
    def mean(self) -> Tensor:
        """The mean of each distribution."""
        raise NotImplementedError

    @property
    def mode(self) -> Tensor:
        """The likeliest value of each distribution."""
        raise NotImplementedError(f"{type(self)} does not implement mode")

    @property
    def variance(self) -> Tensor:
        """The variance of each distribution."""
        raise NotImplementedError

    @property
    def stddev(self) -> Tensor:
        """The standard deviation of each distribution."""
        return self.variance.sqrt()

    # -- drawing -----------------------------------------------------------------------------------

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw a tensor of such samples, without gradients."""
        with flambeau.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw so that gradients flow into the parameters, where `has_rsample`."""
        raise NotImplementedError

    def sample_n(self, n: int) -> Tensor:
        """Draw n samples; the old name of `sample((n,))`."""
        warnings.warn(
            "`sample_n(n)` will be deprecated. Use `sample((n,))` instead.",
            FutureWarning,
            stacklevel=2,
        )
        return self.sample(Size((n,)))

    # -- probabilities -----------------------------------------------------------------------------

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density, or of the probability, at value."""
        raise NotImplementedError

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of everything up to value."""
        raise NotImplementedError

    def icdf(self, value: Tensor) -> Tensor:
        """The point up to which the probability is value: the inverse of `cdf`."""
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All possible values along dimension 0.

        Args:
            expand: repeat them for the whole batch; otherwise its dimensions have size 1.
        """
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """The entropy of each distribution."""
        raise NotImplementedError

    def _along_batch(self, values: Tensor, expand: bool) -> Tensor:
        """Possible values (n, *event), with the dimensions of the batch behind the first one."""
        n, *event = values.shape
        batch = self._batch_shape
        thin = values.reshape(n, *(1 for _ in batch), *event)
        return thin.expand(n, *batch, *event) if expand else thin

    def perplexity(self) -> Tensor:
        """The exponential of the entropy."""
        return self.entropy().exp()

    # -- expanding ---------------------------------------------------------------------------------

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """The same distribution for a larger batch; parameters are expanded, not copied.

        Args:
            _instance: the object to fill, from a subclass with attributes of its own.
        """
        home = next((c for c in type(self).__mro__ if c.__dict__.get("_batched") is not None), None)
        if home is None:
            raise NotImplementedError
        new = self._get_checked_instance(home, _instance)
        batch_shape = Size(batch_shape)
        for name, kept in self._batched.items():
            if name in self.__dict__:
                new.__dict__[name] = _expand(self.__dict__[name], batch_shape, kept)
        for name in self._shared:
            new.__dict__[name] = self.__dict__[name]
        Distribution.__init__(new, batch_shape, self._event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        if _instance is not None:
            return _instance
        if type(self).__init__ is not cls.__init__:  # type: ignore[misc]
            raise NotImplementedError(
                f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom __init__ "
                "method must also define a custom .expand() method."
            )
        return self.__new__(type(self))

    # -- checks ------------------------------------------------------------------------------------

    def _extended_shape(self, sample_shape: Sequence[int] = ()) -> Size:
        return Size(sample_shape) + self._batch_shape + self._event_shape

    def _validate_parameters(self) -> None:
        try:
            declared = self.arg_constraints
        except NotImplementedError:
            warnings.warn(
                f"{type(self)} does not define `arg_constraints`. "
                "Please set `arg_constraints = {}` or initialize the distribution "
                "with `validate_args=False` to turn off validation.",
                stacklevel=4,
            )
            return
        for name, constraint in declared.items():
            if constraints.is_dependent(constraint):
                continue
            if name not in self.__dict__ and isinstance(getattr(type(self), name), lazy_property):
                continue  # follows from parameters that were given
            value = getattr(self, name)
            if not flambeau._is_all_true(constraint.check(value)):
                raise ValueError(
                    f"Expected parameter {name} "
                    f"({type(value).__name__} of shape {tuple(value.shape)}) "
                    f"of distribution {self!r} "
                    f"to satisfy the constraint {constraint!r}, "
                    f"but found invalid values:\n{value}"
                )

    def _check(self, value: Tensor) -> None:
        if self._validate_args:
            self._validate_sample(value)

    def _validate_sample(self, value: Tensor) -> None:
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        shape, expected = value.shape, self._batch_shape + self._event_shape
        if shape[len(shape) - len(self._event_shape) :] != self._event_shape:
            raise ValueError(
                "The right-most size of value must match event_shape: "
                f"{shape} vs {self._event_shape}."
            )
        if any(m != 1 and n != 1 and m != n for m, n in zip(reversed(shape), reversed(expected))):
            raise ValueError(
                f"Value is not broadcastable with batch_shape+event_shape: {shape} vs {expected}."
            )
        try:
            support = self.support
        except NotImplementedError:
            warnings.warn(
                f"{type(self)} does not define `support` to enable sample validation. Please "
                "initialize the distribution with `validate_args=False` to turn off validation.",
                stacklevel=4,
            )
            return
        if support is None:
            raise AssertionError("support is unexpectedly None")
        if not flambeau._is_all_true(support.check(value)):
            raise ValueError(
                "Expected value argument "
                f"({type(value).__name__} of shape {tuple(shape)}) "
                f"to be within the support ({support!r}) "
                f"of the distribution {self!r}, "
                f"but found invalid values:\n{value}"
            )

    def __repr__(self) -> str:
        given = {name: vars(self)[name] for name in self.arg_constraints if name in vars(self)}
        shown = [f"{name}: {x if x.numel() == 1 else x.size()}" for name, x in given.items()]
        return f"{type(self).__name__}({', '.join(shown)})"


def _expand(value: Any, batch_shape: Size, kept: int) -> Any:
    shape = value.batch_shape if isinstance(value, Distribution) else value.shape
    return value.expand(batch_shape + shape[len(shape) - kept :])


class ExponentialFamily(Distribution):
    """Densities of the form exp(<t(x), θ> - F(θ) + k(x)).

    A subclass gives θ as `_natural_params`, F as `_log_normalizer` and the mean of k as
    `_mean_carrier_measure`; the entropy follows from them.
    """

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        raise NotImplementedError

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self) -> Any:
        raise NotImplementedError

    def _tangent(self) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
        """F(θ), and each part of θ with the slope of F there, from autograd."""
        parts = [part.detach().requires_grad_() for part in self._natural_params]
        height = self._log_normalizer(*parts)
        slopes = flambeau.autograd.grad(height.sum(), parts, create_graph=True)
        return height, list(zip(parts, slopes))

    def entropy(self) -> Tensor:
        """F(θ) - <θ, F'(θ)> - mean of k."""
        height, tangent = self._tangent()
        found = height - self._mean_carrier_measure
        for part, slope in tangent:
            found = found - _sum_rightmost(part * slope, part.dim() - len(self._batch_shape))
        return found
