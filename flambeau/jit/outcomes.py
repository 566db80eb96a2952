"""How statements can end, told from their syntax: by falling through, or by a jump.

Programs as graphs have no jumps. What follows a branch that jumps is put into the other branch, or
under a flag; statements.py does it and asks here.
"""

import ast
from collections.abc import Iterable, Sequence

FALL, RETURN, BREAK, CONTINUE, RAISE = "fall", "return", "break", "continue", "raise"
JUMPS = frozenset({RETURN, BREAK, CONTINUE})


def outcomes(statements: Sequence[ast.stmt]) -> frozenset[str]:
    """The ways in which a list of statements can end."""
    found: set[str] = set()
    for statement in statements:
        ways = _of_one(statement)
        found |= ways - {FALL}
        if FALL not in ways:
            return frozenset(found)
    return frozenset(found | {FALL})


def _of_one(statement):
    if isinstance(statement, ast.Return):
        return {RETURN}
    if isinstance(statement, ast.Raise):
        return {RAISE}
    if isinstance(statement, ast.Break):
        return {BREAK}
    if isinstance(statement, ast.Continue):
        return {CONTINUE}
    if isinstance(statement, ast.If):
        return outcomes(statement.body) | outcomes(statement.orelse)
    if isinstance(statement, (ast.For, ast.While)):
        return (outcomes(statement.body) & {RETURN}) | {FALL}
    if isinstance(statement, ast.With):
        return outcomes(statement.body)
    return {FALL}


def jumps(statements: Sequence[ast.stmt]) -> frozenset[str]:
    """The jumps out of a list of statements."""
    return outcomes(statements) & JUMPS


def assigned(statements: Iterable[ast.AST]) -> set[str]:
    """The names that statements assign to, except in comprehensions and inner functions."""
    found: set[str] = set()
    for statement in statements:
        _collect(statement, found)
    return found


def _collect(node, found):
    if isinstance(node, (ast.FunctionDef, ast.Lambda, ast.ListComp, ast.DictComp)):
        return
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        found.add(node.id)
    if isinstance(node, ast.NamedExpr):
        found.add(node.target.id)
    for child in ast.iter_child_nodes(node):
        _collect(child, found)
