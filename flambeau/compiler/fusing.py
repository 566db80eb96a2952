"""Fewer launches: pointwise kernels that follow each other become one.

A recording is a list of launches with addresses. For pointwise kernels everything is known: the
expression of each result, and where each operand lies for every element (address, strides,
sizes). So two of them can be joined if they walk over the same elements, and if nothing that
happens between them minds. What the first one wrote and the second one reads is then a value in a
register, rounded as memory would have rounded it; it is stored only if somebody reads it later.
Results have the same bits as before.

Of other kernels only the blocks that they are given are known, and which of these they only read
(accesses.py).
"""

import math
import struct
from typing import Any, NamedTuple

from flambeau.codegen import scalar
from flambeau.codegen.descriptions import ITEM_BYTES
from flambeau.compiler.accesses import only_read
from flambeau.compiler.expressions import (
    HALVES,
    compute_type,
    leaves,
    numbered,
    structure,
    substituted,
)
from flambeau.eager import kernels
from flambeau.eager.plan import chunk_elements, cost
from flambeau.planning import nests
from flambeau.runtime.tapes import Launch

OPERANDS = 14  # of a joined kernel, at most
COST = 300  # instructions per element, about, at most
BARRED = ("check", "coordinate")  # words that know more than their element


class Operand(NamedTuple):
    """Elements in memory: where the first lies, bytes from one to the next in each dimension."""

    address: int
    steps: tuple
    code: str


class Load:
    """An operand of a joined kernel whose value comes from memory."""

    __slots__ = ("operand", "expression")

    def __init__(self, operand, expression):
        self.operand, self.expression = operand, expression


class Numbers:
    """Numbers of a joined kernel. Those that are alike are one argument, so that what is computed
    from them twice is one expression, too, and vectors of them stay in registers.
    """

    def __init__(self):
        self.found: list = []  # (kind, number, expression)
        self._known: dict = {}

    def value(self, kind, number):
        key = kind, struct.pack("d", number) if kind == "f" else number
        value = self._known.get(key)
        if value is None:
            value = self._known[key] = scalar.Expr("argument", (), "f64" if kind == "f" else "i64")
            self.found.append((kind, number, value))
        return value


class Other:
    """A launch of which only the blocks are known, and which of them it may write to."""

    def __init__(self, launch, blocks, written):
        self.launch = launch
        self.reads, self.writes = frozenset(blocks), frozenset(written)

    def ready(self, live, again=None):
        return self


class Group:
    """Pointwise launches that run as one kernel over `sizes`, outermost dimension first."""

    def __init__(self, sizes):
        self.sizes = sizes
        self.members: list = []  # (launch, nest, outputs, inputs, numbers)
        self.reads: set = set()  # blocks
        self.writes: set = set()
        self.operands: dict = {}  # operand -> block, written or not
        self.written: dict = {}  # operand -> block

    def spread(self, sizes):
        """The same group, as a walk over more dimensions."""
        for k, (launch, nest, outs, ins, numbers) in enumerate(self.members):
            outs, ins = ([spread(o, self.sizes, sizes) for o in ops] for ops in (outs, ins))
            self.members[k] = launch, nest, outs, ins, numbers
        self.operands = {spread(o, self.sizes, sizes): b for o, b in self.operands.items()}
        self.written = {spread(o, self.sizes, sizes): b for o, b in self.written.items()}
        self.sizes = sizes

    def add(self, launch, nest, outs, ins, numbers, block_of):
        self.members.append((launch, nest, outs, ins, numbers))
        for o in ins:
            block = block_of(o.address)
            self.operands[o] = block
            if o not in self.written:
                self.reads.add(block)
        for o in outs:
            block = block_of(o.address)
            self.operands[o] = self.written[o] = block
            self.writes.add(block)

    def count_with(self, outs, ins, ended):
        """How many operands are in memory, with a further member? Not what nobody reads later."""
        written = {*self.written, *outs}
        gone = {o for o, block in self.operands.items() if o in written and block in ended}
        return len({*self.operands, *outs, *ins} - gone)

    def minds(self, outs, ins, block_of):
        """Does a further member overlap with what is here other than exactly?"""
        mine = [(o, block_of(o.address), True) for o in outs]
        mine += [(o, block_of(o.address), False) for o in ins]
        for o, block, writes in mine:
            for other, there in self.operands.items():
                if there != block or o == other or not (writes or other in self.written):
                    continue
                if _overlap(o, other, self.sizes):
                    return True
        return False

    def minds_in(self, sizes, outs, ins, block_of):
        """`minds`, if the group walked over these sizes."""
        if sizes == self.sizes:
            return self.minds(outs, ins, block_of)
        copy = Group(self.sizes)
        copy.operands, copy.written = dict(self.operands), dict(self.written)
        copy.spread(sizes)
        return copy.minds(outs, ins, block_of)

    # -- the kernel --------------------------------------------------------------------------------
    def values(self, again=None):
        """(operand -> expression of its last value, loads, numbers).

        again: `Again`, which computes values that were not kept; None loads them all.
        """
        state: dict = {}
        loads: list = []
        numbers = Numbers()
        memo: dict = {}

        def value_of(o):
            value = state.get(o)
            if value is None:
                if again is not None:
                    value = again.value(o, self.sizes, value_of, numbers, memo)
                if value is None:
                    value = scalar.Expr("argument", (), compute_type(o.code))
                    loads.append(Load(o, value))
                state[o] = value
            return value

        for _, nest, outs, ins, given in self.members:
            exchanged = [value_of(o) for o in ins]
            exchanged += [numbers.value(kind, n) for kind, n in zip(nest.scalars, given)]
            found = substituted(nest.values, exchanged)
            for o, value in zip(outs, found):
                state[o] = scalar.narrowed(value, o.code) if o.code in HALVES else value
        return state, loads, numbers.found

    def ready(self, live, again=None):
        """The work of all members. live(block): is what was written there read later?"""
        stored = [o for o, block in self.written.items() if live(block)]
        if not stored:
            return None
        if again is not None and not any(again.has(o, self.sizes) for o in self.operands):
            again = None
        is_whole = again is None and len(self.members) == 1 and len(stored) == len(self.written)
        state, loads, numbers = self.values(again)
        runtime = kernels.runtime_of(self.members[0][0].definition)
        found = Work(runtime, self.sizes, [(o, state[o]) for o in stored], loads, numbers)
        found.original = self.members[0][0] if is_whole else None
        return found


