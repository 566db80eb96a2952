"""What linear algebra refuses, in PyTorch's words; recorded from PyTorch 2.13."""

import warnings

import pytest

import flambeau as torch

L = torch.linalg


def randn(*shape):
    return torch.randn(*shape)


VECTOR, WIDE, ZERO = randn(3), randn(2, 3), torch.zeros(2, 2)
BATCH = torch.stack([torch.eye(2), ZERO])
WHOLE, HALF = torch.ones(2, 2, dtype=torch.int64), torch.ones(2, 2, dtype=torch.float16)
NAN = torch.full((2, 2), float("nan"))
LU, PIVOTS = L.lu_factor(torch.tensor([[2.0, 1.0], [1.0, 3.0]]))

SQUARE = "A must be batches of square matrices, but they are 2 by 3 matrices"
TWO = "The input tensor A must have at least 2 dimensions."
FLOATING = "Expected a floating point or complex tensor as input. Got Long"
MINOR = (
    "The factorization could not be completed because the input is not positive-definite (the "
    "leading minor of order 1 is not positive-definite)."
)
INVERSION = (
    "The diagonal element 1 is zero, the inversion could not be completed because the input "
    "matrix is singular."
)
SINGULAR = "The solver failed because the input matrix is singular."

CASES = [
    (RuntimeError, f"linalg.inv: {TWO}", lambda: L.inv(VECTOR)),
    (RuntimeError, f"linalg.inv: {SQUARE}", lambda: L.inv(WIDE)),
    (RuntimeError, f"linalg.inv: {FLOATING}", lambda: L.inv(WHOLE)),
    (RuntimeError, "linalg.inv: Low precision dtypes not supported. Got Half", lambda: L.inv(HALF)),
    (L.LinAlgError, f"linalg.inv: {INVERSION}", lambda: L.inv(ZERO)),
    (L.LinAlgError, f"linalg.inv: (Batch element 1): {INVERSION}", lambda: L.inv(BATCH)),
    (L.LinAlgError, f"linalg.inv_ex: {INVERSION}", lambda: L.inv_ex(ZERO, check_errors=True)),
    (RuntimeError, f"linalg.det: {SQUARE}", lambda: L.det(WIDE)),
    (NotImplementedError, "\"lu_cpu\" not implemented for 'Half'", lambda: L.det(HALF)),
    (RuntimeError, f"linalg.slogdet: {FLOATING}", lambda: L.slogdet(WHOLE)),
    (RuntimeError, f"logdet: {SQUARE}", lambda: torch.logdet(WIDE)),
    (L.LinAlgError, f"linalg.cholesky: {MINOR}", lambda: L.cholesky(ZERO)),
    (L.LinAlgError, f"linalg.cholesky: (Batch element 1): {MINOR}", lambda: L.cholesky(BATCH)),
    (L.LinAlgError, f"cholesky: {MINOR}", lambda: torch.cholesky(ZERO)),
    (
        NotImplementedError, "\"cholesky_cpu\" not implemented for 'Half'",
        lambda: L.cholesky(HALF),
    ),
    (
        RuntimeError, "torch.lu_factor: Expected tensor with 2 or more dimensions. Got size: [3] "
        "instead", lambda: L.lu_factor(VECTOR),
    ),
    (
        RuntimeError, "torch.linalg.lu_factor: U[1,1] is zero and using it on lu_solve would "
        "result in a division by zero.", lambda: L.lu_factor(ZERO),
    ),
    (
        RuntimeError, "linalg.lu_factor: LU without pivoting is not implemented on the CPU",
        lambda: L.lu(ZERO, pivot=False),
    ),
    (L.LinAlgError, f"torch.linalg.solve: {SINGULAR}", lambda: L.solve(ZERO, randn(2))),
    (
        L.LinAlgError, f"torch.linalg.solve: (Batch element 1): {SINGULAR}",
        lambda: L.solve(BATCH, randn(2, 2)),
    ),
    (
        RuntimeError, "linalg.solve: Incompatible shapes of A and B for the equation AX = B (2x2 "
        "and 3x1)", lambda: L.solve(randn(2, 2), randn(3, 1)),
    ),
    (
        RuntimeError, "linalg.solve: Incompatible shapes of A and B for the equation XA = B (2x2 "
        "and 2x3)", lambda: L.solve(randn(2, 2), randn(2, 3), left=False),
    ),
    (
        RuntimeError, "linalg.solve: Expected A and B to have the same dtype, but found A of type "
        "Float and B of type Double instead", lambda: L.solve(randn(2, 2), randn(2, 1).double()),
    ),
    (
        RuntimeError,
        "linalg.solve_triangular: The input tensor B must have at least 2 dimensions.",
        lambda: L.solve_triangular(randn(2, 2), randn(2), upper=True),
    ),
    (
        TypeError, 'linalg_solve_triangular() missing 1 required positional arguments: "upper"',
        lambda: L.solve_triangular(randn(2, 2), randn(2, 1)),
    ),
    (
        RuntimeError, "linalg.lu_solve: pivots should be a Tensor of scalar type torch.int32",
        lambda: L.lu_solve(LU, PIVOTS.long(), randn(2, 1)),
    ),
    (
        RuntimeError, "Pivots given to lu_solve must all be smaller or equal to LU.size(-2).",
        lambda: L.lu_solve(LU, PIVOTS + 5, randn(2, 1)),
    ),
    (
        RuntimeError, "pivots passed to lu_unpack must be between 1 and LU.size(-2) inclusive.",
        lambda: torch.lu_unpack(LU, PIVOTS - 5),
    ),
    (
        RuntimeError, "Pivots given to ldl_solve must all satisfy |pivot| >= 1.",
        lambda: L.ldl_solve(LU, PIVOTS * 0, randn(2, 1)),
    ),
    (
        RuntimeError, "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of "
        "torch.int32 dtype.", lambda: torch.lu_unpack(LU, PIVOTS.long()),
    ),
    (RuntimeError, f"linalg.eigh: {SQUARE}", lambda: L.eigvalsh(WIDE)),
    (
        RuntimeError, "Expected UPLO argument to be 'L' or 'U', but got x",
        lambda: L.eigh(ZERO, "x"),
    ),
    (
        RuntimeError, "torch.linalg.eig: input tensor should not contain infs or NaNs.",
        lambda: L.eig(NAN),
    ),
    (RuntimeError, "Unknown Complex ScalarType for Long", lambda: L.eig(WHOLE)),
    (
        L.LinAlgError, "linalg.svd: The algorithm failed to converge because the input matrix "
        "contained non-finite values.", lambda: L.svd(NAN),
    ),
    (
        RuntimeError, "torch.linalg.svd: keyword argument `driver=` is only supported on CUDA "
        "inputs", lambda: L.svd(ZERO, driver="gesvd"),
    ),
    (
        RuntimeError, "qr received unrecognized mode 'x' but expected one of 'reduced' (default), "
        "'r', or 'complete'", lambda: L.qr(ZERO, "x"),
    ),
    (
        RuntimeError, "linalg.pinv(Long{[2, 2]}): expected a tensor with 2 or more dimensions of "
        "float, double, cfloat or cdouble types", lambda: L.pinv(WHOLE),
    ),
    (
        L.LinAlgError, "torch.linalg.lstsq: The least squares solution could not be computed "
        "because the input matrix does not have full rank (error code: 2).",
        lambda: L.lstsq(torch.tensor([[1.0, 0], [0, 0], [1, 0]]), randn(3, 1), driver="gels"),
    ),
    (
        RuntimeError, "torch.linalg.lstsq: parameter `driver` should be one of (gels, gelsy, "
        "gelsd, gelss)", lambda: L.lstsq(ZERO, ZERO, driver="x"),
    ),
    (RuntimeError, "linalg.matrix_norm: Order 3 not supported.", lambda: L.matrix_norm(WIDE, 3)),
    (
        RuntimeError, "linalg.matrix_norm: dims must be different. Got (1, 1)",
        lambda: L.matrix_norm(randn(2, 3, 4), dim=(1, 1)),
    ),
    (RuntimeError, "linalg.cond got an invalid norm type: 3", lambda: L.cond(WIDE, 3)),
    (
        RuntimeError, f"linalg.cond(ord=fro): {SQUARE}", lambda: L.cond(WIDE, "fro"),
    ),
    (RuntimeError, f"linalg.matrix_power: {SQUARE}", lambda: L.matrix_power(WIDE, 2)),
    (
        RuntimeError, "multi_dot(): expected at least 2 tensors but got 1",
        lambda: L.multi_dot([WIDE]),
    ),
    (RuntimeError, "N must be greater than 1.", lambda: L.vander(VECTOR, N=1)),
    (
        RuntimeError, "torch.linalg.householder_product: input.shape[-2] must be greater than or "
        "equal to input.shape[-1]", lambda: L.householder_product(WIDE, VECTOR),
    ),
    (
        RuntimeError, "torch.ormqr: other.shape[-2] must be equal to input.shape[-2]",
        lambda: torch.ormqr(randn(4, 3), VECTOR, randn(3, 2)),
    ),
    (
        RuntimeError, "Incompatible matrix sizes for cholesky_solve: each A matrix is 2 by 2 but "
        "each b matrix is 3 by 1", lambda: torch.cholesky_solve(randn(3, 1), ZERO),
    ),
    (
        RuntimeError, "Expected a strictly positive integer for 'ind', but got 0",
        lambda: L.tensorinv(ZERO, 0),
    ),
    (
        TypeError, "linalg_inv(): argument 'A' (position 1) must be Tensor, not int",
        lambda: L.inv(3),
    ),
    (
        RuntimeError, "This function was deprecated since version 1.9 and is now removed. "
        "`torch.linalg.eig` returns complex tensors", lambda: torch.eig(ZERO),
    ),
    (
        RuntimeError, "This function was deprecated since version 1.9 and is now removed.",
        lambda: torch.matrix_rank(ZERO),
    ),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:torch.cholesky is deprecated")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case[1][:50])
def test_message(case):
    kind, text, call = case
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value).startswith(text)
    assert type(caught.value) is kind


