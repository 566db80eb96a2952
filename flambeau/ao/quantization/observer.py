"""Observers: modules that look at what passes and say which scale and zero point fit it."""

from collections import OrderedDict
from typing import Any

import flambeau as torch
from flambeau import Tensor, nn
from flambeau.ao.quantization.histogram import HistogramObserver
from flambeau.ao.quantization.observer_base import ObserverBase, UniformQuantizationObserverBase
from flambeau.ao.quantization.partials import PartialWrapper
from flambeau.ao.quantization.utils import EPS, is_per_channel, is_per_tensor

_PartialWrapper = PartialWrapper


_UniformQuantizationObserverBase = UniformQuantizationObserverBase


class MinMaxObserver(UniformQuantizationObserverBase):
    """The least and the largest number of all that passed."""

    min_val: Tensor
    max_val: Tensor

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
        if not is_per_tensor(qscheme):
            raise NotImplementedError(
                "MinMaxObserver's qscheme only support torch.per_tensor_symmetric "
                "and torch.per_tensor_affine."
            )
        super().__init__(
            dtype, qscheme, reduce_range, quant_min, quant_max, factory_kwargs, eps, is_dynamic,
            **kwargs,
        )  # fmt: skip
        self.register_buffer("min_val", torch.tensor(float("inf")))
        self.register_buffer("max_val", torch.tensor(float("-inf")))
        if qscheme is torch.per_tensor_symmetric and reduce_range and dtype is torch.quint8:
            raise NotImplementedError("Cannot reduce range for symmetric quantization for quint8")

    def forward(self, x_orig: Tensor) -> Tensor:
        """Look at a tensor."""
        if x_orig.numel() == 0:
            return x_orig
        low, high = torch.aminmax(x_orig.detach().to(self.min_val.dtype))
        self.min_val.copy_(torch.min(low, self.min_val))
        self.max_val.copy_(torch.max(high, self.max_val))
        return x_orig

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """(scale, zero point)"""
        return self._calculate_qparams(self.min_val, self.max_val)

    def extra_repr(self) -> str:
        return f"min_val={self.min_val}, max_val={self.max_val}"

    def reset_min_max_vals(self) -> None:
        self.min_val.copy_(torch.tensor(float("inf")))
        self.max_val.copy_(torch.tensor(float("-inf")))


class MovingAverageMinMaxObserver(MinMaxObserver):
    """Ends of the range that follow those of what passes, slowly."""

    def __init__(
        self,
        averaging_constant: float = 0.01,
        dtype: Any = torch.quint8,
        qscheme: Any = torch.per_tensor_affine,
        reduce_range: bool = False,
        quant_min: int | None = None,
        quant_max: int | None = None,
        eps: float = EPS,
        is_dynamic: bool = False,
        **kwargs: Any,
    ) -> None:
        if not is_per_tensor(qscheme):
            raise NotImplementedError(
                "MovingAverageMinMaxObserver's qscheme only support "
                f"torch.per_tensor_symmetric and torch.per_tensor_affine. but got: {qscheme}"
            )
        self.averaging_constant = averaging_constant
        if is_dynamic and averaging_constant != 1:
            raise NotImplementedError(
                "MovingAverageMinMaxObserver doesn't support dynamic quantization for "
                f"averaging constant of {averaging_constant}"
            )
        super().__init__(
            dtype=dtype, qscheme=qscheme, reduce_range=reduce_range, quant_min=quant_min,
            quant_max=quant_max, eps=eps, is_dynamic=is_dynamic, **kwargs,
        )  # fmt: skip

    def forward(self, x_orig: Tensor) -> Tensor:
        if x_orig.numel() == 0:
            return x_orig
        low, high = torch.aminmax(x_orig.detach().to(self.min_val.dtype))
        if self.min_val.item() == float("inf") and self.max_val.item() == float("-inf"):
            self.min_val.copy_(low)
            self.max_val.copy_(high)
            return x_orig
        share = self.averaging_constant
        self.min_val.copy_(self.min_val + share * (low - self.min_val))
        self.max_val.copy_(self.max_val + share * (high - self.max_val))
        return x_orig


