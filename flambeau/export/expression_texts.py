"""Expressions over sizes as text, in the way SymPy spells them out, and back.

Reading parses the text and accepts a few functions by name; nothing of it is run.
"""

import ast
from typing import Any

from flambeau.fx.experimental.expressions import Expr

_FUNCTIONS = {"//": "FloorDiv", "Mod": "PythonMod", "Max": "Max", "Min": "Min"}
_READ = {"FloorDiv": "//", "CleanDiv": "//", "Mod": "Mod", "PythonMod": "Mod", "Max": "Max",
         "Min": "Min"}  # fmt: skip


def written(expr: Expr) -> str:
    """An expression as text."""
    parts = []
    for monomial, c in expr.terms.items():
        factors = [f"Integer({c})"] if c != 1 or not monomial else []
        for atom, power in monomial:
            text = _atom(atom)
            factors.append(text if power == 1 else f"Pow({text}, Integer({power}))")
        parts.append(factors[0] if len(factors) == 1 else f"Mul({', '.join(factors)})")
    if not parts:
        return "Integer(0)"
    return parts[0] if len(parts) == 1 else f"Add({', '.join(parts)})"


def _atom(atom):
    if atom.args:
        inner = ", ".join(written(arg) for arg in atom.args)
        return f"{_FUNCTIONS[atom.name]}({inner})"
    kind = "integer=True" if atom.name.startswith("u") else "positive=True, integer=True"
    return f"Symbol('{atom.name}', {kind})"


def read(text: str) -> Expr:
    """The expression that a text describes; ValueError if it is none."""
    if len(text) > 10_000:
        raise ValueError("an expression in the file is too long")
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError(f"{text!r} is not an expression over sizes") from error
    return _read(tree, text)


def _read(node: Any, text: str) -> Expr:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        name = node.func.id
        if name == "Symbol" and node.args and isinstance(node.args[0], ast.Constant):
            return Expr.symbol(_name(node.args[0].value, text))
        if name == "Integer" and len(node.args) == 1:
            return Expr.of(_integer(node.args[0], text))
        args = [_read(arg, text) for arg in node.args]
        if name == "Add":
            return sum(args[1:], args[0])
        if name in ("Mul", "Pow"):
            return _product(args) if name == "Mul" else _product([args[0]] * args[1].number)
        if name in _READ:
            return Expr.function(_READ[name], *args)
    raise ValueError(f"{text!r} is not an expression over sizes")


def _product(args):
    total = Expr.of(1)
    for arg in args:
        total = total * arg
    return total


def _integer(node, text):
    sign = 1
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        sign, node = -1, node.operand
    if not isinstance(node, ast.Constant) or type(node.value) is not int:
        raise ValueError(f"{text!r} is not an expression over sizes")
    return sign * node.value


def _name(value, text):
    if not isinstance(value, str) or not value.isidentifier():
        raise ValueError(f"{text!r} is not an expression over sizes")
    return value
