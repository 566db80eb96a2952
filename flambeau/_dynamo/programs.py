"""The text of functions: from a function to the syntax tree that its code was made of.

The tree is used only if it compiles to the very code of the function; a file that was edited since
it was imported, or code that a tool has rewritten, is not read.
"""

import __future__

import ast
import functools
import itertools
import linecache
import types
from typing import Any

from flambeau._dynamo.exc import Break
from flambeau.interposing import own_code

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
        kinds = {type(n) for n in own_nodes(node)}
        is_asynchronous = not kinds.isdisjoint((ast.Await, ast.AsyncFor, ast.AsyncWith))
        yields = not kinds.isdisjoint((ast.Yield, ast.YieldFrom))
        self.is_generator = yields and not is_asynchronous
        self.is_plain = not yields and not is_asynchronous


class Names:
    """Which names a function binds itself, and which it says belong to others."""

    def __init__(self) -> None:
        self.own: set[str] = set()
        self.globals: set[str] = set()
        self.nonlocals: set[str] = set()


TRIES = 8  # places where a function may end
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
    text = "".join(lines)
    place = code.co_firstlineno, code.co_name
    if not (function.__module__ or "").startswith("flambeau."):
        same = _same_but_for_assertions if _is_rewritten(function) else _same
        if not any(same(code, found) for found in _codes_of(code.co_filename, text).get(place, ())):
            raise Break(f"the text of {code.co_qualname} is not what its code was made of")
    elif (node := _own_tree(code, lines)) is not None:
        return Program(node, code.co_filename, code.co_flags & _FUTURES, code.co_freevars)
    nodes = _functions_of(code.co_filename, text).get(place, ())
    if code.co_name == "<lambda>":
        nodes = [node for node in nodes if _is_within(code, node.body)]
    if len(nodes) != 1:
        raise Break(f"there are several functions where {code.co_qualname} is")
    return Program(nodes[0], code.co_filename, code.co_flags & _FUTURES, code.co_freevars)


def _own_tree(code, lines):
    """The tree of a function's own lines, without parsing the file; None if that is not enough.

    A function ends before a line that is indented no more than its first one, unless that belongs
    to its head or to a text of several lines: then what is there so far is no program.
    """
    first = code.co_firstlineno - 1
    indent = _indent(lines[first])
    wrap = ["if 1:\n"] if indent else []
    ends = (k for k in range(first + 1, len(lines)) if _is_end(lines[k], indent))
    for end in itertools.islice(itertools.chain(ends, [len(lines)]), TRIES):
        try:
            (node,) = ast.parse("".join([*wrap, *lines[first:end]])).body
        except (SyntaxError, ValueError):
            continue
        found: Any = node.body[0] if isinstance(node, ast.If) else node
        if not isinstance(found, ast.FunctionDef) or found.name != code.co_name:
            return None
        ast.increment_lineno(found, first - len(wrap))
        return found
    return None


def _indent(line):
    return len(line) - len(line.lstrip())


def _is_end(line, indent):
    return bool(line.strip()) and _indent(line) <= indent and not line.lstrip().startswith("#")


def _is_within(code, node):
    """Was this code made of this expression?"""
    places = [p for p in code.co_positions() if None not in p and p[2:] != (0, 0)]
    last = max(places, default=None, key=lambda p: (p[1] - p[0], p[3] - p[2]))
    spans = {(p[0], p[2]) for p in places}, {(p[1], p[3]) for p in places}
    if last is None:
        return False
    start, end = min(spans[0]), max(spans[1])
    return start >= (node.lineno, node.col_offset) and end == (node.end_lineno, node.end_col_offset)


@functools.lru_cache(maxsize=64)
def _functions_of(filename, text):
    """Functions and lambdas of a file, by the line they begin in and their name."""
    found: dict[tuple, list[ast.AST]] = {}
    for node in ast.walk(_tree_of(filename, text)):
        if isinstance(node, (ast.FunctionDef, ast.Lambda)):
            decorators = getattr(node, "decorator_list", ())
            first = min([node.lineno, *(d.lineno for d in decorators)])
            name = getattr(node, "name", "<lambda>")
            found.setdefault((first, name), []).append(node)
    return found


@functools.lru_cache(maxsize=64)
def _tree_of(filename, text):
    try:
        return ast.parse(text, filename)
    except SyntaxError as error:
        raise Break(f"{filename} cannot be parsed") from error


@functools.lru_cache(maxsize=64)
def _codes_of(filename, text):
    """The code objects of a file, by the line they begin in and their name."""
    found: dict[tuple, list[types.CodeType]] = {}
    todo = [compile(_tree_of(filename, text), filename, "exec", dont_inherit=True)]
    while todo:
        code = todo.pop()
        found.setdefault((code.co_firstlineno, code.co_name), []).append(code)
        todo.extend(c for c in code.co_consts if isinstance(c, types.CodeType))
    return found


def inner_code(outer: types.CodeType) -> types.CodeType:
    """The first code object among the constants of another."""
    return next(c for c in outer.co_consts if isinstance(c, types.CodeType))


def nested(node: ast.stmt, free: tuple[str, ...]) -> ast.Module:
    """A module with a function whose variables are free in what is nested in it."""
    arguments = ast.arguments(
        posonlyargs=[], args=[ast.arg(name) for name in free], kwonlyargs=[], kw_defaults=[],
        defaults=[],
    )  # fmt: skip
    outer = ast.FunctionDef(name="outer", args=arguments, body=[node], decorator_list=[])
    if hasattr(ast, "TypeVar"):
        outer.type_params = []  # type: ignore[attr-defined]
    return ast.fix_missing_locations(ast.Module(body=[outer], type_ignores=[]))


def _same(one, other):
    """Do two code objects do the same with the same names and constants?"""
    if one.co_code != other.co_code or len(one.co_consts) != len(other.co_consts):
        return False
    if one.co_varnames != other.co_varnames or one.co_freevars != other.co_freevars:
        return False
    if one.co_names != other.co_names:
        return False
    return all(map(_same_constant, one.co_consts, other.co_consts))


def _is_rewritten(function):
    """Does it belong to a test, whose assertions pytest writes anew?"""
    loader = function.__globals__.get("__loader__")
    return type(loader).__name__ == "AssertionRewritingHook"


def _same_but_for_assertions(one, other):
    """Has `one` all names and parameters of `other`? What assertions became may come on top."""
    count = other.co_argcount + other.co_kwonlyargcount
    return (
        one.co_varnames[:count] == other.co_varnames[:count]
        and set(one.co_varnames) >= set(other.co_varnames)
        and set(one.co_names) >= set(other.co_names)
        and one.co_freevars == other.co_freevars
    )


def _same_constant(a, b):
    if isinstance(a, types.CodeType):
        return isinstance(b, types.CodeType) and _same(a, b)
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
