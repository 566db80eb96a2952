"""Proxy: a value that is being recorded, and TracerBase, which records what is done with it."""

import copy
import dataclasses
import dis
import enum
import inspect
import operator
import threading
import traceback
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import flambeau
from flambeau import interposing
from flambeau._tensor.attachment import member_of
from flambeau.aten import overloads
from flambeau.fx import traceback as fx_traceback
from flambeau.fx.codegen import magic_methods, reflectable_magic_methods
from flambeau.fx.graph import Graph
from flambeau.fx.node import Argument, Node, Target, base_types, map_aggregate
from flambeau.fx.operator_schemas import check_for_mutable_operation
from flambeau.fx.recording import as_recorded
from flambeau.interposing import overriding

__all__ = [
    "Attribute",
    "GraphAppendingTracer",
    "ParameterProxy",
    "Proxy",
    "Scope",
    "ScopeContextManager",
    "TraceError",
    "TracerBase",
]

_OURS = __file__.removesuffix("fx/proxy.py")  # files of this package


class _Asked(threading.local):
    """How the function that a proxy is asked about was called: `__add__`, or by its name."""

    key = ""


asked = _Asked()


class _Functions(overriding._Arguments):
    """Lets proxies answer for functions, and says which operator was used."""

    all_threads = is_lasting = False

    def around(self, name: interposing.Name, function: Callable, args: tuple, kwargs: dict) -> Any:
        key, asked.key = asked.key, name.place.key
        try:
            return super().around(name, function, args, kwargs)
        finally:
            asked.key = key


class TraceError(ValueError):
    """Something was done that a recorded value cannot do."""


@dataclasses.dataclass
class Scope:
    """Which module is being recorded."""

    module_path: str
    module_type: Any


class ScopeContextManager:
    """Another module, until the context ends."""

    def __init__(self, scope: Scope, current_scope: Scope) -> None:
        self._scope, self._prev = scope, (scope.module_path, scope.module_type)
        scope.module_path, scope.module_type = current_scope.module_path, current_scope.module_type

    def __enter__(self) -> Scope:
        return self._scope

    def __exit__(self, *error: Any) -> None:
        self._scope.module_path, self._scope.module_type = self._prev


