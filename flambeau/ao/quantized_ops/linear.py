"""Linear layers on quantized tensors: `torch.ops.quantized.linear` and its kin.

Weights are packed once; products, zero points and rounding are one kernel
(`eager/byte_products.py`). Results are those of PyTorch's fbgemm, bit for bit.
"""

from typing import Any

import flambeau as torch
from flambeau import Tensor
from flambeau.eager import byte_products
from flambeau.eager.quantized import (
    PerTensor,
    integers_of,
    is_quantized,
    quantized_over,
    quantizer_of,
)
from flambeau.eager.rows import address

PUBLIC = (
    "linear_prepack linear_unpack linear linear_relu linear_dynamic linear_relu_dynamic "
    "linear_prepack_fp16 linear_unpack_fp16 linear_dynamic_fp16 linear_relu_dynamic_fp16 "
    "linear_leaky_relu linear_tanh linear_with_input_q_dq_qweight_dq_output_fp32"
).split()


class ScriptObject:
    """Packed parameters, as PyTorch shows them."""

    _kind = ""

    def __repr__(self) -> str:
        return f"ScriptObject <__torch__.torch.classes.{self._kind}>"


def column_scales(weight: Tensor, axis: int = 0) -> Tensor:
    """The scales of the columns of a quantized weight, one or as many as there are."""
    quantizer = quantizer_of(weight)
    if type(quantizer) is PerTensor:
        return torch.tensor([quantizer.scale])
    if quantizer.axis != axis:
        raise RuntimeError(f"weights must be quantized along dimension {axis}")
    return quantizer.scales.float()


def is_centred(weight: Tensor) -> bool:
    """Is the zero point of a weight zero, so that its integers are products of the scale?"""
    quantizer = quantizer_of(weight)
    if type(quantizer) is PerTensor:
        return quantizer.zero_point == 0
    return not bool(quantizer.zero_points.any())


def centred(weight: Tensor) -> Tensor:
    """The integers of a weight without its zero point, as int32."""
    quantizer = quantizer_of(weight)
    integers = integers_of(weight).to(torch.int32)
    if type(quantizer) is PerTensor:
        return integers - quantizer.zero_point
    shape = [-1 if k == quantizer.axis else 1 for k in range(weight.ndim)]
    return integers - quantizer.zero_points.to(torch.int32).reshape(shape)


class LinearPackedParams(ScriptObject):
    """A quantized weight and a float bias, with the weight in the order of the kernel."""

    _kind = "quantized.LinearPackedParamsBase"

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        if weight.dim() != 2:
            raise RuntimeError(
                "The weight tensor for quantized::linear_prepack should be 2-dimensional."
            )
        if weight.dtype is not torch.qint8:
            raise RuntimeError("The weight of a quantized linear layer must be of dtype qint8")
        self.weight, self.bias, self.run = weight, bias, weight.shape[1]
        self._made: Any = None

    @property
    def made(self) -> Any:
        """The weight as the kernel wants it, made when it is first used."""
        if self._made is None:
            if not is_centred(self.weight):
                return None
            integers = integers_of(self.weight).contiguous()
            rows, columns = integers.shape
            self._made = byte_products.Packed(
                integers.view(1, rows, 1, columns), column_scales(self.weight), self.bias
            )
        return self._made

    def unpack(self) -> tuple:
        return self.weight, self.bias

    def __reduce__(self) -> tuple:
        return LinearPackedParams, (self.weight, self.bias)

    def __deepcopy__(self, memo: dict) -> "LinearPackedParams":
        return self  # nothing in it ever changes


def linear_prepack(W: Tensor, B: Tensor | None = None) -> LinearPackedParams:
    """A weight of dtype qint8 and its bias, packed."""
    return LinearPackedParams(W, B)


def linear_unpack(W_prepack: LinearPackedParams) -> tuple:
    return W_prepack.unpack()


def check_quantized(x: Tensor, op: str) -> None:
    if not is_quantized(x):
        raise NotImplementedError(
            f"Could not run 'quantized::{op}' with arguments from the 'CPU' backend. "
            "The input must be quantized: use torch.quantize_per_tensor or a QuantStub."
        )


def unsigned(x: Tensor) -> tuple[Tensor, PerTensor]:
    """The integers of activations as unsigned bytes, and their quantizer."""
    quantizer, integers = quantizer_of(x), integers_of(x)
    if type(quantizer) is not PerTensor:
        raise RuntimeError("activations must be quantized per tensor")
    if x.dtype is torch.qint8:  # shifted by half of the range, as is the zero point
        shifted = (integers.to(torch.int16) + 128).to(torch.uint8)
        return shifted, PerTensor(quantizer.scale, quantizer.zero_point + 128)
    if x.dtype is not torch.quint8:
        raise RuntimeError("expected activations of dtype torch.quint8")
    return integers, quantizer


def readable(integers: Tensor, run: int) -> Tensor:
    """Dense bytes of which a little more than the last run can be read, where words need that."""
    if run % 4 == 0:
        return integers.contiguous()
    more = torch.empty(integers.numel() + 4, dtype=torch.uint8)
    more[:-4].view(integers.shape).copy_(integers)
    return more


