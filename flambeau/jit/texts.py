"""Graphs as Python text: what `.code` shows and archives hold, and the base of what runs.

A value that is read once, by what follows at once, is written where it is read; all others get a
name. Branches and loops are statements that assign what comes out of them.
"""

import keyword
from typing import Any

from flambeau._device import device
from flambeau._tensor import Tensor
from flambeau.jit import types as T
from flambeau.jit.ir import Block, Node, Value, escaped, float_text
from flambeau.jit.schemas import REQUIRED

LIMIT = 37  # expressions that are longer get a name
_RESERVED = frozenset(keyword.kwlist) | frozenset(
    "torch self CONSTANTS uninitialized ops fork annotate unchecked_cast getattr inf nan range "
    "infj nanj attribute list dict int float bool str isinstance print hasattr".split()
)
_CASTS = {
    "aten::sorted": "sorted",
    "aten::Int": "int",
    "aten::Float": "float",
    "aten::Bool": "bool",
    "aten::str": "str",
    "aten::Complex": "complex",
    "aten::IntImplicit": "int",
    "aten::FloatImplicit": "float",
    "aten::ComplexImplicit": "complex",
}
_CONSTANTS = ("prim::Constant",)
MOST = 9223372036854775807


class Constants:
    """Tensors that a program holds, by number."""

    def __init__(self) -> None:
        self.found: list[Any] = []

    def number(self, value: Any) -> int:
        for k, known in enumerate(self.found):
            if known is value:
                return k
        self.found.append(value)
        return len(self.found) - 1


