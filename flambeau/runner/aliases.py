"""`import torch` gives flambeau: a finder for this process, a path for those it starts.

The finder answers for `torch`, `torchvision`, `torchviz` and `functorch` with flambeau's own
modules, so both names lead to the same objects. Classes say that they are torch's: libraries tell
by `__module__` whose they are, and write it to files. A process that the program starts (loader
workers that are spawned, `subprocess.run([sys.executable, ...])`) inherits PYTHONPATH, where
`path/torch.py` lies in front of an installed PyTorch. Nothing outside the program's own processes
changes.
"""

import importlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import importlib.util
import os
import sys
from pathlib import Path

import flambeau
from flambeau import version

ALIASES = {
    "torch": "flambeau",
    "torchvision": "flambeau.vision",
    "torchviz": "flambeau.viz",
    "functorch": "flambeau._functorch.older",
}
PATH = str(Path(__file__).parent / "path")
# packages whose names no program asks for
INNER = ("codegen", "runtime", "eager", "interposing", "aten", "ops", "runner")
MISSING: list[str] = []  # modules that were asked for and are not there


class Loader(importlib.machinery.SourceFileLoader):
    """Loads a module of flambeau's, whose classes then say torch."""

    told = staticmethod(lambda module: None)

    def exec_module(self, module):
        super().exec_module(module)
        speak(module)
        self.told(module)


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Lets `import torch.nn` find flambeau.nn: the very same module under a second name."""

    def __init__(self) -> None:
        self.specs: dict = {}

    def find_spec(self, name, path=None, target=None):
        if is_public(name):
            return _speaking(name, path)
        if name.partition(".")[0] not in ALIASES:
            return None
        try:
            found = importlib.util.find_spec(real_name(name))
        except ModuleNotFoundError:
            found = None
        if found is None:
            MISSING.append(name)
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        module = importlib.import_module(real_name(spec.name))
        self.specs[spec.name] = module.__spec__
        return module

    def exec_module(self, module):
        # importlib has just written the spec of the second name over the module's own: back with it
        module.__spec__ = self.specs[module.__spec__.name]

    def find_distributions(self, context=None):
        """Programs ask importlib.metadata which PyTorch they run on."""
        name = getattr(context, "name", None)
        if name in ("torch", "torchvision"):
            yield Distribution(name)


class Distribution(importlib.metadata.Distribution):
    """What importlib.metadata says of an alias."""

    def __init__(self, name: str) -> None:
        self.alias = name

    def read_text(self, filename):
        if filename != "METADATA":
            return None
        number = importlib.import_module(ALIASES[self.alias]).__version__
        return f"Metadata-Version: 2.1\nName: {self.alias}\nVersion: {number}\n"

    def locate_file(self, path):
        return Path(PATH) / path


def real_name(name: str) -> str:
    """torch.nn -> flambeau.nn"""
    first, dot, rest = name.partition(".")
    return ALIASES[first] + dot + rest


def torch_name(name: str) -> str:
    """flambeau.vision.ops -> torchvision.ops"""
    for short, real in sorted(ALIASES.items(), key=lambda item: -len(item[1])):
        if name == real or name.startswith(real + "."):
            return short + name[len(real) :]
    return name


def is_public(name: str) -> bool:
    """Is a module of ours one that programs name?"""
    first, _, rest = name.partition(".")
    return first == "flambeau" and rest.partition(".")[0] not in INNER


def speak(module) -> None:
    """The classes of a module name torch as their home."""
    spoken = torch_name(module.__name__)
    sys.modules.setdefault(spoken, module)  # where hints and sources of a class are looked up
    for value in list(vars(module).values()):
        if isinstance(value, type) and value.__module__ == module.__name__:
            is_at_top = vars(flambeau).get(value.__name__) is value
            value.__module__ = "torch" if is_at_top else spoken


def _speaking(name, path):
    spec = importlib.machinery.PathFinder.find_spec(name, path)
    if spec is not None and type(spec.loader) is importlib.machinery.SourceFileLoader:
        spec.loader = Loader(name, spec.loader.path)
    return spec


def alias() -> None:
    """From now on `import torch` gives flambeau, here and in processes started from here."""
    if any(isinstance(finder, Finder) for finder in sys.meta_path):
        return
    sys.meta_path.insert(0, Finder())
    sys.modules["torch"] = flambeau
    for name, module in list(sys.modules.items()):
        if is_public(name):
            speak(module)
    # programs compare this number with PyTorch's releases, and ask modules for their names
    flambeau.__version__, flambeau.__name__ = version.pytorch, "torch"
    inherited = os.environ.get("PYTHONPATH", "")
    if PATH not in inherited.split(os.pathsep):
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [PATH, inherited]))
    if PATH not in sys.path:  # which spawned workers are given
        sys.path.insert(0, PATH)
