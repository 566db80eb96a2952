"""Patterns of names: `*` stands for part of a component, `**` for any number of them."""

import re
from collections.abc import Iterable

GlobPattern = str | Iterable[str]


class GlobGroup:
    """Names that fit one of some patterns and none of others.

    Args:
        include: a pattern or several.
        exclude: those that names must not fit.
        separator: between the components of a name.

    Example:
        >>> GlobGroup("torch.**", exclude="torch.**.foo").matches("torch.nn.functional")
        True
    """

    def __init__(
        self, include: GlobPattern, *, exclude: GlobPattern = (), separator: str = "."
    ) -> None:
        self._dbg = f"GlobGroup(include={include}, exclude={exclude})"
        self.include = _compiled(include, separator)
        self.exclude = _compiled(exclude, separator)
        self.separator = separator

    def __str__(self) -> str:
        return self._dbg

    def __repr__(self) -> str:
        return self._dbg

    def matches(self, candidate: str) -> bool:
        """Does a name fit?"""
        # each component has a separator before it, so that ** may stand for none
        candidate = self.separator + candidate
        wanted = any(p.fullmatch(candidate) for p in self.include)
        return wanted and not any(p.fullmatch(candidate) for p in self.exclude)


def _compiled(patterns: GlobPattern, separator: str) -> list[re.Pattern[str]]:
    patterns = [patterns] if isinstance(patterns, str) else patterns
    return [_regex(pattern, separator) for pattern in patterns]


def _regex(pattern: str, separator: str) -> re.Pattern[str]:
    bar, parts = re.escape(separator), []
    for component in pattern.split(separator):
        if component == "**":
            parts.append(f"({bar}[^{bar}]+)*")
        elif "**" in component:
            raise ValueError("** can only appear as an entire path segment")
        else:
            inner = f"[^{bar}]*".join(map(re.escape, component.split("*")))
            parts.append(bar + inner)
    return re.compile("".join(parts))
