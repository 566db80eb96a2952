"""Observers: modules that look at what passes and say which scale and zero point fit it."""

from collections import OrderedDict
from typing import Any

import flambeau as torch
from flambeau import Tensor, nn
from flambeau.ao.quantization.granularity import (
    AffineQuantizedObserverBase as AffineQuantizedObserverBase,
)
from flambeau.ao.quantization.granularity import (
    Granularity as Granularity,
)
from flambeau.ao.quantization.granularity import (
    MappingType as MappingType,
)
from flambeau.ao.quantization.granularity import (
    PerAxis as PerAxis,
)
from flambeau.ao.quantization.granularity import (
    PerBlock as PerBlock,
)
from flambeau.ao.quantization.granularity import (
    PerGroup as PerGroup,
)
from flambeau.ao.quantization.granularity import (
    PerRow as PerRow,
)
from flambeau.ao.quantization.granularity import (
    PerTensor as PerTensor,
)
from flambeau.ao.quantization.granularity import (
    PerToken as PerToken,
)
from flambeau.ao.quantization.granularity import (
    TorchAODType as TorchAODType,
)
from flambeau.ao.quantization.granularity import (
    ZeroPointDomain as ZeroPointDomain,
)
from flambeau.ao.quantization.granularity import (
    get_block_size as get_block_size,
)
from flambeau.ao.quantization.histogram import HistogramObserver
from flambeau.ao.quantization.observer_base import (
    Follower,
    ObserverBase,
    RangeObserver,
    UniformQuantizationObserverBase,
)
from flambeau.ao.quantization.partials import PartialWrapper, described
from flambeau.ao.quantization.utils import EPS, PER_CHANNEL, PER_TENSOR

_PartialWrapper = PartialWrapper
_UniformQuantizationObserverBase = UniformQuantizationObserverBase
HistogramObserver.__module__ = __name__


class MinMaxObserver(RangeObserver):
    """The least and the largest number of all that passed."""

    _schemes = PER_TENSOR
    _refusal = NotImplementedError(
        "{kind}'s qscheme only support torch.per_tensor_symmetric and torch.per_tensor_affine."
    )

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
        bounds = reduce_range, quant_min, quant_max, factory_kwargs
        super().__init__(dtype, qscheme, *bounds, eps, is_dynamic, **kwargs)
        if reduce_range and (dtype, qscheme) == (torch.quint8, torch.per_tensor_symmetric):
            raise NotImplementedError("Cannot reduce range for symmetric quantization for quint8")
        self._start()

    def reset_min_max_vals(self) -> None:
        self.min_val.fill_(torch.inf)
        self.max_val.fill_(-torch.inf)


class MovingAverageMinMaxObserver(Follower, MinMaxObserver):
    """Ends of the range that follow those of what passes, slowly."""

    _refusal = NotImplementedError(
        "{kind}'s qscheme only support torch.per_tensor_symmetric and torch.per_tensor_affine. "
        "but got: {scheme}"
    )

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
        bounds = reduce_range, quant_min, quant_max
        super().__init__(dtype, qscheme, *bounds, eps=eps, is_dynamic=is_dynamic, **kwargs)
        if self.is_dynamic and averaging_constant != 1:
            raise NotImplementedError(
                "MovingAverageMinMaxObserver doesn't support dynamic quantization for "
                f"averaging constant of {averaging_constant}"
            )
        self.averaging_constant = averaging_constant


class PerChannelMinMaxObserver(RangeObserver):
    """The least and the largest number of every channel."""

    _schemes = PER_CHANNEL
    _refusal = NotImplementedError(
        "{kind}'s qscheme only support torch.per_channel_symmetric, torch.per_channel_affine "
        "and torch.per_channel_affine_float_qparams."
    )
    _always_static = True

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
        bounds = reduce_range, quant_min, quant_max, factory_kwargs
        super().__init__(dtype, qscheme, *bounds, eps, is_dynamic, **kwargs)
        self.ch_axis = ch_axis
        self._start(0)

    def _ends(self, x: Tensor) -> Any:
        return torch.aminmax(x.movedim(self.ch_axis, 0).flatten(1), dim=1)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        grow_to_fit(self, state_dict, prefix, ("min_val", "max_val"))
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def reset_min_max_vals(self) -> None:
        self.min_val, self.max_val = torch.rand(0), torch.rand(0)


def grow_to_fit(module: nn.Module, state: Any, prefix: str, names: tuple) -> None:
    """Buffers whose sizes only a state dict knows get these sizes."""
    for name in names:
        given = state.get(prefix + name)
        if given is not None:
            getattr(module, name).resize_(given.shape)


