"""Native views: x[...] with integers, slices, None and Ellipsis, and reshapes of dense tensors.

Builtins beside those of objects.py. They answer None to everything they do not know, mistakes
among it; eager/subscripts.py and eager/viewing.py then do the work or complain.
"""

from flambeau.codegen.loops import I64, PTR, V
from flambeau.codegen.templates.makers import DIMS, HUGE

MOST = 1 << 31  # elements of new tensors; beyond that Python looks at what there is room for


def _subscript(m, input, key, recording):
    """input[key], a view, unless it must be recorded."""
    m.leave_unless(m.is_tensor(input))
    fn, several = m.fn, m.is_a(key, "PyTuple_Type")
    count = fn.if_else(several, lambda: m.length(key), lambda: fn.value(1, I64))
    place = _Place(m, input)
    m.leave_unless((place.ndim <= DIMS) & (count <= DIMS))
    with fn.loop(0, count) as n:
        item = fn.if_else(several, lambda: m.item(key, n), lambda: key)
        _one_of(
            m,
            [
                (m.is_a(item, "PyLong_Type"), lambda: place.select(item)),
                (m.is_a(item, "PySlice_Type"), lambda: place.cut(item)),
                (item == m.none, place.insert),
                (
                    item == V(m.fn, PTR, "@_Py_EllipsisObject"),
                    lambda: place.skip(key, n, count),
                ),
            ],
            m.refuse,
        )
    with fn.loop(place.dim.get(), place.ndim):
        place.take()
    fn.ret(place.view(input, recording))


def _one_of(m, cases, otherwise):
    """if ... elif ... else."""
    if not cases:
        return otherwise()
    (condition, then), *rest = cases
    return m.fn.if_else(condition, then, lambda: _one_of(m, rest, otherwise))


class _Place:
    """A view that comes into being: sizes and strides so far, and where it begins."""

    def __init__(self, m, input):
        fn, self.m = m.fn, m
        self.layout = m.get(input, "Tensor", "_layout")
        self.of_sizes = m.get(self.layout, "Layout", "sizes")
        self.of_strides = m.get(self.layout, "Layout", "strides")
        self.ndim = m.length(self.of_sizes)
        self.sizes, self.strides = fn.alloca(I64, 2 * DIMS), fn.alloca(I64, 2 * DIMS)
        self.dim, self.rank, self.offset = (fn.var(fn.value(0, I64)) for _ in range(3))
        self.ends = [fn.alloca(I64) for _ in range(3)]

    def here(self):
        """(size, stride) of the dimension that is next."""
        dim = self.dim.get()
        return [self.m.integer(self.m.item(of, dim)) for of in (self.of_sizes, self.of_strides)]

    def put(self, size, stride):
        fn, rank = self.m.fn, self.rank.get()
        fn.store(size, fn.gep(self.sizes, rank, I64))
        fn.store(stride, fn.gep(self.strides, rank, I64))
        self.rank.set(rank + 1)

    def take_from(self, dim):
        """A dimension as it is."""
        self.dim.set(dim)
        self.put(*self.here())

    def take(self):
        """The next dimension as it is."""
        self.put(*self.here())
        self.dim.set(self.dim.get() + 1)

    def select(self, item):
        m, fn = self.m, self.m.fn
        m.leave_unless(self.dim.get() < self.ndim)
        size, stride = self.here()
        index = fn.var(m.exact(item))
        with fn.when(index.get() < 0):
            index.set(index.get() + size)
        m.leave_unless((index.get() >= 0) & (index.get() < size))
        self.offset.set(self.offset.get() + index.get() * stride)
        self.dim.set(self.dim.get() + 1)

    def cut(self, item):
        m, fn, (start, stop, step) = self.m, self.m.fn, self.ends
        m.leave_unless(self.dim.get() < self.ndim)
        for slot in ("start", "stop", "step"):
            end = m.get(item, "slice", slot)
            m.leave_unless((end == m.none) | m.is_a(end, "PyLong_Type"))
        size, stride = self.here()
        read = fn.call("PySlice_Unpack", "i32", item, start, stop, step, pure=False)
        with fn.when(read < 0):
            fn.call("PyErr_Clear", "void")
            m.refuse()
        by = fn.load(step, I64)
        m.leave_unless((by > 0) & (by < HUGE))
        length = fn.call("PySlice_AdjustIndices", I64, size, start, stop, by, pure=False)
        self.offset.set(self.offset.get() + fn.load(start, I64) * stride)
        self.put(length, stride * by)
        self.dim.set(self.dim.get() + 1)

    def insert(self):
        fn, step = self.m.fn, self.m.fn.var(self.m.fn.value(1, I64))
        with fn.when(self.dim.get() < self.ndim):
            size, stride = self.here()
            step.set(size * stride)
        self.put(fn.value(1, I64), step.get())

    def skip(self, items, at, count):
        """Ellipsis: whatever dimensions the items after it leave."""
        m, fn = self.m, self.m.fn
        left = fn.var(self.ndim - self.dim.get())
        with fn.loop(at + 1, count) as k:
            other = m.item(items, k)
            m.leave_unless(other != V(fn, PTR, "@_Py_EllipsisObject"))
            with fn.when(other != m.none):
                left.set(left.get() - 1)
        m.leave_unless(left.get() >= 0)
        with fn.loop(0, left.get()):
            self.take()

    def view(self, input, recording):
        m = self.m
        offset = self.offset.get() * m.integer(m.get(self.layout, "Layout", "itemsize"))
        return _view_of(
            m, input, self.layout, self.sizes, self.strides, self.rank.get(), offset, recording
        )


