"""Runs a program of `programs/` with flambeau or PyTorch and compares what the two print."""

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
PROGRAMS = HERE / "programs"
RECORDED = HERE / "recorded"
NOISE = ("showing",)
# programs that stop or differ, and why
KNOWN: dict[str, str] = {}


def names():
    """All programs."""
    return sorted(path.stem for path in PROGRAMS.glob("*.py") if path.stem not in NOISE)


def recorded(name):
    """What PyTorch printed."""
    return (RECORDED / f"{name}.txt").read_text()


def run(name, python, with_pytorch=False, timeout=900):
    """(what it printed, its errors) by the Python of a virtual environment."""
    path = str(PROGRAMS / f"{name}.py")
    start = [str(HERE / "with_pytorch.py")] if with_pytorch else ["-m", "flambeau"]
    environment = os.environ | {
        "PYTHONPATH": "" if with_pytorch else str(ROOT),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "PYTHONWARNINGS": "ignore",
        "MPLBACKEND": "agg",
    }
    done = subprocess.run(
        [python, *start, path], env=environment, capture_output=True, text=True, timeout=timeout
    )
    text = "".join(line for line in done.stdout.splitlines(keepends=True) if line.startswith("= "))
    return text, done.stderr if done.returncode else ""


def differences(ours, theirs, relative=2e-3, absolute=2e-5):
    """Lines that do not say the same, numbers within a tolerance."""
    here, there = ours.splitlines(), theirs.splitlines()
    found = []
    for index in range(max(len(here), len(there))):
        a = here[index] if index < len(here) else "(nothing)"
        b = there[index] if index < len(there) else "(nothing)"
        if not same_line(a, b, relative, absolute):
            found.append(f"  flambeau {a}\n  PyTorch  {b}")
    return found


def same_line(a, b, relative, absolute):
    a, b = a.split(), b.split()
    return len(a) == len(b) and all(x == y or close(x, y, relative, absolute) for x, y in zip(a, b))


def close(x, y, relative, absolute):
    try:
        x, y = float(x), float(y)
    except ValueError:
        return False
    return abs(x - y) <= absolute + relative * abs(y)


def main(arguments):
    """`comparing.py [--record] [NAME...]` in an environment that has the libraries and PyTorch."""
    record = "--record" in arguments
    chosen = [a for a in arguments if not a.startswith("-")] or names()
    for name in chosen:
        kept = RECORDED / f"{name}.txt"
        if record or not kept.exists():
            text, errors = run(name, sys.executable, with_pytorch=True)
            if errors:
                print(f"{name}: PyTorch fails\n{errors[-1500:]}", flush=True)
                continue
            kept.parent.mkdir(exist_ok=True)
            kept.write_text(text)
        text, errors = run(name, sys.executable)
        different = differences(text, kept.read_text())
        if errors:
            print(f"{name}: fails after {len(text.splitlines())} lines\n{errors[-2500:]}")
        elif different:
            print(f"{name}: differs\n" + "\n".join(different[:12]))
        else:
            print(f"{name}: agrees ({len(text.splitlines())} lines)")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
