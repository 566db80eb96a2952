"""Native makers of the objects that every call makes: layouts, fresh tensors, views.

Each is a CPython builtin that allocates an object of a Python class and fills in its slots; `self`
is a tuple with the classes and constants it needs. Where slots lie in objects is found out by
whoever builds this (`runtime/cpu.py`), so nothing here depends on how CPython lays classes out.
What a maker does not care to do it answers with None, and Python does it: `_new_layout` in
_layout.py, `new_tensor` and `new_view` in _tensor.py say the same in plain words.
"""

from flambeau.codegen.llvm_cpu import module_text
from flambeau.codegen.loops import I1, I64, PTR, Module, V

HUGE = 1 << 40  # sizes and strides beyond this are left to Python's integers
_STATICS = "PyTuple_Type PyLong_Type PyFloat_Type PyBool_Type _Py_TrueStruct _Py_FalseStruct"


def build(slots):
    """IR of all makers. slots: (class, slot) -> byte offset, as pairs."""
    module, slots = Module(), dict(slots)
    _layout(_Maker(module, "layout", slots))
    _tensor(_Maker(module, "tensor", slots))
    _view(_Maker(module, "view", slots))
    known = "".join(f"@{name} = external global i8\n" for name in _STATICS.split())
    return known + module_text(module)


NAMES = ("layout", "tensor", "view")


class _Maker:
    """A builtin under construction, and what Python would say in a line."""

    def __init__(self, module, name, slots):
        self.slots = slots
        parameters = [(PTR, "self"), (PTR, "args"), (I64, "count")]
        self.fn = module.function(name, parameters, result=PTR)
        self.own, self.args, self.count = self.fn.params
        self.nothing = self.fn.value(0, PTR)
        self.none = V(self.fn, PTR, "@_Py_NoneStruct")

    def arguments(self, count):
        return [self.fn.load(self.fn.gep(self.args, k, PTR), PTR) for k in range(count)]

    def constants(self, count):
        """The items of `self`."""
        return [self.item(self.own, self.fn.value(k, I64)) for k in range(count)]

    def item(self, items, k):
        return self.fn.call("PyTuple_GetItem", PTR, items, k, pure=False)

    def length(self, items):
        return self.fn.call("PyTuple_Size", I64, items, pure=False)

    def integer(self, item):
        return self.fn.call("PyLong_AsLongLong", I64, item, pure=False)

    def number(self, value):
        return self.fn.call("PyLong_FromLongLong", PTR, self.fn.value(value, I64), pure=False)

    def truth(self, condition):
        true, false = (V(self.fn, PTR, f"@_Py_{name}Struct") for name in ("True", "False"))
        return self.fn.select(condition, true, false)

    def kind(self, item):
        return self.fn.load(self.fn.gep(item, 1, I64), PTR)

    def is_a(self, item, name):
        return self.fn.pure(f"icmp eq {self.kind(item)}, @{name}", I1)

    def is_odd(self, item):
        """Is this True or 1.0, which dictionaries take for 1?"""
        return self.is_a(item, "PyFloat_Type") | self.is_a(item, "PyBool_Type")

    def own_reference(self, item):
        self.fn.call("Py_IncRef", "void", item)
        return item

    def leave(self, value):
        self.fn.line(f"ret {value}")
        self.fn.open(self.fn.label("dead"))

    def leave_unless(self, condition):
        """Nothing has been made yet: let Python do it."""
        with self.fn.when(~condition):
            self.leave(self.own_reference(self.none))

    def new(self, cls, *held, count=0):
        """A new object; where there is no memory for it, the error stands and held are let go."""
        count = self.fn.value(count, I64)
        made = self.fn.call("PyType_GenericAlloc", PTR, cls, count, pure=False)
        with self.fn.when(made == self.nothing):
            for item in held:
                self.fn.call("Py_DecRef", "void", item)
            self.leave(self.nothing)
        return made

    def get(self, item, cls, slot):
        return self.fn.load(self.fn.gep(item, self.slots[cls, slot], "i8"), PTR)

    def put(self, item, cls, slot, value):
        """Store a reference that is ours to give."""
        self.fn.store(value, self.fn.gep(item, self.slots[cls, slot], "i8"), 8)

    def keep(self, item, cls, slot, value):
        """Store a reference of its own."""
        self.put(item, cls, slot, self.own_reference(value))


def _layout(m):
    """layout(facts), with facts (sizes, strides, dtype, device).

    self: (Layout, sorts, Size, pools). Python completes layouts with pool None or sort False.
    """
    fn = m.fn
    (facts,), (cls, sorts, size, pools) = m.arguments(1), m.constants(4)
    sizes, strides, dtype, device = (m.item(facts, fn.value(k, I64)) for k in range(4))
    m.leave_unless(m.is_a(sizes, "PyTuple_Type") & m.is_a(strides, "PyTuple_Type"))
    ndim = m.length(sizes)
    numel, loose, odd = _walk(m, sizes, strides, ndim)
    # of nothing at all, strides are dense if a fresh tensor would have them: rare, so not here
    m.leave_unless((numel.get() != 0) & (numel.get() < HUGE))
    shape = _shape(m, size, sizes, ndim)
    made = m.new(cls, shape)
    m.put(made, "Layout", "shape", shape)
    itemsize = m.get(dtype, "dtype", "itemsize")
    is_dense = (loose.get() | odd.get()) == 0
    for slot, value in (
        ("sizes", sizes),
        ("strides", strides),
        ("dtype", dtype),
        ("device", device),
        ("itemsize", itemsize),
        ("is_contiguous", m.truth(loose.get() == 0)),
        ("is_dense", m.truth(is_dense)),
    ):
        m.keep(made, "Layout", slot, value)
    m.put(made, "Layout", "ndim", m.number(ndim))
    m.put(made, "Layout", "numel", m.number(numel.get()))
    nbytes = numel.get() * m.integer(itemsize)
    m.put(made, "Layout", "nbytes", m.number(nbytes))
    sort = fn.var(m.none)
    fills = fn.var(fn.select(is_dense, fn.value(1, I64), fn.value(0, I64)))
    with fn.when(loose.get() != 0):
        fills.set(_fills_memory(m, sizes, strides, ndim))
    with fn.when(fills.get() != 0):
        sort.set(_sort(m, made, ndim, sorts, dtype, device))
    m.keep(made, "Layout", "sort", sort.get())
    m.keep(made, "Layout", "pool", _pool(m, pools, device, nbytes))
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


