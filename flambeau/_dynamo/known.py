"""Functions whose calls the reader answers itself, and those of Python that it may just call.

A handler gets the reader and the arguments as the program sees them. Functions in PURE and of
PURE_MODULES depend on nothing but their arguments and change nothing.
"""

import collections
import contextlib
import copy
import functools
import inspect
import itertools
import math
import operator
import typing
from collections.abc import Callable
from typing import Any

import flambeau
from flambeau import _device, _dtype
from flambeau._dynamo.exc import Break
from flambeau._dynamo.steps import ParametersOf
from flambeau._dynamo.values import (
    BoundMethod,
    GradSwitch,
    MadeFunction,
    MadeGenerator,
    MadeObject,
    NullContext,
    Outside,
    Partial,
    Super,
    Symbolic,
    TensorValue,
    holds_symbols,
)
from flambeau._dynamo.varying import NumberValue
from flambeau._layout import Size
from flambeau._tensor import Tensor, questions
from flambeau.autograd import grad_mode
from flambeau.autograd.grad_mode import modes
from flambeau.eager import methods
from flambeau.nn.modules.module import Module
from flambeau.nn.utils.clip_grad import clip_grad_norm_
from flambeau.profiler.recording import record_function

KNOWN: dict[Any, Callable] = {}
PURE = frozenset(
    [bool, int, float, complex, str, bytes, range, slice, abs, round, divmod, pow, chr, ord, hex,
     bin, oct, repr, format, ascii, Size, _dtype.finfo, _dtype.iinfo, _device.device,
     _dtype.promote_types, questions.can_cast, object]
)  # fmt: skip
PURE_MODULES = frozenset({"math", "cmath", "_operator", "operator"})


def known(*functions: Any) -> Callable:
    """Make a function the handler of others."""

    def declare(handler: Callable) -> Callable:
        for function in functions:
            KNOWN[function] = handler
        return handler

    return declare


# -- types and questions ---------------------------------------------------------------------------


def type_of(value: Any) -> type:
    """type(value), as the program sees it."""
    if isinstance(value, TensorValue):
        return value.cls
    if isinstance(value, Outside):
        return type(value.obj)
    if isinstance(value, MadeObject):
        return value.cls
    if isinstance(value, NumberValue):
        return type(value.hint)
    if isinstance(value, Symbolic):
        raise Break(f"the type of {value.describe()}")
    return type(value)


@known(type)
def _type(reader, value, *more):
    if more:
        raise Break("a class is made")
    return type_of(value)


def _classes(reader, kinds):
    for kind in kinds if isinstance(kinds, tuple) else (kinds,):
        if isinstance(kind, tuple):
            _classes(reader, kind)
        elif isinstance(kind, Symbolic):
            raise Break("isinstance with a class that is not known")
        elif type(kind).__instancecheck__ is not type.__instancecheck__ and not _is_harmless(kind):
            raise Break("isinstance with a class that answers itself")


def _is_harmless(kind):
    """abc.ABC and its kin, unions of classes, classes of flambeau."""
    module = getattr(type(kind), "__module__", "")
    if getattr(kind, "_is_protocol", False):
        return False  # looks at attributes of the object
    return module in ("abc", "types", "typing", "enum") or module.startswith("flambeau")


@known(isinstance)
def _isinstance(reader, value, kinds):
    _classes(reader, kinds)
    if isinstance(value, TensorValue):
        if value.real is not None:
            return isinstance(value.real, kinds)
        return isinstance(value.fake, kinds)
    if isinstance(value, Outside):
        return isinstance(value.obj, kinds)
    if isinstance(value, MadeObject):
        return issubclass(value.cls, kinds)
    if isinstance(value, NumberValue):
        return isinstance(value.hint, kinds)
    if isinstance(value, (MadeFunction, BoundMethod, Partial)):
        raise Break("isinstance of a function")
    return isinstance(value, kinds)


@known(issubclass)
def _issubclass(reader, value, kinds):
    _classes(reader, kinds)
    return reader.native(issubclass, value, kinds)


@known(callable)
def _callable(reader, value):
    if isinstance(value, (MadeFunction, BoundMethod, Partial)):
        return True
    return any("__call__" in base.__dict__ for base in type_of(value).__mro__)


