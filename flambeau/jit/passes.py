"""Changes of graphs: what nobody uses goes, constants come first, calls are written out."""

from typing import Any

from flambeau._tensor import Tensor
from flambeau.jit import types as T
from flambeau.jit.ir import Block, Graph, Node, Value

# nodes with effects besides their results
_EFFECTS = frozenset(
    "prim::RaiseException prim::SetAttr prim::Print prim::CallFunction prim::CallMethod "
    "prim::Enter prim::Exit prim::fork prim::PythonOp aten::warn aten::wait aten::append "
    "aten::extend aten::insert aten::pop aten::clear aten::remove aten::reverse aten::sort "
    "aten::update aten::_set_item aten::Delete aten::setdefault aten::popitem aten::manual_seed "
    "aten::seed aten::set_grad_enabled aten::save aten::IntImplicit aten::FloatImplicit "
    "aten::ScalarImplicit aten::backward prim::ModuleContainerIndex".split()
)
_RANDOM = ("rand", "normal", "bernoulli", "multinomial", "dropout", "poisson", "rrelu")


def cleaned(graph: Graph) -> Graph:
    """A graph without what nobody uses, its constants first."""
    remove_unused(graph)
    simplify_tuples(graph)
    remove_unused(graph)
    pool_constants(graph)
    return graph


def has_effects(node: Node) -> bool:
    """Does a node do anything but give its results?"""
    if node.op in _EFFECTS or node.op[0] == "^":
        return True
    if node.schema_ is not None and node.schema_.writes:
        return True
    if node.op.endswith("_") and not node.op.endswith("__") and node.op.startswith("aten::"):
        return True
    if _may_draw(node):
        return True
    if node.op in ("aten::__getitem__", "aten::item", "prim::ListUnpack"):
        return False
    return any(has_effects(inner) for block in node.blocks_ for inner in block.nodes_)


def _may_draw(node):
    return node.op.startswith("aten::") and node.op[6:].startswith(_RANDOM)


def draws(node: Node) -> bool:
    """Does a node draw random numbers? Dropout does so while a model is trained."""
    if not _may_draw(node):
        return False
    flags = [v.node.attributes.get("value") for v in node.ins if v.type_ == T.BOOL]
    is_off = "dropout" in node.op or "rrelu" in node.op
    return not (is_off and flags and flags[-1] in (False, 0))


def remove_unused(graph: Graph) -> None:
    """Take nodes away whose results nobody uses, and results of branches and loops likewise."""
    while True:
        used = _used_values(graph)
        if not _sweep(graph, used):
            return


def _used_values(block):
    """The values that matter: those that effects, results and conditions need, and theirs."""
    producers: set[Value] = set()
    waiting: list[Value] = [*block.outs]
    owners: dict[Block, Node] = {}

    def visit(inner):
        for node in inner.nodes_:
            for sub in node.blocks_:
                owners[sub] = node
                visit(sub)
            if has_effects(node) or (not node.blocks_ and not node.outs):
                _need(node, waiting)
                parent = inner
                while parent in owners:  # whether it happens depends on these
                    _need(owners[parent], waiting)
                    parent = owners[parent].block

    visit(block)
    while waiting:
        value = waiting.pop()
        if value in producers:
            continue
        producers.add(value)
        node = value.node
        if node.op == "prim::Param":
            _need_carried(value, owners, waiting)
            continue
        _need(node, waiting)
        if node.op == "prim::If":
            waiting.extend(b.outs[node.outs.index(value)] for b in node.blocks_)
        elif node.op == "prim::Loop":
            waiting.append(node.blocks_[0].outs[node.outs.index(value) + 1])
            waiting.append(node.ins[node.outs.index(value) + 2])
        elif node.op == "prim::fork":
            waiting.extend(node.blocks_[0].outs)
        parent = node.block
        while parent in owners:
            _need(owners[parent], waiting)
            parent = owners[parent].block
    return producers


def _need(node, waiting):
    """A node runs: what it reads is needed, but not all that goes round a loop."""
    if node.op == "prim::Loop":
        waiting.extend(node.ins[:2])
        waiting.append(node.blocks_[0].outs[0])
    else:
        waiting.extend(node.ins)


def _need_carried(value, owners, waiting):
    """What enters a loop's body comes from before and from the round before."""
    loop = owners.get(value.node.block)
    if loop is None or loop.op != "prim::Loop":
        return
    k = value.node.outs.index(value)
    if k:
        waiting.append(loop.ins[k + 1])
        waiting.append(loop.blocks_[0].outs[k])
    _need(loop, waiting)


def _sweep(block, used):
    changed = False
    kept = []
    for node in block.nodes_:
        needed = any(v in used for v in node.outs) or has_effects(node)
        if not needed and (node.outs or node.blocks_ or node.op == "prim::Constant"):
            changed = True
            continue
        if node.op == "prim::If":
            changed |= _drop_outputs(node, [v in used for v in node.outs])
        elif node.op == "prim::Loop":
            changed |= _drop_carried(node, used)
        for inner in node.blocks_:
            changed |= _sweep(inner, used)
        kept.append(node)
    block.nodes_[:] = kept
    return changed


def _drop_outputs(node, keep):
    if all(keep):
        return False
    node.outs[:] = [v for v, k in zip(node.outs, keep) if k]
    for block in node.blocks_:
        block.outs[:] = [v for v, k in zip(block.outs, keep) if k]
    return True


