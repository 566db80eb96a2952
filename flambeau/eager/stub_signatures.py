"""What `inspect` says of functions that are built from rows: the signatures of their stubs.

Generated functions take their arguments in ways that are quick, not in ways that read well. Each
has a `__signature__` that knows its name only, and looks into the `.pyi` files (tools/stubs.py
writes them) when somebody asks: PyTorch's names, order and defaults, of the overload with the most
parameters. Types are left to those who read the stubs themselves. Where a stub leaves something
open (`...`, `*args`), the code is asked.
"""

import ast
import inspect
from functools import cache
from pathlib import Path
from types import FunctionType, MappingProxyType

from flambeau.ops.table import REQUIRED

_HOME = Path(__file__).parents[1]
_FILES = {
    "linalg_": "linalg/__init__.pyi",
    "special_": "special/__init__.pyi",
    "fft_": "fft/__init__.pyi",
}


@cache
def _definitions(file):
    """name -> definitions in a stub; methods of a class as those of the file."""
    try:
        tree = ast.parse((_HOME / file).read_text("utf-8"))
    except OSError:
        return {}
    found: dict = {}
    for node in tree.body:
        for item in node.body if isinstance(node, ast.ClassDef) else [node]:
            if isinstance(item, ast.FunctionDef):
                found.setdefault(item.name, []).append(item.args)
    return found


def _overloads(name, method):
    if method:
        return _definitions("_tensor/__init__.pyi").get(name, ())
    for prefix, file in _FILES.items():
        if name.startswith(prefix) and name.removeprefix(prefix) in _definitions(file):
            return _definitions(file)[name.removeprefix(prefix)]
    if name in _definitions("__init__.pyi"):
        return _definitions("__init__.pyi")[name]
    known = _definitions("nn/functional.pyi").get(name.removeprefix("functional_"), ())
    return () if any(map(_is_open, known)) else known


def _is_open(arguments):
    values = [*arguments.defaults, *arguments.kw_defaults]
    return arguments.vararg or any(isinstance(v, ast.Constant) and v.value is ... for v in values)


def _parameters(arguments):
    kinds = inspect.Parameter
    placed = [(a, kinds.POSITIONAL_ONLY) for a in arguments.posonlyargs]
    placed += [(a, kinds.POSITIONAL_OR_KEYWORD) for a in arguments.args]
    bare = len(placed) - len(arguments.defaults)
    values = [None] * bare + arguments.defaults
    found = [kinds(a.arg, kind, default=_value(v)) for (a, kind), v in zip(placed, values)]
    if arguments.vararg:
        found.append(kinds(arguments.vararg.arg, kinds.VAR_POSITIONAL))
    for a, v in zip(arguments.kwonlyargs, arguments.kw_defaults):
        found.append(kinds(a.arg, kinds.KEYWORD_ONLY, default=_value(v)))
    if arguments.kwarg:
        found.append(kinds(arguments.kwarg.arg, kinds.VAR_KEYWORD))
    return found


def _value(node):
    return inspect.Parameter.empty if node is None else ast.literal_eval(node)


def _cleaned(parameters):
    """Without what generated functions have beside their parameters: *rest, out=, **kwargs."""
    parameters = [p for p in parameters if p.name not in ("rest", "kwargs", "out")]
    return [p.replace(default=p.empty) if p.default is REQUIRED else p for p in parameters]


def _with_defaults(found, plain):
    """What one overload asks for and another does not know, has the default of the code."""
    empty = inspect.Parameter.empty
    known = {p.name: p.default for p in plain if p.default is not empty}
    made, may_miss = [], True
    for p in reversed(found):  # a parameter without a default may not follow one with a default
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD):
            p = p.replace(default=known[p.name]) if _lacks(p, known) and may_miss else p
            may_miss = p.default is not empty
        elif _lacks(p, known):
            p = p.replace(default=known[p.name])
        made.append(p)
    return made[::-1]


def _lacks(p, known):
    return (p.default is p.empty or p.default == ()) and p.name in known


class StubSignature(inspect.Signature):
    """A signature that is read from a stub when it is looked at."""

    __slots__ = ("_function", "_method", "_name")

    def __init__(self, name, function, method=False):
        self._name, self._function, self._method = name, function, method

    def __getattr__(self, slot):
        if slot not in ("_parameters", "_return_annotation"):
            raise AttributeError(slot)
        known = _overloads(self._name, self._method)
        found = _cleaned(plain_signature(self._function).parameters.values())
        if known:
            most = max(known, key=lambda a: len(a.args) + len(a.kwonlyargs))
            found = _with_defaults(_parameters(most), found)
        self._parameters = MappingProxyType({p.name: p for p in found})
        self._return_annotation = inspect.Signature.empty
        return getattr(self, slot)

    def replace(self, **changes):
        """A plain signature with something else in it."""
        known = inspect.Signature(list(self.parameters.values()))
        return known.replace(**changes)

    def __reduce__(self):
        return inspect.Signature, (list(self.parameters.values()),)


def plain_signature(function):
    """The signature that the code of a function has, or had before handlers stood around it."""
    function = inspect.unwrap(function)
    if not isinstance(function, FunctionType):
        return inspect.signature(function)
    code = function.__code__, function.__globals__, function.__name__, function.__defaults__
    copy = FunctionType(*code, function.__closure__)
    copy.__kwdefaults__ = function.__kwdefaults__
    return inspect.signature(copy)


def sign(function, name, method=False):
    """Give a function the signature that a stub has for its name."""
    if isinstance(function, FunctionType):
        function.__signature__ = StubSignature(name, function, method)
    return function
