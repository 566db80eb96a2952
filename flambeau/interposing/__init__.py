"""The one way to stand in the path of a call: to watch it, to change it or to answer it.

A handler has `around(name, function, args, kwargs)`; calling `function(*args, **kwargs)` goes on to
the next handler below, at last to the function itself. Handlers are on a stack per thread:

    class Doubling(interposing.Handler):
        def around(self, name, function, args, kwargs):
            result = function(*args, **kwargs)
            return result * 2 if name == "aten::sin" else result

    with interposing.handling(Doubling()):
        model(x)

Nothing of this is on the path of a call while there is no handler. The first one exchanges the code
of the public functions (a function stays the same object, so methods, operators, imports by name
and calls from other ops are all caught). When the last one goes the functions stay armed, so that
the next costs little; they get their own code back after some thousand calls that found nobody.
Which functions there are is in places.py. Why it is done like this: docs/design/010.
"""

import contextlib
import functools
import linecache
import os
import threading
import types
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from flambeau._layout import Size

IDLE_CALLS = 5000  # armed calls that find no handler, in a row, until functions are disarmed

FUNCTION_MODES, ARGUMENTS, OBSERVERS, CASTING, DISPATCH_MODES = 40, 30, 20, 10, 0  # levels

_lock = threading.RLock()  # held while code is exchanged, and stacks of other threads


class Name(str):
    """What a call is called; knows its kind, the row it stands for and its Place."""

    __slots__ = ("kind", "place", "row")
    kind: str
    row: str
    place: "Place"

    @property
    def function(self) -> Any:
        """The public function that is called."""
        return self.place.function()


class Handler:
    """What stands around calls. Subclasses override `around`, and what they need besides.

    kinds: which kinds of calls. level: who is asked first, the highest. sees: which calls that are
    made while it handles one it is told of: "nothing", what is called "inside" of the function it
    goes on with, or "all". is_lasting: one object that is pushed again and again. forks: it stays
    in forked processes. passing: it is not told of calls all of whose arguments are of these types.
    """

    kinds: frozenset[str] = frozenset({"op"})
    level = OBSERVERS
    sees = "nothing"
    all_threads = False
    is_lasting = False
    forks = False
    passing: "Passing | None" = None

    def wants(self, place: "Place") -> bool:
        """Is it to be told of calls of this function? Asked once per stack."""
        return place.kind in self.kinds

    def around(self, name: Name, function: Callable, args: tuple, kwargs: dict) -> Any:
        """Handle a call."""
        return function(*args, **kwargs)


class Passing(set):
    """Types of arguments that a handler lets pass; it grows as types are met.

    Handlers that look for arguments of certain classes share one, so that a call with none of
    these costs a look at its types and no more.
    """

    def __init__(self, is_passing: Callable[[type], bool]) -> None:
        super().__init__()
        self._is_passing, self._others = is_passing, set[type]()
        self._holding = {list, tuple, Size}  # these pass if what they hold does

    def all_of(self, values: Iterable) -> bool:
        """Do all values pass, also those in lists and tuples?"""
        for value in values:
            kind = type(value)
            if kind in self:
                continue
            if kind in self._holding:
                if self.issuperset(map(type, value)) or self.all_of(value):
                    continue
            elif kind not in self._others:
                if self._is_passing(kind):
                    self.add(kind)
                    continue
                self._others.add(kind)
            return False
        return True


class Observer(Handler):
    """A handler that is told when a call begins and when it has ended, and changes nothing."""

    sees = "inside"

    def before(self, name: Name, args: tuple, kwargs: dict) -> Any:
        """A call begins; what is returned is given to after()."""

    def after(
        self,
        token: Any,
        name: Name,
        args: tuple,
        kwargs: dict,
        result: Any,
        error: BaseException | None,
    ) -> None:
        """The call has ended, with a result or an error."""

    def around(self, name: Name, function: Callable, args: tuple, kwargs: dict) -> Any:
        token = self.before(name, args, kwargs)
        try:
            result = function(*args, **kwargs)
        except BaseException as error:
            self.after(token, name, args, kwargs, None, error)
            raise
        self.after(token, name, args, kwargs, result, None)
        return result


