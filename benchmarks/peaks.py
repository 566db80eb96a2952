"""What the machine can do at best: fused multiply-adds in registers, and a copy of memory.

The two figures that rates in the tables are shares of. The FMA loop is generated through the same
compiler as the kernels: independent chains of the widest vectors, one chunk per thread.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

ROUNDS = 1 << 16
CHAINS = 12


@dataclass(frozen=True, slots=True)
class Peak:
    gflops: float  # 1e9 multiplications and additions per second, float32
    gigabytes: float  # 1e9 bytes read and written per second


def _fma_kernel() -> tuple[Callable[..., Any], int]:
    from flambeau.codegen.llvm_cpu import add_entry, argument_word, host, module_text
    from flambeau.codegen.loops import I64, PTR, Module, vector
    from flambeau.eager.kernels import load_kernel

    module = Module()
    fn = module.function("body", [(PTR, "block"), (I64, "chunk")], internal=True)
    block, chunk = fn.params
    width = host().target.vector_bytes // 4
    wide = vector("float", width)
    out = argument_word(fn, block, 1, "p")
    cells = [fn.var(fn.value(float(k), wide)) for k in range(CHAINS)]
    # read from memory, so that the compiler cannot know them
    factor = fn.load(out, wide, 4)
    with fn.loop(0, ROUNDS):
        for cell in cells:
            cell.set(fn.intrinsic("fma", cell.get(), factor, factor))
    total = cells[0].get()
    for cell in cells[1:]:
        total = total + cell.get()
    fn.store(total, fn.gep(out, (chunk + 1) * width, "float"), 4)
    fn.ret()
    add_entry(module, "pp")
    return load_kernel(module_text(module), "fma"), width


def measure(threads: int) -> Peak:
    """The best of several tries on so many threads."""
    import flambeau
    from flambeau.runtime.cpu import words

    flambeau.set_num_threads(threads)
    kernel, width = _fma_kernel()
    room = flambeau.zeros(width * (threads + 1))
    _owner, address = words([threads])
    fma = min(_seconds(lambda: kernel(address, room.data_ptr())) for _ in range(20))
    source = flambeau.zeros(16 << 20)
    target = flambeau.zeros(16 << 20)
    copy = min(_seconds(lambda: target.copy_(source)) for _ in range(10))
    flops = 2 * ROUNDS * CHAINS * width * threads
    return Peak(flops / fma / 1e9, 2 * source.nbytes / copy / 1e9)


def _seconds(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start
