"""Launching products of floats with weights of 4 or 8 bits (templates/weight_nibbles.py)."""

from flambeau import _dtype as d
from flambeau._device import cpu
from flambeau._tensor import empty_tensor
from flambeau.codegen.descriptions_quantized import Nibbles
from flambeau.eager.kernels import pool
from flambeau.eager.plans import Plans
from flambeau.eager.rows import address
from flambeau.ops.table import public
from flambeau.runtime.cpu import packed

ROWS = 4  # of an input at a time
WORK = 1 << 17  # products worth a chunk


def _lanes():
    from flambeau.codegen.templates import weight_nibbles  # with llvmlite

    return weight_nibbles.lanes()


class FewBits:
    """A weight [columns, depth] in levels of few bits, by groups of the depth."""

    def __init__(self, levels, scales, shifts, bias, bits):
        columns, depth = levels.shape
        self.columns, self.depth, self.bits = columns, depth, bits
        self.groups = scales.shape[1]
        self.group = depth // self.groups
        width = _lanes()
        self.vectors = 4 if columns >= 4 * width else 1
        strip = self.vectors * width
        self.strips = -(-columns // strip)
        padded = self.strips * strip
        self.weights = self._words(levels, padded, strip)
        self.scales, self.shifts = (self._spread(t, padded, strip) for t in (scales, shifts))
        self.bias = public("zeros")((padded,))
        if bias is not None:
            self.bias[:columns] = bias
        self.plans = Plans(self._plan)

    def _words(self, levels, padded, strip):
        """Levels of consecutive k in the words of lanes."""
        per_word = 32 // self.bits
        more = public("zeros")((padded, self.depth), dtype=d.int64)
        more[: self.columns] = levels.long()
        parts = more.reshape(padded, self.depth // per_word, per_word)
        words = public("zeros")((padded, self.depth // per_word), dtype=d.int64)
        for k in range(per_word):
            words += parts[:, :, k] << (self.bits * k)
        words = public("where")(words >= 1 << 31, words - (1 << 32), words).to(d.int32)
        return words.reshape(self.strips, strip, -1).permute(0, 2, 1).contiguous()

    def _spread(self, t, padded, strip):
        """Facts of groups as [groups, strips, columns of a strip]."""
        more = public("zeros")((padded, self.groups))
        more[: self.columns] = t
        return more.t().reshape(self.groups, self.strips, strip).contiguous()

    def _plan(self, key):
        rows, workers = key
        kernel = cpu.runtime.kernel(
            "weight_nibbles", "weight_nibbles:build_nibbles", self.bits, rows, self.vectors
        )
        per_strip = self.depth * (self.columns // self.strips or 1) * rows
        per_chunk = max(-(-self.strips // (4 * workers)), WORK // per_strip, 1)
        if workers == 1:
            per_chunk = self.strips
        chunks = -(-self.strips // per_chunk)
        if chunks > 1:
            pool().ensure_workers()
        words = Nibbles(
            chunks, self.strips, per_chunk, self.columns, self.depth, self.group, self.groups,
            self.depth + self.groups,
        )  # fmt: skip
        return kernel, packed(words)

    def product(self, x):
        """x @ weight.T + bias, x of shape [..., depth]."""
        rows = x.reshape(-1, self.depth)
        count = rows.shape[0]
        sums = rows.reshape(count, self.groups, self.group).sum(-1)
        held = public("cat")((rows, sums), 1)
        out = empty_tensor((count, self.columns), d.float32, x.device)
        step, place = self.depth + self.groups, 0
        while place < count:
            size = ROWS if count - place >= ROWS else 1
            kernel, words = self.plans[size, pool().get_num_threads()]
            kernel(
                words, address(out) + 4 * place * self.columns, address(held) + 4 * place * step,
                address(self.weights), address(self.scales), address(self.shifts),
                address(self.bias),
            )  # fmt: skip
            place += size
        return out.reshape(*x.shape[:-1], self.columns)
