"""The text of functions: from a function to the syntax tree that its code was made of.

The tree is used only if it compiles to the very code of the function; a file that was edited since
it was imported, or code that a tool has rewritten, is not read.
"""

import __future__
import ast
import functools
import linecache
import types
from typing import Any

from flambeau._dynamo.exc import Break
from flambeau.eager.interposing import own_code

_FUTURES = functools.reduce(
    lambda a, b: a | b, [getattr(__future__, n).compiler_flag for n in __future__.all_feature_names]
)
Function = ast.FunctionDef | ast.Lambda
# their calls look at the frame they are called in
FRAME_WORDS = frozenset("locals vars eval exec dir globals".split())


class Program:
    """A function's tree, and what is known about its names."""

    def __init__(self, node: Function, filename: str, flags: int, free: tuple[str, ...]) -> None:
        self.node, self.filename, self.flags, self.free = node, filename, flags, free
        self.body: list[ast.stmt]
        if isinstance(node, ast.Lambda):
            self.body = [ast.copy_location(ast.Return(node.body), node.body)]
        else:
            self.body = list(node.body)
        self.names = names_of(node)
        self.is_plain = not any(
            isinstance(n, (ast.Yield, ast.YieldFrom, ast.Await, ast.AsyncFor, ast.AsyncWith))
            for n in own_nodes(node)
        )


class Names:
    """Which names a function binds itself, and which it says belong to others."""

    def __init__(self) -> None:
        self.own: set[str] = set()
        self.globals: set[str] = set()
        self.nonlocals: set[str] = set()


_programs: dict[types.CodeType, Program] = {}


def program_of(function: Any) -> Program:
    """The tree of a function; Break if there is none."""
    code = own_code(function)
    found = _programs.get(code)
    if found is None:
        found = _programs[code] = _find(code, function)
    return found


def _find(code, function):
    lines = linecache.getlines(code.co_filename, function.__globals__)
    if not lines:
        raise Break(f"the text of {code.co_qualname} is not to be found")
    flags = code.co_flags & _FUTURES
    for node in _functions_of(code.co_filename, "".join(lines)).get(code.co_firstlineno, ()):
        name = node.name if isinstance(node, ast.FunctionDef) else "<lambda>"
        if name == code.co_name and _same(code, _compiled(node, code, flags)):
            return Program(node, code.co_filename, flags, code.co_freevars)
    raise Break(f"the text of {code.co_qualname} is not what its code was made of")


@functools.lru_cache(maxsize=64)
def _functions_of(filename, text):
    """Functions and lambdas of a file, by the line they begin in."""
    try:
        tree = ast.parse(text, filename)
    except SyntaxError as error:
        raise Break(f"{filename} cannot be parsed") from error
    found: dict[int, list[ast.AST]] = {}
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.Lambda)):
            decorators = getattr(node, "decorator_list", ())
            first = min([node.lineno, *(d.lineno for d in decorators)])
            found.setdefault(first, []).append(node)
    return found


def inner_code(outer: types.CodeType) -> types.CodeType:
    """The first code object among the constants of another."""
    return next(c for c in outer.co_consts if isinstance(c, types.CodeType))


def nested(node: ast.AST, free: tuple[str, ...]) -> ast.Module:
    """A module with a function whose variables are free in what is nested in it."""
    arguments = ast.arguments(
        posonlyargs=[], args=[ast.arg(name) for name in free], kwonlyargs=[], kw_defaults=[],
        defaults=[],
    )  # fmt: skip
    outer = ast.FunctionDef(name="outer", args=arguments, body=[node], decorator_list=[])
    if hasattr(ast, "TypeVar"):
        outer.type_params = []  # type: ignore[attr-defined]
    return ast.fix_missing_locations(ast.Module(body=[outer], type_ignores=[]))


