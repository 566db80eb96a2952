"""The ops where training spends its time: products, convolutions, row programs, attention, updates.

Usage: python benchmarks/heavy.py [--threads 1,2] [--only PATTERN] [--seconds 1]

Beside the time, a line tells the rate: GFLOP/s for what multiplies, GB/s for what moves memory, and
its share of the best that the machine gave to a plain FMA loop or a plain copy (`--peak` prints
these two). `--bits` compares results in place of times.
"""

import math
import sys
from collections.abc import Iterator

import peaks
from ops import differences
from timing import Case, Result, arguments, packages, print_row, run_cases, select


def products() -> Iterator[Case]:
    def case(name: str, call: str, setup: str, flops: float) -> Case:
        return Case(name, call, setup, flops=flops)

    for n in (64, 128, 256, 512, 1024, 2048):
        setup = f"a = torch.randn({n}, {n})\nb = torch.randn({n}, {n})"
        yield case(f"matmul {n}", "a @ b", setup, 2 * n**3)
    m, k, n = 512, 768, 3072
    setup = f"x = torch.randn({m}, {k})\nw = torch.randn({n}, {k})\ng = torch.randn({m}, {n})"
    flops = 2 * m * k * n
    yield case("linear 512x768x3072", "torch.nn.functional.linear(x, w)", setup, flops)
    yield case("linear 512x768x3072, gradient of the input", "g @ w", setup, flops)
    yield case("linear 512x768x3072, gradient of the weight", "g.t() @ x", setup, flops)
    setup = "a = torch.randn(96, 128, 64)\nb = torch.randn(96, 64, 128)"
    yield case("batched 96 x 128x64x128", "a @ b", setup, 2 * 96 * 128 * 64 * 128)
    setup = "a = torch.randn(96, 128, 64)\nb = torch.randn(96, 128, 64)"
    yield case("batched 96 x 128x64x128, transposed", "a @ b.mT", setup, 2 * 96 * 128 * 64 * 128)
    for rows in (1, 16):
        setup = f"a = torch.randn({rows}, 1024)\nb = torch.randn(1024, 1024)"
        yield case(f"matmul {rows}x1024x1024", "a @ b", setup, 2 * rows * 1024**2)
        call = "torch.nn.functional.linear(a, b)"
        yield case(f"linear {rows}x1024x1024", call, setup, 2 * rows * 1024**2)


CONVOLUTIONS = {
    # name: (input shape, weight shape, arguments, transposed)
    "conv 3x3 64->64, 8x64x56x56": ((8, 64, 56, 56), (64, 64, 3, 3), "padding=1"),
    "conv 7x7/2 3->64, 8x3x224x224": ((8, 3, 224, 224), (64, 3, 7, 7), "stride=2, padding=3"),
    "conv 3x3 256->256, 8x256x14x14": ((8, 256, 14, 14), (256, 256, 3, 3), "padding=1"),
    "conv depthwise 3x3, 8x128x28x28": ((8, 128, 28, 28), (128, 1, 3, 3), "padding=1, groups=128"),
    "conv 1x1 64->256, 8x64x56x56": ((8, 64, 56, 56), (256, 64, 1, 1), ""),
    "conv transposed 4x4/2 128->64, 8x128x16x16": (
        (8, 128, 16, 16), (128, 64, 4, 4), "stride=2, padding=1",
    ),
}  # fmt: skip


def convolutions() -> Iterator[Case]:
    for name, (x, w, options) in CONVOLUTIONS.items():
        function = "conv_transpose2d" if "transposed" in name else "conv2d"
        call = f"torch.nn.functional.{function}(x, w, b, {options})"
        channels = w[1] if "transposed" in name else w[0]
        setup = f"x = torch.randn{x}\nw = torch.randn{w} * 0.1\nb = torch.randn({channels})\n"
        pixels = _pixels(name, x, options)
        flops = 2 * math.prod(w) * pixels
        yield Case(f"{name}, forward", call, setup, flops=flops)
        graph = f"for t in (x, w, b): t.requires_grad_()\ng = torch.randn_like({call})"
        run = f"torch.autograd.grad({call}, (x, w, b), g)"
        yield Case(f"{name}, forward and backward", run, setup + graph, flops=3 * flops)


def _pixels(name: str, x: tuple[int, ...], options: str) -> int:
    """How often each weight is used: output pixels, or input pixels of a transposed one."""
    count = x[0] * x[2] * x[3]
    return count // 4 if "stride=2" in options and "transposed" not in name else count


def _both(
    name: str, call: str, setup: str, minimum: float, leaves: str = "x", **work: float
) -> Case:
    """Forward and backward of a call that gives one tensor."""
    graph = f"\nfor t in ({leaves},): t.requires_grad_()\ng = torch.randn_like({call})"
    run = f"torch.autograd.grad({call}, ({leaves},), g)"
    return Case(f"{name}, forward and backward", run, setup + graph, minimum, **work)


