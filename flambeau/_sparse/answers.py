"""Ordinary functions that take sparse tensors, and what they do with them.

A handler (interposing/) comes with the first sparse tensor of a process. Where no argument is
sparse it goes on; otherwise FUNCTIONS answers, by the name of the function, and ops that are not
there are refused in PyTorch's words. Programs without sparse tensors pay nothing.
"""

import copy
import functools

from flambeau import _dtype as d
from flambeau import interposing
from flambeau._device import device as as_device
from flambeau._layout import Size
from flambeau._memory_format import preserve_format, sparse_coo, strided
from flambeau._sparse import arithmetic as a
from flambeau._sparse import products as p
from flambeau._sparse import reductions as r
from flambeau._sparse.conversion import coalesce, emptied, resized, resized_rows, to_dense
from flambeau._sparse.creation import sparse_coo_tensor, zeros_in
from flambeau._sparse.legacy import TYPED
from flambeau._sparse.printing import sparse_text
from flambeau._sparse.tensors import (
    SHOWN,
    Compressed,
    Coo,
    bare,
    is_coo,
    is_sparse,
    kind_of,
    parts_of,
    sparse_dim,
    write,
)
from flambeau._tensor import Tensor
from flambeau.ops.table import TABLE, public

# functions of one element that leave zero zero
_UNARY = (
    "abs absolute sqrt sin sinh asin arcsin asinh arcsinh tan tanh atan arctan atanh arctanh "
    "expm1 log1p erf erfinv sign sgn floor ceil round trunc fix deg2rad rad2deg relu square "
    "nan_to_num isnan isinf isposinf isneginf signbit frac angle threshold "
    "leaky_relu"
).split()
_LINEAR = "neg negative positive conj_physical real imag resolve_conj resolve_neg".split()
_CASTS = {
    "float": d.float32,
    "double": d.float64,
    "half": d.float16,
    "bfloat16": d.bfloat16,
    "int": d.int32,
    "long": d.int64,
    "short": d.int16,
    "char": d.int8,
    "byte": d.uint8,
    "bool": d.bool_,
    "chalf": d.complex32,
    "cfloat": d.complex64,
    "cdouble": d.complex128,
}


def _refused(kind, words):
    def answer(*args, **kwargs):
        raise kind(words)

    return answer


def _detach(t):
    out = bare(parts_of(t), t.shape, t._layout.kind)
    out._storage = t._storage
    return out


def _of_values(name):
    return functools.partial(a.on_values, public(name))


def _of_values_in_place(name):
    def answer(t, *args, **kwargs):
        if is_coo(t) and not parts_of(t).coalesced:
            shown = name.replace("arc", "a", 1) if name.startswith("arc") else name
            raise RuntimeError(f"{shown}_ requires coalesced input")
        return a.in_place(_of_values(name))(t, *args, **kwargs)

    return answer


def _float_power(t, exponent):
    return a.pow_(a.to(t, d.float64), exponent)


def _is_same_size(one, other):
    return one.shape == other.shape


def _equal(one, other):
    if not is_sparse(one) or not is_sparse(other) or kind_of(one) is not kind_of(other):
        return False
    if is_coo(one):
        one, other = coalesce(one), coalesce(other)
    pairs = zip(parts_of(one), parts_of(other))
    return one.shape == other.shape and all(
        public("equal")(x, y) for x, y in pairs if isinstance(x, Tensor)
    )


def _item(t):
    if t.numel() != 1:
        raise RuntimeError(f"a Tensor with {t.numel()} elements cannot be converted to Scalar")
    return to_dense(t).item()


def _size(t, dim=None):
    return t.shape if dim is None else t.shape[dim]


def _stride(t, dim=None):
    if is_coo(t):
        return (0,) * t.ndim if dim is None else 0
    raise RuntimeError("Sparse CSR tensors do not have strides")


def _is_contiguous(t, *args, **kwargs):
    if not is_coo(t):
        raise RuntimeError(f"{_spoken(t._layout.kind)} tensors do not have is_contiguous")
    return False


def _storage(t, *args, **kwargs):
    kind = "Sparse" if is_coo(t) else "SparseCsr"
    raise NotImplementedError(f"Cannot access storage of {kind}TensorImpl")


