"""Transforms of vectors to probabilities, and of vectors and matrices to triangular ones."""

import math

import flambeau
from flambeau import Size, Tensor
from flambeau.nn import functional as F

from . import constraints
from .transforming import Transform
from .transforms_of_numbers import clipped_sigmoid
from .utils import tril_matrix_to_vec, vec_to_tril_matrix

__all__ = [
    "CorrCholeskyTransform",
    "LowerCholeskyTransform",
    "PositiveDefiniteTransform",
    "SoftmaxTransform",
    "StickBreakingTransform",
]


def _check_dimensions(shape: Size, least: int) -> None:
    if len(shape) < least:
        raise ValueError("Too few dimensions on input")


class SoftmaxTransform(Transform):
    """exp(x), scaled to sum to 1; a constant in x is lost, so this has no volume to speak of"""

    domain = constraints.real_vector
    codomain = constraints.simplex

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SoftmaxTransform)

    def _call(self, x):
        e = (x - x.max(-1, True)[0]).exp()
        return e / e.sum(-1, True)

    def _inverse(self, y):
        return y.log()

    def forward_shape(self, shape: Size) -> Size:
        _check_dimensions(shape, 1)
        return shape

    inverse_shape = forward_shape


class StickBreakingTransform(Transform):
    """From K - 1 numbers to K probabilities: each number says how much of the rest to break off.

    Shifted so that zeros give equal parts.
    """

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StickBreakingTransform)

    def _log_pieces_left(self, x, count):
        """log(count), log(count - 1), ..., log(1)"""
        return (count + 1 - x.new_ones(count).cumsum(-1)).log()

    def _call(self, x):
        parts = clipped_sigmoid(x - self._log_pieces_left(x, x.shape[-1]))
        remains = (1 - parts).cumprod(-1)  # of the stick, after each break
        return F.pad(parts, (0, 1), value=1.0) * F.pad(remains, (1, 0), value=1.0)

    def _inverse(self, y):
        y = y[..., :-1]
        left = (1 - y.cumsum(-1)).clamp(min=flambeau.finfo(y.dtype).tiny)
        return y.log() - left.log() + self._log_pieces_left(y, y.shape[-1])

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        z = x - self._log_pieces_left(x, x.shape[-1])
        return (F.logsigmoid(z) - z + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Size) -> Size:
        _check_dimensions(shape, 1)
        return shape[:-1] + (shape[-1] + 1,)  # noqa: RUF005  (a Size stays one)

    def inverse_shape(self, shape: Size) -> Size:
        _check_dimensions(shape, 1)
        return shape[:-1] + (shape[-1] - 1,)  # noqa: RUF005


class LowerCholeskyTransform(Transform):
    """Lower triangles: the diagonal through exp, what is below as it is"""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LowerCholeskyTransform)

    def _call(self, x):
        return _on_diagonal(flambeau.exp, x)

    def _inverse(self, y):
        return _on_diagonal(flambeau.log, y)


def _on_diagonal(function, matrix):
    """The lower triangle of a matrix, with a function applied to its diagonal."""
    return matrix.tril(-1) + function(matrix.diagonal(dim1=-2, dim2=-1)).diag_embed()


class PositiveDefiniteTransform(Transform):
    """L times its transpose, for the lower triangle L of `LowerCholeskyTransform`"""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PositiveDefiniteTransform)

    def _call(self, x):
        lower = LowerCholeskyTransform()(x)
        return lower @ lower.mT

    def _inverse(self, y):
        return LowerCholeskyTransform().inv(flambeau.linalg.cholesky(y))


class CorrCholeskyTransform(Transform):
    """From D (D - 1) / 2 numbers to the Cholesky factor of a D x D correlation matrix.

    tanh of the numbers are partial correlations; each row of the factor is filled from them by
    breaking sticks, so that it has length 1.
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x):
        most = 1 - flambeau.finfo(x.dtype).eps
        partial = vec_to_tril_matrix(x.tanh().clamp(-most, most), diag=-1)
        # how much of the length of a row is left for each column and those behind it
        remains = F.pad((1 - partial.square()).sqrt().cumprod(-1), (1, -1), value=1.0)
        unit = flambeau.eye(partial.shape[-1], dtype=partial.dtype, device=partial.device)
        return (partial + unit) * remains

    def _inverse(self, y):
        remains = F.pad(1 - y.square().cumsum(-1), (1, -1), value=1.0)
        partial = tril_matrix_to_vec(y / remains.sqrt(), diag=-1)
        return partial.atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor, intermediates=None) -> Tensor:
        # two triangular parts: breaking sticks, and the slopes of tanh
        sticks = tril_matrix_to_vec(1 - y.square().cumsum(-1), diag=-2).log() / 2
        slopes = 2 * (math.log(2) - x - F.softplus(-2 * x))
        return sticks.sum(-1) + slopes.sum(-1)

    def forward_shape(self, shape: Size) -> Size:
        _check_dimensions(shape, 1)
        count = shape[-1]
        size = round((0.25 + 2 * count) ** 0.5 + 0.5)
        if size * (size - 1) // 2 != count:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return Size((*shape[:-1], size, size))

    def inverse_shape(self, shape: Size) -> Size:
        _check_dimensions(shape, 2)
        if shape[-2] != shape[-1]:
            raise ValueError("Input is not square")
        return Size((*shape[:-2], shape[-1] * (shape[-1] - 1) // 2))
