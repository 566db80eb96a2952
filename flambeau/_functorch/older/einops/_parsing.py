"""`functorch.einops._parsing`, by name; the code is in func/patterns.py."""

from flambeau.func.patterns import (
    AnonymousAxis,
    ParsedExpression,
    _ellipsis,
    parse_pattern,
    validate_rearrange_expressions,
)

__all__ = [
    "AnonymousAxis",
    "ParsedExpression",
    "_ellipsis",
    "parse_pattern",
    "validate_rearrange_expressions",
]
