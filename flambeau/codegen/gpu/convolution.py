"""Convolutions on a GPU where no library does them: any dtype, any strides, one thread per result.

Three directions of one sum: results y from pictures x and weights w, pictures from results, weights
from both. Threads whose results lie side by side read what lies side by side.
"""

from flambeau.codegen.descriptions import DeviceConvolution
from flambeau.codegen.gpu.pointwise import divided
from flambeau.codegen.llvm_cpu import module_text
from flambeau.codegen.llvm_gpu import Kernel, add_host_entry
from flambeau.codegen.llvm_names import LLVM_TYPE
from flambeau.codegen.loops import Module, V
from flambeau.codegen.templates.tiles import load_parts, multiply_add, store_parts, summed

THREADS = 128
HEADER = len(DeviceConvolution._fields)
GROUPS_OF_WORDS = ("x", "y", "k", "stride", "padding", "dilation")  # three each
STRIDED = ("x", "y", "w")  # five each: two of channels, then three of places


def build(code, mode, biased):
    """Both texts; mode: "forward", "backward" or "weight"."""
    return _Convolution(code, mode, biased).text()


class _Convolution:
    def __init__(self, code, mode, biased):
        self.code, self.mode, self.biased = code, mode, biased
        self.parts = 2 if code[0] == "c" else 1
        self.type = LLVM_TYPE[summed(code)]
        self.module = Module()
        words = HEADER + 3 * len(GROUPS_OF_WORDS) + 5 * len(STRIDED)
        self.kernel = Kernel(self.module, "pppp" + "p" * biased, THREADS, words=words)
        self.fn = self.kernel.fn

    def text(self):
        fn, kernel = self.fn, self.kernel
        self.d = DeviceConvolution(*[kernel.word(k) for k in range(HEADER)])
        at = HEADER
        self.of = {}
        for name in GROUPS_OF_WORDS:
            self.of[name] = [kernel.word(at + k) for k in range(3)]
            at += 3
        self.by = {}
        for name in STRIDED:
            self.by[name] = [kernel.word(at + k) for k in range(5)]
            at += 5
        # the result comes first
        order = {"forward": "yxw", "backward": "xyw", "weight": "wxy"}[self.mode]
        self.base = {name: kernel.argument(1 + k) for k, name in enumerate(order)}
        step = kernel.groups * THREADS
        with (
            kernel.threads(last=True) as thread,
            fn.loop(kernel.group * THREADS + thread, self.d.results, step) as index,
        ):
            getattr(self, self.mode)(index)
        kernel.done()
        add_host_entry(self.module, kernel, lambda fn, word: (word(1) + (THREADS - 1)) / THREADS)
        return module_text(self.module)

    # -- pieces ------------------------------------------------------------------------------------
    def split(self, index, sizes):
        """Coordinates of a result, the last one fastest."""
        found = []
        for size in reversed(sizes):
            quotient = divided(self.fn, index, size)
            found.append(index - quotient * size)
            index = quotient
        return [index, *reversed(found)]

    def place(self, name, *coordinates):
        fn, offset = self.fn, None
        for c, stride in zip(coordinates, self.by[name]):
            term = c * stride
            offset = term if offset is None else offset + term
        return fn.gep(self.base[name], offset, "i8")

    def read(self, name, *coordinates):
        return load_parts(self.fn, self.place(name, *coordinates), self.code, 1, "c")

    def zeros(self):
        fn = self.fn
        return [fn.var(V(fn, self.type, "zeroinitializer")) for _ in range(self.parts)]

    def add(self, sums, a, b):
        new = multiply_add(self.fn, [s.get() for s in sums], a, b)
        for cell, value in zip(sums, new):
            cell.set(value)

    def taps(self, inner):
        """inner(t) for all taps t of three dimensions."""
        fn, k = self.fn, self.of["k"]
        with fn.loop(0, k[0]) as t0, fn.loop(0, k[1]) as t1, fn.loop(0, k[2]) as t2:
            inner([t0, t1, t2])

    def source(self, p, t):
        """(the place in x that a result at p meets with tap t, is it inside?)"""
        found, inside = [], None
        for d in range(3):
            at = p[d] * self.of["stride"][d] - self.of["padding"][d] + t[d] * self.of["dilation"][d]
            ok = at.below(self.of["x"][d])
            inside = ok if inside is None else inside & ok
            found.append(at)
        return found, inside

    # -- directions --------------------------------------------------------------------------------
    def forward(self, index):
        fn, d = self.fn, self.d
        n, o, *p = self.split(index, [d.outs, *self.of["y"]])
        first = (o / d.outs_per_group) * d.ins_per_group
        sums = self.zeros()

        def tap(t):
            q, inside = self.source(p, t)
            with fn.when(inside), fn.loop(0, d.ins_per_group) as c:
                self.add(sums, self.read("x", n, first + c, *q), self.read("w", o, c, *t))

        self.taps(tap)
        values = [s.get() for s in sums]
        if self.biased:
            at = fn.gep(self.kernel.argument(4), o * d.bias_step, "i8")
            more = load_parts(fn, at, self.code, 1, "c")
            values = [a + b for a, b in zip(values, more)]
        store_parts(fn, values, self.place("y", n, o, *p), self.code, 1)

    def backward(self, index):
        fn, d = self.fn, self.d
        n, c, *q = self.split(index, [d.ins, *self.of["x"]])
        group, inner = c / d.ins_per_group, c % d.ins_per_group
        first = group * d.outs_per_group
        sums = self.zeros()

        def tap(t):
            p, inside = [], None
            for k in range(3):
                at = q[k] + self.of["padding"][k] - t[k] * self.of["dilation"][k]
                stride = self.of["stride"][k]
                ok = (at >= 0) & (at % stride == 0) & ((at / stride) < self.of["y"][k])
                inside = ok if inside is None else inside & ok
                p.append(at / stride)
            with fn.when(inside), fn.loop(0, d.outs_per_group) as o:
                self.add(
                    sums, self.read("y", n, first + o, *p), self.read("w", first + o, inner, *t)
                )

        self.taps(tap)
        values = [s.get() for s in sums]
        if self.biased:
            at = fn.gep(self.kernel.argument(4), c * d.bias_step, "i8")
            more = load_parts(fn, at, self.code, 1, "c")
            values = [a + b for a, b in zip(values, more)]
        store_parts(fn, values, self.place("x", n, c, *q), self.code, 1)

    def weight(self, index):
        fn, d = self.fn, self.d
        o, c, *t = self.split(index, [d.ins_per_group, *self.of["k"]])
        channel = (o / d.outs_per_group) * d.ins_per_group + c
        sums, y = self.zeros(), self.of["y"]
        with (
            fn.loop(0, d.images) as n,
            fn.loop(0, y[0]) as p0,
            fn.loop(0, y[1]) as p1,
            fn.loop(0, y[2]) as p2,
        ):
            q, inside = self.source([p0, p1, p2], t)
            with fn.when(inside):
                self.add(sums, self.read("x", n, channel, *q), self.read("y", n, o, p0, p1, p2))
        store_parts(fn, [s.get() for s in sums], self.place("w", o, c, *t), self.code, 1)
