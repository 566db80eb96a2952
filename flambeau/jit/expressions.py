"""From Python's expressions to nodes: operators, conditions, literals, indices, comprehensions."""

import ast
from typing import Any

from flambeau.jit import types as T
from flambeau.jit.environment import Frame, Refinement, check_defined
from flambeau.jit.ir import Value
from flambeau.jit.places import CompileError, NotSupportedError, UnsupportedNodeError
from flambeau.jit.subscripts import Subscripts
from flambeau.jit.sugar import SPECIAL_CONDITIONS, Sugar, TupleSugar, iterable_of, special_name

_BINARY = {ast.Add: "aten::add", ast.Sub: "aten::sub", ast.Mult: "aten::mul", ast.Div: "aten::div",
           ast.FloorDiv: "aten::floordiv", ast.Mod: "aten::remainder", ast.Pow: "aten::pow",
           ast.MatMult: "aten::matmul", ast.BitAnd: "aten::__and__", ast.BitOr: "aten::__or__",
           ast.BitXor: "aten::__xor__", ast.LShift: "aten::__lshift__",
           ast.RShift: "aten::__rshift__"}  # fmt: skip
_SPOKEN = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.Mod: "mod",
           ast.FloorDiv: "floordiv", ast.Pow: "pow", ast.MatMult: "matmul", ast.BitAnd: "and",
           ast.BitOr: "or", ast.BitXor: "xor", ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt",
           ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge"}  # fmt: skip
_COMPARE = {ast.Eq: "aten::eq", ast.NotEq: "aten::ne", ast.Lt: "aten::lt", ast.LtE: "aten::le",
            ast.Gt: "aten::gt", ast.GtE: "aten::ge", ast.Is: "aten::__is__",
            ast.IsNot: "aten::__isnot__", ast.In: "aten::__contains__"}  # fmt: skip
_SWAPPED = {"aten::lt": "aten::gt", "aten::gt": "aten::lt", "aten::le": "aten::ge",
            "aten::ge": "aten::le", "aten::eq": "aten::eq", "aten::ne": "aten::ne",
            "aten::add": "aten::add", "aten::mul": "aten::mul"}  # fmt: skip
_UNARY = {ast.USub: "aten::neg", ast.UAdd: None, ast.Invert: "aten::bitwise_not"}