class Text:
    """Writes the body of one graph."""

    limit = LIMIT
    indent_by = "  "
    says_types = True

    def __init__(self, constants: Constants | None = None) -> None:
        self.constants = constants or Constants()
        self.lines: list[str] = []
        self.names: dict[Value, str] = {}
        self.taken: set[str] = set()
        self.counts: dict[str, int] = {}
        self.inline: set[Node] = set()
        self.pending: dict[Value, None] = {}  # expressions that wait for their reader
        self.level = 0
        self.dependencies: list[Any] = []  # types and functions that the text names

    # -- names -------------------------------------------------------------------------------
    def fresh(self, base: str) -> str:
        """A name that is not taken."""
        name = "".join(letter if letter.isalnum() or letter == "_" else "_" for letter in base)
        if name[:1].isdigit():
            name = "_" + name
        if name not in ("", "_") and name not in self.taken and name not in _RESERVED:
            self.taken.add(name)
            return name
        base = name or "_"
        while True:
            count = self.counts.get(base, 0)
            self.counts[base] = count + 1
            made = f"{base}{count}"
            if made not in self.taken and made not in _RESERVED:
                self.taken.add(made)
                return made

    def name_for(self, value: Value) -> str:
        """Name a value, from here on."""
        name = self.names[value] = self.fresh(value.name or "_")
        return name

    def read(self, value: Value) -> str:
        """The expression for a value."""
        return self.names[value]

    def all(self, values: list[Value]) -> str:
        return ", ".join(self.read(v) for v in values)

    def line(self, text: str) -> None:
        self.lines.append(self.indent_by * self.level + text)

    # -- what is written where it is read ----------------------------------------------------
    def scan(self, block: Block, uses: dict[Value, int]) -> None:
        nodes = block.nodes_
        point = self._scan_inputs(block.result, nodes, len(nodes) - 1, uses)
        while point >= 0:
            node = nodes[point]
            if node not in self.inline:
                for inner in node.blocks_:
                    self.scan(inner, uses)
            point = self._scan_inputs(node, nodes, point - 1, uses)

    def _scan_inputs(self, reader, nodes, point, uses):
        # a loop reads its count and condition after what it starts with has been assigned
        for value in reversed(reader.ins[:2] if reader.op == "prim::Loop" else reader.ins):
            while point >= 0 and nodes[point].op in _CONSTANTS:
                point -= 1
            if point >= 0 and value.node is nodes[point] and self._fits(value, reader, uses):
                node = nodes[point]
                self.inline.add(node)
                point = self._scan_inputs(node, nodes, point - 1, uses)
        return point

    def _fits(self, value, reader, uses):
        node = value.node
        if uses.get(value, 0) != 1 or len(node.outs) != 1 or node.blocks_:
            return False
        if node.op in (
            "prim::Enter",
            "prim::Exit",
            "prim::CreateObject",
            "prim::fork",
            "prim::Param",
        ):
            return False
        if reader.op in ("prim::Enter", "prim::Exit"):
            return False
        if node.op == "prim::isinstance":
            return False
        return not value.name or reader.op == "prim::Return"

    # -- statements --------------------------------------------------------------------------
    def body(self, graph: Any) -> None:
        """The statements of a function."""
        uses: dict[Value, int] = {}
        for node in graph.all_nodes():
            for value in node.ins:
                uses[value] = uses.get(value, 0) + 1
        self.uses = uses
        self.scan(graph, uses)
        self.statements(graph)
        self.settle(graph.result)
        result = graph.outs
        if result:
            self.line(f"return {self.returned(result[0])}")

    def returned(self, value: Value) -> str:
        return self.read(value)

    def statements(self, block: Block) -> None:
        for node in block.nodes_:
            self.statement(node)

    def statement(self, node: Node) -> None:
        """One node: a statement, or an expression that is kept for its reader."""
        self.settle(node)
        if node.op == "prim::If":
            self._if(node)
        elif node.op == "prim::Loop":
            self._loop(node)
        elif node.op == "prim::Enter":
            self._enter(node)
        elif node.op == "prim::fork":
            self.fork(node)
        elif node.op == "prim::Exit":
            self.level -= 1
            if node.outs:
                self.names[node.outs[0]] = "None"
        elif node.op in ("prim::TupleUnpack", "prim::ListUnpack") or len(node.outs) > 1:
            made = self.expression(node)
            names = ", ".join(self.name_for(v) for v in node.outs)
            comma = "," if node.op.startswith("prim::") else ""
            self.line(f"{names}{comma} = {made}" if node.outs else made)
        elif node.op == "prim::SetAttr":
            owner, value = node.ins
            self.line(f"{self.member(owner, node.attributes['name'])} = {self.read(value)}")
        elif node.op == "prim::Constant":
            self._constant(node)
        elif not node.outs:
            self.line(self.expression(node))
        else:
            self.assignment(node)

    def settle(self, node: Node) -> None:
        """Before a node reads: expressions that are too long get names, and those before them."""
        read = [v for v in node.ins if v in self.pending]
        long = [v for v in read if len(self.names[v]) > self.limit]
        if long:
            # what comes first is computed first
            for value in list(self.pending):
                made = self.names[value]
                self.line(f"{self.name_for(value)} = {made}")
                del self.pending[value]
                if value is long[-1]:
                    break
        for value in read:
            self.pending.pop(value, None)

    def assignment(self, node: Node) -> None:
        value, made = node.outs[0], self.expression(node)
        if node in self.inline:
            self.names[value] = made
            self.pending[value] = None
        else:
            self.line(f"{self.name_for(value)} = {made}")

    def _constant(self, node):
        made = self.constant(node.attributes.get("value"), node.outs[0].type_)
        if len(made) > LIMIT and self.limit == LIMIT:
            self.line(f"{self.name_for(node.outs[0])} = {made}")
        else:
            self.names[node.outs[0]] = made

    def _enter(self, node):
        context = self.read(node.ins[0])
        used = self.uses.get(node.outs[0], 0) if node.outs else 0
        name = f" as {self.name_for(node.outs[0])}" if used else ""
        self.line(f"with {context}{name}:")
        self.level += 1
        position = node.block.nodes_.index(node) + 1
        following = node.block.nodes_[position] if position < len(node.block.nodes_) else None
        if following is None or following.op == "prim::Exit":
            self.line("pass")

    def _if(self, node):
        condition = self.read(node.ins[0])
        for value in node.outs:
            self.name_for(value)
        for head, block in zip((f"if {condition}:", "else:"), node.blocks_):
            if head == "else:" and self.leaves_out_else(block):
                continue
            self.line(head)
            self.level += 1
            start = len(self.lines)
            self.statements(block)
            self.settle(block.result)
            self._assign(node.outs, block.outs)
            if len(self.lines) == start:
                self.line("pass")
            self.level -= 1

    def leaves_out_else(self, block: Block) -> bool:
        return False

    def _assign(self, targets, values):
        if not targets:
            return
        if self.says_types and any(t.type_ != v.type_ for t, v in zip(targets, values)):
            for target, value in zip(targets, values):
                self.line(self._typed(target, value, self.read(value)))
            return
        names = ", ".join(self.names[t] for t in targets)
        made = ", ".join(self.read(v) for v in values)
        if names != made:
            self.line(f"{names} = {made}")

    def _typed(self, target, value, made):
        """An assignment that says a type where it is wider than the value's."""
        name = self.names[target]
        if not self.says_types or target.type_ == value.type_ or (value.type_ == T.NONE and (
            not isinstance(target.type_, T.OptionalOf)
        )):  # fmt: skip
            return f"{name} = {made}"
        return f"{name} : {self.type_text(target.type_)} = {made}"

    def _loop(self, node):
        count, condition, *starts = node.ins
        block = node.blocks_[0]
        index, *carried = block.ins
        known = condition.node.attributes.get("value") if condition.node.op in _CONSTANTS else None
        is_for = known is True and self._always(block.outs[0])
        expressions = [self.read(v) for v in starts]
        for start, inside, outside, made in zip(starts, carried, node.outs, expressions):
            outside.name = outside.name or inside.name
            self.names[inside] = self.name_for(outside)
            self.line(self._typed(outside, start, made))
        if is_for:
            self._for(node, block, index, carried, count)
        else:
            self._while(node, block, index, carried, count, condition)

    def _always(self, value):
        return value.node.op in _CONSTANTS and value.node.attributes.get("value") is True

    def _for(self, node, block, index, carried, count):
        total = self.read(count)
        self.line(f"for {self.name_for(index)} in range({total}):")
        self.level += 1
        start = len(self.lines)
        self.statements(block)
        self.settle(block.result)
        self._assign_carried(carried, block.outs[1:])
        if len(self.lines) == start:
            self.line("pass")
        self.level -= 1

    def _while(self, node, block, index, carried, count, condition):
        going = self.fresh("_")
        self.line(f"{going} = {self.read(condition)}")
        counts = self.uses.get(index, 0) > 0
        limit = self._limit(count)
        if counts or limit is not None:
            name = self.name_for(index)
            self.line(f"{name} = 0")
        more = f"{going} and {self.names[index]} < {limit}" if limit is not None else going
        self.line(f"while {more}:")
        self.level += 1
        self.statements(block)
        self.settle(block.result)
        if counts or limit is not None:
            self.line(f"{self.names[index]} = {self.names[index]} + 1")
        left = [going, *[self.names[v] for v in carried]]
        right = [self.read(v) for v in block.outs]
        self.line(f"{', '.join(left)} = {', '.join(right)}")
        self.level -= 1

    def _limit(self, count):
        number = count.node.attributes.get("value") if count.node.op in _CONSTANTS else None
        return None if number == MOST else self.read(count)

    def _assign_carried(self, carried, values):
        if carried:
            names = ", ".join(self.names[v] for v in carried)
            self.line(f"{names} = {', '.join(self.read(v) for v in values)}")

    # -- expressions -------------------------------------------------------------------------
    def member(self, owner: Value, name: str) -> str:
        base = self.read(owner)
        if not name.isidentifier() or keyword.iskeyword(name):
            return f'getattr({base}, "{name}")'
        return f"{base}.{name}" if base.isidentifier() else f"({base}).{name}"

    def type_text(self, kind: T.Type) -> str:
        self.note_type(kind)
        return kind.code

    def note_type(self, kind: T.Type) -> None:
        """Remember the classes that a type is made of."""
        for part in kind.parts:
            self.note_type(part)
        if isinstance(kind, (T.ClassType, T.EnumType)) or bool(getattr(kind, "name", None)):
            self.dependencies.append(kind)

    def expression(self, node: Node) -> str:
        """The text of one node."""
        method = getattr(self, "_x_" + node.op.replace("::", "_"), None)
        if method is not None:
            return method(node)
        if node.op in _CASTS:
            return f"{_CASTS[node.op]}({self.read(node.ins[0])})"
        if node.op[0] == "^":
            return f"{node.op}({self.all(node.ins)})"
        return self.op(node)

    def op(self, node: Node) -> str:
        """A call of an op, without what are defaults anyway."""
        space, _, name = node.op.partition("::")
        head = f"torch.{name}" if space == "aten" else f"ops.{space}.{name}"
        return f"{head}({', '.join(self.op_arguments(node))})"

    def op_arguments(self, node: Node) -> list[str]:
        schema = node.schema_
        if schema is None:
            return [self.read(v) for v in node.ins]
        formals = schema.arguments
        count = len(node.ins)
        if not schema.is_vararg:
            while count and is_default(node.ins[count - 1], formals[count - 1].default):
                count -= 1
        made = []
        for k, value in enumerate(node.ins[:count]):
            named = k < len(formals) and formals[k].kwarg_only
            made.append(f"{formals[k].name}={self.read(value)}" if named else self.read(value))
        return made

    def constant(self, value: Any, kind: T.Type) -> str:
        """A constant as text."""
        if isinstance(value, bool) or value is None:
            plain = kind == T.NONE or isinstance(value, bool) or self.limit != LIMIT
            return str(value) if plain else f"annotate({self.type_text(kind)}, None)"
        if isinstance(value, float):
            return float_text(value)
        if isinstance(value, complex):
            return f"{value}"
        if isinstance(value, str):
            return escaped(value)
        if isinstance(value, device):
            return f'torch.device("{value}")'
        if isinstance(value, Tensor):
            return f"CONSTANTS.c{self.constants.number(value)}"
        if kind == T.FUNCTION:
            self.dependencies.append(value)
            return value.qualified_name
        if isinstance(kind, T.EnumType):
            self.note_type(kind)
            return f"{kind.name}.{value.name}"
        return str(value)

    def _x_prim_ListConstruct(self, node):
        kind = node.outs[0].type_
        inside = f"[{self.all(node.ins)}]"
        if not node.ins or any(v.type_ != kind.part for v in node.ins):
            return f"annotate({self.type_text(kind)}, {inside})"
        return inside

    def _x_prim_DictConstruct(self, node):
        pairs = zip(node.ins[::2], node.ins[1::2])
        inside = ", ".join(f"{self.read(k)}: {self.read(v)}" for k, v in pairs)
        kind = node.outs[0].type_
        if not node.ins or any(v.type_ != kind.parts[1] for v in node.ins[1::2]):
            return f"annotate({self.type_text(kind)}, {{{inside}}})"
        return f"{{{inside}}}"

    def _x_prim_TupleConstruct(self, node):
        kind = node.outs[0].type_
        if kind.name:
            return f"{self.type_text(kind)}({self.all(node.ins)})"
        return f"({self.all(node.ins)}{',' if len(node.ins) == 1 else ''})"

    def _x_prim_TupleIndex(self, node):
        return f"({self.read(node.ins[0])})[{self.read(node.ins[1])}]"

    def _x_prim_TupleUnpack(self, node):
        return self.read(node.ins[0])

    def _x_prim_ListUnpack(self, node):
        return self.read(node.ins[0])

    def _x_aten___getitem__(self, node):
        base = self.read(node.ins[0])
        base = base if base.isidentifier() else f"({base})"
        return f"{base}[{self.read(node.ins[1])}]"

    def _x_prim_GetAttr(self, node):
        return self.member(node.ins[0], node.attributes["name"])

    def _x_prim_CallMethod(self, node):
        self.note_type(node.ins[0].type_)
        rest = "".join(f"{self.read(v)}, " for v in node.ins[1:])
        return f"({self.read(node.ins[0])}).{node.attributes['name']}({rest})"

    def _x_prim_CallFunction(self, node):
        rest = "".join(f"{self.read(v)}, " for v in node.ins[1:])
        return f"{self.read(node.ins[0])}({rest})"

    def _x_prim_CreateObject(self, node):
        name = self.type_text(node.outs[0].type_)
        return f"{name}.__new__({name})"

    def _x_prim_unchecked_cast(self, node):
        return f"unchecked_cast({self.type_text(node.outs[0].type_)}, {self.read(node.ins[0])})"

    def _x_prim_Uninitialized(self, node):
        return f"uninitialized({self.type_text(node.outs[0].type_)})"

    def _x_prim_Print(self, node):
        return f"print({self.all(node.ins)})"

    def _x_prim_RaiseException(self, node):
        given = [self.read(v) for v in node.ins if v.type_ != T.NONE]
        return f"ops.prim.RaiseException({', '.join(given)})"

    def _x_prim_isinstance(self, node):
        kinds = [self.type_text(t) for t in node.attributes["types"]]
        asked = kinds[0] if len(kinds) == 1 else f"({', '.join(kinds)})"
        return f"isinstance({self.read(node.ins[0])}, {asked})"

    def _x_aten_ScalarImplicit(self, node):
        return f"annotate(number, {self.read(node.ins[0])})"

    def _x_prim_tolist(self, node):
        kind = self.type_text(node.outs[0].type_)
        return f"annotate({kind}, {self.read(node.ins[0])}.tolist())"

    def _x_prim_EnumName(self, node):
        return f"({self.read(node.ins[0])}).name"

    def _x_prim_EnumValue(self, node):
        return f"({self.read(node.ins[0])}).value"

    def fork(self, node: Node) -> None:
        """A block that may run beside others: a function without arguments."""
        name = self.fresh("__forked_function")
        self.line(f"def {name}():")
        self.level += 1
        self.statements(node.blocks_[0])
        self.settle(node.blocks_[0].result)
        self.line(f"return {self.read(node.blocks_[0].outs[0])}")
        self.level -= 1
        self.line(f"{self.name_for(node.outs[0])} = {self.fork_name}({name})")

    fork_name = "fork"


