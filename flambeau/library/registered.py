"""Ops that a program has registered: a schema, kernels by device, and how others see it.

A call checks its arguments against the schema. Then, in this order, a rule for vmap, a gradient, a
function for tensors without values, and the kernel of the device are asked for, each only if there
is one that applies. `torch.ops.space.name` shows such an op as it does one of aten.
"""

import contextlib
import functools
import inspect
import itertools
import re
import threading
from collections.abc import Callable
from typing import Any

from flambeau import Tensor
from flambeau.amp.autocast_mode import is_autocast_enabled
from flambeau.aten.overloads import OpOverload, OpOverloadPacket, namespace
from flambeau.aten.schemas import Argument, FunctionSchema, fits
from flambeau.autograd import Function
from flambeau.autograd.grad_mode import is_grad_enabled, no_grad
from flambeau.autograd.graph import increment_version
from flambeau.interposing import offer

ENTRIES: dict[str, dict[str, "Entry"]] = {}  # "space::name" -> overload -> op

_FOR_ALL = ("CompositeExplicitAutograd", "CompositeImplicitAutograd")
_DEVICES = (
    "cpu, cuda, ipu, xpu, mkldnn, opengl, opencl, ideep, hip, ve, fpga, maia, xla, lazy, vulkan, "
    "mps, meta, hpu, mtia, privateuseone"
)
_BACKENDS = {name: name.upper() for name in _DEVICES.split(", ")}
_BACKENDS |= {"meta": "Meta", "privateuseone": "PrivateUse1"}
# what takes NumPy's scalars, and what of Python's they become
_PYTHON_NUMBERS: dict[str, type] = {"float": float, "int": int, "SymInt": int}
_KEYS = {
    *_BACKENDS.values(), *_FOR_ALL, "CompositeImplicitAutogradNestedTensor", "Autograd",
    *("Autograd" + key for key in _BACKENDS.values()), "AutogradOther", "BackendSelect", "Python",
    "ADInplaceOrView", "AutocastCPU", "AutocastCUDA", "Functionalize", "Conjugate", "Negative",
    "FuncTorchBatched", "SparseCPU", "SparseCUDA", "QuantizedCPU", "Undefined",
}  # fmt: skip


def backend_key(device_type: str) -> str:
    """CPU for cpu."""
    if device_type not in _BACKENDS:
        raise RuntimeError(
            f"Expected one of {_DEVICES} device type at start of device string: {device_type}"
        )
    return _BACKENDS[device_type]


def check_key(key: str) -> None:
    """Refuse what is no dispatch key."""
    if key not in _KEYS:
        raise RuntimeError(f"could not parse dispatch key: {key}")


class below_autograd(no_grad):
    """In a block nothing is recorded, and kernels in the place of autograd are passed by."""

    def __enter__(self) -> None:
        _inside.below = getattr(_inside, "below", 0) + 1
        super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        _inside.below -= 1


_inside = threading.local()


# -- schemas ---------------------------------------------------------------------------------------

_TYPES = re.compile(
    r"(Tensor|SymInt|int|float|bool|str|complex|Scalar|ScalarType|Device|Layout|MemoryFormat|"
    r"Generator|Dimname|Storage|Stream|SymBool|number|t|Any)(\([^)]*\))?\??(\[\d*\])?\??"
)


def parsed(text: str, space: str) -> FunctionSchema:
    """A schema without its namespace, checked."""
    if "(" not in text:
        raise RuntimeError(f"expected ( but found 'eof' here:\n{text}")
    head = text[: text.index("(")]
    if not re.fullmatch(r"[A-Za-z_][\w.]*", head):
        raise RuntimeError(f"expected eof but found 'ident' here:\n{text}")
    depth = end = 0
    for end, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if character == ")" and depth == 0:
            break
        if text[end : end + 2] == "->" and depth == 1:
            raise RuntimeError(f"expected ) but found 'arrow' here:\n{text}")
    if depth:
        raise RuntimeError(f"expected ) but found 'eof' here:\n{text}")
    if not text[end + 1 :].strip().startswith("->"):
        raise RuntimeError(f"expected arrow but found 'eof' here:\n{text}")
    schema = FunctionSchema(_with_marks(_floats(text)), space)
    for argument in (*schema.arguments, *schema.returns):
        if argument.type not in ("", "()") and not _TYPES.fullmatch(argument.type.strip("()")):
            raise RuntimeError(
                "\nunknown type specifier. Common valid schema types include Tensor, SymInt, int, "
                f"float, bool, Scalar:\n{text}"
            )
    return schema


