"""Timing two packages against each other, fairly.

A case is text: since flambeau and PyTorch share one API, the same setup and the same statement run
with `torch` bound to either package, in one process. Rounds of the two alternate, so that a busy
machine or a change of clock speed hurts both alike; the figure is the median over the rounds, and
the ratio is PyTorch's time divided by ours. On a machine that others use too, `--shared` counts the
time of the calling thread alone (so for one thread only) and takes the best round.

The cases live in `overhead.py`, `small_calls.py`, `sizes.py`, `ops.py` and `heavy.py`; import time,
compile time and memory in `startup.py`.
"""

import argparse
import importlib
import os
import re
import statistics
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

SECONDS = 1.0  # spent on one case, both packages together
SHORTEST_ROUND = 2e-3  # seconds; below this the clock and the loop would be part of the figure
ROUNDS = (7, 201)  # at least and at most
# A thread pool spins for a while after its last task. It must not spin on the other package's core.
SETTLE = 20e-3
SEED = 7


@dataclass(frozen=True, slots=True)
class Case:
    """One line of the table: `run` is timed after `setup`, with `torch` bound to either package."""

    name: str
    run: str
    setup: str = ""
    minimum: float = 1.0  # what PyTorch's time divided by ours has to reach
    flops: float = 0  # multiplications and additions, where they set the pace
    bytes: float = 0  # read and written at least, where memory does


@dataclass(frozen=True, slots=True)
class Result:
    case: Case
    threads: int
    ours: float  # seconds
    torch: float

    @property
    def ratio(self) -> float:
        return self.torch / self.ours

    @property
    def met(self) -> bool:
        return self.ratio >= self.case.minimum


def packages() -> tuple[Any, Any]:
    """flambeau and PyTorch, in this order."""
    return importlib.import_module("flambeau"), importlib.import_module("torch")


def prepare(case: Case, package: Any) -> dict[str, Any]:
    """The names `case.run` sees, from the same seed for each package."""
    names = {"torch": package}
    package.manual_seed(SEED)
    exec(case.setup, names)
    return names


def timed_loop(
    case: Case, names: dict[str, Any], clock: Callable[[], float] = time.perf_counter
) -> Callable[[int], float]:
    """A function that runs the statement `count` times and returns the seconds it took.

    The statement is compiled into the loop, as timeit does, so no call is timed with it. Unlike
    timeit this leaves the garbage collector on: users have it on.
    """
    source = (
        "def loop(count):\n    start = clock()\n    for _ in range(count):\n"
        + textwrap.indent(case.run, " " * 8)
        + "\n    return clock() - start\n"
    )
    scope = dict(names, clock=clock)
    exec(compile(source, f"<{case.name}>", "exec"), scope)
    return scope["loop"]


def calibrate(loop: Callable[[int], float]) -> int:
    """How many runs of the statement fill one round; also the warm-up."""
    loop(3)
    count = 1
    while loop(count) < SHORTEST_ROUND:
        count *= 2
    return count


def compare(case: Case, threads: int = 1, seconds: float = SECONDS, shared: bool = False) -> Result:
    """Time of one run of the case with flambeau and with PyTorch."""
    clock, figure = (time.thread_time, min) if shared else (time.perf_counter, statistics.median)
    loops = []
    for package in packages():
        package.set_num_threads(threads)
        loops.append(timed_loop(case, prepare(case, package), clock))
    # as many runs for both: a case with a stream of sizes then meets the same ones in each round
    count = max([calibrate(loop) for loop in loops])
    times: tuple[list[float], list[float]] = ([], [])
    end = time.perf_counter() + seconds
    fewest, most = ROUNDS
    for number in range(most):
        if number >= fewest and time.perf_counter() > end:
            break
        for side in (0, 1) if number % 2 else (1, 0):
            if threads > 1:
                time.sleep(SETTLE)
                loops[side](1)  # wakes this package's threads
            times[side].append(loops[side](count) / count)
    ours, theirs = map(figure, times)
    return Result(case, threads, ours, theirs)


def value(case: Case, package: Any, threads: int) -> list[Any]:
    """What the statement leaves in `out`, or evaluates to, as NumPy arrays."""
    package.set_num_threads(threads)
    names = prepare(case, package)
    try:
        out = eval(case.run, names)
    except SyntaxError:
        exec(case.run, names)
        out = names.get("out")
    if out is None:
        return []
    parts = out if isinstance(out, (tuple, list)) else [out]
    bfloat16 = package.bfloat16  # which NumPy does not know
    parts = [part.detach() for part in parts]
    return [(part.float() if part.dtype == bfloat16 else part).numpy() for part in parts]


def select(cases: Iterable[Case], pattern: str) -> list[Case]:
    return [case for case in cases if re.search(pattern, case.name)]


