"""Reading archives of programs, of ours and of PyTorch, with distrust.

The pickle can only build data and empty objects with a class name. The code is parsed and compiled
to graphs like any script; nothing in an archive is run by Python, and names stand for nothing but
ops and what the archive itself defines.
"""

import ast
import enum
import pickle
from typing import Any

from flambeau._device import device
from flambeau._tensor import Tensor
from flambeau.jit import types as T
from flambeau.jit.annotating import NAMED_CLASSES
from flambeau.jit.archive_pickles import Held, unpickle
from flambeau.jit.classes import object_class
from flambeau.jit.compiling import Function, compile_source, literal, signature
from flambeau.jit.module_types import ModuleType
from flambeau.jit.modules import new_module, python_class
from flambeau.jit.places import CompileError, FrontendError, Source
from flambeau.jit.schemas import Schema, is_op
from flambeau.jit.sugar import (
    Builtin,
    ClassSugar,
    EnumSugar,
    FunctionSugar,
    NamedTupleSugar,
    Namespace,
    Special,
    Sugar,
    TupleSugar,
)
from flambeau.jit.support import SUPPORT
from flambeau.jit.units import lock, unit
from flambeau.nn import Module, Parameter
from flambeau.serialization.archive import ArchiveReader, corrupt

MOST_SOURCE = 1 << 26  # bytes of one file of code
_SPECIALS = frozenset(
    "annotate unchecked_cast uninitialized getattr int float bool str complex print range len "
    "isinstance fork list dict tuple min max abs hasattr sorted".split()
)
_TYPES = {
    **{t.code: t for t in (T.TENSOR, T.INT, T.FLOAT, T.BOOL, T.STR, T.COMPLEX, T.NONE, T.NUMBER,
                           T.DEVICE, T.GENERATOR, T.STREAM, T.ANY, T.ANY_ENUM, T.ANY_CLASS)},
    "None": T.NONE, "Layout": T.INT, "ScalarType": T.INT, "list": T.ANY_LIST, "tuple": T.ANY_TUPLE,
    "AnyListType": T.ANY_LIST, "AnyTupleType": T.ANY_TUPLE, "dict": T.ANY_DICT,
}  # fmt: skip
_CONTAINERS = {"List": T.ListOf, "Dict": T.DictOf, "Optional": T.OptionalOf, "Future": T.FutureOf,
               "Tuple": T.TupleOf, "Await": T.AwaitOf}  # fmt: skip


def read_module(file: Any, map_location: Any, extra: dict | None) -> Any:
    """The module that an archive holds."""
    try:
        archive = ArchiveReader(file)
        if not archive.is_torchscript:
            raise corrupt("locating file constants.pkl: file not found")
        _fill_extra(archive, extra)
        constants = unpickle(archive, "constants", map_location, {})
        if not isinstance(constants, tuple):
            raise corrupt("reading file constants.pkl: no tuple")
        classes: dict[str, type] = {}
        root = unpickle(archive, "data", map_location, classes)
        if not isinstance(root, Held):
            raise corrupt("reading file data.pkl: no module")
        with lock:
            program = Program(archive, constants)
            return _Builder(program).module(root)
    except (CompileError, FrontendError, SyntaxError, RecursionError) as error:
        raise RuntimeError(f"cannot load this program: {error}") from error
    except (pickle.UnpicklingError, EOFError) as error:
        raise RuntimeError(f"cannot load this program, its pickle is damaged: {error}") from error
    except (AttributeError, TypeError, ValueError, KeyError, IndexError) as error:
        raise RuntimeError(f"cannot load this program, it is damaged: {error}") from error


def _fill_extra(archive, extra):
    for name in extra or ():
        record = f"extra/{name}"
        if record in archive.records:
            extra[name] = archive.read(record)


# -- the code --------------------------------------------------------------------------------------


