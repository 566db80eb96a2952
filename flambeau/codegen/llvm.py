"""From expressions to LLVM instructions, in vectors of any width.

An `Emitter` writes one expression after another into a function, remembering what it has already
written; `load_element` and `store_element` move values between memory and registers, where half
types, booleans and complex numbers look different on the two sides. Shared by all targets; loops
and threads are the business of `llvm_cpu.py` and the templates.
"""

from flambeau.codegen import float8, scalar
from flambeau.codegen.llvm_names import LLVM_TYPE, MEMORY_TYPE
from flambeau.codegen.loops import (
    I1,
    I64,
    PTR,
    V,
    bytes_of,
    element,
    literal,
    mangle,
    vector,
    width_of,
)
from flambeau.codegen.target import current

_INT_OPS = {
    "add": "add",
    "sub": "sub",
    "mul": "mul",
    "and": "and",
    "or": "or",
    "xor": "xor",
    "shl": "shl",
}
_FLOAT_OPS = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv", "rem": "frem"}
_INTRINSICS = {
    "sqrt": "sqrt",
    "floor": "floor",
    "ceil": "ceil",
    "trunc": "trunc",
    "rint": "rint",
    "abs": "fabs",
}
_INTRINSICS |= {"copysign": "copysign", "fma": "fma"}
_FCMP = {"eq": "oeq", "ne": "une", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge"}


class Emitter:
    """Writes expressions into `fn`, `width` elements at a time.

    arguments: values for `argument` nodes; coordinates: values for `coordinate` nodes;
    fail: called with an i1 mask when a `check` does not hold.
    """

    def __init__(self, fn, width, arguments=(), coordinates=(), fail=None):
        self.fn, self.width = fn, width
        self.arguments, self.coordinates, self.fail = arguments, coordinates, fail
        self.known = [{}]

    def type(self, expr_type):
        return vector(LLVM_TYPE[expr_type], self.width)

    def emit(self, expr):
        """The value of an expression (Complex gives a pair)."""
        if isinstance(expr, scalar.Complex):
            return self.emit(expr.re), self.emit(expr.im)
        for scope in reversed(self.known):
            # the expression is kept beside its value, so that its id cannot be reused
            hit = scope.get(id(expr))
            if hit is not None:
                return hit[0]
        value = self._emit(expr)
        self.known[-1][id(expr)] = (value, expr)
        return value

    def _emit(self, expr):
        special = getattr(self, "_emit_" + expr.op, None)
        if special is not None:
            return special(expr)
        fn, op, type = self.fn, expr.op, self.type(expr.type)
        args = [self.emit(a) for a in expr.args]
        operand = expr.args[0].type
        if op in scalar.COMPARISONS:
            if scalar.is_float(operand):
                head = "fcmp " + _FCMP[op]
            else:
                sign = "" if op in ("eq", "ne") else "s" if scalar.is_signed(operand) else "u"
                head = f"icmp {sign}{op}"
            return fn.pure(f"{head} {args[0]}, {args[1].name}", type)
        if op in _INTRINSICS:
            return fn.intrinsic(_INTRINSICS[op], *args)
        if scalar.is_float(operand) and op in _FLOAT_OPS:
            return fn.pure(f"{_FLOAT_OPS[op]} {args[0]}, {args[1].name}", type)
        if op in _INT_OPS:
            return fn.pure(f"{_INT_OPS[op]} {args[0]}, {args[1].name}", type)
        sign = "s" if scalar.is_signed(operand) else "u"
        if op == "shr":
            return fn.pure(f"{'a' if sign == 's' else 'l'}shr {args[0]}, {args[1].name}", type)
        if op in ("rem", "quot"):
            return fn.pure(
                f"{sign}{'rem' if op == 'rem' else 'div'} {args[0]}, {args[1].name}", type
            )
        if op == "select":
            return fn.pure(f"select {args[0]}, {args[1]}, {args[2]}", type)
        if op == "neg":
            return -args[0]
        if op == "not":
            return ~args[0]
        if op == "popcount":
            return fn.intrinsic("ctpop", args[0])
        if op == "clz":
            return fn.call(f"llvm.ctlz.{mangle(type)}", type, args[0], V(fn, I1, "false"))
        raise NotImplementedError(op)

    def _emit_const(self, expr):
        type = self.type(expr.type)
        return V(self.fn, type, literal(expr.data, type))

    def _emit_argument(self, expr):
        return self.arguments[expr.data]

    def _emit_coordinate(self, expr):
        value = self.coordinates[expr.data]
        return self.fn.splat(value, self.width) if width_of(value.type) != self.width else value

    def _emit_check(self, expr):
        ok, value = expr.args
        self.fail(~self.emit(ok))
        return self.emit(value)

    def _emit_cast(self, expr):
        (a,) = expr.args
        return convert(self.fn, self.emit(a), a.type, expr.type)

    def _emit_bitcast(self, expr):
        return self.fn.convert("bitcast", self.emit(expr.args[0]), self.type(expr.type))

    def _emit_narrowed(self, expr):
        value = self.emit(expr.args[0])
        return from_memory(self.fn, to_memory(self.fn, value, expr.data), expr.data)

    def _emit_mulhi(self, expr):
        fn, (a, b) = self.fn, [self.emit(x) for x in expr.args]
        bits = scalar.BITS[expr.type]
        wide = vector(f"i{2 * bits}", self.width)
        product = fn.convert("zext", a, wide) * fn.convert("zext", b, wide)
        return fn.convert("trunc", product >> bits, a.type)

    def _emit_scale(self, expr):
        value, exponent, portable = expr.args
        type = self.type(expr.type)
        form = current().scaling.get(type)
        if form is None:
            return self.emit(portable)
        a, n = self.emit(value), self.emit(exponent)
        bits = max(8, self.width)
        mask, nearest = V(self.fn, f"i{bits}", "-1"), V(self.fn, "i32", "4")
        extra = (nearest,) if form.endswith("512") else ()
        return self.fn.call(form, type, a, n, V(self.fn, type, "zeroinitializer"), mask, *extra)

    def _emit_native(self, expr):
        *operands, portable = expr.args
        write = current().words.get((expr.data, expr.type))
        if write is None:
            return self.emit(portable)
        fn, values = self.fn, [self.emit(a) for a in operands]
        if self.width == 1:
            return write(fn, *values)
        found = V(fn, self.type(expr.type), "poison")
        for k in range(self.width):
            found = fn.insert(found, write(fn, *[fn.extract(v, k) for v in values]), k)
        return found

    def _emit_table(self, expr):
        fn, index = self.fn, self.emit(expr.args[0])
        index = convert(fn, index, expr.args[0].type, "i64")
        e = LLVM_TYPE[expr.type]
        base = V(fn, PTR, fn.module.constant(e, expr.data))
        if self.width == 1:
            return fn.load(fn.gep(base, index, e), e)
        pointers = fn.pure(f"getelementptr {e}, {base}, {index}", vector(PTR, self.width))
        return gather(fn, pointers, e, None)

    def _emit_rarely(self, expr):
        condition, slow, fast = expr.args
        fn, mask, quick = self.fn, self.emit(condition), self.emit(fast)

        def compute():
            with self.inner():
                return fn.select(mask, self.emit(slow), quick)

        return fn.if_else(fn.any(mask), compute, lambda: quick)

    def _emit_repeat(self, expr):
        """A counted loop whose state lives in registers; see scalar.repeat."""
        fn = self.fn
        count, index, variables = expr.data
        n = len(variables)
        state = [fn.var(self.emit(a)) for a in expr.args[:n]]
        after = expr.args[n : 2 * n]
        live = expr.args[2 * n] if len(expr.args) > 2 * n else None
        going = fn.var(V(fn, I1, "true"))
        step = fn.var(V(fn, I64, "0"))
        with fn.while_(lambda: (step.get() < count) & going.get()), self.inner():
            i = step.get()
            self.known[-1][id(index)] = (fn.splat(i, self.width), index)
            for variable, cell in zip(variables, state):
                self.known[-1][id(variable)] = (cell.get(), variable)
            values = [self.emit(a) for a in after]
            if live is not None:
                going.set(fn.any(self.emit(live)))
            for cell, value in zip(state, values):
                cell.set(value)
            step.set(i + 1)
        return [cell.get() for cell in state]

    def _emit_part(self, expr):
        return self.emit(expr.args[0])[expr.data]

    def inner(self):
        """A scope for values that exist only inside a branch or a loop."""
        return _Inner(self)


class _Inner:
    def __init__(self, emitter):
        self.known = emitter.known

    def __enter__(self):
        self.known.append({})

    def __exit__(self, *error):
        self.known.pop()


def convert(fn, x, source, target):
    """Cast a value between scalar types, as C does on this kind of machine."""
    if source == target:
        return x
    w = width_of(x.type)
    to = vector(LLVM_TYPE[target], w)
    if target == "bool":
        return x != 0
    if source == "bool":
        return fn.convert("uitofp" if scalar.is_float(target) else "zext", x, to)
    if scalar.is_float(source):
        if scalar.is_float(target):
            return fn.convert("fpext" if target == "f64" else "fptrunc", x, to)
        return _float_to_int(fn, x, target, to, w)
    if scalar.is_float(target):
        return fn.convert("sitofp" if source[0] == "i" else "uitofp", x, to)
    if scalar.BITS[source] == scalar.BITS[target]:
        return x
    if scalar.BITS[source] > scalar.BITS[target]:
        return fn.convert("trunc", x, to)
    return fn.convert("sext" if source[0] == "i" else "zext", x, to)


def _float_to_int(fn, x, target, to, w):
    # Narrow integers go through a wider one and wrap, as compiled C does; out of range is
    # "indefinite" on the hardware, and freeze keeps LLVM from treating it as undefined.
    via = {"i64": "i64", "u64": "i64", "u32": "i64"}.get(target, "i32")
    wide = fn.pure(f"fptosi {x} to {vector(via, w)}", vector(via, w))
    wide = fn.pure(f"freeze {wide}", wide.type)
    if target == "u64":
        # values of 2^63 and more: shift them down, convert, and put the top bit back
        limit = literal(2.0**63, x.type)
        high = fn.pure(f"fcmp oge {x}, {limit}", vector(I1, w))
        low = fn.pure(f"fsub {x}, {limit}", x.type)
        low = fn.pure(f"fptosi {low} to {wide.type}", wide.type)
        return fn.select(high, fn.pure(f"freeze {low}", low.type) ^ -(2**63), wide)
    return wide if wide.type == to else fn.convert("trunc", wide, to)


# -- memory ------------------------------------------------------------------------------------
# An operand in memory is described by its memory dtype name (f32, bf16, c64, bool, ...).

HALVES = ("f16", "c32")  # each part of a complex32 is a float16


def from_memory(fn, raw, dtype):
    """What was loaded, as a value of the compute type."""
    w = width_of(raw.type)
    if dtype == "bool":
        return raw != 0
    if dtype in float8.IS_FLOAT8:
        return float8.read(fn, raw, dtype)
    if dtype == "bf16":
        wide = fn.convert("zext", raw, vector("i32", w)) << 16
        return fn.convert("bitcast", wide, vector("float", w))
    if dtype in HALVES:
        return fn.convert(
            "fpext", fn.convert("bitcast", raw, vector("half", w)), vector("float", w)
        )
    return raw


def to_memory(fn, value, dtype):
    """A value of the compute type as it is stored."""
    w = width_of(value.type)
    if dtype == "bool":
        return fn.convert("zext", value, vector("i8", w))
    if dtype in float8.IS_FLOAT8:
        return float8.written(fn, value, dtype)
    if dtype == "bf16" and current().gpu == "ptx":
        half = fn.convert("fptrunc", value, vector("bfloat", w))
        return fn.convert("bitcast", half, vector("i16", w))
    if dtype == "bf16":
        bits = fn.convert("bitcast", value, vector("i32", w))
        # round to nearest even by hand: the bf16 instruction of x86 would flush denormals
        rounded = bits + 0x7FFF + ((bits >> 16) & 1)
        nan = fn.pure(f"fcmp uno {value}, {value.name}", vector(I1, w))
        rounded = fn.select(nan, 0x7FC00000, rounded) >> 16
        return fn.convert("trunc", rounded, vector("i16", w))
    if dtype in HALVES:
        half = fn.convert("fptrunc", value, vector("half", w))
        return fn.convert("bitcast", half, vector("i16", w))
    return value


def gather(fn, pointers, type, mask):
    w = width_of(pointers.type)
    t = vector(type, w)
    mask = mask or V(fn, vector(I1, w), literal(True, vector(I1, w)))
    align = V(fn, "i32", str(bytes_of(type)))
    name = f"llvm.masked.gather.{mangle(t)}.{mangle(pointers.type)}"
    zero = V(fn, t, "zeroinitializer")
    return fn.call(name, t, pointers, align, mask, zero, pure=False)


def scatter(fn, value, pointers, mask):
    t = value.type
    mask = mask or V(fn, vector(I1, width_of(t)), literal(True, vector(I1, width_of(t))))
    align = V(fn, "i32", str(bytes_of(element(t))))
    fn.call(
        f"llvm.masked.scatter.{mangle(t)}.{mangle(pointers.type)}",
        "void",
        value,
        pointers,
        align,
        mask,
    )


def masked_load(fn, pointer, type, mask, is_cut=False):
    """Lanes that are on, zeros elsewhere; is_cut: are some known to be off?"""
    if mask is None:
        return fn.load(pointer, type)
    align = V(fn, "i32", str(bytes_of(element(type))))
    zero = V(fn, type, "zeroinitializer")
    name = f"llvm.masked.load.{mangle(type)}.p0"

    def masked():
        return fn.call(name, type, pointer, align, mask, zero, pure=False)

    if is_cut or masks_are_cheap():
        return masked()
    return fn.if_else(fn.all(mask), lambda: fn.load(pointer, type), masked)


def masked_store(fn, value, pointer, mask):
    if mask is None:
        return fn.store(value, pointer)
    align = V(fn, "i32", str(bytes_of(element(value.type))))
    name = f"llvm.masked.store.{mangle(value.type)}.p0"

    def masked():
        fn.call(name, "void", value, pointer, align, mask)

    if masks_are_cheap():
        return masked()
    return fn.if_else(fn.all(mask), lambda: fn.store(value, pointer), masked)


def masks_are_cheap():
    """Does masked access cost no more than any other? Else whole vectors should do without."""
    return current().vector_bytes == 64


def _lane_pointers(fn, pointer, stride, width):
    """Addresses pointer + lane * stride (bytes), for strided access."""
    lanes = fn.iota(vector(I64, width)) * fn.splat(stride, width)
    return fn.pure(f"getelementptr i8, {pointer}, {lanes}", vector(PTR, width))


def load_element(fn, pointer, dtype, width, access, stride=None, mask=None):
    """`width` elements: access is c (side by side), r (the same backwards, pointer is the last in
    memory), s (one for all) or n (stride in bytes).

    Complex dtypes give a pair of values.
    """
    e = MEMORY_TYPE[dtype]
    if dtype[0] == "c":
        parts = _load_complex(fn, pointer, e, width, access, stride, mask)
        return tuple(from_memory(fn, part, dtype) for part in parts)
    if access == "s" or width == 1:
        return fn.splat(from_memory(fn, fn.load(pointer, e), dtype), width)
    if access == "c":
        return from_memory(fn, masked_load(fn, pointer, vector(e, width), mask), dtype)
    if access == "r":
        back = range(width - 1, -1, -1)
        first = fn.gep(pointer, (1 - width) * bytes_of(e), "i8")
        raw = masked_load(fn, first, vector(e, width), mask and fn.shuffle(mask, None, back))
        return from_memory(fn, fn.shuffle(raw, None, back), dtype)
    pointers = _lane_pointers(fn, pointer, stride, width)
    return from_memory(fn, gather(fn, pointers, e, mask), dtype)


def _load_complex(fn, pointer, e, width, access, stride, mask):
    size = bytes_of(e)
    if access == "s" or width == 1:
        second = fn.gep(pointer, 1, e)
        return tuple(fn.splat(fn.load(p, e), width) for p in (pointer, second))
    if access == "c":
        pair_mask = _doubled(fn, mask, width)
        raw = masked_load(fn, pointer, vector(e, 2 * width), pair_mask)
        return tuple(fn.shuffle(raw, None, range(k, 2 * width, 2)) for k in (0, 1))
    return tuple(
        gather(fn, _lane_pointers(fn, fn.gep(pointer, k * size, "i8"), stride, width), e, mask)
        for k in (0, 1)
    )


def _doubled(fn, mask, width):
    return mask and fn.shuffle(mask, None, [k // 2 for k in range(2 * width)])


def store_element(fn, value, pointer, dtype, width, access, stride=None, mask=None):
    """The converse of load_element (access c or n)."""
    e = MEMORY_TYPE[dtype]
    if dtype[0] == "c":
        re, im = value = tuple(to_memory(fn, part, dtype) for part in value)
        if width == 1:
            fn.store(re, pointer)
            return fn.store(im, fn.gep(pointer, 1, e))
        if access == "c":
            lanes = [k // 2 + (k % 2) * width for k in range(2 * width)]
            return masked_store(fn, fn.shuffle(re, im, lanes), pointer, _doubled(fn, mask, width))
        for k, part in enumerate(value):
            pointers = _lane_pointers(fn, fn.gep(pointer, k * bytes_of(e), "i8"), stride, width)
            scatter(fn, part, pointers, mask)
        return None
    raw = to_memory(fn, value, dtype)
    if width == 1:
        return fn.store(raw, pointer)
    if access == "c":
        return masked_store(fn, raw, pointer, mask)
    return scatter(fn, raw, _lane_pointers(fn, pointer, stride, width), mask)
