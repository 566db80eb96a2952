"""Recording: ops are written down while a function runs on example inputs.

The recorder stands in the path of ops, of calls of modules and of what reads sizes or values
(design 010). Calls of modules become regions, out of which regions.py makes methods.
"""

import sys
import warnings
from collections.abc import Callable
from typing import Any

from flambeau import _dtype, interposing
from flambeau._dtype import dtype
from flambeau._layout import Size
from flambeau._memory_format import layout, memory_format
from flambeau._tensor import Tensor
from flambeau.aten.calls import aten_call
from flambeau.jit import types as T
from flambeau.jit.building import type_of_constant
from flambeau.jit.environment import Frame
from flambeau.jit.ir import Graph, Node, Value
from flambeau.jit.matching import NoMatch, match
from flambeau.jit.numbering import number_of
from flambeau.jit.places import Source
from flambeau.jit.recorded_indices import RecordedIndices
from flambeau.jit.resolving import functional_form
from flambeau.jit.schemas import overloads
from flambeau.jit.sugar import TupleSugar
from flambeau.jit.traced_numbers import TracedInt, traced, untraced
from flambeau.jit.units import unit
from flambeau.nn import Module
from flambeau.nn.modules.calling import Calling
from flambeau.ops.table import TABLE


class TracerWarning(Warning):
    """A recording may not hold for other inputs."""

    @staticmethod
    def ignore_lib_warnings() -> None:
        """Be silent where flambeau's own modules look at values, as its users cannot help it."""
        warnings.filterwarnings("ignore", category=TracerWarning, module=r"flambeau\.(?!jit\b)")


_MAY_BE_WRONG = (
    "Converting a tensor to a {} might cause the trace to be incorrect. We can't record the data "
    "flow of Python values, so this value will be treated as a constant in the future. This means "
    "that the trace might not generalize to other inputs!"
)
_ITERATING = (
    "Iterating over a tensor might cause the trace to be incorrect. Passing a tensor of different "
    "shape won't change the number of iterations executed (and might lead to errors or silently "
    "give incorrect results)."
)
_LEN = (
    "Using len to get tensor shape might cause the trace to be incorrect. Recommended usage would "
    "be tensor.shape[0]. Passing a tensor of different shape might lead to errors or silently give "
    "incorrect results."
)
_CONSTANT = (
    "torch.tensor results are registered as constants in the trace. You can safely ignore this "
    "warning if you use this function to create tensors out of constant variables that would be "
    "the same every time you call this function. In any other case, this might cause the trace to "
    "be incorrect."
)
_CONVERSIONS = {
    "__bool__": "Python boolean",
    "__float__": "Python float",
    "__int__": "Python integer",
    "__index__": "Python index",
    "tolist": "Python list",
    "numpy": "NumPy array",
    "__array__": "NumPy array",
    "item": "Python number",
}
_PROPERTIES = {"T": "aten::numpy_T", "mT": "aten::mT", "H": "aten::matrix_H", "mH": "aten::mH",
               "data": "aten::detach", "real": "aten::real", "imag": "aten::imag"}  # fmt: skip
# ops that are seen, under another name than that of the op of aten
_RENAMED = {
    "log_sigmoid_forward": "log_sigmoid",
    "nll_loss_forward": "nll_loss_nd",
}
# functions whose parts are no ops of aten
_AS_FORMS = frozenset(
    "interpolate unfold fold embedding embedding_bag cross_entropy nll_loss mse_loss l1_loss "
    "huber_loss smooth_l1_loss binary_cross_entropy binary_cross_entropy_with_logits kl_div "
    "poisson_nll_loss margin_ranking_loss soft_margin_loss hinge_embedding_loss gaussian_nll_loss "
    "multi_margin_loss multilabel_soft_margin_loss cosine_embedding_loss "
    "triplet_margin_loss".split()
)


