"""`torch.compiler`: what programs say to and ask of `torch.compile`.

Reading programs is in `_dynamo/`; machine code for graphs is in this folder.
"""

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
    "cudagraph_mark_step_begin",
    "disable",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "list_backends",
    "nonstrict_trace",
    "reset",
    "set_stance",
    "skip_guard_on_inbuilt_nn_modules_unsafe",
    "substitute_in_graph",
    "wrap_numpy",
]


def __getattr__(name: str) -> Any:
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
    """How compiled functions behave inside of a `with`, or from here on.

    "force_eager" runs them as they are; all others are "default" here.
    """

    def __init__(self, stance: str = "default", **options: Any) -> None:
        known = ("default", "force_eager", "eager_on_recompile", "fail_on_recompile",
                 "eager_then_compile", "aot_eager_then_compile")  # fmt: skip
        if stance not in known:
            raise RuntimeError(f"invalid torch.compile stance '{stance}'")
        self.config: Any = importlib.import_module("flambeau._dynamo.config")
        self.before = self.config.disable
        setattr(self.config, "disable", stance == "force_eager")  # noqa: B010

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: Any) -> None:
        self.config.disable = self.before


def skip_guard_on_inbuilt_nn_modules_unsafe(guard_entries: Any) -> list[bool]:
    """A filter of guards that keeps them all: none is left out here."""
    return [True for _ in guard_entries]


def wrap_numpy(fn: Any) -> Any:
    """A function of arrays as one of tensors."""
    from flambeau import Tensor, from_numpy

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        given = [a.numpy() if isinstance(a, Tensor) else a for a in args]
        named = {k: v.numpy() if isinstance(v, Tensor) else v for k, v in kwargs.items()}
        found = fn(*given, **named)
        return from_numpy(found) if type(found).__name__ == "ndarray" else found

    return wrapped