class PerChannelMinMaxObserver(UniformQuantizationObserverBase):
    """The least and the largest number of every channel."""

    min_val: Tensor
    max_val: Tensor

    def __init__(
        self,
        ch_axis: int = 0,
        dtype: Any = torch.quint8,
        qscheme: Any = torch.per_channel_affine,
        reduce_range: bool = False,
        quant_min: int | None = None,
        quant_max: int | None = None,
        factory_kwargs: Any = None,
        eps: float = EPS,
        is_dynamic: bool = False,
        **kwargs: Any,
    ) -> None:
        if not is_per_channel(qscheme):
            raise NotImplementedError(
                "PerChannelMinMaxObserver's qscheme only support torch.per_channel_symmetric, "
                "torch.per_channel_affine and torch.per_channel_affine_float_qparams."
            )
        if is_dynamic:
            raise NotImplementedError(
                "PerChannelMinMaxObserver doesn't support dynamic quantization"
            )
        super().__init__(
            dtype, qscheme, reduce_range, quant_min, quant_max, factory_kwargs, eps, is_dynamic,
            **kwargs,
        )  # fmt: skip
        self.ch_axis = ch_axis
        self.register_buffer("min_val", torch.tensor([]))
        self.register_buffer("max_val", torch.tensor([]))

    def _ends(self, x: Tensor) -> tuple[Tensor, Tensor]:
        rows = x.detach().to(self.min_val.dtype).movedim(self.ch_axis, 0).flatten(1)
        return rows.amin(1), rows.amax(1)

    def forward(self, x_orig: Tensor) -> Tensor:
        """Look at a tensor."""
        if x_orig.numel() == 0:
            return x_orig
        self._keep(*self._ends(x_orig))
        return x_orig

    def _keep(self, low: Tensor, high: Tensor) -> None:
        if self.min_val.numel():
            low, high = torch.min(low, self.min_val), torch.max(high, self.max_val)
        self.min_val.resize_(low.shape).copy_(low)
        self.max_val.resize_(high.shape).copy_(high)

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """(scales, zero points)"""
        return self._calculate_qparams(self.min_val, self.max_val)

    def extra_repr(self) -> str:
        return f"min_val={self.min_val}, max_val={self.max_val}"

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        for name in ("min_val", "max_val"):
            given = state_dict.get(prefix + name)
            if given is not None:
                getattr(self, name).resize_(given.shape)
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def reset_min_max_vals(self) -> None:
        self.min_val = torch.rand(0)
        self.max_val = torch.rand(0)


class MovingAveragePerChannelMinMaxObserver(PerChannelMinMaxObserver):
    """The same, following slowly."""

    def __init__(
        self,
        averaging_constant: float = 0.01,
        ch_axis: int = 0,
        dtype: Any = torch.quint8,
        qscheme: Any = torch.per_channel_affine,
        reduce_range: bool = False,
        quant_min: int | None = None,
        quant_max: int | None = None,
        eps: float = EPS,
        is_dynamic: bool = False,
        **kwargs: Any,
    ) -> None:
        if is_dynamic:
            raise NotImplementedError(
                "MovingAveragePerChannelMinMaxObserver doesn't support dynamic quantization"
            )
        super().__init__(
            ch_axis=ch_axis, dtype=dtype, qscheme=qscheme, reduce_range=reduce_range,
            quant_min=quant_min, quant_max=quant_max, eps=eps, is_dynamic=is_dynamic, **kwargs,
        )  # fmt: skip
        self.averaging_constant = averaging_constant

    def _keep(self, low: Tensor, high: Tensor) -> None:
        if self.min_val.numel():
            share = self.averaging_constant
            low = self.min_val + share * (low - self.min_val)
            high = self.max_val + share * (high - self.max_val)
        self.min_val.resize_(low.shape).copy_(low)
        self.max_val.resize_(high.shape).copy_(high)


class FixedQParamsObserver(ObserverBase):
    """A scale and a zero point that are known, as for the results of a sigmoid."""

    scale: Tensor
    zero_point: Tensor

    def __init__(
        self,
        scale: float,
        zero_point: int,
        dtype: Any = torch.quint8,
        qscheme: Any = torch.per_tensor_affine,
        quant_min: int = 0,
        quant_max: int = 255,
        is_dynamic: bool = False,
        **kwargs: Any,
    ) -> None:
        if is_dynamic:
            raise NotImplementedError("FixedQParamsObserver doesn't support dynamic quantization")
        super().__init__(dtype=dtype, is_dynamic=is_dynamic, **kwargs)
        self.quant_min, self.quant_max, self.qscheme = quant_min, quant_max, qscheme
        self.register_buffer("scale", torch.tensor([scale], dtype=torch.float))
        self.register_buffer("zero_point", torch.tensor([zero_point], dtype=torch.int))

    def forward(self, X: Tensor) -> Tensor:
        return X

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        return self.scale, self.zero_point


class _Unasked(ObserverBase):
    """Observers that look at nothing and have no scale to give."""

    def forward(self, x: Tensor) -> Tensor:
        return x

    def calculate_qparams(self) -> Any:
        kind = type(self).__name__
        raise Exception(f"calculate_qparams should not be called for {kind}")


