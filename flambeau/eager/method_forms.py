"""Methods of Tensor take no out=; functions do.

A row's function and its method run the same code. The method is a second function object around it
that refers to another slow path: one that refuses out=, before it goes on as the function's does.
Calls that take no slow path cannot tell the difference.
"""

from types import CellType, FunctionType

from flambeau.interposing import own_code

# what generated and hand-written fronts call their slow path; its out= is a keyword
_SLOW = ("_unusual", "general", "slow")


def method_form(function, op):
    """A row's public function as a method of Tensor."""
    if "out" not in op.variants or not isinstance(function, FunctionType):
        return function
    code, space, cells = own_code(function), function.__globals__, function.__closure__ or ()
    changed = {n: _refusing(space[n], op) for n in _SLOW if n in code.co_names and n in space}
    for k, name in enumerate(code.co_freevars):
        if name in _SLOW and not changed:
            cell = CellType(_refusing(cells[k].cell_contents, op, always=name == "slow"))
            return _copied(function, code, space, (*cells[:k], cell, *cells[k + 1 :]))
    if changed:
        return _copied(function, code, {**space, **changed}, cells)
    form = _refusing(function, op)
    form.__wrapped__, form.__doc__, form.__module__ = function, function.__doc__, "flambeau"
    form.__name__, form.__qualname__ = function.__name__, f"Tensor.{function.__name__}"
    return form


def _copied(function, code, space, cells):
    form = FunctionType(code, space, function.__name__, function.__defaults__, cells or None)
    form.__kwdefaults__ = function.__kwdefaults__
    form.__doc__, form.__module__ = function.__doc__, function.__module__
    form.__qualname__ = f"Tensor.{function.__name__}"
    return form


def _refusing(slow, op, always=False):
    """always: does this path hear of out= only from who wrote it, so that None is one as well?"""

    def refuse(*args, **kwargs):
        if kwargs.get("out") is not None or (always and "out" in kwargs):
            raise _refusal(op)
        return slow(*args, **kwargs)

    return refuse


def _refusal(op):
    if len(op.params) == 1:
        return TypeError(f"TensorBase.{op.name}() takes no keyword arguments")
    return TypeError(f"{op.name}() got an unexpected keyword argument 'out'")
