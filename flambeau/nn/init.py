"""Initial values: functions that fill a tensor in place, outside autograd.

With the same seed they give PyTorch's numbers, so draws happen in its order. Names without a
trailing underscore are the old ones and warn.
"""

import functools
import math
import warnings
from typing import Any

from flambeau._tensor import Tensor
from flambeau.autograd.grad_mode import no_grad
from flambeau.eager.creation import empty_like
from flambeau.eager.methods import function
from flambeau.eager.random_tensors import randperm
from flambeau.interposing.overriding import by_name
from flambeau.ops.table import public

_CONVOLUTIONS = (f"conv{kind}{n}d" for kind in ("", "_transpose") for n in (1, 2, 3))
_GAINS: dict[str, float] = dict.fromkeys(("linear", "sigmoid", *_CONVOLUTIONS), 1)
_GAINS |= {"tanh": 5.0 / 3, "relu": math.sqrt(2.0), "selu": 3.0 / 4}


def calculate_gain(nonlinearity: str, param: Any = None) -> float:
    """The factor that undoes how a nonlinearity shrinks the spread of what goes through it."""
    if nonlinearity in _GAINS:
        return _GAINS[nonlinearity]
    if nonlinearity != "leaky_relu":
        raise ValueError(f"Unsupported nonlinearity {nonlinearity}")
    slope = 0.01 if param is None else param
    if isinstance(slope, bool) or not isinstance(slope, (int, float)):
        raise ValueError(f"negative_slope {param} not a valid number")
    return math.sqrt(2.0 / (1 + slope**2))


@no_grad()
def _no_grad_uniform_(tensor: Any, a: float, b: float, generator: Any = None) -> Any:
    return tensor.uniform_(a, b, generator=generator)


@no_grad()
def _no_grad_normal_(tensor: Any, mean: float, std: float, generator: Any = None) -> Any:
    return tensor.normal_(mean, std, generator=generator)


@no_grad()
def _no_grad_fill_(tensor: Any, val: float) -> Any:
    return tensor.fill_(val)


@by_name
def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Tensor:
    """Numbers between a and b, all equally likely."""
    return _no_grad_uniform_(tensor, a, b, generator)


@by_name
def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Tensor:
    """Normally distributed numbers."""
    return _no_grad_normal_(tensor, mean, std, generator)


@by_name
def constant_(tensor: Tensor, val: float) -> Tensor:
    """The same number everywhere."""
    return _no_grad_fill_(tensor, val)


@no_grad()
def ones_(tensor: Tensor) -> Tensor:
    """Ones."""
    return tensor.fill_(1.0)


@no_grad()
def zeros_(tensor: Tensor) -> Tensor:
    """Zeros."""
    return tensor.zero_()


def _normal_cdf(x):
    return (1.0 + math.erf(x / math.sqrt(2.0))) / 2.0


@no_grad()
def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Any = None,
) -> Tensor:
    """Normally distributed numbers, drawn again until they are between a and b."""
    if tensor.is_meta:
        return tensor
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The distribution of "
            "values may be incorrect.",
            stacklevel=2,
        )
    likely = _normal_cdf((b - mean) / std) - _normal_cdf((a - mean) / std) > 0.3
    found = (_redrawn if likely else _rejected)(tensor, mean, std, a, b, generator)
    return tensor if found is tensor else tensor.copy_(found)


def _redrawn(tensor, mean, std, a, b, generator):
    """Normal numbers; those outside are drawn once more."""
    low, high = (tensor.new_tensor(x).item() for x in (a, b))
    found = tensor.normal_(mean, std, generator=generator)
    while True:
        outside = (found < low) | (found > high)
        if not outside.any():
            return found
        again = empty_like(found).normal_(mean, std, generator=generator)
        found = public("where")(outside, again, found)


def _rejected(tensor, mean, std, a, b, generator):
    """Where few normal numbers would fit: uniform ones, kept in proportion to the density."""
    peak = -0.5 * ((max(a, min(mean, b)) - mean) / std) ** 2
    coin = empty_like(tensor)

    def too_rare(numbers):
        density = numbers.clone().sub_(mean).div_(std).pow_(2).mul_(-0.5).sub_(peak)
        return coin.uniform_(generator=generator).log_() > density

    found = tensor.uniform_(a, b, generator=generator)
    pending = too_rare(found)
    where = public("where")
    while pending.any():
        fresh = empty_like(tensor).uniform_(a, b, generator=generator)
        found = where(pending, fresh, found)
        pending = where(pending, too_rare(fresh), pending)
    return found


