"""Native members of Tensor: properties that are fields, methods that look at a tensor or read it.

What they are attached as is in runtime/descriptors.py. Each knows the Python function it stands
for, and calls it where it does not know better: other arguments, other devices, mistakes, and
whenever the function does not have its own code, since somebody stands around it then.
"""

from flambeau.codegen.llvm import from_memory
from flambeau.codegen.llvm_names import MEMORY_TYPE
from flambeau.codegen.loops import I1, I64, PTR
from flambeau.codegen.templates.makers import DIMS, Maker
from flambeau.codegen.templates.readers import number

READ = "f32 f64 i64 bool i32 bf16 f16 u8 i8 i16".split()  # dtypes, in the order in which they come
_SET_SLOT = 55  # Py_tp_descr_set
_COUNT = (1 << 63) - 1  # the other bit says that a word before the arguments may be written
# NumPy's binary interface: functions in its table, words of an array, a flag
_ARRAY_TYPE, _NEW_ARRAY, _SET_BASE = 2, 94, 282
_DATA, _NDIM, _DIMENSIONS, _STRIDES, _DESCR, _FLAGS = 16, 24, 32, 40, 56, 64
_WRITEABLE = 0x400


class Member(Maker):
    """A native member under construction; what it refuses, the Python function does."""

    def __init__(self, fn, slots, call, cls="Tensor"):
        member, self.call = fn.params[0], call
        super().__init__(fn, fn.value(0, PTR), slots)
        self.member = member
        self.own = self.get(member, "member", "own")
        self.function = self.get(member, "member", "function")
        same = self.get(self.function, "function", "code") == self.get(member, "member", "code")
        self.leave_unless(same)

    def refuse(self, *held):
        self.let_go(*held)
        self.leave(self.call(self))

    def layout(self, tensor):
        """Its layout, one with strides."""
        self.leave_unless(self.is_tensor(tensor))
        found = self.get(tensor, "Tensor", "_layout")
        self.leave_unless(self.kind(found) == self.constant("Layout"))
        return found

    def address(self, tensor, layout):
        """Where its elements begin, if they are on the host and nobody records what looks there."""
        self.leave_unless(self.get(layout, "Layout", "device") == self.constant("host"))
        told = self.fn.call("PyList_Size", I64, self.constant("told"), pure=False)
        self.leave_unless(told == 0)
        pointer = self.integer(
            self.get(self.get(tensor, "Tensor", "_storage"), "Storage", "pointer")
        )
        return self.fn.convert(
            "inttoptr", pointer + self.integer(self.get(tensor, "Tensor", "_offset")), PTR
        )


def _given(m):
    """All arguments, to the Python function."""
    _, args, count, names = m.fn.params
    return m.fn.call("PyObject_Vectorcall", PTR, m.function, args, count, names, pure=False)


def build(module, slots):
    """Add all members to a module."""
    _field_get(module, slots)
    _field_set(module, slots)
    _method_get(module, slots, "method_get", lambda member, shown: shown)
    _method_get(module, slots, "method_bound", lambda member, shown: member)
    fn = module.function("method_attribute", [(PTR, "member"), (PTR, "name")], result=PTR)
    shown = Maker(fn, fn.value(0, PTR), slots).get(fn.params[0], "member", "shown")
    fn.ret(fn.call("PyObject_GetAttr", PTR, shown, fn.params[1], pure=False))
    for name, counts, body in METHODS:
        parameters = [(PTR, "member"), (PTR, "args"), (I64, "flagged"), (PTR, "names")]
        fn = module.function(f"method_{name}", parameters, result=PTR)
        m = Member(fn, slots, _given)
        _, args, flagged, names = fn.params
        m.args, m.count = args, flagged & _COUNT
        m.leave_unless(names == m.nothing)
        m.leave_unless((m.count >= counts[0]) & (m.count <= counts[-1]))
        body(m, fn.load(args, PTR))


