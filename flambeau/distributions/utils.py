"""What distributions share: parameters of one shape, probabilities and logits, lazy values.

`torch.distributions.utils`, which programs with distributions of their own import from.
"""

from collections.abc import Callable
from functools import update_wrapper
from numbers import Number
from operator import attrgetter
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.nn import functional as F
from flambeau.overrides import is_tensor_like

__all__ = [
    "broadcast_all",
    "clamp_probs",
    "lazy_property",
    "logits_to_probs",
    "probs_to_logits",
    "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]

euler_constant: float = 0.57721566490153286060  # Euler and Mascheroni's


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """Tensors of one shape; numbers take dtype and device of the first tensor."""
    numbers = 0
    for value in values:
        if isinstance(value, Tensor):
            continue
        if not isinstance(value, (int, float)) and not is_tensor_like(value):
            raise ValueError(
                "Input arguments must all be instances of Number, "
                "torch.Tensor or objects implementing __torch_function__."
            )
        numbers += isinstance(value, (int, float))
    if numbers:
        first = next((v for v in values if isinstance(v, Tensor)), None)
        options: dict[str, Any] = {"dtype": flambeau.get_default_dtype()}
        if first is not None:
            options = {"dtype": first.dtype, "device": first.device}
        tensors = [
            flambeau.tensor(v, **options) if isinstance(v, (int, float)) else v for v in values
        ]
        return flambeau.broadcast_tensors(*tensors)
    return flambeau.broadcast_tensors(*values)


def is_number(value: Any) -> bool:
    """A Python number, and no tensor."""
    return isinstance(value, Number) and not isinstance(value, complex)


def _standard_normal(shape, dtype, device) -> Tensor:
    """Normal numbers with mean 0 and variance 1."""
    return flambeau.randn(shape, dtype=dtype, device=device)


def uniform_like(parameter: Tensor, shape: Any) -> Tensor:
    """Numbers between 0 and 1, of the dtype and on the device of a parameter."""
    return flambeau.rand(shape, dtype=parameter.dtype, device=parameter.device)


def _sum_rightmost(value: Tensor, dim: int) -> Tensor:
    """The sum over the last dim dimensions."""
    if dim == 0:
        return value
    return value.reshape((*value.shape[:-dim], -1)).sum(-1)


# -- probabilities and logits ----------------------------------------------------------------------


def clamp_probs(probs: Tensor) -> Tensor:
    """Probabilities away from 0 and 1, so that logarithms stay finite."""
    step = flambeau.finfo(probs.dtype).eps
    return probs.clamp(step, 1 - step)


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Probabilities from log odds (is_binary), or from log probabilities along the last dim."""
    return flambeau.sigmoid(logits) if is_binary else F.softmax(logits, dim=-1)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Log odds (is_binary) or log probabilities; certainties are clamped first."""
    p = clamp_probs(probs)
    return log_odds(p) if is_binary else p.log()


def log_odds(p: Tensor) -> Tensor:
    """log(p / (1 - p)), the inverse of sigmoid."""
    return p.log() - (-p).log1p()


# -- values of other objects, values computed once -------------------------------------------------


def passed_on(path: str) -> Any:
    """A property that is read elsewhere: `loc = passed_on("base_dist.loc")`."""
    return property(attrgetter(path))


class lazy_property:
    """A value that is computed when first asked for, and then an attribute like others.

    It is computed with gradients on, because later users may need them though the first did not.
    """

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        self.wrapped = wrapped
        update_wrapper(self, wrapped)  # type: ignore[arg-type]

    def __get__(self, instance: Any, obj_type: Any = None) -> Any:
        if instance is None:
            return _lazy_property_and_property(self.wrapped)
        compute = self.wrapped
        with flambeau.enable_grad():
            instance.__dict__[compute.__name__] = found = compute(instance)
        return found


class _lazy_property_and_property(lazy_property, property):
    """What the class shows for a lazy property: tools that look for properties find one."""

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        property.__init__(self, wrapped)


# -- triangles -------------------------------------------------------------------------------------


def _in_triangle(n: int, diag: int, device) -> Tensor:
    place = flambeau.arange(n, device=device)
    return place <= place.view(-1, 1) + diag


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """The elements on and below a diagonal, row by row; of batches too."""
    n = mat.shape[-1]
    if not -n <= diag < n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    return mat[..., _in_triangle(n, diag, mat.device)]


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """The matrix with these elements on and below a diagonal, and zeros above."""
    # n rows hold (n + diag)(n + diag + 1) / 2 elements, less the corner that diag > 0 runs past
    length = vec.shape[-1]
    root = ((1 + 2 * diag) ** 2 + 8 * length + 4 * abs(diag) * (diag + 1)) ** 0.5
    n = (root - 1 - 2 * diag) / 2
    if round(n) - n > flambeau.finfo(vec.dtype).eps:
        raise ValueError(
            f"The size of last dimension is {length} which cannot be expressed as "
            "the lower triangular part of a square D x D matrix."
        )
    mat = vec.new_zeros((*vec.shape[:-1], round(n), round(n)))
    mat[..., _in_triangle(round(n), diag, vec.device)] = vec
    return mat
