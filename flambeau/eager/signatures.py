"""Overloads as PyTorch's argument parser sees them: which one a call means, or what is wrong.

A row lists its overloads as text: `"Tensor input, ints dim, bool keepdim=False, *, dtype
dtype=None"`. The first one that fits wins; if none does, the complaint is PyTorch's: about one
argument if only one overload has the right number of them, else about the combination. This is a
slow path: callers remember what it found, or come here only after something failed.
"""

from typing import Any, NamedTuple

from flambeau._tensor import Tensor
from flambeau.eager.arguments import NAMES, fits, taken, type_name, wrong
from flambeau.eager.launching import FRONTS
from flambeau.interposing.overriding import notice
from flambeau.ops.table import public

# NumPy's spellings
_ALIASES = {"dim": ("axis",), "keepdim": ("keepdims",), "input": ("x", "a", "x1"), "other": ("x2",)}


class Parameter(NamedTuple):
    """One parameter of an overload; kind is Tensor, Tensors, int, ints, bool, float, Scalar..."""

    name: str
    kind: str
    optional: bool  # may be None
    default: Any
    required: bool
    keyword_only: bool


class Signature(NamedTuple):
    parameters: tuple
    positional: int
    least: int
    most: int


def read(text):
    """A Signature from its text; `int? dim` may be None."""
    found, starred = [], False
    for piece in text.split(", "):
        if piece == "*":
            starred = True
            continue
        left, equals, default = piece.partition("=")
        kind, name = left.split(" ")
        optional = kind.endswith("?")
        value = eval(default, {}) if equals else None
        found.append(
            Parameter(
                name,
                kind.rstrip("?"),
                optional or (bool(equals) and value is None),
                value,
                not equals,
                starred,
            )
        )
    positional = sum(not p.keyword_only for p in found)
    return Signature(tuple(found), positional, sum(p.required for p in found), len(found))


class Overloads:
    """All overloads of one function."""

    def __init__(self, name, texts):
        self.name, self.texts = name, texts
        self.signatures = [read(t) for t in texts]

    def choose(self, args, kwargs):
        """(number of the overload, arguments by name)."""
        for k, signature in enumerate(self.signatures):
            bound = self._match(signature, args, kwargs, len(self.signatures) == 1)
            if bound is not None:
                return k, bound
        given = len(args) + len(kwargs)
        likely = [s for s in self.signatures if s.least <= given <= s.most]
        if len(likely) == 1:
            self._match(likely[0], args, kwargs, True)
        raise TypeError(
            f"{self.name}() received an invalid combination of arguments - got "
            f"{described(args, kwargs)}, "
            "but expected one of:\n" + "".join(f" * ({_shown(t)})\n" for t in self.texts)
        )

    def _match(self, signature, args, kwargs, complain):
        if len(args) > signature.positional:
            if complain:
                raise TypeError(_too_many(self.name, signature, len(args)))
            return None
        bound, used, given = {}, 0, []
        for k, p in enumerate(signature.parameters):
            if k < len(args):
                value, position = args[k], k + 1
            else:
                spelled = next((name for name in _spellings(p.name) if name in kwargs), None)
                position = 0
                if spelled is not None:
                    value = kwargs[spelled]
                    used += 1
                elif p.required:
                    if complain:
                        raise TypeError(_missing(self.name, signature, len(args), kwargs))
                    return None
                else:
                    bound[p.name] = p.default
                    continue
            if not (value is None and p.optional) and not fits(p.kind, value):
                if complain:
                    raise TypeError(wrong(self.name, p.name, position, p.kind, value))
                return None
            bound[p.name] = value
            given.append(p)
        if used < len(kwargs):
            if complain:
                raise TypeError(_leftover(self.name, signature, len(args), kwargs))
            return None
        for p in given:  # numbers that are too large are found after wrong types
            bound[p.name] = taken(self.name, p.name, p.kind, bound[p.name])
        return bound


def _spellings(name):
    """What a caller may write for a parameter."""
    return (name, *_ALIASES.get(name, ()))