# methods that stand for an op of another name, or with its arguments the other way round
_CASTS = {
    "bfloat16": _dtype.bfloat16,
    "bool": _dtype.bool_,
    "byte": _dtype.uint8,
    "char": _dtype.int8,
    "double": _dtype.float64,
    "float": _dtype.float32,
    "half": _dtype.float16,
    "int": _dtype.int32,
    "long": _dtype.int64,
    "short": _dtype.int16,
    "chalf": _dtype.complex32,
    "cfloat": _dtype.complex64,
    "cdouble": _dtype.complex128,
}
_REFLECTED = {
    "__rpow__": "pow",
    "__rmod__": "remainder",
    "__rmatmul__": "matmul",
    "__rlshift__": "bitwise_left_shift",
    "__rrshift__": "bitwise_right_shift",
}
_COMMUTING = {
    "__radd__": "add",
    "__rmul__": "mul",
    "__rand__": "bitwise_and",
    "__ror__": "bitwise_or",
    "__rxor__": "bitwise_xor",
}
# methods that give no tensors, or none that depends on values
_QUESTIONS = frozenset(
    "dim ndimension stride storage_offset element_size is_contiguous is_complex is_floating_point "
    "is_signed is_conj is_neg is_inference is_same_size is_shared nelement data_ptr get_device "
    "storage untyped_storage retain_grad register_hook requires_grad_ backward new new_tensor type "
    "__hash__ __repr__ __format__ __len__ is_pinned pin_memory result_type __dir__".split()
)
_DIVISIONS = {"__rtruediv__": "div", "__rdiv__": "div", "__rfloordiv__": "floor_divide"}


class Region:
    """What one call of a module records; the outermost is the whole program."""

    def __init__(self, module: Any, path: str, parent: "Region | None") -> None:
        self.module, self.path, self.parent = module, path, parent
        self.items: list[Any] = []  # nodes, and regions inside


