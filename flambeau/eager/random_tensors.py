"""New tensors of random numbers: rand, randn, randint, randperm, normal and their `_like` forms.

Each makes an empty tensor (or takes `out`) and fills it. The fills are in `sampling.py` and
`random_integers.py`.
"""

import operator

from flambeau import _dtype
from flambeau._layout import Size, broadcast_shape
from flambeau._tensor import Tensor
from flambeau.autograd import views
from flambeau.eager.creation import empty, empty_like, size_from
from flambeau.eager.distributions import fill_randperm
from flambeau.eager.random_integers import random_from_to
from flambeau.eager.sampling import check_generator, normal_, uniform_


def _filled(fill, target, requires_grad, out, *arguments):
    fill(target, *arguments)
    if out is not None:
        out._storage.version += 1
    return target.requires_grad_(True) if requires_grad else target


def rand(
    *size,
    generator=None,
    out=None,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
    pin_memory=False,
):
    """Numbers from the uniform distribution on [0, 1)."""
    check_generator("rand", generator)
    target = empty(_size("rand", size), out=out, dtype=dtype, device=device)
    return _filled(uniform_, target, requires_grad, out, 0.0, 1.0, generator)


def randn(
    *size,
    generator=None,
    out=None,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
    pin_memory=False,
):
    """Numbers from the normal distribution with mean 0 and standard deviation 1."""
    check_generator("randn", generator)
    target = empty(_size("randn", size), out=out, dtype=dtype, device=device)
    return _filled(normal_, target, requires_grad, out, 0.0, 1.0, generator)


def _size(name, size):
    if not size:
        raise TypeError(
            f"{name}() received an invalid combination of arguments - got (), "
            "but expected (tuple of ints size)"
        )
    return size_from(size, name)


def randint(
    low=None,
    high=None,
    size=None,
    *,
    generator=None,
    out=None,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
    pin_memory=False,
):
    """Integers from [low, high), as in randint(high, size) and randint(low, high, size)."""
    check_generator("randint", generator)
    if size is None:
        high, size = None, high  # randint(high, size)
    low, high = _bounds("randint", low, high)
    if not isinstance(size, (tuple, list)):
        position, kind = 2 if low == 0 else 3, type(size).__name__
        raise TypeError(
            f"randint(): argument 'size' (position {position}) must be tuple of ints, not {kind}"
        )
    dtype = dtype or (_dtype.int64 if out is None else None)
    target = empty(size_from((size,), "randint"), out=out, dtype=dtype, device=device)
    return _filled(random_from_to, target, requires_grad, out, low, high, generator)


def _bounds(name, low, high):
    """(low, high) from (high, None) or (low, high)."""
    if high is None:
        return 0, _integer(name, "high", 1, low)
    return 0 if low is None else _integer(name, "low", 1, low), _integer(name, "high", 2, high)


def _integer(name, argument, position, value):
    kind = type(value).__name__
    if isinstance(value, (float, tuple, list)) or value is None:
        raise TypeError(
            f"{name}(): argument '{argument}' (position {position}) must be int, not {kind}"
        )
    value = operator.index(value)
    if not -(2**63) <= value < 2**63:
        raise ValueError("Overflow when unpacking long long")
    return value


def randperm(
    n,
    *,
    generator=None,
    out=None,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
    pin_memory=False,
):
    """The integers from 0 to n - 1 in random order."""
    check_generator("randperm", generator)
    n = _integer("randperm", "n", 1, n)
    dtype = dtype or (_dtype.int64 if out is None else None)
    target = empty(Size((n,)) if n >= 0 else (n,), out=out, dtype=dtype, device=device)
    return _filled(fill_randperm, target, requires_grad, out, n, generator)


def rand_like(
    input,
    *,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
    memory_format=None,
    pin_memory=False,
    generator=None,
):
    """Numbers from the uniform distribution on [0, 1), in the shape of input."""
    check_generator("rand_like", generator)
    target = empty_like(input, dtype=dtype, device=device, memory_format=memory_format)
    return _filled(uniform_, target, requires_grad, None, 0.0, 1.0, generator)


def randn_like(
    input,
    *,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
    memory_format=None,
    pin_memory=False,
    generator=None,
):
    """Numbers from the standard normal distribution, in the shape of input."""
    check_generator("randn_like", generator)
    target = empty_like(input, dtype=dtype, device=device, memory_format=memory_format)
    return _filled(normal_, target, requires_grad, None, 0.0, 1.0, generator)


def randint_like(
    input,
    low=None,
    high=None,
    *,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
    memory_format=None,
    pin_memory=False,
    generator=None,
):
    """Integers from [low, high), in the shape of input: randint_like(input, [low,] high)."""
    check_generator("randint_like", generator)
    low, high = _bounds("randint_like", low, high)
    target = empty_like(input, dtype=dtype, device=device, memory_format=memory_format)
    return _filled(random_from_to, target, requires_grad, None, low, high, generator)


# -- normal ----------------------------------------------------------------------------------------


def normal(
    mean,
    std=1.0,
    size=None,
    *,
    generator=None,
    out=None,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
    pin_memory=False,
):
    """Normal numbers. mean and std are tensors or numbers; two numbers want a size."""
    check_generator("normal", generator)
    if isinstance(std, Tensor):
        return _normal_around(mean, views.detached(std), generator, out)
    if isinstance(mean, Tensor):
        mean = views.detached(mean)
        target = empty(mean.shape, out=out, dtype=mean.dtype, device=mean.device)
        return _filled(normal_, target, False, out, 0.0, float(std), generator).add_(mean)
    if not isinstance(size, (tuple, list)):
        kinds = ", ".join(type(x).__name__ for x in (mean, std, size) if x is not None)
        raise TypeError(
            f"normal() received an invalid combination of arguments - got ({kinds}), "
            "but expected (float mean, float std, tuple of ints size)"
        )
    target = empty(size_from((size,), "normal"), out=out, dtype=dtype, device=device)
    return _filled(normal_, target, requires_grad, out, float(mean), float(std), generator)


def _normal_around(mean, std, generator, out):
    """Standard normal numbers, scaled and shifted; mean is a tensor or a number."""
    if std.dtype.is_complex:
        raise RuntimeError("normal expects standard deviation to be non-complex")
    if std.device.type == "cpu" and not bool((std >= 0).all()):
        raise RuntimeError("normal expects all elements of std >= 0.0")
    like, shape = std, std.shape
    if isinstance(mean, Tensor):
        like = mean = views.detached(mean)
        shape = broadcast_shape(mean.shape, std.shape)
    target = empty(shape, out=out, dtype=like.dtype, device=like.device)
    _filled(normal_, target, False, out, 0.0, 1.0, generator)
    mean = mean if isinstance(mean, Tensor) else target.new_full((), mean)
    return target.mul_(std).add_(mean)


PUBLIC = "rand randn randint randperm rand_like randn_like randint_like normal".split()
