"""From Python's statements to nodes: assignments, branches, loops and jumps.

Each variable has one value per block. What a branch assigns comes out of `prim::If`; what a loop
assigns goes round `prim::Loop`. Jumps are taken away: what follows a branch that jumps goes into
the other branch, or, where both may go on, under a flag that says whether one has jumped.
"""

import ast
import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from flambeau.jit import types as T
from flambeau.jit.environment import EXITED, GOES, RESULT, RETURNED, Frame, Refinement, Undefined
from flambeau.jit.ir import Block, Node, Value
from flambeau.jit.loops import Loops
from flambeau.jit.outcomes import FALL, jumps, outcomes
from flambeau.jit.places import CompileError, UnsupportedNodeError
from flambeau.jit.sugar import Closure, Sugar

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


class Statements(Loops):
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
            is_own = name in frame.variables
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
