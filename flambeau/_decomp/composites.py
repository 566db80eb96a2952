"""Ops that PyTorch's dispatcher makes of others, made of the same ones."""

import math
from typing import Any

import flambeau
from flambeau._decomp.composite_views import can_view
from flambeau._decomp.registry import composite
from flambeau._tensor import Tensor
from flambeau.aten.overloads import namespace

aten: Any = namespace("aten")

# -- products --------------------------------------------------------------------------------------


@composite("linear")
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    if bias is not None and input.ndim == 3 and input.is_contiguous():
        shape = input.shape
        flat = aten.view.default(input, [shape[0] * shape[1], shape[2]])
        result = aten.addmm.default(bias, flat, aten.t.default(weight))
        return aten.view.default(result, [shape[0], shape[1], weight.shape[0]])
    turned = aten.t.default(weight)
    if input.ndim == 2 and bias is not None:
        return aten.addmm.default(bias, input, turned)
    result = aten.matmul.default(input, turned)
    return result if bias is None else aten.add.Tensor(result, bias)


@composite("matmul")
def matmul(self: Tensor, other: Tensor) -> Tensor:
    a, b = self.ndim, other.ndim
    if (a, b) == (1, 1):
        return aten.dot.default(self, other)
    if (a, b) == (2, 1):
        return aten.mv.default(self, other)
    if (a, b) == (1, 2):
        row = aten.mm.default(aten.unsqueeze.default(self, 0), other)
        return aten.squeeze_.dim(row, 0)
    if (a, b) == (2, 2):
        return aten.mm.default(self, other)
    if a >= 3 and b in (1, 2):
        return _folded(self, other)
    if b >= 3 and a in (1, 2):
        swapped = aten.transpose.int(other, -1, -2) if b > 1 else other
        first = aten.t.default(self) if a == 2 else self
        result = _folded(swapped, first)
        return aten.transpose.int(result, -1, -2) if a == 2 else result
    return _batched(self, other)


def _folded(many, few):
    """Matrices that are all multiplied with the same one."""
    shape = list(many.shape)
    rows = math.prod(shape[:-1])
    flat = _unsafe_reshape(many, [rows, shape[-1]])
    if few.ndim == 1:
        return aten._unsafe_view.default(aten.mv.default(flat, few), shape[:-1])
    result = aten.mm.default(flat, few)
    return aten._unsafe_view.default(result, [*shape[:-1], few.shape[1]])


def _unsafe_reshape(x, shape):
    """A view where there is one, else a view of a copy."""
    if can_view(x, shape):
        return aten.view.default(x, shape)
    copied = aten.clone.default(x, memory_format=flambeau.contiguous_format)
    return aten._unsafe_view.default(copied, shape)


def _batched(a, b):
    batch = broadcast([a.shape[:-2], b.shape[:-2]])
    count = math.prod(batch)
    left = aten.expand.default(a, [*batch, a.shape[-2], a.shape[-1]])
    left = _unsafe_reshape(left, [count, a.shape[-2], a.shape[-1]])
    right = aten.expand.default(b, [*batch, b.shape[-2], b.shape[-1]])
    right = _unsafe_reshape(right, [count, b.shape[-2], b.shape[-1]])
    result = aten.bmm.default(left, right)
    return aten._unsafe_view.default(result, [*batch, a.shape[-2], b.shape[-1]])


def broadcast(shapes: list) -> list:
    """The shape that all are stretched to; sizes may be symbols."""
    found: list = [1] * max(map(len, shapes))
    for shape in shapes:
        for k in range(1, len(shape) + 1):
            if type(shape[-k]) is not int or shape[-k] != 1:
                found[-k] = shape[-k]
    return found


@composite("outer", "ger")
def outer(self: Tensor, vec2: Tensor) -> Tensor:
    return aten.mul.Tensor(aten.view.default(self, [self.shape[0], 1]), vec2)


@composite("kron")
def kron(self: Tensor, other: Tensor) -> Tensor:
    n = max(self.ndim, other.ndim)
    a = [1] * (n - self.ndim) + list(self.shape)
    b = [1] * (n - other.ndim) + list(other.shape)
    left = [size for s in a for size in (s, 1)]
    right = [size for s in b for size in (1, s)]
    product = aten.mul.Tensor(aten.reshape.default(self, left), aten.reshape.default(other, right))
    return aten._unsafe_view.default(product, [s * t for s, t in zip(a, b)])


