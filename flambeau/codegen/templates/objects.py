"""Native makers of the objects that every call makes: layouts, fresh tensors, views.

Each is a CPython builtin that allocates an object of a Python class and fills in its slots; `self`
is a tuple with the classes and constants they need (`CONSTANTS` in makers.py). Where slots lie in
objects is found out by whoever builds this (`runtime/cpu.py`), so nothing here depends on how
CPython lays classes out. What native code does not care to do it leaves to Python: `worked_out` in
_layout.py, `new_tensor` and `new_view` in _tensor say the same in plain words, and subscripts,
reshapes and joins that are answered with None go the way of plans.
"""

from itertools import chain

from flambeau.codegen.llvm_cpu import module_text
from flambeau.codegen.loops import I64, PTR, Module, V
from flambeau.codegen.templates import (
    objects_joined,
    objects_layouts,
    objects_members,
    objects_viewed,
)
from flambeau.codegen.templates.makers import RECENT, Maker

_PARTS = (objects_layouts, objects_viewed, objects_joined, objects_members)
_STATICS = (
    "PyTuple_Type PyList_Type PyLong_Type PyFloat_Type PyBool_Type PySlice_Type "
    "_Py_TrueStruct _Py_FalseStruct _Py_EllipsisObject"
)


def build(slots):
    """IR of all makers. slots: (class, slot) -> byte offset, as pairs."""
    module, slots = Module(), dict(slots)
    for name, types, body in (*objects_layouts.INNER, *_INNER):
        parameters = [(PTR, "own"), *[(type, f"a{k}") for k, type in enumerate(types)]]
        fn = module.function(f"inner_{name}", parameters, result=PTR, internal=True)
        body(Maker(fn, fn.params[0], slots), *fn.params[1:])
    for name, count, body in chain(_BUILTINS, *[part.BUILTINS for part in _PARTS]):
        parameters = [(PTR, "self"), (PTR, "args"), (I64, "count")]
        fn = module.function(name, parameters, result=PTR)
        own, args, number = fn.params
        given = [fn.load(fn.gep(args, k, PTR), PTR) for k in range(count)]
        maker = Maker(fn, own, slots)
        maker.args, maker.count = args, number
        body(maker, *given)
    objects_members.build(module, slots)
    known = "".join(f"@{name} = external global i8\n" for name in _STATICS.split())
    for table, type in (("recent", "ptr"), ("recent_hashes", "i64")):
        known += f"@{table} = internal global [{RECENT} x {type}] zeroinitializer, align 64\n"
    return known + module_text(module)


VIEWS = ("subscript", "reshaped", "turned", "permuted", "unsqueezed", "expanded")
LAYOUTS = ("layout", "dense", "enter")
NAMES = (
    *LAYOUTS,
    "fresh",
    "share",
    *VIEWS,
    "sized",
    "joined",
    "reduced",
    "integers",
    "even",
    "from_array",
)


def _fields(m, made, layout, storage, offset):
    """What every new tensor has; storage and offset are given away."""
    m.keep(made, "Tensor", "_layout", layout)
    m.put(made, "Tensor", "_storage", storage)
    m.put(made, "Tensor", "_offset", offset)
    for slot in ("_grad", "_grad_fn", "_extra"):
        m.keep(made, "Tensor", slot, m.none)
    m.put(made, "Tensor", "_output_nr", m.number(0))


def _begins_with(m, name, usual):
    """What something new begins with: the usual value, if no thread is in inference mode."""
    found = m.fn.var(usual)
    with m.fn.when(m.fn.call("PyList_Size", I64, m.constant("inside"), pure=False) != 0):
        m.let_go(usual)
        asked = m.constant("beginning"), m.constant(name)
        found.set(m.fn.call("PyObject_GetAttr", PTR, *asked, pure=False))
    return found.get()


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
    m.put(storage, "Storage", "version", _begins_with(m, "version", m.number(0)))
    m.keep(storage, "Storage", "nbytes", m.get(layout, "Layout", "nbytes"))
    made = m.new(m.constant("Tensor"), storage)
    _fields(m, made, layout, storage, m.number(0))
    m.keep(made, "Tensor", "_requires_grad", V(fn, PTR, "@_Py_FalseStruct"))
    m.keep(made, "Tensor", "_view", m.none)
    fn.ret(made)


