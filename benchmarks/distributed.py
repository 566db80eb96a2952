"""Collectives and DDP steps over several processes, beside PyTorch's gloo where it is installed.

python benchmarks/distributed.py [--sizes 2 4] [--model]

Each figure is gloo's time divided by ours, both measured in worlds that alternate, best of three.
"""

import argparse
import importlib
import importlib.util
import json
import os
import sys
import tempfile
import time

COUNTS = {"4 B": (1, 300), "4 KB": (1024, 300), "1 MB": (1 << 18, 30), "100 MB": (25_000_000, 3)}


def libraries(name):
    """(torch, torch.distributed, torch.multiprocessing) of flambeau or of PyTorch."""
    return [
        importlib.import_module(name + part) for part in ("", ".distributed", ".multiprocessing")
    ]


def worker(rank, name, size, path, began, model):
    torch, dist, _ = libraries(name)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=size)
    dist.barrier()
    figures = {"start": time.time() - began}
    for label, (count, times) in COUNTS.items():
        t = torch.zeros(count)
        dist.all_reduce(t)
        dist.barrier()
        start = time.perf_counter()
        for _ in range(times):
            dist.all_reduce(t)
        figures[label] = (time.perf_counter() - start) / times
    if model:
        figures["ResNet-18 step"] = step_time(torch, dist, name)
    if rank == 0:
        with open(path + ".json", "w") as file:
            json.dump(figures, file)
    dist.barrier()
    dist.destroy_process_group()


def step_time(torch, dist, name):
    vision = "flambeau.vision.models" if name == "flambeau" else "torchvision.models"
    model = importlib.import_module(vision).resnet18()
    model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    images, labels = torch.randn(8, 3, 64, 64), torch.zeros(8, dtype=torch.int64)
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
        best = min(best, time.perf_counter() - start)
    return best


def measured(name, size, model):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "store")
        spawn = libraries(name)[2].spawn
        spawn(worker, (name, size, path, time.time(), model), nprocs=size)
        with open(path + ".json") as file:
            return json.load(file)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="*", default=[2, 4])
    parser.add_argument("--model", action="store_true", help="also a DDP step of ResNet-18")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    names = ["flambeau"] + (["torch"] if importlib.util.find_spec("torch") else [])
    for size in options.sizes:
        best = {name: {} for name in names}
        for _ in range(options.rounds):
            for name in names:
                for label, seconds in measured(name, size, options.model).items():
                    best[name][label] = min(seconds, best[name].get(label, seconds))
        print(f"{size} processes")
        for label, ours in best["flambeau"].items():
            line = f"  {label:<15} {ours * 1e6:12.1f} us"
            if "torch" in best:
                theirs = best["torch"][label]
                line += f"   gloo {theirs * 1e6:12.1f} us   ratio {theirs / ours:6.2f}"
            print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
