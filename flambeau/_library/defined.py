"""Ops that a program names by their schemas: `torch.library.Library`.

What runs them is said apart, by dispatch keys: kernels for a device, for all of them, for tensors
without values, or in the place of autograd. Without a kernel of that last kind gradients go through
what the kernel calls.
"""

import threading
from collections.abc import Callable
from typing import Any

from flambeau import Tensor, ops
from flambeau._library.custom_ops import CustomOpDef
from flambeau.aten.calls import tidied
from flambeau.aten.overloads import OpOverloadPacket
from flambeau.aten.schemas import FunctionSchema, fits

_BACKENDS = "CPU CUDA HIP XLA MPS XPU HPU VE MTIA Meta PrivateUse1 PrivateUse2 PrivateUse3".split()
_AUTOGRAD = ("Autograd", "AutogradCPU", "AutogradCUDA")
_COMPOSITE = ("CompositeExplicitAutograd", "CompositeImplicitAutograd", "")
KEYS = frozenset(
    [
        *_BACKENDS,
        *_COMPOSITE,
        *(part + backend for backend in _BACKENDS for part in ("Autograd", "Sparse", "Quantized")),
        *"Autograd AutogradOther BackendSelect Python Functionalize ADInplaceOrView AutocastCPU "
        "AutocastCUDA CompositeImplicitAutogradNestedTensor NestedTensorCPU Undefined "
        "CompositeExplicitAutogradNonFunctional FuncTorchBatched PreDispatch".split(),
    ]
)
_OURS = ("aten", "prims")
_namespaces: dict[str, "Namespace"] = {}
_waiting: dict[str, dict[str, Callable]] = {}  # kernels of ops that are not yet defined
_inside = threading.local()  # ops whose kernel in the place of autograd is running


class DefinedOp(CustomOpDef):
    """One overload of an op, by its schema."""

    def __init__(self, schema: FunctionSchema) -> None:
        full = schema.name + ("." + schema.overload_name if schema.overload_name else "")
        super().__init__(full, self._without_kernel)
        self.schema = schema
        self.by_key: dict[str, Callable] = _waiting.pop(full, {})

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        args, kwargs = self._bound(args, kwargs)
        return super().__call__(*args, **kwargs)

    def _bound(self, args, kwargs):
        """Checked, and as kernels are given them: by position, without defaults at the end."""
        schema, name = self.schema, self.schema.name
        places = [a for a in schema.arguments if not a.kwarg_only]
        if len(args) > len(places):
            raise RuntimeError(
                f"{name}() expected at most {len(places)} argument(s) but received {len(args)} "
                f"argument(s). Declaration: {schema}"
            )
        given = dict(zip((a.name for a in places), args)) | kwargs
        for argument in schema.arguments:
            if argument.name not in given:
                if not argument.has_default_value():
                    raise RuntimeError(
                        f"{name}() is missing value for argument '{argument.name}'. "
                        f"Declaration: {schema}"
                    )
            elif not fits(given[argument.name], argument):
                found = type(given[argument.name]).__name__
                raise RuntimeError(
                    f"{name}() Expected a value of type '{_spoken(argument)}' for argument "
                    f"'{argument.name}' but instead found type '{found}'."
                )
        unknown = next((key for key in given if key not in schema.named), None)
        if unknown is not None:
            raise RuntimeError(
                f"Unknown keyword argument '{unknown}' for operator '{name}'. Schema: {schema}"
            )
        return tidied(schema, args, kwargs)

    def _is_opaque(self) -> bool:
        return self._backward is not None

    def _kernel(self, tensors: list[Tensor]) -> Callable:
        kinds = {t.device.type for t in tensors}
        device = next((k for k in ("cuda", "meta") if k in kinds), "cpu")
        key = device.upper() if device != "meta" else "Meta"
        inside = vars(_inside).setdefault("ops", set())
        around = self.by_key.get("Autograd" + key) or self.by_key.get("Autograd")
        if around is not None and self not in inside:
            return lambda *args, **kwargs: self._around(around, args, kwargs)
        for name in (key, *_COMPOSITE):
            if name in self.by_key:
                return self.by_key[name]
        if device == "meta":
            raise NotImplementedError(
                f"{self._name}: attempted to run this operator with Meta tensors, but there was "
                "no fake impl or Meta kernel registered."
            )
        raise NotImplementedError(
            f"Could not run '{self._name}' with arguments from the '{key}' backend."
        )

    def _around(self, kernel, args, kwargs):
        """Calls of the op by this kernel go to the kernel of the device."""
        _inside.ops.add(self)
        try:
            return kernel(*args, **kwargs)
        finally:
            _inside.ops.discard(self)

    def _without_kernel(self, *args: Any, **kwargs: Any) -> Any:
        return self._kernel([])(*args, **kwargs)

    def register_kernel(self, device_types: Any, fn: Callable | None = None, /) -> Any:
        """What runs for tensors of some devices, all of them for None; also as a decorator."""
        if fn is None:
            return lambda function: self.register_kernel(device_types, function)
        kinds = [device_types] if isinstance(device_types, str) else device_types
        for kind in ["CompositeExplicitAutograd"] if kinds is None else kinds:
            self.by_key["Meta" if kind == "meta" else kind.upper() if kinds else kind] = fn
        return fn


