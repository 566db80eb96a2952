"""Quantized models against PyTorch's, and against our own floats.

Usage: python benchmarks/quantized.py [--threads 1,2] [--only PATTERN] [--seconds 1] [--markdown]

Three things run in alternating rounds: our quantized model, PyTorch's (fbgemm), and our float
model. `--markdown` prints the section of `docs/benchmarks.md`; `report.py` puts it there.
"""

import statistics
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import timing
from timing import Case, prepare, timed_loop

DYNAMIC = """
import importlib
quantization = importlib.import_module(torch.__name__ + ".ao.quantization")
torch.backends.quantized.engine = "fbgemm"
model = {model}
floats = model.eval()
model = quantization.quantize_dynamic(model)
x = {x}
torch.set_grad_enabled(False)
"""

RESNET = """
import importlib
nn = torch.nn
quantization = importlib.import_module(torch.__name__ + ".ao.quantization")
graphs = importlib.import_module(torch.__name__ + ".ao.quantization.quantize_fx")
torch.backends.quantized.engine = "fbgemm"


class Block(nn.Module):
    def __init__(self, inside, outside, step):
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, step, 1, bias=False)
        self.bn1, self.relu1 = nn.BatchNorm2d(outside), nn.ReLU()
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.bn2, self.relu2 = nn.BatchNorm2d(outside), nn.ReLU()
        self.short = None
        if step > 1:
            self.short = nn.Sequential(
                nn.Conv2d(inside, outside, 1, step, bias=False), nn.BatchNorm2d(outside)
            )

    def forward(self, x):
        y = self.bn2(self.conv2(self.relu1(self.bn1(self.conv1(x)))))
        return self.relu2(y + (x if self.short is None else self.short(x)))


def resnet18():
    sizes = [(64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1),
             (256, 512, 2), (512, 512, 1)]
    return nn.Sequential(
        nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(),
        nn.MaxPool2d(3, 2, 1), *[Block(*size) for size in sizes], nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(512, 1000),
    )


torch.set_grad_enabled(False)
x = torch.randn(1, 3, 224, 224)
floats = resnet18().eval()
model = graphs.prepare_fx(floats, quantization.get_default_qconfig_mapping("fbgemm"), (x,))
model(x)
model = graphs.convert_fx(model)
"""

GPT = """
nn, F = torch.nn, torch.nn.functional
torch.set_grad_enabled(False)


class Block(nn.Module):
    \"\"\"One layer of a GPT that writes one token: 127 are known already.\"\"\"

    def __init__(self, size, heads):
        super().__init__()
        self.heads, self.norm1, self.norm2 = heads, nn.LayerNorm(size), nn.LayerNorm(size)
        self.qkv, self.out = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.up, self.down = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)
        self.keys = torch.randn(1, heads, 128, size // heads)
        self.values = torch.randn(1, heads, 128, size // heads)

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).view(1, 1, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        self.keys[:, :, -1:] = k
        self.values[:, :, -1:] = v
        mixed = F.scaled_dot_product_attention(q, self.keys, self.values)
        x = x + self.out(mixed.transpose(1, 2).reshape(1, 1, -1))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


floats = nn.Sequential(*[Block(1024, 16) for _ in range(6)], nn.Linear(1024, 32000))
from flambeau.quantization.weight_only import quantize_weights
model = quantize_weights(floats, 4, 64)
x = torch.randn(1, 1, 1024)
"""


@dataclass(frozen=True)
class Quantized:
    """One line: a case, whether PyTorch has it, and how much faster than our floats it must be."""

    case: Case
    in_pytorch: bool = True
    faster: float | None = None


