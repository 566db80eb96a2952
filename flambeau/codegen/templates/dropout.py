"""Dropout: draw a coin per element and apply it, in one pass.

The coins are those of bernoulli_ (53 random bits each, see `sampling.py`), drawn in the order of
memory, so PyTorch's masks come out for PyTorch's seeds. A dropped element is multiplied by zero,
as in PyTorch: infinities and nan show.
"""

from flambeau.codegen.llvm import load_element
from flambeau.codegen.llvm_names import LLVM_TYPE, MEMORY_TYPE
from flambeau.codegen.loops import I64, vector
from flambeau.codegen.target import current
from flambeau.codegen.templates.sampling import COMPUTE_TYPE, Kernel, narrowed, rounded, store


def build_dropout(dtype, kind, masked):
    """kernel(generator, out, mask, input, count, keep, factor, shift, share).

    keep: the probability that an element stays. kind: "plain" multiplies what stays by 1 / keep,
    "native" by factor; "alpha" multiplies by factor and adds shift * share, or shift * share less
    shift where an element is dropped. masked: is the mask (bool) to be written? Every number is
    rounded to dtype where PyTorch has it in a tensor.
    """
    kernel = Kernel("ppppiffff")
    fn, (_, out, mask_out, source, count, keep, factor, shift, share) = kernel.fn, kernel.arguments
    width = current().vector_bytes // 8
    limit = fn.convert("fptosi", fn.intrinsic("ceil", keep * 2.0**53), I64)
    type = LLVM_TYPE[COMPUTE_TYPE[dtype]]
    if kind == "plain":
        factor = fn.value(1.0, type) / narrowed(fn, keep, dtype)
    else:
        factor = narrowed(fn, factor, dtype)
    if kind != "native":  # there the factor is no tensor
        factor = rounded(fn, factor, dtype)
    factor = fn.splat(factor, width)
    zero = fn.value(0.0, vector(type, width))
    if kind == "alpha":
        offset = narrowed(fn, share, dtype)
        kept = fn.splat(rounded(fn, offset, dtype), width)
        lowered = rounded(fn, -narrowed(fn, shift, dtype), dtype) + offset
        dropped = fn.splat(rounded(fn, lowered, dtype), width)

    def step(i, bits, mask):
        hit = (bits & (2**53 - 1)) < limit
        at = fn.gep(source, i, MEMORY_TYPE[dtype])
        value = load_element(fn, at, dtype, width, "c", None, mask) * fn.select(hit, factor, zero)
        if kind == "alpha":
            value = rounded(fn, value, dtype) + fn.select(hit, kept, dropped)
        store(fn, value, out, i, dtype, mask)
        if masked:
            store(fn, hit, mask_out, i, "bool", mask)

    kernel.in_buffers(count, 2, width, step)
    return kernel.text()