@no_grad()
def eye_(tensor: Tensor) -> Tensor:
    """The identity matrix."""
    if tensor.ndimension() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    tensor.zero_()
    tensor.diagonal().fill_(1)
    return tensor


@no_grad()
def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Weights of a convolution that changes nothing, as far as there are channels."""
    if tensor.dim() not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    outputs, _, *window = tensor.shape
    per_group, rest = divmod(outputs, groups)
    if rest:
        raise ValueError("dim 0 must be divisible by groups")
    centre = tensor.zero_()[(..., *(size // 2 for size in window))]
    for part in centre.split(per_group) if per_group else ():
        part.diagonal().fill_(1)
    return tensor


def _calculate_fan_in_and_fan_out(tensor):
    """How many inputs a number of the output sums over, and the other way round."""
    if tensor.dim() < 2:
        raise ValueError(
            "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions"
        )
    field = math.prod(tensor.shape[2:])
    return tensor.size(1) * field, tensor.size(0) * field


def _calculate_correct_fan(tensor, mode):
    mode = mode.lower()
    valid = ["fan_in", "fan_out"]
    if mode not in valid:
        raise ValueError(f"Mode {mode} not supported, please use one of {valid}")
    return _calculate_fan_in_and_fan_out(tensor)[valid.index(mode)]


def _xavier_std(tensor, gain):
    both = sum(_calculate_fan_in_and_fan_out(tensor))
    return gain * math.sqrt(2.0 / both)


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Uniform numbers that keep the spread of activations and gradients alike (Glorot)."""
    bound = math.sqrt(3.0) * _xavier_std(tensor, gain)
    return _no_grad_uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Normal numbers that keep the spread of activations and gradients alike (Glorot)."""
    return _no_grad_normal_(tensor, 0.0, _xavier_std(tensor, gain), generator)


def _warn_empty():
    warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=3)


def _kaiming_std(tensor, a, mode, nonlinearity):
    return calculate_gain(nonlinearity, a) / math.sqrt(_calculate_correct_fan(tensor, mode))


@by_name
def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Tensor:
    """Uniform numbers that keep the spread through rectifiers (He)."""
    if 0 in tensor.shape:
        _warn_empty()
        return tensor
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return _no_grad_uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Tensor:
    """Normal numbers that keep the spread through rectifiers (He)."""
    if 0 in tensor.shape:
        _warn_empty()
        return tensor
    return _no_grad_normal_(tensor, 0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


@no_grad()
def orthogonal_(tensor: Tensor, gain: float = 1, generator: Any = None) -> Tensor:
    """Rows, or columns, at right angles to each other and of length gain."""
    if tensor.dim() < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if tensor.is_meta or 0 in tensor.shape:
        return tensor
    flat = (tensor.shape[0], math.prod(tensor.shape[1:]))
    tall = tensor.new_empty(flat).normal_(0, 1, generator=generator)
    wide = flat[0] < flat[1]
    q, r = function("linalg_qr")(tall.t() if wide else tall)
    q = q * r.diagonal().sign()  # makes all of them equally likely
    found = q.t() if wide else q
    return tensor.copy_(found.reshape(tensor.shape) * gain)


@no_grad()
def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Any = None) -> Tensor:
    """Normal numbers, of which a fraction of each column is zero."""
    if tensor.ndimension() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    if tensor.is_meta:
        return tensor
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    tensor.normal_(0, std, generator=generator)
    for column in range(columns):
        tensor[randperm(rows)[:zeros], column] = 0
    return tensor


def _old_name(new):
    name = new.__name__[:-1]

    @functools.wraps(new)
    def old(*args, **kwargs):
        warnings.warn(
            f"`nn.init.{name}` is now deprecated in favor of `nn.init.{new.__name__}`.",
            FutureWarning,
            stacklevel=2,
        )
        return new(*args, **kwargs)

    old.__name__ = old.__qualname__ = name
    old.__doc__ = f"The old name of {new.__name__}."
    return old


uniform = _old_name(uniform_)
normal = _old_name(normal_)
constant = _old_name(constant_)
eye = _old_name(eye_)
dirac = _old_name(dirac_)
xavier_uniform = _old_name(xavier_uniform_)
xavier_normal = _old_name(xavier_normal_)
kaiming_uniform = _old_name(kaiming_uniform_)
kaiming_normal = _old_name(kaiming_normal_)
orthogonal = _old_name(orthogonal_)
sparse = _old_name(sparse_)


# -- names that libraries call ---------------------------------------------------------------------

_no_grad_trunc_normal_, _no_grad_zero_ = trunc_normal_, zeros_