class TracerBase:
    """Makes nodes and proxies of what is done with proxies."""

    graph: Graph
    record_stack_traces = False
    check_mutable_operations = False
    trace_asserts = False
    proxy_buffer_attributes = False
    traced_func_name = "forward"
    scope: Scope
    module_stack: "OrderedDict[str, tuple[str, Any]]"
    node_name_to_scope: dict[str, tuple[str, Any]]

    def create_node(
        self,
        kind: str,
        target: Target,
        args: tuple[Argument, ...],
        kwargs: dict[str, Argument],
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Put a node into the graph; subclasses may look at it, or change it."""
        if kind == "call_function" and self.check_mutable_operations and callable(target):
            check_for_mutable_operation(target, args, kwargs)
        node = self.graph.create_node(kind, target, args, kwargs, name, type_expr)
        scope = getattr(self, "scope", None)
        if scope is not None:
            self.node_name_to_scope[node.name] = (scope.module_path, scope.module_type)
        if fx_traceback.has_preserved_node_meta():
            node.meta.update(fx_traceback.get_current_meta())
        elif getattr(self, "module_stack", None):
            node.meta["nn_module_stack"] = OrderedDict(self.module_stack)
        if self.record_stack_traces and kind not in ("placeholder", "output"):
            node.stack_trace = _users_trace()
        return node

    def proxy(self, node: Node) -> "Proxy":
        """The proxy of a node."""
        return Proxy(node, self)

    def create_proxy(
        self,
        kind: str,
        target: Target,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any = None,
        proxy_factory_fn: Callable[[Node], "Proxy"] | None = None,
    ) -> "Proxy":
        """Record a call: a node for it, and a proxy for its result."""
        args_, kwargs_ = self.create_arg(args), self.create_arg(kwargs)
        if not isinstance(args_, tuple) or not isinstance(kwargs_, dict):
            raise AssertionError(f"args and kwargs became {type(args_)} and {type(kwargs_)}")
        node = self.create_node(kind, target, args_, kwargs_, name, type_expr)
        return proxy_factory_fn(node) if proxy_factory_fn else self.proxy(node)

    def create_arg(self, a: Any) -> Argument:
        """A value as an argument of a node: proxies become nodes, however deep they are."""
        if isinstance(a, Proxy):
            return a.node
        if hasattr(a, "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        if isinstance(a, tuple):
            items = [self.create_arg(item) for item in a]
            if hasattr(a, "_fields"):
                return self.create_node("call_function", type(a), tuple(items), {})
            return tuple(items)
        if isinstance(a, list):
            return [self.create_arg(item) for item in a]
        if isinstance(a, dict):
            return {self._create_key(key): self.create_arg(value) for key, value in a.items()}
        if isinstance(a, slice):
            return slice(*(self.create_arg(part) for part in (a.start, a.stop, a.step)))
        if isinstance(a, range):
            return range(*(self.create_arg(part) for part in (a.start, a.stop, a.step)))
        if dataclasses.is_dataclass(a) and not isinstance(a, type):
            named = {f.name: self.create_arg(getattr(a, f.name)) for f in dataclasses.fields(a)}
            return self.create_node("call_function", type(a), (), named)
        if isinstance(a, (*base_types, enum.Enum, Node)) or a is None or a is ...:
            return a
        raise NotImplementedError(f"argument of type: {type(a)}")

    def _create_key(self, key):
        made = self.create_arg(key)

        def refuse(leaf):
            if isinstance(leaf, Node):
                raise RuntimeError(
                    "Keys for dictionaries used as an argument cannot contain a Node. Got key: "
                    f"{key.node if isinstance(key, Proxy) else key}"
                )
            return leaf

        map_aggregate(made, refuse)
        return made

    def to_bool(self, obj: "Proxy") -> bool:
        """A proxy decides a branch: an error, unless a subclass knows what to do."""
        raise TraceError("symbolically traced variables cannot be used as inputs to control flow")

    def iter(self, obj: "Proxy") -> Iterator:
        """A proxy is gone through: an error, unless a subclass knows what to do."""
        raise TraceError(
            "Proxy object cannot be iterated. This can be attempted when the Proxy is used in a "
            "loop or as a *args or **kwargs function argument. See the torch.fx docs on "
            "pytorch.org for a more detailed explanation of what types of control flow can be "
            "traced, and check out the Proxy docstring for help troubleshooting Proxy iteration "
            "errors"
        )

    def keys(self, obj: "Proxy") -> Any:
        """The keys of a proxy, which ** asks for."""
        return Attribute(obj, "keys")()


class GraphAppendingTracer(TracerBase):
    """Puts what is done with proxies into a graph that is there already."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph
        self.scope = Scope("", None)
        self.module_stack = OrderedDict()
        self.node_name_to_scope = {}
        answer_outside(self)


class _Standing:
    """The handler for proxies outside of Tracer.trace, as long as there are some."""

    def __init__(self):
        self.handler, self.count, self.lock = _Everywhere(), 0, threading.Lock()

    def begin(self, tracer):
        """A tracer has come into being; the last to go takes the handler away."""
        with self.lock:
            self.count += 1
            if self.count == 1:
                interposing.push(self.handler)
        weakref.finalize(tracer, self.end).atexit = False

    def end(self):
        with self.lock:
            self.count -= 1
            if self.count == 0:
                interposing.pop(self.handler)


class _Everywhere(_Functions):
    """Lets proxies answer in all threads."""

    all_threads = is_lasting = True


_standing = _Standing()


def answer_outside(tracer: TracerBase) -> None:
    """Proxies of this tracer answer for functions outside of Tracer.trace, too."""
    _standing.begin(tracer)


def _users_trace():
    """The calls in the recorded program that led here, without those inside this package."""
    frames = traceback.extract_stack()
    ours = [k for k, f in enumerate(frames) if f.name == "trace" and f.filename.startswith(_OURS)]
    frames = frames[ours[-1] :] if ours else frames
    frames = [f for f in frames if not f.filename.startswith((_OURS, "<flambeau"))]
    return "".join(traceback.format_list(frames)).strip()


class Proxy:
    """A value that is being recorded: whatever is done with it becomes a node.

    It cannot decide branches or be gone through, as its value is not known; unpacking into a fixed
    number of names is fine.
    """

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer
        self.node = node

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, k: str) -> "Attribute":
        if k in ("node", "tracer"):  # of a proxy that is not made yet
            raise AttributeError(k)
        return Attribute(self, k)

    def __getstate__(self) -> dict:
        return self.__dict__

    def __setstate__(self, d: dict) -> None:
        self.__dict__ = d

    def __deepcopy__(self, memo: dict) -> "Proxy":
        twin = Proxy.__new__(type(self))
        for name, value in self.__dict__.items():
            try:
                twin.__dict__[name] = copy.deepcopy(value, memo)
            except Exception:  # whatever a tracer holds that cannot be copied is shared
                twin.__dict__[name] = copy.copy(value)
        return twin

    def __call__(self, *args: Any, **kwargs: Any) -> "Proxy":
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator["Proxy"]:
        count = _unpacked(inspect.currentframe())
        if count is not None:
            return (self[k] for k in range(count))  # type: ignore[index]
        return self.tracer.iter(self)

    def __abs__(self) -> "Proxy":
        return self.tracer.create_proxy("call_function", operator.abs, (self,), {})

    def __bool__(self) -> bool:
        if self.tracer.trace_asserts and _is_assert(inspect.currentframe()):
            self.tracer.create_proxy("call_function", _assert, (self,), {})
            return True
        return self.tracer.to_bool(self)

    def keys(self) -> Any:
        """The keys, as a tracer gives them."""
        return self.tracer.keys(self)

    def __len__(self) -> int:
        raise RuntimeError(
            "'len' is not supported in symbolic tracing by default. If you want this call to be "
            "recorded, please call torch.fx.wrap('len') at module scope"
        )

    @classmethod
    def __torch_function__(
        cls, orig_method: Callable, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> "Proxy":
        kwargs = kwargs or {}
        tracer = _tracer_of([args, kwargs])
        operation = asked.key
        name = getattr(orig_method, "__name__", "")
        if operation.startswith("__") or _is_method(orig_method, name):
            method = operation if operation in _PLAIN_OPERATORS else name
            return tracer.create_proxy("call_method", method, args, kwargs)
        args, kwargs = as_recorded(orig_method, args, kwargs)
        return tracer.create_proxy("call_function", orig_method, args, kwargs)


_PLAIN_OPERATORS = frozenset({"__getitem__", "__setitem__"})
_assert = flambeau._assert


def _answer_overload(op, args, kwargs):
    """A call of torch.ops... with proxies is recorded as it is."""
    for value in (*args, *kwargs.values()):
        inner = value if isinstance(value, (list, tuple)) else (value,)
        found = next((v for v in inner if isinstance(v, Proxy)), None)
        if found is not None:
            return found.tracer.create_proxy("call_function", op, args, kwargs)
    return NotImplemented


overloads.asked_first.append(_answer_overload)


def _is_method(func, name):
    """Is a function to be had from tensors only?"""
    return member_of(name) is func and not hasattr(flambeau, name)


def _tracer_of(values):
    """The one tracer of all proxies in some values."""
    tracers: dict[Any, None] = {}

    def note(leaf):
        if isinstance(leaf, Proxy):
            tracers.setdefault(leaf.tracer)
        return leaf

    map_aggregate(values, note)
    if len(tracers) > 1:
        raise RuntimeError(
            f"Found multiple different tracers {list(tracers)} while trying to trace operations"
        )
    return next(iter(tracers))


def _instructions(frame: FrameType | None) -> list[dis.Instruction]:
    """What the caller of a method is doing, and what it does next."""
    caller = frame.f_back if frame is not None else None
    if caller is None:
        return []
    after = (i for i in dis.get_instructions(caller.f_code) if i.offset >= caller.f_lasti)
    return [i for i, _ in zip(after, range(8))]


def _unpacked(frame):
    """Into how many names a value is unpacked; None if it is not."""
    found = _instructions(frame)
    return found[0].arg if found and found[0].opname == "UNPACK_SEQUENCE" else None


def _is_assert(frame):
    """Is a value asked for its truth by an assert?"""
    names = [i.opname for i in _instructions(frame) if i.opname != "EXTENDED_ARG"]
    jump = next((k for k, name in enumerate(names) if name.startswith("POP_JUMP")), None)
    return jump is not None and "LOAD_ASSERTION_ERROR" in names[jump : jump + 2]


class Attribute(Proxy):
    """An attribute of a proxy; a node only when it is more than the method of a call."""

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root, self.attr, self.tracer = root, attr, root.tracer
        self._node: Node | None = None

    @property
    def node(self) -> Node:  # type: ignore[override]
        """The node, made when it is needed."""
        if self._node is None:
            made = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {})
            self._node = made.node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


