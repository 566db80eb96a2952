"""Stand-ins for `nvmath.bindings.cusolverDn` and `cublas`, written with NumPy over memory of the
emulated device: they take what the libraries take, check sizes, and write what they would write.
"""

import ctypes

import numpy as np

from tests.cuda.stand_in_fft import view

DTYPES = {"s": "f4", "d": "f8", "c": "c8", "z": "c16"}
REAL = {"f4": "f4", "f8": "f8", "c8": "f4", "c16": "f8"}
WIDE = {"f4": "c8", "f8": "c16", "c8": "c8", "c16": "c16"}
TYPES = {0: "f4", 1: "f8", 4: "c8", 5: "c16"}
ROOM = 24  # elements of room that every call asks for


class LibraryError(Exception):
    """What the bindings raise."""


def matrix(address, rows, columns, lead, dtype):
    assert rows > 0 and columns > 0 and lead >= rows
    return view(address, [rows, columns], [1, lead], dtype)


def turned(a, turn):
    return (a, a.T, a.conj().T)[turn]


def triangle(a, part, unit=False):
    found = np.tril(a) if part == 0 else np.triu(a)
    if unit:
        np.fill_diagonal(found, 1)
    return found


def swapped(b, pivots, back=False):
    """Rows of b swapped as pivots say."""
    for k in reversed(range(len(pivots))) if back else range(len(pivots)):
        p = pivots[k] - 1
        b[[k, p]] = b[[p, k]]


def lu(a, pivots):
    """Factor in place; the number of the first zero on the diagonal, or 0."""
    info = 0
    for k in range(min(a.shape)):
        p = (
            k
            if pivots is None
            else k + int(np.argmax(np.abs(a[k:, k].real) + np.abs(a[k:, k].imag)))
        )
        if pivots is not None:
            pivots[k] = p + 1
        a[[k, p]] = a[[p, k]]
        if a[k, k] == 0:
            info = info or k + 1
            continue
        a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])
    return info


def solved(a, b):
    """What substitution gives: no numbers where something is divided by zero."""
    try:
        return np.linalg.solve(a, b)
    except np.linalg.LinAlgError:
        return np.full_like(b, np.nan)


def lu_solved(a, pivots, b, turn):
    lower, upper, b = np.tril(a, -1) + np.eye(len(a)), np.triu(a), b.copy()
    if turn == 0:
        swapped(b, pivots)
        return solved(upper, solved(lower, b))
    found = solved(turned(lower, turn), solved(turned(upper, turn), b))
    swapped(found, pivots, True)
    return found


def cholesky(a, part):
    """The same for one triangle."""
    whole = triangle(a, part)
    whole = whole + np.triu(whole.conj().T, 1) if part == 0 else whole + np.tril(whole.conj().T, -1)
    for k in range(1, len(a) + 1):
        try:
            found = np.linalg.cholesky(whole[:k, :k])
        except np.linalg.LinAlgError:
            return k
    rows = np.tril_indices(len(a)) if part == 0 else np.triu_indices(len(a))
    a[rows] = (found if part == 0 else found.conj().T)[rows]
    return 0


def reflected(a, tau):
    """R above reflectors, in place."""
    for k in range(min(a.shape)):
        alpha, below = a[k, k], a[k + 1 :, k]
        size = np.sqrt(np.abs(alpha) ** 2 + np.sum(np.abs(below) ** 2))
        if not np.any(below) and not np.imag(alpha):
            tau[k] = 0
            continue
        beta = -size if np.real(alpha) >= 0 else size
        tau[k] = (beta - alpha) / beta
        v = np.concatenate([[1], below / (alpha - beta)])
        rest = a[k:, k + 1 :]
        rest -= np.conj(tau[k]) * np.outer(v, v.conj() @ rest)
        a[k, k], a[k + 1 :, k] = beta, v[1:]


def orthogonal(a, tau):
    found = np.eye(a.shape[0], a.shape[1], dtype=a.dtype)
    for k in reversed(range(len(tau))):
        v = np.concatenate([[1], a[k + 1 :, k]])
        found[k:] -= tau[k] * np.outer(v, v.conj() @ found[k:])
    return found


_NAMES = {"ungqr": "orgqr", "heevd": "syevd", "heevj_batched": "syevj_batched"}


class Library:
    """What both have."""

    def __init__(self, driver):
        self.driver, self.calls, self.stream = driver, [], 0

    def create(self):
        return 1 << 40

    def set_stream(self, handle, stream):
        self.stream = stream

    def __getattr__(self, name):
        """sgetrf and the like: the letter becomes the dtype."""
        if name.endswith("_buffer_size"):
            return lambda *given: (8 * ROOM, 16) if name[0] == "x" else ROOM
        work = getattr(type(self), "do_" + _NAMES.get(name[1:], name[1:]))

        def call(handle, *given):
            self.calls.append(name)
            self.driver._do(work, self, DTYPES.get(name[0]), *given)

        return call


