"""Switches of autograd, per thread: recording, inference mode, and who packs saved tensors.

`modes` is read on the hot path (`modes.grad`); everything else here sets it, as context managers,
decorators and, for set_grad_enabled, as a plain call.
"""

import functools
import inspect
import threading
import warnings
from typing import Any

from flambeau.storage import INSIDE, Uncounted, beginning


class _Modes(threading.local):
    grad = True
    inference = False
    claimed = False  # in inference mode: what switches of recording say, which changes nothing
    saved_hooks = ()  # stack of (pack, unpack), innermost last
    saved_hooks_refused = None  # why saved_tensors_hooks may not be entered now
    task: Any = None  # the backward pass that runs
    multithreading = True  # what the program says of threads of backward
    anomaly = False
    node: Any = None  # the node of backward that runs, in anomaly mode
    anomaly_check_nan = True
    watched = False  # anomaly mode or hooks on saved tensors: recording takes the slower way


def update_watched():
    """To be called when anomaly mode or the hooks have changed."""
    modes.watched = bool(modes.anomaly or modes.saved_hooks)


modes = _Modes()


class _Switch:
    """A context manager that is also a decorator (generators are entered at every step)."""

    def clone(self):
        return type(self)()

    def __call__(self, function):
        if inspect.isclass(function):
            warnings.warn(
                "Decorating classes is deprecated and will be disabled in future versions. You "
                "should only decorate functions or methods. To preserve the current behavior of "
                "class decoration, you can directly decorate the `__init__` method and nothing "
                "else.",
                FutureWarning,
                stacklevel=2,
            )
        if inspect.isgeneratorfunction(function):
            return self._wrap_generator(function)

        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            with self.clone():
                return function(*args, **kwargs)

        return wrapper

    def _wrap_generator(self, function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            generator = function(*args, **kwargs)
            send, value = generator.send, None
            while True:
                try:
                    with self.clone():
                        item = send(value)
                except StopIteration as stop:
                    return stop.value
                try:
                    value = yield item
                    send = generator.send
                except GeneratorExit:
                    with self.clone():
                        generator.close()
                    raise
                except BaseException as error:
                    value, send = error, generator.throw

        return wrapper

    def __enter__(self):
        self.previous = modes.grad, modes.claimed
        _switch(self.mode)

    def __exit__(self, *error):
        modes.grad, modes.claimed = self.previous


def _switch(mode):
    """Record from now on, or not; in inference mode, only say so."""
    if modes.inference:
        modes.claimed = mode
    else:
        modes.grad = mode


class no_grad(_Switch):
    """Record nothing inside."""

    mode = False

    def __new__(cls, function=None):
        self = object.__new__(cls)
        return self if function is None else self(function)


class enable_grad(_Switch):
    """Record inside, even within no_grad."""

    mode = True

    def __new__(cls, function=None):
        self = object.__new__(cls)
        return self if function is None else self(function)


class set_grad_enabled(_Switch):
    """Switch recording on or off, at once when called, until the end when used with `with`."""

    def __init__(self, mode):
        if not isinstance(mode, bool):
            raise TypeError(
                "set_grad_enabled(): argument 'enabled' (position 1) must be bool, not "
                f"{type(mode).__name__}"
            )
        self.mode = mode
        self.previous = modes.grad, modes.claimed
        _switch(mode)

    def clone(self):
        return set_grad_enabled(self.mode)

    def __call__(self, function):
        modes.grad, modes.claimed = self.previous  # a decorator: the call itself switches nothing
        return super().__call__(function)

    def __enter__(self):
        _switch(self.mode)


class inference_mode(_Switch):
    """Like no_grad, and tensors made inside never take part in autograd."""

    def __new__(cls, mode=True):
        self = object.__new__(cls)
        if callable(mode):
            self.mode = True
            return self(mode)
        self.mode = mode
        return self

    def clone(self):
        return inference_mode(self.mode)

    def __enter__(self):
        self.previous = modes.grad, modes.claimed, modes.inference
        modes.grad, modes.claimed, modes.inference = not self.mode, False, self.mode
        if self.mode or self.previous[2]:
            INSIDE.append(self.mode)
            _tell_makers()

    def __exit__(self, *error):
        modes.grad, modes.claimed, modes.inference = self.previous
        if self.mode or self.previous[2]:
            INSIDE.pop()
            _tell_makers()


class set_multithreading_enabled(_Switch):
    """Says whether backward may use several threads; it runs in the calling one here, always."""

    def __init__(self, mode):
        self.mode, self.previous = mode, modes.multithreading
        modes.multithreading = mode

    def clone(self):
        return set_multithreading_enabled(self.mode)

    def __call__(self, function):
        modes.multithreading = self.previous
        return super().__call__(function)

    def __enter__(self):
        modes.multithreading = self.mode

    def __exit__(self, *error):
        modes.multithreading = self.previous


def _tell_makers():
    """What tensors of this thread begin with; see Note [Inference tensors]."""
    beginning.version = Uncounted() if modes.inference else 0
    beginning.view_kind = "inference" if modes.inference else "no_grad"


def is_grad_enabled():
    return modes.grad or modes.claimed


def is_multithreading_enabled():
    """May backward use several threads, as far as the program says?"""
    return modes.multithreading


def is_inference_mode_enabled():
    return modes.inference


class saved_tensors_hooks:
    """Pack saved tensors when they are saved and unpack them when they are needed."""

    def __init__(self, pack_hook, unpack_hook):
        self.pair = pack_hook, unpack_hook

    def __enter__(self):
        if modes.saved_hooks_refused is not None:
            raise RuntimeError(modes.saved_hooks_refused)
        modes.saved_hooks = (*modes.saved_hooks, self.pair)
        update_watched()

    def __exit__(self, *error):
        modes.saved_hooks = modes.saved_hooks[:-1]
        update_watched()


class disable_saved_tensors_hooks(_Switch):
    """Refuse saved_tensors_hooks inside, with a message."""

    def __init__(self, error_message, is_tracing=False):
        self.message = error_message

    def clone(self):
        return disable_saved_tensors_hooks(self.message)

    def __enter__(self):
        if modes.saved_hooks:
            raise RuntimeError(self.message)
        self.previous, modes.saved_hooks_refused = modes.saved_hooks_refused, self.message

    def __exit__(self, *error):
        modes.saved_hooks_refused = self.previous
