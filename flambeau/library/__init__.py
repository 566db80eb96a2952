"""`torch.library`: ops of a program, under names of their own.

`custom_op("space::name")` makes a function an op, whose schema its annotations say; `define` and
`impl`, or a `Library`, do so in two steps. `torch.ops.space.name` finds it. Tensors without values
go to the function given to `register_fake`, samples of vmap to that of `register_vmap`, gradients
to that of `register_autograd`; a backward through an op without one is refused.

What an op is and how it is called is in registered.py, schemas of annotations in inferring.py,
`opcheck` in checking.py.
"""

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn

from flambeau.aten.overloads import OpOverload, OpOverloadPacket
from flambeau.aten.schemas import schemas_of
from flambeau.library.checking import OpCheckError as OpCheckError
from flambeau.library.checking import opcheck as opcheck
from flambeau.library.inferring import infer_schema
from flambeau.library.registered import (
    Entry,
    add_kernel,
    backend_key,
    check_key,
    defined,
    entry_of,
    switched,
    withdraw,
)

__all__ = [
    "Library",
    "custom_op",
    "define",
    "fallthrough_kernel",
    "get_ctx",
    "impl",
    "impl_abstract",
    "infer_schema",
    "register_autocast",
    "register_fake",
    "register_torch_dispatch",
    "register_vmap",
    "triton_op",
    "wrap_triton",
]

_RESERVED = ("prim",)


class CustomOpDef:
    """A function under the name of an op: of `custom_op`."""

    def __init__(self, entry: Entry, fn: Callable) -> None:
        self._entry, self._init_fn = entry, fn
        entry.shown, entry.is_checked = repr(self), True
        functools.update_wrapper(self, fn, updated=())

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._entry(*args, **kwargs)

    @property
    def _qualname(self) -> str:
        return f"{self._entry.space}::{self._entry.name}"

    @property
    def _namespace(self) -> str:
        return self._entry.space

    @property
    def _name(self) -> str:
        return self._entry.name

    @property
    def _opoverload(self) -> OpOverload:
        return self._entry.overload

    def register_fake(self, fn: Callable, /) -> Callable:
        """What gives the shapes for tensors without values."""
        self._entry.kernels["Meta"] = fn
        return fn

    def register_kernel(self, device_types: Any, fn: Callable | None = None, /) -> Callable:
        """What computes on some devices; None: on all that have no function of their own."""

        def register(function):
            for key in _device_keys(device_types):
                add_kernel(self._entry, key, function)
            return function

        return register if fn is None else register(fn)

    def register_autograd(
        self, backward: Callable, /, *, setup_context: Callable | None = None
    ) -> None:
        """backward(ctx, *gradients); setup_context(ctx, inputs, output) keeps what it needs."""
        if self._entry.schema.is_mutable:
            raise RuntimeError(
                f"Cannot register autograd formula for non-functional operator {self} with schema "
                f"{self._entry.schema}. Please create a functional operator and register an "
                "autograd formula for that."
            )
        self._entry.backward, self._entry.setup_context = backward, setup_context

    def register_vmap(self, func: Callable | None = None) -> Any:
        """func(info, in_dims, *args) gives (results, their dimensions of samples)."""

        def register(function):
            self._entry.vmap = function
            return function

        return register if func is None else register(func)

    def register_autocast(self, device_type: str, cast_inputs: Any) -> None:
        """The dtype of floating point arguments within torch.autocast."""
        _check_autocast(device_type)
        self._entry.autocast[device_type] = cast_inputs

    def set_kernel_enabled(self, device_type: str, enabled: bool = True) -> Any:
        """In a block, the function of a device is used, or the one for all."""
        return switched(self._entry, backend_key(device_type), enabled)


def _device_keys(device_types):
    if device_types is None:
        return ["CompositeExplicitAutograd"]
    kinds = [device_types] if isinstance(device_types, str) else device_types
    return [backend_key(kind) for kind in kinds]


def _check_autocast(device_type):
    if backend_key(device_type) not in ("CPU", "CUDA", "XPU"):
        raise ValueError(f"Unknown device type: {device_type}")


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
    """Make a function the op "space::name"; also as a decorator.

    Args:
        mutates_args: names of tensors that it writes to, or "unknown": all of them.
        device_types: where the function computes; all devices if it is not given.
        schema: "(Tensor x) -> Tensor"; its annotations say it if it is not given.

    Example:
        >>> @torch.library.custom_op("docs::twice", mutates_args=())
        ... def twice(x: torch.Tensor) -> torch.Tensor:
        ...     return x * 2
        >>> torch.ops.docs.twice(torch.ones(2))
        tensor([2., 2.])
    """

    def make(function):
        said = schema
        if said is None:
            said = infer_schema(function, mutates_args=mutates_args)
        space, short = name.split("::")
        found = CustomOpDef(defined(space, short + said, again=True), function)
        if device_types is None:
            found._entry.kernels["default"] = function
        else:
            found.register_kernel(device_types, function)
        return found

    return make if fn is None else make(fn)


