"""Fewer launches: pointwise kernels that follow each other become one.

A recording is a list of launches with addresses. For pointwise kernels everything is known: the
expression of each result, and where each operand lies for every element (address, strides,
sizes). So two of them can be joined if they walk over the same elements, and if nothing that
happens between them minds. What the first one wrote and the second one reads is then a value in a
register, rounded as memory would have rounded it; it is stored only if somebody reads it later.
Results have the same bits as before.

Nothing else is known of other kernels than which blocks they are given: they may read and write all
of these.
"""

import math
import struct
from typing import Any, NamedTuple

from flambeau.codegen import scalar
from flambeau.codegen.descriptions import Walk
from flambeau.eager import kernels, nests
from flambeau.eager.plan import chunk_elements, cost
from flambeau.runtime.tapes import Launch

OPERANDS = 14  # of a joined kernel, at most
COST = 300  # instructions per element, about, at most
HALVES = ("f16", "bf16")
BARRED = ("check", "coordinate")  # words that know more than their element
ITEMSIZE = {
    "bool": 1, "u8": 1, "i8": 1, "u16": 2, "i16": 2, "f16": 2, "bf16": 2, "u32": 4, "i32": 4,
    "f32": 4, "u64": 8, "i64": 8, "f64": 8,
}  # fmt: skip


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


class Other:
    """A launch of which only the blocks are known."""

    def __init__(self, launch, blocks):
        self.launch = launch
        self.reads = self.writes = frozenset(blocks)

    def launches(self, live, again=None):
        return self.launch


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
            outs, ins = ([_spread(o, self.sizes, sizes) for o in ops] for ops in (outs, ins))
            self.members[k] = launch, nest, outs, ins, numbers
        self.operands = {_spread(o, self.sizes, sizes): b for o, b in self.operands.items()}
        self.written = {_spread(o, self.sizes, sizes): b for o, b in self.written.items()}
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
        numbers: list = []

        def value_of(o):
            value = state.get(o)
            if value is None:
                value = None if again is None else again.value(o, self.sizes, value_of, numbers)
                if value is None:
                    value = scalar.Expr("argument", (), _compute(o.code))
                    loads.append(Load(o, value))
                state[o] = value
            return value

        for _, nest, outs, ins, given in self.members:
            exchanged = [value_of(o) for o in ins]
            for kind, number in zip(nest.scalars, given):
                value = scalar.Expr("argument", (), "f64" if kind == "f" else "i64")
                numbers.append((kind, number, value))
                exchanged.append(value)
            found = substituted(nest.values, exchanged)
            for o, value in zip(outs, found):
                state[o] = scalar.narrowed(value, o.code) if o.code in HALVES else value
        return state, loads, numbers

    def launches(self, live, again=None):
        """One launch for all members. live(block): is what was written there read later?"""
        stored = [o for o, block in self.written.items() if live(block)]
        if not stored:
            return None
        if again is not None and not any(again.has(o, self.sizes) for o in self.operands):
            again = None
        if again is None and len(self.members) == 1 and len(stored) == len(self.written):
            return self.members[0][0]
        state, loads, numbers = self.values(again)
        return launch_of(self.sizes, [(o, state[o]) for o in stored], loads, numbers)


def launch_of(sizes, stored, loads, numbers):
    """The launch of a kernel that stores values of expressions."""
    needed = _leaves([value for _, value in stored])
    loads = [load for load in loads if id(load.expression) in needed]
    numbers = [n for n in numbers if id(n[2]) in needed]
    places = {id(load.expression): k for k, load in enumerate(loads)}
    places |= {id(n[2]): len(loads) + k for k, n in enumerate(numbers)}
    memo: dict = {}
    values = tuple(_numbered(value, places, memo) for _, value in stored)
    operands = [*(o for o, _ in stored), *(load.operand for load in loads)]
    accesses = [_access(o) for o in operands]
    count = len(stored)
    pattern = tuple((o.code, a) for o, a in zip(operands, accesses))
    kinds = "".join(kind for kind, _, _ in numbers)
    kernel = _kernel(pattern[count:], pattern[:count], kinds, values, len(sizes) - 1)
    steps = tuple(o.steps[d] for d in range(len(sizes)) for o in operands)
    chunks, description = nests.described(tuple(sizes), steps, chunk_elements(cost(values)))
    if chunks > 1:
        kernels.pool().ensure_workers()
    arguments = [description, *(o.address for o in operands), *(n for _, n, _ in numbers)]
    total = math.prod(sizes)
    return Launch(kernel.__self__, [*arguments, total], True)