def _method_get(module, slots, name, bound):
    """Bound methods; the class is given the function."""
    fn = module.function(name, [(PTR, "member"), (PTR, "of"), (PTR, "cls")], result=PTR)
    m = Maker(fn, fn.value(0, PTR), slots)
    member, of, _ = fn.params
    shown = m.get(member, "member", "shown")
    with fn.when(of == m.nothing):
        m.leave(m.own_reference(shown))
    fn.ret(fn.call("PyMethod_New", PTR, bound(member, shown), of, pure=False))


def _field_get(module, slots):
    """x.shape and the like: two words away from the object; the class is given the property."""
    fn = module.function("field_get", [(PTR, "member"), (PTR, "of"), (PTR, "cls")], result=PTR)
    member, of, _ = fn.params
    plain = Maker(fn, fn.value(0, PTR), slots)
    with fn.when((of == plain.nothing) | (of == plain.none)):
        plain.leave(plain.own_reference(plain.get(member, "member", "shown")))

    def python(m):
        return fn.call("PyObject_CallOneArg", PTR, m.function, of, pure=False)

    m = Member(fn, slots, python)
    m.leave_unless(m.is_tensor(of))
    outer, inner = (
        fn.load(fn.gep(member, slots["member", name], "i8"), I64) for name in ("outer", "inner")
    )
    found = fn.var(fn.load(fn.gep(of, outer, "i8"), PTR))
    m.leave_unless(found.get() != m.nothing)
    with fn.when(inner >= 0):
        found.set(fn.load(fn.gep(found.get(), inner, "i8"), PTR))
    m.leave_unless(found.get() != m.nothing)
    fn.ret(m.own_reference(found.get()))


def _field_set(module, slots):
    """Whatever the property does."""
    fn = module.function("field_set", [(PTR, "member"), (PTR, "of"), (PTR, "value")], result="i32")
    member, of, value = fn.params
    m = Maker(fn, fn.value(0, PTR), slots)
    shown = m.get(member, "member", "shown")
    number = fn.value(_SET_SLOT, "i32")
    act = fn.call("PyType_GetSlot", PTR, m.kind(shown), number, pure=False)
    fn.ret(fn.emit(f"call i32 {act.name}({shown}, {of}, {value})", "i32"))


# -- looking ---------------------------------------------------------------------------------------


def _entry(slot):
    """size(dim) and stride(dim), and all of them without an argument."""

    def body(m, tensor):
        fn, layout = m.fn, m.layout(tensor)
        with fn.when(m.count == 1):
            m.leave(m.own_reference(m.get(layout, "Layout", slot)))
        items = m.get(layout, "Layout", "sizes" if slot == "shape" else slot)
        which = fn.load(fn.gep(m.args, 1, PTR), PTR)
        m.leave_unless(m.is_a(which, "PyLong_Type"))
        dim, length = fn.var(m.exact(which)), m.length(items)
        with fn.when(dim.get() < 0):
            dim.set(dim.get() + length)
        m.leave_unless((dim.get() >= 0) & (dim.get() < length))
        fn.ret(m.own_reference(m.item(items, dim.get())))

    return body


def _fact(slot):
    """dim(), numel() and other facts of a layout."""

    def body(m, tensor):
        m.fn.ret(m.own_reference(m.get(m.layout(tensor), "Layout", slot)))

    return body


def _length(m, tensor):
    sizes = m.get(m.layout(tensor), "Layout", "sizes")
    m.leave_unless(m.length(sizes) > 0)
    m.fn.ret(m.own_reference(m.item(sizes, m.fn.value(0, I64))))


# -- reading ---------------------------------------------------------------------------------------


def _by_dtype(m, layout, codes, then):
    """Leave with what then(code) gives for the dtype of a layout, if it is one of these."""
    fn, dtype = m.fn, m.get(layout, "Layout", "dtype")
    for code in codes:
        with fn.when(dtype == m.constant(code)):
            m.leave(then(code))
    fn.ret(m.call(m))


def _only(m, tensor):
    """(layout, address) of a tensor with one element."""
    layout = m.layout(tensor)
    m.leave_unless(m.integer(m.get(layout, "Layout", "numel")) == 1)
    return layout, m.address(tensor, layout)


def _value(m, place, code):
    return from_memory(m.fn, m.fn.load(place, MEMORY_TYPE[code]), code)


