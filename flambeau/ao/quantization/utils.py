"""What observers, fake quantization and the conversions share: bounds, scales, questions."""

import warnings
from typing import Any

import flambeau as torch
from flambeau import Tensor
from flambeau.ao.quantization.quant_type import QuantType

EPS = torch.finfo(torch.float32).eps

_PER_TENSOR = (torch.per_tensor_affine, torch.per_tensor_symmetric)
_PER_CHANNEL = (
    torch.per_channel_affine,
    torch.per_channel_symmetric,
    torch.per_channel_affine_float_qparams,
)
_SIGNED = (torch.qint8, torch.int8, torch.int16, torch.int32, torch.qint32)


def is_per_tensor(qscheme: Any) -> bool:
    return qscheme in _PER_TENSOR


def is_per_channel(qscheme: Any) -> bool:
    return qscheme in _PER_CHANNEL


def calculate_qmin_qmax(
    quant_min: int | None,
    quant_max: int | None,
    has_customized_qrange: bool,
    dtype: Any,
    reduce_range: bool,
) -> tuple[int, int]:
    """The least and the largest level of a dtype, or of a range that was asked for."""
    if has_customized_qrange:
        low, high = quant_min, quant_max
        if low is None or high is None:
            low, high = 0, 255
        if reduce_range:
            low, high = low // 2, high // 2
        return low, high
    if dtype in (torch.qint8, torch.int8):
        return (-64, 63) if reduce_range else (-128, 127)
    if dtype in (torch.quint8, torch.uint8):
        return (0, 127) if reduce_range else (0, 255)
    if dtype in (torch.qint32, torch.int32):
        return -(2**31), 2**31 - 1
    if dtype is torch.int16:
        return -(2**15), 2**15 - 1
    if dtype is torch.uint16:
        return 0, 2**16 - 1
    return 0, 15


def validate_qmin_qmax(quant_min: int, quant_max: int) -> None:
    """Complain about a range without zero or without levels."""
    if not quant_min <= 0 <= quant_max:
        raise AssertionError("Used-specified quantization range must include 0.")
    if quant_min >= quant_max:
        raise AssertionError(
            "qmin must be strictly less than qmax for user-specified quantization range."
        )


def check_min_max_valid(min_val: Tensor, max_val: Tensor) -> bool:
    """Has anything been observed?"""
    if min_val.numel() == 0 or max_val.numel() == 0:
        warnings.warn(
            "must run observer before calling calculate_qparams. Returning default values.",
            stacklevel=2,
        )
        return False
    if min_val.dim() == 0 or max_val.dim() == 0:
        if min_val.item() == float("inf") and max_val.item() == float("-inf"):
            warnings.warn(
                "must run observer before calling calculate_qparams. Returning default values.",
                stacklevel=2,
            )
            return False
        if not bool(min_val <= max_val):
            raise AssertionError(f"min {min_val} should be less than max {max_val}")
    elif not bool((min_val <= max_val).all()):
        raise AssertionError(f"min {min_val} should be less than max {max_val}")
    return True


def determine_qparams(
    min_val: Tensor,
    max_val: Tensor,
    quant_min: int,
    quant_max: int,
    dtype: Any,
    eps: Tensor,
    has_customized_qrange: bool,
    qscheme: Any = torch.per_tensor_affine,
) -> tuple[Tensor, Tensor]:
    """(scale, zero point) for ranges of numbers."""
    if not check_min_max_valid(min_val, max_val):
        return torch.tensor([1.0]), torch.tensor([0])
    zeros = torch.zeros_like(min_val)
    below, above = torch.min(min_val, zeros), torch.max(max_val, zeros)
    steps = float(quant_max - quant_min)
    shift = torch.zeros(below.size(), dtype=torch.int64)
    if qscheme in (torch.per_tensor_symmetric, torch.per_channel_symmetric):
        scale = torch.max(torch.max(-below, above) / (steps / 2), eps)
        if dtype in (torch.uint8, torch.quint8):
            middle = (quant_min + quant_max) // 2 if has_customized_qrange else 128
            shift = shift.new_full(below.size(), middle)
    elif qscheme is torch.per_channel_affine_float_qparams:
        scale = (max_val - min_val) / steps
        scale = torch.where(scale > eps, scale, torch.ones_like(scale))
        shift = -1 * min_val / scale
    else:
        scale = torch.max((above - below) / steps, eps)
        shift = (quant_min - torch.round(below / scale).to(torch.int)).clamp(quant_min, quant_max)
    if scale.dim() == 0:
        scale = torch.tensor([float(scale)], dtype=scale.dtype)
    if shift.dim() == 0:
        shift = torch.tensor([shift.item()], dtype=shift.dtype)
    return scale, shift


