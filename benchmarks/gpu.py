"""Speed on a GPU: PyTorch's time and ours, both in one process, wall clock with synchronisation.

    python benchmarks/gpu.py [--only softmax] [--compiled ours]

Needs a GPU and a PyTorch that sees it. A line is the best of five runs of several calls each; the
last column is our peak of memory over PyTorch's, warm-up included (of compiled programs: their
recording).
"""

import argparse
import gc
import time

import torch as pytorch

import flambeau
from gpu_models import gpt2, resnet50

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
simple("cumsum over rows, 4096", lambda m, F, a: a.cumsum(0), (4096, 4096), calls=3)
simple("cumsum, 16 M", lambda m, F, a: a.cumsum(0), (1 << 24,))
simple("cummax, 4096", lambda m, F, a: a.cummax(1), (4096, 4096))
simple("var along rows, 8192", lambda m, F, a: a.var(1), (8192, 8192))
simple("std of 64 M", lambda m, F, a: a.std(), LARGE)
simple("log_softmax, 4096 x 50304", lambda m, F, a: a.log_softmax(1), (4096, 50304), calls=3)
simple("mse_loss, 64 M", lambda m, F, a, b: F.mse_loss(a, b), LARGE, LARGE)
simple("masked_fill, 64 M", lambda m, F, a: a.masked_fill(a > 0, 1.0), LARGE)
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


MILLIONS = (1 << 24,)
simple("sort, 16 M", lambda m, F, a: a.sort(), MILLIONS, calls=3)
simple("sort, 4096 x 1024", lambda m, F, a: a.sort(), (4096, 1024))
simple("topk 50 of 256 x 50304", lambda m, F, a: a.topk(50), (256, 50304))
simple("median, 16 M", lambda m, F, a: a.median(), MILLIONS, calls=3)
simple("nonzero, 16 M", lambda m, F, a: (a > 0).nonzero(), MILLIONS)
simple("x[mask], 16 M", lambda m, F, a: a[a > 0], MILLIONS)
simple("max_pool2d, 64 x 64 x 112", lambda m, F, a: F.max_pool2d(a, 3, 2, 1), (64, 64, 112, 112))
simple("cat, 2 x 4096", lambda m, F, a, b: m.cat([a, b], 1), (4096, 4096), (4096, 4096))
simple(
    "cdist p=1, 4096 x 4096 x 64", lambda m, F, a, b: m.cdist(a, b, 1.0), (4096, 64), (4096, 64),
    calls=3,
)  # fmt: skip
simple("pad, 64 x 64 x 112", lambda m, F, a: F.pad(a, (1, 1, 1, 1)), (64, 64, 112, 112))


def indexed(name, work, *shapes, index, below, calls=10):
    """Work with indices below a number: work(framework, indices, *tensors)."""

    @case(name, calls)
    def make(m):
        places = m.randint(0, below, index).to("cuda")
        tensors = [drawn(m, *shape) for shape in shapes]
        return lambda: work(m, places, *tensors)


indexed(
    "gather, 16 M", lambda m, i, a: a.gather(1, i), (4096, 4096), index=(4096, 4096), below=4096
)
indexed(
    "scatter_add, 16 M to 1 M", lambda m, i, a, b: a.scatter_add(0, i, b), (1 << 20,), MILLIONS,
    index=MILLIONS, below=1 << 20, calls=3,
)  # fmt: skip
indexed(
    "index_add, 65536 x 256", lambda m, i, a, b: a.index_add(0, i, b), (1 << 16, 256),
    (1 << 16, 256), index=(1 << 16,), below=1 << 16,
)  # fmt: skip
indexed("bincount, 16 M", lambda m, i: i.bincount(), index=MILLIONS, below=1000)
indexed("unique, 16 M", lambda m, i: i.unique(), index=MILLIONS, below=1000, calls=3)