def _deepcopy(t, memo):
    if not t.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy "
            "protocol at the moment"
        )
    if id(t) not in memo:
        copied = a.clone(_detach(t)).requires_grad_(t.requires_grad)
        if type(t) is not Tensor:
            copied = copied.as_subclass(type(t))
        memo[id(t)] = copied
        if t._grad is not None:
            copied._grad = copy.deepcopy(t._grad, memo)
    return memo[id(t)]


def _reduced(t, protocol):
    facts = tuple(t.shape), t._layout.kind, t.requires_grad
    # plain tensors name no class: pickle looks for it under PyTorch's name
    cls = None if type(t) is Tensor else type(t)
    return _unpickled, (tuple(parts_of(t)), *facts, cls)


def _unpickled(parts, shape, kind, requires_grad, cls):
    made = bare(Coo(*parts) if kind is sparse_coo else Compressed(*parts), shape, kind)
    made = made if cls is None else made.as_subclass(cls)
    return made.requires_grad_(requires_grad)


def _like(name):
    """*_like functions, where another layout may be asked for."""

    def answer(t, *args, layout=None, dtype=None, device=None, memory_format=None, **kwargs):
        if layout is strided:
            make = public("zeros" if name != "ones_like" else "ones")
            found = make(t.shape, dtype=dtype or t.dtype, device=device or t.device)
            if memory_format in (None, preserve_format):
                return found
            return found.contiguous(memory_format=memory_format)
        if memory_format is not None and is_coo(t):
            raise RuntimeError("memory format option is only supported by strided tensors")
        if name == "empty_like" and not is_coo(t):
            return _empty_rows(t, layout, dtype, device, memory_format)
        if name == "ones_like" and not is_coo(t):
            return _full_like(t, 1, dtype=dtype)
        if name == "ones_like":
            raise NotImplementedError(
                "Could not run 'aten::fill_.Scalar' with arguments from the 'SparseCPU' backend."
            )
        return a.zeros_like(t, layout=layout, dtype=dtype, device=device, **kwargs)

    return answer


def _empty_rows(t, layout, dtype, device, memory_format):
    """empty_like of a compressed matrix: the same places, other values."""
    kind = t._layout.kind
    if layout not in (None, kind):
        raise RuntimeError(
            "empty_like with different sparse layout is not supported (self is "
            f"{SHOWN[kind]} but you requested {SHOWN[layout]})"
        )
    if memory_format is not None:
        shown = memory_format.name.removesuffix("_format").title()
        raise RuntimeError(f"unsupported memory format {shown}")
    t = t.detach() if device is None else a.to(t.detach(), device)
    return a.clone(a.with_values(t, public("empty_like")(parts_of(t).values, dtype=dtype)))


def _randn_like(t, *args, layout=None, dtype=None, device=None, **kwargs):
    """randn_like of a compressed matrix: at the same places."""
    if layout is strided:
        return public("randn")(t.shape, dtype=dtype or t.dtype, device=device or t.device)
    if is_coo(t):
        raise NotImplementedError(
            "Could not run 'aten::normal_' with arguments from the 'SparseCPU' backend."
        )
    values = parts_of(t).values
    values = values.new_empty(values.shape, dtype=dtype, device=device).normal_()
    return a.clone(a.with_values(t.detach(), values))


def _new_like(name):
    """new_zeros and its kin: a dense tensor of the same dtype, of the values."""

    def answer(t, *args, **kwargs):
        if name in ("new_zeros", "new_empty") and kwargs.get("layout") is not strided:
            options = {"dtype": t.dtype, "device": t.device, "layout": t._layout.kind}
            options |= {key: value for key, value in kwargs.items() if value is not None}
            return public(name.removeprefix("new_"))(*args, **options)
        return getattr(parts_of(t).values, name)(*args, **kwargs)

    return answer


def _made(name, *sizes, size=None, out, dtype=None, layout=None, device=None, requires_grad=False,
          pin_memory=False, memory_format=None):  # fmt: skip
    """zeros and empty into a sparse tensor."""
    if layout is not None and layout is not kind_of(out):
        raise RuntimeError(
            f"layout {SHOWN[layout]} does not match layout of out parameter ({SHOWN[kind_of(out)]})"
        )
    if name not in ("zeros", "empty"):
        raise RuntimeError("full(...) is not implemented for sparse layout")
    if dtype is not None and dtype is not out.dtype:
        raise RuntimeError(
            f"dtype {dtype.scalar_name} does not match dtype of out parameter "
            f"({out.dtype.scalar_name})"
        )
    given = sizes if size is None else size
    shape = Size(given[0] if len(given) == 1 and not isinstance(given[0], int) else given)
    empty = zeros_in(kind_of(out), shape, out.dtype, out.device, name)
    out._layout = empty._layout
    return write(out, parts_of(empty)).requires_grad_(requires_grad)


