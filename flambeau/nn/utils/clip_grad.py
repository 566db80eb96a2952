"""Clipping of gradients, by their common norm or value by value.

The norm of all gradients and their scaling are one native call each (eager/updating.py), however
many tensors there are; gradients that are small enough are left alone.
"""

import math
import types
import warnings
from collections.abc import Iterable

from flambeau._dtype import float64, promote_types
from flambeau._tensor import Tensor
from flambeau.autograd.grad_mode import no_grad
from flambeau.eager import creation
from flambeau.eager.updating import norm_of_all, scale_all, update
from flambeau.interposing.overriding import has_dispatch
from flambeau.linalg import vector_norm
from flambeau.ops.table import public as function


def _by_dtype(tensors):
    found: dict = {}
    for t in tensors:
        found.setdefault(t.dtype, []).append(t)
    return found


def _gradients(parameters):
    parameters = [parameters] if isinstance(parameters, Tensor) else parameters
    return [p.grad for p in parameters if p.grad is not None]


def _is_native(t, norm_type):
    """Can one kernel give the norm? Magnitudes of complex numbers are not sums of their parts,
    and the "norm" 0 of several tensors counts tensors, not elements.
    """
    dtype = t.dtype
    is_known = norm_type == 2 or not (dtype.is_complex or norm_type == 0)
    return is_known and (dtype.is_floating_point or dtype.is_complex) and t.device.runtime.computes


@no_grad()
def get_total_norm(
    tensors: Tensor | Iterable[Tensor],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The norm of all tensors together, as if they were one vector."""
    tensors = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    norm_type = float(norm_type)
    if not tensors:
        return creation.tensor(0.0)
    is_spread = any(type(t) is not Tensor and has_dispatch(type(t)) for t in tensors)
    if is_spread or not tensors[0].device.runtime.is_host:
        norms = [vector_norm(t, norm_type) for t in tensors]
        if error_if_nonfinite and not all(math.isfinite(n.item()) for n in norms):
            raise _infinite(norm_type)
        return vector_norm(function("stack")([n.to(norms[0].device) for n in norms]), norm_type)
    dtype, norms, groups = None, [], _by_dtype(tensors)
    if len(groups) == 1 and _is_native(tensors[0], norm_type):
        found = norm_of_all(tensors, norm_type, tensors[0].dtype.to_real())
        if error_if_nonfinite and not math.isfinite(found.item()):
            raise _infinite(norm_type)
        return found
    for kind, group in groups.items():
        real = kind.to_real()
        dtype = real if dtype is None else promote_types(dtype, real)
        if not kind.is_floating_point and not kind.is_complex:
            vector_norm(group[0], norm_type)  # says what is wrong
        if _is_native(group[0], norm_type):
            norms.append(norm_of_all(group, norm_type, float64).item())
        else:
            norms += [vector_norm(t, norm_type).item() for t in group]
    total = norms[0] if len(norms) == 1 else _joined(norms, norm_type)
    if error_if_nonfinite and not math.isfinite(total):
        raise _infinite(norm_type)
    return creation.tensor(total, dtype=dtype, device=tensors[0].device)


def _infinite(norm_type):
    return RuntimeError(
        f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, "
        "so it cannot be clipped. To disable this error and scale the gradients by the "
        "non-finite norm anyway, set `error_if_nonfinite=False`"
    )


def _joined(norms, norm_type):
    return vector_norm(creation.tensor(norms).double(), norm_type).item()


@no_grad()
def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    total_norm: Tensor,
    foreach: bool | None = None,
) -> None:
    """Scale gradients so that a norm of `total_norm` becomes `max_norm`, if it is larger."""
    grads = _gradients(parameters)
    if not grads:
        return
    factor = (float(max_norm) / (total_norm + 1e-6)).clamp(max=1.0)
    if not grads[0].device.runtime.is_host:  # nobody waits for the number
        for grad in grads:
            grad.mul_(factor.to(grad.device))
        return
    if any(type(t) is not Tensor and has_dispatch(type(t)) for t in (factor, *grads)):
        for group in _by_dtype(grads).values():  # parts elsewhere get the number
            update("scaled", [group], [factor.item()])
        return
    for group in _by_dtype(grads).values():
        scale_all(group, factor.to(group[0].device))


@no_grad()
def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale all gradients down together until their norm is at most max_norm; gives the norm."""
    if isinstance(parameters, Tensor):
        parameters = [parameters]
    else:
        generated = isinstance(parameters, types.GeneratorType)
        parameters = list(parameters)
        if generated and not parameters:
            warnings.warn(
                "`parameters` is an empty generator, no gradient clipping will occur.",
                stacklevel=3,
            )
    found = get_total_norm(_gradients(parameters), norm_type, error_if_nonfinite, foreach)
    clip_grads_with_norm_(parameters, max_norm, found, foreach)
    return found


def clip_grad_norm(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The old name of clip_grad_norm_."""
    warnings.warn(
        "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of "
        "`torch.nn.utils.clip_grad_norm_`.",
        category=FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


@no_grad()
def clip_grad_value_(
    parameters: Tensor | Iterable[Tensor],
    clip_value: float,
    foreach: bool | None = None,
) -> None:
    """Limit every gradient element to -clip_value ... clip_value."""
    limit = float(clip_value)
    for group in _by_dtype(_gradients(parameters)).values():
        update("clamped", [group], [-limit, limit])
