"""What `torch.compile` was asked for, and what it has compiled so far."""

import types
from collections.abc import Callable
from typing import Any

from flambeau._dynamo import config, marks
from flambeau._dynamo.backends import resolved
from flambeau._dynamo.calls import is_readable
from flambeau._dynamo.exc import BackendCompilerFailed, Break, Unsupported
from flambeau._dynamo.frames import Frame, frame_of
from flambeau._dynamo.utils import counters
from flambeau.nn.modules import calling
from flambeau.nn.modules.module import Module

generations = [0]  # one more for each reset


class _Compiled:
    """The frame of functions that are compiled already: what they were made of is meant."""

    def __init__(self, settings: "Settings") -> None:
        self.settings = settings

    def run(self, fn: Any, args: tuple, kwargs: dict) -> Any:
        return self.settings.run_function(marks.original_of(fn), args, kwargs)


class Settings:
    """Options of one call of `torch.compile`, and the frames that belong to it."""

    def __init__(self, backend: Any, fullgraph: bool, dynamic: bool | None, options: dict) -> None:
        self.backend, self.fullgraph, self.dynamic = backend, fullgraph, dynamic
        self.options = options
        self.frames: dict[types.CodeType, Frame | _Compiled | None] = {}
        self.graphs: dict[Any, Callable] = {}  # what was compiled, by what graphs do
        self.generation = generations[0]
        self.listener: Any = None  # somebody who wants to be told, such as explain

    def __deepcopy__(self, memo: dict) -> "Settings":
        return Settings(self.backend, self.fullgraph, self.dynamic, dict(self.options))

    def __reduce__(self) -> tuple:
        return Settings, (self.backend, self.fullgraph, self.dynamic, dict(self.options))

    # -- calls -----------------------------------------------------------------------------------
    def run_function(self, fn: Any, args: tuple, kwargs: dict) -> Any:
        """A call of a function."""
        if self.generation != generations[0]:
            self.generation = generations[0]
            self.frames, self.graphs = {}, {}
        code = fn.__code__
        try:
            frame = self.frames[code]
        except KeyError:
            frame = self._new_frame(fn, code)
        if frame is None or config.disable:
            return fn(*args, **kwargs)
        return frame.run(fn, args, kwargs)

    def _new_frame(self, fn, code):
        frame: Any
        try:
            compiled = marks.original_of(fn) is not None
            frame = _Compiled(self) if compiled else frame_of(self, fn)
        except Break as found:
            self.tell_break(found, fn)
            if self.fullgraph:
                raise Unsupported(found.reason) from None
            frame = None
        return self.frames.setdefault(code, frame)

    def run_method(self, bound: Any, args: tuple, kwargs: dict) -> Any:
        """A call of a function, a method, or anything else."""
        if isinstance(bound, types.MethodType) and isinstance(bound.__func__, types.FunctionType):
            return self.run_function(bound.__func__, (bound.__self__, *args), kwargs)
        if isinstance(bound, types.FunctionType):
            return self.run_function(bound, args, kwargs)
        return bound(*args, **kwargs)

    def run_module(self, module: Any, args: tuple, kwargs: dict) -> Any:
        """A call of a module: its forward is compiled, hooks around it run as they are."""
        if type(module).__call__ is not calling.Calling.__call__:
            return self.run_method(module.__call__, args, kwargs)
        fields = module.__dict__
        try:
            if (
                fields["_forward_hooks"]
                or fields["_forward_pre_hooks"]
                or fields["_backward_hooks"]
                or fields["_backward_pre_hooks"]
                or calling.backward_hooks
                or calling.backward_pre_hooks
                or calling.forward_hooks
                or calling.forward_pre_hooks
            ):
                return module._call_with_hooks(args, kwargs, self._forward(module))
            forward = module.forward
            if type(forward) is types.MethodType:
                return self.run_function(forward.__func__, (forward.__self__, *args), kwargs)
            return self.run_method(forward, args, kwargs)
        except Exception as error:
            calling.tell_place(error, module)
            raise

    def _forward(self, module):
        return lambda *args, **kwargs: self.run_method(module.forward, args, kwargs)

    def compiled(self, function: Any) -> Any:
        """What plain statements call in place of a function: its compiled form, if it has one."""
        kind = type(function)
        if kind is types.FunctionType:
            if not _is_compilable(function):
                return function
            return lambda *args, **kwargs: self.run_function(function, args, kwargs)
        if kind is types.MethodType:
            if not _is_compilable(function.__func__):
                return function
            return lambda *args, **kwargs: self.run_method(function, args, kwargs)
        if isinstance(function, Module) and _may_compile(function):
            return lambda *args, **kwargs: self.run_module(function, args, kwargs)
        return function

    # -- graphs ----------------------------------------------------------------------------------
    def shares_graphs(self) -> bool:
        """Does the backend not care about sizes, so that equal graphs are compiled once?"""
        return self.listener is None and getattr(resolved(self.backend), "takes_any_size", False)

    def keep_graph(self, key: tuple, function: Callable) -> None:
        """Remember what was compiled, the latest few hundred."""
        self.graphs[key] = function
        if len(self.graphs) > config.sizes_limit:
            self.graphs.pop(next(iter(self.graphs)), None)

    def compile_graph(self, module: Any, inputs: list) -> Callable:
        """A graph as a function of tensors."""
        compiler = resolved(self.backend)
        counters["stats"]["unique_graphs"] += 1
        if self.listener is not None:
            self.listener.graph(module, inputs)
        options = {"options": self.options} if getattr(compiler, "takes_options", False) else {}
        try:
            found = compiler(module, inputs, **options)
        except Exception as error:
            if config.suppress_errors:
                return module.forward
            raise BackendCompilerFailed(compiler, error) from error
        if not callable(found):
            raise BackendCompilerFailed(compiler, TypeError(f"{found!r} is not a function"))
        return found

    def tell_break(self, found: Break, fn: Any) -> None:
        """Somewhere a program could not be read."""
        counters["graph_break"][found.reason] += 1
        if self.listener is not None:
            self.listener.broke(found, fn)

    def tell_guards(self, lines: list[str]) -> None:
        """The guards of a new entry."""
        if self.listener is not None:
            self.listener.guarded(lines)


def _may_compile(module):
    disabled = marks.mark_of(type(module).forward) == "disabled"
    return marks.original_of(module) is None and not disabled


def _is_compilable(function):
    """Is it a function of the program that may be compiled on its own?"""
    if not isinstance(function, types.FunctionType) or not is_readable(function):
        return False
    if (function.__module__ or "").startswith("flambeau"):
        return False
    return marks.mark_of(function) is None and marks.original_of(function) is None
