"""Factorings of matrices by cuSOLVER and cuBLAS, through nvmath's bindings.

Each method of `Library` is called as kernels are: nothing for a description, then `kind` (0 to 3:
float32, float64, complex64, complex128), sizes, and addresses in memory of the GPU. Matrices lie
column by column and one after the other. Where `pointers` is not 0, it is the address of a list of
addresses, and one call does all matrices; else there is a call for each.
"""

import ctypes
import struct
import threading
from contextlib import contextmanager

KINDS = {"f32": 0, "f64": 1, "c64": 2, "c128": 3}
LETTERS = "sdcz"
REAL = (4, 8, 4, 8)  # bytes of a real number
ITEM = (4, 8, 8, 16)
TYPES = (0, 1, 4, 5)  # cudaDataType
REAL_TYPES, COMPLEX_TYPES = (0, 1, 0, 1), (4, 5, 4, 5)
LOWER, UPPER = 0, 1
PLAIN, TURNED, ADJOINT = 0, 1, 2
LEFT, RIGHT = 0, 1
SIZES = 512  # of rooms that are remembered


class Refused(RuntimeError):
    """The library did not do this."""


class Library:
    """cuSOLVER and cuBLAS on one GPU."""

    def __init__(self, runtime, solver, blas, errors):
        self.runtime, self.solver, self.blas, self.errors = runtime, solver, blas, errors
        self.known = None  # addresses of functions by name, 0 where this version has none
        self.handle, self.products = solver.create(), blas.create()
        self.options = solver.create_params()
        self.jacobi, self.jacobi_values = solver.create_gesvdj_info(), solver.create_syevj_info()
        self.lock = threading.RLock()
        self.stream = 0
        self.sizes: dict = {}  # room that calls take, by what they are asked for
        self.told = runtime.driver.allocate(64)  # where calls say things that nobody reads
        one = [struct.pack(form, *parts) for form, parts in zip(("f", "d", "2f", "2d"), _ONES)]
        self.ones = [ctypes.create_string_buffer(x, len(x)) for x in one]
        self.said = ctypes.c_int()

    def has(self, name):
        """Is a newer function there?"""
        return self.known is None or bool(self.known.get(f"__cusolverDn{name}"))

    # -- calls -------------------------------------------------------------------------------------
    @contextmanager
    def _calling(self):
        """Around calls: one thread at a time, on the current stream."""
        runtime = self.runtime
        stream, _ = runtime.stream, runtime.driver.api  # a new thread gets the GPU's context
        with self.lock:
            try:
                if stream != self.stream:
                    self.solver.set_stream(self.handle, stream)
                    self.blas.set_stream(self.products, stream)
                    self.stream = stream
                yield
            except self.errors as error:
                raise Refused(f"cusolver error: {error}") from None

    @contextmanager
    def _room(self, nbytes):
        """Memory for the time of a call."""
        if not nbytes:
            yield self.told
            return
        memory = self.runtime.pool_for(nbytes)
        try:
            block = memory.pop()
        except IndexError:
            block = memory.grow()
        try:
            yield block
        finally:
            memory.give(block)

    def _function(self, kind, name):
        return getattr(self.solver, LETTERS[kind] + name)

    def _size(self, name, *facts):
        """What the library asks for a call: its room is the same for the same sizes."""
        key = name, *[f for f in facts if f < 1 << 32]
        found = self.sizes.get(key)
        if found is None:
            if len(self.sizes) >= SIZES:
                self.sizes.clear()
            found = self.sizes[key] = getattr(self.solver, name + "_buffer_size")(*facts)
        return found

    def _places(self, count, *steps):
        """Distances of each matrix from the first, by bytes from one to the next."""
        return [[k * step for step in steps] for k in range(count)]

    # -- LU ----------------------------------------------------------------------------------------
    def getrf(self, _, kind, m, n, count, a, pivots, info, pointers):
        """Factor in place; pivots count from 1, and none are chosen where they are 0."""
        with self._calling():
            if pointers:
                factor = getattr(self.blas, LETTERS[kind] + "getrf_batched")
                factor(self.products, n, pointers, n, pivots, info, count)
                return
            room = self._size(LETTERS[kind] + "getrf", self.handle, m, n, a, m)
            factor, item = self._function(kind, "getrf"), ITEM[kind]
            with self._room(room * item) as work:
                step = 4 * min(m, n) if pivots else 0
                for x, p, i in self._places(count, m * n * item, step, 4):
                    factor(self.handle, m, n, a + x, m, work, pivots + p, info + i)

    def getri(self, _, kind, n, count, pivots, pointers, out_pointers, info):
        """Inverses from such factors, all at once."""
        with self._calling():
            invert = getattr(self.blas, LETTERS[kind] + "getri_batched")
            invert(self.products, n, pointers, n, pivots, out_pointers, n, info, count)

    def getrs(self, _, kind, turn, n, columns, count, a, pivots, b, pointers, b_pointers):
        """Solve with such factors in place of b; turn: PLAIN, TURNED or ADJOINT."""
        with self._calling():
            if pointers:
                solve = getattr(self.blas, LETTERS[kind] + "getrs_batched")
                solve(
                    self.products, turn, n, columns, pointers, n, pivots, b_pointers, n,
                    ctypes.addressof(self.said), count,
                )  # fmt: skip
                return
            solve, item = self._function(kind, "getrs"), ITEM[kind]
            for x, p, y in self._places(count, n * n * item, 4 * n, n * columns * item):
                given = a + x, n, pivots + p, b + y, n, self.told
                solve(self.handle, turn, n, columns, *given)

    # -- triangles ---------------------------------------------------------------------------------
    def trsm(
        self, _, kind, side, part, turn, unit, m, n, count, a, lda, a_step, b, ldb, b_step,
        pointers, b_pointers,
    ):  # fmt: skip
        """Solve with triangles in place of b, matrices of m rows; steps: bytes between matrices."""
        with self._calling():
            one, how = ctypes.addressof(self.ones[kind]), (side, part, turn, unit, m, n)
            if pointers:
                solve = getattr(self.blas, LETTERS[kind] + "trsm_batched")
                solve(self.products, *how, one, pointers, lda, b_pointers, ldb, count)
                return
            solve = getattr(self.blas, LETTERS[kind] + "trsm")
            for x, y in self._places(count, a_step, b_step):
                solve(self.products, *how, one, a + x, lda, b + y, ldb)

    def potrf(self, _, kind, part, n, count, a, info, pointers):
        """Cholesky factors in place of one triangle."""
        with self._calling():
            if pointers:
                factor = self._function(kind, "potrf_batched")
                factor(self.handle, part, n, pointers, n, info, count)
                return
            room = self._size(LETTERS[kind] + "potrf", self.handle, part, n, a, n)
            factor, item = self._function(kind, "potrf"), ITEM[kind]
            with self._room(room * item) as work:
                for x, i in self._places(count, n * n * item, 4):
                    factor(self.handle, part, n, a + x, n, work, room, info + i)

    # -- reflectors --------------------------------------------------------------------------------
    def geqrf(self, _, kind, m, n, count, a, tau, pointers, tau_pointers):
        """R above reflectors in place."""
        with self._calling():
            if pointers:
                factor = getattr(self.blas, LETTERS[kind] + "geqrf_batched")
                said = ctypes.addressof(self.said)
                factor(self.products, m, n, pointers, m, tau_pointers, said, count)
                return
            room = self._size(LETTERS[kind] + "geqrf", self.handle, m, n, a, m)
            factor, item = self._function(kind, "geqrf"), ITEM[kind]
            with self._room(room * item) as work:
                for x, t in self._places(count, m * n * item, min(m, n) * item):
                    factor(self.handle, m, n, a + x, m, tau + t, work, room, self.told)

    def orgqr(self, _, kind, m, n, k, count, a, tau):
        """The first n columns of a product of k reflectors, in place of them."""
        with self._calling():
            name = "orgqr" if kind < 2 else "ungqr"
            room = self._size(LETTERS[kind] + name, self.handle, m, n, k, a, m, tau)
            make, item = self._function(kind, name), ITEM[kind]
            with self._room(room * item) as work:
                for x, t in self._places(count, m * n * item, k * item):
                    make(self.handle, m, n, k, a + x, m, tau + t, work, room, self.told)

    # -- singular values ---------------------------------------------------------------------------
    def gesvdj(self, _, kind, vectors, thin, m, n, count, a, s, u, v, info):
        """By rotations: a is lost; u, s and v (not its adjoint) are written."""
        with self._calling():
            k = min(m, n)
            u_columns, v_columns = (k, k) if thin else (m, n)
            given = vectors, thin, m, n, a, m, s, u, m, v, n
            name = LETTERS[kind] + "gesvdj"
            room = self._size(name, self.handle, *given, self.jacobi)
            run, item = getattr(self.solver, name), ITEM[kind]
            steps = m * n * item, k * REAL[kind], m * u_columns * item, n * v_columns * item, 4
            with self._room(room * item) as work:
                for x, y, left, right, i in self._places(count, *steps):
                    places = a + x, m, s + y, u + left, m, v + right, n, work, room, info + i
                    run(self.handle, vectors, thin, m, n, *places, self.jacobi)

    def gesvdj_batched(self, _, kind, vectors, m, n, count, a, s, u, v, info):
        """The same for all at once, of up to 32 rows and columns; u and v are square."""
        with self._calling():
            given = vectors, m, n, a, m, s, u, m, v, n
            name = LETTERS[kind] + "gesvdj_batched"
            room = self._size(name, self.handle, *given, self.jacobi, count)
            with self._room(room * ITEM[kind]) as work:
                run = getattr(self.solver, name)
                run(self.handle, *given, work, room, info, self.jacobi, count)

    def gesvd(self, _, kind, job, m, n, count, a, s, u, vh, info):
        """By QR, of at least as many rows as columns; job: the letter A, S or N as a number."""
        with self._calling():
            name, item, real = LETTERS[kind] + "gesvd", ITEM[kind], REAL[kind]
            room = self._size(name, self.handle, m, n)
            run, wide = getattr(self.solver, name), m if job == ord("A") else n
            steps = m * n * item, n * real, m * wide * item, n * n * item, 4
            inner = -(-room * item // 256) * 256
            with self._room(inner + n * real) as work:
                for x, y, left, right, i in self._places(count, *steps):
                    places = a + x, m, s + y, u + left, m, vh + right, n
                    more = work, room, work + inner, info + i
                    run(self.handle, job, job, m, n, *places, *more)

    # -- eigenvalues -------------------------------------------------------------------------------
    def syevd(self, _, kind, vectors, part, n, count, a, w, info):
        """Of Hermitian matrices, of which one triangle is read; vectors take their place."""
        with self._calling():
            name, item = LETTERS[kind] + ("syevd" if kind < 2 else "heevd"), ITEM[kind]
            room = self._size(name, self.handle, vectors, part, n, a, n, w)
            run = getattr(self.solver, name)
            with self._room(room * item) as work:
                for x, y, i in self._places(count, n * n * item, n * REAL[kind], 4):
                    given = n, a + x, n, w + y, work, room, info + i
                    run(self.handle, vectors, part, *given)

    def syevj_batched(self, _, kind, vectors, part, n, count, a, w, info):
        """The same by rotations, all at once."""
        with self._calling():
            name = LETTERS[kind] + ("syevj" if kind < 2 else "heevj") + "_batched"
            given = vectors, part, n, a, n, w
            room = self._size(name, self.handle, *given, self.jacobi_values, count)
            with self._room(room * ITEM[kind]) as work:
                run = getattr(self.solver, name)
                run(self.handle, *given, work, room, info, self.jacobi_values, count)

    def syev_batched(self, _, kind, vectors, part, n, count, a, w, info):
        """The same, as newer libraries do it."""
        with self._calling():
            types = TYPES[kind], REAL_TYPES[kind]
            given = self.options, vectors, part, n, types[0], a, n, types[1], w, types[0]
            room, here = self._size("xsyev_batched", self.handle, *given, count)
            host = ctypes.create_string_buffer(max(here, 1))
            with self._room(room) as work:
                more = work, room, ctypes.addressof(host), here, info, count
                self.solver.xsyev_batched(self.handle, *given, *more)

    def geev(self, _, kind, vectors, n, count, a, w, v, info):
        """Of any square matrices, which are lost; v of real ones is real, as LAPACK packs it."""
        with self._calling():
            type, item = TYPES[kind], ITEM[kind]
            wide = 2 * REAL[kind]
            for x, y, i in self._places(count, n * n * item, n * wide, 4):
                given = (
                    self.options, 0, vectors, n, type, a + x, n, COMPLEX_TYPES[kind], w + y,
                    type, 0, n, type, v + x if vectors else 0, n, type,
                )  # fmt: skip
                room, here = self._size("xgeev", self.handle, *given)
                host = ctypes.create_string_buffer(max(here, 1))
                with self._room(room) as work:
                    more = work, room, ctypes.addressof(host), here, info + i
                    self.solver.xgeev(self.handle, *given, *more)

    # -- symmetric, not definite -------------------------------------------------------------------
    def sytrf(self, _, kind, n, count, a, pivots, info):
        """L D Lᵀ in place of lower triangles."""
        with self._calling():
            room = self._size(LETTERS[kind] + "sytrf", self.handle, n, a, n)
            factor, item = self._function(kind, "sytrf"), ITEM[kind]
            with self._room(room * item) as work:
                for x, p, i in self._places(count, n * n * item, 4 * n, 4):
                    factor(self.handle, LOWER, n, a + x, n, pivots + p, work, room, info + i)

    def sytrs(self, _, kind, n, columns, count, a, pivots, b):
        """Solve with such factors in place of b; pivots are integers of 64 bits here."""
        with self._calling():
            type, item = TYPES[kind], ITEM[kind]
            for x, p, y in self._places(count, n * n * item, 8 * n, n * columns * item):
                given = LOWER, n, columns, type, a + x, n, pivots + p, type, b + y, n
                room, here = self._size("xsytrs", self.handle, *given)
                host = ctypes.create_string_buffer(max(here, 1))
                with self._room(room) as work:
                    more = work, room, ctypes.addressof(host), here, self.told
                    self.solver.xsytrs(self.handle, *given, *more)


_ONES = (1.0,), (1.0,), (1.0, 0.0), (1.0, 0.0)


def _functions():
    """Addresses of the library's functions."""
    from nvmath.bindings._internal import cusolverDn

    return cusolverDn._inspect_function_pointers()


def start(runtime):
    """The libraries on a GPU, or None where they are not installed."""
    if runtime.driver.emulated:
        return None
    try:
        from nvmath.bindings import cublas, cusolver, cusolverDn  # an extra: flambeau[cuda]

        runtime.driver.use(runtime.index)
        errors = cusolver.cuSOLVERError, cublas.cuBLASError
        found = Library(runtime, cusolverDn, cublas, errors)
        found.known = _functions()
        return found
    except (AttributeError, ImportError, RuntimeError, OSError):
        return None
