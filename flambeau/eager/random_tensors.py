"""New tensors of random numbers: rand, randn, randint, randperm, normal and their `_like` forms.

Each makes an empty tensor (or takes `out`) and fills it. The fills are in `sampling.py` and
`random_integers.py`. What a call comes to (layout, kernel, parameters) is remembered by its plain
arguments, so that the next one like it allocates and draws at once.
"""

import operator

from flambeau import _dtype
from flambeau._layout import Size, broadcast_shape
from flambeau._tensor import Tensor, empty_like_layout
from flambeau.autograd import views
from flambeau.eager.creation import empty, empty_like, size_from
from flambeau.eager.distributions import fill_randperm
from flambeau.eager.options import plain_key
from flambeau.eager.plan import MAX_PLANS
from flambeau.eager.random_integers import random_from_to
from flambeau.eager.sampling import check_generator, normal_, uniform_
from flambeau.random import Generator, default_generator

_draws: dict = {}  # (function, what it was asked for) -> layout, kernel, its arguments
_dtype.Defaults.remembered.append(_draws)
_INT = frozenset((int,))
_BOUNDS = frozenset((int, type(None)))


def _filled(fill, target, requires_grad, out, *arguments, key=None):
    ran = fill(target, *arguments)
    if out is not None:
        out._storage.version += 1
    elif key is not None and ran is not None:
        if len(_draws) > MAX_PLANS:
            _draws.clear()
        _draws[key] = target._layout, *ran
    return target.requires_grad_(True) if requires_grad else target


def _again(key, generator, requires_grad):
    """A new tensor by a plan of before; None if there is none."""
    try:
        found = _draws.get(key)
    except TypeError:  # a dtype or a device that nothing can be known by
        return None
    if found is None:
        return None
    if generator is None:
        generator = default_generator
    elif not isinstance(generator, Generator):
        return None
    layout, run, arguments = found
    t = empty_like_layout(layout)
    run(generator.pointer, t._storage.pointer, *arguments)
    return t.requires_grad_(True) if requires_grad else t


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
    key = plain_key("rand", size, dtype, device)
    if out is None:
        t = _again(key, generator, requires_grad)
        if t is not None:
            return t
    check_generator("rand", generator)
    target = empty(_size("rand", size), out=out, dtype=dtype, device=device)
    return _filled(uniform_, target, requires_grad, out, 0.0, 1.0, generator, key=key)


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
    key = plain_key("randn", size, dtype, device)
    if out is None:
        t = _again(key, generator, requires_grad)
        if t is not None:
            return t
    check_generator("randn", generator)
    target = empty(_size("randn", size), out=out, dtype=dtype, device=device)
    return _filled(normal_, target, requires_grad, out, 0.0, 1.0, generator, key=key)


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
    if size is None:
        high, size = None, high  # randint(high, size)
    key = None
    # floats are left out: their bounds may be worth a warning each time
    if dtype is None and isinstance(size, tuple) and _INT.issuperset(map(type, (low, *size))):
        key = plain_key((low, high), size, dtype, device) if type(high) in _BOUNDS else None
        t = _again(key, generator, requires_grad) if out is None else None
        if t is not None:
            return t
    check_generator("randint", generator)
    low, high = _bounds("randint", low, high)
    if not isinstance(size, (tuple, list)):
        position, kind = 2 if low == 0 else 3, type(size).__name__
        raise TypeError(
            f"randint(): argument 'size' (position {position}) must be tuple of ints, not {kind}"
        )
    dtype = dtype or (_dtype.int64 if out is None else None)
    target = empty(size_from((size,), "randint"), out=out, dtype=dtype, device=device)
    return _filled(random_from_to, target, requires_grad, out, low, high, generator, key=key)


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
    key = plain_key("randperm", (n,), dtype, device) if type(n) is int else None
    if out is None:
        t = _again(key, generator, requires_grad)
        if t is not None:
            return t
    check_generator("randperm", generator)
    n = _integer("randperm", "n", 1, n)
    dtype = dtype or (_dtype.int64 if out is None else None)
    target = empty(Size((n,)) if n >= 0 else (n,), out=out, dtype=dtype, device=device)
    return _filled(fill_randperm, target, requires_grad, out, n, generator, key=key)


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
    key = None
    if type(input) is Tensor and dtype is device is memory_format is None:
        key = "rand_like", input._layout
        t = _again(key, generator, requires_grad)
        if t is not None:
            return t
    check_generator("rand_like", generator)
    target = empty_like(input, dtype=dtype, device=device, memory_format=memory_format)
    return _filled(uniform_, target, requires_grad, None, 0.0, 1.0, generator, key=key)


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
    key = None
    if type(input) is Tensor and dtype is device is memory_format is None:
        key = "randn_like", input._layout
        t = _again(key, generator, requires_grad)
        if t is not None:
            return t
    check_generator("randn_like", generator)
    target = empty_like(input, dtype=dtype, device=device, memory_format=memory_format)
    return _filled(normal_, target, requires_grad, None, 0.0, 1.0, generator, key=key)


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
