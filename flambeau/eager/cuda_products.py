"""Matrix products on GPUs: plans for eager/gemm.py, by cuBLASLt where it can, else by a kernel.

A plan's kernel takes what the host's takes: description, addresses of C, A and B, two words that
mean nothing here, then alpha and (address, factor) of each addend.
"""

from itertools import chain
from math import prod

from flambeau.codegen.descriptions import DeviceProduct, LibraryProduct
from flambeau.eager import gemm, kernels
from flambeau.runtime import cublas
from flambeau.runtime.cpu import packed

ALIGNED = 16  # bytes: what the library's fastest algorithms ask of addresses
# facts of codegen/gpu/small_products.py; how many of its tiles, how deep, are small
ROWS, COLUMNS, BLOCK = 64, 32, 32
TILES, DEEP = 128, 4096


def planning(runtime):
    """How a GPU plans products."""
    library = cublas.start(runtime)
    has_cores = runtime.capability() >= (8, 0) or runtime.driver.emulated

    def plan(like, m, n, k, c, a, b, scaled, activation, addends, sizes, steps):
        facts = like.dtype, m, n, k, c, a, b, scaled, activation, tuple(addends), sizes, steps
        if has_cores and _is_small(*facts):
            return own_plan(runtime, *facts, "small_products:build_small")
        if library is not None and k:
            found = _by_library(runtime, library, *facts)
            if found is not None:
                return gemm.Plan(*found.native(), 1, 0, 0, False, runtime.pool_for)
        return own_plan(runtime, *facts)

    return plan


