"""Reading programs with autocast, inside of them or around them.

Ops run under autocast while they are read, with tensors without memory, and again when the graph
runs: it enters and leaves autocast by nodes, as PyTorch's graphs do. A graph that was read while
autocast was on enters it itself, so that it means the same wherever it runs later.
"""

from typing import Any

import flambeau
from flambeau._dynamo.exc import Break
from flambeau._dynamo.known import KNOWN, known
from flambeau._dynamo.values import AutocastValue, Outside
from flambeau._dynamo.varying import Step
from flambeau.amp import autocast_mode
from flambeau.amp.autocast_mode import _enter_autocast, _exit_autocast, autocast
from flambeau.amp.redirection import state

_KINDS = (autocast, flambeau.cpu.amp.autocast)
CAST = autocast_mode.CAST


class Casting:
    """The part of the reader that knows autocast."""

    def enter_surroundings(self: Any) -> None:
        """Autocast is on around the call."""
        me = state.me
        for kind in CAST:
            if me.on[kind]:
                settings = kind, me.dtypes[kind], True, me.cache_enabled
                self.around.append(self.enter_autocast(settings))

    def leave_surroundings(self: Any) -> None:
        """The end of the graph."""
        for node, _ in reversed(self.around):
            self.graph.call_function(_exit_autocast, (node,))

    def enter_autocast(self: Any, settings: tuple) -> tuple:
        """Enter one, now and in the graph: (its node, it)."""
        node = self.added(self.graph.call_function(_enter_autocast, settings))
        node.meta["writes"] = self.casts = True
        self.log.append(Step(node, _enter_autocast, settings, {}, autocast))
        return node, _enter_autocast(*settings)

    def exit_autocast(self: Any, entered: tuple) -> None:
        """Leave it."""
        made, mode = entered
        node = self.added(self.graph.call_function(_exit_autocast, (made,)))
        node.meta["writes"] = True
        self.log.append(Step(node, _exit_autocast, (made,), {}, None))
        _exit_autocast(mode)

    def opened_autocast(self: Any, manager: Any) -> Any:
        """An autocast from outside, as it is now; others as they are."""
        if not isinstance(manager, Outside) or type(manager.obj) not in _KINDS:
            return manager
        names = ("device", "fast_dtype", "_enabled", "_cache_enabled")
        return _wanted(tuple(self.attribute(manager, name) for name in names))


def _wanted(settings):
    if settings[0] not in CAST:
        raise Break(f"autocast of {settings[0]}")
    return AutocastValue(settings)


@known(autocast)
def _autocast(reader, device_type, dtype=None, enabled=True, cache_enabled=None):
    return _made(device_type, dtype, enabled, cache_enabled)


@known(flambeau.cpu.amp.autocast)
def _cpu_autocast(reader, enabled=True, dtype=flambeau.bfloat16, cache_enabled=True):
    raise Break("a class that is deprecated")  # and says so


def _made(*given):
    device_type, dtype, enabled, cache_enabled = given
    if not isinstance(device_type, str) or not isinstance(enabled, bool):
        raise Break("an autocast of something unknown")
    try:
        made = autocast(device_type, dtype, enabled, cache_enabled)  # with its checks and warnings
    except (RuntimeError, ValueError) as error:
        raise Break(str(error), error) from error
    return _wanted((made.device, made.fast_dtype, made._enabled, made._cache_enabled))


def _asks(function):
    """A question about settings, which are guarded."""

    def handler(reader, device_type=None):
        if device_type not in CAST:
            raise Break(f"autocast of {device_type}")
        return function(device_type)

    return handler


for _function in (autocast_mode.is_autocast_enabled, autocast_mode.get_autocast_dtype):
    KNOWN[_function] = _asks(_function)
