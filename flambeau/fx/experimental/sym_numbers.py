"""Numbers that are made of sizes, as programs hold them: `SymInt`, `SymFloat`.

Arithmetic makes expressions and is recorded; comparisons are answered by the environment, which
remembers the answer (symbolic_shapes.py).
"""

import operator
from collections.abc import Callable
from typing import Any

from flambeau.fx.experimental.expressions import Expr

__all__ = ["COMPARISONS", "SymBool", "SymFloat", "SymInt", "is_symbolic"]

COMPARISONS: dict[str, Callable] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def is_symbolic(value: Any) -> bool:
    """Is it a size that is not a number?"""
    return isinstance(value, (SymInt, SymFloat))


class SymInt:
    """A size as programs see it: an expression over symbols."""

    is_symbolic_int = True
    __slots__ = ("env", "expr", "fx_node")

    def __init__(self, expr: Expr, env: Any, node: Any = None) -> None:
        self.expr, self.env, self.fx_node = expr, env, node

    @property
    def hint(self) -> int:
        """Its value in the example."""
        return self.expr.value(self.env.samples[0])

    def hint_of(self, name: str) -> int:
        """The value of one of its symbols in the example."""
        return int(self.env.samples[0][name])

    def _made(self, name, expr, *operands):
        if self.env.recorder is None:  # the program has been recorded
            return self.env.wrapped(expr)
        node = self.env.recorder.sym_call(getattr(operator, name), operands)
        node.meta["val"] = found = self.env.wrapped(expr, node)
        return found

    def _binary(self, name, other, make, swapped=False):
        if isinstance(other, (float, SymFloat)):
            mine = SymFloat.of(self)
            pair = (other, mine) if swapped else (mine, other)
            return getattr(operator, name)(*pair)
        value = _expr(other)
        if value is None:
            return NotImplemented
        a, b = (value, self.expr) if swapped else (self.expr, value)
        pair = (other, self) if swapped else (self, other)
        return self._made(name, make(a, b), *pair)

    def __add__(self, other: Any) -> Any:
        return self._binary("add", other, lambda a, b: a + b)

    def __radd__(self, other: Any) -> Any:
        return self._binary("add", other, lambda a, b: a + b, True)

    def __sub__(self, other: Any) -> Any:
        return self._binary("sub", other, lambda a, b: a - b)

    def __rsub__(self, other: Any) -> Any:
        return self._binary("sub", other, lambda a, b: a - b, True)

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, (list, tuple)):  # a list repeated is as long as a number says
            return other * int(self)
        return self._binary("mul", other, lambda a, b: a * b)

    def __rmul__(self, other: Any) -> Any:
        if isinstance(other, (list, tuple)):
            return other * int(self)
        return self._binary("mul", other, lambda a, b: a * b, True)

    def __floordiv__(self, other: Any) -> Any:
        return self._binary("floordiv", other, lambda a, b: Expr.function("//", a, b))

    def __rfloordiv__(self, other: Any) -> Any:
        return self._binary("floordiv", other, lambda a, b: Expr.function("//", a, b), True)

    def __mod__(self, other: Any) -> Any:
        return self._binary("mod", other, lambda a, b: Expr.function("Mod", a, b))

    def __rmod__(self, other: Any) -> Any:
        return self._binary("mod", other, lambda a, b: Expr.function("Mod", a, b), True)

    def __truediv__(self, other: Any) -> Any:
        return SymFloat.of(self) / other

    def __rtruediv__(self, other: Any) -> Any:
        return other / SymFloat.of(self)

    def __pow__(self, other: Any) -> Any:
        if isinstance(other, int) and other >= 0:
            expr = Expr.of(1)
            for _ in range(other):
                expr = expr * self.expr
            return self._made("pow", expr, self, other)
        return SymFloat.of(self) ** other

    def __neg__(self) -> Any:
        return self._made("neg", -self.expr, self)

    def __pos__(self) -> "SymInt":
        return self

    def __abs__(self) -> Any:
        return self if self >= 0 else -self

    def _compared(self, comparison, other):
        if isinstance(other, (float, SymFloat)):
            return bool(COMPARISONS[comparison](float(self), float(other)))
        value = _expr(other)
        if value is None:
            return NotImplemented
        return self.env.decide(self.env.simplified(self.expr - value), comparison)

    def __eq__(self, other: object) -> Any:
        return self._compared("==", other)

    def __ne__(self, other: object) -> Any:
        return self._compared("!=", other)

    def __lt__(self, other: Any) -> Any:
        return self._compared("<", other)

    def __le__(self, other: Any) -> Any:
        return self._compared("<=", other)

    def __gt__(self, other: Any) -> Any:
        return self._compared(">", other)

    def __ge__(self, other: Any) -> Any:
        return self._compared(">=", other)

    def __bool__(self) -> bool:
        return self.env.decide(self.expr, "!=")

    def __int__(self) -> Any:
        return self.env.fixed(self.expr)

    __index__ = __int__

    def __float__(self) -> float:
        return float(int(self))

    def __hash__(self) -> int:
        return hash(self.expr)

    def __repr__(self) -> str:
        return str(self.expr)

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)

    def __deepcopy__(self, memo: Any) -> "SymInt":
        return self

    def __reduce__(self) -> tuple:
        return int, (self.hint,)


