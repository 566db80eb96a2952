"""Selective checkpointing: results of some ops are kept, and only the others computed again.

`create_selective_checkpoint_contexts` gives checkpoint() two dispatch modes. The first asks a
policy about every op of forward and keeps the results it names, together with what the op saved for
backward: arguments and results by their place, anything else itself. The second answers those ops
from what was kept and hands on what they saved, without running them.
"""

import enum
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from flambeau._tensor import Tensor
from flambeau.aten.overloads import OpOverload, OpOverloadPacket
from flambeau.autograd.grad_mode import modes
from flambeau.interposing.dispatching import TorchDispatchMode
from flambeau.utils import _pytree as pytree

__all__ = [
    "SAC_IGNORED_OPS",
    "CheckpointPolicy",
    "SelectiveCheckpointContext",
    "create_selective_checkpoint_contexts",
]


class CheckpointPolicy(enum.Enum):
    """What is to become of an op's result; "prefer" leaves it to others to decide otherwise."""

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


_RECOMPUTED = (CheckpointPolicy.MUST_RECOMPUTE, CheckpointPolicy.PREFER_RECOMPUTE)


class SelectiveCheckpointContext:
    """What a policy is told besides the op: which of the two runs this is, and the result."""

    def __init__(self, *, is_recompute: bool, op_output: Any = None) -> None:
        self.is_recompute, self.op_output = is_recompute, op_output


class _Ignored:
    """Ops that no policy is asked about, by name: they compute nothing."""

    names = frozenset(
        f"aten.{name}"
        for name in """detach.default dim.default is_contiguous.default is_contiguous.memory_format
        is_non_overlapping_and_dense.default is_strides_like_format.default numel.default
        size.default storage_offset.default stride.default sym_numel.default sym_size.default
        sym_storage_offset.default sym_stride.default""".split()
    ) | {"prim.device.default"}

    def __contains__(self, op: Any) -> bool:
        return str(op) in self.names

    def __iter__(self) -> Any:
        return iter(sorted(self.names))

    def __len__(self) -> int:
        return len(self.names)


SAC_IGNORED_OPS = _Ignored()


class _Kept:
    """The result of an op, and what the op saved: places of values, or values."""

    def __init__(self, result: Any, saved: list, values: list) -> None:
        leaves, self.tree = pytree.tree_flatten(result)
        self.leaves = [_as_made(t) if isinstance(t, Tensor) else t for t in leaves]
        self.versions = [t._version if isinstance(t, Tensor) else 0 for t in self.leaves]
        values = [*values, *leaves]
        self.saved = [_place(t, values) for t in saved]

    def check(self) -> None:
        """Nobody may have written to it."""
        for t, version in zip(self.leaves, self.versions):
            if isinstance(t, Tensor) and t._version != version:
                raise RuntimeError(
                    "Tensor cached during selective activation checkpoint has been mutated"
                )

    def again(self, values: list, writable: bool) -> Any:
        """The result; hooks on saved tensors are told what they were told the first time."""
        leaves = self.leaves
        if writable:
            leaves = [t.clone() if isinstance(t, Tensor) else t for t in leaves]
        values = [*values, *leaves]
        hooks: Any = modes.saved_hooks
        if hooks:
            pack = hooks[-1][0]
            for what in self.saved:
                pack(values[what] if type(what) is int else what)
        return pytree.tree_unflatten(leaves, self.tree)


def _as_made(t):
    """The same values without history; later ops record as they did."""
    return t.detach().requires_grad_(t.requires_grad)


def _place(t, values):
    for k, value in enumerate(values):
        if isinstance(value, Tensor) and (
            value is t
            or (
                value._storage is t._storage
                and value._offset == t._offset
                and value._layout is t._layout
            )
        ):
            return k
    return t.detach()


def _watchers():
    """Lists that the checkpoint around this op tells of what is saved, if it is the innermost."""
    hooks: Any = modes.saved_hooks
    region = getattr(hooks[-1][0], "__self__", None) if hooks else None
    return getattr(region, "watchers", [])


def _values(args, kwargs):
    return pytree.tree_leaves((args, kwargs))


class _Keeping(TorchDispatchMode):
    """Around forward."""

    def __init__(self, policy: Callable, kept: dict) -> None:
        super().__init__()
        self.policy, self.kept = policy, kept

    def __torch_dispatch__(
        self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in SAC_IGNORED_OPS:
            return func(*args, **kwargs)
        saved: list = []
        watchers = _watchers()
        watchers.append(saved)
        try:
            result = func(*args, **kwargs)
        finally:
            watchers.pop()
        told = SelectiveCheckpointContext(is_recompute=False, op_output=result)
        policy = self.policy(told, func, *args, **kwargs)
        if isinstance(policy, bool):
            policy = CheckpointPolicy.MUST_SAVE if policy else CheckpointPolicy.PREFER_RECOMPUTE
        keeps = isinstance(policy, CheckpointPolicy) and policy not in _RECOMPUTED
        self.kept[func].append(_Kept(result, saved, _values(args, kwargs)) if keeps else None)
        return result


class _Answering(TorchDispatchMode):
    """Around recomputation."""

    def __init__(self, kept: dict, allow_mutation: bool) -> None:
        super().__init__()
        self.kept, self.allow_mutation = kept, allow_mutation

    def __torch_dispatch__(
        self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in SAC_IGNORED_OPS:
            return func(*args, **kwargs)
        if not self.kept.get(func):
            raise RuntimeError(
                "Trying to backward an extra time. You are only allowed to backward once on any "
                "region computed under selective activation checkpoint."
            )
        found = self.kept[func].pop(0)
        if found is None:
            return func(*args, **kwargs)
        if not self.allow_mutation:
            found.check()
        return found.again(_values(args, kwargs), self.allow_mutation)


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Callable | Sequence, allow_cache_entry_mutation: bool = False
) -> tuple[TorchDispatchMode, TorchDispatchMode]:
    """For checkpoint's context_fn: keeps results of some ops, so that they run only once.

    Args:
        policy_fn_or_list: ops whose results are kept, or policy(context, op, *args, **kwargs) that
            gives a CheckpointPolicy.
        allow_cache_entry_mutation: kept results may be written to.

    Example:
        >>> import functools
        >>> from flambeau.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts
        >>> keep = functools.partial(
        ...     create_selective_checkpoint_contexts, [flambeau.ops.aten.mm.default]
        ... )
        >>> x = flambeau.ones(2, 2, requires_grad=True)
        >>> y = checkpoint(lambda x: (x @ x).sin(), x, use_reentrant=False, context_fn=keep)
        >>> y.sum().backward()
    """
    policy = policy_fn_or_list
    if isinstance(policy, (list, tuple)):
        for op in policy:
            _check_op(op)
        ops = list(policy)
        policy = lambda context, op, *args, **kwargs: op in ops
    elif not callable(policy):
        raise TypeError("policy_fn_or_list must be either a function or a list of ops.")
    kept: dict = defaultdict(list)
    return _Keeping(policy, kept), _Answering(kept, allow_cache_entry_mutation)


def _check_op(op):
    if isinstance(op, OpOverload):
        return
    more = ""
    if isinstance(op, OpOverloadPacket):
        more = (
            "Please update the OpOverloadPacket to a specific OpOverload."
            "For example, if you have `torch.ops.aten.mm`, change it to "
            "`torch.ops.aten.mm.default`."
        )
    raise ValueError(
        f"Expected op in `op_list` to be an OpOverload but got: {op} of type {type(op)}. {more}"
    )
