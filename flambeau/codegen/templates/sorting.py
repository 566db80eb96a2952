"""Sorting: keys that order as PyTorch orders, items that carry their index, and the sorts.

Every value becomes an unsigned key of its width whose order is the order of values (-0.0 equal to
0.0, nan above all); descending order flips its bits. An item is a key with its position below it,
in one integer: items never tie, so every way of sorting them is stable and gives the same result.
Short rows are sorted by rank, long ones distributed digit by digit (least significant first, digits
that do not vary are skipped); one long row is distributed by many chunks together. Selecting (topk,
median) is in `selection.py`, counting and searching in `counting.py`.
"""

from flambeau.codegen.descriptions_places import Digits, SortedBlocks, SortedRows
from flambeau.codegen.llvm import gather
from flambeau.codegen.llvm_cpu import add_entry, argument_word, module_text
from flambeau.codegen.llvm_names import MEMORY_TYPE
from flambeau.codegen.loops import I1, I32, I64, PTR, Module, V, bytes_of, literal, vector, width_of
from flambeau.codegen.target import current

FLOAT_INFINITY = {"f16": 0x7C00, "bf16": 0x7F80, "f32": 0x7F800000, "f64": 0x7FF0000000000000}
RANKED = {"i64": 64, "i128": 96}  # rows up to this length are sorted by counting smaller items
SLACK = 256  # bytes that may be read after the last item of a buffer
DIGIT = 11  # bits per digit of the sort that many chunks share


class Kernel:
    """A kernel under construction: its body, its arguments and its description words."""

    def __init__(self, kinds):
        self.module, self.kinds = Module(), "p" + kinds
        self.fn = fn = self.module.function("body", [(PTR, "block"), (I64, "chunk")], internal=True)
        self.block, self.chunk = fn.params
        self.description = argument_word(fn, self.block, 0, "p")
        self.arguments = [argument_word(fn, self.block, k + 1, c) for k, c in enumerate(kinds)]

    def word(self, index):
        fn = self.fn
        return fn.load(fn.gep(self.description, index, I64), I64, 8)

    def words(self, count):
        """Description words 1 .. count (word 0 is the number of chunks)."""
        return [self.word(k + 1) for k in range(count)]

    def described(self, kind):
        """The description as a tuple of named words (see codegen/descriptions.py)."""
        return kind(None, *self.words(len(kind._fields) - 1))

    answers = False

    def report(self, number):
        """What the call gives back, if it is not zero."""
        self.answers = True
        self.fn.store(number, self.fn.gep(self.block, len(self.kinds), I64), 8)

    def fail(self, condition, code=1):
        fn = self.fn
        with fn.when(condition):
            fn.store(V(fn, I64, str(code)), fn.gep(self.block, len(self.kinds), I64), 8)

    def text(self):
        self.fn.ret()
        add_entry(self.module, self.kinds, answers=self.answers)
        return module_text(self.module)


# -- keys ------------------------------------------------------------------------------------------


def key_type(dtype):
    """The integer type that holds the key of a dtype."""
    return f"i{8 * bytes_of(MEMORY_TYPE[dtype])}"


def item_type(dtype):
    return "i128" if key_type(dtype) == "i64" else "i64"


def item_bytes(dtype):
    return 16 if key_type(dtype) == "i64" else 8


def lanes(dtype):
    return current().vector_bytes // 8


def order_key(fn, raw, dtype, flip):
    """The key of what lies in memory (as integers); flip is 0, or -1 for descending order."""
    bits = 8 * bytes_of(key_type(dtype))
    sign = -(1 << (bits - 1))
    key = raw
    if dtype in FLOAT_INFINITY:
        smear = fn.pure(f"ashr {raw}, {literal(bits - 1, raw.type)}", raw.type)
        magnitude = raw & ~sign
        key = raw ^ (smear | sign)
        key = fn.select(magnitude == 0, sign, key)
        key = fn.select(magnitude > FLOAT_INFINITY[dtype], -1, key)
    elif dtype == "bool":  # bytes that are looked at as booleans may be more than one
        key = fn.select(raw == 0, 0, fn.value(1, raw.type))
    elif dtype[0] == "i":
        key = raw ^ sign
    return key ^ flip


