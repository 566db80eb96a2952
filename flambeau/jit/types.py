"""The types of TorchScript: what values of a program can be, and how they are written.

A type has two texts: that of graphs (`int[]`, `Tensor?`) and that of code (`List[int]`,
`Optional[Tensor]`). Types compare by what they are; classes compare by identity.
"""

from collections.abc import Iterable
from typing import Any


class Type:
    """A type without parts, such as int."""

    kind: str
    parts: tuple["Type", ...] = ()

    def __init__(self, kind: str, code: str | None = None) -> None:
        self.kind, self._code = kind, code or kind

    @property
    def code(self) -> str:
        """As an annotation."""
        return self._code

    @property
    def annotation_str(self) -> str:
        return self.code

    @property
    def detail(self) -> str:
        """As graphs show it: with what is known beyond the type."""
        return str(self)

    def __str__(self) -> str:
        return self.kind

    def __repr__(self) -> str:
        return str(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Type) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple:
        return (self.kind,)

    def __deepcopy__(self, memo: Any) -> "Type":
        return self

    def with_parts(self, parts: tuple["Type", ...]) -> "Type":
        """The same of other parts."""
        return self


class Container(Type):
    """A type of parts."""

    def __init__(self, *parts: Type) -> None:
        self.parts = parts

    def _key(self) -> tuple:
        return (self.kind, self.parts)

    @property
    def part(self) -> Type:
        return self.parts[0]

    @property
    def code(self) -> str:
        return f"{self.kind}[{', '.join(p.code for p in self.parts)}]"

    def __str__(self) -> str:
        return f"{self.kind}({', '.join(map(str, self.parts))})"

    def with_parts(self, parts: tuple[Type, ...]) -> Type:
        return type(self)(*parts)


class ListOf(Container):
    kind = "List"

    def __str__(self) -> str:
        return f"{self.part}[]"


class DictOf(Container):
    kind = "Dict"


class FutureOf(Container):
    kind = "Future"


class AwaitOf(Container):
    kind = "Await"


class TupleOf(Container):
    """A tuple; a named one knows its name and those of its fields."""

    kind = "Tuple"

    def __init__(self, *parts: Type, name: str = "", fields: tuple[str, ...] = ()) -> None:
        self.parts, self.name, self.fields = parts, name, fields
        self.defaults: tuple = ()

    def _key(self) -> tuple:
        return (self.kind, self.parts, self.name, self.fields)

    @property
    def code(self) -> str:
        if self.name:
            return self.name
        return f"Tuple[{', '.join(p.code for p in self.parts) or '()'}]"

    def __str__(self) -> str:
        if self.name:
            inside = ", ".join(f"{p} {f}" for p, f in zip(self.parts, self.fields))
            return f"NamedTuple({inside})"
        return f"({', '.join(map(str, self.parts))})"

    def with_parts(self, parts: tuple[Type, ...]) -> Type:
        made = TupleOf(*parts, name=self.name, fields=self.fields)
        made.defaults = self.defaults
        return made


class OptionalOf(Container):
    kind = "Optional"

    def __str__(self) -> str:
        return f"{self.part}?"


class UnionOf(Container):
    kind = "Union"

    def _key(self) -> tuple:
        return (self.kind, frozenset(self.parts))


class Variable(Type):
    """A letter in a schema that stands for any type."""

    def __init__(self, name: str) -> None:
        super().__init__(name)

    def _key(self) -> tuple:
        return ("variable", self.kind)


class FunctionType(Type):
    """The type of a constant that is a function."""

    def __init__(self) -> None:
        super().__init__("Function")


class EnumType(Type):
    """A Python enumeration."""

    def __init__(self, name: str, value_type: Type, cls: Any) -> None:
        self.kind, self.name, self.value_type, self.cls = "Enum", name, value_type, cls

    @property
    def code(self) -> str:
        return self.name

    def __str__(self) -> str:
        return f"Enum<{self.name}>"

    def _key(self) -> tuple:
        return (self.kind, self.name)


