"""How plain functions become methods and properties of Tensor.

Files of this package decorate functions with `method` and `prop`; `attach_methods` puts them on the
class. Names that Python reserves are written with a trailing underscore. Some are answered by
native code as soon as there is some (runtime/descriptors.py).
"""

from types import FunctionType

from flambeau._tensor import Tensor
from flambeau.storage import Storage

METHODS: dict = {}
PROPERTIES: dict = {}
_RESERVED = ("type_",)
NATIVE: set = set()  # types of members that native code answers
_attached: dict = {}  # what Tensor and Storage had when flambeau was loaded


def method(f):
    """Make f a method of Tensor."""
    METHODS[f.__name__.rstrip("_") if f.__name__ in _RESERVED else f.__name__] = f
    return f


def prop(f):
    """Make f a read-only property of Tensor."""
    PROPERTIES[f.__name__] = property(f)
    return f


def attach_methods():
    for name, f in METHODS.items():
        setattr(Tensor, name, f)
        if isinstance(f, FunctionType):
            f.__name__ = name  # __torch_function__ asks for it
    for name, p in PROPERTIES.items():
        setattr(Tensor, name, p)
    for cls in (Tensor, Storage):
        _attached[cls] = dict(cls.__dict__)


def own_members(cls, name):
    """(name, member) of what is still ours under a name, and of its other names."""
    ours = _attached[cls].get(name)
    return [pair for pair in list(cls.__dict__.items()) if ours is not None and pair[1] is ours]


def shown(member):
    """What is in the dictionary of a class, as whoever asks the class is shown it."""
    return member.__get__(None, Tensor) if type(member) in NATIVE else member


def member_of(name):
    """A member of Tensor, or None; one that is not built yet stays so."""
    return shown(Tensor.__dict__.get(name))