def _setitem(t, key, value):
    if is_sparse(t):
        raise TypeError("Cannot assign to a sparse tensor")
    if is_sparse(value):
        raise RuntimeError(
            "copy_() between dense and sparse Tensors is not implemented! Found self type = "
            f"{a.type_name(t)} and src type = {a.type_name(value)}"
        )
    keys = [to_dense(k) if is_sparse(k) else k for k in (key if isinstance(key, tuple) else (key,))]
    t[tuple(keys)] = value
    return None


def _embedding(weight, indices, *args, **kwargs):
    return to_dense(a.index_select(weight, 0, indices.reshape(-1))).reshape(
        *indices.shape, *weight.shape[1:]
    )


def _sum_to_size(t, *size):
    size = size[0] if len(size) == 1 and isinstance(size[0], (tuple, list)) else size
    if tuple(size) == tuple(t.shape):
        return t
    raise RuntimeError("sum_to_size: sparse gradients cannot be brought to another size")


def _requires_unbind(t, dim=0):
    return tuple(a.select(t, dim, k) for k in range(t.shape[dim]))


def _side_by_side(flat, deep):
    """hstack and vstack: cat along a dimension for vectors, and another for all others."""

    def answer(tensors):
        vectors = tensors[0].ndim == 1
        if vectors and flat is None:
            tensors, dim = [a.unsqueeze(t, 0) for t in tensors], 0
        else:
            dim = flat if vectors else deep
        return a.cat(tensors, dim)

    return answer


def _valued(name):
    """A function that fills values in place, where all elements of rows count as there."""

    def answer(t, *args, **kwargs):
        if is_coo(t):
            if name == "fill_" and args[0] == 0:
                return a.zero_(t)
            raise NotImplementedError(
                f"Could not run 'aten::{name}' with arguments from the 'SparseCPU' backend."
            )
        getattr(parts_of(t).values.detach(), name)(*args, **kwargs)
        return t

    return answer


def _full_like(t, value, *, dtype=None, **options):
    if is_coo(t):
        raise NotImplementedError(
            "Could not run 'aten::fill_.Scalar' with arguments from the 'SparseCPU' backend."
        )
    values = parts_of(t).values
    return a.with_values(t.detach(), public("full_like")(values, value, dtype=dtype))


def _new(t, *args, device=None):
    """Tensor.new of the old days: from indices, values and a size, or a size alone."""
    own = t.device.type
    if device is not None and as_device(device).type != own:
        raise RuntimeError(
            f"legacy constructor expects device type: {own} but device type: "
            f"{as_device(device).type} was passed"
        )
    if args and isinstance(args[0], Tensor) and len(args) > 1:
        return sparse_coo_tensor(*args, device=device)
    if args and not isinstance(args[0], (int, tuple, list)):
        raise TypeError("new() received an invalid combination of arguments")
    if args and isinstance(args[0], (tuple, list)) and not isinstance(args[0], Size):
        raise TypeError(
            "SparseTensor.new(sequence) only accepts sizes.  Please use torch.sparse_coo_tensor() "
            "or construct a strided tensor and convert it to sparse via to_sparse."
        )
    size = args[0] if args and isinstance(args[0], Size) else args or (0,)
    return emptied(Size(size), len(size), t.dtype, t.device)


def _select_copy(t, dim, index):
    if is_coo(t):
        raise NotImplementedError(
            "Could not run 'aten::select_copy.int' with arguments from the 'SparseCPU' backend."
        )
    found = a.select(t, dim, index, "select_copy")
    return a.clone(found) if is_sparse(found) else found.clone()


def _resize(t, *size, memory_format=None):
    """resize_ of a compressed matrix: rows more or less, columns more."""
    if is_coo(t):
        raise NotImplementedError(
            "Could not run 'aten::resize_' with arguments from the 'SparseCPU' backend."
        )
    return resized_rows(
        t, Size(size[0] if len(size) == 1 and not isinstance(size[0], int) else size)
    )


