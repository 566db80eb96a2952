"""`TorchDispatchMode` and `__torch_dispatch__`: who sees ops below autocast and everything else.

A mode is a handler (interposing/) below all others: it is told of ops that compute, with
arguments as autocast left them. Ops made of others are not shown, only those they call. Derivatives
run op by op while there is a mode.
"""

from collections.abc import Callable
from typing import Any

from flambeau import interposing
from flambeau._tensor import Tensor
from flambeau.aten.overloads import namespace, overload_of
from flambeau.eager.binding import bind
from flambeau.interposing.overriding import PASSING, has_dispatch
from flambeau.interposing.recording import is_composite, record, wants_history
from flambeau.interposing.steps import STEPS
from flambeau.ops.table import TABLE

# what these do is seen in what they call
_SHELLS = frozenset("aten::to aten::matmul".split())
_SHELL_KEYS = frozenset(
    "__rpow__ __rtruediv__ __rdiv__ __rmod__ __rfloordiv__ __rlshift__ __rrshift__".split()
)
# made of others here, but an op in PyTorch
_WHOLE = frozenset(
    """
    _cdist_backward _fused_rms_norm_backward _log_softmax_backward_data _pdist_backward
    _scaled_dot_product_flash_attention_for_cpu_backward _softmax_backward_data adaptive_avg_pool1d
    adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d
    adaptive_max_pool3d addr allclose aminmax as_strided_scatter avg_pool1d avg_pool2d avg_pool3d
    binary_cross_entropy binary_cross_entropy_with_logits cholesky_inverse cholesky_solve conv_tbc
    count_nonzero diagonal_scatter dist embedding equal fractional_max_pool2d fractional_max_pool3d
    frexp geqrf glu grid_sampler_2d_backward histc histogram huber_loss isin linalg_cholesky_ex
    linalg_cross linalg_eig linalg_householder_product linalg_inv_ex linalg_ldl_factor_ex
    linalg_lstsq linalg_lu linalg_lu_factor_ex linalg_matrix_exp linalg_qr linalg_vector_norm
    logsumexp lu_unpack max max_pool1d max_pool2d max_pool2d_with_indices max_pool3d
    max_pool3d_with_indices max_unpool2d max_unpool3d median min mse_loss multi_margin_loss
    multi_margin_loss_backward multilabel_margin_loss_forward mvlgamma nanmedian
    native_batch_norm_backward native_group_norm_backward native_layer_norm_backward
    nll_loss_backward nonzero ormqr renorm repeat_interleave rot90 select_scatter slice_scatter
    smooth_l1_loss soft_margin_loss split trace triangular_solve unfold unique_consecutive vdot
    """.split()
)


def is_traceable_wrapper_subclass(t: object) -> bool:
    """Is it a tensor made of others, which can be taken apart?"""
    return hasattr(t, "__tensor_flatten__") and hasattr(t, "__tensor_unflatten__")


class _Below(interposing.Handler):
    """Stands around ops that are not made of others."""

    level = interposing.DISPATCH_MODES
    forks = True

    def wants(self, place: interposing.Place) -> bool:
        if place.kind != "op" or place.key in _SHELL_KEYS:
            return False
        row = TABLE.get(place.row)
        if row is None:
            return place.naming not in _SHELLS or place.key in ("__matmul__", "__rmatmul__")
        space, _, name = str(place.naming).partition("::")
        return row.kind != "composite" or space != "aten" or name in _WHOLE


class _Entered(_Below):
    """A mode that has been entered."""

    def __init__(self, mode: "TorchDispatchMode") -> None:
        self.mode = mode

    def around(self, name: interposing.Name, function: Callable, args: tuple, kwargs: dict) -> Any:
        steps = STEPS.get(name.place.key)
        if steps is not None and (result := self._seen(steps, args, kwargs)) is not NotImplemented:
            return result
        overload = overload_of(name, args, kwargs)
        pieces = _PIECES.get(str(overload))
        if pieces is not None:
            return pieces(self._tell, *args, **kwargs)
        return overload.tell(self.mode, function, (), args, kwargs)

    def _seen(self, steps: Callable, args: tuple, kwargs: dict) -> Any:
        """Calls of which the mode is told; by itself it is not told of what happens here."""
        again = interposing.push(_Entered(self.mode))
        try:
            return steps(*args, **kwargs)
        finally:
            interposing.pop(again)

    def _tell(self, name: str, *args: Any) -> Any:
        short, _, kind = name.partition(".")
        overload = getattr(namespace("aten").packet(short), kind or "default")
        return overload.tell(self.mode, overload.function(), (), args, {})


# -- one kernel here, several ops in PyTorch -------------------------------------------------------


def _rows(tell, t):
    """The last dimension, and all others as one."""
    return tell("view", t.contiguous(), [-1, t.shape[-1]])


def _linear(tell, input, weight, bias=None):
    size = [*input.shape[:-1], weight.shape[0]]
    if bias is not None:
        if input.ndim == 2:
            return tell("addmm", bias, input, tell("t", weight))
        flat = _rows(tell, input)
        return tell("view", tell("addmm", bias, flat, tell("t", weight)), size)
    turned = tell("t", weight)
    if input.ndim == 2:
        return tell("mm", input, turned)
    if input.ndim == 1:
        return tell("squeeze_.dim", tell("mm", tell("unsqueeze", input, 0), turned), 0)
    return tell("_unsafe_view", tell("mm", _rows(tell, input), turned), size)


