"""Ops on 1e5 to 1e7 elements: pointwise, reductions, sorting and indexing.

Usage: python benchmarks/ops.py [--threads 1,2] [--only PATTERN] [--seconds 1]

`--bits` instead checks that every result is the same to the last bit with 1 and with 2 threads,
and agrees with PyTorch's.
"""

import sys
from collections.abc import Iterable, Iterator

import numpy as np

from timing import Case, arguments, packages, run_cases, select, value

SIZES = {"1e5": (250, 400), "1e6": (1000, 1000), "1e7": (2500, 4000)}
REDUCED = {"2000x1000": (2000, 1000), "1e7": (2500, 4000)}
MILLION = 1_000_000


def arithmetic() -> Iterator[Case]:
    for size, (rows, columns) in SIZES.items():
        count = rows * columns
        pair = f"a = torch.randn({count})\nb = torch.randn({count})"
        yield Case(f"a + b, {size}", "a + b", pair, minimum=2.0 if size == "1e7" else 1.0)
        yield Case(f"where, {size}", "torch.where(c, a, b)", pair + "\nc = a > b")
        for source, target in (
            ("float32", "float64"),
            ("float32", "int32"),
            ("float32", "bfloat16"),
            ("int64", "float32"),
        ):
            setup = f"a = (torch.randn({count}) * 100).to(torch.{source})"
            yield Case(f"{source} to {target}, {size}", f"a.to(torch.{target})", setup)
        vectors = f"u = torch.randn({rows})\nv = torch.randn({columns})"
        yield Case(f"outer product, {size}", "u[:, None] * v", vectors)
        matrices = f"a = torch.randn({rows}, {columns})\nb = torch.randn({columns}, {rows})"
        yield Case(f"a + b.t(), {size}", "a + b.t()", matrices)


def curves() -> Iterator[Case]:
    for name, call in (
        ("exp", "torch.exp(x)"),
        ("tanh", "torch.tanh(x)"),
        ("sigmoid", "torch.sigmoid(x)"),
        ("gelu", "torch.nn.functional.gelu(x)"),
    ):
        data = f"x = torch.randn({MILLION})\ng = torch.randn({MILLION})\n"
        graph = data + "x.requires_grad_()\n"
        yield Case(f"{name}, 1e6", call, data, minimum=2.0)
        yield Case(
            f"{name} forward and backward, 1e6",
            f"torch.autograd.grad({call}, x, g)[0]",
            graph,
            minimum=2.0,
        )
        yield Case(
            f"{name} backward, 1e6",
            "torch.autograd.grad(y, x, g, retain_graph=True)[0]",
            graph + f"y = {call}",
            minimum=2.0,
        )


def reductions() -> Iterator[Case]:
    for size, (rows, columns) in REDUCED.items():
        setup = f"a = torch.randn({rows}, {columns})"
        for name in ("sum", "amax", "argmax", "var"):
            minimum = 3.0 if name == "var" else 1.0
            yield Case(f"{name}, {size}", f"a.{name}()", setup, minimum)
            for dim in (0, 1):
                yield Case(f"{name} dim {dim}, {size}", f"a.{name}({dim})", setup, minimum)


def selections() -> Iterator[Case]:
    data = f"x = torch.randn({MILLION})\n"
    index = data + f"i = torch.randint({MILLION}, ({MILLION},))\n"
    rows = "x = torch.randn(10000, 100)\ni = torch.randint(10000, (10000,))\n"
    yield Case("sort, 1e6", "torch.sort(x)[0]", data)
    yield Case("sort rows, 1000x1000", "torch.sort(x.view(1000, 1000))[0]", data)
    yield Case("topk 100, 1e6", "torch.topk(x, 100)[0]", data)
    yield Case("cumsum, 1e6", "torch.cumsum(x, 0)", data)
    yield Case("cumsum dim 0, 1000x1000", "torch.cumsum(x.view(1000, 1000), 0)", data)
    yield Case("index_select, 1e6", "torch.index_select(x, 0, i)", index)
    yield Case("index_select rows, 10000x100", "torch.index_select(x, 0, i)", rows)
    yield Case("gather, 1e6", "torch.gather(x, 0, i)", index)
    yield Case("scatter_add, 1e6", "torch.scatter_add(z, 0, i, x)", index + "z = x * 0")
    yield Case("nonzero, 1e6", "torch.nonzero(m)", data + "m = x > 0")
    yield Case("boolean mask, 1e6", "x[m]", data + "m = x > 0")


FAMILIES = {
    "arithmetic": list(arithmetic()),
    "curves": list(curves()),
    "reductions": list(reductions()),
    "selections": list(selections()),
}
CASES = [case for family in FAMILIES.values() for case in family]


def differences(cases: Iterable[Case]) -> list[str]:
    """What is not the same with 1 and 2 threads, or not PyTorch's result up to rounding."""
    flambeau, torch = packages()
    found = []
    for case in cases:
        one, two = value(case, flambeau, 1), value(case, flambeau, 2)
        expected = value(case, torch, 1)
        if [a.tobytes() for a in one] != [b.tobytes() for b in two]:
            found.append(f"{case.name}: 1 and 2 threads disagree")
        for ours, theirs in zip(one, expected, strict=True):
            scale = float(np.abs(theirs).max(initial=0.0)) if theirs.dtype != bool else 1.0
            kinds = [f"{array.dtype} {array.shape}" for array in (ours, theirs)]
            if kinds[0] != kinds[1]:
                found.append(f"{case.name}: {kinds[0]}, not {kinds[1]}")
            elif not np.allclose(ours, theirs, rtol=1e-4, atol=1e-5 * scale):
                found.append(f"{case.name}: differs from PyTorch")
    return found


if __name__ == "__main__":
    parser = arguments("Ops on large tensors, flambeau against PyTorch.")
    parser.add_argument("--bits", action="store_true", help="compare results instead of times")
    options = parser.parse_args()
    chosen = select(CASES, options.only)
    if options.bits:
        lines = differences(chosen)
        print("\n".join(lines) or f"{len(chosen)} results are the same with 1 and 2 threads")
        sys.exit(bool(lines))
    results = list(run_cases(chosen, options.threads, options.seconds))
    met = sum(result.met for result in results)
    print(f"\n{met} of {len(results)} reach the ratio asked for")