def _sort(m, made, ndim, sorts, dtype, device):
    """What stands for layouts without gaps; False where Python must find it."""
    fn, found = m.fn, m.fn.var(V(m.fn, PTR, "@_Py_FalseStruct"))
    with fn.when(ndim == 0):
        found.set(made)
    with fn.when(ndim != 0):
        by_dtype = fn.call("PyDict_GetItem", PTR, sorts, device, pure=False)
        with fn.when(by_dtype != m.nothing):
            sort = fn.call("PyDict_GetItem", PTR, by_dtype, dtype, pure=False)
            with fn.when(sort != m.nothing):
                found.set(sort)
    return found.get()


def _pool(m, pools, device, nbytes):
    """The pool of small blocks, where a list of the device knows it."""
    fn, found = m.fn, m.fn.var(m.none)
    small = fn.call("PyDict_GetItem", PTR, pools, device, pure=False)
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


def _fields(m, made, layout, storage, offset):
    """What every new tensor has; storage and offset are given away."""
    m.keep(made, "Tensor", "_layout", layout)
    m.put(made, "Tensor", "_storage", storage)
    m.put(made, "Tensor", "_offset", offset)
    m.keep(made, "Tensor", "_requires_grad", V(m.fn, PTR, "@_Py_FalseStruct"))
    for slot in ("_grad", "_grad_fn", "_extra"):
        m.keep(made, "Tensor", slot, m.none)
    m.put(made, "Tensor", "_output_nr", m.number(0))


def _tensor(m):
    """tensor(layout): over memory from the layout's pool.

    self: (Tensor, Storage, Pool, "dim", "keepdim"). tensor(layout, args, kwargs) is for reductions:
    None as well where a dimension is odd, or keepdim an int.
    """
    fn = m.fn
    (layout,), (cls, storage_class, pool_class, *names) = m.arguments(1), m.constants(5)
    with fn.when(m.count > 1):
        args, kwargs = m.arguments(3)[1:]
        given = m.length(args)
        with fn.when(given > 0):
            m.leave_unless(~m.is_odd(m.item(args, fn.value(0, I64))))
        with fn.when(given > 1):
            m.leave_unless(~m.is_a(m.item(args, fn.value(1, I64)), "PyLong_Type"))
        dim, keepdim = (fn.call("PyDict_GetItem", PTR, kwargs, n, pure=False) for n in names)
        with fn.when(dim != m.nothing):
            m.leave_unless(~m.is_odd(dim))
        with fn.when(keepdim != m.nothing):
            m.leave_unless(~m.is_a(keepdim, "PyLong_Type"))
    pool = m.get(layout, "Layout", "pool")
    m.leave_unless(m.kind(pool) == pool_class)
    free = fn.call("PyList_Size", I64, pool, pure=False)
    m.leave_unless(free > 0)
    pointer = m.own_reference(fn.call("PyList_GetItem", PTR, pool, free - 1, pure=False))
    fn.call("PyList_SetSlice", "i32", pool, free - 1, free, m.nothing, pure=False)
    storage = m.new(storage_class, pointer)
    m.put(storage, "Storage", "pointer", pointer)
    m.keep(storage, "Storage", "give", m.get(pool, "Pool", "give"))
    m.put(storage, "Storage", "version", m.number(0))
    m.keep(storage, "Storage", "nbytes", m.get(layout, "Layout", "nbytes"))
    made = m.new(cls, storage)
    _fields(m, made, layout, storage, m.number(0))
    m.keep(made, "Tensor", "_view", m.none)
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


def _view(m):
    """view(input, layout, offset, recording, *arguments); self: (Tensor, View, "plain", "no_grad").

    None where arguments are odd, for which there must not be a plan.
    """
    fn = m.fn
    input, layout, offset, recording = m.arguments(4)
    with fn.loop(4, m.count) as k:
        _leave_if_odd(m, fn.load(fn.gep(m.args, k, PTR), PTR), 1)
    cls, view_class, plain, silent = m.constants(4)
    view = m.new(view_class)
    made = m.new(cls, view)
    storage = m.get(input, "Tensor", "_storage")
    _fields(m, made, layout, m.own_reference(storage), m.own_reference(offset))
    m.put(made, "Tensor", "_view", view)
    m.keep(view, "View", "version", m.get(storage, "Storage", "version"))
    above = m.get(input, "Tensor", "_view")
    records = recording == V(fn, PTR, "@_Py_TrueStruct")

    def of_base():
        m.keep(view, "View", "base", input)
        m.keep(view, "View", "kind", fn.select(records, plain, silent))

    def of_view():
        m.keep(view, "View", "base", m.get(above, "View", "base"))
        kind = m.get(above, "View", "kind")
        m.keep(view, "View", "kind", fn.select((kind != plain) | records, kind, silent))

    fn.if_else(above == m.none, of_base, of_view)
    fn.ret(made)
