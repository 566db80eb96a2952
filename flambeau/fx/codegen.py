"""From a graph to the text of a Python function."""

import enum
import functools
import inspect
import types
import typing
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import flambeau
from flambeau._tensor import Tensor
from flambeau.aten.overloads import OpOverload
from flambeau.fx.naming import _get_qualified_name, _Namespace, _type_repr, custom_builtins
from flambeau.fx.node import Node, map_arg
from flambeau.utils import _pytree as pytree

TransformCodeFunc = Callable[[list[str]], list[str]]

reflectable_magic_methods = {
    "add": "{} + {}",
    "sub": "{} - {}",
    "mul": "{} * {}",
    "floordiv": "{} // {}",
    "truediv": "{} / {}",
    "div": "{} / {}",
    "mod": "{} % {}",
    "pow": "{} ** {}",
    "lshift": "{} << {}",
    "rshift": "{} >> {}",
    "and_": "{} & {}",
    "or_": "{} | {}",
    "xor": "{} ^ {}",
    "getitem": "{}[{}]",
    "matmul": "{} @ {}",
}
magic_methods = {
    "eq": "{} == {}",
    "ne": "{} != {}",
    "lt": "{} < {}",
    "gt": "{} > {}",
    "le": "{} <= {}",
    "ge": "{} >= {}",
    "pos": "+{}",
    "neg": "-{}",
    "invert": "~{}",
    **reflectable_magic_methods,
}
inplace_methods = {
    "iadd": "{} += {}",
    "iand": "{} &= {}",
    "ifloordiv": "{} //= {}",
    "ilshift": "{} <<= {}",
    "imod": "{} %= {}",
    "imul": "{} *= {}",
    "imatmul": "{} @= {}",
    "ior": "{} |= {}",
    "ipow": "{} **= {}",
    "irshift": "{} >>= {}",
    "isub": "{} -= {}",
    "itruediv": "{} /= {}",
    "ixor": "{} ^= {}",
    "setitem": "{}[{}] = {}",
}
_SHORT = {
    "float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16", "bool": "b8",
    "uint8": "u8", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
    "complex64": "c64", "complex128": "c128", "complex32": "c32",
    "uint16": "u16", "uint32": "u32", "uint64": "u64",
}  # fmt: skip


@dataclass
class PythonCode:
    """The text of a function and the globals it needs."""

    src: str
    globals: dict[str, Any]
    _lineno_map: dict[int, int | None] | None = None
    _prologue_start: int = 0


class _PyTreeInfo(NamedTuple):
    """How arguments and results were taken apart when a function was recorded."""

    orig_args: list[str]
    in_spec: pytree.TreeSpec
    out_spec: pytree.TreeSpec | None


def _format_target(base: str, target: str) -> str:
    """A path below a name: self.a, then getattr(self.a, "0")."""
    for part in target.split("."):
        base = f"{base}.{part}" if part.isidentifier() else f'getattr({base}, "{part}")'
    return base


def _is_at(path, obj):
    """Is an object what a path such as torch.relu leads to?"""
    value: Any = flambeau
    for name in path.split(".")[1:]:
        value = getattr(value, name, None)
    return value is obj


