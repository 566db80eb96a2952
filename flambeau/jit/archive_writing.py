"""Archives of programs: code by namespaces, a pickle of the module's state, tensors beside it."""

import struct
import sys
from typing import Any

from flambeau import _dtype
from flambeau._device import device
from flambeau._tensor import Tensor
from flambeau.jit import types as T
from flambeau.jit.compiling import Function
from flambeau.jit.ir import escaped
from flambeau.jit.texts import Constants, Text, default_text, function_text
from flambeau.nn import Module
from flambeau.runtime.cpu import buffer_at
from flambeau.serialization.archive import ArchiveWriter
from flambeau.serialization.pickling import Storages
from flambeau.serialization.rebuilding import KINDS


def write_archive(file: Any, module: Any, name: str, extra: dict[str, Any]) -> None:
    """Write a script module."""
    _Code(Constants()).write_all(module._type)  # finds names that two things have
    constants = Constants()
    code = _Code(constants)
    code.write_all(module._type)
    state = _Pickle()
    state.module(module)
    held = _Pickle()
    held.tuple_of(constants.found)
    archive = ArchiveWriter(file, name)
    for path, content in extra.items():
        archive.add(
            f"extra/{path}", content.encode() if isinstance(content, str) else bytes(content)
        )
    archive.add_all([(f"data/{k}", _bytes_of(s)) for k, s in enumerate(state.storages.found)])
    archive.add("data.pkl", state.finished())
    for space, text in code.files.items():
        archive.add(f"code/{space.replace('.', '/')}.py", "".join(text).encode())
    archive.add_all([(f"constants/{k}", _bytes_of(s)) for k, s in enumerate(held.storages.found)])
    archive.add("constants.pkl", held.finished())
    # texts mean what ops mean today: readers must not take them for those of older versions
    archive.add("version", b"10\n")
    archive.add("byteorder", sys.byteorder.encode())
    archive.close()


def _bytes_of(storage):
    return buffer_at(storage.pointer, storage.nbytes) if storage.nbytes else memoryview(b"")


# -- code ------------------------------------------------------------------------------------------