def _kernel(inputs, outputs, kinds, values, rank):
    from flambeau._device import device
    from flambeau.codegen import build

    runtime = device("cpu").runtime
    key = ("fused", inputs, outputs, kinds, rank, _structure(values))
    found = runtime.kernels.get(key)
    if found is None:
        nest = build.Pointwise(inputs, outputs, kinds, values, rank)
        found = runtime.kernels[key] = runtime.load("fused", build.text_and_nest, (nest,))
    return found


# -- expressions -----------------------------------------------------------------------------------


def _compute(code):
    return "f32" if code in HALVES else code


def substituted(values, arguments):
    """Expressions with something else in place of their arguments."""
    memo: dict = {}

    def visit(e):
        found = memo.get(id(e))
        if found is None:
            if e.op == "argument":
                found = arguments[e.data]
            elif not e.args:
                found = e
            else:
                args = tuple(map(visit, e.args))
                same = all(a is b for a, b in zip(args, e.args))
                found = e if same else scalar.Expr(e.op, args, e.type, e.data)
            memo[id(e)] = found
        return found

    return [visit(v) for v in values]


def _leaves(values):
    """The arguments that expressions mention, by identity."""
    seen, found, stack = set(), set(), list(values)
    while stack:
        e = stack.pop()
        if id(e) in seen:
            continue
        seen.add(id(e))
        if e.op == "argument":
            found.add(id(e))
        stack.extend(e.args)
    return found


def _numbered(value, places, memo):
    """An expression whose arguments are counted."""

    def visit(e):
        found = memo.get(id(e))
        if found is None:
            if e.op == "argument":
                found = scalar.argument(places[id(e)], e.type)
            elif not e.args:
                found = e
            else:
                found = scalar.Expr(e.op, tuple(map(visit, e.args)), e.type, e.data)
            memo[id(e)] = found
        return found

    return visit(value)


def _structure(values):
    """What tells expressions apart: every node once, by what it is and which nodes it uses."""
    number: dict = {}
    found: list = []

    def visit(e):
        k = number.get(id(e))
        if k is None:
            args = tuple(map(visit, e.args))
            data = e.data
            if e.op == "repeat":
                count, index, variables = data
                data = (count, visit(index), tuple(map(visit, variables)))
            k = number[id(e)] = len(found)
            found.append((e.op, e.type, repr(data), args))
        return k

    return tuple(map(visit, values)), tuple(found)


# -- operands --------------------------------------------------------------------------------------


def _access(operand):
    inner, size = operand.steps[-1], ITEMSIZE[operand.code]
    if inner == size:
        return "c"
    if inner == 0 and not any(operand.steps):
        return "s"
    return {0: "s", -size: "r"}.get(inner, "n")


def _dense_steps(sizes, itemsize):
    steps, step = [], itemsize
    for size in reversed(sizes):
        steps.append(step)
        step *= size
    return tuple(reversed(steps))


def _is_flat(operand, sizes):
    return not any(operand.steps) or operand.steps == _dense_steps(sizes, ITEMSIZE[operand.code])


def _spread(operand, sizes, wider):
    """A flat operand (dense, or one value) over other sizes with the same product."""
    if sizes == wider:
        return operand
    if not any(operand.steps):
        return operand._replace(steps=(0,) * len(wider))
    return operand._replace(steps=_dense_steps(wider, ITEMSIZE[operand.code]))


def _overlap(a, b, sizes):
    low_a, high_a = _extent(a, sizes)
    low_b, high_b = _extent(b, sizes)
    return low_a < high_b and low_b < high_a


def _extent(operand, sizes):
    reach = [(n - 1) * s for n, s in zip(sizes, operand.steps)]
    low = operand.address + sum(r for r in reach if r < 0)
    return low, operand.address + sum(r for r in reach if r > 0) + ITEMSIZE[operand.code]


# -- launches --------------------------------------------------------------------------------------


