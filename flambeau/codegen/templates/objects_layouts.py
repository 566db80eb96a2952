"""Native layouts: found among the recent ones, or made.

Facts come as arrays of numbers. A table holds recent layouts in sets of four, in order of their
last use; what it holds is compared number by number, which is quicker than to make tuples and hash
them. A layout that leaves the table is forgotten: the same facts make another one then.
"""

from flambeau.codegen.loops import I64, PTR, V
from flambeau.codegen.templates.makers import HUGE, RECENT, WAYS

RANK = 64  # dimensions of a layout; what has more is made by Python, every time
_MIXER = -0x61C8864680B583EB


def _found(m, sizes, strides, rank, dtype, device):
    """The layout with these facts, known or new."""
    fn, hashed = m.fn, _hashed(m, sizes, strides, rank, dtype, device)
    places, hashes = _set_of(m, hashed)
    for way in range(WAYS):
        held = fn.load(fn.gep(places, way, PTR), PTR)
        seen = fn.load(fn.gep(hashes, way, I64), I64) == hashed
        with fn.when(seen), fn.when(_is_like(m, held, sizes, strides, rank, dtype, device)):
            _to_front(m, places, hashes, way, held, hashed)
            m.leave(m.own_reference(held))
    made = m.made(m.inner("new_layout", sizes, strides, rank, dtype, device))
    _remember(m, places, hashes, made, hashed)
    fn.ret(made)


def _hashed(m, sizes, strides, rank, dtype, device):
    """A number that tells facts apart; never 0, which stands for an empty place."""
    fn, mixed = m.fn, m.fn.var(rank)
    for pointer in (dtype, device):
        mixed.set((mixed.get() ^ fn.convert("ptrtoint", pointer, I64)) * _MIXER)
    with fn.loop(0, rank) as k:
        for cells in (sizes, strides):
            mixed.set((mixed.get() ^ fn.load(fn.gep(cells, k, I64), I64)) * _MIXER)
    return mixed.get() | 1


