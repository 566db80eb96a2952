# Written by tools/stubs.py; do not edit.
# mypy: ignore-errors
# ruff: noqa
import builtins
from collections.abc import Callable, Sequence
from typing import Any, overload

from flambeau._device import device as device
from flambeau._dtype import dtype as dtype
from flambeau._memory_format import layout as layout
from flambeau._memory_format import memory_format as memory_format
from flambeau.random import Generator as Generator
from flambeau._tensor import Tensor as Tensor

_int = builtins.int
_float = builtins.float
_bool = builtins.bool
_Number = builtins.int | builtins.float | builtins.complex | builtins.bool
_Device = device | str | builtins.int

def adaptive_avg_pool1d(input: Tensor, output_size: Sequence[int] | int) -> Tensor: ...
def adaptive_avg_pool2d(input: Tensor, output_size: Sequence[int] | int) -> Tensor: ...
def adaptive_avg_pool3d(input: Tensor, output_size: Sequence[int] | int) -> Tensor: ...
def adaptive_max_pool1d(*args: Any, **kwargs: Any) -> Tensor: ...
def adaptive_max_pool1d_with_indices(
    input: Tensor, output_size: Any, return_indices: Any = False
) -> Tensor: ...
def adaptive_max_pool2d(*args: Any, **kwargs: Any) -> Any: ...
def adaptive_max_pool2d_with_indices(
    input: Tensor, output_size: Any, return_indices: Any = False
) -> Tensor: ...
def adaptive_max_pool3d(*args: Any, **kwargs: Any) -> Any: ...
def adaptive_max_pool3d_with_indices(
    input: Tensor, output_size: Any, return_indices: Any = False
) -> Tensor: ...
def affine_grid(theta: Tensor, size: Any, align_corners: Any = None) -> Tensor: ...
def alpha_dropout(
    input: Tensor, p: Any = 0.5, training: Any = False, inplace: Any = False
) -> Tensor: ...
def avg_pool1d(
    input: Tensor,
    kernel_size: Sequence[int] | int,
    stride: Sequence[int] | int | None = None,
    padding: Sequence[int] | int = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor: ...
def avg_pool2d(
    input: Tensor,
    kernel_size: Sequence[int] | int,
    stride: Sequence[int] | int | None = None,
    padding: Sequence[int] | int = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor: ...
def avg_pool3d(
    input: Tensor,
    kernel_size: Sequence[int] | int,
    stride: Sequence[int] | int | None = None,
    padding: Sequence[int] | int = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor: ...
def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: Any = False,
    momentum: float = 0.1,
    eps: float = 1e-05,
) -> Tensor: ...
def bilinear(
    input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None
) -> Tensor: ...
def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor: ...
def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: Any = None,
    reduce: Any = None,
    reduction: Any = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor: ...
def celu(input: Tensor, alpha: _Number = 1.0, inplace: bool = False) -> Tensor: ...
def celu_(*args: Any, **kwargs: Any) -> Tensor: ...
def channel_shuffle(input: Tensor, groups: int) -> Tensor: ...
def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sequence[int] | int = 1,
    padding: Sequence[int] | int | str = 0,
    dilation: Sequence[int] | int = 1,
    groups: int = 1,
) -> Tensor: ...
def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sequence[int] | int = 1,
    padding: Sequence[int] | int | str = 0,
    dilation: Sequence[int] | int = 1,
    groups: int = 1,
) -> Tensor: ...
def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sequence[int] | int = 1,
    padding: Sequence[int] | int | str = 0,
    dilation: Sequence[int] | int = 1,
    groups: int = 1,
) -> Tensor: ...
def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor: ...
def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sequence[int] | int = 1,
    padding: Sequence[int] | int = 0,
    output_padding: Sequence[int] | int = 0,
    groups: int = 1,
    dilation: Sequence[int] | int = 1,
) -> Tensor: ...
def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sequence[int] | int = 1,
    padding: Sequence[int] | int = 0,
    output_padding: Sequence[int] | int = 0,
    groups: int = 1,
    dilation: Sequence[int] | int = 1,
) -> Tensor: ...
def conv_transpose3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sequence[int] | int = 1,
    padding: Sequence[int] | int = 0,
    output_padding: Sequence[int] | int = 0,
    groups: int = 1,
    dilation: Sequence[int] | int = 1,
) -> Tensor: ...
def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: Any = None,
    reduce: Any = None,
    reduction: Any = "mean",
) -> Tensor: ...
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-08) -> Tensor: ...
def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: Any = "mean",
    label_smoothing: float = 0.0,
) -> Tensor: ...
def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: Any = "mean",
    zero_infinity: Any = False,
) -> Tensor: ...
def dropout(input: Tensor, p: Any = 0.5, training: Any = True, inplace: Any = False) -> Tensor: ...
def dropout1d(
    input: Tensor, p: Any = 0.5, training: Any = True, inplace: Any = False
) -> Tensor: ...
def dropout2d(
    input: Tensor, p: Any = 0.5, training: Any = True, inplace: Any = False
) -> Tensor: ...
def dropout3d(
    input: Tensor, p: Any = 0.5, training: Any = True, inplace: Any = False
) -> Tensor: ...
def elu(input: Tensor, alpha: _Number = 1.0, inplace: bool = False) -> Tensor: ...
def elu_(input: Tensor, alpha: _Number = ...) -> Tensor: ...
def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: Any = None,
    max_norm: Any = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: Any = False,
    sparse: Any = False,
) -> Tensor: ...
def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: Any = None,
    norm_type: float = 2,
    scale_grad_by_freq: Any = False,
    mode: Any = "mean",
    sparse: Any = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: Any = False,
    padding_idx: Any = None,
) -> Tensor: ...
def feature_alpha_dropout(
    input: Tensor, p: Any = 0.5, training: Any = False, inplace: Any = False
) -> Tensor: ...
def fold(
    input: Tensor,
    output_size: Any,
    kernel_size: Any,
    dilation: Any = 1,
    padding: Any = 0,
    stride: Any = 1,
) -> Tensor: ...
def fractional_max_pool2d(*args: Any, **kwargs: Any) -> Any: ...
def fractional_max_pool2d_with_indices(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: Any = False,
    _random_samples: Tensor | None = None,
) -> Tensor: ...
def fractional_max_pool3d(*args: Any, **kwargs: Any) -> Any: ...
def fractional_max_pool3d_with_indices(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: Any = False,
    _random_samples: Tensor | None = None,
) -> Tensor: ...
def gaussian_nll_loss(
    input: Tensor,
    target: Any,
    var: Any,
    full: Any = False,
    eps: float = 1e-06,
    reduction: Any = "mean",
) -> Tensor: ...
def gelu(input: Tensor, approximate: str = ...) -> Tensor: ...
def glu(input: Tensor, dim: int = -1) -> Tensor: ...
def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: Any = "bilinear",
    padding_mode: Any = "zeros",
    align_corners: Any = None,
) -> Tensor: ...
def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-05,
) -> Tensor: ...
def grouped_mm(
    mat_a: Tensor,
    mat_b: Tensor,
    *,
    offs: Tensor | None = None,
    bias: Tensor | None = None,
    out_dtype: Any = None,
) -> Tensor: ...
def gumbel_softmax(
    logits: Tensor, tau: Any = 1, hard: Any = False, eps: float = 1e-10, dim: int = -1
) -> Tensor: ...
def hardshrink(input: Tensor, lambd: _Number = 0.5, *, out: Tensor | None = None) -> Tensor: ...
def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor: ...
def hardswish(input: Tensor, inplace: bool = False) -> Tensor: ...
def hardtanh(
    input: Tensor, min_val: _Number = -1.0, max_val: _Number = 1.0, inplace: bool = False
) -> Tensor: ...
def hardtanh_(input: Tensor, min_val: _Number = ..., max_val: _Number = ...) -> Tensor: ...
def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: Any = None,
    reduce: Any = None,
    reduction: Any = "mean",
) -> Tensor: ...
def huber_loss(
    input: Tensor,
    target: Tensor,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: Tensor | None = None,
) -> Tensor: ...
def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: Any = True,
    momentum: float = 0.1,
    eps: float = 1e-05,
) -> Tensor: ...
def interpolate(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: Any = "nearest",
    align_corners: Any = None,
    recompute_scale_factor: Any = None,
    antialias: Any = False,
) -> Tensor: ...
def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: Any = None,
    reduce: Any = None,
    reduction: Any = "mean",
    log_target: Any = False,
) -> Tensor: ...
def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor: ...
def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-05,
) -> Tensor: ...
def leaky_relu(input: Tensor, negative_slope: _Number = 0.01, inplace: bool = False) -> Tensor: ...
def leaky_relu_(input: Tensor, negative_slope: _Number = ...) -> Tensor: ...
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor: ...
def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: Any = "mean",
    ignore_index: Any = None,
    label_smoothing: float = 0.0,
    options: Any = None,
) -> Tensor: ...
def local_response_norm(
    input: Tensor, size: int, alpha: _Number = 0.0001, beta: _Number = 0.75, k: Any = 1.0
) -> Tensor: ...
def log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor: ...
def logsigmoid(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def lp_pool1d(
    input: Tensor, norm_type: Any, kernel_size: Any, stride: Any = None, ceil_mode: Any = False
) -> Tensor: ...
def lp_pool2d(
    input: Tensor, norm_type: Any, kernel_size: Any, stride: Any = None, ceil_mode: Any = False
) -> Tensor: ...
def lp_pool3d(
    input: Tensor, norm_type: Any, kernel_size: Any, stride: Any = None, ceil_mode: Any = False
) -> Tensor: ...
def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: Any = None,
    reduce: Any = None,
    reduction: Any = "mean",
) -> Tensor: ...
def max_pool1d(*args: Any, **kwargs: Any) -> Tensor: ...
def max_pool1d_with_indices(
    input: Tensor,
    kernel_size: Sequence[int] | int,
    stride: Sequence[int] | int | None = None,
    padding: Sequence[int] | int = 0,
    dilation: Sequence[int] | int = 1,
    ceil_mode: bool = False,
    return_indices: Any = False,
) -> Any: ...
def max_pool2d(*args: Any, **kwargs: Any) -> Tensor: ...
def max_pool2d_with_indices(
    input: Tensor,
    kernel_size: Sequence[int] | int,
    stride: Sequence[int] | int | None = None,
    padding: Sequence[int] | int = 0,
    dilation: Sequence[int] | int = 1,
    ceil_mode: bool = False,
    return_indices: Any = False,
) -> Any: ...
def max_pool3d(*args: Any, **kwargs: Any) -> Tensor: ...
def max_pool3d_with_indices(
    input: Tensor,
    kernel_size: Sequence[int] | int,
    stride: Sequence[int] | int | None = None,
    padding: Sequence[int] | int = 0,
    dilation: Sequence[int] | int = 1,
    ceil_mode: bool = False,
    return_indices: Any = False,
) -> Any: ...
def max_unpool1d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    output_size: Any = None,
) -> Tensor: ...
def max_unpool2d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    output_size: Sequence[int] | int | None = None,
) -> Tensor: ...
def max_unpool3d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Any,
    stride: Sequence[int] | int | None = None,
    padding: Sequence[int] | int = 0,
    output_size: Sequence[int] | int | None = None,
) -> Tensor: ...
def mish(input: Tensor, inplace: bool = False) -> Tensor: ...
def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor: ...
def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: Any,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: Any = True,
    key_padding_mask: Tensor | None = None,
    need_weights: Any = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: Any = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: Any = True,
    is_causal: Any = False,
) -> Tensor: ...
def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: _Number = 1,
    margin: _Number = 1.0,
    weight: Tensor | None = None,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor: ...
