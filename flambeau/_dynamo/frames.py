"""Compiled functions at run time: entries with guards, pieces of a function that follow each other.

A frame is a function, or the rest of one after a statement that ran as plain Python. It keeps an
entry for each set of circumstances that was met; an entry is one generated function that checks
guards, runs the compiled graph and goes on. If none fits the frame is read again. If anything goes
wrong while reading, the call runs as it is.
"""

import ast
import linecache
import threading
import types
from typing import Any

from flambeau._dynamo import branches as branches
from flambeau._dynamo import checkpoints as checkpoints
from flambeau._dynamo import config, surroundings
from flambeau._dynamo import custom_functions as custom_functions
from flambeau._dynamo import function_transforms as function_transforms
from flambeau._dynamo import trees as trees
from flambeau._dynamo.exc import (
    BackendCompilerFailed,
    Break,
    RecompileError,
    SizesInside,
    Unsupported,
)
from flambeau._dynamo.fragments import Fragment, live_names, split_reason, whole_reason
from flambeau._dynamo.graph_keys import graph_key
from flambeau._dynamo.guards import MISS
from flambeau._dynamo.programs import Program, program_of
from flambeau._dynamo.reader import DataBranch, Piece, Reader
from flambeau._dynamo.results import Builder
from flambeau._dynamo.shape_runs import Sizes, guard_sizes
from flambeau._dynamo.steps import guard_steps
from flambeau._dynamo.utils import counters
from flambeau._tensor import Tensor
from flambeau.amp.autocast_mode import preserved_autocast
from flambeau.autograd.grad_mode import modes
from flambeau.codegen.texts import code_of
from flambeau.fx.experimental.symbolic_shapes import ConstraintViolationError
from flambeau.fx.graph_module import GraphModule
from flambeau.nn.modules.module import Module

_serial = iter(range(1 << 60))


