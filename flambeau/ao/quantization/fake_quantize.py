"""Fake quantization as modules: an observer, and numbers rounded to the levels it finds."""

from abc import ABC, abstractmethod
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
from flambeau.ao.quantization.partials import with_args
from flambeau.ao.quantization.utils import is_per_channel, is_per_tensor

_ENDS = {torch.quint8: (0, 255), torch.qint8: (-128, 127), torch.uint8: (0, 255),
         torch.int8: (-128, 127)}  # fmt: skip


class FakeQuantizeBase(ABC, nn.Module):
    """Switches for observing and for rounding; they are buffers, so they are saved."""

    fake_quant_enabled: Tensor
    observer_enabled: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("fake_quant_enabled", torch.tensor([1], dtype=torch.uint8))
        self.register_buffer("observer_enabled", torch.tensor([1], dtype=torch.uint8))

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """Observe, and round."""

    @abstractmethod
    def calculate_qparams(self) -> Any:
        """(scale, zero point)"""

    def enable_fake_quant(self, enabled: bool = True) -> None:
        self.fake_quant_enabled[0] = 1 if enabled else 0

    def disable_fake_quant(self) -> None:
        self.enable_fake_quant(False)

    def enable_observer(self, enabled: bool = True) -> None:
        self.observer_enabled[0] = 1 if enabled else 0

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
        super().__init__()
        if quant_min is not None and quant_max is not None:
            if quant_min > quant_max:
                raise AssertionError("quant_min must be less than or equal to quant_max")
            dtype = observer_kwargs.get("dtype", torch.quint8)
            if hasattr(observer, "p"):
                dtype = getattr(observer.p, "keywords", {}).get("dtype", dtype)
            least, most = _ENDS.get(dtype, (-(2**31), 2**31 - 1))
            if quant_min < least:
                raise AssertionError("quant_min out of bound")
            if quant_max > most:
                raise AssertionError("quant_max out of bound")
            observer_kwargs.update(quant_min=quant_min, quant_max=quant_max)
        observer_kwargs["is_dynamic"] = is_dynamic
        self.activation_post_process = observer(**observer_kwargs)
        inner = self.activation_post_process
        self.quant_min, self.quant_max = inner.quant_min, inner.quant_max
        self.is_dynamic = inner.is_dynamic
        kind = torch.int
        if inner.qscheme is torch.per_channel_affine_float_qparams:
            kind = torch.float
        self.register_buffer("scale", torch.tensor([1.0], dtype=torch.float))
        self.register_buffer("zero_point", torch.tensor([0], dtype=kind))
        self.dtype, self.qscheme = inner.dtype, inner.qscheme
        self.ch_axis = getattr(inner, "ch_axis", -1)
        if not (is_per_channel(self.qscheme) or is_per_tensor(self.qscheme)):
            raise AssertionError(
                "Only per channel and per tensor quantization are supported in fake quantize got "
                f"qscheme: {self.qscheme}"
            )
        self.is_per_channel = is_per_channel(self.qscheme)

    def calculate_qparams(self) -> Any:
        """(scale, zero point)"""
        return self.activation_post_process.calculate_qparams()

    def _learn(self, X: Tensor) -> None:
        self.activation_post_process(X.detach())
        scale, zero_point = self.calculate_qparams()
        if self.scale.shape != scale.shape:
            self.scale.resize_(scale.shape)
            self.zero_point.resize_(zero_point.shape)
        self.scale.copy_(scale)
        self.zero_point.copy_(zero_point)

    def forward(self, X: Tensor) -> Tensor:
        if self.observer_enabled.item():
            self._learn(X)
        if not self.fake_quant_enabled.item():
            return X
        if self.is_per_channel:
            return torch.fake_quantize_per_channel_affine(
                X, self.scale, self.zero_point, self.ch_axis, self.quant_min, self.quant_max
            )
        return torch.fake_quantize_per_tensor_affine(
            X, self.scale, self.zero_point, self.quant_min, self.quant_max
        )

    def extra_repr(self) -> str:
        return (
            f"fake_quant_enabled={self.fake_quant_enabled}, "
            f"observer_enabled={self.observer_enabled}, quant_min="
            f"{self.activation_post_process.quant_min}, quant_max="
            f"{self.activation_post_process.quant_max}, dtype={self.dtype}, "
            f"qscheme={self.qscheme}, ch_axis={self.ch_axis}, scale={self.scale}, "
            f"zero_point={self.zero_point}"
        )

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "scale"] = self.scale
        destination[prefix + "zero_point"] = self.zero_point

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        for name in ("scale", "zero_point"):
            given = state_dict.get(prefix + name)
            if given is not None:
                getattr(self, name).resize_(given.shape)
        super()._load_from_state_dict(state_dict, prefix, *rest)


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
        return (
            f"fake_quant_enabled={self.fake_quant_enabled}, "
            f"observer_enabled={self.observer_enabled}, scale={self.scale}, "
            f"zero_point={self.zero_point}, dtype={self.dtype}, quant_min="
            f"{self.activation_post_process.quant_min}, quant_max="
            f"{self.activation_post_process.quant_max}, qscheme={self.qscheme}"
        )