class MovingAveragePerChannelMinMaxObserver(Follower, PerChannelMinMaxObserver):
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
        bounds = reduce_range, quant_min, quant_max
        super().__init__(ch_axis, dtype, qscheme, *bounds, None, eps, is_dynamic, **kwargs)
        self.averaging_constant = averaging_constant


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
        ObserverBase.__init__(self, dtype, **kwargs)
        vars(self).update(qscheme=qscheme, quant_min=quant_min, quant_max=quant_max)
        known = {"scale": (scale, torch.float32), "zero_point": (zero_point, torch.int32)}
        for name, (value, kind) in known.items():
            self.register_buffer(name, torch.full((1,), value, dtype=kind))

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
        _Unasked.__init__(self, dtype, is_dynamic or bool(compute_dtype))
        self.custom_op = custom_op_name
        scheme = qscheme or torch.per_tensor_affine
        least = EPS if eps is None else eps
        vars(self).update(qscheme=scheme, eps=least, quant_min=quant_min, quant_max=quant_max)

    def extra_repr(self) -> str:
        return f"dtype={self.dtype}, is_dynamic={self.is_dynamic}"


class RecordingObserver(_Unasked):
    """Keeps what passes."""

    def __init__(self, dtype: Any = torch.quint8) -> None:
        _Unasked.__init__(self, dtype)
        self.tensor_val: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        self.tensor_val.append(x.clone())
        return x

    def get_tensor_value(self) -> list[Tensor]:
        return self.tensor_val


class NoopObserver(_Unasked):
    """Observes nothing."""

    def __init__(self, dtype: Any = torch.float16, custom_op_name: str = "") -> None:
        _Unasked.__init__(self, dtype)
        self.custom_op = custom_op_name


class ReuseInputObserver(_Unasked):
    """For ops whose results have the scale of their inputs."""

    def __init__(self) -> None:
        _Unasked.__init__(self, torch.quint8)


# -- as they are usually asked for (`partials.described` reads the words) --------------------------

default_observer = described(MinMaxObserver, "0..127")
default_histogram_observer = described(HistogramObserver, "0..127")
default_placeholder_observer = PlaceholderObserver
default_dynamic_quant_observer = described(PlaceholderObserver, "quint8 0..255 dynamic")
default_debug_observer = RecordingObserver
default_reuse_input_observer = ReuseInputObserver

default_weight_observer = described(MinMaxObserver, "qint8 symmetric")
weight_observer_range_neg_127_to_127 = described(MinMaxObserver, "qint8 symmetric -127..127 coarse")
default_per_channel_weight_observer = described(PerChannelMinMaxObserver, "qint8 channels")
per_channel_weight_observer_range_neg_127_to_127 = described(
    PerChannelMinMaxObserver, "qint8 channels -127..127 coarse"
)
default_float_qparams_observer = described(PerChannelMinMaxObserver, "quint8 rows axis=0")
default_float_qparams_observer_4bit = described(PerChannelMinMaxObserver, "quint4x2 rows axis=0")

default_fixed_qparams_range_neg1to1_observer = described(
    FixedQParamsObserver, "scale=0.0078125 zero=128 quint8 0..255"
)
default_fixed_qparams_range_0to1_observer = described(
    FixedQParamsObserver, "scale=0.00390625 zero=0 quint8 0..255"
)
default_symmetric_fixed_qparams_observer = default_fixed_qparams_range_neg1to1_observer
default_affine_fixed_qparams_observer = default_fixed_qparams_range_0to1_observer


# -- their state -----------------------------------------------------------------------------------


def _is_observer_state(key: str) -> bool:
    return "activation_post_process" in key or "observer" in key


def get_observer_state_dict(mod: nn.Module) -> OrderedDict:
    """What the observers of a module have seen."""
    state = mod.state_dict()
    return OrderedDict((k, v) for k, v in state.items() if _is_observer_state(k))


def load_observer_state_dict(mod: nn.Module, obs_dict: dict) -> None:
    """Let the observers of a module have seen that."""
    trouble: dict[str, list] = {"Missing": [], "Unexpected": []}
    for name, module in mod.named_modules():
        if _is_observer_state(name + "."):
            module._load_from_state_dict(
                obs_dict, name + ".", {}, False, *trouble.values(), []
            )  # fmt: skip
    for word, keys in trouble.items():
        for key in filter(_is_observer_state, keys):
            raise Exception(f"{word} keys for observer {key} in state_dict")


def _is_activation_post_process(module: Any) -> bool:
    """Is it an observer or a fake quantization?"""
    from flambeau.ao.quantization.fake_quantize import FakeQuantizeBase

    return isinstance(module, (ObserverBase, FakeQuantizeBase))
