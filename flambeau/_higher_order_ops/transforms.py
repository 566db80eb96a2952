"""Transforms of torch.func as ops of graphs: what they transform is a graph of its own."""

import importlib
from collections.abc import Callable
from typing import Any

from flambeau.aten.overloads import namespace

__all__ = ["run_transform", "transform_op"]


def run_transform(
    name: str, body: Callable, moved: tuple, others: tuple, *,
    dims: tuple = (), out_dims: tuple = (), count: int = 1, options: tuple = (),
) -> tuple:  # fmt: skip
    """What a transform of `body` gives, all tensors in a row.

    Args:
        name: of the function of torch.func.
        body: takes the tensors that the transform is about, then all others; gives a tuple.
        dims, out_dims: of vmap.
        count: how many of body's results are differentiated; the rest is handed on.
        options: further keywords of the transform, in pairs.
    """
    func: Any = importlib.import_module("flambeau.func")
    f = lambda *given: body(*given, *others)
    if name == "vmap":
        return func.vmap(f, dims, out_dims, **dict(options))(*moved)

    def parted(*given):
        found = f(*given)
        return (found[0] if name == "grad_and_value" else found[:count]), found[count:]

    if name == "grad_and_value":
        every = tuple(range(len(moved)))
        grads, (value, more) = func.grad_and_value(parted, every, has_aux=True)(*moved)
        return (*grads, value, *more)
    found, more = getattr(func, name)(parted, has_aux=True, **dict(options))(*moved)
    return (*found, *more)


transform_op = namespace("higher_order").packet("func_transform")
transform_op.function = lambda overload="": run_transform
