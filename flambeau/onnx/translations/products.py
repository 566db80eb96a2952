"""Matrices, convolutions and attention."""

import math
from typing import Any

import flambeau as torch
from flambeau.onnx.building import Value
from flambeau.onnx.errors import SymbolicValueError
from flambeau.onnx.translations.table import translates


@translates("linear")
def linear(g: Any, x: Value, weight: Value, bias: Value | None = None, *, out: Any) -> Value:
    if x.rank == 2 and weight.rank == 2:
        return g.op("Gemm", x, weight, bias, transB=1)
    product = g.op("MatMul", x, g.swap(weight, weight.rank, 0, -1))
    return product if bias is None else g.op("Add", product, bias)


@translates("matmul", "mm", "bmm", "mv", "dot")
def matmul(g: Any, a: Value, b: Value, *, out: Any) -> Value:
    return g.op("MatMul", a, b)


@translates("addmm", "baddbmm")
def addmm(
    g: Any, c: Value, a: Value, b: Value, *, beta: float = 1, alpha: float = 1, out: Any
) -> Value:
    if a.rank == 2 and c.rank <= 2:
        return g.op("Gemm", a, b, c, alpha=float(alpha), beta=float(beta))
    product = g.op("MatMul", a, b)
    product = product if alpha == 1 else g.op("Mul", product, alpha)
    return g.op("Add", product, c if beta == 1 else g.op("Mul", c, beta))


@translates("einsum")
def einsum(g: Any, equation: str, tensors: Any, path: Any = None, *, out: Any) -> Value:
    return g.op("Einsum", *tensors, equation=equation.replace(" ", ""))


def spread(value: Any, rank: int) -> list[int]:
    values = [value] if isinstance(value, int) else list(value)
    return values * rank if len(values) == 1 else values


def same_padding(x: Value, weight: Value, stride: list[int], dilation: list[int]) -> list[int]:
    """`padding="same"`: the odd element goes behind."""
    before, after = [], []
    for axis in range(len(stride)):
        total = dilation[axis] * (weight.size(2 + axis) - 1)
        before.append(total // 2)
        after.append(total - total // 2)
    return before + after


def write_conv(
    g: Any, x: Value, w: Value, b: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> Value:
    rank = w.rank - 2
    batched = x.rank == w.rank
    source = x if batched else g.unsqueeze(x, [0])
    steps, spreads = spread(stride, rank), spread(dilation, rank)
    if isinstance(padding, str):
        pads = [0] * (2 * rank)
        if padding == "same":
            pads = same_padding(x, w, steps, spreads)
    else:
        pads = spread(padding, rank) * 2
    kernel = [w.size(2 + axis) for axis in range(rank)]
    made = g.op(
        "Conv",
        source,
        w,
        b,
        kernel_shape=kernel,
        strides=steps,
        pads=pads,
        dilations=spreads,
        group=groups,
    )
    return made if batched else g.squeeze(made, [0])


@translates("conv1d", "conv2d", "conv3d")
def conv(
    g: Any,
    x: Value,
    w: Value,
    b: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    *,
    out: Any,
) -> Value:
    return write_conv(g, x, w, b, stride, padding, dilation, groups)


def write_transposed(
    g: Any,
    x: Value,
    w: Value,
    b: Any,
    stride: Any,
    padding: Any,
    output_padding: Any,
    groups: int,
    dilation: Any,
) -> Value:
    rank = w.rank - 2
    batched = x.rank == w.rank
    made = g.op(
        "ConvTranspose",
        x if batched else g.unsqueeze(x, [0]),
        w,
        b,
        kernel_shape=[w.size(2 + axis) for axis in range(rank)],
        strides=spread(stride, rank),
        pads=spread(padding, rank) * 2,
        output_padding=spread(output_padding, rank),
        dilations=spread(dilation, rank),
        group=groups,
    )
    return made if batched else g.squeeze(made, [0])


@translates("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def conv_transpose(
    g: Any,
    x: Value,
    w: Value,
    b: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
    *,
    out: Any,
) -> Value:
    return write_transposed(g, x, w, b, stride, padding, output_padding, groups, dilation)


@translates("convolution")
def convolution(
    g: Any,
    x: Value,
    w: Value,
    b: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
    *,
    out: Any,
) -> Value:
    if transposed:
        return write_transposed(g, x, w, b, stride, padding, output_padding, groups, dilation)
    return write_conv(g, x, w, b, stride, padding, dilation, groups)


@translates("scaled_dot_product_attention")
def attention(
    g: Any,
    q: Value,
    k: Value,
    v: Value,
    mask: Value | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
    out: Any,
) -> Value:
    """Products, a bias and a softmax: every version of the op set has these."""
    if enable_gqa and q.shape[1] != k.shape[1]:
        k, v = repeated_heads(g, q, k), repeated_heads(g, q, v)
    factor = 1 / math.sqrt(q.size(-1)) if scale is None else scale
    scores = g.op("MatMul", g.op("Mul", q, float(factor)), g.swap(k, k.rank, -1, -2))
    low = g.number(-math.inf, q.dtype)
    if is_causal:
        mask = causal_mask(g, q, k)
    if mask is not None:
        if mask.dtype is torch.bool:
            scores = g.op("Where", mask, scores, low, dtype=q.dtype)
        else:
            scores = g.op("Add", scores, mask)
    weights = g.op("Softmax", scores, axis=-1)
    return g.op("MatMul", weights, v)


def causal_mask(g: Any, q: Value, k: Value) -> Value:
    """True where a key is not later than the query."""

    def places(x: Value) -> Value:
        size = x.shape[-2]
        end = size if isinstance(size, int) else g.squeeze(g.size_of(x, x.rank - 2), [0])
        end = g.number(end, torch.int64) if isinstance(end, int) else end
        return g.op("Range", g.number(0, torch.int64), end, g.number(1, torch.int64))

    return g.op("LessOrEqual", places(k), g.unsqueeze(places(q), [1]), dtype=torch.bool)


def repeated_heads(g: Any, q: Value, x: Value) -> Value:
    """Each head of keys and values as often as there are heads of queries for it."""
    if not isinstance(q.shape[1], int) or not isinstance(x.shape[1], int):
        raise SymbolicValueError("the number of heads must be known")
    count = q.size(1) // x.size(1)
    batch, heads, length, size = g.sizes(x)
    wide = g.expand(g.unsqueeze(x, [2]), [batch, heads, count, length, size])
    made = g.reshape(wide, [batch, heads * count, length, size])
    made.shape = (x.shape[0], heads * count, *x.shape[2:])
    return made
