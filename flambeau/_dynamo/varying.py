"""Numbers that differ from call to call: sizes of inputs, ints and floats among arguments.

A program may count with them: each result is a node of the graph, so that it is counted again when
the graph runs. Where the program decides something by one (a branch, the length of a loop, a text)
the answer is written down, and with it everything that ops said of shapes while they were read.
What was read holds for other sizes if a run without memory gives the same answers (shape_runs.py).
"""

import math
import operator
from typing import Any, NamedTuple

from flambeau._dynamo.exc import Break
from flambeau._dynamo.values import Symbolic, TensorValue
from flambeau._layout import Size

_NUMBERS = (int, float)


class Step(NamedTuple):
    """Something that was computed or asked while reading, and what was seen of the answer."""

    node: Any  # that has the value from then on; None for a question
    function: Any
    args: tuple
    kwargs: dict
    seen: Any


class NumberValue(Symbolic):
    """A number that may be another in the next call; `hint` is what it is in this one."""

    __slots__ = ("_node", "hint", "place", "reader", "source")
    is_symbolic_int = True  # may be an item of a Size

    def __init__(self, reader: Any, hint: Any, node: Any = None, place: Any = None) -> None:
        self.reader, self.hint, self._node = reader, hint, node
        self.place = place  # (tensor, dimension) of a size
        self.source: Any = None  # where it comes from, if from outside

    @property
    def node(self) -> Any:
        """Its node, which sizes get when they are first used."""
        if self._node is None:
            owner, dim = self.place
            call = ("numel", ()) if dim is None else ("size", (dim,))
            self._node = self.reader.number_node(owner, *call)
        return self._node

    def describe(self) -> str:
        return "a number that varies"

    def _settled(self) -> Any:
        return self.reader.settle(self)

    def __bool__(self) -> bool:
        return self.reader.decide(bool, self)

    def __index__(self) -> int:
        return operator.index(self._settled())

    def __int__(self) -> int:
        return int(self._settled())

    def __float__(self) -> float:
        return float(self._settled())

    def __hash__(self) -> int:
        return hash(self._settled())

    def __str__(self) -> str:
        return str(self._settled())

    def __repr__(self) -> str:
        return repr(self._settled())

    def __format__(self, form: str) -> str:
        return format(self._settled(), form)


def _is_number(value):
    return isinstance(value, NumberValue) or type(value) in (int, float, bool)


def _counting(function, swapped):
    def count(self, other):
        if not _is_number(other):
            if isinstance(other, (list, tuple, str)) and function is operator.mul:
                return other * self._settled()
            return NotImplemented
        return self.reader.count_with(function, *((other, self) if swapped else (self, other)))

    return count


def _deciding(function):
    def decide(self, other):
        return self.reader.decide(function, self, other) if _is_number(other) else NotImplemented

    return decide


def _alone(function):
    return lambda self, *more: self.reader.count_with(function, self, *more)


for _name in "add sub mul floordiv truediv mod pow".split():
    setattr(NumberValue, f"__{_name}__", _counting(getattr(operator, _name), False))
    setattr(NumberValue, f"__r{_name}__", _counting(getattr(operator, _name), True))
for _name in "eq ne lt le gt ge".split():
    setattr(NumberValue, f"__{_name}__", _deciding(getattr(operator, _name)))
for _name, _function in {
    "neg": operator.neg, "pos": operator.pos, "abs": abs, "round": round, "floor": math.floor,
    "ceil": math.ceil, "trunc": math.trunc,
}.items():  # fmt: skip
    setattr(NumberValue, f"__{_name}__", _alone(_function))


class Varying:
    """The part of the reader that counts."""

    # -- inputs ----------------------------------------------------------------------------------
    def number_input(self: Any, value: Any, source: tuple) -> NumberValue:
        """A number from outside that varies: an input of the graph."""
        found = self.numbers.get(source)
        if found is None:
            self.guards.same_type(source, value)
            node = self._placeholder(self.name_of(source))
            found = self.numbers[source] = NumberValue(self, value, node)
            found.source = source
            node.meta["example_value"] = value
        return found

    def size_of(self: Any, owner: TensorValue, dim: int) -> Any:
        """One size of a tensor that varies."""
        hint = owner.fake.shape[dim]
        if owner.moving is not None and dim not in owner.moving:
            return hint  # of an input, guarded
        found = owner.sizes.get(dim)
        if found is None:
            found = owner.sizes[dim] = NumberValue(self, hint, None, (owner, dim))
        return found

    def shape_of(self: Any, owner: TensorValue) -> Size:
        """All sizes of a tensor."""
        return Size([self.size_of(owner, dim) for dim in range(owner.fake.dim())])

    def number_of(self: Any, owner: TensorValue) -> NumberValue:
        """How many elements a tensor has."""
        found = owner.sizes.get(None)
        if found is None:
            found = owner.sizes[None] = NumberValue(self, owner.fake.numel(), None, (owner, None))
        return found

    def number_node(self: Any, owner: TensorValue, name: str, args: tuple) -> Any:
        """A node for a size."""
        node = self.added(self.graph.call_method(name, (owner.node, *args)))
        self.log.append(Step(node, _asked, (owner.node, name, args), {}, int))
        return node

    def plain_number(self: Any, value: Any) -> Any:
        """A number that does not vary from here on; other values as they are."""
        return self.settle(value) if isinstance(value, NumberValue) else value

    # -- counting --------------------------------------------------------------------------------
    def count_with(self: Any, function: Any, *given: Any) -> Any:
        """Arithmetic with numbers that vary."""
        hints = [v.hint if isinstance(v, NumberValue) else v for v in given]
        try:
            hint = function(*hints)
        except (ArithmeticError, ValueError, TypeError) as error:
            raise Break(f"{type(error).__name__}: {error}", error) from error
        if type(hint) not in _NUMBERS:
            raise Break(f"{type(hint).__name__} of numbers that vary")
        args = tuple(v.node if isinstance(v, NumberValue) else v for v in given)
        node = self.added(self.graph.call_function(function, args))
        self.log.append(Step(node, function, args, {}, type(hint)))
        return NumberValue(self, hint, node)

    def decide(self: Any, function: Any, *given: Any) -> bool:
        """A question whose answer the program goes by."""
        answer = function(*[v.hint if isinstance(v, NumberValue) else v for v in given])
        args = tuple(v.node if isinstance(v, NumberValue) else v for v in given)
        self.log.append(Step(None, function, args, {}, answer))
        return answer

    def settle(self: Any, number: NumberValue) -> Any:
        """What a number is; it may be no other from then on."""
        if number.hint != number.hint:
            raise Break("a number that is not one")
        self.decide(operator.eq, number, number.hint)
        return number.hint

    def asked(self: Any, owner: TensorValue, name: str, args: tuple, kwargs: dict) -> Any:
        """Another question about a tensor; the answer must stay."""
        answer = getattr(owner.fake, name)(*args, **kwargs)
        if owner.varies:
            self.log.append(Step(None, _asked, (owner.node, name, args), kwargs, answer))
        return answer


def _asked(tensor, name, args, **kwargs):
    return getattr(tensor, name)(*args, **kwargs)


def seen_of(result: Any, owners: Any) -> Any:
    """What of a result must be the same for other sizes: all but sizes.

    owners(tensor): the node whose value it was before, if an op gives back what it was given.
    """
    if isinstance(result, (tuple, list)) and not isinstance(result, Size):
        return type(result), *[seen_of(item, owners) for item in result]
    if result is None:
        return None
    if not hasattr(result, "_layout"):
        return type(result)
    return owners(result), result.dim(), result.dtype, result._requires_grad
