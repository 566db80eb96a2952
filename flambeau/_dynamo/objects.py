"""Reading objects: values from outside under guards, attributes, items, what can be iterated."""

import enum
import functools
import inspect
import operator
import types
from collections import OrderedDict, deque
from collections.abc import Iterator
from typing import Any

from flambeau import _device, _dtype
from flambeau._dynamo import walking
from flambeau._dynamo.exc import Break
from flambeau._dynamo.steps import ParametersOf, is_optimizer
from flambeau._dynamo.values import (
    BoundMethod,
    MadeFunction,
    MadeObject,
    Outside,
    Partial,
    Super,
    Symbolic,
    TensorValue,
    is_named_tuple,
)
from flambeau._dynamo.varying import NumberValue
from flambeau._layout import Size
from flambeau._memory_format import layout, memory_format
from flambeau._tensor import Tensor
from flambeau._tensor.attachment import shown
from flambeau.aten.overloads import OpNamespace, OpOverload, OpOverloadPacket
from flambeau.library import CustomOpDef
from flambeau.nn.modules.module import Module
from flambeau.nn.modules.registry import Registry, _Held, buffer_hooks, parameter_hooks

# torch.ops.space.name.overload, from the space on
OPS: tuple[type, ...] = (OpNamespace, OpOverloadPacket, OpOverload, CustomOpDef)
# equal ones of these are the same
VALUES: tuple[type, ...] = (
    int, float, str, bytes, complex, Size, range, _device.device, _dtype.finfo, _dtype.iinfo,
)  # fmt: skip
# there is one of each
SINGLE: tuple[type, ...] = (
    bool, type(None), type(...), type(NotImplemented), _dtype.dtype, memory_format, layout, *OPS,
)  # fmt: skip
# these do not change, whatever they hold elsewhere
FUNCTIONS: tuple[type, ...] = (
    types.FunctionType, types.BuiltinFunctionType, types.ModuleType, types.MethodDescriptorType,
    types.WrapperDescriptorType, types.MethodWrapperType, types.GetSetDescriptorType, property,
    staticmethod, classmethod, types.ClassMethodDescriptorType, types.MemberDescriptorType,
)  # fmt: skip
CONTAINERS: tuple[type, ...] = (list, dict, tuple, set, frozenset, OrderedDict, deque)
_PLAIN = frozenset({*VALUES, *SINGLE, *CONTAINERS, slice})
_VIEWS: tuple[type, ...] = (type({}.keys()), type({}.values()), type({}.items()))
_READING = {
    list: frozenset("index count copy __len__ __getitem__ __contains__ __iter__".split()),
    dict: frozenset("get keys values items copy __len__ __getitem__ __contains__".split()),
}
_OWN_WAYS = frozenset("__eq__ __ne__ __hash__ __bool__ __str__ __repr__ __format__".split())
_FACTS = frozenset("__name__ __qualname__ __module__ __doc__ __class__".split())


