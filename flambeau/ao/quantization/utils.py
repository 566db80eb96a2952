"""What observers, fake quantization and the conversions share: bounds, scales, questions."""

import warnings
from typing import Any

import flambeau as torch
from flambeau import Tensor
from flambeau.ao.quantization.quant_type import QuantType

EPS = torch.finfo(torch.float32).eps

PER_TENSOR = (torch.per_tensor_symmetric, torch.per_tensor_affine)
_ROWS = torch.per_channel_affine_float_qparams  # with zero points that are no integers
PER_CHANNEL = (_ROWS, torch.per_channel_symmetric, torch.per_channel_affine)
_SYMMETRIC = (torch.per_tensor_symmetric, torch.per_channel_symmetric)
_BYTES = frozenset({torch.uint8, torch.int8, torch.quint8, torch.qint8})
_WIDE = frozenset({torch.qint32, torch.int32, torch.int16, torch.uint16})


def is_per_tensor(qscheme: Any) -> bool:
    return qscheme in PER_TENSOR


def is_per_channel(qscheme: Any) -> bool:
    return qscheme in PER_CHANNEL


def bounds_of(dtype: Any) -> tuple[int, int]:
    """The least and the largest level that a dtype can hold."""
    bits = {torch.qint32: 32, torch.quint4x2: 4}.get(dtype) or 8 * dtype.itemsize
    if dtype in (torch.quint8, torch.uint8, torch.uint16) or bits < 8:
        return 0, 2**bits - 1
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


def calculate_qmin_qmax(
    quant_min: int | None,
    quant_max: int | None,
    has_customized_qrange: bool,
    dtype: Any,
    reduce_range: bool,
) -> tuple[int, int]:
    """The least and the largest level of a dtype, or of a range that was asked for."""
    if has_customized_qrange:
        bounds = (quant_min, quant_max)
        low, high = (0, 255) if None in bounds else bounds
    else:
        known = dtype in _BYTES or dtype in _WIDE
        low, high = bounds_of(dtype) if known else (0, 15)
    if reduce_range and (has_customized_qrange or dtype in _BYTES):
        low, high = low // 2, high // 2  # type: ignore[operator]
    return low, high  # type: ignore[return-value]


def validate_qmin_qmax(quant_min: int, quant_max: int) -> None:
    """Complain about a range without zero or without levels."""
    if quant_min > 0 or quant_max < 0:
        raise AssertionError("Used-specified quantization range must include 0.")
    if quant_max - quant_min < 1:
        raise AssertionError(
            "qmin must be strictly less than qmax for user-specified quantization range."
        )


def check_min_max_valid(min_val: Tensor, max_val: Tensor) -> bool:
    """Has anything been observed?"""
    ends = [float("inf"), float("-inf")]
    unseen = 0 in (min_val.numel(), max_val.numel())
    if unseen or (min_val.ndim == max_val.ndim == 0 and [float(min_val), float(max_val)] == ends):
        warnings.warn(
            "must run observer before calling calculate_qparams. Returning default values.",
            stacklevel=2,
        )
        return False
    if bool(torch.all(min_val <= max_val)):
        return True
    raise AssertionError(f"min {min_val} should be less than max {max_val}")


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
    below, above = min_val.clamp(max=0), max_val.clamp(min=0)  # zero is always a level
    steps = float(quant_max - quant_min)
    shift = torch.zeros_like(below, dtype=torch.int64)
    if qscheme in _SYMMETRIC:
        scale = torch.maximum(torch.maximum(-below, above) / (steps / 2), eps)
        if dtype in (torch.uint8, torch.quint8):
            shift += (quant_min + quant_max) // 2 if has_customized_qrange else 128
        elif dtype is torch.uint16:
            shift += 1 << 15
    elif qscheme is _ROWS:
        scale = (max_val - min_val) / steps
        scale = torch.where(scale > eps, scale, 1.0)
        shift = -min_val / scale
    else:
        scale = torch.maximum((above - below) / steps, eps)
        shift = (quant_min - (below / scale).round().to(torch.int)).clamp(quant_min, quant_max)
    return _with_axis(scale), _with_axis(shift)


