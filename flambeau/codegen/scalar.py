"""The scalar language: expressions for the value of one element, and words to build them.

Bodies and derivatives of ops are written with these words and Python's operators. The words are
polymorphic: on `Expr` they build a kernel, on tensors they run ops (so a derivative can be
differentiated again), on Python numbers they compute. Words without a machine instruction (exp,
sin, erf, ...) are spelled in `mathlib.py`; complex numbers are pairs of expressions
(`complexlib.py`).

Types are short names: bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64. Half types exist only in memory:
kernels widen them to f32 on load and round on store.
"""

import builtins
import math
import operator
import struct
from typing import TYPE_CHECKING, Any

INTS = ("i8", "i16", "i32", "i64")
UINTS = ("u8", "u16", "u32", "u64")
FLOATS = ("f32", "f64")
BITS = {"bool": 1, "f32": 32, "f64": 64} | {t: int(t[1:]) for t in INTS + UINTS}
COMPARISONS = {"eq", "ne", "lt", "le", "gt", "ge"}


def is_float(type):
    return type[0] == "f"


def is_signed(type):
    return type[0] in "if"


class Expr:
    """One node of an expression: a word applied to arguments, with the type of its value."""

    __slots__ = ("op", "args", "type", "data")

    def __init__(self, op, args, type, data=None):
        self.op, self.args, self.type, self.data = op, args, type, data

    def __repr__(self):
        return show(self)

    def __bool__(self):
        raise TypeError("an element's value is not known while compiling: use m.where, not if")

    __hash__ = object.__hash__

    def __add__(self, other):
        return _binary("add", self, other)

    def __sub__(self, other):
        return _binary("sub", self, other)

    def __mul__(self, other):
        return _binary("mul", self, other)

    def __truediv__(self, other):
        return _binary("div", self, other)

    def __radd__(self, other):
        return _binary("add", other, self)

    def __rsub__(self, other):
        return _binary("sub", other, self)

    def __rmul__(self, other):
        return _binary("mul", other, self)

    def __rtruediv__(self, other):
        return _binary("div", other, self)

    def __neg__(self):
        return _unary("neg", self)

    def __eq__(self, other):
        return _binary("eq", self, other)

    def __ne__(self, other):
        return _binary("ne", self, other)

    def __lt__(self, other):
        return _binary("lt", self, other)

    def __le__(self, other):
        return _binary("le", self, other)

    def __gt__(self, other):
        return _binary("gt", self, other)

    def __ge__(self, other):
        return _binary("ge", self, other)

    def __and__(self, other):
        return _binary("and", self, other)

    def __or__(self, other):
        return _binary("or", self, other)

    def __xor__(self, other):
        return _binary("xor", self, other)

    def __rand__(self, other):
        return _binary("and", other, self)

    def __ror__(self, other):
        return _binary("or", other, self)

    def __rxor__(self, other):
        return _binary("xor", other, self)

    def __invert__(self):
        return _unary("not", self)

    def __lshift__(self, other):
        return _binary("shl", self, other)

    def __rshift__(self, other):
        return _binary("shr", self, other)

    def __rlshift__(self, other):
        return _binary("shl", other, self)

    def __rrshift__(self, other):
        return _binary("shr", other, self)


def const(value, type):
    """A constant of the given type; integers wrap, as a cast would."""
    if type == "bool":
        return Expr("const", (), type, bool(value))
    if is_float(type):
        value = float(value)
        if type == "f32" and math.isfinite(value):
            value = _round_f32(value)
        return Expr("const", (), type, value)
    bits = BITS[type]
    value = int(value) & ((1 << bits) - 1)
    if type[0] == "i" and value >> (bits - 1):
        value -= 1 << bits
    return Expr("const", (), type, value)


def _round_f32(value):
    try:
        return struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def argument(index, type):
    """What a kernel loads (or is given) as its index-th input."""
    return Expr("argument", (), type, index)


def coordinate(axis):
    """Position of the element along a dimension, counted from the innermost (0); an i64."""
    return Expr("coordinate", (), "i64", axis)


