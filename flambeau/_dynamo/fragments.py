"""Statements that run as plain Python: taken out of a function and compiled on their own.

The statements keep their lines, so tracebacks show the program's own text. They run in a function
that gets the variables that are alive and gives back all that it has then; variables of a closure
and globals are the function's own. Calls in them go through `compiled`, which gives the compiled
form of modules and functions of the program, so that what is called is still compiled.
"""

import ast
import builtins
import copy
import types
from collections.abc import Callable
from typing import Any

from flambeau._dynamo.exc import Break
from flambeau._dynamo.programs import (
    FRAME_WORDS,
    Program,
    bound_in,
    inner_code,
    nested,
    own_nodes,
    used_in,
)

FELL, RETURNED = "__fl_fell", "__fl_returned"
_OURS = ("__fl_fell", "__fl_returned", "__fl_locals", "__fl_compiled")


class _Plain(ast.NodeTransformer):
    """Returns say that they are returns; calls are looked at by `compiled`."""

    def __init__(self, first: str | None) -> None:
        self.first = first

    def visit_Return(self, node: ast.Return) -> ast.AST:
        value = self.visit(node.value) if node.value is not None else ast.Constant(None)
        pair = ast.Tuple([_name(RETURNED), value], ast.Load())
        return ast.copy_location(ast.Return(pair), node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        is_super = isinstance(node.func, ast.Name) and node.func.id == "super"
        if is_super and not node.args and self.first is not None:
            node.args = [_name("__class__"), _name(self.first)]
            return node
        node = self.generic_visit(node)  # type: ignore[assignment]
        if not isinstance(node.func, ast.Name) or not hasattr(builtins, node.func.id):
            node.func = ast.Call(_name("__fl_compiled"), [node.func], [])
        return node

    def visit(self, node: ast.AST) -> Any:
        inner = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
        return node if isinstance(node, inner) else super().visit(node)


def _name(text):
    return ast.Name(text, ast.Load())


def whole_reason(program: Program) -> str | None:
    """Why nothing of a function may run on its own; None if it may."""
    if not program.is_plain:
        return "it is a generator or asynchronous"
    for node in ast.walk(program.node):
        if isinstance(node, ast.Name) and node.id in FRAME_WORDS:
            return f"it calls {node.id}"
        name = getattr(node, "attr", None) or getattr(node, "id", None) or ""
        if name[:2] == "__" and name[-2:] != "__":
            return "it uses names that are private to a class"
        if isinstance(node, (ast.ClassDef, ast.Nonlocal)):
            return "it makes a class, or changes variables of another function"
        if isinstance(node, ast.Name) and node.id == "__class__":
            return "it uses __class__"
    return None


def split_reason(program: Program, rest: list[ast.stmt]) -> str | None:
    """Why the first of these statements may not run apart from the others; None if it may."""
    whole = whole_reason(program)
    if whole is not None:
        return whole
    if any(isinstance(s, (ast.Break, ast.Continue)) for s in rest[:1]):
        return "it leaves a loop"
    rebound = bound_in(rest[1:])
    for node in own_nodes(rest[0]):
        escapes = isinstance(node, (ast.FunctionDef, ast.Lambda, ast.GeneratorExp))
        if escapes and used_in([node]) & rebound:
            return "a function in it sees variables that change later"
    return None


def live_names(rest: list[ast.stmt], first: str | None) -> set[str]:
    """Names that statements may look at."""
    found = used_in(rest)
    if first is not None and "super" in found:
        found.add(first)
    return found


class Fragment:
    """Statements as a function of the variables that are alive."""

    def __init__(self, program: Program, statements: list[ast.stmt], names: tuple[str, ...]):
        self.program, self.names = program, names
        parameters = program.node.args
        first = [*parameters.posonlyargs, *parameters.args]
        self.first = first[0].arg if first else None
        free = tuple(n for n in program.free if n not in names)
        changed = _Plain(self.first)
        body = [changed.visit(copy.deepcopy(s)) for s in statements]
        missing = used_in(statements) & program.names.own - {*names} - bound_in(statements)
        if missing:  # names without a value stay local, so that they are not looked for elsewhere
            targets: list[ast.expr] = [ast.Name(n, ast.Store()) for n in sorted(missing)]
            never = ast.If(ast.Constant(False), [ast.Assign(targets, ast.Constant(None))], [])
            body.insert(0, ast.copy_location(never, body[0]))
        if program.names.globals:
            body.insert(0, ast.copy_location(ast.Global(sorted(program.names.globals)), body[0]))
        ending = ast.parse(f"return {FELL}, __fl_locals()").body
        for node in ast.walk(ending[0]):
            if hasattr(node, "lineno"):
                last = getattr(statements[-1], "end_lineno", None) or statements[-1].lineno
                node.lineno = node.end_lineno = last  # type: ignore[attr-defined]
        arguments = ast.arguments(
            posonlyargs=[], args=[ast.arg(n) for n in names], kwonlyargs=[], kw_defaults=[],
            defaults=[],
        )  # fmt: skip
        name = getattr(program.node, "name", "plain")
        function = ast.FunctionDef(
            name=name, args=arguments, body=[*body, *ending], decorator_list=[]
        )
        if hasattr(ast, "TypeVar"):
            function.type_params = []  # type: ignore[attr-defined]
        ast.copy_location(function, statements[0])
        tree = nested(function, (*free, *_OURS))
        try:
            outer = compile(tree, program.filename, "exec", flags=program.flags, dont_inherit=True)
        except SyntaxError as error:
            raise Break(f"a statement that cannot stand alone: {error}") from error
        self.code = inner_code(inner_code(outer))
        self._hidden = frozenset((*free, *_OURS))

    def run(self, fn: Any, values: tuple, compiled: Callable) -> tuple[bool, Any]:
        """(has it returned, what; or else the variables)."""
        own = dict(zip(fn.__code__.co_freevars, fn.__closure__ or ()))
        ours = {FELL: FELL, RETURNED: RETURNED, "__fl_locals": locals, "__fl_compiled": compiled}
        cells = tuple(
            own[n] if n in own else types.CellType(ours[n]) for n in self.code.co_freevars
        )
        function = types.FunctionType(self.code, fn.__globals__, fn.__name__, None, cells)
        word, found = function(*values)
        if word is RETURNED:
            return True, found
        return False, {k: v for k, v in found.items() if k not in self._hidden}
