"""Quantizers: what says, for the nodes of an exported program, how values are to be quantized.

A quantizer writes a `QuantizationAnnotation` into `node.meta["quantization_annotation"]`;
`quantize_pt2e` puts observers where annotations ask for them.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import flambeau as torch
from flambeau.fx import GraphModule, Node

__all__ = [
    "ComposableQuantizer", "DerivedQuantizationSpec", "FixedQParamsQuantizationSpec",
    "QuantizationAnnotation", "QuantizationConfig", "QuantizationSpec", "QuantizationSpecBase",
    "Quantizer", "SharedQuantizationSpec",
]  # fmt: skip

EdgeOrNode: TypeAlias = tuple[Node, Node] | Node


class QuantizationSpecBase:
    """How a value is quantized; the kinds below say it in different ways."""


@dataclass(eq=True, frozen=True)
class QuantizationSpec(QuantizationSpecBase):
    """By an observer (or a fake quantization) of its own."""

    dtype: Any
    observer_or_fake_quant_ctr: Any
    quant_min: int | None = None
    quant_max: int | None = None
    qscheme: Any = None
    ch_axis: int | None = None
    is_dynamic: bool = False

    def __post_init__(self) -> None:
        ends = (self.quant_min, self.quant_max)
        if None not in ends and self.quant_min > self.quant_max:  # type: ignore[operator]
            raise ValueError(f"quant_min {self.quant_min} must be <= quant_max {self.quant_max}.")
        if self.ch_axis is not None and self.ch_axis < 0:
            raise ValueError("Ch_axis is < 0.")


@dataclass(eq=True, frozen=True)
class FixedQParamsQuantizationSpec(QuantizationSpecBase):
    """By a scale and a zero point that are known."""

    dtype: Any
    scale: float
    zero_point: int
    quant_min: int | None = None
    quant_max: int | None = None
    qscheme: Any = None
    is_dynamic: bool = False


@dataclass(eq=True, frozen=True)
class SharedQuantizationSpec(QuantizationSpecBase):
    """Like another value: the result of a node, or a node as an argument of a second one."""

    edge_or_node: EdgeOrNode


@dataclass(eq=True, frozen=True)
class DerivedQuantizationSpec(QuantizationSpecBase):
    """By scales that follow from those of other values, as those of a bias."""

    derived_from: list[EdgeOrNode]
    derive_qparams_fn: Callable
    dtype: Any
    quant_min: int | None = None
    quant_max: int | None = None
    qscheme: Any = None
    ch_axis: int | None = None
    is_dynamic: bool = False


@dataclass
class QuantizationAnnotation:
    """What a quantizer says about a node: how its arguments and its result are quantized."""

    input_qspec_map: dict[Node, QuantizationSpecBase | None] = field(default_factory=dict)
    output_qspec: QuantizationSpecBase | None = None
    allow_implicit_sharing: bool = True
    _annotated: bool = False


@dataclass(eq=True, frozen=True)
class QuantizationConfig:
    """Specs for the parts of a layer."""

    input_activation: QuantizationSpec | None
    output_activation: QuantizationSpec | None
    weight: QuantizationSpec | None
    bias: QuantizationSpec | None
    is_qat: bool = False


class Quantizer(ABC):
    """Says how the values of a program are quantized."""

    def transform_for_annotation(self, model: GraphModule) -> GraphModule:
        """Change the program before it is annotated; nothing by default."""
        return model

    @abstractmethod
    def annotate(self, model: GraphModule) -> GraphModule:
        """Write annotations."""

    @abstractmethod
    def validate(self, model: GraphModule) -> None:
        """Complain about annotations that cannot be kept."""

    def prepare_obs_or_fq_callback(
        self, model: GraphModule, edge_or_node_to_obs_or_fq: dict[EdgeOrNode, Any]
    ) -> None:
        """Change observers before they are put in; nothing by default."""
        return


class ComposableQuantizer(Quantizer):
    """Several quantizers, one after the other; what one has annotated the next leaves alone."""

    def __init__(self, quantizers: list[Quantizer]) -> None:
        self.quantizers = quantizers

    def transform_for_annotation(self, model: GraphModule) -> GraphModule:
        for one in self.quantizers:
            model = one.transform_for_annotation(model)
        return model

    def annotate(self, model: GraphModule) -> GraphModule:
        for one in self.quantizers:
            one.annotate(model)
        return model

    def validate(self, model: GraphModule) -> None:
        for one in self.quantizers:
            one.validate(model)


def spec(kind: Any, words: str, /, **more: Any) -> QuantizationSpec:
    """A spec from the words of `partials.described`: "int8 -128..127 affine"."""
    from flambeau.ao.quantization.partials import described

    told = dict(described(kind, words).p.keywords)
    known = {k: told.pop(k) for k in ("dtype", "quant_min", "quant_max", "qscheme") if k in told}
    axis: dict[str, Any] = (
        {"ch_axis": 0} if known.get("qscheme") is torch.per_channel_symmetric else {}
    )
    return QuantizationSpec(
        **known, **axis, observer_or_fake_quant_ctr=kind.with_args(**told, **more)
    )
