"""Normal vectors: MultivariateNormal, and LowRankMultivariateNormal for few common factors.

The covariance is kept as its lower triangular root L (covariance = L L^T), from which everything
else follows. Roots keep the batch that they were given with; they broadcast where they are used.
"""

import math
from collections.abc import Sequence

import flambeau
from flambeau import Tensor
from flambeau.linalg import cholesky, solve_triangular

from . import constraints
from .distribution import Distribution
from .utils import _standard_normal, lazy_property, passed_on

__all__ = ["LowRankMultivariateNormal", "MultivariateNormal"]


def times(matrix: Tensor, vector: Tensor) -> Tensor:
    """Matrix times vector, for batches of both."""
    return (matrix @ vector.unsqueeze(-1)).squeeze(-1)


def squared_length(root: Tensor, x: Tensor) -> Tensor:
    """x^T (L L^T)^-1 x: the squared Mahalanobis length, for batches of both.

    Samples that share a root become the columns of one triangular system.
    """
    outer = x.dim() - root.dim() + 1
    if outer <= 0:
        return solve_triangular(root, x.unsqueeze(-1), upper=False).square().sum((-2, -1))
    columns = x.reshape((-1, *x.shape[outer:])).movedim(0, -1)
    lengths = solve_triangular(root, columns, upper=False).square().sum(-2)
    return lengths.movedim(-1, 0).reshape(x.shape[:-1])


def half_log_det(root: Tensor) -> Tensor:
    """Half the logarithm of det(L L^T)."""
    return root.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def root_of_precision(precision: Tensor) -> Tensor:
    """The lower root of a matrix's inverse, from the root of the matrix read backwards."""
    backwards = cholesky(precision.flip((-2, -1)))
    inverse_root = backwards.flip((-2, -1)).mT
    identity = flambeau.eye(precision.shape[-1], dtype=precision.dtype, device=precision.device)
    return solve_triangular(inverse_root, identity, upper=False)


# PyTorch's names of these, which other packages import
_batch_mv, _batch_mahalanobis, _precision_to_scale_tril = times, squared_length, root_of_precision


def plus_identity(matrix: Tensor) -> Tensor:
    """matrix + 1"""
    return matrix + flambeau.eye(matrix.size(-1), dtype=matrix.dtype, device=matrix.device)


def _need(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)


def need_matrices(name: str, value: Tensor) -> None:
    message = "must be at least two-dimensional, with optional leading batch dimensions"
    _need(value.dim() >= 2, f"{name} {message}")


