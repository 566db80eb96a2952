"""New tensors of random numbers: rand, randn, randint, randperm, normal and their `_like` forms.

Each makes an empty tensor and fills it. The fills are in `sampling.py` and `random_integers.py`.
"""

import operator

from flambeau import _device, _dtype
from flambeau._layout import Size, broadcast_shape, make_layout
from flambeau._tensor import Tensor, empty_like_layout, empty_tensor
from flambeau.autograd import views
from flambeau.eager.binding import launches
from flambeau.eager.copying import formatted_layout
from flambeau.eager.distributions import fill_randperm
from flambeau.eager.random_integers import random_from_to
from flambeau.eager.sampling import check_generator, normal_, uniform_


def _new(row, size, position, dtype, device):
    """An empty tensor of a size and options as a caller gives them."""
    if not isinstance(dtype, _dtype.dtype):
        kind = type(dtype).__name__
        raise TypeError(f"{row}(): argument 'dtype' must be torch.dtype, not {kind}")
    shape = _shape(row, size, position)
    for n in shape:
        if n < 0:
            raise RuntimeError(
                f"Trying to create tensor with negative dimension {n}: {list(shape)}"
            )
    return empty_tensor(shape, dtype, _device.resolve(device))


def _shape(row, size, position):
    sizes = size if isinstance(size, (tuple, list)) else (size,)
    try:
        return Size([operator.index(n) for n in sizes])
    except TypeError:
        kind = type(sizes[0] if len(sizes) == 1 else size).__name__
        raise TypeError(
            f"{row}(): argument 'size' (position {position}) must be tuple of ints, not {kind}"
        ) from None


def _like(input, dtype, device, memory_format):
    """An empty tensor in the shape of input, its dimensions in the same order in memory."""
    layout = formatted_layout(input._layout, memory_format, dtype)
    if device is not None:
        place = _device.resolve(device)
        layout = make_layout(layout.shape, layout.strides, layout.dtype, place)
    return empty_like_layout(layout)


def _finished(out, requires_grad):
    if requires_grad:
        if out.dtype.category < _dtype.FLOATING:
            raise RuntimeError(
                "Only Tensors of floating point and complex dtype can require gradients"
            )
        out._requires_grad = True
    return out


@launches("rand")
def rand(size, generator, dtype, layout, device, requires_grad, pin_memory):
    check_generator("rand", generator)
    out = _new("rand", size, 1, dtype or _dtype.default_dtype(), device)
    uniform_(out, 0.0, 1.0, generator)
    return _finished(out, requires_grad)


@launches("randn")
def randn(size, generator, dtype, layout, device, requires_grad, pin_memory):
    check_generator("randn", generator)
    out = _new("randn", size, 1, dtype or _dtype.default_dtype(), device)
    normal_(out, 0.0, 1.0, generator)
    return _finished(out, requires_grad)


@launches("randint")
def randint(low, high, size, generator, dtype, layout, device, requires_grad, pin_memory):
    check_generator("randint", generator)
    if size is None and isinstance(high, (tuple, list)):
        high, size = None, high
    elif size is None and high is not None and low is not None:
        kind = type(high).__name__
        raise TypeError(
            f"randint(): argument 'size' (position 2) must be tuple of ints, not {kind}"
        )
    if size is None:
        raise TypeError('randint() missing 1 required positional arguments: "size"')
    low, high = _bounds("randint", low, high)
    if not isinstance(size, (tuple, list)):
        kind = type(size).__name__
        raise TypeError(
            f"randint(): argument 'size' (position 3) must be tuple of ints, not {kind}"
        )
    out = _new("randint", size, 3, dtype or _dtype.int64, device)
    random_from_to(out, low, high, generator)
    return _finished(out, requires_grad)


def _bounds(row, low, high):
    """(low, high) from (high, None) or (low, high)."""
    if high is None:
        low, high = 0, low
    elif low is None:
        low = 0
    found = []
    for value, name in ((low, "low"), (high, "high")):
        if isinstance(value, (float, tuple, list)) or value is None:
            kind, position = type(value).__name__, 2 if name == "high" and low else 1
            raise TypeError(
                f"{row}(): argument '{name}' (position {position}) must be int, not {kind}"
            )
        value = operator.index(value)
        if not -(2**63) <= value < 2**63:
            raise ValueError("Overflow when unpacking long long")
        found.append(value)
    return found


@launches("randperm")
def randperm(n, generator, dtype, layout, device, requires_grad, pin_memory):
    check_generator("randperm", generator)
    out = _new("randperm", (n,), 1, dtype or _dtype.int64, device)
    fill_randperm(out, n, generator)
    return _finished(out, requires_grad)


@launches("rand_like")
def rand_like(input, dtype, layout, device, requires_grad, memory_format, generator):
    check_generator("rand_like", generator)
    out = _like(input, dtype, device, memory_format)
    uniform_(out, 0.0, 1.0, generator)
    return _finished(out, requires_grad)


@launches("randn_like")
def randn_like(input, dtype, layout, device, requires_grad, memory_format, generator):
    check_generator("randn_like", generator)
    out = _like(input, dtype, device, memory_format)
    normal_(out, 0.0, 1.0, generator)
    return _finished(out, requires_grad)


@launches("randint_like")
def randint_like(input, low, high, dtype, layout, device, requires_grad, memory_format, generator):
    check_generator("randint_like", generator)
    low, high = _bounds("randint_like", low, high)
    out = _like(input, dtype, device, memory_format)
    random_from_to(out, low, high, generator)
    return _finished(out, requires_grad)


# -- normal ----------------------------------------------------------------------------------------


@launches("normal")
def normal(mean, std, size, generator, dtype, layout, device, requires_grad, pin_memory):
    check_generator("normal", generator)
    if isinstance(std, Tensor):
        return _normal_around(mean, std, generator)
    if isinstance(mean, Tensor):
        out = empty_tensor(mean.shape, mean.dtype, mean.device)
        normal_(out, 0.0, float(std), generator)
        return out.add_(views.detached(mean))
    if not isinstance(size, (tuple, list)):
        kinds = ", ".join(type(x).__name__ for x in (mean, std, size) if x is not None)
        raise TypeError(
            f"normal() received an invalid combination of arguments - got ({kinds}), "
            "but expected (float mean, float std, tuple of ints size)"
        )
    out = _new("normal", size, 3, dtype or _dtype.default_dtype(), device)
    normal_(out, float(mean), float(std), generator)
    return _finished(out, requires_grad)


def _normal_around(mean, std, generator):
    """Standard normal numbers, scaled and shifted; mean is a tensor or a number."""
    if std.dtype.is_complex:
        raise RuntimeError("normal expects standard deviation to be non-complex")
    std = views.detached(std)
    if std.device.type == "cpu" and not bool((std >= 0).all()):
        raise RuntimeError("normal expects all elements of std >= 0.0")
    if isinstance(mean, Tensor):
        shape = broadcast_shape(mean.shape, std.shape)
        out = empty_tensor(shape, mean.dtype, mean.device)
        mean = views.detached(mean)
    else:
        out = empty_tensor(std.shape, std.dtype, std.device)
        mean = out.new_full((), mean)
    normal_(out, 0.0, 1.0, generator)
    return out.mul_(std).add_(mean)
