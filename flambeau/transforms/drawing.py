"""Random numbers inside of vmap: none, the same for all samples, or different ones."""

from contextlib import nullcontext
from typing import Any

from flambeau._tensor import Tensor
from flambeau.eager import creation, random_tensors
from flambeau.eager.binding import bind
from flambeau.ops.dropout import SELU_FLOOR, alpha_factor, native_dropout
from flambeau.ops.table import TABLE, public
from flambeau.transforms.batching import DRAWING, TEMPLATES, BatchLevel, changed, refused_write
from flambeau.transforms.duals import DualLevel
from flambeau.transforms.handling import ROW_RULES, UNWRAPPED, rule
from flambeau.transforms.levels import Level, below, is_at, mapped, running

_ERROR = (
    "vmap: called random operation while in randomness error mode. Please either use the 'same' or "
    "'different' randomness flags on vmap or perform the randomness operation out of vmap"
)
_SAME = (
    "Vmap does not currently support same randomness with a batched tensor input. Please file an "
    "issue with functorch"
)
_UNBATCHED = (
    "vmap: Cannot ask for different inplace randomness on an unbatched tensor. This will appear "
    "like same randomness. If this is necessary for your usage, please file an issue with "
    "functorch."
)
_OUT = (
    "vmap: We do not support calling out variants of random operations inside of vmap. Please use "
    "non-out variants as a workaround"
)
_FACTORIES = "rand randn randint randperm normal".split()
_LIKE = "rand_like randn_like randint_like".split()
_IN_PLACE = (
    "uniform_ normal_ log_normal_ cauchy_ exponential_ geometric_ random_ bernoulli_"
).split()
_ROWS = (
    "bernoulli poisson binomial _standard_gamma _sample_dirichlet multinomial native_dropout "
    "rrelu_with_noise"
).split()
_DROPPING = "dropout alpha_dropout feature_dropout feature_alpha_dropout rrelu".split()
# functions of nn.functional that end in one of these rows by a way of their own
_FUNCTIONAL = [f"functional_{n}" for n in _DROPPING if n != "feature_dropout"]


def _check(level: BatchLevel) -> None:
    if level.randomness == "error":
        raise RuntimeError(_ERROR)


def _several(above: Level | None, kwargs: dict) -> list[BatchLevel]:
    """The levels above one for each of whose samples something else is drawn, the lowest first."""
    start = 0 if above is None else above.number
    levels = [
        level
        for level in running.levels
        if isinstance(level, BatchLevel) and start < level.number < running.drawn
    ]
    for level in levels:
        _check(level)
    if levels and kwargs.get("out") is not None:
        raise RuntimeError(_OUT)
    return [level for level in levels if level.randomness == "different"]


class _drawing:
    """A level draws for all its samples: it and those above need not be asked once more."""

    def __init__(self, level: Level) -> None:
        self.level = level

    def __enter__(self) -> None:
        self.saved, running.drawn = running.drawn, self.level.number

    def __exit__(self, *error: Any) -> None:
        running.drawn = self.saved


def _spread(levels: list[BatchLevel], value: Any) -> Any:
    """What is the same for all samples as a tensor that has them."""
    if not isinstance(value, Tensor):
        return value
    for level in levels:
        value = level.batched(value.expand(level.size, *value.shape))
    return value


def _drawn(above, place, function, args, kwargs):
    """A new tensor of random numbers: one for each sample of the levels that want different."""
    several = _several(above, kwargs)
    if not several:
        return NotImplemented
    if any(isinstance(a, Tensor) for a in (*args, *kwargs.values())):  # normal around tensors
        named = {n: _spread(several, a) for n, a in kwargs.items()}
        return place.function()(*[_spread(several, a) for a in args], **named)
    sizes, args, kwargs = _sizes(place.key, args, kwargs)
    if sizes is None:
        return _one_after_another(several, lambda: function(*args, **kwargs))
    found = function(*args, size=(*[level.size for level in several], *sizes), **kwargs)
    for level in several:
        found = level.batched(found)
    return found


def _one_after_another(levels: list[BatchLevel], draw: Any) -> Tensor:
    """Draw for each combination of samples of some levels."""
    *rest, level = levels
    parts = [_one_after_another(rest, draw) if rest else draw() for _ in range(level.size)]
    return level.batched(public("stack")(parts))


