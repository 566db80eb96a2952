"""What is cheap is computed again on the way back, in place of being kept."""

import math
from typing import Any

from flambeau.compiler.expressions import exchanged
from flambeau.compiler.fusing import COST, Group, Operand, is_flat, spread
from flambeau.compiler.plan import Plan


class Again:
    """Values of a first plan that a second one computes once more in place of loading them.

    A block may go if one group of the first plan wrote it, if only groups of the second plan read
    it, and if its value follows from what will be there: memory that stays as it was, or other
    results of its group that are kept. So of a chain the first link is kept, if its beginning is
    not, and the others are computed from it.
    """

    def __init__(self, first: Plan, second: Plan, may_go: Any, stays: Any) -> None:
        """may_go(block): may it be missing after the first plan? stays(block): will it be there?"""
        self.origins: dict = {}  # flat operand -> (known values of its group, expression)
        self.gone: set = set()
        self.stays = stays
        once, self.last = first.written_once(), first.last_writes()
        fixed, loads = second.needed()
        for place, entry in enumerate(first.order):
            if type(entry) is not Group or len(entry.sizes) != 1:
                continue
            known = _Known(entry, place)
            for o, block in entry.written.items():
                if block not in once:
                    continue
                expression = known.state[o]
                candidate = may_go(block) and block not in fixed
                alike = all(self._flat(x, sizes) == o for x, sizes in loads.get(block, ()))
                if candidate and alike and self._follows(known, expression):
                    self.origins[o] = known, expression
                    self.gone.add(block)
                elif stays(block):
                    known.kept[id(expression)] = o

    def _follows(self, known, expression):
        """Can a value be computed from what is kept and what stays, at a reasonable cost?"""
        seen, stack = set(), [expression]
        while stack:
            e = stack.pop()
            if id(e) in seen or id(e) in known.kept:
                continue
            seen.add(id(e))
            if e.op == "argument":
                load = known.loads.get(id(e))
                if load is not None and not self._is_there(load.operand, known):
                    return False
            stack.extend(e.args)
        return len(seen) <= COST

    def _is_there(self, o, known):
        if o in self.origins:
            return True  # it can be computed in turn
        block = known.group.operands[o]
        return self.stays(block) and self.last.get(block, -1) < known.place

    def _flat(self, o, sizes):
        return spread(o, sizes, (math.prod(sizes),)) if is_flat(o, sizes) else None

    def has(self, o: Operand, sizes: tuple) -> bool:
        return self._flat(o, sizes) in self.origins

    def value(self, o: Operand, sizes: tuple, value_of: Any, numbers: Any, memo: dict) -> Any:
        """The value of an operand from that of others; None if it is there to be loaded.

        numbers: `Numbers` of the kernel; memo: what it computes again already.
        """
        found = self.origins.get(self._flat(o, sizes))
        if found is None:
            return None
        known, expression = found

        def leaf(e):
            operand = known.kept.get(id(e))
            load = known.loads.get(id(e))
            if operand is None and load is not None:
                operand = load.operand
            if operand is not None:
                return value_of(spread(operand, known.group.sizes, sizes))
            if e.op == "argument":
                return numbers.value(*known.numbers[id(e)])
            return None

        return exchanged(expression, memo.setdefault(id(known), {}), leaf)


class _Known:
    """What a group computes: expressions of its results, its loads and numbers by identity."""

    def __init__(self, group, place):
        self.group, self.place = group, place
        self.state, loads, numbers = group.values()
        self.loads = {id(load.expression): load for load in loads}
        self.numbers = {id(e): (kind, number) for kind, number, e in numbers}
        self.kept: dict = {}  # identity of an expression -> the operand that holds its value