class ClassType(Type):
    """A class of the program: a module, a scripted class or an interface.

    attributes: name -> type. methods: name -> Function. constants: name -> value.
    """

    def __init__(self, name: str, is_module: bool = False, is_interface: bool = False) -> None:
        self.kind, self.name = "Class", name
        self.is_module, self.is_interface = is_module, is_interface
        self.attributes: dict[str, Type] = {}
        self.parameters: list[str] = []
        self.buffers: list[str] = []
        self.constants: dict[str, Any] = {}
        self.methods: dict[str, Any] = {}
        self.properties: dict[str, tuple[str, str | None]] = {}
        self.static: set[str] = set()
        self.compile_method: Any = None  # how to make a method when it is first asked for
        self.python_class: Any = None  # what instances are at run time

    @property
    def code(self) -> str:
        return self.name

    def __str__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def method(self, name: str) -> Any:
        """A method by name, compiled if need be; None if there is none."""
        found = self.methods.get(name)
        if found is None and self.compile_method is not None:
            found = self.compile_method(name)
        return found

    def qualified_name(self) -> str:
        return self.name


class Only(Type):
    """A kind of type that has one member: PyTorch exports it by name and `get` gives the member."""

    only: Type

    @classmethod
    def get(cls) -> Type:
        """The only one."""
        return cls.only


def _only(name: str, kind: str, code: str | None = None) -> type[Only]:
    made: Any = type(name, (Only,), {"__doc__": f"The type `{kind}`.", "__module__": "torch"})
    made.only = made(kind, code)
    return made


class TensorType(Only):
    """The type `Tensor`."""

    __module__ = "torch"


TensorType.only = TensorType("Tensor")
IntType = _only("IntType", "int")
FloatType = _only("FloatType", "float")
BoolType = _only("BoolType", "bool")
StringType = _only("StringType", "str")
ComplexType = _only("ComplexType", "complex")
NoneType = _only("NoneType", "NoneType")
NumberType = _only("NumberType", "Scalar", "number")
DeviceObjType = _only("DeviceObjType", "Device")
StreamObjType = _only("StreamObjType", "Stream")
AnyType = _only("AnyType", "Any")


class SizedTensor(TensorType):
    """The type of a tensor of which dtype, sizes and strides are known; it equals TENSOR."""

    def __init__(self, tensor: Any) -> None:
        super().__init__("Tensor")
        self._layout, self._requires_grad = tensor._layout, tensor.requires_grad

    @property
    def detail(self) -> str:
        sizes = [str(size) for size in self.sizes()]
        if sizes:
            sizes.append(f"strides={self.strides()}")
        about = [f"requires_grad={int(self._requires_grad)}", f"device={self.device()}"]
        return f"{self.scalarType()}({', '.join([*sizes, *about])})"

    # -- PyTorch's names
    def sizes(self) -> list[int]:
        return list(self._layout.shape)

    def strides(self) -> list[int]:
        return list(self._layout.strides)

    def dim(self) -> int:
        return len(self._layout.shape)

    def dtype(self) -> Any:
        return self._layout.dtype

    def device(self) -> Any:
        return self._layout.device

    def scalarType(self) -> str:
        return self._layout.dtype.scalar_name

    def requires_grad(self) -> bool:
        return self._requires_grad


TENSOR, INT, FLOAT, BOOL = (t.only for t in (TensorType, IntType, FloatType, BoolType))
STR, COMPLEX, NONE, NUMBER = (t.only for t in (StringType, ComplexType, NoneType, NumberType))
DEVICE, STREAM, ANY = (t.only for t in (DeviceObjType, StreamObjType, AnyType))
GENERATOR = Type("Generator")
SCALAR_TYPE, LAYOUT, MEMORY_FORMAT, QSCHEME = map(
    Type, "ScalarType Layout MemoryFormat QScheme".split()
)
ANY_LIST, ANY_DICT, ANY_TUPLE = Type("list"), Type("Dict"), Type("tuple")
ANY_ENUM, ANY_CLASS = Type("AnyEnumType"), Type("AnyClassType")
FUNCTION = FunctionType()
# what takes the place of a value on a path that never uses it
NOTHING = Type("Uninitialized")

PLAIN = {
    t.kind: t
    for t in (TENSOR, INT, FLOAT, BOOL, STR, COMPLEX, NONE, NUMBER, DEVICE, GENERATOR, STREAM, ANY,
              SCALAR_TYPE, LAYOUT, MEMORY_FORMAT, QSCHEME, ANY_ENUM, ANY_CLASS)
}  # fmt: skip
PLAIN |= {"number": NUMBER, "SymInt": INT, "None": NONE}
# numbers under other names: dtypes, layouts and memory formats are ints in programs
AS_INT = frozenset({SCALAR_TYPE, LAYOUT, MEMORY_FORMAT, QSCHEME})


def optional(t: Type) -> Type:
    """That or None."""
    if t in (NONE, ANY) or isinstance(t, OptionalOf):
        return t
    if isinstance(t, UnionOf):
        return t if NONE in t.parts else union([*t.parts, NONE])
    return OptionalOf(t)


