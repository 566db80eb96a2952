"""Update rules over many tensors on a GPU: a group of threads per piece of a tensor.

Words and rules are those of templates/updates.py.
"""

from flambeau.codegen.gpu.pointwise import LINE
from flambeau.codegen.llvm_cpu import module_text
from flambeau.codegen.llvm_gpu import Kernel, add_host_entry, as_global
from flambeau.codegen.llvm_names import MEMORY_TYPE
from flambeau.codegen.loops import I64, PTR, bytes_of
from flambeau.codegen.templates import updates as host

THREADS = 256
HEADER = host.HEADER


class _Rule(host._Rule):
    """An update: values in, values out, in place."""

    def text(self):
        self.module.functions.clear()
        kernel = Kernel(self.module, "p" + self.kinds, THREADS)
        self.fn, self.description = kernel.fn, kernel.description
        self.numbers = [kernel.argument(1 + k) for k in range(len(self.kinds))]
        fn = self.fn
        self.width = 1
        chunks, piece, columns, tensors = (self.word(k) for k in range(HEADER))
        pieces = chunks + (HEADER + 1)  # where the list of pieces starts
        self.start()
        wide = max(1, LINE // max(bytes_of(MEMORY_TYPE[c]) for c in self.codes))
        with fn.loop(kernel.group, self.word(chunks + HEADER), kernel.groups) as p:
            tensor, begin = self.word(pieces + p * 2), self.word(pieces + p * 2 + 1)
            cell = columns + tensor
            end = fn.min(begin + piece, self.word(cell))
            bases = []
            for k in range(len(self.codes)):
                place = fn.gep(self.description, cell + tensors * (k + 1), I64)
                bases.append(as_global(fn, fn.load(place, PTR, 8)))
            with kernel.threads(last=True) as thread:
                self._walk(bases, begin, end, thread, wide)
        kernel.done()
        # the list of the chunks' first pieces ends with the number of all
        add_host_entry(self.module, kernel, lambda fn, word: word(word(0) + HEADER))
        return module_text(self.module)

    def _walk(self, bases, begin, end, thread, wide):
        """Vectors where all lie at multiples of their size, else element by element."""
        fn, bits = self.fn, None
        if wide == 1:
            with fn.loop(begin + thread, end, THREADS) as i:
                self.step(bases, i, None)
            return
        for base, code in zip(bases, self.codes):
            size = bytes_of(MEMORY_TYPE[code])
            place = fn.pure(f"ptrtoint {base} to i64", I64) & (size * wide - 1)
            bits = place if bits is None else bits | place

        def vectors():
            spread, self.width, fn.vector_align = self.spread, wide, LINE
            self.spread = [fn.splat(v, wide) for v in spread]
            whole = begin + ((end - begin) / wide) * wide
            with fn.loop(begin + thread * wide, whole, THREADS * wide) as i:
                self.step(bases, i, None)
            self.spread, self.width, fn.vector_align = spread, 1, None
            with fn.loop(whole + thread, end, THREADS) as i:
                self.step(bases, i, None)

        def singly():
            with fn.loop(begin + thread, end, THREADS) as i:
                self.step(bases, i, None)

        fn.if_else(bits == 0, vectors, singly)


def build_update(rule, codes, flags):
    """Both texts of a rule for memory dtypes of its tensors and values of its flags."""
    return host.build_update(rule, codes, flags, _Rule)