class Expressions(Subscripts):
    """The part of a compiler that knows expressions."""

    def emit(self, node: ast.expr, hint: T.Type | None = None) -> Any:
        """A value, or something that becomes one; hint is the type it should have."""
        method = getattr(self, "_on_" + type(node).__name__.lower(), None)
        if method is None:
            raise UnsupportedNodeError(self.at(node), f"{type(node).__name__} aren't supported")
        return method(node, hint)

    def emit_value(self, node: ast.expr, hint: T.Type | None = None) -> Value:
        return self.value_of(self.emit(node, hint), self.at(node))

    # -- names and literals ------------------------------------------------------------------
    def _on_name(self, node, hint):
        place = self.at(node)
        found = check_defined(node.id, self.frame.find(node.id), place)
        if found is None:
            found = self.resolver.name(self, node.id, place)
        if found is None:
            raise CompileError(f"undefined value {node.id}", place)
        return found

    def _on_constant(self, node, hint):
        if node.value is ... or isinstance(node.value, bytes):
            raise UnsupportedNodeError(self.at(node), f"{type(node.value).__name__} constants "
                                       "aren't supported")  # fmt: skip
        if type(node.value) is int and not -(2**63) <= node.value < 2**63:
            raise CompileError("Integral constant is out of range", self.at(node))
        return self.constant(node.value, self.at(node))

    def _on_joinedstr(self, node, hint):
        place, text, values = self.at(node), "", []
        for part in node.values:
            if isinstance(part, ast.Constant):
                text += part.value.replace("{", "{{").replace("}", "}}")
                continue
            if part.conversion != -1 or part.format_spec is not None:
                raise NotSupportedError(place, "Don't support conversion or format specifiers in "
                                        "JoinedStr")  # fmt: skip
            text += "{}"
            values.append(self.emit_value(part.value))
        return self.builtin("aten::format", place, [self.constant(text, place), *values])

    def _on_tuple(self, node, hint):
        inner: tuple = ()
        if isinstance(hint, T.OptionalOf):
            hint = hint.part
        if isinstance(hint, T.TupleOf):
            inner = hint.parts
        parts: list = []
        for k, part in enumerate(node.elts):
            if isinstance(part, ast.Starred):
                parts.extend(self.unpacked(self.emit(part.value), self.at(part), None))
            else:
                parts.append(self.emit(part, inner[k] if k < len(inner) else None))
        return TupleSugar(parts)

    def _on_list(self, node, hint):
        if isinstance(hint, T.OptionalOf):
            hint = hint.part
        inner = hint.part if isinstance(hint, T.ListOf) else None
        place = self.at(node)
        whole: Value | None = None  # lists that are put together
        values: list[Value] = []
        for part in node.elts:
            if not isinstance(part, ast.Starred):
                values.append(self.emit_value(part, inner))
                continue
            found = self.emit(part.value)
            if isinstance(found, Value) and isinstance(found.type_, T.ListOf):
                whole = self._joined_lists(whole, values, found, place)
                values = []
            else:
                items = self.unpacked(found, self.at(part), None)
                values.extend(self.value_of(item, self.at(part)) for item in items)
        if whole is None:
            return self.list_of(values, place, inner)
        return self._joined_lists(whole, values, None, place)

    def _joined_lists(self, whole, values, last, place):
        """whole + values + last, of which some may be missing."""
        middle = self.list_of(values, place) if values else None
        parts = [p for p in (whole, middle, last) if p is not None]
        for part in parts[1:]:
            joined = self.builtin("aten::add", place, [parts[0], part])
            parts[0] = self.value_of(joined, place)
        return parts[0]

    def _on_dict(self, node, hint):
        place = self.at(node)
        if isinstance(hint, T.OptionalOf):
            hint = hint.part
        keys, values = [], []
        inner = hint.parts if isinstance(hint, T.DictOf) else (None, None)
        for key, value in zip(node.keys, node.values):
            if key is None:
                raise UnsupportedNodeError(place, "** in a dictionary isn't supported")
            keys.append(self.emit_value(key, inner[0]))
            values.append(self.emit_value(value, inner[1]))
        return self.dict_of(keys, values, place, hint if isinstance(hint, T.DictOf) else None)

    # -- operators ---------------------------------------------------------------------------
    def _on_binop(self, node, hint):
        place = self.at(node)
        left = self.emit(node.left, hint if isinstance(hint, T.ListOf) else None)
        if isinstance(node.op, ast.Mod):
            value = self.value_of(left, place)
            if value.type_ == T.STR:
                return self.builtin("aten::percentFormat", place, [value, self.emit(node.right)])
            left = value
        right = self.emit(node.right, hint if isinstance(hint, T.ListOf) else None)
        return self.binary(type(node.op), left, right, place)

    def binary(self, op: type, left: Any, right: Any, place: Any) -> Any:
        """left op right."""
        if isinstance(left, TupleSugar) or isinstance(right, TupleSugar):
            parts = [self.unpacked(side, place, None) for side in (left, right)]
            if op is ast.Add:
                return TupleSugar([*parts[0], *parts[1]])
        a, b = self.value_of(left, place), self.value_of(right, place)
        if op not in _BINARY:
            raise UnsupportedNodeError(place, f"unsupported binary operator: {op.__name__}")
        found = self._by_class(op, a, b, place)
        if found is not None:
            return found
        if isinstance(a.type_, T.TupleOf) and isinstance(b.type_, T.TupleOf) and op is ast.Add:
            return TupleSugar([*self.unpacked(a, place), *self.unpacked(b, place)])
        tensor = T.TENSOR in (a.type_, b.type_)
        name = _BINARY[op]
        if op is ast.FloorDiv and tensor:
            name = "aten::floor_divide"
        if b.type_ == T.TENSOR and a.type_ in (T.INT, T.FLOAT, T.BOOL, T.COMPLEX, T.NUMBER):
            return self._reflected(name, a, b, place)
        return self.builtin(name, place, [a, b])

    def _reflected(self, name, number, tensor, place):
        """number op tensor"""
        if name in _SWAPPED:
            return self.builtin(_SWAPPED[name], place, [tensor, number])
        if name == "aten::sub":
            turned = self.value_of(self.builtin("aten::neg", place, [tensor]), place)
            return self.builtin("aten::add", place, [turned, number])
        if name == "aten::div":
            turned = self.value_of(self.builtin("aten::reciprocal", place, [tensor]), place)
            return self.builtin("aten::mul", place, [turned, number])
        return self.builtin(name, place, [number, tensor])

    def _by_class(self, op, a, b, place):
        """An operator that a class of the program defines."""
        for value, other, prefix in ((a, b, "__"), (b, a, "__r")):
            if isinstance(value.type_, T.ClassType) and op in _SPOKEN:
                name = f"{prefix}{_SPOKEN[op]}__"
                if value.type_.method(name) is not None:
                    return self.call_method(value, name, [other], {}, place)
        return None

    def _on_unaryop(self, node, hint):
        place = self.at(node)
        if isinstance(node.op, ast.Not):
            static, value, _ = self.condition(node)
            return value if static is None else self.constant(static, place)
        if isinstance(node.operand, ast.Constant) and isinstance(node.op, ast.USub):
            number = node.operand.value
            if type(number) in (int, float, complex):
                return self.constant(-number, place)
        value = self.emit_value(node.operand)
        if isinstance(value.type_, T.ClassType):
            names = {ast.USub: "__neg__", ast.UAdd: "__pos__", ast.Invert: "__invert__"}
            return self.call_method(value, names[type(node.op)], [], {}, place)
        name = _UNARY[type(node.op)]
        return value if name is None else self.builtin(name, place, [value])

    def _on_compare(self, node, hint):
        if len(node.ops) > 1:
            return self._on_boolop(node, hint)
        static, value, _ = self._comparisons(node)  # of tensors, it is a tensor
        return value if static is None else self.constant(static, self.at(node))

    def _on_boolop(self, node, hint):
        static, value, _ = self.condition(node)
        return value if static is None else self.constant(static, self.at(node))

    def _on_ifexp(self, node, hint):
        place = self.at(node)
        static, condition, refinement = self.condition(node.test)
        if static is not None:
            self.refine(refinement.if_true if static else refinement.if_false)
            return self.emit(node.body if static else node.orelse, hint)
        branch = self.frame.block.add("prim::If", [condition], place)
        values, frames = [], []
        for part, known in ((node.body, refinement.if_true), (node.orelse, refinement.if_false)):
            with self.within(branch.add_block()) as frame:
                self.refine(known)
                values.append(self.emit_value(part, hint))
                frames.append(frame)
        kind = T.unify(values[0].type_, values[1].type_)
        if kind is None and hint is not None and all(T.is_subtype(v.type_, hint) for v in values):
            kind = hint
        if kind is None:
            raise CompileError(
                f"Expected a value of type {values[0].type_} but got {values[1].type_}; the two "
                "branches of a conditional expression have one type",
                place,
            )
        for value, frame in zip(values, frames):
            frame.block.outs.append(self.in_block(self.widened, value, kind, frame))
        return branch.add_output(kind)

    # -- conditions --------------------------------------------------------------------------
    def condition(self, node: ast.expr, keep: bool = False) -> tuple[bool | None, Any, Refinement]:
        """(the answer if it is known now, the value, what it tells about types)

        keep: a value is wanted even if the answer is known.
        """
        static, value, refinement = self._condition(node)
        if value is None and (keep or static is None):
            value = self.constant(bool(static), self.at(node))
        return (None if keep else static), value, refinement

    def _condition(self, node):
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            static, value, refinement = self._condition(node.operand)
            if static is not None:
                return not static, None, refinement.negated()
            turned = self.builtin("aten::__not__", self.at(node), [value])
            return None, self.value_of(turned, self.at(node)), refinement.negated()
        if isinstance(node, ast.BoolOp):
            return self._short_circuit(node.values, isinstance(node.op, ast.And), self.at(node))
        if isinstance(node, ast.Compare):
            static, value, refinement = self._comparisons(node)
            if static is None:
                value = self.as_bool(value, self.at(node))
            return static, value, refinement
        if isinstance(node, ast.Call):
            found = self._special_condition(node)
            if found is not None:
                return found
        value = self.emit_value(node)
        if value.node.op == "prim::Constant" and isinstance(value.node.attributes["value"], bool):
            return value.node.attributes["value"], value, Refinement()
        return None, self.as_bool(value, self.at(node)), Refinement()

    def _special_condition(self, node):
        """isinstance, hasattr, is_scripting: known while compiling."""
        if not isinstance(node.func, (ast.Name, ast.Attribute)):
            return None
        if isinstance(node.func, ast.Attribute) and node.func.attr not in SPECIAL_CONDITIONS:
            return None
        name = special_name(self.emit(node.func))
        question = SPECIAL_CONDITIONS.get(name)
        return None if question is None else question(self, node)

    def _short_circuit(self, parts, is_and, place):
        static, value, refinement = self._condition(parts[0])
        rest = parts[1:]
        if not rest:
            return static, value, refinement
        known = refinement.if_true if is_and else refinement.if_false
        if static is not None:
            if static is not is_and:
                return static, value, refinement
            self.refine(known)
            static, value, other = self._short_circuit(rest, is_and, place)
            return static, value, refinement.both(other) if is_and else refinement.either(other)
        branch = self.frame.block.add("prim::If", [value], place)
        blocks = [branch.add_block(), branch.add_block()]
        later = blocks[0] if is_and else blocks[1]
        with self.within(blocks[1] if is_and else blocks[0]) as frame:
            frame.block.outs.append(self.constant(not is_and, place))
        with self.within(later) as frame:
            self.refine(known)
            inner, second, other = self._short_circuit(rest, is_and, place)
            second = self.constant(inner, place) if second is None else second
            frame.block.outs.append(second)
        joined = refinement.both(other) if is_and else refinement.either(other)
        return None, branch.add_output(T.BOOL), joined

    def _comparisons(self, node):
        """a < b < c is a < b and b < c."""
        if len(node.ops) > 1:
            pairs, left = [], node.left
            for op, right in zip(node.ops, node.comparators):
                made = ast.Compare(left=left, ops=[op], comparators=[right])
                pairs.append(ast.copy_location(made, node))
                left = right
            return self._short_circuit(pairs, True, self.at(node))
        return self._comparison(node, node.left, node.ops[0], node.comparators[0])

    def _comparison(self, node, left, op, right):
        place = self.at(node)
        if isinstance(op, (ast.Is, ast.IsNot)):
            return self._identity(node, left, op, right)
        if isinstance(op, (ast.In, ast.NotIn)):
            return self._membership(left, right, isinstance(op, ast.In), place)
        a, b = self.emit_value(left), self.emit_value(right)
        name = _COMPARE[type(op)]
        found = self._by_class(type(op), a, b, place)
        if found is None and b.type_ == T.TENSOR and a.type_ != T.TENSOR and name in _SWAPPED:
            found = self.builtin(_SWAPPED[name], place, [b, a])
        elif found is None:
            found = self.builtin(name, place, [a, b])
        return None, self.value_of(found, place), Refinement()

    def _membership(self, left, right, is_in, place):
        item, where = self.emit_value(left), self.emit(right)
        where = self.value_of(where, place)
        if isinstance(where.type_, T.TupleOf):
            where = self.list_of([self.value_of(p, place) for p in self.unpacked(where, place)],
                                 place)  # fmt: skip
        if isinstance(where.type_, T.ClassType):
            found = self.call_method(where, "__contains__", [item], {}, place)
        elif where.type_ == T.STR:
            end = self.builtin("aten::len", place, [where])
            start = self.constant(0, place)
            at = self.builtin("aten::find", place, [where, item, start, end])
            found = self.builtin("aten::ne", place, [at, self.constant(-1, place)])
        else:
            found = self.builtin("aten::__contains__", place, [where, item])
        value = self.value_of(found, place)
        if not is_in:
            value = self.value_of(self.builtin("aten::__not__", place, [value]), place)
        return None, value, Refinement()

    def _identity(self, node, left, op, right):
        """`is` and `is not`; with None they may be known, and tell types."""
        place = self.at(node)
        a, b = self.emit(left), self.emit(right)
        is_ = isinstance(op, ast.Is)
        for this, other, written in ((a, b, left), (b, a, right)):
            if not (isinstance(other, Value) and other.type_ == T.NONE):
                continue
            if isinstance(this, Sugar) and not isinstance(this, TupleSugar):
                return not is_, None, Refinement()
            this = self.value_of(this, place)
            kinds = T.choices(this.type_)
            if this.type_ == T.NONE:
                return is_, None, Refinement()
            if T.NONE not in kinds and this.type_ != T.ANY:
                return not is_, None, Refinement()
            name = _COMPARE[type(op)]
            value = self.value_of(self.builtin(name, place, [this, other]), place)
            return None, value, self._none_refinement(written, this.type_, is_)
        if not (isinstance(a, Value) and isinstance(b, Value)):
            return (a is b) is is_, None, Refinement()
        found = self.builtin(_COMPARE[type(op)], place, [a, b])
        return None, self.value_of(found, place), Refinement()

    def _none_refinement(self, written, kind, is_none):
        if not isinstance(written, ast.Name) or kind == T.ANY:
            return Refinement()
        rest = T.union([t for t in T.choices(kind) if t != T.NONE])
        there = Refinement({}, {written.id: rest})
        return there if is_none else there.negated()

    # -- indices -----------------------------------------------------------------------------
    def _on_subscript(self, node, hint):
        place = self.at(node)
        base = self.emit(node.value)
        if isinstance(base, Sugar) and not isinstance(base, TupleSugar):
            found = base.item(self, node.slice, place)
            if found is not None:
                return found
        return self.get_item(base, node.slice, place)

    def _on_slice(self, node, hint):
        raise CompileError("slices are only supported inside of indices", self.at(node))

    def _on_attribute(self, node, hint):
        place = self.at(node)
        base = self.emit(node.value)
        if isinstance(base, Value):
            return self.attribute(base, node.attr, place)
        return base.attribute(self, node.attr, place)

    def _on_call(self, node, hint):
        place = self.at(node)
        function = self.emit(node.func)
        if isinstance(function, Value):
            if isinstance(function.type_, T.ClassType):
                name = "forward" if function.type_.is_module else "__call__"
                args, kwargs = self.arguments(node)
                return self.call_method(function, name, args, kwargs, place)
            raise CompileError(f"cannot call a value of type '{function.type_.code}'", place)
        found = function.call_written(self, node, hint, place)
        if found is not None:
            return found
        args, kwargs = self.arguments(node)
        return function.call(self, args, kwargs, place)

    def arguments(self, node: ast.Call) -> tuple[list, dict[str, Any]]:
        """The arguments of a call."""
        args: list = []
        for part in node.args:
            if isinstance(part, ast.Starred):
                args.extend(self.unpacked(self.emit(part.value), self.at(part), None))
            else:
                args.append(self.emit(part))
        if any(keyword.arg is None for keyword in node.keywords):
            raise NotSupportedError(self.at(node), "keyword-arg expansion is not supported")
        return args, {k.arg: self.emit(k.value) for k in node.keywords if k.arg is not None}

    # -- comprehensions ----------------------------------------------------------------------
    def _on_listcomp(self, node, hint):
        place = self.at(node)
        generator = self._one_generator(node)
        made = self.frame.block.add("prim::ListConstruct", [], place)
        items = iterable_of(self, self.emit(generator.iter), place)
        known = items.static(self)
        if known is not None and not generator.ifs:
            parts = []
            for item in known:
                with self.own_names():
                    self.assign(generator.target, item)
                    parts.append(self.emit(node.elt))
            if any(isinstance(p, Sugar) and p.stays for p in parts):
                return TupleSugar(parts)
            return self.list_of([self.value_of(p, place) for p in parts], place)
        inner = hint.part if isinstance(hint, T.ListOf) else None
        result = made.add_output(T.ListOf(inner or T.TENSOR))

        def add(frame):
            value = self.emit_value(node.elt, inner)
            if inner is None:
                result.type_ = T.ListOf(value.type_)
            self.builtin("aten::append", place, [result, value])

        self._comprehension(generator, items, add, place)
        return result

    def _on_generatorexp(self, node, hint):
        return self._on_listcomp(node, hint)

    def _on_dictcomp(self, node, hint):
        place = self.at(node)
        generator = self._one_generator(node)
        items = iterable_of(self, self.emit(generator.iter), place)
        made = self.frame.block.add("prim::DictConstruct", [], place)
        result = made.add_output(hint if isinstance(hint, T.DictOf) else T.DictOf(T.STR, T.TENSOR))

        def add(frame):
            key, value = self.emit_value(node.key), self.emit_value(node.value)
            if not isinstance(hint, T.DictOf):
                result.type_ = T.DictOf(key.type_, value.type_)
            self.builtin("aten::_set_item", place, [result, key, value])

        self._comprehension(generator, items, add, place)
        return result

    def _one_generator(self, node):
        if len(node.generators) != 1:
            raise NotSupportedError(self.at(node), "Only a single generator is currently supported")
        return node.generators[0]

    def _comprehension(self, generator, items, add, place):
        count = items.length(self, place)
        loop = self.frame.block.add("prim::Loop", [count, self.constant(True, place)], place)
        block = loop.add_block()
        index = block.param.add_output(T.INT)
        with self.within(block) as frame:
            names = {n.id for n in ast.walk(generator.target) if isinstance(n, ast.Name)}
            for name in names:
                old = frame.find(name)
                if isinstance(old, Value):
                    frame.declared[name] = old.type_
            self.assign(generator.target, items.item(self, index, place))
            self._filtered(generator.ifs, add, frame, place)
            frame.block.outs.append(self.constant(True, place))

    def _filtered(self, tests, add, frame: Frame, place):
        if not tests:
            add(frame)
            return
        _, condition, refinement = self.condition(tests[0], keep=True)
        branch = self.frame.block.add("prim::If", [condition], place)
        with self.within(branch.add_block()) as inner:
            self.refine(refinement.if_true)
            self._filtered(tests[1:], add, inner, place)
        branch.add_block()