def _sizes(key, args, kwargs):
    """(sizes, arguments and keywords without them) of a call; None where it has none."""
    if "size" in kwargs:
        rest = dict(kwargs)
        return tuple(rest.pop("size")), args, rest
    if args and isinstance(args[-1], (tuple, list)):
        return tuple(args[-1]), args[:-1], kwargs
    return (tuple(args), (), kwargs) if key in ("rand", "randn") else (None, args, kwargs)


UNWRAPPED.update(dict.fromkeys(_FACTORIES, _drawn))


def _drawn_like(above, place, function, args, kwargs):
    """Functions that draw, on a tensor that is the same for all samples."""
    op = TABLE.get(place.row)
    if op is not None and not _draws(op, args, kwargs):
        return NotImplemented
    several = _several(above, kwargs)
    if not several:
        return NotImplemented
    if args:
        return place.function()(_spread(several, args[0]), *args[1:], **kwargs)
    first = "input" if op is None else op.params[0].name
    return place.function()(**kwargs | {first: _spread(several, kwargs[first])})


def _draws(op, args, kwargs):
    """Does a call of a row draw anything, in a new tensor?"""
    bound = bind(op, args, {n: v for n, v in kwargs.items() if n != "out"})
    if bound.get("inplace") or bound.get("train", bound.get("training", True)) is False:
        return False
    return op.name in _ROWS or bound.get("p") != 0


UNWRAPPED.update(dict.fromkeys([*_LIKE, *_ROWS, *_DROPPING, *_FUNCTIONAL], _drawn_like))


def _dropped_in_place(above, place, function, args, kwargs):
    """Dropout in place of a tensor that is the same for all samples."""
    if _draws(TABLE[place.row], args, kwargs):
        target = args[0] if args else kwargs["input"]
        for level in _several(above, kwargs):
            raise refused_write("mul_", target, _spread([level], target))
    return NotImplemented


UNWRAPPED.update(dict.fromkeys([n + "_" for n in _DROPPING], _dropped_in_place))


def _filled(above, place, function, args, kwargs):
    """Random numbers written into a tensor that is the same for all samples."""
    if _several(above, kwargs):
        raise RuntimeError(_UNBATCHED)
    return NotImplemented


UNWRAPPED.update(dict.fromkeys(_IN_PLACE, _filled))


@rule(*_LIKE)
def _like(level, place, args, kwargs):
    t, *rest = args
    kwargs.pop("memory_format", None)

    def draw(value):
        with _drawing(level):
            return place.function()(value, *rest, **kwargs)

    if not isinstance(level, BatchLevel):
        return place.function()(level.plain(t), *rest, **kwargs)
    _check(level)
    value, several = level.plain(t), level.randomness == "different"
    if level.is_batched(t):
        return level.batched(draw(value)) if several else level.lift(draw(value[0]))
    if not several:
        return level.lift(draw(value))
    return level.batched(draw(value.expand(level.size, *value.shape).contiguous()))


@rule(*_IN_PLACE)
def _in_place(level, place, args, kwargs):
    t, *rest = args
    if not isinstance(level, BatchLevel):
        getattr(level.plain(t), place.key)(*map(level.plain, rest), **kwargs)
        if is_at(t, level) and t._tangent is not None:
            t._tangent.zero_()
        return t
    _check(level)
    many = [a for a in (*rest, *kwargs.values()) if level.is_batched(a)]  # bernoulli_'s chances
    if many and level.randomness == "same":
        raise RuntimeError(_SAME)
    if many and not level.is_batched(t):
        raise refused_write(place.key, t, many[0]._value)
    if not level.is_batched(t) and level.randomness == "different":
        raise RuntimeError(_UNBATCHED)

    def fill(target):
        named = {n: plain(a) for n, a in kwargs.items()}
        return place.function()(target, *map(plain, rest), **named)

    def plain(a):
        return level.front(a, t.ndim) if level.is_batched(a) else level.plain(a)

    with below(level), _drawing(level):
        value = level.plain(t)
        if level.is_batched(t) and level.randomness == "same":
            one = fill(value[0].clone())
            value.copy_(one.expand(value.shape))
        else:
            fill(value)
    return t


