"""How many numbers share one scale, and the base of observers that are told so.

The parts are those of tensors quantized in blocks, as torchao builds them: which dtype, which
mapping of ranges, where zero is.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from flambeau import Tensor, nn
from flambeau.ao.quantization.partials import with_args


class MappingType(Enum):
    """How numbers become levels: around zero, around zero with each sign scaled by its own end
    (the larger scale counts), or between the ends of their range."""

    SYMMETRIC = auto()
    SYMMETRIC_NO_CLIPPING_ERR = auto()
    ASYMMETRIC = auto()


class ZeroPointDomain(Enum):
    """Whether the zero point is a level, a number, or there is none."""

    INT = auto()
    FLOAT = auto()
    NONE = auto()


class TorchAODType(Enum):
    """Integers of few bits."""

    INT1 = auto()
    INT2 = auto()
    INT3 = auto()
    INT4 = auto()
    INT5 = auto()
    INT6 = auto()
    INT7 = auto()


@dataclass(frozen=True)
class Granularity:
    """How many numbers share one scale."""


@dataclass(frozen=True)
class PerTensor(Granularity):
    """All numbers of a tensor."""


@dataclass(frozen=True)
class PerAxis(Granularity):
    """Those with one index along an axis."""

    axis: int


@dataclass(frozen=True)
class PerBlock(Granularity):
    """Those of a block."""

    block_size: tuple[int, ...]


@dataclass(frozen=True)
class PerGroup(Granularity):
    """So many of a row."""

    group_size: int


class PerRow(Granularity):
    """Those of a row."""


class PerToken(Granularity):
    """Those of the last dimension."""


def get_block_size(input_shape: tuple[int, ...], granularity: Granularity) -> tuple[int, ...]:
    """The shape of the numbers that share a scale.

    Example:
        >>> get_block_size((8, 16), PerAxis(0))
        (1, 16)
    """
    if not isinstance(granularity, Granularity):
        raise AssertionError("Please provide an instance of Granularity, not subclass of it")
    if isinstance(granularity, PerTensor):
        return input_shape
    if isinstance(granularity, PerAxis):
        block = list(input_shape)
        block[granularity.axis] = 1
        return tuple(block)
    if isinstance(granularity, (PerRow, PerToken)):
        return (1,) * (len(input_shape) - 1) + (input_shape[-1],)
    if isinstance(granularity, PerGroup):
        if len(input_shape) != 2:
            raise AssertionError(
                "Expecting input shape dim to be 2 for per group quantization, gotinput shape: "
                f"{input_shape}"
            )
        return 1, granularity.group_size
    raise ValueError(f"Unsupported Granularity: {granularity}")


class AffineQuantizedObserverBase(ABC, nn.Module):
    """The base of observers of tensors quantized in blocks: a subclass looks and answers.

    Args:
        mapping_type: how numbers become levels.
        target_dtype: of the levels.
        granularity: how many numbers share one scale.
        quant_min: the least level.
        quant_max: the largest.
        eps: the least scale.
        scale_dtype: of scales.
        zero_point_dtype: of zero points.
        preserve_zero: whether zero is a level.
        zero_point_domain: what a zero point is.
    """

    def __init__(
        self,
        mapping_type: MappingType,
        target_dtype: Any,
        granularity: Granularity,
        quant_min: int | None = None,
        quant_max: int | None = None,
        eps: float | None = None,
        scale_dtype: Any = None,
        zero_point_dtype: Any = None,
        preserve_zero: bool = True,
        zero_point_domain: ZeroPointDomain | None = ZeroPointDomain.INT,
        **kwargs: Any,
    ) -> None:
        nn.Module.__init__(self)
        if granularity is None:
            raise AssertionError("granularity is None")
        if zero_point_domain is None:
            raise ValueError("Please use ZeroPointDomain.NONE instead of None")
        vars(self).update(
            mapping_type=mapping_type,
            target_dtype=target_dtype,
            granularity=granularity,
            quant_min=quant_min,
            quant_max=quant_max,
            eps=eps,
            scale_dtype=scale_dtype,
            zero_point_dtype=zero_point_dtype,
            preserve_zero=preserve_zero,
            zero_point_domain=zero_point_domain,
            block_size=None,  # both are known once a tensor has passed
            original_dtype=None,
        )

    with_args = classmethod(with_args)

    @abstractmethod
    def forward(self, input: Tensor) -> Tensor:
        """Look at a tensor."""

    @abstractmethod
    def calculate_qparams(self) -> Any:
        """(scale, zero point)"""
