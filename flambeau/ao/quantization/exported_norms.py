"""Batch norms behind layers of exported programs: folded in, or spread out for training.

While a model trains, the weight that is rounded is the one that will be deployed, with the batch
norm folded in by its running statistics; results are divided again before the batch norm.
"""

from typing import Any

import flambeau as torch
from flambeau import nn
from flambeau.ao.quantization.quantizer.patterns import WEIGHED, base, only_user
from flambeau.ao.quantization.utils import getattr_from_fqn
from flambeau.aten.overloads import namespace
from flambeau.fx import GraphModule, Node
from flambeau.nn.utils.fusion import fuse_conv_bn_weights, fuse_linear_bn_weights

_TRAINING, _EPS = 5, 7  # arguments of aten.batch_norm


def _pairs(model: GraphModule, training: bool) -> list[tuple[Node, Node]]:
    """(layer, batch norm) that follow each other, all of whose values are known."""
    found = []
    for layer in model.graph.nodes:
        norm = only_user(layer) if base(layer) in WEIGHED else None
        if norm is None or base(norm) != "batch_norm" or bool(norm.args[_TRAINING]) != training:
            continue
        if all(isinstance(a, Node) and a.op == "get_attr" for a in norm.args[1:5]):
            found.append((layer, norm))
    return found


def _value(model: GraphModule, node: Any) -> Any:
    return None if node is None else getattr_from_fqn(model, node.target).detach()


def _bias(layer: Node) -> Any:
    return layer.args[2] if len(layer.args) > 2 else None


def _hold(model: GraphModule, before: Node, name: str, value: torch.Tensor) -> Node:
    """A parameter of the program itself."""
    name = name.replace(".", "_")
    while hasattr(model, name):
        name += "_"
    model.register_parameter(name, nn.Parameter(value, requires_grad=False))
    with model.graph.inserting_before(before):
        return model.graph.get_attr(name)


def _folded(model: GraphModule, layer: Node, weight: Node, bias: Any, norm: Node) -> None:
    """The layer with the batch norm in its weight and bias, which come from new parameters."""
    gamma, beta, mean, var = (_value(model, a) for a in norm.args[1:5])
    facts = (_value(model, weight), _value(model, bias), mean, var, norm.args[_EPS], gamma, beta)
    if base(layer) == "linear":
        parts: Any = fuse_linear_bn_weights(*facts)
    else:
        parts = fuse_conv_bn_weights(*facts, transpose="transpose" in base(layer))
    stem = str(weight.target)
    made = [_hold(model, layer, f"{stem}_{n}", p.detach()) for n, p in zip(("w", "b"), parts)]
    reads = layer.args[1]
    if isinstance(reads, Node) and reads is not weight:  # it is rounded on the way
        reads.prepend(made[0])
        reads.args = (made[0],)
    else:
        layer.update_arg(1, made[0])
    if len(layer.args) > 2:
        layer.update_arg(2, made[1])
    else:
        layer.args = (*layer.args, made[1])
    norm.replace_all_uses_with(layer)
    model.graph.erase_node(norm)


def fold_norms(model: GraphModule) -> None:
    """For models that do not train."""
    for layer, norm in _pairs(model, False):
        weight, bias = layer.args[1], _bias(layer)
        if weight.op == "get_attr" and (bias is None or bias.op == "get_attr"):
            _folded(model, layer, weight, bias, norm)
    model.graph.eliminate_dead_code()
    model.recompile()


def spread_norms(model: GraphModule) -> None:
    """For models that do, after their weights are observed."""
    aten, graph = namespace("aten"), model.graph
    for layer, norm in _pairs(model, True):
        rounded = layer.args[1]
        if rounded.op != "call_module":
            continue
        weight, bias = rounded.args[0], _bias(layer)
        _, gamma, _, _, var = norm.args[:5]
        rank = _value(model, weight).dim()
        across = 1 if "transpose" in base(layer) else 0
        layer.prepend(rounded)  # behind the values of the batch norm
        with graph.inserting_before(rounded):
            spread = graph.call_function(aten.sqrt.default, (
                graph.call_function(aten.add.Tensor, (var, norm.args[_EPS])),))  # fmt: skip
            factor = graph.call_function(aten.div.Tensor, (gamma, spread))
            shape = [-1 if k == across else 1 for k in range(rank)]
            wide = graph.call_function(aten.view.default, (factor, shape))
            scaled = graph.call_function(aten.mul.Tensor, (weight, wide))
        rounded.args = (scaled,)
        if len(layer.args) > 2:
            layer.update_arg(2, None)
        shape = [-1] if base(layer) == "linear" else [-1, *[1] * (rank - 2)]
        with graph.inserting_before(norm):
            wide = graph.call_function(aten.view.default, (factor, shape))
            out = graph.call_function(aten.div.Tensor, (layer, wide))
            if bias is not None:
                wide = graph.call_function(aten.view.default, (bias, shape))
                out = graph.call_function(aten.add.Tensor, (out, wide))
        norm.update_arg(0, out)
        norm.meta["qat_parts"] = (layer.name, weight.name, bias and bias.name)
    graph.lint()
    model.recompile()


def fold_trained_norms(model: GraphModule) -> None:
    """What `spread_norms` has spread out, folded in with what was learnt."""
    by_name = {node.name: node for node in model.graph.nodes}
    for norm in list(model.graph.nodes):
        parts = norm.meta.get("qat_parts")
        if base(norm) == "batch_norm" and parts is not None:
            layer, weight, bias = (by_name.get(name) for name in parts)
            _folded(model, layer, weight, bias, norm)
    for node in list(model.graph.nodes):  # nobody counts batches any more
        if base(node) == "add_" and not node.users and "num_batches" in str(node.args[0]):
            model.graph.erase_node(node)
    model.graph.eliminate_dead_code()