@known(len)
def _len(reader, value):
    if isinstance(value, TensorValue):
        return reader.tensor_method(value, "__len__", (), {})
    value = reader.opened(value)
    if isinstance(value, Outside) and isinstance(value.obj, dict):
        return len(reader.mapping(value))
    if isinstance(value, (Outside, MadeObject)):
        return reader.call_special(value, "__len__")
    return reader.native(len, value)


@known(getattr)
def _getattr(reader, owner, name, *default):
    if default and not reader.has_attribute(owner, name):
        return default[0]
    return reader.attribute(owner, name)


@known(hasattr)
def _hasattr(reader, owner, name):
    return reader.has_attribute(owner, name)


@known(contextlib.nullcontext)
def _nullcontext(reader, enter_result=None):
    return NullContext(enter_result)


@known(setattr)
def _setattr(reader, owner, name, value):
    reader.set_attribute(owner, name, value)


@known(super)
def _super(reader, cls, owner):
    return Super(cls, owner)


@known(bool)
def _bool(reader, value=False):
    return reader.truth(value)


COUNTING = frozenset({int, float, math.sqrt, math.floor, math.ceil, math.log})


def _plainly(function):
    def handler(reader, *args, **kwargs):
        args = tuple(map(reader.opened, args))
        if args and isinstance(args[0], NumberValue):
            if function in COUNTING and len(args) == 1 and not kwargs:
                return reader.count_with(function, args[0])
            args = (reader.settle(args[0]), *args[1:])
        if holds_symbols(args) or not all(map(reader.is_plain, args)):
            raise Break(f"{function.__name__}() of a tensor or an object")
        return reader.native(function, *args, **kwargs)

    return handler


for _function in (int, float, str, repr, format, complex):
    KNOWN[_function] = _plainly(_function)


# -- sequences -------------------------------------------------------------------------------------


@known(list)
def _list(reader, value=()):
    return list(_all_of(reader, value))


def _all_of(reader, values):
    """What a function meets that does nothing else before it has met all of it."""
    if isinstance(values, MadeGenerator) and not values.is_manager:
        found: list = []
        values.run(found.append)
        return iter(found)
    return reader.iterate(values)


@known(tuple)
def _tuple(reader, value=()):
    if type(value) is tuple:
        return value
    return tuple(_all_of(reader, value))


@known(set, frozenset)
def _set(reader, value=()):
    return set(_all_of(reader, value))


KNOWN[frozenset] = lambda reader, value=(): frozenset(_all_of(reader, value))


@known(dict)
def _dict(reader, value=(), **more):
    if isinstance(value, (dict, Outside)) and isinstance(reader_dict(value), dict):
        return dict(reader.mapping(value), **more)
    return dict([tuple(reader.iterate(pair)) for pair in _all_of(reader, value)], **more)


def reader_dict(value):
    """A dictionary or what is behind an object from outside."""
    return value.obj if isinstance(value, Outside) else value


@known(collections.OrderedDict)
def _ordered(reader, value=(), **more):
    return collections.OrderedDict(_dict(reader, value, **more))


@known(collections.deque)
def _deque(reader, value=(), maxlen=None):
    return collections.deque(reader.iterate(value), maxlen)


@known(iter)
def _iter(reader, value):
    return reader.iterate(value)


@known(next)
def _next(reader, iterator, *default):
    if isinstance(iterator, ParametersOf):
        iterator = reader.iterate(iterator)
    return reader.native(next, iterator, *default)


@known(enumerate)
def _enumerate(reader, value, start=0):
    return enumerate(reader.iterate(value), start)


@known(reversed)
def _reversed(reader, value):
    value = reader.opened(value)
    if isinstance(value, Symbolic):
        return iter(list(reader.iterate(value))[::-1])
    return reader.native(reversed, value)


@known(zip)
def _zip(reader, *values, strict=False):
    return zip(*map(reader.iterate, values), strict=strict)


@known(map)
def _map(reader, function, *values):
    items = [reader.iterate(v) for v in values]
    return (reader.call(function, given, {}) for given in zip(*items))


@known(filter)
def _filter(reader, function, values):
    items = reader.iterate(values)
    if function is None:
        return (v for v in items if reader.truth(v))
    return (v for v in items if reader.truth(reader.call(function, (v,), {})))


@known(sorted)
def _sorted(reader, values, *, key=None, reverse=False):
    items = list(_all_of(reader, values))
    key = None if key is None else reader.callback(key)
    return reader.native(sorted, items, key=key, reverse=reverse)


@known(any)
def _any(reader, values):
    return any(map(reader.truth, reader.iterate(values)))


