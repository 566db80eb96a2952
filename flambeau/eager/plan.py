"""Plans: what a call with given layouts will do, worked out once.

`plan_nest` turns layouts into a pointwise kernel plus its launch description: broadcast, choose the
order of dimensions, collapse them, choose how each operand is accessed, split the work into chunks,
and compile the kernel if this pattern is new. The split depends on sizes only, never on threads.
"""

from flambeau._layout import (
    broadcast_shape,
    collapse,
    contiguous_strides,
    expanded_strides,
    make_layout,
    memory_order,
    ordered_strides,
)
from flambeau.codegen import scalar
from flambeau.codegen.llvm_names import COMPUTE_TYPE
from flambeau.eager.kernels import load_kernel, pool
from flambeau.ops.rules import weighted
from flambeau.runtime.cpu import words

_kernels: dict = {}
WORK = 1 << 16  # elements of the cheapest kernel that are worth a thread's while
MAX_PLANS = 4096


def nothing(*args):
    """The kernel of empty and of meta tensors."""


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
    if all(i.is_contiguous and i.shape == shape for i in inputs):
        return make_layout(shape, contiguous_strides(shape), dtype, device)
    strides = [expanded_strides(i, shape) for i in inputs]
    if len(shape) > 1 and all(i.shape == shape for i in inputs):
        first = inputs[0]
        if all(i.strides == first.strides for i in inputs) and _dense(first):
            return make_layout(shape, first.strides, dtype, device)
    order = memory_order(shape, strides)
    return make_layout(shape, ordered_strides(shape, order), dtype, device)


def _dense(layout):
    expected = 1
    for stride, size in sorted(zip(layout.strides, layout.shape)):
        if size != 1:
            if stride != expected:
                return False
            expected *= size
    return True


def plan_nest(
    key, trace, inputs, scalars, out_dtypes, outs=None, shape=None, device=None, collapsing=True
):
    """(output layouts, kernel, description address, owner of the description).

    key: names the computation; trace(*arguments) gives its values (expressions, one per output);
    inputs: layouts; scalars: kind letters; outs: given output layouts (in-place, out=).
    """
    if shape is None:
        shape = broadcast_shape(*[i.shape for i in inputs])
    device = device or inputs[0].device
    if outs is None:
        first = output_layout(shape, inputs, out_dtypes[0], device)
        outs = tuple(
            first if d is first.dtype else make_layout(shape, first.strides, d, device)
            for d in out_dtypes
        )
    if outs[0].numel == 0 or device.type != "cpu":
        owner, address = words([0])
        return outs, nothing, address, owner
    operands = [(o, expanded_strides(o, shape)) for o in (*outs, *inputs)]
    sizes, strides = walk_order(shape, operands, collapsing)
    accesses = accesses_of(sizes, strides, operands, len(outs))
    if collapsing and "n" in accesses:
        sizes, strides = lengthened(sizes, strides)
        accesses = accesses_of(sizes, strides, operands, len(outs))
    if not sizes:
        sizes, strides = [1], [[o.itemsize] for o, _ in operands]
        accesses = ["c"] * len(operands)
    pattern = tuple((o.dtype.code, a) for (o, _), a in zip(operands, accesses))
    rank = len(sizes) - 1
    kernel, work = _kernel(key, trace, pattern[: len(outs)], pattern[len(outs) :], scalars, rank)
    owner, address = words(describe_launch(sizes, strides, chunk_elements(work)))
    if owner[0] > 1:
        pool().ensure_workers()
    return outs, kernel, address, owner


def walk_order(shape, operands, collapsing):
    """Sizes and byte strides in the order the kernel walks them, outermost first."""
    strides = [[s * o.itemsize for s in st] for o, st in operands]
    if not collapsing:
        return list(shape), strides
    if len(shape) < 2:
        order = range(len(shape))
    else:
        order = memory_order(shape, strides)
    return collapse([shape[d] for d in order], [[st[d] for d in order] for st in strides])


TILE = 16  # both sides must have this many elements for tiles to pay
BLOCK = 4096  # elements of a row that is walked across short ones


def lengthened(sizes, strides):
    """The same walk with its two innermost dimensions exchanged, where rows would be very short.

    What lay side by side is then written in steps, but by full vectors. Rows that become very long
    are cut, if they can be, so that a line of the cache is not left before all of it is written.
    """
    if len(sizes) < 2 or sizes[-1] >= TILE or sizes[-2] < 2 * TILE:
        return sizes, strides
    blocks = range(min(sizes[-2], BLOCK), 2 * TILE - 1, -1)
    length = next((b for b in blocks if sizes[-2] % b == 0), sizes[-2])
    sizes = [*sizes[:-2], sizes[-2] // length, sizes[-1], length]
    strides = [[*st[:-2], st[-2] * length, st[-1], st[-2]] for st in strides]
    if sizes[-3] == 1:
        del sizes[-3]
        for st in strides:
            del st[-3]
    return sizes, strides


def access_of(sizes, strides, layout, is_output):
    """How a kernel reads an operand along its innermost dimension: see codegen/build.py."""
    if not sizes or strides[-1] == layout.itemsize:
        return "c"
    if is_output:
        return "n"
    if strides[-1] == 0:
        return "s"
    if strides[-1] == -layout.itemsize and not layout.dtype.is_complex:
        return "r"
    turned = len(sizes) > 1 and strides[-2] == layout.itemsize and min(sizes[-2:]) >= TILE
    return "t" if turned and not layout.dtype.is_complex else "n"


def accesses_of(sizes, strides, operands, outputs):
    """The access of each operand, outputs first."""
    return [
        access_of(sizes, steps, layout, k < outputs)
        for k, ((layout, _), steps) in enumerate(zip(operands, strides))
    ]


def describe_launch(sizes, strides, chunk):
    """The words of a launch. Work is cut into equal chunks of about `chunk` elements, so that two
    threads have the same to do; several chunks are always an even number.
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


def _kernel(key, trace, outputs, inputs, scalars, rank):
    full = (key, outputs, inputs, scalars, rank)
    found = _kernels.get(full)
    if found is None:
        from flambeau.codegen import build  # with llvmlite, on first need

        values = trace(*build.arguments_for(inputs, scalars))
        values = tuple(cast_value(v, code) for v, (code, _) in zip(values, outputs))
        nest = build.Pointwise(inputs, outputs, scalars, values, rank)
        name = key
        while isinstance(name, tuple):
            name = name[0]
        found = _kernels[full] = load_kernel(build.build_pointwise(nest), name, nest), cost(values)
    return found


def scalar_kinds(kind):
    """Kernel argument letters for a Python number type; complex takes two words."""
    return {float: "f", complex: "ff"}.get(kind, "i")


def result_types(rule, operands):
    """(compute dtype, result dtype) for layouts and Python number types."""
    return rule(weighted(operands))
