"""`torch.library.opcheck`: does an op keep what its schema and its registered functions promise?"""

from collections.abc import Callable, Sequence
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.aten.overloads import OpOverload, OpOverloadPacket
from flambeau.library.registered import entry_of, tensors_in

_TESTS = (
    "test_schema",
    "test_autograd_registration",
    "test_faketensor",
    "test_aot_dispatch_static",
    "test_aot_dispatch_dynamic",
)
_DEFAULT = tuple(name for name in _TESTS if name != "test_aot_dispatch_static")


class OpCheckError(Exception):
    """An op does not keep what it promises."""


def opcheck(
    op: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    test_utils: str | Sequence[str] = _DEFAULT,
    raise_exception: bool = True,
    atol: float | None = None,
    rtol: float | None = None,
) -> dict[str, Any]:
    """Run an op on samples, and compare it with what was registered about it.

    Args:
        test_utils: which tests to run: test_schema (does it write to what it says?),
            test_autograd_registration, test_faketensor (shapes without values),
            test_aot_dispatch_static and test_aot_dispatch_dynamic (compiled).
    """
    entry = entry_of(op)
    overload = op if isinstance(op, OpOverload) else entry and entry.overload
    if isinstance(op, OpOverloadPacket):
        overload = op.default
    if overload is None:
        raise ValueError(
            "opcheck(op, ...): op must be instance of torch._ops.OpOverload, e.g. "
            f"torch.ops.aten.sin.default, got {type(op)}"
        )
    names = (test_utils,) if isinstance(test_utils, str) else tuple(test_utils)
    if not set(names) <= set(_TESTS):
        raise ValueError(
            f"opcheck(op, ..., test_utils={names}), expected test_utils to be subset of "
            f"{_TESTS} but it was not"
        )
    outcome: dict[str, Any] = {}
    for name in names:
        try:
            _CHECKS[name](overload, tuple(args), kwargs or {}, (rtol, atol))
        except Exception as error:
            if raise_exception:
                raise OpCheckError(f"opcheck(op, ...): {name} failed with {error}") from error
            outcome[name] = error
        else:
            outcome[name] = "SUCCESS"
    return outcome


def _copied(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, (list, tuple)):
        return type(value)(_copied(v, change) for v in value)
    if isinstance(value, dict):
        return {k: _copied(v, change) for k, v in value.items()}
    return value


def _fresh(t):
    return t.detach().clone().requires_grad_(t.requires_grad)


def _schema(op, args, kwargs, _):
    """Arguments that are not marked as written stay as they are."""
    plain = _copied((args, kwargs), lambda t: t.detach().clone())
    before = _copied(plain, lambda t: t.clone())
    op(*plain[0], **plain[1])
    for k, argument in enumerate(op._schema.arguments):
        if argument.is_write:
            continue
        was, now = (
            side[0][k] if k < len(side[0]) else side[1].get(argument.name)
            for side in (before, plain)
        )
        for a, b in zip(tensors_in([was]), tensors_in([now])):
            if not flambeau.allclose(a, b, equal_nan=True):
                raise RuntimeError(
                    f"Argument {argument.name} is not defined as mutable but was mutated"
                )


def _autograd(op, args, kwargs, _):
    """A result that wants gradients comes from a formula of the op."""
    tensors = [*tensors_in(args), *tensors_in(list(kwargs.values()))]
    entry = entry_of(op)
    if entry is None or not any(t.requires_grad for t in tensors):
        return
    has_kernel = any(key.startswith("Autograd") for key in entry.kernels)
    if has_kernel or entry.backward is not None or entry.is_checked:
        return
    found = op(*_copied(args, _fresh), **_copied(kwargs, _fresh))
    if any(t.requires_grad for t in tensors_in([found])):
        raise AssertionError(
            f"{op}: expected an autograd kernel, but gradients go through the ops inside of its "
            "kernel; use register_autograd to give it a formula"
        )


def _fake(op, args, kwargs, _):
    """Shapes, dtypes and strides are those of real results."""
    with flambeau.no_grad():
        real = tensors_in([op(*_copied(args, _fresh), **_copied(kwargs, _fresh))])
        metas = _copied((args, kwargs), lambda t: t.detach().to("meta"))
        fake = tensors_in([op(*metas[0], **metas[1])])
    words = f"When comparing the output of {op} on FakeTensor and concrete Tensors, found "
    for a, b in zip(real, fake):
        for kind in ("shape", "dtype"):
            seen = getattr(a, kind), getattr(b, kind)
            if seen[0] != seen[1]:
                shown = "Shapes" if kind == "shape" else "Dtypes"
                raise RuntimeError(
                    f"{words}mismatched tensor metadata: {shown} {seen[0]} and {seen[1]} are not "
                    "equal!"
                )
        if a.numel() and a.stride() != b.stride():
            raise RuntimeError(
                f"{words}mismatched tensor metadata: Stride mismatch! Strides are {a.stride()} and "
                f"{b.stride()}"
            )


def _compiled(op, args, kwargs, tolerances):
    """A compiled program gives the same, with the same gradients."""
    rtol, atol = tolerances
    results = []
    for run in (op, flambeau.compile(lambda *a, **k: op(*a, **k))):
        given = _copied((args, kwargs), _fresh)
        found = tensors_in([run(*given[0], **given[1])])
        wanted = [t for t in tensors_in([given[0], *given[1].values()]) if t.requires_grad]
        roots = [t.sum() for t in found if t.requires_grad and t.grad_fn is not None]
        grads = flambeau.autograd.grad(roots, wanted, allow_unused=True) if roots and wanted else ()
        results.append([found, [g for g in grads if g is not None]])
    flambeau.testing.assert_close(*results, rtol=rtol, atol=atol)


_CHECKS = {
    "test_schema": _schema,
    "test_autograd_registration": _autograd,
    "test_faketensor": _fake,
    "test_aot_dispatch_static": _compiled,
    "test_aot_dispatch_dynamic": _compiled,
}
