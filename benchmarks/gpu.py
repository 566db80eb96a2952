"""Speed on a GPU: PyTorch's time and ours, both in one process, wall clock with synchronisation.

    python benchmarks/gpu.py [--only softmax]

Needs a GPU and a PyTorch that sees it. A line is the best of five runs of several calls each.
"""

import argparse
import time

import torch as pytorch

import flambeau

CASES: dict = {}


def case(name, calls=10):
    """Register what makes the work: a function of the framework that returns one to be timed."""

    def register(make):
        CASES[name] = make, calls
        return make

    return register


def drawn(m, *shape, dtype="float32"):
    return m.randn(*shape).to("cuda").to(getattr(m, dtype))


def simple(name, work, *shapes, dtype="float32", calls=10):
    """Work on drawn tensors: work(framework, functional, *tensors)."""

    @case(name, calls)
    def make(m):
        tensors = [drawn(m, *shape, dtype=dtype) for shape in shapes]
        return lambda: work(m, m.nn.functional, *tensors)


LARGE = (1 << 26,)
simple("add, 64 M", lambda m, F, a, b: a + b, LARGE, LARGE)
simple("gelu, 64 M", lambda m, F, a: F.gelu(a), LARGE)
simple("transposed copy, 8192", lambda m, F, a: a.t().contiguous(), (8192, 8192))
simple("softmax, 16384 x 4096", lambda m, F, a: m.softmax(a, -1), (16384, 4096))
simple("softmax, 4096 x 1024", lambda m, F, a: m.softmax(a, -1), (4096, 1024))
simple("layer_norm, 16384 x 4096", lambda m, F, a: F.layer_norm(a, (4096,)), (16384, 4096))
simple(
    "layer_norm bf16, 16384 x 4096", lambda m, F, a: F.layer_norm(a, (4096,)), (16384, 4096),
    dtype="bfloat16",
)  # fmt: skip
simple("sum of 64 M", lambda m, F, a: a.sum(), LARGE)
simple("sum over rows, 8192", lambda m, F, a: a.sum(0), (8192, 8192))
simple("sum along rows, 8192", lambda m, F, a: a.sum(1), (8192, 8192))
simple("argmax along rows, 8192", lambda m, F, a: a.argmax(1), (8192, 8192))
simple("cumsum, 4096", lambda m, F, a: a.cumsum(1), (4096, 4096), calls=3)
simple("where, 64 M", lambda m, F, a, b: m.where(a > 0, a, b), LARGE, LARGE)
simple("dropout, 64 M", lambda m, F, a: F.dropout(a, 0.1), LARGE)
simple("product bf16, 8192", lambda m, F, a: a @ a, (8192, 8192), dtype="bfloat16", calls=5)
simple("product, 4096", lambda m, F, a: a @ a, (4096, 4096), calls=5)
simple("product, 1024", lambda m, F, a: a @ a, (1024, 1024))
simple(
    "linear, 64 x 512 x 512", lambda m, F, a, w, b: F.linear(a, w, b), (64, 512), (512, 512),
    (512,), calls=50,
)  # fmt: skip


@case("100 adds of 1,024", 5)
def _adds(m):
    a, b = drawn(m, 1024), drawn(m, 1024)

    def run():
        for _ in range(100):
            a + b

    return run


@case("embedding, 32 x 1024 of 50304 x 768")
def _embedding(m):
    table, places = drawn(m, 50304, 768), m.randint(0, 50304, (32, 1024)).to("cuda")
    return lambda: m.nn.functional.embedding(places, table)


@case("cross_entropy, 4096 x 50304", 2)
def _cross_entropy(m):
    scores, classes = drawn(m, 4096, 50304), m.randint(0, 50304, (4096,)).to("cuda")
    return lambda: m.nn.functional.cross_entropy(scores, classes)


@case("50 x (mul, tanh), forward and backward", 5)
def _chain(m):
    a = drawn(m, 1024).requires_grad_()

    def run():
        y = a
        for _ in range(50):
            y = (y * 1.1).tanh()
        y.sum().backward()

    return run


@case("MLP step, Adam, batch 128", 20)
def _mlp(m):
    nn = m.nn
    layers = nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
    net = nn.Sequential(*layers).to("cuda")
    optimizer = m.optim.Adam(net.parameters())
    x, classes = drawn(m, 128, 784), m.randint(0, 10, (128,)).to("cuda")

    def run():
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), classes).backward()
        optimizer.step()

    return run


def seconds(m, make, calls):
    """The best time of a call."""
    work, best = make(m), float("inf")
    for _ in range(3):
        work()
    for _ in range(5):
        m.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(calls):
            work()
        m.cuda.synchronize()
        best = min(best, (time.perf_counter() - began) / calls)
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="cases whose name contains this")
    only = parser.parse_args().only
    print(f"{pytorch.cuda.get_device_name()}, PyTorch {pytorch.__version__}\n")
    print("| work | PyTorch, us | ours, us | ratio |\n|---|---|---|---|")
    for name, (make, calls) in CASES.items():
        if only in name:
            theirs, ours = (1e6 * seconds(m, make, calls) for m in (pytorch, flambeau))
            print(f"| {name} | {theirs:.0f} | {ours:.0f} | {theirs / ours:.2f} |", flush=True)


if __name__ == "__main__":
    main()
