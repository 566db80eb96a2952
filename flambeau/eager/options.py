"""What creation functions are told: sizes, dtypes, devices, numbers to fill with, out=.

Each function here turns one kind of argument into a value or complains about it in PyTorch's words.
The functions themselves are in creation.py and ranges.py.
"""

from flambeau import _device, _dtype, errors
from flambeau._device import cpu, default_device
from flambeau._dtype import default_dtype
from flambeau._layout import Size, dense_layout
from flambeau._tensor import Tensor
from flambeau.autograd.grad_mode import modes
from flambeau.eager.arguments import argument as asked
from flambeau.eager.arguments import is_int, wrong
from flambeau.eager.arguments import number as in_range
from flambeau.eager.fragments import follow_makers
from flambeau.eager.plans import Plans
from flambeau.interposing.overriding import notice


def size_from(size, name="empty", argument="size"):
    """zeros(2, 3), zeros((2, 3)), zeros(Size): the shape that was meant."""
    if len(size) == 1 and isinstance(size[0], (tuple, list)):
        size = size[0]
        if type(size) is Size and (not size or min(size) >= 0):
            return size
    elif not size:
        if name.startswith("rand"):
            raise TypeError(
                f"{name}() received an invalid combination of arguments - got (), "
                "but expected (tuple of ints size)"
            )
        raise TypeError(f'{name}() missing 1 required positional arguments: "{argument}"')
    elif not is_int(size[0]):
        raise TypeError(wrong(name, argument, 1, "ints", size[0]))
    shape = Size(asked(name, argument, 1, "int list", size))
    for s in shape:
        if s < 0:
            raise negative_size(s, shape, name)
    return shape


def named(function, name, doc):
    """A function that was made in another, under its own name."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


follow_makers(globals())


def fresh_plain(sizes, dtype, device):
    """A new tensor for plain arguments, as `*sizes` of a call has them, with something in it.

    None for everything else, which is then looked at argument by argument.
    """
    if not sizes:
        return None
    try:
        dtype, device = KINDS[dtype, default_device() if device is None else device]
    except TypeError:  # a dtype or a device that is none, and may not even be hashable
        return None
    return _sized(sizes, dtype, device)  # noqa: F821


def _kind(key):
    """(dtype, device) in full."""
    dtype, device = key
    if dtype is None:
        dtype = default_dtype()
    elif type(dtype) is not _dtype.dtype:
        dtype = dtype_of(dtype)
    return dtype, device if device is cpu else _device.resolve(device)


KINDS = Plans(_kind, mixed=True)


def negative_size(size, shape, name):
    if name == "zeros":
        return RuntimeError("zeros: Dimension size must be non-negative.")
    return RuntimeError(f"Trying to create tensor with negative dimension {size}: {list(shape)}")


def size_tuple(size, name, argument="size", position=1):
    """A size that must be a tuple or list."""
    if not isinstance(size, (tuple, list)):
        raise TypeError(wrong(name, argument, position, "int list", size))
    return size_from((size,), name, argument)


def dtype_of(dtype, name="zeros"):
    """A dtype from what a caller gave: a dtype, a Python number type, or None for the default."""
    if dtype is None:
        return default_dtype()
    found = _dtype.meant(dtype)
    if found is None:
        kind = errors.kind_name(dtype)
        raise TypeError(f"{name}(): argument 'dtype' must be torch.dtype, not {kind}")
    return found


def device_of(device, name):
    if device is not None and not isinstance(device, (str, int, _device.device)):
        kind = errors.kind_name(device)
        raise TypeError(f"{name}(): argument 'device' must be torch.device, not {kind}")
    return _device.resolve(device)


def new_layout(shape, dtype, device, name="zeros"):
    """The dense layout of a new tensor."""
    return dense_layout(shape, dtype_of(dtype, name), device_of(device, name))


def finish(t, requires_grad, name="tensor"):
    """Make a new tensor a leaf that wants gradients, if it is to be one."""
    if requires_grad is not False:
        asked(name, "requires_grad", 0, "bool", requires_grad)
    if requires_grad:
        if t._layout.dtype.category < _dtype.FLOATING:
            raise RuntimeError(
                "Only Tensors of floating point and complex dtype can require gradients"
            )
        t.requires_grad_(True)
    return t


def refuse_recorded(out, name):
    """What creation functions write into out= has no gradient."""
    if out._requires_grad and modes.grad:
        if name in ("empty", "randn"):
            raise RuntimeError("cannot resize variables that require grad")
        raise errors.out_requires_grad(name if name == "bernoulli" else f"aten::{name}")


def into(out, shape, dtype=None, device=None, name="zeros"):
    """An out= tensor, given its shape without a word (creation functions resize silently)."""
    if not isinstance(out, Tensor):
        kind = errors.kind_name(out)
        raise TypeError(f"{name}(): argument 'out' must be Tensor, not {kind}")
    refuse_recorded(out, name)
    if dtype is not None and out.dtype is not dtype:
        raise RuntimeError(
            f"dtype {dtype.scalar_name} does not match dtype of out parameter "
            f"({out.dtype.scalar_name})"
        )
    if device is not None and out.device is not device:
        raise RuntimeError(
            f"device type {device.type} does not match device type of out parameter "
            f"({out.device.type})"
        )
    return out if out.shape == shape else out.resize_(shape)


def like(input, name):
    """The argument of a *_like function; None for the first that answers by itself."""
    if not isinstance(input, Tensor):
        if notice(type(input)):
            return None
        kind = errors.kind_name(input)
        raise TypeError(f"{name}(): argument 'input' (position 1) must be Tensor, not {kind}")
    return input


def told_again(function, *args, **options):
    """A call as it was written, now that an argument is asked first (see `like`)."""
    said = {name: value for name, value in options.items() if value not in (None, False)}
    return function(*args, **said)


def number(value, name, argument, position):
    """A Python number from a number, a NumPy number or a tensor without dimensions."""
    if type(value) in (int, float, bool, complex):
        return in_range(value)
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        return value.item()
    for kind in (int, float, complex):
        if isinstance(value, kind):
            return kind(value)
    raise TypeError(wrong(name, argument, position, "Scalar", value))


def integer(value, name, argument, position):
    """An argument that must be an integer."""
    return asked(name, argument, position, "int", value)