def _set_of(m, hashed):
    """The places where such a layout may be, and the hashes of what is there."""
    fn = m.fn
    first = ((hashed >> 40) & (RECENT // WAYS - 1)) * WAYS
    return [
        fn.gep(V(fn, PTR, f"@{name}"), first, type)
        for name, type in (("recent", PTR), ("recent_hashes", I64))
    ]


def _to_front(m, places, hashes, way, held, hashed):
    """What was used last comes first."""
    fn = m.fn
    for k in range(way, 0, -1):
        for cells, type in ((places, PTR), (hashes, I64)):
            fn.store(fn.load(fn.gep(cells, k - 1, type), type), fn.gep(cells, k, type), 8)
    fn.store(held, places, 8)
    fn.store(hashed, hashes, 8)


def _remember(m, places, hashes, made, hashed):
    """Enter a layout in place of the one that was not asked for the longest."""
    fn = m.fn
    last = fn.load(fn.gep(places, WAYS - 1, PTR), PTR)
    _to_front(m, places, hashes, WAYS - 1, m.own_reference(made), hashed)
    with fn.when(last != m.nothing):
        m.let_go(last)


def _is_like(m, layout, sizes, strides, rank, dtype, device):
    """Does a layout state these facts?"""
    fn, same = m.fn, m.fn.var(m.get(layout, "Layout", "dtype") == dtype)
    same.set(same.get() & (m.get(layout, "Layout", "device") == device))
    same.set(same.get() & (m.length(m.get(layout, "Layout", "sizes")) == rank))
    with fn.when(same.get()):
        for slot, cells in (("sizes", sizes), ("strides", strides)):
            items = m.get(layout, "Layout", slot)
            with fn.loop(0, rank) as k:
                wanted = fn.load(fn.gep(cells, k, I64), I64)
                same.set(same.get() & (m.integer(m.item(items, k)) == wanted))
    return same.get()


# -- new ones --------------------------------------------------------------------------------------


def _new_layout(m, sizes, strides, rank, dtype, device):
    """A layout with these facts."""
    fn = m.fn
    numel, loose, odd = _walk(m, sizes, strides, rank)
    with fn.when((numel.get() == 0) | (numel.get() >= HUGE)):  # rare, so not here
        m.leave(_in_python(m, sizes, strides, rank, dtype, device))
    itemsize = m.get(dtype, "dtype", "itemsize")
    nbytes = numel.get() * m.integer(itemsize)
    is_dense = (loose.get() | odd.get()) == 0
    sort, fills = fn.var(m.none), fn.var(fn.select(is_dense, fn.value(1, I64), fn.value(0, I64)))
    with fn.when(loose.get() != 0):
        fills.set(_fills_memory(m, sizes, strides, rank))
    with fn.when(fills.get() != 0):
        sort.set(_sort(m, rank, dtype, device))
    with fn.when(sort.get() == m.nothing):
        m.leave(_in_python(m, sizes, strides, rank, dtype, device))
    made = m.new(m.constant("Layout"))
    m.put(made, "Layout", "sizes", _untracked(m, m.numbers(sizes, rank, made)))
    m.put(made, "Layout", "shape", _shape(m, m.get(made, "Layout", "sizes"), rank, made))
    m.put(made, "Layout", "strides", _untracked(m, m.numbers(strides, rank, made)))
    for slot, value in (
        ("dtype", dtype),
        ("device", device),
        ("itemsize", itemsize),
        ("is_contiguous", m.truth(loose.get() == 0)),
        ("is_dense", m.truth(is_dense)),
        ("pool", _pool(m, device, nbytes)),
        ("sort", sort.get()),
    ):
        m.keep(made, "Layout", slot, value)
    m.put(made, "Layout", "ndim", m.number(rank))
    m.put(made, "Layout", "numel", m.number(numel.get()))
    m.put(made, "Layout", "nbytes", m.number(nbytes))
    with fn.when(m.get(made, "Layout", "pool") == m.none):
        m.let_go(m.made(m.python("complete", made), made))
    fn.ret(_untracked(m, made))


def _in_python(m, sizes, strides, rank, dtype, device):
    """What `worked_out` of _layout.py gives."""
    fn = m.fn
    facts = m.made(fn.call("PyTuple_New", PTR, fn.value(4, I64), pure=False))
    m.fill(facts, 0, m.numbers(sizes, rank, facts))
    m.fill(facts, 1, m.numbers(strides, rank, facts))
    m.fill(facts, 2, m.own_reference(dtype))
    m.fill(facts, 3, m.own_reference(device))
    made = m.python("worked_out", facts)
    m.let_go(facts)
    return made


def _untracked(m, item):
    """An object that is in no cycle, so the collector need not look at it."""
    m.fn.call("PyObject_GC_UnTrack", "void", item)
    return item


def _walk(m, sizes, strides, rank):
    """Elements, whether they lie loosely, whether a stride of a size 1 is odd: three cells.

    Sizes or strides that are too large or below zero count as none, for Python to look at.
    """
    fn = m.fn
    numel, loose, odd = (fn.var(fn.value(start, I64)) for start in (1, 0, 0))
    zero, one, small = (fn.value(x, I64) for x in (0, 1, 1 << 22))
    with fn.loop(0, rank) as i:
        k = rank - 1 - i
        size, stride = (fn.load(fn.gep(cells, k, I64), I64) for cells in (sizes, strides))
        fits = (size >= 0) & (size < HUGE) & (stride < HUGE) & (stride > -HUGE)
        fits = fits & ((numel.get() < small) | (size < small)) & (numel.get() < HUGE)
        differs = fn.select(stride != numel.get(), one, zero)
        with fn.when(size == 1):
            odd.set(odd.get() | differs)
        with fn.when(size != 1):
            loose.set(loose.get() | differs)
            numel.set(numel.get() * size)
        with fn.when(~fits):
            numel.set(0)
    return numel, loose, odd


def _fills_memory(m, sizes, strides, rank):
    """1 where elements leave no gaps, in whatever order of dimensions; else 0."""
    fn = m.fn
    expected, left = fn.var(fn.value(1, I64)), fn.var(fn.value(0, I64))

    def at(k):
        return [fn.load(fn.gep(cells, k, I64), I64) for cells in (sizes, strides)]

    with fn.loop(0, rank) as k:
        size, stride = at(k)
        with fn.when((size != 1) | (stride == 0)):
            left.set(left.get() + 1)
    with fn.loop(0, rank):  # each time, the dimension that continues where the last ended
        found = fn.var(fn.value(0, I64))
        with fn.loop(0, rank) as k:
            size, stride = at(k)
            with fn.when((size != 1) & (stride == expected.get()) & (found.get() == 0)):
                found.set(size)
        with fn.when(found.get() != 0):
            expected.set(expected.get() * found.get())
            left.set(left.get() - 1)
    return fn.select(left.get() == 0, fn.value(1, I64), fn.value(0, I64))


def _shape(m, sizes, rank, held):
    """Sizes as a Size, which is a tuple by another name."""
    shape = m.new(m.constant("Size"), held, count=rank)
    with m.fn.loop(0, rank) as k:
        m.fill(shape, k, m.own_reference(m.item(sizes, k)))
    return _untracked(m, shape)


def _sort(m, rank, dtype, device):
    """What stands for layouts without gaps; NULL where Python must find it."""
    fn, found = m.fn, m.fn.var(m.nothing)
    with fn.when(rank != 0):
        by_dtype = fn.call("PyDict_GetItem", PTR, m.constant("sorts"), device, pure=False)
        with fn.when(by_dtype != m.nothing):
            found.set(fn.call("PyDict_GetItem", PTR, by_dtype, dtype, pure=False))
    return found.get()


def _pool(m, device, nbytes):
    """The pool of small blocks, where a list of the device knows it; None where none does."""
    fn, found = m.fn, m.fn.var(m.none)
    small = fn.call("PyDict_GetItem", PTR, m.constant("pools"), device, pure=False)
    with fn.when(small != m.nothing):
        line = (nbytes + 63) >> 6
        with fn.when(line < fn.call("PyList_Size", I64, small, pure=False)):
            found.set(fn.call("PyList_GetItem", PTR, small, line, pure=False))
    return found.get()


# -- builtins --------------------------------------------------------------------------------------


def _cells_of(m, items):
    """The numbers of a tuple in an array; None where there is something else in it."""
    fn = m.fn
    is_tuple = m.is_a(items, "PyTuple_Type") | (m.kind(items) == m.constant("Size"))
    m.leave_unless(is_tuple)
    rank, cells = m.length(items), fn.alloca(I64, RANK)
    m.leave_unless(rank <= RANK)
    with fn.loop(0, rank) as k:
        item = m.item(items, k)
        m.leave_unless(m.is_a(item, "PyLong_Type"))
        fn.store(m.exact(item), fn.gep(cells, k, I64))
    return cells, rank


def _layout(m, sizes, strides, dtype, device):
    """The layout with these facts."""
    sizes, rank = _cells_of(m, sizes)
    strides, steps = _cells_of(m, strides)
    m.leave_unless(rank == steps)
    m.fn.ret(m.inner("found", sizes, strides, rank, dtype, device))


def _dense(m, sizes, dtype, device):
    """The row-major layout of some sizes; dimensions of nothing count as one in strides."""
    fn = m.fn
    sizes, rank = _cells_of(m, sizes)
    strides, step = fn.alloca(I64, RANK), fn.var(fn.value(1, I64))
    with fn.loop(0, rank) as k:
        at = rank - 1 - k
        size = fn.load(fn.gep(sizes, at, I64), I64)
        m.leave_unless((size >= 0) & (size < HUGE) & (step.get() < (1 << 22)))
        fn.store(step.get(), fn.gep(strides, at, I64))
        step.set(step.get() * fn.max(size, fn.value(1, I64)))
    fn.ret(m.inner("found", sizes, strides, rank, dtype, device))


def _entered(m, layout):
    """Enter a layout that Python made into the table."""
    dtype, device = (m.get(layout, "Layout", name) for name in ("dtype", "device"))
    sizes, rank = _cells_of(m, m.get(layout, "Layout", "sizes"))
    strides, _ = _cells_of(m, m.get(layout, "Layout", "strides"))
    hashed = _hashed(m, sizes, strides, rank, dtype, device)
    _remember(m, *_set_of(m, hashed), layout, hashed)
    m.fn.ret(m.own_reference(m.none))


_FACTS = (PTR, PTR, I64, PTR, PTR)
INNER = (("found", _FACTS, _found), ("new_layout", _FACTS, _new_layout))
BUILTINS = (("layout", 4, _layout), ("dense", 3, _dense), ("enter", 1, _entered))
