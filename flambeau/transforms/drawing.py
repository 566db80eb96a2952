"""Random numbers inside of vmap: none, the same for all samples, or different ones."""

from typing import Any

from flambeau._tensor import Tensor
from flambeau.eager import creation
from flambeau.ops.dropout import SELU_FLOOR, alpha_factor, native_dropout
from flambeau.ops.table import public
from flambeau.transforms.batching import TEMPLATES, BatchLevel, changed
from flambeau.transforms.duals import DualLevel
from flambeau.transforms.handling import ROW_RULES, UNWRAPPED, rule
from flambeau.transforms.levels import Wrapped, below, is_at, running

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
_FACTORIES = "rand randn randint randperm normal".split()
_LIKE = "rand_like randn_like randint_like".split()
_IN_PLACE = (
    "uniform_ normal_ log_normal_ cauchy_ exponential_ geometric_ random_ bernoulli_"
).split()
_ROWS = (
    "bernoulli poisson binomial _standard_gamma _sample_dirichlet multinomial native_dropout "
    "rrelu_with_noise"
).split()


def _batch_levels():
    return [level for level in running.levels if isinstance(level, BatchLevel)]


def _check(level: BatchLevel) -> None:
    if level.randomness == "error":
        raise RuntimeError(_ERROR)


def _drawn(place, function, args, kwargs):
    """A new tensor of random numbers: one for each sample of the levels that want different."""
    levels = [] if running.draws else _batch_levels()
    for level in levels:
        _check(level)
    several = [level for level in levels if level.randomness == "different"]
    if not several:
        return function(*args, **kwargs)
    return _for_levels(several, lambda: function(*args, **kwargs))


def _for_levels(levels: list[BatchLevel], draw: Any) -> Tensor:
    """Draw for each combination of samples of some levels, the lowest first."""
    level, *rest = levels
    parts = [_for_levels(rest, draw) if rest else draw() for _ in range(level.size)]
    return level.batched(public("stack")(parts))


def _drawn_at_once(place, function, args, kwargs):
    """The same for functions whose first arguments are sizes: all numbers in one call."""
    levels = _batch_levels()
    for level in levels:
        _check(level)
    several = [level for level in levels if level.randomness == "different"]
    sizes, rest = _sizes(place.key, args, kwargs)
    if not several:
        return function(*args, **kwargs)
    if sizes is None:
        return _for_levels(several, lambda: function(*args, **kwargs))
    args, kwargs = rest
    found = function(*args, size=(*[level.size for level in several], *sizes), **kwargs)
    for level in several:
        found = level.batched(found)
    return found


def _sizes(key, args, kwargs):
    """(sizes, the other arguments) of a call; (None, ...) where they do not say."""
    if key not in ("rand", "randn") or kwargs.get("out") is not None:
        return None, (args, kwargs)
    named = dict(kwargs)
    if "size" in named:
        return tuple(named.pop("size")), (args, named)
    if len(args) == 1 and isinstance(args[0], (tuple, list)):
        return tuple(args[0]), ((), named)
    return tuple(args), ((), named)


UNWRAPPED.update(dict.fromkeys(_FACTORIES, _drawn_at_once))
UNWRAPPED.update(dict.fromkeys([*_LIKE, "bernoulli", "poisson", "multinomial"], _drawn))


def _dropped(place, function, args, kwargs):
    """Dropout of a tensor that is the same for all samples."""
    train = args[2] if len(args) > 2 else kwargs.get("train", True)
    p = args[1] if len(args) > 1 else kwargs.get("p", 0.5)
    return _drawn(place, function, args, kwargs) if train and p else function(*args, **kwargs)


UNWRAPPED.update(
    dict.fromkeys("dropout feature_dropout alpha_dropout feature_alpha_dropout".split(), _dropped)
)


def _filled(place, function, args, kwargs):
    """Random numbers written into a tensor that is the same for all samples."""
    for level in _batch_levels():
        _check(level)
        if level.randomness == "different":
            raise RuntimeError(_UNBATCHED)
    return function(*args, **kwargs)


UNWRAPPED.update(dict.fromkeys(_IN_PLACE, _filled))


@rule(*_LIKE)
def _like(level, place, args, kwargs):
    t, *rest = args
    kwargs.pop("memory_format", None)

    def draw(value):
        run = place.function() if type(value) is Wrapped else place.copy
        return run(value, *rest, **kwargs)

    if not isinstance(level, BatchLevel):
        return draw(level.plain(t))
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
    value = level.plain(t)
    plain = [level.plain(a) for a in rest]

    def fill(target):
        run = place.function() if type(target) is Wrapped else place.copy
        return run(target, *plain, **kwargs)

    with below(level):
        if level.is_batched(t) and level.randomness == "same":
            one = fill(value[0].clone())
            value.copy_(one.expand(value.shape))
        elif not level.is_batched(t) and level.randomness == "different":
            raise RuntimeError(_UNBATCHED)
        else:
            fill(value)
    return t


@rule("normal")
def _around(level, place, args, kwargs):
    """Numbers around tensors of a level, with whose parameters they do not move."""
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
        wrapped = any(type(v) is Wrapped for v in values.values())
        out = (place.function() if wrapped else place.copy)(**given | values)
        if isinstance(level, BatchLevel):
            return level.batched(out)
        if isinstance(level, DualLevel):
            return level.dual(out, creation.zeros_like(out.detach()))
        return level.lift(out)


def _row(level, op, bound):
    """Rows that draw as they compute."""
    if bound.get("train", bound.get("training", True)) is False:
        return NotImplemented
    _check(level)
    first = op.params[0].name
    if level.randomness == "same":
        if op.name != "native_dropout":
            raise RuntimeError(_SAME)
        return _same_for_all(level, op, bound)
    new = {
        n: level.front(v)
        for n, v in bound.items()
        if isinstance(v, Tensor) and (n == first or is_at(v, level))
    }
    running.draws = True  # for all samples at once: nobody need draw once more
    try:
        return changed(op, level, bound, **new)
    finally:
        running.draws = False


def _same_for_all(level, op, bound):
    """Dropout of each sample by the same mask."""
    value, p = level.front(bound["input"]), bound["p"]
    mask = creation.empty_like(value[0].detach()).bernoulli_(1 - p) != 0
    return value * (mask / (1 - p)), mask.expand(value.shape)


TEMPLATES.update(dict.fromkeys(_ROWS, _row))


# -- rows that write their history themselves, which wrapped tensors would not have ----------------


def _noise(input, p, by_channel):
    """1 / (1 - p) or 0, for each element or channel."""
    shape = (*input.shape[:2], *[1] * (input.ndim - 2)) if by_channel else tuple(input.shape)
    return input.detach().new_empty(shape).bernoulli_(1 - p)


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
    noise = input.detach().new_empty(tuple(input.shape))
    if bound["training"]:
        noise.uniform_(bound["lower"], bound["upper"])
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