def _spoken(argument):
    inner = argument.type.removesuffix("?")
    item, bracket, _ = inner.partition("[")
    spoken = f"List[{item.replace('SymInt', 'int')}]" if bracket else inner.replace("SymInt", "int")
    return f"Optional[{spoken}]" if argument.is_optional else spoken


class Namespace:
    """torch.ops.NAME: the ops that a program has defined."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getattr__(self, name: str) -> OpOverloadPacket:
        raise AttributeError(f"'_OpNamespace' '{self.name}' object has no attribute '{name}'")


class Library:
    """A namespace of ops, or a part of one, that a program defines and gives kernels."""

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in ("IMPL", "DEF", "FRAGMENT"):
            raise ValueError(f"Unsupported kind: {kind}")
        if kind == "DEF" and (ns in _OURS or ns in _namespaces):
            raise RuntimeError(
                f"Only a single TORCH_LIBRARY can be used to register the namespace {ns}; please "
                "put all of your definitions in a single TORCH_LIBRARY block."
            )
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key
        if kind == "DEF":
            _namespace(ns)

    def __repr__(self) -> str:
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})>"

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Name an op by its schema, "name(Tensor x) -> Tensor"; gives its name."""
        made = FunctionSchema(schema.strip(), self.ns)
        short, overload = made.name.partition("::")[2], made.overload_name or "default"
        space = _namespace(self.ns)
        packet = vars(space).get(short)
        if not isinstance(packet, OpOverloadPacket):
            packet = OpOverloadPacket(self.ns, short, lambda overload="": _chosen(packet, overload))
            setattr(space, short, packet)
        if overload in packet.declared:
            raise RuntimeError(
                f"Tried to register an operator ({made}) with the same name and overload name "
                "multiple times."
            )
        op = packet.declared[overload] = DefinedOp(made)
        op.default = getattr(packet, overload)
        return short

    def impl(
        self, op_name: Any, fn: Callable, dispatch_key: str = "", *, with_keyset: bool = False,
        allow_override: bool = False,
    ) -> None:  # fmt: skip
        """What runs an op under a dispatch key."""
        if not callable(fn):
            raise TypeError(
                f"Input function is required to be a callable but found type {type(fn)}"
            )
        key = dispatch_key or self.dispatch_key
        if key not in KEYS:
            raise RuntimeError(f"could not parse dispatch key: {key}")
        name = op_name if isinstance(op_name, str) else op_name.name()
        if self.ns in _OURS:
            raise NotImplementedError(f"ops of {self.ns} are flambeau's own: {name} stays as it is")
        full = f"{self.ns}::{name.rpartition('::')[2]}"
        found = defined(full)
        kernels = _waiting.setdefault(full, {}) if found is None else found.by_key
        kernels[key] = fn


def _namespace(name):
    found = _namespaces.get(name)
    if found is None:
        if name in _OURS:
            raise NotImplementedError(f"ops of {name} are flambeau's own: none can be added")
        found = _namespaces[name] = vars(ops).get(name) or Namespace(name)
        setattr(ops, name, found)
    return found


def _chosen(packet, overload):
    """The op of an overload; without one, the first whose schema takes the arguments."""
    if overload:
        return packet.declared[overload]
    if len(packet.declared) == 1:
        return next(iter(packet.declared.values()))

    def first(*args: Any, **kwargs: Any) -> Any:
        for op in packet.declared.values():
            try:
                op._bound(args, kwargs)
            except RuntimeError as error:
                last = error
            else:
                return op(*args, **kwargs)
        raise last

    return first


def defined(name: str) -> DefinedOp | None:
    """The op of a name, space::name or space::name.overload; None if nobody has defined it."""
    space, _, rest = name.partition("::")
    short, _, overload = rest.partition(".")
    packet = vars(_namespaces[space]).get(short) if space in _namespaces else None
    declared = getattr(packet, "declared", {})
    return declared.get(overload or "default")
