"""What threads of a GPU do together: counters that many raise at once, ranks, running sums.

Each has two forms: instructions of a GPU, and the same result where the host takes the place of
one. There threads run one after the other, so a counter is raised by a load and a store.
"""

from flambeau.codegen.gpu.teams import WARP
from flambeau.codegen.llvm_gpu import _register
from flambeau.codegen.loops import I1, I32, I64, V, bytes_of
from flambeau.codegen.target import current

ALL = -1  # lanes of a warp that take part


def on_gpu():
    return current().gpu == "ptx"


def in_flight(fn, first, total, step, load, store, count=4):
    """store(n, load(n)) for n from first to total, a step apart; a few are loaded, then stored.

    LLVM may not move a load across a store, and one load at a time does not keep memory busy.
    """
    with fn.loop(first, total, step * count) as at:
        places = [at + step * k if k else at for k in range(count)]
        values = [load(fn.min(n, total - 1) if k else n) for k, n in enumerate(places)]
        for k, (n, value) in enumerate(zip(places, values)):
            if k == 0:
                store(n, value)
                continue
            with fn.when(n < total):
                store(n, value)


# -- one cell, many threads ------------------------------------------------------------------------


def raised(fn, pointer, amount):
    """What lay at an address before a number was added to it."""
    type = amount.type
    if not on_gpu():
        before = fn.load(pointer, type)
        fn.store(before + amount, pointer)
        return before
    order = f'syncscope("device") monotonic, align {bytes_of(type)}'
    add = "add" if type.startswith("i") else "fadd"
    return fn.emit(f"atomicrmw {add} {pointer}, {amount} {order}", type)


def raised_to(fn, pointer, value):
    """cell = max(cell, value), whoever else writes it."""
    if not on_gpu():
        fn.store(fn.max(fn.load(pointer, value.type), value), pointer)
        return
    order = f'syncscope("device") monotonic, align {bytes_of(value.type)}'
    fn.emit(f"atomicrmw max {pointer}, {value} {order}", value.type)


def updated(fn, pointer, type, new):
    """cell = new(cell) for a cell of an integer type, whoever else writes it."""
    if not on_gpu():
        fn.store(new(fn.load(pointer, type)), pointer)
        return
    seen, going = fn.var(fn.load(pointer, type)), fn.var(fn.value(True, I1))
    with fn.while_(going.get):
        before = seen.get()
        after = new(before)
        order = f'syncscope("device") monotonic monotonic, align {bytes_of(type)}'
        pair = fn.emit(f"cmpxchg {pointer}, {before}, {after} {order}", f"{{ {type}, i1 }}")
        seen.set(fn.emit(f"extractvalue {pair}, 0", type))
        going.set(~fn.emit(f"extractvalue {pair}, 1", I1))


# -- lanes of a warp -------------------------------------------------------------------------------


def ballot(fn, bit):
    """A bit for each lane of the warp."""
    return fn.call("llvm.nvvm.vote.ballot.sync", I32, fn.value(ALL, I32), bit, pure=False)


def wait_for_warp(fn):
    fn.call("llvm.nvvm.bar.warp.sync", "void", fn.value(ALL, I32))


def bits_in(fn, word):
    return fn.call("llvm.ctpop.i32", I32, word)


def lanes_below(fn):
    """A word with the bits of the lanes before this one."""
    return fn.call("llvm.nvvm.read.ptx.sreg.lanemask.lt", I32)


def counted_up(fn, table, digit, bits):
    """Count a digit of each lane; gives how often it was counted before, in the order of lanes.

    table: counters (i32) of the warp. All lanes of the warp must come here.
    """
    slot = fn.gep(table, fn.convert("zext", digit, I64), I32)
    if not on_gpu():
        return raised(fn, slot, fn.value(1, I32))
    same = fn.value(-1, I32)
    for k in range(bits):
        bit = (digit >> k) & 1
        same = same & ~(ballot(fn, bit != 0) ^ (0 - bit))
    before = same & lanes_below(fn)
    found = fn.load(slot, I32)
    wait_for_warp(fn)
    with fn.when(before == 0):
        fn.store(found + bits_in(fn, same), slot)
    wait_for_warp(fn)
    return found + bits_in(fn, before)


# -- running sums over a group ---------------------------------------------------------------------


class Sums:
    """Sums of what the threads before have; one phase must end before and begin after it."""

    def __init__(self, kernel, type=I32):
        self.kernel, self.type = kernel, type
        self.parts = kernel.shared(type, kernel.size if not on_gpu() else kernel.size // WARP)
        self.total = kernel.shared(type, 1)

    def run(self, cell):
        """Replace what threads have in a Private by the sum of what those before them have.

        The sum of all is in `total` afterwards.
        """
        if on_gpu():
            self._on_gpu(cell)
        else:
            self._emulated(cell)

    def _on_gpu(self, cell):
        fn, kernel = self.kernel.fn, self.kernel
        thread = _register(fn, "tid")
        lane, warp = thread & (WARP - 1), thread >> 5
        own = cell.get(thread)
        sum = own
        for offset in (1, 2, 4, 8, 16):
            other = _from_below(fn, sum, offset)
            sum = sum + fn.select(lane >= offset, other, 0)
        with fn.when(lane == WARP - 1):
            fn.store(sum, fn.gep(self.parts, warp, self.type))
        kernel.barrier()
        before, total = fn.value(0, self.type), fn.value(0, self.type)
        for w in range(kernel.size // WARP):
            part = fn.load(fn.gep(self.parts, w, self.type), self.type)
            before = before + fn.select(warp > w, part, 0)
            total = total + part
        with fn.when(thread == 0):
            fn.store(total, self.total)
        cell.set(thread, sum - own + before)
        kernel.barrier()

    def _emulated(self, cell):
        fn, kernel = self.kernel.fn, self.kernel
        with kernel.threads() as thread:
            fn.store(cell.get(thread), fn.gep(self.parts, thread, self.type))
        fn.store(fn.value(0, self.type), self.total)
        with kernel.threads() as thread:
            before = fn.load(self.total, self.type)
            cell.set(thread, before)
            fn.store(before + fn.load(fn.gep(self.parts, thread, self.type), self.type), self.total)

    def whole(self):
        """The sum of all threads."""
        return self.kernel.fn.load(self.total, self.type)


def _from_below(fn, value, offset):
    """The value of the thread so many lanes below."""
    if value.type == I64:
        low = _from_below(fn, fn.convert("trunc", value, I32), offset)
        high = _from_below(fn, fn.convert("trunc", value >> 32, I32), offset)
        return fn.convert("zext", low, I64) | (fn.convert("zext", high, I64) << 32)
    return fn.call(
        "llvm.nvvm.shfl.sync.up.i32", I32, fn.value(ALL, I32), value, fn.value(offset, I32),
        fn.value(0, I32), pure=False,
    )  # fmt: skip


def watched(fn, pointer, type):
    """Load what another group may be writing."""
    return fn.emit(f"load volatile {type}, {pointer}, align {bytes_of(type)}", type)


def told(fn, value, pointer):
    """Store for other groups to see."""
    fn.line(f"store volatile {value}, {pointer}, align {bytes_of(value.type)}")


def fence(fn):
    """What was stored before is there for all before anything that comes after."""
    if on_gpu():
        fn.line('call void asm sideeffect "fence.acq_rel.gpu;", "~{memory}"()')


def unsigned(fn, value, type=I64):
    """An integer in a wider type."""
    return value if isinstance(value, V) and value.type == type else fn.convert("zext", value, type)
