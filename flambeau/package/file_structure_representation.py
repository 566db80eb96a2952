"""The files of a package as a tree."""

from collections.abc import Iterable

from .glob_group import GlobGroup, GlobPattern

__all__ = ["Directory"]


class Directory:
    """A folder or a file of a package; `print` shows the tree.

    Args:
        name: of the folder or file.
        is_dir: whether it is a folder.
    """

    def __init__(self, name: str, is_dir: bool) -> None:
        self.name, self.is_dir = name, is_dir
        self.children: dict[str, Directory] = {}

    def _add_file(self, path: str) -> None:
        here, parts = self, path.split("/")
        for k, part in enumerate(parts):
            made = Directory(part, k + 1 < len(parts))
            here = here.children.setdefault(part, made)

    def has_file(self, filename: str) -> bool:
        """Is there such a file, of that path?"""
        here = self
        for part in filename.split("/"):
            if part not in here.children:
                return False
            here = here.children[part]
        return not here.is_dir

    def __str__(self) -> str:
        return "\n".join([self.name, *self._lines("")]) + "\n"

    def _lines(self, before: str) -> Iterable[str]:
        found = sorted(self.children.values(), key=lambda child: (not child.is_dir, child.name))
        for child in found:
            last = child is found[-1]
            yield f"{before}{'└' if last else '├'}── {child.name}"
            yield from child._lines(before + ("    " if last else "│   "))


def directory_of(
    filename: str, records: Iterable[str], include: GlobPattern, exclude: GlobPattern
) -> Directory:
    """The tree of the records that fit."""
    pattern = GlobGroup(include, exclude=exclude, separator="/")
    made = Directory(filename, True)
    for record in records:
        if pattern.matches(record):
            made._add_file(record)
    return made