def _compiled(node, code, flags):
    """The code that a tree gives, in a function that has the variables of its closure."""
    if isinstance(node, ast.Lambda):
        inside = ast.copy_location(ast.Expr(node), node)
    else:
        fields = {name: getattr(node, name, None) for name in node._fields}
        inside = ast.copy_location(ast.FunctionDef(**{**fields, "decorator_list": []}), node)
        inside.args = _without_defaults(node.args)
        inside.returns = None
    if isinstance(node, ast.Lambda):
        inside.value = ast.copy_location(ast.Lambda(_without_defaults(node.args), node.body), node)
    tree = nested(inside, code.co_freevars)
    outer = compile(tree, code.co_filename, "exec", flags=flags, dont_inherit=True)
    return inner_code(inner_code(outer))


def _without_defaults(arguments):
    """Parameters whose defaults are all None: they are no part of the function's own code."""
    none = ast.Constant(None)
    return ast.arguments(
        posonlyargs=[ast.arg(a.arg) for a in arguments.posonlyargs],
        args=[ast.arg(a.arg) for a in arguments.args],
        vararg=arguments.vararg and ast.arg(arguments.vararg.arg),
        kwonlyargs=[ast.arg(a.arg) for a in arguments.kwonlyargs],
        kw_defaults=[d and none for d in arguments.kw_defaults],
        kwarg=arguments.kwarg and ast.arg(arguments.kwarg.arg),
        defaults=[none for _ in arguments.defaults],
    )


def _same(one, other):
    """Do two code objects do the same with the same names and constants?"""
    if one.co_code != other.co_code or len(one.co_consts) != len(other.co_consts):
        return False
    if one.co_varnames != other.co_varnames or set(one.co_freevars) != set(other.co_freevars):
        return False
    if [n for n in one.co_names if "__" not in n] != [n for n in other.co_names if "__" not in n]:
        return False
    return all(map(_same_constant, one.co_consts, other.co_consts))


def _same_constant(a, b):
    if isinstance(a, types.CodeType):
        return isinstance(b, types.CodeType) and _same(a, b)
    if isinstance(a, str) and isinstance(b, str) and "<locals>" in a + b:
        return True  # the qualified name of something nested
    return type(a) is type(b) and repr(a) == repr(b)


# -- names -----------------------------------------------------------------------------------------


def own_nodes(node: ast.AST, into_comprehensions: bool = True) -> Any:
    """The nodes of a function, without those of functions nested in it."""
    todo = [node.body] if isinstance(node, ast.Lambda) else list(getattr(node, "body", [node]))
    while todo:
        found = todo.pop()
        yield found
        if isinstance(found, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            continue
        todo.extend(ast.iter_child_nodes(found))


_SCOPES = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def _bindings(nodes, found):
    """Names that statements and expressions bind in their own scope."""
    todo = list(nodes)
    while todo:
        node = todo.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.own.add(node.name)
            todo.extend(node.decorator_list)
            continue
        if isinstance(node, ast.Lambda):
            continue
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            found.own.add(node.id)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found.own.update(a.asname or a.name.partition(".")[0] for a in node.names)
        elif isinstance(node, ast.Global):
            found.globals.update(node.names)
        elif isinstance(node, ast.Nonlocal):
            found.nonlocals.update(node.names)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            found.own.add(node.name)
        elif isinstance(node, _SCOPES):
            todo.extend(n.target for n in ast.walk(node) if isinstance(n, ast.NamedExpr))
            todo.append(node.generators[0].iter)
            continue
        todo.extend(ast.iter_child_nodes(node))


def names_of(node: Function) -> Names:
    """The names that a function binds."""
    found = Names()
    a = node.args
    parameters = [*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg]
    found.own.update(p.arg for p in parameters if p is not None)
    _bindings([node.body] if isinstance(node, ast.Lambda) else node.body, found)
    found.own -= found.globals | found.nonlocals
    return found


def bound_in(statements: list[ast.stmt]) -> set[str]:
    """Names that statements bind in their own scope."""
    found = Names()
    _bindings(statements, found)
    return found.own


def used_in(statements: list[ast.stmt]) -> set[str]:
    """All names that occur in statements, nested functions included."""
    return {n.id for s in statements for n in ast.walk(s) if isinstance(n, ast.Name)}