class FusedMovingAvgObsFakeQuantize(FakeQuantize):
    """Follows the range slowly and rounds, in one function."""

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
        self.fake_quant_enabled = torch.tensor([1], dtype=torch.long)
        self.observer_enabled = torch.tensor([1], dtype=torch.long)
        self.is_symmetric_quant = self.qscheme in (
            torch.per_tensor_symmetric, torch.per_channel_symmetric,
        )  # fmt: skip

    def forward(self, X: Tensor) -> Tensor:
        inner = self.activation_post_process
        return torch.fused_moving_avg_obs_fake_quant(
            X, self.observer_enabled, self.fake_quant_enabled, inner.min_val, inner.max_val,
            self.scale, self.zero_point, inner.averaging_constant, inner.quant_min,
            inner.quant_max, self.ch_axis, self.is_per_channel, self.is_symmetric_quant,
        )  # fmt: skip

    def extra_repr(self) -> str:
        inner = self.activation_post_process
        return (
            f"fake_quant_enabled={self.fake_quant_enabled}, "
            f"observer_enabled={self.observer_enabled}, scale={self.scale}, "
            f"zero_point={self.zero_point}, dtype={self.dtype}, quant_min={inner.quant_min}, "
            f"quant_max={inner.quant_max}, qscheme={self.qscheme}, "
            f"reduce_range={inner.reduce_range}"
        )


_SMALL = 2**-12
_ACT: dict = dict(observer=MovingAverageMinMaxObserver, quant_min=0, quant_max=255)
_WEIGHT: dict = dict(
    observer=MovingAverageMinMaxObserver, quant_min=-128, quant_max=127, dtype=torch.qint8,
    qscheme=torch.per_tensor_symmetric,
)  # fmt: skip
_CHANNELS: dict = dict(
    observer=MovingAveragePerChannelMinMaxObserver, quant_min=-128, quant_max=127,
    dtype=torch.qint8, qscheme=torch.per_channel_symmetric,
)  # fmt: skip
default_fake_quant = FakeQuantize.with_args(
    **_ACT, dtype=torch.quint8, qscheme=torch.per_tensor_affine, reduce_range=True
)
default_weight_fake_quant = FakeQuantize.with_args(**_WEIGHT, reduce_range=False)
default_dynamic_fake_quant = FakeQuantize.with_args(
    **_ACT, is_dynamic=True, dtype=torch.quint8, averaging_constant=1
)
default_fixed_qparams_range_neg1to1_fake_quant = FixedQParamsFakeQuantize.with_args(
    observer=observers.default_fixed_qparams_range_neg1to1_observer
)
default_fixed_qparams_range_0to1_fake_quant = FixedQParamsFakeQuantize.with_args(
    observer=observers.default_fixed_qparams_range_0to1_observer
)
default_symmetric_fixed_qparams_fake_quant = default_fixed_qparams_range_neg1to1_fake_quant
default_affine_fixed_qparams_fake_quant = default_fixed_qparams_range_0to1_fake_quant
default_per_channel_weight_fake_quant = FakeQuantize.with_args(
    **_CHANNELS, reduce_range=False, ch_axis=0
)
default_embedding_fake_quant = FakeQuantize.with_args(
    observer=MovingAveragePerChannelMinMaxObserver,
    qscheme=torch.per_channel_affine_float_qparams,
    dtype=torch.quint8,
    quant_min=0,
    quant_max=255,
    ch_axis=0,
    averaging_constant=1,
)
default_embedding_fake_quant_4bit = FakeQuantize.with_args(
    observer=MovingAveragePerChannelMinMaxObserver,
    qscheme=torch.per_channel_affine_float_qparams,
    ch_axis=0,
    dtype=torch.quint4x2,
    averaging_constant=1,
)
default_histogram_fake_quant = FakeQuantize.with_args(
    observer=HistogramObserver, quant_min=0, quant_max=255, dtype=torch.quint8,
    qscheme=torch.per_tensor_affine, reduce_range=True,
)  # fmt: skip
default_fused_act_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(**_ACT, dtype=torch.quint8)
default_fused_wt_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(**_WEIGHT)
default_fused_per_channel_wt_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(**_CHANNELS)
fused_wt_fake_quant_range_neg_127_to_127 = FusedMovingAvgObsFakeQuantize.with_args(
    **{**_WEIGHT, "quant_min": -127, "eps": _SMALL}
)
fused_per_channel_wt_fake_quant_range_neg_127_to_127 = FusedMovingAvgObsFakeQuantize.with_args(
    **{**_CHANNELS, "quant_min": -127, "eps": _SMALL}
)


def _is_fake_quant(mod: Any) -> bool:
    return isinstance(mod, FakeQuantizeBase)


def disable_fake_quant(mod: Any) -> None:
    """For `model.apply`: no rounding."""
    if _is_fake_quant(mod):
        mod.disable_fake_quant()


def enable_fake_quant(mod: Any) -> None:
    """For `model.apply`: rounding."""
    if _is_fake_quant(mod):
        mod.enable_fake_quant()


def disable_observer(mod: Any) -> None:
    """For `model.apply`: levels stay as they are."""
    if _is_fake_quant(mod):
        mod.disable_observer()


def enable_observer(mod: Any) -> None:
    """For `model.apply`: levels follow what passes."""
    if _is_fake_quant(mod):
        mod.enable_observer()
