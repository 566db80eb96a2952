"""`torch.nn.attention.flex_attention`: attention with scores and masks that functions give.

A score or mask function is written for one score, by the numbers of its batch, head, query and key.
It is called once, with tensors of numbers that broadcast against all scores, so that it runs as a
few ops; torch.compile fuses them. Where only a mask is given, scaled_dot_product_attention runs.
Masks by blocks are in block_mask.py.
"""

import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple, TypedDict

import flambeau
from flambeau import Tensor
from flambeau.nn.attention.block_mask import (
    _DEFAULT_SPARSE_BLOCK_SIZE as _DEFAULT_SPARSE_BLOCK_SIZE,
)
from flambeau.nn.attention.block_mask import BlockMask as BlockMask
from flambeau.nn.attention.block_mask import and_masks as and_masks
from flambeau.nn.attention.block_mask import create_block_mask as create_block_mask
from flambeau.nn.attention.block_mask import create_mask as create_mask
from flambeau.nn.attention.block_mask import mask_of, numbers
from flambeau.nn.attention.block_mask import noop_mask as noop_mask
from flambeau.nn.attention.block_mask import or_masks as or_masks

__all__ = [
    "AuxOutput",
    "AuxRequest",
    "BlockMask",
    "FlexKernelOptions",
    "and_masks",
    "create_block_mask",
    "create_mask",
    "flex_attention",
    "noop_mask",
    "or_masks",
]


class AuxRequest(NamedTuple):
    """What else the attention should give."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """What else the attention gave."""

    lse: Tensor | None = None
    max_scores: Tensor | None = None


class FlexKernelOptions(TypedDict, total=False):
    """Options of PyTorch's kernels for GPUs; they are accepted, and change nothing here."""

    num_warps: int
    num_stages: int
    BLOCK_M: int
    BLOCK_N: int
    BLOCK_M1: int
    BLOCK_N1: int
    BLOCK_M2: int
    BLOCK_N2: int
    PRESCALE_QK: bool
    ROWS_GUARANTEED_SAFE: bool
    BLOCKS_ARE_CONTIGUOUS: bool
    WRITE_DQ: bool
    FORCE_USE_FLEX_ATTENTION: bool
    USE_TMA: bool
    kpack: int
    matrix_instr_nonkdim: int
    waves_per_eu: int
    BACKEND: str


def _check(query: Tensor, key: Tensor, value: Tensor, enable_gqa: bool) -> None:
    if any(t.dim() != 4 for t in (query, key, value)):
        raise NotImplementedError("NYI: query, key, and value must be 4D tensors")
    (_, heads, _, width), (_, shared, _, key_width) = query.shape, key.shape
    told = f"Hq={heads} and Hkv={shared}."
    same, many = "Expect query and key/value to have the same", "Expect number of query heads to be"
    complaints = {
        f"{same} embedding dimension but got E={width} and E={key_width}.": width != key_width,
        f"{same} number of heads but got {told} Try setting enable_gqa=True for GQA.": (
            heads != shared and not enable_gqa
        ),
        f"{many} a multiple of kv heads for GQA but got {told}": enable_gqa and heads % shared,
    }
    for words, holds in complaints.items():
        if holds:
            raise ValueError(words)


def _check_batches(block_mask: BlockMask | None, query: Tensor, key: Tensor) -> None:
    """Keys may be those of all queries if a mask says how many batches there are."""
    batch, others = query.size(0), key.size(0)
    if batch == others:
        return
    start = "Expect query and key/value to have the same batch size, or"
    if block_mask is None:
        raise ValueError(
            f"{start} non-none block_mask, but got block_mask=None, Bq={batch}, and Bkv={others}."
        )
    masked = block_mask.kv_num_blocks.size(0)
    if masked != batch:
        raise ValueError(
            f"{start} block_mask and query to have the same batch size, but got Bq={batch}, "
            f"Bkv={others}, B_block_mask={masked}."
        )


