"""Matrix products on GPUs: plans for eager/gemm.py, by libraries where they can, else by a kernel.

A plan's kernel takes what the host's takes: description, addresses of C, A and B, two words that
mean nothing here, then alpha and (address, factor) of each addend.
"""

from itertools import chain
from math import prod

from flambeau.codegen.descriptions import DeviceProduct
from flambeau.eager import gemm
from flambeau.runtime.cpu import packed


def planning(runtime):
    """How a GPU plans products."""

    def plan(like, m, n, k, c, a, b, scaled, activation, addends, sizes, steps):
        return own_plan(
            runtime, like.dtype, m, n, k, c, a, b, scaled, activation, addends, sizes, steps
        )

    return plan


def own_plan(runtime, dtype, m, n, k, c, a, b, scaled, activation, addends, sizes, steps):
    """The plan of a product that our own kernel does."""
    item = dtype.itemsize
    kernel = runtime.kernel(
        "gemm", "gemm:build", dtype.code, scaled, len(addends), activation, len(sizes)
    )
    strides = [x * item for x in (*c, *a, *b)]
    words = DeviceProduct(1, prod(sizes), m, n, k, *strides)
    more = [*sizes, *[x * item for x in (*steps, *chain(*addends))]]
    return gemm.Plan(kernel, packed([*words, *more]), 1, 0, 0, False, runtime.pool_for)
