"""freeze: what a module holds becomes part of its program, and what follows from it is computed.

Attributes become constants, calls are written out, branches that are decided go, ops of constants
are replaced by their results, and batch norms are folded into the convolutions before them.
"""

from typing import Any

import flambeau
from flambeau._tensor import Tensor
from flambeau.jit import types as T
from flambeau.jit.building import type_of_constant
from flambeau.jit.compiling import Function
from flambeau.jit.ir import Block, Graph, Node, Value
from flambeau.jit.module_types import ModuleType
from flambeau.jit.modules import RecursiveScriptModule, ScriptModule, new_module, python_class
from flambeau.jit.passes import (
    copy_node,
    has_effects,
    inlined,
    pool_constants,
    remove_unused,
    replace,
)
from flambeau.jit.running import python_function
from flambeau.jit.schemas import Schema
from flambeau.jit.units import unit

_CONVOLUTIONS = frozenset({"aten::conv1d", "aten::conv2d", "aten::conv3d"})


def freeze(
    mod: Any, preserved_attrs: list[str] | None = None, optimize_numerics: bool = True
) -> RecursiveScriptModule:
    """A module whose attributes are constants of its program.

    Args:
        preserved_attrs: attributes and methods that stay.
        optimize_numerics: also do what changes rounding, such as folding batch norms.
    """
    if not isinstance(mod, ScriptModule):
        raise RuntimeError(
            "Freezing expects a ScriptModule as input. Please use torch.jit.script or "
            "torch.jit.trace to script your 'nn.Module'."
        )
    if mod.training:
        raise RuntimeError(
            "Freezing is currently only implemented for modules in eval mode. Please call .eval() "
            "on your module before freezing."
        )
    kept = preserved_attrs or []
    source: Any = mod._type
    kind = ModuleType(unit.unique_name(source.name), getattr(source, "original", object))
    methods = ["forward", *[n for n in kept if source.method(n) is not None]]
    written = _kept_attributes(mod, source, methods)
    names = [n for n in source.attributes if n in kept or n in written]
    for name in names:
        kind.attributes[name] = source.attributes[name]
    for title in ("parameters", "buffers"):
        setattr(kind, title, [n for n in getattr(source, title) if n in names])
    for name in methods:
        if source.method(name) is not None:
            kind.methods[name] = _frozen(mod, source.method(name), kind, names, optimize_numerics)
    return _made(mod, kind, names)


def _made(mod, kind, names):
    made = new_module(kind)
    made.__dict__["original_name"] = mod.original_name
    for name in names:
        value = getattr(mod, name)
        if name in kind.parameters:
            made.register_parameter(name, value)
        elif name in kind.buffers:
            made.register_buffer(name, value)
        elif isinstance(value, ScriptModule):
            made.add_module(name, value)
        else:
            made.__dict__[name] = value
    made.__dict__["training"] = False
    python_class(kind)
    return made


def _kept_attributes(mod, kind, methods):
    """Attributes that methods assign to, or that cannot be constants of a program."""
    found = set()
    for name in methods:
        method = kind.method(name)
        for node in inlined(method.graph).all_nodes() if method is not None else ():
            if node.op == "prim::SetAttr":
                found.add(_path_of(node.ins[0], node.attributes["name"])[0])
            elif node.op == "prim::GetAttr":
                path = _path_of(node.outs[0])
                if not _can_be_constant(_value_at(mod, path)):
                    found.add(path[0])
    return found


def _value_at(mod, path):
    for name in path:
        mod = getattr(mod, name)
    return mod


def _can_be_constant(value):
    if isinstance(value, tuple):
        return all(map(_can_be_constant, value))
    if isinstance(value, list):
        return all(type_of_constant(item) is not None for item in value)
    return isinstance(value, ScriptModule) or type_of_constant(value) is not None


def _path_of(value, *rest):
    """The names that lead from self to a value."""
    path = list(rest)
    while value.node.op == "prim::GetAttr":
        path.insert(0, value.node.attributes["name"])
        value = value.node.ins[0]
    return path


