"""Connectionist temporal classification on a GPU: a group of threads per sample, states in turn.

Arguments, descriptions and what a step computes are those of templates/ctc.py; a step is a phase,
after which all threads know the row.
"""

import math
from contextlib import contextmanager

from flambeau.codegen import scalar as m
from flambeau.codegen.descriptions import FRONT, Alignments
from flambeau.codegen.llvm_cpu import module_text
from flambeau.codegen.llvm_gpu import Kernel, add_host_entry
from flambeau.codegen.llvm_names import LLVM_TYPE, MEMORY_TYPE
from flambeau.codegen.loops import I1, I32, I64, Module
from flambeau.codegen.templates import ctc as host
from flambeau.codegen.templates.ctc import BAD_LABEL, _log_sum

THREADS = 256
WORDS = len(Alignments._fields)


class _Alignments(host._Alignments):
    """One sample at a time, by a group."""

    def __init__(self, kinds, code, target):
        self.module, self.code, self.target = Module(), code, target
        self.kernel = kernel = Kernel(self.module, "p" + kinds, THREADS, words=WORDS)
        self.fn, self.type, self.w = kernel.fn, LLVM_TYPE[code], 1
        self.arguments = [kernel.argument(1 + k) for k in range(len(kinds))]
        d = Alignments(*[kernel.word(k) for k in range(WORDS)])
        _, self.samples, self.per_chunk, self.times, self.classes, self.row, *words = d
        self.time_stride, self.sample_stride, self.blank, self.gradient_step = words
        self.low = self.fn.value(-math.inf, self.type)

    def each(self, probabilities, lengths, targets, labels, visit):
        fn, kernel = self.fn, self.kernel
        with fn.loop(kernel.group, self.samples, kernel.groups) as sample:
            facts = [fn.load(fn.gep(lengths, sample * 3 + k, I64), I64) for k in range(3)]
            self.length, count, offset = facts
            self.states = count * 2 + 1
            self.base = fn.gep(probabilities, sample * self.sample_stride, "i8")
            self.labels = fn.gep(labels, sample * self.row + FRONT, I32)
            self._spread(fn.gep(targets, offset, MEMORY_TYPE[self.target]), count)
            visit(sample, count)

    def _spread(self, targets, count):
        fn, e = self.fn, MEMORY_TYPE[self.target]
        blank = fn.convert("trunc", self.blank, I32)
        with self.alone():
            for k in range(FRONT):
                fn.store(fn.value(-1, I32), fn.gep(self.labels, k - FRONT, I32))
            fn.store(blank, self.labels)
        with self.shared(count) as k:
            label = fn.convert("sext", fn.load(fn.gep(targets, k, e), e), I64)
            inside = label.below(self.classes)
            with fn.when(~inside):
                fn.store(fn.value(BAD_LABEL, I64), self.kernel.status, 8)
            label = fn.convert("trunc", fn.select(inside, label, 0), I32)
            fn.store(label, fn.gep(self.labels, k * 2 + 1, I32))
            fn.store(blank, fn.gep(self.labels, k * 2 + 2, I32))

    @contextmanager
    def shared(self, count, low=0, step=1):
        """A phase: numbers low, low + step, ... below count, shared out among threads."""
        with (
            self.kernel.threads() as thread,
            self.fn.loop(thread * step + low, count, THREADS * step) as k,
        ):
            yield k

    @contextmanager
    def alone(self):
        """A phase of one thread."""
        with self.kernel.threads() as thread, self.fn.when(thread == 0):
            yield

    def vectors(self, visit):
        with self.shared(self.states) as state:
            visit(state, self.fn.value(True, I1))

    def own(self, time, state, mask):
        return self.probability(time, state)

    def front(self, base):
        """States before the first are impossible."""
        for k in range(FRONT):
            self.fn.store(self.low, self.fn.gep(base, k - FRONT, self.type))

    def text(self):
        self.kernel.done()
        add_host_entry(self.module, self.kernel, lambda fn, word: word(1))
        return module_text(self.module)


def build_forward(code, target):
    """Losses and all rows of sums: (losses, rows, log probabilities, lengths, targets, labels)."""
    walk = _Alignments("pppppp", code, target)
    fn, type = walk.fn, walk.type
    losses, rows, probabilities, lengths, targets, labels = walk.arguments

    def visit(sample, count):
        start = sample * walk.times * walk.row

        def at(time):
            return fn.gep(rows, start + time * walk.row + FRONT, type)

        with fn.when(walk.length > 0):
            first, zero = at(0), fn.value(0, I64)
            walk.clear(first)
            with walk.alone():
                walk.front(first)
                fn.store(walk.probability(zero, 0), first)
                with fn.when(count > 0):
                    fn.store(walk.probability(zero, 1), fn.gep(first, 1, type))
            with fn.loop(1, walk.length) as time:
                with walk.alone():
                    walk.front(at(time))
                walk.step(at(time - 1), at(time), time, -1)
        with walk.alone():

            def aligned():
                last = fn.gep(at(walk.length - 1), walk.states - 1, type)
                ends = fn.load(last, type), fn.load(fn.gep(last, -1, type), type)
                return -walk.evaluate(_log_sum, *ends)

            def empty():
                return fn.select(count == 0, fn.value(0.0, type), fn.value(math.inf, type))

            loss = fn.if_else(walk.length > 0, aligned, empty)
            fn.store(loss, fn.gep(losses, sample, type))

    walk.each(probabilities, lengths, targets, labels, visit)
    return walk.text()


