"""Ops of aten whose arguments or results differ from those of the function here.

Functions take arguments as schemas have them. Most ops need none of this: their function takes the
same arguments in the same order.
"""

from collections.abc import Callable
from typing import Any

import flambeau
from flambeau._tensor import Tensor
from flambeau.aten.schemas import schemas_of
from flambeau.nn import functional as F

_REDUCTIONS = ("none", "mean", "sum")
FUNCTIONS: dict[str, Callable] = {}


def op(*names: str) -> Callable[[Callable], Callable]:
    """The function of ops of these names, with or without an overload."""

    def register(function: Callable) -> Callable:
        FUNCTIONS.update(dict.fromkeys(names, function))
        return function

    return register


# -- losses: a number for the reduction ------------------------------------------------------------


def _loss(function: Callable, before: int, keyword: str = "reduction") -> Callable:
    """A loss that is given its reduction as a number, after so many arguments."""

    def run(*args, **kwargs):
        given = list(args[:before])
        named = dict(kwargs)
        rest = args[before:]
        names = _AFTER.get(function.__name__, ())
        named.update(zip((keyword, *names), rest))
        value = named.get(keyword, 1)
        named[keyword] = value if isinstance(value, str) else _REDUCTIONS[value]
        return function(*given, **named)

    return run


_AFTER = {
    "nll_loss": ("ignore_index",),
    "cross_entropy": ("ignore_index", "label_smoothing"),
    "huber_loss": ("delta",),
    "smooth_l1_loss": ("beta",),
}
for _name, _before in {"mse_loss": 2, "l1_loss": 2, "soft_margin_loss": 2, "huber_loss": 2,
                       "smooth_l1_loss": 2, "multilabel_margin_loss": 2}.items():  # fmt: skip
    FUNCTIONS[_name] = _loss(getattr(F, _name), _before)
FUNCTIONS["kl_div"] = _loss(F.kl_div, 2)


def _weighted(function):
    """A loss with a weight between target and reduction."""
    inner = _loss(function, 2)

    def run(input, target, weight=None, *args, **kwargs):
        return inner(input, target, *args, weight=weight, **kwargs)

    return run


for _name in ("nll_loss", "binary_cross_entropy"):
    FUNCTIONS[_name] = _weighted(getattr(F, _name))
FUNCTIONS["nll_loss_nd"] = FUNCTIONS["nll_loss2d"] = FUNCTIONS["nll_loss"]
FUNCTIONS["cross_entropy_loss"] = _weighted(F.cross_entropy)


def _mean_unless_told(name: str) -> Callable:
    """A loss whose function here does not reduce by default, while the op takes the mean."""
    place = [a.name for a in schemas_of(name)["default"].arguments].index("reduction")

    def run(*args, **kwargs):
        if len(args) <= place:
            kwargs.setdefault("reduction", 1)
        return getattr(flambeau, name)(*args, **kwargs)

    return run


for _name in ("hinge_embedding", "margin_ranking", "cosine_embedding", "triplet_margin"):
    FUNCTIONS[_name + "_loss"] = _mean_unless_told(_name + "_loss")


@op("binary_cross_entropy_with_logits")
def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Any = None, pos_weight: Any = None, reduction: int = 1
) -> Tensor:
    return F.binary_cross_entropy_with_logits(
        input, target, weight, reduction=_REDUCTIONS[reduction], pos_weight=pos_weight
    )


@op("nll_loss_forward", "nll_loss2d_forward")
def nll_loss_forward(
    input: Tensor, target: Tensor, weight: Any, reduction: int, ignore_index: int
) -> tuple[Tensor, Tensor]:
    loss = F.nll_loss(
        input, target, weight, ignore_index=ignore_index, reduction=_REDUCTIONS[reduction]
    )
    kept = target.ne(ignore_index)
    chosen = kept.to(input.dtype) if weight is None else weight[target.clamp(min=0)] * kept
    total = chosen.sum() if reduction else input.new_zeros(())
    return loss, total


# -- pools and bags that also give positions -------------------------------------------------------


def _with_indices(function):
    def run(input, *args, **kwargs):
        return function(input, *args, **kwargs, return_indices=True)

    return run


