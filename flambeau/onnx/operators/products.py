"""Operators that multiply and add: matrices, convolutions, and their relatives."""

from typing import Any

import flambeau as torch
from flambeau import Tensor
from flambeau.nn import functional as F
from flambeau.onnx.operators.table import op
from flambeau.onnx.operators.values import computable, optional_ints


@op("MatMul")
def matmul(a: Any, b: Any) -> Any:
    if computable(a):
        return torch.matmul(a, b)
    return torch.matmul(a.long(), b.long()).to(a.dtype)


@op("Gemm")
def gemm(
    a: Tensor,
    b: Tensor,
    c: Tensor | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    broadcast: int = 1,
) -> Tensor:
    if transA:
        a = a.T
    if transB and alpha == beta == 1.0 and c is not None and c.dim() == 1:
        return F.linear(a, b, c)
    product = torch.matmul(a, b.T if transB else b)
    if alpha != 1.0:
        product = (product * alpha).to(product.dtype)
    if c is None:
        return product
    return product + (c if beta == 1.0 else (c * beta).to(c.dtype))


@op("Einsum", 12)
def einsum(*tensors: Tensor, equation: str) -> Tensor:
    return torch.einsum(equation.replace(" ", ""), *tensors)


@op("Det", 11)
def det(x: Tensor) -> Tensor:
    return torch.linalg.det(x)


def edges(
    auto_pad: str,
    pads: list[int] | None,
    sizes: Any,
    kernel: list[int],
    strides: list[int],
    dilations: list[int],
) -> tuple[list[int], list[int]]:
    """Padding before and after each dimension, worked out where the file leaves it open."""
    rank = len(kernel)
    if auto_pad in ("NOTSET", ""):
        amounts = pads or [0] * (2 * rank)
        return list(amounts[:rank]), list(amounts[rank:])
    before, after = [0] * rank, [0] * rank
    if auto_pad == "VALID":
        return before, after
    for i in range(rank):
        reach = (kernel[i] - 1) * dilations[i] + 1
        steps = -(-sizes[i] // strides[i])
        missing = max(0, (steps - 1) * strides[i] + reach - sizes[i])
        smaller = missing // 2
        before[i], after[i] = smaller, missing - smaller
        if auto_pad == "SAME_LOWER":
            before[i], after[i] = after[i], before[i]
    return before, after


def flat_edges(before: list[int], after: list[int]) -> list[int]:
    """The order of `F.pad`: last dimension first."""
    return [n for pair in zip(reversed(before), reversed(after)) for n in pair]


CONVOLUTIONS = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
TRANSPOSED = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}


@op("Conv")
def conv(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: list[int] | None = None,
    group: int = 1,
    kernel_shape: list[int] | None = None,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    rank = x.dim() - 2
    step, spread = strides or [1] * rank, dilations or [1] * rank
    before, after = edges(auto_pad, pads, x.shape[2:], list(weight.shape[2:]), step, spread)
    if before != after:
        x, before = F.pad(x, flat_edges(before, after)), [0] * rank
    return CONVOLUTIONS[rank](x, weight, bias, step, before, spread, group)


@op("ConvTranspose")
def conv_transpose(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: list[int] | None = None,
    group: int = 1,
    kernel_shape: list[int] | None = None,
    output_padding: list[int] | None = None,
    output_shape: list[int] | None = None,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    """Padding takes away from the result here; an asked-for shape says how much."""
    rank = x.dim() - 2
    step, spread = strides or [1] * rank, dilations or [1] * rank
    extra = output_padding or [0] * rank
    kernel = list(weight.shape[2:])
    full = [
        step[i] * (x.shape[2 + i] - 1) + extra[i] + (kernel[i] - 1) * spread[i] + 1
        for i in range(rank)
    ]
    amounts = pads or [0] * (2 * rank)
    before, after = list(amounts[:rank]), list(amounts[rank:])
    wanted = optional_ints(output_shape)
    if wanted is None and auto_pad.startswith("SAME"):
        wanted = [x.shape[2 + i] * step[i] for i in range(rank)]
    if wanted is not None:
        for i, size in enumerate(wanted[-rank:]):
            less = max(0, full[i] - size)
            small, large = less // 2, less - less // 2
            before[i], after[i] = (large, small) if auto_pad == "SAME_LOWER" else (small, large)
            extra[i] += max(0, size - full[i])
    if before == after and all(e < max(s, d) for e, s, d in zip(extra, step, spread)):
        return TRANSPOSED[rank](x, weight, bias, step, before, extra, group, spread)
    result = TRANSPOSED[rank](x, weight, bias, step, [0] * rank, [0] * rank, group, spread)
    return F.pad(result, flat_edges([-n for n in before], [e - n for e, n in zip(extra, after)]))


@op("DeformConv", 19)
def deform_conv(
    x: Tensor,
    weight: Tensor,
    offset: Tensor,
    bias: Tensor | None = None,
    mask: Tensor | None = None,
    *,
    dilations: list[int] | None = None,
    group: int = 1,
    kernel_shape: list[int] | None = None,
    offset_group: int = 1,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    """A convolution of two dimensions whose taps are moved by offsets."""
    step, spread = strides or [1, 1], dilations or [1, 1]
    edge = pads or [0, 0, 0, 0]
    n, c, height, width = x.shape
    kh, kw = weight.shape[2:]
    oh, ow = offset.shape[2:]
    moves = offset.reshape(n, offset_group, kh, kw, 2, oh, ow)
    rows = (torch.arange(oh) * step[0] - edge[0]).reshape(oh, 1)
    columns = (torch.arange(ow) * step[1] - edge[1]).reshape(1, ow)
    y = moves[:, :, :, :, 0] + (torch.arange(kh) * spread[0]).reshape(kh, 1, 1, 1) + rows
    z = moves[:, :, :, :, 1] + (torch.arange(kw) * spread[1]).reshape(kw, 1, 1) + columns
    # grid_sample wants places from -1 to 1 between the centres of the outer elements.
    grid = torch.stack([2 * z / max(1, width - 1) - 1, 2 * y / max(1, height - 1) - 1], -1)
    inner = c // offset_group
    taps = F.grid_sample(
        x.reshape(n * offset_group, inner, height, width),
        grid.reshape(n * offset_group, kh * kw * oh, ow, 2),
        align_corners=True,
    ).reshape(n, offset_group, inner, kh, kw, oh, ow)
    if mask is not None:
        taps = taps * mask.reshape(n, offset_group, 1, kh, kw, oh, ow)
    taps = taps.reshape(n, group, c // group, kh, kw, oh, ow)
    filters = weight.reshape(group, weight.shape[0] // group, *weight.shape[1:])
    result = torch.einsum("ngcijyx,gocij->ngoyx", taps, filters).reshape(n, -1, oh, ow)
    return result if bias is None else result + bias.reshape(-1, 1, 1)
