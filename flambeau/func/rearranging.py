"""rearrange: dimensions by names, in einops' notation."""

import math
from typing import Any

from flambeau._tensor import Tensor
from flambeau.ops.table import public


def _parsed(side: str) -> list[list[str]]:
    """Groups of names: those in brackets belong together."""
    groups: list[list[str]] = []
    inside = False
    for word in side.replace("(", " ( ").replace(")", " ) ").replace("...", " … ").split():
        if word == "(":
            groups.append([])
            inside = True
        elif word == ")":
            inside = False
        elif inside:
            groups[-1].append(word)
        else:
            groups.append([] if word == "1" else [word])
    return groups


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
    left_text, arrow, right_text = pattern.partition("->")
    if not arrow:
        raise ValueError(f"rearrange: pattern '{pattern}' has no '->'")
    left, right = _parsed(left_text), _parsed(right_text)
    left, right = _dotted(left, right, whole.ndim)
    if len(left) != whole.ndim:
        raise ValueError(
            f"rearrange: pattern '{pattern}' has {len(left)} dimensions on its left side, the "
            f"tensor has {whole.ndim}"
        )
    sizes: dict[str, int] = {}
    for group, size in zip(left, whole.shape):
        _measure(group, size, axes_lengths, sizes)
    names = [n for group in left for n in group]
    order = [n for group in right for n in group]
    if sorted(names) != sorted(order) or len(set(names)) < len(names):
        raise ValueError(f"rearrange: both sides of '{pattern}' must have the same names, once")
    found = whole.reshape([sizes[n] for n in names]) if names else whole.reshape(())
    found = found.permute([names.index(n) for n in order]) if order else found
    return found.reshape([math.prod(sizes[n] for n in group) for group in right])


def _dotted(left, right, ndim):
    """Names for what three dots stand for."""
    if ["…"] not in left:
        return left, right
    names = [f"…{k}" for k in range(ndim - len(left) + 1)]

    def spread(groups):
        found = []
        for group in groups:
            if group == ["…"]:
                found += [[n] for n in names]
            else:
                found.append([m for n in group for m in (names if n == "…" else [n])])
        return found

    return spread(left), spread(right)


def _measure(group, size, given, sizes):
    """The sizes of the names of one dimension; one of them may follow from the others."""
    unknown = [n for n in group if n not in given]
    known = math.prod(given[n] for n in group if n in given)
    if len(unknown) > 1 or (not unknown and known != size) or (unknown and known and size % known):
        raise ValueError(f"rearrange: a dimension of size {size} cannot be cut into {group}")
    sizes.update({n: given[n] for n in group if n in given})
    for n in unknown:
        sizes[n] = size // known if known else 0
