"""The modules that a source imports."""

import ast
from typing import Any


def find_files_source_depends_on(src: str, package: str) -> list[tuple[str, str | None]]:
    """(module, name or None) of what a source imports.

    Args:
        src: the source.
        package: where relative imports begin.
    """
    found: dict[tuple[str, str | None], None] = {}
    for node in ast.walk(ast.parse(src)):
        if isinstance(node, ast.Import):
            found.update(((alias.name, None), None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(node.module or "", package, node.level)
            found.update(
                ((base, None if alias.name == "*" else alias.name), None) for alias in node.names
            )
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "__import__":
            found.update(_of_call(node, package))
    return list(found)


def _absolute(name: str, package: str, level: int) -> str:
    if not level:
        return name
    parts = package.split(".") if package else []
    if len(parts) < level:
        raise ValueError("attempted relative import beyond top-level package")
    base = ".".join(parts[: len(parts) - level + 1])
    return f"{base}.{name}" if name else base


def _of_call(node: ast.Call, package: str) -> dict[tuple[str, str | None], None]:
    """What `__import__("a.b", ..., ["c"], level)` imports, if it can be seen."""
    names = ("name", "globals", "locals", "fromlist", "level")
    given = {**dict(zip(names, node.args)), **{k.arg: k.value for k in node.keywords if k.arg}}
    try:
        name: Any = ast.literal_eval(given["name"])
        level = ast.literal_eval(given["level"]) if "level" in given else 0
        listed = ast.literal_eval(given["fromlist"]) if "fromlist" in given else ()
        base = _absolute(name, package, level) if isinstance(name, str) else ""
    except (ValueError, KeyError, TypeError):
        return {}
    if not base:
        return {}
    return dict.fromkeys([(base, part) for part in listed] or [(base, None)])