def _check_lengths(block_mask: BlockMask, query: Tensor, key: Tensor) -> None:
    lengths = query.size(-2), key.size(-2)
    made_for = block_mask.seq_lengths
    if made_for == lengths:
        return
    shape = block_mask.shape
    text = (
        f"block_mask was created for block_mask.shape={shape} but got q_len={lengths[0]} and "
        f"kv_len={lengths[1]}. "
    )
    if made_for[0] < lengths[0] or made_for[1] < lengths[1]:
        raise ValueError(
            text + "As the block mask was created for a smaller length than you're using it for, "
            "you likely need to create a new block mask."
        )
    raise ValueError(
        text + "As the block mask was created for a larger length than you're using it for, you "
        "can either 1. create a new block mask with the correct length, or 2. 'adjust' the "
        "existing block mask to the correct length by calling block_mask._adjust(q_len, kv_len)."
    )


def _grouped(query: Tensor, t: Tensor) -> Tensor:
    """Heads of keys or values as often as queries share them."""
    times = query.size(1) // t.size(1)
    t = t if times == 1 else t.repeat_interleave(times, 1)
    return t if t.size(0) == query.size(0) else t.expand(query.size(0), *t.shape[1:])


def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Callable | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: FlexKernelOptions | None = None,
    *,
    return_aux: AuxRequest | None = None,
) -> Any:
    """Attention whose scores a function changes, and whose mask another gives.

    Args:
        query, key, value: (batch, heads, length, width).
        score_mod: (score, batch, head, query number, key number) -> score.
        block_mask: of create_block_mask.
        scale: of scores; one over the root of the width if it is not given.
        enable_gqa: may several heads of queries share one of keys and values?
        return_lse: give the logarithms of the sums of exponentials of scores, too?

    Example:
        >>> from flambeau.nn.attention.flex_attention import flex_attention
        >>> q = torch.ones(1, 1, 2, 4)
        >>> flex_attention(q, q, q, lambda score, b, h, i, j: score - (i - j).abs()).shape
        torch.Size([1, 1, 2, 4])
    """
    _check(query, key, value, enable_gqa)
    _check_batches(block_mask, query, key)
    if return_lse and return_aux is not None:
        raise ValueError("Cannot specify both return_lse and return_aux.")
    if return_lse:
        warnings.warn(
            "return_lse is deprecated and will be removed in v2.10. Please use "
            "return_aux=AuxRequest(lse=True) instead.",
            FutureWarning,
            stacklevel=2,
        )
    if return_aux is not None and return_aux.max_scores and query.device.type == "cpu":
        raise NotImplementedError("Returning max scores is not supported on CPU/MPS.")
    if block_mask is not None:
        _check_lengths(block_mask, query, key)
    key, value = _grouped(query, key), _grouped(query, value)
    wants = return_lse or (return_aux is not None and (return_aux.lse or return_aux.max_scores))
    mask = None if block_mask is None else mask_of(block_mask, query)
    if score_mod is None and not wants:
        out = flambeau.nn.functional.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, scale=scale
        )
        return out if return_aux is None else (out, AuxOutput())
    out, lse, most = _computed(query, key, value, score_mod, mask, scale)
    if return_aux is not None:
        return out, AuxOutput(
            lse if return_aux.lse else None, most if return_aux.max_scores else None
        )
    return (out, lse) if return_lse else out


def _computed(query, key, value, score_mod, mask, scale):
    """(attention, logarithms of sums, largest scores), all scores in memory."""
    working = flambeau.float64 if query.dtype == flambeau.float64 else flambeau.float32
    scale = 1.0 / math.sqrt(query.size(-1)) if scale is None else scale
    scores = (query.to(working) @ key.to(working).transpose(-2, -1)) * scale
    if score_mod is not None:
        scores = score_mod(scores, *numbers(scores.shape, query.device)).to(working)
        scores = scores.expand(*query.shape[:-1], key.size(-2))
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    lse = scores.logsumexp(-1)
    nothing = lse == float("-inf")  # rows without a key attend to nothing
    shares = (scores - lse.masked_fill(nothing, 0.0).unsqueeze(-1)).exp()
    out = (shares @ value.to(working)).to(query.dtype)
    return out, lse, scores.amax(-1)