class _NormalVector(Distribution):
    """What vectors around loc have in common."""

    support = constraints.real_vector
    has_rsample = True
    loc: Tensor

    mean = passed_on("loc")
    mode = passed_on("loc")

    def _spread(self, matrix: Tensor) -> Tensor:
        """A matrix for every member of the batch."""
        return matrix.expand(self._batch_shape + self._event_shape + self._event_shape)

    def _half_log_det(self) -> Tensor:
        raise NotImplementedError

    def _squared_length(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        square = self._squared_length(value - self.loc)
        constant = self._event_shape[0] * math.log(2 * math.pi)
        return -0.5 * (constant + square) - self._half_log_det()

    def entropy(self) -> Tensor:
        constant = 0.5 * self._event_shape[0] * (1 + math.log(2 * math.pi))
        return (constant + self._half_log_det()).expand(self._batch_shape)


class MultivariateNormal(_NormalVector):
    """Normal vectors, by one of three matrices.

    Args:
        loc: the mean.
        covariance_matrix: a positive definite matrix.
        precision_matrix: its inverse.
        scale_tril: the lower triangular root of the covariance; the cheapest to give.
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    _batched = {"loc": 1, "covariance_matrix": 2, "precision_matrix": 2, "scale_tril": 2}
    _shared = ("_unbroadcasted_scale_tril",)

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        _need(loc.dim() >= 1, "loc must be at least one-dimensional.")
        name, matrix = the_one_given(
            ValueError,
            scale_tril=scale_tril,
            covariance_matrix=covariance_matrix,
            precision_matrix=precision_matrix,
        )
        need_matrices("scale_tril matrix" if name == "scale_tril" else name, matrix)
        batch_shape = flambeau.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        self.__dict__[name] = matrix.expand((*batch_shape, -1, -1))
        self.loc = loc.expand((*batch_shape, -1))
        super().__init__(batch_shape, self.loc.shape[-1:], validate_args=validate_args)
        self._unbroadcasted_scale_tril = root_of(name, matrix)

    @lazy_property
    def scale_tril(self) -> Tensor:
        return self._spread(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        root = self._unbroadcasted_scale_tril
        return self._spread(root @ root.mT)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        return self._spread(flambeau.cholesky_inverse(self._unbroadcasted_scale_tril))

    @property
    def variance(self) -> Tensor:
        squares = self._unbroadcasted_scale_tril.square().sum(-1)
        return squares.expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        eps = _standard_normal(shape, self.loc.dtype, self.loc.device)
        return self.loc + times(self._unbroadcasted_scale_tril, eps)

    def _half_log_det(self):
        return half_log_det(self._unbroadcasted_scale_tril)

    def _squared_length(self, x):
        return squared_length(self._unbroadcasted_scale_tril, x)


def the_one_given(error: type[Exception], **matrices: Tensor | None) -> tuple[str, Tensor]:
    """The only matrix that is not None, with its name."""
    given = [(name, matrix) for name, matrix in matrices.items() if matrix is not None]
    if len(given) != 1:
        raise error(
            "Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified."
        )
    return given[0]


def root_of(name: str, matrix: Tensor) -> Tensor:
    """The lower root of a covariance that is given under one of its three names."""
    if name == "scale_tril":
        return matrix
    return cholesky(matrix) if name == "covariance_matrix" else root_of_precision(matrix)


class LowRankMultivariateNormal(_NormalVector):
    """Normal vectors with covariance = cov_factor cov_factor^T + diag(cov_diag).

    Systems are solved with matrices of the rank's size only (Woodbury's identity): with W the
    factor and D the diagonal, C = 1 + W^T D^-1 W is what `_capacitance_tril` is the root of.

    Args:
        loc: the mean, n numbers.
        cov_factor: n x rank.
        cov_diag: n positive numbers.
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    _batched = {
        "loc": 1,
        "cov_diag": 1,
        "variance": 1,
        "cov_factor": 2,
        "scale_tril": 2,
        "covariance_matrix": 2,
        "precision_matrix": 2,
    }
    _shared = ("_unbroadcasted_cov_factor", "_unbroadcasted_cov_diag", "_capacitance_tril")
    cov_factor: Tensor
    cov_diag: Tensor

    def __init__(
        self,
        loc: Tensor,
        cov_factor: Tensor,
        cov_diag: Tensor,
        validate_args: bool | None = None,
    ) -> None:
        _need(loc.dim() >= 1, "loc must be at least one-dimensional.")
        need_matrices("cov_factor", cov_factor)
        event, size = loc.shape[-1:], loc.shape[-1]
        rows, numbers = cov_factor.shape[-2], cov_diag.shape[-1:]
        _need(rows == size, f"cov_factor must be a batch of matrices with shape {size} x m")
        _need(numbers == event, f"cov_diag must be a batch of vectors with shape {event}")

        # what is given, and how many of its dimensions are not the batch's
        given = {"loc": (loc, 1), "cov_factor": (cov_factor, 2), "cov_diag": (cov_diag, 1)}
        batches = [value.shape[: value.dim() - own] for value, own in given.values()]
        try:
            batch_shape = flambeau.broadcast_shapes(*batches)
        except RuntimeError as error:
            shapes = ", ".join(f"{name} {value.shape}" for name, (value, _) in given.items())
            raise ValueError(f"Incompatible batch shapes: {shapes}") from error
        for name, (value, own) in given.items():
            self.__dict__[name] = value.expand(*batch_shape, *[-1] * own)
        self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag = cov_factor, cov_diag
        self._capacitance_tril = cholesky(plus_identity(self._weighed_factor() @ cov_factor))
        super().__init__(batch_shape, event, validate_args=validate_args)

    def _weighed_factor(self):
        """W^T D^-1"""
        return self._unbroadcasted_cov_factor.mT / self._unbroadcasted_cov_diag.unsqueeze(-2)

    @lazy_property
    def variance(self) -> Tensor:
        squares = self._unbroadcasted_cov_factor.square().sum(-1) + self._unbroadcasted_cov_diag
        return squares.expand(self._batch_shape + self._event_shape)

    @lazy_property
    def scale_tril(self) -> Tensor:
        root = self._unbroadcasted_cov_diag.sqrt().unsqueeze(-1)
        scaled = self._unbroadcasted_cov_factor / root
        return self._spread(root * cholesky(plus_identity(scaled @ scaled.mT)))

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        factor = self._unbroadcasted_cov_factor
        return self._spread(factor @ factor.mT + self._unbroadcasted_cov_diag.diag_embed())

    @lazy_property
    def precision_matrix(self) -> Tensor:
        part = solve_triangular(self._capacitance_tril, self._weighed_factor(), upper=False)
        return self._spread(self._unbroadcasted_cov_diag.reciprocal().diag_embed() - part.mT @ part)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        *batch, size = self._extended_shape(sample_shape)
        factor, widths = self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag.sqrt()
        shared, own = (
            _standard_normal((*batch, count), self.loc.dtype, self.loc.device)
            for count in (factor.shape[-1], size)
        )
        return self.loc + times(factor, shared) + widths * own

    def _half_log_det(self):
        return half_log_det(self._capacitance_tril) + 0.5 * self._unbroadcasted_cov_diag.log().sum(
            -1
        )

    def _squared_length(self, x):
        without_factors = (x.square() / self._unbroadcasted_cov_diag).sum(-1)
        return without_factors - squared_length(
            self._capacitance_tril, times(self._weighed_factor(), x)
        )
