"""while_loop: a function of tensors again and again, as long as another says so."""

from collections.abc import Callable
from typing import Any

from flambeau._tensor import Tensor
from flambeau.aten.overloads import current_recorder, namespace
from flambeau.utils import _pytree as pytree

__all__ = ["while_loop", "while_loop_op"]


def _looped(cond_fn: Callable, body_fn: Callable, carried: tuple, additional: tuple = ()) -> tuple:
    values = tuple(carried)
    while bool(cond_fn(*values, *additional)):
        values = tuple(body_fn(*values, *additional))
    return tuple(v.clone() if v is given else v for v, given in zip(values, carried))


while_loop_op = namespace("higher_order").packet("while_loop")
while_loop_op.function = lambda overload="": _looped


def while_loop(cond_fn: Callable, body_fn: Callable, carried_inputs: tuple | list) -> Any:
    """body_fn(*carried) in place of carried, while cond_fn(*carried) holds.

    Example:
        >>> from flambeau._higher_order_ops import while_loop
        >>> x = flambeau.ones(2)
        >>> while_loop(lambda x: x.sum() < 10, lambda x: (x * 2,), (x,))
        (tensor([8., 8.]),)
    """
    if not callable(cond_fn) or not callable(body_fn):
        raise RuntimeError("Expect cond_fn and body_fn to be callable.")
    if not isinstance(carried_inputs, (tuple, list)) or not pytree.tree_leaves(carried_inputs):
        raise RuntimeError(
            "Expect carried_inputs to be a tuple of possibly nested dict/list/tuple that only "
            f"consists of tensor or int leaves, but got {carried_inputs}."
        )
    leaves, spec = pytree.tree_flatten(tuple(carried_inputs))
    recorder = current_recorder()
    tensors = all(isinstance(leaf, Tensor) for leaf in leaves)

    def condition(*flat: Any) -> Any:
        return cond_fn(*pytree.tree_unflatten(list(flat[: len(leaves)]), spec))

    def body(*flat: Any) -> tuple:
        found = body_fn(*pytree.tree_unflatten(list(flat[: len(leaves)]), spec))
        given, kind = pytree.tree_flatten(found if isinstance(found, tuple) else tuple(found))
        if len(given) != len(leaves):
            raise RuntimeError(
                f"body_fn must give as much as it is given: {spec}, but gives {kind}"
            )
        return tuple(given)

    if recorder is not None and tensors and hasattr(recorder, "loops_while"):
        found = recorder.loops_while(while_loop_op, condition, body, tuple(leaves))
    else:
        found = _looped(condition, body, tuple(leaves))
    return pytree.tree_unflatten(list(found), spec)