class ParameterProxy(Proxy):
    """The proxy of a parameter, which knows its shape while the rest is not known."""

    def __init__(self, tracer: TracerBase, node: Node, name: str, param: Any) -> None:
        super().__init__(node, tracer)
        if not isinstance(param, flambeau.nn.Parameter):
            raise AssertionError(f"expected a Parameter, got {type(param)}")
        self.param, self.name = param, name

    def __repr__(self) -> str:
        return f"ParameterProxy({self.name})"

    @property
    def shape(self) -> Any:
        return self.param.shape

    def size(self, *args: Any) -> Any:
        return self.param.size(*args)

    def dim(self) -> int:
        return self.param.dim()

    @property
    def ndim(self) -> int:
        return self.param.ndim

    def numel(self) -> int:
        return self.param.numel()

    def nelement(self) -> int:
        return self.param.nelement()


def _operator_method(name):
    target = getattr(operator, name)

    def method(*args, **kwargs):
        return args[0].tracer.create_proxy("call_function", target, args, kwargs)

    method.__name__ = f"__{name.strip('_')}__"
    return method


def _reflected_method(name):
    target = getattr(operator, name)

    def method(self, other):
        return self.tracer.create_proxy("call_function", target, (other, self), {})

    method.__name__ = f"__r{name.strip('_')}__"
    return method


for _name in magic_methods:
    if hasattr(operator, _name):
        setattr(Proxy, f"__{_name.strip('_')}__", _operator_method(_name))
for _name in reflectable_magic_methods:
    if hasattr(operator, _name) and _name != "getitem":
        setattr(Proxy, f"__r{_name.strip('_')}__", _reflected_method(_name))
Proxy.__hash__ = object.__hash__  # type: ignore[method-assign]  # __eq__ is recorded
del _name