def _matmul(tell, input, other):
    if input.ndim > 2 and other.ndim == 2:
        size = [*input.shape[:-1], other.shape[1]]
        return tell("_unsafe_view", tell("mm", _rows(tell, input), other), size)
    return tell("matmul", input, other)


_PIECES: dict[str, Callable] = {"aten.linear.default": _linear, "aten.matmul.default": _matmul}


class _OnTensors(interposing.Handler):
    """Lets derivatives run op by op, as modes cannot look into a kernel that fuses them."""

    kinds = frozenset({"node"})
    level = interposing.DISPATCH_MODES
    sees = "all"
    is_lasting = forks = True

    def around(self, name: interposing.Name, function: Callable, args: tuple, kwargs: dict) -> Any:
        node, grads, _ = args
        return function(node, grads, True)


_on_tensors = _OnTensors()


class TorchDispatchMode:
    """A context that is told of every op that computes in it.

    Example:
        >>> from flambeau.utils._python_dispatch import TorchDispatchMode
        >>> class Loud(TorchDispatchMode):
        ...     def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        ...         print(func)
        ...         return func(*args, **(kwargs or {}))
        >>> with Loud():
        ...     x = flambeau.ones(3) + 1
        aten.ones.default
        aten.add.Tensor
    """

    def __init__(self, _dispatch_key: Any = None) -> None:
        pass

    def __torch_dispatch__(
        self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        raise NotImplementedError

    def __enter__(self) -> "TorchDispatchMode":
        entered = self.__dict__.setdefault("_entered", [])
        entered.append(interposing.push(_Entered(self)))
        interposing.push(_on_tensors)
        return self

    def __exit__(self, *error: Any) -> None:
        interposing.pop(_on_tensors)
        interposing.pop(self.__dict__["_entered"].pop())


def current_mode_stack() -> list[TorchDispatchMode]:
    """Modes that are on; the last is told first."""
    return [h.mode for h in interposing.handlers() if isinstance(h, _Entered)]


# -- tensors that are told -------------------------------------------------------------------------


class _Arguments(_Below):
    """Tells classes with a `__torch_dispatch__` of ops that get one of their tensors."""

    level = interposing.DISPATCH_MODES - 1
    sees = "all"
    all_threads = is_lasting = True
    passing = PASSING

    def wants(self, place: interposing.Place) -> bool:
        return super().wants(place) or _has_steps(place)

    def around(self, name: interposing.Name, function: Callable, args: tuple, kwargs: dict) -> Any:
        kinds = _told_classes([*args, *kwargs.values()])
        if not kinds:
            return function(*args, **kwargs)
        if not super().wants(name.place):  # a kernel for steps: it would read what others hold
            row = TABLE[name.place.row]
            return row.body(**bind(row, args, kwargs))
        steps = STEPS.get(name.place.key)
        if steps is not None and (result := steps(*args, **kwargs)) is not NotImplemented:
            return result
        overload = overload_of(name, args, kwargs)
        recorded = wants_history(name, args, kwargs)
        if recorded and is_composite(name):
            return function(*args, **kwargs)  # its steps are told, each with its derivative
        for kind in kinds:
            result = overload.tell(kind, name.function, kinds, args, kwargs)
            if result is not NotImplemented:
                if recorded:
                    record(name, args, kwargs, result)
                return result
        shown = "\n".join(f"  - tensor subclass {kind}" for kind in kinds)
        raise TypeError(
            f"Multiple dispatch failed for '{overload}'; all __torch_dispatch__ handlers returned "
            f"NotImplemented:\n\n{shown}\n\nFor more information, try re-running with "
            "TORCH_LOGS=not_implemented"
        )


def _has_steps(place):
    row = TABLE.get(place.row)
    return (
        place.kind in ("op", "python")
        and row is not None
        and row.kind == "composite"
        and row.template not in (None, "overloads")
    )


ARGUMENTS = _Arguments()


def _told_classes(values):
    """Classes of tensors among some values that want to be told, lower ones first."""
    found: list[type] = []
    for value in values:
        for item in value if type(value) in (list, tuple) else (value,):
            for t in item if type(item) is list else (item,):  # an update has columns of tensors
                kind = type(t)
                if kind is Tensor or kind in found or not isinstance(t, Tensor):
                    continue
                if has_dispatch(kind):
                    below = (k for k, other in enumerate(found) if issubclass(kind, other))
                    found.insert(next(below, len(found)), kind)
    return tuple(found)


def _plainly(
    cls: type, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None
) -> Any:
    """The `__torch_dispatch__` of Tensor: the op is computed as usual."""
    with interposing.switched_off(ARGUMENTS):
        return func(*args, **(kwargs or {}))


Tensor.__torch_dispatch__ = classmethod(_plainly)  # type: ignore[attr-defined]


def begin() -> None:
    """The first tensor of such a class has come into being."""
    if not interposing.is_pushed(ARGUMENTS):
        interposing.push(ARGUMENTS)