def union(parts: Iterable[Type]) -> Type:
    """The union of types; one that holds None and another is an Optional."""
    flat: list[Type] = []
    for part in parts:
        inside = part.parts if isinstance(part, UnionOf) else (part,)
        if isinstance(part, OptionalOf):
            inside = (part.part, NONE)
        flat.extend(p for p in inside if p not in flat)
    rest = [p for p in flat if p != NONE]
    if len(flat) == 1:
        return flat[0]
    if len(rest) == 1:
        return OptionalOf(rest[0])
    return UnionOf(*flat)


def choices(t: Type) -> tuple[Type, ...]:
    """What a value of a type can be: the members of unions."""
    if isinstance(t, OptionalOf):
        return (t.part, NONE)
    if t == NUMBER:
        return (INT, FLOAT, COMPLEX)
    return t.parts if isinstance(t, UnionOf) else (t,)


def is_subtype(a: Type, b: Type) -> bool:
    """Can a value of type a be used as a b, as it is?"""
    if a in (b, NOTHING) or b == ANY:
        return True
    if b in AS_INT:
        return a == INT
    if isinstance(a, (OptionalOf, UnionOf)):
        return all(is_subtype(x, b) for x in choices(a))
    if isinstance(b, (OptionalOf, UnionOf)) or b == NUMBER:
        return any(is_subtype(a, x) for x in choices(b) if x != b)
    if isinstance(a, TupleOf) and isinstance(b, TupleOf):
        same = len(a.parts) == len(b.parts) and (not b.name or a.name == b.name)
        return same and all(map(is_subtype, a.parts, b.parts))
    if isinstance(b, ClassType) and b.is_interface and isinstance(a, ClassType):
        return implements(a, b)
    if b == ANY_LIST:
        return isinstance(a, ListOf)
    if b == ANY_TUPLE:
        return isinstance(a, TupleOf)
    return b == ANY_ENUM and isinstance(a, EnumType)


def implements(cls: ClassType, interface: ClassType) -> bool:
    """Does a class have all methods of an interface?"""
    return all(cls.method(name) is not None for name in interface.methods)


def unify(a: Type, b: Type, to_union: bool = False) -> Type | None:
    """A type for values of both types; None if there is none."""
    if is_subtype(a, b):
        return b
    if is_subtype(b, a):
        return a
    if NONE in (a, b):
        return optional(b if a == NONE else a)
    for one, other in ((a, b), (b, a)):
        if isinstance(one, OptionalOf):
            inside = unify(one.part, other)
            return optional(inside) if inside is not None else None
    if isinstance(a, TupleOf) and isinstance(b, TupleOf) and len(a.parts) == len(b.parts):
        parts = [unify(x, y) for x, y in zip(a.parts, b.parts)]
        return None if None in parts else TupleOf(*[p for p in parts if p is not None])
    return union([a, b]) if to_union else None


def parse(text: str) -> Type:
    """A type from its text in graphs and schemas."""
    found, rest = _parse(text.strip())
    if rest.strip():
        raise ValueError(f"cannot read the type {text!r}")
    return found


def _parse(text):
    if text[0] == "(":
        parts, rest = _parse_list(text[1:], ")")
        found: Type = TupleOf(*parts)
    else:
        end = 0
        while end < len(text) and (text[end].isalnum() or text[end] in "_."):
            end += 1
        word, rest = text[:end], text[end:]
        if word in ("Dict", "Future", "Await", "RRef") and rest[:1] == "(":
            parts, rest = _parse_list(rest[1:], ")")
            found = {"Dict": DictOf, "Future": FutureOf, "Await": AwaitOf}.get(word, FutureOf)(
                *parts
            )
        elif word in PLAIN:
            found = PLAIN[word]
        else:
            found = Variable(word)
    return _parse_ending(found, rest)


def _parse_ending(found, rest):
    while rest:
        if rest[0] == "(":  # who shares memory: (a!), (a -> *)
            rest = rest[rest.index(")") + 1 :]
        elif rest[0] == "[":
            found, rest = ListOf(found), rest[rest.index("]") + 1 :]
        elif rest[0] == "?":
            found, rest = OptionalOf(found), rest[1:]
        else:
            break
    return found, rest


def _parse_list(text, end):
    parts = []
    text = text.lstrip()
    while text[0] != end:
        part, text = _parse(text)
        parts.append(part)
        text = text.lstrip()
        if text[0] == ",":
            text = text[1:].lstrip()
    return parts, text[1:]