def test_error_codes_instead_of_errors():
    found, info = L.inv_ex(BATCH)
    assert info.tolist() == [0, 1] and (found[0] == torch.eye(2)).all()
    assert L.cholesky_ex(BATCH).info.tolist() == [0, 1]
    assert L.lu_factor_ex(BATCH).info.tolist() == [0, 1]
    assert L.solve_ex(BATCH, randn(2, 2, 1)).info.tolist() == [0, 1]
    assert L.ldl_factor_ex(BATCH).info.tolist() == [0, 1]
    assert L.inv_ex(torch.eye(2)).info.item() == 0


# -- results that out= cannot hold -----------------------------------------------------------------

_CASTABLE = "{}: Expected {} to be safely castable from {} dtype, but got {} with dtype {}"
NOT_HELD = {
    "cholesky_solve(b, A, out=ints)": ("cholesky_solve", "result"),
    "cholesky_inverse(A, out=ints)": ("cholesky_inverse", "result"),
    "linalg.cond(A, out=ints)": ("linalg.cond", "result"),
    "linalg.pinv(A, out=ints)": ("linalg.pinv", "result"),
    "linalg.matrix_power(A, 2, out=ints)": ("matrix_power", "result"),
    "linalg.householder_product(A, b[:, 0], out=ints)": (
        "torch.linalg.householder_product",
        "result",
    ),
    "geqrf(A, out=(floats, ints))": ("torch.geqrf", "tau"),
}


