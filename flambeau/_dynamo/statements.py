"""Reading statements."""

import ast
import contextlib
import importlib
import operator
import sys
import types
from typing import Any

from flambeau._dynamo import config
from flambeau._dynamo.exc import Break
from flambeau._dynamo.programs import names_of
from flambeau._dynamo.scopes import Scope, assign
from flambeau._dynamo.values import (
    AutocastValue,
    GradSwitch,
    MadeFunction,
    MadeGenerator,
    MadeObject,
    NullContext,
    Outside,
    TensorValue,
)

INPLACE = {
    ast.Add: operator.iadd, ast.Sub: operator.isub, ast.Mult: operator.imul,
    ast.Div: operator.itruediv, ast.FloorDiv: operator.ifloordiv, ast.Mod: operator.imod,
    ast.Pow: operator.ipow, ast.MatMult: operator.imatmul, ast.BitAnd: operator.iand,
    ast.BitOr: operator.ior, ast.BitXor: operator.ixor, ast.LShift: operator.ilshift,
    ast.RShift: operator.irshift,
}  # fmt: skip


class Returned(Exception):
    """A return statement was read."""

    def __init__(self, value: Any) -> None:
        self.value = value


class LoopBreak(Exception):
    """A break statement was read."""


class LoopContinue(Exception):
    """A continue statement was read."""


class Abandoned(Exception):
    """A loop over a generator is left: by a return or a break."""

    def __init__(self, leaving: Exception) -> None:
        self.leaving = leaving


LEAVING = (Returned, LoopBreak, LoopContinue)