def numbers(address, count, dtype="i4"):
    return view(address, [count], [1], dtype)


def used(room, dtype):
    """Room that was handed over is written to."""
    numbers(room, ROOM, dtype)[:] = 77


class Blas(Library):
    """cuBLAS."""

    def do_getrf_batched(self, dtype, n, places, lead, pivots, info, count):
        for k, at in enumerate(numbers(places, count, "i8")):
            a = matrix(int(at), n, n, lead, dtype)
            numbers(info, count)[k] = lu(a, numbers(pivots + 4 * n * k, n) if pivots else None)

    def do_getrs_batched(self, dtype, turn, n, m, places, lead, pivots, others, ldb, said, count):
        ctypes.c_int.from_address(said).value = 0
        lists = numbers(places, count, "i8"), numbers(others, count, "i8")
        for k, (at, to) in enumerate(zip(*lists)):
            a, b = matrix(int(at), n, n, lead, dtype), matrix(int(to), n, m, ldb, dtype)
            b[...] = lu_solved(a, numbers(pivots + 4 * n * k, n), b, turn)

    def do_getri_batched(self, dtype, n, places, lead, pivots, others, ldb, info, count):
        lists = numbers(places, count, "i8"), numbers(others, count, "i8")
        for k, (at, to) in enumerate(zip(*lists)):
            a, out = matrix(int(at), n, n, lead, dtype), matrix(int(to), n, n, ldb, dtype)
            one = np.eye(n, dtype=dtype)
            swapped(one, numbers(pivots + 4 * n * k, n))
            lower = np.tril(a, -1) + np.eye(n)
            out[...] = solved(np.triu(a), solved(lower, one))
            numbers(info, count)[k] = 0

    def do_trsm(self, dtype, side, part, turn, unit, m, n, alpha, a, lda, b, ldb):
        assert numbers(alpha, 1, dtype)[0] == 1
        size = m if side == 0 else n
        a = turned(triangle(matrix(a, size, size, lda, dtype), part, unit), turn)
        b = matrix(b, m, n, ldb, dtype)
        b[...] = solved(a, b) if side == 0 else solved(a.T, b.T).T

    def do_trsm_batched(self, dtype, *given):
        *how, alpha, places, lda, others, ldb, count = given
        for at, to in zip(numbers(places, count, "i8"), numbers(others, count, "i8")):
            self.do_trsm(dtype, *how, alpha, int(at), lda, int(to), ldb)

    def do_geqrf_batched(self, dtype, m, n, places, lead, taus, said, count):
        ctypes.c_int.from_address(said).value = 0
        for at, to in zip(numbers(places, count, "i8"), numbers(taus, count, "i8")):
            reflected(matrix(int(at), m, n, lead, dtype), numbers(int(to), min(m, n), dtype))


