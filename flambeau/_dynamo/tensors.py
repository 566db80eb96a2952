"""Reading ops: calls on tensors become nodes of the graph; shapes come from tensors without memory.

An op runs twice: here on tensors of the device `meta`, which finds shape, dtype, strides and
whether gradients are wanted, and later, from the graph, on real ones. What cannot be known without
values (`item`, `nonzero`) fails on meta tensors, which is a break.
"""

import inspect
import operator
import re
import types
from typing import Any

import flambeau
from flambeau import _device, _dtype, interposing
from flambeau._dynamo.exc import Break
from flambeau._dynamo.shape_runs import made_fake
from flambeau._dynamo.values import (
    BoundMethod,
    Outside,
    Partial,
    Symbolic,
    TensorValue,
    holds_symbols,
    is_named_tuple,
)
from flambeau._dynamo.varying import NumberValue, Step, seen_of
from flambeau._layout import Size
from flambeau._memory_format import layout, memory_format
from flambeau._tensor import Tensor
from flambeau._tensor.attachment import shown
from flambeau.amp.redirection import state
from flambeau.autograd.grad_mode import modes
from flambeau.eager import methods
from flambeau.interposing import places
from flambeau.nn.parameter import Parameter

META = _device.device("meta")
CPU = _device.device("cpu")
_ARGUMENTS = (
    int, float, bool, str, complex, type(None), type(...), Size, _dtype.dtype, memory_format,
    layout,
)  # fmt: skip
# questions about shape and dtype
_QUESTIONS = frozenset(
    "size dim ndimension numel nelement stride is_contiguous is_floating_point is_complex "
    "element_size is_signed is_same_size dim_order is_conj is_neg __len__".split()
)
_FACTS = frozenset("shape ndim dtype itemsize nbytes requires_grad is_leaf layout".split())
_NEVER = frozenset(
    "is_meta is_mkldnn is_mps is_nested is_quantized is_sparse is_sparse_csr is_xpu".split()
)
_TENSORS = frozenset("T mT H mH real imag data".split())
# these change what a tensor is, not only what it holds, or look at memory and values
_REFUSED = frozenset(
    "requires_grad_ resize_ resize_as_ set_ t_ transpose_ swapaxes_ swapdims_ squeeze_ unsqueeze_ "
    "as_strided_ detach_ item tolist numpy backward register_hook retain_grad data_ptr storage "
    "untyped_storage storage_offset share_memory_ pin_memory apply_ map_ is_nonzero equal allclose "
    "is_set_to __bool__ __int__ __float__ __index__ __complex__ __contains__ __array__ new_tensor "
    "new as_subclass register_post_accumulate_grad_hook __deepcopy__ __reduce_ex__ type cuda "
    "_resize_output is_inference get_device rename_ update put_".split()
)
_KINDS = frozenset({"op", "python"})
_METHODS = frozenset("detach zero_ polygamma polygamma_ cfloat cdouble __pos__ __invert__".split())
_CREATE_DATA = frozenset({"tensor"})
_DEVICES = re.compile(r"(cpu|cuda(:\d+)?)$").match
_NAMES = {operator.getitem: "__getitem__", operator.setitem: "__setitem__"}


class _Offers:
    """Functions that are ops, which is asked of interposing/."""

    def __init__(self) -> None:
        self.known: dict[Any, str | None] = {}
        self.ready = False

    def kind(self, function: Any) -> str | None:
        """op, python, data, method, ... or None."""
        if not isinstance(function, types.FunctionType):
            return None
        if not self.ready:
            places.offer_all()
            self.ready = True
        offered = interposing._offers.get(function)
        if offered is None:
            return None
        if type(offered) is not interposing.Place and offered.naming is None:
            return places.resolve(offered.key)[0]
        return offered.kind


offers = _Offers()


