"""What happens while a profiler runs: calls are noted with their times, and little else.

A Recorder is an observer (interposing/) of ops, nodes of backward, modules and optimizer
steps; `record_function` adds what users name themselves, and a clock around kernels
(runtime/kernel_clock.py) what native code does. Notes become events when somebody asks for them
(events.py). If memory is watched, results of ops are followed until their memory is given back.
"""

import contextlib
import functools
import inspect
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

from flambeau import interposing
from flambeau._layout import Layout
from flambeau._tensor import Tensor
from flambeau.aten.names import type_of
from flambeau.autograd import leaves
from flambeau.eager import kernels
from flambeau.nn.modules.calling import Calling
from flambeau.optim.optimizer import Optimizer
from flambeau.storage import Kept, root_of
from flambeau.utils.flop_formulas import flops_of

_now = time.perf_counter_ns
_ident = threading.get_ident
_OUR_FILES = (__file__, interposing.__file__)
_active: list["Recorder"] = []  # recorders that run, for record_function


class Note:
    """One call: when, where, with what."""

    __slots__ = (
        "end",
        "flops",
        "inputs",
        "kind",
        "module",
        "name",
        "sequence",
        "stack",
        "start",
        "thread",
    )

    def __init__(self, name: str, kind: str, start: int) -> None:
        self.name, self.kind, self.thread, self.start = name, kind, _ident(), start
        self.end = 0
        self.inputs: Inputs | None = None
        self.stack: list[tuple] | None = None
        self.module: str | None = None
        self.sequence, self.flops = -1, 0


class MemoryNote:
    """Memory taken (nbytes > 0) or given back (nbytes < 0)."""

    __slots__ = ("address", "nbytes", "thread", "time", "total")

    def __init__(self, nbytes: int, address: int, total: int, time: int = 0) -> None:
        self.time, self.thread = time or _now(), _ident()
        self.nbytes, self.address, self.total = nbytes, address, total


class Inputs:
    """What a call was given: layouts in place of tensors, which are not kept alive."""

    __slots__ = ("names", "values")

    def __init__(self, args: Any, kwargs: dict) -> None:
        self.values = [_kept(v) for v in args]
        self.names = tuple(kwargs)
        if kwargs:
            self.values += [_kept(v) for v in kwargs.values()]

    def complete(self, params: list[tuple[str, Any]]) -> None:
        """Arguments in the order of (name, default) pairs, with those that were left out."""
        count = len(self.values) - len(self.names)
        named = dict(zip(self.names, self.values[count:]))
        rest = [_kept(named.pop(name, default)) for name, default in params[count:]]
        self.values = [*self.values[:count], *rest, *named.values()]
        self.names = tuple(named)

    dims = property(lambda self: [_sizes(v, "shape") for v in self.values])
    strides = property(lambda self: [_sizes(v, "strides") for v in self.values])
    types = property(lambda self: [type_of(v) for v in self.values])
    concrete = property(lambda self: [_concrete(v) for v in self.values])


def _kept(value):
    if isinstance(value, Tensor):
        return value._layout  # layouts are values, so this is all there is to do now
    if type(value) in (list, tuple):
        return [_kept(v) for v in value]
    if isinstance(value, Layout):
        return value
    return value if value is None or type(value) in _NUMBERS else ""


_NUMBERS = frozenset((bool, int, float, complex))


def _sizes(value, name):
    if isinstance(value, Layout):
        return list(getattr(value, name))
    if type(value) is list and value and isinstance(value[0], Layout):
        return [_sizes(v, name) for v in value]
    return []


def _concrete(value):
    """A number, or a list of them; None stands for everything else."""
    if type(value) is list and not any(isinstance(v, Layout) for v in value):
        return value
    return value if type(value) in _NUMBERS else None


def _stack():
    """Frames outside of this machinery, innermost first, as (file, line, function)."""
    frame, found = sys._getframe(2), []
    while frame is not None:
        code = frame.f_code
        if code.co_filename not in _OUR_FILES and not code.co_filename.startswith("<flambeau"):
            found.append((code.co_filename, frame.f_lineno, code.co_name))
        frame = frame.f_back
    return found


