"""Watching public functions from outside: before and after every call of an op.

Nothing of this is on the path of a call while nobody watches. The first observer exchanges the code
of the public functions (a function stays the same object, so methods, operators, imports by name
and calls from other ops are all caught); when the last one stops, their own code is back. Autocast
exchanges code in the same way, one layer below: an op is seen as the user called it.

How to use it:

    class Printer(observing.Observer):
        def before(self, name, args, kwargs):  # "aten::add", as they were passed
            return time.perf_counter()          # anything; after() gets it back

        def after(self, token, name, args, kwargs, result, error):
            print(name, time.perf_counter() - token, error or "fine")

    with observing.observed(Printer()):
        model(x)

Calls nest: `aten::linear` may call `aten::t` before its own after(). Ops that an observer calls in
before() or after() are not observed. An observer sees the thread that started it, or all threads if
`all_threads` is set. Besides ops there are other kinds of calls; an observer names those it wants
in `kinds`: "node" for the nodes of backward (name() is the name, (node, gradients) the arguments),
"module" for modules, and what the profiler adds, such as "optimizer".
"""

import contextlib
import os
import threading
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from flambeau._tensor import Tensor
from flambeau.autograd import engine
from flambeau.eager import creation, methods, random_tensors, windows
from flambeau.eager.attachment import METHODS
from flambeau.eager.op_names import CREATION, Name, function_name
from flambeau.eager.op_names import METHODS as METHOD_NAMES

lock = threading.RLock()  # held while code is exchanged, here and by autocast
_ident = threading.get_ident


class Observer:
    """What is told of calls. Subclasses override what they need."""

    kinds: frozenset[str] = frozenset({"op"})
    all_threads = False

    def before(self, name: str, args: tuple, kwargs: dict) -> Any:
        """A call begins; what is returned is given to after()."""

    def after(
        self,
        token: Any,
        name: str,
        args: tuple,
        kwargs: dict,
        result: Any,
        error: BaseException | None,
    ) -> None:
        """The call has ended, with a result or an error."""

    def before_other(self, kind: str, name: str, args: tuple, kwargs: dict) -> Any:
        """before() for kinds other than ops."""
        return self.before(name, args, kwargs)

    def after_other(
        self,
        token: Any,
        kind: str,
        name: str,
        args: tuple,
        kwargs: dict,
        result: Any,
        error: BaseException | None,
    ) -> None:
        """after() for kinds other than ops."""
        self.after(token, name, args, kwargs, result, error)


class _Place:
    """A function that can be observed."""

    __slots__ = ("copy", "code", "on")

    def __init__(self, function, name, kind):
        own = function.__code__
        self.on = False
        self.copy = types.FunctionType(
            own,
            function.__globals__,
            function.__name__,
            function.__defaults__,
            function.__closure__,
        )
        self.copy.__kwdefaults__ = function.__kwdefaults__
        consts = tuple(
            _runner(self.copy, name, kind) if type(c) is str else c
            for c in _template.__code__.co_consts
        )
        self.code = _template.__code__.replace(
            co_consts=consts, co_freevars=own.co_freevars, co_name=own.co_name
        )


def _template(*args, **kwargs):
    observed = "what runs in place of the function"
    return observed(args, kwargs)


_places: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # function -> _Place
_started: list[tuple[Observer, int]] = []  # with the threads that started them
_watching: dict[int, dict[str, tuple]] = {}  # thread -> kind -> its observers
_everywhere: dict[str, tuple] = {}  # kind -> observers of all threads
_busy: set[int] = set()  # threads that are in an observer
_delegating: dict[int, str] = {}  # thread -> the operator it is in, which may call its function


def threads_of(observer: Observer) -> set[int]:
    """The threads in which an observer was started."""
    return {thread for known, thread in _started if known is observer}


def active() -> bool:
    """Does anybody watch?"""
    return bool(_started)


def inner(function: Any) -> Any:
    """The function object that holds the code of a function, which may be observed."""
    place = _places.get(function)
    return place.copy if place is not None and place.on else function


def add(function: Any, name: Name, kind: str = "op") -> None:
    """Make a function observable. name may be a function of (args, kwargs)."""
    with lock:
        if function in _places:
            return
        place = _places[function] = _Place(function, name, kind)
        if _started:
            _switch_on(function, place)


@contextlib.contextmanager
def observed(observer: Observer) -> Iterator[Observer]:
    """Let an observer see what is called in a block."""
    start(observer)
    try:
        yield observer
    finally:
        stop(observer)


def start(observer: Observer) -> None:
    """Let an observer see what is called from now on."""
    with lock:
        if not _started:
            methods.on_build = _built
            _find()
            for function, place in list(_places.items()):
                _switch_on(function, place)
            engine.around_nodes = _around_node
        _started.append((observer, _ident()))
        _share_out()