def is_default(value: Value, default: Any) -> bool:
    """Is a value the constant that an argument is anyway?"""
    if default is REQUIRED:
        return False
    node = value.node
    if node.op == "prim::Constant":
        found = node.attributes.get("value")
        same = type(found) is type(default) or {type(found), type(default)} <= {int, float}
        return same and not isinstance(found, Tensor) and found == default
    if node.op == "prim::ListConstruct" and isinstance(default, (list, tuple)):
        same = len(node.ins) == len(default)
        return same and all(map(is_default, node.ins, default))
    return False


def default_text(value: Any, kind: T.Type, text: Text) -> str:
    """The default of an argument in the head of a function."""
    bare = kind.part if isinstance(kind, T.OptionalOf) else kind
    if isinstance(value, tuple):
        inside = [
            default_text(v, k, text) for v, k in zip(value, bare.parts or (bare,) * len(value))
        ]
        return f"({', '.join(inside)}{',' if len(inside) == 1 else ''})"
    if isinstance(value, list):
        return f"[{', '.join(default_text(v, bare.parts[0], text) for v in value)}]"
    if isinstance(value, dict):
        pairs = [f"{default_text(k, bare.parts[0], text)}: {default_text(v, bare.parts[1], text)}"
                 for k, v in value.items()]  # fmt: skip
        return f"{{{', '.join(pairs)}}}"
    if bare == T.FLOAT and type(value) is int:
        value = float(value)
    return text.constant(value, bare if value is not None else T.NONE)


def function_text(
    function: Any, text: Text, indent: int = 0, own_type: bool = False, name: str | None = None
) -> str:
    """A whole function: its head and its body."""
    graph, schema = function.graph, function.schema
    pad = "  " * indent
    parts = []
    for k, (value, argument) in enumerate(zip(graph.ins, schema.arguments)):
        if k == 0 and function.owner is not None:
            text.names[value] = shown = argument.name
            text.taken.add(shown)
        else:
            shown = text.name_for(value)
        if k == 0 and function.owner is not None and not own_type:
            parts.append(shown)
            continue
        default = argument.default
        ending = "" if default is REQUIRED else f"={default_text(default, argument.type, text)}"
        parts.append(f"{shown}: {text.type_text(argument.type)}{ending}")
    joined = f",\n{pad}    ".join(parts) if not own_type else ",\n    ".join(parts)
    result = text.type_text(schema.returns[0])
    head = f"{pad}def {name or function.name}({joined}) -> {result}:"
    text.level = indent + 1
    text.body(graph)
    return "\n".join([head, *text.lines]) + "\n"