def lift(value, like):
    """A Python number as a constant of the type of `like`; expressions pass through."""
    if isinstance(value, Expr):
        return value
    if isinstance(value, float) and not is_float(like):
        raise TypeError(f"constant {value} would be cut to {like}: cast the other side first")
    return const(value, like)


def _binary(op, a, b):
    if isinstance(a, Complex) or isinstance(b, (Complex, complex)):
        found = _COMPLEX_OPERATORS[op](as_complex(a, b), as_complex(b, a))
        halves = isinstance(a, ComplexHalf) or isinstance(b, ComplexHalf)
        return complex_half(found) if halves and isinstance(found, Complex) else found
    if not isinstance(a, Expr):
        a = lift(a, b.type)
    elif not isinstance(b, Expr):
        if not isinstance(b, (int, float)):
            return NotImplemented
        b = lift(b, a.type)
    if a.type != b.type:
        raise TypeError(f"{op}: {a.type} with {b.type}; cast one side")
    folded = _fold(op, a, b)
    if folded is not None:
        return folded
    return Expr(op, (a, b), "bool" if op in COMPARISONS else a.type)


_FOLDS = {"add": operator.add, "sub": operator.sub, "mul": operator.mul}


def _fold(op, a, b):
    """Simplifications that hold for every value, nan and -0.0 included."""
    if b.op == "const":
        if op in ("mul", "div") and b.data == 1:
            return a
        if op == "sub" and b.data == 0 and math.copysign(1, b.data) > 0:
            return a
        if op == "add" and b.data == 0 and not is_float(a.type):
            return a
        if a.op == "const" and op in _FOLDS:
            return const(_FOLDS[op](a.data, b.data), a.type)
    elif a.op == "const" and op == "mul" and a.data == 1:
        return b
    return None


def _unary(op, a, type=None):
    if op == "neg" and a.op == "const":
        return const(-a.data, a.type)
    return Expr(op, (a,), type or a.type)


def cast(a, type):
    """Convert: integers wrap, floats are cut toward zero, anything nonzero is true."""
    if not isinstance(a, Expr):
        return const(a, type)
    if a.type == type:
        return a
    if a.op == "const" and not (
        is_float(a.type) and not math.isfinite(a.data) and not is_float(type)
    ):
        return const(a.data, type)
    if type == "bool":
        return a != 0
    return Expr("cast", (a,), type)


def bitcast(a, type):
    """The same bits read as another type of the same width."""
    assert BITS[a.type] == BITS[type], (a.type, type)
    return a if a.type == type else Expr("bitcast", (a,), type)


def narrowed(a, dtype):
    """A float32 as a half type (f16, bf16) would hold it."""
    return Expr("narrowed", (a,), a.type, dtype)


def table(values, index, type):
    """values[index] from a constant table; index must be in range."""
    return Expr("table", (index,), type, tuple(values))


def rarely(condition, slow, fast):
    """slow where condition holds, else fast; slow is computed only if some element needs it."""
    return Expr("rarely", (condition, slow, fast), fast.type)


def scale(value, exponent, portable):
    """value * 2**exponent (a whole number in the float type), rounded once.

    Some targets have an instruction for it; the others compute `portable`, which means the same.
    """
    return Expr("scale", (value, exponent, portable), value.type)


def native(word, *operands, portable):
    """A word that some targets have instructions for (`Target.words`); the others compute
    `portable`, which means the same but for a rounding error or two.
    """
    return Expr("native", (*operands, portable), portable.type, word)


def repeat(count, step, *state):
    """The state after step(i, *state) for i in range(count); a real loop, count known now."""
    variables = tuple(Expr("variable", (), s.type) for s in state)
    index = Expr("variable", (), "i64")
    after = step(index, *variables)
    after = after if isinstance(after, tuple) else (after,)
    loop = Expr("repeat", tuple(state) + after, state[0].type, (count, index, variables))
    return tuple(Expr("part", (loop,), s.type, k) for k, s in enumerate(state))


