"""Which sizes of inputs may change: `Dim`, and what callers may say with it."""

import dataclasses
import enum
import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from flambeau._dynamo import exc
from flambeau._tensor import Tensor
from flambeau.fx.experimental.expressions import Expr
from flambeau.nn import Module
from flambeau.utils import _pytree as pytree

__all__ = ["AdditionalInputs", "Constraint", "Dim", "ShapesCollection", "UserError", "dims"]


class UserErrorType(enum.Enum):
    """What a program does that cannot be exported."""

    DYNAMIC_CONTROL_FLOW = enum.auto()
    ANTI_PATTERN = enum.auto()
    STANDARD_LIBRARY = enum.auto()
    CONSTRAINT_VIOLATION = enum.auto()
    DYNAMIC_DIM = enum.auto()
    INVALID_INPUT = enum.auto()
    INVALID_OUTPUT = enum.auto()
    UNSUPPORTED_ALIASED_MUTATED_DYNAMIC_INPUTS = enum.auto()


class UserError(exc.UserError):
    """What was asked for cannot be done with this program."""

    def __init__(self, error_type: UserErrorType, msg: str, case_name: str | None = None) -> None:
        super().__init__(msg, case_name=case_name)
        self.error_type, self.message = error_type, msg


class _DimHintType(enum.Enum):
    AUTO = enum.auto()
    STATIC = enum.auto()
    DYNAMIC = enum.auto()


@dataclasses.dataclass
class _DimHint:
    """How a size may change, without a name."""

    type: _DimHintType
    min: int | None = None
    max: int | None = None

    def __call__(self, min: int | None = None, max: int | None = None) -> "_DimHint":
        if self.type is _DimHintType.STATIC:
            raise AssertionError("Dim.STATIC takes no bounds")
        return _DimHint(self.type, min, max)

    def __repr__(self) -> str:
        parts = [self.type.name]
        parts += [f"{k}={v}" for k, v in (("min", self.min), ("max", self.max)) if v is not None]
        return f"DimHint({', '.join(parts)})"

    def __hash__(self) -> int:
        return hash((self.type, self.min, self.max))


class Dim:
    """A size that may change, with a name: sizes of one name are equal.

    Example:
        >>> from flambeau.export import Dim
        >>> batch = Dim("batch", max=64)
        >>> 2 * batch + 1
        2*batch + 1
    """

    AUTO = _DimHint(_DimHintType.AUTO)
    DYNAMIC = _DimHint(_DimHintType.DYNAMIC)
    STATIC = _DimHint(_DimHintType.STATIC)

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:
        low, high = 0 if min is None else min, math.inf if max is None else max
        if not name.isidentifier():
            raise AssertionError(f"Dim name must be a valid identifier, got {name}")
        if high < low:
            raise AssertionError(f"Cannot create Dim with inconsistent min={min}, max={max}")
        self.__name__, self.min, self.max = name, low, high if high == math.inf else int(high)

    def _arithmetic(self, other, factor, shift, sign):
        if type(other) is not int:
            raise NotImplementedError(
                f"Attempted to {sign} {other} to {self.__name__}, where an integer was expected. "
                "(Only increasing linear operations with integer coefficients are supported.)"
            )
        return _Derived(self, factor, shift)

    def __add__(self, other: int) -> "Dim":
        return self._arithmetic(other, 1, other, "add")

    def __radd__(self, other: int) -> "Dim":
        return self + other

    def __sub__(self, other: int) -> "Dim":
        return self._arithmetic(other, 1, -other if type(other) is int else 0, "subtract")

    def __rsub__(self, other: int) -> NoReturn:
        raise NotImplementedError(
            f"Attempted to negate {self.__name__}. "
            "(Only increasing linear operations with integer coefficients are supported.)"
        )

    def __mul__(self, other: int) -> "Dim":
        if type(other) is not int or other <= 0:
            raise NotImplementedError(
                f"Attempted to multiply {other} with {self.__name__}, where a positive integer "
                "was expected. (Only increasing linear operations with integer coefficients are "
                "supported.)"
            )
        return self._arithmetic(other, other, 0, "multiply")

    def __rmul__(self, other: int) -> "Dim":
        return self * other

    @property
    def root(self) -> "Dim":
        return self

    def of(self, expr: Expr) -> Expr:
        """The size, where this is what its root stands for."""
        return expr

    def example(self, size: int) -> int | None:
        """What the root is where this has a size; None if it cannot be."""
        return size

    def __repr__(self) -> str:
        parts = [f"'{self.__name__}'"]
        if self.min > 2 or (self.min == 0 and self.max == math.inf):
            parts.append(f"min={self.min}")
        if self.max != math.inf:
            parts.append(f"max={self.max}")
        return f"Dim({', '.join(parts)})"


