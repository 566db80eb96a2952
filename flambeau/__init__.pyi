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
from flambeau import (
    accelerator as accelerator,
    amp as amp,
    autograd as autograd,
    backends as backends,
    compiler as compiler,
    cpu as cpu,
    cuda as cuda,
    distributed as distributed,
    export as export,
    fft as fft,
    func as func,
    fx as fx,
    hub as hub,
    jit as jit,
    library as library,
    linalg as linalg,
    multiprocessing as multiprocessing,
    nn as nn,
    onnx as onnx,
    optim as optim,
    overrides as overrides,
    profiler as profiler,
    random as random,
    signal as signal,
    special as special,
    testing as testing,
    types as types,
    utils as utils,
    version as version,
    vision as vision,
)
from flambeau._dtype import finfo as finfo, iinfo as iinfo
from flambeau._layout import Size as Size
from flambeau._tensor import Tensor as Tensor
from flambeau.autograd.grad_mode import (
    enable_grad as enable_grad,
    inference_mode as inference_mode,
    no_grad as no_grad,
    set_grad_enabled as set_grad_enabled,
)
from flambeau.compiler import compile as compile
from flambeau.serialization import load as load, save as save

inf: _float
nan: _float
pi: _float
e: _float
__version__: str

_int = builtins.int
_float = builtins.float
_bool = builtins.bool
_Number = builtins.int | builtins.float | builtins.complex | builtins.bool
_Device = device | str | builtins.int

AcceleratorError: Any
BFloat16Tensor: Any
BoolTensor: Any
ByteTensor: Any
CharTensor: Any
DoubleTensor: Any
FloatTensor: Any
GradScaler: Any
HalfTensor: Any
IntTensor: Any
LongTensor: Any
OutOfMemoryError: Any
ScriptFunction: Any
ShortTensor: Any
SymBool: Any
SymFloat: Any
SymInt: Any
UInt32Tensor: Any
UInt64Tensor: Any

