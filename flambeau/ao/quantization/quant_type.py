"""QuantType: what is quantized, and when scales are known."""

import enum

__all__ = ["QuantType", "quant_type_to_str"]


class QuantType(enum.IntEnum):
    """When activations are quantized."""

    DYNAMIC = 0
    STATIC = 1
    QAT = 2
    WEIGHT_ONLY = 3


def quant_type_to_str(quant_type: QuantType) -> str:
    return quant_type.name.lower()
