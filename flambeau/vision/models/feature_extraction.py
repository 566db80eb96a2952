"""Results of inner layers: torchvision.models.feature_extraction, on recorded graphs.

A node is a call of a module, by its path ("layer1.0.relu"), or of a function in a module
("layer1.0.add"); the second call of one name is "layer1.0.relu_1". A module that is made of others
stands for its last node. What is not needed for the wanted results is left out.
"""

import re
import warnings
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from flambeau import fx, nn
from flambeau.fx.graph_module import _copy_attr

__all__ = ["create_feature_extractor", "get_graph_node_names"]

Nodes = Sequence[str] | dict[str, str] | None


class NodePathTracer(fx.Tracer):
    """Records a model, and in which module each node was made."""

    def __init__(self, *args: Any, leaf_modules: Sequence[type] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.leaf_modules = tuple(leaf_modules)
        self.node_to_qualname: OrderedDict[fx.Node, str] = OrderedDict()
        self._counts: dict[str, int] = {}

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return isinstance(m, self.leaf_modules) or super().is_leaf_module(m, module_qualified_name)

    def create_proxy(
        self, kind: str, target: Any, args: Any, kwargs: Any, *rest: Any, **options: Any
    ) -> Any:
        proxy = super().create_proxy(kind, target, args, kwargs, *rest, **options)
        self.node_to_qualname[proxy.node] = self._named(proxy.node)
        return proxy

    def _named(self, node):
        if node.op == "call_module":
            name = str(node.target)
        else:
            short = re.sub(r"_[0-9]+$", "", node.name)
            path = self.scope.module_path
            name = f"{path}.{short}" if path and node.op != "placeholder" else short
        count = self._counts[name] = self._counts.get(name, -1) + 1
        return f"{name}_{count}" if count else name


def _recorded(model, training, options, concrete_args):
    """The graph of a model in one mode, and its names: node -> path."""
    before = {module: module.training for module in model.modules()}
    model.train(training)
    try:
        tracer = NodePathTracer(**(options or {}))
        graph = tracer.trace(model, concrete_args=concrete_args)
    finally:
        for module, mode in before.items():
            module.training = mode
    return graph, tracer.node_to_qualname


def get_graph_node_names(
    model: nn.Module,
    tracer_kwargs: dict[str, Any] | None = None,
    suppress_diff_warning: bool = False,
    concrete_args: dict[str, Any] | None = None,
) -> tuple[list[str], list[str]]:
    """Nodes of a model while learning and otherwise, in the order in which they run."""
    learning, otherwise = (
        list(_recorded(model, mode, tracer_kwargs, concrete_args)[1].values())
        for mode in (True, False)
    )
    if learning != otherwise and not suppress_diff_warning:
        warnings.warn(
            "The nodes obtained by tracing the model in eval mode are not those obtained in train "
            "mode. When choosing nodes for feature extraction, you may need to specify output "
            "nodes for train and eval mode separately.",
            stacklevel=2,
        )
    return learning, otherwise


def create_feature_extractor(
    model: nn.Module,
    return_nodes: Nodes = None,
    train_return_nodes: Nodes = None,
    eval_return_nodes: Nodes = None,
    tracer_kwargs: dict[str, Any] | None = None,
    suppress_diff_warning: bool = False,
    concrete_args: dict[str, Any] | None = None,
) -> nn.Module:
    """A model that returns results of inner nodes, by name.

    It shares the modules it needs with the given one.

    Args:
        return_nodes: names of nodes, or a dict from these to the names of their results.
        train_return_nodes, eval_return_nodes: the same for the two modes, if they differ.

    Example:
        >>> import flambeau as torch
        >>> from flambeau.vision.models.feature_extraction import create_feature_extractor
        >>> net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 5))
        >>> list(create_feature_extractor(net, {"1": "hidden"})(torch.zeros(2, 3)))
        ['hidden']
    """
    if return_nodes is None and train_return_nodes is None and eval_return_nodes is None:
        raise ValueError(
            "Either `return_nodes` or `train_return_nodes` and `eval_return_nodes` together, "
            "should be specified"
        )
    if (train_return_nodes is None) != (eval_return_nodes is None):
        raise ValueError(
            "If any of `train_return_nodes` and `eval_return_nodes` are specified, then both "
            "should be specified"
        )
    if return_nodes is not None and train_return_nodes is not None:
        raise ValueError(
            "If `train_return_nodes` and `eval_return_nodes` are specified, then both should be "
            "specified"
        )
    wanted = {
        True: _given(return_nodes if train_return_nodes is None else train_return_nodes),
        False: _given(return_nodes if eval_return_nodes is None else eval_return_nodes),
    }
    graphs = {}
    for mode in (True, False):
        graph, names = _recorded(model, mode, tracer_kwargs, concrete_args)
        graphs[mode] = _cut(model, graph, names, wanted[mode])
    return DualGraphModule(model, graphs[True], graphs[False], type(model).__name__)


def _given(nodes):
    return dict(nodes) if isinstance(nodes, dict) else {name: name for name in nodes or ()}


def _cut(model, graph, names, wanted):
    """The graph up to the wanted nodes, with those as output."""
    found: dict[str, fx.Node] = {}
    for query, shown in wanted.items():
        match = [n for n, name in names.items() if name == query]
        match = match or [n for n, name in names.items() if name.startswith(f"{query}.")]
        if not match:
            raise ValueError(
                f"node: '{query}' is not present in model. Hint: use `get_graph_node_names` to "
                "make sure the `return_nodes` you specified are present. It may even be that you "
                "need to specify `train_return_nodes` and `eval_return_nodes` separately."
            )
        found[str(shown)] = match[-1]
    order = list(names)
    ordered = dict(sorted(found.items(), key=lambda item: order.index(item[1])))
    graph.erase_node(graph.output_node())
    graph.output(ordered)
    fx.GraphModule(model, graph).graph.eliminate_dead_code()  # which asks modules
    return graph


class DualGraphModule(fx.GraphModule):
    """Runs one graph while learning and another otherwise; both share their modules."""

    def __init__(
        self,
        root: nn.Module,
        train_graph: fx.Graph,
        eval_graph: fx.Graph,
        class_name: str = "GraphModule",
    ) -> None:
        mine = train_graph if root.training else eval_graph
        super().__init__(root, mine, class_name)
        for node in (*train_graph.nodes, *eval_graph.nodes):
            if node.op in ("get_attr", "call_module"):
                _copy_attr(root, self, node.target)
        self.train_graph, self.eval_graph = train_graph, eval_graph

    def train(self, mode: bool = True) -> "DualGraphModule":
        """Change the mode, and with it the graph."""
        if mode is not self.training:
            self.graph = self.train_graph if mode else self.eval_graph
        super().train(mode)
        return self
