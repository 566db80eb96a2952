"""Selecting from rows: the k best, the k-th smallest, the most frequent value.

All work on the items of `sorting.py` (a key and its position in one integer), so that ties always
go to the lowest position. The k best are found by a scan that compares vectors of keys with the
worst one still wanted, and keeps the few that are better; the k-th smallest by narrowing down to
the items that share its leading digits.
"""

from flambeau.codegen.descriptions_places import BestItems, BestRows, RankedRows
from flambeau.codegen.loops import I1, I32, I64, PTR, V, vector, width_of
from flambeau.codegen.templates.sorting import (
    FLOAT_INFINITY,
    Kernel,
    clear,
    flip_of,
    item_type,
    key_type,
    key_word,
    lanes,
    load_items,
    make_items,
    order_key,
    sorter,
    steps,
    store_items,
    write_items,
)


def build_best_items(dtype):
    """The k first items of each block of each row: (values, indices, found, source, scratch).

    Each chunk has two buffers of `capacity` items. With one block per row the results are written;
    else `found` gets k sorted items per piece, padded with the largest item there is.
    """
    kernel = Kernel("ppppp")
    sort_items = sorter(kernel.module, dtype)
    fn, (values, indices, found, source, scratch) = kernel.fn, kernel.arguments
    _, pieces, n, block, blocks, k, capacity, descending, per_chunk = kernel.described(BestItems)
    t, kt = item_type(dtype), key_type(dtype)
    w = 2 * lanes(dtype)
    a = fn.gep(scratch, kernel.chunk * capacity * 2, t)
    b = fn.gep(a, capacity, t)
    flips = {m: flip_of(fn, descending, dtype, m) for m in (1, w)}
    spill = fn.alloca(kt, w)
    first = kernel.chunk * per_chunk
    count, limit = fn.var(fn.value(0, I64)), fn.var(fn.value(-1, kt))
    live = fn.var(fn.value(True, I1))
    brim = capacity - w

    def shrink():
        """Keep the k best of the buffer; what follows must be better than the worst of them."""
        have = count.get()
        best = sort_items(fn, a, b, have)
        with fn.when(fn.pure(f"icmp ne {best}, {a.name}", I1)):
            copy_items(fn, a, best, fn.min(have, k), t)
        count.set(fn.min(have, k))
        with fn.when(have >= k):
            worst, _ = load_items(fn, a, k - 1, 1, dtype)
            limit.set(worst - 1)
            live.set(worst != 0)

    with fn.loop(first, fn.min(first + per_chunk, pieces)) as piece:
        row = piece / blocks
        x = fn.gep(source, row * n, kt)
        low = (piece % blocks) * block
        count.set(0)
        limit.set(-1)
        live.set(True)

        def step(i, m, x=x):
            key = order_key(fn, fn.load(fn.gep(x, i, kt), vector(kt, m)), dtype, flips[m])
            good = ~fn.splat(limit.get(), m).below(key) & fn.splat(live.get(), m)
            with fn.when(fn.any(good)):
                _keep(fn, good, key, i, spill, a, count, dtype)
                with fn.when(count.get() > brim):
                    shrink()

        steps(fn, low, fn.min(low + block, n), w, step)
        shrink()
        have = count.get()

        def write(x=x, row=row):
            zero = fn.value(0, I64)
            places = fn.gep(values, row * k, kt), fn.gep(indices, row * k, I64)
            write_items(fn, a, zero, k, *places, x, descending, dtype)

        def keep(piece=piece, have=have):
            out = fn.gep(found, piece * k, t)
            copy_items(fn, out, a, have, t)
            with fn.loop(have, k) as i:
                fn.store(fn.value(-1, t), fn.gep(out, i, t))

        fn.if_else(blocks == 1, write, keep)
    return kernel.text()


