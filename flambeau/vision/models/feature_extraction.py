"""Results of inner layers: torchvision.models.feature_extraction, by hooks.

A node is a module, by its path ("layer1.0.relu"); the second call of the same module is
"layer1.0.relu_1". torchvision also names the functions between modules ("flatten", "add"), which
are no modules and no nodes here. A forward pass stops as soon as all that was asked for is there.
"""

import copy
import re
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from flambeau import nn

__all__ = ["create_feature_extractor", "get_graph_node_names"]

Nodes = Sequence[str] | dict[str, str] | None


class _Enough(Exception):
    """Everything that was asked for has been computed."""


def get_graph_node_names(
    model: nn.Module,
    tracer_kwargs: dict[str, Any] | None = None,
    suppress_diff_warning: bool = False,
    concrete_args: dict[str, Any] | None = None,
) -> tuple[list[str], list[str]]:
    """Nodes of a model while learning and otherwise: the paths of all modules without children."""
    names = [name for name, module in model.named_modules() if not any(module.children())]
    return names, list(names)


def create_feature_extractor(
    model: nn.Module,
    return_nodes: Nodes = None,
    train_return_nodes: Nodes = None,
    eval_return_nodes: Nodes = None,
    tracer_kwargs: dict[str, Any] | None = None,
    suppress_diff_warning: bool = False,
    concrete_args: dict[str, Any] | None = None,
) -> nn.Module:
    """A model that returns results of inner modules, by name.

    It shares all modules with the given one.

    Args:
        return_nodes: paths of modules, or a dict from paths to the names of their results.
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
        True: _named(model, return_nodes if train_return_nodes is None else train_return_nodes),
        False: _named(model, return_nodes if eval_return_nodes is None else eval_return_nodes),
    }
    extractor = copy.copy(model)
    extractor.__class__ = type(type(model).__name__, (_Extractor, type(model)), {})
    extractor._wanted = wanted
    return extractor


def _named(model: nn.Module, nodes: Nodes) -> dict[str, dict[int, str]]:
    """For each path, which of its calls is asked for and under which name."""
    given = nodes if isinstance(nodes, dict) else {name: name for name in nodes or ()}
    modules = dict(model.named_modules())
    found: dict[str, dict[int, str]] = {}
    for query, name in given.items():
        path, call = str(query), 0
        again = re.fullmatch(r"(.+)_([0-9]+)", path)
        if path not in modules and again and again[1] in modules:
            path, call = again[1], int(again[2])
        if path not in modules or not path:
            raise ValueError(
                f"node: '{query}' is not present in model. Hint: use `get_graph_node_names` to "
                "make sure the `return_nodes` you specified are present. It may even be that you "
                "need to specify `train_return_nodes` and `eval_return_nodes` separately."
            )
        found.setdefault(path, {})[call] = str(name)
    return found


class _Extractor(nn.Module):
    """Mixed into the class of a model: forward collects results and returns them."""

    _wanted: dict[bool, dict[str, dict[int, str]]]

    def forward(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        wanted = self._wanted[self.training]
        missing = sum(map(len, wanted.values()))
        found: dict[str, Any] = OrderedDict()
        calls = dict.fromkeys(wanted, 0)

        def keep(path: str, result: Any) -> None:
            name = wanted[path].get(calls[path])
            calls[path] += 1
            if name is not None:
                found[name] = result
                if len(found) == missing:
                    raise _Enough

        hooks = [
            self.get_submodule(path).register_forward_hook(
                lambda module, inputs, result, path=path: keep(path, result)
            )
            for path in wanted
        ]
        try:
            super().forward(*args, **kwargs)
        except _Enough:
            return found
        finally:
            for hook in hooks:
                hook.remove()
        raise RuntimeError(
            f"the model called only the nodes {list(found)} of those that were asked for"
        )