class Objects:
    """The part of the reader that looks into objects."""

    # -- values from outside ---------------------------------------------------------------------
    def wrap(self: Any, value: Any, source: tuple) -> Any:
        """A value from outside as the program sees it, with guards."""
        kind = type(value)
        guards = self.guards
        if isinstance(value, Tensor):
            return self.tensor_input(value, source)
        if kind in SINGLE or isinstance(value, (type, enum.Enum)) or kind in FUNCTIONS:
            guards.same_object(source, value)
            return value
        if kind in (int, float) and self.sizes.is_moving(source, value):
            return self.number_input(value, source)
        if kind in VALUES:
            guards.same_value(source, value)
            return value
        if kind is types.MethodType:
            guards.same_type(source, value)
            owner = self.wrap(value.__self__, ("attr", source, "__self__"))
            return BoundMethod(owner, self.wrap(value.__func__, ("attr", source, "__func__")))
        if kind is functools.partial:
            return self._partial(value, source)
        if isinstance(value, tuple):
            return self._tuple(value, source)
        found = self.outside.get(source)
        if found is None:
            guards.same_type(source, value)
            found = self.outside[source] = Outside(value, source)
        return found

    def _partial(self, value, source):
        self.guards.same_type(source, value)
        if value.__dict__:
            raise Break("a partial with attributes")
        function = self.wrap(value.func, ("attr", source, "func"))
        args = self.wrap(value.args, ("attr", source, "args"))
        keywords = Outside(value.keywords, ("attr", source, "keywords"))
        return Partial(function, args, dict(self.mapping(keywords)))

    def _tuple(self, value, source):
        if type(value) is not tuple and not is_named_tuple(type(value)):
            raise Break(f"a tuple of the kind {type(value)}")
        found = self.opened_by_source.get(source)
        if found is None:
            self.guards.same_length(source, value)
            items = [self.wrap(v, ("item", source, k)) for k, v in enumerate(value)]
            found = tuple.__new__(type(value), items)
            self._open(source, found)
        return found

    def _open(self, source, found):
        self.opened_by_source[source] = found
        self.origins[id(found)] = (found, source)

    def origin(self: Any, value: Any) -> tuple | None:
        """Where a list, a dictionary or a tuple comes from, if it is one from outside."""
        found = self.origins.get(id(value))
        return None if found is None else found[1]

    def opened(self: Any, value: Any) -> Any:
        """A list or a set from outside with its items as the program sees them; others as is."""
        if not isinstance(value, Outside):
            return value
        obj, source = value.obj, value.source
        found = self.opened_by_source.get(source)
        if found is not None:
            return found
        if type(obj) in (list, deque):
            self.guards.same_length(source, obj)
            found = type(obj)([self.wrap(v, ("item", source, k)) for k, v in enumerate(obj)])
        elif type(obj) in (set, frozenset) and all(type(v) in (str, int) for v in obj):
            held = frozenset(obj)
            self.guards.same_type(source, obj)
            name = self.guards.constant(held)
            self.guards.require(f"{self.guards.variable(source)} == {name}")
            found = type(obj)(obj)
        else:
            return value
        self._open(source, found)
        return found

    def mapping(self: Any, value: Any) -> dict:
        """A dictionary, also one from outside, with values as the program sees them."""
        if isinstance(value, Outside) and type(value.obj) in (dict, OrderedDict):
            found = self.opened_by_source.get(value.source)
            if found is None:
                obj, source = value.obj, value.source
                self.guards.same_keys(source, obj)
                found = type(obj)()
                for key, held in obj.items():
                    found[key] = self.wrap(held, ("item", source, key))
                self._open(source, found)
            return found
        if isinstance(value, dict):
            return value
        raise Break("** of something that is not a dictionary")

    # -- what is plain ---------------------------------------------------------------------------
    def is_plain(self: Any, value: Any, deep: bool = True) -> bool:
        """May Python's own functions be called on it? They run no code of the program."""
        kind: Any = type(value)
        if kind in CONTAINERS and deep:
            items = value.values() if isinstance(value, dict) else value
            return all(isinstance(v, Symbolic) or self.is_plain(v) for v in items)
        if kind in _PLAIN or kind in FUNCTIONS or isinstance(value, Symbolic):
            return True
        if isinstance(value, enum.Enum):
            return not _OWN_WAYS & set(vars(kind))
        if isinstance(value, tuple) and is_named_tuple(kind):
            return kind.__eq__ is tuple.__eq__
        if isinstance(value, type):
            return type(value) is type
        return kind in _VIEWS or isinstance(value, (slice, range)) or is_iterator(value)

    def native(self: Any, function: Any, *args: Any, **kwargs: Any) -> Any:
        """A call of Python's own; its errors are breaks."""
        for value in (*args, *kwargs.values()):
            if not self.is_plain(value):
                raise Break(f"{function.__name__} of an object of {type(value)}")
        try:
            return function(*args, **kwargs)
        except Break:
            raise
        except Exception as error:
            raise Break(f"{type(error).__name__}: {error}") from error

    # -- attributes ------------------------------------------------------------------------------
    def attribute(self: Any, owner: Any, name: str) -> Any:
        """owner.name."""
        if name[:2] == "__" and name[-2:] != "__":
            raise Break("a name that is private to a class")
        if isinstance(owner, TensorValue):
            return self.tensor_attribute(owner, name)
        if isinstance(owner, Outside):
            return self._outside_attribute(owner, name)
        if isinstance(owner, MadeObject):
            return self._made_attribute(owner, name)
        if isinstance(owner, Super):
            return self._super_attribute(owner, name)
        if isinstance(owner, Symbolic):
            if name == "__name__" and isinstance(owner, MadeFunction):
                return owner.name
            raise Break(f"the attribute {name} of {owner.describe()}")
        if isinstance(owner, types.ModuleType):
            return self._module_attribute(owner, name)
        if isinstance(owner, type):
            return self._class_attribute(owner, owner, name)
        if isinstance(owner, OPS):
            return self._op_attribute(owner, name)
        return self._plain_attribute(owner, name)

    def _op_attribute(self, owner, name):
        try:
            return getattr(owner, name)
        except AttributeError as error:
            raise Break(str(error)) from None

    def _plain_attribute(self, owner, name):
        if isinstance(owner, types.FunctionType) and name not in _FACTS:
            raise Break(f"the attribute {name} of a function")
        if isinstance(owner, enum.Enum) and name not in ("name", "value"):
            raise Break(f"the attribute {name} of an enum")
        if isinstance(owner, tuple) and type(owner) is not tuple:
            found = inspect.getattr_static(type(owner), name, None)
            if isinstance(found, types.FunctionType) and found.__code__.co_filename[0] != "<":
                if name not in ("_replace", "_asdict"):
                    return self._class_attribute(type(owner), owner, name)
            elif isinstance(found, property) and isinstance(found.fget, types.FunctionType):
                return self._class_attribute(type(owner), owner, name)
        if not self.is_plain(owner, deep=False):
            raise Break(f"the attribute {name} of an object of {type(owner)}")
        try:
            return getattr(owner, name)
        except AttributeError as error:
            raise Break(str(error)) from None

    def _module_attribute(self, module, name):
        try:
            value = getattr(module, name)
        except AttributeError as error:
            raise Break(str(error)) from None
        if name in vars(module):
            source = ("item", ("dict", self.guards.known(module)), name)
            return self.wrap(value, source)
        if isinstance(value, (types.ModuleType, types.FunctionType, type, *OPS)):
            return value  # made when asked for, always the same
        raise Break(f"the attribute {name} of a module, which is computed")

    def _class_attribute(self, cls, owner, name):
        """An attribute found on a class, for the class itself or for an instance of it."""
        found = shown(inspect.getattr_static(cls, name, None))
        if found is None and not hasattr(cls, name):
            raise Break(f"the class {cls.__name__} has no attribute {name}")
        source = ("attr", self.guards.known(cls), name)
        of_class = owner is cls
        if isinstance(found, classmethod):
            self.guards.same_object(("attr", source, "__func__"), found.__func__)
            return BoundMethod(cls, found.__func__)
        if isinstance(found, types.FunctionType):
            function = self.wrap(found, source)
            return function if of_class else BoundMethod(owner, function)
        if isinstance(found, staticmethod):
            return self.wrap(found.__func__, source)
        if not of_class and isinstance(found, property):
            self.guards.same_object(source, found)
            if found.fget is None:
                raise Break(f"the property {name} cannot be read")
            return self.call(found.fget, (owner,), {})
        if not of_class and isinstance(found, functools.cached_property):
            raise Break("a cached property that is not there yet")
        if isinstance(found, (types.BuiltinFunctionType, types.MethodDescriptorType,
                              types.WrapperDescriptorType)):  # fmt: skip
            return found if of_class else BoundMethod(owner, found)
        if hasattr(type(found), "__get__") and not isinstance(found, type):
            raise Break(f"the attribute {name}, which is computed")
        return self.wrap(getattr(cls, name), source)

    def _outside_attribute(self, owner, name):
        obj, source = owner.obj, owner.source
        cls = type(obj)
        if name == "__class__":
            return cls
        if cls in _READING or cls is OrderedDict:
            return self._container_method(owner, name)
        if cls.__getattribute__ is not object.__getattribute__:
            raise Break(f"{owner.describe()} has its own way to read attributes")
        if is_optimizer(obj) and name in ("step", "zero_grad"):
            return self.optimizer_method(owner, name)
        found = inspect.getattr_static(cls, name, None)
        if name == "__dict__":
            raise Break("the __dict__ of an object")
        if isinstance(found, property):
            return self._class_attribute(cls, owner, name)
        if isinstance(found, types.MemberDescriptorType):
            if not hasattr(obj, name):
                raise Break(f"{owner.describe()} has no attribute {name}")
            self.guards.same_object(("attr", self.guards.known(cls), name), found)
            return self.wrap(getattr(obj, name), ("attr", source, name))
        fields = getattr(obj, "__dict__", None)
        if fields is not None:
            place = ("dict", source)
            if name in fields:
                if self.exchanged and name in ("_parameters", "_buffers"):
                    raise Break(f"{name} of a module inside of functional_call")
                if hasattr(type(found), "__set__"):
                    raise Break(f"the attribute {name}, which is computed")
                return self.wrap(fields[name], ("item", place, name))
            if isinstance(obj, Module):
                held = self._held(obj, place, name)
                if held is not None:
                    exchanged = self.exchanged.get((id(obj), name))
                    return self.wrap(*held) if exchanged is None else exchanged
            self.guards.lacks(place, name)
        if isinstance(found, _Held) or (found is None and not hasattr(cls, name)):
            raise Break(f"{owner.describe()} has no attribute {name}")
        return self._class_attribute(cls, owner, name)

    def _held(self, module, place, name):
        """A parameter, a buffer or a module under a name: (value, source), or None."""
        found = inspect.getattr_static(type(module), name, None)
        if found is not None and not isinstance(found, _Held):
            return None
        if type(module).__getattr__ is not Registry.__getattr__:
            raise Break("a module with its own way to read attributes")
        for kind in ("_parameters", "_buffers", "_modules"):
            if name in module.__dict__[kind]:
                value = module.__dict__[kind][name]
                return value, ("item", ("item", place, kind), name)
        return None

    def _container_method(self, owner, name):
        kind = dict if isinstance(owner.obj, dict) else list
        if name not in _READING[kind]:
            raise Break(f"{name} of a {kind.__name__} from outside")
        if kind is dict and name == "get":
            return BoundMethod(owner, self.get_from_outside)
        held = self.mapping(owner) if kind is dict else self.opened(owner)
        if name == "copy":
            return type(held)(held).copy
        return getattr(held, name)

    def get_from_outside(self: Any, owner: Outside, key: Any, default: Any = None) -> Any:
        """dict.get of a dictionary from outside."""
        return self.item(owner, key) if self.contains(owner, key) else default

    def _made_attribute(self, owner, name):
        if name == "__class__":
            return owner.cls
        found = inspect.getattr_static(owner.cls, name, None)
        if name in owner.fields and not isinstance(found, property):
            return owner.fields[name]
        if found is None:
            raise Break(f"{owner.describe()} has no attribute {name}")
        return self._class_attribute(owner.cls, owner, name)

    def has_attribute(self: Any, owner: Any, name: str) -> bool:
        """hasattr, where that can be known."""
        if isinstance(owner, TensorValue):
            if hasattr(Tensor, name):
                return True
            if owner.source is None:
                return False
            found = hasattr(owner.real, name)
            self.guards.require(
                f"hasattr({self.guards.variable(owner.source)}, {name!r}) is {found}"
            )
            return found
        if isinstance(owner, Outside):
            obj = owner.obj
            cls: Any = type(obj)
            if cls.__getattribute__ is not object.__getattribute__:
                raise Break("hasattr of an object with its own way to read attributes")
            own = getattr(cls, "__getattr__", None)
            if own is not None and not (isinstance(obj, Module) and own is Registry.__getattr__):
                raise Break("hasattr of an object with its own way to read attributes")
            if isinstance(inspect.getattr_static(cls, name, None), property):
                raise Break("hasattr of a property")
            if hasattr(obj, name):
                self.attribute(owner, name)  # makes the guards
                return True
            self.guards.lacks(("dict", owner.source), name)
            if isinstance(obj, Module):
                for kind in ("_parameters", "_buffers", "_modules"):
                    self.guards.lacks(("item", ("dict", owner.source), kind), name)
            if inspect.getattr_static(cls, name, None) is None:
                self.guards.require(f"not hasattr({self.guards.constant(cls)}, {name!r})")
            return False
        if isinstance(owner, MadeObject):
            return name in owner.fields or hasattr(owner.cls, name)
        if isinstance(owner, Symbolic):
            raise Break(f"hasattr of {owner.describe()}")
        if isinstance(owner, (types.ModuleType, type, types.FunctionType)):
            raise Break("hasattr of a module, a class or a function")
        return self.native(hasattr, owner, name)

    def set_attribute(self: Any, owner: Any, name: str, value: Any) -> None:
        """owner.name = value, for objects that the program made."""
        if isinstance(owner, Outside) and self._is_there(owner, name, value):
            return
        if not isinstance(owner, MadeObject):
            raise Break(f"the attribute {name} of an object from outside is changed")
        cls: Any = owner.cls
        found = inspect.getattr_static(cls, name, None)
        if cls.__setattr__ is not object.__setattr__ or hasattr(type(found), "__set__"):
            raise Break(f"{owner.describe()} has its own way to set attributes")
        owner.fields[name] = value

    def _is_there(self, owner, name, value):
        """Is it the very value that the attribute has? `self.count += 1` of a tensor ends so."""
        plain = type(owner.obj).__setattr__ in (object.__setattr__, Registry.__setattr__)
        if not plain or not isinstance(value, TensorValue) or value.real is None:
            return False
        fields = getattr(owner.obj, "__dict__", {})
        places = [fields, *(fields.get(kind, {}) for kind in ("_parameters", "_buffers"))]
        if parameter_hooks or buffer_hooks or not any(name in place for place in places):
            return False
        return self.attribute(owner, name) is value

    # -- super -----------------------------------------------------------------------------------
    def plain_super(self: Any, scope: Any) -> Super:
        """super() without arguments."""
        outer = scope.function_scope()
        cls = self.load("__class__", outer)
        code = outer.fn.__code__
        if outer.parent is not None or not code.co_argcount:
            raise Break("super() in a nested function")
        owner = self.load(code.co_varnames[0], outer)
        return Super(cls, owner)

    def _super_attribute(self, owner, name):
        of = owner.owner
        cls = type(of.obj) if isinstance(of, Outside) else getattr(of, "cls", None)
        if cls is None or owner.cls not in cls.__mro__:
            raise Break("super() of something else")
        for base in cls.__mro__[cls.__mro__.index(owner.cls) + 1 :]:
            if name in base.__dict__:
                found = base.__dict__[name]
                source = ("item", ("attr", self.guards.known(base), "__dict__"), name)
                if not isinstance(found, types.FunctionType):
                    raise Break(f"super().{name}, which is not a function")
                return BoundMethod(of, self.wrap(found, source))
        raise Break(f"super() has no attribute {name}")

    # -- items -----------------------------------------------------------------------------------
    def item(self: Any, owner: Any, key: Any) -> Any:
        """owner[key]."""
        if isinstance(owner, TensorValue) or (
            isinstance(key, TensorValue) and not isinstance(owner, Symbolic)
        ):
            if not isinstance(owner, TensorValue):
                raise Break("a tensor as an index of a list")
            return self.record_function(operator.getitem, (owner, key), {})
        if isinstance(owner, Outside) and type(owner.obj) in (dict, OrderedDict):
            key = self.settle(key) if isinstance(key, NumberValue) else key
            if type(key) not in (str, int) or key not in owner.obj:
                raise Break("an item of a dictionary from outside")
            opened = self.opened_by_source.get(owner.source)
            if opened is not None:
                return opened[key]
            return self.wrap(owner.obj[key], ("item", owner.source, key))
        owner = self.opened(owner)
        if isinstance(owner, (Outside, MadeObject)):
            return self.call_special(owner, "__getitem__", key)
        if isinstance(owner, Symbolic):
            raise Break(f"an item of {owner.describe()}")
        if isinstance(owner, type):
            return self.native(operator.getitem, owner, key)
        return self.native(operator.getitem, owner, key)

    def set_item(self: Any, owner: Any, key: Any, value: Any) -> None:
        """owner[key] = value."""
        if isinstance(owner, TensorValue):
            self.record_function(operator.setitem, (owner, key, value), {})
            return
        if isinstance(owner, MadeObject):
            self.call_special(owner, "__setitem__", key, value)
            return
        if type(owner) not in (list, dict, OrderedDict, deque) or self.origin(owner) is not None:
            raise Break("an item of something from outside is changed")
        if not isinstance(key, slice):
            try:
                owner[key] = value
            except (KeyError, IndexError, TypeError) as error:
                raise Break(str(error)) from None
            return
        owner[key] = list(self.iterate(value))

    def call_special(self: Any, owner: Any, name: str, *args: Any) -> Any:
        """owner.__name__(*args), looked up on the class as Python does."""
        cls = type(owner.obj) if isinstance(owner, Outside) else owner.cls
        if not hasattr(cls, name):
            raise Break(f"{name} of {owner.describe()}")
        return self.call(self._class_attribute(cls, owner, name), args, {})

    def iterate(self: Any, value: Any) -> Iterator[Any]:
        """What a loop over a value meets."""
        if isinstance(value, TensorValue):
            if value.fake.dim() == 0:
                raise Break("iteration over a tensor without dimensions")
            return iter(self.tensor_method(value, "unbind", (0,), {}))
        if isinstance(value, ParametersOf):
            return walking.parameters_in_turn(self, value)
        value = self.opened(value)
        if isinstance(value, Outside) and type(value.obj) in (dict, OrderedDict):
            return iter(self.mapping(value))
        if isinstance(value, (Outside, MadeObject)):
            return self.iterate(self.call_special(value, "__iter__"))
        if isinstance(value, Symbolic) or not self.is_plain(value, deep=False):
            raise Break(f"iteration over an object of {type(value)}")
        return self.native(iter, value)


_ITERATORS: tuple[type, ...] = (
    type(iter([])), type(iter(())), type(iter({})), type(iter({}.values())),
    type(iter({}.items())), type(iter(set())), type(iter(range(0))), type(iter("")), enumerate,
    zip, map, filter, reversed, type(reversed([])), types.GeneratorType,
)  # fmt: skip


def is_iterator(value: Any) -> bool:
    """An iterator that the program made (those from outside are symbolic)."""
    return isinstance(value, _ITERATORS) or type(value).__module__ == "itertools"