class _Calling(Handler):
    """A plain function as a handler."""

    def __init__(self, function: Callable) -> None:
        self.around = function  # type: ignore[method-assign]


# -- stacks ----------------------------------------------------------------------------------------


class Chain(tuple):
    """The handlers that want a function, and how to ask whether all let some types pass."""

    passing: Callable | None = None
    kinds: Passing


class Stack(dict):
    """Handlers, of which some may be off; a value. As a dict: Place -> those that want it."""

    __slots__ = ("_above", "_below", "_without", "handlers", "off")

    def __init__(self, handlers: tuple = (), off: tuple = ()) -> None:
        self.handlers, self.off = handlers, off
        self._above: dict = {}
        self._below: dict = {}
        self._without: dict = {}

    def __missing__(self, place: "Place") -> "Chain":
        active = [h for h in reversed(self.handlers) if h not in self.off]
        found = self[place] = Chain([h for h in active if h.wants(place)])
        kinds = found[0].passing if found else None
        if kinds is not None and all(h.passing is kinds for h in found):
            found.kinds, found.passing = kinds, kinds.issuperset
        return found

    def pushed(self, handler: Handler) -> "Stack":
        """With another handler, above those of its level."""
        found = self._above.get(handler)
        if found is None:
            below = [h for h in self.handlers if h.level <= handler.level]
            found = _stack((*below, handler, *self.handlers[len(below) :]), self.off)
            if handler.is_lasting and all(h.is_lasting for h in self.handlers):
                self._above[handler], found._below[handler] = found, self
        return found

    def popped(self, handler: Handler) -> "Stack":
        """Without the last entry of a handler."""
        found = self._below.get(handler)
        if found is None:
            kept = list(self.handlers)
            if handler in kept:
                del kept[len(kept) - 1 - kept[::-1].index(handler)]
            found = _stack(tuple(kept), self.off)
        return found

    def without(self, handler: Handler) -> "Stack":
        """With a handler off."""
        found = self._without.get(handler)
        if found is None:
            found = self._without[handler] = _stack(self.handlers, (*self.off, handler))
        return found

    def again(self, handler: Handler) -> "Stack":
        """With a handler on again."""
        return _stack(self.handlers, tuple(h for h in self.off if h is not handler))


class _Nobody(Stack):
    """The stack without handlers."""

    __slots__ = ()

    def __missing__(self, place: "Place") -> Chain:
        return Chain()

    def without(self, handler: Handler) -> "Stack":
        return self


NOBODY = _Nobody()
_idle = [None] * IDLE_CALLS  # one less for each armed call that finds nobody


def _stack(handlers: tuple, off: tuple) -> Stack:
    return Stack(handlers, off) if handlers else NOBODY


class _Thread:
    """What a thread passes now."""

    __slots__ = ("__weakref__", "operator", "stack")

    def __init__(self) -> None:
        self.stack: Stack = _common
        self.operator: str | None = None  # one that runs, and may call the function of its name


class _Threads(threading.local):
    def __init__(self) -> None:
        self.me = _Thread()
        with _lock:
            _known_threads.add(self.me)


_common: Stack = NOBODY  # what new threads start with: handlers of all threads
_known_threads: weakref.WeakSet = weakref.WeakSet()
_threads = _Threads()


def push(handler: Handler | Callable) -> Handler:
    """Let a handler stand around the calls of this thread, or of all if it says so."""
    global _common
    handler = handler if isinstance(handler, Handler) else _Calling(handler)
    me = _threads.me
    with _lock:
        if handler.all_threads:
            _common = _common.pushed(handler)
            for thread in {*_known_threads, me}:
                thread.stack = thread.stack.pushed(handler)
        else:
            me.stack = me.stack.pushed(handler)
    me.operator = None  # what an operator calls now is news to this handler
    # asked when the stack has changed: from then on nobody disarms
    if handler not in _armed_for and not handler.kinds <= _armed:
        _arm(handler)
    if len(_idle) < IDLE_CALLS // 2:
        _idle.extend([None] * (IDLE_CALLS - len(_idle)))
    return handler


def pop(handler: Handler) -> None:
    """Take a handler away; may be called on any thread."""
    global _common
    me = _threads.me
    with _lock:
        if handler in me.stack.handlers and not handler.all_threads:
            me.stack = me.stack.popped(handler)
            return
        _common = _common.popped(handler)
        for thread in list(_known_threads):
            if handler in thread.stack.handlers:
                thread.stack = thread.stack.popped(handler)


