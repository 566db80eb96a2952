"""The tools of a compiler: constants, conversions, calls of ops, attributes and items."""

import ast
import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from flambeau._device import device
from flambeau._tensor import Tensor
from flambeau.jit import types as T
from flambeau.jit.environment import Frame
from flambeau.jit.ir import Block, Graph, Value
from flambeau.jit.matching import NoMatch, match, no_overload
from flambeau.jit.places import CompileError, Place, Source
from flambeau.jit.schemas import overloads
from flambeau.jit.sugar import BoundMethod, Builtin, ListOfTensor, ModuleSugar, Sugar, TupleSugar

# attributes of tensors that are ops
_TENSOR_ATTRIBUTES = {
    **{name: "prim::" + name for name in
       "dtype device grad data is_cuda is_cpu is_xpu is_sparse is_sparse_csr is_mkldnn is_mps "
       "is_vulkan is_ipu is_maia is_meta is_quantized requires_grad layout name itemsize nbytes "
       "names is_nested is_mtia is_hpu".split()},
    "shape": "aten::size",
    "T": "aten::numpy_T",
    "H": "aten::matrix_H",
    "mT": "aten::mT",
    "mH": "aten::mH",
    "ndim": "aten::dim",
    "real": "aten::real",
    "imag": "aten::imag",
    "is_leaf": "aten::is_leaf",
    "output_nr": "aten::output_nr",
}  # fmt: skip
# methods that PyTorch writes in TorchScript itself
_CASTS = {"float": 6, "double": 7, "half": 5, "int": 3, "long": 4, "short": 2, "char": 1, "byte": 0,
          "bool": 11, "bfloat16": 15, "cfloat": 9, "cdouble": 10}  # fmt: skip


def type_of_constant(value: Any) -> T.Type | None:
    """The type of a Python value that can stand in a program."""
    if value is None:
        return T.NONE
    plain = {bool: T.BOOL, int: T.INT, float: T.FLOAT, str: T.STR, complex: T.COMPLEX}
    if type(value) in plain:
        return plain[type(value)]
    if isinstance(value, Tensor):
        return T.TENSOR
    if isinstance(value, device):
        return T.DEVICE
    return None