def _is_small(dtype, m, n, k, c, a, b, scaled, activation, addends, sizes, steps):
    """Is it a product of half types that takes a GPU less time than the host takes to ask a library
    for it? Then a kernel of our own does it.
    """
    if dtype.code not in ("f16", "bf16") or sizes or not 0 < k <= DEEP or k % BLOCK:
        return False
    return a[1] == 1 and b[0] == 1 and -(-m // ROWS) * -(-n // COLUMNS) <= TILES


def own_plan(
    runtime, dtype, m, n, k, c, a, b, scaled, activation, addends, sizes, steps, build="gemm:build"
):
    """The plan of a product that our own kernel does."""
    item = dtype.itemsize
    facts = dtype.code, scaled, len(addends), activation
    if build == "gemm:build":
        facts += (len(sizes),)
    kernel = runtime.kernel("gemm", build, *facts)
    strides = [x * item for x in (*c, *a, *b)]
    words = DeviceProduct(1, prod(sizes), m, n, k, *strides)
    more = [*sizes, *[x * item for x in (*steps, *chain(*addends))]]
    return gemm.Plan(kernel, packed([*words, *more]), 1, 0, 0, False, runtime.pool_for)


def _by_library(
    runtime, library, dtype, m, n, k, c, a, b, scaled, activation, addends, sizes, steps
):
    """A kernel that calls the library, or None where it does not do such products."""
    if dtype.code not in cublas.TYPES or len(sizes) > 1:
        return None
    given = dtype, m, n, k, tuple(c), tuple(a), tuple(b), scaled, activation, addends, sizes, steps
    if given in library.kernels:  # they stay: descriptions have their addresses
        return library.kernels[given]
    if c[1] != 1 and n > 1:
        # rows of the result lie side by side: the same product, turned
        m, n, c, a, b = n, m, c[::-1], b[::-1], a[::-1]
        addends = tuple([x[::-1] for x in addends])
        steps = (steps[0], steps[2], steps[1], *steps[3:]) if steps else ()
        turned = True
    else:
        turned = False
    along = steps if sizes else (0,) * (3 + len(addends))
    out = _matrix(m, n, c, along[0])
    left = _matrix(m, k, a, along[1])
    right = _matrix(k, n, b, along[2])
    if None in (out, left, right) or out.turned:
        return None
    bias, added = _addends(m, n, addends, along[3:])
    if bias is False or (activation, bias is not None) not in cublas.EPILOGUES:
        return None
    # the library goes column by column: our rows are its columns, so the operands change places
    other = out if added is None else added[1]
    facts = dtype.code, n, m, k, right, left, other, out, prod(sizes), activation
    added = None if added is None else added[0]
    found = LibraryKernel(runtime, library, facts, given, turned, scaled, bias, added)
    library.kernels[given] = found
    return found


def _matrix(rows, columns, strides, along):
    """A matrix of ours (rows x columns) as the library sees it: columns x rows; or None."""
    row, column = strides
    if column == 1 or columns == 1:
        step = row if rows > 1 else max(columns, 1)
        return cublas.Matrix(False, step, along) if step >= max(columns, 1) else None
    if row == 1 or rows == 1:
        step = column if columns > 1 else max(rows, 1)
        return cublas.Matrix(True, step, along) if step >= max(rows, 1) else None
    return None


def _addends(m, n, addends, along):
    """(place of a bias, (place, matrix) of what is added); the first is False if that won't do."""
    bias = added = None
    for k, (row, column) in enumerate(addends):
        if row == 0 and (column == 1 or n == 1) and bias is None and not along[k]:
            bias = k
            continue
        found = _matrix(m, n, (row, column), along[k]) if row or m == 1 else None
        if found is None or found.turned or added is not None:
            return False, None
        added = k, found
    return bias, added


class LibraryKernel:
    """A product that the library does, called as kernels are."""

    def __init__(self, runtime, library, facts, given, turned, scaled, bias, added):
        self.runtime, self.library, self.facts, self.given = runtime, library, facts, given
        self.turned, self.scaled, self.bias, self.added = turned, scaled, bias, added
        self.is_complex = given[0].is_complex
        self.products: dict = {}  # by the alignment of addresses, and whether TF32 is allowed
        self.fallback = None

    def native(self):
        """(kernel, description): a native call where the library does this, else this itself."""
        known = self.library.functions is not None and not self.is_complex
        product = self._product(ALIGNED) if known else None
        if product is None:
            return kernels.python_kernel("cublas", self, self.runtime), b""
        addends = len(self.given[9])
        key = self.given[0].code == "f64", self.scaled, addends, self.bias, self.added, self.turned
        kernel = self.runtime.kernel("cublas", "library_product:build", *key)
        tf32 = int(self.runtime.allows_tf32)
        given = *self.library.functions, id(self), *product.words(), tf32
        return kernel, packed(LibraryProduct(*given))

    def __call__(self, desc, c, a, b, _, __, *more):
        parts = 2 if self.is_complex else 1
        one, zero = (1.0, 0.0)[:parts], (0.0, 0.0)[:parts]
        alpha, at = (more[:parts], parts) if self.scaled else (one, 0)
        bias, source, beta = 0, c, zero
        for k in range((len(more) - at) // (1 + parts)):
            place, factor = more[at], more[at + 1 : at + 1 + parts]
            at += 1 + parts
            if k == self.bias:
                if tuple(factor) != one:
                    return self._own(c, a, b, more)
                bias = place
            else:
                source, beta = place, factor
        if self.turned:
            a, b = b, a
        align = ALIGNED if not (a | b | c | source | bias) & (ALIGNED - 1) else 0
        product = self._product(align or self.given[0].itemsize)
        if product is None:
            return self._own(*((c, b, a) if self.turned else (c, a, b)), more)
        product.run(b, a, source, c, bias, alpha, beta)
        return None

    def _product(self, align):
        key = align, self.runtime.allows_tf32
        if key not in self.products:
            self.products[key] = self._made(*key)
        return self.products[key]

    def _made(self, align, tf32):
        try:
            return self.library.product(*self.facts, self.bias is not None, tf32, align)
        except (ValueError, RuntimeError):  # there is no algorithm for it
            return None

    def _own(self, c, a, b, more):
        if self.fallback is None:
            self.fallback = own_plan(self.runtime, *self.given)
        self.fallback.run(c, a, b, *more)