@contextlib.contextmanager
def handling(handler: Handler | Callable) -> Iterator[Any]:
    """A handler around the calls in a block."""
    handler = push(handler)
    try:
        yield handler
    finally:
        pop(handler)


def is_pushed(handler: Handler) -> bool:
    """Does it stand around calls in this thread, even if it is off for now?"""
    return handler in _threads.me.stack.handlers


def is_on(handler: Handler) -> bool:
    """Is it told of calls in this thread?"""
    stack = _threads.me.stack
    return handler in stack.handlers and handler not in stack.off


def is_used(handler: Handler) -> bool:
    """Does it stand around calls in any thread?"""
    with _lock:
        return any(handler in thread.stack.handlers for thread in _known_threads)


def is_active() -> bool:
    """Is there any handler, in any thread?"""
    with _lock:
        return bool(_common.handlers) or any(t.stack.handlers for t in _known_threads)


def handlers() -> tuple[Handler, ...]:
    """Those of this thread that are on; the last is asked first."""
    stack = _threads.me.stack
    return tuple(h for h in stack.handlers if h not in stack.off)


def is_wanted(kind: str) -> bool:
    """Does a handler of this thread want this kind of calls?"""
    stack = _threads.me.stack
    return stack is not NOBODY and any(kind in h.kinds for h in stack.handlers)


class switched_off:
    """Handlers are not told of what is called in a block."""

    __slots__ = ("handlers", "mine", "saved")

    def __init__(self, *handlers: Handler) -> None:
        self.handlers = handlers

    def __enter__(self) -> "switched_off":
        me = _threads.me
        self.saved = stack = me.stack
        for handler in self.handlers:
            if handler not in stack.off:
                stack = stack.without(handler)
        self.mine = me.stack = stack
        return self

    def __exit__(self, *error: Any) -> None:
        me = _threads.me
        if me.stack is self.mine:
            me.stack = self.saved
            return
        for handler in self.handlers:  # somebody came or went meanwhile
            if handler not in self.saved.off:
                me.stack = me.stack.again(handler)


def _forked():
    """A child process keeps what belongs to its own calls; nobody waits for what others see."""
    global _lock, _common
    _lock = threading.RLock()
    me = _threads.me
    _known_threads.clear()
    _known_threads.add(me)
    _common = _stack(tuple(h for h in _common.handlers if h.forks), ())
    me.stack = _stack(tuple(h for h in me.stack.handlers if h.forks), ())
    disarm()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


# -- functions -------------------------------------------------------------------------------------

# a name, or how to tell it from (args, kwargs)
Naming = str | Callable[[tuple, dict], str]


class Place:
    """A function that handlers can stand around."""

    __slots__ = ("_named", "code", "copy", "delegates", "function", "is_on", "key", "kind", "name",
                 "naming", "row")  # fmt: skip

    def __init__(self, function: Any, offered: "_Offered") -> None:
        own = function.__code__
        self.function = weakref.ref(function)
        self.copy = types.FunctionType(
            own,
            function.__globals__,
            function.__name__,
            function.__defaults__,
            function.__closure__,
        )
        self.copy.__kwdefaults__ = function.__kwdefaults__
        self.copy.__qualname__ = function.__qualname__
        self.copy.__annotations__ = function.__annotations__
        self.kind, self.key, self.row, self.is_on = offered.kind, offered.key, "", False
        naming = offered.naming
        if naming is None:
            from flambeau.interposing.places import resolve

            self.kind, naming, self.row = resolve(offered.key)
        self.naming = naming
        self._named: dict[str, Name] = {}
        self.name = self.named(naming) if isinstance(naming, str) else None
        # these may call a function of the same name, which is then not shown a second time
        self.delegates = self.kind in ("op", "python") and (
            self.copy.__name__[:2] == "__" or self.row.startswith("functional_")
        )
        self.code = _exchanged(own, {"place": self, "function": self.copy, **_WORDS})

    def named(self, text: str) -> Name:
        """A name for a call of this function."""
        found = self._named.get(text)
        if found is None:
            found = self._named[text] = Name(text)
            found.kind, found.place = self.kind, self
            found.row = self.row or text.removeprefix("aten::")
        return found

    def run(self, chain: Chain, args: tuple, kwargs: dict) -> Any:
        """A call, with handlers around it."""
        me = _threads.me
        values = (*args, *kwargs.values()) if kwargs else args
        if chain.passing is not None and me.operator is None and chain.kinds.all_of(values):
            return self.copy(*args, **kwargs)
        name = self.name or self.named(self.naming(args, kwargs))
        if me.operator is not None and me.operator == name:  # seen as the operator already
            me.operator = None
            return self.copy(*args, **kwargs)
        return _go_on(me, name, chain, 0, args, kwargs)

    def below(self, level: int, args: tuple, kwargs: dict) -> Any:
        """A call of which handlers from a level on are not told; they are of what it calls."""
        me = _threads.me
        chain = me.stack[self]
        name = self.name or self.named(self.naming(args, kwargs))
        first = next((k for k, h in enumerate(chain) if h.level < level), len(chain))
        return _go_on(me, name, chain, first, args, kwargs)

    def last(self, me: _Thread, name: Name, args: tuple, kwargs: dict) -> Any:
        """The function itself."""
        if not self.delegates:
            return self.copy(*args, **kwargs)
        me.operator = name
        try:
            return self.copy(*args, **kwargs)
        finally:
            me.operator = None