@composite("einsum")
def einsum(equation: str, tensors: Any, *, path: Any = None) -> Tensor:
    from flambeau._decomp.sums import einsum_of

    return einsum_of(equation, list(tensors))


# -- convolutions ----------------------------------------------------------------------------------


def _convolution(n):
    def conv(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
        lists = [_many(v, n) for v in (stride, padding, dilation)]
        return aten.convolution.default(
            input, weight, bias, *lists, False, [0] * n, groups
        )  # fmt: skip

    return conv


def _transposed(n):
    def conv(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
        stride, padding, dilation = (_many(v, n) for v in (stride, padding, dilation))
        return aten.convolution.default(
            input, weight, bias, stride, padding, dilation, True, _many(output_padding, n), groups
        )

    return conv


def _padded(n):
    def conv(input, weight, bias=None, stride=1, padding="valid", dilation=1, groups=1):
        dilation = _many(dilation, n)
        if padding == "valid":
            sides = [0] * n
        else:
            spans = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:])]
            sides = [span // 2 for span in spans]
            if any(span % 2 for span in spans):
                more = [(span % 2) for span in spans]
                input = aten.constant_pad_nd.default(
                    input, [p for m in reversed(more) for p in (0, m)]
                )
        return aten.convolution.default(
            input, weight, bias, _many(stride, n), sides, dilation, False, [0] * n, groups
        )

    return conv


def _many(value, n):
    items = list(value) if isinstance(value, (list, tuple)) else [value]
    return items * n if len(items) == 1 else items


for _n in (1, 2, 3):
    composite(f"conv{_n}d")(_convolution(_n))
    composite(f"conv{_n}d.padding")(_padded(_n))
    composite(f"conv_transpose{_n}d" + (".input" if _n > 1 else ""))(_transposed(_n))

# -- normalisations, dropout -----------------------------------------------------------------------


@composite("layer_norm")
def layer_norm(
    input: Tensor, normalized_shape: Any, weight: Any = None, bias: Any = None,
    eps: float = 1e-5, cudnn_enable: bool = True,
) -> Tensor:  # fmt: skip
    return aten.native_layer_norm.default(input, list(normalized_shape), weight, bias, eps)[0]


@composite("group_norm")
def group_norm(
    input: Tensor, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Tensor:  # fmt: skip
    n, c = input.shape[0], input.shape[1]
    rest = math.prod(input.shape[2:])
    if not input.is_contiguous():
        input = aten.clone.default(input, memory_format=flambeau.contiguous_format)
    return aten.native_group_norm.default(input, weight, bias, n, c, rest, num_groups, eps)[0]


@composite("instance_norm")
def instance_norm(
    input: Tensor, weight: Any, bias: Any, running_mean: Any, running_var: Any,
    use_input_stats: bool, momentum: float, eps: float, cudnn_enabled: bool,
) -> Tensor:  # fmt: skip
    n, c = input.shape[0], input.shape[1]
    repeated = [
        None if t is None else aten.repeat.default(t, [n])
        for t in (weight, bias, running_mean, running_var)
    ]
    flat = aten.view.default(input, [1, n * c, *input.shape[2:]])
    result = aten.batch_norm.default(flat, *repeated, use_input_stats, momentum, eps, cudnn_enabled)
    return aten.view.default(result, list(input.shape))


@composite("rms_norm")
def rms_norm(input: Tensor, normalized_shape: Any, weight: Any = None, eps: Any = None) -> Tensor:
    dims = list(range(input.ndim - len(normalized_shape), input.ndim))
    small = flambeau.finfo(input.dtype).eps if eps is None else eps
    squares = aten.mean.dim(aten.pow.Tensor_Scalar(input, 2), dims, True)
    factor = aten.rsqrt.default(aten.add_.Scalar(squares, small))
    result = aten.mul.Tensor(input, factor)
    return result if weight is None else aten.mul.Tensor(result, weight)


@composite("batch_norm")
def batch_norm(
    input: Tensor, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool,
    momentum: float, eps: float, cudnn_enabled: bool,
) -> Tensor:  # fmt: skip
    aten.empty.memory_format(
        [0], dtype=flambeau.uint8, layout=flambeau.strided, device=input.device
    )
    return aten.native_batch_norm.default(
        input, weight, bias, running_mean, running_var, training, momentum, eps
    )[0]


@composite("dropout")
def dropout(input: Tensor, p: float, train: bool) -> Tensor:
    if not train or p == 0:
        return input
    if p == 1:
        return aten.mul.Tensor(input, aten.zeros.default([], dtype=input.dtype))
    noise = aten.bernoulli_.float(aten.empty_like.default(input), 1 - p)
    return aten.mul.Tensor(input, aten.div_.Scalar(noise, 1 - p))


@composite("dropout_")
def dropout_(self: Tensor, p: float, train: bool) -> Tensor:
    if not train or p == 0:
        return self
    noise = aten.bernoulli_.float(aten.empty_like.default(self), 1 - p)
    return aten.mul_.Tensor(self, aten.div_.Scalar(noise, 1 - p))


@composite("feature_dropout")
def feature_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    if not train or p == 0:
        return input
    shape = [*input.shape[:2], *[1] * (input.ndim - 2)]
    noise = aten.bernoulli_.float(aten.new_empty.default(input, shape), 1 - p)
    return aten.mul.Tensor(input, aten.div_.Scalar(noise, 1 - p))


# -- softmax, activations --------------------------------------------------------------------------


@composite("softmax.int")
def softmax(self: Tensor, dim: int, dtype: Any = None) -> Tensor:
    if dtype is not None and dtype != self.dtype:
        self = aten._to_copy.default(self, dtype=dtype)
    return aten._softmax.default(self, dim, False)


@composite("log_softmax.int")
def log_softmax(self: Tensor, dim: int, dtype: Any = None) -> Tensor:
    if dtype is not None and dtype != self.dtype:
        self = aten._to_copy.default(self, dtype=dtype)
    return aten._log_softmax.default(self, dim, False)


@composite("selu")
def selu(self: Tensor) -> Tensor:
    return aten.elu.default(self, 1.6732632423543772, 1.0507009873554805)


@composite("selu_")
def selu_(self: Tensor) -> Tensor:
    return aten.elu_.default(self, 1.6732632423543772, 1.0507009873554805)


@composite("relu6")
def relu6(self: Tensor) -> Tensor:
    return aten.hardtanh.default(self, 0, 6)


@composite("relu6_")
def relu6_(self: Tensor) -> Tensor:
    return aten.hardtanh_.default(self, 0, 6)


@composite("log_sigmoid")
def log_sigmoid(self: Tensor) -> Tensor:
    return aten.log_sigmoid_forward.default(self)[0]


@composite("prelu")
def prelu(self: Tensor, weight: Tensor) -> Tensor:
    shape = [1, weight.numel(), *[1] * (self.ndim - 2)] if self.ndim > 1 else [weight.numel()]
    if list(weight.shape) != shape:
        weight = aten.view.default(weight, shape)
    return aten._prelu_kernel.default(self, weight)


@composite("square")
def square(self: Tensor) -> Tensor:
    return aten.pow.Tensor_Scalar(self, 2)


# -- losses ----------------------------------------------------------------------------------------


@composite("cross_entropy_loss")
def cross_entropy_loss(
    self: Tensor, target: Tensor, weight: Any = None, reduction: int = 1, ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Tensor:  # fmt: skip
    dim = 1 if self.ndim > 1 else 0
    if target.is_floating_point() or label_smoothing:
        return flambeau.nn.functional.cross_entropy(
            self, target, weight, ignore_index=ignore_index, label_smoothing=label_smoothing,
            reduction=("none", "mean", "sum")[reduction],
        )  # fmt: skip
    logs = log_softmax(self, dim)
    return nll_loss_nd(logs, target, weight, reduction, ignore_index)


@composite("nll_loss_nd")
def nll_loss_nd(
    self: Tensor, target: Tensor, weight: Any = None, reduction: int = 1, ignore_index: int = -100
) -> Tensor:
    if self.ndim in (1, 2):
        forward = aten.nll_loss_forward.default
        return forward(self, target, weight, reduction, ignore_index)[0]
    if self.ndim == 4:
        forward = aten.nll_loss2d_forward.default
        return forward(self, target, weight, reduction, ignore_index)[0]
    shape = list(self.shape)
    flat = aten.view.default(self, [shape[0], shape[1], 1, -1])
    result = aten.nll_loss2d_forward.default(
        flat, aten.view.default(target, [shape[0], 1, -1]), weight, reduction, ignore_index
    )[0]
    return aten.view.default(result, [shape[0], *shape[2:]]) if reduction == 0 else result


def _reduced(loss, reduction):
    if reduction == 1:
        return aten.mean.default(loss)
    return aten.sum.default(loss) if reduction == 2 else loss


@composite("l1_loss")
def l1_loss(self: Tensor, target: Tensor, reduction: int = 1) -> Tensor:
    return _reduced(aten.abs.default(aten.sub.Tensor(self, target)), reduction)


@composite("kl_div")
def kl_div(self: Tensor, target: Tensor, reduction: int = 1, *, log_target: bool = False) -> Tensor:
    if log_target:
        loss = aten.mul.Tensor(aten.exp.default(target), aten.sub.Tensor(target, self))
        return _reduced(loss, reduction)
    product = aten.mul.Tensor(target, self)
    return _reduced(aten.sub.Tensor(aten.xlogy.Tensor(target, target), product), reduction)


@composite("broadcast_tensors")
def broadcast_tensors(tensors: Any) -> list[Tensor]:
    shape = broadcast([t.shape for t in tensors])
    return [
        t if list(t.shape) == shape else aten.expand.default(t, shape) for t in tensors
    ]  # fmt: skip


# -- the rest --------------------------------------------------------------------------------------


@composite("to.dtype")
def to_dtype(
    self: Tensor, dtype: Any, non_blocking: bool = False, copy: bool = False,
    memory_format: Any = None,
) -> Tensor:  # fmt: skip
    if dtype == self.dtype and not copy:
        return self
    return aten._to_copy.default(self, dtype=dtype)


@composite("to.other", "type_as")
def to_other(self: Tensor, other: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    return to_dtype(self, other.dtype)


@composite("__and__.Tensor")
def and_(self: Tensor, other: Tensor) -> Tensor:
    return aten.bitwise_and.Tensor(self, other)


@composite("__or__.Tensor")
def or_(self: Tensor, other: Tensor) -> Tensor:
    return aten.bitwise_or.Tensor(self, other)


@composite("__xor__.Tensor")
def xor_(self: Tensor, other: Tensor) -> Tensor:
    return aten.bitwise_xor.Tensor(self, other)


@composite("where.ScalarOther")
def where_scalar_other(condition: Tensor, self: Tensor, other: Any) -> Tensor:
    return aten.where.self(condition, self, _scalar(other, self))


@composite("where.ScalarSelf")
def where_scalar_self(condition: Tensor, self: Any, other: Tensor) -> Tensor:
    return aten.where.self(condition, _scalar(self, other), other)


def _scalar(value, like):
    whole = not like.is_floating_point() and isinstance(value, float)
    dtype = flambeau.get_default_dtype() if whole else like.dtype
    return aten.scalar_tensor.default(
        value, dtype=dtype, layout=flambeau.strided, device=like.device
    )


@composite("var.dim")
def var_dim(self: Tensor, dim: Any, unbiased: bool = True, keepdim: bool = False) -> Tensor:
    return aten.var.correction(self, dim, correction=int(unbiased), keepdim=keepdim)


@composite("std.dim")
def std_dim(self: Tensor, dim: Any, unbiased: bool = True, keepdim: bool = False) -> Tensor:
    return aten.std.correction(self, dim, correction=int(unbiased), keepdim=keepdim)


@composite("max.other")
def max_other(self: Tensor, other: Tensor) -> Tensor:
    return aten.maximum.default(self, other)


@composite("min.other")
def min_other(self: Tensor, other: Tensor) -> Tensor:
    return aten.minimum.default(self, other)


@composite("argsort")
def argsort(self: Tensor, dim: int = -1, descending: bool = False) -> Tensor:
    return aten.sort.default(self, dim, descending)[1]


@composite("isfinite")
def isfinite(self: Tensor) -> Tensor:
    finite = aten.ne.Scalar(aten.abs.default(self), float("inf"))
    return aten.mul.Tensor(aten.eq.Tensor(self, self), finite)


@composite("isclose")
def isclose(
    self: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Tensor:
    close = aten.eq.Tensor(self, other)
    if equal_nan:
        both = aten.__and__.Tensor(aten.isnan.default(self), aten.isnan.default(other))
        close = aten.__or__.Tensor(close, both)
    allowed = aten.add.Scalar(aten.abs.default(aten.mul.Scalar(other, rtol)), atol)
    distance = aten.abs.default(aten.sub.Tensor(self, other))
    near = aten.bitwise_and_.Tensor(isfinite(distance), aten.le.Tensor(distance, allowed))
    return aten.bitwise_or_.Tensor(close, near)


@composite("bilinear")
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Any = None) -> Tensor:
    first = aten.view.default(input1, [-1, input1.shape[-1]])
    second = aten.view.default(input2, [-1, input2.shape[-1]])
    result = aten._trilinear.default(first, weight, second, [1, 3], [0], [1, 2], [2, 3])
    result = aten.view.default(result, [*input1.shape[:-1], weight.shape[0]])
    return result if bias is None else aten.add.Tensor(result, bias)


@composite("cosine_similarity")
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    norms = [
        aten.clone.default(aten.linalg_vector_norm.default(x, 2, [dim], True)) for x in (x1, x2)
    ]
    least = aten.scalar_tensor.default(eps, dtype=x1.dtype, device=x1.device)
    first, second = (aten.clamp.Tensor(n, least) for n in norms)
    right = aten.div.Tensor(x2, second)
    return aten.sum.dim_IntList(aten.mul.Tensor(aten.div.Tensor(x1, first), right), [dim])


@composite("pairwise_distance")
def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    apart = aten.add.Scalar(aten.sub.Tensor(x1, x2), eps)
    return aten.linalg_vector_norm.default(apart, p, [apart.ndim - 1], keepdim)


@composite("pad")
def pad(self: Tensor, pad: Any, mode: str = "constant", value: float | None = None) -> Tensor:
    pad = list(pad)
    if mode == "constant":
        return aten.constant_pad_nd.default(self, pad, 0.0 if value is None else value)
    name = {"reflect": "reflection", "replicate": "replication"}.get(mode)
    if name is None:
        return flambeau.nn.functional.pad(self, tuple(pad), mode=mode)
    return getattr(aten, f"{name}_pad{len(pad) // 2}d").default(self, pad)


def _max_pool(n):
    def pool(self, kernel_size, stride=(), padding=0, dilation=1, ceil_mode=False):
        given = [
            list(kernel_size),
            _many(stride, n) if stride else [],
            padding,
            dilation,
            ceil_mode,
        ]
        plain = [[0] * n, [1] * n, False]
        given[2:4] = [_many(padding, n), _many(dilation, n)]
        while len(given) > 2 and given[-1] == plain[len(given) - 3]:
            given.pop()
        if given[-1] == []:
            given.pop()
        return getattr(aten, f"max_pool{n}d_with_indices").default(self, *given)[0]

    return pool


for _n in (2, 3):
    composite(f"max_pool{_n}d")(_max_pool(_n))


@composite("adaptive_avg_pool2d")
def adaptive_avg_pool2d(self: Tensor, output_size: Any) -> Tensor:
    if list(output_size) == [1, 1]:
        return aten.mean.dim(self, [-1, -2], True)
    return aten._adaptive_avg_pool2d.default(self, list(output_size))


@composite("embedding_bag.padding_idx")
def embedding_bag(*args: Any) -> Any:
    given = list(args)
    if len(given) == 9 and given[-1] is None:
        given = given[:7]
    return aten._embedding_bag.default(*given)


@composite("scaled_dot_product_attention")
def scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Any = None, dropout_p: float = 0.0,
    is_causal: bool = False, *, scale: float | None = None, enable_gqa: bool = False,
) -> Tensor:  # fmt: skip
    named: dict[str, Any] = {}
    if attn_mask is not None:
        if attn_mask.dtype == flambeau.bool:
            zero = flambeau.zeros([], dtype=query.dtype, device=query.device)
            attn_mask = aten.where.self(attn_mask, zero, _scalar(float("-inf"), query))
        named["attn_mask"] = attn_mask
    if scale is not None:
        named["scale"] = scale
    options = (0.0, True) if is_causal else ()
    attention = aten._scaled_dot_product_flash_attention_for_cpu.default
    return attention(query, key, value, *options, **named)[0]


@composite("cdist")
def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: int | None = None) -> Tensor:
    return aten._cdist_forward.default(x1, x2, p, compute_mode)


@composite("grid_sampler")
def grid_sampler(input: Tensor, *args: Any) -> Tensor:
    kind = aten.grid_sampler_2d if input.ndim == 4 else aten.grid_sampler_3d
    return kind.default(input, *args)


@composite("linalg_norm")
def linalg_norm(
    self: Tensor, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    return aten.linalg_vector_norm.default(self, 2.0 if ord is None else ord, dim, keepdim)


@composite("lift_fresh")
def lift_fresh(self: Tensor) -> Tensor:
    return self


def names() -> set[str]:
    """Short names of the ops that are taken apart here."""
    from flambeau._decomp.registry import COMPOSITE

    return {str(found.overloadpacket.__name__) for found in COMPOSITE}
