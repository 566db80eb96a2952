"""dtypes, the promotion lattice, finfo and iinfo.

A dtype is one of sixteen objects, a float of eight bits, or a name for something rarer. `code` is
the compiler's short name for it (f32, bf16, c64, ...),
`category` its place among bool < integer < floating < complex, which decides promotion;
`scalar_name` and `cpp_name` are what PyTorch calls it in its messages.
"""

import math
import struct

BOOL, INTEGER, FLOATING, COMPLEX = range(4)


class dtype:
    """The type of a tensor's elements."""

    __slots__ = (
        "name",
        "code",
        "itemsize",
        "category",
        "is_signed",
        "scalar_name",
        "cpp_name",
        "rank",
        "numpy_name",
    )
    name: str
    code: str
    itemsize: int
    category: int
    is_signed: bool
    scalar_name: str
    cpp_name: str

    def __new__(cls, *args):
        raise TypeError("cannot create 'torch.dtype' instances")

    @property
    def is_floating_point(self):
        return self.category == FLOATING

    @property
    def is_complex(self):
        return self.category == COMPLEX

    def to_real(self):
        return _REAL.get(self.name, self)

    def to_complex(self):
        if self.category < FLOATING or self.name in FLOAT8:
            raise RuntimeError(f"Unknown Complex ScalarType for {self.scalar_name}")
        return self if self.category == COMPLEX else _COMPLEX.get(self.name, complex64)

    def __repr__(self):
        return f"torch.{self.name}"

    def __reduce__(self):
        return named, (self.name,)

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self


def named(name):
    """The dtype of a name; how pickles find it."""
    return BY_NAME.get(name) or WITHOUT_KERNELS[name]


def _make(name, code, itemsize, category, is_signed, scalar_name, cpp_name, numpy_name=None):
    self = object.__new__(dtype)
    self.name, self.code, self.itemsize, self.category = name, code, itemsize, category
    self.is_signed, self.scalar_name, self.cpp_name = is_signed, scalar_name, cpp_name
    self.numpy_name, self.rank = numpy_name or name, len(ALL)
    ALL.append(self)
    return self


ALL: list = []
bool_ = _make("bool", "bool", 1, BOOL, False, "Bool", "bool")
uint8 = _make("uint8", "u8", 1, INTEGER, False, "Byte", "unsigned char")
int8 = _make("int8", "i8", 1, INTEGER, True, "Char", "signed char")
int16 = _make("int16", "i16", 2, INTEGER, True, "Short", "short int")
int32 = _make("int32", "i32", 4, INTEGER, True, "Int", "int")
int64 = _make("int64", "i64", 8, INTEGER, True, "Long", "long int")
uint16 = _make("uint16", "u16", 2, INTEGER, False, "UInt16", "short unsigned int")
uint32 = _make("uint32", "u32", 4, INTEGER, False, "UInt32", "unsigned int")
uint64 = _make("uint64", "u64", 8, INTEGER, False, "UInt64", "long unsigned int")
float16 = _make("float16", "f16", 2, FLOATING, True, "Half", "c10::Half")
bfloat16 = _make("bfloat16", "bf16", 2, FLOATING, True, "BFloat16", "c10::BFloat16", "uint16")
float32 = _make("float32", "f32", 4, FLOATING, True, "Float", "float")
float64 = _make("float64", "f64", 8, FLOATING, True, "Double", "double")
# pairs of float16, which kernels compute with as complex64; NumPy has no name for them
complex32 = _make("complex32", "c32", 4, COMPLEX, True, "ComplexHalf", "c10::complex<c10::Half>")
complex64 = _make("complex64", "c64", 8, COMPLEX, True, "ComplexFloat", "c10::complex<float>")
complex128 = _make("complex128", "c128", 16, COMPLEX, True, "ComplexDouble", "c10::complex<double>")

_REAL = {"complex32": float16, "complex64": float32, "complex128": float64}
_COMPLEX = {"float16": complex32, "float32": complex64, "float64": complex128}
BY_NAME = {d.name: d for d in ALL}
BY_CODE = {d.code: d for d in ALL}


class NamedOnly(dtype):
    """A dtype that libraries name in their tables; there are no tensors of it."""

    __slots__ = ()

    @property
    def code(self):
        raise NotImplementedError(f"Tensors of dtype {self} are not implemented in flambeau")


