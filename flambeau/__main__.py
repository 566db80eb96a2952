"""`python -m flambeau`: run a script that says `import torch`, look inside a kernel, ask for facts.

python -m flambeau script.py [arguments]      torch is flambeau, torchvision is flambeau.vision
python -m flambeau -m package [arguments]     the same for a module
python -m flambeau -c "import torch; ..."     the same for a piece of code
python -m flambeau torchrun [options] FILE    the same in several processes
python -m flambeau --report script.py         the same, then a list of names that flambeau lacks
python -m flambeau inspect FILE               what is in a saved file, without loading it
python -m flambeau explain "gelu(randn(9))"   every stage of the kernels an expression needs
python -m flambeau info                       versions, processor, threads, cache
"""

import argparse
import importlib
import importlib.metadata
import inspect
import os
import platform
import sys

import flambeau
from flambeau import config, runner
from flambeau.codegen import dump
from flambeau.eager import explaining
from flambeau.ops.table import TABLE

# -- explain ---------------------------------------------------------------------------------------


def explain(arguments):
    """Print the stages of the kernels that an expression needs."""
    before = {"row": row_text, "text": explaining.texts, "plan": explaining.plans}
    stages = (*before, *dump.STAGES)
    parser = argparse.ArgumentParser(prog="python -m flambeau explain", description=explain.__doc__)
    parser.add_argument("expression", help="for example: gelu(randn(1000))")
    parser.add_argument(
        "--stage", choices=stages, action="append", help="only this stage (may repeat)"
    )
    parser.add_argument("--all", action="store_true", help="every kernel, not only the last")
    parser.add_argument("--list", action="store_true", help="only the names of the kernels")
    options = parser.parse_args(arguments)
    with dump.record() as kernels:
        value = evaluate(options.expression)
    explaining.measure(kernels, lambda: evaluate(options.expression), value)
    if not kernels:
        print("no kernel was needed")
        return
    if options.list:
        print("\n".join(k.name for k in kernels))
        return
    for kernel in kernels if options.all else kernels[-1:]:
        print(f"=== {kernel.name}")
        for stage in options.stage or stages:
            show = before.get(stage)
            text = dump.describe(kernel, stage) if show is None else show(kernel.name)
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
    features = sorted(name for name, on in host().target.features.items() if on)
    count, nbytes = cache_contents(config.cache_dir())
    facts = {
        "flambeau": flambeau.__version__,
        "python": f"{platform.python_version()} ({platform.python_implementation()})",
        "llvmlite": f"{version('llvmlite')} (LLVM {host().version})",
        "numpy": version("numpy"),
        "platform": f"{platform.system()} {platform.machine()}, {host().triple}",
        "vectors": f"{8 * host().target.vector_bytes} bits",
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
    elif arguments[0] == "inspect":
        from flambeau.serialization import inspecting  # with its readers, on first need

        sys.exit(inspecting.main(arguments[1:]))
    else:
        runner.run(arguments)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except BrokenPipeError:  # the reader, `head` for example, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
