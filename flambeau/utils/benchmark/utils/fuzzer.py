"""Random parameters and tensors for measurements: sizes, strides and dtypes of all kinds."""

import functools
import itertools
import math
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import flambeau

__all__ = ["FuzzedParameter", "FuzzedTensor", "Fuzzer", "ParameterAlias"]

_DISTRIBUTIONS = ("loguniform", "uniform")


class ParameterAlias:
    """A value of a parameter: that of another one."""

    def __init__(self, alias_to: str) -> None:
        self.alias_to = alias_to

    def __repr__(self) -> str:
        return f"ParameterAlias[alias_to: {self.alias_to}]"


class FuzzedParameter:
    """A parameter that is drawn: between bounds, or from a dict of values and probabilities.

    Between integers, integers are drawn. strict: no tensor may change it.
    """

    def __init__(
        self,
        name: str,
        minval: int | float | None = None,
        maxval: int | float | None = None,
        distribution: str | dict[Any, float] | None = None,
        strict: bool = False,
    ) -> None:
        self._name, self._minval, self._maxval = name, minval, maxval
        self._distribution = self._checked(distribution)
        self.strict = strict

    @property
    def name(self) -> str:
        return self._name

    @staticmethod
    def _checked(distribution: Any) -> Any:
        if isinstance(distribution, dict):
            if abs(sum(distribution.values()) - 1) > 1e-3:
                raise AssertionError("Distribution is not normalized")
        elif distribution not in _DISTRIBUTIONS:
            raise AssertionError(f"Unknown distribution: {distribution}")
        return distribution

    def sample(self, state: np.random.RandomState) -> Any:
        """A value."""
        if isinstance(self._distribution, dict):
            values = list(self._distribution)
            shares = np.array(list(self._distribution.values()))
            return values[state.choice(len(values), p=shares / shares.sum())]
        low, high = self._minval, self._maxval
        if low is None or high is None:
            raise AssertionError(f"Parameter {self._name} has no bounds to draw between")
        whole = isinstance(low, int) and isinstance(high, int)
        if self._distribution == "uniform":
            return (
                int(state.randint(int(low), int(high) + 1)) if whole else state.uniform(low, high)
            )
        drawn = 2 ** state.uniform(math.log2(low), math.log2(high))
        return int(drawn) if whole else drawn


class FuzzedTensor:
    """A tensor whose sizes, steps and order of dimensions are drawn.

    size and steps are tuples of numbers and names of parameters; dim_parameter names one that says
    how many of them count. Tensors outside of the bounds are drawn again.
    """

    def __init__(
        self,
        name: str,
        size: tuple[str | int, ...],
        steps: tuple[str | int, ...] | None = None,
        probability_contiguous: float = 0.5,
        min_elements: int | None = None,
        max_elements: int | None = None,
        max_allocation_bytes: int | None = None,
        dim_parameter: str | None = None,
        roll_parameter: str | None = None,
        dtype: Any = flambeau.float32,
        cuda: bool = False,
        tensor_constructor: Callable | None = None,
    ) -> None:
        self._name, self._size, self._steps = name, size, steps
        self._probability_contiguous = probability_contiguous
        self._min_elements, self._max_elements = min_elements, max_elements
        self._max_allocation_bytes = max_allocation_bytes
        self._dim_parameter, self._roll_parameter = dim_parameter, roll_parameter
        self._dtype, self._cuda = dtype, cuda
        self._tensor_constructor = tensor_constructor

    @property
    def name(self) -> str:
        return self._name

    @staticmethod
    def default_tensor_constructor(size: Any, dtype: Any, **kwargs: Any) -> flambeau.Tensor:
        """Normal numbers, or integers below 127."""
        if dtype.is_floating_point or dtype.is_complex:
            return flambeau.rand(size=size, dtype=dtype, device="cpu")
        return flambeau.randint(1, 127, size=size, dtype=dtype, device="cpu")

    def _make_tensor(self, params: dict, state: np.random.RandomState) -> tuple:
        size, steps, allocated = self._get_size_and_steps(params)
        construct = self._tensor_constructor or self.default_tensor_constructor
        whole = construct(size=allocated, dtype=self._dtype, **params)
        order = self._drawn_order(len(size), state)
        whole = _stored_in(whole.cuda() if self._cuda else whole, order)
        for dim, step in enumerate(steps):
            whole = whole[(slice(None),) * dim + (slice(None, None, step),)]
        known = {"numel": whole.numel(), "order": order, "steps": steps}
        return whole, {**known, "is_contiguous": whole.is_contiguous(), "dtype": str(whole.dtype)}

    def _drawn_order(self, count: int, state: np.random.RandomState) -> np.ndarray:
        """Dimensions from the outermost in memory on, mixed up unless they are to be contiguous."""
        usual = np.arange(count)
        if count < 2 or state.rand() <= self._probability_contiguous:
            return usual
        drawn = state.permutation(count)
        return drawn if (drawn != usual).any() else usual[::-1].copy()

    def _get_size_and_steps(self, params: dict) -> tuple[tuple, tuple, tuple]:
        count = params[self._dim_parameter] if self._dim_parameter is not None else len(self._size)

        def of(values: tuple, default: int) -> tuple:
            found = [params.get(v, v) if isinstance(v, str) else v for v in values]
            return tuple((found + [default] * count)[:count])

        size, steps = of(self._size, 1), of(self._steps or (), 1)
        if self._roll_parameter is not None:
            by = params[self._roll_parameter] % max(count, 1)
            size, steps = size[-by:] + size[:-by], steps[-by:] + steps[:-by]
        return size, steps, tuple(n * step for n, step in zip(size, steps))

    def satisfies_constraints(self, params: dict) -> bool:
        size, _, allocated = self._get_size_and_steps(params)
        elements, held = math.prod(size), math.prod(allocated) * self._dtype.itemsize
        return (
            (self._min_elements is None or elements >= self._min_elements)
            and (self._max_elements is None or elements <= self._max_elements)
            and (self._max_allocation_bytes is None or held <= self._max_allocation_bytes)
        )


