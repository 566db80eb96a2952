"""Reading expressions."""

import ast
import operator
from collections.abc import Iterator
from typing import Any

from flambeau._dynamo.exc import Break
from flambeau._dynamo.scopes import Comprehension, Scope, assign, lookup
from flambeau._dynamo.values import (
    MadeGenerator,
    MadeObject,
    Outside,
    Partial,
    Symbolic,
    TensorValue,
    holds_symbols,
)
from flambeau._dynamo.varying import NumberValue

BINARY = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
    ast.Pow: operator.pow, ast.MatMult: operator.matmul, ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_, ast.BitXor: operator.xor, ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
}  # fmt: skip
UNARY = {ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Invert: operator.invert}
COMPARING = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip
_CONVERSIONS: dict[str, Any] = {"s": str, "r": repr, "a": ascii}


class Expressions:
    """The part of the reader that finds the values of expressions."""

    def evaluate(self: Any, node: ast.expr, scope: Scope) -> Any:
        """The value of an expression."""
        self.steps += 1
        method = getattr(self, "evaluate_" + type(node).__name__, None)
        if method is None:
            raise Break(f"an expression of the kind {type(node).__name__}")
        return method(node, scope)

    def evaluate_Constant(self: Any, node: Any, scope: Scope) -> Any:
        return node.value

    def evaluate_Name(self: Any, node: Any, scope: Scope) -> Any:
        return self.load(node.id, scope)

    def load(self: Any, name: str, scope: Scope) -> Any:
        """The value of a name."""
        return lookup(self, scope, name)

    def evaluate_Attribute(self: Any, node: Any, scope: Scope) -> Any:
        return self.attribute(self.evaluate(node.value, scope), node.attr)

    def evaluate_Subscript(self: Any, node: Any, scope: Scope) -> Any:
        owner = self.evaluate(node.value, scope)
        return self.item(owner, self.evaluate(node.slice, scope))

    def evaluate_Slice(self: Any, node: Any, scope: Scope) -> Any:
        parts = (node.lower, node.upper, node.step)
        return slice(*(None if p is None else self.evaluate(p, scope) for p in parts))

    def evaluate_NamedExpr(self: Any, node: Any, scope: Scope) -> Any:
        value = self.evaluate(node.value, scope)
        assign(scope.function_scope(), node.target.id, value)
        return value

    # -- structures ------------------------------------------------------------------------------
    def _items(self, nodes, scope):
        found = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                found.extend(self.iterate(self.evaluate(node.value, scope)))
            else:
                found.append(self.evaluate(node, scope))
        return found

    def evaluate_Tuple(self: Any, node: Any, scope: Scope) -> Any:
        return tuple(self._items(node.elts, scope))

    def evaluate_List(self: Any, node: Any, scope: Scope) -> Any:
        return self._items(node.elts, scope)

    def evaluate_Set(self: Any, node: Any, scope: Scope) -> Any:
        return set(self._items(node.elts, scope))

    def evaluate_Dict(self: Any, node: Any, scope: Scope) -> Any:
        made: dict = {}
        for key, value in zip(node.keys, node.values):
            if key is None:
                made.update(self.mapping(self.evaluate(value, scope)))
            else:
                at = self.evaluate(key, scope)
                made[at] = self.evaluate(value, scope)
        return made

    # -- operators -------------------------------------------------------------------------------
    def evaluate_BinOp(self: Any, node: Any, scope: Scope) -> Any:
        left = self.evaluate(node.left, scope)
        return self.binary(BINARY[type(node.op)], left, self.evaluate(node.right, scope))

    def binary(self: Any, apply: Any, left: Any, right: Any) -> Any:
        """An operator between two values."""
        if isinstance(left, TensorValue) or isinstance(right, TensorValue):
            return self.tensor_operator(apply, left, right)
        left, right = self.opened(left), self.opened(right)
        if apply.__name__[0] == "i" and self.origin(left) is not None:
            raise Break("a list from outside is changed")
        return self.native(apply, left, right)

    def evaluate_UnaryOp(self: Any, node: Any, scope: Scope) -> Any:
        value = self.evaluate(node.operand, scope)
        if isinstance(node.op, ast.Not):
            return not self.truth(value)
        if isinstance(value, TensorValue):
            return self.record_function(UNARY[type(node.op)], (value,), {})
        return self.native(UNARY[type(node.op)], value)

    def evaluate_BoolOp(self: Any, node: Any, scope: Scope) -> Any:
        wanted = isinstance(node.op, ast.Or)
        for part in node.values[:-1]:
            value = self.evaluate(part, scope)
            if self.truth(value) is wanted:
                return value
        return self.evaluate(node.values[-1], scope)

    def evaluate_IfExp(self: Any, node: Any, scope: Scope) -> Any:
        test = self.truth(self.evaluate(node.test, scope))
        return self.evaluate(node.body if test else node.orelse, scope)

    def evaluate_Compare(self: Any, node: Any, scope: Scope) -> Any:
        left = self.evaluate(node.left, scope)
        for k, (op, right_node) in enumerate(zip(node.ops, node.comparators)):
            right = self.evaluate(right_node, scope)
            value = self.compare(op, left, right)
            if k == len(node.ops) - 1 or not self.truth(value):
                return value
            left = right
        return value

    def compare(self: Any, op: ast.cmpop, left: Any, right: Any) -> Any:
        """One comparison."""
        if isinstance(op, (ast.Is, ast.IsNot)):
            return self.is_same(left, right) is isinstance(op, ast.Is)
        if isinstance(op, (ast.In, ast.NotIn)):
            return self.contains(right, left) is isinstance(op, ast.In)
        apply = COMPARING[type(op)]
        if isinstance(left, TensorValue) or isinstance(right, TensorValue):
            return self.tensor_operator(apply, left, right)
        return self.native(apply, self.opened(left), self.opened(right))

    def is_same(self: Any, left: Any, right: Any) -> bool:
        """left is right."""
        if isinstance(left, Outside) and isinstance(right, Outside):
            same = left.obj is right.obj
            word = "is" if same else "is not"
            variable = self.guards.variable
            self.guards.require(f"{variable(left.source)} {word} {variable(right.source)}")
            return same
        if isinstance(left, TensorValue) and isinstance(right, TensorValue):
            return left is right  # inputs that are one object are one value, which is guarded
        if isinstance(left, NumberValue) or isinstance(right, NumberValue):
            if left is None or right is None:
                return False
            raise Break("`is` between numbers")
        if isinstance(left, Symbolic) or isinstance(right, Symbolic):
            for value in (left, right):
                if isinstance(value, Symbolic) and not isinstance(
                    value, (Outside, TensorValue, MadeObject)
                ):
                    raise Break(f"`is` of {value.describe()}")
            return left is right
        for value in (left, right):
            if value is not None and type(value) in (int, float, str, bytes, complex, tuple):
                if left is None or right is None:
                    return False
                if not isinstance(left, bool) and not isinstance(right, bool):
                    raise Break("`is` between numbers, texts or tuples")
        return left is right

    def contains(self: Any, container: Any, item: Any) -> bool:
        """item in container."""
        container = self.opened(container)
        if isinstance(item, NumberValue):
            item = self.settle(item)
        if isinstance(container, Outside) and isinstance(container.obj, dict):
            if type(item) not in (str, int):
                raise Break("`in` a dictionary from outside")
            found = item in container.obj
            word = "in" if found else "not in"
            self.guards.require(f"{item!r} {word} {self.guards.variable(container.source)}")
            return found
        if isinstance(container, (Outside, MadeObject)):
            return self.truth(self.call_special(container, "__contains__", item))
        if isinstance(container, Symbolic):
            raise Break(f"`in` {container.describe()}")
        if isinstance(item, Symbolic) and not isinstance(container, dict):
            return self._found(container, item)
        return self.native(operator.contains, container, item)

    def _found(self, container, item):
        """Is something symbolic in a list? Only if that follows from identity."""
        if any(found is item for found in container):
            return True
        if any(isinstance(found, Symbolic) or found == item for found in container):
            raise Break("`in` that compares tensors or objects")
        return False

    # -- comprehensions --------------------------------------------------------------------------
    def _each(self: Any, node: Any, scope: Scope) -> Iterator[Comprehension]:
        """The scopes in which the element of a comprehension is found."""
        from flambeau._dynamo.programs import bound_in

        targets: set[str] = set()
        for generator in node.generators:
            if generator.is_async:
                raise Break("an asynchronous comprehension")
            targets |= bound_in([generator.target])
        first = self.iterate(self.evaluate(node.generators[0].iter, scope))
        inside = Comprehension(scope, targets)
        return self._loops(node.generators, 0, first, inside)

    def _loops(self, generators, k, items, scope):
        generator = generators[k]
        for item in items:
            self.assign(generator.target, item, scope)
            if not all(self.truth(self.evaluate(test, scope)) for test in generator.ifs):
                continue
            if k + 1 == len(generators):
                yield scope
            else:
                rest = self.iterate(self.evaluate(generators[k + 1].iter, scope))
                yield from self._loops(generators, k + 1, rest, scope)

    def evaluate_ListComp(self: Any, node: Any, scope: Scope) -> Any:
        return [self.evaluate(node.elt, inside) for inside in self._each(node, scope)]

    def evaluate_SetComp(self: Any, node: Any, scope: Scope) -> Any:
        return {self.evaluate(node.elt, inside) for inside in self._each(node, scope)}

    def evaluate_GeneratorExp(self: Any, node: Any, scope: Scope) -> Any:
        each = self._each(node, scope)  # the first iterable is looked at now, the rest later
        return (self.evaluate(node.elt, inside) for inside in each)

    def evaluate_DictComp(self: Any, node: Any, scope: Scope) -> Any:
        made = {}
        for inside in self._each(node, scope):
            key = self.evaluate(node.key, inside)
            made[key] = self.evaluate(node.value, inside)
        return made

    def evaluate_Yield(self: Any, node: Any, scope: Scope) -> None:
        if scope.met is None:
            raise Break("a generator that runs on its own")
        scope.met(None if node.value is None else self.evaluate(node.value, scope))

    def evaluate_YieldFrom(self: Any, node: Any, scope: Scope) -> Any:
        items = self.evaluate(node.value, scope)
        if scope.met is None:
            raise Break("a generator that runs on its own")
        if isinstance(items, MadeGenerator):
            return items.run(scope.met)
        for item in self.iterate(items):
            scope.met(item)
        return None

    # -- calls and texts -------------------------------------------------------------------------
    def evaluate_Lambda(self: Any, node: Any, scope: Scope) -> Any:
        return self.made_function(node, scope)

    def evaluate_Call(self: Any, node: Any, scope: Scope) -> Any:
        function = self.evaluate(node.func, scope)
        if function is super and not node.args:
            return self.plain_super(scope)
        args = self._items(node.args, scope)
        kwargs: dict = {}
        for keyword in node.keywords:
            value = self.evaluate(keyword.value, scope)
            if keyword.arg is not None:
                kwargs[keyword.arg] = value
                continue
            for name, given in self.mapping(value).items():
                if name in kwargs or not isinstance(name, str):
                    raise Break("a call with two values for one argument")
                kwargs[name] = given
        scope.line = node.lineno
        return self.call(function, tuple(args), kwargs)

    def evaluate_JoinedStr(self: Any, node: Any, scope: Scope) -> Any:
        return "".join([self.evaluate(part, scope) for part in node.values])

    def evaluate_FormattedValue(self: Any, node: Any, scope: Scope) -> Any:
        value = self.evaluate(node.value, scope)
        if isinstance(value, NumberValue):
            value = self.settle(value)
        if holds_symbols(value) or not self.is_plain(value):
            raise Break("the text of a tensor or an object")
        if node.conversion != -1:
            value = _CONVERSIONS[chr(node.conversion)](value)
        form = "" if node.format_spec is None else self.evaluate(node.format_spec, scope)
        return format(value, form)

    def truth(self: Any, value: Any) -> bool:
        """bool(value)."""
        if isinstance(value, TensorValue):
            raise Break("a branch that depends on the values of a tensor")
        value = self.opened(value)
        if isinstance(value, NumberValue):
            return bool(value)
        if isinstance(value, Outside) and isinstance(value.obj, (dict, set)):
            found = bool(value.obj)
            word = "" if found else "not "
            self.guards.require(f"{word}{self.guards.variable(value.source)}")
            return found
        if isinstance(value, (Outside, MadeObject)):
            cls = type(value.obj) if isinstance(value, Outside) else value.cls
            if not hasattr(cls, "__bool__") and not hasattr(cls, "__len__"):
                return True
            if not hasattr(cls, "__bool__"):
                return self.call_special(value, "__len__") != 0
            raise Break(f"bool() of {value.describe()}")
        if isinstance(value, (Symbolic, Partial)):
            return True  # functions and methods
        if not self.is_plain(value, deep=False):
            raise Break(f"bool() of an object of {type(value)}")
        return bool(value)