def repeat_while(count, going, step, *state):
    """Like repeat, but stops early once going(*state) is false for every element in flight.

    Elements that are done keep their state.
    """
    variables = tuple(Expr("variable", (), s.type) for s in state)
    index = Expr("variable", (), "i64")
    live = going(*variables)
    after = step(index, *variables)
    after = after if isinstance(after, tuple) else (after,)
    after = tuple(select(live, new, old) for new, old in zip(after, variables))
    loop = Expr("repeat", tuple(state) + after + (live,), state[0].type, (count, index, variables))
    return tuple(Expr("part", (loop,), s.type, k) for k, s in enumerate(state))


def select(condition, a, b):
    """a where condition holds, else b, on expressions."""
    if isinstance(a, Complex) or isinstance(b, Complex):
        a, b = as_complex(a, b), as_complex(b, a)
        kind = ComplexHalf if isinstance(a, ComplexHalf) else type(b)
        return kind(select(condition, a.re, b.re), select(condition, a.im, b.im))
    if not isinstance(a, Expr):
        a = lift(a, b.type) if isinstance(b, Expr) else const(a, "f32")
    b = lift(b, a.type)
    if a.type != b.type:
        raise TypeError(f"where: {a.type} and {b.type} differ; cast one side")
    if not isinstance(condition, Expr):
        return a if condition else b
    if condition.op == "const":
        return a if condition.data else b
    return Expr("select", (condition, a, b), a.type)


class Complex:
    """A complex value: two float expressions. Operators follow the usual formulas."""

    __slots__ = ("re", "im")

    def __init__(self, re, im):
        self.re, self.im = re, im

    @property
    def type(self):
        return "c64" if self.re.type == "f32" else "c128"

    __hash__ = object.__hash__

    def __bool__(self):
        raise TypeError("an element's value is not known while compiling: use m.where, not if")

    def __neg__(self):
        return type(self)(-self.re, -self.im)


class ComplexHalf(Complex):
    """A complex32: what operators give is rounded to float16, each time, as PyTorch does it."""

    __slots__ = ()


def complex_half(z):
    """A Complex as a complex32 would hold it."""
    return ComplexHalf(narrowed(z.re, "f16"), narrowed(z.im, "f16"))


def as_complex(value, like):
    """value as a Complex, with the float type of like."""
    if isinstance(value, Complex):
        return value
    if isinstance(value, Expr):
        return Complex(value, const(0, value.type))
    type = like.re.type if isinstance(like, Complex) else like.type
    return Complex(const(complex(value).real, type), const(complex(value).imag, type))


def _complex_mul(a, b):
    return Complex(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re)


def _complex_div(a, b):
    # Smith's method: scale by the larger part of b, so that |b|^2 neither overflows nor vanishes.
    big = abs_(b.re) >= abs_(b.im)
    ratio = select(big, b.im / b.re, b.re / b.im)
    ratio = select((b.re == 0) & (b.im == 0), const(0, b.re.type), ratio)
    denominator = select(big, b.re + b.im * ratio, b.re * ratio + b.im)
    re = select(big, a.re + a.im * ratio, a.re * ratio + a.im)
    im = select(big, a.im - a.re * ratio, a.im * ratio - a.re)
    return Complex(re / denominator, im / denominator)


_COMPLEX_OPERATORS = {
    "add": lambda a, b: Complex(a.re + b.re, a.im + b.im),
    "sub": lambda a, b: Complex(a.re - b.re, a.im - b.im),
    "mul": _complex_mul,
    "div": _complex_div,
    "eq": lambda a, b: (a.re == b.re) & (a.im == b.im),
    "ne": lambda a, b: (a.re != b.re) | (a.im != b.im),
}


def _attach_complex_operators():
    names = {"add": "__add__ __radd__", "sub": "__sub__ __rsub__", "mul": "__mul__ __rmul__"}
    names |= {"div": "__truediv__ __rtruediv__", "eq": "__eq__", "ne": "__ne__"}
    for op, methods in names.items():
        for method in methods.split():
            if method.startswith("__r"):
                setattr(Complex, method, lambda self, other, op=op: _binary(op, other, self))
            else:
                setattr(Complex, method, lambda self, other, op=op: _binary(op, self, other))