def _view_of(m, input, layout, sizes, strides, rank, offset, recording):
    """A view of input with sizes and strides from arrays, so many bytes after its beginning."""
    dtype, device = m.get(layout, "Layout", "dtype"), m.get(layout, "Layout", "device")
    new = m.made(m.inner("found", sizes, strides, rank, dtype, device))
    place = m.integer(m.get(input, "Tensor", "_offset")) + offset
    made = m.made(m.inner("share", input, new, m.number(place), recording), new)
    m.let_go(new)
    # PyTorch: a view of what needs gradients does too, though it may have no history
    with m.fn.when(m.is_true(m.get(input, "Tensor", "_requires_grad"))):
        true = V(m.fn, PTR, "@_Py_TrueStruct")
        m.let_go(m.get(made, "Tensor", "_requires_grad"))
        m.keep(made, "Tensor", "_requires_grad", true)
    return made


def _reshaped(m, input, shape, recording):
    """A view of a dense tensor in another shape, (2, -1) or ((2, -1),), unless it is recorded."""
    fn, shape = m.fn, _unpacked(m, shape)
    m.leave_unless(m.is_tensor(input))
    layout = m.get(input, "Tensor", "_layout")
    m.leave_unless(m.is_true(m.get(layout, "Layout", "is_dense")))
    m.leave_unless(~m.is_true(m.get(input, "Tensor", "_requires_grad")))
    rank, numel = m.length(shape), m.integer(m.get(layout, "Layout", "numel"))
    m.leave_unless((rank <= DIMS) & (numel > 0))
    sizes, strides = fn.alloca(I64, DIMS), fn.alloca(I64, DIMS)
    product, open_at = fn.var(fn.value(1, I64)), fn.var(fn.value(-1, I64))
    with fn.loop(0, rank) as k:
        item = m.item(shape, k)
        m.leave_unless(m.is_a(item, "PyLong_Type"))
        size = m.exact(item)
        with fn.when(size == -1):
            m.leave_unless(open_at.get() < 0)
            open_at.set(k)
        with fn.when(size != -1):
            m.leave_unless((size > 0) & (size <= numel) & (product.get() <= numel))
            product.set(product.get() * size)
        fn.store(size, fn.gep(sizes, k, I64))
    with fn.when(open_at.get() >= 0):
        m.leave_unless(numel % product.get() == 0)
        missing = numel // product.get()
        fn.store(missing, fn.gep(sizes, open_at.get(), I64))
        product.set(product.get() * missing)
    m.leave_unless(product.get() == numel)
    step = fn.var(fn.value(1, I64))
    with fn.loop(0, rank) as k:
        at = rank - 1 - k
        fn.store(step.get(), fn.gep(strides, at, I64))
        step.set(step.get() * fn.load(fn.gep(sizes, at, I64), I64))
    fn.ret(_view_of(m, input, layout, sizes, strides, rank, fn.value(0, I64), recording))


def _plain_place(m, input):
    """A place in an input of few dimensions that nobody records."""
    m.leave_unless(m.is_tensor(input))
    place = _Place(m, input)
    m.leave_unless(place.ndim <= DIMS)
    m.leave_unless(~m.is_true(m.get(input, "Tensor", "_requires_grad")))
    return place


def _wrapped(m, item, count):
    """The number of a dimension, of so many."""
    fn = m.fn
    m.leave_unless(m.is_a(item, "PyLong_Type"))
    dim = fn.var(m.exact(item))
    with fn.when(dim.get() < 0):
        dim.set(dim.get() + count)
    m.leave_unless((dim.get() >= 0) & (dim.get() < count))
    return dim.get()


