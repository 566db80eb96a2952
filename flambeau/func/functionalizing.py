"""functionalize: a function that writes nothing, but to its inputs when it has ended."""

import functools
from collections.abc import Callable
from typing import Any

import flambeau
from flambeau._decomp import composite_decompositions
from flambeau._decomp.registry import op
from flambeau._tensor import Tensor
from flambeau.func.functional_levels import FunctionalLevel
from flambeau.utils._pytree import tree_map

_OPTIONS = ("mutations", "mutations_and_views")


def functionalize(func: Callable, *, remove: str = "mutations") -> Callable:
    """A function that does the same without writing: all it computes are new values.

    What it was given is written at the end, if func writes it. Modes and recorders such as
    `make_fx` see no op in place and no out=.

    Args:
        remove: "mutations", or "mutations_and_views", which also makes copies of views.

    Example:
        >>> import flambeau as torch
        >>> from flambeau.fx.experimental.proxy_tensor import make_fx
        >>> def f(x):
        ...     y = x.sin()
        ...     y.view(4).add_(1)
        ...     return y
        >>> print(make_fx(torch.func.functionalize(f))(torch.ones(2, 2)).code.strip())
        def forward(self, x_1):
            sin = torch.ops.aten.sin.default(x_1);  x_1 = None
            view = torch.ops.aten.view.default(sin, [4]);  sin = None
            add = torch.ops.aten.add.Tensor(view, 1);  view = None
            view_1 = torch.ops.aten.view.default(add, [2, 2]);  add = None
            view_2 = torch.ops.aten.view.default(view_1, [4]);  view_2 = None
            return view_1
    """
    if remove not in _OPTIONS:
        raise RuntimeError(
            f"functionalize(f, remove='mutations'): received invalid argument for remove={remove}. "
            "Valid options are:\n     remove='mutations': all inplace and out= operators will be "
            "removed from the program, and replaced with their out-of-place equivalents.\n     "
            "remove='mutations_and_views': In addition to the above, all aliasing operators "
            "{view} will be replaced with their non-aliasing counterparts, {view}_copy.\n"
        )

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        given: list[tuple[Any, Tensor]] = []
        with FunctionalLevel(_table(), remove == _OPTIONS[1]) as level:

            def enter(leaf: Any) -> Any:
                if not isinstance(leaf, Tensor):
                    return leaf
                given.append((level.lift(leaf), leaf))
                return given[-1][0]

            inside = tree_map(enter, (args, kwargs))
            result = level.values(func(*inside[0], **inside[1]))
            ended = [(level.value(t), original) for t, original in given]
        for value, original in ended:
            if value is not original:
                if value.shape != original.shape:
                    original.resize_(value.shape)
                original.copy_(value)
        return result

    return wrapped


@functools.cache
def _table() -> dict[Any, Callable]:
    """Ops that are taken apart before writes are looked for; products hide theirs in PyTorch."""
    table = composite_decompositions()
    for name in ("matmul", "dropout_", "lift_fresh"):
        del table[op(name)]
    return table | {op("dropout"): _dropout}


def _dropout(input: Tensor, p: float, train: bool) -> Any:
    """As PyTorch's transforms have it: with noise that is not written."""
    if not train or p in (0, 1):
        return composite_decompositions()[op("dropout")](input, p, train)
    empty = op("empty.memory_format")(
        [], dtype=input.dtype, layout=flambeau.strided, device=input.device
    )
    noise = op("bernoulli.p")(op("expand")(empty, list(input.shape)), 1 - p)
    return op("mul.Tensor")(input, op("div.Scalar")(noise, 1 - p))
