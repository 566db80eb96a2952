"""A second reading of the scalar language: evaluates expressions on NumPy arrays, node by node.

Slow and plain, it is the reference that tests hold the machine-code emitter against, and the tool
that measures the accuracy of mathlib without compiling anything. Every operation is done in the
node's own type; fma is exact (one rounding) through error-free transformations.
"""

import numpy as np

from flambeau.codegen.scalar import Complex, argument

TYPES = {
    "bool": np.bool_,
    "f32": np.float32,
    "f64": np.float64,
    **{f"i{b}": getattr(np, f"int{b}") for b in (8, 16, 32, 64)},
    **{f"u{b}": getattr(np, f"uint{b}") for b in (8, 16, 32, 64)},
}
SHORT = {np.dtype(v): k for k, v in TYPES.items()}


def call(word, *arrays):
    """word(*arrays) through expressions; complex arrays become pairs, and so does the result."""
    parameters, inputs = [], []
    for a in arrays:
        a = np.asarray(a)
        if a.dtype.kind == "c":
            part = "f32" if a.dtype == np.complex64 else "f64"
            parameters.append(Complex(argument(len(inputs), part), argument(len(inputs) + 1, part)))
            inputs += [a.real, a.imag]
        else:
            parameters.append(argument(len(inputs), SHORT[a.dtype]))
            inputs.append(a)
    result = word(*parameters)
    if isinstance(result, Complex):
        re, im = evaluate([result.re, result.im], *inputs)
        out = np.empty(re.shape, np.complex64 if re.dtype == np.float32 else np.complex128)
        out.real, out.imag = re, im
        return out
    return evaluate([result], *inputs)[0]


def evaluate(roots, *inputs):
    """Values of the expressions when argument k is inputs[k]."""
    inputs = np.broadcast_arrays(*inputs)
    shape = inputs[0].shape
    with np.errstate(all="ignore"):
        values = _run(roots, {}, inputs, shape)
    return [np.broadcast_to(v, shape) for v in values]


def _run(roots, memo, inputs, shape):
    stack = list(roots)
    while stack:
        node = stack[-1]
        if id(node) in memo:
            stack.pop()
            continue
        before = node.args
        if node.op == "repeat":  # what a loop body computes depends on the loop's variables
            before = node.args[: len(node.data[2])]
        missing = [a for a in before if id(a) not in memo]
        if missing:
            stack.extend(missing)
            continue
        stack.pop()
        if node.op == "repeat":
            memo[id(node)] = _loop(node, memo, inputs, shape)
        else:
            args = [memo[id(a)] for a in node.args]
            memo[id(node)] = _apply(node, args, inputs, shape)
    return [memo[id(r)] for r in roots]


def _loop(node, memo, inputs, shape):
    count, index, variables = node.data
    size = len(variables)
    state = [memo[id(a)] for a in node.args[:size]]
    body = list(node.args[size : 2 * size])
    live = node.args[2 * size :]
    for i in range(count):
        inner = dict(memo)
        inner[id(index)] = np.full(shape, i, np.int64)
        for v, s in zip(variables, state):
            inner[id(v)] = s
        if live and not np.any(_run(live, inner, inputs, shape)[0]):
            break
        state = _run(body, inner, inputs, shape)
    return state


def _apply(node, args, inputs, shape):
    op, kind = node.op, TYPES[node.type]
    if op == "const":
        return np.full(shape, node.data, kind)
    if op == "argument":
        return np.ascontiguousarray(inputs[node.data]).astype(kind)
    if op == "coordinate":
        return np.broadcast_to(np.indices(shape)[len(shape) - 1 - node.data], shape)
    if op == "part":
        return args[0][node.data]
    if op == "cast":
        return _cast(args[0], kind)
    if op == "bitcast":
        return args[0].view(kind)
    if op == "table":
        return np.array(node.data, kind)[args[0]]
    return np.asarray(OPERATIONS[op](*args)).astype(kind, copy=False)


def _cast(a, kind):
    if a.dtype.kind == "f" and np.dtype(kind).kind in "iu":
        info = np.iinfo(kind)
        inside = (a > float(info.min) - 1) & (a < float(info.max) + 1)
        return np.where(inside, a, 0).astype(kind)
    return a.astype(kind)


def _shift(a, n, right):
    n = n.astype(a.dtype)
    return np.right_shift(a, n) if right else np.left_shift(a, n)