@dataclass
class _Writing:
    """What is known while the code of a graph is written."""

    root: str
    namespace: _Namespace = field(default_factory=_Namespace)
    globals: dict[str, Any] = field(default_factory=dict)
    free_vars: list[str] = field(default_factory=list)
    body: list[str] = field(default_factory=list)
    wrapped: dict[str, None] = field(default_factory=dict)
    annotation: str = ""

    def name(self, node: Node) -> str:
        """The variable of a node."""
        return self.namespace.create_name(node.name, node)

    def reach(self, hint: str, obj: Any) -> str:
        """What an object is called in the code."""
        if hint.startswith("torch.") and obj is not flambeau.device and _is_at(hint, obj):
            return hint
        hint = "device" if obj is flambeau.device else hint
        name = self.namespace.create_name(hint, obj)
        self.globals[name] = obj
        return name

    # -- pieces ------------------------------------------------------------------------------
    def kind(self, o: Any) -> str:
        """An annotation."""
        if o == ():
            return "()"
        if isinstance(o, types.UnionType):
            return "|".join(self.kind(part) for part in o.__args__)
        origin = getattr(o, "__origin__", None)
        if origin is None:
            return self.reach(_type_repr(o), o)
        alias = getattr(typing, getattr(o, "_name", None) or "", None)
        if isinstance(o, types.GenericAlias):
            alias = origin
        elif origin is typing.Union:
            alias = typing.Union
        shown = alias if alias is not None else origin
        name = self.reach(_type_repr(shown), shown)
        parts = [self.kind(part) for part in getattr(o, "__args__", ())]
        return f"{name}[{','.join(parts)}]" if parts else name

    def spell(self, arg: Any) -> str:
        """An argument."""
        if isinstance(arg, Node):
            return self.name(arg)
        if isinstance(arg, tuple):
            return self._spell_tuple(arg)
        if isinstance(arg, list):
            return "[" + ", ".join(map(self.spell, arg)) + "]"
        if isinstance(arg, dict):
            return "{" + ", ".join(f"{k!r}: {self.spell(v)}" for k, v in arg.items()) + "}"
        if isinstance(arg, slice):
            return f"slice({', '.join(self.spell(p) for p in (arg.start, arg.stop, arg.step))})"
        if isinstance(arg, OpOverload):
            return self.reach(_get_qualified_name(arg), arg)
        if isinstance(arg, enum.Enum):
            return f"{self.reach(_type_repr(type(arg)), type(arg))}.{arg.name}"
        return repr(arg)

    def _spell_tuple(self, arg):
        items = [self.spell(item) for item in arg]
        if hasattr(arg, "_fields"):
            name = self.reach(_get_qualified_name(type(arg)), type(arg))
            return f"{name}({', '.join(items)})"
        return "(" + ", ".join(items) + (",)" if len(items) == 1 else ")")

    def arguments(self, args: Iterable[Any], kwargs: dict[str, Any]) -> str:
        """What stands between the parentheses of a call."""
        named = [f"{key} = {self.spell(value)}" for key, value in kwargs.items()]
        return ", ".join([*map(self.spell, args), *named])

    # -- lines -------------------------------------------------------------------------------
    def statement(self, node: Node, output: Callable[[Any], str], note: str) -> str:
        """The line of a node; placeholders and annotations are noted elsewhere."""
        return getattr(self, "_" + node.op)(node, output, note)

    def _annotated(self, node, note):
        kind = note or ("" if node.type is None else f" : {self.kind(node.type)}")
        return self.name(node) + kind

    def _placeholder(self, node, output, note):
        name, raw = self.name(node), node.target.replace("*", "")
        kind = note or ("" if node.type is None else f" : {self.kind(node.type)}")
        default = f" = {self.spell(node.args[0])}" if node.args else ""
        self.free_vars.append(f"{node.target}{kind}{default}")
        return "" if name == raw else f"{name} = {raw}"

    def _get_attr(self, node, output, note):
        return f"{self._annotated(node, note)} = {_format_target(self.root, node.target)}"

    def _call_method(self, node, output, note):
        called = _format_target(self.spell(node.args[0]), node.target)
        inside = self.arguments(node.args[1:], node.kwargs)
        return f"{self._annotated(node, note)} = {called}({inside})"

    def _call_module(self, node, output, note):
        called = _format_target(self.root, node.target)
        inside = self.arguments(node.args, node.kwargs)
        return f"{self._annotated(node, note)} = {called}({inside})"

    def _call_function(self, node, output, note):
        left, target, args = self._annotated(node, note), node.target, node.args
        if getattr(target, "__module__", None) == "_operator":
            name = target.__name__
            if name in magic_methods and not node.kwargs:
                return f"{left} = {magic_methods[name].format(*map(self.spell, args))}"
            if name in inplace_methods and not node.kwargs:
                done = inplace_methods[name].format(*map(self.spell, args))
                return f"{done};  {left} = {self.spell(args[0])}"
        called = self.reach(_get_qualified_name(target), target)
        if called == "getattr" and len(args) == 2 and _is_attribute(args):
            return f"{left} = {_format_target(self.spell(args[0]), args[1])}"
        if node.meta.get("is_wrapped"):
            self.wrapped[called] = None
        return f"{left} = {called}({self.arguments(args, node.kwargs)})"

    def _output(self, node, output, note):
        if node.type is not None:
            self.annotation = f" -> {self.kind(node.type)}"
        return output(node.args[0])


