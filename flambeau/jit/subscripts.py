"""Items: of tuples, lists and dictionaries, and what an index does to a tensor."""

import ast
from typing import Any

from flambeau.jit import types as T
from flambeau.jit.building import Building
from flambeau.jit.ir import Value
from flambeau.jit.places import CompileError, UnsupportedNodeError
from flambeau.jit.sugar import TupleSugar


class Subscripts(Building):
    """The part of a compiler that knows square brackets."""

    def get_item(self, base: Any, index: ast.expr, place: Any) -> Any:
        """base[index]"""
        if isinstance(base, TupleSugar) and not base.is_none:
            found = base.item(self, index, place)
            if found is not None:
                return found
        value = self.value_of(base, place)
        kind = value.type_
        if kind == T.TENSOR:
            return self.tensor_item(value, index, place)
        if isinstance(kind, T.TupleOf):
            return self._tuple_item(value, kind, index, place)
        if isinstance(index, ast.Slice):
            return self.sliced(value, index, place)
        if isinstance(kind, T.ClassType):
            return self.call_method(value, "__getitem__", [self.emit(index)], {}, place)
        return self.builtin("aten::__getitem__", place, [value, self.emit_value(index)])

    def _tuple_item(self, value, kind, index, place):
        if isinstance(index, ast.Slice):
            parts = self.unpacked(value, place)
            return TupleSugar(parts[slice(*map(self._static_bound, _bounds(index)))])
        found = self.emit_value(index)
        if found.node.op != "prim::Constant" or not isinstance(found.node.attributes["value"], int):
            raise CompileError(
                f"Cannot index into a {kind.code} with a non-integer literal because we cannot "
                "resolve the output type",
                place,
            )
        number = found.node.attributes["value"]
        if not -len(kind.parts) <= number < len(kind.parts):
            raise CompileError("Tuple index out of range", place)
        return self.node("prim::TupleIndex", [value, found], kind.parts[number], place)

    def _static_bound(self, node):
        if node is None:
            return None
        value = self.emit_value(node)
        if value.node.op != "prim::Constant":
            raise CompileError("slices of tuples have constant bounds", self.at(node))
        return value.node.attributes["value"]

    def sliced(self, value: Value, index: ast.Slice, place: Any) -> Any:
        """A slice of a list or a string."""
        bounds = [self.none(place) if b is None else self.emit_value(b) for b in _bounds(index)]
        if index.step is None:
            bounds[2] = self.constant(1, place)
        return self.builtin("aten::slice", place, [value, *bounds])

    def tensor_item(self, value: Value, index: ast.expr, place: Any) -> Value:
        """A tensor's item: a chain of selections, slices and new dimensions, then an index."""
        items = index.elts if isinstance(index, ast.Tuple) else [index]
        taken, indices = self._basic_items(value, items, place)
        if not any(i is not None for i in indices):
            return taken
        given = [self.none(place) if i is None else i for i in indices]
        listed = self.node("prim::ListConstruct", given, T.ListOf(T.OptionalOf(T.TENSOR)), place)
        return self.value_of(self.builtin("aten::index", place, [taken, listed]), place)

    def _basic_items(self, value, items, place):
        """(the tensor after all plain items, tensors that index its dimensions)"""
        written = [self._index_kind(item) for item in items]
        indices: list[Value | None] = []
        dim, after_dots = 0, False
        for k, found in enumerate(written):
            if found is ...:
                after_dots = True
                continue
            if after_dots:  # from here on dimensions are counted from the last
                dim = -sum(not _is_none(f) for f in written[k:]) - _is_none(found)
            at = self.constant(dim, place)
            if isinstance(found, ast.Slice):
                value, dim = self._slice_dim(value, at, found, place), dim + 1
                indices.append(None)
            elif _is_none(found):
                value = self.value_of(self.builtin("aten::unsqueeze", place, [value, at]), place)
                dim += 1
                indices.append(None)
            elif found.type_ == T.INT:
                value = self.value_of(
                    self.builtin("aten::select", place, [value, at, found]), place
                )
            elif found.type_ == T.TENSOR or isinstance(found.type_, T.ListOf):
                if found.type_ != T.TENSOR:
                    found = self.value_of(self.builtin("aten::tensor", place, [found]), place)
                indices.append(found)
                dim += 1
            else:
                raise CompileError(
                    "Unsupported operation: indexing tensor with unsupported index type "
                    f"'{found.type_.code}'. Only ints, slices, lists and tensors are supported",
                    place,
                )
        if after_dots and any(i is not None for i in indices):
            if written[0] is not ... or len(written) != 2:
                raise CompileError("an ellipsis beside indices of tensors isn't supported", place)
            ends = [self.constant(-1, place), self.constant(0, place)]
            moved = self.value_of(self.builtin("aten::movedim", place, [value, *ends]), place)
            return self._moved_index(moved, indices[-1], place), [None]
        return value, indices

    def _moved_index(self, value, index, place):
        """x[..., i]: the last dimension is taken first, and put back."""
        listed = self.node("prim::ListConstruct", [index], T.ListOf(T.OptionalOf(T.TENSOR)), place)
        taken = self.value_of(self.builtin("aten::index", place, [value, listed]), place)
        ends = [self.constant(0, place), self.constant(-1, place)]
        return self.value_of(self.builtin("aten::movedim", place, [taken, *ends]), place)

    def _index_kind(self, item):
        if isinstance(item, ast.Slice):
            return item
        if isinstance(item, ast.Constant) and item.value is ...:
            return ...
        return self.emit_value(item)

    def _slice_dim(self, value, dim, found, place):
        start, stop, step = _bounds(found)
        given = [self.none(place) if b is None else self.emit_value(b) for b in (start, stop)]
        pace = self.constant(1, place) if step is None else self.emit_value(step)
        return self.value_of(self.builtin("aten::slice", place, [value, dim, *given, pace]), place)

    def set_item(self, target: ast.Subscript, value: Any, place: Any) -> None:
        """target[index] = value"""
        base = self.value_of(self.emit(target.value), place)
        found = self.value_of(value, place)
        kind = base.type_
        if kind == T.TENSOR:
            self._set_tensor_item(base, target.slice, found, place)
        elif isinstance(kind, T.ClassType):
            self.call_method(base, "__setitem__", [self.emit(target.slice), found], {}, place)
        elif isinstance(target.slice, ast.Slice):
            raise UnsupportedNodeError(place, "assigning to a slice of a list isn't supported")
        else:
            index = self.emit_value(target.slice)
            inner = kind.parts[-1] if kind.parts else found.type_
            self.widened(found, inner)
            self.builtin("aten::_set_item", place, [base, index, found])

    def _set_tensor_item(self, base, index, value, place):
        items = index.elts if isinstance(index, ast.Tuple) else [index]
        taken, indices = self._basic_items(base, items, place)
        if not any(i is not None for i in indices):
            name = "aten::copy_" if value.type_ == T.TENSOR else "aten::fill_"
            self.builtin(name, place, [taken, value])
            return
        if value.type_ != T.TENSOR:
            dtype = self.value_of(self.builtin("prim::dtype", place, [base]), place)
            where = self.value_of(self.builtin("prim::device", place, [base]), place)
            made = self.builtin("aten::tensor", place, [value], {"dtype": dtype, "device": where})
            value = self.value_of(made, place)
        given = [self.none(place) if i is None else i for i in indices]
        listed = self.node("prim::ListConstruct", given, T.ListOf(T.OptionalOf(T.TENSOR)), place)
        self.builtin("aten::index_put_", place, [taken, listed, value])


def _is_none(found):
    return isinstance(found, Value) and found.type_ == T.NONE


def _bounds(node):
    return node.lower, node.upper, node.step