def _floats(text):
    """Defaults as PyTorch shows them: 2. for 2.0."""
    return re.sub(r"=(-?\d+)\.0(?=[,)])", r"=\1.", text)


def _with_marks(text):
    """Tensor! as PyTorch shows it: a mark that no other argument has."""
    numbers = itertools.count()
    return re.sub(r"(Tensor(\[\d*\])?)!", lambda found: f"{found[1]}(${next(numbers)}! -> )", text)


def _kind_name(value):
    return type(value).__name__


class Entry:
    """One op of a program."""

    def __init__(self, space: str, schema: FunctionSchema) -> None:
        self.space, self.schema = space, schema
        self.name = schema.name.partition("::")[2]
        self.label = f"{schema.name}{'.' * bool(schema.overload_name)}{schema.overload_name}"
        self.kernels: dict[str, Callable] = {}
        self.is_checked = False  # is it one of custom_op, whose results must be new?
        self.shown = self.label  # what errors about missing functions call it
        self.backward: Callable | None = None
        self.setup_context: Callable | None = None
        self.vmap: Callable | None = None
        self.autocast: dict[str, Any] = {}
        self.off: set[str] = set()
        self.overload: OpOverload = _published(self)
        self._function: Any = None

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        args, kwargs = self.bound(args, kwargs)
        tensors = [*tensors_in(args), *tensors_in(list(kwargs.values()))]
        if self.vmap is not None and any(hasattr(t, "_level") for t in tensors):
            return self.function().run(args, kwargs)
        if self.autocast:
            args, kwargs = self._cast(tensors, args, kwargs)
        above = self._above(tensors)
        if above is not None:
            return above(*args, **kwargs)
        if self._is_recorded() and is_grad_enabled() and any(t.requires_grad for t in tensors):
            return self.function().run(args, kwargs)
        if not self.is_checked:
            return self.computed(tensors, args, kwargs)
        with no_grad():
            return self.computed(tensors, args, kwargs)

    # -- arguments -------------------------------------------------------------------------------
    def bound(self, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        """(arguments by position, with defaults filled; those by name)."""
        by_position = [a for a in self.schema.arguments if not a.kwarg_only]
        words = f"{self.space}::{self.name}()"
        ending = f"Declaration: {self.schema}"
        unknown = next((name for name in kwargs if name not in self.schema.named), None)
        if len(args) > len(by_position) or (unknown is not None and len(args) == len(by_position)):
            raise RuntimeError(
                f"{words} expected at most {len(self.schema.arguments)} argument(s) but received "
                f"{len(args) + len(kwargs)} argument(s). {ending}"
            )
        if unknown is not None:
            raise RuntimeError(
                f"Unknown keyword argument '{unknown}' for operator '{self.label}'. Schema: "
                f"{self.schema}"
            )
        found, named = [], {}
        for k, argument in enumerate(self.schema.arguments):
            if k < len(args) and not argument.kwarg_only:
                value = args[k]
            elif argument.name in kwargs:
                value = kwargs[argument.name]
            elif argument.has_default_value():
                value = argument.default_value
            else:
                raise RuntimeError(
                    f"{words} is missing value for argument '{argument.name}'. {ending}"
                )
            value = self._value(k, argument, value)
            if argument.kwarg_only:
                named[argument.name] = value
            else:
                found.append(value)
        return tuple(found), named

    def _value(self, k: int, argument: Argument, value: Any) -> Any:
        kind = argument.type.removesuffix("?")
        if value is None and (argument.is_tensor or argument.is_optional):
            return None
        if argument.has_default_value() and value is argument.default_value:
            return value
        if isinstance(value, bool) and kind in ("int", "SymInt", "float"):
            return value
        if isinstance(value, Tensor) and not argument.is_tensor and value.numel() == 1:
            return value.item() if kind in ("int", "SymInt", "float", "bool", "Scalar") else value
        if type(value).__module__ == "numpy" and kind in _PYTHON_NUMBERS:
            return _PYTHON_NUMBERS[kind](value)
        if isinstance(value, tuple) and argument.is_list:
            value = list(value)
        if fits(value, argument):
            return value
        shown = re.sub(r"(.+)\[\d*\]", r"List[\1]", kind.replace("SymInt", "int"))
        raise RuntimeError(
            f"{self.space}::{self.name}() Expected a value of type '{shown}' for argument "
            f"'{argument.name}' but instead found type '{_kind_name(value)}'.\nPosition: {k}\n"
            f"Value: {value!r}\nDeclaration: {self.schema}"
        )

    def _cast(self, tensors, args, kwargs):
        device = tensors[0].device.type if tensors else "cpu"
        wanted = self.autocast.get(device)
        if wanted is None or not is_autocast_enabled(device):
            return args, kwargs

        def cast(value):
            if isinstance(value, (list, tuple)):
                return type(value)(map(cast, value))
            if isinstance(value, Tensor) and value.is_floating_point():
                return value.to(wanted)
            return value

        return cast(args), {name: cast(value) for name, value in kwargs.items()}

    # -- which function --------------------------------------------------------------------------
    def _above(self, tensors):
        """A kernel that takes the place of all below: gradients as a program writes them."""
        if getattr(_inside, "below", 0):
            return None
        keys = {"Autograd" + key for key in self._backends(tensors)} | {"Autograd"}
        return next((self.kernels[key] for key in keys if key in self.kernels), None)

    def _backends(self, tensors):
        types = {t.device.type for t in tensors} or {"cpu"}
        return [_BACKENDS.get(kind, kind) for kind in sorted(types, key=("cpu", "cuda").count)]

    def _is_recorded(self):
        """Has it a gradient, or ought to have one?"""
        if self.schema.is_mutable and self.backward is None:
            return self.is_checked and bool(self.schema.returns)
        return self.is_checked or self.backward is not None

    def computed(self, tensors: list, args: tuple, kwargs: dict) -> Any:
        """What the kernel for these tensors gives."""
        kernel, is_fake = self._kernel(tensors)
        found = kernel(*args, **kwargs)
        if is_fake:
            return found
        self._check_results(kernel, tensors, found)
        for argument in self.schema.arguments:
            if argument.is_write and self.is_checked:
                for t in tensors_in([self._given(argument, args, kwargs)]):
                    increment_version(t)
        return found

    def _given(self, argument, args, kwargs):
        if argument.kwarg_only:
            return kwargs[argument.name]
        return args[self.schema.arguments.index(argument)]

    def _kernel(self, tensors):
        """(the function that computes, whether it gives shapes only)."""
        backends = self._backends(tensors)
        if any(not t.device.runtime.computes for t in tensors):
            fake = self.kernels.get("Meta")
            if fake is None:
                fake = next((self.kernels[k] for k in _FOR_ALL if k in self.kernels), None)
            if fake is None and self.is_checked:
                raise RuntimeError(
                    f"There was no fake impl registered for {self.shown}. This is necessary for "
                    "torch.compile/export/fx tracing to work. Please use "
                    f"`{self.name}.register_fake` to add an fake impl."
                )
            if fake is not None:
                return fake, True
        for key in backends:
            if key in self.kernels and key not in self.off:
                return self.kernels[key], False
        for key in ("default", *_FOR_ALL):
            if key in self.kernels:
                return self.kernels[key], False
        if backends[0] == "Meta":
            raise NotImplementedError(
                f"{self.label}: attempted to run this operator with Meta tensors, but there was no "
                "fake impl or Meta kernel registered; register_fake adds one."
            )
        raise NotImplementedError(
            f"Could not run '{self.label}' with arguments from the '{backends[0]}' backend. "
            f"It has kernels for {sorted(self.kernels) or 'none'}."
        )

    # -- results ---------------------------------------------------------------------------------
    def _check_results(self, kernel, tensors, found):
        returns = self.schema.returns
        nothing = not returns or (len(returns) == 1 and returns[0].type in ("", "()"))
        if nothing and found is not None:
            raise RuntimeError(
                f"Expected PythonKernelHolder for {self.label} to return None but it returned "
                "something else instead."
            )
        if len(returns) == 1 and returns[0].type == "Tensor" and not isinstance(found, Tensor):
            raise RuntimeError(f"Unable to cast {found} to Tensor")
        if len(returns) > 1 and not isinstance(found, (tuple, list)):
            raise TypeError(
                f"Object of type '{_kind_name(found)}' is not an instance of 'sequence'"
            )
        if self.is_checked and not any(r.alias for r in returns):
            self._check_new(kernel, tensors, found)

    def _check_new(self, kernel, tensors, found):
        """Results of an op must not share memory with its arguments, or with each other."""
        known = {id(t._storage) for t in tensors if hasattr(t, "_storage")}
        for t in tensors_in([found]):
            if not hasattr(t, "_storage"):
                continue
            if id(t._storage) in known:
                raise RuntimeError(
                    f"{self.name} (with implementation in {inspect.getmodule(kernel)}): The output "
                    "of this custom operator (1) must not also be an input to this custom operator "
                    "and (2) may not alias any inputs to this custom operator or other returns. "
                    "The most common way to trigger this error is if we have y = custom_op(x) and "
                    "y and x are the same Tensor. Please instead return a clone of the offending "
                    "output tensor(s) (e.g. return x.clone()) or refactor the custom operator to "
                    "not return y."
                )
            known.add(id(t._storage))

    # -- gradients -------------------------------------------------------------------------------
    def function(self) -> Any:
        """The Function that records it."""
        if self._function is None:
            label = f"{self.space}_{self.name}_{self.schema.overload_name or 'default'}"
            self._function = type(f"GeneratedBackwardFor_{label}", (_Recorded,), {"entry": self})
        return self._function


offer(Entry.__call__, lambda args, kwargs: args[0].label)


def tensors_in(values: Any) -> list[Tensor]:
    """Tensors of arguments, also those in lists."""
    found = []
    for value in values:
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found += tensors_in(value)
    return found


class _Recorded(Function):
    """An op on the tape. Arguments are spread, so that tensors in lists have gradients, too."""

    entry: Entry

    @classmethod
    def run(cls, args: tuple, kwargs: dict) -> Any:
        shape: list = [len(a) if isinstance(a, list) else None for a in args]
        flat = [v for a in args for v in (a if isinstance(a, list) else [a])]
        found = cls.apply((shape, kwargs), *flat)
        is_list = [r.type for r in cls.entry.schema.returns] == ["Tensor[]"]
        return list(found) if is_list else found

    @staticmethod
    def gathered(shape: list, flat: Any) -> tuple:
        values, found = iter(flat), []
        for count in shape:
            found.append(next(values) if count is None else [next(values) for _ in range(count)])
        return tuple(found)

    @classmethod
    def forward(cls, how, *flat):
        args = cls.gathered(how[0], flat)
        tensors = [*tensors_in(args), *tensors_in(list(how[1].values()))]
        with no_grad():
            found = cls.entry.computed(tensors, args, how[1])
        return tuple(found) if isinstance(found, list) else found

    @classmethod
    def setup_context(cls, ctx, inputs, output):
        how, *flat = inputs
        ctx._shape = how[0]
        if cls.entry.setup_context is None:
            return
        args = cls.gathered(how[0], flat)
        if [r.type for r in cls.entry.schema.returns] == ["Tensor[]"]:
            output = list(output)
        named = {"keyword_only_inputs": how[1]} if how[1] else {}
        cls.entry.setup_context(ctx=ctx, inputs=args, output=output, **named)

    @classmethod
    def backward(cls, ctx, *gradients):
        entry = cls.entry
        if entry.backward is None:
            raise RuntimeError(
                f"Trying to backward through {entry.overload} but no autograd formula was "
                "registered. Please use register_autograd to add one."
            )
        if [r.type for r in entry.schema.returns] == ["Tensor[]"]:
            gradients = (list(gradients),)
        found = entry.backward(ctx, *gradients)
        found = found if isinstance(found, tuple) else (found,)
        flat: list = [None]
        for k, value in enumerate(found):
            count = ctx._shape[k] if k < len(ctx._shape) else None
            if count is None:
                flat.append(value)
            else:
                flat += [None] * count if value is None else list(value)
        return tuple(flat)

    @classmethod
    def vmap(cls, info, in_dims, how, *flat):
        dims = cls.gathered(how[0], in_dims[1:])
        rule: Any = cls.entry.vmap
        return rule(info, dims, *cls.gathered(how[0], flat), **how[1])


# -- by name ---------------------------------------------------------------------------------------


def _published(entry):
    """Show an op in torch.ops, and give the object that stands for its overload."""
    whole = f"{entry.space}::{entry.name}"
    overloads = ENTRIES.setdefault(whole, {})
    overloads[entry.schema.overload_name or "default"] = entry
    packet = OpOverloadPacket(
        entry.space, entry.name, functools.partial(_overload, overloads),
        {name: e.schema for name, e in overloads.items()},
    )  # fmt: skip
    namespace(entry.space).__dict__[entry.name] = packet
    return getattr(packet, entry.schema.overload_name or "default")


def _overload(overloads, name=""):
    """An overload by its name; without one, the first that takes the arguments."""
    if name or len(overloads) == 1:
        return overloads[name] if name else next(iter(overloads.values()))

    def call(*args, **kwargs):
        refused = None
        for entry in overloads.values():
            try:
                entry.bound(args, kwargs)
            except RuntimeError as error:
                refused = refused or error
            else:
                return entry(*args, **kwargs)
        raise refused

    return call


def withdraw(entry: Entry) -> None:
    """An op that is no more."""
    ENTRIES.pop(f"{entry.space}::{entry.name}", None)
    namespace(entry.space).__dict__.pop(entry.name, None)


def defined(space: str, schema: str, again: bool = False) -> Entry:
    """A new op; `again`: one of the same name is replaced."""
    found = parsed(schema, space)
    known = ENTRIES.get(found.name, {})
    if (found.overload_name or "default") in known and not again:
        raise RuntimeError(
            f"Tried to register an operator ({found}) with the same name and overload name "
            "multiple times. Each overload's schema should only be registered with a single call "
            "to def()."
        )
    return Entry(space, found)


def entry_of(op: Any) -> Entry | None:
    """The op that a name, an object of torch.ops, or a definition stands for."""
    if isinstance(op, OpOverload):
        whole, overload = op._overloadpacket.__qualname__, op._overloadname
    elif isinstance(op, OpOverloadPacket):
        whole, overload = op.__qualname__, "default"
    elif isinstance(op, str):
        space, _, rest = op.partition("::")
        name, _, overload = rest.partition(".")
        whole, overload = f"{space}::{name}", overload or "default"
    else:
        return getattr(op, "_entry", None)
    return ENTRIES.get(whole, {}).get(overload)


def add_kernel(entry: Entry, key: str, function: Callable) -> None:
    """Give an op a function for a device, or for all."""
    check_key(key)
    entry.kernels[key] = function


@contextlib.contextmanager
def switched(entry: Entry, key: str, is_on: bool) -> Any:
    """In a block, a kernel of an op is used or not."""
    before = set(entry.off)
    (entry.off.discard if is_on else entry.off.add)(key)
    try:
        yield
    finally:
        entry.off = before
