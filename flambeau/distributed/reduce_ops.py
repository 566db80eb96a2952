"""ReduceOp: how numbers of several processes become one, in place and for every dtype."""

import enum
from typing import Any, ClassVar

import flambeau

__all__ = ["ReduceOp", "reduce_op", "supports_complex", "combine", "finish", "kind_of"]


class RedOpType(enum.Enum):
    """The kinds of reductions."""

    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM = range(9)

    def __str__(self) -> str:
        return f"RedOpType.{self.name}"


class ReduceOp:
    """A reduction: `ReduceOp.SUM` and its kin, or one that carries a factor."""

    RedOpType: ClassVar[Any] = RedOpType
    SUM: ClassVar[Any] = RedOpType.SUM
    AVG: ClassVar[Any] = RedOpType.AVG
    PRODUCT: ClassVar[Any] = RedOpType.PRODUCT
    MIN: ClassVar[Any] = RedOpType.MIN
    MAX: ClassVar[Any] = RedOpType.MAX
    BAND: ClassVar[Any] = RedOpType.BAND
    BOR: ClassVar[Any] = RedOpType.BOR
    BXOR: ClassVar[Any] = RedOpType.BXOR
    PREMUL_SUM: ClassVar[Any] = RedOpType.PREMUL_SUM

    def __init__(self, op: RedOpType, factor: Any = None) -> None:
        self.op, self.factor = op, factor

    def __eq__(self, other: object) -> bool:
        return self.op is kind_of(other)

    def __hash__(self) -> int:
        return hash(self.op)

    def __repr__(self) -> str:
        return f"ReduceOp({self.op})"


class _Older:
    """`dist.reduce_op.SUM`, from before ReduceOp."""

    SUM, PRODUCT, MAX, MIN = ReduceOp.SUM, ReduceOp.PRODUCT, ReduceOp.MAX, ReduceOp.MIN


reduce_op = _Older


def kind_of(op: Any) -> RedOpType | None:
    """The RedOpType of what is given as op=; None if it is none."""
    if isinstance(op, RedOpType):
        return op
    return op.op if isinstance(op, ReduceOp) else None


def supports_complex(reduceOp: Any) -> bool:
    """Can complex numbers be reduced so?"""
    return kind_of(reduceOp) not in (
        RedOpType.MAX,
        RedOpType.MIN,
        RedOpType.PRODUCT,
        RedOpType.BAND,
        RedOpType.BOR,
        RedOpType.BXOR,
    )


def _into(function):
    return lambda total, other: function(total, other, out=total)


_IN_PLACE = {
    RedOpType.SUM: lambda total, other: total.add_(other),
    RedOpType.AVG: lambda total, other: total.add_(other),
    RedOpType.PREMUL_SUM: lambda total, other: total.add_(other),
    RedOpType.PRODUCT: lambda total, other: total.mul_(other),
    RedOpType.MIN: _into(flambeau.minimum),
    RedOpType.MAX: _into(flambeau.maximum),
    RedOpType.BAND: lambda total, other: total.bitwise_and_(other),
    RedOpType.BOR: lambda total, other: total.bitwise_or_(other),
    RedOpType.BXOR: lambda total, other: total.bitwise_xor_(other),
}


def combine(op):
    """The function (total, other) that reduces other into total."""
    return _IN_PLACE[kind_of(op)]


def finish(op, total, count):
    """What is left to do once all are in total."""
    if kind_of(op) is RedOpType.AVG:
        if total.dtype.is_floating_point or total.dtype.is_complex:
            total.div_(count)
        else:
            total.copy_(total.div(count, rounding_mode="trunc"))
