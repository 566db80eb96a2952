"""LAPACK, as NumPy carries it: singular values and eigenvalues of stacks of matrices.

Arrays come in and results are written into arrays (_tensor/interchange.py makes both of tensors
without a copy). `numpy.linalg` widens single precision to double, computes and rounds; the
functions behind it know all four dtypes, so they are called themselves where this NumPy has them.
A stack is shared among threads, matrix by matrix. NumPy loads with the first call. Factorings are
kernels of ours: codegen/templates/factoring.py and its neighbours.
"""

import threading
from itertools import pairwise
from math import prod

from flambeau.runtime.threads import planned

_REAL = {"f": "f", "d": "d", "F": "f", "D": "d"}
_COMPLEX = {"f": "F", "d": "D", "D": "D"}
ALONE = 1 << 14  # multiplications below which another thread would not pay


def svd(a, full, u, s, vh):
    """Writes U, S and Vh, or S alone where u is None; tells whether all matrices converged."""
    code, real = a.dtype.char, _REAL[a.dtype.char]
    if u is None:
        return _run("svd", f"{code}->{real}", a, (s,), s)
    name = "svd_f" if full else "svd_s"
    return _run(name, f"{code}->{code}{real}{code}", a, (u, s, vh), s)


def eigh(a, triangle, values, vectors):
    """The same for Hermitian matrices; triangle is L or U."""
    code, real = a.dtype.char, _REAL[a.dtype.char]
    end = "_lo" if triangle == "L" else "_up"
    if vectors is None:
        return _run("eigvalsh" + end, f"{code}->{real}", a, (values,), values)
    return _run("eigh" + end, f"{code}->{real}{code}", a, (values, vectors), values)


def eig(a, values, vectors):
    """The same for general matrices; results are complex. NumPy has no function for complex64."""
    code = "D" if a.dtype.char == "F" else a.dtype.char
    wide = _COMPLEX[code]
    if vectors is None:
        return _run("eigvals", f"{code}->{wide}", a, (values,), values)
    return _run("eig", f"{code}->{wide}{wide}", a, (values, vectors), values)


def _run(name, signature, a, outputs, values):
    """One function over a stack; matrices that do not converge have values that are no numbers."""
    import numpy

    function = getattr(_functions(), name, None)
    if function is None:
        return _slowly(name, a, outputs)

    def compute(part):
        with numpy.errstate(all="ignore"):
            function(a[part], out=tuple(out[part] for out in outputs), signature=signature)

    pieces = _pieces(a.shape)
    others = [threading.Thread(target=compute, args=(piece,)) for piece in pieces[1:]]
    for thread in others:
        thread.start()
    compute(pieces[0])
    for thread in others:
        thread.join()
    return not numpy.isnan(values).any()


def _functions():
    """Where NumPy keeps the functions behind numpy.linalg, if it still does."""
    import numpy

    return getattr(numpy.linalg, "_umath_linalg", None)


def _pieces(shape):
    """Slices of the first dimension, one for each thread that pays."""
    *batch, m, n = shape
    if not batch or prod(batch) * m * n * min(m, n) < ALONE:
        return [...]
    count = min(planned(), batch[0])
    ends = [batch[0] * i // count for i in range(count + 1)]
    return [slice(low, high) for low, high in pairwise(ends)]


def _slowly(name, a, outputs):
    """By the public functions, which NumPy will always have."""
    import numpy

    linalg = numpy.linalg
    stem, _, option = name.partition("_")
    arguments = {
        "svd": {"full_matrices": option == "f", "compute_uv": len(outputs) == 3},
        "eigh": {"UPLO": option[:1].upper()},
        "eigvalsh": {"UPLO": option[:1].upper()},
    }.get(stem, {})
    with numpy.errstate(all="ignore"):
        try:
            found = getattr(linalg, stem)(a, **arguments)
        except linalg.LinAlgError:
            return False
    for out, array in zip(outputs, found if len(outputs) > 1 else (found,)):
        out[...] = array
    return True