class _Derived(Dim):
    """A size that is so many times another, and so many more."""

    factor: int
    shift: int

    def __init__(self, base: Dim, factor: int, shift: int) -> None:
        self._root = base.root
        if isinstance(base, _Derived):
            factor, shift = factor * base.factor, factor * base.shift + shift
        self.factor, self.shift = factor, shift
        self.__name__ = str(Expr.symbol(self._root.__name__) * factor + shift)

    @property
    def root(self) -> Dim:
        return self._root

    @property
    def min(self) -> int:  # type: ignore[override]
        low = self.root.min * self.factor + self.shift
        if low < 0:
            raise AssertionError(
                f"Expected derived min value of {self.__name__} to be >= 0. Please specify an "
                f"appropriate min value for {self.root.__name__} (currently {self.root.min})."
            )
        return low

    @property
    def max(self) -> float:  # type: ignore[override]
        return self.root.max * self.factor + self.shift

    def of(self, expr: Expr) -> Expr:
        return expr * self.factor + self.shift

    def example(self, size: int) -> int | None:
        found, rest = divmod(size - self.shift, self.factor)
        return None if rest else found

    def __repr__(self) -> str:
        return self.__name__


Constraint = Dim


def dims(*names: str, min: int | None = None, max: int | None = None) -> tuple[Dim, ...]:
    """Several sizes at once."""
    return tuple(Dim(name, min=min, max=max) for name in names)


# -- trees of what may change ----------------------------------------------------------------------


def combined(module: Any, args: tuple, kwargs: Mapping[str, Any] | None) -> dict[str, Any]:
    """Arguments by the names that forward has for them."""
    forward = module.forward if isinstance(module, Module) else module
    bound = inspect.signature(forward).bind(*args, **(kwargs or {}))
    found: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        kind = bound.signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_KEYWORD:
            found.update(value)
        else:
            found[name] = value
    return found


def per_leaf(given: Any, inputs: dict[str, Any]) -> list[Any]:
    """What is said about each leaf of the inputs: None, or dimension -> Dim, hint or number."""
    if isinstance(given, (ShapesCollection, AdditionalInputs)):
        given = given.dynamic_shapes_of(inputs)
    if not given:
        return [None] * len(pytree.tree_leaves(inputs))
    if isinstance(given, (tuple, list)):
        if len(given) != len(inputs):
            raise UserError(
                UserErrorType.INVALID_INPUT,
                f"Expected `dynamic_shapes` to have {len(inputs)} entries, one per input, got "
                f"{len(given)}",
            )
        given = dict(zip(inputs, given))
    elif set(given) != set(inputs):
        raise UserError(
            UserErrorType.INVALID_INPUT,
            "When `dynamic_shapes` is specified as a dict, its top-level keys must be the arg "
            f"names {list(inputs)} of `inputs`, but here they are {list(given)}. Alternatively, "
            "you could also ignore arg names entirely and specify `dynamic_shapes` as a "
            "list/tuple matching `inputs`.",
        )
    found: list[Any] = []
    for name, value in inputs.items():
        _spread(given[name], value, name, found)
    return found


def _spread(said, value, path, found):
    """Go through an input and what is said about it together."""
    if isinstance(value, Tensor) or pytree.tree_is_leaf(value):
        found.append(_checked(said, value, path))
        return
    if said is None:
        found.extend([None] * len(pytree.tree_leaves(value)))
        return
    children = _children(value)
    parts = _children(said) if not isinstance(said, dict) or isinstance(value, dict) else None
    if isinstance(said, dict) and isinstance(value, dict):
        pairs = [(said.get(k), v, f"{path}['{k}']") for k, v in value.items()]
    elif parts is not None and children is not None and len(parts) == len(children):
        pairs = [(s, v, f"{path}[{k}]") for k, (s, v) in enumerate(zip(parts, children))]
    else:
        raise UserError(
            UserErrorType.INVALID_INPUT,
            f"Detected mismatch between the structure of `inputs` and `dynamic_shapes`: "
            f"`{path}` is a {type(value)}, but `dynamic_shapes` specifies {said}",
        )
    for part, item, where in pairs:
        _spread(part, item, where, found)