class Program:
    """The types and functions that an archive defines, compiled when they are asked for."""

    def __init__(self, archive: ArchiveReader, constants: tuple) -> None:
        self.archive, self.constants = archive, constants
        self.files: dict[str, tuple[dict[str, Any], Source] | None] = {}
        self.types: dict[str, Any] = {}
        self.functions: dict[str, Function] = {}
        self.resolver = ArchiveResolver(self)

    def syntax(self, name: str) -> tuple[Any, Source] | None:
        """The definition of a qualified name."""
        space, _, last = name.rpartition(".")
        if space not in self.files:
            self.files[space] = self._parsed(space)
        found = self.files[space]
        if found is None or last not in found[0]:
            return None
        return found[0][last], found[1]

    def _parsed(self, space):
        record = f"code/{space.replace('.', '/')}.py"
        if record not in self.archive.records:
            return None
        if self.archive.size_of(record) > MOST_SOURCE:
            raise corrupt(f"reading file {record}: too large")
        text = self.archive.read(record).decode()
        tree = ast.parse(text)
        source = Source(text, record)
        return {node.name: node for node in tree.body
                if isinstance(node, (ast.ClassDef, ast.FunctionDef))}, source  # fmt: skip

    def find(self, name: str) -> Any:
        """A type or a function by its qualified name; None if there is none."""
        if name in self.types:
            return self.types[name]
        if name in self.functions:
            return self.functions[name]
        found = self.syntax(name)
        if found is None:
            return None
        node, source = found
        if isinstance(node, ast.FunctionDef):
            return self._function(name, node, source)
        return self._type(name, node, source)

    def type(self, name: str, place: Any = None) -> Any:
        found = self.find(name)
        if found is None or isinstance(found, Function):
            raise CompileError(f"Unknown type name '{name}'", place)
        return found

    def _function(self, name, node, source):
        function = Function(node.name, name)
        self.functions[name] = function
        compile_source(function, node, source, self.resolver, None, None)
        return function

    def _type(self, name, node, source):
        bases = [ast.unparse(base) for base in node.bases]
        if bases == ["NamedTuple"]:
            return self._named_tuple(name, node, source)
        if bases == ["Enum"]:
            return self._enum(name, node, source)
        if bases in (["Interface"], ["ModuleInterface"]):
            return self._interface(name, node, source, bases == ["ModuleInterface"])
        if bases not in ([], ["Module"]):
            raise CompileError(f"a class with the base {bases}", source.at(node))
        return self._class(name, node, source, bases == ["Module"])

    def _named_tuple(self, name, node, source):
        fields, parts = [], []
        for line in node.body:
            if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
                fields.append(line.target.id)
                parts.append(self.resolver.annotation(line.annotation, source.at(line)))
        made = T.TupleOf(*parts, name=name, fields=tuple(fields))
        known = NAMED_CLASSES.get(name)
        if known is not None and tuple(known._fields) != made.fields:
            made.name = unit.unique_name(name)
        self.types[name] = made
        return made

    def _enum(self, name, node, source):
        members = {}
        for line in node.body:
            if isinstance(line, ast.Assign) and isinstance(line.targets[0], ast.Name):
                members[line.targets[0].id] = literal(line.value, source)
        cls = enum.Enum(name.rpartition(".")[2], members)
        kinds = {int: T.INT, float: T.FLOAT, str: T.STR}
        first = next(iter(members.values()), 0)
        made = self.types[name] = T.EnumType(name, kinds[type(first)], cls)
        return made

    def _interface(self, name, node, source, is_module):
        made = self.types[name] = T.ClassType(name, is_module, True)
        for line in node.body:
            if isinstance(line, ast.FunctionDef):
                arguments, returns = signature(line, source, self.resolver, None, made)
                function = Function(line.name, f"{made.name}.{line.name}", made)
                function.schema = Schema(line.name, "", tuple(arguments), (returns or T.TENSOR,))
                made.methods[line.name] = function
        return made

    def _class(self, name, node, source, is_module):
        made: Any
        if is_module:
            made = ModuleType(name, object)
        else:
            made = T.ClassType(name)
        self.types[name] = made
        methods: dict[str, ast.FunctionDef] = {}
        for line in node.body:
            self._member(made, line, source, methods)

        def compile_method(method):
            definition = methods.get(method)
            if definition is None:
                return None
            function = made.methods[method] = Function(method, f"{made.name}.{method}", made)
            compile_source(function, definition, source, self.resolver, None, made)
            return function

        made.compile_method = compile_method
        made.all_methods = list(methods)
        return made

    def _member(self, made, line, source, methods):
        """One line of a class: an attribute, a constant, a method."""
        if isinstance(line, ast.FunctionDef):
            methods[line.name] = line
        elif isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
            name, kind = line.target.id, line.annotation
            if isinstance(kind, ast.Subscript) and ast.unparse(kind.value) == "Final":
                if line.value is not None:
                    made.constants[name] = literal(line.value, source)
            else:
                made.attributes[name] = self.resolver.annotation(kind, source.at(line))
        elif isinstance(line, ast.Assign) and isinstance(line.targets[0], ast.Subscript):
            name = literal(line.targets[0].slice, source)
            made.attributes[name] = self.resolver.annotation(line.value, source.at(line))
        elif isinstance(line, ast.Assign) and isinstance(line.targets[0], ast.Name):
            title = line.targets[0].id
            if title in ("__parameters__", "__buffers__"):
                setattr(made, title.strip("_"), literal(line.value, source))
        elif not isinstance(line, ast.Pass):
            raise CompileError("unknown statement in a class", source.at(line))

    def compile_all(self) -> None:
        """Compile all methods of the types that are known, and of those that they need."""
        done: set[int] = set()
        while True:
            kinds = [t for t in self.types.values() if isinstance(t, T.ClassType)]
            fresh = [k for k in kinds if id(k) not in done and not k.is_interface]
            if not fresh:
                return
            for kind in fresh:
                done.add(id(kind))
                for method in kind.all_methods:  # type: ignore[attr-defined]
                    kind.method(method)


