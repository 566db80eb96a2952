"""Programs as graphs: values with types, nodes that make them, and blocks of nodes.

A node of control flow holds blocks: `prim::If` one per branch, `prim::Loop` its body. Each value is
made once; what a branch or a loop changes comes out of the node. The names of methods (`nodes()`,
`kind()`, `debugName()`) are PyTorch's, since tools walk graphs with them; the fields beside them
are ours.
"""

import math
from collections.abc import Iterator
from typing import Any

from flambeau._device import device
from flambeau._tensor import Tensor
from flambeau.jit import types as T
from flambeau.jit.places import Place


class Value:
    """What a node or a block gives."""

    __slots__ = ("name", "node", "type_", "unique")

    def __init__(self, node: "Node", type_: T.Type, name: str = "") -> None:
        self.node, self.type_, self.name = node, type_, name
        self.unique = ""  # the name in texts of graphs

    def type(self) -> T.Type:
        return self.type_

    def setType(self, type_: T.Type) -> "Value":
        self.type_ = type_
        return self

    def debugName(self) -> str:
        graph = self.node.block.graph
        graph.name_values()
        return self.unique

    def unique_name(self) -> str:
        return self.debugName()

    def isCompleteTensor(self) -> bool:
        return isinstance(self.type_, T.SizedTensor)

    def toIValue(self) -> Any:
        """The value, if it is a constant."""
        return self.node.attributes.get("value") if self.node.op == "prim::Constant" else None

    def uses(self) -> list["Use"]:
        """Where it is read."""
        return [
            Use(node, k)
            for node in self.node.block.graph.all_nodes()
            for k, value in enumerate(node.ins)
            if value is self
        ]

    def __repr__(self) -> str:
        return f"{self.debugName()} defined in ({self.node})"


class Use:
    """A node that reads a value, and as which input."""

    __slots__ = ("user", "offset")

    def __init__(self, user: "Node", offset: int) -> None:
        self.user, self.offset = user, offset


class Node:
    """One step of a program."""

    __slots__ = ("attributes", "block", "blocks_", "ins", "op", "outs", "place", "schema_", "scope")

    def __init__(
        self, block: "Block", op: str, ins: list[Value] | tuple = (), place: Place | None = None
    ) -> None:
        self.block, self.op, self.ins, self.place = block, op, list(ins), place
        self.outs: list[Value] = []
        self.blocks_: list[Block] = []
        self.attributes: dict[str, Any] = {}
        self.schema_: Any = None
        self.scope = ""

    def __call__(self) -> "Node":
        """Itself: `value.node`, a field here, is a method in PyTorch."""
        return self

    def add_output(self, type_: T.Type, name: str = "") -> Value:
        value = Value(self, type_, name)
        self.outs.append(value)
        return value

    def add_block(self) -> "Block":
        block = Block(self.block.graph, self)
        self.blocks_.append(block)
        return block

    @property
    def out(self) -> Value:
        return self.outs[0]

    # -- PyTorch's names
    def kind(self) -> str:
        return self.op

    def inputs(self) -> Iterator[Value]:
        return iter(self.ins)

    def outputs(self) -> Iterator[Value]:
        return iter(self.outs)

    def inputsAt(self, k: int) -> Value:
        return self.ins[k]

    def outputsAt(self, k: int) -> Value:
        return self.outs[k]

    def inputsSize(self) -> int:
        return len(self.ins)

    def outputsSize(self) -> int:
        return len(self.outs)

    def input(self) -> Value:
        (value,) = self.ins
        return value

    def output(self) -> Value:
        (value,) = self.outs
        return value

    def blocks(self) -> Iterator["Block"]:
        return iter(self.blocks_)

    def attributeNames(self) -> list[str]:
        return list(self.attributes)

    def hasAttribute(self, name: str) -> bool:
        return name in self.attributes

    def attribute(self, name: str) -> Any:
        return self.attributes[name]

    s = i = f = t = ival = ty = __getitem__ = attribute

    def kindOf(self, name: str) -> str:
        value = self.attributes[name]
        kinds = {bool: "i", int: "i", float: "f", str: "s"}
        return "t" if isinstance(value, Tensor) else kinds.get(type(value), "ival")

    def scopeName(self) -> str:
        return self.scope

    def sourceRange(self) -> str:
        return "" if self.place is None else self.place.shown()

    def schema(self) -> str:
        return "(no schema)" if self.schema_ is None else str(self.schema_)

    def owningBlock(self) -> "Block":
        return self.block

    def findNode(self, kind: str) -> "Node | None":
        return next(iter(self.findAllNodes(kind)), None)

    def findAllNodes(self, kind: str) -> list["Node"]:
        return [n for b in self.blocks_ for n in b.all_nodes() if n.op == kind]

    def __str__(self) -> str:
        self.block.graph.name_values()
        return "\n".join(_node_lines(self, ""))