def build_backward(code, target, zero_infinity):
    """Gradients of log probabilities: (gradient, gradient of the losses, losses, rows, log
    probabilities, lengths, targets, labels, scratch).
    """
    return _Backward("p" * 9, code, target).write(zero_infinity)


class _Backward(_Alignments):
    def write(self, zero_infinity):
        self.zero_infinity = zero_infinity
        self.out, self.outer, self.losses, self.rows, *given, self.scratch = self.arguments
        self.each(*given, self.visit)
        return self.text()

    def visit(self, sample, count):
        fn, type = self.fn, self.type
        self.loss = fn.load(fn.gep(self.losses, sample, type), type)
        self.g = fn.load(fn.gep(self.outer, sample * self.gradient_step, type), type)
        used = fn.var(self.length)
        if self.zero_infinity:
            with fn.when(self.loss == math.inf):
                used.set(fn.value(0, I64))
        self.behind = behind = [
            fn.gep(self.scratch, (sample * 3 + k) * self.row + FRONT, type) for k in range(3)
        ]
        with fn.loop(used.get(), self.times) as time, self.shared(self.classes) as k:
            fn.store(fn.value(0.0, type), fn.gep(self.gradient(sample, time), k, type))
        with fn.when(used.get() > 0):
            last, end = self.length - 1, self.states - 1
            with self.shared(self.row - FRONT) as state:
                for base in behind[:2]:
                    fn.store(self.low, fn.gep(base, state, type))
            with self.alone():
                fn.store(self.probability(last, end), fn.gep(behind[0], end, type))
                with fn.when(count > 0):
                    before = self.probability(last, end - 1)
                    fn.store(before, fn.gep(behind[0], end - 1, type))
            with fn.loop(0, self.length) as k:
                # rows take turns: the new one is written where the one before the last was
                odd = (k & 1) == 1
                old, new = fn.select(odd, *behind[:2]), fn.select(odd, behind[1], behind[0])
                time = last - k
                with fn.when(k > 0):
                    self.step(old, new, time, 1)
                self.posterior(sample, time, new)

    def gradient(self, sample, time):
        return self.fn.gep(self.out, (time * self.samples + sample) * self.classes, self.type)

    def posterior(self, sample, time, sums):
        """Probabilities of states at a time, added up by label in the gradient's place."""
        fn, type, behind = self.fn, self.type, self.behind[2]
        ahead = fn.gep(self.rows, (sample * self.times + time) * self.row + FRONT, type)
        base = self.gradient(sample, time)

        def some(state, mask):
            both = self.load(ahead, state) + self.load(sums, state)
            value = self.evaluate(m.exp, both + self.loss - self.own(time, state, mask))
            self.store(value, behind, state)

        with self.shared(self.classes) as k:
            fn.store(fn.value(0.0, type), fn.gep(base, k, type))
        self.vectors(some)
        with self.shared(self.states, 1, 2) as state:
            self.add_label(base, behind, state)
        with self.alone():
            blank = fn.var(fn.value(0.0, type))
            with fn.loop(0, self.states, 2) as state:
                blank.set(blank.get() + fn.load(fn.gep(behind, state, type), type))
            at = fn.gep(base, self.blank, type)
            fn.store(fn.load(at, type) + blank.get(), at)
        with self.shared(self.classes) as k:
            own = fn.load(fn.gep(self.probabilities(time), k, type), type)
            place = fn.gep(base, k, type)
            fn.store((self.evaluate(m.exp, own) - fn.load(place, type)) * self.g, place)

    def add_label(self, base, behind, state):
        """The first state of a label adds up all that have it."""
        fn, type = self.fn, self.type
        label = fn.load(fn.gep(self.labels, state, I32), I32)
        first, total = fn.var(fn.value(True, I1)), fn.var(fn.value(0.0, type))
        with fn.loop(1, self.states, 2) as other:
            same = fn.load(fn.gep(self.labels, other, I32), I32) == label
            first.set(first.get() & ~(same & (other < state)))
            part = fn.load(fn.gep(behind, other, type), type)
            total.set(total.get() + fn.select(same, part, fn.value(0.0, type)))
        with fn.when(first.get()):
            fn.store(total.get(), fn.gep(base, fn.convert("sext", label, I64), type))