def _go_on(me, name, chain, k, args, kwargs):
    """A call from its k-th handler on."""
    if k == len(chain):
        return name.place.last(me, name, args, kwargs)
    handler = chain[k]
    if handler.all_threads and handler not in _common.handlers:
        me.stack = me.stack.popped(handler)  # it went while this thread was changing its stack
        return _go_on(me, name, chain, k + 1, args, kwargs)
    sees = handler.sees
    if sees == "all":
        return handler.around(name, _rest(me, name, chain, k + 1), args, kwargs)
    saved = me.stack
    mine = saved._without.get(handler)
    mine = me.stack = saved.without(handler) if mine is None else mine
    if sees == "nothing":
        rest = _rest(me, name, chain, k + 1)
    else:
        rest = _Inside(me, name, chain, k + 1)
        rest.handler, rest.outside, rest.stack = handler, mine, saved
    try:
        return handler.around(name, rest, args, kwargs)
    finally:
        me.stack = saved if me.stack is mine else me.stack.again(handler)


def _rest(me, name, chain, k):
    """What a handler calls to go on: the function itself if nobody is below."""
    place = name.place
    if k == len(chain) and not place.delegates:
        return place.copy
    return _Rest(me, name, chain, k)


class _Rest:
    """What is left of a call below a handler."""

    __slots__ = ("chain", "k", "me", "name")

    def __init__(self, me, name, chain, k):
        self.me, self.name, self.chain, self.k = me, name, chain, k

    def __call__(self, *args, **kwargs):
        return _go_on(self.me, self.name, self.chain, self.k, args, kwargs)


class _Inside(_Rest):
    """The same for a handler that is told of what is called there."""

    __slots__ = ("handler", "outside", "stack")

    def __call__(self, *args, **kwargs):
        me = self.me
        usual = me.stack is self.outside
        me.stack = self.stack if usual else me.stack.again(self.handler)
        try:
            if self.k == len(self.chain):
                return self.name.place.last(me, self.name, args, kwargs)
            return _go_on(me, self.name, self.chain, self.k, args, kwargs)
        finally:
            if usual and me.stack is self.stack:
                me.stack = self.outside
            else:
                me.stack = me.stack.without(self.handler)


# The code that functions are given. Words in quotes are constants that _exchanged gives values to:
# nothing else is as quick. {free} are variables of a closure, which the code never touches; it must
# have as many as the function's own code, or whoever looks at the variables of a frame crashes.
_TEMPLATE = """
def outside({free}):
    def exchanged(*args, **kwargs):
        threads = "threads"
        nobody = "nobody"
        function = "function"
        me = threads.me
        stack = me.stack
        if stack is nobody:
            tick = "tick"
            try:
                tick()
            except IndexError:
                disarm = "disarm"
                disarm()
            return function(*args, **kwargs)
        place = "place"
        chain = stack[place]
        passing = chain.passing
        if passing is not None and not kwargs and me.operator is None:
            map = "map"
            type = "type"
            if passing(map(type, args)):
                return function(*args)
        return place.run(chain, args, kwargs) if chain else function(*args, **kwargs)
        {free}
    return exchanged
"""