def _with_axis(numbers: Tensor) -> Tensor:
    return numbers if numbers.ndim else numbers.reshape(1)


def get_qparam_dict(observer_or_fake_quant: Any) -> dict[str, Any]:
    """What quantized tensors of an observer would be made with."""
    watcher = observer_or_fake_quant
    scheme = getattr(watcher, "qscheme", None)
    plain = torch.per_tensor_affine if is_per_tensor(scheme) else torch.per_channel_affine
    found = {"qscheme": scheme if scheme is _ROWS else plain, "dtype": watcher.dtype}
    found.update(zip(("scale", "zero_point"), watcher.calculate_qparams()))
    return found if is_per_tensor(scheme) else {**found, "axis": watcher.ch_axis}


def getattr_from_fqn(obj: Any, fqn: str) -> Any:
    """An attribute of an attribute, and so on."""
    for name in fqn.split("."):
        obj = getattr(obj, name)
    return obj


_PLAIN = frozenset({torch.float16, torch.qint32, torch.int32}) | _BYTES


def _is_dynamic(observer: Any) -> bool:
    return bool(getattr(observer, "is_dynamic", False))


def activation_dtype(qconfig: Any) -> Any:
    return qconfig.activation().dtype


def weight_dtype(qconfig: Any) -> Any:
    return qconfig.weight().dtype


def activation_is_statically_quantized(qconfig: Any) -> bool:
    """Does it ask for activations with scales that are known beforehand?"""
    if qconfig is None or qconfig.activation is None:
        return False
    observer = qconfig.activation()
    return observer.dtype in _PLAIN and not _is_dynamic(observer)


def activation_is_dynamically_quantized(qconfig: Any) -> bool:
    return _is_dynamic(qconfig.activation())


def activation_is_int8_quantized(qconfig: Any) -> bool:
    return activation_dtype(qconfig) in _BYTES


def weight_is_quantized(qconfig: Any) -> bool:
    return weight_dtype(qconfig) in {torch.quint4x2, torch.float16} | _BYTES


def weight_is_statically_quantized(qconfig: Any) -> bool:
    return weight_dtype(qconfig) in _BYTES


def get_qconfig_dtypes(qconfig: Any) -> tuple:
    """(dtype of activations, dtype of weights, are scales found while running)"""
    watcher = qconfig.activation()
    return watcher.dtype, weight_dtype(qconfig), _is_dynamic(watcher)


def get_quant_type(qconfig: Any) -> QuantType:
    """Static, dynamic, or weights only."""
    of_activation, of_weight, dynamic = get_qconfig_dtypes(qconfig)
    if of_weight not in (torch.float16, torch.qint8, torch.quint8):
        raise Exception(
            f"Unrecognized dtype combination in get_quant_type: activation({of_activation}),"
            f"weight({of_weight})"
        )
    if dynamic:
        return QuantType.DYNAMIC
    return QuantType.STATIC if of_activation in _PLAIN else QuantType.WEIGHT_ONLY


def activation_is_memoryless(qconfig: Any) -> bool:
    """Does the observer of results forget what it saw before?"""
    process = qconfig.activation()
    process = getattr(process, "activation_post_process", process)  # of a fake quantization
    return getattr(process, "averaging_constant", None) == 1


def quantized_weight(weight: Tensor, observer: Any) -> Tensor:
    """A float weight, quantized as its observer says."""
    scale, zero_point = observer.calculate_qparams()
    if observer.qscheme in PER_TENSOR:
        return torch.quantize_per_tensor(
            weight.detach().float(), float(scale), int(zero_point), observer.dtype
        )
    whole = zero_point
    if observer.qscheme is not _ROWS:
        whole = zero_point.to(torch.int64)
    axis = getattr(observer, "ch_axis", 0)
    return torch.quantize_per_channel(
        weight.detach().float(), scale.to(torch.double), whole, axis, observer.dtype
    )


Pattern = Any  # of ops: a class, a function, the name of a method, or tuples of them


class MatchAllNode:
    """In a pattern: anything."""


def get_combined_dict(default_dict: dict, additional_dict: dict) -> dict:
    """Both; what is in the second counts."""
    return {**default_dict, **additional_dict}
