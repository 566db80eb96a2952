"""Collectives and DDP steps over several processes, beside PyTorch's gloo where it is installed.

python benchmarks/distributed.py                 all-reduce of four sizes, and the start of a world
python benchmarks/distributed.py --model         also a DDP step of ResNet-18
python benchmarks/distributed.py --overlap       how much of the sending goes on beside backward
python benchmarks/distributed.py --sizes 2       worlds of these sizes only

Each figure is gloo's time divided by ours, both measured in worlds that alternate, best of
--rounds; `asked` is what the project wants of it. Run it where nothing else runs.
"""

import argparse
import importlib
import importlib.util
import json
import os
import sys
import tempfile
import time

from training import RESNET

COUNTS = {"4 B": (1, 300), "4 KB": (1024, 300), "1 MB": (1 << 18, 30), "100 MB": (25_000_000, 3)}
ASKED = {"start": 1, "4 B": 5, "4 KB": 3, "1 MB": 1.2, "100 MB": 1.2, "ResNet-18 step": 1.2}


def libraries(name):
    """(torch, torch.distributed, torch.multiprocessing) of flambeau or of PyTorch."""
    return [
        importlib.import_module(name + part) for part in ("", ".distributed", ".multiprocessing")
    ]


def worker(rank, name, size, path, began, model, overlap):
    torch, dist, _ = libraries(name)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=size)
    dist.barrier()
    figures = {"start": time.time() - began}
    for label, (count, times) in COUNTS.items():
        if overlap:
            break
        t = torch.zeros(count)
        dist.all_reduce(t)
        dist.barrier()
        start = time.perf_counter()
        for _ in range(times):
            dist.all_reduce(t)
        figures[label] = (time.perf_counter() - start) / times
    if model:
        figures["ResNet-18 step"] = step_time(torch, dist)
    if overlap:
        figures["overlap"] = overlapping(torch)
    if rank == 0:
        with open(path + ".json", "w") as file:
            json.dump(figures, file)
    dist.barrier()
    dist.destroy_process_group()


def stepper(torch):
    """A function that makes one training step of ResNet-18."""
    names = {"torch": torch, "nn": torch.nn, "F": torch.nn.functional}
    exec(RESNET, names)
    model = torch.nn.parallel.DistributedDataParallel(names["model"])
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    images, labels = torch.randn(8, 3, 32, 32), torch.zeros(8, dtype=torch.int64)

    def step():
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()

    return step


def step_time(torch, dist):
    step, best = stepper(torch), float("inf")
    for _ in range(3):
        step()  # buckets are put in order after the first
    for _ in range(6):
        dist.barrier()
        start = time.perf_counter()
        step()
        best = min(best, time.perf_counter() - start)
    return best


def overlapping(torch):
    """Of the time in which buckets are under way, the share in which backward is too."""
    step = stepper(torch)
    for _ in range(3):
        step()
    with torch.profiler.profile() as watched:
        step()
    events = watched.events()
    nodes = [e.time_range for e in events if "evaluate_function" in e.name]
    begin, end = min(t.start for t in nodes), max(t.end for t in nodes)
    sent = [e.time_range for e in events if e.name == "gloo:all_reduce"]
    inside = sum(max(0, min(t.end, end) - max(t.start, begin)) for t in sent)
    return inside / max(sum(t.end - t.start for t in sent), 1e-9)


def measured(name, size, model, overlap=False):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "store")
        spawn = libraries(name)[2].spawn
        spawn(worker, (name, size, path, time.time(), model, overlap), nprocs=size)
        with open(path + ".json") as file:
            return json.load(file)


def compare(size, names, rounds, model):
    best: dict = {name: {} for name in names}
    for _ in range(rounds):
        for name in names:
            for label, seconds in measured(name, size, model and size == 2).items():
                best[name][label] = min(seconds, best[name].get(label, seconds))
    print(f"{size} processes")
    for label, ours in best["flambeau"].items():
        line = f"  {label:<15} {ours * 1e6:12.1f} us"
        if "torch" in best:
            theirs = best["torch"][label]
            line += f"   gloo {theirs * 1e6:12.1f} us   ratio {theirs / ours:6.2f}"
            line += f"   asked {ASKED[label]}"
        print(line, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="*", default=[2, 4])
    parser.add_argument("--model", action="store_true", help="also a DDP step of ResNet-18")
    parser.add_argument("--overlap", action="store_true", help="only: is sending beside backward?")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if options.overlap:
        share = measured("flambeau", 2, False, overlap=True)["overlap"]
        print(f"{share:.0%} of the time of all-reduces of a ResNet-18 step lies within backward")
        return
    names = ["flambeau"] + (["torch"] if importlib.util.find_spec("torch") else [])
    for size in options.sizes:
        compare(size, names, options.rounds, options.model)


if __name__ == "__main__":
    sys.exit(main())
