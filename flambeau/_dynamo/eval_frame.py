"""`torch.compile` itself, and what it makes of functions and modules."""

import functools
import inspect
import types
from collections.abc import Callable
from typing import Any

from flambeau import compiler
from flambeau._dynamo import config, marks, surroundings
from flambeau._dynamo.backends import lookup_backend
from flambeau._dynamo.settings import Settings, generations
from flambeau._dynamo.steps import is_optimizer
from flambeau._dynamo.utils import counters
from flambeau.nn.modules.module import Module
from flambeau.nn.modules.registry import Registry

__all__ = ["OptimizedModule", "compile", "compiled_call", "disable", "optimize", "reset"]

_MODES = {
    "default": {},
    "reduce-overhead": {},
    "max-autotune": {"max_autotune": True},
    "max-autotune-no-cudagraphs": {"max_autotune": True},
    "lite": {},
}


def _settings(backend, fullgraph, dynamic, mode, options):
    if mode is not None and options is not None:
        raise RuntimeError(
            "Either mode or options can be specified, but both can't be specified at the same time."
        )
    if mode is not None and mode not in _MODES:
        known = "default, lite, reduce-overhead, max-autotune-no-cudagraphs, max-autotune"
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {known}")
    backend = compiler.get_default_backend() if backend is None else backend
    lookup_backend(backend)
    return Settings(backend, fullgraph, dynamic, dict(options or _MODES[mode or "default"]))


def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Any = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> Any:
    """A function or module that does the same, compiled.

    Args:
        fullgraph: raise `torch._dynamo.exc.Unsupported` where something cannot be captured.
        dynamic: True takes all sizes as varying from the start, False none; by default those that
            were seen to change.
        backend: a name of `torch._dynamo.list_backends()`, or a function that takes a GraphModule
            and example inputs and returns a function of tensors; by default that of
            `torch.compiler.set_default_backend`.
        mode, options: for the backend.
        disable: give back the function as it is.
    """
    if model is None:
        return lambda found: compile(
            found, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode,
            options=options, disable=disable,
        )  # fmt: skip
    settings = _settings(backend, fullgraph, dynamic, mode, options)
    if not callable(model):
        raise RuntimeError(f"torch.compile needs a function or a module, not {type(model)}")
    if disable or config.disable:
        return model
    return compiled_by(settings, model)


def compiled_by(settings: Settings, model: Any) -> Any:
    """The compiled form of a function or module."""
    original = marks.original_of(model)
    if original is not None:
        model = original
    if isinstance(model, Module):
        return OptimizedModule(model, settings)
    if marks.mark_of(model) == "disabled":
        return model
    if isinstance(model, type):
        raise RuntimeError("torch.compile of a class: compile its objects or their methods")
    return _compiled_function(settings, model)


def _compiled_function(settings, function):
    run: Callable
    target: Any = function
    if isinstance(function, types.FunctionType):
        from flambeau._dynamo.tensors import is_op

        target = _calling(function) if is_op(function) else function
        run = settings.run_function
    elif isinstance(function, types.MethodType):
        run = settings.run_method
        if is_optimizer(function.__self__) and function.__name__ == "step":
            target, run = _stepping(function.__self__), settings.run_function
    elif isinstance(inspect.getattr_static(type(function), "__call__"), types.FunctionType):
        target, run = function.__call__, settings.run_method
    else:
        target, run = _calling(function), settings.run_function

    @functools.wraps(function)
    def compiled(*args, **kwargs):
        return run(target, args, kwargs)

    compiled._torchdynamo_orig_callable = function
    compiled._torchdynamo_settings = settings
    compiled.get_compiler_config = lambda: dict(settings.options)
    if isinstance(function, types.FunctionType):
        marks.compiled_from(compiled, function)
    return compiled


def _stepping(optimizer):
    """A function with a text that makes a step, however its class and schedulers do that."""

    def step(closure=None):
        return optimizer.step() if closure is None else optimizer.step(closure)

    return step


def _calling(function):
    """A function with a text that calls another."""

    def call(*args, **kwargs):
        return function(*args, **kwargs)

    return call


def compiled_call(module: Module, **options: Any) -> Callable:
    """What `Module.compile` puts in place of a module's call."""
    chosen = {"backend": None, "fullgraph": False, "dynamic": None, "mode": None}
    settings = _settings(**{**chosen, "options": None, **options})
    return lambda *args, **kwargs: settings.run_module(module, args, kwargs)


def optimize(backend: Any = "inductor", *, nopython: bool = False, **options: Any) -> Callable:
    """An older way to say `torch.compile(backend=...)`."""
    return lambda model: compile(model, backend=backend, fullgraph=nopython, **options)


_OWN = frozenset({"_orig_mod", "dynamo_ctx", "_settings"})


class OptimizedModule(Module):
    """A compiled module: calls are compiled, everything else is the module's own."""

    _is_compiled = True
    _shows_names = False

    def __init__(self, mod: Module, dynamo_ctx: Any = None) -> None:
        super().__init__()
        del self.__dict__["training"]  # which is the module's
        self.__dict__["_settings"] = dynamo_ctx or _settings("inductor", False, None, None, None)
        self._orig_mod = mod
        marks.compiled_from(self, mod)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        fields = self.__dict__
        return fields["_settings"].run_module(fields["_modules"]["_orig_mod"], args, kwargs)

    def __reduce__(self):
        return OptimizedModule, (self._orig_mod, self._settings)

    def __deepcopy__(self, memo):
        import copy

        return OptimizedModule(copy.deepcopy(self._orig_mod, memo), copy.copy(self._settings))

    def __getattr__(self, name):
        if name in ("_orig_mod", "_modules"):
            return Registry.__getattr__(self, name)
        return getattr(self._modules["_orig_mod"], name)

    def __setattr__(self, name, value):
        if name in _OWN:
            Registry.__setattr__(self, name, value)
        elif isinstance(inspected := getattr(type(self), name, None), property):
            inspected.__set__(self, value)
        else:
            setattr(self._orig_mod, name, value)

    def __delattr__(self, name):
        if name in _OWN:
            Registry.__delattr__(self, name)
        else:
            delattr(self._orig_mod, name)

    @property
    def training(self):
        return self._modules["_orig_mod"].training

    @training.setter
    def training(self, mode):
        self._modules["_orig_mod"].training = mode

    def __len__(self):
        return len(self._orig_mod)

    def __bool__(self):
        return bool(self._orig_mod)

    def __getitem__(self, key):
        return self._orig_mod[key]

    def __iter__(self):
        return iter(self._orig_mod)

    def __dir__(self):
        return sorted({*dir(self._orig_mod), *_OWN})


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """A function that is never compiled; nor, if recursive, what it calls. Also a decorator."""
    if fn is None:
        return lambda found: disable(found, recursive, reason=reason)
    if isinstance(fn, Module):
        fn.forward = disable(fn.forward, recursive)
        return fn
    original = marks.original_of(fn)
    fn = fn if original is None else original

    @functools.wraps(fn)
    def disabled(*args, **kwargs):
        if not recursive:
            return fn(*args, **kwargs)
        surroundings.threads.plain += 1
        try:
            return fn(*args, **kwargs)
        finally:
            surroundings.threads.plain -= 1

    marks.mark(disabled, "disabled")
    disabled._torchdynamo_disable = True  # type: ignore[attr-defined]
    disabled._torchdynamo_orig_callable = fn  # type: ignore[attr-defined]
    return disabled


def reset() -> None:
    """Forget what was compiled."""
    generations[0] += 1
    counters.clear()
