"""The reader: follows a program without running it, and puts its ops down in a graph.

It walks through the syntax tree of a function with the arguments of a call at hand. Tensors are
values of a graph, everything else is what it is in Python; whatever is read from outside makes a
guard. What cannot be followed is a Break. Reading has no effects: it may be thrown away at any
point. docs/design/014-compile-reading.md has the whole story.
"""

import ast
from typing import Any

from flambeau import _device
from flambeau._dynamo.calls import Calls
from flambeau._dynamo.casting import Casting
from flambeau._dynamo.exc import Break
from flambeau._dynamo.expressions import Expressions
from flambeau._dynamo.guards import GuardWriter
from flambeau._dynamo.objects import Objects
from flambeau._dynamo.programs import Program
from flambeau._dynamo.scopes import Scope
from flambeau._dynamo.shape_runs import Sizes
from flambeau._dynamo.statements import Returned, Statements
from flambeau._dynamo.steps import Steps
from flambeau._dynamo.surroundings import guard_surroundings, reading
from flambeau._dynamo.tensors import META, Tensors
from flambeau._dynamo.values import Outside, TensorValue
from flambeau._dynamo.varying import NumberValue, Step, Varying
from flambeau.autograd.grad_mode import modes
from flambeau.fx.graph import Graph
from flambeau.random import default_generator


class Piece:
    """What reading found: where it ended, and with which values.

    ending: "return" with the value, "break" before a statement, or "test" of a branch. rest: the
    statements that are left, the first of which is the one that could not be read.
    """

    def __init__(self, ending: str, value: Any, rest: list[ast.stmt], scope: Scope) -> None:
        self.ending, self.value, self.rest, self.scope = ending, value, rest, scope


class Reader(Statements, Expressions, Calls, Objects, Tensors, Steps, Varying, Casting):
    """One reading of a function, or of the rest of one, with the arguments of a call."""

    def __init__(self, fn: Any, program: Program, sizes: Sizes | None = None) -> None:
        self.fn, self.program = fn, program
        self.guards = GuardWriter()
        self.graph = Graph()
        self.inputs: list[TensorValue] = []
        self.inputs_by_id: dict[int, TensorValue] = {}
        self.by_fake: dict[int, TensorValue] = {}
        self.outside: dict[tuple, Outside] = {}
        self.opened_by_source: dict[tuple, Any] = {}
        self.origins: dict[int, tuple] = {}
        self.argument_names: dict[tuple, str] = {}
        self.attributes: dict[str, Any] = {}  # objects that the graph holds
        self.exchanged: dict[tuple, TensorValue] = {}  # (module, name): inside of functional_call
        self.held: dict[int, tuple] = {}  # parameters of optimizers, by identity
        self.sizes = sizes or Sizes(False)
        self.numbers: dict[tuple, NumberValue] = {}  # inputs that are numbers, by source
        self.log: list[Step] = []  # what was computed and asked, for runs with other sizes
        self.stack: list = []
        self.first_node: Any = None
        self.steps = self.count = 0
        self.transforms = 0  # how many of torch.func are around what is read
        self.writes = self.switches = self.has_steps = self.casts = False
        self.around: list = []  # autocasts that are on already
        self.is_backward = False  # of an autograd.Function
        self.place: Any = None  # the device of all tensors
        self.written: set[int] = set()
        self.written_kinds: set = set()  # dtypes
        self.reached = 0  # top-level statements that were read
        self.broken: Break | None = None

    def arguments(self, args: tuple, kwargs: dict) -> Scope:
        """The parameters of the function, from the arguments of a call."""
        node, source = self.program.node, ("fn",)
        names = [a.arg for a in (*node.args.posonlyargs, *node.args.args)]
        for k in range(len(args)):
            self.argument_names["arg", k] = names[k] if k < len(names) else "args"
        for name in kwargs:
            self.argument_names["kwarg", name] = name
        self.guards.require(f"len(args) == {len(args)}")
        self.guards.require(f"len(kwargs) == {len(kwargs)}" if kwargs else "not kwargs")
        given = tuple(self.late(a, ("arg", k)) for k, a in enumerate(args))
        named = {k: self.late(v, ("kwarg", k)) for k, v in kwargs.items()}
        scope = Scope(self.program.names, self.program.filename, self.fn, source)
        scope.variables = self.bound(self.program, self.fn, source, given, named)
        return scope

    def variables(self, names: tuple[str, ...], values: tuple) -> Scope:
        """The variables of a function whose first part has run."""
        for k, name in enumerate(names):
            self.argument_names["arg", k] = name
        scope = Scope(self.program.names, self.program.filename, self.fn, ("fn",))
        scope.variables = {
            name: self.late(value, ("arg", k)) for k, (name, value) in enumerate(zip(names, values))
        }
        return scope

    def read(self, start: Any, todo: list[ast.stmt], stop: int | None, test: bool) -> Piece:
        """Read statements, up to the stop-th (or its test); Break if one of them cannot be read."""
        mode = modes.grad
        numbers = default_generator._bytes
        drawn = bytes(numbers)
        with reading(), _device.device(META):
            try:
                guard_surroundings(self.guards)
                self.enter_surroundings()
                return self._read(start(self), list(todo), stop, test)
            except Break:
                raise
            except (RecursionError, MemoryError):
                raise Break("the program is too deeply nested") from None
            finally:
                modes.grad = mode
                if numbers != drawn:
                    numbers[:] = drawn

    def _read(self, scope, todo, stop, test):
        self.stack.append((scope, self.fn.__qualname__))
        while todo:
            statement = todo[0]
            if self.reached == stop and not test:
                return Piece("break", None, todo, scope)
            try:
                if isinstance(statement, ast.If):
                    scope.line = statement.lineno
                    value = self.evaluate(statement.test, scope)
                    if self.reached == stop:
                        return Piece("test", value, todo, scope)
                    if isinstance(value, TensorValue):
                        raise DataBranch
                    chosen = statement.body if self.truth(value) else statement.orelse
                    todo[:1] = chosen
                else:
                    self.execute(statement, scope)
                    del todo[:1]
            except Returned as result:
                return Piece("return", result.value, [], scope)
            except Break as found:
                raise self._told(found, scope) from None
            except Exception as error:  # a fault of ours is no fault of the program
                fault = Break(f"{type(error).__name__} while reading: {error}")
                raise self._told(fault, scope) from error
            self.reached += 1
        return Piece("return", None, [], scope)

    def _told(self, found, scope):
        if found.place is None:
            found.place = (scope.filename, scope.line)
        found.stack.append((scope.filename, scope.line, self.fn.__qualname__))
        return found


class DataBranch(Break):
    """A branch whose test is a tensor; what is before it can be captured, the test included."""

    def __init__(self) -> None:
        super().__init__("a branch that depends on the values of a tensor")
