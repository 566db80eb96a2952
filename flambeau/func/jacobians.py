"""All of a derivative: jacrev, jacfwd and hessian, by one batched pass over a basis."""

import functools
from collections.abc import Callable
from typing import Any

from flambeau._functorch.vmap import vmap
from flambeau._tensor import Tensor
from flambeau.autograd.grad_mode import modes, set_grad_enabled
from flambeau.eager import creation
from flambeau.func.derivatives import (
    _aux,
    check_argnums,
    check_tensors,
    jvp,
    replaced,
    taped,
)
from flambeau.ops.table import public
from flambeau.transforms import levels
from flambeau.utils._pytree import tree_flatten, tree_unflatten


def basis(tensors: list[Tensor], start: int, stop: int) -> list[Tensor]:
    """Rows start to stop of the unit matrix over the elements of tensors, a part for each."""
    found, at = [], 0
    for t in tensors:
        rows = creation.arange(start, stop, device=t.device).unsqueeze(1)
        columns = creation.arange(at, at + t.numel(), device=t.device)
        part = (rows == columns).to(t.dtype)
        found.append(part.reshape(stop - start, *t.shape))
        at += t.numel()
    return found


def _split(value, targets, dim):
    """A block of derivatives cut by what it belongs to: sizes along dim become their shapes."""
    parts = value.split([t.numel() for t in targets], dim)
    return [
        p.reshape((*p.shape[:dim], *t.shape, *p.shape[dim + 1 :])) for p, t in zip(parts, targets)
    ]


def _check_real(tensors, start):
    for k, x in enumerate(tensors):
        if isinstance(x, Tensor) and x.dtype.is_complex:
            raise RuntimeError(
                f"{start} to be real but received complex tensor at flattened input idx: {k}"
            )


def jacrev(
    func: Callable,
    argnums: Any = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Callable:
    """A function that gives the Jacobian of another, by reverse mode.

    Args:
        chunk_size: how many rows of the Jacobian at a time; all if None.

    Example:
        >>> import flambeau as torch
        >>> torch.func.jacrev(torch.sin)(torch.zeros(2))
        tensor([[1., 0.],
                [0., 1.]])
    """
    if not (chunk_size is None or chunk_size > 0):
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        places = check_argnums(argnums, len(args))

        def partial(*chosen):
            return func(*replaced(args, places, list(chosen)), **kwargs)

        primals = tuple(args[k] for k in places)
        _check_real(tree_flatten(primals)[0], "jacrev: Expected all inputs")
        outs, tree, pull, aux = taped(partial, primals, has_aux, "vjp(f, *primals)")
        _check_real(outs, "jacrev: Expected all outputs")
        rows = sum(o.numel() for o in outs)
        step = chunk_size or max(rows, 1)
        pieces = []
        with levels.settled(), set_grad_enabled(pull.graph and modes.grad):
            for start in range(0, max(rows, 1), step):
                seeds = basis([o.detach() for o in outs], start, min(start + step, rows))
                pieces.append(_all_rows(pull, seeds, chunk_size))
            columns = [tree_flatten(p)[0] for p in pieces]
            found = [c[0] if len(c) == 1 else public("cat")(c, 0) for c in zip(*columns)]
        blocks = [_split(value, outs, 0) for value in found]  # by primal, then by result
        ordered = [
            _chosen(tree_unflatten([b[k] for b in blocks], pull.tree), argnums)
            for k in range(len(outs))
        ]
        result = tree_unflatten(ordered, tree)
        return (result, aux) if has_aux else result

    return wrapped


def _all_rows(pull, seeds, chunk_size):
    if chunk_size == 1:
        found = pull([s[0] for s in seeds])
        return tree_unflatten(
            [x.unsqueeze(0) for x in tree_flatten(found)[0]], tree_flatten(found)[1]
        )
    return vmap(lambda *given: pull(list(given)))(*seeds)


def _chosen(found, argnums):
    return tuple(found) if isinstance(argnums, tuple) else found[0]


def jacfwd(
    func: Callable, argnums: Any = 0, has_aux: bool = False, *, randomness: str = "error"
) -> Callable:
    """A function that gives the Jacobian of another, by forward mode.

    Example:
        >>> import flambeau as torch
        >>> torch.func.jacfwd(torch.sin)(torch.zeros(2))
        tensor([[1., 0.],
                [0., 1.]])
    """

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        places = check_argnums(argnums, len(args))
        leaves, spec = tree_flatten([args[k] for k in places])
        for x in leaves:
            if not isinstance(x, Tensor):
                raise RuntimeError(f"jacfwd: Expected all inputs to be tensors, got {type(x)}")
        _check_real(leaves, "jacfwd: Expected all inputs")
        tree: list = []
        extra: list = []

        def push(*tangents):
            def partial(*flat):
                return func(*replaced(args, places, tree_unflatten(flat, spec)), **kwargs)

            _, moved, *aux = jvp(partial, tuple(leaves), tangents, has_aux=has_aux)
            extra[:] = aux
            outs, tree[:] = _flat(moved)
            check_tensors(outs, "jacfwd(f)(*args): expected f to return only tensors")
            _check_real(outs, "jacfwd: Expected all outputs")
            return tuple(outs)

        seeds = basis(leaves, 0, sum(x.numel() for x in leaves))
        found = vmap(push, out_dims=-1, randomness=randomness)(*seeds)
        ordered = [
            _chosen(tree_unflatten(_split(value, leaves, value.ndim - 1), spec), argnums)
            for value in found
        ]
        result = tree_unflatten(ordered, tree[0])
        return (result, _unbatched(extra[0])) if has_aux else result

    return wrapped


def _flat(moved):
    outs, tree = tree_flatten(moved)
    return outs, [tree]


def _unbatched(aux):
    """Aux is the same for all tangents: it belongs to primals."""
    from flambeau.transforms.levels import Wrapped
    from flambeau.utils._pytree import tree_map

    return tree_map(lambda x: x._value if type(x) is Wrapped else x, _aux(aux, True))


def hessian(func: Callable, argnums: Any = 0) -> Callable:
    """A function that gives the second derivatives of another: jacfwd of jacrev.

    Example:
        >>> import flambeau as torch
        >>> torch.func.hessian(lambda x: (x**3).sum())(torch.ones(2))
        tensor([[6., 0.],
                [0., 6.]])
    """
    return jacfwd(jacrev(func, argnums), argnums)
