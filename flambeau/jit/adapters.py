"""Ops of aten that have another form here: functions by the names of ops, with their arguments."""

import functools
from collections.abc import Callable
from typing import Any

import flambeau
from flambeau.nn import functional as F

_REDUCTIONS = ("none", "mean", "sum")


def in_place(function: Callable) -> Callable:
    """The in-place form of a function of nn.functional."""
    return functools.partial(function, inplace=True)


def _convolution(
    input, weight, bias, stride, padding, dilation, transposed, output_padding, groups, *flags
):
    """Convolution in any number of dimensions, forwards or transposed."""
    n = weight.dim() - 2
    if transposed:
        function = getattr(F, f"conv_transpose{n}d")
        return function(input, weight, bias, stride, padding, output_padding, groups, dilation)
    return getattr(F, f"conv{n}d")(input, weight, bias, stride, padding, dilation, groups)


convolution = _convolution


def _convolution_mode(input, weight, bias, stride, padding, dilation, groups):
    n = weight.dim() - 2
    return getattr(F, f"conv{n}d")(input, weight, bias, stride, padding, dilation, groups)


def nll_loss_nd(input, target, weight=None, reduction=1, ignore_index=-100):
    return F.nll_loss(
        input, target, weight, ignore_index=ignore_index, reduction=_REDUCTIONS[reduction]
    )


nll_loss = nll_loss2d = nll_loss_nd


def cross_entropy_loss(
    input, target, weight=None, reduction=1, ignore_index=-100, label_smoothing=0.0
):
    return F.cross_entropy(
        input,
        target,
        weight,
        ignore_index=ignore_index,
        reduction=_REDUCTIONS[reduction],
        label_smoothing=label_smoothing,
    )


def _loss(name, *more):
    """A loss whose reduction is a number; what follows it is given by name."""

    def loss(input, target, *rest):
        names = ("reduction", *more)
        given = dict(zip(names, rest))
        given["reduction"] = _REDUCTIONS[given.get("reduction", 1)]
        return getattr(F, name)(input, target, **given)

    loss.__name__ = name
    return loss


mse_loss, l1_loss = _loss("mse_loss"), _loss("l1_loss")
smooth_l1_loss, huber_loss = _loss("smooth_l1_loss", "beta"), _loss("huber_loss", "delta")
soft_margin_loss = _loss("soft_margin_loss")
multilabel_margin_loss = _loss("multilabel_margin_loss")


def binary_cross_entropy(input, target, weight=None, reduction=1):
    return F.binary_cross_entropy(input, target, weight, reduction=_REDUCTIONS[reduction])


def multi_margin_loss(input, target, p=1, margin=1, weight=None, reduction=1):
    return F.multi_margin_loss(input, target, p, margin, weight, reduction=_REDUCTIONS[reduction])


def poisson_nll_loss(input, target, log_input, full, eps, reduction):
    return F.poisson_nll_loss(
        input, target, log_input, full, eps=eps, reduction=_REDUCTIONS[reduction]
    )


def log_sigmoid(input):
    return F.logsigmoid(input)


def gelu(input, *, approximate="none"):
    return F.gelu(input, approximate=approximate)


def glu(input, dim=-1):
    return F.glu(input, dim)


def elu(input, alpha=1, scale=1, input_scale=1):
    if scale == 1 and input_scale == 1:
        return F.elu(input, alpha)
    bent = alpha * flambeau.expm1(input * input_scale)
    return scale * flambeau.where(input > 0, input, bent)


def _padding(mode):
    def pad(input, padding):
        return F.pad(input, padding, mode)

    return pad


reflection_pad1d = reflection_pad2d = reflection_pad3d = _padding("reflect")
replication_pad1d = replication_pad2d = replication_pad3d = _padding("replicate")


def pad(input, pad, mode="constant", value=None):
    return F.pad(input, pad, mode, value)


def constant_pad_nd(input, pad, value=0):
    return F.pad(input, pad, "constant", value)


def _upsample(mode, has_corners):
    def upsample(input, output_size, *rest):
        align = None
        if has_corners:
            align, *rest = rest
        # the overload with factors ends in a list, the other one in numbers
        scales = next((r for r in rest if isinstance(r, (list, tuple))), None)
        if output_size is not None:
            return F.interpolate(input, list(output_size), mode=mode, align_corners=align)
        return F.interpolate(input, scale_factor=list(scales), mode=mode, align_corners=align)

    return upsample


upsample_nearest1d = upsample_nearest2d = upsample_nearest3d = _upsample("nearest", False)
upsample_linear1d = _upsample("linear", True)
upsample_bilinear2d, upsample_bicubic2d = _upsample("bilinear", True), _upsample("bicubic", True)
upsample_trilinear3d = _upsample("trilinear", True)


def _pool(name):
    """Pools that give indices in another op only."""

    def pool(*args):
        return getattr(F, name)(*args)

    return pool


def _max_pool_with_indices(name):
    def pool(input, kernel_size, stride=(), padding=0, dilation=1, ceil_mode=False):
        return getattr(F, name)(
            input, kernel_size, list(stride) or None, padding, dilation, ceil_mode, True
        )

    return pool


max_pool1d_with_indices = _max_pool_with_indices("max_pool1d")
max_pool2d_with_indices = _max_pool_with_indices("max_pool2d")
max_pool3d_with_indices = _max_pool_with_indices("max_pool3d")


def _plain_pool(name):
    def pool(input, kernel_size, stride=(), *rest):
        return getattr(F, name)(input, kernel_size, list(stride) or None, *rest)

    return pool