def parsed(launch):
    """(sizes, nest, outputs, inputs, numbers) of a pointwise launch; None for others."""
    nest = kernels.nests.get(launch.definition)
    if nest is None or type(launch.arguments[0]) is not bytes:
        return None
    pattern = (*nest.outputs, *nest.inputs)
    if any(code not in ITEMSIZE or access == "t" for code, access in pattern):
        return None
    if _words_of(nest) & set(BARRED):
        return None
    given = launch.arguments
    words = words_of(given[0])
    addresses = given[1 : 1 + len(pattern)]
    numbers = given[1 + len(pattern) : 1 + len(pattern) + len(nest.scalars)]
    if words[0] == 0:
        if len(words) == 1:
            return None  # nothing to do
        sizes, steps = (given[-1],), [(step,) for step in words[2:]]
    else:
        head = Walk(*words[: len(Walk._fields)])
        rest = words[len(Walk._fields) :]
        sizes = (*rest[: nest.rank], head.length)
        rest, each = rest[nest.rank :], nest.rank + 1
        steps = [
            (*rest[k * each + 1 : (k + 1) * each], rest[k * each]) for k in range(len(pattern))
        ]
    operands = []
    for address, st, (code, access) in zip(addresses, steps, pattern):
        if access == "s":
            st = (*st[:-1], 0)
        operands.append(Operand(address, tuple(st), code))
    total = math.prod(sizes)
    if total == 0:
        return None
    if len(sizes) > 1 and all(_is_flat(o, sizes) for o in operands):
        operands = [_spread(o, sizes, (total,)) for o in operands]
        sizes = (total,)
    count = len(nest.outputs)
    return sizes, nest, operands[:count], operands[count:], numbers


def words_of(description):
    """The words of a packed description."""
    return struct.unpack(f"{len(description) // 8}q", description[: len(description) & -8])


_UNKNOWN = ("unknown", 0)
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


def _grouped(launches, block_of, blocks_of):
    """Launches as groups and others, in an order that does the same."""
    order: list = []
    for launch in launches:
        found = parsed(launch)
        if found is None:
            order.append(Other(launch, blocks_of(launch)))
            continue
        group = _joined(order, *found, launch, block_of)
        if group is None:
            sizes, nest, outs, ins, numbers = found
            group = Group(sizes)
            group.add(launch, nest, outs, ins, numbers, block_of)
            order.append(group)
    return order


BACK = 8  # groups that are asked whether they take a further member


def _joined(order, sizes, nest, outs, ins, numbers, launch, block_of):
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
                taken = _taken(group, sizes, nest, outs, ins, numbers, launch, block_of)
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


def _taken(group, sizes, nest, outs, ins, numbers, launch, block_of):
    """Let a group take a launch in, if they walk alike."""
    wide = group.sizes
    if sizes != wide:
        if math.prod(sizes) != math.prod(wide):
            return False
        if len(sizes) == 1 and all(_is_flat(o, sizes) for o in (*outs, *ins)):
            outs, ins = ([_spread(o, sizes, wide) for o in ops] for ops in (outs, ins))
        elif len(wide) == 1 and all(_is_flat(o, wide) for o in group.operands):
            wide = sizes
        else:
            return False
    count = len({*group.operands, *outs, *ins})
    if count > OPERANDS or group.minds_in(wide, outs, ins, block_of):
        return False
    total = sum(cost(n.values) for _, n, *_ in group.members) + cost(nest.values)
    if total > COST:
        return False
    if wide != group.sizes:
        group.spread(wide)
    group.add(launch, nest, outs, ins, numbers, block_of)
    return True


class Plan:
    """Launches in groups.

    block_of(address): the block that it lies in, None if it is no address.
    """

    def __init__(self, launches: list, block_of: Any) -> None:
        def blocks_of(launch):
            numbers = [a for a in launch.arguments if type(a) is int]
            for a in launch.arguments:
                if type(a) is bytes:
                    numbers += words_of(a)
            return {block for n in numbers if (block := block_of(n)) not in (None, _UNKNOWN)}

        self.order = _grouped(launches, block_of, blocks_of)

    def launches(self, is_kept: Any, again: "Again | None" = None) -> list:
        """The same work in fewer launches. is_kept(block): is it needed after the last one?"""
        found = []
        for k, entry in enumerate(self.order):

            def live(block, k=k):
                if is_kept(block):
                    return True
                for later in self.order[k + 1 :]:
                    if block in later.reads:
                        return True
                    if block in later.writes:
                        return type(later) is not Group or not _covers(later, block, self.order[k])
                return False

            launch = entry.launches(live, again)
            if launch is not None:
                found.append(launch)
        return found

    def written_once(self) -> set:
        """Blocks that a single entry of the plan writes, as far as one knows."""
        found: set = set()
        twice: set = set()
        for entry in self.order:
            twice |= found & entry.writes
            found |= entry.writes
        return found - twice

    def last_writes(self) -> dict:
        """Block -> number of the last entry that may write to it."""
        found: dict = {}
        for k, entry in enumerate(self.order):
            found.update(dict.fromkeys(entry.writes, k))
        return found

    def needed(self) -> tuple[set, dict]:
        """(blocks that others than groups are given or groups change, block -> loads of it)."""
        fixed: set = set()
        loads: dict = {}
        for entry in self.order:
            if type(entry) is Other:
                fixed |= entry.reads
                continue
            fixed |= entry.writes
            for o, block in entry.operands.items():
                loads.setdefault(block, []).append((o, entry.sizes))
        return fixed, loads