class Recorder(interposing.Handler, RecordedIndices):
    """Writes down what runs on tensors that come from the inputs."""

    kinds = frozenset({"op", "data", "method", "property", "module", "python"})
    level = interposing.OBSERVERS
    sees = "nothing"
    reads_numbers = False  # which would be the number of the example

    def __init__(self, root: Any) -> None:
        interposing.offer(Calling.__call__, "nn.Module", "module")
        self.graph = Graph()
        self.frame = Frame(self.graph, None)
        self.source = Source("")
        self.loops: list[str] = []
        self.declared_return = self.return_type = None
        self.values: dict[int, Value] = {}  # by id of a tensor
        self.alive: list[Any] = []  # an id is a tensor's own as long as the tensor lives
        self.region = self.root = Region(root, "", None)
        self.held: dict[int, list[str]] = {}  # where the tensors of the module are
        self.paths: dict[int, str] = {}  # where its modules are
        self.constants: dict[int, Value] = {}
        self.scopes: list[str] = []  # which hooks opened
        if isinstance(root, Module):
            self._note_module(root)

    def _note_module(self, root):
        for path, module in root.named_modules(remove_duplicate=False):
            self.paths.setdefault(id(module), path)
            held = [*module._parameters.items(), *module._buffers.items()]
            for name, tensor in held:
                if tensor is not None:
                    place = f"{path}.{name}" if path else name
                    self.held.setdefault(id(tensor), []).append(place)
                    self.alive.append(tensor)

    # -- values ------------------------------------------------------------------------------
    def track(self, tensor: Tensor, value: Value) -> None:
        """Note that a tensor is a value of the program."""
        self.values[id(tensor)] = value
        self.alive.append(tensor)

    def known(self, found: Any) -> bool:
        """Does something depend on the inputs or the module?"""
        if isinstance(found, (Tensor, TracedInt)):
            return (
                isinstance(found, TracedInt) or id(found) in self.values or id(found) in self.held
            )
        if isinstance(found, (list, tuple)):
            return any(self.known(item) for item in found)
        if isinstance(found, dict):
            return any(self.known(item) for item in found.values())
        if isinstance(found, slice):
            return any(self.known(item) for item in (found.start, found.stop, found.step))
        return False

    def value_for(self, found: Any) -> Value:
        """A Python value as a value of the program."""
        if isinstance(found, TracedInt) and found.tracer is self:
            return found.value
        if isinstance(found, Tensor):
            return self._tensor_value(found)
        if isinstance(found, (dtype, layout, memory_format)):
            return self.constant(number_of(found))
        if isinstance(found, int) and not isinstance(found, bool):
            return self.constant(int(found))
        if type_of_constant(found) is not None:
            return self.constant(found)
        if isinstance(found, (list, tuple)):
            return self._list_value(found)
        raise NoMatch(f"a value of type {type(found).__name__} in a call")

    def _list_value(self, found):
        items = [self.value_for(item) for item in found]
        kinds = {item.type_ for item in items}
        if not items:
            inner = T.INT
        elif kinds == {T.TENSOR, T.NONE}:
            inner = T.OptionalOf(T.TENSOR)
        else:
            inner = items[0].type_
            if kinds == {T.INT, T.FLOAT}:
                raise NoMatch("a list of numbers of two kinds")
        return self.node("prim::ListConstruct", items, T.ListOf(inner), None)

    def _tensor_value(self, tensor):
        found = self.values.get(id(tensor))
        if found is not None:
            return found
        if id(tensor) in self.held:
            made = self.node("prim::Held", [], T.TENSOR, None, _tensor=tensor)
            self._place(made.node)
            return made
        node = self.graph.add("prim::Constant")
        node.attributes["value"] = tensor
        self._place(node)
        self.alive.append(tensor)
        return node.add_output(T.TENSOR)

    def constant(self, value: Any, place: Any = None) -> Value:
        made = super().constant(value, place)
        self._place(made.node)
        return made

    def node(self, op: str, ins: list, kind: T.Type, place: Any, **attributes: Any) -> Value:
        made = super().node(op, ins, kind, place, **attributes)
        self._place(made.node)
        return made

    def _called(self, name, schema, values, returns, place):
        made = super()._called(name, schema, values, returns, place)
        self._place(self.graph.nodes_[-1])
        return made

    def _place(self, node: Node) -> None:
        """Note in which call of a module a node is."""
        if not self.region.items or self.region.items[-1] is not node:
            self.region.items.append(node)
        node.scope = "/".join(self.scopes)

    def push_scope(self, name: str) -> None:
        """What is recorded from now on says this name, inside of those pushed before."""
        self.scopes.append(name)

    def pop_scope(self) -> None:
        self.scopes.pop()

    def number(self, op: str, parts: list, result: int) -> TracedInt:
        """A number that follows from others."""
        values = [self.value_for(part) for part in parts]
        made = self.value_of(self.builtin(op, None, values), None)
        return traced(result, made, self)

    # -- calls -------------------------------------------------------------------------------
    def around(self, name: interposing.Name, function: Callable, args: tuple, kwargs: dict) -> Any:
        kind = name.kind
        if kind == "module":
            return self._module(function, args, kwargs)
        if kind == "op":
            return self._op(name, function, args, kwargs)
        if kind == "property":
            return self._property(name, function, args, kwargs)
        if kind == "python":
            return self._python(name, function, args, kwargs)
        return self._method(name, function, args, kwargs)

    def _python(self, name, function, args, kwargs):
        """A function that is written in Python: those with ops of our own are called as a whole."""
        key = name.place.key.removeprefix("functional_")
        if key in _AS_FORMS and (self.known(args) or self.known(kwargs)):
            found = self._form(key, args, kwargs)
            if found is not None:
                result = function(*untraced(args), **{k: untraced(v) for k, v in kwargs.items()})
                self._track_result(result, found)
                return result
        return self._inside(function, args, kwargs)

    def _form(self, key, args, kwargs):
        """A call of a function of nn.functional as the script it is; None if there is none."""
        form = functional_form(key)
        if form is None:
            return None
        function = unit.function(form)
        mark = self._mark()
        try:
            values = [self.value_for(a) for a in args]
            options = {k: self.value_for(v) for k, v in kwargs.items()}
            assert function.schema is not None
            found, returns = match(self, function.schema, values, options, None, True)
        except NoMatch:
            self._forget(mark)
            return None
        target = self.graph.add("prim::Constant")
        target.attributes["value"] = function
        self._place(target)
        constant = target.add_output(T.FUNCTION)
        return self.node("prim::CallFunction", [constant, *found], returns[0], None)

    def _module(self, function, args, kwargs):
        module = args[0]
        path = self.paths.get(id(module))
        compiled = hasattr(module, "_type") and module._type is not None
        if path is None or compiled or module is self.root.module:
            return self._inside(function, args, kwargs)
        region = Region(module, path, self.region)
        self.region.items.append(region)
        self.region = region
        try:
            return self._inside(function, args, kwargs)
        finally:
            self.region = region.parent

    def _inside(self, function, args, kwargs):
        """Go on, and see what is called there."""
        with interposing.handling(_Again(self)):
            return function(*args, **kwargs)

    def _method(self, name, function, args, kwargs):
        key = name.place.key
        tensor = args[0] if args and isinstance(args[0], Tensor) else None
        is_known = tensor is not None and self.known(tensor)
        if is_known and key in _CONVERSIONS:
            _warn(_MAY_BE_WRONG.format(_CONVERSIONS[key]))
        elif is_known and key == "__len__" and not _is_iteration():
            _warn(_LEN)
        elif is_known and key == "size":
            return self._size(tensor, function(*args, **kwargs), *args[1:], **kwargs)
        elif is_known and key == "numel":
            made = self.value_of(self.builtin("aten::numel", None, [self.value_for(tensor)]), None)
            return traced(function(*args, **kwargs), made, self)
        elif key == "tensor" and name.kind == "data":
            _warn(_CONSTANT)
        elif is_known and name.kind == "method" and key not in _QUESTIONS:
            return self._op(name, function, args, kwargs)
        return function(*untraced(args), **{k: untraced(v) for k, v in kwargs.items()})

    def _size(self, tensor, result, dim=None):
        source = self.value_for(tensor)
        if isinstance(result, int):
            return self._one_size(source, untraced(dim), result)
        sizes = [self._one_size(source, k, number) for k, number in enumerate(result)]
        return tuple.__new__(Size, sizes)  # Size itself makes plain numbers of them

    def _one_size(self, source, dim, number):
        at = self.constant(dim)
        made = self.value_of(self.builtin("aten::size", None, [source, at]), None)
        return traced(number, made, self)

    def _property(self, name, function, args, kwargs):
        key = name.place.key.removesuffix(".__get__")
        tensor = args[0] if args and isinstance(args[0], Tensor) else None
        result = function(*args, **kwargs)
        if tensor is None or not self.known(tensor):
            return result
        if key == "shape":
            return self._size(tensor, result)
        if key in _PROPERTIES and isinstance(result, Tensor):
            made = self.builtin(_PROPERTIES[key], None, [self.value_for(tensor)])
            self.track(result, self.value_of(made, None))
        return result

    def _op(self, name, function, args, kwargs):
        key = name.place.key
        if key in ("__getitem__", "__setitem__"):
            return self._index(key, function, args, kwargs)
        if key in _CONVERSIONS and self.known(args):
            _warn(_MAY_BE_WRONG.format(_CONVERSIONS[key]))
            return function(*args, **kwargs)
        if key == "unbind" and _is_iteration() and self.known(args):
            _warn(_ITERATING)
        tensors = self.known(args) or self.known(kwargs)
        makes = not any(isinstance(a, Tensor) for a in (*args, *kwargs.values()))
        plain_args = untraced(args)
        plain_kwargs = {k: untraced(v) for k, v in kwargs.items()}
        if not tensors and not makes:
            return function(*plain_args, **plain_kwargs)  # a constant of constants
        mark = self._mark()
        try:
            found = self._recorded(name, args, kwargs)
        except NoMatch as reason:
            self._forget(mark)
            found = self._form(name.place.key.removeprefix("functional_"), args, kwargs)
            if found is not None:
                result = function(*plain_args, **plain_kwargs)
                self._track_result(result, found)
                return result
            result = self._inside(function, plain_args, plain_kwargs)
            if isinstance(result, Tensor) and tensors and id(result) not in self.values:
                raise RuntimeError(f"{name} cannot be recorded: {reason}") from None
            return result
        result = function(*plain_args, **plain_kwargs)
        self._track_result(result, found)
        return result

    def _mark(self):
        return len(self.graph.nodes_), len(self.region.items)

    def _forget(self, mark):
        """Take back what was written for a call that is recorded otherwise."""
        del self.graph.nodes_[mark[0] :]
        del self.region.items[mark[1] :]

    def _recorded(self, name, args, kwargs):
        """The node of a call, under its name in aten."""
        key = name.place.key
        if key in _DIVISIONS:
            # aten divides tensors only; a tensor without dimensions does not change dtypes
            is_number = not isinstance(args[1], Tensor)
            other = self._apply("aten::tensor", args[1]) if is_number else args[1]
            return self._apply("aten::" + _DIVISIONS[key], other, args[0])
        reasons = [f"there is no op {name}"]
        for short, given, named in _readings(name, args, kwargs):
            mark = self._mark()
            try:
                values = [self.value_for(a) for a in given]
                options = {k: self.value_for(v) for k, v in named.items()}
                return self._matching("aten::" + short, values, options)
            except NoMatch as reason:
                self._forget(mark)
                reasons.append(str(reason))
        raise NoMatch(reasons[-1])

    def _matching(self, op, values, options):
        reason = NoMatch(f"no overload of {op} takes such arguments")
        for converting in (False, True):
            for schema in overloads(op):
                mark = self._mark()
                try:
                    found = match(self, schema, values, options, None, converting)
                except NoMatch as error:
                    reason = error
                    self._forget(mark)
                    continue
                return self._called(op, schema, *found, None)
        raise reason

    def _track_result(self, result, found):
        if isinstance(result, Tensor):
            first = found.parts[0] if isinstance(found, TupleSugar) else found
            self.track(result, self.value_of(first, None))
        elif isinstance(result, (tuple, list)):
            parts = self.unpacked(found, None, len(result)) if result else []
            if parts and parts[0].node not in self.region.items:
                self._place(parts[0].node)
            for item, part in zip(result, parts):
                if isinstance(item, Tensor):
                    self.track(item, part)

    # -- calls of programs -------------------------------------------------------------------
    def call(self, function: Any, values: list) -> Any:
        """A call of a function that is a program already."""
        given = [self._any_value(v) for v in values]
        target = self.graph.add("prim::Constant")
        target.attributes["value"] = function
        self._place(target)
        constant = target.add_output(T.FUNCTION)
        kind = function.schema.returns[0]
        made = self.node("prim::CallFunction", [constant, *given], kind, None)
        with interposing.switched_off(*self._mine()):
            result = function.run(*untraced(values))
        self._track_tree(result, made)
        return result

    def call_method_of(self, module: Any, function: Any, values: list) -> Any:
        """A call of a method of a module that is a program already."""
        path = self.paths.get(id(module))
        with interposing.switched_off(*self._mine()):
            result = function.run(module, *untraced(values))
        if path is None:
            return result
        given = [self._any_value(v) for v in values]
        owner = self.node("prim::HeldModule", [], module._type, None, _path=path)
        kind = function.schema.returns[0]
        made = self.node("prim::CallMethod", [owner, *given], kind, None, name=function.name)
        self._track_tree(result, made)
        return result

    def _mine(self):
        return [h for h in interposing.handlers() if h is self or getattr(h, "recorder", 0) is self]

    def _any_value(self, found):
        if isinstance(found, tuple):
            return self.tuple_of([self._any_value(f) for f in found], None)
        return self.value_for(found)

    def _track_tree(self, result, value):
        if isinstance(result, Tensor):
            self.track(result, value)
        elif isinstance(result, tuple):
            node = self.graph.add("prim::TupleUnpack", [value])
            self._place(node)
            for item, kind in zip(result, value.type_.parts):
                self._track_tree(item, node.add_output(kind))
        elif isinstance(result, list) and result:
            node = self.graph.add("prim::ListUnpack", [value])
            self._place(node)
            for item in result:
                self._track_tree(item, node.add_output(value.type_.part))