def is_op(function: Any) -> bool:
    """Is it a function of flambeau that computes tensors?"""
    kind = offers.kind(function)
    name = getattr(function, "__name__", "")
    if kind == "data":
        return name in _CREATE_DATA
    if kind == "method":
        return name in _METHODS
    return kind in _KINDS and name not in _REFUSED and name not in ("grad", "backward")


class Tensors:
    """The part of the reader that records ops."""

    # -- inputs ----------------------------------------------------------------------------------
    def tensor_input(self: Any, tensor: Any, source: tuple) -> TensorValue:
        """A tensor from outside: an input of the graph."""
        found = self.inputs_by_id.get(id(tensor))
        guards = self.guards
        if found is not None:
            first, here = guards.variable(found.source), guards.variable(source)
            if first != here:
                guards.require(f"{here} is {first}")
            return found
        if type(tensor) not in (Tensor, Parameter):
            raise Break(f"a tensor of the class {type(tensor).__qualname__}")
        self.settle_place(tensor._layout.device)
        variable = guards.variable(source)
        guards.same_type(source, tensor)
        moving = self.sizes.dims(source, tensor)
        if not moving:
            guards.require(f"{variable}._layout is {guards.constant(tensor._layout)}")
        guards.require(f"{variable}._requires_grad is {tensor._requires_grad}")
        if tensor._requires_grad:
            word = "is" if tensor._grad_fn is None else "is not"
            guards.require(f"{variable}._grad_fn {word} None")
        value = TensorValue(self._placeholder(self.name_of(source)), None, bool(moving))
        value.source, value.real, value.cls = source, tensor, type(tensor)
        value.fake, value.moving = made_fake(tensor._layout, value.fake_kind()), moving
        value.number = len(self.inputs)
        value.node.meta["example_value"] = value.fake
        self.inputs.append(value)
        self.inputs_by_id[id(tensor)] = value
        self.by_fake[id(value.fake)] = value
        return value

    def name_of(self: Any, source: tuple) -> str:
        """A name for an input."""
        return _name_of(self, source)

    def settle_place(self: Any, device: Any) -> None:
        """All tensors of a graph are on one device: that of the first."""
        if self.place is None and device.type in ("cpu", "cuda"):
            self.place = device
            state.me.stands["meta"] = device.type  # whose autocast tensors without memory are under
        elif device != self.place:
            raise Break(f"a tensor on {device}")

    def native_tensor(self: Any, data: Any, dtype: Any, device: Any) -> Tensor:
        """A tensor with memory, of numbers."""
        try:
            return flambeau.tensor(data, dtype=dtype, device=device)
        except (TypeError, ValueError, RuntimeError) as error:
            raise Break(f"{type(error).__name__}: {error}", error) from error

    def _placeholder(self, name):
        """An input, after the inputs that are there and before all else."""
        if self.first_node is None:
            node = self.graph.placeholder(name)
        else:
            with self.graph.inserting_before(self.first_node):
                node = self.graph.placeholder(name)
        node.target = node.name  # two paths may have one name
        return node

    # -- recording -------------------------------------------------------------------------------
    def tensor_operator(self: Any, apply: Any, left: Any, right: Any) -> Any:
        """An operator with a tensor on one side at least."""
        for value in (left, right):
            if isinstance(value, Symbolic) and not isinstance(value, (TensorValue, NumberValue)):
                raise Break(f"an operator between a tensor and {value.describe()}")
        return self.record_function(apply, (left, right), {})

    def record_function(self: Any, function: Any, args: tuple, kwargs: dict) -> Any:
        """A call of a function."""
        return self._record("call_function", function, function, args, kwargs)

    def tensor_method(self: Any, owner: TensorValue, name: str, args: tuple, kwargs: dict) -> Any:
        """A call of a method of a tensor."""
        if name in _QUESTIONS:
            return self._ask(owner, name, args, kwargs)
        if name == "cpu" and self.place == CPU and not args and not kwargs:
            return owner
        if name == "type" and (args or kwargs):
            return self._record("call_method", name, getattr(Tensor, name), (owner, *args), kwargs)
        if name == "backward":
            return self.record_backward(owner, args, kwargs)
        if name in _REFUSED:
            raise Break(f"Tensor.{name}()")
        function = getattr(Tensor, name, None)
        if not is_op(function):
            raise Break(f"Tensor.{name}()")
        return self._record("call_method", name, function, (owner, *args), kwargs)

    def _ask(self, owner, name, args, kwargs):
        """A question about shape or dtype."""
        if owner.varies and name in ("numel", "nelement"):
            return self.number_of(owner)
        args = tuple(self.settle(a) if isinstance(a, NumberValue) else a for a in args)
        if holds_symbols((args, kwargs)):
            raise Break(f"Tensor.{name}() of tensors")
        if owner.varies and name in ("size", "__len__"):
            return self._size(owner, name, *args, **kwargs)
        if name == "stride" and owner.number < 0 and 1 in owner.fake.shape:
            raise Break("strides of a result with a size of one, which kernels choose")
        try:
            return self.asked(owner, name, args, kwargs)
        except Exception as error:
            raise Break(f"{type(error).__name__}: {error}") from error

    def _size(self, owner, name, dim=None):
        dim = 0 if name == "__len__" else dim
        if dim is None:
            return self.shape_of(owner)
        count = owner.fake.dim()
        if not -count <= dim < count:
            raise Break(f"there is no dimension {dim}")
        return self.size_of(owner, dim % count)

    def tensor_attribute(self: Any, owner: TensorValue, name: str) -> Any:
        """An attribute of a tensor."""
        if owner.varies and name in ("shape", "nbytes"):
            if name == "shape":
                return self.shape_of(owner)
            return self.number_of(owner) * owner.fake.itemsize
        if self.transforms and name in ("requires_grad", "is_leaf", "grad"):
            raise Break(f"Tensor.{name} inside of a transform")
        if name in _FACTS:
            return getattr(owner.fake, name)
        if name == "device":
            return self.place
        if name in ("is_cpu", "is_cuda"):
            return name == f"is_{self.place.type}"
        if name in _NEVER:
            return False
        if name in _TENSORS:
            return self.record_function(getattr, (owner, name), {})
        if name == "grad" and owner.source is not None and not self.has_steps:
            return self.wrap(owner.real.grad, ("attr", owner.source, "grad"))
        if name == "__class__":
            return owner.cls
        found = shown(inspect.getattr_static(Tensor, name, None))
        if isinstance(found, (types.FunctionType, methods._Stub)):
            real = getattr(Tensor, name)
            if isinstance(real, types.FunctionType):
                return BoundMethod(owner, name)
        raise Break(f"Tensor.{name}")

    def _record(self, op, target, function, args, kwargs):
        """A node, if the op works on tensors without memory."""
        args, kwargs = self._settled(args), self._settled(kwargs)
        found: list[TensorValue] = []
        numbers: list[NumberValue] = []

        def fake(value):
            if isinstance(value, NumberValue):
                numbers.append(value)
                return value.hint
            found.append(value)
            return value.fake

        meta = self._as_meta
        fakes, fake_options = mapped(args, fake, meta), mapped(kwargs, fake, meta)
        if not found and kwargs.get("device") is None:
            self.settle_place(CPU)  # made from nothing
        name = _NAMES.get(function, getattr(function, "__name__", ""))
        versions = [v.fake._storage.version for v in found]
        facts = [(v.fake._requires_grad, v.fake._grad_fn) for v in found]
        try:
            result = function(*fakes, **fake_options)
        except Break:
            raise
        except Exception as error:
            told = f"{name}: {type(error).__name__}: {error}"
            unknown = isinstance(error, NotImplementedError) or "meta" in str(error)
            raise Break(told, None if unknown else error) from error
        writes = any(v.fake._storage.version != old for v, old in zip(found, versions))
        writes = writes or _writes_by_name(name, function, args, kwargs)
        node_args, node_kwargs = mapped(args, _node_of), mapped(kwargs, _node_of)
        node = self.added(getattr(self.graph, op)(target, node_args, node_kwargs))
        self.count += 1
        given, named = mapped(args, _node_of, meta), mapped(kwargs, _node_of, meta)
        self.log.append(Step(node, function, given, named, seen_of(result, self.owner_of)))
        if writes:
            node.meta["writes"] = True
            self.written |= {id(v) for v in found if v.number >= 0}
            self.written_kinds |= {v.fake.dtype for v in found}
            self.writes = True
        if any((v.fake._requires_grad, v.fake._grad_fn) != old for v, old in zip(found, facts)):
            self.writes = True
        return self.result_of(node, result, name, bool(numbers) or any(v.varies for v in found))

    def _as_meta(self, device):
        """The device without memory, in place of the one that this graph is on."""
        try:
            place = _device.resolve(device)
        except (AssertionError, RuntimeError) as error:
            raise Break(f"{type(error).__name__}: {error}", error) from error
        unnamed = place.type == "cuda" and device.index is None
        if unnamed and _device.runtimes_of(place).driver.count() > 1:
            raise Break("the current GPU, which may be another one at the next call")
        self.settle_place(CPU if place.type == "cpu" else place)
        return META

    def owner_of(self: Any, fake: Any) -> Any:
        """The node of a tensor that is known already."""
        known = self.by_fake.get(id(fake))
        return None if known is None else known.node

    def added(self: Any, node: Any) -> Any:
        """A node that was just made; the first of them is where inputs end."""
        if self.first_node is None:
            self.first_node = node
        return node

    def _settled(self, value):
        """Arguments without lists from outside."""
        if isinstance(value, Outside):
            opened = self.opened(value)
            if isinstance(opened, Outside):
                raise Break(f"{value.describe()} as an argument of an op")
            return self._settled(opened)
        if type(value) in (list, tuple):
            return type(value)(self._settled(v) for v in value)
        if type(value) is dict:
            return {k: self._settled(v) for k, v in value.items()}
        if isinstance(value, slice):
            return slice(*(self._settled(v) for v in (value.start, value.stop, value.step)))
        if isinstance(value, (TensorValue, NumberValue)) or value is getattr:
            return value
        if type(value) in _ARGUMENTS:
            return value
        if isinstance(value, _device.device):
            return value
        if isinstance(value, tuple) and is_named_tuple(type(value)):
            return tuple(self._settled(v) for v in value)
        if isinstance(value, (BoundMethod, Partial, Symbolic)):
            raise Break(f"{value.describe()} as an argument of an op")
        raise Break(f"an object of {type(value)} as an argument of an op")

    def result_of(self: Any, node: Any, result: Any, name: str, varies: bool) -> Any:
        """What a node gives, as the program sees it."""
        if isinstance(result, Tensor):
            return self._tensor_result(node, result, varies)
        if result is None:
            return None
        if isinstance(result, (tuple, list)) and not isinstance(result, Size):
            items = []
            for k, item in enumerate(result):
                part = self.graph.call_function(operator.getitem, (node, k))
                seen = seen_of(item, self.owner_of)
                self.log.append(Step(part, operator.getitem, (node, k), {}, seen))
                items.append(self.result_of(part, item, name, varies))
            if isinstance(result, list):
                return items
            return tuple.__new__(type(result), items)
        raise Break(f"{name}, which gives {type(result).__name__} instead of a tensor")

    def _tensor_result(self, node, fake, varies):
        known = self.by_fake.get(id(fake))
        if known is not None:
            return known
        if fake.device != META:
            raise Break("a tensor that is known while reading")
        if type(fake) is not Tensor:
            raise Break(f"a tensor of the class {type(fake).__qualname__}")
        value = TensorValue(node, fake, varies)
        node.meta["example_value"] = fake
        self.by_fake[id(fake)] = value
        return value

    # -- recording of gradients ------------------------------------------------------------------
    def set_grad(self: Any, mode: bool) -> None:
        """Recording on or off from here on, now and in the graph."""
        if modes.grad is not mode:
            modes.grad = mode
            switch = flambeau._C._set_grad_enabled
            node = self.added(self.graph.call_function(switch, (mode,)))
            self.log.append(Step(node, switch, (mode,), {}, None))
            self.switches = True

    def enter_grad(self: Any, switch: Any) -> bool:
        """Enter no_grad or its kin; what to go back to."""
        previous = modes.grad if switch.previous is None else switch.previous
        self.set_grad(switch.mode)
        return previous