def _item(m, tensor):
    layout, place = _only(m, tensor)
    _by_dtype(m, layout, READ, lambda code: number(m.fn, _value(m, place, code), code))


def _as_float(m, tensor):
    fn, (layout, place) = m.fn, _only(m, tensor)

    def wide(code):
        value = _value(m, place, code)
        value = fn.convert("fpext" if code in _FLOATS else "sitofp", value, "double")
        return fn.call("PyFloat_FromDouble", PTR, value, pure=False)

    _by_dtype(m, layout, (*_FLOATS, "i64", "i32"), wide)


def _as_int(m, tensor):
    layout, place = _only(m, tensor)
    whole = [code for code in READ if code[0] in "iu"]
    _by_dtype(m, layout, whole, lambda code: number(m.fn, _value(m, place, code), code))


def _truth(m, tensor):
    fn, (layout, place) = m.fn, _only(m, tensor)

    def is_true(code):
        value = _value(m, place, code)
        condition = "fcmp une" if code in _FLOATS else "icmp ne"
        zero = "0.0" if code in _FLOATS else "0"
        return m.own_reference(m.truth(fn.pure(f"{condition} {value}, {zero}", I1)))

    _by_dtype(m, layout, ("bool", "f32", "f64", "i64", "i32"), is_true)


def _list(m, tensor):
    """tolist() of a vector."""
    fn, layout = m.fn, m.layout(tensor)
    m.leave_unless(m.is_true(m.get(layout, "Layout", "is_contiguous")))
    m.leave_unless(m.integer(m.get(layout, "Layout", "ndim")) == 1)
    place, count = m.address(tensor, layout), m.integer(m.get(layout, "Layout", "numel"))

    def numbers(code):
        found = m.made(fn.call("PyList_New", PTR, count, pure=False))
        with fn.loop(0, count) as k:
            one = number(fn, _value(m, fn.gep(place, k, MEMORY_TYPE[code]), code), code)
            fn.call("PyList_SetItem", "i32", found, k, one, pure=False)
        return found

    _by_dtype(m, layout, READ, numbers)


_FLOATS = ("f32", "f64", "bf16", "f16")


# -- NumPy -----------------------------------------------------------------------------------------


def _table(m):
    """NumPy's table of functions; there is none as long as no array was made in plain words."""
    found = m.fn.call("PyDict_GetItem", PTR, m.constant("arrays"), m.none, pure=False)
    m.leave_unless(found != m.nothing)
    return m.fn.convert("inttoptr", m.integer(found), PTR)


def _array(m, tensor):
    """numpy() of a tensor that wants no gradient: an array over the same memory."""
    fn, layout = m.fn, m.layout(tensor)
    m.leave_unless(~m.is_true(m.get(tensor, "Tensor", "_requires_grad")))
    table, place = _table(m), m.address(tensor, layout)
    dtype = m.get(layout, "Layout", "dtype")
    descr = fn.call("PyDict_GetItem", PTR, m.constant("arrays"), dtype, pure=False)
    m.leave_unless(descr != m.nothing)
    items = [m.get(layout, "Layout", slot) for slot in ("sizes", "strides")]
    rank, size = m.length(items[0]), m.integer(m.get(layout, "Layout", "itemsize"))
    m.leave_unless((rank <= DIMS) & (m.integer(m.get(layout, "Layout", "numel")) > 0))
    cells = [fn.alloca(I64, DIMS) for _ in items]
    with fn.loop(0, rank) as k:
        for of, held, factor in zip(items, cells, (fn.value(1, I64), size)):
            fn.store(m.integer(m.item(of, k)) * factor, fn.gep(held, k, I64))
    storage = m.get(tensor, "Tensor", "_storage")
    owner = m.get(storage, "Storage", "owner")
    lent, unowned = m.constant("lent"), (owner == m.nothing) | (owner == m.none)
    m.leave_unless(unowned | (owner == lent))  # twins, and memory of others: Python knows
    with fn.when(unowned):
        m.keep(storage, "Storage", "owner", lent)
        with fn.when(owner == m.none):
            m.let_go(owner)
    new, rest = fn.load(fn.gep(table, _NEW_ARRAY, PTR), PTR), f"i32 {_WRITEABLE}, ptr null"
    kind = fn.load(fn.gep(table, _ARRAY_TYPE, PTR), PTR)
    short, (sizes, strides) = fn.convert("trunc", rank, "i32"), cells
    m.own_reference(descr)  # which is given away
    made = fn.emit(
        f"call ptr {new.name}({kind}, {descr}, {short}, {sizes}, {strides}, {place}, {rest})", PTR
    )
    m.made(made)
    base = fn.load(fn.gep(table, _SET_BASE, PTR), PTR)
    fn.emit(f"call i32 {base.name}({made}, {m.own_reference(storage)})", "i32")
    fn.ret(made)