def _readings(name, args, kwargs):
    """A call as written, then as aten has it: (op, arguments, those by name)."""
    short, key = name.partition("::")[2] or name.place.key, name.place.key
    short = _RENAMED.get(short, short)
    if key in _CASTS:
        yield "to", (args[0], _CASTS[key]), {}
    elif key == "type_as":
        yield key, args, kwargs
    elif key in _REFLECTED:
        yield _REFLECTED[key], args[::-1], kwargs
    elif key in _COMMUTING:
        yield _COMMUTING[key], args, kwargs
    elif overloads("aten::" + short) and (not key.startswith("__r") or short == "rsub"):
        yield short, args, _with_reduction(name, args, _without_out(kwargs))
    found = aten_call(name, args, kwargs)
    if found is not None and overloads("aten::" + found[0]):
        yield found[0], found[2], _without_out(found[3])


def _with_reduction(name, args, kwargs):
    """Losses of torch do not reduce unless told to, although their signatures say so."""
    row = TABLE.get(name.place.row)
    for place, param in enumerate(row.params if row is not None else ()):
        if param.name == "reduction" and place >= len(args) and isinstance(param.default, int):
            return {"reduction": param.default, **kwargs}
    return kwargs


def _without_out(kwargs):
    return {k: v for k, v in kwargs.items() if k != "out" or v is not None}


def _is_iteration():
    """Is this call made by Tensor.__iter__?"""
    frame = sys._getframe(1)
    for _ in range(12):
        if frame is None:
            return False
        if frame.f_code.co_name == "__iter__":
            return True
        frame = frame.f_back
    return False


def _warn(text):
    warnings.warn(text, TracerWarning, stacklevel=8)


class _Again(interposing.Handler):
    """Records what is called inside of a call that its recorder goes on with."""

    kinds = Recorder.kinds
    level = interposing.OBSERVERS
    sees = "nothing"

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder

    def around(self, name: interposing.Name, function: Callable, args: tuple, kwargs: dict) -> Any:
        return self.recorder.around(name, function, args, kwargs)
