"""MaskedTensor: a tensor that carries a mask (True: the element is there).

It is a subclass of Tensor over a copy of its data, and answers for functions by
`__torch_function__`: functions of one element keep the mask, those that move elements move it, too,
reductions leave masked elements out. Two masks must be equal to meet.
"""

import warnings
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau._sparse.conversion import with_values
from flambeau._sparse.tensors import values_of
from flambeau.masked import functions
from flambeau.ops.table import TABLE

_MOVES = frozenset(
    """
    __getitem__ cat stack chunk clone contiguous expand expand_as flatten flip index_select movedim
    narrow permute repeat reshape roll select split squeeze swapaxes t transpose unbind unflatten
    unsqueeze view concat tensor_split ravel T mT hstack vstack diagonal hsplit vsplit dsplit
    broadcast_to broadcast_tensors meshgrid view_as unfold
    """.split()
)
_CASTS = frozenset(
    "to float double half bfloat16 int long short bool cpu cuda detach type_as ones_like".split()
)
_FACTS = frozenset(
    """
    size dim numel nelement ndimension stride storage_offset element_size data_ptr is_contiguous
    is_floating_point is_complex is_signed is_shared is_pinned is_inference get_device item
    requires_grad_ retain_grad register_hook register_post_accumulate_grad_hook backward detach_
    as_subclass is_same_size type_as copy_ apply_ grad untyped_storage _is_view
    """.split()
)
_REDUCTIONS = frozenset("sum mean prod amax amin argmax argmin var std norm".split())
_ALONG = frozenset("softmax log_softmax softmin".split())
# functions of one element that are no pointwise rows, or that PyTorch does not have here
_BEYOND = frozenset("relu sigmoid gelu square float_power conj positive".split())


def _plain(t: Any) -> Any:
    """The data of a masked tensor, in the graph; other values as they are."""
    if isinstance(t, MaskedTensor):
        with flambeau._C.DisableTorchFunctionSubclass():
            return t.as_subclass(Tensor)
    if isinstance(t, (list, tuple)):
        return type(t)(map(_plain, t))
    return t


def _mask(t: Any, otherwise: Any = None) -> Any:
    if isinstance(t, MaskedTensor):
        return t._mask
    if isinstance(t, (list, tuple)):
        return type(t)(_mask(item, item) for item in t)
    return t if otherwise is None else otherwise


def _wrapped(data: Any, mask: Any) -> Any:
    if isinstance(data, (list, tuple)):
        return type(data)(_wrapped(d, m) for d, m in zip(data, mask))
    with flambeau._C.DisableTorchFunctionSubclass():
        out = data.as_subclass(MaskedTensor)
    out._mask = mask
    return out