def _from_array(m, array):
    """A tensor over the memory of an array that is dense and may be written to."""
    fn, table = m.fn, _table(m)
    m.leave_unless(m.kind(array) == fn.load(fn.gep(table, _ARRAY_TYPE, PTR), PTR))

    def word(place, type):
        return fn.load(fn.gep(array, place, "i8"), type)

    m.leave_unless((word(_FLAGS, "i32") & _WRITEABLE) != 0)
    told = fn.call("PyList_Size", I64, m.constant("told"), pure=False)
    m.leave_unless(told == 0)
    dtype = fn.call("PyDict_GetItem", PTR, m.constant("arrays"), word(_DESCR, PTR), pure=False)
    m.leave_unless(dtype != m.nothing)
    size = m.integer(m.get(dtype, "dtype", "itemsize"))
    rank = fn.convert("zext", word(_NDIM, "i32"), I64)
    m.leave_unless(rank <= DIMS)
    sizes, steps = word(_DIMENSIONS, PTR), word(_STRIDES, PTR)
    strides, dense = fn.alloca(I64, DIMS), fn.var(size)
    with fn.loop(0, rank) as k:
        at = rank - 1 - k
        fn.store(dense.get() // size, fn.gep(strides, at, I64))
        m.leave_unless(fn.load(fn.gep(steps, at, I64), I64) == dense.get())
        dense.set(dense.get() * fn.load(fn.gep(sizes, at, I64), I64))
    m.leave_unless(dense.get() > 0)
    layout = m.made(m.inner("found", sizes, strides, rank, dtype, m.constant("host")))
    pointer = m.number(fn.convert("ptrtoint", word(_DATA, PTR), I64))
    fn.ret(m.inner("borrowed", layout, pointer, array))


# -- memory ----------------------------------------------------------------------------------------


def _give_back(m, storage):
    """What happens when a storage goes: its memory is given back."""
    fn = m.fn
    give, pointer = (m.get(storage, "Storage", name) for name in ("give", "pointer"))
    m.leave_unless((give != m.nothing) & (pointer != m.nothing))
    with fn.when(give == m.constant("nothing")):
        m.leave(m.own_reference(m.none))
    fn.ret(fn.call("PyObject_CallOneArg", PTR, give, pointer, pure=False))


METHODS = (
    ("size", (1, 2), _entry("shape")),
    ("stride", (1, 2), _entry("strides")),
    ("dim", (1,), _fact("ndim")),
    ("numel", (1,), _fact("numel")),
    ("element_size", (1,), _fact("itemsize")),
    ("is_contiguous", (1,), _fact("is_contiguous")),
    ("__len__", (1,), _length),
    ("item", (1,), _item),
    ("__float__", (1,), _as_float),
    ("__int__", (1,), _as_int),
    ("__index__", (1,), _as_int),
    ("__bool__", (1,), _truth),
    ("tolist", (1,), _list),
    ("numpy", (1,), _array),
    ("__del__", (1,), _give_back),
)
FIELDS: dict[str, tuple] = {
    name: ("_layout", name) for name in ("shape", "dtype", "device", "ndim")
}
FIELDS["requires_grad"] = ("_requires_grad",)
OTHERS = ("field_get", "field_set", "method_get", "method_bound", "method_attribute")
NAMES = (*OTHERS, *[f"method_{name}" for name, _, _ in METHODS])
BUILTINS = (("from_array", 1, _from_array),)
