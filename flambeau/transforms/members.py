"""Functions of wrapped tensors that are no rows: new tensors, casts, numbers, questions."""

from typing import Any

from flambeau import _device, interposing
from flambeau._memory_format import contiguous_format, preserve_format
from flambeau._tensor import Tensor
from flambeau.eager import creation
from flambeau.eager.methods import function
from flambeau.transforms.handling import rule
from flambeau.transforms.levels import Wrapped, below, bottom, is_at, mapped, rebind, same


@rule("detach", "torch.detach")
def _detach(level, place, args, kwargs):
    """Without history; what is below is kept out of it, too."""
    t = args[0] if args else kwargs["input"]
    return level.detached(t) if is_at(t, level) else t.detach()


@rule("detach_")
def _detach_in_place(level, place, args, kwargs):
    t = place.copy(*args, **kwargs)
    return rebind(t, level.detached(t)) if is_at(t, level) else t


@rule("__matmul__")
def _matmul(level, place, args, kwargs):
    if not all(isinstance(a, Tensor) for a in (*args, *kwargs.values())):
        return NotImplemented
    return function("matmul")(*args)


@rule("__rmatmul__")
def _rmatmul(level, place, args, kwargs):
    return function("matmul")(args[1], args[0])


# -- new tensors -----------------------------------------------------------------------------------


def _like(name):
    def made(level, place, args, kwargs):
        t = args[0] if args else kwargs.pop("input")
        if not isinstance(t, Tensor) or not is_at(t, level):
            return place.copy(*args, **kwargs)
        wanted = kwargs.pop("requires_grad", False)
        if kwargs.get("memory_format") is not preserve_format:
            kwargs.pop("memory_format", None)
        with below(level):
            out = level.made(t, lambda v: getattr(creation, name)(v, *args[1:], **kwargs))
        return out.requires_grad_() if wanted else out

    return made


for _name in ("zeros_like", "ones_like", "empty_like", "full_like"):
    rule(_name)(_like(_name))


def _new(name):
    def made(level, place, args, kwargs):
        t = args[0]
        if not is_at(t, level):
            return place.copy(*args, **kwargs)
        wanted = kwargs.pop("requires_grad", False)
        size, rest = _size(name, args[1:], kwargs)
        with below(level):
            out = level.made_new(t, size, lambda v, s: getattr(v, name)(s, *rest, **kwargs))
        return out.requires_grad_() if wanted else out

    return made


def _size(name, args, kwargs):
    if "size" in kwargs:
        return tuple(kwargs.pop("size")), args
    if args and isinstance(args[0], (tuple, list)):
        return tuple(args[0]), args[1:]
    if name == "new_full":
        return (args[0],), args[1:]
    return tuple(args), ()


for _name in ("new_zeros", "new_ones", "new_empty", "new_full"):
    rule(_name)(_new(_name))


@rule("new_empty_strided")
def _new_empty_strided(level, place, args, kwargs):
    """Samples one behind the other, each with the strides that were asked for."""
    t, size, stride, *rest = args
    if not is_at(t, level):
        return place.copy(*args, **kwargs)
    length = 1 + sum((n - 1) * s for n, s in zip(size, stride)) if 0 not in size else 0

    def make(value, sizes):
        batched = len(sizes) > len(size)
        strides = (length, *stride) if batched else tuple(stride)
        return value.new_empty_strided(sizes, strides, *rest, **kwargs)

    with below(level):
        return level.made_new(t, tuple(size), make)


@rule("new_tensor")
def _new_tensor(level, place, args, kwargs):
    t = args[0]
    options = {"dtype": t.dtype, "device": t.device} | kwargs
    return creation.tensor(*args[1:], **options)


# -- casts -----------------------------------------------------------------------------------------

_CASTS = (
    "bfloat16 bool byte char double float half int long short cfloat cdouble chalf cpu cuda".split()
)


@rule("to", "type_as", *_CASTS)
def _to(level, place, args, kwargs):
    t = args[0]
    if not isinstance(t, Wrapped):  # to(other)
        return t.to(dtype=args[1].dtype, device=args[1].device)
    plain = [bottom(a) if isinstance(a, Tensor) else a for a in args[1:]]
    named = {k: bottom(v) if isinstance(v, Tensor) else v for k, v in kwargs.items()}
    copy = named.pop("copy", False)
    named.pop("memory_format", None)
    named.pop("non_blocking", None)
    with interposing.switched_off(*interposing.handlers()):  # a question, no part of the program
        probe = creation.empty(0, dtype=t.dtype, device=t.device)
        wanted = getattr(probe, place.key)(*plain, **named)
    if wanted.dtype is t.dtype and wanted.device is probe.device:
        return function("clone")(t) if copy else t
    device = None if wanted.device is probe.device else wanted.device
    return function("_to_copy")(t, wanted.dtype, device, None)


@rule("type")
def _type(level, place, args, kwargs):
    t, *rest = args
    return t.to(rest[0]) if rest else bottom(t).type()


@rule("contiguous")
def _contiguous(level, place, args, kwargs):
    t = args[0]
    if not is_at(t, level):
        return place.copy(*args, **kwargs)
    if t.is_contiguous():
        return t
    return function("clone")(t, memory_format=contiguous_format)


# -- numbers and other data ------------------------------------------------------------------------


@rule("item", "__float__", "__int__", "__complex__", "__index__")
def _item(level, place, args, kwargs):
    return getattr(level.number_of(args[0], "item"), place.key)()


@rule("__bool__", "is_nonzero")
def _truth(level, place, args, kwargs):
    return bool(level.number_of(args[0], "bool"))


@rule("tolist", "numpy", "__array__", "__contains__")
def _data(level, place, args, kwargs):
    return getattr(level.number_of(args[0], "data"), place.key)(*args[1:], **kwargs)


@rule("tensor", "as_tensor", "asarray", "scalar_tensor")
def _tensor(level, place, args, kwargs):
    """torch.tensor of wrapped numbers: they are read, one by one."""
    data = args[0]
    if isinstance(data, Wrapped):
        out = data if place.key != "tensor" else function("clone")(data).detach()
        dtype = kwargs.get("dtype")
        return out if dtype is None else out.to(dtype)
    return place.copy(mapped(lambda t: t.item(), data), *args[1:], **kwargs)


@rule("equal", "allclose")
def _equal(level, place, args, kwargs):
    def plain(t: Any) -> Any:
        return level.number_of(t, "bool") if is_at(t, level) else t

    return function(place.key)(*mapped(plain, args), **kwargs)


@rule("backward")
def _backward(level, place, args, kwargs):
    if level.known is not None:  # forward_ad knows all its tensors, and may be differentiated
        return place.copy(*args, **kwargs)
    raise RuntimeError(
        "backward() called inside a functorch transform. This is not supported, please use "
        "functorch.grad or functorch.vjp instead or call backward() outside of functorch "
        "transforms."
    )


@rule("data.__get__")
def _get_data(level, place, args, kwargs):
    return args[0].detach()


def resolve_device(device: Any) -> Any:
    return _device.resolve(device)


__all__ = ["same"]
