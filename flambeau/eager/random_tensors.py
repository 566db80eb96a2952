"""New tensors of random numbers: rand, randn, randint, randperm, normal and their `_like` forms.

Plain calls have a plan: layout, kernel and its numbers. All others make an empty tensor (or take
`out`) and fill it by the functions of `sampling.py` and `random_integers.py`.
"""

from flambeau import _dtype
from flambeau._layout import broadcast_shape
from flambeau._tensor import Tensor, empty_like_layout
from flambeau.autograd import views
from flambeau.autograd.grad_mode import modes
from flambeau.eager.arguments import argument
from flambeau.eager.binding import as_number
from flambeau.eager.creation import like_layout, sized
from flambeau.eager.distributions import fill_randperm
from flambeau.eager.flat import drawn
from flambeau.eager.options import finish, fresh_plain, named, told_again
from flambeau.eager.plans import Plans
from flambeau.eager.random_integers import random_from_to
from flambeau.eager.sampling import HALF_AND_UP, check_generator, kernel, normal_, uniform_
from flambeau.errors import combination
from flambeau.ops.table import MISSING
from flambeau.random import default_generator

_BOUNDS = frozenset((int, type(None)))
_RANDINT_FORMS = "int high, tuple of ints size", "int low, int high, tuple of ints size"
_LIKE_FORMS = "Tensor input, int high", "Tensor input, int low, int high"
_NORMAL_FORMS = (
    "Tensor mean, Tensor std",
    "Tensor mean, float std = 1",
    "float mean, Tensor std",
    "float mean, float std, tuple of ints size",
)


def _plan_draw(key):
    """(kernel, its numbers) that gives a dense tensor values; None for others.

    draw: a function of the layout that names a kernel, or the bounds of integers.
    """
    layout, draw = key
    if not layout.is_dense or not layout.numel or not layout.device.runtime.computes:
        return None
    if draw is _permutation and layout.device.type == "cuda":
        return None
    found = _integers(layout, *draw) if type(draw) is tuple else draw(layout)
    if found is None:
        return None
    name, facts, numbers = found
    return kernel(name, *facts, device=layout.device), (layout.numel, *numbers)


def _uniform(layout):
    if layout.dtype in HALF_AND_UP:
        return "uniform", (layout.dtype.code,), (0.0, 1.0)
    return None


def _normal(layout):
    if layout.dtype not in HALF_AND_UP:
        return None
    if layout.numel >= 16:
        return "normal", (layout.dtype.code,), (0.0, 1.0)
    return "fill", ("normal_pairs", layout.dtype.code), (0.0, 1.0)


def _permutation(layout):
    return ("randperm", ("i64",), ()) if layout.dtype is _dtype.int64 else None


def _integers(layout, low, high):
    low, high = (0, low) if high is None else (low, high)
    if layout.dtype is not _dtype.int64 or not -(1 << 62) < low < high < 1 << 62:
        return None
    return "random", ("i64", high - low >= 1 << 28), (high - low, low)


_DRAWS = Plans(_plan_draw)


def _drawn_into(t, draw, name, generator, requires_grad):
    """A new tensor gets values; None if there is no quick way to them."""
    plan = None if t is None else _DRAWS[t._layout, draw]
    if plan is None:
        return None
    run, numbers = plan
    if generator is None:
        generator = default_generator
    else:
        check_generator(name, generator, t._layout.device)
    run(generator.pointer, t._storage.pointer, *numbers)
    return t if requires_grad is False else finish(t, requires_grad, name)


def _sized(name, sizes, size, out, dtype, device, requires_grad, generator, fill, *numbers):
    """A tensor that fill(tensor, *numbers, generator) gives values; every argument is looked at."""
    check_generator(name, generator)

    def run(t):
        fill(t, *numbers, generator)

    return sized(name, sizes, size, out, dtype, device, requires_grad, run)


def _like(function, said, name, input, dtype, device, format, grad, generator, fill, *numbers):
    """The same in the shape of another tensor; said: positional arguments of the function."""
    check_generator(name, generator)
    plan = like_layout(input, dtype, device, format, name)
    if plan is None:
        options = {"dtype": dtype, "device": device, "memory_format": format, "requires_grad": grad}
        return told_again(function, *said, **options, generator=generator)
    t = empty_like_layout(plan)
    fill(t, *numbers, generator)
    return finish(t, grad, name)


def _drawn(word, draw, fill, kind):
    """Two functions that make random tensors: of a size, and like another."""
    told = fill, 0.0, 1.0

    def of_size(
        *sizes, size=None, generator=None, out=None, dtype=None, layout=None, device=None,
        requires_grad=False, pin_memory=False,
    ):  # fmt: skip
        if size is out is None:
            t = fresh_plain(sizes, dtype, device)
            t = _drawn_into(t, draw, word, generator, requires_grad)
            if t is not None:
                return t
        return _sized(word, sizes, size, out, dtype, device, requires_grad, generator, *told)

    def like_another(
        input, *, dtype=None, layout=None, device=None, requires_grad=False, memory_format=None,
        pin_memory=False, generator=None,
    ):  # fmt: skip
        name = word + "_like"
        if type(input) is Tensor and dtype is device is memory_format is None:
            t = empty_like_layout(like_layout(input, None, None, None, name))
            t = _drawn_into(t, draw, name, generator, requires_grad)
            if t is not None:
                return t
        options = dtype, device, memory_format, requires_grad
        return _like(like_another, (input,), name, input, *options, generator, *told)

    return (
        named(of_size, word, f"Numbers from {kind}."),
        named(like_another, word + "_like", f"Numbers from {kind}, in the shape of input."),
    )