def _drop_carried(node, used):
    block = node.blocks_[0]
    keep = [a in used or b in used for a, b in zip(node.outs, block.ins[1:])]
    # what goes round unchanged need not go round
    same = [end is start for end, start in zip(block.outs[1:], block.ins[1:])]
    for k, is_same in enumerate(same):
        if is_same and keep[k]:
            replace(node.block.graph, block.ins[k + 1], node.ins[k + 2])
            replace(node.block.graph, node.outs[k], node.ins[k + 2])
            keep[k] = False
    if all(keep):
        return False
    node.outs[:] = [v for v, k in zip(node.outs, keep) if k]
    node.ins[2:] = [v for v, k in zip(node.ins[2:], keep) if k]
    block.ins[1:] = [v for v, k in zip(block.ins[1:], keep) if k]
    block.outs[1:] = [v for v, k in zip(block.outs[1:], keep) if k]
    return True


def replace(graph: Graph, old: Value, new: Value) -> None:
    """Read another value wherever one is read."""
    for node in graph.all_nodes():
        node.ins[:] = [new if v is old else v for v in node.ins]


def simplify_tuples(graph: Graph) -> None:
    """What is packed and unpacked again was there before."""
    for node in list(graph.all_nodes()):
        if node.op == "prim::TupleUnpack" and node.ins[0].node.op == "prim::TupleConstruct":
            for out, part in zip(node.outs, node.ins[0].node.ins):
                replace(graph, out, part)
        elif node.op == "prim::TupleIndex" and node.ins[0].node.op == "prim::TupleConstruct":
            index = node.ins[1].node.attributes.get("value")
            if isinstance(index, int):
                replace(graph, node.outs[0], node.ins[0].node.ins[index])


def pool_constants(graph: Graph) -> None:
    """One constant of each value, at the start of the graph."""
    known: dict[Any, Value] = {}
    found: list[Node] = []
    renamed: dict[Value, Value] = {}
    for node in list(graph.all_nodes()):
        if node.op not in ("prim::Constant", "prim::Uninitialized"):
            continue
        value = node.attributes.get("value")
        key: Any = (node.op, str(node.outs[0].type_), type(value), repr(value))
        if isinstance(value, (Tensor, float)) or callable(value) or isinstance(value, list):
            key = (node.op, id(value)) if not isinstance(value, float) else (value.hex(),)
        first = known.setdefault(key, node.outs[0])
        node.block.nodes_.remove(node)
        if first is node.outs[0]:
            found.append(node)
        else:
            renamed[node.outs[0]] = first
    for node in graph.all_nodes():
        node.ins[:] = [renamed.get(v, v) for v in node.ins]
    for node in found:
        node.block = graph
    graph.nodes_[:0] = found


# -- copies ----------------------------------------------------------------------------------------


def copied(graph: Graph) -> Graph:
    """Another graph of the same nodes."""
    made = Graph()
    copy_block(graph, made, {})
    return made


def copy_block(block: Block, into: Block, values: dict[Value, Value]) -> dict[Value, Value]:
    """Copy a block's inputs, nodes and outputs into an empty one."""
    for value in block.ins:
        values[value] = into.param.add_output(value.type_, value.name)
    copy_nodes(block, into, values)
    into.outs.extend(values[v] for v in block.outs)
    return values


def copy_nodes(block: Block, into: Block, values: dict[Value, Value]) -> None:
    """Copy nodes to the end of another block; values says what their inputs are there."""
    for node in block.nodes_:
        copy_node(node, into, values)


def copy_node(node: Node, into: Block, values: dict[Value, Value]) -> Node:
    """Copy one node to the end of a block."""
    made = into.add(node.op, [values[v] for v in node.ins], node.place)
    made.attributes = dict(node.attributes)
    made.schema_, made.scope = node.schema_, node.scope
    for value in node.outs:
        values[value] = made.add_output(value.type_, value.name)
    for inner in node.blocks_:
        copy_block(inner, made.add_block(), values)
    return made


def inlined(graph: Graph) -> Graph:
    """A graph with the bodies of functions and methods in the place of their calls."""
    made = Graph()
    values: dict[Value, Value] = {}
    for value in graph.ins:
        values[value] = made.param.add_output(value.type_, value.name)
    _inline_nodes(graph, made, values)
    made.outs.extend(values[v] for v in graph.outs)
    return cleaned(made)


def _inline_nodes(block, into, values):
    for node in block.nodes_:
        called = called_function(node)
        if called is not None:
            given = node.ins[1:] if node.op == "prim::CallFunction" else node.ins
            inner = {p: values[v] for p, v in zip(called.graph.ins, given)}
            first = len(into.nodes_)
            _inline_nodes(called.graph, into, inner)
            for made in into.nodes_[first:]:
                made.scope = made.scope or node.scope
            result = values[node.outs[0]] = inner[called.graph.outs[0]]
            if isinstance(node.outs[0].type_, T.SizedTensor):  # the call knows more than the body
                result.type_ = node.outs[0].type_
            continue
        if not node.blocks_:
            copy_node(node, into, values)
            continue
        made = into.add(node.op, [values[v] for v in node.ins], node.place)
        made.attributes, made.schema_ = dict(node.attributes), node.schema_
        for inner_block in node.blocks_:
            target = made.add_block()
            for value in inner_block.ins:
                values[value] = target.param.add_output(value.type_, value.name)
            _inline_nodes(inner_block, target, values)
            target.outs.extend(values[v] for v in inner_block.outs)
        for value in node.outs:
            values[value] = made.add_output(value.type_, value.name)


def called_function(node: Node) -> Any:
    """The Function that a node calls, if its graph is known; None otherwise."""
    if node.op == "prim::CallFunction":
        return node.ins[0].node.attributes.get("value")
    if node.op == "prim::CallMethod":
        kind = node.ins[0].type_
        if isinstance(kind, T.ClassType) and not kind.is_interface:
            return kind.method(node.attributes["name"])
    return None
