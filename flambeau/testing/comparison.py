"""`assert_close`: are two results the same up to rounding, and if not, where do they differ?

First both sides are walked together: containers must have the same shape, and what lies at their
ends becomes a list of pairs, each with the path that leads to it. Then the pairs are compared in
that order and the first difference is raised. A kind of pair is a small class with one method,
`difference`, that returns a message or None.
"""

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import flambeau

# rtol and atol by dtype; what is not here must be equal
TOLERANCES = {
    flambeau.float16: (1e-3, 1e-5),
    flambeau.bfloat16: (1.6e-2, 1e-5),
    flambeau.float32: (1.3e-6, 1e-5),
    flambeau.float64: (1e-7, 1e-7),
    flambeau.complex32: (1e-3, 1e-5),
    flambeau.complex64: (1.3e-6, 1e-5),
    flambeau.complex128: (1e-7, 1e-7),
}
OF_PYTHON = {int: flambeau.int64, float: flambeau.float64, complex: flambeau.complex128}


@dataclass(frozen=True)
class Options:
    """The arguments of `assert_close` that say how strict it is."""

    allow_subclasses: bool = True
    rtol: float | None = None
    atol: float | None = None
    equal_nan: bool = False
    check_device: bool = True
    check_dtype: bool = True
    check_layout: bool = True
    check_stride: bool = False

    def tolerances(self, *dtypes, path=()) -> tuple[float, float]:
        """The caller's pair, or the loosest of what the dtypes call for."""
        if (self.rtol is None) != (self.atol is None):
            missing = "rtol" if self.rtol is None else "atol"
            raise Unfit(
                ValueError,
                "Both 'rtol' and 'atol' must be either specified or omitted, "
                f"but got no {missing}.",
                path,
            )
        if self.rtol is not None and self.atol is not None:
            return self.rtol, self.atol
        found = [TOLERANCES.get(dtype, (0.0, 0.0)) for dtype in dtypes]
        return max(rtol for rtol, _ in found), max(atol for _, atol in found)


class Unfit(Exception):
    """Two values that cannot be compared; `assert_close` raises the kind of error it names."""

    def __init__(self, kind: type[Exception], message: str, path: tuple) -> None:
        super().__init__(message)
        self.kind, self.message, self.path = kind, message, path


def located(message: str, path: tuple) -> str:
    """A message with the place in the containers that it speaks of."""
    if not path:
        return message
    place = "".join(f"[{key!r}]" for key in path)
    return f"{message}\n\nThe failure occurred for item {place}"


@dataclass
class Pair:
    """Two values at the ends of the containers."""

    actual: Any
    expected: Any
    options: Options
    path: tuple

    def difference(self) -> str | None:
        raise NotImplementedError


class NonePair(Pair):
    def difference(self) -> str | None:
        if self.actual is None and self.expected is None:
            return None
        return f"None mismatch: {self.actual} is not {self.expected}"


class BooleanPair(Pair):
    def difference(self) -> str | None:
        actual, expected = bool(self.actual), bool(self.expected)
        return None if actual is expected else f"Booleans mismatch: {actual} is not {expected}"


@dataclass
class NumberPair(Pair):
    """Python's and NumPy's numbers, compared as Python's."""

    tolerances: tuple[float, float] = field(init=False)

    def __post_init__(self) -> None:
        self.actual, self.expected = as_number(self.actual), as_number(self.expected)
        dtypes = [OF_PYTHON.get(type(value)) for value in (self.actual, self.expected)]
        self.tolerances = self.options.tolerances(*dtypes, path=self.path)

    def difference(self) -> str | None:
        kinds = type(self.actual), type(self.expected)
        # a bool counts as no number here, whatever check_dtype says: True is not 1
        if kinds[0] is not kinds[1] and (self.options.check_dtype or bool in kinds):
            return f"The (d)types do not match: {kinds[0]} != {kinds[1]}."
        if numbers_close(self.actual, self.expected, *self.tolerances, self.options.equal_nan):
            return None
        return scalar_message(self.actual, self.expected, *self.tolerances)