def _keep(fn, good, key, i, spill, items, count, dtype):
    """Append the items of the lanes that are good."""
    m, kt = width_of(key.type), key_type(dtype)
    fn.store(key, spill)
    if m == 1:
        bits = fn.var(fn.value(1, I32))
    else:
        bits = fn.var(fn.convert("zext", fn.pure(f"bitcast {good} to i{m}", f"i{m}"), I32))
    with fn.while_(lambda: bits.get() != 0):
        left = bits.get()
        lane = fn.call("llvm.cttz.i32", I32, left, V(fn, I1, "true"), pure=False)
        lane = fn.convert("zext", lane, I64)
        here = count.get()
        store_items(fn, items, here, fn.load(fn.gep(spill, lane, kt), kt), i + lane, dtype)
        count.set(here + 1)
        bits.set(left & (left - 1))


def copy_items(fn, target, source, count, type):
    """Copy items that do not overlap."""
    size = count * (16 if type == "i128" else 8)
    fn.call("llvm.memcpy.p0.p0.i64", "void", target, source, size, V(fn, I1, "false"))


def build_best_rows(dtype):
    """From the best items of the blocks to results: (values, indices, found, scratch, source)."""
    kernel = Kernel("ppppp")
    sort_items = sorter(kernel.module, dtype)
    fn, (values, indices, found, scratch, source) = kernel.fn, kernel.arguments
    _, n, blocks, k, descending = kernel.described(BestRows)
    t, kt = item_type(dtype), key_type(dtype)
    row, each = kernel.chunk, blocks * k
    items = sort_items(fn, fn.gep(found, row * each, t), fn.gep(scratch, row * each, t), each)
    places = fn.gep(values, row * k, kt), fn.gep(indices, row * k, I64)
    write_items(
        fn, items, fn.value(0, I64), k, *places, fn.gep(source, row * n, kt), descending, dtype
    )
    return kernel.text()


# -- the k-th smallest -----------------------------------------------------------------------------


def selector(module, dtype, sort_items):
    """Add `select_items(a, b, n, k)`, 0 <= k < n, which returns where the k-th item lies."""
    fn = module.function(
        "select_items", [(PTR, "a"), (PTR, "b"), (I64, "n"), (I64, "k")], PTR, internal=True
    )
    a, b, n, k = fn.params
    t = item_type(dtype)
    up = 32 if t == "i64" else 0
    top = int(key_type(dtype)[1:]) - 8
    table = fn.alloca(I32, 256)
    source, target = fn.var(a), fn.var(b)
    count, rank, shift = fn.var(n), fn.var(k), fn.var(fn.value(top, I64))
    with fn.while_(lambda: (count.get() > 512) & (shift.get() >= 0)):
        src, dst, have = source.get(), target.get(), count.get()
        down = shift.get() + up
        clear(fn, table, 256)
        with fn.loop(0, have) as i:
            slot = fn.gep(table, (key_word(fn, src, i, dtype)[0] >> down) & 255, I32)
            fn.store(fn.load(slot, I32) + 1, slot)
        digit, below = fn.var(fn.value(0, I64)), fn.var(fn.value(0, I64))
        wanted = rank.get()

        def here(digit=digit):
            return fn.convert("zext", fn.load(fn.gep(table, digit.get(), I32), I32), I64)

        with fn.while_(lambda: below.get() + here() <= wanted):
            below.set(below.get() + here())
            digit.set(digit.get() + 1)
        chosen, held = digit.get(), here()
        shift.set(shift.get() - 8)
        with fn.when(held < have):
            kept = fn.var(fn.value(0, I64))
            with fn.loop(0, have) as i:
                item = fn.load(fn.gep(src, i, t), t)
                same = ((key_word(fn, src, i, dtype)[0] >> down) & 255) == chosen
                at = kept.get()
                fn.store(item, fn.gep(dst, at, t))
                kept.set(at + fn.convert("zext", same, I64))
            rank.set(wanted - below.get())
            count.set(held)
            source.set(dst)
            target.set(src)
    have = count.get()

    def by_sorting():
        items = fn.emit(f"call ptr @sort_items({source.get()}, {target.get()}, {have})", PTR)
        return fn.gep(items, rank.get(), t)

    # items are compacted in order: if all keys are equal, the k-th is at place k
    fn.ret(fn.if_else(have <= 512, by_sorting, lambda: fn.gep(source.get(), rank.get(), t)))
    return lambda caller, a, b, n, k: caller.emit(
        f"call ptr @select_items({a}, {b}, {n}, {k})", PTR
    )


