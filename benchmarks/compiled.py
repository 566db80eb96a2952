"""Compiled programs: flambeau against PyTorch, both under `torch.compile`, and against eager mode.

Usage: python benchmarks/compiled.py [--threads 2] [--only PATTERN] [--seconds 4] [--launches]

Each case runs in a process of its own with empty caches, so that the time of the first calls is the
time it takes to compile; a second process then meets a warm cache: how much longer do the first
call and the first three take than those of an eager model that is as new? Rounds of all sides
alternate.
PyTorch needs a C++ compiler for this. `--launches` tells instead where the time of our compiled
step goes, kernel by kernel.
"""

import argparse
import json
import linecache
import os
import re
import subprocess
import sys
import tempfile
import time
from typing import Any, NamedTuple

from timing import duration
from training import CONVNET, GPT, LABELS, MLP, NAMES, RESNET


class Work(NamedTuple):
    """A function `step()` of some text; both ratios are what is wanted."""

    name: str
    setup: str
    step: str
    against_torch: float
    against_eager: float


SGD = "opt = torch.optim.SGD(model.parameters(), 0.01)\n"
STEP = """
def step():
    opt.zero_grad()
    loss = loss_of(x, y)
    loss.backward()
    opt.step()
    return loss
"""
LOSS = "def loss_of(x, y):\n    return F.cross_entropy(model(x), y)\n"
TOKENS = "def loss_of(x, y):\n    return F.cross_entropy(model(x).flatten(0, 1), y.flatten())\n"
SMALL = "model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 10))\n"
WIDE_GPT = GPT.replace("width=128", "width=256")
INFERENCE = "def step():\n    with torch.no_grad():\n        return loss_of(x)\n"
BACK = "def step():\n    x.grad = None\n    loss_of(x).backward(g)\n    return x.grad\n"
MILLION = "x, g = torch.randn(1000000, requires_grad=True), torch.randn(1000000)\n"
CHAIN = """
def loss_of(x):
    for _ in range(5):
        x = torch.relu(x * 1.1 + 0.1) * 0.9
    return x
"""


def works() -> list[Work]:
    digits = "x = torch.randn(64, 1, 28, 28)\n" + LABELS.format(64)
    flat = "x = torch.randn(64, 784)\n" + LABELS.format(64)
    few = "x = torch.randn(8, 16)\n" + LABELS.format(8)
    images = "x = torch.randn(8, 3, 32, 32)\n" + LABELS.format(8)
    text = "x, y = torch.randint(256, (8, 128)), torch.randint(256, (8, 128))\n"
    one = "x = torch.randint(256, (1, 64))\nmodel.eval()\ndef loss_of(x):\n    return model(x)\n"
    gelu = "def loss_of(x):\n    return F.gelu(x)\n"
    return [
        Work("MLP 16-32-10 training step, batch 8", SMALL + SGD + few + LOSS, STEP, 5, 2.0),
        Work("MLP 784-256-10 training step, batch 64", MLP + SGD + flat + LOSS, STEP, 5, 2.0),
        Work("LeNet training step, batch 64", CONVNET + SGD + digits + LOSS, STEP, 3, 1.2),
        Work("GPT training step, 4 layers of 256", WIDE_GPT + SGD + text + TOKENS, STEP, 1.3, 1.3),
        Work("ResNet-18 training step, 8x3x32x32", RESNET + SGD + images + LOSS, STEP, 1.6, 1.1),
        Work("GPT inference, 64 tokens", WIDE_GPT + one, INFERENCE, 2.5, 1.5),
        Work("gelu forward and backward, 1e6", MILLION + gelu, BACK, 3, 1.2),
        Work("20 pointwise ops, forward and backward, 1e6", MILLION + CHAIN, BACK, 1.2, 4.0),
    ]


def steps(work: Work, package: Any) -> tuple[Any, Any]:
    """(eager step, compiled step) of a package: whole steps of training, functions otherwise."""
    found = []
    for compiled in (False, True):
        text = NAMES + work.setup + work.step
        what = "step" if "opt" in work.step else "loss_of"
        text += f"{what} = torch.compile({what})\n" if compiled else ""
        title = f"<{package.__name__} {work.name} {compiled}>"
        linecache.cache[title] = (len(text), None, text.splitlines(True), title)
        names = {"torch": package, "__name__": "benchmark"}
        package.manual_seed(7)
        exec(compile(text, title, "exec"), names)
        found.append(names["step"])
    return found[0], found[1]


