"""Old names: `lu`, and functions that PyTorch removed and that only say where to go instead."""

from flambeau.errors import warn_once
from flambeau.ops.table import composite, public
from flambeau.return_types import _lu_with_info as LuWithInfo


@composite(variants="function", bind=True)
def _lu_with_info(input, pivot: bool = True, check_errors: bool = True):
    """Packed LU factors, pivots and error codes."""
    warn_once(
        "torch.lu is deprecated in favor of torch.linalg.lu_factor / torch.linalg.lu_factor_ex and "
        "will be removed in a future PyTorch release.\nLU, pivots = torch.lu(A, compute_pivots)\n"
        "should be replaced with\nLU, pivots = torch.linalg.lu_factor(A, compute_pivots)\nand\n"
        "LU, pivots, info = torch.lu(A, compute_pivots, get_infos=True)\nshould be replaced with\n"
        "LU, pivots, info = torch.linalg.lu_factor_ex(A, compute_pivots)"
    )
    # check_errors is not heeded, there as here
    return LuWithInfo(public("_linalg_lu_factor_ex")(input, pivot, False))


@composite(variants="function method", bind=True)
def lu(input, pivot: bool = True, get_infos: object = False, out: object = None):
    """Packed LU factors and pivots, and error codes if asked."""
    LU, pivots, info = public("_lu_with_info")(input, pivot, False)
    found = (LU, pivots, info) if get_infos else (LU, pivots)
    if out is None:
        return found
    if not isinstance(out, (tuple, list)):
        kind = "Tensor" if hasattr(out, "_layout") else type(out).__name__
        raise TypeError(f"argument 'out' must be tuple of Tensors, not {kind}")
    if len(out) != len(found):
        raise TypeError(f"expected tuple of {len(found)} elements but got {len(out)}")
    for o, t in zip(out, found):
        o._resize_output(t.shape).copy_(t)
    return out


_GONE = "This function was deprecated since version 1.9 and is now removed."


@composite(variants="function method", bind=True)
def symeig(input: object, eigenvectors: object = False, upper: object = True):
    """Removed; see linalg.eigh."""
    raise RuntimeError(
        f"{_GONE} The default behavior has changed from using the upper triangular portion of the "
        "matrix by default to using the lower triangular portion.\n\nL, _ = torch.symeig(A, "
        "upper=upper) should be replaced with:\nL = torch.linalg.eigvalsh(A, UPLO='U' if upper "
        "else 'L')\n\nand\n\nL, V = torch.symeig(A, eigenvectors=True) should be replaced with:\n"
        "L, V = torch.linalg.eigh(A, UPLO='U' if upper else 'L')"
    )


@composite(variants="function method", bind=True)
def eig(input: object, eigenvectors: object = False):
    """Removed; see linalg.eig."""
    raise RuntimeError(
        f"{_GONE} `torch.linalg.eig` returns complex tensors of dtype `cfloat` or `cdouble` rather "
        "than real tensors mimicking complex tensors.\n\nL, _ = torch.eig(A) should be replaced "
        "with:\nL_complex = torch.linalg.eigvals(A)\n\nand\n\nL, V = torch.eig(A, "
        "eigenvectors=True) should be replaced with:\nL_complex, V_complex = torch.linalg.eig(A)"
    )


@composite(variants="function method", bind=True)
def solve(input: object, A: object):
    """Removed; see linalg.solve."""
    raise RuntimeError(
        f"{_GONE} `torch.solve` is deprecated in favor of `torch.linalg.solve`. "
        "`torch.linalg.solve` has its arguments reversed and does not return the LU "
        "factorization.\n\nTo get the LU factorization see `torch.lu`, which can be used with "
        "`torch.lu_solve` or `torch.lu_unpack`.\nX = torch.solve(B, A).solution should be replaced "
        "with:\nX = torch.linalg.solve(A, B)"
    )


@composite(variants="function method", bind=True)
def lstsq(input: object, A: object):
    """Removed; see linalg.lstsq."""
    raise RuntimeError(
        f"{_GONE} `torch.lstsq` is deprecated in favor of `torch.linalg.lstsq`.\n"
        "`torch.linalg.lstsq` has reversed arguments and does not return the QR decomposition in "
        "the returned tuple (although it returns other information about the problem).\n\nTo get "
        "the QR decomposition consider using `torch.linalg.qr`.\n\nThe returned solution in "
        "`torch.lstsq` stored the residuals of the solution in the last m - n columns of the "
        "returned value whenever m > n. In torch.linalg.lstsq, the residuals are in the field "
        "'residuals' of the returned named tuple.\n\nThe unpacking of the solution, as in\nX, _ = "
        "torch.lstsq(B, A).solution[:A.size(1)]\nshould be replaced with:\nX = "
        "torch.linalg.lstsq(A, B).solution"
    )


@composite(variants="function", bind=True)
def matrix_rank(input: object, tol: object = None, symmetric: object = False):
    """Removed; see linalg.matrix_rank."""
    raise RuntimeError(
        f"{_GONE}\nPlease use the `torch.linalg.matrix_rank` function instead. The parameter "
        "'symmetric' was renamed in `torch.linalg.matrix_rank()` to 'hermitian'."
    )