@functools.cache
def _template(count):
    """The code for functions with so many variables from outside."""
    free = [f"outer{k}" for k in range(count)]
    text = _TEMPLATE.format(free=", ".join(free))
    filename = f"<flambeau interposing {count}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    space: dict = {}
    exec(compile(text, filename, "exec"), space)
    return space["outside"](*free).__code__


def _exchanged(own, values):
    """The code that stands in for another: the template, with values for its words."""
    code = _template(len(own.co_freevars))
    consts = tuple(values.get(c, c) if type(c) is str else c for c in code.co_consts)
    return code.replace(co_consts=consts, co_freevars=own.co_freevars, co_name=own.co_name)


_WORDS: dict = {}  # values that are the same for all functions


class _Offered:
    __slots__ = ("key", "kind", "naming")

    def __init__(self, key, naming, kind):
        self.key, self.naming, self.kind = key, naming, kind


_offers: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # function -> _Offered or Place
_armed: frozenset = frozenset()  # kinds of calls whose functions have all been exchanged
_armed_for: frozenset = frozenset()  # lasting handlers for which those they want have been


def offer(function: Any, naming: Naming | None = None, kind: str = "op", key: str = "") -> None:
    """Let handlers stand around a function. Without a name, that of a row by its public name."""
    if not isinstance(function, types.FunctionType):
        return
    offered = _Offered(key or function.__name__, naming, kind)
    if not (_armed or _armed_for):
        _offers.setdefault(function, offered)
        return
    with _lock:
        _exchange(function, _offers.setdefault(function, offered), _armed, _armed_for)


def is_offered(function: Any) -> bool:
    """May handlers stand around a function?"""
    return function in _offers


def place_of(function: Any) -> Place | None:
    """The place of a function that has been armed."""
    found = _offers.get(function) if isinstance(function, types.FunctionType) else None
    return found if type(found) is Place else None


def own_code(function: Any) -> Any:
    """The code of a function, also while it is exchanged."""
    place = _offers.get(function)
    return place.copy.__code__ if type(place) is Place else function.__code__


def _exchange(function, offered, kinds, handlers):
    """Give a function the code that asks for handlers, if it is of these kinds or wanted."""
    if type(offered) is _Offered:
        every = kinds.union(*[h.kinds for h in handlers])
        if offered.naming is not None and offered.kind not in every:
            return
        offered = _offers[function] = Place(function, offered)
    if offered.is_on:
        return
    if offered.kind in kinds or any(h.wants(offered) for h in handlers):
        function.__code__, offered.is_on = offered.code, True
        function.__dict__.setdefault("__wrapped__", offered.copy)  # inspect looks for it there


def _arm(handler):
    global _armed, _armed_for
    from flambeau.interposing import places  # knows all of eager; loads with the first handler

    with _lock:
        places.offer_all()
        kinds, handlers = _armed, _armed_for
        if handler.is_lasting:
            handlers = handlers | {handler}
        else:
            kinds = kinds | handler.kinds
        for function, offered in list(_offers.items()):
            _exchange(function, offered, kinds, handlers)
        _armed, _armed_for = kinds, handlers


def disarm() -> None:
    """Give all functions their own code, unless a handler in some thread needs them."""
    global _armed, _armed_for
    with _lock:
        _idle[:] = [None] * IDLE_CALLS
        # first this, so that who comes now arms again; then the question who is there
        armed, _armed, _armed_for = (_armed, _armed_for), frozenset(), frozenset()
        if is_active():
            _armed, _armed_for = armed
            return
        for function, place in list(_offers.items()):
            if type(place) is Place and place.is_on:
                function.__code__, place.is_on = place.copy.__code__, False
                if function.__dict__["__wrapped__"] is place.copy:
                    del function.__wrapped__


_WORDS |= {"threads": _threads, "nobody": NOBODY, "tick": _idle.pop, "disarm": disarm}
_WORDS |= {"map": map, "type": type}
