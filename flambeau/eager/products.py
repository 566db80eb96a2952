"""Launching matrix products: batch dimensions, schedules, and operands copied where strides forbid both."""

from math import prod

from flambeau import errors
from flambeau._layout import Size, broadcast_shape, collapse, dense_layout, expanded_strides
from flambeau._tensor import Tensor, empty_like_layout, empty_tensor
from flambeau.eager.binding import launches
from flambeau.eager.copying import copy_into, fill_into
from flambeau.eager.kernels import load_kernel, pool
from flambeau.runtime.cpu import words

_kernels: dict = {}
_plans: dict = {}
CHUNK = 1 << 18  # multiplications per chunk


def _kernel(schedule, code, batch):
    key = (schedule, code, batch)
    found = _kernels.get(key)
    if found is None:
        from flambeau.codegen.templates import matmul

        found = _kernels[key] = load_kernel(matmul.build(schedule, code, batch), "matmul")
    return found


def check_same_dtype(a, b, name="mat2"):
    if a.dtype is not b.dtype:
        raise RuntimeError(
            f"expected m1 and m2 to have the same dtype, but got: {_c_name(a.dtype)} != {_c_name(b.dtype)}"
        )
    if a.dtype.category == 0:
        raise errors.not_implemented("addmm_impl_cpu_", a.dtype)


def _c_name(dtype):
    return {
        "float32": "float",
        "float64": "double",
        "int64": "long long",
        "int32": "int",
        "int16": "short",
        "int8": "signed char",
        "uint8": "unsigned char",
        "float16": "c10::Half",
        "bfloat16": "c10::BFloat16",
        "complex64": "c10::complex<float>",
        "complex128": "c10::complex<double>",
    }.get(dtype.name, dtype.name)


def product(a, b):
    """a @ b on plain tensors with the same number of dimensions (two or more); batches broadcast."""
    batch = broadcast_shape(a.shape[:-2], b.shape[:-2]) if a.ndim > 2 or b.ndim > 2 else Size()
    m, k = a.shape[-2:]
    n = b.shape[-1]
    out = empty_tensor(Size((*batch, m, n)), a.dtype, a.device)
    if out._layout.numel == 0 or a.device.type != "cpu":
        return out
    if k == 0:
        return fill_into(out, 0)
    multiply_into(out, a, b, batch)
    return out


def multiply_into(out, a, b, batch):
    key = (out._layout, a._layout, b._layout)
    plan = _plans.get(key)
    if plan is None:
        if len(_plans) > 4096:
            _plans.clear()
        plan = _plans[key] = _plan(out._layout, a._layout, b._layout, batch)
    kernel, desc, dense_a, dense_b, _ = plan
    a = _dense(a) if dense_a else a
    b = _dense(b) if dense_b else b
    kernel(
        desc,
        out._storage.pointer + out._offset,
        a._storage.pointer + a._offset,
        b._storage.pointer + b._offset,
    )


def _dense(t):
    out = empty_like_layout(dense_layout(t.shape, t.dtype, t.device))
    copy_into(out, t)
    return out