def build_select_rows(dtype):
    """The k-th smallest of each row: (values, indices, source, scratch).

    Of several nans that win, the first is taken. For rules 1 and 2, k is the middle.
    """
    kernel = Kernel("pppp")
    select_items = selector(kernel.module, dtype, sorter(kernel.module, dtype))
    fn, (values, indices, source, scratch) = kernel.fn, kernel.arguments
    _, rows, n, per_chunk, k, rule = kernel.described(RankedRows)
    t, kt = item_type(dtype), key_type(dtype)
    a = fn.gep(scratch, kernel.chunk * n * 2, t)
    b = fn.gep(a, n, t)
    first = kernel.chunk * per_chunk
    zero = fn.value(0, I64)
    with fn.loop(first, fn.min(first + per_chunk, rows)) as row:
        x = fn.gep(source, row * n, kt)
        make_items(fn, x, zero, n, a, zero, dtype)
        rank = fn.var(k)
        if dtype in FLOAT_INFINITY:
            nans = _count_nans(fn, a, n, dtype)
            with fn.when((rule == 1) & (nans > 0)):
                rank.set(n - nans)
            with fn.when(rule == 2):
                rank.set(fn.max(n - nans - 1, 0) / 2)
        item = select_items(fn, a, b, n, rank.get())
        write_items(
            fn,
            item,
            zero,
            fn.value(1, I64),
            fn.gep(values, row, kt),
            fn.gep(indices, row, I64),
            x,
            zero,
            dtype,
        )
    return kernel.text()


def _count_nans(fn, items, n, dtype):
    w = lanes(dtype)
    counts = {m: fn.var(fn.value(0, vector(I64, m))) for m in (1, w)}

    def step(i, m):
        key, _ = load_items(fn, items, i, m, dtype)
        counts[m].set(counts[m].get() + fn.convert("zext", key == -1, vector(I64, m)))

    steps(fn, fn.value(0, I64), n, w, step)
    return counts[1].get() + fn.call(f"llvm.vector.reduce.add.v{w}i64", I64, counts[w].get())


# -- the most frequent -----------------------------------------------------------------------------


def build_mode_rows(dtype):
    """The most frequent value of each row (the smallest of those), at its last position.

    Arguments as build_select_rows; rank and rule play no part.
    """
    kernel = Kernel("pppp")
    sort_items = sorter(kernel.module, dtype)
    fn, (values, indices, source, scratch) = kernel.fn, kernel.arguments
    _, rows, n, per_chunk, _, _ = kernel.described(RankedRows)
    t, kt = item_type(dtype), key_type(dtype)
    a = fn.gep(scratch, kernel.chunk * n * 2, t)
    b = fn.gep(a, n, t)
    first = kernel.chunk * per_chunk
    zero = fn.value(0, I64)
    with fn.loop(first, fn.min(first + per_chunk, rows)) as row:
        x = fn.gep(source, row * n, kt)
        make_items(fn, x, zero, n, a, zero, dtype)
        items = sort_items(fn, a, b, n)
        before = fn.var(load_items(fn, items, zero, 1, dtype)[0])
        run, longest, best = (fn.var(zero) for _ in range(3))
        with fn.loop(0, n) as i:
            key, _ = load_items(fn, items, i, 1, dtype)
            length = fn.select(key == before.get(), run.get(), 0) + 1
            longer = length > longest.get()
            longest.set(fn.select(longer, length, longest.get()))
            best.set(fn.select(longer, i, best.get()))
            run.set(length)
            before.set(key)
        write_items(
            fn,
            fn.gep(items, best.get(), t),
            zero,
            fn.value(1, I64),
            fn.gep(values, row, kt),
            fn.gep(indices, row, I64),
            x,
            zero,
            dtype,
        )
    return kernel.text()