def _without_kernels(name, scalar_name, category, is_signed=True):
    self = object.__new__(NamedOnly)
    self.name, self.itemsize, self.category, self.is_signed = name, 1, category, is_signed
    self.scalar_name, self.cpp_name, self.numpy_name = scalar_name, f"c10::{scalar_name}", "uint8"
    self.rank = len(ALL)
    return self


class QuantizedDtype(NamedOnly):
    """Integers that stand for numbers by a scale and a zero point, which the storage knows.

    No kernel is made for such a dtype: ops that take quantized tensors look at their integers
    (eager/quantized.py), all others are refused here.
    """

    __slots__ = ()

    @property
    def code(self):
        raise NotImplementedError(
            "Could not run this operation with arguments from the 'QuantizedCPU' backend. "
            f"It is not implemented for {self}; dequantize the tensor first."
        )


def _quantized(name, scalar_name, integers):
    self = object.__new__(QuantizedDtype)
    self.name, self.itemsize, self.category = name, integers.itemsize, INTEGER
    self.is_signed, self.scalar_name, self.cpp_name = (
        integers.is_signed,
        scalar_name,
        "c10::" + name,
    )
    self.numpy_name, self.rank = integers.name, len(ALL)
    return self


def _float8(name):
    """A float of eight bits; kernels read and write it as a float32 (codegen/float8.py)."""
    self = object.__new__(dtype)
    self.name, self.code, self.itemsize, self.category = name, "f8" + name[6:], 1, FLOATING
    self.is_signed = name != "float8_e8m0fnu"
    self.scalar_name, self.cpp_name = name.capitalize(), f"c10::{name.capitalize()}"
    self.numpy_name, self.rank = "uint8", len(ALL)
    return self


FLOAT8 = {
    name: _float8(name)
    for name in ("float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu".split())
}
BY_CODE |= {d.code: d for d in FLOAT8.values()}
WITHOUT_KERNELS = {
    **FLOAT8,
    "float4_e2m1fn_x2": _without_kernels("float4_e2m1fn_x2", "Float4_e2m1fn_x2", FLOATING),
}
# integers of less than a byte, which libraries pack themselves; each takes a byte
SMALL_INTEGERS = {
    f"{kind.lower()}{bits}": _without_kernels(
        f"{kind.lower()}{bits}", f"{kind}{bits}", INTEGER, kind == "Int"
    )
    for kind in ("UInt", "Int")
    for bits in range(1, 8)
}
WITHOUT_KERNELS |= SMALL_INTEGERS
# quantized dtype -> that of its integers; the last two hold several to a byte
QUANTIZED = {
    _quantized("qint8", "QInt8", int8): int8,
    _quantized("quint8", "QUInt8", uint8): uint8,
    _quantized("qint32", "QInt32", int32): int32,
    _quantized("quint4x2", "QUInt4x2", uint8): uint8,
    _quantized("quint2x4", "QUInt2x4", uint8): uint8,
}
WITHOUT_KERNELS |= {d.name: d for d in QUANTIZED}
qint8, quint8, qint32, quint4x2, quint2x4 = QUANTIZED
ALIASES = {
    "half": float16,
    "float": float32,
    "double": float64,
    "short": int16,
    "int": int32,
    "long": int64,
    "cfloat": complex64,
    "cdouble": complex128,
    "chalf": complex32,
}

_NOT_PROMOTED = {uint16, uint32, uint64, *SMALL_INTEGERS.values()}


def _promote(a, b):
    if a is b:
        return a
    if a.name in FLOAT8 or b.name in FLOAT8:
        raise RuntimeError(
            "Promotion for Float8 Types is not supported, attempted to promote "
            f"{a.scalar_name} and {b.scalar_name}"
        )
    if _NOT_PROMOTED & {a, b} and FLOATING not in (a.category, b.category):
        raise RuntimeError(
            "Promotion for uint16, uint32, uint64 types is not supported, "
            f"attempted to promote {a.scalar_name} and {b.scalar_name}"
        )
    if a.category > b.category:
        a, b = b, a
    if a.category < b.category:
        if a.category < FLOATING or b.category == FLOATING:
            return b
        a = a.to_complex()  # a complex64 meeting a double must hold the double
    if b.category == INTEGER:
        return _promote_integers(a, b)
    if {a, b} == {float16, bfloat16}:
        return float32
    return a if a.itemsize > b.itemsize else b