class _Code:
    """The texts of all types and functions that a program needs, by namespace."""

    def __init__(self, constants: Constants) -> None:
        self.constants = constants
        self.files: dict[str, list[str]] = {}
        self.known: dict[str, Any] = {}
        self.waiting: list[Any] = []

    def write_all(self, kind: T.ClassType) -> None:
        """Write a type and all that it needs."""
        self.add(kind)
        while self.waiting:
            self.write(self.waiting.pop(0))

    def add(self, found: Any) -> None:
        """Note a type or a function that must be written."""
        name = found.qualified_name if isinstance(found, Function) else found.name
        known = self.known.get(name)
        if known is None:
            self.known[name] = found
            self.waiting.append(found)
        elif known is not found and isinstance(found, (Function, T.ClassType)):
            self._rename(found, name)

    def _rename(self, found, name):
        """Programs that were loaded have names of their own, which may be taken here."""
        space, _, last = name.rpartition(".")
        count = 0
        while f"{space}.___torch_mangle_{count}.{last}" in self.known:
            count += 1
        made = f"{space}.___torch_mangle_{count}.{last}"
        if isinstance(found, Function):
            found.qualified_name = made
        else:
            found.name = made
        self.add(found)

    def add_parts(self, kind: T.Type) -> None:
        for part in kind.parts:
            self.add_parts(part)
        if isinstance(kind, (T.ClassType, T.EnumType)) or bool(getattr(kind, "name", None)):
            self.add(kind)

    def write(self, found: Any) -> None:
        name = found.qualified_name if isinstance(found, Function) else found.name
        lines = self.files.setdefault(name.rpartition(".")[0], [])
        if isinstance(found, Function):
            lines.append(self._function(found, name.rpartition(".")[2], 0))
        elif isinstance(found, T.TupleOf):
            lines.append(self._named_tuple(found))
        elif isinstance(found, T.EnumType):
            lines.append(self._enum(found))
        elif found.is_interface:
            lines.append(self._interface(found))
        else:
            lines.append(self._class(found))

    def _function(self, function, name, indent):
        for node in function.graph.all_nodes():
            if node.op[0] == "^":
                raise RuntimeError(
                    f"\nCould not export Python function call '{node.op[1:]}'. Remove calls to "
                    "Python functions before export. Did you forget to add @torch.jit.script or "
                    "@torch.jit.script_method annotation? If this is a nn.ModuleList, add it to "
                    "__constants__"
                )
        text = Text(self.constants)
        written = function_text(function, text, indent, own_type=True, name=name)
        for found in text.dependencies:
            self.add(found)
        return written

    def _named_tuple(self, kind):
        lines = [f"class {kind.name.rpartition('.')[2]}(NamedTuple):\n"]
        for field, part in zip(kind.fields, kind.parts):
            self.add_parts(part)
            lines.append(f"  {field} : {part.code}\n")
        return "".join(lines)

    def _enum(self, kind):
        lines = [f"class {kind.name.rpartition('.')[2]}(Enum):\n"]
        for member in kind.cls:
            value = escaped(member.value) if isinstance(member.value, str) else repr(member.value)
            lines.append(f"  {member.name} = {value}\n")
        return "".join(lines)

    def _interface(self, kind):
        is_module = issubclass(getattr(kind, "original", None) or object, Module)
        base = "ModuleInterface" if is_module or kind.is_module else "Interface"
        lines = [f"class {kind.name.rpartition('.')[2]}({base}):\n"]
        for name, method in kind.methods.items():
            schema = method.schema
            inside = [f"{a.name}: {a.type.code}" for a in schema.arguments[1:]]
            for a in schema.arguments[1:]:
                self.add_parts(a.type)
            self.add_parts(schema.returns[0])
            head = f"  def {name}({', '.join(['self', *inside])}) -> {schema.returns[0].code}:\n"
            lines.append(head + "    pass\n")
        return "".join(lines)

    def _class(self, kind):
        short = kind.name.rpartition(".")[2]
        lines = [f"class {short}(Module):\n" if kind.is_module else f"class {short}:\n"]
        if kind.is_module:
            for title, names in (("parameters", kind.parameters), ("buffers", kind.buffers)):
                listed = "".join(f'"{name}", ' for name in names)
                lines.append(f"  __{title}__ = [{listed}]\n")
        if any(not n.isidentifier() for n in kind.attributes):
            lines.append("  __annotations__ = []\n")
        for name, type_ in kind.attributes.items():
            self.add_parts(type_)
            if name.isidentifier():
                lines.append(f"  {name} : {type_.code}\n")
            else:
                lines.append(f'  __annotations__["{name}"] = {type_.code}\n')
        lines.extend(self._constants_of(kind))
        for name in kind.methods:
            if name in kind.static:
                continue
            lines.append(self._function(kind.methods[name], name, 1))
        return "".join(lines)

    def _constants_of(self, kind):
        from flambeau.jit.annotating import infer

        text = Text()
        for name, value in kind.constants.items():
            type_ = infer(value)
            plain = type_ is not None and not _has_class(type_) and type_ != T.TENSOR
            if plain and name.isidentifier() and name not in kind.attributes and value is not None:
                written = default_text(value, type_, text)
                yield f"  {name} : Final[{type_.code}] = {written}\n"


def _has_class(kind):
    named = isinstance(kind, (T.ClassType, T.EnumType)) or bool(getattr(kind, "name", ""))
    return named or any(map(_has_class, kind.parts))


# -- pickle ----------------------------------------------------------------------------------------


