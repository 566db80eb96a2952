"""Constructors of old: torch.sparse.FloatTensor(indices, values, size).

The names are types only for construction and isinstance, as those of dense tensors are
(_tensor/legacy.py): every sparse tensor is a plain Tensor. Each way to call them warns once.
"""

from flambeau import _dtype as d
from flambeau._device import cpu
from flambeau._device import device as as_device
from flambeau._layout import Size
from flambeau._memory_format import sparse_coo
from flambeau._sparse.conversion import emptied
from flambeau._sparse.creation import sparse_coo_tensor
from flambeau._sparse.tensors import is_coo
from flambeau._tensor import Tensor
from flambeau.errors import warn_once


def _made(dtype, args, device):
    if device is not None and as_device(device).type != "cpu":
        raise RuntimeError(
            "legacy constructor expects device type: cpu but device type: "
            f"{as_device(device).type} was passed"
        )
    if args and isinstance(args[0], Tensor):
        if not (1 < len(args) < 4 and isinstance(args[1], Tensor)):
            raise TypeError("new() received an invalid combination of arguments")
        shape = ", shape" if len(args) > 2 else ""
        _warn(f"indices, values{shape}, *, device=", f"indices, values{shape}, dtype=, device=")
        return sparse_coo_tensor(*args)
    if args and not isinstance(args[0], (int, Size)):
        raise TypeError(
            "torch.sparse.SparseTensor(sequence) only accepts sizes.  Please use "
            "torch.sparse_coo_tensor() or construct a strided tensor and convert it to sparse via "
            "to_sparse."
        )
    if args:
        _warn("shape, *, device=", "shape, dtype=, device=")
    else:
        _warn("", "(0,), dtype=")
    size = Size(args[0] if args and isinstance(args[0], Size) else args or (0,))
    return emptied(size, len(size), dtype, cpu)


def _warn(form, instead):
    warn_once(
        f"torch.sparse.SparseTensor({form}) is deprecated.  Please use "
        f"torch.sparse_coo_tensor({instead}).",
        stacklevel=6,
    )


class _TypedMeta(type):
    def __instancecheck__(cls, value):
        return is_coo(value) and value.dtype is cls.dtype

    def __call__(cls, *args, device=None):
        return _made(cls.dtype, args, device)

    def __repr__(cls):
        return f"<class 'torch.sparse.{cls.__name__}'>"


def _typed(dtype):
    facts = {"layout": sparse_coo, "is_sparse": True, "is_cuda": False}
    name = f"{dtype.scalar_name}Tensor"
    return _TypedMeta(name, (), {"dtype": dtype, **facts, "__module__": "torch.sparse"})


_KINDS = (
    d.bfloat16, d.uint8, d.int8, d.float64, d.float32, d.float16, d.int32, d.int64, d.int16
)  # fmt: skip
TYPED = {kind.__name__: kind for kind in map(_typed, _KINDS)}