def _children(value):
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, (list, tuple)):
        return list(value)
    if dataclasses.is_dataclass(value):
        return [getattr(value, f.name) for f in dataclasses.fields(value)]
    return None


def _checked(said, value, path):
    """dimension -> what is said, for a leaf."""
    if said is None or not isinstance(value, Tensor):
        return said if isinstance(said, (Dim, _DimHint)) and not isinstance(value, Tensor) else None
    if isinstance(said, (tuple, list)):
        if len(said) != value.ndim:
            raise UserError(
                UserErrorType.INVALID_INPUT,
                f"Expected dynamic shape spec {said} specified at `dynamic_shapes['{path}']` to "
                f"have the same length as the actual tensor shape {value.shape} (expected "
                f"{value.ndim}, but got {len(said)} instead)",
            )
        said = dict(enumerate(said))
    if not isinstance(said, dict):
        raise UserError(
            UserErrorType.INVALID_INPUT,
            f"Unexpected dynamic_shape {said} specified at `dynamic_shapes['{path}']` (expected "
            "either a list/tuple of dimensions, or a dict mapping indices to dimensions, where "
            "each dimension is an int, a Dim, Dim.AUTO, Dim.STATIC, or Dim.DYNAMIC)",
        )
    for dim, item in said.items():
        if not isinstance(dim, int) or not -value.ndim <= dim < value.ndim:
            raise IndexError("list assignment index out of range")
        if not (item is None or isinstance(item, (int, Dim, _DimHint))):
            raise UserError(
                UserErrorType.INVALID_INPUT,
                f"Unexpected dimension mapped to index {dim} in dynamic_shape {said} specified at "
                f"`dynamic_shapes['{path}']` (expected None, an int, a Dim, Dim.AUTO, Dim.STATIC, "
                f" or Dim.DYNAMIC,  but got {item!r} instead)",
            )
        if type(item) is int and item != value.shape[dim]:
            raise UserError(
                UserErrorType.INVALID_INPUT,
                f"Static shape constraint of {item} does not match input size of "
                f"{value.shape[dim]}, for {path}",
            )
    return {dim % value.ndim: item for dim, item in said.items()}


class ShapesCollection:
    """What is said about sizes, tensor by tensor: `shapes[x] = (Dim("batch"), None)`."""

    def __init__(self) -> None:
        self._shapes: dict[int, Any] = {}
        self._kept: list[Tensor] = []

    def __setitem__(self, t: Tensor, shape: Any) -> None:
        if not isinstance(t, Tensor):
            raise AssertionError(f"Cannot assign shape to non-tensor type {type(t)}")
        self._shapes[id(t)] = shape
        self._kept.append(t)

    def __getitem__(self, t: Tensor) -> Any:
        return self._shapes.setdefault(id(t), {})

    def __len__(self) -> int:
        return len(self._shapes)

    def dynamic_shapes_of(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """The tree that belongs to some inputs."""
        return {k: pytree.tree_map(lambda leaf: self._shapes.get(id(leaf)), v)
                for k, v in inputs.items()}  # fmt: skip

    def dynamic_shapes(self, m: Callable, args: tuple, kwargs: Any = None) -> dict[str, Any]:
        """The tree that belongs to the arguments of a module."""
        return self.dynamic_shapes_of(combined(m, args, kwargs))


class AdditionalInputs:
    """Other examples; sizes in which they differ may change."""

    def __init__(self) -> None:
        self._examples: list[tuple[tuple, Any]] = []

    def add(self, args: tuple, kwargs: Any = None) -> None:
        """Add an example."""
        self._examples.append((args, kwargs or {}))

    def dynamic_shapes_of(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """Dim.AUTO where sizes differ from the first example."""
        trees = [pytree.tree_leaves((a, k)) for a, k in self._examples]
        leaves, spec = pytree.tree_flatten(inputs)
        found: list[Any] = []
        for k, leaf in enumerate(leaves):
            if not isinstance(leaf, Tensor):
                found.append(None)
                continue
            others = [tree[k].shape for tree in trees]
            found.append({d: Dim.AUTO for d in range(leaf.ndim)
                          if any(o[d] != leaf.shape[d] for o in others)})  # fmt: skip
        return pytree.tree_unflatten(found, spec)