def key_value(fn, key, dtype, flip):
    """What lay in memory for a key, and (for floats) where that cannot be told: zeros and nans."""
    sign = -(1 << (8 * bytes_of(key_type(dtype)) - 1))
    key = key ^ flip
    if dtype in FLOAT_INFINITY:
        raw = fn.select(key < 0, key ^ sign, ~key)
        return raw, (key == sign) | (key == -1)
    return (key ^ sign if dtype[0] == "i" else key), None


def flip_of(fn, descending, dtype, width):
    """The flip word, as lanes of keys; `descending` is a description word, 0 or -1."""
    key = key_type(dtype)
    return fn.splat(descending if key == I64 else fn.convert("trunc", descending, key), width)


# -- items -----------------------------------------------------------------------------------------


def steps(fn, low, high, width, step):
    """step(i, width) over low .. high: in vectors, then one by one."""
    whole = low + (((high - low) / width) * width) if width > 1 else low
    if width > 1:
        with fn.loop(low, whole, width) as i:
            step(i, width)
    with fn.loop(whole, high) as i:
        step(i, 1)


def store_items(fn, items, at, key, index, dtype):
    """Write items (lanes of keys and of i64 indices) at items[at]."""
    w = width_of(key.type)
    if item_type(dtype) == "i64":
        item = (fn.convert("zext", key, vector(I64, w)) << 32) | index
        fn.store(item, fn.gep(items, at, I64))
    elif w == 1:
        fn.store(index, fn.gep(items, at * 2, I64))
        fn.store(key, fn.gep(items, at * 2 + 1, I64))
    else:
        pair = fn.shuffle(index, key, [k // 2 + (k % 2) * w for k in range(2 * w)])
        fn.store(pair, fn.gep(items, at * 2, I64))


def load_items(fn, items, at, width, dtype):
    """(keys, indices) of items[at], items[at + 1], ..."""
    if item_type(dtype) == "i64":
        item = fn.load(fn.gep(items, at, I64), vector(I64, width))
        key = fn.convert("trunc", item >> 32, vector(key_type(dtype), width))
        return key, item & 0xFFFFFFFF
    if width == 1:
        return tuple(fn.load(fn.gep(items, at * 2 + k, I64), I64) for k in (1, 0))
    pair = fn.load(fn.gep(items, at * 2, I64), vector(I64, 2 * width))
    return tuple(fn.shuffle(pair, None, range(k, 2 * width, 2)) for k in (1, 0))


def make_items(fn, source, low, high, items, descending, dtype):
    """items[i] = (key of source[i], i) for low <= i < high; gives the bits in which keys differ."""
    k, w = key_type(dtype), lanes(dtype)
    flips = {n: flip_of(fn, descending, dtype, n) for n in (1, w)}
    first = order_key(fn, fn.load(fn.gep(source, low, k), k), dtype, flips[1])
    firsts = {n: fn.splat(first, n) for n in (1, w)}
    differ = {n: fn.var(fn.value(0, vector(k, n))) for n in {1, w}}

    def step(i, n):
        key = order_key(fn, fn.load(fn.gep(source, i, k), vector(k, n)), dtype, flips[n])
        differ[n].set(differ[n].get() | (key ^ firsts[n]))
        store_items(fn, items, i, key, fn.splat(i, n) + fn.iota(vector(I64, n)), dtype)

    steps(fn, low, high, w, step)
    wide = differ[w].get()
    one = fn.call(f"llvm.vector.reduce.or.v{w}{k}", k, wide) if w > 1 else wide
    found = one | differ[1].get()
    return first, (found if k == I64 else fn.convert("zext", found, I64))


def write_items(fn, items, low, high, values, indices, source, descending, dtype, base=None):
    """Unpack sorted items low .. high into values and indices (at low - base if given)."""
    k, w = key_type(dtype), lanes(dtype)
    flips = {n: flip_of(fn, descending, dtype, n) for n in (1, w)}

    def step(i, n):
        key, index = load_items(fn, items, i, n, dtype)
        raw, lost = key_value(fn, key, dtype, flips[n])
        if lost is not None:
            # the key of a zero has no sign, the key of a nan no bits: look them up
            def look_up():
                pointers = fn.pure(f"getelementptr {k}, {source}, {index}", vector(PTR, n))
                if n == 1:
                    return fn.load(pointers, k)
                return fn.select(lost, gather(fn, pointers, k, lost), raw)

            raw = fn.if_else(fn.any(lost), look_up, lambda: raw)
        fn.store(raw, fn.gep(values, i, k))
        fn.store(index, fn.gep(indices, i, I64))

    steps(fn, low, high, w, step)


# -- sorting items in one thread -------------------------------------------------------------------


def sorter(module, dtype):
    """Add `sort_items(a, b, n)`, which sorts items with b to spare and returns a or b.

    A short row is read a vector past its end: leave SLACK bytes after the last buffer.
    """
    fn = module.function("sort_items", [(PTR, "a"), (PTR, "b"), (I64, "n")], PTR, internal=True)
    a, b, n = fn.params
    result = fn.var(b)
    ranked = RANKED[item_type(dtype)]
    with fn.when(n <= ranked):
        _ranks(fn, a, b, n, dtype, ranked)
    with fn.when(n > ranked):
        result.set(_digits(fn, a, b, n, dtype))
    fn.ret(result.get())
    return lambda caller, a, b, n: caller.emit(f"call ptr @sort_items({a}, {b}, {n})", PTR)


def _ranks(fn, a, b, n, dtype, most):
    """Send each item to its rank, how many are smaller: quadratic, but a vector at a time."""
    t, w = item_type(dtype), lanes(dtype)
    lots = vector(I64, w)
    places = fn.alloca(I64, most + w)
    with fn.loop(0, n, w) as i:
        rank = fn.var(fn.value(0, lots))
        if t == I64:
            mine = fn.load(fn.gep(a, i, I64), lots)
        else:
            mine, index = load_items(fn, a, i, w, dtype)
        with fn.loop(0, n) as j:
            if t == I64:
                less = fn.splat(fn.load(fn.gep(a, j, I64), I64), w).below(mine)
            else:
                other, at = (fn.splat(v, w) for v in load_items(fn, a, j, 1, dtype))
                less = other.below(mine) | ((other == mine) & (at < index))
            rank.set(rank.get() + fn.convert("zext", less, lots))
        fn.store(rank.get(), fn.gep(places, i, I64))
    with fn.loop(0, n) as i:
        place = fn.load(fn.gep(places, i, I64), I64)
        fn.store(fn.load(fn.gep(a, i, t), t), fn.gep(b, place, t))


def clear(fn, pointer, count, type=I32):
    """Zero an array."""
    size = fn.value(count, I64) * bytes_of(type)
    fn.call("llvm.memset.p0.i64", "void", pointer, V(fn, "i8", "0"), size, V(fn, I1, "false"))


def key_word(fn, items, i, dtype):
    """The word of item i that holds its key, and how far up the key starts in it."""
    if item_type(dtype) == "i64":
        return fn.load(fn.gep(items, i, I64), I64), 32
    return fn.load(fn.gep(items, i * 2 + 1, I64), I64), 0


def _digits(fn, a, b, n, dtype):
    """Distribute by each byte of the key, from the last to the first."""
    t = item_type(dtype)
    count = bytes_of(key_type(dtype))
    tables = fn.alloca(I32, 256 * count)
    clear(fn, tables, 256 * count)
    with fn.loop(0, n) as i:
        word, up = key_word(fn, a, i, dtype)
        for d in range(count):
            slot = fn.gep(tables, ((word >> (up + 8 * d)) & 255) + 256 * d, I32)
            fn.store(fn.load(slot, I32) + 1, slot)
    source, target = fn.var(a), fn.var(b)
    whole = fn.convert("trunc", n, I32)
    first, up = key_word(fn, a, fn.value(0, I64), dtype)
    with fn.loop(0, count) as d:
        table = fn.gep(tables, d * 256, I32)
        shift = d * 8 + up
        held = fn.load(fn.gep(table, (first >> shift) & 255, I32), I32)
        with fn.when(held != whole):
            exclusive_sums(fn, table, 256)
            src, dst = source.get(), target.get()
            distribute(fn, src, dst, fn.value(0, I64), n, table, shift, 255, dtype, t)
            source.set(dst)
            target.set(src)
    return source.get()


def exclusive_sums(fn, table, count):
    total = fn.var(fn.value(0, I32))
    with fn.loop(0, count) as j:
        slot = fn.gep(table, j, I32)
        here, before = fn.load(slot, I32), total.get()
        fn.store(before, slot)
        total.set(before + here)


def distribute(fn, src, dst, low, high, table, shift, mask, dtype, t):
    """Send each item to the next free place of its digit."""
    with fn.loop(low, high) as i:
        item = fn.load(fn.gep(src, i, t), t)
        word = item if t == I64 else key_word(fn, src, i, dtype)[0]
        slot = fn.gep(table, (word >> shift) & mask, I32)
        place = fn.load(slot, I32)
        fn.store(place + 1, slot)
        fn.store(item, fn.gep(dst, fn.convert("zext", place, I64), t))


# -- kernels ---------------------------------------------------------------------------------------


def build_sort_rows(dtype):
    """Rows sorted, with the places of their values: (values, indices, source, scratch)."""
    kernel = Kernel("pppp")
    sort_items = sorter(kernel.module, dtype)
    fn, (values, indices, source, scratch) = kernel.fn, kernel.arguments
    _, rows, n, per_chunk, descending = kernel.described(SortedRows)
    t, k = item_type(dtype), key_type(dtype)
    a = fn.gep(scratch, kernel.chunk * n * 2, t)
    b = fn.gep(a, n, t)
    first = kernel.chunk * per_chunk
    with fn.loop(first, fn.min(first + per_chunk, rows)) as row:
        start = row * n
        x = fn.gep(source, start, k)
        make_items(fn, x, fn.value(0, I64), n, a, descending, dtype)
        items = sort_items(fn, a, b, n)
        write_items(
            fn,
            items,
            fn.value(0, I64),
            n,
            fn.gep(values, start, k),
            fn.gep(indices, start, I64),
            x,
            descending,
            dtype,
        )
    return kernel.text()


def build_items(dtype):
    """One long row to items: (items, source, differ). A chunk is a block."""
    kernel = Kernel("ppp")
    fn, (items, source, differ) = kernel.fn, kernel.arguments
    _, n, block, descending = kernel.described(SortedBlocks)
    low = kernel.chunk * block
    first, bits = make_items(fn, source, low, fn.min(low + block, n), items, descending, dtype)
    # keys of different blocks differ from each other too: compare with the very first
    k = key_type(dtype)
    origin = order_key(fn, fn.load(source, k), dtype, flip_of(fn, descending, dtype, 1))
    apart = first ^ origin
    apart = apart if k == I64 else fn.convert("zext", apart, I64)
    fn.store(bits | apart, fn.gep(differ, kernel.chunk, I64))
    return kernel.text()


def build_count_digits(dtype):
    """How often each digit occurs in each block: (tables, items)."""
    kernel = Kernel("pp")
    fn, (tables, items) = kernel.fn, kernel.arguments
    _, n, block, shift, digits, _ = kernel.described(Digits)
    table = fn.gep(tables, kernel.chunk * digits, I32)
    clear(fn, table, digits)
    mask = digits - 1
    low = kernel.chunk * block
    up = 32 if item_type(dtype) == "i64" else 0
    shift = shift + up
    with fn.loop(low, fn.min(low + block, n)) as i:
        word, _ = key_word(fn, items, i, dtype)
        slot = fn.gep(table, (word >> shift) & mask, I32)
        fn.store(fn.load(slot, I32) + 1, slot)
    return kernel.text()


def build_send_digits(dtype):
    """Distribute by one digit: (tables, items, target)."""
    kernel = Kernel("ppp")
    fn, (tables, items, target) = kernel.fn, kernel.arguments
    _, n, block, shift, digits, blocks = kernel.described(Digits)
    places = fn.alloca(I32, 1 << DIGIT)
    total = fn.var(fn.value(0, I32))
    # where each digit of this block goes: after smaller digits of all blocks, and after the same
    # digit of earlier blocks
    with fn.loop(0, digits) as d:
        count, mine = fn.var(total.get()), fn.var(total.get())
        with fn.loop(0, blocks) as c:
            here = fn.load(fn.gep(tables, c * digits + d, I32), I32)
            count.set(count.get() + here)
            mine.set(mine.get() + fn.select(c < kernel.chunk, here, 0))
        fn.store(mine.get(), fn.gep(places, d, I32))
        total.set(count.get())
    low = kernel.chunk * block
    t = item_type(dtype)
    shift = shift + (32 if t == "i64" else 0)
    mask = digits - 1
    distribute(fn, items, target, low, fn.min(low + block, n), places, shift, mask, dtype, t)
    return kernel.text()


def build_write_items(dtype):
    """Unpack a long row: (values, indices, items, source)."""
    kernel = Kernel("pppp")
    fn, (values, indices, items, source) = kernel.fn, kernel.arguments
    _, n, block, descending = kernel.described(SortedBlocks)
    low = kernel.chunk * block
    write_items(fn, items, low, fn.min(low + block, n), values, indices, source, descending, dtype)
    return kernel.text()
