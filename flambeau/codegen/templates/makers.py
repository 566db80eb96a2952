"""What native makers of objects are written with: CPython's functions, by short names.

The makers are in objects.py (tensors), objects_layouts.py, objects_viewed.py and objects_joined.py,
members of Tensor that native code answers in objects_members.py.
"""

from flambeau.codegen.loops import I1, I64, PTR, V

RECENT, WAYS = 1 << 11, 4  # layouts that are remembered; those among which one looks for its own
HUGE = 1 << 40  # sizes and strides beyond this are left to Python's integers
DIMS = 12  # of tensors, and items between brackets; beyond that Python counts
CONSTANTS = (
    "Layout Size sorts pools worked_out complete Tensor Storage Pool "
    "new_tensor View plain no_grad host dim keepdim inside beginning version view_kind "
    "told lent nothing arrays f32 f64 i64 bool i32 bf16 f16 u8 i8 i16"
).split()


class Maker:
    """A native function under construction, and what Python would say in a line."""

    def __init__(self, fn, own, slots):
        self.fn, self.own, self.slots = fn, own, slots
        self.nothing = fn.value(0, PTR)
        self.none = V(fn, PTR, "@_Py_NoneStruct")

    def constant(self, name):
        return self.item(self.own, self.fn.value(CONSTANTS.index(name), I64))

    def inner(self, name, *args):
        """What another native function gives; the reference is ours."""
        return self.fn.call(f"inner_{name}", PTR, self.own, *args, pure=False)

    def python(self, name, *args):
        """What a Python function among the constants gives."""
        call = "PyObject_CallOneArg" if args else "PyObject_CallNoArgs"
        return self.fn.call(call, PTR, self.constant(name), *args, pure=False)

    def item(self, items, k):
        return self.fn.call("PyTuple_GetItem", PTR, items, self.fn.value(k, I64), pure=False)

    def length(self, items):
        return self.fn.call("PyTuple_Size", I64, items, pure=False)

    def integer(self, item):
        return self.fn.call("PyLong_AsLongLong", I64, item, pure=False)

    def exact(self, item, *held):
        """The value of an integer; those beyond 64 bits are left to Python."""
        value = self.integer(item)
        error = self.fn.call("PyErr_Occurred", PTR, pure=False)
        with self.fn.when(error != self.nothing):
            self.fn.call("PyErr_Clear", "void")
            self.refuse(*held)
        return value

    def number(self, value):
        return self.fn.call("PyLong_FromLongLong", PTR, self.fn.value(value, I64), pure=False)

    def numbers(self, cells, count, *held):
        """A tuple of the first of an array of integers."""
        made = self.made(self.fn.call("PyTuple_New", PTR, count, pure=False), *held)
        with self.fn.loop(0, count) as k:
            self.fill(made, k, self.number(self.fn.load(self.fn.gep(cells, k, I64), I64)))
        return made

    def fill(self, items, k, value):
        """items[k] = value, a reference that is ours to give."""
        self.fn.call("PyTuple_SetItem", "i32", items, self.fn.value(k, I64), value, pure=False)

    def truth(self, condition):
        true, false = (V(self.fn, PTR, f"@_Py_{name}Struct") for name in ("True", "False"))
        return self.fn.select(condition, true, false)

    def is_true(self, item):
        return item == V(self.fn, PTR, "@_Py_TrueStruct")

    def kind(self, item):
        return self.fn.load(self.fn.gep(item, 1, I64), PTR)

    def is_a(self, item, name):
        return self.fn.pure(f"icmp eq {self.kind(item)}, @{name}", I1)

    def is_odd(self, item):
        """Is this True or 1.0, which dictionaries take for 1?"""
        return self.is_a(item, "PyFloat_Type") | self.is_a(item, "PyBool_Type")

    def is_tensor(self, item):
        kind, cls = self.kind(item), self.constant("Tensor")
        found = self.fn.var(kind == cls)
        with self.fn.when(~found.get()):
            found.set(self.fn.call("PyType_IsSubtype", "i32", kind, cls, pure=False) != 0)
        return found.get()

    def own_reference(self, item):
        self.fn.call("Py_IncRef", "void", item)
        return item

    def let_go(self, *items):
        for item in items:
            self.fn.call("Py_DecRef", "void", item)

    def leave(self, value):
        self.fn.line(f"ret {value}")
        self.fn.open(self.fn.label("dead"))

    def refuse(self, *held):
        """Let Python do it; nothing has been made yet but what is held."""
        self.let_go(*held)
        self.leave(self.own_reference(self.none))

    def leave_unless(self, condition, *held):
        with self.fn.when(~condition):
            self.refuse(*held)

    def made(self, item, *held):
        """An item, unless it is NULL: then the error stands and held are let go."""
        with self.fn.when(item == self.nothing):
            self.let_go(*held)
            self.leave(self.nothing)
        return item

    def new(self, cls, *held, count=0):
        """A new object of a class."""
        count = self.fn.value(count, I64)
        return self.made(self.fn.call("PyType_GenericAlloc", PTR, cls, count, pure=False), *held)

    def get(self, item, cls, slot):
        return self.fn.load(self.fn.gep(item, self.slots[cls, slot], "i8"), PTR)

    def put(self, item, cls, slot, value):
        """Store a reference that is ours to give."""
        self.fn.store(value, self.fn.gep(item, self.slots[cls, slot], "i8"), 8)

    def keep(self, item, cls, slot, value):
        """Store a reference of its own."""
        self.put(item, cls, slot, self.own_reference(value))
