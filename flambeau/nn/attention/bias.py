"""`torch.nn.attention.bias`: causal masks that know where they begin."""

import enum
from typing import Any

import flambeau
from flambeau import Tensor

__all__ = ["CausalBias", "CausalVariant", "causal_lower_right", "causal_upper_left"]


class CausalVariant(enum.IntEnum):
    """Where the diagonal of a causal mask that is not square lies."""

    UPPER_LEFT = enum.auto()
    LOWER_RIGHT = enum.auto()


class CausalBias(Tensor):
    """A causal mask for scaled_dot_product_attention that is never written out if it can be helped.

    Args:
        variant: does the diagonal end in the lower right corner or begin in the upper left one?
    """

    variant: CausalVariant
    seq_len_q: int
    seq_len_kv: int

    def __new__(cls, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> "CausalBias":
        if not isinstance(variant, CausalVariant):
            raise AssertionError(f"variant must be a CausalVariant, got {type(variant).__name__}")
        empty = flambeau.zeros(int(variant), seq_len_q, seq_len_kv)
        base: Any = Tensor
        out = base._make_subclass(cls, empty)
        out.variant, out.seq_len_q, out.seq_len_kv = variant, seq_len_q, seq_len_kv
        return out

    def __init__(self, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> None:
        if seq_len_q > seq_len_kv and variant == CausalVariant.LOWER_RIGHT:
            import warnings

            warnings.warn(
                "Lower right causal bias will produce NaNs in the output when seq_len_q > "
                "seq_len_kv!",
                stacklevel=2,
            )

    def _materialize(self, device: Any = None) -> Tensor:
        """The mask as booleans."""
        right = self.variant == CausalVariant.LOWER_RIGHT
        offset = self.seq_len_kv - self.seq_len_q if right else 0
        ones = flambeau.ones(self.seq_len_q, self.seq_len_kv, device=device, dtype=flambeau.bool)
        return flambeau.tril(ones, diagonal=offset)

    @staticmethod
    def _dispatch(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: "CausalBias",
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Tensor:
        """Attention with such a mask."""
        if is_causal:
            raise ValueError("CausalBias should not be used with causal=True")
        square = attn_mask.seq_len_q == attn_mask.seq_len_kv
        causal = square or attn_mask.variant == CausalVariant.UPPER_LEFT
        return flambeau.nn.functional.scaled_dot_product_attention(
            query,
            key,
            value,
            attn_mask=None if causal else attn_mask._materialize(query.device),
            dropout_p=dropout_p,
            is_causal=causal,
            scale=scale,
            enable_gqa=enable_gqa,
        )

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is flambeau.nn.functional.scaled_dot_product_attention:
            return cls._dispatch(*args, **kwargs)
        base: Any = super()
        return base.__torch_function__(func, types, args, kwargs)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return repr(self._materialize())


def causal_upper_left(*size: int) -> CausalBias:
    """A causal mask whose diagonal begins in the upper left corner."""
    if len(size) != 2:
        raise AssertionError("causal_upper_left only supports 2D tensors")
    return CausalBias(CausalVariant.UPPER_LEFT, *size)


def causal_lower_right(*size: int) -> CausalBias:
    """A causal mask whose diagonal ends in the lower right corner."""
    if len(size) != 2:
        raise AssertionError("causal_lower_right only supports 2D tensors")
    return CausalBias(CausalVariant.LOWER_RIGHT, *size)