class Building:
    """What all parts of a compiler use; it stands in one block of one graph."""

    reads_numbers = True  # a tensor may be given where a number is wanted
    graph: Graph
    frame: Frame
    source: Source
    resolver: Any
    loops: list[str]
    declared_return: T.Type | None
    return_type: T.Type | None
    within: Callable
    assign: Callable
    refine: Callable
    emit: Callable
    emit_value: Callable

    def at(self, node: Any) -> Place:
        """Where something stands in the source."""
        return self.source.at(node)

    # -- values ------------------------------------------------------------------------------
    def value_of(self, found: Any, place: Any) -> Value:
        """Something as a value."""
        return found if isinstance(found, Value) else found.as_value(self, place)

    def constant(self, value: Any, place: Any = None) -> Value:
        kind = type_of_constant(value)
        if kind is None:
            raise CompileError(f"{type(value).__name__} cannot be a constant", place)
        node = self.frame.block.add("prim::Constant", [], place)
        node.attributes["value"] = value
        return node.add_output(kind)

    def none(self, place: Any) -> Value:
        return self.constant(None, place)

    def uninitialized(self, kind: T.Type, block: Block) -> Value:
        return block.add("prim::Uninitialized").add_output(kind)

    def node(self, op: str, ins: list, kind: T.Type, place: Any, **attributes: Any) -> Value:
        """A node with one result."""
        node = self.frame.block.add(op, ins, place)
        node.attributes.update(attributes)
        return node.add_output(kind)

    def in_block(self, function: Callable, value: Value, kind: T.Type, frame: Frame) -> Any:
        """Call one of these functions so that it emits into a frame's block."""
        saved, self.frame = self.frame, frame
        try:
            return function(value, kind)
        finally:
            self.frame = saved

    @contextlib.contextmanager
    def own_names(self) -> Iterator[None]:
        """Variables that are forgotten afterwards, in the same block."""
        saved = self.frame
        self.frame = Frame(saved.block, saved)
        try:
            yield
        finally:
            self.frame = saved

    def cast_unchecked(self, value: Value, kind: T.Type, name: str = "") -> Value:
        made = self.node("prim::unchecked_cast", [value], kind, None)
        made.name = name
        return made

    def widened(self, value: Value, kind: T.Type) -> Value:
        """A value where a wider type is wanted: empty containers and None learn their type."""
        if value.type_ == kind:
            return value
        node = value.node
        if node.attributes.get("_open"):
            if isinstance(kind, T.OptionalOf):
                kind = kind.part
            if type(kind) is type(value.type_):
                value.type_ = kind
                del node.attributes["_open"]
        return value

    def list_of(self, values: list[Value], place: Any, inner: T.Type | None = None) -> Value:
        """A list; its items have one type. What an empty one holds may be learnt later."""
        is_open = inner is None and not values
        if inner is None:
            inner = values[0].type_ if values else T.TENSOR
            for value in values[1:]:
                both = T.unify(inner, value.type_)
                if both is None:
                    both = T.union([inner, value.type_])
                inner = both
        values = [self.converted(value, inner, place) for value in values]
        made = self.node("prim::ListConstruct", values, T.ListOf(inner), place)
        if is_open:
            made.node.attributes["_open"] = True
        return made

    def dict_of(self, keys: list, values: list, place: Any, kind: T.DictOf | None) -> Value:
        is_open = kind is None and not keys
        if kind is None:
            key = keys[0].type_ if keys else T.STR
            inner = values[0].type_ if values else T.TENSOR
            for value in values[1:]:
                inner = T.unify(inner, value.type_) or T.union([inner, value.type_])
            kind = T.DictOf(key, inner)
        for value in values:
            self.widened(value, kind.parts[1])
        for value in [*keys, *values]:
            wanted = kind.parts[0] if value in keys else kind.parts[1]
            if not T.is_subtype(value.type_, wanted):
                raise CompileError(
                    f"Dict type annotation `{kind.code}` did not match the type of an actual "
                    f"value type `{value.type_.code}`",
                    place,
                )
        items = [v for pair in zip(keys, values) for v in pair]
        made = self.node("prim::DictConstruct", items, kind, place)
        if is_open:
            made.node.attributes["_open"] = True
        return made

    def tuple_of(self, parts: list, place: Any, names: tuple[str, ...] = ()) -> Value:
        values = [self.value_of(part, place) for part in parts]
        kind = T.TupleOf(*[v.type_ for v in values], fields=names)
        return self.node("prim::TupleConstruct", values, kind, place)

    def unpacked(self, found: Any, place: Any, count: int | None = None) -> list:
        """The parts of a tuple, a list or what else can be unpacked."""
        if isinstance(found, Sugar):
            parts = found.unpack(self, place, count)
            if parts is not None:
                return parts
        value = self.value_of(found, place)
        if value.node.op == "prim::TupleConstruct" and value.node.block is self.frame.block:
            return list(value.node.ins)
        if isinstance(value.type_, T.TupleOf):
            node = self.frame.block.add("prim::TupleUnpack", [value], place)
            return [node.add_output(part) for part in value.type_.parts]
        if isinstance(value.type_, T.ListOf) and count is not None:
            node = self.frame.block.add("prim::ListUnpack", [value], place)
            return [node.add_output(value.type_.part) for _ in range(count)]
        if value.type_ == T.TENSOR and count is not None:
            pieces = self.value_of(self.builtin("aten::unbind", place, [value]), place)
            node = self.frame.block.add("prim::ListUnpack", [pieces], place)
            return [node.add_output(T.TENSOR) for _ in range(count)]
        if isinstance(value.type_, T.ListOf):
            raise CompileError("cannot statically infer the expected size of a list in this "
                               "context", place)  # fmt: skip
        raise CompileError(f"'{value.type_}' object cannot be used as a tuple", place)

    # -- conversions -------------------------------------------------------------------------
    def as_bool(self, value: Value, place: Any) -> Value:
        """What `if value` asks."""
        if value.type_ == T.BOOL:
            return value
        if isinstance(value.type_, T.ClassType):
            return self.value_of(self.call_method(value, "__bool__", [], {}, place), place)
        try:
            return self.value_of(self.builtin("aten::Bool", place, [value]), place)
        except CompileError:
            raise CompileError(f"Could not cast value of type {value.type_.code} to bool",
                               place) from None  # fmt: skip

    def converted(self, value: Value, kind: T.Type, place: Any) -> Value:
        """A value as another type, or an error."""
        self.widened(value, kind)
        if T.is_subtype(value.type_, kind):
            return value
        if isinstance(value.type_, T.TupleOf) and isinstance(kind, T.TupleOf):
            parts = self.unpacked(value, place)
            if len(parts) == len(kind.parts):
                parts = [self.converted(p, k, place) for p, k in zip(parts, kind.parts)]
                return self.node("prim::TupleConstruct", parts, kind, place)
        raise CompileError(
            f"Variable annotated with type {kind.code} is being assigned a value of type "
            f"{value.type_.code}",
            place,
        )

    def converted_return(self, value: Value, kind: T.Type, place: Any) -> Value:
        """What a function returns, as the type it says."""
        if value.type_ == T.TENSOR and kind in (T.INT, T.FLOAT, T.NUMBER):
            names = {T.INT: "IntImplicit", T.FLOAT: "FloatImplicit", T.NUMBER: "ScalarImplicit"}
            return self.node("aten::" + names[kind], [value], kind, place)
        try:
            return self.converted(value, kind, place)
        except CompileError:
            raise CompileError(
                f"Return value was annotated as having type {kind.code} but is actually of type "
                f"{value.type_.code}",
                place,
            ) from None

    # -- calls -------------------------------------------------------------------------------
    def builtin(
        self, name: str, place: Any, args: list, kwargs: dict[str, Any] | None = None
    ) -> Any:
        """A call of an op: the overload that fits."""
        kwargs = kwargs or {}
        schemas = overloads(name)
        if not schemas:
            raise CompileError(f"Unknown builtin op: {name}", place)
        args = [self.value_of(a, place) for a in args]
        kwargs = {k: self.value_of(v, place) for k, v in kwargs.items()}
        target = kwargs.pop("out", None)
        if target is not None and target.type_ != T.NONE:
            made = self.value_of(self.builtin(name, place, args, kwargs), place)
            return self.builtin("aten::copy_", place, [target, made])
        reasons = []
        for converting in (False, True):
            for schema in schemas:
                try:
                    found = match(self, schema, args, kwargs, place, converting)
                except NoMatch as reason:
                    reasons.append((schema, str(reason)))
                    continue
                return self._called(name, schema, *found, place)
        raise CompileError(no_overload(name, reasons, args, kwargs), place)

    def _called(self, name, schema, values, returns, place):
        node = self.frame.block.add(name, values, place)
        node.schema_ = schema
        for kind in returns:
            node.add_output(kind)
        if len(node.outs) == 1:
            return node.outs[0]
        if not node.outs:
            return TupleSugar([], is_none=True)
        return TupleSugar(list(node.outs), names=schema.return_names)

    def call_function(self, function: Any, args: list, kwargs: dict, place: Any) -> Any:
        """A call of another function of the program."""
        values, returns = self._matched(function, args, kwargs, place)
        target = self.frame.block.add("prim::Constant", [], place)
        target.attributes["value"] = function
        constant = target.add_output(T.FUNCTION)
        return self.node("prim::CallFunction", [constant, *values], returns[0], place)

    def call_method(self, value: Value, name: str, args: list, kwargs: dict, place: Any) -> Any:
        """A call of a method of a class of the program."""
        kind = value.type_
        assert isinstance(kind, T.ClassType)
        method = kind.method(name)
        if method is None:
            raise CompileError(f"Tried to access nonexistent attribute or method '{name}' of type "
                               f"'{kind.code}'.", place)  # fmt: skip
        own = [] if name in kind.static else [value]
        values, returns = self._matched(method, [*own, *args], kwargs, place)
        if name in kind.static:
            return self.call_function(method, args, kwargs, place)
        return self.node("prim::CallMethod", values, returns[0], place, name=name)

    def _matched(self, function, args, kwargs, place):
        schema = function.schema
        if schema is None:
            raise CompileError(
                f"function '{function.name}' is called recursively. Recursive calls are not "
                "supported",
                place,
            )
        args = [self.value_of(a, place) for a in args]
        kwargs = {k: self.value_of(v, place) for k, v in kwargs.items()}
        reason = ""
        for converting in (False, True):
            try:
                return match(self, schema, args, kwargs, place, converting)
            except NoMatch as found:
                reason = str(found)
        raise CompileError(f"\n{schema}:\n{reason}\n", place)

    # -- attributes --------------------------------------------------------------------------
    def attribute(self, value: Value, name: str, place: Any) -> Any:
        """value.name"""
        kind = value.type_
        if isinstance(kind, T.ClassType):
            return self.class_attribute(value, kind, name, place)
        if kind == T.TENSOR:
            if name in _TENSOR_ATTRIBUTES:
                return self.builtin(_TENSOR_ATTRIBUTES[name], place, [value])
            if name in _CASTS:
                return BoundMethod(self._cast, value, _CASTS[name])
            if name == "tolist":
                return ListOfTensor(value)
            if name == "type":
                return Builtin("aten::to", value)
        if isinstance(kind, T.TupleOf) and name in kind.fields:
            index = self.constant(kind.fields.index(name), place)
            part = kind.parts[kind.fields.index(name)]
            return self.node("prim::TupleIndex", [value, index], part, place)
        if isinstance(kind, T.EnumType) and name in ("name", "value"):
            made = T.STR if name == "name" else kind.value_type
            return self.node(f"prim::Enum{name.capitalize()}", [value], made, place)
        if kind == T.DEVICE and name in ("type", "index"):
            return self.builtin(f"prim::{name}", place, [value])
        if isinstance(kind, T.FutureOf) and name == "wait":
            return BoundMethod(self._wait, value, None)
        if overloads("aten::" + name):
            return Builtin("aten::" + name, value)
        if overloads("prim::" + name) and kind == T.TENSOR:
            return self.builtin("prim::" + name, place, [value])
        raise CompileError(
            f"'{kind.code}' object has no attribute or method '{name}'.",
            place,
        )

    def _cast(self, value, number, args, kwargs, place):
        return self.builtin("aten::to", place, [value, self.constant(number, place)])

    def _wait(self, value, _, args, kwargs, place):
        return self.node("aten::wait", [value], value.type_.part, place)

    def class_attribute(self, value: Value, kind: T.ClassType, name: str, place: Any) -> Any:
        """An attribute, a constant, a property or a method of a class of the program."""
        if name in kind.attributes:
            made = self.node("prim::GetAttr", [value], kind.attributes[name], None, name=name)
            made.name = name if not name.isdigit() else "_" + name
            inner = made.type_
            if isinstance(inner, T.ClassType) and inner.is_module and not inner.is_interface:
                return ModuleSugar(made, inner)
            return made
        if name in kind.constants:
            return self.resolver.wrap(self, kind.constants[name], place)
        if name in kind.properties:
            return self.call_method(value, kind.properties[name][0], [], {}, place)
        if kind.method(name) is not None:
            return BoundMethod(self._call_own, value, name)
        raise CompileError(f"Tried to access nonexistent attribute or method '{name}' of type "
                           f"'{kind.code}'. Did you forget to initialize an attribute in "
                           "__init__()?", place)  # fmt: skip

    def _call_own(self, value, name, args, kwargs, place):
        return self.call_method(value, name, args, kwargs, place)

    def set_attribute(self, target: ast.Attribute, value: Any, place: Any) -> None:
        """target.name = value"""
        base = self.emit(target.value)
        owner = self.value_of(base, place)
        kind, name = owner.type_, target.attr
        if not isinstance(kind, T.ClassType):
            raise CompileError("Tried to set an attribute on something that is no object of a "
                               "class", place)  # fmt: skip
        found = self.value_of(value, place)
        if name in kind.properties and kind.properties[name][1]:
            self.call_method(owner, kind.properties[name][1] or "", [found], {}, place)
            return
        if name not in kind.attributes:
            if not kind.is_module and self.resolver.defines(kind):
                kind.attributes[name] = self.resolver.attribute_type(kind, name) or found.type_
            else:
                raise CompileError(f"Tried to set nonexistent attribute: {name}. Did you forget to "
                                   "initialize it in __init__()?", place)  # fmt: skip
        wanted = kind.attributes[name]
        self.widened(found, wanted)
        if not T.is_subtype(found.type_, wanted):
            raise CompileError(
                f"Wrong type for attribute assignment. Expected {wanted.code} but got "
                f"{found.type_.code}",
                place,
            )
        node = self.frame.block.add("prim::SetAttr", [owner, found], place)
        node.attributes["name"] = name

    def entered_type(self, context: Value, place: Any) -> T.Type:
        """The type of what `with context as name` gives."""
        kind = context.type_
        if not isinstance(kind, T.ClassType):
            raise CompileError("With item must be an object", place)
        method = kind.method("__enter__")
        return T.NONE if method is None else method.schema.result