def get_qparam_dict(observer_or_fake_quant: Any) -> dict[str, Any]:
    """What quantized tensors of an observer would be made with."""
    scheme = getattr(observer_or_fake_quant, "qscheme", None)
    found = {"qscheme": scheme, "dtype": observer_or_fake_quant.dtype}
    scale, zero_point = observer_or_fake_quant.calculate_qparams()
    if is_per_tensor(scheme):
        found["qscheme"] = torch.per_tensor_affine
        return {**found, "scale": scale, "zero_point": zero_point}
    found["qscheme"] = torch.per_channel_affine
    if scheme is torch.per_channel_affine_float_qparams:
        found["qscheme"] = scheme
    axis = observer_or_fake_quant.ch_axis
    return {**found, "scale": scale, "zero_point": zero_point, "axis": axis}


def getattr_from_fqn(obj: Any, fqn: str) -> Any:
    """An attribute of an attribute, and so on."""
    for name in fqn.split("."):
        obj = getattr(obj, name)
    return obj


def activation_dtype(qconfig: Any) -> Any:
    return qconfig.activation().dtype


def weight_dtype(qconfig: Any) -> Any:
    return qconfig.weight().dtype


def _is_dynamic(observer: Any) -> bool:
    return bool(getattr(observer, "is_dynamic", False))


def activation_is_statically_quantized(qconfig: Any) -> bool:
    """Does it ask for activations with scales that are known beforehand?"""
    if qconfig is None or qconfig.activation is None:
        return False
    observer = qconfig.activation()
    return _QUANTIZED.issuperset({observer.dtype}) and not _is_dynamic(observer)


_QUANTIZED = frozenset(
    {torch.quint8, torch.qint8, torch.qint32, torch.float16, torch.uint8, torch.int8, torch.int32}
)


def activation_is_dynamically_quantized(qconfig: Any) -> bool:
    return _is_dynamic(qconfig.activation())


def activation_is_int8_quantized(qconfig: Any) -> bool:
    return activation_dtype(qconfig) in (torch.quint8, torch.qint8, torch.uint8, torch.int8)


def weight_is_quantized(qconfig: Any) -> bool:
    return weight_dtype(qconfig) in (
        torch.quint8, torch.qint8, torch.float16, torch.quint4x2, torch.uint8, torch.int8,
    )  # fmt: skip


def weight_is_statically_quantized(qconfig: Any) -> bool:
    return weight_dtype(qconfig) in (torch.quint8, torch.qint8, torch.uint8, torch.int8)


def get_qconfig_dtypes(qconfig: Any) -> tuple:
    activation, weight = qconfig.activation(), qconfig.weight()
    return activation.dtype, weight.dtype, _is_dynamic(activation)


def get_quant_type(qconfig: Any) -> QuantType:
    """Static, dynamic, or weights only."""
    activation, weight = qconfig.activation(), qconfig.weight()
    if weight.dtype in (torch.quint8, torch.qint8, torch.float16):
        if _is_dynamic(activation):
            return QuantType.DYNAMIC
        if activation.dtype in _QUANTIZED:
            return QuantType.STATIC
        return QuantType.WEIGHT_ONLY
    raise Exception(
        f"Unrecognized dtype combination in get_quant_type: activation({activation.dtype}),"
        f"weight({weight.dtype})"
    )


def quantized_weight(weight: Tensor, observer: Any) -> Tensor:
    """A float weight, quantized as its observer says."""
    scale, zero_point = observer.calculate_qparams()
    if observer.qscheme in _PER_TENSOR:
        return torch.quantize_per_tensor(
            weight.detach().float(), float(scale), int(zero_point), observer.dtype
        )
    whole = zero_point
    if observer.qscheme is not torch.per_channel_affine_float_qparams:
        whole = zero_point.to(torch.int64)
    axis = getattr(observer, "ch_axis", 0)
    return torch.quantize_per_channel(
        weight.detach().float(), scale.to(torch.double), whole, axis, observer.dtype
    )
