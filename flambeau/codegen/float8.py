"""Floats of eight bits: how kernels read and write them as float32.

A format has a sign, an exponent with a bias and m bits behind the point; `fnuz` formats have no
infinity, no negative zero and one nan, 0x80. Reading puts the bits where float32 has them and
scales by a power of two, which is exact for subnormal numbers, too. Writing rounds to nearest, ties
to even: above the smallest normal number by adding to the bits, below it by adding a number whose
last bit is the last one kept. float8_e8m0fnu is a bare exponent.
"""

from flambeau.codegen.llvm_names import FLOAT8
from flambeau.codegen.loops import vector, width_of

# bits behind the point, bias of the exponent
_FORMATS = {
    "f8_e4m3fn": (3, 7),
    "f8_e4m3fnuz": (3, 8),
    "f8_e5m2": (2, 15),
    "f8_e5m2fnuz": (2, 16),
}
_INFINITY = 0x7F800000  # of float32
_NAN = 0x7FC00000

IS_FLOAT8 = frozenset(FLOAT8)


def read(fn, raw, dtype):
    """Bytes as float32."""
    w = width_of(raw.type)
    wide, floats = vector("i32", w), vector("float", w)
    byte = fn.convert("zext", raw, wide)
    if dtype == "f8_e8m0fnu":
        bits = fn.select(byte == 0, 0x400000, byte << 23)
        return fn.convert("bitcast", fn.select(byte == 255, _NAN, bits), floats)
    m, bias = _FORMATS[dtype]
    low = byte & 0x7F
    power = fn.value(2.0 ** (127 - bias), floats)
    value = fn.convert("bitcast", low << (23 - m), floats) * power
    bits = fn.convert("bitcast", value, wide) | ((byte & 0x80) << 24)
    if dtype == "f8_e4m3fn":
        bits = fn.select(low == 0x7F, _NAN, bits)
    elif dtype == "f8_e5m2":
        bits = fn.select(low == 0x7C, ((byte & 0x80) << 24) | _INFINITY, bits)
        bits = fn.select(low > 0x7C, _NAN, bits)
    else:
        bits = fn.select(byte == 0x80, _NAN, bits)
    return fn.convert("bitcast", bits, floats)


def written(fn, value, dtype):
    """float32 as bytes."""
    w = width_of(value.type)
    wide, floats = vector("i32", w), vector("float", w)
    bits = fn.convert("bitcast", value, wide)
    size = bits & 0x7FFFFFFF
    if dtype == "f8_e8m0fnu":
        return fn.convert("trunc", _exponent(fn, size), vector("i8", w))
    m, bias = _FORMATS[dtype]
    shift = 23 - m
    odd = (size >> shift) & 1
    normal = (size + (((bias - 127) << 23) + (1 << (shift - 1)) - 1) + odd) >> shift
    magic = (127 - bias + shift + 1) << 23
    added = fn.convert("bitcast", fn.value(magic, wide), floats)
    small = fn.convert("bitcast", size, floats) + added
    small = fn.convert("bitcast", small, wide) - magic
    code = fn.select(size < ((128 - bias) << 23), small, normal)
    sign = (bits >> 24) & 0x80
    if dtype == "f8_e4m3fn":  # as in PyTorch, what is too large becomes the largest
        code = fn.select(code > 0x7E, 0x7E, code)
        code = fn.select(size > _INFINITY, 0x7F, code) | sign
    elif dtype == "f8_e5m2":
        code = fn.select(code > 0x7C, 0x7C, code)
        code = fn.select(size > _INFINITY, 0x7F, code) | sign
    else:
        code = fn.select(code > 0x7F, 0x80, code)
        code = fn.select(size > _INFINITY, 0x80, code)
        plain = (code == 0) | (code == 0x80)
        code = fn.select(plain, code, code | sign)
    return fn.convert("trunc", code, vector("i8", w))


def _exponent(fn, size):
    """The power of two that is nearest, the larger of two; 255 is nan."""
    exponent, rest = size >> 23, size & 0x7FFFFF
    up = fn.select(rest < 0x400000, exponent, exponent + 1)
    low = fn.select(size > 0x400000, exponent + 1, exponent)  # 0 stands for 2**-127
    code = fn.select(exponent == 0, low, up)
    return fn.select(code > 255, 255, code)
