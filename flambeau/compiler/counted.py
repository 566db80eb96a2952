"""Graphs with numbers among their inputs: a program of tapes for each set of numbers."""

from collections import OrderedDict
from typing import Any

from flambeau import fx
from flambeau.compiler.program import Program, holds_ops_only

PROGRAMS = 64  # sets of numbers that are remembered


class Counted:
    """A graph as a function of tensors and numbers. Launches depend on numbers, so tapes do."""

    def __init__(self, gm: fx.GraphModule, inputs: Any) -> None:
        self.run, self.silent = gm.forward, holds_ops_only(gm)
        self.numbers = [k for k, v in enumerate(inputs) if type(v) in (int, float)]
        self.programs: OrderedDict = OrderedDict()

    def __call__(self, *inputs: Any) -> Any:
        numbers = tuple([inputs[k] for k in self.numbers])
        program = self.programs.get(numbers)
        if program is None:
            program = self._new(numbers, len(inputs) - len(numbers))
        return program(*[x for k, x in enumerate(inputs) if k not in self.numbers])

    def _new(self, numbers, count):
        if len(self.programs) >= PROGRAMS:
            self.programs.popitem(last=False)
        places, run = dict(zip(self.numbers, numbers)), self.run

        def bound(*tensors):
            rest = iter(tensors)
            given = [places[k] if k in places else next(rest) for k in range(count + len(numbers))]
            return run(*given)

        program = self.programs[numbers] = Program(bound, count, self.silent)
        return program