def both_ways(name, work, *shape, dtype="float32", index=None):
    """Forward and backward: work(framework, functional, tensor, indices)."""

    @case(name, 3)
    def make(m):
        x = drawn(m, *shape, dtype=dtype).requires_grad_()
        places = None if index is None else m.randint(0, shape[0], index).to("cuda")
        given = m.ones_like(work(m, m.nn.functional, x, places))

        def run():
            x.grad = None
            work(m, m.nn.functional, x, places).backward(given)

        return run


both_ways(
    "embedding both ways, 50304 x 768", lambda m, F, x, i: F.embedding(i, x), 50304, 768,
    index=(32, 1024),
)  # fmt: skip
both_ways(
    "layer_norm bf16 both ways, 32768 x 768", lambda m, F, x, i: F.layer_norm(x, (768,)),
    32768, 768, dtype="bfloat16",
)  # fmt: skip
both_ways(
    "batch_norm and relu both ways, 64 x 256 x 56 x 56",
    lambda m, F, x, i: F.relu(F.batch_norm(x, None, None, training=True)), 64, 256, 56, 56,
)  # fmt: skip
both_ways(
    "group_norm both ways, 32 x 256 x 56 x 56", lambda m, F, x, i: F.group_norm(x, 32),
    32, 256, 56, 56,
)  # fmt: skip
both_ways("max_pool2d both ways", lambda m, F, x, i: F.max_pool2d(x, 3, 2, 1), 64, 64, 112, 112)


def cross_entropy(name, rows, dtype, backward):
    """Cross entropy of so many rows of 50304 scores."""

    @case(name, 2)
    def make(m):
        scores = drawn(m, rows, 50304, dtype=dtype).requires_grad_(backward)
        classes = m.randint(0, 50304, (rows,)).to("cuda")

        def run():
            scores.grad = None
            loss = m.nn.functional.cross_entropy(scores, classes)
            if backward:
                loss.backward()

        return run


cross_entropy("cross_entropy, 4096 x 50304", 4096, "float32", False)
cross_entropy("cross_entropy both ways, 4096 x 50304", 4096, "float32", True)
cross_entropy("cross_entropy bf16 both ways, 16384 x 50304", 16384, "bfloat16", True)


# -- transforms and decompositions -----------------------------------------------------------------


def spectra(name, work, *shape, dtype="float32", calls=5):
    """Transforms of one tensor: work(torch.fft, tensor)."""
    simple(name, lambda m, F, a: work(m.fft, a), shape, dtype=dtype, calls=calls)


spectra("fft, 4096 x 4096", lambda fft, a: fft.fft(a), 4096, 4096, dtype="complex64")
spectra("rfft, 64 x 1 M", lambda fft, a: fft.rfft(a), 64, 1 << 20)
spectra("fft2, 64 x 512 x 512", lambda fft, a: fft.fft2(a), 64, 512, 512, dtype="complex64")
spectra("rfft2 and back, 64 x 512 x 512", lambda fft, a: fft.irfft2(fft.rfft2(a)), 64, 512, 512)
spectra(
    "fft along rows, 4096 x 4096", lambda fft, a: fft.fft(a, dim=0), 4096, 4096, dtype="complex64"
)
simple(
    "stft, 16 x 160000", lambda m, F, a, w: m.stft(a, 1024, 256, window=w, return_complex=True),
    (16, 160000), (1024,),
)  # fmt: skip


def matrices(name, work, *shape, calls=2, positive=False):
    """Decompositions: work(torch.linalg, matrices); positive: positive definite ones."""

    @case(name, calls)
    def make(m):
        a = drawn(m, *shape)
        if positive:
            a = a @ a.mT + shape[-1] * m.eye(shape[-1]).to("cuda")
        return lambda: work(m.linalg, a)


