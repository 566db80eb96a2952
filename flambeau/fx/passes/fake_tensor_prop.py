"""FakeTensorProp: shapes and dtypes of all values, as tensors without values."""

from typing import Any

from flambeau._subclasses.fake_tensor import FakeTensor
from flambeau._tensor import Tensor
from flambeau.fx.interpreter import Interpreter
from flambeau.fx.node import Node, map_aggregate

__all__ = ["FakeTensorProp"]


class FakeTensorProp(Interpreter):
    """Runs a module; afterwards nodes have meta["val"]."""

    def __init__(self, module: Any, mode: Any = None) -> None:
        super().__init__(module)
        self._mode = mode

    def run_node(self, n: Node) -> Any:
        """Run a node and note what it gives."""
        result = super().run_node(n)
        n.meta["val"] = map_aggregate(
            result, lambda value: FakeTensor.of(value) if isinstance(value, Tensor) else value
        )
        return result

    def propagate(self, *args: Any) -> Any:
        """Run the module on its inputs."""
        return self.run(*args)
