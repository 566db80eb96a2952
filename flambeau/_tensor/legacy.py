"""Class constructors: torch.Tensor(2, 3), torch.FloatTensor([1, 2]), torch.LongTensor(5).

Sizes give uninitialised memory, data is copied; the dtype is the class's. The typed names are types
of their own only for isinstance and construction: every tensor is a plain Tensor.
"""

from flambeau import _device, _dtype
from flambeau._tensor import Tensor, alias, make_tensor
from flambeau._tensor.attachment import METHODS, method
from flambeau._tensor.nested import from_data
from flambeau.eager import creation
from flambeau.eager.options import size_from
from flambeau.interposing.overriding import notice_tensor


def construct(dtype, args, strict=True, device=None, is_method=False):
    is_tensor = len(args) == 1 and isinstance(args[0], Tensor)
    if device is not None and not is_tensor and (other := _device.device(device)).type != "cpu":
        raise RuntimeError(
            f"legacy constructor expects device type: cpu but device type: {other.type} was passed"
        )
    if not args:
        return creation.empty(0, dtype=dtype)
    first = args[0]
    if is_tensor:
        if device is not None:
            form, instead = ("constructor", "torch.Tensor"), "torch.tensor(...) or "
            if is_method:
                form, instead = ("new", "tensor.new"), ""
            raise RuntimeError(
                f"Legacy tensor {form[0]} of the form {form[1]}(tensor, device=device) is not "
                f"supported.  Use {instead}torch.as_tensor(...) instead."
            )
        if first.dtype is not dtype and strict:
            raise TypeError(
                f"expected a tensor of dtype {dtype} (got {first.dtype}); use .to({dtype})"
            )
        return alias(first, first._layout, first._offset)  # a plain tensor, whatever its class
    if len(args) == 1 and hasattr(first, "_untyped_storage"):
        if first.dtype is not dtype and strict:
            raise RuntimeError(
                f"Expected a Storage of type {dtype.cpp_name} or an UntypedStorage, but got type "
                f"{first.dtype.scalar_name} for argument 1 'storage'"
            )
        return first._tensor()
    if len(args) == 1 and not isinstance(first, int):
        if type(first).__name__ == "Size":
            return creation.empty(first, dtype=dtype)
        if not hasattr(first, "__len__"):
            raise TypeError(f"new(): data must be a sequence (got {type(first).__name__})")
        return from_data(first, dtype, _device.cpu)
    return creation.empty(size_from(args, "new"), dtype=dtype)


def _new(cls, *args, device=None, **kwargs):
    """Tensor(...) and subclasses of Tensor."""
    data = kwargs.pop("data", None)
    t = construct(_dtype.default_dtype(), (data,) if data is not None else args, False, device)
    if cls is Tensor:
        return t
    notice_tensor(cls)
    return make_tensor(t._layout, t._storage, t._offset, cls)


METHODS["__new__"] = _new


@method
def new(self, *args, size=None, device=None):
    """A tensor of the same dtype from sizes or data, as its class would make it."""
    args = args if size is None else tuple(size)
    return construct(self.dtype, args, device=device, is_method=True)


class _TypedMeta(type):
    def __instancecheck__(cls, value):
        if not isinstance(value, Tensor) or value.dtype is not cls.dtype:
            return False
        return value._layout.strides is not None  # sparse tensors are of others

    def __call__(cls, *args, device=None, **kwargs):
        return construct(cls.dtype, args, device=device)

    def __repr__(cls):
        return f"<class 'torch.{cls.__name__}'>"


def typed_class(dtype):
    name = f"{dtype.scalar_name}Tensor"
    return _TypedMeta(name, (), {"dtype": dtype, "__module__": "torch"})


TYPED = {
    f"{d.scalar_name}Tensor": typed_class(d)
    for d in _dtype.ALL
    if not d.is_complex and not d.name.startswith("uint1")
}
