"""Fake quantization as modules: an observer, and numbers rounded to the levels it finds."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import flambeau as torch
from flambeau import Tensor, nn
from flambeau.ao.quantization import observer as observers
from flambeau.ao.quantization.observer import (
    FixedQParamsObserver,
    HistogramObserver,
    MovingAverageMinMaxObserver,
    MovingAveragePerChannelMinMaxObserver,
)
from flambeau.ao.quantization.partials import described, with_args
from flambeau.ao.quantization.utils import bounds_of, is_per_channel, is_per_tensor


class FakeQuantizeBase(ABC, nn.Module):
    """Switches for observing and for rounding; they are buffers, so they are saved."""

    _switches = torch.uint8
    fake_quant_enabled: Tensor
    observer_enabled: Tensor

    def __init__(self) -> None:
        nn.Module.__init__(self)
        for switch in ("fake_quant_enabled", "observer_enabled"):
            self.register_buffer(switch, torch.ones(1, dtype=self._switches))

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """Observe, and round."""

    @abstractmethod
    def calculate_qparams(self) -> Any:
        """(scale, zero point)"""

    def enable_fake_quant(self, enabled: bool = True) -> None:
        self.fake_quant_enabled.fill_(int(enabled))

    def disable_fake_quant(self) -> None:
        self.enable_fake_quant(False)

    def enable_observer(self, enabled: bool = True) -> None:
        self.observer_enabled.fill_(int(enabled))

    def disable_observer(self) -> None:
        self.enable_observer(False)

    @classmethod
    def with_args(cls, **kwargs: Any) -> Any:
        """The class with arguments, to be instantiated where an observer would."""
        found = with_args(cls, **kwargs)
        found.__dict__["__module__"] = "torch.ao.quantization.fake_quantize"
        return found


class FakeQuantize(FakeQuantizeBase):
    """Rounds to the levels that an observer finds."""

    scale: Tensor
    zero_point: Tensor

    def __init__(
        self,
        observer: Any = MovingAverageMinMaxObserver,
        quant_min: int | None = None,
        quant_max: int | None = None,
        is_dynamic: bool = False,
        **observer_kwargs: Any,
    ) -> None:
        FakeQuantizeBase.__init__(self)
        if None not in (quant_min, quant_max):
            _check_bounds(observer, observer_kwargs, quant_min, quant_max)
            observer_kwargs |= {"quant_min": quant_min, "quant_max": quant_max}
        inner = observer(**observer_kwargs, is_dynamic=is_dynamic)
        self.activation_post_process = inner
        for name in ("quant_min", "quant_max", "is_dynamic", "dtype", "qscheme"):
            setattr(self, name, getattr(inner, name))
        if not (is_per_tensor(inner.qscheme) or is_per_channel(inner.qscheme)):
            raise AssertionError(
                "Only per channel and per tensor quantization are supported in fake quantize got "
                f"qscheme: {inner.qscheme}"
            )
        self.is_per_channel = is_per_channel(inner.qscheme)
        self.ch_axis = getattr(inner, "ch_axis", -1)
        in_rows = inner.qscheme is torch.per_channel_affine_float_qparams
        self.register_buffer("scale", torch.ones(1))
        self.register_buffer(
            "zero_point", torch.zeros(1, dtype=torch.float if in_rows else torch.int)
        )

    def calculate_qparams(self) -> Any:
        """(scale, zero point)"""
        return self.activation_post_process.calculate_qparams()

    def _learn(self, X: Tensor) -> None:
        self.activation_post_process(X.detach())
        for kept, found in zip((self.scale, self.zero_point), self.calculate_qparams()):
            kept.resize_(found.shape).copy_(found)

    def forward(self, X: Tensor) -> Tensor:
        if self.observer_enabled.item():
            self._learn(X)
        if not self.fake_quant_enabled.item():
            return X
        levels = self.scale, self.zero_point
        ends = self.quant_min, self.quant_max
        if self.is_per_channel:
            return torch.fake_quantize_per_channel_affine(X, *levels, self.ch_axis, *ends)
        return torch.fake_quantize_per_tensor_affine(X, *levels, *ends)

    def _told(self, names: str) -> str:
        """Facts by name; the ends are those of the observer."""
        inner = self.activation_post_process
        places = dict.fromkeys(("quant_min", "quant_max", "reduce_range"), inner)
        return ", ".join(f"{n}={getattr(places.get(n, self), n)}" for n in names.split())

    def extra_repr(self) -> str:
        return self._told(
            "fake_quant_enabled observer_enabled quant_min quant_max dtype qscheme ch_axis scale "
            "zero_point"
        )

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        # themselves, also where others are detached: scales may be learned
        destination.update({prefix + name: getattr(self, name) for name in _LEVELS})

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        observers.grow_to_fit(self, state_dict, prefix, _LEVELS)
        super()._load_from_state_dict(state_dict, prefix, *rest)


_LEVELS = ("scale", "zero_point")


def _check_bounds(observer: Any, told: dict, quant_min: Any, quant_max: Any) -> None:
    """Complain about ends that the dtype cannot hold."""
    if quant_min > quant_max:
        raise AssertionError("quant_min must be less than or equal to quant_max")
    known = getattr(observer, "p", None)
    known = {} if known is None else known.keywords
    dtype = known.get("dtype", told.get("dtype", torch.quint8))
    low, high = bounds_of(dtype)
    if dtype is torch.quint4x2:  # no bounds of its own here
        low, high = bounds_of(torch.qint32)
    for name, outside in (("quant_min", quant_min < low), ("quant_max", quant_max > high)):
        if outside:
            raise AssertionError(f"{name} out of bound")


class FixedQParamsFakeQuantize(FakeQuantize):
    """Rounds to levels that are known."""

    def __init__(self, observer: Any) -> None:
        super().__init__(observer=observer)
        inner = self.activation_post_process
        if type(inner) is not FixedQParamsObserver:
            raise AssertionError(
                "FixedQParamsFakeQuantize's observer must be a FixedQParamsObserver"
            )
        self._observer_ctr = observer
        self.scale, self.zero_point = inner.scale, inner.zero_point
        if not is_per_tensor(self.qscheme):
            raise AssertionError(
                "Only per tensor quantization is supported FixedQParamsFakeQuantize module, got "
                f"qscheme: {self.qscheme}"
            )

    def calculate_qparams(self) -> Any:
        return self.scale, self.zero_point

    def extra_repr(self) -> str:
        return self._told(
            "fake_quant_enabled observer_enabled scale zero_point dtype quant_min quant_max qscheme"
        )


class FusedMovingAvgObsFakeQuantize(FakeQuantize):
    """Follows the range slowly and rounds, in one function."""

    _switches = torch.int64

    def __init__(
        self,
        observer: Any = MovingAverageMinMaxObserver,
        quant_min: int = 0,
        quant_max: int = 255,
        **observer_kwargs: Any,
    ) -> None:
        super().__init__(observer, quant_min, quant_max, **observer_kwargs)
        kinds = (MovingAverageMinMaxObserver, MovingAveragePerChannelMinMaxObserver)
        if not isinstance(self.activation_post_process, kinds):
            raise AssertionError(
                "Fused observer+fake_quant module only works with MovingAverageMinMaxObserver"
            )
        self.is_symmetric_quant = "symmetric" in str(self.qscheme)

    def forward(self, X: Tensor) -> Tensor:
        inner = self.activation_post_process
        switches, ends = (self.observer_enabled, self.fake_quant_enabled), (
            inner.quant_min, inner.quant_max)  # fmt: skip
        state = inner.min_val, inner.max_val, self.scale, self.zero_point
        return torch.fused_moving_avg_obs_fake_quant(
            X, *switches, *state, inner.averaging_constant, *ends, self.ch_axis,
            self.is_per_channel, self.is_symmetric_quant,
        )  # fmt: skip

    def extra_repr(self) -> str:
        return self._told(
            "fake_quant_enabled observer_enabled scale zero_point dtype quant_min quant_max "
            "qscheme reduce_range"
        )


# -- as they are usually asked for (`partials.described` reads the words) --------------------------

_FOLLOWING: dict = {"observer": MovingAverageMinMaxObserver}
_OF_CHANNELS: dict = {"observer": MovingAveragePerChannelMinMaxObserver}


def _fixed(observer: Any) -> Any:
    return described(FixedQParamsFakeQuantize, observer=observer)


default_fake_quant = described(FakeQuantize, "0..255 quint8 affine halved", **_FOLLOWING)
default_weight_fake_quant = described(FakeQuantize, "-128..127 qint8 symmetric whole", **_FOLLOWING)
default_dynamic_fake_quant = described(FakeQuantize, "0..255 dynamic quint8 latest", **_FOLLOWING)
default_per_channel_weight_fake_quant = described(
    FakeQuantize, "-128..127 qint8 channels whole axis=0", **_OF_CHANNELS
)
default_embedding_fake_quant = described(
    FakeQuantize, "rows quint8 0..255 axis=0 latest", **_OF_CHANNELS
)
default_embedding_fake_quant_4bit = described(
    FakeQuantize, "rows axis=0 quint4x2 latest", **_OF_CHANNELS
)
default_histogram_fake_quant = described(
    FakeQuantize, "0..255 quint8 affine halved", observer=HistogramObserver
)

default_fixed_qparams_range_neg1to1_fake_quant = _fixed(
    observers.default_fixed_qparams_range_neg1to1_observer
)
default_fixed_qparams_range_0to1_fake_quant = _fixed(
    observers.default_fixed_qparams_range_0to1_observer
)
default_symmetric_fixed_qparams_fake_quant = default_fixed_qparams_range_neg1to1_fake_quant
default_affine_fixed_qparams_fake_quant = default_fixed_qparams_range_0to1_fake_quant

default_fused_act_fake_quant = described(
    FusedMovingAvgObsFakeQuantize, "0..255 quint8", **_FOLLOWING
)
default_fused_wt_fake_quant = described(
    FusedMovingAvgObsFakeQuantize, "-128..127 qint8 symmetric", **_FOLLOWING
)
default_fused_per_channel_wt_fake_quant = described(
    FusedMovingAvgObsFakeQuantize, "-128..127 qint8 channels", **_OF_CHANNELS
)
fused_wt_fake_quant_range_neg_127_to_127 = described(
    FusedMovingAvgObsFakeQuantize, "-127..127 qint8 symmetric coarse", **_FOLLOWING
)
fused_per_channel_wt_fake_quant_range_neg_127_to_127 = described(
    FusedMovingAvgObsFakeQuantize, "-127..127 qint8 channels coarse", **_OF_CHANNELS
)


def _switch(method: str) -> Callable[[Any], None]:
    """A method of fake quantizations as a function for `model.apply`."""

    def function(mod: Any) -> None:
        if isinstance(mod, FakeQuantizeBase):
            getattr(mod, method)()

    function.__name__ = function.__qualname__ = method
    return function


disable_fake_quant = _switch("disable_fake_quant")
enable_fake_quant = _switch("enable_fake_quant")
disable_observer = _switch("disable_observer")
enable_observer = _switch("enable_observer")
