"""`torch.utils.swap_tensors`: two tensors exchange what they are, and stay the same objects."""

from typing import Any

from flambeau._tensor import Tensor

_KEPT = frozenset({"__weakref__", "__dict__"})


def _fields(kind: type) -> list[str]:
    found: list[str] = []
    for base in kind.__mro__:
        slots: Any = vars(base).get("__slots__", ())
        found += [slots] if isinstance(slots, str) else slots
    return [name for name in found if name not in _KEPT]


def swap_tensors(t1: Tensor, t2: Tensor) -> None:
    """Exchange the contents, classes and attributes of two tensors."""
    fields = _fields(type(t1))
    if fields != _fields(type(t2)):
        raise RuntimeError("Cannot swap t1 and t2 if they have different slots")
    values: Any = [{n: getattr(t, n) for n in fields if hasattr(t, n)} for t in (t1, t2)]
    for t, old, new in ((t1, values[0], values[1]), (t2, values[1], values[0])):
        for name in fields:
            if name in new:
                setattr(t, name, new[name])
            elif name in old:
                delattr(t, name)
    kinds = type(t1), type(t2)
    if kinds[0] is not kinds[1]:
        t1.__class__, t2.__class__ = kinds[1], kinds[0]
    if hasattr(t1, "__dict__") and hasattr(t2, "__dict__"):
        t1.__dict__, t2.__dict__ = t2.__dict__, t1.__dict__
