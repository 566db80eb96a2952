"""Stacks of small matrices, by kernels of our own (codegen/templates/rotations.py)."""

import numpy as np
import pytest

import flambeau as torch
from flambeau.eager import linalg_rotations

SHAPES = [(1, 1), (3, 3), (40, 4, 4), (3, 16, 16), (2, 9, 17, 17), (5, 12, 5), (3, 5, 12)]
LIMITS = {torch.float32: 4e-6, torch.float64: 8e-15}


def stack(shape, dtype, seed=0):
    values = np.random.default_rng(seed).standard_normal(shape)
    return torch.from_numpy(values).to(dtype)


def close(a, b, dtype):
    limit = LIMITS[dtype] * max(a.shape[-1], 4)
    return np.abs(a.double().numpy() - np.asarray(b)).max() <= limit


@pytest.mark.parametrize("dtype", LIMITS, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_singular_values_and_vectors(shape, dtype):
    a = stack(shape, dtype)
    wide = a.double()
    U, S, Vh = torch.linalg.svd(a, full_matrices=False)
    expected = np.linalg.svd(wide.numpy(), compute_uv=False)
    assert close(S, expected, dtype) and close(torch.linalg.svdvals(a), expected, dtype)
    unit = np.eye(S.shape[-1])
    for q in (U.mT.double() @ U.double(), Vh.double() @ Vh.mT.double()):
        assert close(q, np.broadcast_to(unit, q.shape), dtype)
    assert close((U * S[..., None, :]).double() @ Vh.double(), wide.numpy(), dtype)


@pytest.mark.parametrize("dtype", LIMITS, ids=str)
@pytest.mark.parametrize("uplo", "LU")
def test_eigenvalues_read_one_triangle(uplo, dtype):
    a = stack((50, 6, 6), dtype)
    half = np.tril(a.numpy()) if uplo == "L" else np.triu(a.numpy())
    whole = half + half.swapaxes(-1, -2) - half * np.eye(6)
    values, vectors = torch.linalg.eigh(a, UPLO=uplo)
    assert close(values, np.linalg.eigvalsh(whole.astype("f8")), dtype)
    assert close(torch.linalg.eigvalsh(a, UPLO=uplo), values.double().numpy(), dtype)
    left = torch.from_numpy(whole).double() @ vectors.double()
    assert close(left, (vectors.double() * values.double()[:, None]).numpy(), dtype)
    assert (values.diff() >= 0).all()


def test_a_matrix_gets_the_same_result_in_any_company():
    a = stack((21, 7, 7), torch.float32)
    together = torch.linalg.svd(a)
    alone = torch.linalg.svd(a[5])
    strided = torch.linalg.svd(a.mT.contiguous().mT[::5])
    for all_of, one, some in zip(together, alone, strided):
        assert all_of[5].equal(one) and all_of[::5].equal(some)


@pytest.mark.parametrize("scale", [2.0**-100, 2.0**100])
def test_sizes_of_numbers_do_not_matter(scale):
    a = stack((6, 4, 4), torch.float32)
    assert (torch.linalg.svdvals(a * scale) / scale).equal(torch.linalg.svdvals(a))
    assert (torch.linalg.eigvalsh(a * scale) / scale).equal(torch.linalg.eigvalsh(a))


def test_columns_without_a_direction_are_found_elsewhere():
    a = torch.zeros(3, 4, 4)
    a[0, :2, :2] = torch.tensor([[1.0, 2.0], [2.0, 4.0]])
    a[1] = torch.eye(4)
    U, S, Vh = torch.linalg.svd(a)
    assert linalg_rotations.rotated_svd(a, True) is None
    assert torch.allclose((U * S[:, None]) @ Vh, a, atol=1e-6)
    assert torch.allclose(U.mT @ U, torch.eye(4).expand(3, 4, 4), atol=1e-6)
    assert torch.linalg.svdvals(a)[0].allclose(torch.tensor([5.0, 0, 0, 0]), atol=1e-6)


def test_equal_eigenvalues_and_diagonal_matrices():
    values, vectors = torch.linalg.eigh(torch.diag(torch.tensor([3.0, 1.0, 3.0])))
    assert values.tolist() == [1.0, 3.0, 3.0]
    assert vectors.tolist() == [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]


def test_infinities_are_left_to_the_usual_way():
    a = stack((4, 3, 3), torch.float64)
    a[2, 1, 0] = float("inf")
    assert torch.linalg.eigvalsh(a)[2].isnan().all()
    a[2, 1, 0] = float("nan")
    with pytest.raises(torch.linalg.LinAlgError, match="contained non-finite values"):
        torch.linalg.svdvals(a)
