"""What may stand for a parameter, as PyTorch's argument parser sees it, and how it says no.

Words for parameters: Tensor, Tensors, indices (tensors and None), int, start (an int, in a 0-d
tensor as well), ints (one or several),
int list (several), sizes (as ints, some of them None), ints or str, bool, float, Scalar, str,
dtype, device, memory_format, layout. A bool is no int here and an int no bool, though Python thinks
otherwise.
"""

import operator

from flambeau._device import device as Device
from flambeau._dtype import dtype as DType
from flambeau._dtype import meant
from flambeau._memory_format import layout, memory_format
from flambeau._tensor import Tensor
from flambeau.errors import kind_name

NAMES = {
    "Scalar": "Number",
    "start": "int",
    "ints": "tuple of ints",
    "int list": "tuple of ints",
    "sizes": "tuple of ints",
    "ints or str": "tuple of ints",
    "dtype": "torch.dtype",
    "device": "torch.device",
    "memory_format": "torch.memory_format",
    "layout": "torch.layout",
    "Tensors": "tuple of Tensors",
    "Scalars": "tuple of Scalars",
    "indices": "tuple of Tensors",
}
_CLASSES = {"device": (Device, str, int), "memory_format": memory_format, "layout": layout}
_LONG = range(-(1 << 63), 1 << 63)
_LISTS = ("ints", "int list", "sizes", "ints or str")


def is_int(value):
    if type(value) is int:
        return True
    if isinstance(value, (bool, float, str)) or value is None:
        return False
    if isinstance(value, Tensor):
        return value._layout.numel == 1 and value.dtype.category < 2 and value.dtype.category > 0
    return hasattr(value, "__index__") and not hasattr(value, "__len__")


def _is_number(value):
    if isinstance(value, Tensor):
        return value._layout.ndim == 0 and not value._requires_grad
    return isinstance(value, (bool, int, float, complex)) or (
        hasattr(value, "item") and getattr(value, "shape", None) == ()
    )


def fits(word, value):
    """May this value stand for a parameter of that kind?"""
    if word == "Tensor":
        return isinstance(value, Tensor)
    if word == "ints or str":
        return isinstance(value, str) or fits("ints", value)
    if word == "int":
        return is_int(value)
    if word == "start":
        return isinstance(value, Tensor) or is_int(value)
    if word in _LISTS:
        if isinstance(value, (tuple, list)):
            if word == "sizes":
                value = [v for v in value if v is not None]
            return not value or is_int(value[0])  # the others are looked at as they are unpacked
        return word != "int list" and is_int(value)
    if word == "bool":
        return isinstance(value, bool)
    if word in ("Scalar", "float"):
        return _is_number(value) and (word == "Scalar" or not isinstance(value, complex))
    if word == "dtype":
        return meant(value) is not None
    if word in _CLASSES:
        return isinstance(value, _CLASSES[word])
    if word == "str":
        return isinstance(value, str)
    if word == "Scalars":
        return isinstance(value, (tuple, list)) and all(_is_number(v) for v in value)
    wanted = (Tensor, type(None)) if word == "indices" else Tensor
    return isinstance(value, (tuple, list)) and all(isinstance(v, wanted) for v in value)


def taken(function, name, word, value):
    """A value that fits as rows want it: ints as ints, lists as tuples, 0-d tensors as numbers."""
    if value is None:
        return None
    if word == "ints or str":
        return value if isinstance(value, str) else taken(function, name, "ints", value)
    if word == "start" and isinstance(value, Tensor) and (value._layout.ndim or not is_int(value)):
        raise RuntimeError(f"{name} must be an 0-dim integral Tensor.")
    if word in ("int", "start") or (word in _LISTS and not isinstance(value, (tuple, list))):
        return _long(operator.index(value))
    if word in _LISTS:
        return tuple(
            [
                None if v is None and word == "sizes" else _element(function, name, k, v)
                for k, v in enumerate(value)
            ]
        )
    if word == "indices":
        return tuple(value)
    if word == "dtype":
        return meant(value)
    if word in ("Scalar", "float"):
        return number(value.item() if hasattr(value, "item") else value)
    return value


def number(value):
    """A number; integers that no C type of 64 bits can hold are none."""
    if type(value) is int and not -(1 << 63) <= value < 1 << 64:
        raise OverflowError(
            "int too big to convert" if value > 0 else "can't convert negative int to unsigned"
        )
    return value


def _long(value):
    """Integers of PyTorch have 64 bits."""
    if value not in _LONG:
        raise ValueError("Overflow when unpacking long long")
    return value


def _element(function, name, k, value):
    """An element of a list of ints; a bool will do, except as the first."""
    try:
        if not is_int(value) and type(value) is not bool:
            raise TypeError(f"type must be tuple of ints,but got {kind_name(value)}")
        return _long(operator.index(value))
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{function}(): argument '{name}' failed to unpack the object at pos {k + 1} with "
            f'error "{error}"'
        ) from None


def argument(function, name, position, word, value):
    """The value of a parameter as rows want it, or PyTorch's complaint."""
    if not fits(word, value):
        raise TypeError(wrong(function, name, position, word, value))
    return taken(function, name, word, value)


def asked_tensor(function, input):
    return argument(function, "input", 1, "Tensor", input)


def wrong(function, name, position, word, value):
    """The complaint about a value that does not fit."""
    where = f" (position {position})" if position else ""
    wanted = NAMES.get(word, word)
    if word in _LISTS and isinstance(value, (tuple, list)):
        return (
            f"{function}(): argument '{name}'{where} must be {wanted}, but found element of type "
            f"{type_name(value[0])} at pos 0"
        )
    if word == "indices" and isinstance(value, (tuple, list)):
        k = next(k for k, v in enumerate(value) if not fits(word, (v,)))
        found = kind_name(value[k])
        return f"expected Tensor as element {k} in argument {position - 1}, but got {found}"
    return f"{function}(): argument '{name}'{where} must be {wanted}, not {type_name(value)}"


def type_name(value):
    if type(value) is Tensor:
        return "Tensor"
    named = isinstance(value, (DType, Device, memory_format, layout))
    return f"torch.{type(value).__name__}" if named else kind_name(value)