def _mulhi(a, b):
    if a.dtype.itemsize < 8:
        bits = 8 * a.dtype.itemsize
        return (a.astype(np.uint64) * b.astype(np.uint64)) >> np.uint64(bits)
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    a0, a1, b0, b1 = a & low, a >> half, b & low, b >> half
    middle = a1 * b0 + ((a0 * b0) >> half)
    other = a0 * b1 + (middle & low)
    return a1 * b1 + (middle >> half) + (other >> half)


def _clz(a):
    bits = 8 * a.dtype.itemsize
    a = a.view(f"u{a.dtype.itemsize}")
    n = np.full(a.shape, bits, np.int64)
    for k in range(bits):
        n = np.where((a >> a.dtype.type(k)) & a.dtype.type(1) != 0, bits - 1 - k, n)
    return n


def _quot(a, b):
    if a.dtype.kind == "f":
        return np.trunc(a / b)
    b = np.where(b == 0, b.dtype.type(1), b)
    q = a // b
    return q + ((a - q * b != 0) & ((a < 0) != (b < 0))).astype(a.dtype)


def _rem(a, b):
    return (
        np.fmod(a, b) if a.dtype.kind == "f" else np.fmod(a, np.where(b == 0, b.dtype.type(1), b))
    )


def two_sum(a, b):
    """a + b as a rounded sum and its exact error."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def _split(a):
    c = a * 134217729.0
    high = c - (c - a)
    return high, a - high


def two_product(a, b):
    """a * b as a rounded product and its exact error (Dekker), away from overflow and underflow."""
    p = a * b
    ah, al = _split(a)
    bh, bl = _split(b)
    return p, ((ah * bh - p) + ah * bl + al * bh) + al * bl


def _sum_to_odd(a, b):
    """a + b rounded so that a later rounding to fewer bits is right (last bit sticky)."""
    s, e = two_sum(a, b)
    bits = s.view(np.int64)
    toward = np.where((e > 0) == (s > 0), 1, -1)
    odd = np.where((e != 0) & np.isfinite(e) & (bits & 1 == 0), bits + toward, bits)
    return odd.view(np.float64)


def fma(a, b, c):
    """a * b + c with one rounding."""
    if a.dtype == np.float32:
        product = a.astype(np.float64) * b.astype(np.float64)
        c = c.astype(np.float64)
        plain = product + c
        return np.where(np.isfinite(plain), _sum_to_odd(product, c), plain).astype(np.float32)
    # Scale the factors by powers of two so that the splitting neither overflows nor underflows.
    ma, ea = np.frexp(a)
    mb, eb = np.frexp(b)
    with np.errstate(all="ignore"):
        plain = a * b + c
        e = ea.astype(np.int64) + eb
        shift = np.where(a * b == 0, 0, e)
        scaled_c = np.ldexp(c, np.clip(-shift, -3000, 3000).astype(np.int32))
        uh, ul = two_product(ma, mb)
        th, tl = two_sum(scaled_c, ul)
        vh, vl = two_sum(uh, th)
        z = vh + _sum_to_odd(tl, vl)
        exact = np.ldexp(z, shift.astype(np.int32))
        # A huge or subnormal intermediate makes the scaled sum unreliable; the plain one is fine.
        good = np.isfinite(exact) & np.isfinite(scaled_c) & (a * b != 0)
        good &= (scaled_c != 0) | (c == 0)
        good &= (np.abs(exact) > 1e-300) | (np.abs(scaled_c) < 2.0**900)
        near = (c != 0) & (scaled_c != 0) & (np.abs(scaled_c) < 1e-290)
    return np.where(good & ~near, exact, np.where(near & good, a * b, plain))


OPERATIONS = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "neg": np.negative,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": np.bitwise_not,
    "shl": lambda a, n: _shift(a, n, False),
    "shr": lambda a, n: _shift(a, n, True),
    "select": np.where,
    "rarely": np.where,
    "scale": lambda p, n, portable: np.ldexp(p, np.nan_to_num(n).clip(-3000, 3000).astype("i4")),
    "native": lambda *operands: operands[-1],
    "fma": fma,
    "copysign": np.copysign,
    "rem": _rem,
    "quot": _quot,
    "abs": np.abs,
    "sqrt": np.sqrt,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "rint": np.rint,
    "clz": _clz,
    "popcount": np.bitwise_count,
    "mulhi": _mulhi,
}