rand, rand_like = _drawn("rand", _uniform, uniform_, "the uniform distribution on [0, 1)")
randn, randn_like = _drawn("randn", _normal, normal_, "the standard normal distribution")


def randint(
    low=None, high=None, size=None, *, generator=None, out=None, dtype=None, layout=None,
    device=None, requires_grad=False, pin_memory=False,
):  # fmt: skip
    """Integers from [low, high), as in randint(high, size) and randint(low, high, size)."""
    if size is None:
        high, size = None, high  # randint(high, size)
    if type(low) is int and type(high) in _BOUNDS and isinstance(size, tuple) and out is None:
        t = fresh_plain((size,), dtype or _dtype.int64, device)
        t = _drawn_into(t, (low, high), "randint", generator, requires_grad)
        if t is not None:
            return t
    if isinstance(size, (tuple, list)) and size and type(size[0]) is bool:
        given = [x for x in (low, high) if x is not None]
        raise combination("randint", (*given, size), _RANDINT_FORMS)
    low, high = _bounds("randint", low, high)
    if not isinstance(size, (tuple, list)):
        position, kind = 2 if low == 0 else 3, type(size).__name__
        raise TypeError(
            f"randint(): argument 'size' (position {position}) must be tuple of ints, not {kind}"
        )
    dtype = dtype or (_dtype.int64 if out is None else None)
    told = "randint", (size,), None, out, dtype, device, requires_grad
    return _sized(*told, generator, random_from_to, low, high)


def _bounds(name, low, high):
    """(low, high) from (high, None) or (low, high)."""
    if high is None:
        return 0, argument(name, "high", 1, "int", low)
    low = 0 if low is None else argument(name, "low", 1, "int", low)
    return low, argument(name, "high", 2, "int", high)


def randperm(
    n, *, generator=None, out=None, dtype=None, layout=None, device=None, requires_grad=False,
    pin_memory=False,
):  # fmt: skip
    """The integers from 0 to n - 1 in random order."""
    if out is None and type(n) is int:
        t = fresh_plain((n,), dtype or _dtype.int64, device)
        t = _drawn_into(t, _permutation, "randperm", generator, requires_grad)
        if t is not None:
            return t
    n = argument("randperm", "n", 1, "int", n)
    dtype = dtype or (_dtype.int64 if out is None else None)
    told = "randperm", (n,), None, out, dtype, device, requires_grad
    return _sized(*told, generator, fill_randperm, n)


def randint_like(
    input, low=MISSING, high=MISSING, *, dtype=None, layout=None, device=None,
    requires_grad=False, memory_format=None, pin_memory=False, generator=None,
):  # fmt: skip
    """Integers from [low, high), in the shape of input: randint_like(input, [low,] high)."""
    if high is None:
        raise combination("randint_like", (input, low, high), _LIKE_FORMS)
    said = input, *(x for x in (low, high) if x is not MISSING)
    low, high = (None if x is MISSING else x for x in (low, high))
    bounds = _bounds("randint_like", low, high)
    told = "randint_like", input, dtype, device, memory_format, requires_grad
    return _like(randint_like, said, *told, generator, random_from_to, *bounds)


# -- normal ----------------------------------------------------------------------------------------


def normal(
    mean, std=1.0, size=None, *, generator=None, out=None, dtype=None, layout=None, device=None,
    requires_grad=False, pin_memory=False,
):  # fmt: skip
    """Normal numbers. mean and std are tensors or numbers; two numbers want a size."""
    if size is not None:  # then tensors without dimensions are numbers
        mean, std = [x if as_number(x) is None else as_number(x) for x in (mean, std)]
    tensors = [x for x in (mean, std) if isinstance(x, Tensor)]
    if tensors:
        if size is not None:
            raise combination("normal", (mean, std, size), _NORMAL_FORMS)
        found = _normal_around(mean, std, generator, out)
        if out is None and modes.grad and any(t._requires_grad for t in tensors):
            number = 2 * isinstance(std, Tensor) + isinstance(mean, Tensor)  # of the overload
            return drawn(f"NormalBackward{number}", found, tensors)
        return found
    if not isinstance(size, (tuple, list)):
        given = [x for x in (mean, std, size) if x is not None]
        raise combination("normal", given, _NORMAL_FORMS)
    told = "normal", (size,), None, out, dtype, device, requires_grad
    return _sized(*told, generator, normal_, float(mean), float(std))


def _normal_around(mean, std, generator, out):
    """Standard normal numbers, scaled and shifted; mean or std may be a number."""
    if not isinstance(std, Tensor):
        mean = views.detached(mean)
        dtype = getattr(out, "dtype", mean.dtype)
        told = "normal", (mean.shape,), None, out, dtype, mean.device, False
        return _sized(*told, generator, normal_, 0.0, float(std)).add_(mean)
    std = views.detached(std)
    if std.dtype.is_complex:
        raise RuntimeError("normal expects standard deviation to be non-complex")
    if std.device.runtime.computes and not bool((std >= 0).all()):
        raise RuntimeError("normal expects all elements of std >= 0.0")
    like, shape = std, std.shape
    if isinstance(mean, Tensor):
        like = mean = views.detached(mean)
        shape = broadcast_shape(mean.shape, std.shape)
    told = "normal", (shape,), None, out, getattr(out, "dtype", like.dtype), like.device, False
    target = _sized(*told, generator, normal_, 0.0, 1.0)
    mean = mean if isinstance(mean, Tensor) else target.new_full((), mean)
    return target.mul_(std).add_(mean)


PUBLIC = "rand randn randint randperm rand_like randn_like randint_like normal".split()
