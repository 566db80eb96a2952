"""Loop nests as text: a small imperative builder that writes LLVM IR.

`Fn` is one function under construction: values (`V`) carry their LLVM type and overload Python's
operators, `loop`, `when` and `if_else` open control flow, `var` is a mutable cell that LLVM
promotes to a register. Pure instructions are value-numbered, so writing the same thing twice costs
nothing. `Module` gathers functions, declarations and constants. What one element computes is
described in `scalar.py` and written into a function by `llvm.py`.
"""

import struct
from contextlib import contextmanager

I64, I32, I8, I1, PTR = "i64", "i32", "i8", "i1", "ptr"


def vector(type, width):
    """The LLVM type of `width` values side by side; width 1 is the scalar itself."""
    return type if width == 1 else f"<{width} x {type}>"


def element(type):
    """The element type of a vector type; a scalar type is its own element."""
    return type.split(" x ")[1][:-1] if type[0] == "<" else type


def width_of(type):
    return int(type[1:].split(" x ")[0]) if type[0] == "<" else 1


def is_float_type(type):
    return element(type) in ("float", "double", "half")


def literal(value, type):
    """A number as LLVM writes it; on vector types, the same number in every lane."""
    e = element(type)
    if e in ("float", "double"):
        text = f"0x{struct.unpack('Q', struct.pack('d', value))[0]:016X}"
    elif e == "i1":
        text = "true" if value else "false"
    elif e == "ptr":
        text = "null"
    else:
        text = str(int(value))
    if type[0] != "<":
        return text
    return "<" + ", ".join([f"{e} {text}"] * width_of(type)) + ">"


def rounded_f32(value):
    """The nearest float32, which is how LLVM wants a float literal."""
    return struct.unpack("f", struct.pack("f", value))[0]


class V:
    """A value inside a function: its LLVM type and its name. Integer operators are signed."""

    __slots__ = ("fn", "type", "name")

    def __init__(self, fn, type, name):
        self.fn, self.type, self.name = fn, type, name

    def __repr__(self):
        return f"{self.type} {self.name}"

    def _arith(self, int_op, float_op, other, swap=False):
        other = self.fn.value(other, self.type)
        a, b = (other, self) if swap else (self, other)
        op = float_op if is_float_type(self.type) else int_op
        return self.fn.pure(f"{op} {a.type} {a.name}, {b.name}", a.type)

    def __add__(self, other):
        return self._arith("add", "fadd", other)

    def __sub__(self, other):
        return self._arith("sub", "fsub", other)

    def __mul__(self, other):
        return self._arith("mul", "fmul", other)

    def __floordiv__(self, other):
        return self._arith("sdiv", "fdiv", other)

    def __truediv__(self, other):
        return self._arith("sdiv", "fdiv", other)

    def __mod__(self, other):
        return self._arith("srem", "frem", other)

    def __and__(self, other):
        return self._arith("and", "", other)

    def __or__(self, other):
        return self._arith("or", "", other)

    def __xor__(self, other):
        return self._arith("xor", "", other)

    def __lshift__(self, other):
        return self._arith("shl", "", other)

    def __rshift__(self, other):
        return self._arith("lshr", "", other)

    def __radd__(self, other):
        return self._arith("add", "fadd", other, swap=True)

    def __rsub__(self, other):
        return self._arith("sub", "fsub", other, swap=True)

    def __rmul__(self, other):
        return self._arith("mul", "fmul", other, swap=True)

    def __neg__(self):
        return 0 - self if not is_float_type(self.type) else self.fn.pure(f"fneg {self}", self.type)

    def _compare(self, int_op, float_op, other):
        other = self.fn.value(other, self.type)
        head = f"fcmp {float_op}" if is_float_type(self.type) else f"icmp {int_op}"
        result = vector(I1, width_of(self.type))
        return self.fn.pure(f"{head} {self.type} {self.name}, {other.name}", result)

    def __lt__(self, other):
        return self._compare("slt", "olt", other)

    def __le__(self, other):
        return self._compare("sle", "ole", other)

    def __gt__(self, other):
        return self._compare("sgt", "ogt", other)

    def __ge__(self, other):
        return self._compare("sge", "oge", other)

    def __eq__(self, other):
        return self._compare("eq", "oeq", other)

    def __ne__(self, other):
        return self._compare("ne", "une", other)

    def below(self, other):
        """Unsigned less-than."""
        return self._compare("ult", "olt", other)

    def __invert__(self):
        return self ^ (True if element(self.type) == "i1" else -1)

    __hash__ = object.__hash__