def _frozen(mod, method, kind, names, optimize):
    function = Function(method.name, f"{kind.name}.{method.name}", kind)
    graph = function.graph = inlined(method.graph)
    graph.ins[0].type_ = kind
    arguments = (method.schema.arguments[0]._replace(type=kind), *method.schema.arguments[1:])
    function.schema = Schema(method.name, "", arguments, method.schema.returns)
    _fill_attributes(mod, graph, names)
    simplify(graph)
    if optimize:
        _drop_checks(graph)
        _fold_norms(graph)
        simplify(graph)
    pool_constants(graph)
    return function


def _fill_attributes(mod, graph, names):
    """Constants in the place of attributes."""
    for node in list(graph.all_nodes()):
        if node.op != "prim::GetAttr":
            continue
        path = _path_of(node.outs[0])
        root = node
        while root.ins[0].node.op == "prim::GetAttr":
            root = root.ins[0].node
        if root.ins[0] is not graph.ins[0] or path[0] in names:
            continue
        made = _constant(node, _value_at(mod, path))
        if made is not None:
            replace(graph, node.outs[0], made)
    remove_unused(graph)


def _constant(before: Node, value: Any) -> Value | None:
    """A value as a constant, made just before a node; None if it cannot be one."""
    if isinstance(value, Tensor):
        value = value.detach()
    kind = type_of_constant(value)
    if kind is not None:
        node = _insert(before, "prim::Constant", [])
        node.attributes["value"] = value
        return node.add_output(before.outs[0].type_ if value is None else kind)
    if isinstance(value, (list, tuple)):
        parts = [_constant_part(before, v) for v in value]
        if any(p is None for p in parts):
            return None
        op = "prim::ListConstruct" if isinstance(value, list) else "prim::TupleConstruct"
        return _insert(before, op, parts).add_output(before.outs[0].type_)
    return None


def _constant_part(before, value):
    kind = type_of_constant(value)
    if kind is None:
        return None
    node = _insert(before, "prim::Constant", [])
    node.attributes["value"] = value.detach() if isinstance(value, Tensor) else value
    return node.add_output(kind)


def _insert(before, op, ins):
    node = Node(before.block, op, ins, before.place)
    nodes = before.block.nodes_
    nodes.insert(nodes.index(before), node)
    return node


# -- simplification --------------------------------------------------------------------------------


def simplify(graph: Graph) -> None:
    """Decide branches, compute constants and drop what nobody needs, until nothing changes."""
    while _fold_branches(graph, graph) or _fold_constants(graph) or _fold_dropout(graph):
        remove_unused(graph)
    remove_unused(graph)


def _is_constant(value):
    return value.node.op == "prim::Constant"


def _fold_branches(block: Block, graph: Graph) -> bool:
    for k, node in enumerate(block.nodes_):
        if node.op == "prim::If" and _is_constant(node.ins[0]):
            chosen = node.blocks_[0 if node.ins[0].node.attributes["value"] else 1]
            for inner in chosen.nodes_:
                inner.block = block
            block.nodes_[k : k + 1] = chosen.nodes_
            for out, value in zip(node.outs, chosen.outs):
                replace(graph, out, value)
            return True
        if any(_fold_branches(inner, graph) for inner in node.blocks_):
            return True
    return False


def _fold_constants(graph: Graph) -> bool:
    """Replace nodes of constants by what they give."""
    changed = False
    for node in list(graph.all_nodes()):
        if not _can_fold(node):
            continue
        result = _computed(node)
        made = None if result is None and node.outs[0].type_ != T.NONE else _constant(node, result)
        if made is not None:
            replace(graph, node.outs[0], made)
            changed = True
    if changed:
        remove_unused(graph)
    return changed


def _can_fold(node):
    if node.op == "prim::unchecked_cast":
        return _is_constant(node.ins[0])
    known = node.op.startswith("aten::") and len(node.outs) == 1 and not node.blocks_
    if not known or has_effects(node) or not node.ins:
        return False
    if node.outs[0].type_ not in (T.INT, T.FLOAT, T.BOOL, T.STR, T.TENSOR):
        return False
    return all(_is_fixed(value) for value in node.ins)


