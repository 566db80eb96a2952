"""Layers that `convert` makes from observed ones as a whole: LSTM and attention."""

from typing import Any

from flambeau.ao.nn import quantizable

__all__ = ["LSTM", "MultiheadAttention"]


class _Whole:
    """Parts are quantized where they stand; only the class of the whole is another."""

    @classmethod
    def from_float(cls, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(
            "It looks like you are trying to convert a non-observed module. Please see the "
            "examples on quantizable modules."
        )

    @classmethod
    def from_observed(cls, other: Any) -> Any:
        from flambeau.ao.quantization.quantize import convert

        found: Any = convert(other.eval(), inplace=False, remove_qconfig=True)
        found.__class__ = cls
        return found

    def _get_name(self) -> str:
        return "Quantized" + type(self).__name__


class LSTM(_Whole, quantizable.LSTM):
    """An LSTM on quantized tensors, with quantized states."""


class MultiheadAttention(_Whole, quantizable.MultiheadAttention):
    """Attention whose projections are on quantized tensors."""