class Var:
    """A mutable cell of a function; LLVM turns it into a register."""

    __slots__ = ("fn", "type", "slot")

    def __init__(self, fn, type, slot):
        self.fn, self.type, self.slot = fn, type, slot

    def get(self):
        return self.fn.emit(f"load {self.type}, ptr {self.slot}", self.type)

    def set(self, value):
        value = self.fn.value(value, self.type)
        self.fn.line(f"store {value}, ptr {self.slot}")


class Fn:
    """One function under construction."""

    def __init__(self, module, name, params, result="void", internal=False):
        self.module, self.name, self.result, self.internal = module, name, result, internal
        self.params = [V(self, type, f"%{n}") for type, n in params]
        self.lines, self.allocas, self.known = [], [], [{}]
        self.count = 0
        self.head = None  # of the definition, where it is not the usual one
        self.vector_align = None  # of loads and stores of whole vectors, where more is known
        self.block = "entry"
        module.functions.append(self)

    # -- values ------------------------------------------------------------------------------
    def value(self, x, type):
        """x as a value of a type; numbers become literals, scalars are spread over the lanes."""
        if isinstance(x, Var):
            x = x.get()
        if isinstance(x, V):
            if x.type != type and width_of(type) > 1 and x.type == element(type):
                return self.splat(x, width_of(type))
            if x.type != type:
                raise TypeError(f"{x.type} {x.name} where {type} is wanted")
            return x
        return V(self, type, literal(x, type))

    def emit(self, text, type):
        """An instruction with a result."""
        self.count += 1
        name = f"%v{self.count}"
        self.lines.append(f"  {name} = {text}")
        return V(self, type, name)

    def pure(self, text, type):
        """An instruction whose result depends on its operands only: emitted once per scope."""
        for scope in reversed(self.known):
            if text in scope:
                return scope[text]
        value = self.known[-1][text] = self.emit(text, type)
        return value

    def line(self, text):
        self.lines.append("  " + text)

    def alloca(self, type, count=1, align=64):
        self.count += 1
        name = f"%s{self.count}"
        self.allocas.append(f"  {name} = alloca {type}, i64 {count}, align {align}")
        return V(self, PTR, name)

    def var(self, init, type=None):
        type = type or init.type
        cell = Var(self, type, self.alloca(type, align=8 if type[0] != "<" else 64).name)
        cell.set(init)
        return cell

    def splat(self, x, width):
        if width == 1:
            return x
        t = vector(x.type, width)
        one = self.pure(f"insertelement {t} poison, {x}, i64 0", t)
        zeros = literal(0, f"<{width} x i32>")
        return self.pure(f"shufflevector {one}, {t} poison, <{width} x i32> {zeros}", t)

    def iota(self, type):
        """0, 1, 2, ... in the lanes of an integer vector type (or 0 for a scalar)."""
        e, w = element(type), width_of(type)
        if w == 1:
            return V(self, type, "0")
        return V(self, type, "<" + ", ".join(f"{e} {i}" for i in range(w)) + ">")

    def extract(self, x, lane):
        if width_of(x.type) == 1:
            return x
        return self.pure(
            f"extractelement {x}, i64 {lane if not isinstance(lane, V) else lane.name}",
            element(x.type),
        )

    def insert(self, x, value, lane):
        return self.pure(f"insertelement {x}, {value}, i64 {lane}", x.type)

    def shuffle(self, a, b, lanes):
        t = vector(element(a.type), len(lanes))
        mask = f"<{len(lanes)} x i32> <{', '.join(f'i32 {k}' for k in lanes)}>"
        other = "poison" if b is None else b.name
        return self.pure(f"shufflevector {a}, {a.type} {other}, {mask}", t)

    def select(self, condition, a, b):
        if not isinstance(a, V):
            a = self.value(a, b.type)
        b = self.value(b, a.type)
        return self.pure(f"select {condition}, {a}, {b}", a.type)

    def min(self, a, b):
        b = self.value(b, a.type) if isinstance(a, V) else b
        a = a if isinstance(a, V) else self.value(a, b.type)
        return self.select(a < b, a, b)

    def max(self, a, b):
        b = self.value(b, a.type) if isinstance(a, V) else b
        a = a if isinstance(a, V) else self.value(a, b.type)
        return self.select(a > b, a, b)

    def convert(self, op, x, type):
        """zext, sext, trunc, fpext, fptrunc, sitofp, ptrtoint, bitcast, ... (nothing if equal)."""
        return x if x.type == type else self.pure(f"{op} {x} to {type}", type)

    def call(self, name, type, *args, pure=True):
        """Call a function by name; an intrinsic is declared on first use."""
        self.module.declare(name, type, [a.type for a in args])
        text = f"call {type} @{name}({', '.join(map(repr, args))})"
        if type == "void":
            return self.line(text)
        return self.pure(text, type) if pure else self.emit(text, type)

    def intrinsic(self, name, x, *more):
        """An LLVM intrinsic overloaded on the type of its first argument, e.g. sqrt."""
        return self.call(f"llvm.{name}.{mangle(x.type)}", x.type, x, *more)

    # -- memory ------------------------------------------------------------------------------
    def gep(self, pointer, index, type):
        """Address of pointer[index], elements of the given type."""
        index = self.value(index, I64)
        return self.pure(f"getelementptr {type}, {pointer}, {index}", PTR)

    def load(self, pointer, type, align=None):
        return self.emit(f"load {type}, {pointer}, align {align or self._align(type)}", type)

    def store(self, value, pointer, align=None):
        self.line(f"store {value}, {pointer}, align {align or self._align(value.type)}")

    def _align(self, type):
        one = bytes_of(element(type))
        if self.vector_align is None or type[0] != "<":
            return one
        return min(self.vector_align, one * width_of(type))

    # -- control flow ------------------------------------------------------------------------
    def label(self, stem):
        self.count += 1
        return f"{stem}{self.count}"

    def open(self, label):
        self.lines.append(f"{label}:")
        self.block = label

    def jump(self, label):
        self.line(f"br label %{label}")

    def branch(self, condition, yes, no):
        self.line(f"br {condition}, label %{yes}, label %{no}")

    @contextmanager
    def scope(self):
        self.known.append({})
        yield
        self.known.pop()

    @contextmanager
    def loop(self, low, high, step=1, type=I64):
        """for i in range(low, high, step); both bounds are evaluated before the loop."""
        low, high = self.value(low, type), self.value(high, type)
        step = self.value(step, type)
        head, body, latch, done = (self.label(x) for x in ("head", "body", "latch", "done"))
        before = self.block
        self.jump(head)
        self.open(head)
        slot = len(self.lines)
        self.lines.append("")
        self.count += 1
        i = V(self, type, f"%i{self.count}")
        with self.scope():
            self.branch(i < high, body, done)
            self.open(body)
            yield i
            self.jump(latch)
            self.open(latch)
            following = self.emit(f"add {i}, {step.name}", type)
            self.jump(head)
        self.lines[slot] = (
            f"  {i.name} = phi {type} [{low.name}, %{before}], [{following.name}, %{latch}]"
        )
        self.open(done)

    @contextmanager
    def while_(self, condition):
        """Repeat the body while condition() (evaluated in the loop) holds."""
        head, body, done = (self.label(x) for x in ("head", "body", "done"))
        self.jump(head)
        self.open(head)
        with self.scope():
            self.branch(condition(), body, done)
            self.open(body)
            yield
            self.jump(head)
        self.open(done)

    def carry(self, count, values, body):
        """values = body(values), `count` times; they travel in registers from turn to turn."""
        before, turn, done = self.block, self.label("turn"), self.label("done")
        count = self.value(count, I64)
        self.branch(count > 0, turn, done)
        self.open(turn)
        slot = len(self.lines)
        self.lines += [""] * (len(values) + 1)
        held = []
        for v in values:
            self.count += 1
            held.append(V(self, v.type, f"%c{self.count}"))
        self.count += 1
        left = V(self, I64, f"%c{self.count}")
        with self.scope():
            after = body(held)
            rest = self.emit(f"sub {left}, 1", I64)
            last = self.block
            self.branch(rest > 0, turn, done)
        for k, (name, first, following) in enumerate(
            zip([*held, left], [*values, count], [*after, rest])
        ):
            self.lines[slot + k] = (
                f"  {name.name} = phi {name.type} "
                f"[{first.name}, %{before}], [{following.name}, %{last}]"
            )
        self.open(done)
        return [
            self.emit(f"phi {a.type} [{a.name}, %{before}], [{b.name}, %{last}]", a.type)
            for a, b in zip(values, after)
        ]

    @contextmanager
    def when(self, condition):
        body, done = self.label("then"), self.label("done")
        self.branch(condition, body, done)
        self.open(body)
        with self.scope():
            yield
        self.jump(done)
        self.open(done)

    def if_else(self, condition, then, otherwise):
        """Run one of two builders; their values (if any, of one type) are joined and returned."""
        yes, no, done = self.label("then"), self.label("else"), self.label("done")
        self.branch(condition, yes, no)
        arms = []
        for label, build in ((yes, then), (no, otherwise)):
            self.open(label)
            with self.scope():
                arms.append((build(), self.block))
            # arms may open blocks of their own: the phi needs the last one
            arms[-1] = (arms[-1][0], self.block)
            self.jump(done)
        self.open(done)
        if arms[0][0] is None:
            return None
        type = arms[0][0].type
        return self.emit(f"phi {type} " + ", ".join(f"[{v.name}, %{b}]" for v, b in arms), type)

    def any(self, mask):
        """Is any lane of an i1 vector true?"""
        w = width_of(mask.type)
        if w == 1:
            return mask
        bits = self.pure(f"bitcast {mask} to i{w}", f"i{w}")
        return self.pure(f"icmp ne {bits}, 0", I1)

    def all(self, mask):
        """Are all lanes of an i1 vector true?"""
        w = width_of(mask.type)
        if w == 1:
            return mask
        bits = self.pure(f"bitcast {mask} to i{w}", f"i{w}")
        return self.pure(f"icmp eq {bits}, -1", I1)

    def ret(self, value=None):
        self.line("ret void" if value is None else f"ret {value}")

    def text(self):
        params = ", ".join(map(repr, self.params))
        linkage = "internal " if self.internal else ""
        head = self.head or f"define {linkage}{self.result} @{self.name}({params})"
        return "\n".join([f"{head} #0 {{\nentry:", *self.allocas, *self.lines, "}"])