def _is_attribute(args):
    return isinstance(args[0], Node) and isinstance(args[1], str) and args[1].isidentifier()


def _last_uses(nodes):
    """Node -> nodes whose values nobody needs after it."""
    last: dict[Node, Node] = {}
    ended: dict[Node, list[Node]] = {}
    for user in reversed(nodes):

        def register(node, user=user):
            if node not in last:
                last[node] = user
                ended.setdefault(user, []).append(node)
            return node

        map_arg(user.args, register)
        map_arg(user.kwargs, register)
    return ended


class CodeGen:
    """Writes the code of graphs."""

    def __init__(self) -> None:
        self._body_transformer: TransformCodeFunc | None = None
        self._func_name = "forward"

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str) -> str:
        """The first line."""
        if not free_vars or free_vars[0] != "self":
            free_vars.insert(0, "self")
        return f"def {self._func_name}({', '.join(free_vars)}){maybe_return_annotation}:"

    def generate_output(self, output_args: Any, spell: Callable[[Any], str] = repr) -> str:
        """The line that returns."""
        return f"return {spell(output_args)}"

    def process_inputs(self, *args: Any) -> Any:
        """Arguments of the module as values of placeholders."""
        return args

    def process_outputs(self, outputs: Any) -> Any:
        """The value of the output as the module returns it."""
        return outputs

    def additional_globals(self) -> list[tuple[str, Any]]:
        """Globals that this kind of code needs besides."""
        return []

    def generate(
        self,
        nodes: Any,
        root_module: str,
        *,
        verbose: bool = False,
        include_stride: bool = False,
        include_device: bool = False,
        additional_meta: list[str] | None = None,
        **options: Any,
    ) -> PythonCode:
        """The code of some nodes."""
        w = _Writing(root_module)
        for name, (_, obj) in custom_builtins().items():
            w.globals[name] = obj
            w.namespace._rename_object(obj, name)
        for name, obj in self.additional_globals():
            w.reach(name, obj)
        ended, comments = _last_uses(nodes), _Comments(additional_meta or [])
        output = self.generate_output
        if "spell" in inspect.signature(output).parameters:  # subclasses may not know of it
            output = functools.partial(output, spell=w.spell)
        numbers: list[int | None] = []
        for index, node in enumerate(nodes):
            before = comments.of(node) if verbose else ""
            note = _shape_note(node, include_stride, include_device) if verbose else ""
            line = w.statement(node, output, note)
            if line:
                text = before + line + _deletions(node, ended, w) + "\n"
                w.body.append(text)
                numbers += [index] * text.count("\n")
        if not w.body or (len(w.body) == 1 and not w.body[0].strip()):
            w.body.append("pass\n")
        return self._put_together(w, numbers)

    def _put_together(self, w, numbers):
        body = self._body_transformer(w.body) if self._body_transformer else w.body
        wraps = "\n".join(f'torch.fx._symbolic_trace.wrap("{name}")' for name in w.wrapped)
        if wraps:
            wraps = "\n" + wraps
        text = "".join(body).lstrip("\n")
        text = "\n".join("    " + line for line in text.split("\n"))
        first = self.gen_fn_def(w.free_vars, w.annotation)
        start = f"{wraps}\n\n\n" if not wraps else f"{wraps}\n\n"
        lines = start.count("\n") + first.count("\n")
        places = {1 + k: index for k, index in enumerate(numbers)}
        return PythonCode(f"{start}{first}\n{text}", w.globals, places, lines)