def measure(work: Work, threads: int, seconds: float) -> dict[str, float]:
    """Seconds of a step of each side, and of the first calls of compiled ones."""
    import torch

    import flambeau

    sides, found = {}, {}
    for name, package in (("ours", flambeau), ("torch", torch)):
        package.set_num_threads(threads)
        eager, compiled = steps(work, package)
        for _ in range(3):
            eager()
        start = time.perf_counter()
        for _ in range(3):
            compiled()
        spent = time.perf_counter() - start
        start = time.perf_counter()
        for _ in range(3):
            compiled()
        found[f"{name} compiling"] = spent - (time.perf_counter() - start)
        sides[f"{name} eager"], sides[f"{name} compiled"] = eager, compiled
    best = dict.fromkeys(sides, float("inf"))
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for name, step in sides.items():
            step()
            count, start = 0, time.perf_counter()
            while (spent := time.perf_counter() - start) < 0.01:
                step()
                count += 1
            best[name] = min(best[name], spent / count)
    return found | best


def first_calls(work: Work, threads: int) -> list[float]:
    """Seconds that the first compiled call, and the first three, take longer than eager ones.

    Kernels are loaded; the models of both sides are new, so that each makes its own gradients.
    """
    import flambeau

    flambeau.set_num_threads(threads)
    warm, _ = steps(work, flambeau)
    for _ in range(3):
        warm()
    times = []
    for step in steps(work, flambeau):
        start = time.perf_counter()
        step()
        first = time.perf_counter() - start
        for _ in range(2):
            step()
        times.append((first, time.perf_counter() - start))
    return [ours - eager for eager, ours in zip(*times)]


def launches(work: Work, threads: int, seconds: float) -> None:
    """Print microseconds of each kernel in a compiled step: the least of many steps, added up."""
    import flambeau
    from flambeau.eager import kernels

    flambeau.set_num_threads(threads)
    _, step = steps(work, flambeau)
    for _ in range(4):
        step()
    clock = kernels.clock()
    if clock is None:
        raise SystemExit("there is no clock for kernels on this platform")
    clock.start()
    runs = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        at = clock.position()
        start = time.perf_counter_ns()
        step()
        spent = time.perf_counter_ns() - start
        runs.append((spent, clock.read(at)))
    clock.stop()
    names = [name for name, *_ in runs[-1][1]]
    alike = [found for _, found in runs if [name for name, *_ in found] == names]
    total: dict[str, list[float]] = {}
    for k, name in enumerate(names):
        least = min(found[k][3] - found[k][2] for found in alike)
        total.setdefault(name, []).append(least / 1e3)
    print(f"{work.name}: {min(spent for spent, _ in runs) / 1e3:.0f} us")
    for name, times in sorted(total.items(), key=lambda item: -sum(item[1])):
        print(f"  {name:32}{sum(times):12.1f}  {len(times):4} launches")
    print(f"  {'all':32}{sum(map(sum, total.values())):12.1f}")


def child(name: str, options: Any, what: str, caches: str) -> Any:
    command = [sys.executable, "-W", "ignore", __file__, "--child", what, "--only", name]
    command += ["--threads", str(options.threads), "--seconds", str(options.seconds)]
    own = {"FLAMBEAU_CACHE_DIR": f"{caches}/ours", "TORCHINDUCTOR_CACHE_DIR": f"{caches}/torch"}
    own |= {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": f"{caches}/python"}
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | own)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--launches", action="store_true")
    parser.add_argument("--child", default="")
    options = parser.parse_args()
    if options.launches:
        for work in works():
            if re.search(options.only, work.name):
                launches(work, options.threads, options.seconds)
        return
    if options.child:
        (work,) = [w for w in works() if w.name == options.only]
        if options.child == "measure":
            print(json.dumps(measure(work, options.threads, options.seconds)))
        else:
            print(json.dumps(first_calls(work, options.threads)))
        return
    print(
        "| work | ours | torch.compile / ours | wanted | our eager / ours | wanted | compiling | "
        "PyTorch's | in a second process |\n|---|---|---|---|---|---|---|---|---|"
    )
    for work in works():
        if not re.search(options.only, work.name):
            continue
        with tempfile.TemporaryDirectory() as caches:
            t = child(work.name, options, "measure", caches)
            again = child(work.name, options, "first", caches)
        ours = t["ours compiled"]
        cells = [
            work.name,
            duration(ours),
            f"{t['torch compiled'] / ours:.2f}",
            f"{work.against_torch}",
            f"{t['ours eager'] / ours:.2f}",
            f"{work.against_eager}",
            duration(t["ours compiling"]),
            duration(t["torch compiling"]),
            ", ".join(duration(max(t, 0)) for t in again),
        ]
        print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