_MANGLED = {"float": "f32", "double": "f64", "half": "f16", "ptr": "p0"}


def mangle(type):
    e = element(type)
    stem = _MANGLED.get(e, e)
    return stem if type[0] != "<" else f"v{width_of(type)}{stem}"


_BYTES = {"float": 4, "double": 8, "half": 2, "ptr": 8, "i1": 1}


def bytes_of(type):
    """Size in memory of a scalar LLVM type."""
    return _BYTES.get(type) or int(type[1:]) // 8


class Module:
    """Functions, declarations and constants of one piece of IR."""

    def __init__(self):
        self.functions, self.declared, self.constants = [], {}, {}
        self.variables: list[str] = []  # definitions of what functions share
        self.host: Module | None = None  # what launches this one, where it is for a GPU

    def function(self, name, params, result="void", internal=False):
        # a kernel's body is never internal: programs of kernels call it by its address
        return Fn(self, name, params, result, internal and name != "body")

    def declare(self, name, result, params):
        self.declared[name] = f"declare {result} @{name}({', '.join(params)})"

    def constant(self, type, values):
        """Address of a constant array."""
        key = (type, tuple(values))
        name = self.constants.setdefault(key, f"@table{len(self.constants)}")
        return name

    def text(self, attributes=""):
        defined = {f.name for f in self.functions}
        tables = [
            f"{name} = private constant [{len(values)} x {type}] ["
            + ", ".join(f"{type} {literal(v, type)}" for v in values)
            + "], align 64"
            for (type, values), name in self.constants.items()
        ]
        declares = [text for name, text in self.declared.items() if name not in defined]
        bodies = [f.text() for f in self.functions]
        return "\n".join(
            [
                *tables,
                *self.variables,
                *declares,
                *bodies,
                f"attributes #0 = {{ nounwind {attributes} }}",
                "",
            ]
        )
