"""Matrix products by cuBLASLt, through nvmath's bindings.

A `Product` is a product of matrices that was described to the library once: which algorithm it
takes is remembered. Matrices are as the library sees them, column by column.
"""

import ctypes
import struct
from typing import Any, NamedTuple

from flambeau.runtime.switches import lacking

WORKSPACE = 32 << 20
ALGORITHM = 64  # bytes of one, at the start of what a heuristic gives
RESULT = 96  # bytes of that
# cudaDataType and cublasComputeType, by dtype code
TYPES = {"f32": 0, "f64": 1, "f16": 2, "c64": 4, "c128": 5, "bf16": 14}
COMPUTE = {"f32": 68, "f64": 70, "f16": 68, "c64": 68, "c128": 70, "bf16": 68}
TF32 = 77
SCALE = {"f16": 0, "bf16": 0}  # type of alpha and beta where it is not the matrices'
PACKED = {0: "f", 1: "d", 4: "2f", 5: "2d"}
# attributes: of an operation, of a layout, of a preference
COMPUTE_TYPE, SCALE_TYPE, TRANS_A, TRANS_B, EPILOGUE, BIAS = 0, 1, 3, 4, 7, 8
BATCH_COUNT, BATCH_OFFSET = 5, 6
MAX_WORKSPACE, ALIGN_A, ALIGN_B, ALIGN_C, ALIGN_D = 1, 5, 6, 7, 8
EPILOGUES = {("", False): 1, ("relu", False): 2, ("", True): 4, ("relu", True): 6}
EPILOGUES |= {("gelu_tanh", False): 32, ("gelu_tanh", True): 36}


class Matrix(NamedTuple):
    """A matrix of the library: is it turned, columns how far apart, matrices how far apart."""

    turned: bool
    step: int
    along: int = 0


class Lt:
    """The library on one GPU."""

    def __init__(self, runtime):
        from nvmath.bindings import cublasLt  # an extra: flambeau[cuda]

        self.api: Any = cublasLt
        self.runtime = runtime
        self.handle = cublasLt.create()
        self.workspace = runtime.driver.allocate(WORKSPACE)
        self.functions = _functions()
        self.kernels: dict = {}  # products by what they are asked for

    def product(self, *facts):
        return Product(self, *facts)


NATIVE = "cublasLtMatmul", "cublasLtMatmulDescSetAttribute"


def _functions():
    """Addresses of what native code calls: the product, and how attributes are set; or None."""
    from nvmath.bindings._internal import cublasLt

    known = cublasLt._inspect_function_pointers()
    found = [int(known.get(f"__{name}", 0)) for name in NATIVE]
    return found if all(found) else None


class Product:
    """D = epilogue(alpha op(A) op(B) + beta C + bias), for matrices of given sizes and steps."""

    def __init__(self, lt, code, rows, columns, depth, a, b, c, d, batch, end, biased, tf32, align):
        self.lt, api = lt, lt.api
        type, self.biased = TYPES[code], biased
        scale = SCALE.get(code, type)
        self.form = PACKED[scale]
        compute = TF32 if tf32 and code == "f32" else COMPUTE[code]
        self.op = api.matmul_desc_create(compute, scale)
        self._set(api.matmul_desc_set_attribute, self.op, TRANS_A, "i", int(a.turned))
        self._set(api.matmul_desc_set_attribute, self.op, TRANS_B, "i", int(b.turned))
        self._set(api.matmul_desc_set_attribute, self.op, EPILOGUE, "i", EPILOGUES[end, biased])
        sizes = (depth, rows) if a.turned else (rows, depth)
        self.a = self._layout(type, *sizes, a, batch)
        sizes = (columns, depth) if b.turned else (depth, columns)
        self.b = self._layout(type, *sizes, b, batch)
        self.c = self._layout(type, rows, columns, c, batch)
        self.d = self._layout(type, rows, columns, d, batch)
        self.algorithm = self._chosen(align)

    def _set(self, act, target, attribute, form, value):
        data = struct.pack(form, value)
        buffer = ctypes.create_string_buffer(data, len(data))
        act(target, attribute, ctypes.addressof(buffer), len(data))

    def _layout(self, type, rows, columns, matrix, batch):
        api = self.lt.api
        found = api.matrix_layout_create(type, rows, columns, matrix.step)
        if batch > 1:
            self._set(api.matrix_layout_set_attribute, found, BATCH_COUNT, "i", batch)
            self._set(api.matrix_layout_set_attribute, found, BATCH_OFFSET, "q", matrix.along)
        return found

    def _chosen(self, align):
        """The algorithm that the library recommends."""
        api = self.lt.api
        wish = api.matmul_preference_create()
        self._set(api.matmul_preference_set_attribute, wish, MAX_WORKSPACE, "Q", WORKSPACE)
        for name in (ALIGN_A, ALIGN_B, ALIGN_C, ALIGN_D):
            self._set(api.matmul_preference_set_attribute, wish, name, "I", align)
        if self.biased:  # the library wants to see one
            self._set(api.matmul_desc_set_attribute, self.op, BIAS, "Q", self.lt.workspace)
        found, count = ctypes.create_string_buffer(RESULT), ctypes.c_int(0)
        places = ctypes.addressof(found), ctypes.addressof(count)
        try:
            api.matmul_algo_get_heuristic(
                self.lt.handle, self.op, self.a, self.b, self.c, self.d, wish, 1, *places
            )
        except api.cuBLASLtError as error:  # it does not do this
            raise ValueError(str(error)) from None
        finally:
            api.matmul_preference_destroy(wish)
        if not count.value:
            raise ValueError("no algorithm")
        return ctypes.create_string_buffer(found.raw[:ALGORITHM], ALGORITHM)

    def words(self):
        """What native code needs to run it."""
        lt = self.lt
        algorithm = ctypes.addressof(self.algorithm)
        return (
            lt.handle, self.op, self.a, self.b, self.c, self.d, algorithm, lt.workspace, WORKSPACE
        )  # fmt: skip

    def run(self, a, b, c, d, bias, alpha, beta):
        """Addresses, and factors as tuples of their parts."""
        lt, api = self.lt, self.lt.api
        if self.biased:
            self._set(api.matmul_desc_set_attribute, self.op, BIAS, "Q", bias)
        factors = struct.pack(f"{len(alpha) + len(beta)}{self.form[-1]}", *alpha, *beta)
        kept = ctypes.create_string_buffer(factors, len(factors))
        first = ctypes.addressof(kept)
        second = first + struct.calcsize(self.form)
        api.matmul(
            lt.handle, self.op, first, a, self.a, b, self.b, second, c, self.c, d, self.d,
            ctypes.addressof(self.algorithm), lt.workspace, WORKSPACE, lt.runtime.stream,
        )  # fmt: skip


def start(runtime):
    """The library of a GPU, or None where it is not installed."""
    if runtime.driver.emulated:
        return None
    try:
        return Lt(runtime)
    except (ImportError, RuntimeError, OSError) as error:
        lacking("cuBLASLt", "matrix products", error)
        return None
