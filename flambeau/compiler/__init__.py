"""`torch.compiler`: what programs say to and ask of `torch.compile`.

Reading programs is in `_dynamo/`; machine code for graphs is in this folder.
"""

import functools
import importlib
from typing import Any

_HOMES = {
    **dict.fromkeys(
        "allow_in_graph assume_constant_result is_compiling is_dynamo_compiling is_exporting "
        "nonstrict_trace substitute_in_graph".split(),
        "decorators",
    ),
    **dict.fromkeys("compile disable reset".split(), "eval_frame"),
}

__all__ = [
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "config",
    "cudagraph_mark_step_begin",
    "disable",
    "get_default_backend",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "list_backends",
    "keep_portable_guards_unsafe",
    "keep_tensor_guards_unsafe",
    "nested_compile_region",
    "nonstrict_trace",
    "reset",
    "set_default_backend",
    "set_enable_guard_collectives",
    "set_stance",
    "skip_all_guards_unsafe",
    "skip_guard_on_all_nn_modules_unsafe",
    "skip_guard_on_globals_unsafe",
    "skip_guard_on_inbuilt_nn_modules_unsafe",
    "substitute_in_graph",
    "wrap_numpy",
]


def __getattr__(name: str) -> Any:
    if name == "config":
        return importlib.import_module("flambeau._dynamo.config")
    if name in _HOMES:
        value = getattr(importlib.import_module(f"flambeau._dynamo.{_HOMES[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'flambeau.compiler' has no attribute '{name}'")


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    """Names of backends."""
    return importlib.import_module("flambeau._dynamo.backends").list_backends(exclude_tags)


def cudagraph_mark_step_begin() -> None:
    """A step of training begins, which is of interest to graphs of CUDA only."""


class set_stance:
    """How compiled functions behave from here on, in a `with`, or in a decorated function.

    "force_eager" runs them as they are. What was not met before runs as it is with
    "eager_on_recompile" and is an error with "fail_on_recompile"; with "eager_then_compile" the
    first call of each function runs as it is.
    """

    def __init__(self, stance: str = "default", **options: Any) -> None:
        known = ("default", "force_eager", "eager_on_recompile", "fail_on_recompile",
                 "eager_then_compile", "aot_eager_then_compile")  # fmt: skip
        if stance not in known:
            raise RuntimeError(f"invalid torch.compile stance '{stance}'")
        self.config: Any = importlib.import_module("flambeau._dynamo.config")
        self.stance = stance
        self._take()

    def _take(self) -> None:
        self.before = self.config.stance, self.config.disable
        self.config.stance, self.config.disable = self.stance, self.stance == "force_eager"

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: Any) -> None:
        self.config.stance, self.config.disable = self.before

    def __call__(self, function: Any) -> Any:
        self.__exit__()  # it was for the function only

        @functools.wraps(function)
        def standing(*args: Any, **kwargs: Any) -> Any:
            with set_stance(self.stance):
                return function(*args, **kwargs)

        return standing


def skip_guard_on_inbuilt_nn_modules_unsafe(guard_entries: Any) -> list[bool]:
    """A filter of guards that keeps them all: none is left out here."""
    return [True for _ in guard_entries]


def _keeping(name: str, doc: str) -> Any:
    """A filter of guards. Left-out guards are quicker to check elsewhere; here all are kept."""

    def keep(guard_entries: Any) -> list[bool]:
        return [True for _ in guard_entries]

    keep.__name__ = keep.__qualname__ = name
    keep.__doc__ = doc
    return keep


skip_guard_on_all_nn_modules_unsafe = _keeping(
    "skip_guard_on_all_nn_modules_unsafe", "Modules do not change, a program says."
)
skip_guard_on_globals_unsafe = _keeping(
    "skip_guard_on_globals_unsafe", "Globals do not change, a program says."
)
skip_all_guards_unsafe = _keeping("skip_all_guards_unsafe", "Nothing changes, a program says.")
keep_tensor_guards_unsafe = _keeping(
    "keep_tensor_guards_unsafe", "Only tensors change, a program says."
)
keep_portable_guards_unsafe = _keeping(
    "keep_portable_guards_unsafe", "Guards that other processes can check."
)


def nested_compile_region(fn: Any = None, **options: Any) -> Any:
    """A function that is compiled once and called many times; here like any other."""
    return fn if fn is not None else lambda function: function


_default_backend: Any = "inductor"


def get_default_backend() -> Any:
    """The backend of `torch.compile` where none is given."""
    return _default_backend


def set_default_backend(backend: Any) -> None:
    global _default_backend
    if not isinstance(backend, str) and not callable(backend):
        raise TypeError(f"backend must be a string or a callable, got {type(backend).__name__}")
    _default_backend = backend


def set_enable_guard_collectives(enabled: bool) -> bool:
    """Should ranks agree on whether to compile? Off here: each compiles for itself."""
    return False


def wrap_numpy(fn: Any) -> Any:
    """A function of arrays as one of tensors."""
    from flambeau import Tensor, from_numpy

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        given = [a.numpy() if isinstance(a, Tensor) else a for a in args]
        named = {k: v.numpy() if isinstance(v, Tensor) else v for k, v in kwargs.items()}
        found = fn(*given, **named)
        return from_numpy(found) if type(found).__name__ == "ndarray" else found

    return wrapped