class Frame:
    """A function, or the rest of one."""

    def __init__(
        self, settings: Any, program: Program, todo: list[ast.stmt], names: tuple[str, ...] | None
    ) -> None:
        self.settings, self.program, self.todo, self.names = settings, program, todo, names
        self.entries: tuple = ()
        self.by_layouts: dict[tuple, Any] = {}  # layouts of arguments -> entry, as a hint
        self.sizes = Sizes(settings.dynamic)
        self.ends: dict[tuple, Any] = {}  # what comes after pieces, which entries share
        self.failures = 0
        self.is_plain = False
        self.lock = threading.RLock()

    def run(self, fn: Any, args: tuple, kwargs: dict) -> Any:
        """A call: by the first entry whose guards hold."""
        if surroundings.is_plain():
            return self.plainly(fn, args, kwargs)
        entries = self.entries
        if entries:
            result = entries[0](fn, args, kwargs)
            if result is not MISS:
                return result
            if len(entries) > 4:
                entry = self.by_layouts.get(_layouts(args))
                result = MISS if entry is None else entry(fn, args, kwargs)
                if result is not MISS:
                    return result
            for entry in entries[1:]:
                result = entry(fn, args, kwargs)
                if result is not MISS:
                    self._found(entry, args)
                    return result
        return self._missed(fn, args, kwargs)

    def _found(self, entry, args):
        """An entry that was looked for is tried first the next time."""
        with self.lock:
            if entry in self.entries:
                self.entries = (entry, *[e for e in self.entries if e is not entry])
                self.by_layouts[_layouts(args)] = entry

    def _make_room(self):
        """Forget the entries that were not used for longest."""
        half = config.sizes_limit // 2
        for entry in self.entries[half:]:
            linecache.cache.pop(entry.__code__.co_filename, None)
        self.entries = self.entries[:half]
        self.by_layouts = {k: e for k, e in self.by_layouts.items() if e in self.entries}

    def _missed(self, fn, args, kwargs):
        if self.is_plain or (config.stance != "default" and self._stands_back(fn, args)):
            return self.plainly(fn, args, kwargs)
        with self.lock:
            entry = self._new_entry(fn, args, kwargs)
        if entry is not None:
            result = entry(fn, args, kwargs)
            if result is not MISS:
                return result
            with self.lock:  # guards that do not even hold at once are of no use
                self.entries = tuple(e for e in self.entries if e is not entry)
                self.failures += 1
                self.is_plain = self.failures > config.recompile_limit
        return self.plainly(fn, args, kwargs)

    def _stands_back(self, fn, args):
        """Is a call that no entry fits to run as it is? See torch.compiler.set_stance."""
        if config.stance == "fail_on_recompile":
            code = fn.__code__
            raise RuntimeError(
                "Detected recompile when torch.compile stance is 'fail_on_recompile'. filename: "
                f"'{code.co_filename}', function name: '{code.co_name}', line number: "
                f"{code.co_firstlineno}"
            )
        if config.stance in ("eager_then_compile", "aot_eager_then_compile"):
            is_first = not self.entries and not self.sizes.first
            for k, tensor in enumerate(args):
                if isinstance(tensor, Tensor):
                    self.sizes.first.setdefault(("arg", k), tuple(tensor.shape))
            return is_first
        return config.stance == "eager_on_recompile"

    def plainly(self, fn: Any, args: tuple, kwargs: dict) -> Any:
        """The call as it is."""
        if self.names is None:
            return fn(*args, **kwargs)
        if not self.todo:
            return None
        returned, found = self._fragment(self.todo).run(fn, args, self.settings.compiled)
        return found if returned else None

    def _fragment(self, statements):
        return Fragment(self.program, statements, self.names or ())

    def end(self, kind: Any, rest: list[ast.stmt], names: tuple[str, ...]) -> Any:
        """What comes after a piece of this frame: a continuation or a branch."""
        key = (kind, names, *map(id, rest))
        found = self.ends.get(key)
        if found is None:
            found = self.ends[key] = kind(self.settings, self.program, rest, names)
        return found

    # -- reading ---------------------------------------------------------------------------------
    def _new_entry(self, fn, args, kwargs):
        """An entry for these arguments; None if the call is to run as it is."""
        if self.entries and config.error_on_recompile:
            raise RecompileError(f"{fn.__qualname__} would be read again")
        if len(self.entries) >= config.sizes_limit:
            self._make_room()
        if self._has_met_too_much():
            self.is_plain = True
            return None
        counters["frames"]["total"] += 1
        try:
            maker = EntryMaker(self, fn, args, kwargs)
            entry = maker.make()
        except (Unsupported, BackendCompilerFailed, ConstraintViolationError):
            raise
        except _Plainly:
            return None
        except Break as found:
            return self._failed(fn, found)
        except Exception as error:
            if config.verbose:
                raise
            return self._failed(fn, Break(f"{type(error).__name__} while reading: {error}"))
        counters["frames"]["ok"] += 1
        self._count_varying(entry)
        self.entries = (entry, *self.entries)
        self.by_layouts[_layouts(args)] = entry
        return entry

    def _count_varying(self, entry):
        """Programs that need an entry for each size are better off with sizes as they are."""
        varying = sum(e.varies for e in self.entries) + entry.varies
        self.sizes.is_off = varying > config.recompile_limit

    def _has_met_too_much(self):
        """Are there too many circumstances? Ints behind a break are sizes, as a rule."""
        limit = min(config.recompile_limit, config.cache_size_limit)
        met = {entry.circumstances for entry in self.entries}
        if self.names is None or len(met) <= limit:
            return len(met) > limit
        others = {tuple(fact for fact in facts if fact[1] is not int) for facts in met}
        return len(others) > limit or len(met) > config.ints_limit

    def _failed(self, fn, found):
        """Nothing of it can be captured, not even up to some statement."""
        self.settings.tell_break(found, fn)
        if self.settings.fullgraph:
            raise _unsupported(found) from None
        self.failures += 1
        self.is_plain = self.failures > config.recompile_limit
        return None


def _layouts(args):
    """The layouts of tensors among arguments."""
    return tuple([a._layout if isinstance(a, Tensor) else None for a in args])


def _unsupported(found):
    place = f"\n  at {found.place[0]}:{found.place[1]}" if found.place else ""
    trail = "".join(f"\n    {f}:{n} in {name}" for f, n, name in reversed(found.stack))
    return Unsupported(f"{found.reason}{place}{trail}")


class _Plainly(Exception):
    """The plain call will raise an error, which says more than we can."""