for _n in (1, 2, 3):
    FUNCTIONS[f"adaptive_max_pool{_n}d"] = _with_indices(getattr(F, f"adaptive_max_pool{_n}d"))


def _pool_with_indices(function):
    def run(input, kernel_size, stride=(), padding=0, dilation=1, ceil_mode=False):
        return function(
            input, kernel_size, stride or None, padding, dilation, ceil_mode, return_indices=True
        )

    return run


for _n in (1, 2, 3):
    FUNCTIONS[f"max_pool{_n}d_with_indices"] = _pool_with_indices(getattr(F, f"max_pool{_n}d"))


def _pool(function):
    def run(input, kernel_size, stride=(), *args, **kwargs):
        return function(input, kernel_size, stride or None, *args, **kwargs)

    return run


for _name in "max_pool1d max_pool2d max_pool3d avg_pool1d avg_pool2d avg_pool3d".split():
    FUNCTIONS[_name] = _pool(getattr(F, _name))


@op("embedding_bag", "_embedding_bag", "_embedding_bag_forward_only")
def embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    padding = None if padding_idx is None or padding_idx < 0 else padding_idx
    result = F.embedding_bag(
        indices, weight, offsets, mode=("sum", "mean", "max")[mode],
        per_sample_weights=per_sample_weights, include_last_offset=include_last_offset,
        padding_idx=padding,
    )  # fmt: skip
    starts = offsets[:-1] if include_last_offset else offsets
    places = flambeau.arange(indices.numel())
    bags = flambeau.searchsorted(starts, places, right=True) - 1
    ends = flambeau.cat([starts[1:], starts.new_full((1,), indices.numel())])
    return result, bags, ends - starts, starts.new_zeros(starts.shape)


# -- normalisations --------------------------------------------------------------------------------


def _moments(input, dims):
    mean = input.mean(dims)
    return mean, input.var(dims, unbiased=False)


def _normalised(input, weight, bias, running_mean, running_var, training, momentum, eps):
    """(result, mean, 1/deviation) without writing to what runs."""
    if training:
        dims = [d for d in range(input.ndim) if d != 1]
        mean, var = _moments(input.detach(), dims)
        result = F.batch_norm(input, None, None, weight, bias, True, momentum, eps)
        return result, mean, (var + eps).rsqrt()
    result = F.batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    return result, input.new_zeros(0), input.new_zeros(0)


@op("_native_batch_norm_legit_functional")
def batch_norm_functional(
    input: Tensor, weight: Any, bias: Any, running_mean: Tensor, running_var: Tensor,
    training: bool, momentum: float, eps: float,
) -> tuple[Tensor, ...]:  # fmt: skip
    mean, var = running_mean.clone(), running_var.clone()
    stats = _normalised(input, weight, bias, mean, var, training, momentum, eps)
    F.batch_norm(input, mean, var, weight, bias, training, momentum, eps)
    return (*stats, mean, var)


@op("_native_batch_norm_legit")
def batch_norm_legit(
    input: Tensor, weight: Any, bias: Any, running_mean: Tensor, running_var: Tensor,
    training: bool, momentum: float, eps: float,
) -> tuple[Tensor, ...]:  # fmt: skip
    stats = _normalised(input, weight, bias, running_mean, running_var, training, momentum, eps)
    if training:
        F.batch_norm(input, running_mean, running_var, weight, bias, True, momentum, eps)
    return stats


@op("_native_batch_norm_legit.no_stats")
def batch_norm_no_stats(
    input: Tensor, weight: Any, bias: Any, training: bool, momentum: float, eps: float
) -> tuple[Tensor, ...]:
    return _normalised(input, weight, bias, None, None, True, momentum, eps)


@op("_native_batch_norm_legit_no_training")
def batch_norm_no_training(
    input: Tensor, weight: Any, bias: Any, running_mean: Tensor, running_var: Tensor,
    momentum: float, eps: float,
) -> tuple[Tensor, ...]:  # fmt: skip
    return _normalised(input, weight, bias, running_mean, running_var, False, momentum, eps)


# -- attention -------------------------------------------------------------------------------------