class Work:
    """What one pointwise kernel does: expressions of what it stores, their loads and numbers."""

    def __init__(self, runtime, sizes, stored, loads, numbers):
        needed = leaves([value for _, value in stored])
        self.runtime, self.sizes, self.stored = runtime, sizes, stored
        self.loads = [load for load in loads if id(load.expression) in needed]
        self.numbers = [n for n in numbers if id(n[2]) in needed]
        self.original: Any = None  # a launch that does just this

    def launch(self):
        if self.original is not None:
            return self.original
        return launch_of(self.runtime, self.sizes, self.stored, self.loads, self.numbers)

    def part(self, stored):
        """The same, of which less is stored."""
        return Work(self.runtime, self.sizes, stored, self.loads, self.numbers)

    def reads_and_writes(self, block_of):
        return (
            {block_of(load.operand.address) for load in self.loads},
            {block_of(o.address) for o, _ in self.stored},
        )


def launch_of(runtime, sizes, stored, loads, numbers):
    """The launch of a kernel that stores values of expressions."""
    places = {id(load.expression): k for k, load in enumerate(loads)}
    places |= {id(n[2]): len(loads) + k for k, n in enumerate(numbers)}
    memo: dict = {}
    values = tuple(numbered(value, places, memo) for _, value in stored)
    operands = [*(o for o, _ in stored), *(load.operand for load in loads)]
    accesses = [_access(o) for o in operands]
    count = len(stored)
    pattern = tuple((o.code, a) for o, a in zip(operands, accesses))
    kinds = "".join(kind for kind, _, _ in numbers)
    kernel = _kernel(runtime, pattern[count:], pattern[:count], kinds, values, len(sizes) - 1)
    steps = tuple(o.steps[d] for d in range(len(sizes)) for o in operands)
    chunks, description = nests.described(tuple(sizes), steps, chunk_elements(cost(values)))
    if chunks > 1 and runtime.is_host:
        kernels.pool().ensure_workers()
    arguments = [description, *(o.address for o in operands), *(n for _, n, _ in numbers)]
    total = math.prod(sizes)
    return Launch(kernel.__self__, [*arguments, total], True)


def _kernel(runtime, inputs, outputs, kinds, values, rank):
    from flambeau.codegen import build

    key = ("fused", inputs, outputs, kinds, rank, structure(values))
    found = runtime.kernels.get(key)
    if found is None:
        nest = build.Pointwise(inputs, outputs, kinds, values, rank)
        found = runtime.kernels[key] = runtime.load("fused", build.text_and_nest, (nest,))
    return found


# -- operands --------------------------------------------------------------------------------------


def _access(operand):
    inner, size = operand.steps[-1], ITEM_BYTES[operand.code]
    if inner == size:
        return "c"
    if inner == 0 and not any(operand.steps):
        return "s"
    return {0: "s", -size: "r"}.get(inner, "n")


def dense_steps(sizes, itemsize):
    steps, step = [], itemsize
    for size in reversed(sizes):
        steps.append(step)
        step *= size
    return tuple(reversed(steps))


def is_flat(operand, sizes):
    return not any(operand.steps) or operand.steps == dense_steps(sizes, ITEM_BYTES[operand.code])


def spread(operand, sizes, wider):
    """A flat operand (dense, or one value) over other sizes with the same product."""
    if sizes == wider:
        return operand
    if not any(operand.steps):
        return operand._replace(steps=(0,) * len(wider))
    return operand._replace(steps=dense_steps(wider, ITEM_BYTES[operand.code]))


