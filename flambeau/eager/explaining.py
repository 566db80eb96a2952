"""What stands between a call and a kernel, as text: generated functions, plans, descriptions.

For `python -m flambeau explain`, which shows these before the stages of the kernel itself.
"""

import struct

from flambeau._layout import Layout
from flambeau._tensor import Tensor
from flambeau.codegen.descriptions import ITEM_BYTES, Reducing, Walk
from flambeau.eager import kernels
from flambeau.eager.fragments import TEXTS
from flambeau.eager.pointwise import Pointwise
from flambeau.eager.reducing import Reducer
from flambeau.ops.table import TABLE

TIMES = 5  # that something is run to be measured


def texts(name):
    """The functions that were generated for a row."""
    found = [f"# {title}\n{text}" for title, text in TEXTS.items() if title.split(" ")[0] == name]
    return "\n".join(found).rstrip() or None


def plans(name):
    """The plans that a row keeps at the moment, with the words of their launches."""
    op = TABLE.get(name)
    runtime = op.runtime if op is not None else None
    lines = []
    if isinstance(runtime, Pointwise):
        for variant in runtime.variants.values():
            family = variant.family
            for kept in (family.sorts, family.plans, family.into):
                lines += _listed(kept, Walk)
    elif isinstance(runtime, Reducer):
        lines += _listed(runtime.sorts, Reducing) + _listed(runtime.plans, Reducing)
    return "\n".join(lines) or None


def _listed(kept, words):
    lines = []
    for key, plan in kept.items():
        if plan is not None:
            lines.append(f"{_shown(key)}")
            lines += [f"    {_result(part, words)}" for part in plan if part is not None]
    return lines


def _shown(key):
    parts = key if isinstance(key, tuple) else (key,)
    return ", ".join(p.__name__ if isinstance(p, type) else repr(p) for p in parts)


def _result(part, words):
    if type(part) is bytes:
        return "description: " + _described(struct.unpack(f"{len(part) // 8}q", part), words)
    if type(part) is Layout:
        return f"result: {part}"
    return f"kernel: {part}" if callable(part) else f"{type(part).__name__}"


def measure(found, run, value):
    """Put times of kernels of a GPU among their facts: run() makes the same launches again."""
    on_gpu = [kernel for kernel in found if kernel.gpu is not None]
    clock, gpu = kernels.clock(), kernels.gpu_clock() if on_gpu else None
    if clock is None or gpu is None:
        return
    times: dict = {}
    clock.start(gpu)
    try:
        for _ in range(TIMES):
            run()
        for name, _, _, _, span in clock.read():
            if span is not None:
                times.setdefault(name, []).append(max(span[1] - span[0], 1))
    finally:
        clock.stop()
    for kernel in on_gpu:
        if kernel.name in times:
            least = min(times[kernel.name])
            kernel.gpu["time"] = f"{least / 1e3:.1f} us, the least of {len(times[kernel.name])}"
            nbytes = _moved(kernel.nest, value)
            if nbytes:
                kernel.gpu["memory"] = f"{nbytes / least:.1f} GB/s, if all operands are as large"


def _moved(nest, value):
    """Bytes that a pointwise kernel moves for a result; 0 where that is not known."""
    if nest is None or not isinstance(value, Tensor):
        return 0
    each = [ITEM_BYTES[code] for code, access in (*nest.inputs, *nest.outputs) if access != "s"]
    return value.numel() * sum(each)


def _described(values, words):
    """Words by name; a first word of 0 says that the kernel works out the others itself."""
    if values[0] == 0:
        return f"any number of elements, told at the call; {list(values[1:])}"
    head = [f"{n}={v}" for n, v in zip(words._fields, values)]
    return ", ".join(head) + f"; sizes and strides {list(values[len(head) :])}"
