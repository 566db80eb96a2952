"""`torch.library`: functions of a program that go by the name of an op.

`custom_op("space::name")` makes a function an op: `torch.ops.space.name` finds it, tensors without
values go to the function given to `register_fake`, and gradients to the one given to
`register_autograd`. Without the latter a backward through the op is refused rather than forgotten.
`define` names an op by its schema alone; `impl` and `register_kernel` say what runs it where.
"""

import functools
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

from flambeau import ops
from flambeau._library.custom_ops import _OPS, CustomOpDef
from flambeau._library.defined import KEYS, Library, defined
from flambeau.aten.overloads import OpOverload, OpOverloadPacket

__all__ = [
    "CustomOpDef",
    "Library",
    "custom_op",
    "define",
    "impl",
    "register_autograd",
    "register_fake",
    "register_kernel",
]


def custom_op(
    name: str,
    fn: Callable | None = None,
    /,
    *,
    mutates_args: str | Iterable[str],
    device_types: Any = None,
    schema: str | None = None,
    tags: Any = None,
) -> Any:
    """Make a function the op "space::name"; also as a decorator."""
    if fn is None:
        return lambda function: custom_op(name, function, mutates_args=mutates_args)
    space, _, short = name.partition("::")
    if not short:
        raise ValueError(
            f"torch.library.custom_op(): expected a name of the form 'namespace::name', "
            f"got {name!r}"
        )
    found = _OPS[name] = CustomOpDef(name, fn)
    found.default = OpOverloadPacket(space, short, lambda overload="": found).default
    if space not in vars(ops) and space not in ("aten", "quantized"):
        setattr(ops, space, SimpleNamespace())
    setattr(getattr(ops, space), short, found)
    return found


def _found(op: str | OpOverload | CustomOpDef) -> CustomOpDef:
    if isinstance(op, CustomOpDef):
        return op
    name = op.name() if isinstance(op, OpOverload) else op.removesuffix(".default")
    found = _OPS.get(name) or defined(name)
    if found is None:
        raise RuntimeError(f"operator {name} does not exist: make it with torch.library.custom_op")
    return found


def define(
    qualname: str | Library,
    schema: str,
    alias_analysis: str = "",
    *,
    lib: Any = None,
    tags: Any = (),
) -> None:
    """Name an op by its schema, "(Tensor x) -> Tensor"; `impl` says what runs it."""
    if isinstance(qualname, Library):  # the older order: a library, then name and schema
        qualname.define(schema, alias_analysis)
        return
    space, short = _parted(qualname)
    if not schema.startswith("(") or " -> " not in schema:
        raise ValueError(
            "define(qualname, schema, ...): expected schema to look like e.g. "
            f'"(Tensor x) -> Tensor" but got "{schema}"'
        )
    (lib or Library(space, "FRAGMENT")).define(short + schema)


def _parted(qualname):
    space, _, short = qualname.partition("::")
    if not short:
        raise ValueError(
            f'Expected `qualname` to be of the form "namespace::name", but got {qualname}. The '
            "qualname passed to the torch.library APIs must consist of a namespace and a name, "
            "e.g. aten::sin"
        )
    return space, short


def impl(
    qualname: str | Library,
    types: str | Iterable[str] = (),
    func: Any = None,
    *,
    lib: Library | None = None,
) -> Any:
    """What runs an op for types of devices, "default" for all; also as a decorator."""
    if isinstance(qualname, Library):  # the older order: a library, a name, a dispatch key
        name, key = str(types), func or ""

        def registered(function: Callable) -> Callable:
            qualname.impl(name, function, key)
            return function

        return registered
    if func is None:
        return functools.partial(impl, qualname, types, lib=lib)
    space, short = _parted(qualname)
    for kind in [types] if isinstance(types, str) else types:
        (lib or Library(space, "FRAGMENT")).impl(short, func, _key(kind))
    return func


def _key(kind):
    if kind == "default":
        return "CompositeExplicitAutograd"
    if kind in KEYS:
        return kind
    if kind.partition(":")[0] not in ("cpu", "cuda", "meta", "mps", "xpu", "hpu", "mtia", "xla"):
        raise RuntimeError(
            "Expected one of cpu, cuda, xpu, xla, mps, meta, hpu, mtia device type at start of "
            f"device string: {kind}"
        )
    return kind.upper() if kind != "meta" else "Meta"


def register_kernel(
    op: str | OpOverload | CustomOpDef,
    device_types: str | Iterable[str] | None,
    func: Callable | None = None,
    /,
    *,
    lib: Library | None = None,
) -> Any:
    """What runs an op for some types of devices, all for None; also as a decorator."""
    if func is None:
        return functools.partial(register_kernel, op, device_types, lib=lib)
    if isinstance(op, str) and op not in _OPS:
        return impl(op, "default" if device_types is None else device_types, func, lib=lib)
    return _found(op).register_kernel(device_types, func)


def register_fake(
    op: str | OpOverload | CustomOpDef, func: Callable | None = None, /, **options: Any
) -> Any:
    """What gives an op's shapes for tensors without values; also as a decorator."""
    return _found(op).register_fake(func) if func is not None else _found(op).register_fake


def register_autograd(
    op: str | OpOverload | CustomOpDef,
    backward: Callable,
    /,
    *,
    setup_context: Callable | None = None,
    lib: Any = None,
) -> None:
    """How gradients go through an op."""
    _found(op).register_autograd(backward, setup_context=setup_context)
