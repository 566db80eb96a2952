"""Graphs as Python functions that run: the same text as `.code`, with calls that Python makes."""

import linecache
from collections.abc import Callable
from typing import Any

from flambeau.jit import types as T
from flambeau.jit.ir import Block, Node, Value
from flambeau.jit.op_texts import OP_TEXTS, call_text
from flambeau.jit.support import SUPPORT
from flambeau.jit.texts import Text

_count = 0


class RunText(Text):
    """Writes Python that runs a graph; `space` holds what it names."""

    limit = 160  # Python does not read expressions that are nested too deep
    indent_by = "    "
    says_types = False
    fork_name = "_fork"

    def __init__(self) -> None:
        super().__init__()
        self.space: dict[str, Any] = dict(SUPPORT)
        self.taken |= {*SUPPORT, "self"}
        self._held: dict[int, str] = {}

    def hold(self, value: Any, name: str = "_c") -> str:
        """A name for an object."""
        found = self._held.get(id(value))
        if found is None:
            found = self._held[id(value)] = self.fresh(name)
            self.space[found] = value
        return found

    def _fits(self, value, reader, uses):
        # a value that is not read where it is made would be made too late
        node = value.node
        if uses.get(value, 0) != 1 or len(node.outs) != 1 or node.blocks_:
            return False
        return node.op not in ("prim::Enter", "prim::Exit", "prim::CreateObject", "prim::fork")

    def statement(self, node: Node) -> None:
        if len(node.outs) == 1 and not self.uses.get(node.outs[0]) and node.op not in (
            "prim::Enter", "prim::Exit", "prim::If", "prim::Loop", "prim::Constant", "prim::fork"
        ):  # fmt: skip
            self.settle(node)
            self.line(self.expression(node))
        else:
            super().statement(node)

    def leaves_out_else(self, block: Block) -> bool:
        return not block.nodes_ and not block.outs

    def op(self, node: Node) -> str:
        special = OP_TEXTS.get(node.op)
        if special is not None:
            made = special(self, node)
            if made is not None:
                return made
        return call_text(self, node)

    def expression(self, node: Node) -> str:
        if node.op in OP_TEXTS:
            return self.op(node)
        if node.op[0] == "^":
            return f"{self.hold(node.attributes['_function'])}({self.all(node.ins)})"
        return super().expression(node)

    def constant(self, value: Any, kind: T.Type) -> str:
        if value is None or isinstance(value, (bool, str)):
            return repr(value)
        if isinstance(value, int) and not isinstance(kind, T.EnumType):
            return str(value) if value >= 0 else f"({value})"
        if isinstance(value, float) and value - value == 0:
            return repr(value) if value >= 0 else f"({value!r})"
        if kind == T.FUNCTION:
            return self.hold(value.run, "_f_" + value.name)
        return self.hold(value)

    def type_text(self, kind: T.Type) -> str:
        return self.hold(kind, "_t")

    def member(self, owner: Value, name: str) -> str:
        base = self.read(owner)
        if not name.isidentifier():
            return f"getattr({base}, {name!r})"
        return f"{base}.{name}"

    def _x_prim_ListConstruct(self, node):
        return f"[{self.all(node.ins)}]"

    def _x_prim_DictConstruct(self, node):
        pairs = zip(node.ins[::2], node.ins[1::2])
        return f"{{{', '.join(f'{self.read(k)}: {self.read(v)}' for k, v in pairs)}}}"

    def _x_prim_TupleConstruct(self, node):
        kind = node.outs[0].type_
        if kind.name:
            return f"{self.hold(SUPPORT['_named_class'](kind))}({self.all(node.ins)})"
        return f"({self.all(node.ins)}{',' if len(node.ins) == 1 else ''})"

    def _x_prim_CallMethod(self, node):
        rest = self.all(node.ins[1:])
        return f"{self.read(node.ins[0])}._jit_{node.attributes['name']}({rest})"

    def _x_prim_CallFunction(self, node):
        return f"{self.read(node.ins[0])}({self.all(node.ins[1:])})"

    def _x_prim_CreateObject(self, node):
        return f"{self.hold(SUPPORT['_object_class'](node.outs[0].type_))}._made()"

    def _x_prim_unchecked_cast(self, node):
        return self.read(node.ins[0])

    def _x_prim_Uninitialized(self, node):
        return "None"

    def _x_prim_RaiseException(self, node):
        place = "" if node.place is None else node.place.highlight()
        return f"_raise({self.all(node.ins)}, {place!r})"

    def _x_prim_isinstance(self, node):
        return f"_isinstance({self.read(node.ins[0])}, {self.hold(node.attributes['types'])})"

    def _x_prim_Print(self, node):
        return f"_print({self.all(node.ins)})"

    def _x_aten_ScalarImplicit(self, node):
        return f"{self.read(node.ins[0])}.item()"


def python_function(function: Any, text: RunText | None = None) -> Callable:
    """The Python function that does what a graph says."""
    global _count
    text = text or RunText()
    name = function.name if function.name.isidentifier() else "function"
    text.taken.add(name)  # it stands beside what its text names
    parameters = []
    for k, value in enumerate(function.graph.ins):
        if k == 0 and function.owner is not None:
            text.names[value] = "self"
            parameters.append("self")
        else:
            parameters.append(text.name_for(value))
    text.level = 1
    text.body(function.graph)
    source = "\n".join([f"def {name}({', '.join(parameters)}):", *text.lines]) + "\n"
    _count += 1
    filename = f"<flambeau jit {function.qualified_name} {_count}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    exec(compile(source, filename, "exec"), text.space)
    return text.space[name]
