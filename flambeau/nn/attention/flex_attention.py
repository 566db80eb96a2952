"""`torch.nn.attention.flex_attention`: names that libraries import; the attention is not there.

Scores changed by a function of their place need that function compiled. Libraries choose this way
of computing only when told to, and are then told that it is missing.
"""

from typing import Any, NamedTuple, NoReturn

__all__ = ["AuxRequest", "BlockMask", "create_block_mask", "create_mask", "flex_attention"]

_DEFAULT_SPARSE_BLOCK_SIZE = 128


class AuxRequest(NamedTuple):
    """What else the attention should give."""

    lse: bool = False
    max_scores: bool = False


def _refuse(name: str) -> NoReturn:
    raise NotImplementedError(
        f"torch.nn.attention.flex_attention.{name} is not implemented in flambeau; "
        "scaled_dot_product_attention takes a mask"
    )


class BlockMask:
    """Which blocks of scores are computed; none can be made."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refuse("BlockMask")


def create_block_mask(*args: Any, **kwargs: Any) -> NoReturn:
    """Not there yet: it says so."""
    _refuse("create_block_mask")


def create_mask(*args: Any, **kwargs: Any) -> NoReturn:
    """Not there yet: it says so."""
    _refuse("create_mask")


def flex_attention(*args: Any, **kwargs: Any) -> NoReturn:
    """Not there yet: it says so."""
    _refuse("flex_attention")