@dataclass
class TensorPair(Pair):
    """Tensors, arrays and whatever else can be read as a tensor."""

    tolerances: tuple[float, float] = field(init=False)

    def __post_init__(self) -> None:
        try:
            self.actual = flambeau.as_tensor(self.actual).detach()
            self.expected = flambeau.as_tensor(self.expected).detach()
        except Exception:
            raise incomparable(self.actual, self.expected, self.path) from None
        self.tolerances = self.options.tolerances(
            self.actual.dtype, self.expected.dtype, path=self.path
        )

    def difference(self) -> str | None:
        for name, actual, expected in self.attributes():
            if actual != expected:
                return f"The values for attribute '{name}' do not match: {actual} != {expected}."
        if "meta" in (self.actual.device.type, self.expected.device.type):
            return None  # shapes without values
        actual, expected = self.actual, self.expected
        if actual.layout != expected.layout:
            actual, expected = actual.to_dense(), expected.to_dense()
        if actual.layout == flambeau.strided:
            return self.values_differ(actual, expected)
        return self.sparse_differ(actual, expected)

    def values_differ(self, actual, expected, name="Tensor-likes", exactly=False) -> str | None:
        rtol, atol = (0.0, 0.0) if exactly else self.tolerances
        given = actual, expected
        actual, expected = self.alike(*given)
        close = flambeau.isclose(
            actual, expected, rtol=rtol, atol=atol, equal_nan=self.options.equal_nan
        )
        if close.all():
            return None
        if close.ndim == 0:
            return scalar_message(given[0].item(), given[1].item(), rtol, atol)
        return tensor_message(actual, expected, close, rtol, atol, name)

    def sparse_differ(self, actual, expected) -> str | None:
        """Their places must be equal, their values close."""
        kind, unlike = str(actual.layout).removeprefix("torch.sparse_").upper(), "does not match"
        if kind == "COO":
            a, b = actual.sparse_dim(), expected.sparse_dim()
            if a != b:
                return f"The number of sparse dimensions in sparse COO tensors {unlike}: {a} != {b}"
        a, b = actual._nnz(), expected._nnz()
        if a != b:
            return f"The number of specified values in sparse {kind} tensors {unlike}: {a} != {b}"
        parts = {
            "COO": ("_indices",),
            "CSR": ("crow_indices", "col_indices"), "BSR": ("crow_indices", "col_indices"),
            "CSC": ("ccol_indices", "row_indices"), "BSC": ("ccol_indices", "row_indices"),
        }[kind]  # fmt: skip
        for part in parts:
            name = f"Sparse {kind} {part.removeprefix('_')}"
            found = getattr(actual, part)(), getattr(expected, part)()
            said = self.values_differ(*found, name, exactly=True)
            if said is not None:
                return said
        values = "_values" if kind == "COO" else "values"
        return self.values_differ(
            getattr(actual, values)(), getattr(expected, values)(), f"Sparse {kind} values"
        )

    def attributes(self) -> Iterator[tuple[str, Any, Any]]:
        actual, expected, options = self.actual, self.expected, self.options
        yield "shape", actual.shape, expected.shape
        if options.check_layout:
            yield "layout", actual.layout, expected.layout
        if options.check_stride:
            yield "stride()", actual.stride(), expected.stride()
        if options.check_device:
            yield "device", actual.device, expected.device
        if options.check_dtype:
            yield "dtype", actual.dtype, expected.dtype

    def alike(self, actual, expected):
        """Both on one device and of one dtype, wide enough for a difference of integers."""
        if actual.device != expected.device:
            actual, expected = actual.cpu(), expected.cpu()
        dtype = flambeau.promote_types(actual.dtype, expected.dtype)
        if not (dtype.is_floating_point or dtype.is_complex):
            dtype = flambeau.int64
        return actual.to(dtype), expected.to(dtype)


def as_number(value):
    """NumPy's scalars as Python's numbers."""
    return value.item() if hasattr(value, "item") else value  # float64 is a float, too


def is_of_numpy(value, name: str) -> bool:
    """Whether value is a NumPy scalar of a kind, without importing NumPy for those who do not."""
    return any(c.__module__ == "numpy" and c.__name__ == name for c in type(value).__mro__)


def is_boolean(value) -> bool:
    return isinstance(value, bool) or is_of_numpy(value, "bool") or is_of_numpy(value, "bool_")


def is_number(value) -> bool:
    return isinstance(value, (int, float, complex)) or is_of_numpy(value, "number")


def incomparable(actual, expected, path) -> Unfit:
    return Unfit(
        TypeError,
        "No comparison pair was able to handle inputs of type "
        f"{type(actual)} and {type(expected)}.",
        path,
    )


def pairs(actual, expected, options: Options, path: tuple = ()) -> Iterator[Pair]:
    """What to compare, in the order of the containers; mappings go by their sorted keys."""
    sides = actual, expected
    if all(isinstance(side, Sequence) and not isinstance(side, str) for side in sides):
        if len(actual) != len(expected):
            lengths = f"{len(actual)} != {len(expected)}"
            raise Unfit(AssertionError, f"The length of the sequences mismatch: {lengths}", path)
        for index, (first, second) in enumerate(zip(actual, expected, strict=True)):
            yield from pairs(first, second, options, (*path, index))
    elif all(isinstance(side, Mapping) for side in sides):
        for key in shared_keys(actual, expected, path):
            yield from pairs(actual[key], expected[key], options, (*path, key))
    elif actual is None or expected is None:
        yield NonePair(actual, expected, options, path)
    elif is_boolean(actual) and is_boolean(expected):
        yield BooleanPair(actual, expected, options, path)
    elif is_number(actual) and is_number(expected):
        yield NumberPair(actual, expected, options, path)
    elif comparable_types(type(actual), type(expected), options.allow_subclasses):
        yield TensorPair(actual, expected, options, path)
    else:
        raise incomparable(actual, expected, path)


