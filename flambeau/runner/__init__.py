"""Programs that say `import torch`, run by flambeau.

`run` executes a script, a module or a piece of code as `python` itself would. `aliases.py` makes
torch, torchvision and torchviz resolve to flambeau; the folder `path/` does the same for the
processes that a program starts; `report.py` says what a program asked for in vain.
"""

import os
import runpy
import sys
import types
import zipfile

from flambeau.runner import aliases, report

__all__ = ["run"]


def run(arguments: list[str]) -> None:
    """`script.py args...`, `-m module args...`, `-c code args...`, `torchrun args...` or `-`.

    `--report` may stand before it.
    """
    arguments = list(arguments)
    wants_report = arguments[:1] == ["--report"]
    if wants_report:
        arguments.pop(0)
    if not arguments:
        sys.exit("--report needs a program: python -m flambeau --report script.py")
    first, *rest = arguments
    if first in ("-m", "-c") and not rest:
        sys.exit(f"argument expected for the {first} option")
    aliases.alias()
    sys.excepthook = without_our_frames(sys.excepthook)
    if wants_report:
        report.start()
    if first == "-m":
        run_module(rest)
    elif first == "torchrun":
        run_module(["torch.distributed.run", *rest])
    elif first == "-c":
        run_code(rest[0], "<string>", ["-c", *rest[1:]], "")
    elif first == "-":
        run_code(sys.stdin.read(), "<stdin>", arguments, "")
    else:
        run_script(first, arguments)


def run_module(arguments):
    """`python -m package`: sys.argv[0] becomes the file, as runpy sees to."""
    sys.argv = arguments
    sys.path.insert(0, os.getcwd())
    name = arguments[0]
    if name.partition(".")[0] in aliases.ALIASES:  # torch.distributed.run, for example
        name = aliases.real_name(name)
    runpy.run_module(name, run_name="__main__", alter_sys=True)


def run_script(path, arguments):
    """A file, or a folder or zip file with a `__main__.py`."""
    if os.path.isdir(path) or zipfile.is_zipfile(path):
        sys.argv = arguments
        runpy.run_path(path, run_name="__main__")
        return
    try:
        with open(path, "rb") as file:
            source = file.read()
    except OSError as error:
        print(f"{sys.executable}: can't open file {path!r}: {error}", file=sys.stderr)
        sys.exit(2)
    run_code(source, path, arguments, os.path.dirname(os.path.abspath(path)))


def run_code(source, name, arguments, folder):
    """Run source as the module `__main__`, which stays in place for what outlives the program.

    Pickles name classes of `__main__`, and processes that are spawned look for its file.
    """
    sys.argv = arguments
    sys.path.insert(0, folder)
    main = types.ModuleType("__main__")
    main.__dict__.update(__builtins__=__builtins__, __spec__=None)
    if folder:
        main.__file__ = name
    sys.modules["__main__"] = main
    exec(compile(source, name, "exec", dont_inherit=True), main.__dict__)


def without_our_frames(excepthook):
    """The same hook, for a traceback that begins in the program and not in its runner."""
    ours = (__file__, sys.modules["__main__"].__dict__.get("__file__"), runpy.__file__)

    def shortened(kind, error, traceback):
        rest = traceback
        while rest is not None and is_runner(rest.tb_frame.f_code.co_filename, ours):
            rest = rest.tb_next
        excepthook(kind, error.with_traceback(rest or traceback), rest or traceback)

    return shortened


def is_runner(file, ours):
    return file in ours or file.startswith("<frozen runpy")
