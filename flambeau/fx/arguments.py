"""Placeholders for the parameters of a function that is recorded."""

import inspect
import types
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import flambeau
from flambeau._tensor import Tensor
from flambeau.fx.codegen import _PyTreeCodeGen, _PyTreeInfo
from flambeau.fx.node import base_types
from flambeau.utils import _pytree as pytree

if TYPE_CHECKING:
    from flambeau.fx._symbolic_trace import Tracer

_VARIABLE = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS


class PHBase:
    """Stands in concrete_args for a value that is not fixed."""

    def __repr__(self) -> str:
        return "PH"


PH = PHBase()


class PHWithMeta(PHBase):
    """The same, with something to know about the value."""

    def __init__(self, ph_key: str | None = None) -> None:
        super().__init__()
        self.ph_key = ph_key

    def transfer_attrs(self, to: Any) -> None:
        """Note what is known with the node of the placeholder."""
        for name, value in vars(self).items():
            setattr(to, name, value)


def _assert_is_none(value: Any, msg: str) -> None:
    """Raise an error if an argument that was None is something else."""
    if value is not None:
        raise AssertionError(msg)


_assert_is_none.__module__ = "flambeau.fx._symbolic_trace"  # where recorded programs look for it


def arguments_for(
    tracer: "Tracer", root_fn: Callable, is_module: bool, concrete_args: Any
) -> tuple[Callable, list[Any]]:
    """What to call to record a function, and with what."""
    fn = inspect.unwrap(root_fn)
    if not isinstance(fn, types.FunctionType):
        raise AssertionError(f"Expected FunctionType, got {type(root_fn)}")
    names = _names(fn)
    first = []
    if is_module:
        if not names:
            raise RuntimeError(
                "``self`` argument cannot be part of *args expansion for tracer.trace()"
            )
        first, names = [tracer.root], names[1:]
    concrete = _by_name(concrete_args, names)
    signature = inspect.signature(fn)
    values = [_placeholder(tracer, fn, signature, name, concrete) for name in names]
    variable = fn.__code__.co_flags & _VARIABLE
    if variable:
        values += _variable_placeholders(tracer, fn)
    called = root_fn
    if variable or fn.__code__.co_kwonlyargcount:
        called = _by_position(fn, len(first) + len(values))
    if concrete is not None:
        leaves, spec = pytree.tree_flatten(values)
        if not all(child.is_leaf() for child in spec.children()):
            orig = (["self"] if is_module else []) + names
            return _of_leaves(tracer, called, first, orig, spec), [*first, *leaves]
    return called, [*first, *values]


def _names(fn):
    code = fn.__code__
    return list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])


def _by_name(concrete_args, names):
    if isinstance(concrete_args, tuple):
        if len(names) != len(concrete_args):
            raise RuntimeError(
                f"Tracing expected {len(names)} arguments but got {len(concrete_args)} concrete "
                "arguments"
            )
        return dict(zip(names, concrete_args))
    return concrete_args


def _placeholder(tracer, fn, signature, name, concrete):
    parameter = signature.parameters[name]
    default = () if parameter.default is parameter.empty else (parameter.default,)
    if concrete is not None and name in concrete:
        return _fixed(tracer, name, default, concrete[name])
    kind = fn.__annotations__.get(name)
    if kind is Any and fn.__module__.startswith("flambeau.nn."):
        kind = None  # which PyTorch's modules do not say
    return tracer.create_proxy("placeholder", name, default, {}, type_expr=kind)


def _fixed(tracer, name, default, tree):
    """A value that is fixed, whole or in part; that it is the same later is asserted."""
    count = 0

    def leaf(value):
        nonlocal count
        count += 1
        proxy = tracer.create_proxy("placeholder", f"{name}_{count}", default, {})
        if isinstance(value, PHBase):
            if isinstance(value, PHWithMeta):
                value.transfer_attrs(proxy.node)
            return proxy
        said = f"{name} has been specialized to have value {value} but got another value"
        if value is None:
            tracer.create_proxy("call_function", _assert_is_none, (proxy, said), {})
        elif isinstance(value, base_types) and not isinstance(value, Tensor):
            tracer.create_proxy("call_function", flambeau._assert, (proxy == value, said), {})
        else:
            warnings.warn(
                f"Was not able to add assertion to guarantee correct input {name} to specialized "
                "function. It is up to the user to make sure that your inputs match the inputs you "
                "specialized the function with.",
                stacklevel=2,
            )
        return value

    return pytree.tree_map(leaf, tree)


def _variable_placeholders(tracer, fn):
    """*args and **kwargs, each one value."""
    code, found = fn.__code__, []
    place = code.co_argcount + code.co_kwonlyargcount
    for flag, stars in ((inspect.CO_VARARGS, "*"), (inspect.CO_VARKEYWORDS, "**")):
        if code.co_flags & flag:
            found.append(
                tracer.create_proxy("placeholder", stars + code.co_varnames[place], (), {})
            )
            place += 1
    return found


def _by_position(fn, count):
    """The same function, which takes all its parameters by position, even *args."""
    code = fn.__code__.replace(
        co_flags=fn.__code__.co_flags & ~_VARIABLE,
        co_argcount=count,
        co_posonlyargcount=0,
        co_kwonlyargcount=0,
    )
    return types.FunctionType(code, fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__)


def _of_leaves(tracer, fn, first, names, spec):
    """A function of the leaves of the arguments that gives the leaves of the result."""
    graph = tracer.graph
    codegen = graph._codegen = _PyTreeCodeGen(_PyTreeInfo(names, spec, None))

    def flat(*leaves):
        given = pytree.tree_unflatten(list(leaves[len(first) :]), spec)
        out, out_spec = pytree.tree_flatten(fn(*first, *given))
        codegen.pytree_info = codegen.pytree_info._replace(out_spec=out_spec)
        return out

    return flat
