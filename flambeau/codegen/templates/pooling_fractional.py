"""Fractional pooling: the largest element of windows whose places are drawn per plane.

A sample in 0 .. 1 and the sizes give the starts of all windows along a dimension, computed in the
dtype of the input (half types round after every step), as PyTorch does. The rest is a plain walk
over windows; other pooling is in `pooling.py`.
"""

from flambeau.codegen.llvm import from_memory, to_memory
from flambeau.codegen.llvm_names import COMPUTE_TYPE, LLVM_TYPE
from flambeau.codegen.loops import I64
from flambeau.codegen.templates.pooling import Pool, beats, flat, load, lowest, store


class _Starts:
    """Where the windows of one dimension start."""

    def __init__(self, fn, code, sample, size, out, taps):
        self.fn, self.code, self.sample, self.out, self.last = fn, code, sample, out, size - taps
        self.end = fn.min(self.last, size - 1)
        # one window has no distance to the next: any divisor will do
        self.alpha = self.rounded(self.number(self.last) / self.number(fn.max(out - 1, 1)))
        self.base = self.whole(self.rounded(sample * self.alpha))

    def rounded(self, value):
        return from_memory(self.fn, to_memory(self.fn, value, self.code), self.code)

    def number(self, value):
        type = LLVM_TYPE[COMPUTE_TYPE[self.code]]
        return self.rounded(self.fn.convert("sitofp", value, type))

    def whole(self, value):
        return self.fn.pure(f"freeze {self.fn.pure(f'fptosi {value} to i64', I64)}", I64)

    def at(self, o):
        fn = self.fn
        place = self.rounded(self.rounded(self.number(o) + self.sample) * self.alpha)
        start = fn.select(o + 1 == self.out, self.last, self.whole(place) - self.base)
        # whatever samples and taps are, what is chosen lies inside the input
        return fn.max(0, fn.min(start, self.end))


def build_fractional(code, dims):
    """(out, chosen, x, samples) of contiguous planes, dims samples for each."""
    pool = Pool("pppp")
    fn, (out, chosen, x, samples) = pool.fn, pool.arguments
    order = {2: (None, 1, 0), 3: (0, 1, 2)}[dims]  # two dimensions: columns are drawn first
    with pool.each_piece() as plane:
        starts = []
        for k, which in enumerate(order):
            if which is None:
                starts.append(None)
                continue
            sample = load(fn, samples, plane * dims + which, code, 1)
            facts = pool.sizes[k], pool.outs[k], pool.taps[k]
            starts.append(_Starts(fn, code, sample, *facts))
        with fn.loop(0, pool.outs[0]) as od, fn.loop(0, pool.outs[1]) as oh:
            depth = starts[0].at(od) if starts[0] else fn.value(0, I64)
            height = starts[1].at(oh)
            with fn.loop(0, pool.outs[2]) as ow:
                column = starts[2].at(ow)
                best = fn.var(fn.value(lowest(code), LLVM_TYPE[COMPUTE_TYPE[code]]))
                where = fn.var(flat((depth, height, column), pool.sizes))
                taps = [
                    (start, fn.value(0, I64), k)
                    for start, k in zip((depth, height, column), pool.taps)
                ]
                with pool.each_tap(*taps) as place:
                    here = flat(place, pool.sizes)
                    v = load(fn, x, plane * pool.image + here, code, 1)
                    take = beats(v, best.get(), code)
                    best.set(fn.select(take, v, best.get()))
                    where.set(fn.select(take, here, where.get()))
                at = flat((plane, od, oh, ow), (None, *pool.outs))
                store(fn, best.get(), out, at, code)
                store(fn, where.get(), chosen, at, "i64")
    return pool.text()
