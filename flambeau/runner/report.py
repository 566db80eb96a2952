"""`--report`: what a program asked of torch that flambeau lacks.

Two lists. What was asked for while the program ran: modules and classes of ours note every failing
look-up with the line it came from. What its sources name besides: the files that were run are read
with `ast`, and every dotted name that begins at an imported torch is followed as far as it goes, so
that a program which stops early still tells what it will need next.
"""

import ast
import atexit
import importlib
import os
import sys
import types
from collections import Counter

import flambeau
from flambeau.runner import aliases

HOME = os.path.dirname(os.path.abspath(flambeau.__file__))


class Watched(types.ModuleType):
    """A module of ours whose failing look-ups are noted."""

    def __getattr__(self, name):
        if not name.startswith("__"):
            note(f"{aliases.torch_name(self.__name__)}.{name}")
        raise AttributeError(f"module '{self.__name__}' has no attribute '{name}'")


ASKED: dict[str, Counter] = {}  # name -> how often from which place


def start() -> None:
    """Watch from now on; the report is printed when the program ends."""
    watch_modules()
    flambeau.Tensor.__getattr__ = tensor_attribute  # type: ignore[method-assign]
    atexit.register(finish)


def watch_modules():
    """Every module of ours that is loaded so far; others when the program imports them."""
    for name, module in list(sys.modules.items()):
        if aliases.is_public(name) and type(module) is types.ModuleType:
            module.__class__ = Watched
    aliases.Loader.told = staticmethod(watch)


def watch(module):
    if type(module) is types.ModuleType:
        module.__class__ = Watched


def tensor_attribute(self, name):
    if not name.startswith("__"):
        note(f"Tensor.{name}")
    raise AttributeError(f"'Tensor' object has no attribute '{name}'")


def note(name):
    """Count a name, if the line that asks is the program's and not ours."""
    frame = sys._getframe(2)
    file = frame.f_code.co_filename
    if file.startswith((HOME, "<frozen")):
        return
    ASKED.setdefault(name, Counter())[f"{os.path.relpath(file)}:{frame.f_lineno}"] += 1


# -- names in the sources --------------------------------------------------------------------------


def sources():
    """Files of the program: those of modules that are neither installed nor Python's own."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name.startswith("flambeau") or not file or not file.endswith(".py"):
            continue
        path = os.path.abspath(file)
        foreign = "site-packages" in path or path.startswith((sys.base_prefix, HOME))
        if not foreign and os.path.exists(path):
            yield path


class Names(ast.NodeVisitor):
    """Dotted names in a file that begin at a name imported from torch, with their lines."""

    def __init__(self):
        self.imported = {}
        self.found = {}

    def visit_Import(self, node):
        for item in node.names:
            if item.name.partition(".")[0] in aliases.ALIASES:
                if item.asname:
                    self.imported[item.asname] = item.name
                else:
                    first = item.name.partition(".")[0]
                    self.imported[first] = first
                self.found.setdefault(item.name, node.lineno)

    def visit_ImportFrom(self, node):
        if not node.level and (node.module or "").partition(".")[0] in aliases.ALIASES:
            for item in node.names:
                name = node.module if item.name == "*" else f"{node.module}.{item.name}"
                self.imported[item.asname or item.name] = name
                self.found.setdefault(name, node.lineno)

    def visit_Attribute(self, node):
        parts = []
        inner = node
        while isinstance(inner, ast.Attribute):
            parts.append(inner.attr)
            inner = inner.value
        if isinstance(inner, ast.Name) and inner.id in self.imported:
            name = ".".join([self.imported[inner.id], *reversed(parts)])
            self.found.setdefault(name, node.lineno)
        else:
            self.visit(inner)


def first_missing(name):
    """The shortest beginning of a dotted name that flambeau lacks, or None."""
    path = name.split(".")
    thing = importlib.import_module(aliases.ALIASES[path[0]])
    for length, part in enumerate(path[1:], 2):
        try:
            thing = getattr(thing, part)
        except AttributeError:
            if not isinstance(thing, types.ModuleType):
                # instances make attributes as they like; classes and functions do not
                return ".".join(path[:length]) if isinstance(thing, type) else None
            try:
                thing = importlib.import_module(aliases.real_name(".".join(path[:length])))
            except ImportError:
                return ".".join(path[:length])
        except ImportError:
            return ".".join(path[:length])
        except Exception:  # it is there; what else is wrong with it is not asked here
            return None
    return None


def named():
    """{missing name: place} over all files of the program."""
    missing = {}
    for path in sources():
        names = Names()
        try:
            with open(path, "rb") as file:
                names.visit(ast.parse(file.read(), path))
        except (OSError, SyntaxError, ValueError):
            continue
        for name, line in names.found.items():
            lacking = first_missing(name)
            if lacking:
                missing.setdefault(lacking, f"{os.path.relpath(path)}:{line}")
    return missing


def finish():
    """Print both lists."""
    asked = {name: places.most_common(1)[0][0] for name, places in ASKED.items()}
    for name in aliases.MISSING:
        asked.setdefault(name, "import")
    counts = {name: sum(places.values()) for name, places in ASKED.items()}
    more = {name: place for name, place in named().items() if name not in asked}
    lines = ["", "flambeau report: names that this program uses and flambeau lacks"]
    for title, names in (("asked for while it ran", asked), ("named in its sources", more)):
        if names:
            lines.append(f"  {title}:")
            width = max(map(len, names))
            for name in sorted(names, key=lambda name: (-counts.get(name, 0), name)):
                times = f"{counts[name]} x, " if counts.get(name, 0) > 1 else ""
                lines.append(f"    {name:<{width}}  {times}{names[name]}")
    if not asked and not more:
        lines.append("  none")
    print("\n".join(lines), file=sys.stderr)