def _node_of(value):
    return value.node


def mapped(value: Any, leaf: Any, place: Any = None, key: Any = None) -> Any:
    """Arguments with leaf(v) for tensors and numbers, and place(d) for devices."""
    if isinstance(value, (TensorValue, NumberValue)):
        return leaf(value)
    if type(value) in (list, tuple):
        return type(value)([mapped(v, leaf, place) for v in value])
    if type(value) is Size and holds_symbols(value):
        return tuple([mapped(v, leaf, place) for v in value])
    if type(value) is dict:
        return {k: mapped(v, leaf, place, k) for k, v in value.items()}
    if isinstance(value, slice):
        parts = (value.start, value.stop, value.step)
        return slice(*[mapped(v, leaf, place) for v in parts])
    if place is not None and isinstance(value, _device.device):
        return place(value)
    if place is not None and isinstance(value, str) and (key == "device" or _DEVICES(value)):
        return place(_device.device(value))
    return value


def _writes_by_name(name, function, args, kwargs):
    """Does a call change one of its arguments?"""
    if kwargs.get("out") is not None or kwargs.get("inplace") is True:
        return True
    if name in ("batch_norm", "instance_norm"):
        return _updates_statistics(name, args, kwargs)
    if name.endswith("_") and not name.endswith("__"):
        return True
    if name == "__setitem__" or (len(name) > 4 and function in _INPLACE_OPERATORS):
        return True
    if "inplace" in _parameters(function):
        at = _parameters(function).index("inplace")
        return len(args) > at and args[at] is True
    return False


