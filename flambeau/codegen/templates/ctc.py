"""Connectionist temporal classification: forward and backward sums over alignments.

A target is spread out with blanks around its labels; state s of an alignment stays, moves on by
one, or skips a blank between different labels. One step in time takes a row of log sums to the
next, all states of a vector at once: the three predecessors are three loads at neighbouring places,
so rows have room in front (and behind) for states that do not exist, which hold -inf. Samples are
independent; a chunk is a few of them. Launcher: `eager/ctc.py`.
"""

import math

from flambeau.codegen import descriptions
from flambeau.codegen import scalar as m
from flambeau.codegen.descriptions import FRONT
from flambeau.codegen.llvm import Emitter, gather
from flambeau.codegen.llvm_names import COMPUTE_TYPE, LLVM_TYPE, MEMORY_TYPE
from flambeau.codegen.loops import I1, I32, I64, PTR, bytes_of, vector
from flambeau.codegen.target import current
from flambeau.codegen.templates.sorting import Kernel

BAD_LABEL = 1  # what a kernel reports


def lanes(code):
    return current().vector_bytes // bytes_of(LLVM_TYPE[code])


class _Alignments:
    """One sample at a time: its lengths, its labels, rows of log probabilities and of states."""

    def __init__(self, kinds, code, target):
        self.kernel = Kernel(kinds)
        self.fn, self.code, self.target = self.kernel.fn, code, target
        self.type, self.w = LLVM_TYPE[code], lanes(code)
        _, self.samples, self.per_chunk, *words = self.kernel.described(descriptions.Alignments)
        self.times, self.classes, self.row, *words = words
        self.time_stride, self.sample_stride, self.blank, self.gradient_step = words
        self.low = self.fn.value(-math.inf, vector(self.type, self.w))

    def each(self, probabilities, lengths, targets, labels, visit):
        fn, kernel = self.fn, self.kernel
        first = kernel.chunk * self.per_chunk
        with fn.loop(first, fn.min(first + self.per_chunk, self.samples)) as sample:
            facts = [fn.load(fn.gep(lengths, sample * 3 + k, I64), I64) for k in range(3)]
            self.length, count, offset = facts
            self.states = count * 2 + 1
            self.base = fn.gep(probabilities, sample * self.sample_stride, "i8")
            self.labels = fn.gep(labels, sample * self.row + FRONT, I32)
            self._spread(fn.gep(targets, offset, MEMORY_TYPE[self.target]), count)
            visit(sample, count)

    def _spread(self, targets, count):
        """Labels of all states: blanks at even places, the target at odd ones."""
        fn = self.fn
        blank = fn.convert("trunc", self.blank, I32)
        for k in range(FRONT):
            fn.store(fn.value(-1, I32), fn.gep(self.labels, k - FRONT, I32))
        fn.store(blank, self.labels)
        with fn.loop(0, count) as k:
            e = MEMORY_TYPE[self.target]
            label = fn.convert("sext", fn.load(fn.gep(targets, k, e), e), I64)
            inside = label.below(self.classes)
            self.kernel.fail(~inside, BAD_LABEL)
            label = fn.convert("trunc", fn.select(inside, label, 0), I32)
            fn.store(label, fn.gep(self.labels, k * 2 + 1, I32))
            fn.store(blank, fn.gep(self.labels, k * 2 + 2, I32))

    def probabilities(self, time):
        return self.fn.gep(self.base, time * self.time_stride, "i8")

    def probability(self, time, state):
        """Log probability of the label of one state."""
        fn = self.fn
        label = fn.convert("sext", fn.load(fn.gep(self.labels, state, I32), I32), I64)
        return fn.load(fn.gep(self.probabilities(time), label, self.type), self.type)

    def vectors(self, visit):
        """visit(state, which lanes are states) over all states, a vector at a time."""
        fn, w = self.fn, self.w
        with fn.loop(0, self.states, w) as state:
            left = fn.splat(self.states - state, w)
            lanes = fn.iota(vector(I64, w))
            visit(state, fn.pure(f"icmp slt {lanes}, {left.name}", vector(I1, w)))

    def load(self, base, state):
        return self.fn.load(self.fn.gep(base, state, self.type), vector(self.type, self.w))

    def store(self, value, base, state):
        self.fn.store(value, self.fn.gep(base, state, self.type))

    def own(self, time, state, mask):
        """Log probabilities of the labels of a vector of states."""
        fn = self.fn
        labels = fn.load(fn.gep(self.labels, state, I32), vector(I32, self.w))
        base = self.probabilities(time)
        pointers = fn.pure(f"getelementptr {self.type}, {base}, {labels}", vector(PTR, self.w))
        return gather(fn, pointers, self.type, mask)

    def clear(self, base):
        """Every state of a row becomes impossible."""
        self.vectors(lambda state, mask: self.store(self.low, base, state))

    def step(self, previous, out, time, direction):
        """A row of log sums from the one before it (direction -1) or after it (1)."""
        fn, w = self.fn, self.w

        def some(state, mask):
            stay, move, skip = (self.load(previous, state + k * direction) for k in range(3))
            label, other = (
                fn.load(fn.gep(self.labels, state + k * direction, I32), vector(I32, w))
                for k in (0, 2)
            )
            skip = fn.select(label != other, skip, self.low)
            total = self.evaluate(_log_sum, stay, move, skip) + self.own(time, state, mask)
            self.store(fn.select(mask, total, self.low), out, state)

        self.vectors(some)

    def evaluate(self, function, *values):
        """A function of the scalar language, on vectors or single values."""
        width = self.w if values[0].type[0] == "<" else 1
        arguments = [m.argument(k, COMPUTE_TYPE[self.code]) for k in range(len(values))]
        return Emitter(self.fn, width, values).emit(function(*arguments))


