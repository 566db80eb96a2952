"""What observers have in common."""

from abc import ABC, abstractmethod
from typing import Any

import flambeau as torch
from flambeau import Tensor, nn
from flambeau.ao.quantization.partials import with_args, with_callable_args
from flambeau.ao.quantization.utils import (
    EPS,
    PER_CHANNEL,
    PER_TENSOR,
    calculate_qmin_qmax,
    determine_qparams,
    validate_qmin_qmax,
)


class ObserverBase(ABC, nn.Module):
    """What observers have in common; they return what they are given."""

    def __init__(self, dtype: Any, is_dynamic: bool = False) -> None:
        nn.Module.__init__(self)
        vars(self).update(dtype=dtype, is_dynamic=is_dynamic)

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """Look at a tensor."""

    @abstractmethod
    def calculate_qparams(self) -> Any:
        """(scale, zero point)"""

    with_args = classmethod(with_args)
    with_callable_args = classmethod(with_callable_args)


class UniformQuantizationObserverBase(ObserverBase):
    """Observers of ranges: levels at equal distances from the least number to the largest.

    Subclasses say by `_schemes` what they can work with, and by `_refusal` what is said to others.
    """

    _version = 3
    _schemes: tuple = PER_TENSOR + PER_CHANNEL
    _refusal: Exception = AssertionError(
        "Default Observer only works for per_tensor_affine, per_tensor_symmetric, "
        "per_channel_affine, per_channel_symmetric and per_channel_float_qparams "
        "quantization scheme"
    )
    _always_static = False
    eps: Tensor

    def __init__(
        self,
        dtype: Any = torch.quint8,
        qscheme: Any = torch.per_tensor_affine,
        reduce_range: bool = False,
        quant_min: int | None = None,
        quant_max: int | None = None,
        factory_kwargs: Any = None,
        eps: float = EPS,
        is_dynamic: bool = False,
        **kwargs: Any,
    ) -> None:
        self._refuse(qscheme, is_dynamic)
        ObserverBase.__init__(self, dtype, is_dynamic, **kwargs)
        given = None not in (quant_min, quant_max)
        if given:
            validate_qmin_qmax(quant_min, quant_max)  # type: ignore[arg-type]
        low, high = calculate_qmin_qmax(quant_min, quant_max, given, dtype, reduce_range)
        self.register_buffer("eps", torch.full((1,), eps))
        self.has_customized_qrange, self.reduce_range = given, reduce_range
        self.quant_min, self.quant_max, self.qscheme = low, high, qscheme

    def _refuse(self, qscheme: Any, is_dynamic: bool) -> None:
        if qscheme not in self._schemes:
            raise type(self._refusal)(
                str(self._refusal).format(kind=type(self).__name__, scheme=qscheme)
            )
        if is_dynamic and self._always_static:
            kind = type(self).__name__
            raise NotImplementedError(f"{kind} doesn't support dynamic quantization")

    def _calculate_qparams(self, min_val: Tensor, max_val: Tensor) -> tuple[Tensor, Tensor]:
        facts = self.quant_min, self.quant_max, self.dtype, self.eps, self.has_customized_qrange
        return determine_qparams(min_val, max_val, *facts, self.qscheme)

    def reset_min_max_vals(self) -> None:
        """Forget what was seen."""
        raise NotImplementedError("Cannot reset min/max values in the given observer.")


class RangeObserver(UniformQuantizationObserverBase):
    """Observers that keep a least and a largest number: of all, or of every channel."""

    min_val: Tensor
    max_val: Tensor

    def _start(self, *shape: int) -> None:
        """The ends before anything has been seen: the wrong way round, so that all fits."""
        for name, end in (("min_val", torch.inf), ("max_val", -torch.inf)):
            self.register_buffer(name, torch.full(shape, end))

    @property
    def _has_seen(self) -> bool:
        return self.min_val.numel() > 0 and bool((self.min_val <= self.max_val).all())

    def forward(self, x_orig: Tensor) -> Tensor:
        """Look at a tensor."""
        if x_orig.numel():
            ends = self._ends(x_orig.detach().to(self.min_val.dtype))
            for kept, seen in zip((self.min_val, self.max_val), self._joined(*ends)):
                kept.resize_(seen.shape).copy_(seen)
        return x_orig

    def _ends(self, x: Tensor) -> Any:
        return torch.aminmax(x)

    def _joined(self, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        """The ends of what was seen before and of what is seen now."""
        if not self.min_val.numel():
            return low, high
        return torch.minimum(low, self.min_val), torch.maximum(high, self.max_val)

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """(scale, zero point)"""
        return self._calculate_qparams(self.min_val, self.max_val)

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={getattr(self, name)}" for name in ("min_val", "max_val"))


class Follower:
    """For observers of ranges: ends that follow those of what passes, slowly."""

    averaging_constant: float

    def _joined(self, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        mine: Any = self
        if not mine._has_seen:
            return low, high
        share = self.averaging_constant
        return (
            mine.min_val + share * (low - mine.min_val),
            mine.max_val + share * (high - mine.max_val),
        )
