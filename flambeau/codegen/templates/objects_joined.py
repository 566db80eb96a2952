"""Native joins: cat along the first dimension, and stack in front, of dense tensors of one kind.

A builtin beside those of objects.py. Few bytes are copied on the spot; what is large, scattered or
of several dtypes is answered with None and goes through plans (eager/joining.py).
"""

from flambeau.codegen.loops import I64, PTR
from flambeau.codegen.templates.makers import DIMS

MUCH = 1 << 18  # bytes from which threads may be worth their while, as in eager/joining.py


def _joined(m, tensors, stacked):
    """cat(tensors) or, if stacked, stack(tensors)."""
    fn = m.fn
    m.leave_unless(m.is_a(tensors, "PyTuple_Type") | m.is_a(tensors, "PyList_Type"))
    parts = fn.if_else(
        m.is_a(tensors, "PyList_Type"),
        lambda: m.made(fn.call("PyList_AsTuple", PTR, tensors, pure=False)),
        lambda: m.own_reference(tensors),
    )
    count = m.length(parts)
    m.leave_unless(count > 0, parts)
    first = _layout_of(m, parts, fn.value(0, I64), parts)
    rank = m.length(m.get(first, "Layout", "sizes"))
    stacks = m.is_true(stacked)
    m.leave_unless((rank > 0) & (rank < DIMS), parts)
    m.leave_unless(m.get(first, "Layout", "device") == m.constant("host"), parts)
    # of sizes, those from here on must agree
    start = fn.select(stacks, fn.value(0, I64), fn.value(1, I64))
    nbytes, length = fn.var(fn.value(0, I64)), fn.var(fn.value(0, I64))
    with fn.loop(0, count) as k:
        layout = _layout_of(m, parts, k, parts)
        with fn.when(layout != first):
            _check_alike(m, first, layout, start, rank, parts)
        nbytes.set(nbytes.get() + m.integer(m.get(layout, "Layout", "nbytes")))
        length.set(length.get() + m.integer(m.item(m.get(layout, "Layout", "sizes"), 0)))
    m.leave_unless((nbytes.get() > 0) & (nbytes.get() <= MUCH), parts)
    new = _layout_joined(m, first, rank, start, fn.select(stacks, count, length.get()), parts)
    out = m.made(m.inner("fresh", new), new, parts)
    m.let_go(new)
    _copy(m, out, parts, count)
    m.let_go(parts)
    fn.ret(out)


def _layout_of(m, parts, k, held):
    """The layout of a part, which must be a tensor without gaps."""
    part = m.item(parts, k)
    m.leave_unless(m.is_tensor(part), held)
    layout = m.get(part, "Tensor", "_layout")
    m.leave_unless(m.is_true(m.get(layout, "Layout", "is_dense")), held)
    return layout


def _check_alike(m, first, layout, start, rank, held):
    """Is a part like the first one, but for its length?"""
    fn = m.fn
    for slot in ("dtype", "device"):
        m.leave_unless(m.get(layout, "Layout", slot) == m.get(first, "Layout", slot), held)
    own, wanted = m.get(layout, "Layout", "sizes"), m.get(first, "Layout", "sizes")
    m.leave_unless(m.length(own) == rank, held)
    with fn.loop(start, rank) as k:
        m.leave_unless(m.integer(m.item(own, k)) == m.integer(m.item(wanted, k)), held)


def _layout_joined(m, first, rank, start, length, held):
    """The dense layout of so many rows like those of the first part."""
    fn = m.fn
    rows, inner = fn.alloca(I64, 2 * DIMS), rank - start
    sizes, strides, row = rows, fn.gep(rows, DIMS, I64), fn.var(fn.value(1, I64))
    with fn.loop(0, inner) as k:
        at = inner - k
        size = m.integer(m.item(m.get(first, "Layout", "sizes"), start + at - 1))
        fn.store(size, fn.gep(sizes, at, I64))
        fn.store(row.get(), fn.gep(strides, at, I64))
        row.set(row.get() * size)
    fn.store(length, sizes)
    fn.store(row.get(), strides)
    dtype, device = m.get(first, "Layout", "dtype"), m.get(first, "Layout", "device")
    return m.made(m.inner("found", sizes, strides, inner + 1, dtype, device), held)


def _copy(m, out, parts, count):
    """The bytes of parts, one after the other."""
    fn = m.fn
    target = fn.var(m.integer(m.get(m.get(out, "Tensor", "_storage"), "Storage", "pointer")))
    with fn.loop(0, count) as k:
        part = m.item(parts, k)
        source = m.integer(m.get(m.get(part, "Tensor", "_storage"), "Storage", "pointer"))
        source = source + m.integer(m.get(part, "Tensor", "_offset"))
        nbytes = m.integer(m.get(m.get(part, "Tensor", "_layout"), "Layout", "nbytes"))
        addresses = [fn.convert("inttoptr", a, PTR) for a in (target.get(), source)]
        fn.call("memcpy", PTR, *addresses, nbytes, pure=False)
        target.set(target.get() + nbytes)


BUILTINS = (("joined", 2, _joined),)
