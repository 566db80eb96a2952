"""Sizes that may change: `SymInt`, and the environment that knows what is asked of them.

A symbol has the value of the example and a few others, its samples. An expression is known by its
values: comparisons are answered by the example, and where a sample would answer differently, the
answer becomes a constraint that samples are drawn under from then on (`Retry`).
"""

import math
import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from flambeau.fx.experimental.expressions import Expr, fitted
from flambeau.fx.experimental.sym_numbers import (
    COMPARISONS,
    SymBool,
    SymFloat,
    SymInt,
    is_symbolic,
)

__all__ = [
    "ConstraintViolationError",
    "GuardOnDataDependentSymNode",
    "ShapeEnv",
    "SymBool",
    "SymFloat",
    "SymInt",
    "ValueRanges",
    "is_symbolic",
]

_LARGE = 301  # larger than most limits that programs have
_OPPOSITE = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


class GuardOnDataDependentSymNode(RuntimeError):
    """A branch depends on a value that is only known when the program runs."""


class ConstraintViolationError(RuntimeError):
    """A size that was said to vary cannot."""


class Retry(Exception):
    """What was recorded so far assumed too much; record again with what is known now."""

    def __init__(self, constraints: Sequence["Constraint"] = ()) -> None:
        super().__init__("sizes are constrained")
        self.constraints = constraints  # what must hold besides what the environment knows


class ValueRanges(NamedTuple):
    """From the smallest to the largest value."""

    lower: int
    upper: float

    def __repr__(self) -> str:
        return f"VR[{self.lower}, {'int_oo' if self.upper == math.inf else int(self.upper)}]"


class Constraint(NamedTuple):
    """What must hold: left compared with 0, as in s0 - 4 == 0."""

    left: Expr
    comparison: str

    def holds(self, env: dict[str, int]) -> bool:
        return bool(COMPARISONS[self.comparison](self.left.value(env), 0))

    def __str__(self) -> str:
        number = self.left.terms.get((), 0)
        return f"{self.left - number} {self.comparison} {-number}"


class Symbol:
    """A size of an input, or a value that is only known when the program runs."""

    def __init__(self, name: str, hint: int, lower: int, upper: float, wanted: str) -> None:
        self.name, self.hint, self.lower, self.upper = name, hint, lower, upper
        self.wanted = wanted  # the name of a Dim, "" for Dim.AUTO, "DYNAMIC"
        self.sources: list[tuple[str, int]] = []  # inputs and dimensions
        self.is_unbacked = name.startswith("u")