class Recorder(interposing.Observer):
    """Notes of what is called between start() and stop()."""

    def __init__(
        self,
        shapes: bool = False,
        memory: bool = False,
        stack: bool = False,
        flops: bool = False,
        modules: bool = False,
        all_threads: bool = False,
        gpu: bool = False,
    ) -> None:
        self.gpu = gpu
        self.shapes, self.memory, self.stack = shapes, memory, stack
        self.flops, self.modules, self.all_threads = flops, modules, all_threads
        self.plain = not (shapes or memory or stack or flops or modules)
        kinds = {"op", "node", "leaf", "optimizer", "loader"}
        self.kinds = frozenset(kinds | {"module"} if modules or stack else kinds)
        self.notes: list[Note] = []
        self.memory_notes: list[MemoryNote] = []
        self.kernels: list[tuple] = []  # (name, thread, start, end, begin and end on a GPU)
        self.start_time = self.end_time = 0
        self._live: dict[int, weakref.ref] = {}  # storages that are followed
        self._total = 0
        self._places: dict[int, list] = {}  # thread -> (module, how it is called) it is in
        self._clock: Any = None
        self._since = 0

    def start(self) -> None:
        add_places()
        self._clock = kernels.clock()
        if self._clock is not None:
            self._clock.start(kernels.gpu_clock() if self.gpu else None)
            self._since = self._clock.position()
        self.start_time = _now()
        _active.append(self)
        interposing.push(self)

    def stop(self) -> None:
        interposing.pop(self)
        _active.remove(self)
        self.end_time = _now()
        for note in self.notes:  # a profiler may stop inside of what it notes
            note.end = note.end or self.end_time
        if self._clock is not None:
            self.kernels = self._clock.read(self._since)
            self._clock.stop()
        if not self.all_threads:
            threads = {note.thread for note in self.notes}
            self.kernels = [k for k in self.kernels if k[1] in threads]
        self._live = {}

    def pause(self) -> None:
        """See nothing for a while."""
        interposing.pop(self)

    def resume(self) -> None:
        if self in _active and not interposing.is_used(self):
            interposing.push(self)

    # -- calls ---------------------------------------------------------------------------------
    def before(self, name: interposing.Name, args: tuple, kwargs: dict) -> Note:
        if not self.plain or name.kind != "op":
            return self._begin(name, args, kwargs)
        note = Note(name, "op", _now())
        self.notes.append(note)
        return note

    def after(
        self,
        token: Note,
        name: interposing.Name,
        args: tuple,
        kwargs: dict,
        result: Any,
        error: Any,
    ) -> None:
        token.end = token.end or _now()
        if name.kind != "op":
            self._end(token, name.kind, args, result)
            return
        if isinstance(result, Tensor) and result._grad_fn is not None:
            token.sequence = result._grad_fn.seq
        if self.plain:
            return
        if self.memory:
            self._follow(result, (*args, *kwargs.values()), token.end)
        if self.flops and error is None:
            token.flops = flops_of(
                name.row, args, kwargs, result, name in ("aten::add", "aten::mul")
            )

    def _begin(self, name, args, kwargs):
        kind = name.kind
        note = Note(name, kind, 0)
        if kind == "node":
            note.sequence = args[0].seq
            if self.shapes:
                note.inputs = Inputs(args[1], {})
        elif kind == "leaf" and self.shapes:
            note.inputs = Inputs((args[0][args[1]][1],), {})
        elif kind == "module":
            self._enter_module(note, args[0])
        elif self.shapes and kind == "op":
            note.inputs = Inputs(args, kwargs)
        if self.stack and kind != "node":
            note.stack = _stack()
        if self.modules and self._places.get(note.thread):
            note.module = ".".join(shown for _, shown in self._places[note.thread])
        self.notes.append(note)
        note.start = _now()
        return note

    def _end(self, token, kind, args, result):
        if kind == "module":
            self._places[token.thread].pop()
        elif self.memory and kind == "node":
            self._follow(result, args[1], token.end)

    def _enter_module(self, note, module):
        note.name = _module_name(module)
        places, kind = self._places.setdefault(note.thread, []), type(module).__name__
        if places:
            kind = f"{name_within(places[-1][0], module) or '?'}({kind})"
        places.append((module, kind))

    # -- named by users ------------------------------------------------------------------------
    def begin(self, name: str, kind: str = "user") -> Note:
        note = Note(name, kind, _now())
        if self.stack:
            note.stack = _stack()
        self.notes.append(note)
        return note

    def span(self, name: str, start: int, end: int, track: int | None) -> None:
        """Something that went on beside what threads did, or (track None) in this thread."""
        note = Note(name, "op", start)
        note.end = end
        if track is not None:
            note.thread = track
        self.notes.append(note)

    # -- memory --------------------------------------------------------------------------------
    def _follow(self, result, given, time):
        """Note the memory of new results, and when it is given back."""
        if result is None:
            return
        for t in (result,) if isinstance(result, Tensor) else _tensors(result):
            storage = root_of(t._storage)
            followed = self._live.get(id(storage))
            if followed is not None and followed() is storage:
                continue
            if not storage.pointer or _is_given(storage, given):
                continue
            owner = getattr(storage, "owner", None)
            if owner is not None and type(owner) is not Kept:  # memory of somebody else
                continue
            self._total += storage.nbytes
            note = MemoryNote(storage.nbytes, storage.pointer, self._total, time)
            self.memory_notes.append(note)
            followed = self._live[id(storage)] = _Followed(storage, self._given_back)
            followed.key, followed.note = id(storage), note

    def _given_back(self, followed):
        if self._live.get(followed.key) is followed:
            del self._live[followed.key]
            taken = followed.note
            self._total -= taken.nbytes
            self.memory_notes.append(MemoryNote(-taken.nbytes, taken.address, self._total))


