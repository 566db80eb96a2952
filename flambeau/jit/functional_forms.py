"""Functions of nn.functional as scripts: what is compiled when a script calls one of them.

Only what is more than one op stands here; all others are called as the op of their name. These
functions are compiled from this source, never run by Python.
"""

# mypy: ignore-errors

from typing import Annotated, List, Optional, Tuple  # noqa: UP035

import flambeau as torch
from flambeau import Tensor

# ruff: noqa: UP006, UP045, B006

# lists for which one number may stand
List1 = Annotated[List[int], 1]
List2 = Annotated[List[int], 2]
List3 = Annotated[List[int], 3]
OptionalList1 = Annotated[Optional[List[int]], 1]
OptionalList2 = Annotated[Optional[List[int]], 2]
OptionalList3 = Annotated[Optional[List[int]], 3]
OptionalFloats1 = Annotated[Optional[List[float]], 1]


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    if inplace:
        result = torch.relu_(input)
    else:
        result = torch.relu(input)
    return result


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    if inplace:
        result = torch.ops.aten.relu6_(input)
    else:
        result = torch.ops.aten.relu6(input)
    return result


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    if inplace:
        result = torch.ops.aten.elu_(input, alpha)
    else:
        result = torch.ops.aten.elu(input, alpha)
    return result


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    if inplace:
        result = torch.selu_(input)
    else:
        result = torch.selu(input)
    return result


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    if inplace:
        result = torch.celu_(input, alpha)
    else:
        result = torch.celu(input, alpha)
    return result


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    if inplace:
        result = torch.ops.aten.leaky_relu_(input, negative_slope)
    else:
        result = torch.ops.aten.leaky_relu(input, negative_slope)
    return result


