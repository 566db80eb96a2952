"""What is paid before and around the work: import, first op, compiling kernels, peak memory.

Every figure comes from fresh processes. `compile` times the first call of ops that are new to an
empty kernel cache, as a user sees it; `memory` runs the cases of `ops.py` and `heavy.py` family by
family, the models of `training.py` and the digits example, with each package in a process of its
own, and compares their peaks.

Usage: python benchmarks/startup.py [--only PATTERN] [--repeat 7]
"""

import argparse
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import timing

ROOT = Path(__file__).parent.parent
REPEAT = 7
HEADER = ("measure", "flambeau", "PyTorch", "at most", "")

IMPORT = """
import time
start = time.perf_counter()
import PACKAGE
print(time.perf_counter() - start)
"""

FIRST_OP = """
import time
start = time.perf_counter()
import PACKAGE as torch
(torch.ones(16) + torch.ones(16)).tolist()
print(time.perf_counter() - start)
"""

# Ops of all kinds; the first call of each compiles, the second shows what the call itself costs.
COMPILE = """
import json, time
import flambeau as torch
x, y = torch.rand(64, 32), torch.rand(64, 32)
(x + y).tolist()  # what every first kernel pays once (loading LLVM) is in "import and first op"
calls = '''
x * y; x / y; x - y.double(); x.exp(); x.log(); x.tanh(); x.sin(); x.erf(); x.sqrt(); x.abs()
x > y; torch.where(x > 0.5, x, y); torch.clamp(x, 0.2, 0.8); torch.pow(x, y); torch.atan2(x, y)
x.to(torch.int32); x.to(torch.bfloat16); x.t() + y.t(); x.t().contiguous(); x[:, None] * y
x.sum(); x.sum(0); x.sum(1); x.mean(1); x.var(1); x.amax(0); x.argmax(1); x.prod(1); x.logsumexp(1)
x.sort(); x.cumsum(0); x.topk(5); x[x > 0.5]; x[torch.tensor([3, 1])]; torch.cat([x, y])
torch.sigmoid(x); torch.relu(x); torch.lerp(x, y, 0.3); x @ y.t(); torch.maximum(x, y)
'''
times = []
for call in calls.strip().replace("\\n", "; ").split("; "):
    code = compile(call, call, "eval")
    seconds = []
    for _ in range(2):
        start = time.perf_counter()
        eval(code)
        seconds.append(time.perf_counter() - start)
    times.append((seconds[0] - seconds[1], call))
print(json.dumps(times))
"""

PEAK = """
import sys
sys.path[:0] = [BENCHMARKS]
from startup import run_program
run_program(NAME, "PACKAGE")
"""


@dataclass(frozen=True, slots=True)
class Measure:
    """One line of the table; `limit` None is for lines that only inform."""

    name: str
    ours: float
    torch: float | None
    limit: float | None
    unit: str

    @property
    def met(self) -> bool:
        return self.limit is None or self.ours <= self.limit


def python(source: str, cache: str = "", package: str = "flambeau") -> str:
    """What `source` prints in a fresh interpreter, with its own kernel cache if one is named."""
    environment = dict(os.environ)
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode
    if cache:
        environment["FLAMBEAU_CACHE_DIR"] = cache
    command = [sys.executable, "-c", source.replace("PACKAGE", package)]
    return subprocess.run(
        command, env=environment, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
    ).stdout


def median_seconds(source: str, package: str, repeat: int) -> float:
    python(source, package=package)  # fills caches: the file system's, Python's and ours
    return statistics.median(float(python(source, package=package)) for _ in range(repeat))


def import_time(repeat: int) -> Iterator[Measure]:
    times = [median_seconds(IMPORT, package, repeat) for package in ("flambeau", "torch")]
    yield Measure("import", *times, limit=0.25, unit="s")


def first_op(repeat: int) -> Iterator[Measure]:
    times = [median_seconds(FIRST_OP, package, repeat) for package in ("flambeau", "torch")]
    yield Measure("import and first op, warm cache", *times, limit=0.35, unit="s")