def cases() -> Iterator[Quantized]:
    linear = "torch.nn.Sequential(torch.nn.Linear(1024, 1024))"
    for batch in (16, 1):
        setup = DYNAMIC.format(model=linear, x=f"torch.randn({batch}, 1024)")
        yield Quantized(
            Case(f"dynamic int8 Linear 1024, batch {batch}", "model(x)", setup), True, 2.0
        )
    yield Quantized(Case("int8 ResNet-18, 224, batch 1", "model(x)", RESNET), True, 2.0)
    lstm = "torch.nn.Sequential(torch.nn.LSTM(256, 512))"
    setup = DYNAMIC.format(model=lstm, x="torch.randn(35, 8, 256)")
    yield Quantized(Case("dynamic int8 LSTM 256-512, 35 steps, batch 8", "model[0](x)", setup))
    yield Quantized(Case("int4 weights, GPT of 6 layers, one token", "model(x)", GPT), False, 2.0)


CASES = list(cases())
HEADER = (
    "case", "threads", "flambeau", "PyTorch", "flambeau float32", "PyTorch / ours", "at least",
    "float32 / ours", "at least", "",
)  # fmt: skip


def measured(one: Quantized, threads: int, seconds: float, shared: bool) -> list[float | None]:
    """Seconds of our quantized model, of PyTorch's, and of our float model; in turns."""
    clock, figure = (time.thread_time, min) if shared else (time.perf_counter, statistics.median)
    ours, theirs = timing.packages()
    for package in (ours, theirs):
        package.set_num_threads(threads)
    names = prepare(one.case, ours)
    runs: list[Any] = [timed_loop(one.case, names, clock), None]
    if one.in_pytorch:
        runs[1] = timed_loop(one.case, prepare(one.case, theirs), clock)
    in_floats = Case("", one.case.run.replace("model", "floats"))
    runs.append(timed_loop(in_floats, names, clock))
    counts = [None if run is None else timing.calibrate(run) for run in runs]
    times: list[list[float]] = [[], [], []]
    end = time.perf_counter() + seconds
    while len(times[0]) < timing.ROUNDS[0] or time.perf_counter() < end:
        for side, run in enumerate(runs):
            if run is None:
                continue
            if threads > 1:
                time.sleep(timing.SETTLE)
                run(1)  # wakes the threads of this package
            times[side].append(run(counts[side]) / counts[side])
    return [figure(found) if found else None for found in times]


def row(one: Quantized, threads: int, times: list[float | None]) -> tuple[str, ...]:
    ours, theirs, floats = times
    assert ours is not None and floats is not None
    ratio = None if theirs is None else theirs / ours
    gain = floats / ours
    met = (ratio is None or ratio >= 1) and (one.faster is None or gain >= one.faster)
    return (
        one.case.name,
        str(threads),
        timing.duration(ours),
        "" if theirs is None else timing.duration(theirs),
        timing.duration(floats),
        "" if ratio is None else f"{ratio:.2f}",
        "" if ratio is None else "1.0",
        f"{gain:.2f}",
        "" if one.faster is None else f"{one.faster:.1f}",
        "met" if met else "MISSED",
    )


def rows(options: Any) -> list[tuple[str, ...]]:
    """All lines, printed as they are known."""
    found = []
    for one in CASES:
        if not timing.select([one.case], options.only):
            continue
        for threads in options.threads:
            shared = getattr(options, "shared", False)
            found.append(row(one, threads, measured(one, threads, options.seconds, shared)))
            print("  ".join(found[-1]), flush=True)
    return found


def section(found: Sequence[tuple[str, ...]]) -> str:
    """The part of `docs/benchmarks.md`."""
    rule = "|---|" + "---:|" * (len(HEADER) - 1)
    lines = ["| " + " | ".join(line) + " |" for line in (HEADER, *found)]
    words = (
        "PyTorch's engine is fbgemm. `python benchmarks/quantized.py --markdown` makes this table "
        "alone."
    )
    return "\n".join(["## Quantized models\n", words + "\n", lines[0], rule, *lines[1:]])


def main() -> None:
    parser = timing.arguments(__doc__)
    parser.add_argument("--markdown", action="store_true", help="print the section of the page")
    options = parser.parse_args()
    found = rows(options)
    if options.markdown:
        print("\n" + section(found))
    missed = [line for line in found if line[-1] != "met"]
    print(f"\n{len(found) - len(missed)} of {len(found)} reach the ratios asked for")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