_attach_complex_operators()


# ---------------------------------------------------------------------------------------------
# Words. Each looks at what it is given: expressions build, tensors run ops, numbers compute.

WORDS = {}  # name -> function on expressions
NUMBER_WORDS = {}  # name -> function on Python numbers
_tensor_word = None  # name -> function on tensors; set by eager through bind_tensor_words


def bind_tensor_words(lookup):
    """Tell the words how to run on tensors: lookup(name) gives the op."""
    global _tensor_word
    _tensor_word = lookup


def tensor_word(name):
    """The op of that name on tensors; for rows that call rows without a public name."""
    return _tensor_word(name)


def _word(name):
    def apply(*args):
        numbers = True
        for a in args:
            if isinstance(a, (Expr, Complex)):
                function = WORDS.get(name)
                if function is None:
                    _load_math()
                    function = WORDS[name]
                return function(*args)
            if not isinstance(a, (int, float, complex)):
                numbers = False
        return NUMBER_WORDS[name](*args) if numbers else _tensor_word(name)(*args)

    apply.__name__ = apply.__qualname__ = name
    return apply


def _load_math():
    """The libraries register their words here when the first kernel asks for one."""
    import flambeau.codegen.bessellib
    import flambeau.codegen.complexlib
    import flambeau.codegen.errorlib
    import flambeau.codegen.floatbits
    import flambeau.codegen.gammalib
    import flambeau.codegen.mathlib
    import flambeau.codegen.slopelib
    import flambeau.codegen.triglib  # noqa: F401


def spelled(function):
    """Register a function on expressions as the word of that name (a trailing _ is dropped)."""
    WORDS[function.__name__.rstrip("_")] = function
    return function


def _float_unary(op):
    def build(a):
        if isinstance(a, Complex):
            _load_math()  # registers the word again, with complex numbers in mind
            return WORDS[op](a)
        return Expr(op, (a,), a.type)

    return build


for _op in ("sqrt", "floor", "ceil", "trunc", "rint"):
    WORDS[_op] = _float_unary(_op)


def abs_(a):
    """Absolute value of a real expression (of a complex one: see complexlib)."""
    if isinstance(a, Complex):
        _load_math()
        return WORDS["hypot"](a.re, a.im)
    if is_float(a.type):
        return Expr("abs", (a,), a.type)
    return select(a < 0, -a, a) if a.type[0] == "i" else a


def _typed_pair(a, b):
    a = a if isinstance(a, Expr) else lift(a, b.type)
    return a, lift(b, a.type)


@spelled
def minimum(a, b):
    a, b = _typed_pair(a, b)
    return select((a < b) | (a != a) if is_float(a.type) else a < b, a, b)


@spelled
def maximum(a, b):
    a, b = _typed_pair(a, b)
    return select((a > b) | (a != a) if is_float(a.type) else a > b, a, b)


@spelled
def fmin(a, b):
    a, b = _typed_pair(a, b)
    return select((a < b) | (b != b) if is_float(a.type) else a < b, a, b)


@spelled
def fmax(a, b):
    a, b = _typed_pair(a, b)
    return select((a > b) | (b != b) if is_float(a.type) else a > b, a, b)


@spelled
def fma(a, b, c):
    like = next(x for x in (a, b, c) if isinstance(x, Expr))
    a, b, c = (lift(x, like.type) for x in (a, b, c))
    return Expr("fma", (a, b, c), a.type)


@spelled
def copysign(a, b):
    a, b = _typed_pair(a, b)
    return Expr("copysign", (a, b), a.type)


@spelled
def rem(a, b):
    """The remainder with the sign of a, as C's % and fmod."""
    a, b = _typed_pair(a, b)
    return Expr("rem", (a, b), a.type)


@spelled
def quot(a, b):
    """The integer quotient, cut toward zero."""
    a, b = _typed_pair(a, b)
    return Expr("quot", (a, b), a.type)


@spelled
def isnan(a):
    if isinstance(a, Complex):
        return (a.re != a.re) | (a.im != a.im)
    return a != a if is_float(a.type) else const(False, "bool")


