"""Random matrices: Wishart for covariances, LKJCholesky for correlations."""

import math
import warnings
from collections.abc import Sequence

import flambeau
from flambeau import Size, Tensor
from flambeau.linalg import slogdet

from . import constraints
from .distribution import Distribution, ExponentialFamily
from .gammas import Beta, Chi2
from .multivariate import half_log_det, need_matrices, root_of, the_one_given
from .utils import broadcast_all, lazy_property, vec_to_tril_matrix

__all__ = ["LKJCholesky", "Wishart"]


class Wishart(ExponentialFamily):
    """Positive definite matrices: X^T X for df rows of X from a normal distribution.

    Args:
        df: degrees of freedom, more than the size of the matrices less 1.
        covariance_matrix: that of the rows; or, instead,
        precision_matrix: its inverse, or
        scale_tril: its lower triangular root.
    """

    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0
    _batched = {
        "df": 0,
        "covariance_matrix": 2,
        "precision_matrix": 2,
        "scale_tril": 2,
        "_unbroadcasted_scale_tril": 2,
        "_dist_chi2": 1,
    }

    def __init__(
        self,
        df: Tensor | float,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        name, matrix = the_one_given(
            AssertionError,
            covariance_matrix=covariance_matrix,
            precision_matrix=precision_matrix,
            scale_tril=scale_tril,
        )
        need_matrices("scale_tril", matrix)
        degrees = df
        if not isinstance(degrees, Tensor):
            degrees = flambeau.tensor(degrees, dtype=matrix.dtype, device=matrix.device)
        batch_shape = flambeau.broadcast_shapes(matrix.shape[:-2], degrees.shape)
        event_shape = matrix.shape[-2:]
        size = event_shape[-1]
        self.df = degrees.expand(batch_shape)
        if (self.df <= size - 1).any():
            raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {size - 1}.")
        self.__dict__[name] = matrix.expand((*batch_shape, -1, -1))
        if (self.df < size).any():
            warnings.warn(
                "Low df values detected. Singular samples are highly likely to occur "
                "for ndim - 1 < df < ndim.",
                stacklevel=2,
            )
        super().__init__(batch_shape, event_shape, validate_args=validate_args)
        self._unbroadcasted_scale_tril = root_of(name, matrix)
        steps = flambeau.arange(size, dtype=matrix.dtype, device=matrix.device)
        self._dist_chi2 = Chi2(self.df.unsqueeze(-1) - steps)

    @property
    def arg_constraints(self) -> dict[str, constraints.Constraint]:
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self.event_shape[-1] - 1),
        }

    def _spread(self, matrix):
        return matrix.expand(self._batch_shape + self._event_shape)

    @lazy_property
    def scale_tril(self) -> Tensor:
        return self._spread(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        root = self._unbroadcasted_scale_tril
        return self._spread(root @ root.mT)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        root = self._unbroadcasted_scale_tril
        identity = flambeau.eye(root.size(-1), dtype=root.dtype, device=root.device)
        return self._spread(flambeau.cholesky_solve(identity, root))

    @property
    def mean(self) -> Tensor:
        return self.df[..., None, None] * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        """nan without more than size + 1 degrees of freedom."""
        factor = self.df - self.event_shape[-1] - 1
        factor = factor.masked_fill(factor <= 0, math.nan)
        return factor[..., None, None] * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        V = self.covariance_matrix
        d = V.diagonal(dim1=-2, dim2=-1)
        return self.df[..., None, None] * (V.square() + d.unsqueeze(-1) * d.unsqueeze(-2))

    def _bartlett_sampling(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Bartlett's decomposition: a triangle of chi and normal numbers, squared."""
        chi = self._dist_chi2.rsample(sample_shape).sqrt()
        chi = chi.clamp(min=flambeau.finfo(chi.dtype).eps)
        *batch, n = chi.shape
        below = flambeau.randn((*batch, n * (n - 1) // 2), dtype=chi.dtype, device=chi.device)
        triangle = vec_to_tril_matrix(below, diag=-1) + chi.diag_embed()
        root = self._unbroadcasted_scale_tril @ triangle
        return root @ root.mT

    def rsample(
        self, sample_shape: Sequence[int] = (), max_try_correction: int | None = None
    ) -> Tensor:
        sample = self._bartlett_sampling(Size(sample_shape))
        # PyTorch first draws again whatever is not singular, then what is. For the same numbers,
        # so do we; it says "Singular sample detected." each time, we where it is true.
        again = self._any_of_batch(self.support.check(sample))
        for _ in range(10 if max_try_correction is None else max_try_correction):
            if not again.any():
                break
            fresh = self._bartlett_sampling(again[again].shape)
            sample[again] = fresh
            still = again.clone()
            still[again] = self._any_of_batch(~self.support.check(fresh))
            again = still
            if again.any():
                warnings.warn("Singular sample detected.", stacklevel=2)
        return sample

    def _any_of_batch(self, flags: Tensor) -> Tensor:
        batch = len(self._batch_shape)
        return flags.amax(tuple(range(-batch, 0))) if batch else flags

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        p, nu, root = self._event_shape[-1], self.df, self._unbroadcasted_scale_tril
        trace = flambeau.cholesky_solve(value, root).diagonal(dim1=-2, dim2=-1).sum(-1)
        normalizer = nu * (p * math.log(2) / 2 + half_log_det(root)) + flambeau.mvlgamma(nu / 2, p)
        return (nu - p - 1) / 2 * slogdet(value).logabsdet - trace / 2 - normalizer

    def entropy(self) -> Tensor:
        p, nu = self._event_shape[-1], self.df
        size = (p + 1) * (p * math.log(2) / 2 + half_log_det(self._unbroadcasted_scale_tril))
        steps = flambeau.arange(p, dtype=nu.dtype, device=nu.device) / 2
        digammas = ((nu / 2).unsqueeze(-1) - steps).digamma().sum(-1)
        return size + flambeau.mvlgamma(nu / 2, p) - (nu - p - 1) / 2 * digammas + nu * p / 2

    @property
    def _natural_params(self):
        return (-self.precision_matrix / 2, (self.df - self._event_shape[-1] - 1) / 2)

    def _log_normalizer(self, x, y):
        p = self._event_shape[-1]
        half_df = y + (p + 1) / 2
        log_det = slogdet(-2 * x).logabsdet
        return half_df * (p * math.log(2) - log_det) + flambeau.mvlgamma(half_df, p)


class LKJCholesky(Distribution):
    """Lower roots of correlation matrices (Lewandowski, Kurowicka and Joe, 2009).

    Args:
        dim: the size of the matrices.
        concentration: 1 makes all correlation matrices equally likely, more prefers the identity.
    """

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky
    _batched = {"concentration": 0, "_beta": 1}
    _shared = ("dim",)

    def __init__(
        self,
        dim: int,
        concentration: Tensor | float = 1.0,
        validate_args: bool | None = None,
    ) -> None:
        if dim < 2:
            raise ValueError(
                f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}."
            )
        (eta,) = broadcast_all(concentration)
        self.dim, self.concentration = dim, eta
        # rows of the root are points in balls: a Beta distribution for their squared radius.
        # The first row is a 1 alone; its radius is drawn like the second's and not used
        balls = flambeau.arange(-1, dim - 1, dtype=eta.dtype, device=eta.device).clamp(min=0)
        self._beta = Beta(balls + 0.5, (eta + 0.5 * (dim - 2)).unsqueeze(-1) - 0.5 * balls)
        super().__init__(eta.shape, Size((dim, dim)), validate_args=validate_args)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """The onion method: rows grow by a dimension at a time."""
        radius = self._beta.sample(sample_shape).unsqueeze(-1).sqrt()
        shape = self._extended_shape(sample_shape)
        normal = flambeau.randn(shape, dtype=radius.dtype, device=radius.device).tril(-1)
        direction = normal / normal.norm(dim=-1, keepdim=True)
        direction[..., 0, :] = 0.0
        w = radius * direction
        rest = (1 - w.square().sum(-1)).clamp(min=flambeau.finfo(w.dtype).tiny)
        return w + rest.sqrt().diag_embed()

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        eta, rows = self.concentration, self.dim - 1
        # rows - 1, ..., 0: how many rows come below
        below = flambeau.arange(rows - 1, -1, -1, device=eta.device)
        heights = value.diagonal(dim1=-2, dim2=-1)[..., 1:].log()
        density = ((2 * (eta - 1).unsqueeze(-1) + below) * heights).sum(-1)
        top = eta + rows / 2
        return density - rows / 2 * math.log(math.pi) - self._log_volume(top, rows)

    def _log_volume(self, top, rows):
        return flambeau.mvlgamma(top - 0.5, rows) - rows * top.lgamma()