def _log_sum(*logs):
    top = logs[0]
    for x in logs[1:]:
        top = m.maximum(top, x)
    top = m.where(top == -math.inf, 0.0, top)  # nothing is possible: the logarithm of 0 below
    total = m.exp(logs[0] - top)
    for x in logs[1:]:
        total = total + m.exp(x - top)
    return m.log(total) + top


def build_forward(code, target):
    """Losses and all rows of sums: (losses, rows, log probabilities, lengths, targets, labels).

    rows: [sample][time][row length]; lengths: input length, target length and offset into targets,
    per sample; labels: room for a row of 32-bit integers per sample.
    """
    walk = _Alignments("pppppp", code, target)
    fn, type = walk.fn, walk.type
    losses, rows, probabilities, lengths, targets, labels = walk.kernel.arguments
    nothing = fn.value(-math.inf, type)

    def visit(sample, count):
        start = sample * walk.times * walk.row

        def at(time):
            return fn.gep(rows, start + time * walk.row + FRONT, type)

        def front(base):
            for k in range(FRONT):
                fn.store(nothing, fn.gep(base, k - FRONT, type))

        def aligned():
            first = at(0)
            front(first)
            walk.clear(first)
            zero = fn.value(0, I64)
            fn.store(walk.probability(zero, 0), first)
            with fn.when(count > 0):
                fn.store(walk.probability(zero, 1), fn.gep(first, 1, type))
            with fn.loop(1, walk.length) as time:
                front(at(time))
                walk.step(at(time - 1), at(time), time, -1)
            last = fn.gep(at(walk.length - 1), walk.states - 1, type)
            # with no labels there is one state only, and -inf in front of it
            ends = fn.load(last, type), fn.load(fn.gep(last, -1, type), type)
            return -walk.evaluate(_log_sum, *ends)

        def empty():
            return fn.select(count == 0, fn.value(0.0, type), fn.value(math.inf, type))

        loss = fn.if_else(walk.length > 0, aligned, empty)
        fn.store(loss, fn.gep(losses, sample, type))

    walk.each(probabilities, lengths, targets, labels, visit)
    return walk.kernel.text()


