"""`torch._foreach_add_(tensors, ...)` and its kin: one op over a list of tensors.

Optimizers of other packages are written with these. Each is the method of the same name, called
once per tensor; arguments that are lists are walked alongside. In place, the list itself comes
back. Our own optimizers go another way (`updating.py`): one native call for all tensors and the
whole rule.
"""

from flambeau._tensor import Tensor
from flambeau.eager import methods
from flambeau.eager.signatures import Overloads
from flambeau.interposing import offer

PREFIX = "_foreach_"
# these take numbers as well as tensors, which the plain ops do not
_ALSO_NUMBERS = {"maximum": "clamp_min", "minimum": "clamp_max"}
_NUMBERS = (
    "Tensors self, Scalar scalar",
    "Tensors self, Tensors other",
    "Tensors self, Scalars scalars",
)
_TENSOR = "Tensors self, Tensor other"
_LISTS = "Tensors self, Tensors other, *, Scalar alpha=1"
_THREE = "Tensors self, Tensors tensor1, Tensors tensor2, "
_PRODUCTS = (_THREE + "Scalar value=1", _THREE + "Scalars scalars", _THREE + "Tensor scalars")
_NORM = ("Tensors self, Scalar ord=2, dtype? dtype=None",)
_LERP = "Tensors self, Tensors tensors1, "
# name -> overloads, where they are more than the list
_SIGNATURES = {
    "add": (_NUMBERS[0], _LISTS, _NUMBERS[2], _TENSOR + ", *, Scalar alpha=1"),
    "sub": (_NUMBERS[0], _LISTS, _NUMBERS[2]),
    "mul": (*_NUMBERS, _TENSOR),
    "div": (*_NUMBERS, _TENSOR),
    "clamp_min": _NUMBERS,
    "clamp_max": _NUMBERS,
    "maximum": _NUMBERS,
    "minimum": _NUMBERS,
    "pow": (
        "Tensors self, Tensors exponent",
        "Tensors self, Scalar exponent",
        "Tensors self, Scalars exponent",
        "Scalar self, Tensors exponent",
    ),
    "lerp": (_LERP + "Tensors weights", _LERP + "Scalar weight", _LERP + "Scalars weight"),
    "addcmul": _PRODUCTS,
    "addcdiv": _PRODUCTS,
    "copy": ("Tensors self, Tensors src, bool non_blocking=False",),
    "mm": ("Tensors self, Tensors mat2",),
    "clone": ("Tensors self, *, memory_format? memory_format=None",),
    "norm": _NORM,
    "powsum": _NORM,
}
_ALONE = ("Tensors self",)
# two lists of tensors and no more: the usual call, which needs no choice of an overload
_PAIRS = {"add", "sub", "mul", "div", "clamp_min", "clamp_max", "maximum", "minimum", "pow", "copy"}
_SEQUENCES = {list, tuple}
# arguments that go on by name
_NAMED = ("alpha", "value", "non_blocking", "memory_format", "ord", "dtype")


def _norm(tensor, ord, dtype):
    return methods.function("linalg_vector_norm")(tensor, ord, dtype=dtype)


def _powsum(tensor, ord, dtype):
    return tensor.to(tensor.dtype if dtype is None else dtype).abs().pow(ord).sum()


def _max(tensor):
    if not tensor._layout.numel:
        raise RuntimeError(
            "_foreach_max cannot compute the maximum of an empty tensor; max over zero elements is "
            "undefined."
        )
    return tensor.max()


_OWN = {"norm": _norm, "powsum": _powsum, "max": _max}


def function(name):
    """The function of a name that begins with `_foreach_`, or None."""
    method = name.removeprefix(PREFIX)
    base = method.removesuffix("_")
    method = _ALSO_NUMBERS.get(base, base) + method[len(base) :]
    if base in _OWN and base == method:
        return _over_lists(name, base, _OWN[base])
    if (base in ("copy", "zero") and base == method) or not hasattr(Tensor, method):
        return None
    return _over_lists(name, base, getattr(Tensor, method))


def _over_lists(name, base, method):
    """A function over lists."""
    overloads = Overloads(name, _SIGNATURES.get(base, _ALONE))
    in_place = name.endswith("_")
    pairs = base in _PAIRS

    def foreach(*args, **kwargs):
        if pairs and len(args) == 2 and not kwargs:
            tensors, others = args
            if (
                set(map(type, args)) <= _SEQUENCES
                and len(tensors) == len(others)
                and {Tensor} == set(map(type, tensors)) == set(map(type, others))
            ):
                found = tuple(map(method, tensors, others))
                return tensors if in_place else found
        _, bound = overloads.choose(args, kwargs)
        lists = [value for value in bound.values() if type(value) in (list, tuple)]
        count = len(lists[0])
        if not count:
            raise RuntimeError("Tensor list must have at least one tensor.")
        columns, named = [], {}
        for key, value in bound.items():
            if key == "scalars" and isinstance(value, Tensor):
                value = _unpacked(value, count)
            if key == "other" and isinstance(value, Tensor) and value.ndim:
                raise RuntimeError(
                    f"scalar tensor expected to be 0 dim but it has {value.ndim} dimensions and "
                    f"{value.numel()} elements."
                )
            if key == "scalars" and base.startswith("addc"):
                key = "value"
            if key in ("alpha", "value") and type(value) is int and value == 1:
                continue  # what the op has anyway
            if key in _NAMED:
                named[key] = _column(value, count)
            else:
                columns.append(_column(value, count))
        found = [
            method(*row, **{key: column[place] for key, column in named.items()})
            for place, row in enumerate(zip(*columns))
        ]
        return bound["self"] if in_place else tuple(found)

    foreach.__name__ = foreach.__qualname__ = name
    offer(foreach, "aten::" + name)
    return foreach


def _unpacked(scalars, count):
    """The numbers in a tensor of one per tensor."""
    if scalars.ndim != 1:
        raise RuntimeError(
            f"Expected packed scalar Tensor to be of dimension 1. Got {scalars.ndim} instead."
        )
    if not scalars.is_contiguous():
        raise RuntimeError("Expected scalars to be contiguous.")
    if len(scalars) != count:
        raise RuntimeError(
            f"Expected length of scalars to match input of length {count} but got {len(scalars)} "
            "instead."
        )
    return scalars.tolist()


def _column(value, count):
    """One value per tensor."""
    if not isinstance(value, (list, tuple)):
        return [value] * count
    if len(value) != count:
        if value and isinstance(value[0], Tensor):
            raise RuntimeError(
                f"Tensor lists must have the same number of tensors, got {count} and {len(value)}"
            )
        raise RuntimeError("Tensor list must have same number of elements as scalar list.")
    return value