class PlaceholderObserver(_Unasked):
    """Observes nothing, but says what dtype is wanted."""

    def __init__(
        self,
        dtype: Any = torch.float32,
        custom_op_name: str = "",
        compute_dtype: Any = None,
        quant_min: int | None = None,
        quant_max: int | None = None,
        qscheme: Any = None,
        eps: float | None = None,
        is_dynamic: bool = False,
    ) -> None:
        super().__init__(dtype=dtype, is_dynamic=is_dynamic)
        self.qscheme = torch.per_tensor_affine if qscheme is None else qscheme
        self.quant_min, self.quant_max, self.eps = quant_min, quant_max, eps
        self.custom_op = custom_op_name
        if compute_dtype:
            self.is_dynamic = True

    def extra_repr(self) -> str:
        return f"dtype={self.dtype}, is_dynamic={self.is_dynamic}"


class RecordingObserver(_Unasked):
    """Keeps what passes."""

    def __init__(self, dtype: Any = torch.quint8) -> None:
        super().__init__(dtype=dtype, is_dynamic=False)
        self.tensor_val: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        self.tensor_val.append(x.clone())
        return x

    def get_tensor_value(self) -> list[Tensor]:
        return self.tensor_val


class NoopObserver(_Unasked):
    """Observes nothing."""

    def __init__(self, dtype: Any = torch.float16, custom_op_name: str = "") -> None:
        super().__init__(dtype=dtype, is_dynamic=False)
        self.custom_op = custom_op_name


class ReuseInputObserver(_Unasked):
    """For ops whose results have the scale of their inputs."""

    def __init__(self) -> None:
        super().__init__(torch.quint8, is_dynamic=False)


# -- as they are usually asked for -----------------------------------------------------------------

_SMALL = 2**-12
default_observer = MinMaxObserver.with_args(quant_min=0, quant_max=127)
default_placeholder_observer = PlaceholderObserver
default_debug_observer = RecordingObserver
default_weight_observer = MinMaxObserver.with_args(
    dtype=torch.qint8, qscheme=torch.per_tensor_symmetric
)
weight_observer_range_neg_127_to_127 = MinMaxObserver.with_args(
    dtype=torch.qint8, qscheme=torch.per_tensor_symmetric, quant_min=-127, quant_max=127, eps=_SMALL
)
default_histogram_observer = HistogramObserver.with_args(quant_min=0, quant_max=127)
default_per_channel_weight_observer = PerChannelMinMaxObserver.with_args(
    dtype=torch.qint8, qscheme=torch.per_channel_symmetric
)
per_channel_weight_observer_range_neg_127_to_127 = PerChannelMinMaxObserver.with_args(
    dtype=torch.qint8,
    qscheme=torch.per_channel_symmetric,
    quant_min=-127,
    quant_max=127,
    eps=_SMALL,
)
default_dynamic_quant_observer = PlaceholderObserver.with_args(
    dtype=torch.quint8, quant_min=0, quant_max=255, is_dynamic=True
)
default_float_qparams_observer = PerChannelMinMaxObserver.with_args(
    dtype=torch.quint8, qscheme=torch.per_channel_affine_float_qparams, ch_axis=0
)
default_float_qparams_observer_4bit = PerChannelMinMaxObserver.with_args(
    dtype=torch.quint4x2, qscheme=torch.per_channel_affine_float_qparams, ch_axis=0
)
default_fixed_qparams_range_neg1to1_observer = FixedQParamsObserver.with_args(
    scale=2.0 / 256.0, zero_point=128, dtype=torch.quint8, quant_min=0, quant_max=255
)
default_fixed_qparams_range_0to1_observer = FixedQParamsObserver.with_args(
    scale=1.0 / 256.0, zero_point=0, dtype=torch.quint8, quant_min=0, quant_max=255
)
default_symmetric_fixed_qparams_observer = default_fixed_qparams_range_neg1to1_observer
default_affine_fixed_qparams_observer = default_fixed_qparams_range_0to1_observer
default_reuse_input_observer = ReuseInputObserver


# -- their state -----------------------------------------------------------------------------------


def _is_observer_state(key: str) -> bool:
    return "activation_post_process" in key or "observer" in key


def get_observer_state_dict(mod: nn.Module) -> OrderedDict:
    """What the observers of a module have seen."""
    state = mod.state_dict()
    return OrderedDict((k, v) for k, v in state.items() if _is_observer_state(k))


def load_observer_state_dict(mod: nn.Module, obs_dict: dict) -> None:
    """Let the observers of a module have seen that."""
    missing: list = []
    unexpected: list = []
    for name, module in mod.named_modules():
        prefix = name + "."
        if _is_observer_state(prefix):
            module._load_from_state_dict(obs_dict, prefix, {}, False, missing, unexpected, [])
    for key in missing:
        if _is_observer_state(key):
            raise Exception(f"Missing keys for observer {key} in state_dict")
    for key in unexpected:
        if _is_observer_state(key):
            raise Exception(f"Unexpected keys for observer {key} in state_dict")


def _is_activation_post_process(module: Any) -> bool:
    """Is it an observer or a fake quantization?"""
    from flambeau.ao.quantization.fake_quantize import FakeQuantizeBase

    return isinstance(module, (ObserverBase, FakeQuantizeBase))