matrices("cholesky, 2048", lambda la, a: la.cholesky(a), 2048, 2048, positive=True)
matrices("cholesky, 512 x 64", lambda la, a: la.cholesky(a), 512, 64, 64, positive=True)
matrices("lu_factor, 2048", lambda la, a: la.lu_factor(a), 2048, 2048)
matrices("lu_factor, 512 x 64", lambda la, a: la.lu_factor(a), 512, 64, 64)
matrices("solve, 2048", lambda la, a: la.solve(a, a), 2048, 2048)
matrices("solve, 512 x 64", lambda la, a: la.solve(a, a), 512, 64, 64)
matrices("inv, 2048", lambda la, a: la.inv(a), 2048, 2048)
matrices("inv, 512 x 64", lambda la, a: la.inv(a), 512, 64, 64)
matrices("det, 4096 x 8", lambda la, a: la.det(a), 4096, 8, 8)
matrices(
    "solve_triangular, 2048", lambda la, a: la.solve_triangular(a, a, upper=True), 2048, 2048,
    positive=True,
)  # fmt: skip
matrices("qr, 1024", lambda la, a: la.qr(a), 1024, 1024)
matrices("qr, 256 x 64", lambda la, a: la.qr(a), 256, 64, 64)
matrices("svd, 512", lambda la, a: la.svd(a), 512, 512)
matrices("svd, 256 x 32", lambda la, a: la.svd(a), 256, 32, 32)
matrices("svdvals, 512", lambda la, a: la.svdvals(a), 512, 512)
matrices("eigh, 1024", lambda la, a: la.eigh(a), 1024, 1024, positive=True)
matrices("eigh, 512 x 32", lambda la, a: la.eigh(a), 512, 32, 32, positive=True)
matrices("eig, 256", lambda la, a: la.eig(a), 256, 256)
matrices("lstsq, 2048 x 256", lambda la, a: la.lstsq(a, a).solution, 2048, 256)


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


def learned(m, *shape, dtype="float32", last=False):
    """A drawn tensor that wants a gradient; last: with channels innermost."""
    t = drawn(m, *shape, dtype=dtype)
    return (t.contiguous(memory_format=m.channels_last) if last else t).requires_grad_()


def back_and_forth(work, *tensors):
    """Work on tensors, forward and backward with the result as its gradient."""

    def run():
        out = work(*tensors)
        out.backward(out.detach())
        for t in tensors:
            t.grad = None

    return run


@case("conv 3x3, 32 x 256 x 56 x 56 bf16 channels_last, forward and backward")
def _conv(m):
    image = learned(m, 32, 256, 56, 56, dtype="bfloat16", last=True)
    weight = learned(m, 256, 256, 3, 3, dtype="bfloat16", last=True)
    return back_and_forth(lambda x, w: m.nn.functional.conv2d(x, w, padding=1), image, weight)


@case("conv 7x7 stem, 128 x 3 x 224 x 224, forward and backward")
def _stem(m):
    image, weight = drawn(m, 128, 3, 224, 224), learned(m, 64, 3, 7, 7)
    return back_and_forth(lambda w: m.nn.functional.conv2d(image, w, None, 2, 3), weight)


@case("attention 8 x 16 x 2048 x 64 causal bf16, forward and backward")
def _attention(m):
    tensors = [learned(m, 8, 16, 2048, 64, dtype="bfloat16") for _ in range(3)]
    attend = m.nn.functional.scaled_dot_product_attention
    return back_and_forth(lambda q, k, v: attend(q, k, v, is_causal=True), *tensors)


simple(
    "attention 4 x 16 x 4096 x 128 bf16",
    lambda m, F, q, k, v: F.scaled_dot_product_attention(q, k, v),
    *[(4, 16, 4096, 128)] * 3, dtype="bfloat16",
)  # fmt: skip
simple("bmm bf16, 64 x 1024", lambda m, F, a, b: a @ b, *[(64, 1024, 1024)] * 2, dtype="bfloat16")


@case("linear, gelu, linear bf16, 16384 x 1024 x 4096", 5)
def _feed_forward(m):
    F, x = m.nn.functional, drawn(m, 16384, 1024, dtype="bfloat16")
    wide, narrow = (drawn(m, *s, dtype="bfloat16") for s in ((4096, 1024), (1024, 4096)))
    b, c = drawn(m, 4096, dtype="bfloat16"), drawn(m, 1024, dtype="bfloat16")
    return lambda: F.linear(F.gelu(F.linear(x, wide, b)), narrow, c)


