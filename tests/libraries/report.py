"""Writes docs/libraries.md: `report.py` in the environment of the libraries."""

import ast
import importlib.metadata
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import comparing

HEAD = """# Libraries that live on torch

Small programs for libraries that were written for PyTorch run untouched through the runner
(`python -m flambeau program.py`) and print PyTorch's numbers: sizes, means and elements of outputs,
losses and gradients, to a relative 2e-3. The programs are in `tests/libraries/programs/`, what
PyTorch 2.13 prints for them in `tests/libraries/recorded/`.

`pytest tests/libraries -m libraries` makes an environment of its own (`.libraries/`, gigabytes; the
versions are those of `tests/libraries/requirements.txt`), runs every program and compares. In an
environment that has PyTorch, `python tests/libraries/comparing.py NAME` does it for one of them,
with `--record` it asks PyTorch anew, and `python tests/libraries/report.py` writes this page.

"""
SKIP = {"torch", "showing", "numpy", "sklearn", "transformers_families"}


def distributions(name):
    """{distribution: version} of the libraries that a program imports."""
    tree = ast.parse((comparing.PROGRAMS / f"{name}.py").read_text())
    packages = importlib.metadata.packages_distributions()
    found = {}
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [item.name for item in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        for first in {n.partition(".")[0] for n in names} - SKIP:
            for dist in packages.get(first, ())[:1]:
                found[dist] = importlib.metadata.version(dist)
    return dict(sorted(found.items()))


def main():
    rows, every = [], {}
    for name in comparing.names():
        tree = ast.parse((comparing.PROGRAMS / f"{name}.py").read_text())
        used = distributions(name)
        every |= used
        libraries = ", ".join(f"{d} {v}" for d, v in used.items())
        verdict = comparing.KNOWN.get(name)
        says = f"differs: {verdict}" if verdict else "agrees"
        what = ast.get_docstring(tree).splitlines()[0]
        rows.append(f"| `{name}` | {libraries} | {what} | {says} |")
    good = sum(name not in comparing.KNOWN for name in comparing.names())
    text = HEAD + f"{good} of {len(rows)} programs agree; they use {len(every)} libraries.\n\n"
    text += "| program | libraries | what it does | numbers |\n|---|---|---|---|\n"
    text += "\n".join(rows) + "\n" + (comparing.HERE / "beyond.md").read_text()
    (comparing.ROOT / "docs" / "libraries.md").write_text(text)
    lines = sorted(f"{d}=={v}" for d, v in every.items())
    (comparing.HERE / "requirements.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