def _is_fixed(value):
    if value.node.op in ("prim::ListConstruct", "prim::TupleConstruct"):
        return all(_is_constant(v) for v in value.node.ins)
    return _is_constant(value)


# what a program may fail with when it runs
_FAILURES = (RuntimeError, ValueError, TypeError, LookupError, ArithmeticError, AssertionError)


def _computed(node):
    """What a node of constants gives; None if it fails, which is left to the program."""
    if node.op == "prim::unchecked_cast":
        return node.ins[0].node.attributes["value"]
    graph = Graph()
    values: dict[Value, Value] = {}
    for value in node.ins:
        for part in (*value.node.ins, value):
            if part not in values:
                copy_node(part.node, graph, values)
    copy_node(node, graph, values)
    graph.outs.append(values[node.outs[0]])
    function = Function("constant", "constant")
    function.graph = graph
    try:
        with flambeau.no_grad():
            return python_function(function)()
    except _FAILURES:
        return None


def _fold_dropout(graph: Graph) -> bool:
    """Dropout that is off does nothing."""
    changed = False
    for node in list(graph.all_nodes()):
        if node.op in ("aten::dropout", "aten::feature_dropout", "aten::alpha_dropout"):
            flag = node.ins[2].node
            if flag.op == "prim::Constant" and flag.attributes["value"] is False:
                replace(graph, node.outs[0], node.ins[0])
                node.block.nodes_.remove(node)
                changed = True
    return changed


def _drop_checks(block: Block) -> None:
    """Branches that do nothing but raise: inputs of a frozen module are trusted."""
    for node in list(block.nodes_):
        for inner in node.blocks_:
            _drop_checks(inner)
        if node.op == "prim::If" and not node.outs and all(map(_only_raises, node.blocks_)):
            block.nodes_.remove(node)
    if isinstance(block, Graph):
        remove_unused(block)


def _only_raises(block):
    for node in block.nodes_:
        if node.op != "prim::RaiseException" and (node.blocks_ or has_effects(node)):
            return False
    return True


def _fold_norms(graph: Graph) -> None:
    """A batch norm after a convolution is a convolution with other weights."""
    for node in list(graph.all_nodes()):
        if node.op != "aten::batch_norm" or node.ins[0].node.op not in _CONVOLUTIONS:
            continue
        convolution = node.ins[0].node
        fixed = [*convolution.ins[1:3], *node.ins[1:8]]
        if len(node.ins[0].uses()) != 1 or not all(_is_constant(v) for v in fixed):
            continue
        weight, bias, scale, shift, mean, var, training, _, eps = (
            v.node.attributes["value"] for v in fixed
        )
        if training or mean is None:
            continue
        factor = flambeau.rsqrt(var + eps)
        factor = factor if scale is None else factor * scale
        bias = flambeau.zeros_like(mean) if bias is None else bias
        new_bias = (bias - mean) * factor + (0 if shift is None else shift)
        new_weight = weight * factor.reshape(-1, *[1] * (weight.dim() - 1))
        for place, value in ((1, new_weight), (2, new_bias)):
            made = _insert(convolution, "prim::Constant", [])
            made.attributes["value"] = value
            convolution.ins[place] = made.add_output(T.TENSOR)
        replace(graph, node.outs[0], convolution.outs[0])


def optimize_for_inference(mod: Any, other_methods: list[str] | None = None) -> Any:
    """A frozen module that is ready to be called."""
    if not isinstance(mod, ScriptModule):
        raise RuntimeError(
            "optimize_for_inference expects a ScriptModule as input. Please use torch.jit.script "
            "or torch.jit.trace to script your 'nn.Module'."
        )
    if mod._type is not None and "training" not in mod._type.attributes:
        return mod  # frozen already
    return freeze(mod.eval(), preserved_attrs=other_methods)


def run_frozen_optimizations(
    mod: Any, optimize_numerics: bool = True, preserved_methods: list[str] | None = None
) -> None:
    """Simplify the program of a frozen module once more."""
    for method in mod._type.methods.values():
        simplify(method.graph)
        method.changed()