def rows() -> Iterator[Case]:
    f = "torch.nn.functional."
    x = "x = torch.randn(1024, 1024)"
    # what has to move at least: read and write forward, read two and write one backward
    yield _both("softmax 1024x1024", "torch.softmax(x, 1)", x, 1.5, bytes=5 * 4 << 20)
    setup = "x = torch.randn(2048, 768)\nw = torch.randn(768)\nb = torch.randn(768)"
    call = f + "layer_norm(x, (768,), w, b)"
    size = 4 * 2048 * 768
    yield _both("layer_norm 2048x768", call, setup, 1.5, "x, w, b", bytes=5 * size)
    setup = "x = torch.randn(16, 64, 56, 56)\nw = torch.rand(64)\nb = torch.randn(64)"
    setup += "\nmean = torch.zeros(64)\nvar = torch.ones(64)"
    call = f + f"relu({f}batch_norm(x, mean, var, w, b, training=True))"
    size = 4 * 16 * 64 * 56 * 56
    name = "batch_norm + relu 16x64x56x56"
    yield _both(name, call, setup, 1.5, "x, w, b", bytes=8 * size)
    setup = "x = torch.randn(512, 10000)\ny = torch.randint(10000, (512,))"
    call = f + "cross_entropy(x, y)"
    yield _both("cross_entropy 512x10000", call, setup, 1.5, bytes=3 * 4 * 512 * 10000)
    x = "x = torch.randn(8, 64, 112, 112)"
    yield _both("max_pool 3/2, 8x64x112x112", f + "max_pool2d(x, 3, 2, 1)", x, 2.0)
    x = "x = torch.randn(64, 32, 24, 24)"
    yield _both("max_pool 2/2, 64x32x24x24", f + "max_pool2d(x, 2)", x, 2.0)
    x = "x = torch.randn(8, 64, 56, 56)"
    call = f + 'interpolate(x, scale_factor=2, mode="bilinear")'
    yield _both("bilinear x2, 8x64x56x56", call, x, 2.0)
    x = "x = torch.randn(10000, 128)\ni = torch.randint(10000, (4096,))"
    yield _both("embedding 4096 of 10000x128", f + "embedding(i, x)", x, 2.0)


def sequences() -> Iterator[Case]:
    setup = "q, k, v = (torch.randn(4, 8, 256, 64) for _ in range(3))"
    call = "torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)"
    flops = 4 * 8 * 256 * 256 * 64 * 2 * (2 + 5) // 2
    yield _both("attention 4x8x256x64 causal", call, setup, 1.2, "q, k, v", flops=flops)
    setup = "x = torch.randn(32, 50, 64)\nstate = [torch.zeros(1, 32, 128)] * 2\n"
    shapes = ((512, 64), (512, 128), (512,), (512,))
    setup += f"w = [torch.randn(s) * 0.1 for s in {shapes}]"
    call = "torch.lstm(x, state, w, True, 1, 0.0, True, False, True)[0]"
    flops = 2 * 32 * 50 * 512 * (64 + 128) * 3
    yield _both("LSTM 32x50x64->128", call, setup, 1.2, "x, *w", flops=flops)


PARAMETERS = """
sizes = [(256, 512), (256,), (512, 256), (512,), (1024, 256), (1024,)] * 10
params = [torch.randn(s).requires_grad_() for s in sizes]
params[0] = torch.randn(4_500_000).requires_grad_()
for p in params: p.grad = torch.randn_like(p) * 1e-3
"""


def updates() -> Iterator[Case]:
    setup = PARAMETERS + "opt = torch.optim.Adam(params)"
    moved = 7 * 4 * 10_000_000  # read p, g, m, v; write p, m, v
    yield Case("Adam, 60 tensors, 10 M values", "opt.step()", setup, 1.3, bytes=moved)
    run = "torch.nn.utils.clip_grad_norm_(params, 1.0)"
    moved = 3 * 4 * 10_000_000
    setup = PARAMETERS + "for p in params: p.grad *= 1000"
    yield Case("clip_grad_norm_, 60 tensors, 10 M values", run, setup, 1.3, bytes=moved)


FAMILIES = {
    "products": list(products()),
    "convolutions": list(convolutions()),
    "rows": list(rows()),
    "sequences": list(sequences()),
    "updates": list(updates()),
}
CASES = [case for family in FAMILIES.values() for case in family]
# What a family has to reach in the geometric mean.
MEANS = {"products": 1.15, "convolutions": 1.2}


def geometric_mean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def means(results: list[Result]) -> list[tuple[str, ...]]:
    """Rows of a table: family, threads, geometric mean of the ratios, what is asked."""
    found: list[tuple[str, ...]] = []
    for family, minimum in MEANS.items():
        names = {case.name for case in FAMILIES[family]}
        for threads in sorted({r.threads for r in results}):
            ratios = [r.ratio for r in results if r.threads == threads and r.case.name in names]
            if ratios:
                mean = geometric_mean(ratios)
                verdict = "met" if mean >= minimum else "MISSED"
                found.append((family, str(threads), f"{mean:.2f}", f"{minimum:.2f}", verdict))
    return found


MEANS_HEADER = ("geometric mean", "threads", "ratio", "at least", "")


if __name__ == "__main__":
    parser = arguments("Heavy ops, flambeau against PyTorch.")
    parser.add_argument("--bits", action="store_true", help="compare results instead of times")
    parser.add_argument("--peak", action="store_true", help="only print what the machine can do")
    options = parser.parse_args()
    chosen = select(CASES, options.only)
    if options.bits:
        lines = differences(chosen)
        print("\n".join(lines) or f"{len(chosen)} results are the same with 1 and 2 threads")
        sys.exit(bool(lines))
    packages()
    best = {threads: peaks.measure(threads) for threads in options.threads}
    for threads, peak in best.items():
        print(f"{threads} threads: {peak.gflops:.0f} GFLOP/s, {peak.gigabytes:.1f} GB/s")
    if options.peak:
        sys.exit()
    results = list(run_cases(chosen, options.threads, options.seconds, best))
    met = sum(result.met for result in results)
    print()
    for row in means(results):
        print_row(row, 20)
    print(f"\n{met} of {len(results)} reach the ratio asked for")