def _linear(x, packed, scale, zero_point, relu):
    check_quantized(x, "linear_relu" if relu else "linear")
    integers, quantizer = unsigned(x)
    weight = packed.weight
    rows, run = weight.shape
    if x.shape[-1] != run:
        raise RuntimeError(
            f"The number of rows in the packB should be equal to K: {x.shape[-1]} and {run} differ"
        )
    out = torch.empty((*x.shape[:-1], rows), dtype=_PLAIN[x.dtype])
    scale, zero_point = float(scale), int(zero_point)
    if packed.made is None:
        return _by_numbers(x, packed, scale, zero_point, relu)
    if out.numel():
        held = readable(integers, run)
        byte_products.levels(
            packed.made, byte_products.rows_of(out.numel() // rows, run), address(held),
            quantizer.zero_point, quantizer.scale, out, scale, zero_point, relu,
        )  # fmt: skip
    return quantized_over(out, x.dtype, PerTensor(scale, zero_point))


_PLAIN = {torch.quint8: torch.uint8, torch.qint8: torch.int8}


def _by_numbers(x, packed, scale, zero_point, relu):
    """Weights with zero points: the same sums, exact in float64, rounded the same way."""
    quantizer = quantizer_of(x)
    integers = integers_of(x).double() - quantizer.zero_point
    sums = (integers @ centred(packed.weight).double().t()).float()
    both = column_scales(packed.weight) * quantizer.scale
    if packed.bias is not None:
        sums = sums + packed.bias.detach() / both
    levels = (sums * (both / scale)).round() + zero_point
    low, high = (0, 255) if x.dtype is torch.quint8 else (-128, 127)
    levels = levels.clamp(max(low, zero_point) if relu else low, high).to(_PLAIN[x.dtype])
    return quantized_over(levels, x.dtype, PerTensor(scale, zero_point))


def linear(X, W_prepack, Y_scale_i, Y_zero_point_i):
    """Quantized activations times a packed weight, quantized again."""
    return _linear(X, W_prepack, Y_scale_i, Y_zero_point_i, False)


def linear_relu(X, W_prepack, Y_scale_i, Y_zero_point_i):
    return _linear(X, W_prepack, Y_scale_i, Y_zero_point_i, True)


def linear_leaky_relu(X, W_prepack, Y_scale_i, Y_zero_point_i, negative_slope):
    from flambeau.ao.quantized_ops.arithmetic import leaky_relu

    out = _linear(X, W_prepack, Y_scale_i, Y_zero_point_i, False)
    return leaky_relu(out, negative_slope, False, Y_scale_i, Y_zero_point_i)


def linear_tanh(X, W_prepack, Y_scale_i, Y_zero_point_i):
    out = torch.nn.functional.linear(X.dequantize(), W_prepack.weight.dequantize(), W_prepack.bias)
    return torch.quantize_per_tensor(out.tanh(), Y_scale_i, Y_zero_point_i, X.dtype)


def _dynamic(x, packed, relu, reduce_range):
    layout = x._layout
    if layout.dtype is not torch.float32:
        raise RuntimeError("The 'input' of a dynamic layer must be float32")
    if layout.sizes[-1] != packed.run:
        raise RuntimeError(
            f"The number of columns of the input, {x.shape[-1]}, is not that of the weight, "
            f"{packed.run}"
        )
    made = packed.made
    if made is None:
        q = torch.quantize_per_tensor_dynamic(x.detach(), torch.quint8, reduce_range)
        out = torch.nn.functional.linear(q.dequantize(), packed.weight.dequantize(), packed.bias)
        return out.relu() if relu else out
    if not layout.is_contiguous:
        x = x.detach().contiguous()
    return byte_products.numbers(made, x, relu, reduce_range)


def linear_dynamic(X, W_prepack, reduce_range=False):
    """Floats that are quantized by their own range times a packed weight; gives floats."""
    return _dynamic(X, W_prepack, False, reduce_range)


def linear_relu_dynamic(X, W_prepack, reduce_range=False):
    return _dynamic(X, W_prepack, True, reduce_range)


class LinearPackedParamsFp16(ScriptObject):
    """A weight kept as float16."""

    _kind = "quantized.LinearPackedParamsBase"

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self.weight, self.bias = weight.detach().half(), bias

    def unpack(self) -> tuple:
        return self.weight.float(), self.bias

    def __reduce__(self) -> tuple:
        return LinearPackedParamsFp16, self.unpack()

    def __deepcopy__(self, memo: dict) -> "LinearPackedParamsFp16":
        return self


def linear_prepack_fp16(W, B=None):
    return LinearPackedParamsFp16(W, B)


def linear_unpack_fp16(W_prepack):
    return W_prepack.unpack()


def linear_dynamic_fp16(X, W_prepack):
    bias = None if W_prepack.bias is None else W_prepack.bias.detach()
    return torch.nn.functional.linear(X.detach(), W_prepack.weight.float(), bias)


def linear_relu_dynamic_fp16(X, W_prepack):
    return linear_dynamic_fp16(X, W_prepack).relu()


def linear_with_input_q_dq_qweight_dq_output_fp32(X, X_scale, X_zero_point, W_prepack):
    """Floats quantized with a given scale, multiplied, and given back as floats."""
    q = torch.quantize_per_tensor(X, X_scale, X_zero_point, torch.quint8)
    return torch.nn.functional.linear(q.dequantize(), W_prepack.weight.dequantize(), W_prepack.bias)