class Statements:
    """The part of the reader that follows statements."""

    def execute_all(self: Any, statements: list[ast.stmt], scope: Scope) -> None:
        """Statements one after the other."""
        for statement in statements:
            self.execute(statement, scope)

    def execute(self: Any, statement: ast.stmt, scope: Scope) -> None:
        """One statement. Whatever goes wrong in it is a break."""
        scope.line = statement.lineno
        self.steps += 1
        if self.steps > config.reading_limit:
            raise Break("the program is too long to be unrolled")
        method = getattr(self, "execute_" + type(statement).__name__, None)
        if method is None:
            raise Break(f"a statement of the kind {type(statement).__name__}")
        method(statement, scope)

    def execute_Expr(self: Any, node: Any, scope: Scope) -> None:
        self.evaluate(node.value, scope)

    def execute_Pass(self: Any, node: Any, scope: Scope) -> None:
        pass

    def execute_Global(self: Any, node: Any, scope: Scope) -> None:
        pass

    def execute_Nonlocal(self: Any, node: Any, scope: Scope) -> None:
        pass

    def execute_Return(self: Any, node: Any, scope: Scope) -> None:
        raise Returned(None if node.value is None else self.evaluate(node.value, scope))

    def execute_Break(self: Any, node: Any, scope: Scope) -> None:
        raise LoopBreak

    def execute_Continue(self: Any, node: Any, scope: Scope) -> None:
        raise LoopContinue

    def execute_Raise(self: Any, node: Any, scope: Scope) -> None:
        raise Break("an exception is raised")

    def execute_Assert(self: Any, node: Any, scope: Scope) -> None:
        if __debug__ and not self.truth(self.evaluate(node.test, scope)):
            raise Break("an assertion does not hold")

    # -- binding ---------------------------------------------------------------------------------
    def execute_Assign(self: Any, node: Any, scope: Scope) -> None:
        value = self.evaluate(node.value, scope)
        for target in node.targets:
            self.assign(target, value, scope)

    def execute_AnnAssign(self: Any, node: Any, scope: Scope) -> None:
        if node.value is not None:
            self.assign(node.target, self.evaluate(node.value, scope), scope)

    def execute_AugAssign(self: Any, node: Any, scope: Scope) -> None:
        target, apply = node.target, INPLACE[type(node.op)]
        if isinstance(target, ast.Name):
            old = self.load(target.id, scope)
            assign(scope, target.id, self.binary(apply, old, self.evaluate(node.value, scope)))
        elif isinstance(target, ast.Attribute):
            owner = self.evaluate(target.value, scope)
            old = self.attribute(owner, target.attr)
            new = self.binary(apply, old, self.evaluate(node.value, scope))
            self.set_attribute(owner, target.attr, new)
        else:
            owner = self.evaluate(target.value, scope)
            key = self.evaluate(target.slice, scope)
            old = self.item(owner, key)
            self.set_item(owner, key, self.binary(apply, old, self.evaluate(node.value, scope)))

    def assign(self: Any, target: Any, value: Any, scope: Scope) -> None:
        """Bind a name, a part of something, or several of these."""
        if isinstance(target, ast.Name):
            assign(scope, target.id, value)
        elif isinstance(target, (ast.Tuple, ast.List)):
            self._unpack(target.elts, value, scope)
        elif isinstance(target, ast.Attribute):
            self.set_attribute(self.evaluate(target.value, scope), target.attr, value)
        elif isinstance(target, ast.Subscript):
            owner = self.evaluate(target.value, scope)
            self.set_item(owner, self.evaluate(target.slice, scope), value)
        else:
            raise Break("an unusual target of an assignment")

    def _unpack(self, targets, value, scope):
        items = list(self.iterate(value))
        starred = [k for k, t in enumerate(targets) if isinstance(t, ast.Starred)]
        if not starred:
            if len(items) != len(targets):
                raise Break("a wrong number of values to unpack")
            for target, item in zip(targets, items):
                self.assign(target, item, scope)
            return
        before, after = starred[0], len(targets) - starred[0] - 1
        if len(items) < before + after:
            raise Break("too few values to unpack")
        middle = items[before : len(items) - after]
        for target, item in zip(targets[:before], items[:before]):
            self.assign(target, item, scope)
        self.assign(targets[before].value, middle, scope)
        for target, item in zip(targets[before + 1 :], items[len(items) - after :]):
            self.assign(target, item, scope)

    def execute_Delete(self: Any, node: Any, scope: Scope) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name) and target.id in scope.variables:
                del scope.variables[target.id]
            elif isinstance(target, ast.Subscript):
                owner = self.evaluate(target.value, scope)
                key = self.evaluate(target.slice, scope)
                if type(owner) not in (list, dict) or self.origin(owner) is not None:
                    raise Break("del of an item")
                del owner[key]
            elif isinstance(target, ast.Attribute):
                owner = self.evaluate(target.value, scope)
                if not isinstance(owner, MadeObject) or target.attr not in owner.fields:
                    raise Break("del of an attribute")
                cls: Any = owner.cls
                if cls.__delattr__ is not object.__delattr__:
                    raise Break(f"{owner.describe()} has its own way to lose attributes")
                del owner.fields[target.attr]
            else:
                raise Break("del")

    def execute_FunctionDef(self: Any, node: Any, scope: Scope) -> None:
        decorators = [self.evaluate(d, scope) for d in node.decorator_list]
        made = self.made_function(node, scope)
        for decorator in reversed(decorators):
            made = self.call(decorator, (made,), {})
        assign(scope, node.name, made)

    def made_function(self: Any, node: Any, scope: Scope) -> MadeFunction:
        """A function that the program makes."""
        defaults = [self.evaluate(d, scope) for d in node.args.defaults]
        kwdefaults = {
            a.arg: self.evaluate(d, scope)
            for a, d in zip(node.args.kwonlyargs, node.args.kw_defaults)
            if d is not None
        }
        return MadeFunction(self, node, scope, defaults, kwdefaults)

    def execute_Import(self: Any, node: Any, scope: Scope) -> None:
        for alias in node.names:
            if alias.name not in sys.modules:
                raise Break(f"{alias.name} is imported")
            whole = importlib.import_module(alias.name)
            first = sys.modules[alias.name.partition(".")[0]]
            assign(scope, alias.asname or first.__name__, whole if alias.asname else first)

    def execute_ImportFrom(self: Any, node: Any, scope: Scope) -> None:
        if node.level or node.module not in sys.modules:
            raise Break(f"{node.module} is imported")
        module = sys.modules[node.module]
        for alias in node.names:
            if alias.name == "*":
                raise Break("import *")
            assign(scope, alias.asname or alias.name, self.attribute(module, alias.name))

    # -- compound --------------------------------------------------------------------------------
    def execute_If(self: Any, node: Any, scope: Scope) -> None:
        test = self.truth(self.evaluate(node.test, scope))
        self.execute_all(node.body if test else node.orelse, scope)

    def execute_For(self: Any, node: Any, scope: Scope) -> None:
        items = self.evaluate(node.iter, scope)
        if isinstance(items, MadeGenerator):
            self._for_generator(items, node, scope)
            return
        for item in self.iterate(items):
            self.assign(node.target, item, scope)
            try:
                self.execute_all(node.body, scope)
            except LoopContinue:
                continue
            except LoopBreak:
                return
        self.execute_all(node.orelse, scope)

    def _for_generator(self, items, node, scope):
        """The loop's statements run where the generator yields."""

        def met(value):
            self.assign(node.target, value, scope)
            try:
                self.execute_all(node.body, scope)
            except LoopContinue:
                return
            except (LoopBreak, Returned) as leaving:
                raise Abandoned(leaving) from None

        try:
            items.run(met)
        except Abandoned as found:
            if isinstance(found.leaving, Returned):
                raise found.leaving from None
            return
        self.execute_all(node.orelse, scope)

    def execute_While(self: Any, node: Any, scope: Scope) -> None:
        while self.truth(self.evaluate(node.test, scope)):
            try:
                self.execute_all(node.body, scope)
            except LoopContinue:
                continue
            except LoopBreak:
                return
        self.execute_all(node.orelse, scope)

    def execute_With(self: Any, node: Any, scope: Scope) -> None:
        self._within(node.items, node.body, scope)

    def _within(self, items, body, scope):
        """Statements inside of context managers."""
        if not items:
            self.execute_all(body, scope)
            return
        item, rest = items[0], items[1:]
        manager = self.opened_autocast(self.evaluate(item.context_expr, scope))

        def inside(result=None):
            if item.optional_vars is not None:
                self.assign(item.optional_vars, result, scope)
            self._within(rest, body, scope)

        if isinstance(manager, Outside) and type(manager.obj) is contextlib.nullcontext:
            inside(self.attribute(manager, "enter_result"))
        elif isinstance(manager, NullContext):
            inside(manager.result)
        elif isinstance(manager, AutocastValue):
            entered = self.enter_autocast(manager.settings)
            try:
                inside()
            finally:  # after a break nothing of this is used
                self.exit_autocast(entered)
        elif isinstance(manager, GradSwitch):
            mode = self.enter_grad(manager)
            try:
                inside()
            finally:
                self.set_grad(mode)
        elif isinstance(manager, MadeGenerator) and manager.is_manager:
            self._within_generator(manager, inside)
        elif isinstance(manager, (Outside, MadeObject)) and _is_manager(manager):
            entered = self.call_special(manager, "__enter__")
            leave = lambda: self.call_special(manager, "__exit__", None, None, None)
            self._finally(lambda: inside(entered), leave)
        else:
            raise Break(f"with {_described(manager)}")

    def _within_generator(self, manager, inside):
        """The statements run where a function of contextlib.contextmanager yields."""
        held: list[Exception] = []
        count = 0

        def met(value):
            nonlocal count
            count += 1
            try:
                inside(value)
            except LEAVING as leaving:  # a return or so, which goes on behind the manager
                held.append(leaving)

        manager.run(met)
        if count != 1:
            raise Break("a context manager that does not yield once")
        if held:
            raise held[0]

    def _finally(self, run, after):
        """Statements, and others that come after them however they are left.

        An op may also fail when the graph runs; what comes after must then leave no traces.
        """
        leaving = None
        try:
            run()
        except LEAVING as found:
            leaving = found
        except Abandoned:
            raise Break("a generator that is left in the middle") from None
        wrote, self.writes = self.writes, False
        after()
        if self.writes:
            raise Break("writes on the way out of `with` or `try`")
        self.writes = wrote
        if leaving is not None:
            raise leaving

    def execute_Try(self: Any, node: Any, scope: Scope) -> None:
        if not node.handlers:
            rest = lambda: self.execute_all(node.finalbody, scope)
            self._finally(lambda: self.execute_all([*node.body, *node.orelse], scope), rest)
            return
        # an op may fail when the graph runs, which a handler would have to see
        before = self.count
        try:
            self.execute_all(node.body, scope)
            self.execute_all(node.orelse, scope)
        finally:  # also on the way out of a function or a loop
            if self.count != before or (node.finalbody and sys.exc_info()[0] is not None):
                raise Break("try around ops")
        self.execute_all(node.finalbody, scope)

    # -- functions -------------------------------------------------------------------------------
    def run_body(self: Any, body: list[ast.stmt], scope: Scope) -> Any:
        """A function's body; what it returns."""
        try:
            self.execute_all(body, scope)
        except Returned as result:
            return result.value
        return None

    def call_made(self: Any, function: MadeFunction, args: tuple, kwargs: dict) -> Any:
        """A call of a function that the program made."""
        from flambeau._dynamo.programs import own_nodes
        from flambeau._dynamo.scopes import bind

        node, outer = function.node, function.scope
        kinds = {type(n) for n in own_nodes(node)}
        if not kinds.isdisjoint((ast.Await, ast.AsyncFor, ast.AsyncWith)):
            raise Break("an asynchronous function is called")
        scope = Scope(names_of(node), outer.filename, outer.fn, outer.source, outer)
        scope.variables = bind(node.args, function.defaults, function.kwdefaults, args, kwargs)
        if not kinds.isdisjoint((ast.Yield, ast.YieldFrom)):
            return MadeGenerator(self, scope, function.name, node.body)
        with self.deeper(scope, function.name):
            if isinstance(node, ast.Lambda):
                scope.line = node.lineno
                return self.evaluate(node.body, scope)
            return self.run_body(node.body, scope)


def _is_manager(manager):
    """An object whose class says in Python how a `with` begins and ends."""
    cls: Any = type(manager.obj) if isinstance(manager, Outside) else manager.cls
    names = ("__enter__", "__exit__")
    return all(isinstance(getattr(cls, name, None), types.FunctionType) for name in names)


def _described(value):
    if isinstance(value, (Outside, MadeObject, TensorValue)):
        return value.describe()
    return type(value).__name__