class _Pickle:
    """A pickle of a module's state, in the few opcodes that PyTorch's reader knows."""

    def __init__(self) -> None:
        self.out = bytearray(b"\x80\x02")
        self.memo: dict[int, int] = {}
        self.kept: list[Any] = []  # an id is an object's own as long as the object lives
        self.storages = Storages()

    def finished(self) -> bytes:
        return bytes(self.out) + b"."

    def _remember(self, obj):
        number = len(self.memo)
        self.memo[id(obj)] = number
        self.kept.append(obj)
        self.out += b"q" + bytes([number]) if number < 256 else b"r" + struct.pack("<I", number)

    def _again(self, obj):
        number = self.memo.get(id(obj))
        if number is None:
            return False
        self.out += b"h" + bytes([number]) if number < 256 else b"j" + struct.pack("<I", number)
        return True

    def name(self, space: str, name: str) -> None:
        self.out += f"c{space}\n{name}\n".encode()

    def text(self, text: str) -> None:
        data = text.encode("utf-8", "surrogatepass")
        self.out += b"X" + struct.pack("<I", len(data)) + data

    def integer(self, number: int) -> None:
        if 0 <= number < 256:
            self.out += b"K" + bytes([number])
        elif -(2**31) <= number < 2**31:
            self.out += b"J" + struct.pack("<i", number)
        else:
            self.out += b"\x8a\x08" + struct.pack("<q", number)

    def tuple_of(self, items: Any) -> None:
        if not items:
            self.out += b")"
            return
        self.out += b"("
        for item in items:
            self.plain(item)
        self.out += b"t"

    def plain(self, value: Any) -> None:
        """A value whose type follows from itself."""
        if value is None:
            self.out += b"N"
        elif isinstance(value, bool):
            self.out += b"\x88" if value else b"\x89"
        elif isinstance(value, int):
            self.integer(value)
        elif isinstance(value, float):
            self.out += b"G" + struct.pack(">d", value)
        elif isinstance(value, str):
            self.text(value)
        elif isinstance(value, Tensor):
            self.tensor(value)
        elif isinstance(value, device):
            self.name("torch", "device")
            self.tuple_of((str(value),))
            self.out += b"R"
        elif isinstance(value, tuple):
            self.tuple_of(value)
        else:
            raise RuntimeError(f"Cannot serialize a value of type {type(value).__name__}")

    def tensor(self, tensor: Tensor) -> None:
        if self._again(tensor):
            return
        found = tensor.detach()
        dtype = found.dtype
        if dtype not in KINDS:
            raise RuntimeError(f"Cannot serialize a tensor of {dtype}")
        key, root = self.storages.numbered(found._storage, found.device)
        self.name("torch._utils", "_rebuild_tensor_v2")
        self.out += b"(("
        self.text("storage")
        kind = KINDS[dtype]
        self.name(kind.module, kind.name)
        self.text(key)
        self.text(str(found.device))
        self.integer(root.nbytes // dtype.itemsize)
        self.out += b"tQ"
        self.integer(found.storage_offset())
        self.tuple_of(tuple(found.shape))
        self.tuple_of(tuple(found.stride()))
        self.plain(bool(tensor.requires_grad))
        self.name("collections", "OrderedDict")
        self.out += b")RtR"
        self._remember(tensor)

    def typed(self, value: Any, kind: T.Type) -> None:
        """A value of a type; containers say theirs."""
        if isinstance(kind, T.OptionalOf) and value is not None:
            kind = kind.part
        if isinstance(kind, (T.ListOf, T.DictOf)):
            self.name("torch.jit._pickle", "restore_type_tag")
            self._container(value, kind)
            self.text(kind.code)
            self.out += b"\x86R"
        elif isinstance(kind, T.TupleOf):
            self._tuple(value, kind)
        elif isinstance(kind, T.EnumType):
            space, _, name = kind.name.rpartition(".")
            self.name(space, name)
            self.plain(value.value)
            self.out += b"R"
        elif isinstance(kind, T.ClassType) and value is not None:
            self.module(value) if kind.is_module or hasattr(value, "_modules") else self.object(
                value
            )
        elif kind == T.FLOAT and isinstance(value, int):
            self.plain(float(value))
        elif isinstance(value, _dtype.dtype):
            from flambeau.jit.numbering import DTYPES

            self.integer(DTYPES[value])
        else:
            self.plain(value)

    def _tuple(self, value, kind):
        if kind.name:
            space, _, name = kind.name.rpartition(".")
            self.name(space, name)
        self.out += b"("
        for item, part in zip(value, kind.parts):
            self.typed(item, part)
        self.out += b"t"
        if kind.name:
            self.out += b"R"

    def _container(self, value, kind):
        if isinstance(kind, T.ListOf):
            self.out += b"]("
            for item in value:
                self.typed(item, kind.part)
            self.out += b"e"
        else:
            self.out += b"}("
            for key, item in value.items():
                self.typed(key, kind.parts[0])
                self.typed(item, kind.parts[1])
            self.out += b"u"

    def module(self, module: Any) -> None:
        self.object(module)

    def object(self, found: Any) -> None:
        """A module, or an object of a scripted class: its class and its attributes."""
        if self._again(found):
            return
        kind = found._type
        space, _, name = kind.name.rpartition(".")
        self.name(space, name)
        self.out += b")\x81}("
        for attribute, type_ in kind.attributes.items():
            self.text(attribute)
            self.typed(getattr(found, attribute, None), type_)
        self.out += b"ub"
        self._remember(found)
