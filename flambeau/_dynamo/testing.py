"""`torch._dynamo.testing`: backends that count, for tests of programs."""

from collections.abc import Callable
from typing import Any

from flambeau._dynamo.backends import lookup_backend
from flambeau._dynamo.utils import same as same

__all__ = ["CompileCounter", "CompileCounterWithBackend", "same"]

_OPS = ("call_function", "call_method", "call_module")


class CompileCounter:
    """Runs graphs as they are, and counts them and their ops."""

    def __init__(self) -> None:
        self.frame_count: int | str = 0
        self.op_count: int | str = 0
        self.clear()

    def __call__(self, gm: Any, example_inputs: list) -> Callable:
        self.frame_count += 1  # type: ignore[operator]
        self.op_count += sum(n.op in _OPS for n in gm.graph.nodes)  # type: ignore[operator]
        return gm.forward

    def clear(self) -> None:
        self.frame_count = self.op_count = 0


class CompileCounterWithBackend(CompileCounter):
    """The same in front of another backend; keeps the graphs."""

    def __init__(self, backend: str) -> None:
        self.backend, self.graphs = backend, []  # type: ignore[var-annotated]
        super().__init__()

    def __call__(self, gm: Any, example_inputs: list) -> Callable:
        super().__call__(gm, example_inputs)
        self.graphs.append(gm)
        return lookup_backend(self.backend)(gm, example_inputs)

    def clear(self) -> None:
        super().clear()
        self.graphs = []