def hardtanh(
    input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Tensor:
    if inplace:
        result = torch.ops.aten.hardtanh_(input, min_val, max_val)
    else:
        result = torch.ops.aten.hardtanh(input, min_val, max_val)
    return result


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    if inplace:
        return torch.ops.aten.hardsigmoid_(input)
    return torch.ops.aten.hardsigmoid(input)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    if inplace:
        return torch.ops.aten.hardswish_(input)
    return torch.ops.aten.hardswish(input)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    if inplace:
        return torch.ops.aten.silu_(input)
    return torch.ops.aten.silu(input)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    if inplace:
        return torch.ops.aten.mish_(input)
    return torch.ops.aten.mish(input)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    if inplace:
        result = torch.threshold_(input, threshold, value)
    else:
        result = torch.threshold(input, threshold, value)
    return result


def rrelu(
    input: Tensor,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Tensor:
    return torch.rrelu(input, lower, upper, training)


def glu(input: Tensor, dim: int = -1) -> Tensor:
    return torch.ops.aten.glu(input, dim)


def tanhshrink(input: Tensor) -> Tensor:
    return input - input.tanh()


def softsign(input: Tensor) -> Tensor:
    return input / (input.abs() + 1)


def logsigmoid(input: Tensor) -> Tensor:
    return torch.ops.aten.log_sigmoid(input)


def sigmoid(input: Tensor) -> Tensor:
    return input.sigmoid()


def tanh(input: Tensor) -> Tensor:
    return input.tanh()


def _default_dim(name: str, ndim: int) -> int:
    if ndim == 0 or ndim == 1 or ndim == 3:
        return 0
    return 1


def softmax(
    input: Tensor, dim: Optional[int] = None, _stacklevel: int = 3, dtype: Optional[int] = None
) -> Tensor:
    if dim is None:
        dim = _default_dim("softmax", input.dim())
    if dtype is None:
        ret = input.softmax(dim)
    else:
        ret = input.softmax(dim, dtype=dtype)
    return ret


def log_softmax(
    input: Tensor, dim: Optional[int] = None, _stacklevel: int = 3, dtype: Optional[int] = None
) -> Tensor:
    if dim is None:
        dim = _default_dim("log_softmax", input.dim())
    if dtype is None:
        ret = input.log_softmax(dim)
    else:
        ret = input.log_softmax(dim, dtype=dtype)
    return ret


def softmin(
    input: Tensor, dim: Optional[int] = None, _stacklevel: int = 3, dtype: Optional[int] = None
) -> Tensor:
    if dim is None:
        dim = _default_dim("softmin", input.dim())
    if dtype is None:
        ret = (-input).softmax(dim)
    else:
        ret = (-input).softmax(dim, dtype=dtype)
    return ret


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if inplace:
        result = torch.dropout_(input, p, training)
    else:
        result = torch.dropout(input, p, training)
    return result


def alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    return torch.alpha_dropout(input, p, training)


def dropout1d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    if input.dim() == 2:
        return torch.feature_dropout(input.unsqueeze(0), p, training).squeeze(0)
    return torch.feature_dropout(input, p, training)


def dropout2d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    return torch.feature_dropout(input, p, training)


def dropout3d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    return torch.feature_dropout(input, p, training)


def normalize(
    input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Optional[Tensor] = None
) -> Tensor:
    denom = input.norm(p, [dim], True).clamp_min(eps).expand_as(input)
    return input / denom


def layer_norm(
    input: Tensor,
    normalized_shape: List[int],
    weight: Optional[Tensor] = None,
    bias: Optional[Tensor] = None,
    eps: float = 1e-5,
) -> Tensor:
    return torch.layer_norm(input, normalized_shape, weight, bias, eps)


def rms_norm(
    input: Tensor,
    normalized_shape: List[int],
    weight: Optional[Tensor] = None,
    eps: Optional[float] = None,
) -> Tensor:
    return torch.rms_norm(input, normalized_shape, weight, eps)


def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Optional[Tensor] = None,
    bias: Optional[Tensor] = None,
    eps: float = 1e-5,
) -> Tensor:
    return torch.group_norm(input, num_groups, weight, bias, eps)


def _verify_batch_size(size: List[int]) -> None:
    size_prods = size[0]
    for i in range(len(size) - 2):
        size_prods *= size[i + 2]
    if size_prods == 1:
        raise ValueError(
            f"Expected more than 1 value per channel when training, got input size {size}"
        )


def batch_norm(
    input: Tensor,
    running_mean: Optional[Tensor],
    running_var: Optional[Tensor],
    weight: Optional[Tensor] = None,
    bias: Optional[Tensor] = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    if training:
        _verify_batch_size(input.size())
    return torch.batch_norm(
        input, weight, bias, running_mean, running_var, training, momentum, eps, True
    )


def instance_norm(
    input: Tensor,
    running_mean: Optional[Tensor] = None,
    running_var: Optional[Tensor] = None,
    weight: Optional[Tensor] = None,
    bias: Optional[Tensor] = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    return torch.instance_norm(
        input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, True
    )


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: Optional[int] = None,
    max_norm: Optional[float] = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    padding = -1
    if padding_idx is not None:
        padding = padding_idx
        if padding < 0:
            padding = weight.size(0) + padding
    return torch.embedding(weight, input, padding, scale_grad_by_freq, sparse)


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Optional[Tensor] = None,
    max_norm: Optional[float] = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Optional[Tensor] = None,
    include_last_offset: bool = False,
    padding_idx: Optional[int] = None,
) -> Tensor:
    indices = input
    starts = offsets
    if input.dim() == 2:
        starts = torch.arange(0, input.numel(), input.size(1), dtype=input.dtype)
        indices = input.reshape(-1)
        if per_sample_weights is not None:
            per_sample_weights = per_sample_weights.reshape(-1)
    assert starts is not None
    modes = ["sum", "mean", "max"]
    found, _, _, _ = torch.embedding_bag(
        weight,
        indices,
        starts,
        scale_grad_by_freq,
        modes.index(mode),
        sparse,
        per_sample_weights,
        include_last_offset,
        padding_idx,
    )
    return found


def max_pool1d(
    input: Tensor,
    kernel_size: List1,
    stride: OptionalList1 = None,
    padding: List1 = [0],
    dilation: List1 = [1],
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor:
    if stride is None:
        stride = torch.jit.annotate(List[int], [])
    return torch.max_pool1d(input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool2d(
    input: Tensor,
    kernel_size: List2,
    stride: OptionalList2 = None,
    padding: List2 = [0, 0],
    dilation: List2 = [1, 1],
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor:
    if stride is None:
        stride = torch.jit.annotate(List[int], [])
    return torch.max_pool2d(input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool3d(
    input: Tensor,
    kernel_size: List3,
    stride: OptionalList3 = None,
    padding: List3 = [0, 0, 0],
    dilation: List3 = [1, 1, 1],
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor:
    if stride is None:
        stride = torch.jit.annotate(List[int], [])
    return torch.max_pool3d(input, kernel_size, stride, padding, dilation, ceil_mode)


def adaptive_max_pool1d(input: Tensor, output_size: List1, return_indices: bool = False) -> Tensor:
    found, _ = torch.ops.aten.adaptive_max_pool1d(input, output_size)
    return found


def _output_size(wanted: List[Optional[int]], size: List[int]) -> List[int]:
    found = torch.jit.annotate(List[int], [])
    start = len(size) - len(wanted)
    for k, item in enumerate(wanted):
        if item is None:
            found.append(size[start + k])
        else:
            found.append(item)
    return found


def adaptive_avg_pool2d(input: Tensor, output_size: Annotated[List[Optional[int]], 2]) -> Tensor:
    return torch.ops.aten.adaptive_avg_pool2d(input, _output_size(output_size, input.size()))


def adaptive_avg_pool3d(input: Tensor, output_size: Annotated[List[Optional[int]], 3]) -> Tensor:
    return torch.ops.aten.adaptive_avg_pool3d(input, _output_size(output_size, input.size()))


def adaptive_max_pool2d(
    input: Tensor, output_size: Annotated[List[Optional[int]], 2], return_indices: bool = False
) -> Tensor:
    sizes = _output_size(output_size, input.size())
    found, _ = torch.ops.aten.adaptive_max_pool2d(input, sizes)
    return found


def lp_pool1d(
    input: Tensor,
    norm_type: float,
    kernel_size: int,
    stride: Optional[int] = None,
    ceil_mode: bool = False,
) -> Tensor:
    if stride is None:
        stride = kernel_size
    out = torch.avg_pool1d(input.pow(norm_type), [kernel_size], [stride], [0], ceil_mode)
    return (torch.sign(out) * relu(torch.abs(out))).mul(kernel_size).pow(1.0 / norm_type)


def lp_pool2d(
    input: Tensor,
    norm_type: float,
    kernel_size: List2,
    stride: OptionalList2 = None,
    ceil_mode: bool = False,
) -> Tensor:
    if stride is None:
        stride = torch.jit.annotate(List[int], [])
    out = torch.ops.aten.avg_pool2d(input.pow(norm_type), kernel_size, stride, [0, 0], ceil_mode)
    area = kernel_size[0] * kernel_size[1]
    return (torch.sign(out) * relu(torch.abs(out))).mul(area).pow(1.0 / norm_type)


def unfold(
    input: Tensor,
    kernel_size: List2,
    dilation: List2 = [1, 1],
    padding: List2 = [0, 0],
    stride: List2 = [1, 1],
) -> Tensor:
    return torch.ops.aten.im2col(input, kernel_size, dilation, padding, stride)


def fold(
    input: Tensor,
    output_size: List2,
    kernel_size: List2,
    dilation: List2 = [1, 1],
    padding: List2 = [0, 0],
    stride: List2 = [1, 1],
) -> Tensor:
    return torch.ops.aten.col2im(input, output_size, kernel_size, dilation, padding, stride)


def _factors(scale_factor: Optional[List[float]], dims: int) -> Optional[List[float]]:
    if scale_factor is None:
        return None
    if len(scale_factor) == 1:
        return scale_factor * (dims - 2)
    return scale_factor


def _sizes(size: Optional[List[int]], dims: int) -> Optional[List[int]]:
    if size is None:
        return None
    if len(size) == 1:
        return size * (dims - 2)
    return size


def interpolate(
    input: Tensor,
    size: OptionalList1 = None,
    scale_factor: OptionalFloats1 = None,
    mode: str = "nearest",
    align_corners: Optional[bool] = None,
    recompute_scale_factor: Optional[bool] = None,
    antialias: bool = False,
) -> Tensor:
    align = False
    if align_corners is not None:
        align = align_corners
    dims = input.dim()
    sizes = _sizes(size, dims)
    factors = _factors(scale_factor, dims)
    if dims == 3 and mode == "nearest":
        return torch.ops.aten.upsample_nearest1d(input, sizes, factors)
    if dims == 4 and mode == "nearest":
        return torch.ops.aten.upsample_nearest2d(input, sizes, factors)
    if dims == 5 and mode == "nearest":
        return torch.ops.aten.upsample_nearest3d(input, sizes, factors)
    if dims == 3 and mode == "linear":
        return torch.ops.aten.upsample_linear1d(input, sizes, align, factors)
    if dims == 4 and mode == "bilinear":
        return torch.ops.aten.upsample_bilinear2d(input, sizes, align, factors)
    if dims == 4 and mode == "bicubic":
        return torch.ops.aten.upsample_bicubic2d(input, sizes, align, factors)
    if dims == 5 and mode == "trilinear":
        return torch.ops.aten.upsample_trilinear3d(input, sizes, align, factors)
    raise NotImplementedError(f"interpolate of a {dims}D input with mode {mode}")


def pad(
    input: Tensor, pad: List[int], mode: str = "constant", value: Optional[float] = None
) -> Tensor:
    return torch.ops.aten.pad(input, pad, mode, value)


def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: Optional[bool] = None,
) -> Tensor:
    interpolation = 0
    if mode == "nearest":
        interpolation = 1
    elif mode == "bicubic":
        interpolation = 2
    padding = 0
    if padding_mode == "border":
        padding = 1
    elif padding_mode == "reflection":
        padding = 2
    align = False
    if align_corners is not None:
        align = align_corners
    return torch.grid_sampler(input, grid, interpolation, padding, align)


def affine_grid(theta: Tensor, size: List[int], align_corners: Optional[bool] = None) -> Tensor:
    align = False
    if align_corners is not None:
        align = align_corners
    return torch.affine_grid_generator(theta, size, align)


def _split_heads(x: Tensor, heads: int) -> Tensor:
    length, batch, width = x.size()
    return x.contiguous().view(length, batch * heads, width // heads).transpose(0, 1)


def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Optional[Tensor],
    in_proj_bias: Optional[Tensor],
    bias_k: Optional[Tensor],
    bias_v: Optional[Tensor],
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Optional[Tensor],
    training: bool = True,
    key_padding_mask: Optional[Tensor] = None,
    need_weights: bool = True,
    attn_mask: Optional[Tensor] = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Optional[Tensor] = None,
    k_proj_weight: Optional[Tensor] = None,
    v_proj_weight: Optional[Tensor] = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> Tuple[Tensor, Optional[Tensor]]:
    is_batched = query.dim() == 3
    if not is_batched:
        query = query.unsqueeze(1)
        key = key.unsqueeze(1)
        value = value.unsqueeze(1)
        if key_padding_mask is not None:
            key_padding_mask = key_padding_mask.unsqueeze(0)
    length, batch, width = query.size()
    sources = key.size(0)
    head = width // num_heads
    if in_proj_weight is not None:
        weights = in_proj_weight.chunk(3)
        w_q, w_k, w_v = weights[0], weights[1], weights[2]
    else:
        assert q_proj_weight is not None
        assert k_proj_weight is not None
        assert v_proj_weight is not None
        w_q, w_k, w_v = q_proj_weight, k_proj_weight, v_proj_weight
    if in_proj_bias is not None:
        biases = in_proj_bias.chunk(3)
        q = torch.nn.functional.linear(query, w_q, biases[0])
        k = torch.nn.functional.linear(key, w_k, biases[1])
        v = torch.nn.functional.linear(value, w_v, biases[2])
    else:
        q = torch.nn.functional.linear(query, w_q)
        k = torch.nn.functional.linear(key, w_k)
        v = torch.nn.functional.linear(value, w_v)
    mask = attn_mask
    if mask is not None:
        if mask.dtype == torch.bool:
            mask = torch.zeros_like(mask, dtype=q.dtype).masked_fill_(mask, float("-inf"))
        if mask.dim() == 2:
            mask = mask.unsqueeze(0)
    if key_padding_mask is not None:
        padding = key_padding_mask
        if padding.dtype == torch.bool:
            padding = torch.zeros_like(padding, dtype=q.dtype).masked_fill_(padding, float("-inf"))
        padding = padding.view(batch, 1, 1, sources).expand(-1, num_heads, -1, -1)
        padding = padding.reshape(batch * num_heads, 1, sources)
        if mask is None:
            mask = padding
        else:
            mask = mask + padding
    q, k, v = _split_heads(q, num_heads), _split_heads(k, num_heads), _split_heads(v, num_heads)
    scores = torch.bmm(q * (1.0 / float(head) ** 0.5), k.transpose(-2, -1))
    if mask is not None:
        scores = scores + mask
    weights_of = softmax(scores, dim=-1)
    if dropout_p > 0.0 and training:
        weights_of = dropout(weights_of, p=dropout_p)
    out = torch.bmm(weights_of, v).transpose(0, 1).contiguous().view(length * batch, width)
    out = torch.nn.functional.linear(out, out_proj_weight, out_proj_bias)
    out = out.view(length, batch, out.size(1))
    shown: Optional[Tensor] = None
    if need_weights:
        shown = weights_of.view(batch, num_heads, length, sources)
        if average_attn_weights:
            shown = shown.mean(dim=1)
        if not is_batched:
            shown = shown.squeeze(0)
    if not is_batched:
        out = out.squeeze(1)
    return out, shown
