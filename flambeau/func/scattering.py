"""How a new value of a view becomes one of what it looks at.

Each entry of UNDO is told how to call an op (`do`), the view, the value that it looked at and the
new value of the view; it gives the new value of what was looked at.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from flambeau._tensor import Tensor


class View(NamedTuple):
    """A look at the memory of another tensor: target(parent, *args), or a part of that."""

    target: Any
    args: tuple
    kwargs: dict[str, Any]
    part: int | None = None

    @property
    def name(self) -> str:
        return self.target.overloadpacket.__name__

    def given(self, place: int, default: Any) -> Any:
        """An argument by its place behind the parent."""
        return self.args[place] if len(self.args) > place else default


Undo = Callable[[Callable, View, Any, Tensor], Tensor]


def _scattered(name: str) -> Undo:
    """Ops that put the elements back where they were taken from."""

    def undo(do: Callable, view: View, parent: Any, value: Tensor) -> Tensor:
        return do(name, parent, value, *view.args, **view.kwargs)

    return undo


def _reshaped(do, view, parent, value):
    if view.target._overloadname == "dtype":
        return do("view.dtype", value, parent.dtype)
    return do("view.default", value, list(parent.shape))


def _permuted(do, view, parent, value):
    order = [d % parent.ndim for d in view.args[0]]
    return do("permute.default", value, [order.index(k) for k in range(len(order))])


def _again(do, view, parent, value):
    """What undoes itself."""
    return do(f"{view.name}.{view.target._overloadname}", value, *view.args)


def _unsqueezed(do, view, parent, value):
    return do("squeeze.dim", value, view.args[0])


def _squeezed(do, view, parent, value):
    """Dimensions of length one come back."""
    dims = view.given(0, list(range(parent.ndim)))
    dims = sorted(d % max(parent.ndim, 1) for d in (dims if isinstance(dims, list) else [dims]))
    for dim in dims:
        if parent.ndim and parent._layout.shape[dim] == 1:
            value = do("unsqueeze.default", value, dim)
    return value


def _same(do, view, parent, value):
    return value


def _split(do, view, parent, value):
    """A part between two places."""
    sizes, dim = view.args[0], view.given(1, 0) % parent.ndim
    if isinstance(sizes, int):
        start = view.part * sizes
        stop = min(start + sizes, parent._layout.shape[dim])
    else:
        start = sum(sizes[: view.part])
        stop = start + sizes[view.part]
    return do("slice_scatter.default", parent, value, dim, start, stop)


def _unbound(do, view, parent, value):
    return do("select_scatter.default", parent, value, view.given(0, 0), view.part)


def _expanded(do, view, parent, value):
    """Elements that are one in memory get what was added to all of them."""
    more = value.ndim - parent.ndim
    shape = [1] * more + list(parent._layout.shape)
    dims = [d for d, size in enumerate(shape) if size == 1 and value._layout.shape[d] != 1]
    change = do("sum.dim_IntList", do("sub.Tensor", value, parent), [*range(more), *dims[more:]]
                if len(dims) >= more else list(range(more)), True)  # fmt: skip
    if more:
        change = do("view.default", change, list(parent.shape))
    return do("add.Tensor", parent, change)


def _unfolded(do, view, parent, value):
    if view.args[2] < view.args[1]:
        raise RuntimeError(
            "While executing unfold, functionalization encountered a tensor being mutated that has "
            "internal overlap. When using torch.compile (or running functionalization directly), "
            "this is banned as the behavior is not well defined. Consider cloning the tensor "
            "before mutating it, or removing the mutation from your model."
        )
    return do("unfold_backward.default", value, list(parent.shape), *view.args)


def _named(name: str) -> Undo:
    return lambda do, view, parent, value: do(name, value)


UNDO: dict[str, Undo] = {
    "select": _scattered("select_scatter.default"),
    "slice": _scattered("slice_scatter.default"),
    "diagonal": _scattered("diagonal_scatter.default"),
    "as_strided": _scattered("as_strided_scatter.default"),
    **dict.fromkeys("view _unsafe_view reshape flatten unflatten".split(), _reshaped),
    "squeeze": _squeezed,
    "permute": _permuted,
    **dict.fromkeys("t transpose _conj _neg_view".split(), _again),
    "unsqueeze": _unsqueezed,
    **dict.fromkeys("alias detach view_as lift_fresh contiguous to".split(), _same),
    **dict.fromkeys(("split", "split_with_sizes"), _split),
    "unbind": _unbound,
    "expand": _expanded,
    "unfold": _unfolded,
    "view_as_real": _named("view_as_complex.default"),
    "view_as_complex": _named("view_as_real.default"),
}