def _too_many(name, signature, given):
    if signature.least != signature.positional:
        return (
            f"{name}() takes from {signature.least} to {signature.positional} positional arguments "
            f"but {given} were given"
        )
    s = "" if signature.positional == 1 else "s"
    were = "was" if given == 1 else "were"
    return f"{name}() takes {signature.positional} positional argument{s} but {given} {were} given"


def _missing(name, signature, given, kwargs):
    missing = [
        p.name
        for p in signature.parameters[given:]
        if p.required and kwargs.keys().isdisjoint(_spellings(p.name))
    ]
    s = "s" if len(missing) == 1 else ""  # PyTorch's own plural
    return f"{name}() missing {len(missing)} required positional argument{s}: " + ", ".join(
        f'"{n}"' for n in missing
    )


def _leftover(name, signature, given, kwargs):
    names = [p.name for p in signature.parameters]
    for k in kwargs:
        target = next((n for n in names if k in _spellings(n)), None)
        if target is None:
            return f"{name}() got an unexpected keyword argument '{k}'"
        if names.index(target) < given:
            return f"{name}() got multiple values for argument '{k}'"
    return f"{name}() got an unexpected keyword argument '{next(iter(kwargs))}'"


def described(args, kwargs):
    parts = [type_name(a) for a in args] + [f"{k}={type_name(v)}" for k, v in kwargs.items()]
    return f"({', '.join(parts)}{'' if args or not kwargs else ', '})"


def _shown(text):
    return ", ".join(
        NAMES.get(p.rstrip("?"), p) if p == "*" else _piece(p) for p in text.split(", ")
    )


def _piece(piece):
    left, equals, default = piece.partition("=")
    kind, name = left.split(" ")
    return f"{NAMES.get(kind.rstrip('?'), kind.rstrip('?'))} {name}" + (
        f" = {default}" if equals else ""
    )


# Types that fit or do not fit a parameter whatever their value.
_SETTLED = frozenset((Tensor, int, bool, float, type(None)))


def overloaded(op, general):
    """The public function of a row with overloads: its `choose` runs the one that fits.

    Which one fits is remembered by the types of the arguments, where types settle it.
    """
    overloads, choose = Overloads(op.name, op.options["signatures"]), op.options["choose"]
    known: dict = {}

    def function(*args, **kwargs):
        if not kwargs:
            key = tuple(map(type, args))
            found = known.get(key)
            if found is None:
                return slow(key, args)
            return choose(found[0], None, args + found[3])
        key = (*map(type, args), *kwargs, *map(type, kwargs.values()))
        found = known.get(key)
        if found is None:
            return slow(key, args, **kwargs)
        overload, defaults, places, _ = found
        values = [*args, *defaults[len(args) :]]
        for name, value in kwargs.items():
            values[places[name]] = value
        return choose(overload, None, tuple(values))

    def slow(key, args, /, **kwargs):
        if any(notice(type(v)) for v in (*args, *kwargs.values())):
            return public(op.name)(*args, **kwargs)
        if kwargs and kwargs.get("out", 0) is None:
            kwargs = {k: v for k, v in kwargs.items() if k != "out"}
        overload, bound = overloads.choose(args, kwargs)
        out = bound.pop("out", None)
        kept = {id(v) for v in bound.values()}  # a 0-d tensor may have become a number
        plain = _SETTLED.issuperset(map(type, bound.values())) and "out" not in key
        if plain and kept.issuperset(map(id, (*args, *kwargs.values()))):
            known[key] = remembered(overload, len(args), kwargs)
        return choose(overload, out, tuple(bound.values()))

    def remembered(overload, given, kwargs):
        parameters = [p for p in overloads.signatures[overload].parameters if p.name != "out"]
        names = [p.name for p in parameters]
        places = {k: next(n for n, x in enumerate(names) if k in _spellings(x)) for k in kwargs}
        defaults = [p.default for p in parameters]
        return overload, defaults, places, tuple(defaults[given:])

    return function


FRONTS["overloads"] = overloaded
