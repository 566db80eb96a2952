"""Patterns of rearrange, in einops' notation: dimensions by names, some of them in brackets."""

import re
from collections.abc import Mapping
from typing import Any

_ellipsis = "…"
_WORD = re.compile(r"\.\.\.|[()]|\w+|\S")


class AnonymousAxis:
    """A dimension that has a size instead of a name; each is one of its own."""

    def __init__(self, value: str) -> None:
        self.value = int(value)
        if self.value < 1:
            raise ValueError(f"Anonymous axis must have positive length, not {value}")

    def __repr__(self) -> str:
        return f"{self.value}-axis"


class ParsedExpression:
    """One side of a pattern.

    composition: a list of names for each dimension, the word for three dots where they stand alone.
    """

    def __init__(self, expression: str) -> None:
        self.has_ellipsis = self.has_non_unitary_anonymous_axes = False
        self.has_ellipsis_parenthesized: bool | None = None
        self.identifiers: set[str | AnonymousAxis] = set()
        self.composition: list[list[str | AnonymousAxis] | str] = []
        group: list[str | AnonymousAxis] | None = None
        for word in _words(expression):
            if word == "(":
                if group is not None:
                    raise ValueError(
                        "Axis composition is one-level (brackets inside brackets not allowed)"
                    )
                group = []
            elif word == ")":
                if group is None:
                    raise ValueError("Brackets are not balanced")
                self.composition.append(group)
                group = None
            else:
                self._add(word, group)
        if group is not None:
            raise ValueError(f"Imbalanced parentheses in expression: '{expression}'")

    def _add(self, word: str, group: list | None) -> None:
        """A name, a size or three dots, in brackets or alone."""
        axis: str | AnonymousAxis = word
        if word == "...":
            axis, self.has_ellipsis = _ellipsis, True
            self.has_ellipsis_parenthesized = group is not None
        elif re.fullmatch("[0-9]+", word):
            if word == "1":
                if group is None:
                    self.composition.append([])
                return
            axis, self.has_non_unitary_anonymous_axes = AnonymousAxis(word), True
        else:
            valid, reason = self.check_axis_name_return_reason(word)
            if not valid:
                raise ValueError(f"Invalid axis identifier: {word}\n{reason}")
            if word in self.identifiers:
                raise ValueError(f"Indexing expression contains duplicate dimension '{word}'")
        self.identifiers.add(axis)
        if group is not None:
            group.append(axis)
        else:
            self.composition.append(axis if isinstance(axis, str) and word == "..." else [axis])

    @staticmethod
    def check_axis_name_return_reason(
        name: str, allow_underscore: bool = False
    ) -> tuple[bool, str]:
        """(may a dimension have this name, why not)."""
        if not name.isidentifier():
            return False, "not a valid python identifier"
        if name.startswith("_") or name.endswith("_"):
            if name == "_" and allow_underscore:
                return True, ""
            return False, "axis name should should not start or end with underscore"
        return True, ""

    @staticmethod
    def check_axis_name(name: str) -> bool:
        """May a dimension have this name?"""
        return ParsedExpression.check_axis_name_return_reason(name)[0]


def _words(expression):
    words = _WORD.findall(expression)
    dots = words.count("...")
    if "." in words or re.search(r"\w\.\.\.|\.\.\.\w", expression):
        raise ValueError("Expression may contain dots only inside ellipsis (...)")
    if dots > 1:
        raise ValueError(
            "Expression may contain dots only inside ellipsis (...); only one ellipsis for tensor "
        )
    for word in words:
        if word not in ("...", "(", ")") and not re.fullmatch(r"\w+", word):
            raise ValueError(f"Unknown character '{word}'")
    return words


def parse_pattern(
    pattern: str, axes_lengths: Mapping[str, int]
) -> tuple[ParsedExpression, ParsedExpression]:
    """Both sides of a pattern."""
    sides = pattern.split("->")
    if len(sides) != 2:
        raise ValueError("Pattern must contain a single '->' separator")
    if _ellipsis in axes_lengths:
        raise ValueError(f"'{_ellipsis}' is not an allowed axis identifier")
    left, right = ParsedExpression(sides[0]), ParsedExpression(sides[1])
    if right.has_ellipsis and not left.has_ellipsis:
        raise ValueError(f"Ellipsis found in right side, but not left side of a pattern {pattern}")
    if left.has_ellipsis_parenthesized:
        raise ValueError(f"Ellipsis is parenthesis in the left side is not allowed: {pattern}")
    return left, right


def validate_rearrange_expressions(
    left: ParsedExpression, right: ParsedExpression, axes_lengths: Mapping[str, Any]
) -> None:
    """Both sides have the same names, and sizes are of names among them."""
    for length in axes_lengths.values():
        if not isinstance(length, int):
            raise TypeError(f"rearrange axis lengths must be integers, got: {type(length)}")
    if left.has_non_unitary_anonymous_axes or right.has_non_unitary_anonymous_axes:
        raise ValueError("rearrange only supports unnamed axes of size 1")
    alone = left.identifiers ^ right.identifiers
    if alone:
        raise ValueError(
            f"Identifiers only on one side of rearrange expression (should be on both): {alone}"
        )
    unknown = axes_lengths.keys() - left.identifiers
    if unknown:
        raise ValueError(f"Identifiers not found in rearrange expression: {unknown}")