class _Raise(Sugar):
    """ops.prim.RaiseException"""

    def call(self, c: Any, args: list, kwargs: dict, place: Any) -> Any:
        values = [c.value_of(a, place) for a in args]
        values += [c.none(place)] * (2 - len(values))
        c.frame.block.add("prim::RaiseException", values[:2], place)
        return TupleSugar([], is_none=True)


class _Node(Sugar):
    """An op of prim without a signature."""

    def __init__(self, op: str, kind: T.Type | None) -> None:
        self.op, self.result = op, kind

    def call(self, c: Any, args: list, kwargs: dict, place: Any) -> Any:
        values = [c.value_of(a, place) for a in args]
        kind = self.result or values[0].type_
        if self.op == "aten::wait":
            kind = values[0].type_.parts[0]
        if self.op == "prim::unchecked_unwrap_optional":
            kind = values[0].type_.part
        return c.node(self.op, values, kind, place)


_NODES = {
    "prim::NumToTensor": T.TENSOR,
    "prim::device": T.DEVICE,
    "prim::data": T.TENSOR,
    "prim::ImplicitTensorToNum": T.NUMBER,
    "prim::unchecked_unwrap_optional": None,
    "aten::wait": None,
}


class ArchiveResolver:
    """What names in an archive's code stand for."""

    allows_closures = True

    def __init__(self, program: Program) -> None:
        self.program = program

    def name(self, c: Any, name: str, place: Any) -> Any:
        if name == "torch":
            return Namespace(self._torch, "torch")
        if name == "ops":
            return Namespace(self._ops, "ops")
        if name == "__torch__":
            return Namespace(self._own, "__torch__")
        if name == "CONSTANTS":
            return Namespace(self._constant, "CONSTANTS")
        if name in ("inf", "nan"):
            return c.constant(float(name), place)
        if name in ("infj", "nanj"):
            return c.constant(complex(0, float(name[:3])), place)
        return Special(name) if name in _SPECIALS else None

    def _torch(self, c, about, name, place):
        if name == "device":
            return Special("device")
        if name == "wait":
            return _Node("aten::wait", None)
        if name == "warn":
            return Special("warn")
        if is_op("aten::" + name):
            return Builtin("aten::" + name)
        raise CompileError(f"Unknown builtin op: aten::{name}", place)

    def _ops(self, c, about, name, place):
        if about == "ops":
            return Namespace(self._ops, name)
        op = f"{about}::{name}"
        if op == "prim::RaiseException":
            return _Raise()
        if op in _NODES and not is_op(op):
            return _Node(op, _NODES[op])
        if is_op(op):
            return Builtin(op)
        raise CompileError(f"Unknown builtin op: {op}", place)

    def _own(self, c, about, name, place):
        full = f"{about}.{name}"
        found = self.program.find(full)
        if found is None:
            return Namespace(self._own, full)
        if isinstance(found, Function):
            return FunctionSugar(found)
        if isinstance(found, T.TupleOf):
            return NamedTupleSugar(found)
        if isinstance(found, T.EnumType):
            return EnumSugar(found)
        return ClassSugar(found)

    def _constant(self, c, about, name, place):
        if not (name[:1] == "c" and name[1:].isdigit()):
            raise CompileError(f"unknown constant {name}", place)
        number = int(name[1:])
        if number >= len(self.program.constants):
            raise CompileError(f"constant {name} is not in the archive", place)
        return self.wrap(c, self.program.constants[number], place)

    def wrap(self, c: Any, found: Any, place: Any) -> Any:
        """A value of the archive as a constant."""
        if isinstance(found, tuple):
            return TupleSugar([self.wrap(c, f, place) for f in found])
        if isinstance(found, list):
            return c.list_of([c.value_of(self.wrap(c, f, place), place) for f in found], place)
        if found is None or isinstance(found, (bool, int, float, str, complex, Tensor, device)):
            return c.constant(found, place)
        raise CompileError(f"a constant of type {type(found).__name__}", place)

    def annotation(self, node: Any, place: Any) -> T.Type:
        """A type, from its syntax alone."""
        if isinstance(node, ast.Constant) and node.value is None:
            return T.NONE
        if isinstance(node, ast.Name) and node.id in _TYPES:
            return _TYPES[node.id]
        if isinstance(node, ast.Attribute):
            return self.program.type(ast.unparse(node), place)
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
            inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            parts = [self.annotation(part, place) for part in inner]
            if node.value.id == "Union":
                return T.union(parts)
            if node.value.id in _CONTAINERS:
                return _CONTAINERS[node.value.id](*parts)
        raise CompileError(f"Unknown type name '{ast.unparse(node)}'", place)

    def classes_asked(self, c: Any, node: Any, place: Any) -> list | None:
        return None

    def defines(self, kind: T.ClassType) -> bool:
        return False

    def attribute_type(self, kind: T.ClassType, name: str) -> T.Type | None:
        return None