class MaskedTensor(Tensor):
    """A tensor and a mask of the same shape, True where an element is there.

    Example:
        >>> from flambeau.masked import masked_tensor
        >>> masked_tensor(torch.tensor([1.0, 2.0]), torch.tensor([True, False])).sum()
        MaskedTensor(  1.0000, True)
    """

    _mask: Tensor

    @staticmethod
    def __new__(
        cls: Any, data: Tensor, mask: Tensor, requires_grad: bool = False
    ) -> "MaskedTensor":
        data, mask = _check(data, mask)
        if data.requires_grad:
            warnings.warn(
                "It is not recommended to create a MaskedTensor with a tensor that requires_grad. "
                "To avoid this, you can use data.detach().clone()",
                UserWarning,
                stacklevel=2,
            )
        if requires_grad and not (data.is_floating_point() or data.is_complex()):
            raise RuntimeError(
                "Only Tensors of floating point and complex dtype can require gradients"
            )
        base: Any = Tensor
        with flambeau._C.DisableTorchFunctionSubclass():
            out = base._make_subclass(cls, data.detach().clone(), requires_grad)
        out._mask = mask.clone()
        return out

    def __init__(self, data: Tensor, mask: Tensor, requires_grad: bool = False) -> None:
        pass

    @classmethod
    def _from_values(cls, data: Tensor, mask: Tensor) -> "MaskedTensor":
        data, mask = _check(data, mask)
        return _wrapped(data.clone(), mask.clone())

    def get_data(self) -> Tensor:
        """All elements, those that are masked out, too."""
        return _plain(self)

    def get_mask(self) -> Tensor:
        """The mask."""
        return self._mask

    def type(self, dtype: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
        return _plain(self).type() if dtype is None else self.to(dtype)

    _masked_data = property(get_data)
    _masked_mask = property(get_mask)
    data = property(lambda self: self.detach())

    def is_sparse_coo(self) -> bool:
        """Are its elements held by coordinates?"""
        return self.layout is flambeau.sparse_coo

    def is_sparse_csr(self) -> bool:  # type: ignore[override]
        """Are its elements held by rows?"""
        return self.layout is flambeau.sparse_csr

    def to_sparse_coo(self) -> "MaskedTensor":
        """The same by coordinates: those that the mask leaves."""
        mask = self._mask.to_sparse()
        return _wrapped(_plain(self).sparse_mask(mask), mask)

    def to_sparse(self, *args: Any, **kwargs: Any) -> "MaskedTensor":
        """The same by coordinates."""
        return self.to_sparse_coo()

    def to_sparse_csr(self, dense_dim: int | None = None) -> "MaskedTensor":
        """The same by rows."""
        mask = self._mask.to_sparse_csr()
        return _wrapped(_plain(self).sparse_mask(mask), mask)

    def to_dense(self, *args: Any, **kwargs: Any) -> "MaskedTensor":
        """The same with all elements."""
        return _wrapped(_plain(self).to_dense(), self._mask.to_dense())

    def to_tensor(self, value: Any) -> Tensor:
        """The elements, and a number where there are none."""
        return self.get_data().masked_fill(~self._mask, value)

    @property
    def grad(self) -> Any:
        with flambeau._C.DisableTorchFunctionSubclass():
            found = Tensor.__dict__["grad"].fget(self)
        if found is None or isinstance(found, MaskedTensor):
            return found
        return _wrapped(found, self._mask)

    @grad.setter
    def grad(self, value: Any) -> None:
        with flambeau._C.DisableTorchFunctionSubclass():
            Tensor.__dict__["grad"].fset(self, _plain(value))

    @grad.deleter
    def grad(self) -> None:
        self.grad = None

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        answer = _answer(name)
        if answer is not None:
            return answer(func, name, args, kwargs)
        if name in ("tolist", "numpy"):
            raise RuntimeError(
                f".{name}() is not supported for tensor subclasses, got MaskedTensor"
            )
        if name not in _FACTS and not (name.startswith("__") and name != "__setitem__"):
            raise TypeError(  # what knows nothing of masks would forget them
                f"Multiple dispatch failed for 'torch._ops.aten.{name}.default'; all "
                "__torch_dispatch__ handlers returned NotImplemented:"
            )
        with flambeau._C.DisableTorchFunctionSubclass():
            return func(*args, **kwargs)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        data, mask = self.get_data().detach().to_dense(), self._mask.to_dense()
        if not data.ndim:
            shown = _number(data.item(), True) if mask.item() else "--"
            return f"MaskedTensor({shown}, {mask.item()})"
        return "MaskedTensor(\n" + _rows(data.tolist(), mask.tolist(), 2) + "\n)"


def _check(data: Any, mask: Any) -> tuple[Tensor, Tensor]:
    """Data and mask, if they go together; sparse data only where the mask has elements."""
    for name, t in (("data", data), ("mask", mask)):
        if not isinstance(t, Tensor) or isinstance(t, MaskedTensor):
            raise TypeError(f"{name} must be a Tensor")
    if data.layout is not mask.layout:
        raise TypeError("data and mask must have the same layout.")
    if data.layout not in (flambeau.strided, flambeau.sparse_coo, flambeau.sparse_csr):
        raise TypeError(f"data layout of {data.layout} is not supported.")
    if data.dim() != mask.dim():
        raise ValueError("data.dim() must equal mask.dim()")
    if data.shape != mask.shape:
        raise ValueError("data.size() must equal mask.size()")
    if mask.dtype is not flambeau.bool:
        raise TypeError("mask must have dtype bool.")
    if data.layout is flambeau.strided:
        return data, mask
    if data.layout is flambeau.sparse_coo:
        data, mask = data.coalesce(), mask.coalesce()
    if data._nnz() != mask._nnz():
        data = data.sparse_mask(mask)
    _check_places(data, mask)
    return data, mask


def _check_places(data: Tensor, mask: Tensor) -> None:
    """Are the elements of a sparse tensor where those of its mask are?"""
    if data.layout is flambeau.sparse_coo:
        if not flambeau.equal(data._indices(), mask._indices()):
            raise ValueError(
                "data and mask are both sparse COO tensors but do not have the same indices."
            )
    elif not flambeau.equal(data.crow_indices(), mask.crow_indices()) or not flambeau.equal(
        data.col_indices(), mask.col_indices()
    ):
        raise ValueError(
            "data and mask are both sparse CSR tensors but do not share either crow or col indices."
        )


def _tensors_match(a: Tensor, b: Tensor, exact: bool = True, rtol: float = 1e-5,
                   atol: float = 1e-8) -> bool:  # fmt: skip
    """Are two plain tensors equal, or close, layouts included?"""
    if isinstance(a, MaskedTensor) or isinstance(b, MaskedTensor):
        raise ValueError("Neither `a` nor `b` can be a MaskedTensor.")
    if a.layout is not b.layout:
        raise ValueError(f"`a` and `b` must have the same layout. Got {a.layout} and {b.layout}")
    a, b = a.to_dense(), b.to_dense() if exact else b.to_dense().to(a.dtype)
    if exact:
        return a.dim() == b.dim() and flambeau.equal(a, b)
    return a.dim() == b.dim() and flambeau.allclose(a, b, rtol=rtol, atol=atol)


def _masks_match(a: Any, b: Any) -> bool:
    """Do two masked tensors (a plain one goes with any) leave the same?"""
    if not (isinstance(a, MaskedTensor) and isinstance(b, MaskedTensor)):
        return True
    return _tensors_match(a.get_mask(), b.get_mask())


def _number(value: Any, there: bool) -> str:
    if not there:
        return "      --"
    return f"{value:8.4f}" if isinstance(value, float) else str(value)


def _rows(data: Any, mask: Any, indent: int) -> str:
    """Nested lists as lines."""
    lead = " " * indent
    if not data or not isinstance(data[0], list):
        return lead + "[" + ", ".join(map(_number, data, mask)) + "]"
    inner = ",\n".join(_rows(d, m, indent + 2) for d, m in zip(data, mask))
    return f"{lead}[\n{inner}\n{lead}]"


# -- functions -------------------------------------------------------------------------------------


def _answer(name: str) -> Any:
    """What a function of this name does with masked tensors; None if it knows nothing of masks."""
    bare = name.rstrip("_") if not name.startswith("__") else name
    if bare in _MOVES:
        return _moved
    if bare in _CASTS:
        return _kept
    if bare in _REDUCTIONS or bare in ("all", "any"):
        return _reduced
    if bare in _ALONG:
        return _along
    if bare == "where":
        return _chosen
    row = TABLE.get(_OPERATORS.get(name, bare))
    if (row is not None and row.kind == "pointwise") or bare in _BEYOND:
        return _kept
    return None


_OPERATORS = {
    "__rsub__": "sub",
    "__rtruediv__": "div",
    "__rpow__": "pow",
    "__floordiv__": "div",
    "__and__": "bitwise_and",
    "__or__": "bitwise_or",
    "__xor__": "bitwise_xor",
    "__eq__": "eq",
    "__neg__": "neg",
    "__iadd__": "add",
    "__isub__": "sub",
    "__imul__": "mul",
    "__itruediv__": "div",
}


def _masks(args: Any) -> list:
    found = []
    for value in args:
        if isinstance(value, MaskedTensor):
            found.append(value._mask)
        elif isinstance(value, (list, tuple)):
            found += _masks(value)
    return found


def _moved(func: Any, name: str, args: tuple, kwargs: dict) -> Any:
    data = func(*map(_plain, args), **kwargs)
    mask = func(*[_mask(a) for a in args], **kwargs)
    return _wrapped(data, mask)


def _chosen(func: Any, name: str, args: tuple, kwargs: dict) -> Any:
    """where: each element with what its own mask says; numbers are always there."""
    if isinstance(args[0], MaskedTensor) or len(args) < 3:
        return _kept(func, name, args, kwargs)
    mask = func(args[0], *[_mask(a) if isinstance(a, Tensor) else True for a in args[1:]])
    return _wrapped(func(*map(_plain, args), **kwargs), mask.bool())


def _kept(func: Any, name: str, args: tuple, kwargs: dict) -> Any:
    masks = _masks((*args, *kwargs.values()))
    for other in masks[1:]:
        if other is not masks[0] and not flambeau.equal(other, masks[0]):
            raise ValueError(
                "Input masks must match. If you need support for this, please open an issue on "
                "Github."
            )
    run = _on_values if len(masks) > 1 and masks[0].layout is not flambeau.strided else _called
    data = run(func, [_plain(a) for a in args], {key: _plain(v) for key, v in kwargs.items()})
    in_place = name.endswith("_") and not name.startswith("__")
    if in_place or (name.startswith("__i") and name != "__invert__"):
        return args[0]
    mask = masks[0]
    return _wrapped(data, mask if data.shape == mask.shape else mask.expand(data.shape))


def _called(func: Any, args: list, kwargs: dict) -> Any:
    return func(*args, **kwargs)


def _on_values(func: Any, args: list, kwargs: dict) -> Any:
    """A function of sparse tensors whose elements are at the same places: one of their values."""
    sparse = [a for a in args if isinstance(a, Tensor) and a.layout is not flambeau.strided]
    found = func(*[values_of(a) if any(a is s for s in sparse) else a for a in args], **kwargs)
    return with_values(sparse[0], found)


def _reduced(func: Any, name: str, args: tuple, kwargs: dict) -> Any:
    t, *rest = args
    data, mask = _plain(t), t._mask
    dim = rest[0] if rest and name != "norm" else kwargs.get("dim")
    if dim is None:  # a number has no places
        data, mask = data.to_dense(), mask.to_dense()
    if name in ("all", "any"):
        whole = functions.filled(data.bool(), mask, name == "all")
        found = func(whole, *rest, **kwargs)
    else:
        names = ("ord", "dim") if name == "norm" else ("dim", "keepdim")
        given = {**dict(zip(names, rest)), **kwargs}
        if name == "norm" and "p" in given:
            given["ord"] = given.pop("p")
        found = getattr(functions, name)(data, mask=mask, **given)
    keepdim = bool(kwargs.get("keepdim", rest[1] if len(rest) > 1 else False))
    dims = tuple(range(data.ndim)) if dim is None else (dim,) if isinstance(dim, int) else dim
    left = mask
    for d in sorted((d % max(data.ndim, 1) for d in dims), reverse=True):
        left = left.any(d, keepdim) if left.ndim else left
    return _wrapped(found, left)


def _along(func: Any, name: str, args: tuple, kwargs: dict) -> Any:
    t, *rest = args
    dim = rest[0] if rest else kwargs["dim"]
    dtype = kwargs.get("dtype", rest[1] if len(rest) > 1 else None)
    found = getattr(functions, name)(_plain(t), dim, dtype=dtype, mask=t._mask)
    return _wrapped(found, t._mask)


def masked_tensor(data: Any, mask: Any, requires_grad: bool = False) -> MaskedTensor:
    """A masked tensor that is a leaf of its own."""
    return MaskedTensor(data, mask, requires_grad)


def as_masked_tensor(data: Any, mask: Any) -> MaskedTensor:
    """A masked tensor that stays in the graph of its data."""
    return MaskedTensor._from_values(data, mask)


def is_masked_tensor(obj: Any, /) -> bool:
    """Does it carry a mask?"""
    return isinstance(obj, MaskedTensor)
