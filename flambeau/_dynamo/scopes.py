"""Names while a program is read: scopes of functions, and parameters that meet arguments."""

import ast
import builtins
from typing import Any

from flambeau._dynamo.exc import Break
from flambeau._dynamo.programs import Names


class Scope:
    """The variables of one call of a function."""

    def __init__(
        self, names: Names, filename: str, fn: Any, source: tuple, parent: "Scope | None" = None
    ) -> None:
        self.names, self.filename, self.parent = names, filename, parent
        self.fn, self.source = fn, source  # the function from outside that all of it is part of
        self.variables: dict[str, Any] = {}
        self.line = 0
        self.met: Any = None  # what happens where it yields

    def holder(self, name: str) -> "Scope | None":
        """The scope that a name belongs to; None for closures and globals from outside."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names.own:
                return scope
            if name in scope.names.globals:
                return None
            scope = scope.parent
        return None

    def function_scope(self) -> "Scope":
        """Where `:=` in a comprehension binds."""
        scope = self
        while isinstance(scope, Comprehension):
            assert scope.parent is not None
            scope = scope.parent
        return scope


class Comprehension(Scope):
    """The variables of a comprehension."""

    def __init__(self, parent: Scope, targets: set[str]) -> None:
        names = Names()
        names.own = targets
        super().__init__(names, parent.filename, parent.fn, parent.source, parent)
        self.line = parent.line


def lookup(reader: Any, scope: Scope, name: str) -> Any:
    """The value of a name."""
    holder = scope.holder(name)
    if holder is not None:
        try:
            value = holder.variables[name]
        except KeyError:
            raise Break(f"the variable {name} has no value here") from None
        if type(value) is Late:
            value = holder.variables[name] = value.read()
        return value
    fn, guards = scope.fn, reader.guards
    if name in fn.__code__.co_freevars and not _is_global(scope, name):
        place = fn.__code__.co_freevars.index(name)
        try:
            value = fn.__closure__[place].cell_contents
        except ValueError:
            raise Break(f"the variable {name} has no value here") from None
        return reader.wrap(value, ("cell", scope.source, place))
    space = ("attr", scope.source, "__globals__")
    if name in fn.__globals__:
        return reader.wrap(fn.__globals__[name], ("item", space, name))
    guards.lacks(space, name)
    if hasattr(builtins, name):
        value = getattr(builtins, name)
        source = ("item", ("dict", guards.known(builtins)), name)
        return reader.wrap(value, source)
    raise Break(f"the name {name} is not defined")


def _is_global(scope, name):
    found = scope
    while found is not None:
        if name in found.names.globals:
            return True
        found = found.parent
    return False


def assign(scope: Scope, name: str, value: Any) -> None:
    """Bind a name."""
    if name in scope.names.own:
        scope.variables[name] = value
        return
    holder = scope.holder(name)
    if holder is None:
        raise Break(f"the variable {name} outside of the program is changed")
    holder.variables[name] = value


def bind(
    arguments: ast.arguments, defaults: list, kwdefaults: dict, args: tuple, kwargs: dict
) -> dict[str, Any]:
    """Parameters and their values; Break where Python would complain."""
    names = [a.arg for a in (*arguments.posonlyargs, *arguments.args)]
    positional_only = len(arguments.posonlyargs)
    bound = dict(zip(names, args))
    rest = args[len(names) :]
    if rest and arguments.vararg is None:
        raise Break("a call with too many arguments")
    if arguments.vararg is not None:
        bound[arguments.vararg.arg] = tuple(map(settled, rest))
    keywords = dict(kwargs)
    for name in names[positional_only:]:
        if name in keywords:
            if name in bound:
                raise Break(f"a call with two values for {name}")
            bound[name] = keywords.pop(name)
    for name, value in zip(names[len(names) - len(defaults) :], defaults):
        if name not in bound:
            bound[name] = value
    for a in arguments.kwonlyargs:
        if a.arg in keywords:
            bound[a.arg] = keywords.pop(a.arg)
        elif a.arg in kwdefaults:
            bound[a.arg] = kwdefaults[a.arg]
    if arguments.kwarg is not None:
        bound[arguments.kwarg.arg] = {k: settled(v) for k, v in keywords.items()}
    elif keywords:
        raise Break(f"a call with the unknown argument {next(iter(keywords))}")
    needed = [*names, *(a.arg for a in arguments.kwonlyargs)]
    if any(name not in bound for name in needed):
        raise Break("a call with too few arguments")
    return bound


class Late:
    """An argument or a default that makes guards only if the program looks at it."""

    __slots__ = ("read", "source")

    def __init__(self, read: Any, source: tuple) -> None:
        self.read, self.source = read, source


def settled(value: Any) -> Any:
    """A value that is looked at now."""
    return value.read() if type(value) is Late else value
