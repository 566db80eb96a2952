"""rearrange: dimensions by names, in einops' notation."""

import math
from typing import Any

from flambeau._tensor import Tensor
from flambeau.func.patterns import _ellipsis, parse_pattern, validate_rearrange_expressions
from flambeau.ops.table import public


def rearrange(
    tensor: Tensor | list[Tensor] | tuple[Tensor, ...], pattern: str, **axes_lengths: int
) -> Tensor:
    """Dimensions in another order, joined and cut, as a pattern says.

    Example:
        >>> import flambeau as torch
        >>> torch.func.rearrange(torch.zeros(2, 3, 4), "a b c -> (a b) c").shape
        torch.Size([6, 4])
    """
    whole: Any = tensor if isinstance(tensor, Tensor) else public("stack")(list(tensor))
    left_side, right_side = parse_pattern(pattern, axes_lengths)
    validate_rearrange_expressions(left_side, right_side, axes_lengths)
    count = len(left_side.composition) - left_side.has_ellipsis
    if whole.ndim < count if left_side.has_ellipsis else whole.ndim != count:
        relation = "less than or equal" if left_side.has_ellipsis else "equal"
        raise ValueError(
            f"Number of dimensions in pattern ({count}) must be {relation} to the number of "
            f"dimensions in the tensor ({whole.ndim})"
        )
    dots = [f"{_ellipsis}{k}" for k in range(whole.ndim - count)]
    left, right = _spread(left_side.composition, dots), _spread(right_side.composition, dots)
    sizes: dict[str, int] = {}
    for group, size in zip(left, whole.shape):
        _measure(group, size, axes_lengths, sizes)
    names = [n for group in left for n in group]
    order = [n for group in right for n in group]
    found = whole.reshape([sizes[n] for n in names]) if names else whole.reshape(())
    found = found.permute([names.index(n) for n in order]) if order else found
    return found.reshape([math.prod(sizes[n] for n in group) for group in right])


def _spread(composition: Any, dots: list[str]) -> list[list[str]]:
    """Groups of names, with names for what three dots stand for."""
    found: list[list[str]] = []
    for group in composition:
        if group == _ellipsis:
            found += [[n] for n in dots]
        else:
            found.append([m for n in group for m in (dots if n == _ellipsis else [n])])
    return found


def _measure(group, size, given, sizes):
    """The sizes of the names of one dimension; one of them may follow from the others."""
    unknown = [n for n in group if n not in given]
    known = math.prod(given[n] for n in group if n in given)
    if len(unknown) > 1 or (not unknown and known != size) or (unknown and known and size % known):
        raise ValueError(f"rearrange: a dimension of size {size} cannot be cut into {group}")
    sizes.update({n: given[n] for n in group if n in given})
    for n in unknown:
        sizes[n] = size // known if known else 0