@case("LSTM 512, two layers, 128 steps of 64, forward and backward", 3)
def _lstm(m):
    net, x = m.nn.LSTM(512, 512, 2).to("cuda"), drawn(m, 128, 64, 512)
    return lambda: net(x)[0].sum().backward()


@case("AdamW over 124 M parameters", 3)
def _adamw(m):
    sizes = [(50304, 768), (1024, 768)]
    sizes += [(768,), (768,), (2304, 768), (2304,), (768, 768), (768,), (768,), (768,)] * 12
    sizes += [(3072, 768), (3072,), (768, 3072), (768,)] * 12
    tensors = [drawn(m, *size).requires_grad_() for size in sizes]
    for t in tensors:
        t.grad = m.randn_like(t)
    return m.optim.AdamW(tensors).step


@case("GPT-2 124M forward, batch 1, 64 tokens, bf16", 5)
def _gpt2_forward(m):
    net = gpt2(m).to("cuda").to(m.bfloat16).eval()
    tokens = m.randint(0, 50304, (1, 64)).to("cuda")

    def run():
        with m.no_grad():
            net(tokens)

    return run


def training(m, net, inputs, classes, lr=1e-4):
    """A step of training in bf16, which autocast sees to."""
    optimizer = m.optim.AdamW(net.parameters(), lr=lr)

    def run():
        optimizer.zero_grad()
        with m.autocast("cuda", dtype=m.bfloat16):
            out = net(inputs)
            loss = m.nn.functional.cross_entropy(out.flatten(0, -2), classes)
        loss.backward()
        optimizer.step()

    return run


@case("GPT-2 124M step bf16, 32 x 1024", 2)
def _gpt2(m):
    tokens = m.randint(0, 50304, (32, 1024)).to("cuda")
    return training(m, gpt2(m).to("cuda"), tokens, tokens.flatten())


@case("ResNet-50 step bf16 channels_last, batch 128", 3)
def _resnet(m):
    net = resnet50(m).to("cuda").to(memory_format=m.channels_last)
    images = drawn(m, 128, 3, 224, 224).contiguous(memory_format=m.channels_last)
    return training(m, net, images, m.randint(0, 1000, (128,)).to("cuda"))


def measured(m, make, calls):
    """The best time of a call, and the peak of memory."""
    gc.collect()  # compiled programs are cycles
    m.cuda.empty_cache()
    m.cuda.reset_peak_memory_stats()
    before = m.cuda.memory_allocated()  # what other cases left lying
    best = seconds(m, make(m), calls)
    peak = m.cuda.max_memory_allocated() - before
    m.cuda.empty_cache()
    return best, peak


def seconds(m, work, calls):
    """The best time of a call."""
    best = float("inf")
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


def compiled(make):
    """The same work, compiled and warm."""

    def made(m):
        work = m.compile(make(m))
        for _ in range(8):
            work()
        return work

    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="cases whose name contains one of these, a|b|c")
    parser.add_argument(
        "--compiled", choices=("ours", "both"), help="compile the work: ours only, or PyTorch's too"
    )
    options = parser.parse_args()
    only, names = options.only, {"ours": ["flambeau"], "both": ["flambeau", "torch"]}
    chosen = names.get(options.compiled, [])
    print(f"{pytorch.cuda.get_device_name()}, PyTorch {pytorch.__version__}\n")
    print("| work | PyTorch, us | ours, us | ratio | memory |\n|---|---|---|---|---|")
    for name, (make, calls) in CASES.items():
        if any(word in name for word in only.split("|")):
            (theirs, least), (ours, peak) = (
                measured(m, compiled(make) if m.__name__ in chosen else make, calls)
                for m in (pytorch, flambeau)
            )
            facts = f"{1e6 * theirs:.0f} | {1e6 * ours:.0f} | {theirs / ours:.2f}"
            print(f"| {name} | {facts} | {peak / max(least, 1):.2f} |", flush=True)


if __name__ == "__main__":
    main()