class EntryMaker:
    """Reads a frame and writes an entry."""

    def __init__(self, frame: Frame, fn: Any, args: tuple, kwargs: dict) -> None:
        self.frame, self.fn, self.args, self.kwargs = frame, fn, args, kwargs
        self.settings, self.program = frame.settings, frame.program

    def make(self) -> Any:
        """The entry."""
        reader, piece, found = self._read()
        builder = Builder(reader)
        ending: list[str] | None
        if piece.ending == "return":
            try:
                ending = ["return " + builder.expression(piece.value)]
            except Break as unkept:
                return self._broken_return(unkept)
        else:
            ending = self._continuation(builder, piece, found)
            if ending is None:
                return self._whole(found)
        return self._write(reader, builder, ending)

    def _start(self, reader):
        if self.frame.names is None:
            return reader.arguments(self.args, self.kwargs)
        return reader.variables(self.frame.names, self.args)

    def _reader(self):
        return Reader(self.fn, self.program, self.frame.sizes)

    def _read(self):
        reader = self._reader()
        try:
            return reader, reader.read(self._start, self.frame.todo, None, False), None
        except SizesInside:
            self.frame.sizes.is_off = True
            return self._read()
        except Break as found:
            self._tell(found)
            return self._read_until(reader.reached, isinstance(found, DataBranch), found)

    def _read_until(self, stop, test, found):
        reader = self._reader()
        piece = reader.read(self._start, self.frame.todo, stop, test)
        return reader, piece, found

    def _tell(self, found):
        self.settings.tell_break(found, self.fn)
        if self.settings.fullgraph and found.error is not None:
            raise _Plainly from None
        if self.settings.fullgraph:
            raise _unsupported(found) from None

    def _broken_return(self, unkept):
        """A result that cannot be put together again: the return statement runs as it is."""
        self._tell(unkept)
        counting = self._reader()
        counting.read(self._start, self.frame.todo, None, False)
        reader, piece, _ = self._read_until(counting.reached, False, unkept)
        builder = Builder(reader)
        ending = self._continuation(builder, piece, unkept)
        return self._whole(unkept) if ending is None else self._write(reader, builder, ending)

    # -- what comes after ------------------------------------------------------------------------
    def _continuation(self, builder: Builder, piece: Piece, found: Break) -> list[str] | None:
        """The last lines of an entry that ends before the end; None if it cannot be split."""
        if split_reason(self.program, piece.rest) is not None:
            return None
        parameters = [a.arg for a in self.program.node.args.args]
        alive = live_names(piece.rest, parameters[0] if parameters else None)
        bound = piece.scope.variables
        names = tuple(sorted(n for n in alive if n in bound))
        try:
            values = "".join(builder.expression(bound[n]) + ", " for n in names)
            test = builder.expression(piece.value) if piece.ending == "test" else None
        except Break:
            return None
        constant = builder.guards.constant
        if test is not None:
            branch = self.frame.end(Branch, piece.rest, names)
            return [f"return {constant(branch)}(fn, {test}, ({values}))"]
        after = self.frame.end(Continuation, piece.rest, names)
        return [f"return {constant(after)}(fn, ({values}))"]

    def _whole(self, found: Break | None) -> Any:
        """All of it as plain Python; what it calls is still compiled."""
        reader = self._reader()
        scope = self._start(reader)
        reason = whole_reason(self.program)
        if reason is not None:
            raise Break(f"{found.reason if found else ''}; {reason}")
        names = tuple(sorted(scope.variables))
        builder = Builder(reader)
        values = "".join(builder.expression(scope.variables[n]) + ", " for n in names)
        after = self.frame.end(Whole, self.frame.todo, names)
        constant = builder.guards.constant
        return self._write(reader, builder, [f"return {constant(after)}(fn, ({values}))"])

    # -- writing ---------------------------------------------------------------------------------
    def _write(self, reader: Reader, builder: Builder, ending: list[str]) -> Any:
        guards = reader.guards
        _guard_aliases(reader)
        run: list[str] = []
        varies = bool(reader.numbers) or any(v.varies for v in reader.inputs)
        if varies:
            guard_sizes(reader, builder)
        if reader.count or reader.switches:
            graph = self._compiled(reader, builder)
            sources = {v.node: v.source for v in reader.inputs}
            sources |= {v.node: source for source, v in reader.numbers.items()}
            inputs = ", ".join(
                guards.variable(sources[n]) for n in reader.graph.nodes if n.op == "placeholder"
            )
            call = f"o = {guards.constant(graph)}({inputs})"
            run = [call]
            if reader.switches:  # an error may come in between
                modes_name = guards.constant(modes)
                run = [f"try: {call}", "except BaseException:",
                       f"    {modes_name}.grad = {modes.grad}", "    raise"]  # fmt: skip
            if reader.casts:
                run = [f"with {guards.constant(preserved_autocast)}():"] + [f"    {x}" for x in run]
        lines = ["def entry(fn, args, kwargs):", "    try:"]
        lines += [f"        {line}" for line in guards.lines or ["pass"]]
        lines += [
            "    except (AttributeError, KeyError, IndexError, TypeError, ValueError):",
            "        return MISS",
        ]
        lines += [f"    {line}" for line in (*run, *builder.lines, *ending)]
        text = "\n".join(lines) + "\n"
        filename = f"<compiled {self.fn.__qualname__} {next(_serial)}>"
        linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
        space = dict(guards.constants)
        exec(code_of(text, filename), space)
        entry = space["entry"]
        entry.circumstances, entry.varies = tuple(guards.facts), varies
        self.settings.tell_guards(guards.lines)
        return entry

    def _compiled(self, reader, builder):
        """The graph as a function, by the backend."""
        graph = reader.graph
        reader.leave_surroundings()
        graph.output(tuple(v.node for v in builder.outputs))
        settings = self.settings
        key = graph_key(graph, reader.attributes) if settings.shares_graphs() else None
        found = settings.graphs.get(key)
        if found is None:
            root = Module()
            for name, held in reader.attributes.items():
                setattr(root, name, held)
            module = GraphModule(root, graph, "GraphModule")
            values = {v.node: v.real for v in reader.inputs}
            values |= {v.node: v.hint for v in reader.numbers.values()}
            found = settings.compile_graph(
                module, [values[n] for n in graph.nodes if n.op == "placeholder"]
            )
            if key is not None:
                settings.keep_graph(key, found)
        return found


