"""Squares of vectors, mirrored: lane i of row j becomes lane j of row i.

The usual exchange of halves, quarters, ..., two such stages per pass over the square. Passes are
loops over memory that stays in the first-level cache: sixty-four exchanges written out would run a
little faster, but compile for longer than the rest of a kernel.
"""

from flambeau.codegen.loops import I64, PTR, vector


def mirror_function(module, type, width, name="mirror"):
    """mirror(square, out, step): square is overwritten, rows go to out, `step` bytes apart."""
    fn = module.function(name, [(PTR, "square"), (PTR, "out"), (I64, "step")], internal=True)
    square, out, step = fn.params
    halves = [width >> k for k in range(1, width.bit_length())]
    passes = [halves[k : k + 2] for k in range(0, len(halves), 2)]
    if not passes:
        fn.store(fn.load(square, type), out)
    for stages in passes:
        _one_pass(fn, square, type, width, stages, (out, step) if stages is passes[-1] else None)
    fn.ret()
    return name


def _one_pass(fn, square, type, width, stages, target):
    held, last = vector(type, width), stages[-1]
    count = 2 ** len(stages)  # rows that depend on each other, `last` apart
    with fn.loop(0, width, count * last) as block, fn.loop(0, last) as i:
        numbers = [block + i + k * last for k in range(count)]
        rows = [fn.load(fn.gep(square, n * width, type), held) for n in numbers]
        for half in stages:
            apart = half // last
            for k in range(count):
                if not k & apart:
                    rows[k], rows[k + apart] = _exchange(fn, rows[k], rows[k + apart], half, width)
        for n, row in zip(numbers, rows):
            if target is None:
                place = fn.gep(square, n * width, type)
            else:
                place = fn.gep(target[0], n * target[1], "i8")
            fn.store(row, place)


def _exchange(fn, a, b, half, width):
    first = [k if not k & half else width + k - half for k in range(width)]
    second = [k + half if not k & half else width + k for k in range(width)]
    return fn.shuffle(a, b, first), fn.shuffle(a, b, second)


def call_mirror(fn, square, out, step, name="mirror"):
    fn.line(f"call void @{name}({square}, {out}, {fn.value(step, I64)})")
