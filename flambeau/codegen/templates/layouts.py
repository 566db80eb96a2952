"""The native maker of layouts: a CPython builtin that fills in the slots of a new Layout.

new(Layout, facts, sorts, Size, pools), where facts are (sizes, strides, dtype, device), plain
tuples of plain integers; it answers None where they are not, or where they are huge, and Python
makes the layout
(`_layout.py`, which says what the fields mean). Where slots lie in objects is found out by whoever
builds this (`runtime/cpu.py`), so nothing here depends on how CPython lays classes out.
"""

from flambeau.codegen.llvm_cpu import module_text
from flambeau.codegen.loops import I1, I64, PTR, Module, V

HUGE = 1 << 40  # sizes and strides beyond this are left to Python's integers
_STATICS = "PyTuple_Type PyLong_Type _Py_TrueStruct _Py_FalseStruct"


def build(slots, itemsize):
    """IR of `entry`. slots: byte offset of each slot of a Layout; itemsize: of that of a dtype."""
    return _Maker(dict(slots), itemsize).text()


class _Maker:
    def __init__(self, slots, itemsize):
        self.slots, self.itemsize = slots, itemsize
        self.module = Module()
        parameters = [(PTR, "self"), (PTR, "args"), (I64, "count")]
        self.fn = self.module.function("entry", parameters, result=PTR)

    def text(self):
        fn = self.fn
        _, args, _ = fn.params
        cls, facts, sorts, size, pools = (fn.load(fn.gep(args, k, PTR), PTR) for k in range(5))
        sizes, strides, dtype, device = (self._item(facts, fn.value(k, I64)) for k in range(4))
        for pair in (sizes, strides):
            self._leave_unless(self._is_a(pair, "PyTuple_Type"))
        ndim = fn.call("PyTuple_Size", I64, sizes, pure=False)
        numel, loose, odd = self._walk(sizes, strides, ndim)
        # of nothing at all, strides are dense if a fresh tensor would have them: rare, so not here
        self._leave_unless(numel.get() != 0)
        self._leave_unless(numel.get() < HUGE)
        self.made = self._allocated(cls, fn.value(0, I64))
        itemsize = fn.load(fn.gep(dtype, self.itemsize, "i8"), PTR)
        for name, item in (
            ("sizes", sizes),
            ("strides", strides),
            ("dtype", dtype),
            ("device", device),
            ("itemsize", itemsize),
        ):
            self._keep(name, item)
        self._number("ndim", ndim)
        self._number("numel", numel.get())
        nbytes = numel.get() * self._integer(itemsize)
        self._number("nbytes", nbytes)
        self._keep("is_contiguous", self._truth(loose.get() == 0))
        is_dense = (loose.get() | odd.get()) == 0
        self._keep("is_dense", self._truth(is_dense))
        self._sort(is_dense, ndim, sorts, dtype, device)
        self._shape(size, sizes, ndim)
        self._pool(pools, device, nbytes)
        self._return(self.made)
        fn.ret(self.made)
        known = "".join(f"@{name} = external global i8\n" for name in _STATICS.split())
        return known + module_text(self.module)

    # -- what Python would say in a line ---------------------------------------------------------
    def _item(self, items, k):
        return self.fn.call("PyTuple_GetItem", PTR, items, k, pure=False)

    def _integer(self, item):
        return self.fn.call("PyLong_AsLongLong", I64, item, pure=False)

    def _is_a(self, item, name):
        kind = self.fn.load(self.fn.gep(item, 1, I64), PTR)
        return self.fn.pure(f"icmp eq {kind}, @{name}", I1)

    def _return(self, value):
        self.fn.line(f"ret {value}")
        self.fn.open(self.fn.label("dead"))

    def _leave_unless(self, condition):
        with self.fn.when(~condition):
            none = V(self.fn, PTR, "@_Py_NoneStruct")
            self.fn.call("Py_IncRef", "void", none)
            self._return(none)

    def _allocated(self, cls, count):
        """A new object of a class; leaves with NULL if there is no memory."""
        made = self.fn.call("PyType_GenericAlloc", PTR, cls, count, pure=False)
        with self.fn.when(made == self.fn.value(0, PTR)):
            self._return(self.fn.value(0, PTR))
        return made

    def _place(self, name):
        return self.fn.gep(self.made, self.slots[name], "i8")

    def _keep(self, name, item):
        self.fn.call("Py_IncRef", "void", item)
        self.fn.store(item, self._place(name), 8)

    def _number(self, name, value):
        number = self.fn.call("PyLong_FromLongLong", PTR, value, pure=False)
        self.fn.store(number, self._place(name), 8)

    def _truth(self, condition):
        true, false = (V(self.fn, PTR, f"@_Py_{name}Struct") for name in ("True", "False"))
        return self.fn.select(condition, true, false)

    # -- the work --------------------------------------------------------------------------------
    def _walk(self, sizes, strides, ndim):
        """Elements, whether they lie loosely, whether a stride of a size 1 is odd: three cells."""
        fn = self.fn
        numel, loose, odd = (fn.var(fn.value(start, I64)) for start in (1, 0, 0))
        with fn.loop(0, ndim) as i:
            k = ndim - 1 - i
            item, step = self._item(sizes, k), self._item(strides, k)
            self._leave_unless(self._is_a(item, "PyLong_Type") & self._is_a(step, "PyLong_Type"))
            size, stride = self._integer(item), self._integer(step)
            limit = fn.value(HUGE, I64)
            fits = (size >= 0) & (size < limit) & (stride < limit) & (stride > -HUGE)
            small = fn.value(1 << 22, I64)
            self._leave_unless(fits & ((numel.get() < small) | (size < small)))
            differs = self.fn.select(stride != numel.get(), fn.value(1, I64), fn.value(0, I64))

            def one(differs=differs):
                odd.set(odd.get() | differs)

            def many(differs=differs, size=size):
                loose.set(loose.get() | differs)
                numel.set(numel.get() * size)

            fn.if_else(size == 1, one, many)
        return numel, loose, odd

    def _shape(self, size, sizes, ndim):
        """The slot of `shape`: sizes as a Size, which is a tuple by another name."""
        fn, shape = self.fn, self._allocated(size, ndim)
        with fn.loop(0, ndim) as k:
            item = self._item(sizes, k)
            fn.call("Py_IncRef", "void", item)
            fn.call("PyTuple_SetItem", "i32", shape, k, item, pure=False)
        fn.store(shape, self._place("shape"), 8)

    def _pool(self, pools, device, nbytes):
        """The slot of `pool`, where a list of the device knows it; else None."""
        fn, nothing = self.fn, self.fn.value(0, PTR)
        found = fn.var(V(fn, PTR, "@_Py_NoneStruct"))
        small = fn.call("PyDict_GetItem", PTR, pools, device, pure=False)
        with fn.when(small != nothing):
            line = (nbytes + 63) >> 6
            with fn.when(line < fn.call("PyList_Size", I64, small, pure=False)):
                found.set(fn.call("PyList_GetItem", PTR, small, line, pure=False))
        self._keep("pool", found.get())

    def _sort(self, is_dense, ndim, sorts, dtype, device):
        """The slot of `sort`: None where it is not plain, and Python looks closer."""
        fn, nothing = self.fn, self.fn.value(0, PTR)
        found = fn.var(V(fn, PTR, "@_Py_NoneStruct"))
        with fn.when(is_dense & (ndim == 0)):
            found.set(self.made)
        with fn.when(is_dense & (ndim != 0)):
            by_dtype = fn.call("PyDict_GetItem", PTR, sorts, device, pure=False)
            with fn.when(by_dtype != nothing):
                sort = fn.call("PyDict_GetItem", PTR, by_dtype, dtype, pure=False)
                with fn.when(sort != nothing):
                    found.set(sort)
        self._keep("sort", found.get())