def _promote_integers(a, b):
    if uint8 in (a, b):
        other = b if a is uint8 else a
        return int16 if other is int8 else other
    return a if a.itemsize > b.itemsize else b


_promotions: dict = {}


_PYTHON = {float: float64, int: int64, bool: bool_, complex: complex128}


def meant(value):
    """The dtype that a value says: a dtype itself, or a type of Python's numbers; else None."""
    if isinstance(value, dtype):
        return value
    # a type may be unhashable through its metaclass, but then it is no number type either
    return _PYTHON.get(value) if type(value) is type else None


def _dtypes(function, names, values):
    """The dtypes that arguments mean, or PyTorch's complaint."""
    found = [meant(value) for value in values]
    for position, (name, value) in enumerate(zip(names, values), 1):
        if found[position - 1] is None:
            kind = type(value).__name__
            raise TypeError(
                f"{function}(): argument '{name}' (position {position}) must be torch.dtype, "
                f"not {kind}"
            )
    return found


def promote_types(type1, type2):
    """The smallest dtype that holds both."""
    key = (type1, type2)
    found = _promotions.get(key)
    if found is None:
        found = _promote(*_dtypes("promote_types", ("type1", "type2"), key))
        _promotions[key] = found
    return found


def can_cast(from_, to):
    """May a result of dtype from_ be stored as dtype to?"""
    from_, to = _dtypes("can_cast", ("from_", "to"), (from_, to))
    return from_.category <= to.category


class Defaults:
    """The default floating dtype, which set_default_dtype changes."""

    dtype = float32
    remembered: list = []  # dictionaries of what was worked out with the default of then


def default_dtype():
    return Defaults.dtype


def set_default_dtype(d):
    """Use d for floats without a dtype and for integers that become floats."""
    if not isinstance(d, dtype):
        raise TypeError(
            "invalid dtype object: only floating-point types are supported as the default type"
        )
    if not d.is_floating_point:
        raise TypeError("only floating-point types are supported as the default type")
    if isinstance(d, NamedOnly) or d.name in FLOAT8:
        raise TypeError(f"couldn't find storage object {d.scalar_name}Storage")
    if d is not Defaults.dtype:
        Defaults.dtype = d
        for found in Defaults.remembered:
            found.clear()


def default_complex():
    if Defaults.dtype is bfloat16:
        raise RuntimeError("invalid default scalar type for complex")
    return Defaults.dtype.to_complex()


def scalar_dtype(kind):
    """The dtype a Python scalar type stands for in promotion."""
    if kind is bool:
        return bool_
    if kind is int:
        return int64
    return Defaults.dtype if kind is float else Defaults.dtype.to_complex()


def result_dtype(operands):
    """PyTorch's result type.

    operands: (dtype, weight) pairs; weight 2 for tensors with dimensions, 1 for 0-d tensors, 0 for
    Python scalars. A lighter operand changes the result only if its category is higher.
    """
    found = [None, None, None]
    for d, weight in operands:
        found[weight] = d if found[weight] is None else promote_types(found[weight], d)
    scalars, zero_dim, dims = found
    if zero_dim is None and dims is None:
        return scalars
    return _combine(_combine(dims, zero_dim), scalars)


def _combine(heavy, light):
    if heavy is None or light is None:
        return heavy if light is None else light
    if light.category > heavy.category:
        return _lifted(heavy, light)
    return heavy


def _lifted(heavy, light):
    # float tensor with a complex scalar: the float's own precision decides the complex type
    if light.category == COMPLEX and heavy.category == FLOATING:
        return heavy.to_complex()
    return promote_types(heavy, light) if heavy is bool_ else light


