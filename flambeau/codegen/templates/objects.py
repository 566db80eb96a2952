"""Native makers of the objects that every call makes: layouts, fresh tensors, views.

Each is a CPython builtin that allocates an object of a Python class and fills in its slots; `self`
is a tuple with the classes and constants they need (`CONSTANTS` in makers.py). Where slots lie in
objects is found out by whoever builds this (`runtime/cpu.py`), so nothing here depends on how
CPython lays classes out. What native code does not care to do it leaves to Python: `worked_out` in
_layout.py, `new_tensor` and `new_view` in _tensor.py say the same in plain words, and subscripts,
reshapes and joins that are answered with None go the way of plans.
"""

from flambeau.codegen.llvm_cpu import module_text
from flambeau.codegen.loops import I64, PTR, Module, V
from flambeau.codegen.templates import objects_joined, objects_viewed
from flambeau.codegen.templates.makers import HUGE, Maker

RECENT = 1 << 11  # layouts that are found without a dictionary
_STATICS = (
    "PyTuple_Type PyList_Type PyLong_Type PyFloat_Type PyBool_Type PySlice_Type "
    "_Py_TrueStruct _Py_FalseStruct _Py_EllipsisObject"
)


def build(slots):
    """IR of all makers. slots: (class, slot) -> byte offset, as pairs."""
    module, slots = Module(), dict(slots)
    for name, types, body in _INNER:
        parameters = [(PTR, "own"), *[(type, f"a{k}") for k, type in enumerate(types)]]
        fn = module.function(f"inner_{name}", parameters, result=PTR, internal=True)
        body(Maker(fn, fn.params[0], slots), *fn.params[1:])
    for name, count, body in (*_BUILTINS, *objects_viewed.BUILTINS, *objects_joined.BUILTINS):
        parameters = [(PTR, "self"), (PTR, "args"), (I64, "count")]
        fn = module.function(name, parameters, result=PTR)
        own, args, number = fn.params
        given = [fn.load(fn.gep(args, k, PTR), PTR) for k in range(count)]
        maker = Maker(fn, own, slots)
        maker.args, maker.count = args, number
        body(maker, *given)
    known = "".join(f"@{name} = external global i8\n" for name in _STATICS.split())
    recent = f"@recent = internal global [{RECENT} x ptr] zeroinitializer\n"
    return known + recent + module_text(module)


VIEWS = ("subscript", "reshaped", "turned", "permuted", "unsqueezed", "expanded")
NAMES = ("layout", "fresh", "share", *VIEWS, "sized", "joined", "reduced")


# -- layouts ---------------------------------------------------------------------------------------


def _found(m, sizes, strides, rank, dtype, device):
    """The layout with these facts, known or new; sizes and strides are arrays of integers.

    Every layout has one place in a table of recent ones; what is there is compared number by
    number, which is quicker than to make tuples and hash them.
    """
    fn, mixed = m.fn, m.fn.var(rank)
    for pointer in (dtype, device):
        mixed.set((mixed.get() ^ fn.convert("ptrtoint", pointer, I64)) * MIXER)
    with fn.loop(0, rank) as k:
        for cells in (sizes, strides):
            mixed.set((mixed.get() ^ fn.load(fn.gep(cells, k, I64), I64)) * MIXER)
    hashed = mixed.get()
    place = fn.gep(V(fn, PTR, "@recent"), (hashed ^ (hashed >> 29)) & (RECENT - 1), PTR)
    held = fn.load(place, PTR)
    with fn.when(_is_like(m, held, sizes, strides, rank, dtype, device)):
        m.leave(m.own_reference(held))
    made = m.made(m.inner("known", m.numbers(sizes, rank), m.numbers(strides, rank), dtype, device))
    fn.store(m.own_reference(made), place)
    with fn.when(held != m.nothing):
        m.let_go(held)
    fn.ret(made)


MIXER = -0x61C8864680B583EB


