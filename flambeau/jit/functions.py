"""ScriptFunction: a function of a program, as Python sees it, and its arguments at that border."""

import enum
from typing import Any

from flambeau import _dtype
from flambeau._memory_format import layout, memory_format
from flambeau._tensor import Tensor
from flambeau.jit import types as T
from flambeau.jit.compiling import Function
from flambeau.jit.ir import Graph
from flambeau.jit.numbering import number_of
from flambeau.jit.passes import inlined
from flambeau.jit.schemas import REQUIRED, Schema
from flambeau.jit.state import state
from flambeau.jit.support import is_instance
from flambeau.jit.texts import Constants, Text, function_text


def bound(function: Function, args: tuple, kwargs: dict, skip: int = 0) -> list:
    """The arguments of a call in the order of the signature, as values of its types."""
    schema = function.schema
    assert schema is not None
    formals = schema.arguments[skip:]
    if len(args) > len(formals):
        raise RuntimeError(
            f"{schema.name}() expected at most {len(formals) + skip} argument(s) but received "
            f"{len(args) + skip} argument(s). Declaration: {schema}"
        )
    values = []
    for k, formal in enumerate(formals):
        if k < len(args):
            value = args[k]
            if formal.name in kwargs:
                raise RuntimeError(f"{schema.name}() got multiple values for argument "
                                   f"'{formal.name}'. Declaration: {schema}")  # fmt: skip
        elif formal.name in kwargs:
            value = kwargs[formal.name]
        elif formal.default is not REQUIRED:
            values.append(_own_copy(formal.default))
            continue
        else:
            raise RuntimeError(f"{schema.name}() is missing value for argument '{formal.name}'. "
                               f"Declaration: {schema}")  # fmt: skip
        kind = formal.type
        if kind is T.TENSOR and isinstance(value, Tensor):
            values.append(value)
        else:
            values.append(converted(value, kind, schema, formal.name, k + skip))
    known = {formal.name for formal in formals}
    for name in kwargs:
        if name not in known:
            raise RuntimeError(f"Unknown keyword argument '{name}' for operator '{schema.name}'. "
                               f"Schema: {schema}")  # fmt: skip
    return values


def _own_copy(value):
    return value.copy() if isinstance(value, (list, dict)) else value


def converted(value: Any, kind: T.Type, schema: Schema, name: str, position: int) -> Any:
    """A Python value as one of a type, or PyTorch's complaint."""
    made = as_type(value, kind)
    if not is_instance(made, [kind]):
        found = _type_name(value)
        inferred = schema.arguments[position].is_inferred
        more = (
            f"Inferred '{name}' to be of type '{kind.code}' because it was not annotated with an "
            "explicit type.\n"
        )
        raise RuntimeError(
            f"{schema.name}() Expected a value of type '{kind.code}{' (inferred)' * inferred}' for "
            f"argument '{name}' but instead found type '{found}'.\n{more * inferred}Position: "
            f"{position}\nValue: {value!r}\nDeclaration: {schema}"
        )
    return made


def _type_name(value):
    return "Tensor" if isinstance(value, Tensor) else type(value).__name__


def as_type(value: Any, kind: T.Type) -> Any:
    """What a program is given for a Python value: lists are its own."""
    if kind == T.FLOAT and type(value) is int:
        return float(value)
    if kind == T.INT:
        is_named = isinstance(value, (_dtype.dtype, layout, memory_format))
        return number_of(value) if is_named else value
    if kind == T.DEVICE and isinstance(value, str):
        from flambeau._device import device

        return device(value)
    if isinstance(kind, T.ListOf) and isinstance(value, (list, tuple)):
        return [as_type(v, kind.part) for v in value]
    if isinstance(kind, T.DictOf) and isinstance(value, dict):
        return {as_type(k, kind.parts[0]): as_type(v, kind.parts[1]) for k, v in value.items()}
    if isinstance(kind, T.TupleOf) and isinstance(value, tuple) and len(value) == len(kind.parts):
        parts = [as_type(v, k) for v, k in zip(value, kind.parts)]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if isinstance(kind, T.EnumType) and isinstance(value, enum.Enum):
        own = type(value).__name__ == kind.cls.__name__  # the class of the program is another one
        return kind.cls(value.value) if own else value
    if isinstance(kind, T.OptionalOf):
        return None if value is None else as_type(value, kind.part)
    if isinstance(kind, T.ClassType) and not kind.is_module and not is_instance(value, [kind]):
        return value
    if isinstance(kind, T.ClassType) and not kind.is_module:
        return _as_object(value, kind)
    return value


def _as_object(value, kind):
    """An object of the Python class that a scripted class comes from, as one of the program."""
    from flambeau.jit.classes import RecursiveScriptClass, object_class

    if isinstance(value, RecursiveScriptClass) or kind.is_interface:
        return value
    made = object_class(kind)._made()
    for name, inner in kind.attributes.items():
        setattr(made, name, as_type(getattr(value, name), inner))
    return made


def code_of(function: Function) -> tuple[str, Constants]:
    """The code of a function, and the constants it names."""
    constants = Constants()
    return function_text(function, Text(constants)), constants


class ConstMap:
    """The constants of a function by their names in its code."""

    def __init__(self, constants: Constants) -> None:
        self.const_mapping = {f"c{k}": value for k, value in enumerate(constants.found)}

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["const_mapping"][name]
        except KeyError:
            raise AttributeError(name) from None


class Compiled:
    """What functions and methods of a program tell of themselves."""

    _function: Function

    @property
    def name(self) -> str:
        return self._function.name

    @property
    def graph(self) -> Graph:
        return self._function.graph

    @property
    def inlined_graph(self) -> Graph:
        return inlined(self._function.graph)

    @property
    def schema(self) -> Schema:
        assert self._function.schema is not None
        return self._function.schema

    @property
    def code(self) -> str:
        return code_of(self._function)[0]


class ScriptFunction(Compiled):
    """A function of a program."""

    def __init__(self, function: Function, python: Any = None) -> None:
        self._function = function
        self._python = python
        self.__name__ = function.name
        self.__qualname__ = getattr(python, "__qualname__", function.name)
        self.__module__ = getattr(python, "__module__", "torch.jit")
        self.__doc__ = getattr(python, "__doc__", None)
        if python is not None:
            self.__wrapped__ = python

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        function = self._function
        values = bound(function, args, kwargs)
        if state.tracers:
            return state.tracers[-1].call(function, values)
        state.last = function
        return function.run(*values)

    @property
    def qualified_name(self) -> str:
        return self._function.qualified_name

    @property
    def code_with_constants(self) -> tuple[str, ConstMap]:
        code, constants = code_of(self._function)
        return code, ConstMap(constants)

    def graph_for(self, *args: Any, **kwargs: Any) -> Graph:
        """The graph that runs for such arguments: always the same here."""
        return self.inlined_graph

    def save(self, filename: Any, _extra_files: dict | None = None) -> None:
        """Write it to an archive; it is loaded as a module."""
        from flambeau.jit.archives import save_function

        save_function(self._function, filename, _extra_files)

    def save_to_buffer(self, _extra_files: dict | None = None) -> bytes:
        import io

        from flambeau.jit.archives import save_function

        buffer = io.BytesIO()
        save_function(self._function, buffer, _extra_files)
        return buffer.getvalue()

    def __reduce__(self) -> Any:
        raise pickle_error()

    def __repr__(self) -> str:
        return f"<torch.jit.ScriptFunction {self._function.name}>"


def pickle_error() -> Exception:
    import pickle

    return pickle.PickleError("ScriptFunction cannot be pickled")
