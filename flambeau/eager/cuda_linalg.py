"""Factorings on GPUs by cuSOLVER and cuBLAS: which routine takes a batch, and how it is handed on.

Methods take what the host's ways take (linalg_factors.py and its neighbours), and say whether they
did it: where there is no library, those ways do. Thresholds were measured on an H200.
"""

from math import prod

from flambeau import _dtype as d
from flambeau._layout import Size
from flambeau._tensor import empty_tensor
from flambeau.eager import kernels
from flambeau.eager.copying import copy_into
from flambeau.eager.linalg_factors import (
    columns_of,
    empty_columns,
    pointer,
    swapped_places,
    turned,
)
from flambeau.eager.linalg_small import PLANS as SMALL_PLANS
from flambeau.eager.ranges import grid
from flambeau.eager.rows import vector_layout
from flambeau.ops.linalg_checks import first_failure
from flambeau.ops.table import public as function
from flambeau.runtime import cusolver
from flambeau.runtime.cusolver import ADJOINT, LEFT, LOWER, PLAIN, RIGHT, TURNED, UPPER

ROTATED = 32  # rows and columns up to which rotations take a batch at once
INVERTED = 64  # rows of matrices that are inverted at once
AT_ONCE = 16  # rows of systems that are solved by one call


class Decompositions:
    """What a GPU does to factor matrices."""

    def __init__(self, runtime):
        self.runtime, self.is_started = runtime, False

    def library(self):
        """The libraries, loaded when they are first asked for; None without them."""
        if not self.is_started:
            self.use(cusolver.start(self.runtime))
        return self._library

    def use(self, library):
        """Let a library (or None) do it from now on."""
        self._library, self.is_started, self.kernels = library, True, {}
        SMALL_PLANS.clear()

    def does(self, t):
        """Is there a library for a tensor?"""
        return t._layout.dtype.code in cusolver.KINDS and self.library() is not None

    def _call(self, name, t, *arguments):
        kernel = self.kernels.get(name)
        if kernel is None:
            work = getattr(self._library, name)
            kernel = kernels.python_kernel(f"cusolver_{name}", work, self.runtime)
            self.kernels[name] = kernel
        kernel(b"", cusolver.KINDS[t._layout.dtype.code], *arguments)

    def _pointers(self, t, count, step):
        """A list of addresses, `step` elements apart."""
        layout = vector_layout(count, d.int64, t._layout.device)
        return grid("arange", (pointer(t), step * t._layout.itemsize), layout)

    # -- LU ----------------------------------------------------------------------------------------
    def lu(self, t, pivots, info):
        """Factor a dense batch with columns side by side, in place; without swaps if pivots is
        None.
        """
        *batch, m, n = t.shape
        count, list = prod(batch), None
        if m == n and 1 < count > n * n >> 15:
            list = self._pointers(t, count, n * n)
        swaps = 0 if pivots is None else pointer(pivots)
        self._call("getrf", t, m, n, count, pointer(t), swaps, pointer(info), _at(list))

    def lu_solve(self, lu, pivots, b, adjoint):
        """Solutions with columns side by side; so do those of lu, which is dense."""
        *batch, n, columns = b.shape
        count, turn = prod(batch), PLAIN
        if adjoint:
            turn = ADJOINT if b.dtype.is_complex else TURNED
        if n <= AT_ONCE:
            out, lists = columns_of(b), (None, None)
            if count > 1:
                lists = self._pointers(lu, count, n * n), self._pointers(out, count, n * columns)
            places = pointer(lu), pointer(pivots), pointer(out)
            self._call("getrs", b, turn, n, columns, count, *places, *map(_at, lists))
            return out
        out = columns_of(b) if adjoint else _swapped(b, pivots, False)
        for part in (UPPER, LOWER) if adjoint else (LOWER, UPPER):
            steps = n * n, n * columns
            self._trsm(lu, out, LEFT, part, turn, part == LOWER, n, columns, n, n, *steps)
        return _swapped(out, pivots, True) if adjoint else out

    def inverse(self, lu, pivots):
        """Inverses of small matrices from their factors, with columns side by side; or None."""
        *batch, n, _ = lu.shape
        count = prod(batch)
        if count == 1 or n > INVERTED:
            return None
        out = empty_columns(lu.shape, lu.dtype, lu.device)
        lists = [self._pointers(t, count, n * n) for t in (lu, out)]
        info = empty_tensor(Size((count,)), d.int32, lu.device)
        self._call("getri", lu, n, count, pointer(pivots), *map(_at, lists), pointer(info))
        return out

    # -- triangles ---------------------------------------------------------------------------------
    def triangular(self, a, b, upper, unit):
        """Solve a x = b in place of b, whose rows or columns lie side by side: three dims."""
        _, n, columns = b.shape
        strides, b_strides = a._layout.strides, b._layout.strides
        is_turned = strides[2] == 1 or n == 1  # rows side by side, which the library calls columns
        if not is_turned and strides[1] != 1:
            a = columns_of(a)
            strides = a._layout.strides
        lda = max(strides[1] if is_turned else strides[2], n)
        if b_strides[1] == 1 and (b_strides[2] >= n or columns == 1):
            side, m, k, ldb = LEFT, n, columns, max(b_strides[2], n)
            turn = TURNED if is_turned else PLAIN
        else:  # xᵀ aᵀ = bᵀ
            side, m, k, ldb = RIGHT, columns, n, max(b_strides[1], columns)
            turn = PLAIN if is_turned else TURNED
        part = UPPER if upper != is_turned else LOWER
        self._trsm(a, b, side, part, turn, unit, m, k, lda, ldb, strides[0], b_strides[0])

    def _trsm(self, a, b, side, part, turn, unit, m, k, lda, ldb, step, b_step):
        """Sizes and steps are the library's; steps from one matrix to the next in elements."""
        count, item, lists = prod(b.shape[:-2]), b._layout.itemsize, (None, None)
        if count > 1:
            lists = self._pointers(a, count, step), self._pointers(b, count, b_step)
        places = pointer(a), lda, step * item, pointer(b), ldb, b_step * item
        facts = side, part, turn, int(unit), m, k, count
        self._call("trsm", b, *facts, *places, *map(_at, lists))

    def cholesky(self, A, upper, info):
        """L of L Lᴴ (or U of Uᴴ U), with columns side by side."""
        *batch, n, _ = A.shape
        count, list = prod(batch), None
        # transposed rows are columns; the other triangle is zero from the beginning. Of upper
        # triangles the library makes the transposed factor: asked for those of a batch, it would
        # leave something in the lower ones.
        t = function("triu")(A if upper else turned(A))
        if 1 < count > n * n >> 16:
            list = self._pointers(t, count, n * n)
        self._call("potrf", t, LOWER, n, count, pointer(t), pointer(info), _at(list))
        return columns_of(t) if upper else turned(t)

    # -- reflectors --------------------------------------------------------------------------------
    def geqrf(self, t, tau):
        """R and reflectors in place of a dense batch with columns side by side."""
        *batch, m, n = t.shape
        count, k, lists = prod(batch), min(m, n), (None, None)
        if 1 < count > m * n >> 9:
            lists = self._pointers(t, count, m * n), self._pointers(tau, count, k)
        self._call("geqrf", t, m, n, count, pointer(t), pointer(tau), *map(_at, lists))

    def orgqr(self, packed, tau, k):
        """The first k columns of products of reflectors, as geqrf leaves them."""
        *batch, m, n = packed.shape
        Q = empty_columns((*batch, m, k), packed.dtype, packed.device)
        kept = min(n, k)
        copy_into(Q.narrow(-1, 0, kept), packed.narrow(-1, 0, kept))
        facts = m, k, tau.shape[-1], prod(batch)
        self._call("orgqr", Q, *facts, pointer(Q), pointer(tau))
        return Q

    # -- singular values ---------------------------------------------------------------------------
    def svd(self, A, full, vectors, driver):
        """(U, S, Vh), with nothing for vectors that are not asked for; None if some matrix did not
        converge.
        """
        if driver != "gesvd":
            found, info = self._by_rotations(A, full, vectors)
            if first_failure(info) is None:
                return found
        found, info = self._by_qr(A, full, vectors)
        return None if first_failure(info) is not None else found

    def _by_rotations(self, A, full, vectors):
        *batch, m, n = A.shape
        count, k, dtype, device = prod(batch), min(m, n), A.dtype, A.device
        together = max(m, n) <= ROTATED
        square = full or together
        work, info = columns_of(A), _infos(batch, device)
        S = empty_tensor(Size((*batch, k)), dtype.to_real(), device)
        U = empty_columns((*batch, m, m if square else k), dtype, device)
        V = empty_columns((*batch, n, n if square else k), dtype, device)
        places = pointer(work), pointer(S), pointer(U), pointer(V), pointer(info)
        if together:
            self._call("gesvdj_batched", A, int(vectors), m, n, count, *places)
        else:
            self._call("gesvdj", A, int(vectors), int(not full), m, n, count, *places)
        if not vectors:
            return (None, S, None), info
        if square and not full:
            U, V = columns_of(U.narrow(-1, 0, k)), V.narrow(-1, 0, k)
        return (U, S, _adjoint(V)), info

    def _by_qr(self, A, full, vectors):
        *batch, m, n = A.shape
        if m < n:  # the library wants it tall
            (U, S, Vh), info = self._by_qr(_adjoint(A), full, vectors)
            if vectors:
                U, Vh = columns_of(_adjoint(Vh)), columns_of(_adjoint(U))
            return (U, S, Vh), info
        dtype, device = A.dtype, A.device
        work, info = columns_of(A), _infos(batch, device)
        S = empty_tensor(Size((*batch, n)), dtype.to_real(), device)
        U = empty_columns((*batch, m, m if full else n), dtype, device)
        Vh = empty_columns((*batch, n, n), dtype, device)
        job = ord("N" if not vectors else "A" if full else "S")
        places = pointer(work), pointer(S), pointer(U), pointer(Vh), pointer(info)
        self._call("gesvd", A, job, m, n, prod(batch), *places)
        return (U, S, Vh) if vectors else (None, S, None), info

    # -- eigenvalues -------------------------------------------------------------------------------
    def eigh(self, A, triangle, vectors):
        """(values, vectors) of Hermitian matrices; None if some did not converge."""
        *batch, n, _ = A.shape
        count, info = prod(batch), _infos(batch, A.device)
        V = columns_of(A)
        values = empty_tensor(A.shape[:-1], A.dtype.to_real(), A.device)
        name = "syevd"
        if n <= ROTATED:
            name = "syevj_batched"
        elif count > n * n >> 16 and self._library.has("XsyevBatched"):
            name = "syev_batched"
        facts = int(vectors), LOWER if triangle == "L" else UPPER, n, count
        self._call(name, A, *facts, pointer(V), pointer(values), pointer(info))
        if first_failure(info) is not None:
            return None
        return values, V

    def eig(self, A, vectors):
        """(values, vectors) of square matrices, complex ones; None if the library has no way, or
        some did not converge.
        """
        *batch, n, _ = A.shape
        if not self._library.has("Xgeev"):
            return None
        dtype, device = A.dtype.to_complex(), A.device
        work, info = columns_of(A), _infos(batch, device)
        values = empty_tensor(A.shape[:-1], dtype, device)
        V = empty_columns(A.shape if vectors else (0, 0), A.dtype, device)
        places = pointer(work), pointer(values), pointer(V), pointer(info)
        self._call("geev", A, int(vectors), n, prod(batch), *places)
        if first_failure(info) is not None:
            return None
        if vectors and not A.dtype.is_complex:
            V = columns_of(_unpacked(values, V))
        return values, V

    # -- symmetric, not definite -------------------------------------------------------------------
    def ldl(self, t, pivots, info):
        """L D Lᵀ in place of lower triangles of a dense batch with columns side by side."""
        *batch, n, _ = t.shape
        places = pointer(t), pointer(pivots), pointer(info)
        self._call("sytrf", t, n, prod(batch), *places)

    def ldl_solve(self, factors, pivots, b):
        """Solve with such factors in place of b, columns side by side in both."""
        *batch, n, columns = b.shape
        wide = pivots.to(d.int64)
        places = pointer(factors), pointer(wide), pointer(b)
        self._call("sytrs", b, n, columns, prod(batch), *places)


def _at(list):
    return 0 if list is None else pointer(list)


def _swapped(b, pivots, backward):
    """A copy with columns side by side whose rows are swapped as pivots say (or back)."""
    rows = turned(swapped_places(pivots, b.shape[-2], backward))
    b = turned(b)
    return turned(b.gather(-1, rows.expand(b.shape)))


def _infos(batch, device):
    return function("zeros")(tuple(batch), dtype=d.int32, device=device)


def _adjoint(t):
    t = turned(t)
    return t.conj().resolve_conj() if t.dtype.is_complex else t


def _unpacked(values, V):
    """Vectors of real matrices as LAPACK packs them: of a pair, first what is real in both, then
    what is imaginary in the first.
    """
    where, imaginary = function("where"), values.imag.unsqueeze(-2)
    first, second = imaginary > 0, imaginary < 0
    real = where(second, V.roll(1, -1), V)
    other = where(first, V.roll(-1, -1), where(second, -V, 0.0))
    return function("complex")(real, other)