class Solver(Library):
    """cuSOLVER."""

    def create_params(self):
        return 1 << 41

    create_gesvdj_info = create_syevj_info = create_params

    def do_getrf(self, dtype, m, n, a, lead, work, pivots, info):
        used(work, dtype)
        swaps = numbers(pivots, min(m, n)) if pivots else None
        numbers(info, 1)[0] = lu(matrix(a, m, n, lead, dtype), swaps)

    def do_getrs(self, dtype, turn, n, m, a, lead, pivots, b, ldb, info):
        b = matrix(b, n, m, ldb, dtype)
        b[...] = lu_solved(matrix(a, n, n, lead, dtype), numbers(pivots, n), b, turn)
        numbers(info, 1)[0] = 0

    def do_potrf(self, dtype, part, n, a, lead, work, room, info):
        assert room == ROOM
        used(work, dtype)
        numbers(info, 1)[0] = cholesky(matrix(a, n, n, lead, dtype), part)

    def do_potrf_batched(self, dtype, part, n, places, lead, info, count):
        assert part == 0  # the library leaves something below upper triangles
        for k, at in enumerate(numbers(places, count, "i8")):
            numbers(info, count)[k] = cholesky(matrix(int(at), n, n, lead, dtype), part)

    def do_geqrf(self, dtype, m, n, a, lead, tau, work, room, info):
        used(work, dtype)
        reflected(matrix(a, m, n, lead, dtype), numbers(tau, min(m, n), dtype))
        numbers(info, 1)[0] = 0

    def do_orgqr(self, dtype, m, n, k, a, lead, tau, work, room, info):
        assert m >= n >= k
        used(work, dtype)
        a = matrix(a, m, n, lead, dtype)
        a[...] = orthogonal(a, numbers(tau, k, dtype))
        numbers(info, 1)[0] = 0

    def do_gesvdj(self, dtype, jobz, econ, m, n, a, lead, s, u, ldu, v, ldv, work, room, info, _):
        used(work, dtype)
        a, k = matrix(a, m, n, lead, dtype), min(m, n)
        if not np.isfinite(a).all():
            numbers(info, 1)[0] = k + 1
            return
        left, values, right = np.linalg.svd(a, full_matrices=not econ)
        numbers(s, k, REAL[dtype])[:] = values
        if jobz:
            matrix(u, *left.shape, ldu, dtype)[...] = left
            matrix(v, *right.shape[::-1], ldv, dtype)[...] = right.conj().T
        a[...] = np.nan
        numbers(info, 1)[0] = getattr(self, "fails", 0)

    def do_gesvdj_batched(self, dtype, jobz, m, n, a, lead, s, u, ldu, v, ldv, *given):
        work, room, info, options, count = given
        assert max(m, n) <= 32
        item, real, k = np.dtype(dtype).itemsize, np.dtype(REAL[dtype]).itemsize, min(m, n)
        for i in range(count):
            places = a + i * m * n * item, lead, s + i * k * real, u + i * m * m * item, ldu
            more = v + i * n * n * item, ldv, work, room, info + 4 * i, options
            self.do_gesvdj(dtype, jobz, False, m, n, *places, *more)

    def do_gesvd(self, dtype, job, job_v, m, n, a, lead, s, u, ldu, vh, ldv, *given):
        work, _, more, info = given
        assert m >= n and job == job_v and more
        used(work, dtype)
        numbers(more, n, REAL[dtype])[:] = 5
        if not np.isfinite(matrix(a, m, n, lead, dtype)).all():
            numbers(info, 1)[0] = 1
            return
        left, values, right = np.linalg.svd(matrix(a, m, n, lead, dtype), job == ord("A"))
        numbers(s, n, REAL[dtype])[:] = values
        if job != ord("N"):
            matrix(u, *left.shape, ldu, dtype)[...] = left
            matrix(vh, n, n, ldv, dtype)[...] = right
        numbers(info, 1)[0] = 0

    def do_syevd(self, dtype, jobz, part, n, a, lead, w, work, room, info):
        used(work, dtype)
        a = matrix(a, n, n, lead, dtype)
        if not np.isfinite(a).all():
            numbers(info, 1)[0] = n
            return
        values, vectors = np.linalg.eigh(a, "LU"[part])
        numbers(w, n, REAL[dtype])[:] = values
        a[...] = vectors if jobz else np.nan
        numbers(info, 1)[0] = 0

    def do_syevj_batched(self, dtype, jobz, part, n, a, lead, w, work, room, info, _, count):
        item, real = np.dtype(dtype).itemsize, np.dtype(REAL[dtype]).itemsize
        for i in range(count):
            places = a + i * n * n * item, lead, w + i * n * real, work, room, info + 4 * i
            self.do_syevd(dtype, jobz, part, n, *places)

    def do_syev_batched(self, _, __, jobz, part, n, type, a, lead, real, w, inner, *given):
        work, room, _, here, info, count = given
        assert TYPES[real] == REAL[TYPES[type]] and inner == type and here == 16
        facts = jobz, part, n, a, lead, w, work, room, info, None, count
        self.do_syevj_batched(TYPES[type], *facts)

    def do_geev(self, _, options, left, right, n, type, a, lead, wide, w, *given):
        left_type, left_at, _, v_type, v, ldv, inner, work, *_, info = given
        dtype = TYPES[type]
        assert not left and not left_at and TYPES[wide] == WIDE[dtype]
        assert v_type == type == inner == left_type
        used(work, "u1")
        a = matrix(a, n, n, lead, dtype)
        values, vectors = np.linalg.eig(a)
        numbers(w, n, WIDE[dtype])[:] = values
        if right:
            out = matrix(v, n, n, ldv, dtype)
            for k in range(n):
                if dtype[0] == "c" or not np.imag(values[k]):
                    out[:, k] = vectors[:, k].real if dtype[0] == "f" else vectors[:, k]
                elif np.imag(values[k]) > 0:
                    out[:, k], out[:, k + 1] = vectors[:, k].real, vectors[:, k].imag
        numbers(info, 1)[0] = 0

    def do_sytrs(self, _, part, n, m, type, a, lead, pivots, b_type, b, ldb, *given):
        work, _, _, here, info = given
        assert part == 0 and type == b_type and here == 16
        assert numbers(pivots, n, "i8").tolist() == list(range(1, n + 1))
        used(work, "u1")
        a, b = matrix(a, n, n, lead, TYPES[type]), matrix(b, n, m, ldb, TYPES[type])
        lower = np.tril(a, -1) + np.eye(n)
        b[...] = solved(lower.T, solved(lower, b) / np.diagonal(a)[:, None])
        numbers(info, 1)[0] = 0

    def do_sytrf(self, dtype, part, n, a, lead, pivots, work, room, info):
        assert part == 0
        used(work, dtype)
        a = matrix(a, n, n, lead, dtype)
        for k in range(n):  # without swaps
            numbers(pivots, n)[k] = k + 1
            a[k + 1 :, k] /= a[k, k]
            rest = np.outer(a[k + 1 :, k], a[k + 1 :, k]) * a[k, k]
            a[k + 1 :, k + 1 :] -= np.tril(rest)
        numbers(info, 1)[0] = 0