def _turned(m, input, dim0, dim1, recording):
    """A view with two dimensions exchanged."""
    fn, place = m.fn, _plain_place(m, input)
    first, second = (_wrapped(m, dim, place.ndim) for dim in (dim0, dim1))
    with fn.loop(0, place.ndim) as k:
        other = fn.select(k == second, first, k)
        place.take_from(fn.select(k == first, second, other))
    fn.ret(place.view(input, recording))


def _permuted(m, input, order, recording):
    """A view with dimensions in another order, (1, 0) or ((1, 0),)."""
    fn, place = m.fn, _plain_place(m, input)
    order, seen = _unpacked(m, order), fn.var(fn.value(0, I64))
    m.leave_unless(m.length(order) == place.ndim)
    with fn.loop(0, place.ndim) as k:
        dim = _wrapped(m, m.item(order, k), place.ndim)
        seen.set(seen.get() | (fn.value(1, I64) << dim))
        place.take_from(dim)
    m.leave_unless(seen.get() == (fn.value(1, I64) << place.ndim) - 1)
    fn.ret(place.view(input, recording))


def _unsqueezed(m, input, dim, recording):
    """A view with one more dimension of size one."""
    fn, place = m.fn, _plain_place(m, input)
    at = _wrapped(m, dim, place.ndim + 1)
    with fn.loop(0, at):
        place.take()
    place.insert()
    with fn.loop(at, place.ndim):
        place.take()
    fn.ret(place.view(input, recording))


def _expanded(m, input, shape, recording):
    """A view with dimensions of size one repeated, (2, -1) or ((2, -1),)."""
    fn, place = m.fn, _plain_place(m, input)
    shape = _unpacked(m, shape)
    rank, zero = m.length(shape), fn.value(0, I64)
    m.leave_unless((rank >= place.ndim) & (rank <= DIMS))
    more = rank - place.ndim
    with fn.loop(0, rank) as k:
        item = m.item(shape, k)
        m.leave_unless(m.is_a(item, "PyLong_Type"))
        wanted = m.exact(item)
        with fn.when(k < more):
            m.leave_unless((wanted >= 0) & (wanted < HUGE) & (wanted != 1))
            place.put(wanted, zero)
        with fn.when(k >= more):
            size, stride = place.here()
            keeps = (wanted == size) | (wanted == -1)
            m.leave_unless(keeps | ((size == 1) & (wanted >= 0) & (wanted < HUGE)))
            place.put(fn.select(keeps, size, wanted), fn.select(keeps, stride, zero))
            place.dim.set(place.dim.get() + 1)
    fn.ret(place.view(input, recording))


def _unpacked(m, shape):
    """The sizes in a tuple of arguments, which may be one tuple."""
    found = m.fn.var(shape)
    with m.fn.when(m.length(shape) == 1):
        only = m.item(shape, 0)
        with m.fn.when(m.is_a(only, "PyTuple_Type") | (m.kind(only) == m.constant("Size"))):
            found.set(only)
    return found.get()


def _sized(m, shape, dtype, device):
    """A new dense tensor of some size, (2, 3) or ((2, 3),), with something in it."""
    fn, shape = m.fn, _unpacked(m, shape)
    rank, numel = m.length(shape), fn.var(fn.value(1, I64))
    m.leave_unless(rank <= DIMS)
    sizes, strides = fn.alloca(I64, DIMS), fn.alloca(I64, DIMS)
    with fn.loop(0, rank) as k:
        at = rank - 1 - k
        item = m.item(shape, at)
        m.leave_unless(m.is_a(item, "PyLong_Type"))
        size = m.exact(item)
        m.leave_unless((size > 0) & (size < MOST) & (numel.get() < MOST))
        fn.store(size, fn.gep(sizes, at, I64))
        fn.store(numel.get(), fn.gep(strides, at, I64))
        numel.set(numel.get() * size)
    m.leave_unless(numel.get() < MOST)
    layout = m.made(m.inner("found", sizes, strides, rank, dtype, device))
    made = m.inner("fresh", layout)
    m.let_go(layout)
    fn.ret(made)


BUILTINS = (
    ("subscript", 3, _subscript),
    ("reshaped", 3, _reshaped),
    ("turned", 4, _turned),
    ("permuted", 3, _permuted),
    ("unsqueezed", 3, _unsqueezed),
    ("expanded", 3, _expanded),
    ("sized", 3, _sized),
)