def _is_like(m, layout, sizes, strides, rank, dtype, device):
    """Does a layout state these facts?"""
    fn, same = m.fn, m.fn.var(layout != m.nothing)
    with fn.when(same.get()):
        same.set(m.get(layout, "Layout", "dtype") == dtype)
        same.set(same.get() & (m.get(layout, "Layout", "device") == device))
        same.set(same.get() & (m.length(m.get(layout, "Layout", "sizes")) == rank))
    with fn.when(same.get()):
        for slot, cells in (("sizes", sizes), ("strides", strides)):
            items = m.get(layout, "Layout", slot)
            with fn.loop(0, rank) as k:
                wanted = fn.load(fn.gep(cells, k, I64), I64)
                same.set(same.get() & (m.integer(m.item(items, k)) == wanted))
    return same.get()


def _known(m, sizes, strides, dtype, device):
    """The same from tuples, which are given away."""
    fn = m.fn
    facts = m.made(fn.call("PyTuple_New", PTR, fn.value(4, I64), pure=False), sizes, strides)
    m.fill(facts, 0, sizes)
    m.fill(facts, 1, strides)
    m.fill(facts, 2, m.own_reference(dtype))
    m.fill(facts, 3, m.own_reference(device))
    found = fn.var(fn.call("PyDict_GetItem", PTR, m.constant("known"), facts, pure=False))
    fn.if_else(
        found.get() == m.nothing,
        lambda: found.set(m.inner("missing", facts)),
        lambda: found.set(m.own_reference(found.get())),
    )
    m.let_go(facts)
    fn.ret(found.get())


def _missing(m, facts):
    """What _Known.__missing__ of _layout.py does."""
    fn, known = m.fn, m.constant("known")
    found = fn.var(fn.call("PyDict_GetItem", PTR, m.constant("older"), facts, pure=False))
    fn.if_else(
        found.get() == m.nothing,
        lambda: found.set(m.inner("new_layout", facts)),
        lambda: found.set(m.own_reference(found.get())),
    )
    with fn.when(found.get() == m.none):
        m.let_go(m.none)
        found.set(m.made(m.python("worked_out", facts)))
    with fn.when(m.get(found.get(), "Layout", "pool") == m.none):
        m.let_go(m.made(m.python("complete", found.get()), found.get()))
    room = m.integer(m.constant("room"))
    with fn.when(fn.call("PyDict_Size", I64, known, pure=False) >= room):
        m.let_go(m.made(m.python("turn"), found.get()))
    fn.call("PyDict_SetItem", "i32", known, facts, found.get(), pure=False)
    fn.ret(found.get())


def _new_layout(m, facts):
    """A layout with facts (sizes, strides, dtype, device); None where Python must work it out."""
    fn = m.fn
    sizes, strides, dtype, device = (m.item(facts, k) for k in range(4))
    m.leave_unless(m.is_a(sizes, "PyTuple_Type") & m.is_a(strides, "PyTuple_Type"))
    ndim = m.length(sizes)
    numel, loose, odd = _walk(m, sizes, strides, ndim)
    # of nothing at all, strides are dense if a fresh tensor would have them: rare, so not here
    m.leave_unless((numel.get() != 0) & (numel.get() < HUGE))
    itemsize = m.get(dtype, "dtype", "itemsize")
    nbytes = numel.get() * m.integer(itemsize)
    pool = _pool(m, device, nbytes)
    is_dense = (loose.get() | odd.get()) == 0
    sort, fills = fn.var(m.none), fn.var(fn.select(is_dense, fn.value(1, I64), fn.value(0, I64)))
    with fn.when(loose.get() != 0):
        fills.set(_fills_memory(m, sizes, strides, ndim))
    with fn.when(fills.get() != 0):
        sort.set(_sort(m, ndim, dtype, device))
    m.leave_unless(sort.get() != m.nothing)
    shape = _shape(m, m.constant("Size"), sizes, ndim)
    made = m.new(m.constant("Layout"), shape)
    m.put(made, "Layout", "shape", shape)
    for slot, value in (
        ("sizes", sizes),
        ("strides", strides),
        ("dtype", dtype),
        ("device", device),
        ("itemsize", itemsize),
        ("is_contiguous", m.truth(loose.get() == 0)),
        ("is_dense", m.truth(is_dense)),
        ("pool", pool),
        ("sort", sort.get()),
    ):
        m.keep(made, "Layout", slot, value)
    m.put(made, "Layout", "ndim", m.number(ndim))
    m.put(made, "Layout", "numel", m.number(numel.get()))
    m.put(made, "Layout", "nbytes", m.number(nbytes))
    fn.ret(made)


