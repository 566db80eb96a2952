"""PassBase: a pass as an object."""

import abc
from typing import NamedTuple

from flambeau.fx.graph_module import GraphModule
from flambeau.nn import Module

__all__ = ["PassBase", "PassResult"]


class PassResult(NamedTuple):
    """What a pass gives: the module, and whether it changed."""

    graph_module: Module
    modified: bool


class PassBase(abc.ABC):
    """A pass: `requires` and `ensures` check the module before `call` and after it."""

    def __call__(self, graph_module: GraphModule) -> PassResult | None:
        self.requires(graph_module)
        result = self.call(graph_module)
        self.ensures(graph_module)
        return result

    @abc.abstractmethod
    def call(self, graph_module: GraphModule) -> PassResult | None:
        """Change the module."""

    def requires(self, graph_module: GraphModule) -> None:  # noqa: B027
        """Raise an error if the module is not ready for this pass."""

    def ensures(self, graph_module: GraphModule) -> None:  # noqa: B027
        """Raise an error if the pass did not do what it promises."""
