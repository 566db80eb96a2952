"""Did the program keep what was promised about sizes? If not, what to say instead."""

import math
from typing import Any

from flambeau.export.dynamic_shapes import Dim, UserError, UserErrorType
from flambeau.fx.experimental.symbolic_shapes import Constraint, ShapeEnv


def check_promises(env: ShapeEnv, dims: dict[str, Dim]) -> None:
    """Raise an error if a named dimension turned out to be fixed, bound to another, or narrower."""
    reasons: list[str] = []
    fixes: list[str] = []
    names: dict[str, None] = {}
    fixed, _ = env._solved()
    for symbol in env.symbols.values():
        if not symbol.wanted:
            continue
        shown = _shown(symbol)
        expr = fixed.get(symbol.name)
        if expr is not None and expr.is_number:
            reasons.append(
                f"You marked {shown[0]} as dynamic but your code specialized it to be a constant "
                f"({expr}). If you're using mark_dynamic, either remove it or use "
                "maybe_mark_dynamic. If you're using Dim.DYNAMIC, replace it with either "
                "Dim.STATIC or Dim.AUTO."
            )
            fixes.append(f"{shown[0]} = {expr}")
        elif expr is not None and symbol.wanted != "DYNAMIC":
            other = env.symbols[expr.symbols[0]]
            if expr.is_symbol:
                reasons.append(
                    f"The values of {shown[0]} = {shown[1]} and {_shown(other)[0]} = "
                    f"{_shown(other)[1]} must always be equal."
                )
                fixes.append(f"{shown[0]} = {_shown(other)[0]}")
        elif expr is None and symbol.wanted != "DYNAMIC":
            _check_range(symbol, dims[symbol.wanted], reasons, fixes)
            _check_guards(env, symbol, reasons, fixes)
        else:
            continue
        if len(reasons) > len(names):
            names[shown[0]] = None
    if reasons:
        _refuse(list(names), reasons, fixes)


def _shown(symbol):
    """(name of the dimension, the size it stands for)."""
    name, dim = symbol.sources[0] if symbol.sources else ("?", 0)
    size = f"L['{name}'].size()[{dim}]"
    return (size if symbol.wanted in ("", "DYNAMIC") else symbol.wanted), size


def _check_range(symbol, dim, reasons, fixes):
    if symbol.lower <= dim.min and symbol.upper >= dim.max:
        return
    name, size = _shown(symbol)
    high = "IntInfinity()" if symbol.upper == math.inf else int(symbol.upper)
    reasons.append(
        f"Not all values of {name} = {size} in the specified range satisfy the generated guard "
        f"{symbol.lower} <= {size} and {size} <= {high}"
    )
    low = "" if symbol.lower <= dim.min else f", min={symbol.lower}"
    top = "" if symbol.upper == math.inf else f", max={int(symbol.upper)}"
    fixes.append(f"{name} = Dim('{name}'{low}{top})")


def _check_guards(env, symbol, reasons, fixes):
    """Remainders that must be zero."""
    for constraint in env.constraints:
        divisor = divisor_of(constraint)
        if divisor is None or constraint.left.symbols != [symbol.name]:
            continue
        name, size = _shown(symbol)
        reasons.append(
            f"Not all values of {name} = {size} in the specified range satisfy the generated guard "
            f"({size} % {divisor}) == 0."
        )
        fixes.append(f"_{name} = Dim('_{name}', min=1, max=oo)\n  {name} = {divisor}*_{name}")


def divisor_of(constraint: Constraint) -> int | None:
    """The m of Mod(s, m) == 0."""
    if constraint.comparison != "==" or len(constraint.left.terms) != 1:
        return None
    monomial = next(iter(constraint.left.terms))
    if len(monomial) != 1 or monomial[0][0].name != "Mod":
        return None
    return int(monomial[0][0].args[1].number)


def _refuse(names: list[str], reasons: list[str], fixes: list[str]) -> Any:
    text = f"Constraints violated ({', '.join(names)})! For more information, run with "
    text += 'TORCH_LOGS="+dynamic".\n'
    text += "\n".join(f"  - {reason}" for reason in reasons)
    if fixes:
        text += "\nSuggested fixes:\n" + "\n".join(f"  {fix}" for fix in fixes)
    raise UserError(UserErrorType.CONSTRAINT_VIOLATION, text)
