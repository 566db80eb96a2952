"""Arguments of collectives: checked in PyTorch's words, and made flat for engines."""

import warnings
from typing import Any

from flambeau import Tensor

from .groups import get_group_rank, not_in_group
from .reduce_ops import RedOpType, ReduceOp, kind_of, supports_complex

__all__ = [
    "checked_op",
    "flat_of",
    "is_outside",
    "one_tensor",
    "root_of",
    "same_dtype",
    "same_shape",
    "several_tensors",
    "shape_text",
    "written",
]


# -- tensors as engines want them ------------------------------------------------------------------


def flat_of(t: Tensor, group: Any) -> tuple[Tensor, bool]:
    """(the elements side by side, where the group's engine for them works; are they a copy?)"""
    t = t.detach()
    if not group.serves(t):
        return t.cpu().contiguous().view(-1), True
    if t.is_complex() and t.is_conj():
        t = t.resolve_conj()
    if t.is_contiguous():
        return t.view(-1), False
    return t.contiguous().view(-1), True


def written(tensors, flats):
    """What was computed in copies goes back."""
    for t, (flat, copied) in zip(tensors, flats):
        if copied:
            t.detach().copy_(flat.view(t.shape))


# -- checks ----------------------------------------------------------------------------------------


def one_tensor(value, name):
    if not isinstance(value, Tensor):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type torch.Tensor\n"
            f"             but got {type(value)} instead."
        )


def several_tensors(value, name):
    if not isinstance(value, (list, tuple)) or not all(isinstance(t, Tensor) for t in value):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type List[torch.Tensor]\n"
            f"             but got {type(value)} with elements of type "
            f"{[type(v) for v in value] if isinstance(value, (list, tuple)) else None}."
        )


def same_dtype(*tensors):
    first = tensors[0].dtype
    for t in tensors[1:]:
        if t.dtype is not first:
            raise ValueError(
                f"Invalid usage of tensors with different dtypesFound {first} and  {t.dtype}"
            )


def shape_text(t):
    return "(" + ", ".join(map(str, t.shape)) + ")"


def same_shape(name, tensors, expected):
    for k, t in enumerate(tensors):
        if t.shape != expected.shape:
            raise RuntimeError(
                f"ProcessGroupGloo::{name}: invalid tensor size at index {k} "
                f"(expected {shape_text(expected)}, got {shape_text(t)})"
            )


def checked_op(name, op, t):
    kind = kind_of(op)
    if kind is None or (kind is RedOpType.PREMUL_SUM and not isinstance(op, ReduceOp)):
        raise TypeError(f"{name}(): incompatible function arguments: op={op!r} is no ReduceOp")
    if t.is_complex() and not supports_complex(op):
        raise ValueError(f"{name} does not support {kind} on complex tensors")
    if kind.name in ("BAND", "BOR", "BXOR") and (t.is_floating_point() or t.is_complex()):
        raise RuntimeError(f"Cannot use ReduceOp.{kind.name} with non-integral dtype")
    return op


def root_of(name, group, rank, group_rank):
    """The member that rank= of the world or group_rank= means."""
    if rank is None and group_rank is None:
        raise ValueError("Must specify global_rank or group_rank")
    if rank is not None and group_rank is not None:
        raise ValueError("Can't specify both group_rank and global_rank")
    if group_rank is None:
        if name and not 0 <= rank < group._world.size:
            raise RuntimeError(f"ProcessGroupGloo::{name}: invalid root rank: {rank}")
        group_rank = get_group_rank(group, rank)
    if not 0 <= group_rank < group.size():
        raise RuntimeError(f"ProcessGroupGloo::{name}: invalid root rank: {group_rank}")
    return group_rank


def is_outside(group: Any, name: str) -> bool:
    """Is this somebody else's group? Then nothing happens."""
    if not_in_group(group):
        warnings.warn(
            f"Running {name} on global rank which does not belong to the given group.",
            stacklevel=3,
        )
        return True
    return False