def build_backward(code, target, zero_infinity):
    """Gradients of log probabilities: (gradient, gradient of the losses, losses, rows, log
    probabilities, lengths, targets, labels, scratch).

    The gradient is [time][sample][class]; scratch has room for three rows per sample: two of sums
    from behind, one of probabilities of states.
    """
    walk = _Alignments("ppppppppp", code, target)
    fn, type, w = walk.fn, walk.type, walk.w
    out, outer, losses, rows, probabilities, lengths, targets, labels, scratch = (
        walk.kernel.arguments
    )

    def visit(sample, count):
        loss = fn.load(fn.gep(losses, sample, type), type)
        g = fn.load(fn.gep(outer, sample * walk.gradient_step, type), type)
        used = fn.var(walk.length)
        if zero_infinity:
            with fn.when(loss == math.inf):
                used.set(fn.value(0, I64))
        behind = [fn.gep(scratch, (sample * 3 + k) * walk.row + FRONT, type) for k in range(3)]
        start = sample * walk.times * walk.row

        def gradient(time):
            return fn.gep(out, (time * walk.samples + sample) * walk.classes, type)

        def zeros(base):
            with fn.loop(0, walk.classes) as k:
                fn.store(fn.value(0.0, type), fn.gep(base, k, type))

        def posterior(time, sums):
            """Probabilities of states at a time, added up by label in the gradient's place."""
            ahead = fn.gep(rows, start + time * walk.row + FRONT, type)
            spread = fn.splat(loss, w)

            def some(state, mask):
                both = walk.load(ahead, state) + walk.load(sums, state)
                value = both + spread - walk.own(time, state, mask)
                value = walk.evaluate(m.exp, value)
                walk.store(fn.select(mask, value, 0.0), behind[2], state)

            walk.vectors(some)
            base = gradient(time)
            zeros(base)
            blank = fn.var(fn.load(behind[2], type))
            with fn.loop(1, walk.states, 2) as state:
                label = fn.load(fn.gep(walk.labels, state, I32), I32)
                at = fn.gep(base, fn.convert("sext", label, I64), type)
                fn.store(fn.load(at, type) + fn.load(fn.gep(behind[2], state, type), type), at)
                blank.set(blank.get() + fn.load(fn.gep(behind[2], state + 1, type), type))
            at = fn.gep(base, walk.blank, type)
            fn.store(fn.load(at, type) + blank.get(), at)

            with fn.loop(0, (walk.classes / w) * w, w) as k:
                own = fn.load(fn.gep(walk.probabilities(time), k, type), vector(type, w))
                place = fn.gep(base, k, type)
                share = walk.evaluate(m.exp, own) - fn.load(place, vector(type, w))
                fn.store(share * fn.splat(g, w), place)
            with fn.loop((walk.classes / w) * w, walk.classes) as k:
                own = fn.load(fn.gep(walk.probabilities(time), k, type), type)
                place = fn.gep(base, k, type)
                fn.store((walk.evaluate(m.exp, own) - fn.load(place, type)) * g, place)

        with fn.loop(used.get(), walk.times) as time:
            zeros(gradient(time))
        with fn.when(used.get() > 0):
            last = walk.length - 1
            for base in behind[:2]:
                # one vector more than there are states: what is read beyond the last one
                with fn.loop(0, walk.row - FRONT, w) as state:
                    walk.store(walk.low, base, state)
            end = walk.states - 1
            fn.store(walk.probability(last, end), fn.gep(behind[0], end, type))
            with fn.when(count > 0):
                before = walk.probability(last, end - 1)
                fn.store(before, fn.gep(behind[0], end - 1, type))
            with fn.loop(0, walk.length) as k:
                # rows take turns: the new one is written where the one before the last was
                odd = (k & 1) == 1
                old, new = fn.select(odd, *behind[:2]), fn.select(odd, behind[1], behind[0])
                time = last - k
                with fn.when(k > 0):
                    walk.step(old, new, time, 1)
                posterior(time, new)

    walk.each(probabilities, lengths, targets, labels, visit)
    return walk.kernel.text()