def _updates_statistics(name, args, kwargs):
    """Does a normalisation change its running statistics?"""
    given = dict(zip(("input", "running_mean", "running_var", "weight", "bias", "stats"), args))
    stats = kwargs.get("training", kwargs.get("use_input_stats", name == "instance_norm"))
    running = given.get("running_mean", kwargs.get("running_mean"))
    return bool(given.get("stats", stats)) and running is not None


_INPLACE_OPERATORS = frozenset(
    getattr(operator, "i" + n)
    for n in "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift".split()
)


def _parameters(function):
    code = interposing.own_code(function) if isinstance(function, types.FunctionType) else None
    return () if code is None else code.co_varnames[: code.co_argcount]


def _name_of(reader, source):
    """A name for an input: the path to it."""
    parts: list[str] = []
    while source[0] in ("item", "attr", "dict", "cell"):
        if source[0] == "cell":
            parts.append(reader.fn.__code__.co_freevars[source[2]]
                         if source[1] == ("fn",) else "captured")  # fmt: skip
        elif source[0] != "dict":
            parts.append(str(source[2]))
        source = source[1]
    if source[0] in ("arg", "kwarg"):
        parts.append(reader.argument_names.get(source, "arg"))
    skipped = ("__globals__", "_modules", "_parameters", "_buffers", "__defaults__")
    text = "_".join(p for p in reversed(parts) if p not in skipped)
    name = "".join(c if c.isalnum() else "_" for c in text).strip("_") or "input"
    return "_" + name if name[0].isdigit() else name