def triton_op(
    name: str,
    fn: Callable | None = None,
    /,
    *,
    mutates_args: str | Iterable[str],
    schema: str | None = None,
) -> Any:
    """Make a function that may call kernels of Triton the op "space::name".

    It is an op as of `custom_op`: what the function computes with tensors runs, kernels of Triton
    are refused by `wrap_triton`.
    """
    return custom_op(name, fn, mutates_args=mutates_args, schema=schema)


def wrap_triton(triton_kernel: Callable, /) -> NoReturn:
    """Refused: kernels of Triton need PyTorch's own pointers and streams."""
    raise NotImplementedError(
        "torch.library.wrap_triton is not implemented: flambeau does not launch kernels of Triton"
    )


# -- in two steps ----------------------------------------------------------------------------------

_spaces: set[str] = {"aten"}
_waiting: dict[str, dict[str, Callable]] = {}  # kernels of ops that are not defined yet


class Library:
    """A namespace of ops: `define` them, `impl` their kernels.

    Args:
        kind: "DEF" makes the namespace, "FRAGMENT" adds ops to one, "IMPL" kernels to ops.

    Example:
        >>> library = torch.library.Library("documented", "DEF")
        >>> library.define("thrice(Tensor x) -> Tensor")
        'thrice'
        >>> library.impl("thrice", lambda x: x * 3, "CPU")
        >>> torch.ops.documented.thrice(torch.ones(1))
        tensor([3.])
    """

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in ("IMPL", "DEF", "FRAGMENT"):
            raise ValueError(f"Unsupported kind: {kind}")
        if ns in _RESERVED and kind in ("DEF", "FRAGMENT"):
            raise ValueError(f"{ns} is a reserved namespace. Please try creating a library with "
                             "another name.")  # fmt: skip
        if kind == "DEF" and ns == "aten":
            raise RuntimeError(
                f"Only a single TORCH_LIBRARY can be used to register the namespace {ns}; please "
                "put all of your definitions in a single TORCH_LIBRARY block."
            )
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key
        self._entries: list[Entry] = []

    def __repr__(self) -> str:
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})>"

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """A new op; gives its name."""
        if alias_analysis not in ("", "FROM_SCHEMA", "CONSERVATIVE"):
            raise RuntimeError(f"Invalid alias_analysis type {alias_analysis}")
        name = schema.partition("(")[0].strip()
        if self.kind == "IMPL":
            raise RuntimeError(
                f'def("{name}"): Cannot define an operator inside of a TORCH_LIBRARY_IMPL block.'
            )
        entry = defined(self.ns, schema.strip())
        entry.kernels |= _waiting.pop(entry.label, {})
        self._entries.append(entry)
        return name.partition(".")[0]

    def impl(
        self, op_name: Any, fn: Any, dispatch_key: str = "", *, with_keyset: bool = False,
        allow_override: bool = True,
    ) -> None:  # fmt: skip
        """What computes an op for a dispatch key such as CPU."""
        if not callable(fn):
            raise TypeError(
                f"Input function is required to be a callable but found type {type(fn)}"
            )
        name = op_name if isinstance(op_name, str) else _qualified(op_name)
        name = name if "::" in name else f"{self.ns}::{name}"
        key = dispatch_key or self.dispatch_key or "CompositeImplicitAutograd"
        _add(name, key, fn)

    def _destroy(self) -> None:
        """Take back all that it has defined."""
        for entry in self._entries:
            withdraw(entry)
        self._entries.clear()


@contextlib.contextmanager
def _scoped_library(*args: Any, **kwargs: Any) -> Iterator[Library]:
    found = Library(*args, **kwargs)
    try:
        yield found
    finally:
        found._destroy()


def _qualified(op):
    if isinstance(op, OpOverload):
        return op.name()
    return op.__qualname__


def _add(name, key, function):
    check_key(key)
    space, _, short = name.partition("::")
    if space == "aten" and schemas_of(short.partition(".")[0]):
        raise NotImplementedError(
            f"{name}: kernels of aten are flambeau's own; a TorchDispatchMode can stand in for them"
        )
    entry = entry_of(name)
    if entry is None:
        _waiting.setdefault(name, {})[key] = function
    else:
        add_kernel(entry, key, function)


def _split(qualname):
    parts = qualname.split("::")
    if len(parts) != 2:
        raise ValueError(
            f'Expected `qualname` to be of the form "namespace::name", but got {qualname}. The '
            "qualname passed to the torch.library APIs must consist of a namespace and a name, "
            "e.g. aten::sin"
        )
    return parts


def define(qualname: str, schema: Any, *, lib: Library | None = None, tags: Any = ()) -> Any:
    """A new op "space::name" with a schema "(Tensor x) -> Tensor".

    Example:
        >>> torch.library.define("docs::minus", "(Tensor x) -> Tensor")
        >>> @torch.library.impl("docs::minus", "cpu")
        ... def minus(x):
        ...     return -x
        >>> torch.ops.docs.minus(torch.ones(1))
        tensor([-1.])
    """
    if not isinstance(qualname, str):
        raise ValueError(
            "define(qualname, schema): expected qualname to be instance of str, got "
            f"{type(qualname)}"
        )
    space, name = _split(qualname)
    if not isinstance(schema, str):
        raise TypeError(f"expected string or bytes-like object, got '{type(schema).__name__}'")
    if not schema.lstrip().startswith("("):
        raise ValueError(
            f'define(qualname, schema, ...): expected schema to look like e.g. "(Tensor x) -> '
            f'Tensor" but got "{schema}"'
        )
    (lib or Library(space, "FRAGMENT")).define(name + schema)