class ShapeEnv:
    """Symbols, what must hold for them, and samples that they are tried with."""

    count = 4  # samples besides the example, at least

    def __init__(self) -> None:
        self.symbols: dict[str, Symbol] = {}
        self.constraints: list[Constraint] = []
        self.samples: list[dict[str, int]] = []
        self.recorder: Any = None
        self.unbacked = 0
        self.wants_samples = False

    # -- symbols -----------------------------------------------------------------------------
    def create(self, hint: int, lower: int, upper: float, wanted: str = "") -> Expr:
        """A symbol for a size."""
        number = sum(not s.is_unbacked for s in self.symbols.values())
        symbol = Symbol(f"s{number}", hint, lower, upper, wanted)
        self.symbols[symbol.name] = symbol
        return Expr.symbol(symbol.name)

    def add(self, name: str, hint: int, lower: int, upper: float) -> None:
        """A symbol of a program that was recorded before."""
        self.symbols[name] = Symbol(name, hint, lower, upper, "")

    def create_unbacked(self, hint: int, lower: int, upper: float) -> Expr:
        """A symbol for a value that is computed; its samples are drawn at once."""
        if len(self.samples) <= self.count:  # there were no sizes to draw
            self.wants_samples = True
            raise Retry
        name, self.unbacked = f"u{self.unbacked}", self.unbacked + 1
        self.symbols[name] = Symbol(name, hint, lower, upper, "")
        top = int(min(upper, max(hint, lower) + 40))
        others = [v for v in range(lower, top + 1) if v != hint]
        others = [v for v in others if v > 1] or others or [hint]
        for k, sample in enumerate(self.samples):
            sample[name] = others[(7 * k) % len(others)] if k else hint
        return Expr.symbol(name)

    def draw(self) -> None:
        """Choose samples that keep to what is known."""
        names = [s for s in self.symbols.values() if not s.is_unbacked]
        self.symbols = {s.name: s for s in names}
        self.unbacked = 0
        self.samples = [{s.name: s.hint for s in names}]
        dice = random.Random(1)
        wanted = max(self.count, len(names) + 3)
        fixed, free = self._solved()
        for attempt in range(4000):
            if len(self.samples) > wanted:
                break
            turn = attempt if len(self.samples) == 1 else attempt + 40
            sample = {s.name: _value(s, dice, turn) for s in names if s.name in free}
            for name, expr in fixed.items():
                sample[name] = expr.value(sample)
            inside = all(s.lower <= sample[s.name] <= s.upper for s in names)
            kept = all(c.holds(sample) for c in self.constraints if _is_of(c, sample))
            if inside and kept and sample not in self.samples:
                self.samples.append(sample)
        while self.wants_samples and len(self.samples) <= self.count:
            self.samples.append(dict(self.samples[0]))

    def _solved(self):
        """Symbols that equations give from others, and those that are free."""
        fixed: dict[str, Expr] = {}
        for constraint in self.constraints:
            if constraint.comparison != "==":
                continue
            left = constraint.left.replaced(fixed)
            for name in reversed(left.symbols):
                found = _isolated(left, name)
                if found is not None:
                    fixed = {k: e.replaced({name: found}) for k, e in fixed.items()}
                    fixed[name] = found
                    break
        return fixed, [name for name in self.symbols if name not in fixed]

    def simplified(self, expr: Expr) -> Expr:
        """With symbols replaced that are known to be equal to others."""
        return expr.replaced(self._solved()[0])

    # -- values ------------------------------------------------------------------------------
    def size(self, values: list[int]) -> Any:
        """What has these values: a number or a SymInt; None if no simple expression does."""
        if all(value == values[0] for value in values) and (
            len(values) > 1 or len(self.samples) == 1
        ):
            return values[0]
        names = [n for n in self.symbols if n in self.samples[0]]
        found = fitted(names, self.samples, values)
        return None if found is None else self.wrapped(found)

    def wrapped(self, expr: Expr, node: Any = None) -> Any:
        """An expression for programs."""
        expr = self.simplified(expr)
        return expr.number if expr.is_number else SymInt(expr, self, node)

    def values(self, expr: Expr) -> list[int]:
        """The values of an expression, that of the example first."""
        return [expr.value(sample) for sample in self.samples]

    # -- questions ---------------------------------------------------------------------------
    def decide(self, left: Expr, comparison: str) -> bool:
        """Answer a comparison with 0 by the example, and keep the answer."""
        if left.is_number:
            return bool(COMPARISONS[comparison](left.number, 0))
        unbacked = [n for n in left.symbols if self.symbols[n].is_unbacked]
        known = self._known(left, comparison)
        if known is not None:
            return known
        if unbacked:
            shown = Constraint(left, comparison)
            raise GuardOnDataDependentSymNode(
                f"Could not guard on data-dependent expression {shown} (unhinted: {shown}).  "
                f"(Size-like symbols: {', '.join(unbacked)})" + self.place()
            )
        answer = Constraint(left, comparison).holds(self.samples[0])
        taken = Constraint(left, comparison if answer else _OPPOSITE[comparison])
        if taken not in self.constraints:
            self.constraints.append(taken)
            self._narrow(taken)
        if not all(taken.holds(sample) for sample in self.samples):
            raise Retry
        return answer

    def place(self) -> str:
        """Where in the program it is asked, as an ending of a message."""
        return "" if self.recorder is None else self.recorder.told_place()

    def _narrow(self, constraint):
        """Bounds of a symbol that follow."""
        linear = constraint.left.linear()
        if linear is None:
            return
        name, a, b = linear
        if abs(a) != 1 or constraint.comparison in ("==", "!="):
            return
        symbol, bound = self.symbols[name], -b * a
        comparison = constraint.comparison
        if a < 0:
            comparison = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}[comparison]
        if comparison in (">", ">="):
            symbol.lower = max(symbol.lower, bound + (comparison == ">"))
        else:
            symbol.upper = min(symbol.upper, bound - (comparison == "<"))

    def _known(self, left, comparison):
        """The answer if it is the same for all sizes; None if it is not."""
        low, high = self.bounds(left)
        if comparison in ("<", ">="):
            found = True if high < 0 else False if low >= 0 else None
            return found if comparison == "<" or found is None else not found
        if comparison in (">", "<="):
            found = True if low > 0 else False if high <= 0 else None
            return found if comparison == ">" or found is None else not found
        if low > 0 or high < 0:
            return comparison == "!="
        return None

    def bounds(self, expr: Expr) -> tuple[float, float]:
        """The smallest and the largest value of an expression, as far as is easily known."""
        low = high = float(expr.number)
        for monomial, c in expr.terms.items():
            if not monomial:
                continue
            small, large = 1.0, 1.0
            for atom, power in monomial:
                if atom.args:
                    inner = [self.bounds(a) for a in atom.args]
                    if atom.name != "//" or inner[0][0] < 0 or inner[1][0] <= 0:
                        return -math.inf, math.inf
                    least, most = inner[0][0] // inner[1][1], inner[0][1] // inner[1][0]
                    least = 0.0 if math.isnan(least) else least
                    most = math.inf if math.isnan(most) else most
                else:
                    symbol = self.symbols[atom.name]
                    least, most = symbol.lower, symbol.upper
                small, large = small * least**power, large * most**power
            if c < 0:
                small, large = large, small
            low, high = low + c * small, high + c * large
        return low, high

    def fixed(self, expr: Expr) -> int:
        """The number that an expression must be, as a program wants to count with it."""
        value = expr.value(self.samples[0])
        unbacked = [n for n in expr.symbols if self.symbols[n].is_unbacked]
        if unbacked:
            raise GuardOnDataDependentSymNode(
                f"Could not extract specialized integer from data-dependent expression {expr} "
                f"(unhinted: {expr}).  (Size-like symbols: {', '.join(unbacked)})" + self.place()
            )
        self.constraints.append(Constraint(expr - value, "=="))
        raise Retry

    def moving(self) -> list[Symbol]:
        """Symbols that samples differ in."""
        found = [s for s in self.symbols.values() if not s.is_unbacked]
        return [s for s in found if len({sample[s.name] for sample in self.samples}) > 1]

    def narrow(self, constraints: Sequence[Constraint]) -> None:
        """Take over what must hold."""
        for constraint in constraints:
            if constraint not in self.constraints:
                self.constraints.append(constraint)
                self._narrow(constraint)

    def all_fixed(self) -> list[Constraint]:
        """That nothing changes."""
        return [Constraint(Expr.symbol(s.name) - s.hint, "==") for s in self.moving()]

    @property
    def ranges(self) -> dict[Expr, ValueRanges]:
        """The range of each symbol that is left."""
        free = self._solved()[1]
        return {
            Expr.symbol(n): ValueRanges(self.symbols[n].lower, self.symbols[n].upper) for n in free
        }