@op("_scaled_dot_product_flash_attention_for_cpu")
def flash_attention(
    query: Tensor, key: Tensor, value: Tensor, dropout_p: float = 0.0, is_causal: bool = False,
    *, attn_mask: Tensor | None = None, scale: float | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    result = F.scaled_dot_product_attention(
        query, key, value, attn_mask, dropout_p, is_causal, scale=scale
    )
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    scores = query @ key.transpose(-2, -1) * factor
    if is_causal:
        seen = flambeau.ones(scores.shape[-2:], dtype=flambeau.bool, device=query.device).tril()
        scores = scores.masked_fill(~seen, float("-inf"))
    if attn_mask is not None:
        scores = scores + attn_mask
    return result, scores.logsumexp(-1)


@op("_safe_softmax")
def safe_softmax(self: Tensor, dim: int, dtype: Any = None) -> Tensor:
    blocked = self.eq(float("-inf")).all(dim, keepdim=True)
    result = flambeau.softmax(self.masked_fill(blocked, 0.0), dim, dtype=dtype)
    return result.masked_fill(blocked, 0.0)


# -- sizes and values ------------------------------------------------------------------------------


@op("sym_size")
def sym_size(self: Tensor, dim: int) -> Any:
    return self.shape[dim]


@op("sym_stride")
def sym_stride(self: Tensor, dim: int) -> Any:
    return self.stride(dim)


@op("sym_numel")
def sym_numel(self: Tensor) -> Any:
    return self.numel()


@op("item", "_local_scalar_dense")
def item(self: Tensor) -> Any:
    return self.item()


@op("_assert_tensor_metadata")
def assert_metadata(
    a: Tensor, size: Any = None, stride: Any = None, dtype: Any = None, *, device: Any = None,
    layout: Any = None,
) -> None:  # fmt: skip
    if dtype is not None and a.dtype != dtype:
        raise RuntimeError(f"Tensor dtype mismatch! Expected: {dtype}, Got: {a.dtype}")


@op("_assert_scalar")
def assert_scalar(self: Any, assert_msg: str) -> None:
    if not self:
        raise RuntimeError(assert_msg)


@op("_assert_async")
def assert_async(
    self: Tensor, assert_msg: str = "Expected Tensor with single nonzero value"
) -> None:
    if not bool(self):
        raise RuntimeError(assert_msg)


@op("sym_constrain_range_for_size", "sym_constrain_range")
def constrain_range(size: Any, *, min: int | None = None, max: int | None = None) -> None:
    if (min is not None and size < min) or (max is not None and size > max):
        raise RuntimeError(f"Invalid value range for {size} between [{min}, {max}].")


# -- copies ----------------------------------------------------------------------------------------


@op("lift_fresh_copy", "lift_fresh")
def lift_fresh_copy(self: Tensor) -> Tensor:
    return self.clone()


@op("copy")
def copy(self: Tensor, src: Tensor, non_blocking: bool = False) -> Tensor:
    return src.to(self.dtype).expand(self.shape).clone()


@op("fill")
def fill(self: Tensor, value: Any) -> Tensor:
    if isinstance(value, Tensor):
        return copy(self, value)
    return flambeau.full_like(self, value)


@op("zero")
def zero(self: Tensor) -> Tensor:
    return flambeau.zeros_like(self)


@op("resize")
def resize(self: Tensor, size: Any, *, memory_format: Any = None) -> Tensor:
    return self.clone().resize_(size)


@op("unfold_backward")
def unfold_backward(grad_in: Tensor, input_sizes: Any, dim: int, size: int, step: int) -> Tensor:
    """Elements of windows, added where they were taken from."""
    zeros = grad_in.new_zeros(input_sizes)
    places = flambeau.arange(zeros.numel()).view(input_sizes).unfold(dim, size, step)
    return zeros.view(-1).index_add(0, places.reshape(-1), grad_in.reshape(-1)).view(input_sizes)


def _drawn(write: str) -> Callable:
    """Random numbers of the kind that a method writes, in a tensor like another."""
    return lambda self, *args, **kwargs: getattr(self.clone(), write)(*args, **kwargs)


FUNCTIONS["bernoulli.p"] = FUNCTIONS["bernoulli.Tensor"] = _drawn("bernoulli_")
FUNCTIONS["normal_functional"] = _drawn("normal_")
for _name in "cauchy exponential geometric log_normal random uniform".split():
    FUNCTIONS[_name] = _drawn(_name + "_")
FUNCTIONS["split_copy"] = lambda self, *args: [part.clone() for part in self.split(*args)]
FUNCTIONS["detach_copy"] = lambda self: self.detach().clone()


@op("_to_copy")
def to_copy(
    self: Tensor, *, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: Any = None, non_blocking: bool = False, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    return self.to(device or self.device, dtype or self.dtype, copy=True)


@op("to")
def to(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    kwargs.pop("layout", None)
    kwargs.pop("pin_memory", None)
    return self.to(*args, **{k: v for k, v in kwargs.items() if v is not None})


@op("_unsafe_view")
def unsafe_view(self: Tensor, size: Any) -> Tensor:
    return self.view(size)


@op("numpy_T")
def numpy_t(self: Tensor) -> Tensor:
    return self.T


@op("mT")
def matrix_t(self: Tensor) -> Tensor:
    return self.mT


@op("matrix_H")
def matrix_h(self: Tensor) -> Tensor:
    return self.mH


# -- the rest --------------------------------------------------------------------------------------


@op("scatter.value", "scatter_.value")
def scatter_value(self: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    return self.scatter(dim, index, value)


FUNCTIONS["scatter_.value"] = lambda self, dim, index, value: self.scatter_(dim, index, value)


@op("log_sigmoid")
def log_sigmoid(self: Tensor) -> Tensor:
    return F.logsigmoid(self)


@op("log_sigmoid_forward")
def log_sigmoid_forward(self: Tensor) -> tuple[Tensor, Tensor]:
    return F.logsigmoid(self), self.new_zeros(0)


@op("_prelu_kernel")
def prelu_kernel(self: Tensor, weight: Tensor) -> Tensor:
    return flambeau.where(self > 0, self, weight * self)


@op("im2col")
def im2col(self: Tensor, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Tensor:
    return F.unfold(self, kernel_size, dilation, padding, stride)


@op("col2im")
def col2im(
    self: Tensor, output_size: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any
) -> Tensor:
    return F.fold(self, output_size, kernel_size, dilation, padding, stride)


@op("split_with_sizes")
def split_with_sizes(self: Tensor, split_sizes: Any, dim: int = 0) -> Any:
    return self.split(list(split_sizes), dim)


@op("einsum")
def einsum(equation: str, tensors: Any, *, path: Any = None) -> Tensor:
    return flambeau.einsum(equation, *tensors)


@op("broadcast_tensors")
def broadcast_tensors(tensors: Any) -> Any:
    return flambeau.broadcast_tensors(*tensors)


@op("meshgrid")
def meshgrid(tensors: Any, indexing: str = "ij") -> Any:
    return flambeau.meshgrid(*tensors, indexing=indexing)


@op("block_diag")
def block_diag(tensors: Any) -> Tensor:
    return flambeau.block_diag(*tensors)


@op("cartesian_prod")
def cartesian_prod(tensors: Any) -> Tensor:
    return flambeau.cartesian_prod(*tensors)


@op("_cdist_forward")
def cdist_forward(x1: Tensor, x2: Tensor, p: float, compute_mode: int | None) -> Tensor:
    return flambeau.cdist(x1, x2, p, "donot_use_mm_for_euclid_dist")


@op("cdist")
def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: int | None = None) -> Tensor:
    return flambeau.cdist(x1, x2, p)


@op("lstm", "lstm.input", "lstm.data")
def lstm(*args: Any) -> Any:
    return flambeau.lstm(*args)


def _upsampled(mode):
    """Upsampling by sizes or by factors."""

    def run(input, output_size=None, *rest, scale_factors=None, **kwargs):
        rest = list(rest)
        aligned = None
        if mode not in ("nearest", "nearest-exact"):
            aligned = rest.pop(0) if rest else kwargs.get("align_corners", False)
        if rest and isinstance(rest[0], (list, tuple)):
            scale_factors = rest[0]
        if output_size is not None:
            return F.interpolate(input, size=list(output_size), mode=mode, align_corners=aligned)
        return F.interpolate(
            input, scale_factor=list(scale_factors), mode=mode, align_corners=aligned
        )

    return run


for _mode, _names in {
    "nearest": "upsample_nearest1d upsample_nearest2d upsample_nearest3d",
    "nearest-exact": "_upsample_nearest_exact1d _upsample_nearest_exact2d "
                     "_upsample_nearest_exact3d",
    "linear": "upsample_linear1d",
    "bilinear": "upsample_bilinear2d",
    "bicubic": "upsample_bicubic2d",
    "trilinear": "upsample_trilinear3d",
}.items():  # fmt: skip
    for _name in _names.split():
        FUNCTIONS[_name] = _upsampled(_mode)


@op("unique_consecutive")
def unique_consecutive(
    self: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    found = flambeau.unique_consecutive(self, return_inverse=True, return_counts=True, dim=dim)
    empty = self.new_zeros(0, dtype=flambeau.int64)
    return found[0], found[1] if return_inverse else empty, found[2] if return_counts else empty


@op("tensordot")
def tensordot(self: Tensor, other: Tensor, dims_self: Any, dims_other: Any) -> Tensor:
    return flambeau.tensordot(self, other, (list(dims_self), list(dims_other)))


@op("chain_matmul")
def chain_matmul(matrices: Any) -> Tensor:
    return flambeau.chain_matmul(*matrices)


@op("grid_sampler", "grid_sampler_2d", "grid_sampler_3d")
def grid_sampler(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    mode = ("bilinear", "nearest", "bicubic")[interpolation_mode]
    padding = ("zeros", "border", "reflection")[padding_mode]
    return F.grid_sample(input, grid, mode, padding, align_corners)


@op("_trilinear")
def trilinear(
    i1: Tensor, i2: Tensor, i3: Tensor, expand1: Any, expand2: Any, expand3: Any, sumdim: Any,
    unroll_dim: int = 1,
) -> Tensor:  # fmt: skip
    for tensor_dims in (expand1,):
        for dim in tensor_dims:
            i1 = i1.unsqueeze(dim)
    for dim in expand2:
        i2 = i2.unsqueeze(dim)
    for dim in expand3:
        i3 = i3.unsqueeze(dim)
    return (i1 * i2 * i3).sum(list(sumdim))


@op("elu")
def elu(self: Tensor, alpha: Any = 1, scale: Any = 1, input_scale: Any = 1) -> Tensor:
    if scale == 1 and input_scale == 1:
        return F.elu(self, alpha)
    below = flambeau.expm1(self * input_scale) * (alpha * scale)
    return flambeau.where(self > 0, self * scale, below)


@op("elu_")
def elu_(self: Tensor, alpha: Any = 1, scale: Any = 1, input_scale: Any = 1) -> Tensor:
    return self.copy_(elu(self, alpha, scale, input_scale))


@op("_adaptive_avg_pool2d")
def adaptive_avg_pool2d(self: Tensor, output_size: Any) -> Tensor:
    return F.adaptive_avg_pool2d(self, tuple(output_size))


@op("_adaptive_avg_pool3d")
def adaptive_avg_pool3d(self: Tensor, output_size: Any) -> Tensor:
    return F.adaptive_avg_pool3d(self, tuple(output_size))


@op("constant_pad_nd")
def constant_pad_nd(self: Tensor, pad: Any, value: Any = 0) -> Tensor:
    return F.pad(self, tuple(pad), value=value)


def _padding(mode):
    return lambda self, padding: F.pad(self, tuple(padding), mode=mode)


for _n in (1, 2, 3):
    FUNCTIONS[f"reflection_pad{_n}d"] = _padding("reflect")
    FUNCTIONS[f"replication_pad{_n}d"] = _padding("replicate")


@op("empty_permuted")
def empty_permuted(size: Any, physical_layout: Any, **options: Any) -> Tensor:
    order = list(physical_layout)
    back = [order.index(k) for k in range(len(order))]
    return flambeau.empty([size[k] for k in order], **options).permute(back)


@op("_linalg_check_errors")
def check_errors(info: Tensor, api_name: str, *, is_matrix: bool) -> None:
    if info.any():
        raise RuntimeError(
            f"{api_name}: the input is not what it must be (error {int(info.max())})"
        )
