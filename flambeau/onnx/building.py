"""An ONNX graph under construction: nodes, constants, and the sizes that programs compute with."""

from collections.abc import Sequence
from typing import Any

import numpy as np

import flambeau as torch
from flambeau.onnx.errors import SymbolicValueError, UnsupportedOperatorError
from flambeau.onnx.operators.values import NUMBERS, array_of
from flambeau.onnx.protobufs import onnx

__all__ = ["Builder", "Value", "elem_type"]


class Value:
    """A name of the graph, and what is known about what it stands for."""

    __slots__ = ("dtype", "name", "shape")

    def __init__(self, name: str, dtype: Any = None, shape: Any = None) -> None:
        self.name = name
        self.dtype = dtype
        self.shape = shape  # sizes may be symbols; None if nothing is known

    @property
    def rank(self) -> int:
        if self.shape is None:
            raise SymbolicValueError(f"the number of dimensions of {self.name!r} is not known")
        return len(self.shape)

    def size(self, axis: int) -> int:
        """A size that must be a number when the model is exported."""
        size = self.shape[axis]
        if not isinstance(size, int):
            raise SymbolicValueError(f"dimension {axis} of {self.name!r} may change; it must not")
        return size


class Size(Value):
    """A size that is only known when the model runs: a vector of one integer."""


def elem_type(dtype: Any) -> int:
    """The number of a dtype in ONNX."""
    if dtype not in NUMBERS:
        raise UnsupportedOperatorError(f"ONNX has no elements of type {dtype}")
    return NUMBERS[dtype]


