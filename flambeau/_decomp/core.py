"""Ops that are taken apart on the way to core aten."""

import math
from typing import Any

import flambeau
from flambeau._decomp.composite_views import can_view
from flambeau._decomp.composites import _batched, _scalar
from flambeau._decomp.composites import matmul as whole_matmul
from flambeau._decomp.registry import become, core
from flambeau._tensor import Tensor
from flambeau.aten.overloads import namespace

aten: Any = namespace("aten")


def _full(size, value, dtype, device):
    return aten.full.default(
        size, value, dtype=dtype, layout=flambeau.strided, device=device, pin_memory=False
    )


# -- views -----------------------------------------------------------------------------------------


@core("t")
def t(self: Tensor) -> Tensor:
    return aten.permute.default(self, [1, 0]) if self.ndim == 2 else self


@core("transpose.int", "swapaxes", "swapdims")
def transpose(self: Tensor, dim0: int, dim1: int) -> Tensor:
    order = list(range(self.ndim))
    dim0, dim1 = dim0 % self.ndim, dim1 % self.ndim
    order[dim0], order[dim1] = order[dim1], order[dim0]
    return aten.permute.default(self, order)


@core("mT", "matrix_H", "adjoint")
def matrix_t(self: Tensor) -> Tensor:
    return transpose(self, -2, -1)


@core("_unsafe_view")
def unsafe_view(self: Tensor, size: Any) -> Tensor:
    return aten.view.default(self, list(size))


@core("detach")
def detach(self: Tensor) -> Tensor:
    return aten.alias.default(self)


@core("squeeze")
def squeeze(self: Tensor) -> Tensor:
    return aten.squeeze.dims(self, list(range(self.ndim)))


@core("squeeze.dim")
def squeeze_dim(self: Tensor, dim: int) -> Tensor:
    return aten.squeeze.dims(self, [dim])


@core("split.Tensor", "unsafe_split.Tensor")
def split(self: Tensor, split_size: Any, dim: int = 0) -> Any:
    size = self.shape[dim]
    full, rest = size // split_size, size % split_size
    sizes = [split_size] * int(full) + ([rest] if rest != 0 else [])
    return aten.split_with_sizes.default(self, sizes, *([dim] if dim else []))


@core("unbind.int")
def unbind(self: Tensor, dim: int = 0) -> list[Tensor]:
    count = int(self.shape[dim])
    parts = [aten.slice.Tensor(self, dim, k, k + 1) for k in range(count)]
    return [aten.squeeze.dims(part, [dim]) for part in parts]


@core("stack")
def stack(tensors: Any, dim: int = 0) -> Tensor:
    shape = list(tensors[0].shape)
    dim = dim % (len(shape) + 1)
    if dim == len(shape):
        return aten.cat.default([aten.unsqueeze.default(x, dim) for x in tensors], dim)
    joined = aten.cat.default(list(tensors), *([dim] if dim else []))
    return aten.view.default(joined, [*shape[:dim], len(tensors), *shape[dim:]])