@known(all)
def _all(reader, values):
    return all(map(reader.truth, reader.iterate(values)))


@known(sum)
def _sum(reader, values, start=0):
    total = start
    for value in _all_of(reader, values):
        total = reader.binary(operator.add, total, value)
    return total


def _extreme(function):
    def handler(reader, *values, **options):
        items = list(_all_of(reader, values[0])) if len(values) == 1 else list(values)
        if options.get("key") is not None:
            options["key"] = reader.callback(options["key"])
        return reader.native(function, items, **options)

    return handler


KNOWN[min], KNOWN[max] = _extreme(min), _extreme(max)


@known(functools.reduce)
def _reduce(reader, function, values, *start):
    items = reader.iterate(values)
    total = start[0] if start else next(items)
    for item in items:
        total = reader.call(function, (total, item), {})
    return total


@known(functools.partial)
def _partial(reader, function, *args, **kwargs):
    return Partial(function, args, kwargs)


@known(functools.wraps)
def _wraps(reader, wrapped):
    return Partial(functools.update_wrapper, (), {"wrapped": wrapped})


@known(functools.update_wrapper)
def _update_wrapper(reader, wrapper, wrapped):
    if not isinstance(wrapper, MadeFunction):
        raise Break("functools.update_wrapper of a function from outside")
    name = reader.attribute(wrapped, "__name__")
    made = MadeFunction(reader, wrapper.node, wrapper.scope, wrapper.defaults, wrapper.kwdefaults)
    made.name = name
    return made


@known(itertools.chain)
def _chain(reader, *values):
    return itertools.chain(*map(reader.iterate, values))


@known(itertools.product)
def _product(reader, *values, repeat=1):
    return itertools.product(*map(reader.iterate, values), repeat=repeat)


def _iterating(function, count=1):
    def handler(reader, *args, **kwargs):
        return function(*map(reader.iterate, args[:count]), *args[count:], **kwargs)

    return handler


for _name in ("islice", "combinations", "permutations", "pairwise", "cycle"):
    _function = getattr(itertools, _name)
    KNOWN[_function] = _iterating(_function)
KNOWN[itertools.count] = lambda reader, *args: itertools.count(*args)
KNOWN[itertools.repeat] = lambda reader, *args: itertools.repeat(*args)


@known(copy.copy)
def _copy(reader, value):
    value = reader.opened(value)
    if type(value) in (list, dict, set, collections.OrderedDict):
        return value.copy()
    raise Break("copy.copy")


@known(typing.cast)
def _cast(reader, kind, value):
    return value


def _operator(function):
    def handler(reader, left, right):
        return reader.binary(function, left, right)

    return handler


for _name in (
    "add sub mul truediv floordiv mod pow matmul and_ or_ xor lshift rshift iadd isub imul "
    "itruediv ifloordiv imod ipow imatmul iand ior ixor ilshift irshift iconcat"
).split():
    KNOWN[getattr(operator, _name)] = _operator(getattr(operator, _name))
KNOWN[operator.getitem] = lambda reader, owner, key: reader.item(owner, key)
KNOWN[operator.setitem] = lambda reader, owner, key, value: reader.set_item(owner, key, value)


@known(operator.delitem)
def _delitem(reader, owner, key):
    raise Break("operator.delitem")


def _unary(function):
    def handler(reader, value):
        if isinstance(value, TensorValue):
            return reader.record_function(function, (value,), {})
        return reader.native(function, value)

    return handler


KNOWN.update({f: _unary(f) for f in (operator.neg, operator.pos, operator.invert)})


@known(inspect.isfunction)
def _isfunction(reader, value):
    raise Break("a question about functions")


@known(print, input, open, exec, eval, compile, globals, locals, vars, id, hash)
def _effect(reader, *args, **kwargs):
    raise Break("a call of a builtin function that does more than compute (print, open, ...)")


KNOWN.update({f: _plainly(f) for f in (math.sqrt, math.floor, math.ceil, math.log, math.prod)})

# -- of torch --------------------------------------------------------------------------------------


@known(questions.is_tensor)
def _is_tensor(reader, obj):
    return isinstance(obj, TensorValue)


@known(questions.is_floating_point)
def _is_floating_point(reader, input):
    return reader.tensor_method(input, "is_floating_point", (), {})


@known(questions.is_complex)
def _is_complex(reader, input):
    return reader.tensor_method(input, "is_complex", (), {})


