"""Compiling one function: its source, its signature and its body become a Function."""

import ast
import inspect
import re
import textwrap
from collections.abc import Callable
from typing import Any

from flambeau._device import device
from flambeau.jit import types as T
from flambeau.jit.environment import RESULT, Frame
from flambeau.jit.ir import Graph, Value
from flambeau.jit.outcomes import FALL, outcomes
from flambeau.jit.passes import cleaned
from flambeau.jit.places import CompileError, FrontendError, NotSupportedError, Source
from flambeau.jit.schemas import REQUIRED, Argument, Schema
from flambeau.jit.special import raised
from flambeau.jit.state import state
from flambeau.jit.statements import Statements
from flambeau.jit.sugar import ModuleSugar


class Function:
    """A function of a program: its signature, its graph and, when called, Python made of it.

    owner is the class whose method it is. schema is None as long as it is being compiled.
    """

    def __init__(self, name: str, qualified_name: str, owner: T.ClassType | None = None) -> None:
        self.name, self.qualified_name, self.owner = name, qualified_name, owner
        self.schema: Schema | None = None
        self.graph: Graph = Graph()
        self._run: Callable | None = None

    @property
    def run(self) -> Callable:
        """The function itself, as Python."""
        if state.keeps_branches:
            from flambeau.jit.branching import branching_function

            return branching_function(self)
        if self._run is None:
            from flambeau.jit.running import python_function

            self._run = python_function(self)
        return self._run

    def changed(self) -> None:
        """Forget what was made of the graph."""
        self._run = None


class Compiler(Statements):
    """Compiles the body of one function."""

    def __init__(self, function: Function, source: Source, resolver: Any) -> None:
        self.function, self.source, self.resolver = function, source, resolver
        self.graph = function.graph
        self.frame = Frame(self.graph, None)
        self.loops: list[str] = []
        self.declared_return: T.Type | None = None
        self.return_type: T.Type | None = None

    def compile(
        self, node: ast.FunctionDef, arguments: list[Argument], returns: T.Type | None
    ) -> None:
        for argument in arguments:
            value = self.graph.param.add_output(argument.type, argument.name)
            found: Any = value
            if isinstance(argument.type, T.ClassType) and argument.type.is_module:
                found = ModuleSugar(value, argument.type)
            self.frame.set(argument.name, found)
            if not isinstance(found, ModuleSugar):
                self.frame.declared[argument.name] = argument.type
        self.declared_return = returns
        if returns is not None:
            # methods that call each other may be compiled in any order
            self.function.schema = self._schema(arguments, returns)
        body = list(node.body)
        if FALL in outcomes(body):
            never = all(FALL in outcomes([s]) for s in body)
            if never and returns is not None and not T.is_subtype(T.NONE, returns):
                raise CompileError(
                    f"Function was not annotated as having type {returns.code}, but does not "
                    "return along all paths",
                    self.at(node),
                )
            body.append(ast.copy_location(ast.Return(value=None), node.body[-1] if body else node))
        self.emit_statements(body)
        result = self.frame.find(RESULT)
        if not isinstance(result, Value):
            kind = returns or T.NONE
            result = self.uninitialized(kind, self.graph)
        self.graph.outs.append(result)
        kind = returns if returns is not None else result.type_
        self.function.schema = self._schema(arguments, kind)
        cleaned(self.graph)

    def _schema(self, arguments, returns):
        return Schema(self.function.name, "", tuple(arguments), (returns,))

    def exception(self, node: ast.expr) -> tuple[Value, Value]:
        return raised(self, node)

    def trial(self, node: Any) -> None:
        """Compile the body of a loop for nothing, to learn what it returns."""
        saved, graph = self.frame, self.graph
        self.frame = Frame(Graph(), saved)
        self.loops.append("loop")
        try:
            if isinstance(node, ast.For):
                from flambeau.jit.sugar import iterable_of

                place = self.at(node)
                items = iterable_of(self, self.emit(node.iter), place)
                index = self.frame.block.param.add_output(T.INT)
                self.assign(node.target, items.item(self, index, place))
            self.emit_statements(node.body)
        finally:
            self.frame, self.graph = saved, graph
            self.loops.pop()


# -- source ----------------------------------------------------------------------------------------


def parsed(function: Any) -> tuple[ast.FunctionDef, Source]:
    """The syntax of a Python function."""
    try:
        lines, first = inspect.getsourcelines(function)
        filename = inspect.getsourcefile(function) or ""
    except (OSError, TypeError):
        raise OSError(
            f"Can't get source for {function}. TorchScript requires source access in order to "
            "carry out compilation, make sure original .py files are available."
        ) from None
    text = "".join(lines)
    margin = len(lines[0]) - len(lines[0].lstrip())
    source = Source(textwrap.dedent(text), filename, first, margin, function.__name__)
    tree = ast.parse(textwrap.dedent(text))
    node = tree.body[0]
    if not isinstance(node, ast.FunctionDef):
        raise NotSupportedError(
            source.at(node), "Expected a single top-level function; lambdas aren't supported"
        )
    return node, source


