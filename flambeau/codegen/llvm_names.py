"""How dtypes are named, held in memory and computed with; no LLVM needed to know it."""

from flambeau.codegen import scalar

FLOAT8 = ("f8_e4m3fn", "f8_e4m3fnuz", "f8_e5m2", "f8_e5m2fnuz", "f8_e8m0fnu")

LLVM_TYPE = {"bool": "i1", "f32": "float", "f64": "double"}
LLVM_TYPE |= {t: f"i{t[1:]}" for t in scalar.INTS + scalar.UINTS}

# How a dtype lies in memory, and the scalar type it is computed with.
MEMORY_TYPE = LLVM_TYPE | {
    "bool": "i8",
    "f16": "i16",
    "bf16": "i16",
    "c32": "i16",
    "c64": "float",
    "c128": "double",
    **dict.fromkeys(FLOAT8, "i8"),
}
COMPUTE_TYPE = {t: t for t in LLVM_TYPE} | {
    "f16": "f32",
    "bf16": "f32",
    "c32": "f32",
    "c64": "f32",
    "c128": "f64",
    **dict.fromkeys(FLOAT8, "f32"),
}