class Fuzzer:
    """Draws parameters, and tensors by them, that satisfy all constraints.

    `take(n)` gives n times (tensors, what is known of them, parameters).
    """

    def __init__(
        self,
        parameters: list[FuzzedParameter | list[FuzzedParameter]],
        tensors: list[FuzzedTensor | list[FuzzedTensor]],
        constraints: list[Callable] | None = None,
        seed: int | None = None,
    ) -> None:
        self._parameters = _flat(parameters, FuzzedParameter)
        self._tensors = _flat(tensors, FuzzedTensor)
        taken = set()
        for item in (*self._parameters, *self._tensors):
            if item.name in taken:
                raise ValueError(f"Shared names: {item.name}")
            taken.add(item.name)
        self._constraints = list(constraints or ())
        self._seed = random.getrandbits(32) if seed is None else seed
        self._rejections = self._draws = 0

    def take(self, n: int) -> Iterator[tuple[dict, dict, dict]]:
        """n inputs; the same ones for the same seed."""
        state = np.random.RandomState(self._seed)
        for _ in range(n):
            params = self._generate(state)
            made = {t.name: t._make_tensor(params, state) for t in self._tensors}
            tensors = {name: tensor for name, (tensor, _) in made.items()}
            yield tensors, {name: known for name, (_, known) in made.items()}, params

    @property
    def rejection_rate(self) -> float:
        """The share of draws that did not satisfy the constraints."""
        return self._rejections / self._draws if self._draws else 0.0

    def _generate(self, state: np.random.RandomState) -> dict:
        strict: dict[str, Any] = {}
        for _ in range(1000):
            drawn = {p.name: p.sample(state) for p in self._parameters}
            strict = strict or {p.name: drawn[p.name] for p in self._parameters if p.strict}
            params = _resolved({**drawn, **strict})
            self._draws += 1
            fits = all(c(params) for c in map(_taking, self._constraints))
            if fits and all(t.satisfies_constraints(params) for t in self._tensors):
                return params
            self._rejections += 1
        raise RuntimeError("Could not draw parameters that satisfy all constraints")


def _stored_in(t: flambeau.Tensor, order: np.ndarray) -> flambeau.Tensor:
    """t, with its memory in this order of dimensions."""
    return t.permute(order.tolist()).contiguous().permute(np.argsort(order).tolist())


def _flat(values: Any, cls: type) -> list:
    lists = [value if isinstance(value, (list, tuple)) else [value] for value in values]
    flat = list(itertools.chain(*lists))
    if wrong := [value for value in flat if not isinstance(value, cls)]:
        raise TypeError(f"expected {cls.__name__}, got {type(wrong[0]).__name__}")
    return flat


@functools.cache
def _taking(constraint: Callable) -> Callable:
    """A constraint as a function of all parameters, whichever it names."""
    code = constraint.__code__
    if code.co_argcount == 1 and not code.co_flags & 0x08:
        name = code.co_varnames[0]
        return lambda params: constraint(params.get(name, params))
    if code.co_flags & 0x08:  # **params
        return lambda params: constraint(**params)
    names = code.co_varnames[: code.co_argcount]
    return lambda params: constraint(**{name: params[name] for name in names})


def _resolved(params: dict) -> dict:
    """Parameters with aliases replaced by what they stand for."""
    params = dict(params)
    for name in params:
        seen = {name}
        while isinstance(params[name], ParameterAlias):
            target = params[name].alias_to
            if target in seen:
                raise ValueError("ParameterAlias cycle detected")
            seen.add(target)
            params[name] = params[target]
    return params
