"""How plain functions become methods and properties of Tensor.

Files of this package decorate functions with `method` and `prop`; `attach_methods` puts them on the
class. Names that Python reserves are written with a trailing underscore.
"""

from types import FunctionType

from flambeau._tensor import Tensor

METHODS: dict = {}
PROPERTIES: dict = {}
_RESERVED = ("type_",)


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