class Builder:
    """Collects what a graph consists of. Translations write `g.op("Relu", x)`."""

    def __init__(self, opset: int, parent: "Builder | None" = None) -> None:
        self.opset = opset
        self.nodes: list[Any] = []
        self.parent = parent
        self.home: Builder = self if parent is None else parent.home
        if parent is None:
            self.names: set[str] = set()
            self.initializers: dict[str, Any] = {}  # name: array or tensor
            self.constants: dict[Any, Value] = {}
            self.domains: dict[str, int] = {"": opset}
        self.place = ""  # a name for nodes: where in the model they come from

    def fresh(self, hint: str) -> str:
        """A name that nothing else has."""
        names, name, count = self.home.names, hint or "value", 0
        while name in names:
            count += 1
            name = f"{hint}_{count}"
        names.add(name)
        return name

    def op(
        self, kind: str, *inputs: Any, outputs: int = 1, dtype: Any = None, **options: Any
    ) -> Any:
        """A node; `domain::Name` for ops of others. Inputs are values, numbers, lists or None."""
        domain, _, name = kind.rpartition("::")
        if domain:
            self.home.domains.setdefault(domain, 1)
        first = next((i for i in inputs if isinstance(i, Value)), None)
        names = [self.name_of(value, first) for value in inputs]
        while names and names[-1] == "":
            names.pop()
        results = [Value(self.fresh(name.lower()), dtype) for _ in range(outputs)]
        if dtype is None and first is not None:
            for result in results:
                result.dtype = first.dtype
        kept = {key: value for key, value in options.items() if value is not None}
        node = onnx.helper.make_node(
            name, names, [result.name for result in results], domain=domain, **kept
        )
        node.name = f"{self.place}/{results[0].name}" if self.place else results[0].name
        self.nodes.append(node)
        return results[0] if outputs == 1 else tuple(results)

    def name_of(self, value: Any, like: Value | None) -> str:
        if value is None:
            return ""
        if isinstance(value, Value):
            return value.name
        if isinstance(value, np.ndarray):
            return self.constant(value).name
        dtype = like.dtype if like is not None else None
        return self.number(value, dtype).name

    # Constants.

    def constant(self, array: np.ndarray, hint: str = "constant") -> Value:
        """A tensor that is part of the model; equal ones are one."""
        key = (array.dtype.str, array.dtype.name, array.shape, array.tobytes())
        home = self.home
        if array.size > 4096:
            key = (id(array),)  # type: ignore[assignment]
        if key not in home.constants:
            name = self.fresh(hint)
            home.initializers[name] = array
            dtype = torch.from_numpy(array[:0].copy() if array.ndim else array).dtype
            home.constants[key] = Value(name, dtype, tuple(array.shape))
        return home.constants[key]

    def weight(self, tensor: Any, hint: str) -> Value:
        """A parameter, a buffer, or a tensor that the program holds."""
        name = self.fresh(hint)
        self.home.initializers[name] = tensor
        return Value(name, tensor.dtype, tuple(tensor.shape))

    def number(self, value: Any, dtype: Any = None) -> Value:
        """A number as a tensor without dimensions, of this dtype."""
        if dtype is None:
            dtype = torch.float32 if isinstance(value, float) else torch.int64
            dtype = torch.bool if isinstance(value, bool) else dtype
        tensor = torch.tensor(value, dtype=dtype)
        if dtype is torch.bfloat16:
            return self.op(
                "Cast", self.number(value, torch.float32), to=elem_type(dtype), dtype=dtype
            )
        return self.constant(array_of(tensor))

    def ints(self, values: Sequence[Any]) -> Value:
        """A vector of integers, of which some may be sizes that only the running model knows."""
        if not any(isinstance(value, Value) for value in values):
            return self.constant(np.array([int(v) for v in values], dtype=np.int64))
        parts: list[Any] = []
        pending: list[int] = []
        for value in (*values, None):
            if isinstance(value, Value) or value is None:
                if pending:
                    parts.append(self.constant(np.array(pending, dtype=np.int64)))
                    pending = []
                if value is not None:
                    parts.append(value)
            else:
                pending.append(int(value))
        if len(parts) == 1:
            return parts[0]
        return self.op("Concat", *parts, axis=0, dtype=torch.int64)

    # Things that versions of the op set say differently.

    def cast(self, x: Value, dtype: Any) -> Value:
        if x.dtype is dtype:
            return x
        made = self.op("Cast", x, to=elem_type(dtype), dtype=dtype)
        made.shape = x.shape
        return made

    def reduce(self, kind: str, x: Value, axes: Sequence[int] | None, keep: bool) -> Value:
        """Axes are an input since version 18, of ReduceSum since 13."""
        flag = int(keep)
        if axes is None:
            return self.op(kind, x, keepdims=flag)
        if self.opset >= 18 or kind == "ReduceSum":
            return self.op(kind, x, self.ints(list(axes)), keepdims=flag)
        return self.op(kind, x, axes=list(axes), keepdims=flag)

    def unsqueeze(self, x: Value, axes: Sequence[int]) -> Value:
        return self.op("Unsqueeze", x, self.ints(list(axes)))

    def squeeze(self, x: Value, axes: Sequence[int]) -> Value:
        return self.op("Squeeze", x, self.ints(list(axes)))

    def reshape(self, x: Value, sizes: Sequence[Any]) -> Value:
        return self.op("Reshape", x, self.ints(sizes))

    def transpose(self, x: Value, order: Sequence[int]) -> Value:
        return self.op("Transpose", x, perm=list(order))

    def swap(self, x: Value, rank: int, a: int, b: int) -> Value:
        order = list(range(rank))
        order[a % rank], order[b % rank] = order[b % rank], order[a % rank]
        return self.transpose(x, order)

    def slice(self, x: Value, axis: int, start: Any, end: Any, step: int = 1) -> Value:
        return self.op(
            "Slice", x, self.ints([start]), self.ints([end]), self.ints([axis]), self.ints([step])
        )

    def shape_of(self, x: Value) -> Value:
        return self.op("Shape", x, dtype=torch.int64)

    def size_of(self, x: Value, axis: int) -> Value:
        """One size of a tensor, as a vector of one integer."""
        if self.opset >= 15:
            made = self.op("Shape", x, start=axis, end=axis + 1, dtype=torch.int64)
        else:
            made = self.op("Gather", self.shape_of(x), self.ints([axis]), axis=0, dtype=torch.int64)
        return Size(made.name, torch.int64, (1,))

    def sizes(self, x: Value) -> list[Any]:
        """All sizes of a tensor: numbers where they are known."""
        return [
            size if isinstance(size, int) else self.size_of(x, axis)
            for axis, size in enumerate(x.shape)
        ]

    def expand(self, x: Value, sizes: Sequence[Any]) -> Value:
        return self.op("Expand", x, self.ints(sizes))
