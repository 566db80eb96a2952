"""cond: one of two functions of tensors, by a value that is only known when the program runs."""

from collections.abc import Callable
from typing import Any

from flambeau._tensor import Tensor
from flambeau.aten.overloads import current_recorder, namespace
from flambeau.ops.table import public
from flambeau.transforms.levels import varies
from flambeau.utils._pytree import tree_flatten, tree_unflatten

__all__ = ["cond", "cond_op"]


def _chosen(pred: Any, true_fn: Callable, false_fn: Callable, operands: tuple | list = ()) -> Any:
    if isinstance(pred, Tensor) and varies(pred):  # inside of vmap each sample takes its own
        (first, tree), (second, _) = (tree_flatten(f(*operands)) for f in (true_fn, false_fn))
        pred = pred.reshape(()).bool()
        return tree_unflatten([public("where")(pred, a, b) for a, b in zip(first, second)], tree)
    return (true_fn if bool(pred) else false_fn)(*operands)


cond_op = namespace("higher_order").packet("cond")
cond_op.function = lambda overload="": _chosen


def cond(
    pred: bool | int | float | Tensor,
    true_fn: Callable,
    false_fn: Callable,
    operands: tuple | list = (),
) -> Any:
    """true_fn(*operands) or false_fn(*operands); both become part of an exported program.

    Example:
        >>> x = flambeau.ones(2)
        >>> flambeau.cond(x.sum() > 1, lambda x: x + 1, lambda x: x - 1, (x,))
        tensor([2., 2.])
    """
    if not callable(true_fn) or not callable(false_fn):
        raise RuntimeError("Expect both branches to be callable.")
    if not isinstance(operands, (tuple, list)):
        raise RuntimeError(
            "Expect operands to be a tuple of possibly nested dict/list/tuple that only consists "
            f"of tensor leaves, but got {operands}."
        )
    if isinstance(pred, Tensor) and pred.numel() != 1:
        raise RuntimeError(f"Expect pred to be bool or single-element tensor, but got {pred}.")
    recorder = current_recorder()
    if recorder is not None and isinstance(pred, Tensor) and hasattr(recorder, "branches"):
        return recorder.branches(cond_op, pred, true_fn, false_fn, tuple(operands))
    return _chosen(pred, true_fn, false_fn, operands)