class Block:
    """Nodes in order, what they are given and what they give."""

    __slots__ = ("graph", "node", "nodes_", "param", "result", "__weakref__")

    def __init__(self, graph: "Graph", node: Node | None) -> None:
        self.graph, self.node = graph, node
        self.nodes_: list[Node] = []
        self.param = Node(self, "prim::Param")
        self.result = Node(self, "prim::Return")

    @property
    def ins(self) -> list[Value]:
        return self.param.outs

    @property
    def outs(self) -> list[Value]:
        return self.result.ins

    def add(self, op: str, ins: list[Value] | tuple = (), place: Place | None = None) -> Node:
        """A new node at the end."""
        node = Node(self, op, ins, place)
        self.nodes_.append(node)
        return node

    def all_nodes(self) -> Iterator[Node]:
        """All nodes with those of inner blocks and what blocks give back."""
        for node in self.nodes_:
            yield node
            for block in node.blocks_:
                yield from block.all_nodes()
        yield self.result

    def all_values(self) -> Iterator[Value]:
        yield from self.param.outs
        for node in self.nodes_:
            yield from node.outs
            for block in node.blocks_:
                yield from block.all_values()

    def nodes(self) -> Iterator[Node]:
        return iter(self.nodes_)

    def inputs(self) -> Iterator[Value]:
        return iter(self.ins)

    def outputs(self) -> Iterator[Value]:
        return iter(self.outs)

    def returnNode(self) -> Node:
        return self.result

    def paramNode(self) -> Node:
        return self.param


class Graph(Block):
    """The graph of a function: its outermost block."""

    def __init__(self) -> None:
        super().__init__(self, None)

    def name_values(self) -> None:
        """Give all values the names that texts show."""
        values = list(self.all_values())
        if all(value.unique for value in values):
            return
        taken = {value.unique for value in values if value.unique}
        counts: dict[str, int] = {}
        number = 0
        for value in values:
            if value.unique:
                continue
            name, base = value.name, value.name
            while not name or name in taken:
                if base:
                    counts[base] = counts.get(base, 0) + 1
                    name = f"{base}.{counts[base]}"
                else:
                    name, number = str(number), number + 1
            value.unique = name
            taken.add(name)

    def block(self) -> "Graph":
        return self

    def copy(self) -> "Graph":
        """A graph of the same nodes."""
        from flambeau.jit.passes import copied

        return copied(self)

    def findNode(self, kind: str) -> Node | None:
        return next(iter(self.findAllNodes(kind)), None)

    def findAllNodes(self, kind: str) -> list[Node]:
        return [node for node in self.all_nodes() if node.op == kind]

    def return_node(self) -> Node:
        return self.result

    def param_node(self) -> Node:
        return self.param

    def lint(self) -> None:
        """Check that values are made before they are read."""
        _lint(self, set())

    def __str__(self) -> str:
        self.name_values()
        params = [f"%{value.unique} : {value.type_.detail}" for value in self.ins]
        joined = ",\n      ".join(params)
        lines = [f"graph({joined}):"]
        for node in self.nodes_:
            lines.extend(_node_lines(node, "  "))
        lines.append(f"  return ({_names(self.outs)})")
        return "\n".join(lines) + "\n"

    __repr__ = __str__


def _lint(block, known):
    known = known | set(block.ins)
    for node in block.nodes_:
        for value in node.ins:
            assert value in known, f"{node} reads a value that is not there"
        for inner in node.blocks_:
            _lint(inner, known)
        known.update(node.outs)
    for value in block.outs:
        assert value in known, "a block gives a value that is not there"


# -- text ------------------------------------------------------------------------------------------


def _names(values):
    return ", ".join(f"%{value.unique}" for value in values)


def _node_lines(node, indent):
    made = ", ".join(f"%{value.unique} : {value.type_.detail}" for value in node.outs)
    line = f"{indent}{made} = {node.op}{_attributes(node)}({_names(node.ins)})"
    if node.scope:
        line += f", scope: {node.scope}"
    if node.place is not None:
        line += f" # {node.place.shown()}"
    yield line
    for k, block in enumerate(node.blocks_):
        inputs = ", ".join(f"%{value.unique} : {value.type_}" for value in block.ins)
        yield f"{indent}  block{k}({inputs}):"
        for inner in block.nodes_:
            yield from _node_lines(inner, indent + "    ")
        yield f"{indent}    -> ({_names(block.outs)})"


def _attributes(node):
    given = {k: v for k, v in node.attributes.items() if not k.startswith("_")}
    if node.op == "prim::Constant" and node.outs[0].type_ == T.NONE:
        return ""
    if node.op == "prim::Constant" and node.outs[0].type_ == T.FUNCTION:
        return f'[name="{given["value"].name}"]'
    if not given:
        return ""
    return f"[{', '.join(f'{k}={shown(v)}' for k, v in given.items())}]"


def float_text(value: float) -> str:
    """A float as PyTorch's texts have it: with all digits, and always a point."""
    if math.isinf(value) or math.isnan(value):
        return str(value)
    text = f"{value:.17g}"
    return text if any(c in text for c in ".e") else text + "."


def escaped(text: str) -> str:
    """A string in double quotes."""
    out = ['"']
    named = {"\\": "\\\\", "'": "\\'", '"': '\\"', "\a": "\\a", "\b": "\\b", "\f": "\\f",
             "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}  # fmt: skip
    for letter in text:
        if letter in named:
            out.append(named[letter])
        elif ord(letter) < 32 or ord(letter) > 126:
            out.extend(f"\\{byte:03o}" for byte in letter.encode("utf-8", "surrogatepass"))
        else:
            out.append(letter)
    return "".join([*out, '"'])


def shown(value: Any) -> str:
    """An attribute in the text of a graph."""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float):
        return float_text(value)
    if isinstance(value, str):
        return escaped(value)
    if isinstance(value, device):
        return f'"{value}"'
    if isinstance(value, Tensor):
        return f"{{{value.item()}}}" if value.ndim == 0 else "<Tensor>"
    if isinstance(value, tuple):
        return f"({', '.join(map(shown, value))})"
    if isinstance(value, list):
        return f"[{', '.join(map(shown, value))}]"
    return str(value)
