"""Planners whose arithmetic runs as native code.

    @natively
    def cut(rows, length): ...

From its first call on, the name stands for a builtin that was compiled from the function's own
source (codegen/arithmetic.py). Where that cannot be had, the function itself goes on doing it.
"""

import inspect
from functools import wraps

from flambeau.eager.kernels import load_functions
from flambeau.runtime import cpu

_functions: dict = {}  # (module, name) -> the function in Python


def natively(function):
    """A function on integers and tuples of them, to be compiled when it is first called.

    Parameters that are tuples are annotated so. Call it by its name in its own module, or as
    module.name: a name that was imported would stand for this first stub for ever.
    """
    scope, name = function.__globals__, function.__name__
    _functions[scope["__name__"], name] = function

    @wraps(function)
    def first(*args):
        scope[name] = _compiled(function)
        return scope[name](*args)

    return first


def _compiled(function):
    from flambeau.codegen import arithmetic  # with llvmlite

    name = function.__name__
    try:
        ir = arithmetic.build(function, _source_of, name)
    except OSError:  # there is no source
        return function
    return cpu.builtin(name, load_functions(ir, (name,))[name], function)


def _source_of(scope, name):
    """(source, globals) of a function that is compiled; None for others."""
    found = scope.get(name)
    module = getattr(found, "__module__", None) or scope["__name__"]
    function = _functions.get((module, name)) or _functions.get((scope["__name__"], name))
    if function is None:
        return None
    return inspect.getsource(function), function.__globals__
