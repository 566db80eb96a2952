"""Which nodes something else can run: questions that partitioners ask."""

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import flambeau
from flambeau._tensor import Tensor
from flambeau.fx.naming import _get_qualified_name
from flambeau.fx.node import Node
from flambeau.nn import Module

__all__ = [
    "OpSupports",
    "OperatorSupport",
    "OperatorSupportBase",
    "any_chain",
    "chain",
    "create_op_support",
]

CALLABLE_NODE_OPS = frozenset({"call_module", "call_function", "call_method"})
SupportDict = Mapping[str, Sequence[Sequence[Any] | None] | None]


def get_node_target(submodules: Mapping[str, Module], node: Node) -> str:
    """The name of what a node calls: a class of modules, a function or a method."""
    if node.op not in CALLABLE_NODE_OPS:
        raise AssertionError(
            f"Expect op types of {', '.join(sorted(CALLABLE_NODE_OPS))}, but found {node.op}"
        )
    if node.op == "call_module":
        module = submodules[str(node.target)]
        kind = type(module)
        return f"{kind.__module__.replace('flambeau', 'torch', 1)}.{kind.__qualname__}"
    if node.op == "call_function":
        name = _get_qualified_name(node.target)
        return f"_operator.{node.target.__name__}" if "operator" in name else name
    return str(node.target)


class OperatorSupportBase(abc.ABC):
    """Says of nodes whether they are supported."""

    @abc.abstractmethod
    def is_node_supported(self, submodules: Mapping[str, Module], node: Node) -> bool:
        """Is it?"""
        raise NotImplementedError


class OperatorSupport(OperatorSupportBase):
    """Support by names, and by dtypes of arguments where they are given."""

    def __init__(self, support_dict: SupportDict | None = None) -> None:
        self._support_dict = support_dict or {}

    def is_node_supported(self, submodules: Mapping[str, Module], node: Node) -> bool:
        if node.op not in CALLABLE_NODE_OPS:
            return True
        target = get_node_target(submodules, node)
        if target not in self._support_dict:
            return False
        wanted = self._support_dict[target]
        if wanted is None:
            return True
        given = [n for n in node.args if isinstance(n, Node)]
        return all(
            kinds is None or _dtype(given[k]) in kinds
            for k, kinds in enumerate(wanted[: len(given)])
        )


def _dtype(node: Node) -> Any:
    found = node.meta.get("tensor_meta") or node.meta.get("val")
    return getattr(found, "dtype", None)


class _Asking(OperatorSupportBase):
    """A function that says whether a node is supported."""

    def __init__(self, function: Callable[[Mapping[str, Module], Node], bool]) -> None:
        self.function = function

    def is_node_supported(self, submodules: Mapping[str, Module], node: Node) -> bool:
        return self.function(submodules, node)


def create_op_support(is_node_supported: Callable) -> OperatorSupportBase:
    """Support by a function of (submodules, node)."""
    return _Asking(is_node_supported)


def chain(*op_support: OperatorSupportBase) -> OperatorSupportBase:
    """Supported if all say so."""
    return _Asking(
        lambda modules, node: all(s.is_node_supported(modules, node) for s in op_support)
    )


def any_chain(*op_support: OperatorSupportBase) -> OperatorSupportBase:
    """Supported if one says so."""
    return _Asking(
        lambda modules, node: any(s.is_node_supported(modules, node) for s in op_support)
    )


class OpSupports:
    """Common answers."""

    @classmethod
    def decline_if_input_dtype(cls, dtype: flambeau.dtype) -> OperatorSupportBase:
        """Not with arguments of this dtype."""
        return _Asking(lambda modules, node: all(_dtype(n) != dtype for n in node.all_input_nodes))

    @classmethod
    def decline_if_node_in_names(cls, disallow_set: set[str]) -> OperatorSupportBase:
        """Not nodes of these names."""
        return _Asking(lambda modules, node: node.name not in disallow_set)


def is_node_output_tensor(node: Node) -> bool:
    """Is the value of a node a tensor, as far as was noted?"""
    kind = node.meta.get("type")
    return isinstance(node.meta.get("val"), Tensor) or (
        isinstance(kind, type) and issubclass(kind, Tensor)
    )