@pytest.mark.parametrize("call", NOT_HELD)
def test_what_out_cannot_hold_is_named(call):
    name, what = NOT_HELD[call]
    with pytest.raises(RuntimeError) as found:
        _into(call)
    assert str(found.value) == _CASTABLE.format(name, what, "Float", what, "Int")


def test_complex_eigenvalues_are_not_written_as_real_numbers():
    for call in ("linalg.eigvals(A, out=floats)", "linalg.eig(A, out=(floats, floats))"):
        name = "torch." + call.partition("(")[0]
        said = _CASTABLE.format(name, "eigenvalues", "ComplexFloat", "eigenvalues", "Float")
        with pytest.raises(RuntimeError) as found:
            _into(call)
        assert str(found.value) == said


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("linalg.ldl_factor(A, out=(doubles, ints))", "Expected out tensor to have dtype float"),
        ("svd(A, out=(doubles, floats, floats))", "Expected out tensor to have dtype float"),
        ("linalg.solve_triangular(A, b, upper=True, out=doubles)", "expected scalar type Float"),
        ("linalg.vecdot(A, A, out=doubles)", "linalg.vecdot: Expected out of dtypeFloat but"),
        ("ormqr(A, b[:, 0], A, out=doubles)", "torch.ormqr: Expected input and result to have"),
        ("linalg.cross(A, b3, out=A)", "unsupported operation: some elements of the input tensor"),
    ],
)
def test_out_of_another_dtype_or_over_the_input_is_refused(call, said):
    with pytest.raises(RuntimeError) as found:
        _into(call)
    assert str(found.value).startswith(said)


def _into(call):
    names = {
        "A": torch.eye(3) * 2,
        "b": torch.ones(3, 2),
        "b3": torch.ones(3, 3),
        "ints": torch.empty(0, dtype=torch.int32),
        "floats": torch.empty(0),
        "doubles": torch.empty(0, dtype=torch.float64),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return eval("torch." + call, {"torch": torch, **names})