def multilabel_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor: ...
def multilabel_soft_margin_loss(
    input: Tensor,
    target: Any,
    weight: Tensor | None = None,
    size_average: Any = None,
    reduce: Any = None,
    reduction: Any = "mean",
) -> Tensor: ...
def native_channel_shuffle(input: Tensor, groups: int) -> Tensor: ...
def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor: ...
def normalize(
    input: Tensor, p: Any = 2.0, dim: Any = 1, eps: float = 1e-12, out: Tensor | None = None
) -> Tensor: ...
def one_hot(tensor: Any, num_classes: int = ...) -> Tensor: ...
def pad(
    input: Tensor, pad: Sequence[int], mode: Any = "constant", value: float | None = None
) -> Tensor: ...
def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-06, keepdim: bool = False
) -> Tensor: ...
def pdist(input: Tensor, p: float = 2.0) -> Tensor: ...
def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor: ...
def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor: ...
def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: Any = True,
    full: Any = False,
    size_average: Any = None,
    eps: float = 1e-08,
    reduce: Any = None,
    reduction: Any = "mean",
) -> Tensor: ...
def prelu(input: Tensor, weight: Tensor) -> Tensor: ...
def relu(input: Tensor, inplace: bool = False) -> Tensor: ...
def relu6(input: Tensor, inplace: bool = False) -> Tensor: ...
def relu_(*args: Any, **kwargs: Any) -> Tensor: ...
def rms_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor: ...
def rrelu(
    input: Tensor,
    lower: float = 0.125,
    upper: float = 0.3333333333333333,
    training: Any = False,
    inplace: Any = False,
) -> Tensor: ...
def rrelu_(*args: Any, **kwargs: Any) -> Tensor: ...
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor: ...
def selu(input: Tensor, inplace: bool = False) -> Tensor: ...
def selu_(*args: Any, **kwargs: Any) -> Tensor: ...
def sigmoid(input: Tensor) -> Tensor: ...
def silu(input: Tensor, inplace: bool = False) -> Tensor: ...
def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor: ...
def soft_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor: ...
def softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor: ...
def softmin(
    input: Tensor, dim: int | None = None, _stacklevel: Any = 3, dtype: Any = None
) -> Tensor: ...
def softplus(input: Tensor, beta: _Number = ..., threshold: _Number = ...) -> Tensor: ...
def softshrink(input: Tensor, lambd: _Number = ...) -> Tensor: ...
def softsign(input: Tensor) -> Tensor: ...
def tanh(input: Tensor) -> Tensor: ...
def tanhshrink(input: Tensor) -> Tensor: ...
def threshold(
    input: Tensor, threshold: _Number, value: _Number, inplace: bool = False
) -> Tensor: ...
def threshold_(*args: Any, **kwargs: Any) -> Tensor: ...
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: Any = 1.0,
    p: float = 2,
    eps: float = 1e-06,
    swap: Any = False,
    size_average: Any = None,
    reduce: Any = None,
    reduction: Any = "mean",
) -> Tensor: ...
def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Any = None,
    margin: Any = 1.0,
    swap: Any = False,
    reduction: Any = "mean",
) -> Tensor: ...
def unfold(
    input: Tensor, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Tensor: ...
def upsample(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: Any = "nearest",
    align_corners: Any = None,
) -> Tensor: ...
def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor: ...
def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor: ...
def __getattr__(name: str) -> Any: ...