@spelled
def isinf(a):
    if isinstance(a, Complex):
        return isinf(a.re) | isinf(a.im)
    return abs_(a) == math.inf if is_float(a.type) else const(False, "bool")


@spelled
def clz(a):
    return Expr("clz", (a,), a.type)


@spelled
def popcount(a):
    return Expr("popcount", (a,), a.type)


@spelled
def mulhi(a, b):
    """The upper half of the double-width product of two unsigned integers."""
    return Expr("mulhi", (a, lift(b, a.type)), a.type)


@spelled
def real(a):
    return a.re if isinstance(a, Complex) else a


@spelled
def imag(a):
    return a.im if isinstance(a, Complex) else const(0, a.type)


@spelled
def conj(a):
    return type(a)(a.re, -a.im) if isinstance(a, Complex) else a


@spelled
def make_complex(re, im):
    return Complex(re, im)


@spelled
def check(ok, value):
    """value, and the whole call fails if ok does not hold for some element (see Op.error)."""
    if isinstance(value, Complex):
        return Complex(check(ok, value.re), value.im)
    return Expr("check", (ok, value), value.type)


WORDS["abs"] = abs_
WORDS["where"] = select

MATH_WORDS = """
exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh
atanh pow erf erfc erfinv erfcx lgamma digamma polygamma zeta i0 i0e i1 i1e ndtri log_ndtr
normal_cdf gelu_slope hypot sigmoid rsqrt reciprocal sinc igamma igammac nextafter sign round angle
frexp_mantissa frexp_exponent ldexp bessel_j0 bessel_j1 bessel_y0 bessel_y1 modified_bessel_i0
modified_bessel_i1 modified_bessel_k0 modified_bessel_k1 scaled_modified_bessel_k0
scaled_modified_bessel_k1 spherical_bessel_j0 airy_ai trigamma gamma_slope beta_slope
""".split()

for _name in [*WORDS, *MATH_WORDS]:
    globals()[_name] = _word(_name)

for _name in dir(math):
    if _name in WORDS or _name in MATH_WORDS:
        NUMBER_WORDS[_name] = getattr(math, _name)
NUMBER_WORDS |= {
    "abs": builtins.abs,
    "where": lambda c, a, b: a if c else b,
    "minimum": min,
    "maximum": max,
    "fmin": min,
    "fmax": max,
    "rsqrt": lambda x: 1 / math.sqrt(x),
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "sign": lambda x: (x > 0) - (x < 0),
    "rint": builtins.round,
    "real": lambda x: x.real,
    "imag": lambda x: x.imag,
    "conj": lambda x: x.conjugate(),
    "rem": math.fmod,
}


def show(expr, names=None):
    """An expression as readable text; shared parts are named %0, %1, ... on lines of their own."""
    if isinstance(expr, Complex):
        return f"complex:\n{show(expr.re)}\n{show(expr.im)}"
    uses, order, stack = {}, [], [(expr, False)]
    while stack:
        node, done = stack.pop()
        if done:
            order.append(node)
            continue
        seen = id(node) in uses
        uses[id(node)] = uses.get(id(node), 0) + 1
        if not seen:
            stack.append((node, True))
            stack.extend((a, False) for a in reversed(node.args))
    text, lines = {}, []
    for node in order:
        t = _show_one(node, [text[id(a)] for a in node.args])
        if uses[id(node)] > 1 and node.args:
            lines.append(f"  %{len(lines)} = {t}")
            t = f"%{len(lines) - 1}"
        text[id(node)] = t
    return "\n".join([*lines, f"  {text[id(expr)]} : {expr.type}"])


def _show_one(node, args):
    if node.op == "const":
        return repr(node.data)
    if node.op in ("argument", "coordinate"):
        return f"{node.op[:3]}{node.data}"
    if node.op == "narrowed":
        return f"{node.data}({args[0]})"
    if node.op in ("cast", "bitcast"):
        return f"{node.type}({args[0]})" if node.op == "cast" else f"bits_{node.type}({args[0]})"
    return f"{node.op}({', '.join(args)})"


if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...  # the words, which a loop above defines