def _resize_as(t, other, memory_format=None):
    if not is_coo(other):
        raise RuntimeError("resize_as_: expected a tensor of layout Sparse")
    return resized(t, other.shape, sparse_dim(other), other.ndim - sparse_dim(other))


def _conj(t):
    return a.on_values_linearly(public("conj"), t) if t.dtype.is_complex else t


def _T(t):
    if not is_coo(t):
        raise NotImplementedError(
            "Could not run 'aten::as_strided' with arguments from the 'SparseCsrCPU' backend."
        )
    return a.permute(t, list(range(t.ndim))[::-1])


def _is_nonzero(t):
    if not t.numel():
        raise RuntimeError("Boolean value of Tensor with no values is ambiguous")
    if t.numel() != 1:
        raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous")
    return bool(to_dense(t))


def _float(t):
    if t.numel() != 1:
        raise ValueError("only one element tensors can be converted to Python scalars")
    return float(to_dense(t))


def _pinned(t, *args, **kwargs):
    return t


def _warned_spmm(one, other):
    return p.mm(one, other)


def _expand(t, *size):
    raise RuntimeError("expand is unsupported for Sparse tensors")


def _reshape(t, *shape):
    raise RuntimeError("reshape is not implemented for sparse tensors")


def _add_dispatch(one, other, *rest, alpha=1, out=None):
    found = a.add(one, other, alpha=alpha)
    return found if out is None else out.copy_(found)


def _type(t, dtype=None, non_blocking=False):
    if dtype is None:
        return a.type_name(t)
    kind = TYPED.get(dtype.rpartition(".")[2]) if isinstance(dtype, str) else dtype
    return a.to(t, getattr(kind, "dtype", kind))


def _dropout(t, p=0.5, training=True, inplace=False):
    """Nothing is dropped in evaluation; what would be is not known to be zero or not there."""
    if training and p > 0:
        kind = "Sparse" if is_coo(t) else "SparseCsr"
        raise NotImplementedError(
            f"Could not run 'aten::bernoulli_.float' with arguments from the '{kind}CPU' backend."
        )
    return t


def _transposed_dims(t, dim0, dim1):
    return a.transpose(t, dim0, dim1)


def _spoken(kind):
    return "Sparse " + kind.name[-3:].upper()


def _overload(name, args):
    """What PyTorch calls a function of two, by what the second is."""
    row = TABLE.get(name.row)
    if row is None or row.kind != "pointwise" or len(args) != 2:
        return ""
    return ".Tensor" if isinstance(args[1], Tensor) else ".Scalar"


def _compressed_kind(values):
    for value in values:
        if is_sparse(value) and not is_coo(value):
            return value._layout.kind
    return None


def _strided_only(function):
    """A function that PyTorch does with strides: coordinates take it, compressed rows do not."""

    @functools.wraps(function)
    def answer(t, *args, **kwargs):
        kind = _compressed_kind(t if isinstance(t, (tuple, list)) else (t,))
        if kind is not None:
            raise RuntimeError(f"{_spoken(kind)} tensors do not have strides")
        return function(t, *args, **kwargs)

    return answer