@known(questions.numel)
def _numel(reader, input):
    return reader.tensor_method(input, "numel", (), {})


@known(questions._assert)
def _assert(reader, condition, message=""):
    if isinstance(condition, Symbolic) or not condition:
        raise Break("an assertion does not hold, or depends on values")


@known(methods.function)
def _row_function(reader, name):
    return methods.function(name)  # the public function of a row, always the same


@known(grad_mode.is_grad_enabled)
def _is_grad_enabled(reader):
    return modes.grad  # guarded as part of the surroundings


@known(grad_mode.is_inference_mode_enabled)
def _is_inference(reader):
    return modes.inference


@known(flambeau.get_default_dtype)
def _default_dtype(reader):
    return _dtype.default_dtype()


@known(flambeau.get_default_device)
def _default_device(reader):
    return _device.device("cpu")


@known(grad_mode.no_grad)
def _no_grad(reader, function=None):
    return _switch(reader, grad_mode.no_grad, False, function)


@known(grad_mode.enable_grad)
def _enable_grad(reader, function=None):
    return _switch(reader, grad_mode.enable_grad, True, function)


def _switch(reader, kind, mode, function):
    return GradSwitch(mode) if function is None else Partial(under_switch, (kind, function), {})


def under_switch(kind: Any, function: Any, *args: Any, **kwargs: Any) -> Any:
    """A call of a function that was decorated by no_grad or its kin."""
    with kind():
        return function(*args, **kwargs)


@known(under_switch)
def _under_switch(reader, kind, function, *args, **kwargs):
    mode = modes.grad
    reader.set_grad(kind.mode)
    result = reader.call(function, args, kwargs)
    reader.set_grad(mode)
    return result


@known(grad_mode.set_grad_enabled)
def _set_grad_enabled(reader, mode):
    if not isinstance(mode, bool):
        raise Break("set_grad_enabled of something else than a bool")
    previous = modes.grad
    reader.set_grad(mode)
    return GradSwitch(mode, previous)


@known(flambeau._C._set_grad_enabled)
def _c_set_grad_enabled(reader, mode):
    reader.set_grad(reader.truth(mode))


@known(record_function)
def _record_function(reader, name, args=None):
    return NullContext()  # whoever profiles sees the program as it is


@known(flambeau.tensor)
def _tensor_of(reader, data, *, dtype=None, device=None, requires_grad=False, **more):
    """A tensor of numbers that are known is made once, and copied by the graph."""
    plain = type(data) in (int, float, bool) or (type(data) is list and _is_constant(data))
    place = _device.device("cpu" if device is None else device)
    on_one = place.type == "cpu" or (place.type == "cuda" and place == reader.place)
    if (
        not plain
        or requires_grad
        or not on_one
        or not isinstance(dtype, (_dtype.dtype, type(None)))
    ):
        options = {"dtype": dtype, "device": device, "requires_grad": requires_grad}
        given = {k: v for k, v in options.items() if v not in (None, False)}
        return reader.record_function(flambeau.tensor, (data,), {**given, **more})
    made = reader.native_tensor(data, dtype, place)
    value = reader.tensor_input(made, reader.guards.known(made))
    return reader.tensor_method(value, "clone", (), {})


def _is_constant(data):
    numbers = (int, float, bool)
    return all(type(v) in numbers or (type(v) is list and _is_constant(v)) for v in data)


@known(flambeau.broadcast_shapes)
def _broadcast_shapes(reader, *shapes):
    shapes = tuple(tuple(map(reader.plain_number, reader.iterate(shape))) for shape in shapes)
    if holds_symbols(shapes):
        raise Break("broadcast_shapes of tensors")
    return flambeau.broadcast_shapes(*shapes)


@known(Module.parameters)
def _parameters(reader, owner, recurse=True):
    if not isinstance(owner, Outside) or not isinstance(recurse, bool):
        raise Break("the parameters of a module that the program makes")
    return ParametersOf(owner, recurse)


@known(Module.zero_grad)
def _module_zero_grad(reader, owner, set_to_none=True):
    if not isinstance(owner, Outside):
        raise Break("zero_grad of a module that the program makes")
    return reader.record_module_zero_grad(owner, set_to_none)


@known(clip_grad_norm_)
def _clip_grad_norm(reader, *args, **kwargs):
    return reader.record_clip(*args, **kwargs)


@known(Tensor)
def _tensor_class(reader, *args):
    raise Break("Tensor() is called")
