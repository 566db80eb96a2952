"""Plans of pointwise kernels: from layouts to a kernel and the words of its launch.

`plan_nest` broadcasts, chooses the order of dimensions, collapses them, chooses how each operand is
accessed and splits the work into chunks. What depends on dtypes, rank and kinds of access is a
kernel, found by those; what depends on sizes is a few words of its launch description. The split
depends on sizes only, never on threads.
"""

from flambeau._layout import (
    broadcast_sizes,
    collapse,
    contiguous_strides,
    expanded_strides,
    is_dense_in_some_order,
    make_layout,
    memory_order,
    ordered_strides,
)
from flambeau.codegen import scalar
from flambeau.codegen.llvm_names import COMPUTE_TYPE
from flambeau.eager.kernels import pool
from flambeau.ops.rules import weighted
from flambeau.runtime.base import nothing
from flambeau.runtime.cpu import packed
from flambeau.runtime.stacks import alone

WORK = 1 << 16  # elements of the cheapest kernel that are worth a thread's while
NO_WORK = packed([0])  # the description of a launch without chunks


def cast_value(value, code):
    """An expression (or Complex, or number) as the compute type of a dtype."""
    type = COMPUTE_TYPE[code]
    if code[0] == "c":
        if isinstance(value, scalar.Complex):
            return scalar.Complex(scalar.cast(value.re, type), scalar.cast(value.im, type))
        if not isinstance(value, scalar.Expr):
            value = complex(value)
            return scalar.Complex(scalar.const(value.real, type), scalar.const(value.imag, type))
        return scalar.Complex(scalar.cast(value, type), scalar.const(0, type))
    if isinstance(value, scalar.Complex):
        return (value.re != 0) | (value.im != 0) if type == "bool" else scalar.cast(value.re, type)
    return scalar.cast(value, type)


def cost(values):
    """A rough count of instructions per element."""
    seen, stack, total = set(), [], 0
    for v in values:
        stack.extend((v.re, v.im) if isinstance(v, scalar.Complex) else (v,))
    while stack:
        e = stack.pop()
        if id(e) in seen:
            continue
        seen.add(id(e))
        total += e.op not in ("argument", "const", "cast", "bitcast")
        stack.extend(e.args)
    return total


