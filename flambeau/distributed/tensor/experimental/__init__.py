"""`torch.distributed.tensor.experimental`: plain tensors beside DTensors, local functions."""

from collections.abc import Callable
from typing import Any

from flambeau.distributed.tensor.dispatch import implicit_replication
from flambeau.distributed.tensor.dtensor import DTensor
from flambeau.utils import _pytree as pytree

__all__ = ["implicit_replication", "local_map"]


def local_map(
    func: Callable | None = None,
    out_placements: Any = None,
    in_placements: Any = None,
    in_grad_placements: Any = None,
    device_mesh: Any = None,
    *,
    redistribute_inputs: bool = False,
) -> Callable:
    """func, which works on local tensors, as a function of DTensors."""
    if func is None:
        return lambda f: local_map(
            f,
            out_placements,
            in_placements,
            in_grad_placements,
            device_mesh,
            redistribute_inputs=redistribute_inputs,
        )

    def mapped(*args: Any, **kwargs: Any) -> Any:
        mesh, own = device_mesh, []
        leaves, tree = pytree.tree_flatten(args)
        for k, value in enumerate(leaves):
            if isinstance(value, DTensor):
                mesh = value.device_mesh if mesh is None else mesh
                value = _prepared(value, in_placements and in_placements[k], redistribute_inputs)
                back = in_grad_placements and in_grad_placements[k]
                value = value.to_local(grad_placements=back or None)
            own.append(value)
        found = func(*pytree.tree_unflatten(own, tree), **kwargs)
        results, shape = pytree.tree_flatten(found)
        several = isinstance(found, (tuple, list))
        placed = out_placements if several else (out_placements,)
        wrapped = [
            r if p is None else DTensor.from_local(r, mesh, p, run_check=False)
            for r, p in zip(results, placed)
        ]
        return pytree.tree_unflatten(wrapped, shape)

    return mapped


def _prepared(value, wanted, may_move):
    if wanted is None or tuple(wanted) == value.placements:
        return value
    if not may_move:
        raise ValueError(
            f"arg {value} in local_map has a mismatched placements: {value.placements} but the "
            f"input_placements specifies {wanted}!"
        )
    return value.redistribute(placements=wanted)
