"""Names of modules from packages: `<torch_package_0>.` before the name, a number per importer."""

import itertools
import re

_numbers = itertools.count()


class PackageMangler:
    """The names of one importer's modules."""

    def __init__(self) -> None:
        self._mangle_parent = f"<torch_package_{next(_numbers)}>"

    def mangle(self, name: str) -> str:
        if not name:
            raise AssertionError("name must not be empty")
        return f"{self._mangle_parent}.{name}"

    def demangle(self, mangled: str) -> str:
        """The name without this importer's prefix; names of others stay."""
        return mangled.removeprefix(self._mangle_parent + ".")

    def parent_name(self) -> str:
        return self._mangle_parent


def is_mangled(name: str) -> bool:
    return re.match(r"<torch_package_\d+>", name) is not None


def demangle(name: str) -> str:
    """The name without any importer's prefix."""
    return name.partition(".")[2] if is_mangled(name) else name


def get_mangle_prefix(name: str) -> str:
    return name.partition(".")[0] if is_mangled(name) else name
