"""LAPACK, as NumPy carries it: singular values and eigenvalues of stacks of matrices.

Arrays come in and go out (_tensor/interchange.py makes them of tensors without a copy). NumPy loads
with the first call. What fails to converge comes back as None; the callers have the words for it.
Factorings are kernels of ours: codegen/templates/factoring.py and its neighbours.
"""


def _attempt(compute):
    import numpy

    with numpy.errstate(all="ignore"):
        try:
            return compute(numpy.linalg)
        except numpy.linalg.LinAlgError:
            return None


def svd(a, full, vectors):
    """(U, S, Vh), or S alone."""
    return _attempt(lambda linalg: linalg.svd(a, full_matrices=full, compute_uv=vectors))


def eigh(a, triangle, vectors):
    """(values, vectors) of Hermitian matrices, or values alone; triangle is L or U."""
    if vectors:
        return _attempt(lambda linalg: linalg.eigh(a, UPLO=triangle))
    return _attempt(lambda linalg: linalg.eigvalsh(a, UPLO=triangle))


def eig(a, vectors):
    """(values, vectors) of general matrices, or values alone."""
    return _attempt(lambda linalg: linalg.eig(a) if vectors else linalg.eigvals(a))