def impl(
    qualname: Any, types: Any, func: Callable | None = None, *, lib: Library | None = None
) -> Any:
    """What computes an op on devices of some types, or on all ("default"); also as a decorator."""
    if isinstance(qualname, Library):  # an older form: (library, name, dispatch key)
        return functools.partial(_implemented, qualname, types, func or "")
    kinds = [types] if isinstance(types, str) else types
    keys = []
    for kind in kinds:
        is_key = kind == "default" or kind[:1].isupper()
        keys.append(("CompositeExplicitAutograd" if kind == "default" else kind) if is_key
                    else backend_key(kind))  # fmt: skip

    def register(function):
        _split(qualname)
        for key in keys:
            _add(qualname, key, function)

    return register if func is None else register(func)


def _implemented(library: Library, name: str, key: Any, function: Callable) -> Callable:
    library.impl(name, function, key)
    return function


def _found(caller: str, op: Any) -> Entry:
    if not isinstance(op, (str, OpOverload, OpOverloadPacket, CustomOpDef)):
        raise ValueError(f"{caller}({op}): got unexpected type for op: {type(op)}")
    entry = entry_of(op)
    if entry is None and caller == "register_fake":
        raise RuntimeError(f"operator {op} does not exist")
    if entry is None:
        space, _, name = str(op).partition("::")
        raise AttributeError(f"'_OpNamespace' '{space}' object has no attribute '{name}'")
    return entry


def register_kernel(
    op: Any, device_types: Any, func: Callable | None = None, /, *, lib: Library | None = None
) -> Any:
    """What computes an op on devices of some types; also as a decorator."""
    if not isinstance(op, (str, OpOverload, OpOverloadPacket, CustomOpDef)):
        raise ValueError(f"register_kernel({op}): got unexpected type for op: {type(op)}")
    if isinstance(op, CustomOpDef):
        return op.register_kernel(device_types, func)
    name = op if isinstance(op, str) else _qualified(op)
    return impl(name, "default" if device_types is None else device_types, func, lib=lib)


def register_fake(
    op: Any,
    func: Callable | None = None,
    /,
    *,
    lib: Library | None = None,
    _stacklevel: int = 1,
    allow_override: bool = True,
) -> Any:
    """What gives an op's shapes for tensors without values; also as a decorator."""

    def register(function):
        _found("register_fake", op).kernels["Meta"] = function
        return function

    if func is None and not isinstance(op, str):
        _found("register_fake", op)
    return register if func is None else register(func)


impl_abstract = register_fake


def register_autograd(
    op: Any,
    backward: Callable,
    /,
    *,
    setup_context: Callable | None = None,
    lib: Library | None = None,
) -> None:
    """How gradients go through an op."""
    if isinstance(op, CustomOpDef):
        op.register_autograd(backward, setup_context=setup_context)
        return
    entry = _found("register_autograd", op)
    if entry.schema.is_mutable:
        raise RuntimeError(
            f"Cannot register autograd formula for non-functional operator {op} with schema "
            f"{entry.schema}. Please create a functional operator and register an autograd "
            "formula for that."
        )
    entry.backward, entry.setup_context = backward, setup_context


def register_vmap(op: Any, func: Callable | None = None, /, *, lib: Library | None = None) -> Any:
    """How an op runs on samples of vmap: func(info, in_dims, *args); also as a decorator."""
    entry = _found("register_vmap", op)

    def register(function):
        entry.vmap = function

    return register if func is None else register(func)


def register_autocast(
    op: Any, device_type: str, cast_inputs: Any, /, *, lib: Library | None = None
) -> None:
    """The dtype of floating point arguments of an op within torch.autocast."""
    if not isinstance(op, (str, OpOverload, OpOverloadPacket, CustomOpDef)):
        raise ValueError(f"register_autocast({op}): got unexpected type for op: {type(op)}")
    _check_autocast(device_type)
    _found("register_autocast", op).autocast[device_type] = cast_inputs


def register_torch_dispatch(
    op: Any, torch_dispatch_class: Any, func: Callable | None = None, /, *,
    lib: Library | None = None,
) -> Any:  # fmt: skip
    """What a mode or a class with __torch_dispatch__ does for an op; also as a decorator."""
    entry = _found("register_torch_dispatch", op)

    def register(function):
        entry.overload.told[torch_dispatch_class] = function
        return function

    return register if func is None else register(func)


def get_ctx() -> Any:
    """Within a function of register_fake: what makes sizes that depend on values."""
    return None


def fallthrough_kernel() -> None:
    """A kernel that leaves an op to the next key."""
    raise NotImplementedError("fallthrough_kernel() should never be called.")
