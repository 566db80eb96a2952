"""Plans of pointwise kernels: from layouts to a kernel and the words of its launch.

`plan_nest` broadcasts and has nests.py choose the order of dimensions, merge them, choose how each
operand is accessed and split the work into chunks. What depends on dtypes, rank and kinds of access
is a kernel, found by those; what depends on sizes is a few words of its launch description. The
split depends on sizes only, never on threads.
"""

from itertools import chain

from flambeau._layout import (
    dense_layout,
    expanded_strides,
    is_dense_in_some_order,
    make_layout,
)
from flambeau.codegen import scalar
from flambeau.codegen.llvm_names import COMPUTE_TYPE
from flambeau.eager.kernels import pool
from flambeau.ops.rules import weighted
from flambeau.planning import nests
from flambeau.runtime.base import nothing
from flambeau.runtime.cpu import packed
from flambeau.runtime.stacks import alone
from flambeau.runtime.threads import MANY, planned

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
        while e.op == "native":  # as most targets spell it
            e = e.args[-1]
        if id(e) in seen:
            continue
        seen.add(id(e))
        total += e.op not in ("argument", "const", "cast", "bitcast")
        stack.extend(e.args)
    return total


def chunk_elements(work):
    """Elements of a chunk; many threads are content with less work for each."""
    most, least = (WORK, 4096) if planned() <= MANY else (WORK // 4, 8192)
    return max(least, (most // (1 + work // 8)) & -1024)


def output_layout(shape, inputs, dtype, device):
    """The layout of a fresh result: dense, in the order of dimensions that the inputs suggest."""
    spread = tuple(chain(*[expanded_strides(i, shape) for i in inputs]))
    return _output(tuple(shape), inputs, spread, dtype, device)


def _output(sizes, inputs, spread, dtype, device):
    if len(sizes) < 2:
        return dense_layout(sizes, dtype, device)
    first, contiguous, alike = inputs[0], True, True
    for i in inputs:
        if i.sizes != sizes:
            break
        contiguous, alike = contiguous and i.is_contiguous, alike and i.strides == first.strides
    else:
        if contiguous:
            return dense_layout(sizes, dtype, device)
        if alike and is_dense_in_some_order(first):
            return make_layout(sizes, first.strides, dtype, device)
    return make_layout(sizes, nests.result_strides(sizes, spread), dtype, device)


def _spread(inputs, shape):
    """(sizes of the walk, strides of the inputs over them, those of a fresh result if inputs had to
    be broadcast); shape: where sizes are given.
    """
    if shape is not None:
        return tuple(shape), tuple(chain(*[expanded_strides(i, shape) for i in inputs])), None
    if not _differ(inputs):
        return inputs[0].sizes, tuple(chain(*[i.strides for i in inputs])), None
    return nests.broadcast(*_facts_of(inputs))


def _differ(inputs):
    """Are there several shapes?"""
    sizes = inputs[0].sizes
    return inputs[-1].sizes != sizes or any(i.sizes != sizes for i in inputs[1:-1])


def _facts_of(inputs):
    """(sizes of all, strides of all, number of dimensions of each)."""
    if len(inputs) == 2:
        a, b = inputs
        return a.sizes + b.sizes, a.strides + b.strides, (a.ndim, b.ndim)
    sizes, strides = chain(*[i.sizes for i in inputs]), chain(*[i.strides for i in inputs])
    return tuple(sizes), tuple(strides), tuple([i.ndim for i in inputs])


def plan_nest(
    key, trace, inputs, scalars, out_dtypes, outs=None, shape=None, device=None, collapsing=True,
    kind=None,
):  # fmt: skip
    """(output layouts, kernel, description).

    key: names the computation; trace(*arguments) gives its values (expressions, one per output);
    inputs: layouts; scalars: kind letters; outs: given output layouts (in-place, out=); kind:
    what is known of this computation for these dtypes, with its kernels by marks.
    """
    device = device or inputs[0].device
    runtime = device.runtime
    if kind is not None and outs is None and shape is None and collapsing and _differ(inputs):
        # fresh results of a broadcast: all in one call of native code
        items, complexes = kind.facts
        facts = nests.spread_out(*_facts_of(inputs), items, len(out_dtypes), complexes)
        sizes, strides, mark, lengths, steps = facts
        outs = _outputs(make_layout(sizes, strides, out_dtypes[0], device), out_dtypes)
        if outs[0].numel == 0 or not runtime.computes:
            return outs, nothing, NO_WORK
    else:
        sizes, spread, strides = _spread(inputs, shape)
        if outs is None and strides is None:
            outs = _outputs(_output(sizes, inputs, spread, out_dtypes[0], device), out_dtypes)
        elif outs is None:
            outs = _outputs(make_layout(sizes, strides, out_dtypes[0], device), out_dtypes)
        if outs[0].numel == 0 or not runtime.computes:
            return outs, nothing, NO_WORK
        strides = (*chain(*[o.strides for o in outs]), *spread)
        walk = nests.walked if collapsing else _as_they_are
        dtypes = [o.dtype for o in (*outs, *inputs)]
        items, complexes = kind.facts if kind is not None else facts_of(dtypes)
        mark, lengths, steps = walk(sizes, strides, items, len(outs), complexes)
    found = kind.kernels.get(mark) if kind is not None else None
    if found is None:
        pattern, rank = pattern_of(mark, (*outs, *inputs))
        outputs, others = pattern[: len(outs)], pattern[len(outs) :]
        found = nest_kernel(runtime, key, trace, outputs, others, scalars, rank)
        if kind is not None:
            kind.kernels[mark] = found
    kernel, chunk = found
    chunks, desc = nests.described(lengths, steps, chunk)
    if chunks > 1:
        pool().ensure_workers()
    return outs, kernel, desc


def _outputs(first, dtypes):
    """Layouts of all results, like the first."""
    if len(dtypes) == 1:
        return (first,)
    sizes, strides, device = first.sizes, first.strides, first.device
    return (first, *[make_layout(sizes, strides, d, device) for d in dtypes[1:]])


def facts_of(dtypes):
    """(bytes of an element of each operand, bits of those with complex ones)."""
    complexes = sum([d.is_complex << k for k, d in enumerate(dtypes)])
    return tuple([d.itemsize for d in dtypes]), complexes


def pattern_of(mark, operands):
    """((code, access) of each operand, number of dimensions outside rows)."""
    accesses, rank = nests.accesses_of(mark, len(operands))
    return tuple([(o.dtype.code, a) for o, a in zip(operands, accesses)]), rank - 1


def _as_they_are(sizes, spread, items, outputs, complexes):
    """`nests.walked` over all dimensions, in their order."""
    if not sizes:
        return nests.walked(sizes, spread, items, outputs, complexes)
    rank, count = len(sizes), len(items)
    steps = tuple([spread[t * rank + k] * items[t] for k in range(rank) for t in range(count)])
    mark, _ = nests.marked(sizes, steps, items, outputs, complexes)
    return mark, sizes, steps


def describe_run(n, chunk, steps):
    """The description of n elements that every operand has side by side."""
    chunks, desc = nests.described((n,), tuple(steps), chunk)
    if chunks > 1:
        pool().ensure_workers()
    return desc


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
