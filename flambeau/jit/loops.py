"""Loops: what goes round them, how they end, and those that are written out."""

import ast
import sys
from typing import Any

from flambeau.jit import types as T
from flambeau.jit.environment import EXITED, GOES, RESULT, RETURNED, Undefined
from flambeau.jit.expressions import Expressions
from flambeau.jit.ir import Value
from flambeau.jit.outcomes import BREAK, RETURN, assigned, jumps
from flambeau.jit.places import CompileError, NotSupportedError
from flambeau.jit.sugar import Sugar, iterable_of


class Bind(ast.stmt):
    """A target gets an item of a loop that is written out."""

    _fields = ("target",)

    def __init__(self, target: ast.expr, item: Any) -> None:
        self.target, self.item = target, item
        self.lineno, self.col_offset = target.lineno, target.col_offset
        self.end_lineno, self.end_col_offset = target.end_lineno, target.end_col_offset


class Loops(Expressions):
    """The part of a compiler that knows loops."""

    emit_statements: Any
    trial: Any
    _rest_unless_exited: Any

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
            statements += [Bind(node.target, item), *node.body]
        self.loops.append("unrolled")
        try:
            if RETURN not in jumps(node.body):
                self.emit_statements(statements)
                return False
            self.emit_statements([*statements, *rest])
        finally:
            self.loops.pop()
        return True

    def _emit_bind(self, node, rest):
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