def _overlap(a, b, sizes):
    low_a, high_a = extent(a, sizes)
    low_b, high_b = extent(b, sizes)
    return low_a < high_b and low_b < high_a


def extent(operand, sizes):
    reach = [(n - 1) * s for n, s in zip(sizes, operand.steps)]
    low = operand.address + sum(r for r in reach if r < 0)
    return low, operand.address + sum(r for r in reach if r > 0) + ITEM_BYTES[operand.code]


# -- launches --------------------------------------------------------------------------------------


def parsed(launch):
    """(sizes, nest, outputs, inputs, numbers) of a pointwise launch; None for others."""
    nest = kernels.nests.get(launch.definition)
    if nest is None or type(launch.arguments[0]) is not bytes:
        return None
    pattern = (*nest.outputs, *nest.inputs)
    if any(code[0] == "c" or access == "t" for code, access in pattern):
        return None
    if _words_of(nest) & set(BARRED):
        return None
    given = launch.arguments
    walk = nests.walk_of(nest, given[0], given[-1])
    if walk is None:
        return None
    addresses = given[1 : 1 + len(pattern)]
    numbers = given[1 + len(pattern) : 1 + len(pattern) + len(nest.scalars)]
    sizes, steps = walk
    operands = []
    for address, st, (code, access) in zip(addresses, steps, pattern):
        if access == "s":
            st = (*st[:-1], 0)
        operands.append(Operand(address, st, code))
    total = math.prod(sizes)
    if total == 0:
        return None
    if len(sizes) > 1 and all(is_flat(o, sizes) for o in operands):
        operands = [spread(o, sizes, (total,)) for o in operands]
        sizes = (total,)
    count = len(nest.outputs)
    return sizes, nest, operands[:count], operands[count:], numbers


_words: dict = {}


def _words_of(nest):
    """The words in a nest's expressions."""
    found = _words.get(id(nest))
    if found is None:
        seen, stack, ops = set(), list(nest.values), set()
        while stack:
            e = stack.pop()
            if id(e) not in seen:
                seen.add(id(e))
                ops.add(e.op)
                stack.extend(e.args)
        found = _words[id(nest)] = ops, nest  # which stays, so its identity does
    return found[0]


def grouped(launches, block_of, blocks_of):
    """Launches as groups and others, in an order that does the same."""
    order: list = []
    uses = [blocks_of(launch) for launch in launches]
    last = {block: k for k, blocks in enumerate(uses) for block in blocks}
    ended: set = set()  # temporary blocks that nobody is given any more
    for k, launch in enumerate(launches):
        ended |= {block for block in uses[k] if last[block] == k and block[0] == "arena"}
        found = parsed(launch)
        if found is None:
            order.append(Other(launch, uses[k], blocks_of(launch, only_read(launch))))
            continue
        group = _joined(order, *found, launch, block_of, ended)
        if group is None:
            sizes, nest, outs, ins, numbers = found
            group = Group(sizes)
            group.add(launch, nest, outs, ins, numbers, block_of)
            order.append(group)
    return order


BACK = 8  # groups that are asked whether they take a further member


def _joined(order, sizes, nest, outs, ins, numbers, launch, block_of, ends):
    """The group that took a launch in; None if there is none."""
    reads = {block_of(o.address) for o in ins}
    writes = {block_of(o.address) for o in outs}
    may_rise = True  # may this launch run before all that was passed so far?
    passed: list = []
    tried = 0
    for at in range(len(order) - 1, -1, -1):
        group = order[at]
        if type(group) is Group and tried < BACK:
            tried += 1
            near = (reads | writes) & (group.reads | group.writes)
            if near and (may_rise or _may_sink(group, passed)):
                taken = _taken(group, sizes, nest, outs, ins, numbers, launch, block_of, ends)
                if taken:
                    if not may_rise:
                        order.append(order.pop(at))
                    return group
        may_rise = may_rise and not (reads & group.writes or writes & (group.reads | group.writes))
        passed.append(group)
        if tried >= BACK:
            break
    return None


def _may_sink(group, passed):
    """May a group run after all of these?"""
    return not any(group.writes & (p.reads | p.writes) or group.reads & p.writes for p in passed)


def _taken(group, sizes, nest, outs, ins, numbers, launch, block_of, ends):
    """Let a group take a launch in, if they walk alike."""
    wide = group.sizes
    if sizes != wide:
        if math.prod(sizes) != math.prod(wide):
            return False
        if len(sizes) == 1 and all(is_flat(o, sizes) for o in (*outs, *ins)):
            outs, ins = ([spread(o, sizes, wide) for o in ops] for ops in (outs, ins))
        elif len(wide) == 1 and all(is_flat(o, wide) for o in group.operands):
            wide = sizes
        else:
            return False
    if group.count_with(outs, ins, ends) > OPERANDS or group.minds_in(wide, outs, ins, block_of):
        return False
    total = sum(cost(n.values) for _, n, *_ in group.members) + cost(nest.values)
    if total > COST:
        return False
    if wide != group.sizes:
        group.spread(wide)
    group.add(launch, nest, outs, ins, numbers, block_of)
    return True