def duration(seconds: float) -> str:
    """Three digits and a unit."""
    unit, scale = "us", 1e6
    if seconds >= 1e-3:
        unit, scale = ("ms", 1e3) if seconds < 1 else ("s", 1.0)
    return f"{seconds * scale:.3g} {unit}"


HEADER = ("case", "threads", "flambeau", "PyTorch", "ratio", "at least", "")
RATES = ("rate", "of peak")  # two more columns where the machine's best is known


def rates(result: Result, peak: Any) -> tuple[str, str]:
    """How fast the work was done, and its share of what the machine can do."""
    case = result.case
    if case.flops:
        rate = case.flops / result.ours / 1e9
        return f"{rate:.0f} GFLOP/s", f"{100 * rate / peak.gflops:.0f} %"
    if case.bytes:
        rate = case.bytes / result.ours / 1e9
        return f"{rate:.1f} GB/s", f"{100 * rate / peak.gigabytes:.0f} %"
    return "", ""


def cells(result: Result, peaks: dict[int, Any] | None = None) -> tuple[str, ...]:
    """One result as the texts of a table row."""
    case = result.case
    known = rates(result, peaks[result.threads]) if peaks else ()
    times = duration(result.ours), duration(result.torch)
    verdict = "met" if result.met else "MISSED"
    return (
        case.name,
        str(result.threads),
        *times,
        f"{result.ratio:.2f}",
        f"{case.minimum:.1f}",
        verdict,
        *known,
    )


def print_row(row: tuple[str, ...], width: int) -> None:
    numbers = "".join(f"{cell:>12}" for cell in row[1:])
    print(f"{row[0]:<{width}}{numbers}", flush=True)


def busy_cores() -> float:
    """How many cores other work keeps busy at this moment; 0 where the system does not tell."""
    try:
        before, idle_before = processor_time()
        time.sleep(0.5)
        after, idle_after = processor_time()
    except OSError:
        return 0.0
    total = max(after - before, 1)
    return (os.cpu_count() or 1) * (total - (idle_after - idle_before)) / total


def processor_time() -> tuple[int, int]:
    """Ticks of all cores since boot, and those of them spent idle."""
    with open("/proc/stat") as file:
        ticks = [int(word) for word in file.readline().split()[1:]]
    return sum(ticks), ticks[3] + ticks[4]


def run_cases(
    cases: Iterable[Case],
    threads: Iterable[int],
    seconds: float = SECONDS,
    peaks: dict[int, Any] | None = None,
    shared: bool = False,
) -> Iterator[Result]:
    """Time the cases one by one, printing a row for each as it is known."""
    cases = list(cases)
    width = max((len(case.name) for case in cases), default=0) + 1
    busy = busy_cores()
    if busy > 0.2:
        print(f"other work keeps {busy:.1f} cores busy: figures for several threads mean little\n")
    print_row(HEADER + RATES if peaks else HEADER, width)
    for case in cases:
        for count in threads:
            result = compare(case, count, seconds, shared)
            print_row(cells(result, peaks), width)
            yield result


def thread_counts(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


# What keeps PyTorch and its libraries to vectors of so many bits, as FLAMBEAU_VECTOR_BITS keeps us.
NARROWER = {
    "128": {
        "ATEN_CPU_CAPABILITY": "default",
        "DNNL_MAX_CPU_ISA": "SSE41",
        "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
    },
    "256": {
        "ATEN_CPU_CAPABILITY": "avx2",
        "DNNL_MAX_CPU_ISA": "AVX2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    },
}


class Narrow(argparse.Action):
    """Both packages read these variables when they are imported, which comes after the options."""

    def __call__(self, parser: Any, options: Any, value: Any, option: Any = None) -> None:
        setattr(options, self.dest, value)
        os.environ.update(NARROWER[value], FLAMBEAU_VECTOR_BITS=value)


def arguments(description: str) -> argparse.ArgumentParser:
    """The options every benchmark takes."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--threads", type=thread_counts, default=[1, 2], help="for instance 1,2")
    parser.add_argument("--only", default="", metavar="PATTERN", help="cases that match this")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="spent on each case")
    parser.add_argument("--shared", action="store_true", help="best time of the thread alone")
    parser.add_argument(
        "--vector-bits", choices=[*NARROWER], action=Narrow, help="both packages use narrow vectors"
    )
    return parser


def main(description: str, cases: Iterable[Case]) -> None:
    """The command line of a file of cases."""
    options = arguments(description).parse_args()
    chosen = select(cases, options.only)
    results = list(run_cases(chosen, options.threads, options.seconds, shared=options.shared))
    missed = [result for result in results if not result.met]
    print(f"\n{len(results) - len(missed)} of {len(results)} reach the ratio asked for")