class _Followed(weakref.ref):
    """A storage whose end is noted."""

    __slots__ = ("key", "note")
    key: int
    note: MemoryNote


def _is_given(storage, given):
    """Does a result lie in the memory of an argument?"""
    for value in given:
        if isinstance(value, Tensor):
            if root_of(value._storage) is storage:
                return True
        elif type(value) in (list, tuple) and _is_given(storage, value):
            return True
    return False


def _tensors(value):
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for v in value:
            yield from _tensors(v)


# -- what can be observed besides ops ------------------------------------------------------------

_numbers: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # module -> number in its class
_counts: dict[str, int] = {}


def _module_name(module):
    """nn.Module: Linear_0, numbered in the order in which modules are met."""
    kind = type(module).__name__
    number = _numbers.get(module)
    if number is None:
        number = _numbers[module] = _counts.get(kind, 0)
        _counts[kind] = number + 1
    return f"nn.Module: {kind}_{number}"


_found: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # module -> names of those below


def name_within(above: Any, module: Any) -> str | None:
    """What a module is called within another one, such as layers.0; None if it is not in it."""
    known = _found.get(above, {}).get(id(module))
    if known is None or known[1]() is not module:
        inside = [(name, m) for name, m in above.named_modules() if name]
        _found[above] = {id(m): (name, weakref.ref(m)) for name, m in inside}
        known = _found[above].get(id(module))
    return None if known is None else known[0]


def _zero_name(args, kwargs):
    name = type(args[0]).__name__
    return f"Optimizer.zero_grad#{name}.zero_grad"


def _loader_name(args, kwargs):
    kind = "_SingleProcess" if type(args[0]).__name__.startswith("Single") else "_MultiProcessing"
    return f"enumerate(DataLoader)#{kind}DataLoaderIter.__next__"


def add_places() -> None:
    """Make modules, optimizers, loaders and the leaves of the graph observable."""
    interposing.offer(Calling.__call__, "nn.Module", "module")
    interposing.offer(Optimizer.zero_grad, _zero_name, "optimizer")
    interposing.offer(leaves.hand_over, "torch::autograd::AccumulateGrad", "leaf")
    loading = sys.modules.get("flambeau.utils.data.iteration")
    if loading is not None:
        interposing.offer(loading.BaseIterator.__next__, _loader_name, "loader")


# -- what users name -----------------------------------------------------------------------------


class record_function(contextlib.ContextDecorator):
    """Names a block, or a function, in profiles. Costs next to nothing while nobody profiles.

    Example:
        >>> with flambeau.profiler.profile() as prof, flambeau.profiler.record_function("mine"):
        ...     x = flambeau.ones(3) + 1
        >>> [event.name for event in prof.events()]
        ['mine', 'aten::ones', 'aten::add']
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name, self.args = name, args
        self._notes: list[list[Note]] = []

    def __enter__(self) -> "record_function":
        self._notes.append([r.begin(self.name) for r in _watching()] if _active else [])
        return self

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        if self._notes:
            end = _now()
            for note in self._notes.pop():
                note.end = note.end or end

    def __call__(self, func: Callable) -> Any:
        if inspect.isgeneratorfunction(func):

            @functools.wraps(func)
            def generate(*args, **kwargs):
                with record_function(self.name, self.args):
                    return (yield from func(*args, **kwargs))

            return generate

        @functools.wraps(func)
        def wrapper(*args, **kwargs):
            with record_function(self.name, self.args):
                return func(*args, **kwargs)

        return wrapper


def _watching():
    """Recorders that see this thread."""
    return [r for r in list(_active) if interposing.is_pushed(r)]