def restrictions(
    env: ShapeEnv, works: Callable[[dict[str, int]], bool], refused: dict[str, int]
) -> list[Constraint]:
    """What must hold so that something works that works for the example, not for another sample.

    All symbols are fixed at first; one after another is set free if it can be, made equal to
    another, or made a multiple of a number.
    """
    fixed, free = env._solved()
    sample = dict(env.samples[0])
    found: list[Constraint] = []
    tied: set[str] = set()

    def holds(changes: dict[str, int]) -> bool:
        trial = sample | changes
        for name, expr in fixed.items():
            trial[name] = expr.value(trial)
        return works(trial)

    for symbol in env.moving():
        name, hint = symbol.name, symbol.hint
        if name in fixed or name in tied:
            continue
        others = [n for n in free if n not in (name, *tied) and env.symbols[n].hint == hint]
        steps = [s for s in range(2, min(hint, 65) + 1) if hint % s == 0]
        if all(holds({name: hint + step}) for step in (1, 6, 11)):
            if not holds({name: refused[name]}):
                found.append(_limit(name, hint, refused[name], holds))
            continue
        twin = next((n for n in others if holds({name: hint + 7, n: hint + 7})), None)
        divisor = next(
            (m for m in steps if m < hint and all(holds({name: hint + m * k}) for k in (1, 2, 3))),
            None,
        )
        if twin is not None:
            tied.add(twin)
            found.append(Constraint(Expr.symbol(name) - Expr.symbol(twin), "=="))
        elif divisor is not None:
            found.append(Constraint(Expr.function("Mod", Expr.symbol(name), divisor), "=="))
        else:
            found.append(Constraint(Expr.symbol(name) - hint, "=="))
    return found or env.all_fixed()


def _limit(name, good, bad, holds):
    """The bound between a value that works and one that does not."""
    while abs(bad - good) > 1:
        middle = (good + bad) // 2
        if holds({name: middle}):
            good = middle
        else:
            bad = middle
    return Constraint(Expr.symbol(name) - good, "<=" if bad > good else ">=")


def _is_of(constraint, sample):
    return all(name in sample for name in constraint.left.symbols)


def _value(symbol, dice, attempt):
    low = max(symbol.lower, 2 if symbol.upper > 2 else 0)
    if attempt > 400:
        low = symbol.lower
    if attempt < 40 and symbol.upper > 4 * _LARGE:  # so that limits in programs are noticed
        return dice.randint(_LARGE, 4 * _LARGE)
    high = min(symbol.upper, max(4 * symbol.hint, low + 60) * (1 if attempt < 2000 else 8))
    return dice.randint(int(low), int(max(high, low)))


def _isolated(left, name):
    """name as an expression of the others, where left is 0 and it occurs once, alone."""
    found = [(m, c) for m, c in left.terms.items() if any(name in _names(a) for a, _ in m)]
    if len(found) != 1:
        return None
    monomial, c = found[0]
    if abs(c) != 1 or len(monomial) != 1 or monomial[0][1] != 1 or monomial[0][0].args:
        return None
    return (left - Expr({monomial: c})) * -c


def _names(atom):
    return [s for a in atom.args for s in a.symbols] if atom.args else [atom.name]