def compile_time(repeat: int) -> Iterator[Measure]:
    with tempfile.TemporaryDirectory() as cache:
        times = sorted(json.loads(python(COMPILE, cache)))
    middle = statistics.median(seconds for seconds, _ in times) * 1e3
    slowest, call = times[-1]
    yield Measure(f"new kernel, median of {len(times)}", middle, None, 30, "ms")
    yield Measure(f"new kernel, slowest ({call})", slowest * 1e3, None, None, "ms")


def tiny_tests(repeat: int) -> Iterator[Measure]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/test_tiny.py"]
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {"FLAMBEAU_CACHE_DIR": cache}
        start = time.perf_counter()
        subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL)
        seconds = time.perf_counter() - start
    yield Measure("tests/test_tiny.py, cold cache", seconds, None, 10, "s")


def programs() -> dict[str, list[timing.Case]]:
    """What `memory` runs: the families of `ops.py` and `heavy.py`, the models of `training.py`."""
    import heavy  # here, so that measuring an import stays free of NumPy
    import ops
    import training

    return ops.FAMILIES | heavy.FAMILIES | {case.name: [case] for case in training.CASES}


def run_program(name: str, package: str) -> None:
    """Run one program with one package and print its peak memory in MiB."""
    if name == "digits":
        source = (ROOT / "examples/digits.py").read_text()
        source = source.replace("import flambeau as torch", f"import {package} as torch")
        names = {"__name__": "digits", "__file__": str(ROOT / "examples/digits.py")}
        exec(source, names)
        names["progress"] = names["print"] = lambda *args, **options: None
        names["main"]()
    else:
        module = __import__(package)
        module.set_num_threads(2)
        for case in programs()[name]:
            names = timing.prepare(case, module)
            for _ in range(3):
                exec(case.run, names)
    print(peak_memory())


def peak_memory() -> float:
    """Most memory this process has held so far, in MiB.

    getrusage counts what the parent held when it forked, so /proc is asked first if there is one.
    """
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        scale = 2**20 if sys.platform == "darwin" else 2**10
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / scale
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    return int(found[1]) / 2**10 if found else 0.0


def memory(repeat: int) -> Iterator[Measure]:
    for name in [*programs(), "digits"]:
        source = PEAK.replace("BENCHMARKS", repr(str(Path(__file__).parent)))
        source = source.replace("NAME", repr(name))
        ours, theirs = (float(python(source, package=package)) for package in ("flambeau", "torch"))
        yield Measure(f"peak memory, {name}", ours, theirs, theirs * 1.1, "MiB")


MEASURES: dict[str, Callable[[int], Iterator[Measure]]] = {
    "import": import_time,
    "first op": first_op,
    "compile": compile_time,
    "tiny": tiny_tests,
    "memory": memory,
}


def amount(number: float | None, unit: str) -> str:
    if number is None:
        return ""
    return f"{number:.0f} {unit}" if number >= 100 else f"{number:.3g} {unit}"


def cells(measure: Measure) -> tuple[str, ...]:
    """One measure as the texts of a table row."""
    numbers = (measure.ours, measure.torch, measure.limit)
    verdict = "" if measure.limit is None else "met" if measure.met else "MISSED"
    return measure.name, *(amount(number, measure.unit) for number in numbers), verdict


def print_row(row: tuple[str, ...]) -> None:
    print(f"{row[0]:<48}" + "".join(f"{cell:>11}" for cell in row[1:]), flush=True)


def run_measures(pattern: str = "", repeat: int = REPEAT) -> Iterator[Measure]:
    """Take the measures one by one, printing a row for each as it is known."""
    print_row(HEADER)
    for name, take in MEASURES.items():
        if re.search(pattern, name):
            for measure in take(repeat):
                print_row(cells(measure))
                yield measure


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Import, first op, compile time and memory.")
    parser.add_argument("--only", default="", metavar="PATTERN", help=", ".join(MEASURES))
    parser.add_argument("--repeat", type=int, default=REPEAT, help="processes for each median")
    options = parser.parse_args()
    measures = list(run_measures(options.only, options.repeat))
    met = sum(measure.met for measure in measures)
    print(f"\n{met} of {len(measures)} are within their limit")