_FLOAT_FACTS = {  # bits, mantissa bits, largest, smallest normal
    "float64": (64, 52, 1.7976931348623157e308, 2.2250738585072014e-308),
    "float32": (32, 23, struct.unpack("f", b"\xff\xff\x7f\x7f")[0], 2.0**-126),
    "float16": (16, 10, 65504.0, 2.0**-14),
    "bfloat16": (16, 7, struct.unpack("f", b"\x00\x00\x7f\x7f")[0], 2.0**-126),
    "float8_e4m3fn": (8, 3, 448.0, 2.0**-6),
    "float8_e4m3fnuz": (8, 3, 240.0, 2.0**-7),
    "float8_e5m2": (8, 2, 57344.0, 2.0**-14),
    "float8_e5m2fnuz": (8, 3, 57344.0, 2.0**-15),  # PyTorch tells an eps of 2**-3, so here, too
    "float8_e8m0fnu": (8, 0, 2.0**127, 2.0**-127),
}
_RESOLUTION = {"float64": 1e-15, "float32": 1e-6, "float16": 1e-3, "bfloat16": 0.01}
_RESOLUTION |= dict.fromkeys(FLOAT8, 1.0)


class finfo:
    """Limits of a floating dtype."""

    def __init__(self, type=None):
        type = Defaults.dtype if type is None else type
        (type,) = _dtypes("finfo", ("type",), (type,))
        if type.category < FLOATING:
            raise TypeError(
                "torch.finfo() requires a floating point input type. "
                f"Use torch.iinfo to handle '{type}'"
            )
        real = type.to_real()
        if real.name not in _FLOAT_FACTS:
            raise TypeError(f"there are no limits of {real}")
        self.bits, mantissa, self.max, self.tiny = _FLOAT_FACTS[real.name]
        self.min, self.eps, self.dtype = -self.max, 2.0**-mantissa, real.name
        if not real.is_signed:
            self.min = self.tiny
        self.smallest_normal, self.resolution = self.tiny, _RESOLUTION[real.name]

    def __repr__(self):
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, "
            f"eps={self.eps:g}, smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, "
            f"dtype={self.dtype})"
        )

    def __eq__(self, other):
        return isinstance(other, finfo) and self.dtype == other.dtype

    def __hash__(self):
        return hash(self.dtype)


class iinfo:
    """Limits of an integer dtype."""

    def __init__(self, type):
        (type,) = _dtypes("iinfo", ("type",), (type,))
        if type is bool_:
            raise TypeError("torch.bool is not supported by torch.iinfo")
        if type.category != INTEGER or type.name in SMALL_INTEGERS:
            raise TypeError(
                f"torch.iinfo() requires an integer input type. Use torch.finfo to handle '{type}'"
            )
        self.bits, self.dtype = 8 * type.itemsize, type.name
        self.min = -(1 << (self.bits - 1)) if type.is_signed else 0
        self.max = (1 << (self.bits - type.is_signed)) - 1

    def __repr__(self):
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"

    def __eq__(self, other):
        return isinstance(other, iinfo) and self.dtype == other.dtype

    def __hash__(self):
        return hash(self.dtype)


def overflow(dtype):
    """What to raise for a number that a dtype cannot hold."""
    fixed_width = dtype.category == INTEGER and dtype is not int32
    name = f"{dtype.name}_t" if fixed_width else dtype.cpp_name
    return RuntimeError(f"value cannot be converted to type {name} without overflow")


def check_fits(value, dtype):
    """The number, if it lies within a dtype; complains otherwise."""
    if not _fits(value, dtype):
        raise overflow(dtype)
    return value


def check_fill(value, dtype):
    """The same for a number to fill with: what complex64 holds may become infinite in complex32."""
    return check_fits(value, complex64 if dtype is complex32 else dtype)


def as_64_bits(value, floating):
    """An integer as kernels take it: from 2**63 on it is a float among floats, and what its bits
    say among integers.
    """
    if -(1 << 63) <= value < 1 << 63:
        return value
    if value >= 1 << 64:
        raise OverflowError("int too big to convert")
    if value < 0:
        raise OverflowError("can't convert negative int to unsigned")
    return float(value) if floating else value - (1 << 64)


def _fits(value, dtype):
    kind = type(value)
    if dtype.category == BOOL or (kind is bool):
        return True
    if kind is complex and dtype.category < COMPLEX:
        return value.imag == 0 and _fits(value.real, dtype)
    if dtype.category == INTEGER:
        limits = iinfo(dtype)
        if kind is float:
            return limits.min <= value <= limits.max
        # a negative number wraps around in an unsigned dtype
        return (limits.min if dtype.is_signed else -limits.max) <= value <= limits.max
    largest = finfo(dtype).max
    parts = (value.real, value.imag) if kind is complex else (value,)
    return all(not math.isfinite(p) or -largest <= p <= largest for p in parts)
