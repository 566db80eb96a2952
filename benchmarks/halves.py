"""bfloat16: products, convolutions and attention in it, and training steps under autocast.

Usage: python benchmarks/halves.py [--threads 1,2] [--only PATTERN] [--seconds 1]
"""

from collections.abc import Iterator

import training
from timing import Case, main

HALF = ".bfloat16()"
CONVOLUTIONS = {
    "conv 3x3 64->64, 8x64x56x56": ((8, 64, 56, 56), (64, 64, 3, 3), "padding=1"),
    "conv 3x3/2 128->256, 8x128x28x28": ((8, 128, 28, 28), (256, 128, 3, 3), "2, 1"),
    "conv 1x1 64->256, 8x64x56x56": ((8, 64, 56, 56), (256, 64, 1, 1), ""),
    "conv depthwise 3x3, 8x128x28x28": ((8, 128, 28, 28), (128, 1, 3, 3), "padding=1, groups=128"),
}


def products() -> Iterator[Case]:
    for n in (64, 256, 512, 1024):
        setup = f"a, b = (torch.randn({n}, {n}){HALF} for _ in range(2))"
        yield Case(f"matmul {n}", "a @ b", setup, flops=2 * n**3)
    setup = f"x = torch.randn(512, 768){HALF}\nw = torch.randn(3072, 768){HALF}\n"
    setup += f"g = torch.randn(512, 3072){HALF}"
    yield Case("linear 512x768x3072", "torch.nn.functional.linear(x, w)", setup)
    yield Case("linear 512x768x3072, gradient of the input", "g @ w", setup)
    yield Case("linear 512x768x3072, gradient of the weight", "g.t() @ x", setup)
    setup = f"a, b = (torch.randn(96, 128, 64){HALF} for _ in range(2))"
    yield Case("batched 96 x 128x64x128, transposed", "a @ b.mT", setup)
    setup = f"x = torch.randn(16, 1024){HALF}\nw = torch.randn(1024, 1024){HALF}"
    yield Case("linear 16x1024x1024", "torch.nn.functional.linear(x, w)", setup)
    yield Case("linear 1x1024x1024", "torch.nn.functional.linear(x[:1], w)", setup)


def convolutions() -> Iterator[Case]:
    for name, (x, w, options) in CONVOLUTIONS.items():
        call = f"torch.nn.functional.conv2d(x, w, b, {options})"
        setup = f"x = torch.randn{x}{HALF}\nw = (torch.randn{w} * 0.1){HALF}\n"
        setup += f"b = torch.randn({w[0]}){HALF}\n"
        yield Case(f"{name}, forward", call, setup)
        graph = f"for t in (x, w, b): t.requires_grad_()\ng = torch.randn_like({call})"
        run = f"torch.autograd.grad({call}, (x, w, b), g)"
        yield Case(f"{name}, forward and backward", run, setup + graph)


def sequences() -> Iterator[Case]:
    for causal in ("True", "False"):
        setup = f"q, k, v = (torch.randn(4, 8, 256, 64){HALF} for _ in range(3))\n"
        call = f"torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal={causal})"
        name = f"attention 4x8x256x64{' causal' if causal == 'True' else ''}"
        yield Case(f"{name}, forward", call, setup)
        graph = f"for t in (q, k, v): t.requires_grad_()\ng = torch.randn_like({call})"
        run = f"torch.autograd.grad({call}, (q, k, v), g)"
        yield Case(f"{name}, forward and backward", run, setup + graph)


def autocast() -> Iterator[Case]:
    """The steps of training.py whose losses are computed under autocast."""
    for case in training.FAMILIES["steps"]:
        if case.name.startswith(("MLP", "ResNet", "GPT", "convnet")):
            first, loss, *rest = case.run.strip().splitlines()
            inside = ['with torch.autocast("cpu", torch.bfloat16):', f"    {loss}"]
            run = "\n".join([first, *inside, *rest])
            yield Case(f"autocast, {case.name}", run, case.setup)


FAMILIES = {
    "products": list(products()),
    "convolutions": list(convolutions()),
    "sequences": list(sequences()),
    "autocast": list(autocast()),
}
CASES = [case for family in FAMILIES.values() for case in family]


if __name__ == "__main__":
    main(__doc__.splitlines()[0], CASES)