def _plan(out, a, b, batch):
    size = out.itemsize
    m, k = a.shape[-2:]
    n = b.shape[-1]
    dense_a = dense_b = False
    columns = b.strides[-1] == 1 or (n == 1 and k == 1)
    dots = (a.strides[-1] == 1 or k == 1) and (b.strides[-2] == 1 or k == 1)
    if dots and (not columns or (n < 8 and k >= 16)):
        schedule = "k"
    else:
        schedule = "n"
        if b.strides[-1] != 1:
            dense_b = True
            b = dense_layout(b.shape, b.dtype, b.device)
    strides = [
        [s * size for s in expanded_strides(t, (*batch, *t.shape[-2:]))] for t in (out, a, b)
    ]
    sizes, (cb, ab, bb) = collapse(batch, [st[:-2] for st in strides])
    per_chunk = max(8, min(m, CHUNK // max(1, n * k)) & -8)
    chunks = prod(sizes) * -(-m // per_chunk)
    (cm, cn), (am, ak), (bk, bn) = (st[-2:] for st in strides)
    described = [chunks, per_chunk, m, n, k, am, ak, bk, bn, cm, cn, *sizes, *cb, *ab, *bb]
    owner, desc = words(described)
    if chunks > 1:
        pool().ensure_workers()
    return _kernel(schedule, out.dtype.code, len(sizes)), desc, dense_a, dense_b, owner


def _expect(t, ndim, name, position):
    if t.ndim != ndim:
        raise RuntimeError(
            f"{name} must be a matrix" if ndim == 2 else f"{name} must be a {ndim}D tensor"
        )


@launches("mm")
def mm(input, mat2):
    if input.ndim != 2:
        raise RuntimeError("self must be a matrix")
    if mat2.ndim != 2:
        raise RuntimeError("mat2 must be a matrix")
    check_inner(input, mat2)
    check_same_dtype(input, mat2)
    return product(input, mat2)


def check_inner(a, b):
    if a.shape[1] != b.shape[0]:
        hint = ""
        if a.shape[1] == b.shape[1]:
            hint = f"; mat2.T, of shape ({b.shape[1]}, {b.shape[0]}), would fit"
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({a.shape[0]}x{a.shape[1]} and {b.shape[0]}x{b.shape[1]}){hint}"
        )


@launches("bmm")
def bmm(input, mat2):
    if input.ndim != 3:
        raise RuntimeError("batch1 must be a 3D tensor")
    if mat2.ndim != 3:
        raise RuntimeError("batch2 must be a 3D tensor")
    if mat2.shape[0] != input.shape[0] or mat2.shape[1] != input.shape[2]:
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{input.shape[0]}, {input.shape[2]}] "
            f"but got: [{mat2.shape[0]}, {mat2.shape[1]}]."
        )
    check_same_dtype(input, mat2)
    return product(input, mat2)


@launches("mv")
def mv(input, vec):
    if input.ndim != 2 or vec.ndim != 1:
        raise RuntimeError(f"vector + matrix @ vector expected, got 1, {input.ndim}, {vec.ndim}")
    if input.shape[1] != vec.shape[0]:
        raise RuntimeError(
            f"size mismatch, got input ({input.shape[0]}), mat ({input.shape[0]}x{input.shape[1]}), vec ({vec.shape[0]})"
        )
    if input.dtype is not vec.dtype:
        raise RuntimeError(
            f"expected scalar type {input.dtype.scalar_name} but found {vec.dtype.scalar_name}"
        )
    return _view(
        product(input, _view(vec, (vec.shape[0], 1), (vec._layout.strides[0], 1))),
        (input.shape[0],),
        (1,),
    )


def _view(t, shape, strides):
    from flambeau._layout import make_layout
    from flambeau._tensor import alias

    return alias(t, make_layout(Size(shape), tuple(strides), t.dtype, t.device), t._offset)


@launches("dot")
def dot(input, tensor):
    if input.ndim != 1 or tensor.ndim != 1:
        raise RuntimeError(f"1D tensors expected, but got {input.ndim}D and {tensor.ndim}D tensors")
    if input.dtype is not tensor.dtype:
        raise RuntimeError(
            f"dot : expected both vectors to have same dtype, but found {input.dtype.scalar_name} and {tensor.dtype.scalar_name}"
        )
    if input.shape != tensor.shape:
        raise RuntimeError(
            f"inconsistent tensor size, expected tensor [{input.shape[0]}] and src [{tensor.shape[0]}] to have the same "
            f"number of elements, but got {input.shape[0]} and {tensor.shape[0]} elements respectively"
        )
    n = input.shape[0]
    row = _view(input, (1, n), (1, input._layout.strides[0]))
    column = _view(tensor, (n, 1), (tensor._layout.strides[0], 1))
    return _view(product(row, column), (), ())


__all__ = ["Tensor", "bmm", "dot", "mm", "mv", "product"]