def stop(observer: Observer) -> None:
    """The observer sees nothing more; may be called on any thread."""
    with lock:
        for k, (known, _) in enumerate(_started):
            if known is observer:
                del _started[k]
                break
        _share_out()
        if not _started:
            _restore()


def _restore():
    methods.on_build = None
    engine.around_nodes = None
    for function, place in list(_places.items()):
        if place.on:
            function.__code__, place.on = place.copy.__code__, False


def _switch_on(function, place):
    place.copy.__code__ = function.__code__  # autocast may have exchanged it
    function.__code__, place.on = place.code, True


def _share_out():
    """Who watches what, by thread and kind."""
    _everywhere.clear()
    found: dict[int, dict[str, tuple]] = {}
    for observer, thread in _started:
        kinds = _everywhere if observer.all_threads else found.setdefault(thread, {})
        for kind in observer.kinds:
            kinds[kind] = (*kinds.get(kind, ()), observer)
    _watching.clear()
    _watching.update(found)


def _forked():
    """In a child process nobody waits for what observers see."""
    global lock
    lock = threading.RLock()
    _started.clear()
    _share_out()
    _restore()
    _busy.clear()
    _delegating.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


# -- finding functions -----------------------------------------------------------------------------


def _find():
    """Make every public function that exists by now observable."""
    for name, function in list(methods._functions.items()):
        _built(name, function)
    for name in (*methods.OPERATORS, *methods.COMMUTING):
        function = Tensor.__dict__.get(name)
        if function is not None and not hasattr(function, "is_stub"):
            _built(name, function)
    for name, shown in METHOD_NAMES.items():
        if name in METHODS:
            add(METHODS[name], shown)
    for module in (creation, random_tensors, windows):
        for name in module.PUBLIC:
            if name in CREATION and isinstance(getattr(module, name), types.FunctionType):
                add(getattr(module, name), "aten::" + name)


def _built(name, function):
    """A public function has come into being."""
    if not isinstance(function, types.FunctionType):
        return
    row = methods.OPERATORS.get(name) or methods.COMMUTING.get(name)
    shown = function_name(row or name, methods._aliases)
    if shown is not None:
        add(function, shown)


# -- calls -----------------------------------------------------------------------------------------


def _observers(kind):
    """Who watches this kind of call in this thread; None if nobody does."""
    found = _watching.get(_ident())
    if found is None:
        return _everywhere.get(kind)
    if not _everywhere:
        return found.get(kind)
    return found.get(kind, ()) + _everywhere.get(kind, ()) or None


def _runner(copy, name, kind):
    """What runs in place of a function: the function, and observers around it."""
    is_chosen = not isinstance(name, str)
    # these may call a function of the same name, which is then not shown a second time
    row = getattr(name, "row", "")
    is_operator = kind == "op" and (copy.__name__[:2] == "__" or row.startswith("functional_"))

    def run(args, kwargs):
        observers = _observers(kind)
        me = _ident()
        if observers is None or me in _busy:
            return copy(*args, **kwargs)
        shown = name(args, kwargs) if is_chosen else name
        if _delegating and _delegating.get(me) == shown:  # seen as the operator already
            del _delegating[me]
            return copy(*args, **kwargs)
        if not is_operator:
            return watched(observers, kind, shown, args, kwargs, copy)
        _delegating[me] = shown
        try:
            return watched(observers, kind, shown, args, kwargs, copy)
        finally:
            _delegating.pop(me, None)

    return run


def watched(
    observers: tuple, kind: str, name: str, args: tuple, kwargs: dict, function: Callable
) -> Any:
    """Call a function and tell observers of it."""
    me, tokens, result, error = _ident(), [], None, None
    _busy.add(me)
    try:
        if kind == "op":
            tokens = [o.before(name, args, kwargs) for o in observers]
        else:
            tokens = [o.before_other(kind, name, args, kwargs) for o in observers]
    finally:
        _busy.discard(me)
    try:
        result = function(*args, **kwargs)
        return result
    except BaseException as raised:
        error = raised
        raise
    finally:
        _busy.add(me)
        try:
            for k in range(len(observers) - 1, -1, -1):
                if kind == "op":
                    observers[k].after(tokens[k], name, args, kwargs, result, error)
                else:
                    observers[k].after_other(tokens[k], kind, name, args, kwargs, result, error)
        finally:
            _busy.discard(me)
            error = None


def _around_node(node, grads, create_graph):
    observers = _observers("node")
    if observers is None or _ident() in _busy:
        return node.apply(grads, create_graph)

    def apply(node, grads):
        return node.apply(grads, create_graph)

    return watched(observers, "node", node.name(), (node, grads), {}, apply)