def chunk_elements(work):
    return max(4096, (WORK // (1 + work // 8)) & -1024)


def output_layout(shape, inputs, dtype, device):
    """The layout of a fresh result: dense, in the order of dimensions that the inputs suggest."""
    return _output(
        tuple(shape), inputs, [expanded_strides(i, shape) for i in inputs], dtype, device
    )


def _output(sizes, inputs, strides, dtype, device):
    if len(sizes) < 2 or _descend(strides) or _are_contiguous(inputs, sizes):
        return make_layout(sizes, contiguous_strides(sizes), dtype, device)
    first = inputs[0]
    if all(i.sizes == sizes and i.strides == first.strides for i in inputs) and (
        is_dense_in_some_order(first)
    ):
        return make_layout(sizes, first.strides, dtype, device)
    order = memory_order(sizes, strides)
    return make_layout(sizes, ordered_strides(sizes, order), dtype, device)


def _are_contiguous(layouts, sizes):
    return all(layout.is_contiguous and layout.sizes == sizes for layout in layouts)


def common_sizes(layouts):
    """The sizes that layouts have, or can be broadcast to."""
    sizes = layouts[0].sizes
    for layout in layouts:
        if layout.sizes != sizes:
            return broadcast_sizes([i.sizes for i in layouts])
    return sizes


def _descend(operand_strides):
    """Does every operand step less from one dimension to the next, where it does not repeat?

    Then `memory_order` would find nothing to exchange.
    """
    for strides in operand_strides:
        last = None
        for s in strides:
            if s:
                if s < 0 or (last is not None and s >= last):
                    return False
                last = s
    return True


def plan_nest(
    key, trace, inputs, scalars, out_dtypes, outs=None, shape=None, device=None, collapsing=True,
    memo=None,
):  # fmt: skip
    """(output layouts, kernel, description).

    key: names the computation; trace(*arguments) gives its values (expressions, one per output);
    inputs: layouts; scalars: kind letters; outs: given output layouts (in-place, out=); memo: where
    kernels of this computation for these dtypes are kept, by accesses and rank.
    """
    sizes = common_sizes(inputs) if shape is None else tuple(shape)
    device = device or inputs[0].device
    spread = [i.strides if i.sizes == sizes else expanded_strides(i, sizes) for i in inputs]
    if outs is None:
        outs = (first := _output(sizes, inputs, spread, out_dtypes[0], device),)
        for d in out_dtypes[1:]:
            outs += (first if d is first.dtype else make_layout(sizes, first.strides, d, device),)
    runtime = device.runtime
    if outs[0].numel == 0 or not runtime.computes:
        return outs, nothing, NO_WORK
    operands = (*outs, *inputs)
    if collapsing:
        for o in reversed(outs):
            spread.insert(0, o.strides)
        sizes, strides = _walk(sizes, operands, spread)
    else:
        sizes, strides = walk_order(sizes, operands, False)
    if sizes:
        accesses = accesses_of(sizes, strides, operands, len(outs))
        if collapsing and "n" in accesses:
            sizes, strides = lengthened(sizes, strides)
            accesses = accesses_of(sizes, strides, operands, len(outs))
    else:
        sizes, strides = [1], [[o.itemsize] for o in operands]
        accesses = ["c"] * len(operands)
    mark = (*accesses, len(sizes))
    found = memo.get(mark) if memo is not None else None
    if found is None:
        pattern = tuple([(o.dtype.code, a) for o, a in zip(operands, accesses)])
        outputs, others = pattern[: len(outs)], pattern[len(outs) :]
        found = nest_kernel(runtime, key, trace, outputs, others, scalars, len(sizes) - 1)
        if memo is not None:
            memo[mark] = found
    kernel, chunk = found
    words = describe_launch(sizes, strides, chunk)
    if words[0] > 1:
        pool().ensure_workers()
    return outs, kernel, packed(words)


def walk_order(shape, operands, collapsing):
    """Sizes and byte strides in the order the kernel walks them, outermost first."""
    spread = [expanded_strides(o, shape) for o in operands]
    if collapsing:
        return _walk(shape, operands, spread)
    return list(shape), [[s * o.itemsize for s in st] for o, st in zip(operands, spread)]


def _walk(sizes, operands, spread):
    """The same, merged; spread: strides of the operands over all dimensions."""
    if len(sizes) > 1 and not _descend(spread):
        order = memory_order(sizes, spread)
        sizes = [sizes[d] for d in order]
        spread = [[st[d] for d in order] for st in spread]
    sizes, strides = collapse(sizes, spread)
    for steps, o in zip(strides, operands):
        itemsize = o.itemsize
        if itemsize > 1:
            for k, s in enumerate(steps):
                steps[k] = s * itemsize
    return sizes, strides


TILE = 16  # both sides must have this many elements for tiles to pay
BLOCK = 4096  # elements of a row that is walked across short ones


def lengthened(sizes, strides):
    """The same walk with its two innermost dimensions exchanged, where rows would be very short.

    What lay side by side is then written in steps, but by full vectors. Rows that become very long
    are cut, if they can be, so that a line of the cache is not left before all of it is written.
    """
    if len(sizes) < 2 or sizes[-1] >= TILE or sizes[-2] < 2 * TILE:
        return sizes, strides
    length = _block(sizes[-2])
    sizes = [*sizes[:-2], sizes[-2] // length, sizes[-1], length]
    strides = [[*st[:-2], st[-2] * length, st[-1], st[-2]] for st in strides]
    if sizes[-3] == 1:
        del sizes[-3]
        for st in strides:
            del st[-3]
    return sizes, strides


def _block(n):
    """A divisor of n that is no longer than a block and not much shorter; else n itself."""
    least = -(-n // BLOCK)
    for pieces in range(least, 8 * least + 1):
        if n % pieces == 0 and n >= 2 * TILE * pieces:
            return n // pieces
    return n


def access_of(sizes, strides, layout, is_output):
    """How a kernel reads an operand along its innermost dimension: see codegen/build.py."""
    itemsize = layout.itemsize
    step = strides[-1] if sizes else itemsize
    if step == itemsize:
        return "c"
    if is_output:
        return "n"
    if step == 0:
        return "s"
    if layout.dtype.is_complex:
        return "n"
    if step == -itemsize:
        return "r"
    turned = len(sizes) > 1 and strides[-2] == itemsize and min(sizes[-2:]) >= TILE
    return "t" if turned else "n"


def accesses_of(sizes, strides, operands, outputs):
    """The access of each operand, outputs first."""
    found = []
    for layout, steps in zip(operands, strides):
        # most lie side by side, which need not be asked twice
        side_by_side = steps[-1] == layout.itemsize
        is_output = len(found) < outputs
        found.append("c" if side_by_side else access_of(sizes, steps, layout, is_output))
    return found


def describe_launch(sizes, strides, chunk):
    """The words of a launch: see codegen/build.py for their names.

    Work is cut into equal chunks of about `chunk` elements, so that two threads have the same to
    do; several chunks are always an even number.
    """
    length = sizes[-1]
    rows = 1
    for s in sizes[:-1]:
        rows *= s
    count = -(-length * rows // chunk)
    count += count % 2 if count > 1 else 0
    if length >= chunk or len(sizes) == 1:
        piece = length if count == 1 else max(64, -(-length // -(-count // rows)) + 63 & -64)
        per_chunk = 1
    else:
        per_chunk = max(1, -(-rows // count))
        piece, per_chunk = length, (per_chunk + TILE - 1) & -TILE if per_chunk > TILE else per_chunk
    pieces = -(-length // piece)
    chunks = pieces * (-(-rows // per_chunk))
    found = [chunks, pieces, piece, per_chunk, rows, length, *sizes[:-1]]
    for st in strides:
        found.append(st[-1])
        found.extend(st[:-1])
    return found


def describe_run(n, chunk, steps):
    """`describe_launch` for n elements that every operand has side by side, packed."""
    if n <= chunk:
        return packed((1, 1, n, 1, 1, n, *steps))
    count = -(-n // chunk)
    count += count % 2
    piece = max(64, -(-n // count) + 63 & -64)
    pieces = -(-n // piece)
    pool().ensure_workers()
    return packed((pieces, pieces, piece, 1, 1, n, *steps))


def nest_kernel(runtime, key, trace, outputs, inputs, scalars, rank):
    """(kernel, elements per chunk) of a computation for a pattern of operands."""
    full = (key, outputs, inputs, scalars, rank)
    found = runtime.kernels.get(full)
    if found is None:
        found = runtime.kernels[full] = alone(_nest_kernel, runtime, trace, *full)
    return found


def _nest_kernel(runtime, trace, key, outputs, inputs, scalars, rank):
    from flambeau.codegen import build  # with llvmlite, on first need

    values = trace(*build.arguments_for(inputs, scalars))
    values = tuple(cast_value(v, code) for v, (code, _) in zip(values, outputs))
    nest = build.Pointwise(inputs, outputs, scalars, values, rank)
    name = key
    while isinstance(name, tuple):
        name = name[0]
    return runtime.load(name, build.text_and_nest, (nest,)), chunk_elements(cost(values))


def scalar_kinds(kind):
    """Kernel argument letters for a Python number type; complex takes two words."""
    return {float: "f", complex: "ff"}.get(kind, "i")


def result_types(rule, operands):
    """(compute dtype, result dtype) for layouts and Python number types."""
    return rule(weighted(operands))
