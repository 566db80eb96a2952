"""Objects of scripted classes at run time."""

from typing import Any

from flambeau.jit import types as T


class RecursiveScriptClass:
    """An object whose class is a class of a program."""

    _type: T.ClassType

    @classmethod
    def _made(cls) -> "RecursiveScriptClass":
        return object.__new__(cls)

    def __repr__(self) -> str:
        return f"<torch.jit.RecursiveScriptClass of {self._type.name}>"


# a with statement in a script calls the methods of the program
def _enter(self):
    return self._jit___enter__()


def _exit(self, *error):
    self._jit___exit__(*error)


def _forwarding(name):
    def method(self, *args, **kwargs):
        from flambeau.jit.functions import bound

        function = self._type.method(name)
        return function.run(self, *bound(function, args, kwargs, skip=1))

    method.__name__ = name
    return method


def object_class(kind: T.ClassType) -> Any:
    """The Python class of a program's class."""
    if kind.python_class is None:
        name = kind.name.rpartition(".")[2]
        made = type(name, (RecursiveScriptClass,), {"_type": kind})
        kind.python_class = made
        if kind.method("__enter__") is not None:
            made.__enter__, made.__exit__ = _enter, _exit  # type: ignore[attr-defined]
        for method, function in kind.methods.items():
            setattr(made, f"_jit_{method}", _Lazy(function, method))
            if method not in ("__init__", "__enter__", "__exit__") and method not in kind.static:
                setattr(made, method, _forwarding(method))
        for prop, (getter, setter) in kind.properties.items():
            setattr(
                made, prop, property(_forwarding(getter), _forwarding(setter) if setter else None)
            )
    return kind.python_class


class _Lazy:
    """A method that is made Python when it is first called, then stands in the class itself."""

    def __init__(self, function: Any, name: str) -> None:
        self.function, self.name = function, name

    def __get__(self, instance: Any, owner: Any) -> Any:
        run = self.function.run
        setattr(owner, f"_jit_{self.name}", run)
        return run.__get__(instance, owner)
