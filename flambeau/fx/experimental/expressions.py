"""Expressions over sizes: polynomials with whole coefficients, divisions rounded down, remainders.

An expression is kept in one form, so that equal ones compare equal: a sum of products of atoms. An
atom is a symbol or a function (`//`, `Mod`, `Max`, `Min`) of expressions.
"""

import math
from collections.abc import Callable, Mapping
from typing import Union

Number = int
Operand = Union["Expr", int]
Monomial = tuple[tuple["Atom", int], ...]


class Atom:
    """A symbol, or a function of expressions."""

    __slots__ = ("args", "key", "name")

    def __init__(self, name: str, args: tuple["Expr", ...] = ()) -> None:
        self.name, self.args = name, args
        self.key = (len(args), name, tuple(map(str, args)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Atom) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __lt__(self, other: "Atom") -> bool:
        return self.key < other.key

    def __str__(self) -> str:
        if not self.args:
            return self.name
        if self.name == "//":
            return f"({_wrapped(self.args[0])}//{_wrapped(self.args[1])})"
        return f"{self.name}({', '.join(map(str, self.args))})"

    def value(self, env: Mapping[str, int]) -> int:
        """Its value where symbols have these."""
        if not self.args:
            return env[self.name]
        return _FUNCTIONS[self.name](*(arg.value(env) for arg in self.args))


def _modulo(a, b):
    return a % b


_FUNCTIONS: dict[str, Callable[..., int]] = {
    "//": lambda a, b: a // b,
    "Mod": _modulo,
    "Max": max,
    "Min": min,
}


def _wrapped(expr):
    text = str(expr)
    return text if text.isalnum() else f"({text})"


class Expr:
    """A sum of products of atoms."""

    __slots__ = ("_text", "terms")

    def __init__(self, terms: Mapping[Monomial, int]) -> None:
        self.terms = {m: c for m, c in terms.items() if c}
        self._text: str | None = None

    # -- making ------------------------------------------------------------------------------
    @staticmethod
    def of(value: Operand) -> "Expr":
        return value if isinstance(value, Expr) else Expr({(): int(value)})

    @staticmethod
    def symbol(name: str) -> "Expr":
        return Expr({((Atom(name), 1),): 1})

    @staticmethod
    def function(name: str, *args: Operand) -> "Expr":
        """A rounded division, a remainder, the larger or the smaller of two."""
        exprs = tuple(map(Expr.of, args))
        if all(e.is_number for e in exprs):
            return Expr.of(_FUNCTIONS[name](*(e.number for e in exprs)))
        if name in ("//", "Mod") and exprs[1].is_number:
            found = _divided(name, exprs[0], exprs[1].number)
            if found is not None:
                return found
        if name == "//" and exprs[0] == exprs[1]:
            return Expr.of(1)
        return Expr({((Atom(name, exprs), 1),): 1})

    # -- arithmetic --------------------------------------------------------------------------
    def __add__(self, other: Operand) -> "Expr":
        terms = dict(self.terms)
        for m, c in Expr.of(other).terms.items():
            terms[m] = terms.get(m, 0) + c
        return Expr(terms)

    def __neg__(self) -> "Expr":
        return Expr({m: -c for m, c in self.terms.items()})

    def __sub__(self, other: Operand) -> "Expr":
        return self + -Expr.of(other)

    def __mul__(self, other: Operand) -> "Expr":
        terms: dict[Monomial, int] = {}
        for m, c in self.terms.items():
            for n, d in Expr.of(other).terms.items():
                powers: dict[Atom, int] = dict(m)
                for atom, power in n:
                    powers[atom] = powers.get(atom, 0) + power
                key = tuple(sorted(powers.items()))
                terms[key] = terms.get(key, 0) + c * d
        return Expr(terms)

    __radd__, __rmul__ = __add__, __mul__

    def __rsub__(self, other: Operand) -> "Expr":
        return Expr.of(other) - self

    def __eq__(self, other: object) -> bool:
        if isinstance(other, int):
            other = Expr.of(other)
        return isinstance(other, Expr) and self.terms == other.terms

    def __hash__(self) -> int:
        return hash(frozenset(self.terms.items()))

    # -- asking ------------------------------------------------------------------------------
    @property
    def is_number(self) -> bool:
        return not self.terms or set(self.terms) == {()}

    @property
    def number(self) -> int:
        return self.terms.get((), 0)

    @property
    def is_symbol(self) -> bool:
        (monomial, c), *rest = [*self.terms.items()] or [((), 0)]
        return not rest and c == 1 and len(monomial) == 1 and monomial[0][1] == 1 \
            and not monomial[0][0].args  # fmt: skip

    @property
    def symbols(self) -> list[str]:
        """Names of the symbols in it."""
        found: dict[str, None] = {}
        for monomial in self.terms:
            for atom, _ in monomial:
                inner = [s for a in atom.args for s in a.symbols] if atom.args else [atom.name]
                found.update(dict.fromkeys(inner))
        return list(found)

    def linear(self) -> tuple[str, int, int] | None:
        """(symbol, a, b) of a*symbol + b; None if it is no such thing."""
        rest = [(m, c) for m, c in self.terms.items() if m]
        if len(rest) != 1 or len(rest[0][0]) != 1:
            return None
        (atom, power), a = rest[0][0][0], rest[0][1]
        return None if power != 1 or atom.args else (atom.name, a, self.number)

    def value(self, env: Mapping[str, int]) -> int:
        """Its value where symbols have these."""
        total = 0
        for monomial, c in self.terms.items():
            for atom, power in monomial:
                c *= atom.value(env) ** power
            total += c
        return total

    def replaced(self, env: Mapping[str, "Expr"]) -> "Expr":
        """With other expressions for symbols."""
        total = Expr({})
        for monomial, c in self.terms.items():
            part = Expr.of(c)
            for atom, power in monomial:
                inner = (
                    Expr.function(atom.name, *(a.replaced(env) for a in atom.args))
                    if atom.args
                    else env.get(atom.name, Expr({((atom, 1),): 1}))
                )
                for _ in range(power):
                    part = part * inner
            total = total + part
        return total

    # -- text --------------------------------------------------------------------------------
    def __str__(self) -> str:
        if self._text is None:
            self._text = self._written()
        return self._text

    __repr__ = __str__

    def _written(self):
        if not self.terms:
            return "0"
        degree = lambda m: -sum(power for _, power in m)
        ordered = sorted(self.terms.items(), key=lambda item: (degree(item[0]), item[0]))
        parts = [_term(m, c) for m, c in ordered]
        text = parts[0]
        for part in parts[1:]:
            text += f" - {part[1:]}" if part.startswith("-") else f" + {part}"
        return text


def _term(monomial, c):
    factors = [str(atom) if power == 1 else f"{atom}**{power}" for atom, power in monomial]
    if not factors:
        return str(c)
    if c == 1:
        return "*".join(factors)
    return "-" + "*".join(factors) if c == -1 else "*".join([str(c), *factors])


def _divided(name, top, d):
    """top // d or top % d where that is simpler; None if not."""
    if d == 1:
        return top if name == "//" else Expr({})
    if d == 0:
        return None
    whole = Expr({m: c // d for m, c in top.terms.items() if c % d == 0})
    rest = Expr({m: c for m, c in top.terms.items() if c % d})
    if rest.is_number:  # a multiple of d, and a number
        left = rest.number
        return whole + left // d if name == "//" else Expr.of(left % d)
    return None


def solve_linear(rows: list[list[int]], values: list[int]) -> list[int] | None:
    """Whole numbers x with rows @ x == values for all rows; None if there are none."""
    from fractions import Fraction

    n = len(rows[0])
    matrix = [[Fraction(v) for v in row] + [Fraction(value)] for row, value in zip(rows, values)]
    pivots: list[int] = []
    at = 0
    for column in range(n):
        found = next((r for r in range(at, len(matrix)) if matrix[r][column]), None)
        if found is None:
            return None
        matrix[at], matrix[found] = matrix[found], matrix[at]
        lead = matrix[at][column]
        matrix[at] = [v / lead for v in matrix[at]]
        for r in range(len(matrix)):
            if r != at and matrix[r][column]:
                factor = matrix[r][column]
                matrix[r] = [a - factor * b for a, b in zip(matrix[r], matrix[at])]
        pivots.append(column)
        at += 1
    if any(row[-1] for row in matrix[at:]):
        return None
    found_values = [matrix[k][-1] for k in range(n)]
    return [int(v) for v in found_values] if all(v.denominator == 1 for v in found_values) else None


def fitted(names: list[str], samples: list[dict[str, int]], values: list[int]) -> Expr | None:
    """The simplest expression that has these values at these samples."""
    if len(set(values)) == 1:
        return Expr.of(values[0])
    for name in names:
        if [s[name] for s in samples] == values:
            return Expr.symbol(name)
    return (
        _fit_linear(names, samples, values)
        or _fit_product(names, samples, values)
        or _fit_rounded(names, samples, values)
        or _fit_bounded(names, samples, values)
    )


def _fit_linear(names, samples, values):
    moving = [n for n in names if len({s[n] for s in samples}) > 1]
    if not moving or len(samples) < len(moving) + 2:
        return None
    rows = [[s[n] for n in moving] + [1] for s in samples]
    found = solve_linear(rows, values)
    if found is None:
        return None
    total = Expr.of(found[-1])
    for name, c in zip(moving, found):
        total = total + Expr.symbol(name) * c
    return total


def _fit_product(names, samples, values):
    """A symbol times something simpler."""
    for name in names:
        if all(s[name] and v % s[name] == 0 for s, v in zip(samples, values)):
            rest = [v // s[name] for s, v in zip(samples, values)]
            if sum(map(abs, rest)) < sum(map(abs, values)):
                inner = fitted(names, samples, rest)
                if inner is not None:
                    return Expr.symbol(name) * inner
    return None


def _fit_rounded(names, samples, values):
    """(a*s + b) // d + c, as convolutions and pools make."""
    for name in names:
        xs = [s[name] for s in samples]
        if len(set(xs)) < 3:
            continue
        for d in (2, 3, 4, 5, 6, 7, 8, 16, 32):
            for a in range(1, d):
                if math.gcd(a, d) > 1:
                    continue
                for b in range(d):
                    rest = {v - (a * x + b) // d for x, v in zip(xs, values)}
                    if len(rest) == 1:
                        c = rest.pop()
                        if c == 0:
                            return Expr.function("//", Expr.symbol(name) * a + b, d)
                        # as windows are counted: ((s - 3)//2) + 1
                        top = Expr.symbol(name) * a + (b + (c - 1) * d)
                        return Expr.function("//", top, d) + 1
    return None


def _fit_bounded(names, samples, values):
    """The smaller, or the larger, of a symbol and a number, as slices make."""
    for name in names:
        xs = [s[name] for s in samples]
        for word, bound in (("Min", max(values)), ("Max", min(values))):
            if values == [_FUNCTIONS[word](x, bound) for x in xs]:
                return Expr.function(word, bound, Expr.symbol(name))
    return None