def _deletions(node, ended, w):
    """Ends of values, so that memory is given back early."""
    if node.op in ("placeholder", "output"):
        return ""
    gone = [*ended.get(node, ()), *([] if node.users else [node])]
    return f";  {' = '.join(map(w.name, gone))} = None" if gone else ""


class _Comments:
    """Where nodes come from, said once for those that follow each other."""

    def __init__(self, keys: list[str]) -> None:
        self.keys = keys  # of meta, which are shown as well
        self.last: str | None = None

    def of(self, node: Node) -> str:
        if node.op in ("placeholder", "output"):
            return ""
        said = "# No stacktrace found for following nodes"
        if node.stack_trace:
            said = _place(node.stack_trace) or said
        shown = [f"# {key}: {node.meta[key]}" for key in self.keys if key in node.meta]
        said = " ".join([*shown, said])
        if said == self.last:
            return ""
        self.last = said
        return f"\n{said}\n"


def _place(trace):
    """The innermost frame of a trace."""
    lines = [line.strip() for line in trace.strip().split("\n")]
    for k in range(len(lines) - 1, -1, -1):
        if lines[k].startswith('File "'):
            file, number, name = lines[k].split(", ", 2)
            code = lines[k + 1] if k + 1 < len(lines) else ""
            place = f"{file[6:-1]}:{number.removeprefix('line ')} {name}"
            return f"# File: {place}, code: {code}"
    return None


def _shape_note(node, include_stride, include_device):
    """dtype and shape of a node's value, if a pass has noted them."""
    value = node.meta.get("val", node.meta.get("tensor_meta"))
    if hasattr(value, "is_symbolic_int"):
        return f': "Sym({value})"'
    if not isinstance(value, Tensor) and not hasattr(value, "memory_format"):
        return ""
    short = _SHORT.get(str(value.dtype).removeprefix("torch."), str(value.dtype))
    text = f"{short}{list(value.shape)}"
    if isinstance(value, Tensor):
        text += str(list(value.stride())) if include_stride else ""
        text += str(value.device) if include_device else ""
    return f': "{text}"'


class _PyTreeCodeGen(CodeGen):
    """Code of functions whose arguments and results are trees."""

    def __init__(self, pytree_info: _PyTreeInfo) -> None:
        super().__init__()
        self.pytree_info = pytree_info

    def process_inputs(self, *args: Any) -> Any:
        return pytree.tree_flatten(list(args))[0]

    def process_outputs(self, outputs: Any) -> Any:
        if not isinstance(outputs, (list, tuple)):
            outputs = (outputs,)
        spec = self.pytree_info.out_spec
        return outputs if spec is None else pytree.tree_unflatten(outputs, spec)

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str) -> str:
        given = list(self.pytree_info.orig_args)
        leaves = [name.partition(" ")[0] for name in free_vars]
        first = super().gen_fn_def(list(given), maybe_return_annotation)
        if not leaves:
            return first
        given = [name for name in given if name != "self"]
        apart = f"fx_pytree.tree_flatten_spec([{', '.join(given)}], self._in_spec)"
        return f"{first}\n    {', '.join(leaves)}, = {apart}"

    def generate_output(self, output_args: Any, spell: Callable[[Any], str] = repr) -> str:
        if self.pytree_info.out_spec is None:
            return super().generate_output(output_args, spell)
        return f"return pytree.tree_unflatten({spell(output_args)}, self._out_spec)"
