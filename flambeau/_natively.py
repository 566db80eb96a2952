"""Planners whose arithmetic runs as native code.

    @natively
    def cut(rows, length): ...

After some calls the name stands for a builtin that was compiled from the function's own source
(codegen/arithmetic.py). Until then, and where that cannot be had, the function itself does it.
"""

import inspect
from collections.abc import Callable
from functools import wraps

PATIENCE = 32  # calls before it pays to compile

loads: Callable | None = None  # (function, source_of) -> builtin; eager/kernels.py says how
_functions: dict = {}  # (module, name) -> the function in Python


def natively(function):
    """A function on integers and tuples of them, to be compiled when it is called often.

    Parameters that are tuples are annotated so. Whoever imports the name goes on calling a stub,
    which costs a little: hot callers live in the same module, or say module.name.
    """
    scope, name = function.__globals__, function.__name__
    _functions[scope["__name__"], name] = function
    calls, built = 0, None

    @wraps(function)
    def stub(*args):
        nonlocal calls, built
        if built is not None:
            return built(*args)
        calls += 1
        if calls < PATIENCE or loads is None:
            return function(*args)
        try:
            built = loads(function, source_of)
        except OSError:  # there is no source
            built = function
        scope[name] = built
        return built(*args)

    return stub


def source_of(scope, name):
    """(source, globals) of a function that is compiled; None for others."""
    module = getattr(scope.get(name), "__module__", None) or scope["__name__"]
    function = _functions.get((module, name)) or _functions.get((scope["__name__"], name))
    if function is None:
        return None
    return inspect.getsource(function), function.__globals__