_TYPE_COMMENT = re.compile(r"#\s*type:\s*(\(.*\)\s*->\s*.+)$")


def _comment_types(source):
    """Types in a comment: # type: (Tensor, int) -> Tensor"""
    for line in source.lines:
        found = _TYPE_COMMENT.search(line)
        if found is not None:
            arguments, _, result = found.group(1).partition("->")
            parsed_types = ast.parse(arguments.strip(), mode="eval").body
            listed = parsed_types.elts if isinstance(parsed_types, ast.Tuple) else [parsed_types]
            if arguments.strip() == "()":
                listed = []
            return listed, ast.parse(result.strip(), mode="eval").body
    return None


def signature(
    node: ast.FunctionDef, source: Source, resolver: Any, python: Any, own: T.Type | None
) -> tuple[list[Argument], T.Type | None]:
    """The arguments and, if it is said, the result of a function."""
    spec = node.args
    if spec.vararg is not None or spec.kwarg is not None:
        what = spec.vararg or spec.kwarg
        raise NotSupportedError(
            source.at(what), "Compiled functions can't take variable number of arguments or use "
            "keyword-only arguments with defaults",
        )  # fmt: skip
    defaults, sizes = {}, {}
    if python is not None:
        for name, hint in getattr(python, "__annotations__", {}).items():
            if isinstance(getattr(hint, "__metadata__", (None,))[0], int):
                sizes[name] = hint.__metadata__[0]
        for parameter in inspect.signature(python).parameters.values():
            if parameter.default is not parameter.empty:
                defaults[parameter.name] = parameter.default
    else:
        defaults = written_defaults(spec, source)
    comment = _comment_types(source)
    written = [*spec.posonlyargs, *spec.args]
    arguments = []
    for k, argument in enumerate([*written, *spec.kwonlyargs]):
        if k == 0 and own is not None:
            arguments.append(Argument(argument.arg, own))
            continue
        place = source.at(argument)
        if argument.annotation is not None:
            kind = resolver.annotation(argument.annotation, place)
        elif comment is not None and k - (own is not None) < len(comment[0]):
            kind = resolver.annotation(comment[0][k - (own is not None)], place)
        else:
            kind = T.TENSOR
        default = defaults.get(argument.arg, REQUIRED)
        inferred = argument.annotation is None and comment is None
        size = sizes.get(argument.arg)
        named = k >= len(written)
        arguments.append(Argument(argument.arg, kind, default, named, size, False, inferred))
    returns = None
    if node.returns is not None:
        returns = resolver.annotation(node.returns, source.at(node.returns))
    elif comment is not None:
        returns = resolver.annotation(comment[1], source.at(node))
    return arguments, returns


def written_defaults(spec: ast.arguments, source: Source) -> dict[str, Any]:
    """The defaults of arguments, read from the source and never run."""
    names = [a.arg for a in (*spec.posonlyargs, *spec.args)]
    found = dict(zip(names[len(names) - len(spec.defaults) :], spec.defaults))
    found.update({a.arg: d for a, d in zip(spec.kwonlyargs, spec.kw_defaults) if d is not None})
    return {name: literal(node, source) for name, node in found.items()}


def literal(node: ast.expr, source: Source) -> Any:
    """The value of an expression that is a number, a text or a container of such."""
    if isinstance(node, ast.Constant) and not isinstance(node.value, (bytes, type(...))):
        return node.value
    if isinstance(node, ast.Name) and node.id in ("inf", "nan"):
        return float(node.id)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -literal(node.operand, source)
    if isinstance(node, ast.Tuple):
        return tuple(literal(item, source) for item in node.elts)
    if isinstance(node, ast.List):
        return [literal(item, source) for item in node.elts]
    if isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values)
        return {literal(k, source): literal(v, source) for k, v in pairs if k is not None}
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "torch.device" and node.args:
        return device(literal(node.args[0], source))
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "annotate" and len(node.args) == 2:
        return literal(node.args[1], source)
    raise CompileError("expected a literal", source.at(node))


def compile_function(
    function: Function, python: Any, resolver: Any, own: T.Type | None = None
) -> Function:
    """Compile a Python function into a Function that was named already."""
    node, source = parsed(inspect.unwrap(python))
    compile_source(function, node, source, resolver, inspect.unwrap(python), own)
    return function


def compile_source(
    function: Function,
    node: ast.FunctionDef,
    source: Source,
    resolver: Any,
    python: Any,
    own: T.Type | None,
) -> None:
    """Compile the syntax of a function; python is the function it is the source of, if any."""
    arguments, returns = signature(node, source, resolver, python, own)
    try:
        Compiler(function, source, resolver).compile(node, arguments, returns)
    except (CompileError, FrontendError) as error:
        if isinstance(error, CompileError) and error.place is None:
            error.place = source.at(node)
        raise
