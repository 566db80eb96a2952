"""`python -m flambeau`: run a script that says `import torch`, look inside a kernel, ask for facts.

python -m flambeau script.py [arguments]      torch is flambeau, torchvision is flambeau.vision
python -m flambeau -m package [arguments]     the same for a module
python -m flambeau -c "import torch; ..."     the same for a piece of code
python -m flambeau explain "gelu(randn(9))"   every stage of the kernels an expression needs
python -m flambeau info                       versions, processor, threads, cache
"""

import argparse
import importlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import importlib.util
import inspect
import os
import platform
import runpy
import sys

import flambeau
from flambeau import config
from flambeau.codegen import dump
from flambeau.ops.table import TABLE

ALIASES = {"torch": "flambeau", "torchvision": "flambeau.vision", "torchviz": "flambeau.viz"}


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Lets `import torch.nn` find flambeau.nn: the very same module under a second name."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in ALIASES:
            return None
        try:
            found = importlib.util.find_spec(real_name(name))
        except ModuleNotFoundError:
            found = None
        return found and importlib.machinery.ModuleSpec(name, self, is_package=True)

    def __init__(self):
        self.specs = {}

    def create_module(self, spec):
        module = importlib.import_module(real_name(spec.name))
        self.specs[spec.name] = module.__spec__
        return module

    def exec_module(self, module):
        # importlib has just written the spec of the second name over the module's own: back with it
        module.__spec__ = self.specs[module.__spec__.name]


def real_name(name):
    """torch.nn -> flambeau.nn"""
    first, dot, rest = name.partition(".")
    return ALIASES[first] + dot + rest


def alias():
    """From now on `import torch` gives flambeau."""
    if not any(isinstance(f, Finder) for f in sys.meta_path):
        sys.meta_path.insert(0, Finder())
    sys.modules["torch"] = importlib.import_module("flambeau")


def run(arguments):
    """A script, a module (-m) or code (-c), as python itself would run it."""
    alias()
    first, *rest = arguments
    if first in ("-m", "-c") and not rest:
        sys.exit(f"argument expected for the {first} option")
    if first == "-m":
        sys.argv = rest
        sys.path.insert(0, os.getcwd())
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif first == "-c":
        sys.argv = ["-c", *rest[1:]]
        sys.path.insert(0, "")
        exec(compile(rest[0], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv = arguments
        sys.path.insert(0, os.path.dirname(os.path.abspath(first)))
        runpy.run_path(first, run_name="__main__")


# -- explain ---------------------------------------------------------------------------------------


def explain(arguments):
    """Print the stages of the kernels that an expression needs."""
    stages = ("row", *dump.STAGES)
    parser = argparse.ArgumentParser(prog="python -m flambeau explain", description=explain.__doc__)
    parser.add_argument("expression", help="for example: gelu(randn(1000))")
    parser.add_argument(
        "--stage", choices=stages, action="append", help="only this stage (may repeat)"
    )
    parser.add_argument("--all", action="store_true", help="every kernel, not only the last")
    parser.add_argument("--list", action="store_true", help="only the names of the kernels")
    options = parser.parse_args(arguments)
    with dump.record() as kernels:
        evaluate(options.expression)
    if not kernels:
        print("no kernel was needed")
        return
    if options.list:
        print("\n".join(k.name for k in kernels))
        return
    for kernel in kernels if options.all else kernels[-1:]:
        print(f"=== {kernel.name}")
        for stage in options.stage or stages:
            text = row_text(kernel.name) if stage == "row" else dump.describe(kernel, stage)
            if text:
                print(f"\n--- {stage}\n{text}")
        print()


class Names(dict):
    """flambeau's names, torch, and functions of nn.functional, for expressions."""

    def __missing__(self, name):
        if name == "torch":
            return flambeau
        if name in ("range", "__builtins__"):
            raise KeyError(name)
        if name == "F":
            return importlib.import_module("flambeau.nn.functional")
        for home in ("flambeau", "flambeau.nn.functional", "flambeau.special"):
            try:
                return getattr(importlib.import_module(home), name)
            except (AttributeError, ModuleNotFoundError):
                continue
        raise KeyError(name)


def evaluate(expression):
    """The value of an expression, which sees flambeau's names."""
    return eval(compile(expression, "<expression>", "eval"), Names())


def row_text(name):
    """The source of the row a kernel belongs to."""
    op = TABLE.get(name) or TABLE.get(str(name).removesuffix("_backward"))
    body = getattr(op, "body", None)
    if body is None:
        return None
    try:
        return inspect.getsource(body).rstrip()
    except (OSError, TypeError):
        return None


# -- info ------------------------------------------------------------------------------------------


def info(arguments=()):
    """Print versions, what the processor can do, threads and the kernel cache."""
    from flambeau.codegen.llvm_cpu import host  # with llvmlite, on first need

    version = importlib.metadata.version
    features = sorted(name for name, on in host().features.items() if on)
    count, nbytes = cache_contents(config.cache_dir())
    facts = {
        "flambeau": flambeau.__version__,
        "python": f"{platform.python_version()} ({platform.python_implementation()})",
        "llvmlite": f"{version('llvmlite')} (LLVM {host().version})",
        "numpy": version("numpy"),
        "platform": f"{platform.system()} {platform.machine()}, {host().triple}",
        "vectors": f"{8 * host().vector_bytes} bits",
        "threads": f"{flambeau.get_num_threads()} of {os.cpu_count()}",
        "cache": config.cache_dir() or "none (FLAMBEAU_CACHE_DIR is empty)",
        "cached": f"{count} kernels, {nbytes / 1e6:.1f} MB",
        "features": " ".join(features),
    }
    for name, value in facts.items():
        print(f"{name:<10}{value}")


def cache_contents(directory):
    """(files, bytes) under a directory, which may be missing."""
    count = nbytes = 0
    for folder, _, files in os.walk(directory or os.devnull):
        for name in files:
            try:
                nbytes += os.path.getsize(os.path.join(folder, name))
            except OSError:
                continue  # another process has just replaced it
            count += 1
    return count, nbytes


def main(arguments):
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(f"flambeau {flambeau.__version__}\n\n{__doc__}")
    elif arguments[0] in ("-V", "--version"):
        print(f"flambeau {flambeau.__version__}")
    elif arguments[0] == "explain":
        explain(arguments[1:])
    elif arguments[0] == "info":
        info(arguments[1:])
    else:
        run(arguments)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except BrokenPipeError:  # the reader, `head` for example, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