def comparable_types(actual: type, expected: type, allow_subclasses: bool) -> bool:
    if allow_subclasses:
        return issubclass(actual, expected) or issubclass(expected, actual)
    return actual is expected


def shared_keys(actual: Mapping, expected: Mapping, path: tuple) -> list:
    missing, additional = expected.keys() - actual.keys(), actual.keys() - expected.keys()
    if missing or additional:
        raise Unfit(
            AssertionError,
            "The keys of the mappings do not match:\n"
            f"Missing keys in the actual mapping: {in_order(missing)}\n"
            f"Additional keys in the actual mapping: {in_order(additional)}",
            path,
        )
    return in_order(actual.keys())


def in_order(keys) -> list:
    try:
        return sorted(keys)
    except TypeError:  # keys of several kinds stay as they come
        return list(keys)


def numbers_close(actual, expected, rtol, atol, equal_nan) -> bool:
    if actual == expected:
        return True
    if actual != actual and expected != expected:
        return equal_nan
    difference = abs(actual - expected)
    return math.isfinite(difference) and difference <= atol + rtol * abs(expected)


def allowed(tolerance, exact: bool) -> str:
    return "" if exact else f" (up to {tolerance} allowed)"


def scalar_message(actual, expected, rtol, atol) -> str:
    exact = rtol == 0 and atol == 0
    absolute = abs(actual - expected)
    relative = math.inf if expected == 0 else absolute / abs(expected)
    return (
        f"Scalars are not {'equal' if exact else 'close'}!\n\n"
        f"Expected {expected} but got {actual}.\n"
        f"Absolute difference: {absolute}{allowed(atol, exact)}\n"
        f"Relative difference: {relative}{allowed(rtol, exact)}"
    )


def tensor_message(actual, expected, close, rtol, atol, name="Tensor-likes") -> str:
    """How many elements differ, and the greatest differences among them with their indices."""
    exact = rtol == 0 and atol == 0
    wrong, total = int((~close).sum()), close.numel()
    absolute = (actual - expected).abs()
    relative = absolute / expected.abs()
    lines = [
        f"{name} are not {'equal' if exact else 'close'}!",
        "",
        f"Mismatched elements: {wrong} / {total} ({wrong / total:.1%})",
    ]
    for kind, values, tolerance in (("absolute", absolute, atol), ("relative", relative, rtol)):
        values = values.masked_fill(close, 0).flatten()
        position = int(values.argmax())
        index = index_of(position, close.shape)
        lines.append(
            f"Greatest {kind} difference: {values[position].item()} at index {index}"
            f"{allowed(tolerance, exact)}"
        )
    return "\n".join(lines)


def index_of(position: int, shape) -> tuple[int, ...]:
    """The index of an element from its place in row order."""
    index = []
    for size in reversed(shape):
        position, place = divmod(position, size)
        index.append(place)
    return tuple(reversed(index))


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Raise AssertionError with a report unless |actual - expected| <= atol + rtol |expected|.

    Works for tensors, numbers, NumPy arrays and None, and for sequences and mappings of them.
    Without tolerances they follow from the dtypes; integers must be equal. `msg` takes the place
    of the report, or makes a new one from it.
    """
    __tracebackhide__ = True  # pytest shows the line of the test
    options = Options(
        allow_subclasses,
        rtol,
        atol,
        equal_nan,
        check_device,
        check_dtype,
        check_layout,
        check_stride,
    )
    try:
        found = list(pairs(actual, expected, options))
    except Unfit as error:
        raise error.kind(located(error.message, error.path)) from None
    for pair in found:
        message = pair.difference()
        if message is not None:
            message = located(message, pair.path)
            if msg is not None:
                message = msg(message) if callable(msg) else msg
            raise AssertionError(message)


def assert_allclose(
    actual: Any,
    expected: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    msg: str = "",
) -> None:
    """The deprecated forerunner of `assert_close`: looser, and blind to dtypes and devices."""
    warnings.warn(
        "`torch.testing.assert_allclose()` is deprecated since 1.12 and will be removed in a "
        "future release. Please use `torch.testing.assert_close()` instead.",
        FutureWarning,
        stacklevel=2,
    )
    actual, expected = (
        value if isinstance(value, flambeau.Tensor) else flambeau.tensor(value)
        for value in (actual, expected)
    )
    if rtol is None and atol is None:
        found = [OLD_TOLERANCES.get(side.dtype, (0.0, 0.0)) for side in (actual, expected)]
        rtol, atol = max(r for r, _ in found), max(a for _, a in found)
    assert_close(
        actual,
        expected,
        rtol=rtol,
        atol=atol,
        equal_nan=equal_nan,
        check_device=True,
        check_dtype=False,
        check_stride=False,
        msg=msg or None,
    )


OLD_TOLERANCES = {
    flambeau.float16: (1e-3, 1e-3),
    flambeau.float32: (1e-4, 1e-5),
    flambeau.float64: (1e-5, 1e-8),
}