def _guard_aliases(reader):
    """Inputs are as many objects as they were; if one is written to, memory is shared by integers
    that nobody writes to, or not at all.
    """
    guards, inputs = reader.guards, reader.inputs
    if reader.has_steps:
        guard_steps(reader)
    if len(inputs) < 2:
        return
    names = [guards.variable(v.source) for v in inputs]
    if reader.writes or reader.has_steps or len(inputs) <= 8:
        ids = ", ".join(f"id({n})" for n in names)
        guards.require(f"len({{{ids}}}) == {len(inputs)}")
    if reader.writes:
        first: dict = {}  # storage -> input, and its name
        for v, name in zip(inputs, names):
            of, other = first.setdefault(id(v.real._storage), (v, name))
            if of is not v:
                _guard_shared(reader, of, other, v, name)
        ids = ", ".join(f"id({n}._storage)" for _, n in first.values())
        guards.require(f"len({{{ids}}}) == {len(first)}")
        for v, name in zip(inputs, names):
            word = "is" if v.real._view is None else "is not"
            guards.require(f"{name}._view {word} None")


def _guard_shared(reader, first, first_name, second, name):
    """Two inputs lie in one piece of memory, and will next time."""
    for v in (first, second):
        if v.real.dtype.is_floating_point or v.real.dtype in reader.written_kinds:
            raise Break("a tensor is written to that shares its memory with another")
    away = second.real._offset - first.real._offset
    reader.guards.require(f"{name}._storage is {first_name}._storage")
    reader.guards.require(f"{name}._offset - {first_name}._offset == {away}")


class Continuation:
    """A statement as plain Python, then the rest."""

    def __init__(
        self, settings: Any, program: Program, rest: list[ast.stmt], names: tuple[str, ...]
    ) -> None:
        self.settings, self.program, self.rest = settings, program, rest[1:]
        self.fragment = Fragment(program, rest[:1], names)
        self.live = live_names(self.rest, self.fragment.first)
        self.frames: dict[tuple, Frame] = {}

    def __call__(self, fn: Any, values: tuple) -> Any:
        returned, found = self.fragment.run(fn, values, self.settings.compiled)
        if returned:
            return found
        if not self.rest:
            return None
        names = tuple(n for n in found if n in self.live)
        return self._frame(names).run(fn, tuple(found[n] for n in names), {})

    def _frame(self, names):
        frame = self.frames.get(names)
        if frame is None:
            made = Frame(self.settings, self.program, self.rest, names)
            frame = self.frames.setdefault(names, made)
        return frame


class Whole(Continuation):
    """All statements as plain Python."""

    def __init__(
        self, settings: Any, program: Program, rest: list[ast.stmt], names: tuple[str, ...]
    ) -> None:
        self.settings, self.program, self.rest = settings, program, []
        self.fragment = Fragment(program, rest, names)


class Branch:
    """A test of a tensor, then the branch and the rest."""

    def __init__(
        self, settings: Any, program: Program, rest: list[ast.stmt], names: tuple[str, ...]
    ) -> None:
        test: Any = rest[0]
        self.names = names
        self.ways = {
            True: Frame(settings, program, [*test.body, *rest[1:]], names),
            False: Frame(settings, program, [*test.orelse, *rest[1:]], names),
        }

    def __call__(self, fn: Any, test: Any, values: tuple) -> Any:
        return self.ways[bool(test)].run(fn, values, {})


def frame_of(settings: Any, fn: types.FunctionType) -> Frame:
    """A new frame for a function; Break if it cannot be read."""
    program = program_of(fn)
    return Frame(settings, program, program.body, None)
