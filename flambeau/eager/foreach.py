"""`torch._foreach_add_(tensors, ...)` and its kin: one op over a list of tensors.

Optimizers of other packages are written with these. Each is the method of the same name, called
once per tensor; arguments that are lists are walked alongside. Our own optimizers go another way
(`updating.py`): one native call for all tensors and the whole rule.
"""

from flambeau._tensor import Tensor
from flambeau.eager import methods
from flambeau.eager.arguments import argument
from flambeau.eager.signatures import described
from flambeau.interposing import offer
from flambeau.ops.table import REQUIRED, TABLE

PREFIX = "_foreach_"
# these take numbers as well as tensors, which the plain ops do not
_ALSO_NUMBERS = {"maximum": "clamp_min", "minimum": "clamp_max"}
_KEYWORDS = ("alpha", "value", "non_blocking")


def function(name):
    """The function of a name that begins with `_foreach_`, or None."""
    method = name.removeprefix(PREFIX)
    if method == "norm":
        return norm
    base = method.removesuffix("_")
    method = _ALSO_NUMBERS.get(base, base) + method[len(base) :]
    if not hasattr(Tensor, method):
        return None
    return _over_lists(name, getattr(Tensor, method), base.startswith("addc"))


def norm(self, ord=2, dtype=None):
    """The norm of each tensor."""
    argument("_foreach_norm", "ord", 2, "Scalar", ord)
    if not self:
        raise RuntimeError("Tensor list must have at least one tensor.")
    vector_norm = methods.function("linalg_vector_norm")
    return tuple(vector_norm(t, ord, dtype=dtype) for t in self)


def _over_lists(name, method, three):
    """A function over lists. `three`: tensors, tensors and a value by position or by name."""

    least, most = _wanted(name, three)

    def foreach(self, *others, **named):
        given = len(others) + len(named.keys() - set(_KEYWORDS))
        if not most and given:
            raise TypeError(f"{name}() takes 1 positional argument but {1 + given} were given")
        if not least <= given <= most:
            raise TypeError(
                f"{name}() received an invalid combination of arguments - got "
                f"{described((self, *others), named)}"
            )
        if name == "_foreach_copy_":
            argument(name, "src", 2, "Tensors", others[0] if others else named["src"])
        count = len(self)
        if not count:
            raise RuntimeError("Tensor list must have at least one tensor.")
        keywords = {key: named.pop(key) for key in _KEYWORDS if key in named}
        others += tuple(named.values())
        if three and len(others) == 3:
            keywords["value"] = others[2]
            others = others[:2]
        if isinstance(keywords.get("value"), Tensor):
            keywords["value"] = keywords["value"].tolist()
        columns = [_column(other, count) for other in others]
        named_columns = {key: _column(value, count) for key, value in keywords.items()}
        return tuple(
            method(
                tensor,
                *[column[place] for column in columns],
                **{key: column[place] for key, column in named_columns.items()},
            )
            for place, tensor in enumerate(self)
        )

    foreach.__name__ = foreach.__qualname__ = name
    offer(foreach, "aten::" + name)
    return foreach


def _wanted(name, three):
    """(least, most): how many arguments a function takes besides its list and keywords."""
    base = name.removeprefix(PREFIX).removesuffix("_")
    if base in ("copy", *_ALSO_NUMBERS):
        return 1, 1
    row = TABLE.get(base)
    if base == "zero":
        return 0, 0
    if row is None:
        return 0, 9
    plain = [p for p in row.params[1:] if not p.keyword_only]
    return sum(p.default is REQUIRED for p in plain), len(plain) + three


def _column(value, count):
    """One value per tensor."""
    if not isinstance(value, (list, tuple)):
        return [value] * count
    if len(value) != count:
        raise RuntimeError(
            f"Tensor lists must have the same number of tensors, got {count} and {len(value)}"
        )
    return value
