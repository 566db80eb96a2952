"""`torch.ao.nn.quantized.functional`: functions on quantized tensors."""

import warnings
from typing import Any

import flambeau as torch
from flambeau import Tensor

_F = torch.nn.functional
avg_pool2d, avg_pool3d, adaptive_avg_pool2d = _F.avg_pool2d, _F.avg_pool3d, _F.adaptive_avg_pool2d
max_pool1d, max_pool2d, interpolate = _F.max_pool1d, _F.max_pool2d, _F.interpolate
hardsigmoid, hardtanh, threshold, clamp = _F.hardsigmoid, _F.hardtanh, _F.threshold, torch.clamp


def linear(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    scale: float | None = None,
    zero_point: int | None = None,
) -> Tensor:
    """A linear layer with a quantized weight."""
    packed = torch.ops.quantized.linear_prepack(weight, bias)
    scale = input.q_scale() if scale is None else scale
    zero_point = input.q_zero_point() if zero_point is None else zero_point
    return torch.ops.quantized.linear(input, packed, scale, zero_point)


def _convolution(dims: int) -> Any:
    def run(
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        padding_mode: str = "zeros",
        scale: float = 1.0,
        zero_point: int = 0,
        dtype: Any = torch.quint8,
    ) -> Tensor:
        """A convolution with a quantized weight."""
        ops = torch.ops.quantized
        packed = getattr(ops, f"conv{dims}d_prepack")(
            weight, bias, stride, padding, dilation, groups
        )
        return getattr(ops, f"conv{dims}d")(input, packed, scale, zero_point)

    run.__name__ = f"conv{dims}d"
    return run


conv1d, conv2d, conv3d = (_convolution(n) for n in (1, 2, 3))


def hardswish(input: Tensor, scale: float, zero_point: int) -> Tensor:
    return torch.ops.quantized.hardswish(input, scale, zero_point)


def celu(input: Tensor, scale: float, zero_point: int, alpha: float = 1.0) -> Tensor:
    return torch.ops.quantized.celu(input, scale, zero_point, alpha)


def elu(input: Tensor, scale: float, zero_point: int, alpha: float = 1.0) -> Tensor:
    return torch.ops.quantized.elu(input, scale, zero_point, alpha)


def leaky_relu(
    input: Tensor, negative_slope: float = 0.01, inplace: bool = False,
    scale: float | None = None, zero_point: int | None = None,
) -> Tensor:  # fmt: skip
    if scale is None or zero_point is None:
        return _F.leaky_relu(input, negative_slope)
    return torch.ops.quantized.leaky_relu(input, negative_slope, inplace, scale, zero_point)


def adaptive_avg_pool3d(input: Tensor, output_size: Any) -> Tensor:
    """Means over a grid of a given size."""
    if not input.is_quantized:
        raise ValueError("Input to 'quantized.functional.adaptive_avg_pool3d' must be quantized!")
    return _F.adaptive_avg_pool3d(input, output_size)


def _old_name(name: str) -> None:
    warnings.warn(
        f"nn.quantized.functional.{name} is deprecated. "
        "Use nn.quantized.functional.interpolate instead.",
        stacklevel=3,
    )


def _resized(input: Tensor, size: Any, factor: Any, mode: str, align_corners: Any) -> Tensor:
    if not input.is_quantized:
        raise ValueError("Input to 'quantized.interpolate' must be quantized!")
    return _F.interpolate(input, size, factor, mode, align_corners)


def upsample(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: Any = None,
) -> Tensor:
    """An older name of `interpolate`."""
    _old_name("upsample")
    return _resized(input, size, scale_factor, mode, align_corners)


def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """An older name of `interpolate` with straight lines between corners."""
    _old_name("upsample_bilinear")
    return _resized(input, size, scale_factor, "bilinear", True)


def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """An older name of `interpolate` with the nearest number."""
    _old_name("upsample_nearest")
    return _resized(input, size, scale_factor, "nearest", None)
