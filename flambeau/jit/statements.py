"""From Python's statements to nodes: assignments, branches, loops and jumps.

Each variable has one value per block. What a branch assigns comes out of `prim::If`; what a loop
assigns goes round `prim::Loop`. Jumps are taken away: what follows a branch that jumps goes into
the other branch, or, where both may go on, under a flag that says whether one has jumped.
"""

import ast
import contextlib
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from flambeau.jit import types as T
from flambeau.jit.environment import EXITED, GOES, RESULT, RETURNED, Frame, Refinement, Undefined
from flambeau.jit.expressions import Expressions
from flambeau.jit.ir import Block, Node, Value
from flambeau.jit.outcomes import BREAK, FALL, RETURN, assigned, jumps, outcomes
from flambeau.jit.places import CompileError, NotSupportedError, UnsupportedNodeError
from flambeau.jit.sugar import Closure, Sugar, iterable_of

_UNSUPPORTED = {
    ast.Try: "try blocks",
    ast.AsyncFunctionDef: "async functions",
    ast.AsyncFor: "async for",
    ast.AsyncWith: "async with statements",
    ast.ClassDef: "class definitions",
    ast.Import: "import statements",
    ast.ImportFrom: "import statements",
    ast.Global: "global variables",
    ast.Nonlocal: "nonlocal variables",
}
_IN_PLACE = {ast.Add: "add_", ast.Sub: "sub_", ast.Mult: "mul_", ast.Div: "div_",
             ast.Mod: "fmod_", ast.BitAnd: "bitwise_and_", ast.BitOr: "bitwise_or_",
             ast.BitXor: "bitwise_xor_", ast.LShift: "__lshift__", ast.RShift: "__rshift__",
             ast.FloorDiv: "floor_divide_", ast.Pow: "pow_"}  # fmt: skip


class _Bind(ast.stmt):
    """A target gets an item of a loop that is written out."""

    _fields = ("target",)

    def __init__(self, target: ast.expr, item: Any) -> None:
        self.target, self.item = target, item
        self.lineno, self.col_offset = target.lineno, target.col_offset
        self.end_lineno, self.end_col_offset = target.end_lineno, target.end_col_offset