@core("diagonal_copy")
def diagonal_copy(self: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    found = aten.diagonal.default(self, *([offset] if offset else []))
    return aten.clone.default(found, memory_format=flambeau.contiguous_format)


# -- creation --------------------------------------------------------------------------------------


@core("zeros")
def zeros(size: Any, *, dtype: Any = None, device: Any = None, **options: Any) -> Tensor:
    return _full(list(size), 0, dtype or flambeau.get_default_dtype(), device)


@core("ones")
def ones(size: Any, *, dtype: Any = None, device: Any = None, **options: Any) -> Tensor:
    return _full(list(size), 1, dtype or flambeau.get_default_dtype(), device)


def _like(value):
    def like(self, *, dtype=None, memory_format=None, **options):
        named = {} if dtype is None else {"dtype": dtype}
        kept = flambeau.preserve_format if memory_format is None else memory_format
        return aten.full_like.default(self, value, **named, pin_memory=False, memory_format=kept)

    return like


core("zeros_like")(_like(0))
core("ones_like")(_like(1))


def _new(value):
    def new(self, size, *, dtype=None, device=None, **options):
        return _full(list(size), value, dtype or self.dtype, device or self.device)

    return new


core("new_zeros")(_new(0))
core("new_ones")(_new(1))


@core("new_full")
def new_full(
    self: Tensor, size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None,
    **options: Any,
) -> Tensor:  # fmt: skip
    return _full(list(size), fill_value, dtype or self.dtype, device or self.device)


@core("arange")
def arange(end: Any, *, dtype: Any = None, device: Any = None, **options: Any) -> Tensor:
    return arange_start(0, end, dtype=dtype, device=device)


@core("arange.start")
def arange_start(
    start: Any, end: Any, *, dtype: Any = None, device: Any = None, **options: Any
) -> Tensor:
    named = {} if dtype is None else {"dtype": dtype}
    return aten.arange.start_step(
        start, end, **named, layout=flambeau.strided, device=device or flambeau.device("cpu"),
        pin_memory=False,
    )  # fmt: skip


@core("eye")
def eye(n: int, *, dtype: Any = None, device: Any = None, **options: Any) -> Tensor:
    return eye_m(n, n, dtype=dtype, device=device)


@core("eye.m")
def eye_m(n: int, m: int, *, dtype: Any = None, device: Any = None, **options: Any) -> Tensor:
    rows = arange_start(0, n, dtype=flambeau.uint8, device=device)
    columns = arange_start(0, m, dtype=flambeau.uint8, device=device)
    equal = aten.eq.Tensor(aten.unsqueeze.default(rows, -1), columns)
    return aten._to_copy.default(equal, dtype=dtype or flambeau.get_default_dtype())


@core("empty_like")
def empty_like(
    self: Tensor, *, dtype: Any = None, device: Any = None, memory_format: Any = None,
    **options: Any,
) -> Tensor:  # fmt: skip
    return aten.empty_permuted.default(
        list(self.shape), list(range(self.ndim)), dtype=dtype or self.dtype,
        layout=flambeau.strided, device=device or self.device, pin_memory=False,
    )  # fmt: skip


@core("bernoulli")
def bernoulli(self: Tensor, *, generator: Any = None) -> Tensor:
    drawn = aten.rand.default(
        list(self.shape), dtype=flambeau.float32, device=self.device, pin_memory=False
    )
    return aten._to_copy.default(aten.lt.Tensor(drawn, self), dtype=self.dtype)


@core("fill.Scalar", "fill")
def fill(self: Tensor, value: Any) -> Tensor:
    return aten.full_like.default(self, value, pin_memory=False)


@core("fill.Tensor")
def fill_tensor(self: Tensor, value: Tensor) -> Tensor:
    return aten.copy.default(self, value)


@core("zero")
def zero(self: Tensor) -> Tensor:
    return aten.full_like.default(self, 0, pin_memory=False)


@core("lift_fresh_copy")
def lift_fresh_copy(self: Tensor) -> Tensor:
    return aten.clone.default(self)


# -- arithmetic ------------------------------------------------------------------------------------


@core("rsub.Scalar")
def rsub(self: Tensor, other: Any, alpha: Any = 1) -> Tensor:
    return aten.sub.Tensor(other, self, **({} if alpha == 1 else {"alpha": alpha}))


@core("floor_divide")
def floor_divide(self: Tensor, other: Any) -> Tensor:
    return aten.div.Tensor_mode(self, other, rounding_mode="floor")


@core("addcmul")
def addcmul(self: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Any = 1) -> Tensor:
    product = aten.mul.Tensor(tensor1, tensor2)
    return aten.add.Tensor(self, product if value == 1 else aten.mul.Tensor(product, value))


@core("addcdiv")
def addcdiv(self: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Any = 1) -> Tensor:
    quotient = aten.div.Tensor(tensor1, tensor2)
    return aten.add.Tensor(self, quotient if value == 1 else aten.mul.Tensor(quotient, value))


@core("lerp.Scalar")
def lerp(self: Tensor, end: Tensor, weight: Any) -> Tensor:
    part = _full([], weight, self.dtype, self.device)
    far = aten.ge.Scalar(aten.abs.default(part), 0.5)
    factor = aten.where.self(far, aten.sub.Tensor(part, 1), part)
    base = aten.where.self(far, end, self)
    return aten.add.Tensor(aten.mul.Tensor(factor, aten.sub.Tensor(end, self)), base)


@core("clamp_min")
def clamp_min(self: Tensor, min: Any) -> Tensor:
    return aten.clamp.default(self, min)


@core("clamp_max")
def clamp_max(self: Tensor, max: Any) -> Tensor:
    return aten.clamp.default(self, None, max)


@core("xlogy.Tensor")
def xlogy(self: Tensor, other: Tensor) -> Tensor:
    zero = aten.eq.Scalar(self, 0)
    product = aten.mul.Tensor(self, aten.log.default(other))
    found = aten.where.self(zero, _scalar(0, product), product)
    return aten.where.self(aten.isnan.default(other), _scalar(math.nan, product), found)


@core("linspace")
def linspace(
    start: Any, end: Any, steps: int, *, dtype: Any = None, device: Any = None, **options: Any
) -> Tensor:
    dtype = dtype or flambeau.get_default_dtype()
    places = arange_start(0, steps, device=device)
    step = (end - start) / (steps - 1) if steps > 1 else 0.0
    first_half = aten.lt.Scalar(places, steps / 2)
    near = aten.mul.Tensor(aten._to_copy.default(places, dtype=dtype), step)
    near = aten.add.Tensor(near, start)
    back = aten._to_copy.default(aten.sub.Tensor(steps - 1, places), dtype=dtype)
    far = aten.sub.Tensor(end, aten.mul.Tensor(back, step))
    return aten.where.self(first_half, near, far)


@core("mv")
def mv(self: Tensor, vec: Tensor) -> Tensor:
    return aten.sum.dim_IntList(aten.mul.Tensor(self, vec), [1])


@core("dot", "vdot")
def dot(self: Tensor, tensor: Tensor) -> Tensor:
    return aten.sum.dim_IntList(aten.mul.Tensor(self, tensor), [])


@core("matmul")
def matmul(self: Tensor, other: Tensor) -> Tensor:
    flat = [math.prod(self.shape[:-1]), self.shape[-1]]
    if self.ndim >= 3 and other.ndim == 2 and not can_view(self, flat):
        return _batched(self, other)
    return whole_matmul(self, other)


@core("baddbmm")
def baddbmm(
    self: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1
) -> Tensor:
    product = aten.bmm.default(batch1, batch2)
    product = product if alpha == 1 else aten.mul.Tensor(product, alpha)
    return aten.add.Tensor(self if beta == 1 else aten.mul.Tensor(self, beta), product)


@core("trace")
def trace(self: Tensor) -> Tensor:
    return aten.sum.default(diagonal_copy(self))


# -- reductions ------------------------------------------------------------------------------------


@core("sum")
def sum_all(self: Tensor, *, dtype: Any = None) -> Tensor:
    return aten.sum.dim_IntList(self, [], **({} if dtype is None else {"dtype": dtype}))


@core("all")
def all_of(self: Tensor) -> Tensor:
    return aten.logical_not.default(aten.any.dims(aten.logical_not.default(self)))


@core("all.dim")
def all_dim(self: Tensor, dim: int, keepdim: bool = False) -> Tensor:
    some = aten.any.dim(aten.logical_not.default(self), dim, *([True] if keepdim else []))
    return aten.logical_not.default(some)


@core("std.correction")
def std(self: Tensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Tensor:
    named: dict[str, Any] = {"correction": 1.0 if correction is None else correction}
    if keepdim:
        named["keepdim"] = True
    return aten.sqrt.default(aten.var.correction(self, *([] if dim is None else [dim]), **named))


@core("count_nonzero")
def count_nonzero(self: Tensor, dim: Any = None) -> Tensor:
    return aten.sum.dim_IntList(aten.ne.Scalar(self, 0), dim)


@core("logsumexp")
def logsumexp(self: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    top = aten.amax.default(self, dim, True)
    endless = aten.eq.Scalar(aten.abs.default(top), math.inf)
    top = aten.where.self(endless, _scalar(0.0, top), top)
    shown = top if keepdim else aten.squeeze.dims(top, dim)
    rest = aten.exp.default(aten.sub.Tensor(self, top))
    total = aten.sum.dim_IntList(rest, dim, *([True] if keepdim else []))
    return aten.add.Tensor(aten.log.default(total), shown)


# -- masks -----------------------------------------------------------------------------------------


@core("masked_fill.Scalar")
def masked_fill(self: Tensor, mask: Tensor, value: Any) -> Tensor:
    return aten.where.self(mask, _scalar(value, self), self)


@core("masked_fill.Tensor")
def masked_fill_tensor(self: Tensor, mask: Tensor, value: Tensor) -> Tensor:
    return aten.where.self(mask, value, self)


def _triangle(comparison):
    def triangle(self, diagonal=0):
        columns = aten.unsqueeze.default(
            arange_start(0, self.shape[-1], device=self.device), -2
        )  # fmt: skip
        rows = aten.unsqueeze.default(arange_start(0, self.shape[-2], device=self.device), -1)
        kept = getattr(aten, comparison).Scalar(aten.sub.Tensor(columns, rows), diagonal)
        if self.dtype == flambeau.bool:
            return aten.logical_and.default(kept, self)
        return aten.where.self(kept, self, _scalar(0, self))

    return triangle


core("tril")(_triangle("le"))
core("triu")(_triangle("ge"))


@core("select_scatter")
def select_scatter(self: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    shape = list(self.shape)
    dim = dim % len(shape)
    places = arange_start(0, shape[dim], device=self.device)
    places = aten.view.default(places, [-1 if k == dim else 1 for k in range(len(shape))])
    mask = aten.eq.Scalar(places, index)
    spread = aten.expand.default(aten.unsqueeze.default(src, dim), shape)
    return aten.where.self(mask, spread, self)


@core("nan_to_num")
def nan_to_num(self: Tensor, nan: Any = None, posinf: Any = None, neginf: Any = None) -> Tensor:
    info = flambeau.finfo(self.dtype)
    low, high = (info.min if neginf is None else neginf), (info.max if posinf is None else posinf)
    found = aten.where.self(aten.isnan.default(self), _scalar(nan or 0.0, self), self)
    found = aten.where.self(aten.eq.Scalar(self, -math.inf), _scalar(low, self), found)
    return aten.where.self(aten.eq.Scalar(self, math.inf), _scalar(high, self), found)


@core("roll")
def roll(self: Tensor, shifts: Any, dims: Any = ()) -> Tensor:
    if not dims:
        flat = aten.view.default(self, [-1])
        return aten.view.default(roll(flat, shifts, [0]), list(self.shape))
    for shift, dim in zip(shifts, dims):
        size = self.shape[dim]
        places = aten.add.Tensor(arange_start(0, size, device=self.device), (-shift) % size)
        self = aten.index_select.default(self, dim, aten.fmod.Scalar(places, size))
    return self


# -- activations -----------------------------------------------------------------------------------


@core("silu")
def silu(self: Tensor) -> Tensor:
    return aten.mul.Tensor(self, aten.sigmoid.default(self))


@core("softplus")
def softplus(self: Tensor, beta: Any = 1, threshold: Any = 20) -> Tensor:
    scaled = self if beta == 1 else aten.mul.Tensor(self, beta)
    soft = aten.log1p.default(aten.exp.default(scaled))
    soft = soft if beta == 1 else aten.div.Tensor(soft, beta)
    return aten.where.self(aten.gt.Scalar(scaled, threshold), self, soft)


@core("mish")
def mish(self: Tensor) -> Tensor:
    return aten.mul.Tensor(self, aten.tanh.default(softplus(self)))


def _six(self):
    """From 0 to 6 between -3 and 3."""
    low = aten.clamp.default(aten.add.Tensor(self, 3), 0)
    return aten.clamp.default(low, None, 6)


@core("hardswish")
def hardswish(self: Tensor) -> Tensor:
    return aten.div.Tensor(aten.mul.Tensor(self, _six(self)), 6)


@core("hardsigmoid")
def hardsigmoid(self: Tensor) -> Tensor:
    return aten.div.Tensor(_six(self), 6)


@core("celu")
def celu(self: Tensor, alpha: float = 1.0) -> Tensor:
    below = aten.expm1.default(self if alpha == 1 else aten.div.Tensor(self, alpha))
    below = below if alpha == 1 else aten.mul.Tensor(below, alpha)
    return aten.where.self(aten.gt.Scalar(self, 0), self, below)


@core("glu")
def glu(self: Tensor, dim: int = -1) -> Tensor:
    dim = dim % self.ndim
    half = self.shape[dim] // 2
    first = aten.slice.Tensor(self, dim, 0, half)
    gate = aten.slice.Tensor(self, dim, half, 2 * half)
    return aten.mul.Tensor(first, aten.sigmoid.default(gate))


@core("log_sigmoid_forward")
def log_sigmoid_forward(self: Tensor) -> tuple[Tensor, Tensor]:
    low = aten.minimum.default(_full([], 0, self.dtype, self.device), self)
    rest = aten.exp.default(aten.neg.default(aten.abs.default(self)))
    return aten.sub.Tensor(low, aten.log1p.default(rest)), rest


@core("_prelu_kernel")
def prelu_kernel(self: Tensor, weight: Tensor) -> Tensor:
    return aten.where.self(aten.gt.Scalar(self, 0), self, aten.mul.Tensor(weight, self))


# -- dropout, normalisation ------------------------------------------------------------------------


@core("dropout")
def dropout(input: Tensor, p: float, train: bool) -> Tensor:
    if train and p:
        return aten.native_dropout.default(input, p, True)[0]
    return aten.clone.default(input)


@core("batch_norm")
def batch_norm(
    input: Tensor, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool,
    momentum: float, eps: float, cudnn_enabled: bool,
) -> Tensor:  # fmt: skip
    if running_mean is None:
        legit = aten._native_batch_norm_legit.no_stats
        return legit(input, weight, bias, training, momentum, eps)[0]
    if not training:
        legit = aten._native_batch_norm_legit_no_training.default
        return legit(input, weight, bias, running_mean, running_var, momentum, eps)[0]
    found = aten._native_batch_norm_legit_functional.default(
        input, weight, bias, running_mean, running_var, training, momentum, eps
    )
    become(running_mean, found[3])
    become(running_var, found[4])
    return found[0]