def _borrowed(m, layout, pointer, owner):
    """A tensor over memory of an owner who is kept alive; layout and pointer are given away."""
    fn = m.fn
    storage = m.new(m.constant("Storage"), layout, pointer)
    m.put(storage, "Storage", "pointer", pointer)
    m.keep(storage, "Storage", "give", m.constant("nothing"))
    m.put(storage, "Storage", "version", _begins_with(m, "version", m.number(0)))
    m.keep(storage, "Storage", "nbytes", m.get(layout, "Layout", "nbytes"))
    m.keep(storage, "Storage", "owner", owner)
    made = m.new(m.constant("Tensor"), layout, storage)
    _fields(m, made, layout, storage, m.number(0))
    m.keep(made, "Tensor", "_requires_grad", V(fn, PTR, "@_Py_FalseStruct"))
    m.keep(made, "Tensor", "_view", m.none)
    m.let_go(layout)
    fn.ret(made)


def _share(m, input, layout, offset, recording):
    """A tensor over the memory of input, without history; the offset is given away."""
    fn, plain = m.fn, m.constant("plain")
    silent = _begins_with(m, "view_kind", m.own_reference(m.constant("no_grad")))
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
    m.let_go(silent)
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
    """A tensor for the result of a reduction; None where its dim is odd or its keepdim an int.

    Without a layout it is only True.
    """
    fn, given = m.fn, m.length(args)
    with fn.when(given > 0):
        _leave_if_odd(m, m.item(args, 0), 0)
    with fn.when(given > 1):
        m.leave_unless(~m.is_a(m.item(args, 1), "PyLong_Type"))
    with fn.when(fn.call("PyDict_Size", I64, kwargs, pure=False) > 0):
        dim, keepdim = (
            fn.call("PyDict_GetItem", PTR, kwargs, m.constant(name), pure=False)
            for name in ("dim", "keepdim")
        )
        with fn.when(dim != m.nothing):
            _leave_if_odd(m, dim, 0)
        with fn.when(keepdim != m.nothing):
            m.leave_unless(~m.is_a(keepdim, "PyLong_Type"))
    with fn.when(layout == m.none):
        m.leave(m.own_reference(V(fn, PTR, "@_Py_TrueStruct")))
    fn.ret(m.inner("fresh", layout))


def _integers(m, items):
    """Is this a tuple of nothing but integers? True is none, though it is equal to 1."""
    fn, no = m.fn, V(m.fn, PTR, "@_Py_FalseStruct")
    with fn.when(~(m.is_a(items, "PyTuple_Type") | (m.kind(items) == m.constant("Size")))):
        m.leave(m.own_reference(no))
    with fn.loop(0, m.length(items)) as k, fn.when(~m.is_a(m.item(items, k), "PyLong_Type")):
        m.leave(m.own_reference(no))
    fn.ret(m.own_reference(V(fn, PTR, "@_Py_TrueStruct")))


def _even(m):
    """True unless an argument is odd, or a tuple that holds such; then None."""
    with m.fn.loop(0, m.count) as k:
        _leave_if_odd(m, m.fn.load(m.fn.gep(m.args, k, PTR), PTR), 0)
    m.fn.ret(m.own_reference(V(m.fn, PTR, "@_Py_TrueStruct")))


def _view(m, input, layout, offset, recording):
    """A view; None where further arguments, those of the call, are odd."""
    with m.fn.loop(4, m.count) as k:
        _leave_if_odd(m, m.fn.load(m.fn.gep(m.args, k, PTR), PTR), 1)
    m.fn.ret(m.inner("share", input, layout, m.own_reference(offset), recording))


_INNER = (
    ("fresh", (PTR,), _fresh),
    ("share", (PTR,) * 4, _share),
    ("borrowed", (PTR,) * 3, _borrowed),
)
_BUILTINS = (
    ("fresh", 1, lambda m, layout: m.fn.ret(m.inner("fresh", layout))),
    ("share", 4, _view),
    ("reduced", 3, _reduced),
    ("integers", 1, _integers),
    ("even", 0, _even),
)