FUNCTIONS = {
    **{name: _of_values(name) for name in _UNARY},
    **{name + "_": _of_values_in_place(name) for name in _UNARY},
    **{name: functools.partial(a.on_values_linearly, public(name)) for name in _LINEAR},
    **{
        name + "_": a.in_place(functools.partial(a.on_values_linearly, public(name)))
        for name in ("neg", "negative", "conj_physical")
    },
    **{name: (lambda t, *rest, _as=dtype, **kw: a.to(t, _as)) for name, dtype in _CASTS.items()},
    "add": _add_dispatch,
    "add_": a.add_,
    "sub": a.sub,
    "subtract": a.sub,
    "sub_": a.sub_,
    "rsub": a.rsub,
    "mul": a.mul,
    "multiply": a.mul,
    "mul_": a.mul_,
    "div": a.div,
    "divide": a.div,
    "true_divide": a.div,
    "div_": a.in_place(a.div),
    "floor_divide": a.floor_divide,
    "floor_divide_": a.in_place(a.floor_divide),
    "pow": a.pow_,
    "float_power": _float_power,
    "transpose": _transposed_dims,
    "swapaxes": _transposed_dims,
    "swapdims": _transposed_dims,
    "t": a.t_,
    "t_": a.turned_in_place(a.t_),
    **dict.fromkeys("transpose_ swapaxes_ swapdims_".split(), a.turned_in_place(_transposed_dims)),
    "new": _new,
    "resize_as_": _resize_as,
    "T": _T,
    "__setitem__": _setitem,
    "randn_like": _randn_like,
    "select_copy": _select_copy,
    "conj": _conj,
    "hstack": _side_by_side(0, 1),
    "row_stack": _side_by_side(None, 0),
    "vstack": _side_by_side(None, 0),
    **{name: _valued(name) for name in "fill_ normal_ uniform_ random_".split()},
    "full_like": _full_like,
    "is_nonzero": _is_nonzero,
    "__bool__": _is_nonzero,
    "__float__": _float,
    "triangular_solve": p.triangular_solve,
    "mT": lambda t: a.transpose(t, -2, -1),
    "H": lambda t: a.on_values_linearly(public("conj_physical"), a.t_(t)),
    "adjoint": lambda t: a.transpose(t, -2, -1),
    "permute": a.permute,
    "select": a.select,
    "index_select": a.index_select,
    "narrow_copy": _strided_only(a.narrow_copy),
    "unsqueeze": _strided_only(a.unsqueeze),
    "unbind": _requires_unbind,
    "cat": a.cat,
    "concat": a.cat,
    "concatenate": a.cat,
    "stack": _strided_only(a.stack),
    "__getitem__": a.getitem,
    "clone": a.clone,
    "to": a.to,
    "_to_copy": a.to,
    "cpu": lambda t, *args, **kwargs: a.to(t, "cpu"),
    "cuda": lambda t, device=None, *args, **kwargs: a.to(t, device or "cuda"),
    "type": _type,
    "detach": _detach,
    "alias": _detach,
    "contiguous": _refused(RuntimeError, "unsupported memory format option Contiguous"),
    "zero_": a.zero_,
    "copy_": a.copy_,
    "zeros_like": _like("zeros_like"),
    "empty_like": _like("empty_like"),
    "ones_like": _like("ones_like"),
    **{
        name: _new_like(name) for name in "new_zeros new_ones new_empty new_full new_tensor".split()
    },
    "mm": p.mm,
    "spmm": _warned_spmm,
    "dsmm": _warned_spmm,
    "smm": p.smm,
    "hspmm": p.hspmm,
    "sspaddmm": p.sspaddmm,
    "addmm": p.addmm,
    "addmm_": a.in_place(p.addmm),
    "mv": p.mv,
    "addmv": p.addmv,
    "matmul": p.matmul,
    "bmm": p.bmm,
    "linear": p.linear,
    "sum": r.sum_,
    "norm": r.norm,
    "linalg_norm": lambda t, ord=None, *rest, **kw: r.norm(t, 2 if ord is None else ord),
    "linalg_vector_norm": lambda t, ord=2, *rest, **kw: r.norm(t, ord),
    "any": r.any_,
    "mean": r.mean_,
    "sum_to_size": _sum_to_size,
    "equal": _equal,
    "is_same_size": _is_same_size,
    "item": _item,
    "embedding": _embedding,
    "size": _size,
    "stride": _stride,
    "is_contiguous": _is_contiguous,
    "data_ptr": _refused(
        RuntimeError, "Cannot access data pointer of Tensor that doesn't have storage"
    ),
    "tolist": _refused(
        RuntimeError, "Cannot access data pointer of Tensor that doesn't have storage"
    ),
    "numpy": _refused(
        TypeError,
        "can't convert Sparse layout tensor to numpy. Use Tensor.to_dense() first.",
    ),
    "__array__": _refused(
        TypeError,
        "can't convert Sparse layout tensor to numpy. Use Tensor.to_dense() first.",
    ),
    **dict.fromkeys("storage untyped_storage _typed_storage".split(), _storage),
    "expand": _expand,
    "broadcast_to": _expand,
    "resize_": _resize,
    "reshape": _reshape,
    "flatten": _reshape,
    "__repr__": lambda t, *args, **kwargs: sparse_text(t),
    "__str__": lambda t: sparse_text(t),
    "__deepcopy__": _deepcopy,
    "__reduce_ex__": _reduced,
    "pin_memory": _pinned,
    "dropout": _dropout,
    "functional_dropout": _dropout,
}

