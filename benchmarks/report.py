"""Run every benchmark and write `docs/benchmarks.md`. `make bench` calls this.

Usage: python benchmarks/report.py [--threads 1,2] [--only PATTERN] [--seconds 1] [--output FILE]

`--only` limits the ops, `--vector-bits 256` makes both packages use narrower vectors; with either
the page is not written unless `--output` says where. What people
write under the heading "Notes" of an existing page stays.
"""

import argparse
import os
import platform
import re
import warnings
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import halves
import heavy
import loading
import ops
import overhead
import peaks
import quantized
import sizes
import small_calls
import startup
import timing
import training

NOTES = "\n## Notes\n"
PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"

INTRODUCTION = """\
# Benchmarks

Made by `make bench`, which installs PyTorch {torch} beside flambeau and runs
`benchmarks/report.py`. Both packages run in one process, in alternating rounds; a figure is the
median of the rounds. *Ratio* is PyTorch's time divided by flambeau's: above 1, flambeau is faster.

Machine: {machine}. Software: Python {python}, NumPy {numpy}, llvmlite {llvmlite}.
{warning}
{met} of {count} lines reach what is asked of them.
"""


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; the first column is text, the rest are numbers."""
    rule = "|---|" + "---:|" * (len(header) - 1)
    lines = ["| " + " | ".join(row) + " |" for row in (header, *rows)]
    return "\n".join([lines[0], rule, *lines[1:]])


def machine() -> str:
    """Processor and number of cores."""
    cores = f"{os.cpu_count()} cores"
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return f"{platform.machine()}, {cores}"
    model = re.search(r"model name\s*:\s*(.+)", text)
    return f"{model[1] if model else platform.machine()}, {cores}"


def same_bits(cases: Sequence[timing.Case]) -> str:
    """A sentence on whether results depend on the number of threads, or differ from PyTorch's."""
    found = ops.differences(cases)
    if not found:
        return (
            f"The results of all {len(cases)} cases are the same bit for bit with 1 and 2 threads, "
            "and agree with PyTorch's up to rounding."
        )
    return "Differences found:\n\n" + "\n".join(f"- {line}" for line in found)


def heavy_section(options: argparse.Namespace) -> tuple[list[timing.Result], str]:
    """Results and text of the heavy ops, with rates and means."""
    best = {count: peaks.measure(count) for count in options.threads}
    chosen = timing.select(heavy.CASES, options.only)
    print()
    found = list(timing.run_cases(chosen, options.threads, options.seconds, best))
    ability = "; ".join(
        f"{count} threads: {peak.gflops:.0f} GFLOP/s, {peak.gigabytes:.1f} GB/s"
        for count, peak in best.items()
    )
    parts = [
        "## Heavy ops",
        "*Rate* counts the multiplications and additions, or the bytes that have to move at least; "
        "*of peak* is its share of the best measured with a loop of FMAs and with a copy of memory "
        f"({ability}). `python benchmarks/heavy.py` makes this table alone.",
        table(timing.HEADER + timing.RATES, [timing.cells(r, best) for r in found]),
        table(heavy.MEANS_HEADER, heavy.means(found)),
    ]
    return found, "\n\n".join(parts)


def main() -> None:
    parser = timing.arguments(__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=None, help="where the page goes")
    options = parser.parse_args()
    busy = timing.busy_cores()
    sections = []
    results: list[timing.Result] = []
    # Before any timing: a case that fails or computes something else is not worth timing.
    agreement = same_bits(
        timing.select([*overhead.CASES, *ops.CASES, *heavy.CASES, *training.CASES], options.only)
    )
    print(agreement, end="\n\n")
    measures = list(startup.run_measures())
    for title, cases in (("Small ops", overhead.CASES), ("Large ops", ops.CASES)):
        print()
        chosen = timing.select(cases, options.only)
        found = list(timing.run_cases(chosen, options.threads, options.seconds))
        results += found
        sections.append(f"## {title}\n\n" + table(timing.HEADER, [*map(timing.cells, found)]))
    print()
    chosen = timing.select(small_calls.CASES, options.only)
    found = list(timing.run_cases(chosen, options.threads[:1], options.seconds / 4))
    results += found
    sections.append(
        "## Small calls\n\nCalls that programs make most, on inputs that hold next to nothing; one "
        "thread.\n\n" + table(timing.HEADER, [*map(timing.cells, found)])
    )
    print()
    chosen = timing.select(sizes.CASES, options.only)
    found = list(timing.run_cases(chosen, options.threads, options.seconds / 2))
    results += found
    sections.append(
        "## Sizes never seen before\n\nEvery call has sizes that were not used before; "
        "`python benchmarks/sizes.py` makes this table alone.\n\n"
        + table(timing.HEADER, [*map(timing.cells, found)])
    )
    found, section = heavy_section(options)
    results += found
    sections.append(section)
    print()
    chosen = timing.select(training.CASES, options.only)
    found = list(timing.run_cases(chosen, options.threads, options.seconds))
    results += found
    title = "## Training steps and inference"
    words = "`python benchmarks/training.py` makes this table alone, and shows the models."
    rows = table(timing.HEADER, [*map(timing.cells, found)])
    sections.append("\n\n".join([title, words, rows, agreement]))
    print()
    chosen = timing.select(halves.CASES, options.only)
    found = list(timing.run_cases(chosen, options.threads, options.seconds))
    results += found
    rows = table(timing.HEADER, [*map(timing.cells, found)])
    words = "`python benchmarks/halves.py` makes this table alone."
    sections.append(f"## bfloat16\n\n{words}\n\n{rows}")
    print()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch announces the end of its quantization
        lines = quantized.rows(options)
    sections.append(quantized.section(lines))
    print()
    chosen = timing.select(loading.CASES, options.only)
    found = list(timing.run_cases(chosen, options.threads, options.seconds))
    results += found
    measures += loading.run_measures(options.only)
    sections.append("## Loading and files\n\n" + table(timing.HEADER, [*map(timing.cells, found)]))
    sections.append(
        "## Start and memory\n\n" + table(startup.HEADER, [*map(startup.cells, measures)])
    )
    verdicts = [item.met for item in (*results, *measures)] + [line[-1] == "met" for line in lines]
    warning = f"\n**Other work kept {busy:.1f} cores busy.**\n" if busy > 0.2 else ""
    introduction = INTRODUCTION.format(
        torch=version("torch"),
        machine=machine(),
        python=platform.python_version(),
        numpy=version("numpy"),
        llvmlite=version("llvmlite"),
        warning=warning,
        met=sum(verdicts),
        count=len(verdicts),
    )
    other = options.only or options.vector_bits
    output = options.output or (None if other else PAGE)
    if output is not None:
        _, heading, notes = (output.read_text() if output.exists() else "").partition(NOTES)
        output.write_text("\n".join([introduction, "\n\n".join(sections), heading + notes]))
        print(f"\nwritten to {output}")


if __name__ == "__main__":
    main()