def _expr(value):
    if isinstance(value, SymInt):
        return value.expr
    return Expr.of(int(value)) if isinstance(value, int) else None


_WRITTEN = {"pow": "FloatPow", "truediv": "FloatTrueDiv"}  # as PyTorch shows them


class SymFloat:
    """A number that is computed from sizes."""

    __slots__ = ("env", "fx_node", "text", "values")
    is_symbolic_int = False

    def __init__(self, text: str, values: list[float], env: Any, node: Any) -> None:
        self.text, self.values, self.env, self.fx_node = text, values, env, node

    @staticmethod
    def of(value: Any) -> Any:
        """A size as a float."""
        if isinstance(value, SymInt):
            import flambeau

            node = value.env.recorder.sym_call(flambeau.sym_float, (value,))
            values = [float(v) for v in value.env.values(value.expr)]
            node.meta["val"] = found = SymFloat(f"ToFloat({value})", values, value.env, node)
            return found
        return value

    @property
    def hint(self) -> float:
        return self.values[0]

    def _binary(self, name, other, swapped=False):
        other = SymFloat.of(other)
        if not isinstance(other, (int, float, SymFloat)):
            return NotImplemented
        others = other.values if isinstance(other, SymFloat) else [other] * len(self.values)
        function = getattr(operator, name)
        pairs = zip(others, self.values) if swapped else zip(self.values, others)
        pair = (other, self) if swapped else (self, other)
        node = self.env.recorder.sym_call(function, pair)
        text = f"{_WRITTEN.get(name, name)}({pair[0]}, {pair[1]})"
        found = SymFloat(text, [function(a, b) for a, b in pairs], self.env, node)
        node.meta["val"] = found
        return found

    def __add__(self, other: Any) -> Any:
        return self._binary("add", other)

    def __radd__(self, other: Any) -> Any:
        return self._binary("add", other, True)

    def __sub__(self, other: Any) -> Any:
        return self._binary("sub", other)

    def __rsub__(self, other: Any) -> Any:
        return self._binary("sub", other, True)

    def __mul__(self, other: Any) -> Any:
        return self._binary("mul", other)

    def __rmul__(self, other: Any) -> Any:
        return self._binary("mul", other, True)

    def __truediv__(self, other: Any) -> Any:
        return self._binary("truediv", other)

    def __rtruediv__(self, other: Any) -> Any:
        return self._binary("truediv", other, True)

    def __pow__(self, other: Any) -> Any:
        return self._binary("pow", other)

    def __rpow__(self, other: Any) -> Any:
        return self._binary("pow", other, True)

    def __neg__(self) -> Any:
        return self._binary("mul", -1.0)

    def __float__(self) -> float:
        """As functions of math want it: the sizes it is made of are fixed."""
        if len(set(self.values)) > 1:
            for name in self.env.symbols:
                if self.env.samples[0][name] != self.env.samples[-1][name]:
                    self.env.fixed(Expr.symbol(name))
        return self.values[0]

    def __int__(self) -> int:
        return int(float(self))

    def _compared(self, comparison, other):
        return bool(COMPARISONS[comparison](float(self), float(other)))

    def __eq__(self, other: object) -> Any:
        return self._compared("==", other)

    def __lt__(self, other: Any) -> Any:
        return self._compared("<", other)

    def __le__(self, other: Any) -> Any:
        return self._compared("<=", other)

    def __gt__(self, other: Any) -> Any:
        return self._compared(">", other)

    def __ge__(self, other: Any) -> Any:
        return self._compared(">=", other)

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return self.text


class SymBool:
    """The answer to a question about sizes; here questions are answered at once, with a bool."""
