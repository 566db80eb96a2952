"""Products of floats with weights of 4 or 8 bits: numbers are made of levels in registers.

Weights lie in strips of columns, one column per lane. A lane's word holds eight levels of 4 bits
or four of 8 bits, of as many steps of k. Groups of k have a scale and a shift of their own:
the sum of a group is `scale * (sum of x * level) + shift * (sum of x)`.
"""

from flambeau.codegen.descriptions_quantized import Nibbles
from flambeau.codegen.llvm import masked_store
from flambeau.codegen.loops import I1, I8, I32, I64, PTR, V, vector
from flambeau.codegen.target import current
from flambeau.codegen.templates.sorting import Kernel


def lanes():
    """Columns in a vector."""
    return current().vector_bytes // 4


def build_nibbles(bits, rows, vectors):
    """(out, input, weights, scales, shifts, bias): `rows` rows of input at a time."""
    kernel = Kernel("pppppp")
    fn, arguments = kernel.fn, kernel.arguments
    d = kernel.described(Nibbles)
    begin = kernel.chunk * d.per_chunk
    with fn.loop(begin, fn.min(begin + d.per_chunk, d.strips)) as strip:
        _strip(fn, d, bits, rows, vectors, arguments, strip)
    return kernel.text()


def _strip(fn, d, bits, rows, vectors, arguments, strip):
    out, x, weights, scales, shifts, bias = arguments
    w = lanes()
    number = vector("float", w)
    per_word = 32 // bits
    words = d.group / per_word  # of a group
    column = strip * (vectors * w)
    zero = fn.value(0.0, number)
    at = fn.gep(weights, strip * d.groups * words * (vectors * w), I32)

    def group(held):
        *totals, place, k = held
        sums, place, _ = _group(fn, bits, rows, vectors, x, d, place, k, words)
        number_of_group = k / d.group
        facts = (number_of_group * d.strips + strip) * (vectors * w)
        after = []
        for r in range(rows):
            whole = fn.load(
                fn.gep(x, (d.rows_step * r + d.depth + number_of_group), "float"), "float"
            )
            whole = fn.splat(whole, w)
            for v in range(vectors):
                scale, shift = (
                    fn.load(fn.gep(t, facts + v * w, "float"), number) for t in (scales, shifts)
                )
                total = fn.intrinsic("fma", sums[r * vectors + v], scale, totals[r * vectors + v])
                after.append(fn.intrinsic("fma", whole, shift, total))
        return [*after, place, fn.emit(f"add {k}, {d.group.name}", I64)]

    start = [zero] * (rows * vectors)
    *totals, _, _ = fn.carry(d.groups, [*start, at, fn.value(0, I64)], group)
    for v in range(vectors):
        left = d.columns - column - v * w
        rest = fn.splat(fn.convert("trunc", left, I32), w)
        mask = fn.pure(f"icmp slt {fn.iota(rest.type)}, {rest.name}", vector(I1, w))
        added = fn.load(fn.gep(bias, column + v * w, "float"), number)
        for r in range(rows):
            goal = fn.gep(out, d.columns * r + column + v * w, "float")
            masked_store(fn, totals[r * vectors + v] + added, goal, mask)


def _group(fn, bits, rows, vectors, x, d, place, k, words):
    """Sums of one group, where its weights end, and its end."""
    w = lanes()
    number, lane = vector("float", w), vector(I32, w)
    per_word, size = 32 // bits, 4 * w
    zero = fn.value(0.0, number)

    def step(held):
        *sums, at, here = held
        loaded = [fn.load(fn.gep(at, v * size, I8), lane, 4) for v in range(vectors)]
        for j in range(per_word):
            levels = [_level(fn, word, j, bits) for word in loaded]
            for r in range(rows):
                one = fn.load(fn.gep(x, d.rows_step * r + here + j, "float"), "float")
                one = fn.splat(one, w)
                for v in range(vectors):
                    k_ = r * vectors + v
                    sums[k_] = fn.intrinsic("fma", one, levels[v], sums[k_])
        at = fn.emit(f"getelementptr i8, {at}, i64 {vectors * size}", PTR)
        return [*sums, at, fn.emit(f"add {here}, {per_word}", I64)]

    *sums, place, k = fn.carry(words, [*[zero] * (rows * vectors), place, k], step)
    return sums, place, k


def _level(fn, word, j, bits):
    """The j-th level of each lane as a float, counted from zero."""
    number, mask = vector("float", lanes()), (1 << bits) - 1
    shifted = word >> (bits * j) if j else word
    if bits == 4 and current().vector_bytes == 64:  # the lowest four bits choose from a table
        table = fn.module.constant("float", [float(k) for k in range(16)])
        values = fn.load(V(fn, PTR, table), number, 64)
        return fn.call("llvm.x86.avx512.permvar.sf.512", number, values, shifted)
    level = shifted & mask if bits * (j + 1) < 32 else shifted
    return fn.convert("uitofp", level, number)