@rule("normal")
def _around(level, place, args, kwargs):
    """Numbers around tensors of a level, with whose parameters they do not move."""
    if kwargs.get("out") is not None:
        raise RuntimeError(_OUT)
    given = dict(zip(("mean", "std"), args)) | kwargs
    tensors = [n for n in ("mean", "std") if isinstance(given.get(n), Tensor)]
    if isinstance(level, BatchLevel):
        _check(level)
        if level.randomness == "same":
            raise RuntimeError(_SAME)
        if len(tensors) == 2:  # samples may have fewer dimensions than each other
            given |= zip(tensors, public("broadcast_tensors")(given["mean"], given["std"]))
        plain = level.front
    else:
        plain = level.plain
    with below(level):
        values = {n: plain(given[n]) for n in tensors}
        with _drawing(level) if isinstance(level, BatchLevel) else nullcontext():
            out = place.function()(**given | values)
        if isinstance(level, BatchLevel):
            return level.batched(out)
        if isinstance(level, DualLevel):
            return level.dual(out, creation.zeros_like(out.detach()))
        return level.lift(out)


def _row(level, op, bound):
    """Rows that draw as they compute."""
    draws = bound.get("train", bound.get("training", True)) is not False
    if draws:
        _check(level)
    first = op.params[0].name
    same, many = draws and level.randomness == "same", level.is_batched(bound[first])
    if same and (many or any(level.is_batched(v) for v in bound.values())):
        if op.name != "native_dropout":
            raise RuntimeError(_SAME)
        return _same_for_all(level, op, bound)
    new = {
        n: level.front(v)
        for n, v in bound.items()
        if isinstance(v, Tensor) and not same and (n == first or is_at(v, level))
    }
    value = new.get(first)
    if op.name == "multinomial" and value is not None and value.ndim == 3:  # takes rows of weights
        new[first] = value.flatten(0, 1)
    with _drawing(level):
        found = changed(op, level, bound, **new)
    if same:
        return mapped(level.lift, found)
    return found if new[first] is value else found.unflatten(0, value.shape[:2])


def _kept(like, shape, p):
    """Which elements stay, drawn as the levels want it."""
    return random_tensors.rand(shape, device=like.device) < 1 - p


def _same_for_all(level, op, bound):
    """Dropout of each sample by the same mask."""
    value, p = level.front(bound["input"]), bound["p"]
    mask = _kept(value, tuple(value.shape[1:]), p)
    return value * (mask / (1 - p)), mask.expand(value.shape)


DRAWING.update(_ROWS)
TEMPLATES.update(dict.fromkeys(_ROWS, _row))


# -- rows that write their history themselves, which wrapped tensors would not have ----------------


def _noise(input, p, by_channel):
    """1 / (1 - p) or 0, for each element or channel."""
    shape = (*input.shape[:2], *[1] * (input.ndim - 2)) if by_channel else tuple(input.shape)
    return _kept(input, shape, p).to(input.dtype)


def _dropout(by_channel):
    def rule(level, bound):
        input, p = bound["input"], bound["p"]
        if not bound["train"] or p == 0 or not input.numel():
            return input
        if p == 1:
            return input * 0
        if not by_channel:
            return native_dropout(input, p, True)[0]
        return input * (_noise(input, p, True) / (1 - p))

    return rule


def _alpha_dropout(by_channel):
    def rule(level, bound):
        input, p = bound["input"], bound["p"]
        if not bound["train"] or p == 0 or not input.numel():
            return input
        if p == 1:
            return input * 0
        kept, factor = _noise(input, p, by_channel), alpha_factor(p)
        floor = (kept - 1) * (SELU_FLOOR * factor) + SELU_FLOOR * factor * p
        return input * (kept * factor) + floor

    return rule


def _rrelu(level, bound):
    input = bound["input"]
    if bound["training"]:
        noise = random_tensors.rand(tuple(input.shape), dtype=input.dtype, device=input.device)
        noise = noise * (bound["upper"] - bound["lower"]) + bound["lower"]
        return public("where")(input > 0, input, input * noise)
    slope = (bound["lower"] + bound["upper"]) / 2
    return public("leaky_relu")(input, slope)


ROW_RULES |= {
    "dropout": _dropout(False),
    "feature_dropout": _dropout(True),
    "alpha_dropout": _alpha_dropout(False),
    "feature_alpha_dropout": _alpha_dropout(True),
    "rrelu": _rrelu,
}