class Again:
    """Values of a first plan that a second one computes once more in place of loading them.

    A block may go if one group of the first plan wrote it, if only groups of the second plan read
    it, and if its value follows from what will be there: memory that stays as it was, or other
    results of its group that are kept. So of a chain the first link is kept, if its beginning is
    not, and the others are computed from it.
    """

    def __init__(self, first: Plan, second: Plan, may_go: Any, stays: Any) -> None:
        """may_go(block): may it be missing after the first plan? stays(block): will it be there?"""
        self.origins: dict = {}  # flat operand -> (known values of its group, expression)
        self.gone: set = set()
        self.stays = stays
        once, self.last = first.written_once(), first.last_writes()
        fixed, loads = second.needed()
        for place, entry in enumerate(first.order):
            if type(entry) is not Group or len(entry.sizes) != 1:
                continue
            known = _Known(entry, place)
            for o, block in entry.written.items():
                if block not in once:
                    continue
                expression = known.state[o]
                candidate = may_go(block) and block not in fixed
                alike = all(self._flat(x, sizes) == o for x, sizes in loads.get(block, ()))
                if candidate and alike and self._follows(known, expression):
                    self.origins[o] = known, expression
                    self.gone.add(block)
                elif stays(block):
                    known.kept[id(expression)] = o

    def _follows(self, known, expression):
        """Can a value be computed from what is kept and what stays, at a reasonable cost?"""
        seen, stack = set(), [expression]
        while stack:
            e = stack.pop()
            if id(e) in seen or id(e) in known.kept:
                continue
            seen.add(id(e))
            if e.op == "argument":
                load = known.loads.get(id(e))
                if load is not None and not self._is_there(load.operand, known):
                    return False
            stack.extend(e.args)
        return len(seen) <= COST

    def _is_there(self, o, known):
        if o in self.origins:
            return True  # it can be computed in turn
        block = known.group.operands[o]
        return self.stays(block) and self.last.get(block, -1) < known.place

    def _flat(self, o, sizes):
        return _spread(o, sizes, (math.prod(sizes),)) if _is_flat(o, sizes) else None

    def has(self, o: Operand, sizes: tuple) -> bool:
        return self._flat(o, sizes) in self.origins

    def value(self, o: Operand, sizes: tuple, value_of: Any, numbers: list) -> Any:
        """The value of an operand from that of others; None if it is there to be loaded."""
        found = self.origins.get(self._flat(o, sizes))
        if found is None:
            return None
        known, expression = found
        exchange: dict = {}

        def leaf(e):
            operand = known.kept.get(id(e))
            load = known.loads.get(id(e))
            if operand is None and load is not None:
                operand = load.operand
            if operand is not None:
                return value_of(_spread(operand, known.group.sizes, sizes))
            if e.op == "argument":
                kind, number = known.numbers[id(e)]
                fresh = scalar.Expr("argument", (), e.type)
                numbers.append((kind, number, fresh))
                return fresh
            return None

        return _exchanged(expression, exchange, leaf)


class _Known:
    """What a group computes: expressions of its results, its loads and numbers by identity."""

    def __init__(self, group, place):
        self.group, self.place = group, place
        self.state, loads, numbers = group.values()
        self.loads = {id(load.expression): load for load in loads}
        self.numbers = {id(e): (kind, number) for kind, number, e in numbers}
        self.kept: dict = {}  # identity of an expression -> the operand that holds its value


def _exchanged(value, memo, leaf):
    """An expression with others in place of some: leaf(e) gives them, or None."""

    def visit(e):
        found = memo.get(id(e))
        if found is None:
            found = leaf(e)
            if found is None:
                found = e
                if e.args:
                    found = scalar.Expr(e.op, tuple(map(visit, e.args)), e.type, e.data)
            memo[id(e)] = found
        return found

    return visit(value)


def _covers(later, block, earlier):
    """Does a later group write all that an earlier one wrote into a block?"""
    first = [_extent(o, earlier.sizes) for o, b in earlier.written.items() if b == block]
    last = [
        _extent(o, later.sizes)
        for o, b in later.written.items()
        if b == block and _is_flat(o, later.sizes)
    ]
    return all(any(a <= c and d <= b for a, b in last) for c, d in first)