def _fills_memory(m, sizes, strides, ndim):
    """1 where elements leave no gaps, in whatever order of dimensions; else 0."""
    fn = m.fn
    expected, left = fn.var(fn.value(1, I64)), fn.var(fn.value(0, I64))
    with fn.loop(0, ndim) as k:
        repeats = m.integer(m.item(strides, k)) == 0
        with fn.when((m.integer(m.item(sizes, k)) != 1) | repeats):
            left.set(left.get() + 1)
    with fn.loop(0, ndim):  # each time, the dimension that continues where the last ended
        found = fn.var(fn.value(0, I64))
        with fn.loop(0, ndim) as k:
            size, stride = m.integer(m.item(sizes, k)), m.integer(m.item(strides, k))
            with fn.when((size != 1) & (stride == expected.get()) & (found.get() == 0)):
                found.set(size)
        with fn.when(found.get() != 0):
            expected.set(expected.get() * found.get())
            left.set(left.get() - 1)
    return fn.select(left.get() == 0, fn.value(1, I64), fn.value(0, I64))


def _shape(m, size, sizes, ndim):
    """Sizes as a Size, which is a tuple by another name."""
    shape = m.new(size, count=ndim)
    with m.fn.loop(0, ndim) as k:
        item = m.own_reference(m.item(sizes, k))
        m.fn.call("PyTuple_SetItem", "i32", shape, k, item, pure=False)
    return shape


def _sort(m, ndim, dtype, device):
    """What stands for layouts without gaps; NULL where Python must find it."""
    fn, found = m.fn, m.fn.var(m.nothing)
    with fn.when(ndim != 0):
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


def _walk(m, sizes, strides, ndim):
    """Elements, whether they lie loosely, whether a stride of a size 1 is odd: three cells."""
    fn = m.fn
    numel, loose, odd = (fn.var(fn.value(start, I64)) for start in (1, 0, 0))
    with fn.loop(0, ndim) as i:
        k = ndim - 1 - i
        item, step = m.item(sizes, k), m.item(strides, k)
        m.leave_unless(m.is_a(item, "PyLong_Type") & m.is_a(step, "PyLong_Type"))
        size, stride = m.integer(item), m.integer(step)
        with fn.when((size == -1) | (stride == -1)):  # which may mean: beyond 64 bits
            m.exact(item)
            m.exact(step)
        limit, small = fn.value(HUGE, I64), fn.value(1 << 22, I64)
        m.leave_unless((size >= 0) & (size < limit) & (stride < limit) & (stride > -HUGE))
        m.leave_unless((numel.get() < small) | (size < small))
        differs = fn.select(stride != numel.get(), fn.value(1, I64), fn.value(0, I64))
        with fn.when(size == 1):
            odd.set(odd.get() | differs)
        with fn.when(size != 1):
            loose.set(loose.get() | differs)
            numel.set(numel.get() * size)
    return numel, loose, odd


# -- tensors ---------------------------------------------------------------------------------------


def _fields(m, made, layout, storage, offset):
    """What every new tensor has; storage and offset are given away."""
    m.keep(made, "Tensor", "_layout", layout)
    m.put(made, "Tensor", "_storage", storage)
    m.put(made, "Tensor", "_offset", offset)
    for slot in ("_grad", "_grad_fn", "_extra"):
        m.keep(made, "Tensor", slot, m.none)
    m.put(made, "Tensor", "_output_nr", m.number(0))


def _fresh(m, layout):
    """A tensor over memory from the layout's pool."""
    fn, pool = m.fn, m.get(layout, "Layout", "pool")
    free = fn.var(fn.value(0, I64))
    with fn.when(m.kind(pool) == m.constant("Pool")):
        free.set(fn.call("PyList_Size", I64, pool, pure=False))
    with fn.when(free.get() == 0):  # more memory must be found
        m.leave(m.python("new_tensor", layout))
    last = free.get() - 1
    pointer = m.own_reference(fn.call("PyList_GetItem", PTR, pool, last, pure=False))
    fn.call("PyList_SetSlice", "i32", pool, last, free.get(), m.nothing, pure=False)
    storage = m.new(m.constant("Storage"), pointer)
    m.put(storage, "Storage", "pointer", pointer)
    m.keep(storage, "Storage", "give", m.get(pool, "Pool", "give"))
    m.put(storage, "Storage", "version", m.number(0))
    m.keep(storage, "Storage", "nbytes", m.get(layout, "Layout", "nbytes"))
    made = m.new(m.constant("Tensor"), storage)
    _fields(m, made, layout, storage, m.number(0))
    m.keep(made, "Tensor", "_requires_grad", V(fn, PTR, "@_Py_FalseStruct"))
    m.keep(made, "Tensor", "_view", m.none)
    fn.ret(made)