max_pool1d, max_pool2d, max_pool3d = map(_plain_pool, ("max_pool1d", "max_pool2d", "max_pool3d"))
avg_pool1d, avg_pool2d, avg_pool3d = map(_plain_pool, ("avg_pool1d", "avg_pool2d", "avg_pool3d"))


def _adaptive_max(name):
    def pool(input, output_size):
        return getattr(F, name)(input, output_size, True)

    return pool


adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d = map(
    _adaptive_max, ("adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d")
)


def im2col(input, kernel_size, dilation, padding, stride):
    return F.unfold(input, kernel_size, dilation, padding, stride)


def col2im(input, output_size, kernel_size, dilation, padding, stride):
    return F.fold(input, output_size, kernel_size, dilation, padding, stride)


def index_put_(self, indices, values, accumulate=False):
    """Write at indices, where None stands for a whole dimension."""
    place = tuple(slice(None) if i is None else i for i in indices)
    if accumulate:
        whole = all(i is not None for i in indices)
        if whole:
            return self.index_put_(tuple(indices), values, accumulate=True)
        raise RuntimeError("index_put_ with accumulate needs an index for each dimension")
    self[place] = values
    return self


def index_put(self, indices, values, accumulate=False):
    return index_put_(self.clone(), indices, values, accumulate)


def einsum(equation, tensors, *, path=None):
    return flambeau.einsum(equation, *tensors)


def norm(self, p=2, dim=None, keepdim=False, *, dtype=None):
    return flambeau.norm(self, 2 if p is None else p, dim, keepdim, dtype=dtype)


def _unique2(self, sorted=True, return_inverse=False, return_counts=False):
    found = flambeau.unique(self, sorted, True, True)
    return found


def unique_dim(self, dim, sorted=True, return_inverse=False, return_counts=False):
    return flambeau.unique(self, sorted, True, True, dim)


def nonzero_numpy(self) -> Any:
    return list(flambeau.nonzero(self, as_tuple=True))


def rrelu(input, lower=0.125, upper=1 / 3, training=False, generator=None):
    return F.rrelu(input, lower, upper, training)


def meshgrid(tensors, *, indexing="ij"):
    return flambeau.meshgrid(*tensors, indexing=indexing)


def embedding(weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    return F.embedding(
        indices,
        weight,
        None if padding_idx < 0 else padding_idx,
        scale_grad_by_freq=scale_grad_by_freq,
        sparse=sparse,
    )


def scaled_dot_product_attention(
    query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None,
    enable_gqa=False,
):  # fmt: skip
    return F.scaled_dot_product_attention(
        query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
    )


def _native_multi_head_attention(
    query, key, value, embed_dim, num_head, qkv_weight, qkv_bias, proj_weight, proj_bias, mask=None,
    need_weights=True, average_attn_weights=True, mask_type=None,
):  # fmt: skip
    """Attention of batches that come first, as one op."""
    by_key, by_pair = (mask, None) if mask_type == 1 else (None, mask)
    turned = [x.transpose(0, 1) for x in (query, key, value)]
    found, weights = F.multi_head_attention_forward(
        *turned, embed_dim, num_head, qkv_weight, qkv_bias, None, None, False, 0.0, proj_weight,
        proj_bias, False, by_key, need_weights, by_pair, average_attn_weights=average_attn_weights,
    )  # fmt: skip
    return found.transpose(0, 1), weights


def _transformer_encoder_layer_fwd(
    src, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, use_gelu, norm_first,
    eps, norm_weight_1, norm_bias_1, norm_weight_2, norm_bias_2, ffn_weight_1, ffn_bias_1,
    ffn_weight_2, ffn_bias_2, mask=None, mask_type=None,
):  # fmt: skip
    """A layer of an encoder as one op: what PyTorch's layers call where no gradient is needed."""

    def attend(x):
        return _native_multi_head_attention(
            x, x, x, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask,
            False, True, mask_type,
        )[0]  # fmt: skip

    def feed(x):
        hidden = F.linear(x, ffn_weight_1, ffn_bias_1)
        hidden = F.gelu(hidden) if use_gelu else F.relu(hidden)
        return F.linear(hidden, ffn_weight_2, ffn_bias_2)

    first = lambda x: F.layer_norm(x, [embed_dim], norm_weight_1, norm_bias_1, eps)
    second = lambda x: F.layer_norm(x, [embed_dim], norm_weight_2, norm_bias_2, eps)
    if norm_first:
        x = src + attend(first(src))
        return x + feed(second(x))
    x = first(src + attend(src))
    return second(x + feed(x))


def _of_many(name):
    """A function that takes tensors one by one, where the op takes a list."""

    def function(tensors):
        return getattr(flambeau, name)(*tensors)

    return function


broadcast_tensors, cartesian_prod, block_diag, chain_matmul = map(
    _of_many, ("broadcast_tensors", "cartesian_prod", "block_diag", "chain_matmul")
)


def tensordot(self, other, dims_self, dims_other):
    return flambeau.tensordot(self, other, dims=(dims_self, dims_other))


def stft(self, n_fft, hop_length=None, win_length=None, window=None, *rest):
    """Both overloads: with `center` and `pad_mode` before the others, and without them."""
    names = ["normalized", "onesided", "return_complex", "align_to_window"]
    if len(rest) > 1 and isinstance(rest[1], str):
        names = ["center", "pad_mode", *names]
    given = {"center": False} | dict(zip(names, rest))
    return flambeau.stft(self, n_fft, hop_length, win_length, window, **given)


def unique_consecutive(self, return_inverse=False, return_counts=False, dim=None):
    return flambeau.unique_consecutive(self, True, True, dim)