class Statements(Expressions):
    """The part of a compiler that knows statements."""

    def emit_statements(self, statements: Sequence[ast.stmt]) -> None:
        """A list of statements; one that may jump takes care of those after it."""
        for k, statement in enumerate(statements):
            if self._emit_statement(statement, statements[k + 1 :]):
                return

    def _emit_statement(self, statement, rest):
        """Emit one statement; True if the rest is done or never reached."""
        method = getattr(self, "_emit_" + type(statement).__name__.lower(), None)
        if method is None:
            what = _UNSUPPORTED.get(type(statement), type(statement).__name__)
            raise UnsupportedNodeError(self.at(statement), f"{what} aren't supported")
        return bool(method(statement, rest))

    # -- blocks ------------------------------------------------------------------------------
    @contextlib.contextmanager
    def within(self, block: Block, falls: bool = True) -> Iterator[Frame]:
        """Emit into another block, with variables of its own."""
        saved = self.frame
        self.frame = Frame(block, saved, falls)
        try:
            yield self.frame
        finally:
            self.frame = saved

    def refine(self, types: dict[str, T.Type]) -> None:
        """Note that variables have narrower types from here on."""
        for name, kind in types.items():
            value = self.frame.find(name)
            if isinstance(value, Value) and value.type_ != kind:
                self.frame.refined[name] = self.cast_unchecked(value, kind, name)

    # -- simple ones -------------------------------------------------------------------------
    def _emit_pass(self, node, rest):
        return False

    def _emit_expr(self, node, rest):
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            return  # a docstring
        self.emit(node.value)

    def _emit_return(self, node, rest):
        place = self.at(node)
        hint = self.declared_return
        empty = node.value is None
        value = self.none(place) if empty else self.value_of(self.emit(node.value, hint), place)
        self.set_result(value, place)
        return True

    def set_result(self, value: Value, place: Any) -> None:
        """`return value`."""
        if self.declared_return is not None:
            value = self.converted_return(value, self.declared_return, place)
        elif self.return_type is not None:
            both = T.unify(self.return_type, value.type_)
            if both is None:
                raise CompileError(
                    f"Previous return statement returned a value of type {self.return_type} but "
                    f"this return statement returns a value of type {value.type_}",
                    place,
                )
            self.return_type = both
        else:
            self.return_type = value.type_
        self.frame.set(RESULT, value)
        self._jump(place, RETURNED)

    def _jump(self, place, *flags):
        for name in (*flags, EXITED):
            self.frame.set(name, self.constant(True, place))
        if RETURNED in flags:
            self.frame.set(GOES, self.constant(False, place))

    def _emit_functiondef(self, node, rest):
        """A function without arguments, which archives define for fork; others are refused."""
        written = node.args
        if not self.resolver.allows_closures or written.args or written.kwonlyargs:
            raise UnsupportedNodeError(self.at(node), "function definitions aren't supported")
        self.frame.set(node.name, Closure(node))

    def _emit_break(self, node, rest):
        if not self.loops:
            raise CompileError("SyntaxError: 'break' outside loop", self.at(node))
        self._check_not_unrolled(node, "break")
        self._jump(self.at(node))
        self.frame.set(GOES, self.constant(False, self.at(node)))
        return True

    def _emit_continue(self, node, rest):
        if not self.loops:
            raise CompileError("SyntaxError: 'continue' not properly in loop", self.at(node))
        self._check_not_unrolled(node, "continue")
        self._jump(self.at(node))
        return True

    def _check_not_unrolled(self, node, what):
        if self.loops[-1] == "unrolled":
            raise CompileError(
                "Because we emit iteration over Modulelists or Tuples as unrolled loops, we do not "
                f"support break or continue inside the body of these loops; found {what}",
                self.at(node),
            )

    def _emit_raise(self, node, rest):
        place = self.at(node)
        if node.exc is None:
            raise UnsupportedNodeError(place, "raise without an exception isn't supported")
        message, kind = self.exception(node.exc)
        self.frame.block.add("prim::RaiseException", [message, kind], place)
        self.frame.falls = False
        return True

    def _emit_assert(self, node, rest):
        place = self.at(node)
        static, condition, refinement = self.condition(node.test)
        if static is True:
            return False
        branch = self.frame.block.add("prim::If", [condition], place)
        branch.add_block()
        with self.within(branch.add_block()) as frame:
            text = "AssertionError: "
            if node.msg is not None:
                said = self.value_of(self.emit(node.msg), place)
                given = self.builtin("aten::add", place, [self.constant(text, place), said])
                message = self.value_of(given, place)
            else:
                message = self.constant(text, place)
            frame.block.add("prim::RaiseException", [message, self.none(place)], place)
        self.refine(refinement.if_true)
        return False

    def _emit_delete(self, node, rest):
        for target in node.targets:
            if isinstance(target, ast.Name):
                self.frame.set(target.id, Undefined(f"undefined value {target.id}"))
            elif isinstance(target, ast.Subscript):
                place = self.at(target)
                base = self.value_of(self.emit(target.value), place)
                index = self.value_of(self.emit(target.slice), place)
                self.builtin("aten::Delete", place, [base, index])
            else:
                raise UnsupportedNodeError(self.at(node), "del of attributes isn't supported")

    # -- assignments -------------------------------------------------------------------------
    def _emit_assign(self, node, rest):
        if len(node.targets) != 1:
            value = self.emit(node.value)
            if not isinstance(value, Sugar):
                value = self.value_of(value, self.at(node))
            for target in node.targets:
                self.assign(target, value)
            return
        target = node.targets[0]
        hint = None
        if isinstance(target, ast.Name):
            hint = self.frame.declared_type(target.id)
        self.assign(target, self.emit(node.value, hint))

    def _emit_annassign(self, node, rest):
        kind = self.resolver.annotation(node.annotation, self.at(node.annotation))
        if node.value is None:
            raise UnsupportedNodeError(self.at(node), "a variable without a value isn't supported")
        value = self.value_of(self.emit(node.value, kind), self.at(node))
        if isinstance(node.target, ast.Name):
            value = self.converted(value, kind, self.at(node))
            self.frame.declared[node.target.id] = kind
            self.frame.annotated.add(node.target.id)
            if value.type_ == T.NONE and kind != T.NONE:  # None, of that type
                value = self.node("prim::Constant", [], kind, self.at(node), value=None)
        self.assign(node.target, value)

    def _emit_augassign(self, node, rest):
        place, target = self.at(node), node.target
        load = _loaded(target)
        current = self.emit(load)
        op = type(node.op)
        if not isinstance(current, Sugar):
            current = self.value_of(current, place)
            other = self.value_of(self.emit(node.value), place)
            if current.type_ == T.TENSOR and op in _IN_PLACE:
                changed = self.builtin("aten::" + _IN_PLACE[op], place, [current, other])
                changed = self.value_of(changed, place)
                if isinstance(target, ast.Name):
                    self.frame.set(target.id, current if changed is None else changed)
                    changed.name = changed.name or target.id
                elif isinstance(target, ast.Attribute):
                    self.assign(target, changed)
                return
            if isinstance(current.type_, T.ListOf) and op is ast.Add:
                self.builtin("aten::add_", place, [current, other])
                return
            result = self.binary(op, current, other, place)
        else:
            result = self.binary(op, current, self.emit(node.value), place)
        self.assign(target, result)

    def assign(self, target: ast.expr, value: Any) -> None:
        """Give a target a value."""
        place = self.at(target)
        if isinstance(target, ast.Name):
            self._assign_name(target.id, value, place)
        elif isinstance(target, (ast.Tuple, ast.List)):
            self._assign_parts(target.elts, value, place)
        elif isinstance(target, ast.Subscript):
            self.set_item(target, value, place)
        elif isinstance(target, ast.Attribute):
            self.set_attribute(target, value, place)
        else:
            raise UnsupportedNodeError(place, "this assignment isn't supported")

    def _assign_name(self, name, value, place):
        if isinstance(value, Sugar) and not value.stays:
            value = self.value_of(value, place)
        frame = self.frame
        if isinstance(value, Value):
            is_own = name in frame.variables and name not in frame.annotated
            declared = None if is_own else frame.declared_type(name)
            if declared is None:
                frame.declared[name] = value.type_
                old = None if is_own else frame.find(name)
                if isinstance(old, Value):
                    declared = frame.declared[name] = old.type_
            if declared is not None and not T.is_subtype(value.type_, declared):
                raise CompileError(
                    f"Variable '{name}' previously had type {declared.code} but is now being "
                    f"assigned to a value of type {value.type_.code}\n",
                    place,
                )
            if not value.name and name != "_":
                value.name = name
        frame.set(name, value)

    def _assign_parts(self, targets, value, place):
        starred = [k for k, t in enumerate(targets) if isinstance(t, ast.Starred)]
        parts = self.unpacked(value, place, None if starred else len(targets))
        if starred:
            k = starred[0]
            after = len(targets) - k - 1
            middle = parts[k : len(parts) - after]
            parts = [*parts[:k], self.tuple_of(middle, place), *parts[len(parts) - after :]]
            targets = [t.value if isinstance(t, ast.Starred) else t for t in targets]
        if len(parts) != len(targets):
            raise CompileError(
                f"Cannot unpack a tuple of {len(parts)} elements into {len(targets)} variables",
                place,
            )
        for target, part in zip(targets, parts):
            self.assign(target, part)

    # -- branches ----------------------------------------------------------------------------
    def _emit_if(self, node, rest):
        static, condition, refinement = self.condition(node.test)
        if static is not None:
            chosen = node.body if static else node.orelse
            self.refine(refinement.if_true if static else refinement.if_false)
            self.emit_statements([*chosen, *rest])
            return True
        body, orelse = list(node.body), list(node.orelse)
        first, second = outcomes(body), outcomes(orelse)
        place = self.at(node)
        if not (jumps(body) or jumps(orelse)):
            self._branch(condition, refinement, body, orelse, place)
            return not self.frame.falls
        if FALL in first and FALL in second:
            self.frame.set(EXITED, self.constant(False, place))
            self._branch(condition, refinement, body, orelse, place)
            self._rest_unless_exited(rest, place)
        elif FALL in second:
            self._branch(condition, refinement, body, [*orelse, *rest], place)
        else:
            body = [*body, *rest] if FALL in first else body
            self._branch(condition, refinement, body, orelse, place)
        return True

    def _rest_unless_exited(self, rest, place):
        """What follows a statement that may have jumped."""
        if not rest:
            return
        flag = self.frame.find(EXITED)
        self._branch(flag, Refinement(), [], rest, place, exits=True)

    def _branch(self, condition, refinement, body, orelse, place, exits=False):
        """prim::If of two lists of statements."""
        node = self.frame.block.add("prim::If", [condition], place)
        frames = []
        for statements, known in ((body, refinement.if_true), (orelse, refinement.if_false)):
            is_exit = exits and not frames
            with self.within(node.add_block()) as frame:
                self.refine(known)
                self.emit_statements(statements)
                frame.falls = frame.falls and not is_exit and FALL in outcomes(statements)
                frames.append(frame)
        self.join(node, *frames, place)

    def join(self, node: Node, first: Frame, second: Frame, place: Any) -> None:
        """Bring what two branches assign out of their node."""
        outer = self.frame
        for name in sorted({*first.variables, *second.variables}):
            values = [first.find(name), second.find(name)]
            if values[0] is values[1]:
                if values[0] is not None:
                    outer.set(name, values[0])
                continue
            joined = self._joined(name, values, (first, second), node, place)
            outer.set(name, joined)
        if not first.falls and second.falls:
            outer.adopt_refinements(second)
        elif not second.falls and first.falls:
            outer.adopt_refinements(first)
        if not (first.falls or second.falls):
            outer.falls = False

    def _joined(self, name, values, frames, node, place):
        for k, (value, frame) in enumerate(zip(values, frames)):
            other = values[1 - k]
            is_gone = value is None or isinstance(value, Undefined)
            if is_gone and isinstance(other, Value) and (not frame.falls or name[0] == "%"):
                values[k] = self.uninitialized(other.type_, frame.block)
            elif is_gone:
                which = "true" if k == 0 else "false"
                return Undefined(f"{name} is not defined in the {which} branch", place)
        a, b = values
        if not (isinstance(a, Value) and isinstance(b, Value)):
            if not frames[0].falls or not frames[1].falls:
                return b if not frames[0].falls else a
            return Undefined(f"{name} is no value that a branch can choose")
        kind = self._joined_type(name, a, b, place)
        a, b = (self.in_block(self.widened, v, kind, f) for v, f in zip((a, b), frames))
        for block, value in zip(node.blocks_, (a, b)):
            block.outs.append(value)
        return node.add_output(kind, "" if name[0] == "%" else name)

    def _joined_type(self, name, a, b, place):
        declared = self.frame.declared_type(name) if name != RESULT else self.declared_return
        both = T.unify(a.type_, b.type_)
        if both is None and declared is not None:
            fits = T.is_subtype(a.type_, declared) and T.is_subtype(b.type_, declared)
            both = declared if fits else None
        if both is None:
            raise CompileError(
                f"Type mismatch: {name} is set to type {a.type_.code} in the true branch and type "
                f"{b.type_.code} in the false branch",
                place,
            )
        return both

    # -- loops -------------------------------------------------------------------------------
    def _emit_while(self, node, rest):
        self._check_no_else(node)
        place = self.at(node)
        most = self.constant(sys.maxsize, place)
        _, condition, refinement = self.condition(node.test, keep=True)

        def body(index):
            self.refine(refinement.if_true)
            self.emit_statements(node.body)

        again = lambda: self.condition(node.test, keep=True)[1]
        self._loop(node, most, condition, body, again, rest)
        return self._after_loop(node, rest)

    def _emit_for(self, node, rest):
        self._check_no_else(node)
        place = self.at(node)
        items = iterable_of(self, self.emit(node.iter), place)
        known = items.static(self)
        if known is not None:
            return self._emit_unrolled(node, known, rest)
        length = items.length(self, place)
        breaks = jumps(node.body) & {BREAK, RETURN}

        def body(index):
            self.assign(node.target, items.item(self, index, place))
            self.emit_statements(node.body)

        if breaks:  # a loop that counts by itself
            zero = self.constant(0, place)
            started = self.value_of(self.builtin("aten::gt", place, [length, zero]), place)
            most = self.constant(sys.maxsize, place)
            self._loop(node, most, started, body, None, rest, length)
        else:
            self._loop(node, length, self.constant(True, place), body, None, rest)
        return self._after_loop(node, rest)

    def _check_no_else(self, node):
        if node.orelse:
            what = "for" if isinstance(node, ast.For) else "while"
            raise NotSupportedError(
                self.at(node), f"else branches of {what} loops aren't supported"
            )

    def _emit_unrolled(self, node, items, rest):
        """A loop over modules or a tuple is written out."""
        statements: list[ast.stmt] = []
        for item in items:
            statements += [_Bind(node.target, item), *node.body]
        self.loops.append("unrolled")
        try:
            if RETURN not in jumps(node.body):
                self.emit_statements(statements)
                return False
            self.emit_statements([*statements, *rest])
        finally:
            self.loops.pop()
        return True

    def _emit__bind(self, node, rest):
        if isinstance(node.target, ast.Name):
            # each item may have its own type
            self.frame.declared.pop(node.target.id, None)
            self.frame.variables.pop(node.target.id, None)
        self.assign(node.target, node.item)

    def _carried(self, node):
        """The variables that go round a loop, with their types."""
        names = assigned([*node.body, *([node.target] if isinstance(node, ast.For) else [])])
        found = {}
        for name in sorted(names):
            value = self.frame.find(name)
            if isinstance(value, Value):
                found[name] = value
        if RETURN in jumps(node.body):
            place = self.at(node)
            found[RETURNED] = self.constant(False, place)
            found[RESULT] = self.uninitialized(self._type_of_returns(node), self.frame.block)
        return found

    def _type_of_returns(self, node):
        """The type of what a loop returns: told by compiling its body once for nothing."""
        if self.declared_return is not None:
            return self.declared_return
        if self.return_type is None:
            self.trial(node)
        return T.NONE if self.return_type is None else self.return_type

    def _loop(self, node, count, condition, body, again, rest, length=None):
        """prim::Loop: `body` emits one round, `again` whether there is another."""
        place = self.at(node)
        carried = self._carried(node)
        kinds = {name: self._carried_type(name, value) for name, value in carried.items()}
        counter = [self.constant(0, place)] if length is not None else []
        loop = self.frame.block.add("prim::Loop", [count, condition, *carried.values(), *counter])
        loop.place = place
        block = loop.add_block()
        index = block.param.add_output(T.INT)
        self.loops.append("loop")
        with self.within(block) as frame:
            for name in carried:
                shown = "" if name[0] == "%" else name
                frame.set(name, block.param.add_output(kinds[name], shown))
            if length is not None:
                index = block.param.add_output(T.INT)
            frame.set(GOES, self.constant(True, place))
            body(index)
            if length is not None:
                index.name = ""  # it is counted, not given
            goes = frame.find(GOES) if jumps(node.body) & {BREAK, RETURN} else None
            self._close_loop(block, frame, kinds, goes, again, length, index, place)
        self.loops.pop()
        for name in carried:
            self.frame.set(name, loop.add_output(kinds[name], "" if name[0] == "%" else name))
        if length is not None:
            loop.add_output(T.INT)
        for name in frame.variables:
            is_new = name not in carried and name[0] != "%"
            if is_new and not isinstance(self.frame.find(name), Sugar):
                self.frame.set(name, Undefined(f"{name} is not defined after the loop"))

    def _carried_type(self, name, value):
        """The type of a variable that goes round a loop: what it was declared as."""
        declared = self.frame.declared_type(name) if name[0] != "%" else None
        if declared is None or not T.is_subtype(value.type_, declared):
            return value.type_
        self.widened(value, declared)
        return declared

    def _close_loop(self, block, frame, kinds, goes, again, length, index, place):
        """Whether a loop goes on, and with which values."""
        ends: list[Value] = []
        if length is not None:
            one = self.constant(1, place)
            following = self.value_of(self.builtin("aten::add", place, [index, one]), place)
            more = self.value_of(self.builtin("aten::lt", place, [following, length]), place)
            both = self.value_of(self.builtin("aten::__and__", place, [more, goes]), place)
            ends = [following]
        elif again is None:
            both = self.constant(True, place)
        elif goes is None or goes.node.op == "prim::Constant":
            both = again() if goes is None or goes.node.attributes["value"] else goes
        else:
            both = self._again_if(goes, again, place)
        block.outs.append(both)
        for name, kind in kinds.items():
            end = frame.find(name)
            if not T.is_subtype(end.type_, kind):
                raise CompileError(
                    f"Variable '{name}' previously had type {kind.code} but is now being "
                    f"assigned to a value of type {end.type_.code}\n",
                    place,
                )
            block.outs.append(self.widened(end, kind))
        block.outs.extend(ends)

    def _again_if(self, goes, again, place):
        """The condition of a while loop is not asked after a jump out of it."""
        node = self.frame.block.add("prim::If", [goes], place)
        with self.within(node.add_block()) as frame:
            frame.block.outs.append(again())
        with self.within(node.add_block()) as frame:
            frame.block.outs.append(self.constant(False, place))
        return node.add_output(T.BOOL)

    def _after_loop(self, node, rest):
        if RETURN not in jumps(node.body):
            return False
        self.frame.set(EXITED, self.frame.find(RETURNED))
        if self.loops:
            place = self.at(node)
            picked = self.frame.block.add("prim::If", [self.frame.find(RETURNED)], place)
            for flag in (False, True):
                with self.within(picked.add_block()) as frame:
                    frame.block.outs.append(self.constant(flag, place))
            self.frame.set(GOES, picked.add_output(T.BOOL))
        self._rest_unless_exited(rest, self.at(node))
        return True

    def _emit_with(self, node, rest):
        place = self.at(node)
        contexts = []
        for item in node.items:
            context = self.value_of(self.emit(item.context_expr), place)
            entered = self.frame.block.add("prim::Enter", [context], place)
            result = entered.add_output(self.entered_type(context, place))
            contexts.append(context)
            if item.optional_vars is not None:
                self.assign(item.optional_vars, result)
        flags = jumps(node.body)
        if flags and FALL in outcomes(node.body):
            self.frame.set(EXITED, self.constant(False, place))
        self.emit_statements(node.body)
        for context in reversed(contexts):
            self.frame.block.add("prim::Exit", [context], place).add_output(T.TENSOR)
        if not flags:
            return not self.frame.falls
        if FALL in outcomes(node.body):
            self._rest_unless_exited(rest, place)
        return True


def _loaded(target):
    """The expression that reads what a target writes."""
    made = ast.copy_location(type(target)(**dict(ast.iter_fields(target))), target)
    made.ctx = ast.Load()
    return made