def _share(m, input, layout, offset, recording):
    """A tensor over the memory of input, without history; the offset is given away."""
    fn, plain, silent = m.fn, m.constant("plain"), m.constant("no_grad")
    view = m.new(m.constant("View"), offset)
    made = m.new(m.constant("Tensor"), view, offset)
    storage = m.get(input, "Tensor", "_storage")
    _fields(m, made, layout, m.own_reference(storage), offset)
    m.keep(made, "Tensor", "_requires_grad", V(fn, PTR, "@_Py_FalseStruct"))
    m.put(made, "Tensor", "_view", view)
    m.keep(view, "View", "version", m.get(storage, "Storage", "version"))
    above = m.get(input, "Tensor", "_view")
    records = m.is_true(recording)

    def of_base():
        m.keep(view, "View", "base", input)
        m.keep(view, "View", "kind", fn.select(records, plain, silent))

    def of_view():
        m.keep(view, "View", "base", m.get(above, "View", "base"))
        kind = m.get(above, "View", "kind")
        m.keep(view, "View", "kind", fn.select((kind != plain) | records, kind, silent))

    fn.if_else(above == m.none, of_base, of_view)
    fn.ret(made)


def _leave_if_odd(m, item, depth):
    """Leave to Python what is odd, and tuples that begin with a bool or hold a float."""
    fn = m.fn
    m.leave_unless(~m.is_odd(item))
    with fn.when(m.is_a(item, "PyTuple_Type")), fn.loop(0, m.length(item)) as k:
        inner = m.item(item, k)
        is_first = m.is_a(inner, "PyBool_Type") & (k == 0)
        m.leave_unless(~(m.is_a(inner, "PyFloat_Type") | is_first))
        if depth:
            with fn.when(m.is_a(inner, "PyTuple_Type")):
                _leave_if_odd(m, inner, depth - 1)


def _reduced(m, layout, args, kwargs):
    """A tensor for the result of a reduction; None where its dim is odd or its keepdim an int."""
    fn, given = m.fn, m.length(args)
    with fn.when(given > 0):
        m.leave_unless(~m.is_odd(m.item(args, 0)))
    with fn.when(given > 1):
        m.leave_unless(~m.is_a(m.item(args, 1), "PyLong_Type"))
    with fn.when(fn.call("PyDict_Size", I64, kwargs, pure=False) > 0):
        dim, keepdim = (
            fn.call("PyDict_GetItem", PTR, kwargs, m.constant(name), pure=False)
            for name in ("dim", "keepdim")
        )
        with fn.when(dim != m.nothing):
            m.leave_unless(~m.is_odd(dim))
        with fn.when(keepdim != m.nothing):
            m.leave_unless(~m.is_a(keepdim, "PyLong_Type"))
    fn.ret(m.inner("fresh", layout))


def _view(m, input, layout, offset, recording):
    """A view; None where further arguments, those of the call, are odd."""
    with m.fn.loop(4, m.count) as k:
        _leave_if_odd(m, m.fn.load(m.fn.gep(m.args, k, PTR), PTR), 1)
    m.fn.ret(m.inner("share", input, layout, m.own_reference(offset), recording))


_INNER = (
    ("found", (PTR, PTR, I64, PTR, PTR), _found),
    ("known", (PTR,) * 4, _known),
    ("missing", (PTR,), _missing),
    ("new_layout", (PTR,), _new_layout),
    ("fresh", (PTR,), _fresh),
    ("share", (PTR,) * 4, _share),
)
_BUILTINS = (
    ("layout", 1, lambda m, facts: m.fn.ret(m.inner("missing", facts))),
    ("fresh", 1, lambda m, layout: m.fn.ret(m.inner("fresh", layout))),
    ("share", 4, _view),
    ("reduced", 3, _reduced),
)