# operators that are functions of another name here
_OPERATORS = {
    "__iadd__": "add_",
    "__isub__": "sub_",
    "__imul__": "mul_",
    "__itruediv__": "div_",
    **dict.fromkeys("__rtruediv__ __rfloordiv__ __rpow__ __rmod__".split(), "reciprocal"),
    "__abs__": "abs",
    "__neg__": "neg",
    "__pos__": "positive",
}
# ops that look at facts only, or at nothing
_PLAIN = frozenset(
    """
    empty zeros ones full tensor retain_grad requires_grad_ backward is_sparse result_type
    is_floating_point is_complex is_signed numel dim detach_ set_ _foreach_zero_ as_subclass
    is_nonzero is_pinned is_inference
    """.split()
)


_MAKERS = frozenset(("zeros", "empty", "ones", "full"))
_LISTS = frozenset((list, tuple))


def _sought(value, depth=3):
    """Is it a sparse tensor, or a list with one? No op takes deeper lists of tensors."""
    if isinstance(value, Tensor):
        return value._layout.strides is None
    if type(value) in (list, tuple) and depth:
        return any(_sought(item, depth - 1) for item in value)
    return False


class _Answers(interposing.Handler):
    """Lets sparse arguments be handled by FUNCTIONS."""

    kinds = frozenset({"op", "python", "data", "method", "node"})
    level = -10
    sees = "all"
    all_threads = is_lasting = forks = True

    def around(self, name, function, args, kwargs):
        for value in args:  # every op passes here: tensors are looked at without a call
            if isinstance(value, Tensor):
                if value._layout.strides is None:
                    return self.answered(name, function, args, kwargs)
            elif type(value) in _LISTS and _sought(value):
                return self.answered(name, function, args, kwargs)
        if not kwargs:
            return function(*args)
        if not any(map(_sought, kwargs.values())):
            return function(*args, **kwargs)
        return self.answered(name, function, args, kwargs)

    def answered(self, name, function, args, kwargs):
        key = name.place.key
        if name.kind == "node":
            node, grads, _ = args
            return function(node, grads, True) if _fuses(node) else function(*args)
        if key in _MAKERS and is_sparse(kwargs.get("out")):
            return _made(key, *args, **kwargs)
        answer = FUNCTIONS.get(key)
        if answer is None:
            in_place = key.endswith("_") and not key.startswith("__")
            row = _OPERATORS.get(key) or (key if in_place else name.row)
            answer = FUNCTIONS.get(row)
        if answer is not None:
            if "input" in kwargs:
                args, kwargs = (
                    (kwargs["input"], *args),
                    {key: value for key, value in kwargs.items() if key != "input"},
                )
            if kwargs.get("out") is not None:
                out = kwargs.pop("out")
                return a.put(out, answer(*args, **kwargs))
            return answer(*args, **kwargs)
        if name.kind == "op" and key not in _PLAIN:
            _refuse_compressed(name, args, kwargs)
            raise NotImplementedError(
                f"Could not run '{name}{_overload(name, args)}' with arguments from the "
                f"'{_backend(args, kwargs)}' backend. This could be because the operator doesn't "
                "exist for this backend. Tensor.to_dense() gives a tensor that every function "
                "takes."
            )
        return function(*args, **kwargs)


def _refuse_compressed(name, args, kwargs):
    """PyTorch's words where rows or columns are compressed: it tries to use strides."""
    kind = _compressed_kind((*args, *kwargs.values()))
    row = TABLE.get(name.row)
    if kind is None or row is None:
        return
    if row.kind == "pointwise":
        raise RuntimeError(f"unsupported tensor layout: {SHOWN[kind]}")
    if row.kind == "view":
        raise RuntimeError(f"{_spoken(kind)} tensors do not have strides")


def _backend(args, kwargs):
    """What PyTorch calls the backend of the first sparse argument."""
    for value in (*args, *kwargs.values()):
        if is_sparse(value):
            device = "CUDA" if value.device.type == "cuda" else "CPU"
            return ("Sparse" if is_coo(value) else "SparseCsr") + device
        if type(value) in (list, tuple):
            found = _backend(value, {})
            if found:
                return found
    return ""


def _fuses(node):
    """Does a node run a kernel of its derivative, which could not take a sparse gradient?"""
    return not type(node).__module__.startswith(("flambeau._sparse", "torch._sparse"))


ANSWERS = _Answers()