def abs(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def absolute(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def acos(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def acosh(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def adaptive_avg_pool1d(input: Tensor, output_size: Sequence[_int] | _int) -> Tensor: ...
def adaptive_max_pool1d(input: Tensor, output_size: Sequence[_int] | _int) -> Any: ...
@overload
def add(
    input: Tensor, other: _Number | Tensor, *, alpha: _Number = 1, out: Tensor | None = None
) -> Tensor: ...
@overload
def add(self: Tensor, alpha: _Number, other: _Number | Tensor) -> Tensor: ...
@overload
def add(self: Tensor, alpha: _Number, other: _Number | Tensor, *, out: Tensor | None) -> Tensor: ...
@overload
def addbmm(
    beta: _Number, self: Tensor, alpha: _Number, batch1: Tensor, batch2: Tensor
) -> Tensor: ...
@overload
def addbmm(
    beta: _Number,
    self: Tensor,
    alpha: _Number,
    batch1: Tensor,
    batch2: Tensor,
    *,
    out: Tensor | None,
) -> Tensor: ...
@overload
def addbmm(
    input: Tensor,
    batch1: Tensor,
    batch2: Tensor,
    *,
    beta: _Number = 1,
    alpha: _Number = 1,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def addbmm(beta: _Number, self: Tensor, batch1: Tensor, batch2: Tensor) -> Tensor: ...
@overload
def addbmm(
    beta: _Number, self: Tensor, batch1: Tensor, batch2: Tensor, *, out: Tensor | None
) -> Tensor: ...
@overload
def addcdiv(self: Tensor, value: _Number, tensor1: Tensor, tensor2: Tensor) -> Tensor: ...
@overload
def addcdiv(
    self: Tensor, value: _Number, tensor1: Tensor, tensor2: Tensor, *, out: Tensor | None
) -> Tensor: ...
@overload
def addcdiv(
    input: Tensor,
    tensor1: Tensor,
    tensor2: Tensor,
    *,
    value: _Number = 1,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def addcmul(self: Tensor, value: _Number, tensor1: Tensor, tensor2: Tensor) -> Tensor: ...
@overload
def addcmul(
    self: Tensor, value: _Number, tensor1: Tensor, tensor2: Tensor, *, out: Tensor | None
) -> Tensor: ...
@overload
def addcmul(
    input: Tensor,
    tensor1: Tensor,
    tensor2: Tensor,
    *,
    value: _Number = 1,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def addmm(beta: _Number, self: Tensor, alpha: _Number, mat1: Tensor, mat2: Tensor) -> Tensor: ...
@overload
def addmm(
    beta: _Number, self: Tensor, alpha: _Number, mat1: Tensor, mat2: Tensor, *, out: Tensor | None
) -> Tensor: ...
@overload
def addmm(
    input: Tensor,
    mat1: Tensor,
    mat2: Tensor,
    *,
    beta: _Number = 1,
    alpha: _Number = 1,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def addmm(
    input: Tensor,
    mat1: Tensor,
    mat2: Tensor,
    out_dtype: dtype,
    *,
    beta: _Number = 1,
    alpha: _Number = 1,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def addmm(beta: _Number, self: Tensor, mat1: Tensor, mat2: Tensor) -> Tensor: ...
@overload
def addmm(
    beta: _Number, self: Tensor, mat1: Tensor, mat2: Tensor, *, out: Tensor | None
) -> Tensor: ...
@overload
def addmv(beta: _Number, self: Tensor, alpha: _Number, mat: Tensor, vec: Tensor) -> Tensor: ...
@overload
def addmv(
    beta: _Number, self: Tensor, alpha: _Number, mat: Tensor, vec: Tensor, *, out: Tensor | None
) -> Tensor: ...
@overload
def addmv(
    input: Tensor,
    mat: Tensor,
    vec: Tensor,
    *,
    beta: _Number = 1,
    alpha: _Number = 1,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def addmv(beta: _Number, self: Tensor, mat: Tensor, vec: Tensor) -> Tensor: ...
@overload
def addmv(
    beta: _Number, self: Tensor, mat: Tensor, vec: Tensor, *, out: Tensor | None
) -> Tensor: ...
@overload
def addr(beta: _Number, self: Tensor, alpha: _Number, vec1: Tensor, vec2: Tensor) -> Tensor: ...
@overload
def addr(
    beta: _Number, self: Tensor, alpha: _Number, vec1: Tensor, vec2: Tensor, *, out: Tensor | None
) -> Tensor: ...
@overload
def addr(
    input: Tensor,
    vec1: Tensor,
    vec2: Tensor,
    *,
    beta: _Number = 1,
    alpha: _Number = 1,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def addr(beta: _Number, self: Tensor, vec1: Tensor, vec2: Tensor) -> Tensor: ...
@overload
def addr(
    beta: _Number, self: Tensor, vec1: Tensor, vec2: Tensor, *, out: Tensor | None
) -> Tensor: ...
def adjoint(input: Tensor) -> Tensor: ...
def affine_grid_generator(theta: Tensor, size: Sequence[_int], align_corners: _bool) -> Tensor: ...
def alias_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def all(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def all(
    input: Tensor,
    dim: _int | Sequence[_int] | None = None,
    keepdim: _bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def all(
    input: Tensor,
    dim: _int | Sequence[_int] | None,
    keepdim: _bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def allclose(
    input: Tensor,
    other: Tensor,
    rtol: _float = 1e-05,
    atol: _float = 1e-08,
    equal_nan: _bool = False,
) -> _bool: ...
def alpha_dropout(input: Tensor, p: _float, train: _bool) -> Tensor: ...
def amax(
    input: Tensor,
    dim: Sequence[_int] | _int = (),
    keepdim: _bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def amin(
    input: Tensor,
    dim: Sequence[_int] | _int = (),
    keepdim: _bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def aminmax(
    input: Tensor, *, dim: _int | None = None, keepdim: _bool = False, out: Tensor | None = None
) -> Any: ...
def angle(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def any(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def any(
    input: Tensor,
    dim: _int | Sequence[_int] | None = None,
    keepdim: _bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def any(
    input: Tensor,
    dim: _int | Sequence[_int] | None,
    keepdim: _bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def arange(
    start: _Number,
    end: _Number,
    step: _Number,
    *,
    out: Tensor | None = None,
    dtype: dtype | None = None,
    device: _Device | None = None,
    requires_grad: _bool | None = False,
    pin_memory: _bool | None = False,
) -> Tensor: ...
@overload
def arange(
    start: _Number,
    end: _Number,
    *,
    out: Tensor | None = None,
    dtype: dtype | None = None,
    device: _Device | None = None,
    requires_grad: _bool | None = False,
    pin_memory: _bool | None = False,
) -> Tensor: ...
@overload
def arange(
    end: _Number,
    *,
    out: Tensor | None = None,
    dtype: dtype | None = None,
    device: _Device | None = None,
    requires_grad: _bool | None = False,
    pin_memory: _bool | None = False,
) -> Tensor: ...
@overload
def arange(
    end: _Number,
    *,
    out: Tensor | None = None,
    dtype: dtype | None = None,
    layout: layout | None = None,
    device: _Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
@overload
def arange(
    start: _Number,
    end: _Number,
    *,
    dtype: dtype | None = None,
    layout: layout | None = None,
    device: _Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
@overload
def arange(
    start: _Number,
    end: _Number,
    step: _Number = 1,
    *,
    out: Tensor | None = None,
    dtype: dtype | None = None,
    layout: layout | None = None,
    device: _Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
def arccos(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def arccosh(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def arcsin(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def arcsinh(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def arctan(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def arctan2(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def arctanh(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def are_deterministic_algorithms_enabled() -> Tensor: ...
def argmax(
    input: Tensor, dim: _int | None = None, keepdim: _bool = False, *, out: Tensor | None = None
) -> Tensor: ...
def argmin(
    input: Tensor, dim: _int | None = None, keepdim: _bool = False, *, out: Tensor | None = None
) -> Tensor: ...
@overload
def argsort(
    input: Tensor,
    *,
    stable: _bool,
    dim: _int = -1,
    descending: _bool = False,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def argsort(input: Tensor, dim: _int = -1, descending: _bool = False) -> Tensor: ...
def argwhere(input: Tensor) -> Tensor: ...
def as_strided(
    input: Tensor, size: Sequence[_int], stride: Sequence[_int], storage_offset: _int | None = None
) -> Tensor: ...
def as_strided_copy(
    input: Tensor,
    size: Sequence[_int],
    stride: Sequence[_int],
    storage_offset: _int | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def as_strided_scatter(
    input: Tensor,
    src: Tensor,
    size: Sequence[_int],
    stride: Sequence[_int],
    storage_offset: _int | None = None,
) -> Tensor: ...
def as_tensor(data: Any, dtype: dtype | None = None, device: _Device | None = None) -> Tensor: ...
def asarray(
    obj: Any,
    *,
    dtype: dtype | None = None,
    device: _Device | None = None,
    copy: Any = None,
    requires_grad: _bool | None = None,
) -> Tensor: ...
def asin(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def asinh(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def atan(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def atan2(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def atanh(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def atleast_1d(*tensors: Any) -> Any: ...
def atleast_2d(*tensors: Any) -> Any: ...
def atleast_3d(*tensors: Any) -> Any: ...
def avg_pool1d(
    input: Tensor,
    kernel_size: Sequence[_int] | _int,
    stride: Sequence[_int] | _int = (),
    padding: Sequence[_int] | _int = 0,
    ceil_mode: _bool = False,
    count_include_pad: _bool = True,
) -> Tensor: ...
@overload
def baddbmm(
    beta: _Number, self: Tensor, alpha: _Number, batch1: Tensor, batch2: Tensor
) -> Tensor: ...
@overload
def baddbmm(
    beta: _Number,
    self: Tensor,
    alpha: _Number,
    batch1: Tensor,
    batch2: Tensor,
    *,
    out: Tensor | None,
) -> Tensor: ...
@overload
def baddbmm(
    input: Tensor,
    batch1: Tensor,
    batch2: Tensor,
    *,
    beta: _Number = 1,
    alpha: _Number = 1,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def baddbmm(
    input: Tensor,
    batch1: Tensor,
    batch2: Tensor,
    out_dtype: dtype,
    *,
    beta: _Number = 1,
    alpha: _Number = 1,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def baddbmm(beta: _Number, self: Tensor, batch1: Tensor, batch2: Tensor) -> Tensor: ...
@overload
def baddbmm(
    beta: _Number, self: Tensor, batch1: Tensor, batch2: Tensor, *, out: Tensor | None
) -> Tensor: ...
@overload
def bartlett_window(
    window_length: _int,
    *,
    dtype: dtype | None = None,
    layout: layout | None = None,
    device: _Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
@overload
def bartlett_window(
    window_length: _int,
    periodic: _bool,
    *,
    dtype: dtype | None = None,
    layout: layout | None = None,
    device: _Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
def batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: _bool,
    momentum: _float,
    eps: _float,
    cudnn_enabled: _bool,
) -> Tensor: ...
@overload
def bernoulli(
    input: Tensor, *, generator: Generator | None = None, out: Tensor | None = None
) -> Tensor: ...
@overload
def bernoulli(
    input: Tensor, p: Tensor | _float, *, generator: Generator | None = None
) -> Tensor: ...

bfloat16: dtype

def bilinear(
    input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None
) -> Tensor: ...
def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    pos_weight: Tensor | None = None,
    reduction: str = 0,
) -> Tensor: ...
def bincount(input: Tensor, weights: Tensor | None = None, minlength: _int = 0) -> Tensor: ...
def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Tensor: ...
@overload
def bitwise_and(
    input: Tensor | _Number, other: _Number | Tensor, *, out: Tensor | None = None
) -> Tensor: ...
@overload
def bitwise_and(self: Tensor | _Number, other: _Number | Tensor) -> Tensor: ...
@overload
def bitwise_left_shift(
    input: _Number | Tensor, other: Tensor | _Number, *, out: Tensor | None = None
) -> Tensor: ...
@overload
def bitwise_left_shift(self: _Number | Tensor, other: Tensor | _Number) -> Tensor: ...
def bitwise_not(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def bitwise_or(
    input: Tensor | _Number, other: _Number | Tensor, *, out: Tensor | None = None
) -> Tensor: ...
@overload
def bitwise_or(self: Tensor | _Number, other: _Number | Tensor) -> Tensor: ...
@overload
def bitwise_right_shift(
    input: _Number | Tensor, other: Tensor | _Number, *, out: Tensor | None = None
) -> Tensor: ...
@overload
def bitwise_right_shift(self: _Number | Tensor, other: Tensor | _Number) -> Tensor: ...
@overload
def bitwise_xor(
    input: Tensor | _Number, other: _Number | Tensor, *, out: Tensor | None = None
) -> Tensor: ...
@overload
def bitwise_xor(self: Tensor | _Number, other: _Number | Tensor) -> Tensor: ...
@overload
def blackman_window(
    window_length: _int,
    *,
    dtype: dtype | None = None,
    layout: layout | None = None,
    device: _Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
@overload
def blackman_window(
    window_length: _int,
    periodic: _bool,
    *,
    dtype: dtype | None = None,
    layout: layout | None = None,
    device: _Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
def block_diag(*tensors: Any) -> Tensor: ...
@overload
def bmm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def bmm(input: Tensor, mat2: Tensor, out_dtype: dtype, *, out: Tensor | None = None) -> Tensor: ...

bool: dtype

def broadcast_shapes(*shapes: Any) -> Size: ...
def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]: ...
def broadcast_to(input: Tensor, size: Sequence[_int]) -> Tensor: ...
@overload
def bucketize(
    input: _Number | Tensor,
    boundaries: Tensor,
    *,
    out_int32: _bool = False,
    right: _bool = False,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def bucketize(
    self: _Number | Tensor, boundaries: Tensor, *, out_int32: _bool = False, right: _bool = False
) -> Tensor: ...
def can_cast(from_: Any, to: Any) -> _bool: ...
def cartesian_prod(*tensors: Any) -> Tensor: ...
def cat(tensors: Sequence[Tensor], dim: _int = 0, *, out: Tensor | None = None) -> Tensor: ...
def cdist(
    x1: Tensor,
    x2: Tensor,
    p: _float = 2.0,
    compute_mode: str | _int | None = "use_mm_for_euclid_dist_if_necessary",
) -> Tensor: ...

cdouble: dtype

def ceil(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def celu(input: Tensor, alpha: _Number = 1.0) -> Tensor: ...
def celu_(input: Tensor, alpha: _Number = 1.0) -> Tensor: ...

cfloat: dtype

def chain_matmul(*matrices: Any, out: Tensor | None = None) -> Tensor: ...
def channel_shuffle(input: Tensor, groups: _int) -> Tensor: ...

channels_last: memory_format
channels_last_3d: memory_format

def cholesky(input: Tensor, upper: _bool = False, *, out: Tensor | None = None) -> Tensor: ...
def cholesky_inverse(
    input: Tensor, upper: _bool = False, *, out: Tensor | None = None
) -> Tensor: ...
def cholesky_solve(
    input: Tensor, input2: Tensor, upper: _bool = False, *, out: Tensor | None = None
) -> Tensor: ...
def chunk(input: Tensor, chunks: _int, dim: _int = 0) -> tuple[Tensor, ...]: ...
def clamp(
    input: Tensor,
    min: _Number | None | Tensor | None = None,
    max: _Number | None | Tensor | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def clamp_max(input: Tensor, max: _Number | Tensor, *, out: Tensor | None = None) -> Tensor: ...
def clamp_min(input: Tensor, min: _Number | Tensor, *, out: Tensor | None = None) -> Tensor: ...
def clip(
    input: Tensor,
    min: _Number | None | Tensor | None = None,
    max: _Number | None | Tensor | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def clone(input: Tensor, *, memory_format: memory_format | None = None) -> Tensor: ...
def column_stack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor: ...
def combinations(input: Tensor, r: _int = 2, with_replacement: _bool = False) -> Tensor: ...
def compiled_with_cxx11_abi(*args: Any, **kwargs: Any) -> Tensor: ...
def complex(real: Tensor, imag: Tensor, *, out: Tensor | None = None) -> Tensor: ...

complex128: dtype
complex64: dtype

def concat(tensors: Sequence[Tensor], dim: _int = 0, *, out: Tensor | None = None) -> Tensor: ...
def concatenate(
    tensors: Sequence[Tensor], dim: _int = 0, *, out: Tensor | None = None
) -> Tensor: ...
def cond(pred: Any, true_fn: Any, false_fn: Any, operands: Any = ()) -> Tensor: ...
def conj(input: Tensor) -> Tensor: ...
def conj_physical(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def constant_pad_nd(input: Tensor, pad: Sequence[_int], value: _Number = 0) -> Tensor: ...

contiguous_format: memory_format

@overload
def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sequence[_int] | _int = 1,
    padding: Sequence[_int] | _int | str = 0,
    dilation: Sequence[_int] | _int = 1,
    groups: _int = 1,
) -> Tensor: ...
@overload
def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sequence[_int] | _int = 1,
    padding: Sequence[_int] | _int | str = "valid",
    dilation: Sequence[_int] | _int = 1,
    groups: _int = 1,
) -> Tensor: ...
@overload
def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sequence[_int] | _int = 1,
    padding: Sequence[_int] | _int | str = 0,
    dilation: Sequence[_int] | _int = 1,
    groups: _int = 1,
) -> Tensor: ...
@overload
def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sequence[_int] | _int = 1,
    padding: Sequence[_int] | _int | str = "valid",
    dilation: Sequence[_int] | _int = 1,
    groups: _int = 1,
) -> Tensor: ...
@overload
def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sequence[_int] | _int = 1,
    padding: Sequence[_int] | _int | str = 0,
    dilation: Sequence[_int] | _int = 1,
    groups: _int = 1,
) -> Tensor: ...
@overload
def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sequence[_int] | _int = 1,
    padding: Sequence[_int] | _int | str = "valid",
    dilation: Sequence[_int] | _int = 1,
    groups: _int = 1,
) -> Tensor: ...
def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: _int = 0) -> Tensor: ...
def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sequence[_int] | _int = 1,
    padding: Sequence[_int] | _int = 0,
    output_padding: Sequence[_int] | _int = 0,
    groups: _int = 1,
    dilation: Sequence[_int] | _int = 1,
) -> Tensor: ...
def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sequence[_int] | _int = 1,
    padding: Sequence[_int] | _int = 0,
    output_padding: Sequence[_int] | _int = 0,
    groups: _int = 1,
    dilation: Sequence[_int] | _int = 1,
) -> Tensor: ...
def conv_transpose3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sequence[_int] | _int = 1,
    padding: Sequence[_int] | _int = 0,
    output_padding: Sequence[_int] | _int = 0,
    groups: _int = 1,
    dilation: Sequence[_int] | _int = 1,
) -> Tensor: ...
def convolution(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[_int],
    padding: Sequence[_int],
    dilation: Sequence[_int],
    transposed: _bool,
    output_padding: Sequence[_int],
    groups: _int,
) -> Tensor: ...
def copysign(input: Tensor, other: _Number | Tensor, *, out: Tensor | None = None) -> Tensor: ...
def corrcoef(input: Tensor) -> Tensor: ...
def cos(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def cosh(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: _float = 0.0, reduction: str = 0
) -> Tensor: ...
def cosine_similarity(x1: Tensor, x2: Tensor, dim: _int = 1, eps: _float = 1e-08) -> Tensor: ...
@overload
def count_nonzero(input: Tensor, dim: _int | None | Sequence[_int] = None) -> Tensor: ...
@overload
def count_nonzero(input: Tensor, dim: _int | None | Sequence[_int]) -> Tensor: ...
def cov(
    input: Tensor,
    *,
    correction: _int = 1,
    fweights: Tensor | None = None,
    aweights: Tensor | None = None,
) -> Tensor: ...
def cross(
    input: Tensor, other: Tensor, dim: _int | None = None, *, out: Tensor | None = None
) -> Tensor: ...
def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Sequence[_int] | Tensor,
    target_lengths: Sequence[_int] | Tensor,
    blank: _int = 0,
    reduction: str = 0,
    zero_infinity: _bool = False,
) -> Tensor: ...
def cummax(input: Tensor, dim: _int, *, out: Tensor | None = None) -> Any: ...
def cummin(input: Tensor, dim: _int, *, out: Tensor | None = None) -> Any: ...
def cumprod(
    input: Tensor, dim: _int, *, dtype: dtype | None = None, out: Tensor | None = None
) -> Tensor: ...
def cumsum(
    input: Tensor, dim: _int, *, dtype: dtype | None = None, out: Tensor | None = None
) -> Tensor: ...
@overload
def cumulative_trapezoid(y: Tensor, x: Tensor, *, dim: _int = -1) -> Tensor: ...
@overload
def cumulative_trapezoid(y: Tensor, *, dx: _Number = 1, dim: _int = -1) -> Tensor: ...
def deg2rad(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def dequantize(input: Tensor) -> Tensor: ...
@overload
def dequantize(tensors: Sequence[Tensor]) -> Tensor: ...
def det(input: Tensor) -> Tensor: ...
def detach(*args: Any, **kwargs: Any) -> Tensor: ...
def detach_(*args: Any, **kwargs: Any) -> Tensor: ...
def detach_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def diag(input: Tensor, diagonal: _int = 0, *, out: Tensor | None = None) -> Tensor: ...
def diag_embed(input: Tensor, offset: _int = 0, dim1: _int = -2, dim2: _int = -1) -> Tensor: ...
def diagflat(input: Tensor, offset: _int = 0) -> Tensor: ...
def diagonal(input: Tensor, offset: _int = 0, dim1: _int = 0, dim2: _int = 1) -> Tensor: ...
def diagonal_copy(
    input: Tensor, offset: _int = 0, dim1: _int = 0, dim2: _int = 1, *, out: Tensor | None = None
) -> Tensor: ...
def diagonal_scatter(
    input: Tensor, src: Tensor, offset: _int = 0, dim1: _int = 0, dim2: _int = 1
) -> Tensor: ...
def diff(
    input: Tensor,
    n: _int = 1,
    dim: _int = -1,
    prepend: Tensor | None = None,
    append: Tensor | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def digamma(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def dist(input: Tensor, other: Tensor, p: _Number = 2) -> Tensor: ...
def div(
    input: Tensor,
    other: _Number | Tensor,
    *,
    rounding_mode: str | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def divide(input: Tensor, other: _Number | Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def divide(
    input: Tensor, other: _Number | Tensor, *, rounding_mode: str | None, out: Tensor | None = None
) -> Tensor: ...
@overload
def divide(input: Tensor, other: _Number | Tensor, *, rounding_mode: str | None) -> Tensor: ...
@overload
def divide(input: Tensor, other: _Number | Tensor) -> Tensor: ...
def dot(input: Tensor, tensor: Tensor, *, out: Tensor | None = None) -> Tensor: ...

double: dtype

def dropout(input: Tensor, p: _float, train: _bool) -> Tensor: ...
@overload
def dsplit(input: Tensor, sections: _int) -> tuple[Tensor, ...]: ...
@overload
def dsplit(input: Tensor, indices: Sequence[_int]) -> tuple[Tensor, ...]: ...
def dstack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor: ...
def eig(input: Any, eigenvectors: Any = False) -> Tensor: ...
def einsum(*args: Any) -> Tensor: ...
def embedding(
    weight: Tensor,
    indices: Tensor,
    padding_idx: _int = -1,
    scale_grad_by_freq: _bool = False,
    sparse: _bool = False,
) -> Tensor: ...
def embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: _bool = False,
    mode: _int = 0,
    sparse: _bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: _bool = False,
    padding_idx: _int | None = None,
) -> Any: ...
def embedding_renorm_(
    self: Tensor, indices: Tensor, max_norm: _float, norm_type: _float
) -> Tensor: ...
@overload
def empty(
    size: Sequence[_int],
    *,
    memory_format: memory_format | None = None,
    out: Tensor | None = None,
    dtype: dtype | None = None,
    layout: layout | None = None,
    device: _Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
@overload
def empty(
    *size: _int,
    memory_format: memory_format | None = None,
    out: Tensor | None = None,
    dtype: dtype | None = None,
    layout: layout | None = None,
    device: _Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
def empty_like(
    input: Tensor,
    *,
    memory_format: memory_format | None = None,
    dtype: dtype | None = None,
    layout: layout | None = None,
    device: _Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
def empty_permuted(
    size: Sequence[_int],
    physical_layout: Sequence[_int],
    *,
    dtype: dtype | None = None,
    layout: layout | None = None,
    device: _Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
def empty_strided(
    size: Sequence[_int],
    stride: Sequence[_int],
    *,
    dtype: dtype | None = None,
    layout: layout | None = None,
    device: _Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
def eq(input: Tensor, other: _Number | Tensor, *, out: Tensor | None = None) -> Tensor: ...
def equal(input: Tensor, other: Tensor) -> _bool: ...
def erf(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def erfc(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def erfinv(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def exp(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def exp2(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def expand_copy(
    input: Tensor, size: Sequence[_int], *, implicit: _bool = False, out: Tensor | None = None
) -> Tensor: ...
def expm1(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def eye(
    n: _int,
    *,
    out: Tensor | None = None,
    dtype: dtype | None = None,
    layout: layout | None = None,
    device: _Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
@overload
def eye(
    n: _int,
    m: _int,
    *,
    out: Tensor | None = None,
    dtype: dtype | None = None,
    layout: layout | None = None,
    device: _Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
def fake_quantize_per_channel_affine(
    input: Tensor, scale: Any, zero_point: Any, axis: Any, quant_min: Any, quant_max: Any
) -> Tensor: ...
def fake_quantize_per_tensor_affine(
    input: Tensor, scale: Any, zero_point: Any, quant_min: Any, quant_max: Any
) -> Tensor: ...
def feature_alpha_dropout(input: Tensor, p: _float, train: _bool) -> Tensor: ...
def feature_dropout(input: Tensor, p: _float, train: _bool) -> Tensor: ...
def fft_fft(
    input: Tensor,
    n: _int | None = None,
    dim: _int = -1,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def fft_fft2(
    input: Tensor,
    s: Sequence[_int] | _int | None = None,
    dim: Sequence[_int] | _int = (-2, -1),
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def fft_fftn(
    input: Tensor,
    s: Sequence[_int] | _int | None = None,
    dim: Sequence[_int] | _int | None = None,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def fft_fftshift(input: Tensor, dim: Sequence[_int] | _int | None = None) -> Tensor: ...
def fft_hfft(
    input: Tensor,
    n: _int | None = None,
    dim: _int = -1,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def fft_hfft2(
    input: Tensor,
    s: Sequence[_int] | _int | None = None,
    dim: Sequence[_int] | _int = (-2, -1),
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def fft_hfftn(
    input: Tensor,
    s: Sequence[_int] | _int | None = None,
    dim: Sequence[_int] | _int | None = None,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def fft_ifft(
    input: Tensor,
    n: _int | None = None,
    dim: _int = -1,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def fft_ifft2(
    input: Tensor,
    s: Sequence[_int] | _int | None = None,
    dim: Sequence[_int] | _int = (-2, -1),
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def fft_ifftn(
    input: Tensor,
    s: Sequence[_int] | _int | None = None,
    dim: Sequence[_int] | _int | None = None,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def fft_ifftshift(input: Tensor, dim: Sequence[_int] | _int | None = None) -> Tensor: ...
def fft_ihfft(
    input: Tensor,
    n: _int | None = None,
    dim: _int = -1,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def fft_ihfft2(
    input: Tensor,
    s: Sequence[_int] | _int | None = None,
    dim: Sequence[_int] | _int = (-2, -1),
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def fft_ihfftn(
    input: Tensor,
    s: Sequence[_int] | _int | None = None,
    dim: Sequence[_int] | _int | None = None,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def fft_irfft(
    input: Tensor,
    n: _int | None = None,
    dim: _int = -1,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def fft_irfft2(
    input: Tensor,
    s: Sequence[_int] | _int | None = None,
    dim: Sequence[_int] | _int = (-2, -1),
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def fft_irfftn(
    input: Tensor,
    s: Sequence[_int] | _int | None = None,
    dim: Sequence[_int] | _int | None = None,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def fft_rfft(
    input: Tensor,
    n: _int | None = None,
    dim: _int = -1,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def fft_rfft2(
    input: Tensor,
    s: Sequence[_int] | _int | None = None,
    dim: Sequence[_int] | _int = (-2, -1),
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def fft_rfftn(
    input: Tensor,
    s: Sequence[_int] | _int | None = None,
    dim: Sequence[_int] | _int | None = None,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def fill(input: Tensor, value: _Number | Tensor) -> Tensor: ...
def fix(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def flatten(input: Tensor, start_dim: _int = 0, end_dim: _int = -1) -> Tensor: ...
def flip(input: Tensor, dims: Sequence[_int]) -> Tensor: ...
def fliplr(input: Tensor) -> Tensor: ...
def flipud(input: Tensor) -> Tensor: ...

float: dtype
float16: dtype
float32: dtype
float4_e2m1fn_x2: dtype
float64: dtype
float8_e4m3fn: dtype
float8_e4m3fnuz: dtype
float8_e5m2: dtype
float8_e5m2fnuz: dtype
float8_e8m0fnu: dtype

@overload
def float_power(
    input: _Number | Tensor, exponent: Tensor | _Number, *, out: Tensor | None = None
) -> Tensor: ...
@overload
def float_power(
    self: _Number | Tensor, exponent: Tensor | _Number, *, out: Tensor | None = None
) -> Tensor: ...
def floor(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def floor_divide(
    input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None
) -> Tensor: ...
def fmax(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def fmin(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def fmod(input: Tensor, other: _Number | Tensor, *, out: Tensor | None = None) -> Tensor: ...
def fork(*args: Any, **kwargs: Any) -> Tensor: ...
def frac(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def frexp(input: Tensor, *, out: Tensor | None = None) -> Any: ...
def frobenius_norm(
    input: Tensor, dim: Sequence[_int] | _int, keepdim: _bool = False, *, out: Tensor | None = None
) -> Tensor: ...
def from_dlpack(*args: Any, **kwargs: Any) -> Tensor: ...
def from_file(
    filename: Any,
    shared: Any = None,
    size: Any = 0,
    *,
    dtype: dtype | None = None,
    layout: layout | None = None,
    device: _Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
def from_numpy(ndarray: Any) -> Tensor: ...
def frombuffer(
    buffer: Any,
    *,
    dtype: dtype | None,
    count: Any = -1,
    offset: Any = 0,
    requires_grad: _bool | None = False,
) -> Tensor: ...
@overload
def full(
    size: Sequence[_int],
    fill_value: _Number,
    *,
    out: Tensor | None = None,
    layout: layout | None = ...,
    dtype: dtype | None = None,
    device: _Device | None = None,
    requires_grad: _bool | None = False,
    pin_memory: _bool | None = False,
) -> Tensor: ...
@overload
def full(
    size: Sequence[_int],
    fill_value: _Number,
    *,
    names: Any,
    layout: layout | None = ...,
    dtype: dtype | None = None,
    device: _Device | None = None,
    requires_grad: _bool | None = False,
    pin_memory: _bool | None = False,
) -> Tensor: ...
@overload
def full(
    size: Sequence[_int],
    fill_value: _Number,
    *,
    out: Tensor | None = None,
    dtype: dtype | None = None,
    layout: layout | None = None,
    device: _Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
def full_like(
    input: Tensor,
    fill_value: _Number,
    *,
    memory_format: memory_format | None = None,
    dtype: dtype | None = None,
    layout: layout | None = None,
    device: _Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
def gather(
    input: Tensor,
    dim: _int,
    index: Tensor,
    *,
    sparse_grad: _bool = False,
    out: Tensor | None = None,
) -> Tensor: ...
def gcd(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def ge(input: Tensor, other: _Number | Tensor, *, out: Tensor | None = None) -> Tensor: ...
def geqrf(input: Tensor, *, out: Tensor | None = None) -> Any: ...
def ger(input: Tensor, vec2: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def get_default_device() -> device: ...
def get_default_dtype() -> dtype: ...
def get_deterministic_debug_mode() -> Tensor: ...
def get_device_module(*args: Any, **kwargs: Any) -> Tensor: ...
def get_float32_matmul_precision() -> Tensor: ...
def get_num_interop_threads() -> Tensor: ...
def get_num_threads() -> _int: ...
def get_rng_state() -> Tensor: ...
@overload
def gradient(
    input: Tensor,
    *,
    spacing: _Number | _Number | None | Sequence[_Number] | Sequence[Tensor] = None,
    dim: Sequence[_int] | _int | None = None,
    edge_order: _int = 1,
) -> tuple[Tensor, ...]: ...
@overload
def gradient(
    input: Tensor,
    *,
    spacing: _Number | _Number | None | Sequence[_Number] | Sequence[Tensor],
    dim: Sequence[_int] | _int | None = None,
    edge_order: _int = 1,
) -> tuple[Tensor, ...]: ...
@overload
def gradient(
    input: Tensor,
    *,
    spacing: _Number | _Number | None | Sequence[_Number] | Sequence[Tensor],
    dim: Sequence[_int] | _int | None,
    edge_order: _int = 1,
) -> tuple[Tensor, ...]: ...
@overload
def gradient(
    input: Tensor, *, dim: Sequence[_int] | _int | None, edge_order: _int = 1
) -> tuple[Tensor, ...]: ...
def greater(input: Tensor, other: _Number | Tensor, *, out: Tensor | None = None) -> Tensor: ...
def greater_equal(
    input: Tensor, other: _Number | Tensor, *, out: Tensor | None = None
) -> Tensor: ...
def grid_sampler(
    input: Tensor, grid: Tensor, interpolation_mode: _int, padding_mode: _int, align_corners: _bool
) -> Tensor: ...
def grid_sampler_2d(
    input: Tensor, grid: Tensor, interpolation_mode: _int, padding_mode: _int, align_corners: _bool
) -> Tensor: ...
def grid_sampler_3d(
    input: Tensor, grid: Tensor, interpolation_mode: _int, padding_mode: _int, align_corners: _bool
) -> Tensor: ...
def group_norm(
    input: Tensor,
    num_groups: _int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: _float = 1e-05,
    cudnn_enabled: _bool = True,
) -> Tensor: ...
def gru() -> Any: ...
def gru_cell(
    input: Tensor,
    hx: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor: ...
def gt(input: Tensor, other: _Number | Tensor, *, out: Tensor | None = None) -> Tensor: ...

half: dtype

@overload
def hamming_window(
    window_length: _int,
    *,
    dtype: dtype | None = None,
    layout: layout | None = None,
    device: _Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
@overload
def hamming_window(
    window_length: _int,
    periodic: _bool,
    *,
    dtype: dtype | None = None,
    layout: layout | None = None,
    device: _Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
@overload
def hamming_window(
    window_length: _int,
    periodic: _bool,
    alpha: _float,
    *,
    dtype: dtype | None = None,
    layout: layout | None = None,
    device: _Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
@overload
def hamming_window(
    window_length: _int,
    periodic: _bool,
    alpha: _float,
    beta: _float,
    *,
    dtype: dtype | None = None,
    layout: layout | None = None,
    device: _Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
@overload
def hann_window(
    window_length: _int,
    *,
    dtype: dtype | None = None,
    layout: layout | None = None,
    device: _Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
@overload
def hann_window(
    window_length: _int,
    periodic: _bool,
    *,
    dtype: dtype | None = None,
    layout: layout | None = None,
    device: _Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
def hardshrink(input: Tensor, lambd: _Number = 0.5, *, out: Tensor | None = None) -> Tensor: ...
def hash_tensor(
    input: Tensor, dim: Any = (), *, keepdim: Any = False, mode: _int = 0, out: Tensor | None = None
) -> Tensor: ...
def heaviside(input: Tensor, values: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def hinge_embedding_loss(
    input: Tensor, target: Tensor, margin: _float = 1.0, reduction: str = 0
) -> Tensor: ...
def histc(
    input: Tensor,
    bins: _int = 100,
    min: _Number = 0,
    max: _Number = 0,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def histogram(
    input: Tensor,
    bins: _int | Tensor,
    *,
    weight: Tensor | None = None,
    density: _bool = False,
    out: Tensor | None = None,
) -> Any: ...
@overload
def histogram(
    input: Tensor,
    bins: _int | Tensor = 100,
    *,
    range: Sequence[_float] | None = None,
    weight: Tensor | None = None,
    density: _bool = False,
    out: Tensor | None = None,
) -> Any: ...
def histogramdd(
    input: Tensor, bins: Any, range: Any = None, weight: Tensor | None = None, density: Any = False
) -> Tensor: ...
@overload
def hsplit(input: Tensor, sections: _int) -> tuple[Tensor, ...]: ...
@overload
def hsplit(input: Tensor, indices: Sequence[_int]) -> tuple[Tensor, ...]: ...
def hspmm(mat1: Any, mat2: Any, *, out: Tensor | None = None) -> Tensor: ...
def hstack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor: ...
def hypot(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def i0(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def igamma(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def igammac(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def imag(input: Tensor) -> Tensor: ...
def index_add(
    input: Tensor,
    dim: _int,
    index: Tensor,
    source: Tensor,
    *,
    alpha: _Number = 1,
    out: Tensor | None = None,
) -> Tensor: ...
def index_copy(
    input: Tensor, dim: _int, index: Tensor, source: Tensor, *, out: Tensor | None = None
) -> Tensor: ...
def index_fill(input: Tensor, dim: _int, index: Tensor, value: _Number | Tensor) -> Tensor: ...
def index_put(
    input: Tensor, indices: Sequence[Tensor], values: Tensor, accumulate: _bool = False
) -> Tensor: ...
def index_reduce(
    input: Tensor,
    dim: _int,
    index: Tensor,
    source: Tensor,
    reduce: str,
    *,
    include_self: _bool = True,
    out: Tensor | None = None,
) -> Tensor: ...
def index_select(
    input: Tensor, dim: _int, index: Tensor, *, out: Tensor | None = None
) -> Tensor: ...
def init_num_threads() -> Tensor: ...
def initial_seed() -> _int: ...
def inner(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def instance_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    use_input_stats: _bool,
    momentum: _float,
    eps: _float,
    cudnn_enabled: _bool,
) -> Tensor: ...

int: dtype
int16: dtype
int32: dtype
int64: dtype
int8: dtype

def inverse(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def is_anomaly_check_nan_enabled(*args: Any, **kwargs: Any) -> Tensor: ...
def is_anomaly_enabled(*args: Any, **kwargs: Any) -> Tensor: ...
def is_complex(input: Tensor) -> _bool: ...
def is_conj(input: Tensor) -> _bool: ...
def is_deterministic_algorithms_warn_only_enabled() -> Tensor: ...
def is_floating_point(input: Tensor) -> _bool: ...
def is_grad_enabled() -> _bool: ...
def is_inference(input: Tensor) -> _bool: ...
def is_inference_mode_enabled() -> _bool: ...
def is_neg(*args: Any, **kwargs: Any) -> _bool: ...
def is_nonzero(input: Tensor) -> _bool: ...
def is_same_size(*args: Any, **kwargs: Any) -> _bool: ...
def is_signed(*args: Any, **kwargs: Any) -> _bool: ...
def is_storage(obj: Any, /) -> _bool: ...
def is_tensor(obj: Any, /) -> _bool: ...
def is_warn_always_enabled() -> Tensor: ...
def isclose(
    input: Tensor,
    other: Tensor,
    rtol: _float = 1e-05,
    atol: _float = 1e-08,
    equal_nan: _bool = False,
) -> Tensor: ...
def isfinite(input: Tensor) -> Tensor: ...
@overload
def isin(
    elements: Tensor,
    test_elements: Tensor,
    *,
    assume_unique: _bool = False,
    invert: _bool = False,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def isin(
    element: _Number,
    test_elements: Tensor,
    *,
    assume_unique: _bool = False,
    invert: _bool = False,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def isin(
    elements: Tensor,
    test_element: _Number,
    *,
    assume_unique: _bool = False,
    invert: _bool = False,
    out: Tensor | None = None,
) -> Tensor: ...
def isinf(input: Tensor) -> Tensor: ...
def isnan(input: Tensor) -> Tensor: ...
def isneginf(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def isposinf(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def isreal(input: Tensor) -> Tensor: ...
def istft(
    input: Tensor,
    n_fft: _int,
    hop_length: _int | None = None,
    win_length: _int | None = None,
    window: Tensor | None = None,
    center: _bool = True,
    normalized: _bool = False,
    onesided: _bool | None = None,
    length: _int | None = None,
    return_complex: _bool = False,
) -> Tensor: ...

jagged: layout

@overload
def kaiser_window(
    window_length: _int,
    *,
    dtype: dtype | None = None,
    layout: layout | None = None,
    device: _Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
@overload
def kaiser_window(
    window_length: _int,
    periodic: _bool,
    *,
    dtype: dtype | None = None,
    layout: layout | None = None,
    device: _Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
@overload
def kaiser_window(
    window_length: _int,
    periodic: _bool,
    beta: _float,
    *,
    dtype: dtype | None = None,
    layout: layout | None = None,
    device: _Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
def kl_div(
    input: Tensor, target: Tensor, reduction: str = 0, *, log_target: _bool = False
) -> Tensor: ...
def kron(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def kthvalue(
    input: Tensor, k: _int, dim: _int = -1, keepdim: _bool = False, *, out: Tensor | None = None
) -> Any: ...
def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[_int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: _float = 1e-05,
    cudnn_enable: _bool = True,
) -> Tensor: ...
def lcm(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def ldexp(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def le(input: Tensor, other: _Number | Tensor, *, out: Tensor | None = None) -> Tensor: ...

legacy_contiguous_format: memory_format

def lerp(
    input: Tensor, end: Tensor, weight: _Number | Tensor, *, out: Tensor | None = None
) -> Tensor: ...
def less(input: Tensor, other: _Number | Tensor, *, out: Tensor | None = None) -> Tensor: ...
def less_equal(input: Tensor, other: _Number | Tensor, *, out: Tensor | None = None) -> Tensor: ...
def lgamma(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def linspace(
    start: _Number | Tensor,
    end: _Number | Tensor,
    steps: _int | None = None,
    *,
    out: Tensor | None = None,
    dtype: dtype | None = None,
    device: _Device | None = None,
    requires_grad: _bool | None = False,
    pin_memory: _bool | None = False,
) -> Tensor: ...
@overload
def linspace(
    start: _Number | Tensor,
    end: _Number | Tensor,
    steps: _int,
    *,
    out: Tensor | None = None,
    dtype: dtype | None = None,
    layout: layout | None = None,
    device: _Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
def lobpcg(
    A: Tensor,
    k: Any = None,
    B: Tensor | None = None,
    X: Tensor | None = None,
    n: Any = None,
    iK: Tensor | None = None,
    niter: Any = None,
    tol: Any = None,
    largest: Any = None,
    method: Any = None,
    tracker: Any = None,
    ortho_iparams: Any = None,
    ortho_fparams: Any = None,
    ortho_bparams: Any = None,
) -> Tensor: ...
def log(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def log10(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def log1p(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def log2(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def log_softmax(
    input: Tensor, dim: _int, dtype: dtype | None = None, *, out: Tensor | None = None
) -> Tensor: ...
def logaddexp(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def logaddexp2(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def logcumsumexp(input: Tensor, dim: _int, *, out: Tensor | None = None) -> Tensor: ...
def logdet(input: Tensor) -> Tensor: ...
def logical_and(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def logical_not(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def logical_or(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def logical_xor(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def logit(input: Tensor, eps: _float | None = None, *, out: Tensor | None = None) -> Tensor: ...
@overload
def logspace(
    start: _Number | Tensor,
    end: _Number | Tensor,
    steps: _int | None = None,
    base: _float = 10.0,
    *,
    out: Tensor | None = None,
    dtype: dtype | None = None,
    device: _Device | None = None,
    requires_grad: _bool | None = False,
    pin_memory: _bool | None = False,
) -> Tensor: ...
@overload
def logspace(
    start: _Number | Tensor,
    end: _Number | Tensor,
    steps: _int,
    base: _float = 10.0,
    *,
    out: Tensor | None = None,
    dtype: dtype | None = None,
    layout: layout | None = None,
    device: _Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
def logsumexp(
    input: Tensor, dim: Sequence[_int] | _int, keepdim: _bool = False, *, out: Tensor | None = None
) -> Tensor: ...

long: dtype

def lstm() -> Any: ...
def lstm_cell(
    input: Tensor,
    hx: Sequence[Tensor],
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Any: ...
def lstsq(input: Tensor, A: Tensor) -> Tensor: ...
def lt(input: Tensor, other: _Number | Tensor, *, out: Tensor | None = None) -> Tensor: ...
def lu(input: Tensor, pivot: Any = True, get_infos: Any = False, out: Any = None) -> Tensor: ...
def lu_solve(
    input: Tensor, LU_data: Tensor, LU_pivots: Tensor, *, out: Tensor | None = None
) -> Tensor: ...
def lu_unpack(
    LU_data: Tensor,
    LU_pivots: Tensor,
    unpack_data: _bool = True,
    unpack_pivots: _bool = True,
    *,
    out: Tensor | None = None,
) -> Any: ...
def manual_seed(seed: Any) -> Generator: ...
def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: _float = 0.0, reduction: str = 0
) -> Tensor: ...
def masked_fill(input: Tensor, mask: Tensor, value: _Number | Tensor) -> Tensor: ...
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor: ...
def masked_select(input: Tensor, mask: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def matmul(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def matrix_exp(input: Tensor) -> Tensor: ...
def matrix_power(input: Tensor, n: _int, *, out: Tensor | None = None) -> Tensor: ...
def matrix_rank(input: Tensor, tol: Any = None, symmetric: Any = False) -> Tensor: ...
@overload
def max(input: Tensor, *, out: Tensor | None = None) -> Any: ...
@overload
def max(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Any: ...
@overload
def max(input: Tensor, dim: _int, keepdim: _bool = False, *, out: Tensor | None = None) -> Any: ...
def max_pool1d(
    input: Tensor,
    kernel_size: Sequence[_int] | _int,
    stride: Sequence[_int] | _int | None = None,
    padding: Sequence[_int] | _int = 0,
    dilation: Sequence[_int] | _int = 1,
    ceil_mode: _bool = False,
    return_indices: Any = False,
) -> Tensor: ...
def max_pool1d_with_indices(
    input: Tensor,
    kernel_size: Sequence[_int] | _int,
    stride: Sequence[_int] | _int | None = None,
    padding: Sequence[_int] | _int = 0,
    dilation: Sequence[_int] | _int = 1,
    ceil_mode: _bool = False,
    return_indices: Any = False,
) -> Any: ...
def max_pool2d(
    input: Tensor,
    kernel_size: Sequence[_int] | _int,
    stride: Sequence[_int] | _int | None = None,
    padding: Sequence[_int] | _int = 0,
    dilation: Sequence[_int] | _int = 1,
    ceil_mode: _bool = False,
    return_indices: Any = False,
) -> Tensor: ...
def max_pool3d(
    input: Tensor,
    kernel_size: Sequence[_int] | _int,
    stride: Sequence[_int] | _int | None = None,
    padding: Sequence[_int] | _int = 0,
    dilation: Sequence[_int] | _int = 1,
    ceil_mode: _bool = False,
    return_indices: Any = False,
) -> Tensor: ...
def maximum(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def mean(input: Tensor, *, dtype: dtype | None = None, out: Tensor | None = None) -> Tensor: ...
@overload
def mean(
    input: Tensor,
    dim: Sequence[_int] | _int | None,
    keepdim: _bool = False,
    *,
    dtype: dtype | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def median(input: Tensor) -> Any: ...
@overload
def median(
    input: Tensor, dim: _int, keepdim: _bool = False, *, out: Tensor | None = None
) -> Any: ...
def meshgrid(*tensors: Any, indexing: str | None = None) -> tuple[Tensor, ...]: ...
@overload
def min(input: Tensor, *, out: Tensor | None = None) -> Any: ...
@overload
def min(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Any: ...
@overload
def min(input: Tensor, dim: _int, keepdim: _bool = False, *, out: Tensor | None = None) -> Any: ...
def minimum(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def mm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def mm(input: Tensor, mat2: Tensor, out_dtype: dtype, *, out: Tensor | None = None) -> Tensor: ...
def mode(
    input: Tensor, dim: _int = -1, keepdim: _bool = False, *, out: Tensor | None = None
) -> Any: ...
def moveaxis(
    input: Tensor, source: _int | Sequence[_int], destination: _int | Sequence[_int]
) -> Tensor: ...
def movedim(
    input: Tensor, source: _int | Sequence[_int], destination: _int | Sequence[_int]
) -> Tensor: ...
def msort(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def mul(input: Tensor, other: _Number | Tensor, *, out: Tensor | None = None) -> Tensor: ...
def multinomial(
    input: Tensor,
    num_samples: _int,
    replacement: _bool = False,
    *,
    generator: Generator | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def multiply(input: Tensor, other: _Number | Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def multiply(input: Tensor, other: _Number | Tensor) -> Tensor: ...
def mv(input: Tensor, vec: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def mvlgamma(input: Tensor, p: _int, *, out: Tensor | None = None) -> Tensor: ...
def nan_to_num(
    input: Tensor,
    nan: _float | None = None,
    posinf: _float | None = None,
    neginf: _float | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def nanmean(
    input: Tensor,
    dim: Sequence[_int] | _int | None = None,
    keepdim: _bool = False,
    *,
    dtype: dtype | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def nanmedian(input: Tensor) -> Any: ...
@overload
def nanmedian(
    input: Tensor, dim: _int, keepdim: _bool = False, *, out: Tensor | None = None
) -> Any: ...
def nanquantile(
    input: Tensor,
    q: Tensor | _float,
    dim: _int | None = None,
    keepdim: _bool = False,
    *,
    interpolation: str = "linear",
    out: Tensor | None = None,
) -> Tensor: ...
def nansum(
    input: Tensor,
    dim: Sequence[_int] | _int | None = None,
    keepdim: _bool = False,
    *,
    dtype: dtype | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
def narrow(input: Tensor, dim: _int, start: _int | Tensor, length: _int) -> Tensor: ...
def narrow_copy(
    input: Tensor, dim: _int, start: _int, length: _int, *, out: Tensor | None = None
) -> Tensor: ...
def native_batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: _bool,
    momentum: _float,
    eps: _float,
    *,
    out: Tensor | None = None,
) -> Any: ...
def native_channel_shuffle(input: Tensor, groups: _int) -> Tensor: ...
def native_dropout(input: Tensor, p: _float, train: _bool | None) -> Any: ...
def native_group_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    N: _int,
    C: _int,
    HxW: _int,
    group: _int,
    eps: _float,
) -> Any: ...
def native_layer_norm(
    input: Tensor,
    normalized_shape: Sequence[_int],
    weight: Tensor | None,
    bias: Tensor | None,
    eps: _float,
) -> Any: ...
def ne(input: Tensor, other: _Number | Tensor, *, out: Tensor | None = None) -> Tensor: ...
def neg(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def negative(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def nextafter(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def nonzero(input: Tensor, *, as_tuple: Any = False, out: Tensor | None = None) -> Tensor: ...
@overload
def nonzero(input: Tensor, *, as_tuple: Any) -> Tensor: ...
def nonzero_static(
    input: Tensor, *, size: _int, fill_value: _int = -1, out: Tensor | None = None
) -> Tensor: ...
def norm(
    input: Tensor,
    p: _Number | _Number | None = "fro",
    dim: Sequence[_int] | _int | None = None,
    keepdim: _bool = False,
    out: Tensor | None = None,
    dtype: dtype | None = None,
) -> Tensor: ...
def norm_except_dim(v: Tensor, pow: _int = 2, dim: _int = 0) -> Tensor: ...
@overload
def normal(
    mean: Tensor | _float,
    std: Tensor | _float,
    *,
    generator: Generator | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def normal(
    mean: Tensor | _float,
    std: Tensor | _float = 1,
    *,
    generator: Generator | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def normal(
    mean: Tensor | _float,
    std: Tensor | _float,
    size: Sequence[_int],
    *,
    generator: Generator | None = None,
    out: Tensor | None = None,
    dtype: dtype | None = None,
    layout: layout | None = None,
    device: _Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
def not_equal(input: Tensor, other: _Number | Tensor, *, out: Tensor | None = None) -> Tensor: ...
def nuclear_norm(
    input: Tensor,
    dim: Sequence[_int] | _int | None = None,
    keepdim: _bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def numel(self: Tensor) -> _int: ...
@overload
def ones(
    size: Sequence[_int],
    *,
    out: Tensor | None = None,
    dtype: dtype | None = None,
    layout: layout | None = None,
    device: _Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
@overload
def ones(
    *size: _int,
    out: Tensor | None = None,
    dtype: dtype | None = None,
    layout: layout | None = None,
    device: _Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
def ones_like(
    input: Tensor,
    *,
    memory_format: memory_format | None = None,
    dtype: dtype | None = None,
    layout: layout | None = None,
    device: _Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
def orgqr(input: Tensor, input2: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def ormqr(
    input: Tensor,
    input2: Tensor,
    input3: Tensor,
    left: _bool = True,
    transpose: _bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def outer(input: Tensor, vec2: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def pairwise_distance(
    x1: Tensor, x2: Tensor, p: _float = 2, eps: _float = 1e-06, keepdim: _bool = False
) -> Tensor: ...
def pca_lowrank(A: Tensor, q: Any = None, center: Any = True, niter: _int = 2) -> Tensor: ...
def pdist(input: Tensor, p: _float = 2) -> Tensor: ...
def permute(input: Tensor, dims: Sequence[_int]) -> Tensor: ...
def permute_copy(input: Tensor, dims: Sequence[_int], *, out: Tensor | None = None) -> Tensor: ...
def pinverse(input: Tensor, rcond: _float = 1e-15) -> Tensor: ...
def pixel_shuffle(input: Tensor, upscale_factor: _int) -> Tensor: ...
def pixel_unshuffle(input: Tensor, downscale_factor: _int) -> Tensor: ...
def poisson(input: Tensor, generator: Generator | None = None) -> Tensor: ...
def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: _bool, full: _bool, eps: _float, reduction: str
) -> Tensor: ...
def polar(abs: Tensor, angle: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def polygamma(n: _int, input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def positive(input: Tensor) -> Tensor: ...
@overload
def pow(
    input: _Number | Tensor, exponent: Tensor | _Number, *, out: Tensor | None = None
) -> Tensor: ...
@overload
def pow(
    self: _Number | Tensor, exponent: Tensor | _Number, *, out: Tensor | None = None
) -> Tensor: ...
def prelu(input: Tensor, weight: Tensor) -> Tensor: ...

preserve_format: memory_format

@overload
def prod(input: Tensor, *, dtype: dtype | None = None) -> Tensor: ...
@overload
def prod(
    input: Tensor,
    dim: _int,
    keepdim: _bool = False,
    *,
    dtype: dtype | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
def promote_types(type1: Any, type2: Any) -> dtype: ...
def put(input: Tensor, index: Tensor, source: Tensor, accumulate: _bool = False) -> Tensor: ...

qint32: dtype
qint8: dtype

def qr(input: Tensor, some: _bool = True, *, out: Tensor | None = None) -> Any: ...

qscheme: Any

def quantile(
    input: Tensor,
    q: Tensor | _float,
    dim: _int | None = None,
    keepdim: _bool = False,
    *,
    interpolation: str = "linear",
    out: Tensor | None = None,
) -> Tensor: ...
def quantize_per_channel(
    input: Tensor, scales: Any, zero_points: Any, axis: Any, dtype: dtype | None
) -> Tensor: ...
@overload
def quantize_per_tensor(
    input: Tensor, scale: Any, zero_point: Any, dtype: dtype | None
) -> Tensor: ...
@overload
def quantize_per_tensor(
    tensors: Sequence[Tensor], scales: Any, zero_points: Any, dtype: dtype | None
) -> Tensor: ...
def quantize_per_tensor_dynamic(
    input: Tensor, dtype: dtype | None, reduce_range: Any
) -> Tensor: ...

quint2x4: dtype
quint4x2: dtype
quint8: dtype

def rad2deg(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def rand(
    size: Sequence[_int],
    *,
    generator: Generator | None,
    out: Tensor | None = None,
    dtype: dtype | None = None,
    layout: layout | None = None,
    device: _Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
@overload
def rand(
    *size: _int,
    generator: Generator | None,
    out: Tensor | None = None,
    dtype: dtype | None = None,
    layout: layout | None = None,
    device: _Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
@overload
def rand(
    size: Sequence[_int],
    *,
    out: Tensor | None = None,
    dtype: dtype | None = None,
    layout: layout | None = None,
    device: _Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
@overload
def rand(
    *size: _int,
    out: Tensor | None = None,
    dtype: dtype | None = None,
    layout: layout | None = None,
    device: _Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
@overload
def rand_like(
    input: Tensor,
    *,
    generator: Generator | None,
    memory_format: memory_format | None = None,
    dtype: dtype | None = None,
    layout: layout | None = None,
    device: _Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
@overload
def rand_like(
    input: Tensor,
    *,
    memory_format: memory_format | None = None,
    dtype: dtype | None = None,
    layout: layout | None = None,
    device: _Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
@overload
def randint(
    low: _int,
    high: _int,
    size: Sequence[_int],
    *,
    generator: Generator | None = None,
    dtype: dtype | None = None,
    device: _Device | None = None,
    requires_grad: _bool | None = False,
    pin_memory: _bool | None = False,
) -> Tensor: ...
@overload
def randint(
    high: _int,
    size: Sequence[_int],
    *,
    generator: Generator | None = None,
    dtype: dtype | None = None,
    device: _Device | None = None,
    requires_grad: _bool | None = False,
    pin_memory: _bool | None = False,
) -> Tensor: ...
@overload
def randint(
    high: _int,
    size: Sequence[_int],
    *,
    generator: Generator | None,
    out: Tensor | None = None,
    dtype: dtype | None = None,
    layout: layout | None = None,
    device: _Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
@overload
def randint(
    high: _int,
    size: Sequence[_int],
    *,
    out: Tensor | None = None,
    dtype: dtype | None = None,
    layout: layout | None = None,
    device: _Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
@overload
def randint(
    low: _int,
    high: _int,
    size: Sequence[_int],
    *,
    generator: Generator | None,
    out: Tensor | None = None,
    dtype: dtype | None = None,
    layout: layout | None = None,
    device: _Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
@overload
def randint(
    low: _int,
    high: _int,
    size: Sequence[_int],
    *,
    out: Tensor | None = None,
    dtype: dtype | None = None,
    layout: layout | None = None,
    device: _Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
@overload
def randint_like(
    input: Tensor,
    low: _int,
    high: _int | Tensor,
    *,
    generator: Generator | None,
    memory_format: memory_format | None = None,
    dtype: dtype | None = None,
    layout: layout | None = None,
    device: _Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
@overload
def randint_like(
    input: Tensor,
    low: _int,
    high: _int | Tensor,
    *,
    memory_format: memory_format | None = None,
    dtype: dtype | None = None,
    layout: layout | None = None,
    device: _Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
@overload
def randint_like(
    input: Tensor,
    high: _int | Tensor,
    *,
    generator: Generator | None,
    memory_format: memory_format | None = None,
    dtype: dtype | None = None,
    layout: layout | None = None,
    device: _Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
@overload
def randint_like(
    input: Tensor,
    high: _int | Tensor,
    *,
    memory_format: memory_format | None = None,
    dtype: dtype | None = None,
    layout: layout | None = None,
    device: _Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
@overload
def randn(
    size: Sequence[_int],
    *,
    generator: Generator | None,
    out: Tensor | None = None,
    dtype: dtype | None = None,
    layout: layout | None = None,
    device: _Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
@overload
def randn(
    *size: _int,
    generator: Generator | None,
    out: Tensor | None = None,
    dtype: dtype | None = None,
    layout: layout | None = None,
    device: _Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
@overload
def randn(
    size: Sequence[_int],
    *,
    out: Tensor | None = None,
    dtype: dtype | None = None,
    layout: layout | None = None,
    device: _Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
@overload
def randn(
    *size: _int,
    out: Tensor | None = None,
    dtype: dtype | None = None,
    layout: layout | None = None,
    device: _Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
@overload
def randn_like(
    input: Tensor,
    *,
    generator: Generator | None,
    memory_format: memory_format | None = None,
    dtype: dtype | None = None,
    layout: layout | None = None,
    device: _Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
@overload
def randn_like(
    input: Tensor,
    *,
    memory_format: memory_format | None = None,
    dtype: dtype | None = None,
    layout: layout | None = None,
    device: _Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
@overload
def randperm(
    n: _int,
    *,
    generator: Generator | None,
    out: Tensor | None = None,
    dtype: dtype | None = None,
    layout: layout | None = None,
    device: _Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
@overload
def randperm(
    n: _int,
    *,
    out: Tensor | None = None,
    dtype: dtype | None = None,
    layout: layout | None = None,
    device: _Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
def range(
    start: Any,
    end: Any,
    step: Any = 1,
    *,
    out: Tensor | None = None,
    dtype: dtype | None = None,
    device: _Device | None = None,
    requires_grad: _bool | None = False,
    pin_memory: _bool | None = False,
) -> Tensor: ...
def ravel(input: Tensor) -> Tensor: ...
def real(input: Tensor) -> Tensor: ...
def reciprocal(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def relu(input: Tensor) -> Tensor: ...
def relu_(input: Tensor) -> Tensor: ...
@overload
def remainder(
    input: Tensor | _Number, other: _Number | Tensor, *, out: Tensor | None = None
) -> Tensor: ...
@overload
def remainder(self: Tensor | _Number, other: _Number | Tensor) -> Tensor: ...
def renorm(
    input: Tensor, p: _Number, dim: _int, maxnorm: _Number, *, out: Tensor | None = None
) -> Tensor: ...
@overload
def repeat_interleave(
    input: Tensor,
    repeats: Tensor | _int,
    dim: _int | None = None,
    *,
    output_size: _int | None = None,
) -> Tensor: ...
@overload
def repeat_interleave(repeats: Tensor | _int, *, output_size: _int | None = None) -> Tensor: ...
def reshape(input: Tensor, shape: Sequence[_int]) -> Tensor: ...
def resize_as_(*args: Any, **kwargs: Any) -> Tensor: ...
def resolve_conj(input: Tensor) -> Tensor: ...
def resolve_neg(input: Tensor) -> Tensor: ...
@overload
def result_type(tensor: Any, other: Tensor | _Number) -> dtype: ...
@overload
def result_type(scalar: Any, tensor: Any) -> dtype: ...
@overload
def result_type(scalar1: Any, scalar2: Any) -> dtype: ...
def rms_norm(
    input: Tensor,
    normalized_shape: Sequence[_int],
    weight: Tensor | None = None,
    eps: _float | None = None,
) -> Tensor: ...
def rnn_relu() -> Any: ...
def rnn_relu_cell(
    input: Tensor,
    hx: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor: ...
def rnn_tanh() -> Any: ...
def rnn_tanh_cell(
    input: Tensor,
    hx: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor: ...
def roll(
    input: Tensor, shifts: Sequence[_int] | _int, dims: Sequence[_int] | _int = ()
) -> Tensor: ...
def rot90(input: Tensor, k: _int = 1, dims: Sequence[_int] = (0, 1)) -> Tensor: ...
@overload
def round(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def round(input: Tensor, *, decimals: _int, out: Tensor | None = None) -> Tensor: ...
def row_stack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor: ...
def rrelu(
    input: Tensor,
    lower: _Number = 0.125,
    upper: _Number = 0.3333333333333333,
    training: _bool = False,
    generator: Generator | None = None,
) -> Tensor: ...
def rrelu_(
    input: Tensor,
    lower: _Number = 0.125,
    upper: _Number = 0.3333333333333333,
    training: _bool = False,
    generator: Generator | None = None,
) -> Tensor: ...
def rsqrt(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def rsub(input: Tensor, other: _Number | Tensor, *, alpha: _Number = 1) -> Tensor: ...
def scalar_tensor(*args: Any, **kwargs: Any) -> Tensor: ...
@overload
def scatter(
    input: Tensor, dim: _int, index: Tensor, src: Tensor, *, reduce: str, out: Tensor | None = None
) -> Tensor: ...
@overload
def scatter(
    input: Tensor, dim: _int, index: Tensor, src: Tensor, *, out: Tensor | None = None
) -> Tensor: ...
@overload
def scatter(
    input: Tensor,
    dim: _int,
    index: Tensor,
    value: _Number,
    *,
    reduce: str,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def scatter(
    input: Tensor, dim: _int, index: Tensor, value: _Number, *, out: Tensor | None = None
) -> Tensor: ...
def scatter_add(
    input: Tensor, dim: _int, index: Tensor, src: Tensor, *, out: Tensor | None = None
) -> Tensor: ...
def scatter_reduce(
    input: Tensor,
    dim: _int,
    index: Tensor,
    src: Tensor,
    reduce: str,
    *,
    include_self: _bool = True,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def searchsorted(
    sorted_sequence: Tensor,
    input: _Number | Tensor,
    *,
    out_int32: _bool = False,
    right: _bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def searchsorted(
    sorted_sequence: Tensor,
    self: _Number | Tensor,
    *,
    out_int32: _bool = False,
    right: _bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
def seed() -> _int: ...
def segment_reduce(
    data: Tensor,
    reduce: Any,
    *,
    lengths: Tensor | None = None,
    indices: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: _int = 0,
    unsafe: Any = False,
    initial: Any = None,
) -> Tensor: ...
def select(input: Tensor, dim: _int, index: _int) -> Tensor: ...
def select_copy(input: Tensor, dim: _int, index: _int, *, out: Tensor | None = None) -> Tensor: ...
def select_scatter(input: Tensor, src: Tensor, dim: _int, index: _int) -> Tensor: ...
def selu(input: Tensor) -> Tensor: ...
def selu_(input: Tensor) -> Tensor: ...
def set_default_device(device: _Device | None) -> None: ...
def set_default_dtype(*args: Any, **kwargs: Any) -> None: ...
def set_default_tensor_type(t: Any, /) -> Tensor: ...
def set_deterministic_debug_mode(debug_mode: Any) -> Tensor: ...
def set_float32_matmul_precision(precision: Any) -> Tensor: ...
def set_flush_denormal(mode: Any) -> Tensor: ...
def set_num_interop_threads(num: Any) -> Tensor: ...
def set_num_threads(num: Any) -> None: ...
def set_printoptions(
    precision: Any = None,
    threshold: Any = None,
    edgeitems: Any = None,
    linewidth: Any = None,
    profile: Any = None,
    sci_mode: Any = None,
) -> None: ...
def set_rng_state(new_state: Any) -> Tensor: ...
def set_warn_always(b: Any, /) -> Tensor: ...
def sgn(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...

short: dtype

def sigmoid(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def sign(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def signbit(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def sin(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def sinc(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def sinh(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def slice_copy(
    input: Tensor,
    dim: _int = 0,
    start: _int | None = None,
    end: _int | None = None,
    step: _int = 1,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def slice_scatter(
    input: Tensor,
    src: Tensor,
    dim: _int = 0,
    start: _int | None = None,
    end: _int | None = None,
    step: _int = 1,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def slogdet(input: Tensor, *, out: Tensor | None = None) -> Any: ...
def smm(input: Tensor, mat2: Any) -> Tensor: ...
def softmax(
    input: Tensor, dim: _int, dtype: dtype | None = None, *, out: Tensor | None = None
) -> Tensor: ...
def solve(input: Tensor, A: Tensor) -> Tensor: ...
@overload
def sort(
    input: Tensor,
    *,
    stable: _bool | None,
    dim: _int = -1,
    descending: _bool = False,
    out: Tensor | None = None,
) -> Any: ...
@overload
def sort(
    input: Tensor, dim: _int = -1, descending: _bool = False, *, out: Tensor | None = None
) -> Any: ...

sparse_bsc: layout

def sparse_bsc_tensor(
    ccol_indices: Any,
    row_indices: Any,
    values: Any,
    size: Any = None,
    *,
    dtype: dtype | None = None,
    device: _Device | None = None,
    requires_grad: _bool | None = False,
    check_invariants: Any = None,
) -> Tensor: ...

sparse_bsr: layout

def sparse_bsr_tensor(
    crow_indices: Any,
    col_indices: Any,
    values: Any,
    size: Any = None,
    *,
    dtype: dtype | None = None,
    device: _Device | None = None,
    requires_grad: _bool | None = False,
    check_invariants: Any = None,
) -> Tensor: ...
def sparse_compressed_tensor(
    compressed_indices: Any,
    plain_indices: Any,
    values: Any,
    size: Any = None,
    *,
    dtype: dtype | None = None,
    layout: layout | None = None,
    device: _Device | None = None,
    requires_grad: _bool | None = False,
    check_invariants: Any = None,
) -> Tensor: ...

sparse_coo: layout

def sparse_coo_tensor(
    indices: Any,
    values: Any,
    size: Any = None,
    *,
    dtype: dtype | None = None,
    device: _Device | None = None,
    requires_grad: _bool | None = False,
    check_invariants: Any = None,
    is_coalesced: Any = None,
) -> Tensor: ...

sparse_csc: layout

def sparse_csc_tensor(
    ccol_indices: Any,
    row_indices: Any,
    values: Any,
    size: Any = None,
    *,
    dtype: dtype | None = None,
    device: _Device | None = None,
    requires_grad: _bool | None = False,
    check_invariants: Any = None,
) -> Tensor: ...

sparse_csr: layout

def sparse_csr_tensor(
    crow_indices: Any,
    col_indices: Any,
    values: Any,
    size: Any = None,
    *,
    dtype: dtype | None = None,
    device: _Device | None = None,
    requires_grad: _bool | None = False,
    check_invariants: Any = None,
) -> Tensor: ...
def special_airy_ai(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def special_bessel_j0(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def special_bessel_j1(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def special_bessel_y0(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def special_bessel_y1(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def special_chebyshev_polynomial_t(
    input: Tensor, n: Tensor, *, out: Tensor | None = None
) -> Tensor: ...
def special_chebyshev_polynomial_u(
    input: Tensor, n: Tensor, *, out: Tensor | None = None
) -> Tensor: ...
def special_chebyshev_polynomial_v(
    input: Tensor, n: Tensor, *, out: Tensor | None = None
) -> Tensor: ...
def special_chebyshev_polynomial_w(
    input: Tensor, n: Tensor, *, out: Tensor | None = None
) -> Tensor: ...
def special_entr(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def special_erfcx(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def special_hermite_polynomial_h(
    input: Tensor, n: Tensor, *, out: Tensor | None = None
) -> Tensor: ...
def special_hermite_polynomial_he(
    input: Tensor, n: Tensor, *, out: Tensor | None = None
) -> Tensor: ...
def special_i0e(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def special_i1(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def special_i1e(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def special_laguerre_polynomial_l(
    input: Tensor, n: Tensor, *, out: Tensor | None = None
) -> Tensor: ...
def special_legendre_polynomial_p(
    input: Tensor, n: Tensor, *, out: Tensor | None = None
) -> Tensor: ...
def special_log_ndtr(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def special_modified_bessel_i0(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def special_modified_bessel_i1(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def special_modified_bessel_k0(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def special_modified_bessel_k1(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def special_ndtr(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def special_ndtri(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def special_scaled_modified_bessel_k0(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def special_scaled_modified_bessel_k1(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def special_shifted_chebyshev_polynomial_t(
    input: Tensor, n: Tensor, *, out: Tensor | None = None
) -> Tensor: ...
def special_shifted_chebyshev_polynomial_u(
    input: Tensor, n: Tensor, *, out: Tensor | None = None
) -> Tensor: ...
def special_shifted_chebyshev_polynomial_v(
    input: Tensor, n: Tensor, *, out: Tensor | None = None
) -> Tensor: ...
def special_shifted_chebyshev_polynomial_w(
    input: Tensor, n: Tensor, *, out: Tensor | None = None
) -> Tensor: ...
def special_spherical_bessel_j0(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def special_xlog1py(
    input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None
) -> Tensor: ...
def special_zeta(
    input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None
) -> Tensor: ...
def split(tensor: Any, split_size_or_sections: Any, dim: _int = 0) -> tuple[Tensor, ...]: ...
def split_with_sizes(
    input: Tensor, split_sizes: Sequence[_int], dim: _int = 0
) -> tuple[Tensor, ...]: ...
def split_with_sizes_copy(
    input: Tensor,
    split_sizes: Sequence[_int],
    dim: _int = 0,
    *,
    out: Sequence[Tensor] | None = None,
) -> Any: ...
def sqrt(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def square(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def squeeze(input: Tensor) -> Tensor: ...
@overload
def squeeze(input: Tensor, dim: _int | Sequence[_int]) -> Tensor: ...
@overload
def squeeze_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def squeeze_copy(
    input: Tensor, dim: _int | Sequence[_int], *, out: Tensor | None = None
) -> Tensor: ...
@overload
def sspaddmm(beta: Any, self: Any, alpha: Any, mat1: Any, mat2: Any) -> Tensor: ...
@overload
def sspaddmm(
    input: Tensor, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1, out: Tensor | None = None
) -> Tensor: ...
@overload
def sspaddmm(beta: Any, self: Any, mat1: Any, mat2: Any) -> Tensor: ...
def stack(tensors: Sequence[Tensor], dim: _int = 0, *, out: Tensor | None = None) -> Tensor: ...
@overload
def std(
    input: Tensor,
    dim: Sequence[_int] | _int | None,
    unbiased: _bool = True,
    keepdim: _bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def std(
    input: Tensor,
    dim: Sequence[_int] | _int | None = None,
    *,
    correction: _Number | None = None,
    keepdim: _bool = False,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def std(input: Tensor, unbiased: _bool = True) -> Tensor: ...
@overload
def std_mean(
    input: Tensor, dim: Sequence[_int] | _int | None, unbiased: _bool = True, keepdim: _bool = False
) -> Any: ...
@overload
def std_mean(
    input: Tensor,
    dim: Sequence[_int] | _int | None = None,
    *,
    correction: _Number | None = None,
    keepdim: _bool = False,
) -> Any: ...
@overload
def std_mean(input: Tensor, unbiased: _bool = True) -> Any: ...
def stft(
    input: Tensor,
    n_fft: _int,
    hop_length: _int | None = None,
    win_length: _int | None = None,
    window: Tensor | None = None,
    center: _bool = True,
    pad_mode: str = "reflect",
    normalized: _bool = False,
    onesided: _bool | None = None,
    return_complex: _bool | None = None,
    align_to_window: _bool | None = None,
) -> Tensor: ...

strided: layout

@overload
def sub(
    input: Tensor, other: _Number | Tensor, *, alpha: _Number = 1, out: Tensor | None = None
) -> Tensor: ...
@overload
def sub(self: Tensor, alpha: _Number, other: _Number | Tensor) -> Tensor: ...
@overload
def sub(self: Tensor, alpha: _Number, other: _Number | Tensor, *, out: Tensor | None) -> Tensor: ...
@overload
def subtract(
    input: Tensor, other: _Number | Tensor, *, alpha: _Number = 1, out: Tensor | None = None
) -> Tensor: ...
@overload
def subtract(input: Tensor, other: _Number | Tensor, alpha: _Number = 1) -> Tensor: ...
@overload
def sum(input: Tensor, *, dtype: dtype | None = None) -> Tensor: ...
@overload
def sum(
    input: Tensor,
    dim: Sequence[_int] | _int | None,
    keepdim: _bool = False,
    *,
    dtype: dtype | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
def svd(
    input: Tensor, some: _bool = True, compute_uv: _bool = True, *, out: Tensor | None = None
) -> Any: ...
def svd_lowrank(A: Tensor, q: Any = 6, niter: Any = 2, M: Tensor | None = None) -> Tensor: ...
def swapaxes(input: Tensor, axis0: _int, axis1: _int) -> Tensor: ...
def swapdims(input: Tensor, dim0: _int, dim1: _int) -> Tensor: ...
def sym_float(a: Any) -> Tensor: ...
def sym_int(a: Any) -> Tensor: ...
def sym_ite(b: Any, t: Any, f: Any) -> Tensor: ...
def sym_max(a: Any, b: Any) -> Tensor: ...
def sym_min(a: Any, b: Any) -> Tensor: ...
def sym_not(a: Any) -> Tensor: ...
def sym_sum(*args: Any) -> Tensor: ...
def symeig(input: Any, eigenvectors: Any = False, upper: Any = True) -> Tensor: ...
def t(input: Tensor) -> Tensor: ...
def t_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def take(input: Tensor, index: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def take_along_dim(
    input: Tensor, indices: Tensor, dim: _int | None = None, *, out: Tensor | None = None
) -> Tensor: ...
def tan(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def tanh(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def tensor(
    data: Any,
    dtype: dtype | None = None,
    device: _Device | None = None,
    requires_grad: _bool | None = False,
    pin_memory: _bool | None = False,
) -> Tensor: ...
@overload
def tensor_split(
    input: Tensor, tensor_indices_or_sections: Tensor, dim: _int = 0
) -> tuple[Tensor, ...]: ...
@overload
def tensor_split(input: Tensor, sections: _int, dim: _int = 0) -> tuple[Tensor, ...]: ...
@overload
def tensor_split(input: Tensor, indices: Sequence[_int], dim: _int = 0) -> tuple[Tensor, ...]: ...
def tensordot(a: Any, b: Any, dims: Any = 2, out: Tensor | None = None) -> Tensor: ...
def threshold(input: Tensor, threshold: _Number, value: _Number) -> Tensor: ...
def threshold_(input: Tensor, threshold: _Number, value: _Number) -> Tensor: ...
def tile(input: Tensor, dims: Sequence[_int]) -> Tensor: ...
def to_dlpack(*args: Any, **kwargs: Any) -> Tensor: ...
def topk(
    input: Tensor,
    k: _int,
    dim: _int = -1,
    largest: _bool = True,
    sorted: _bool = True,
    *,
    out: Tensor | None = None,
) -> Any: ...
def trace(input: Tensor) -> Tensor: ...
def transpose(input: Tensor, dim0: _int, dim1: _int) -> Tensor: ...
def transpose_copy(
    input: Tensor, dim0: _int, dim1: _int, *, out: Tensor | None = None
) -> Tensor: ...
@overload
def trapezoid(y: Tensor, x: Tensor, *, dim: _int = -1) -> Tensor: ...
@overload
def trapezoid(y: Tensor, *, dx: _Number = 1, dim: _int = -1) -> Tensor: ...
@overload
def trapz(y: Tensor, *, dx: _float = 1, dim: _int = -1) -> Tensor: ...
@overload
def trapz(y: Tensor, x: Tensor, *, dim: _int = -1) -> Tensor: ...
def triangular_solve(
    input: Tensor,
    A: Tensor,
    upper: _bool = True,
    transpose: _bool = False,
    unitriangular: _bool = False,
    *,
    out: Tensor | None = None,
) -> Any: ...
def tril(input: Tensor, diagonal: _int = 0, *, out: Tensor | None = None) -> Tensor: ...
def tril_indices(
    row: _int,
    col: _int,
    offset: _int = 0,
    *,
    dtype: dtype | None = None,
    layout: layout | None = None,
    device: _Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: _float = 1.0,
    p: _float = 2.0,
    eps: _float = 1e-06,
    swap: _bool = False,
    reduction: str = 0,
) -> Tensor: ...
def triu(input: Tensor, diagonal: _int = 0, *, out: Tensor | None = None) -> Tensor: ...
def triu_indices(
    row: _int,
    col: _int,
    offset: _int = 0,
    *,
    dtype: dtype | None = None,
    layout: layout | None = None,
    device: _Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
def true_divide(input: Tensor, other: _Number | Tensor, *, out: Tensor | None = None) -> Tensor: ...
def trunc(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def typename(obj: Any, /) -> str: ...

uint16: dtype
uint32: dtype
uint64: dtype
uint8: dtype

def unbind(input: Tensor, dim: _int = 0) -> tuple[Tensor, ...]: ...
def unbind_copy(input: Tensor, dim: _int = 0, *, out: Sequence[Tensor] | None = None) -> Any: ...
def unflatten(input: Tensor, dim: _int, sizes: Sequence[_int]) -> Tensor: ...
def unfold_copy(
    input: Tensor, dimension: _int, size: _int, step: _int, *, out: Tensor | None = None
) -> Tensor: ...
def unique(
    input: Tensor,
    sorted: Any = True,
    return_inverse: Any = False,
    return_counts: Any = False,
    dim: _int | None = None,
) -> Any: ...
def unique_consecutive(*args: Any, **kwargs: Any) -> Any: ...
def unravel_index(indices: Any, shape: Any) -> Tensor: ...
def unsafe_chunk(input: Tensor, chunks: _int, dim: _int = 0) -> tuple[Tensor, ...]: ...
def unsafe_split(input: Tensor, split_size: _int, dim: _int = 0) -> Any: ...
def unsafe_split_with_sizes(input: Tensor, split_sizes: Sequence[_int], dim: _int = 0) -> Any: ...
def unsqueeze(input: Tensor, dim: _int) -> Tensor: ...
def unsqueeze_copy(input: Tensor, dim: _int, *, out: Tensor | None = None) -> Tensor: ...
def use_deterministic_algorithms(mode: Any, *, warn_only: Any = False) -> None: ...
def vander(x: Tensor, N: _int | None = None, increasing: _bool = False) -> Tensor: ...
@overload
def var(
    input: Tensor,
    dim: Sequence[_int] | _int | None,
    unbiased: _bool = True,
    keepdim: _bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def var(
    input: Tensor,
    dim: Sequence[_int] | _int | None = None,
    *,
    correction: _Number | None = None,
    keepdim: _bool = False,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def var(input: Tensor, unbiased: _bool = True) -> Tensor: ...
@overload
def var_mean(
    input: Tensor, dim: Sequence[_int] | _int | None, unbiased: _bool = True, keepdim: _bool = False
) -> Any: ...
@overload
def var_mean(
    input: Tensor,
    dim: Sequence[_int] | _int | None = None,
    *,
    correction: _Number | None = None,
    keepdim: _bool = False,
) -> Any: ...
@overload
def var_mean(input: Tensor, unbiased: _bool = True) -> Any: ...
def vdot(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def view_as_complex(input: Tensor) -> Tensor: ...
def view_as_complex_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def view_as_real(input: Tensor) -> Tensor: ...
def view_as_real_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def view_copy(input: Tensor, dtype: dtype, *, out: Tensor | None = None) -> Tensor: ...
@overload
def view_copy(input: Tensor, size: Sequence[_int], *, out: Tensor | None = None) -> Tensor: ...
@overload
def vsplit(input: Tensor, sections: _int) -> tuple[Tensor, ...]: ...
@overload
def vsplit(input: Tensor, indices: Sequence[_int]) -> tuple[Tensor, ...]: ...
def vstack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor: ...
def wait(*args: Any, **kwargs: Any) -> Tensor: ...
@overload
def where(condition: Tensor) -> Any: ...
@overload
def where(
    condition: Tensor,
    input: _Number | Tensor,
    other: _Number | Tensor,
    *,
    out: Tensor | None = None,
) -> Any: ...
@overload
def where(condition: Tensor, self: _Number | Tensor, other: _Number | Tensor) -> Any: ...
@overload
def where(condition: Tensor, input: _Number | Tensor, other: _Number | Tensor) -> Any: ...
@overload
def xlogy(
    input: Tensor | _Number, other: _Number | Tensor, *, out: Tensor | None = None
) -> Tensor: ...
@overload
def xlogy(
    self: Tensor | _Number, other: _Number | Tensor, *, out: Tensor | None = None
) -> Tensor: ...
def zero_(*args: Any, **kwargs: Any) -> Tensor: ...
@overload
def zeros(
    size: Sequence[_int],
    *,
    out: Tensor | None = None,
    dtype: dtype | None = None,
    layout: layout | None = None,
    device: _Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
@overload
def zeros(
    *size: _int,
    out: Tensor | None = None,
    dtype: dtype | None = None,
    layout: layout | None = None,
    device: _Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
def zeros_like(
    input: Tensor,
    *,
    memory_format: memory_format | None = None,
    dtype: dtype | None = None,
    layout: layout | None = None,
    device: _Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...

_ATEN: Any
_ELSEWHERE: Any
_LAYOUTS: Any
_RANDOM: Any
_REGISTERED: Any
_SCHEMES: Any
_STORAGES: Any
_SUBPACKAGES: Any
_assert: Any
_attach_methods: Any
_dirichlet_grad: Any
_linalg_eigh: Any
_linalg_factored_solve: Any
_linalg_solve_ex: Any
_linalg_svd: Any
_log_softmax: Any
_log_softmax_backward_data: Any
_lu_with_info: Any
_name: Any
_namespace_of_ops: Any
_sample_dirichlet: Any
_sign: Any
_softmax: Any
_softmax_backward_data: Any
_standard_gamma: Any
_standard_gamma_grad: Any
_unique2: Any
_weight_norm: Any
is_autocast_enabled: Any

def __getattr__(name: str) -> Any: ...