# -- objects ---------------------------------------------------------------------------------------


class _Builder:
    """Modules and objects from what the pickle holds."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.made: dict[int, Any] = {}
        self.parameters: dict[int, Parameter] = {}

    def module(self, held: Held) -> Any:
        """The whole module: all of its types are compiled before anything is made."""
        self.program.type(held.name)
        self.program.compile_all()
        return self.value(held, self.program.type(held.name))

    def value(self, found: Any, kind: T.Type) -> Any:
        """A value of the pickle, checked against its type."""
        if isinstance(kind, T.OptionalOf):
            return None if found is None else self.value(found, kind.part)
        if isinstance(kind, T.ClassType):
            return self._object(found, kind)
        if isinstance(kind, T.EnumType):
            if not isinstance(found, Held) or len(found.given) != 1:
                raise ValueError(f"expected a member of {kind}")
            return kind.cls(found.given[0])
        if isinstance(kind, T.ListOf) and isinstance(found, list):
            return [self.value(item, kind.part) for item in found]
        if isinstance(kind, T.DictOf) and isinstance(found, dict):
            key, inner = kind.parts
            return {self.value(k, key): self.value(v, inner) for k, v in found.items()}
        if isinstance(kind, T.TupleOf):
            return self._tuple(found, kind)
        if not SUPPORT["_isinstance"](found, [kind]):
            raise ValueError(f"expected {kind.code} but found {type(found).__name__}")
        return found

    def _tuple(self, found, kind):
        items = found.given if isinstance(found, Held) else found
        if len(items) == 1 and kind.name and isinstance(items[0], tuple):
            items = items[0]
        if not isinstance(items, tuple) or len(items) != len(kind.parts):
            raise ValueError(f"expected {kind.code} but found {type(found).__name__}")
        parts = [self.value(item, part) for item, part in zip(items, kind.parts)]
        return SUPPORT["_named_class"](kind)(*parts) if kind.name else tuple(parts)

    def _object(self, held, kind):
        if not isinstance(held, Held) or not isinstance(held.state, dict):
            raise ValueError(f"expected an object of {kind}")
        if id(held) in self.made:
            return self.made[id(held)]
        own = self.program.type(held.name)
        if not T.is_subtype(own, kind):
            raise ValueError(f"expected an object of {kind}, found one of {own}")
        if own.is_module:
            made = self.made[id(held)] = new_module(own)
            made.__dict__["original_name"] = held.name.rpartition(".")[2]
            self._fill_module(made, own, held.state)
        else:
            made = self.made[id(held)] = object_class(own)._made()
            for name, type_ in own.attributes.items():
                setattr(made, name, self.value(held.state[name], type_))
        return made

    def _fill_module(self, made, kind, state):
        for name, type_ in kind.attributes.items():
            if name not in state:
                raise ValueError(f"attribute {name} of {kind} is missing")
            value = self.value(state[name], type_)
            if name in kind.parameters and isinstance(value, Tensor):
                made.register_parameter(name, self._parameter(value))
            elif name in kind.parameters:
                made.register_parameter(name, None)
            elif name in kind.buffers:
                made.register_buffer(name, value)
            elif isinstance(value, Module):
                made.add_module(name, value)
            else:
                made.__dict__[name] = value
        for name, value in kind.constants.items():
            if name not in made._parameters and name not in made._modules:
                made.__dict__[name] = value
        python_class(kind)

    def _parameter(self, tensor):
        """One parameter for each tensor, so that what was shared is shared."""
        known = self.parameters.get(id(tensor))
        if known is None:
            known = Parameter(tensor.detach(), bool(tensor.requires_grad))
            self.parameters[id(tensor)] = known
        return known
