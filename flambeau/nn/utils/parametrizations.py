"""Ready-made parametrizations: weight normalisation, spectral normalisation, orthogonal matrices.

Each is a module with `forward` (from the free tensors to the weight) and `right_inverse` (back);
parametrize.py puts it in the place of a parameter.
"""

from enum import Enum, auto

import flambeau
from flambeau import linalg
from flambeau._tensor import Tensor
from flambeau.autograd.grad_mode import no_grad
from flambeau.nn import functional as F
from flambeau.nn.modules.module import Module
from flambeau.nn.utils.parametrize import register_parametrization
from flambeau.nn.utils.spectral_norm import as_matrix, channel_dim
from flambeau.nn.utils.weight_norm import scaled_to

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


def _tensor_of(module, name):
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    return weight


# -- orthogonal -----------------------------------------------------------------------------------


def _is_orthogonal(Q):
    n, k = Q.shape[-2:]
    unit = flambeau.eye(k, dtype=Q.dtype, device=Q.device)
    return flambeau.allclose(Q.mH @ Q, unit, atol=10.0 * n * flambeau.finfo(Q.dtype).eps)


def _make_orthogonal(A):
    """The Q of A = QR whose R has positive numbers on the diagonal: then Q is unique."""
    X, tau = flambeau.geqrf(A)
    return linalg.householder_product(X, tau) * X.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


class _OrthMaps(Enum):
    matrix_exp = auto()
    cayley = auto()
    householder = auto()


class _Orthogonal(Module):
    """From free matrices to those with orthonormal columns (or rows, if they are wide).

    With a `base` (use_trivialization), the map is Q = base @ map(X), so that any orthogonal matrix
    can be reached from X near zero.
    """

    base: Tensor

    def __init__(
        self, weight: Tensor, orthogonal_map: _OrthMaps, *, use_trivialization: bool = True
    ) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map == _OrthMaps.householder:
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: Tensor) -> Tensor:
        wide = X.size(-2) < X.size(-1)
        X = X.mT if wide else X
        n, k = X.shape[-2:]
        if self.orthogonal_map == _OrthMaps.householder:
            A = X.tril(diagonal=-1)
            tau = 2.0 / (1.0 + (A * A).sum(dim=-2))
            # the diagonal holds signs, which are not learned
            Q = linalg.householder_product(A, tau) * X.diagonal(dim1=-2, dim2=-1).int().unsqueeze(
                -2
            )
        else:
            X = X.tril()
            if n != k:
                rest = X.new_zeros(n, n - k).expand(*X.shape[:-2], -1, -1)
                X = flambeau.cat([X, rest], dim=-1)
            A = X - X.mH  # skew: both maps take it to an orthogonal matrix
            if self.orthogonal_map == _OrthMaps.matrix_exp:
                Q = flambeau.matrix_exp(A)
            else:
                unit = flambeau.eye(n, dtype=A.dtype, device=A.device)
                Q = linalg.solve(
                    flambeau.add(unit, A, alpha=-0.5), flambeau.add(unit, A, alpha=0.5)
                )
            if n != k:
                Q = Q[..., :k]
        if hasattr(self, "base"):
            Q = self.base @ Q
        return Q.mT if wide else Q

    @no_grad()
    def right_inverse(self, Q: Tensor) -> Tensor:
        if Q.shape != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of "
                f"shape {Q.shape}."
            )
        given, wide = Q, Q.size(-2) < Q.size(-1)
        Q = Q.mT if wide else Q
        n, k = Q.shape[-2:]
        if not hasattr(self, "base"):
            if self.orthogonal_map != _OrthMaps.householder:
                raise NotImplementedError(
                    "It is not possible to assign to the matrix exponential or the Cayley "
                    "parametrizations when use_trivialization=False."
                )
            A, tau = flambeau.geqrf(Q)
            # the diagonal of R tells the signs; a reflection by nothing counts the other way
            diagonal = A.diagonal(dim1=-2, dim2=-1)
            diagonal.sign_()
            diagonal[tau == 0.0] *= -1
            return A.mT if wide else A
        if n == k:
            Q = Q.clone() if _is_orthogonal(Q) else _make_orthogonal(Q)
        else:
            more = flambeau.randn(*Q.shape[:-2], n, n - k, dtype=Q.dtype, device=Q.device)
            Q = _make_orthogonal(flambeau.cat([Q, more], dim=-1))
        self.base = Q
        # every map takes minus one on the diagonal to (minus) the unit matrix or to signs only
        start = flambeau.zeros_like(given)
        start.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
        return start


def orthogonal(
    module: Module,
    name: str = "weight",
    orthogonal_map: str | None = None,
    *,
    use_trivialization: bool = True,
) -> Module:
    """Keep a matrix (or batch of them) orthogonal, by one of three maps from free matrices."""
    weight = _tensor_of(module, name)
    if weight.ndim < 2:
        raise ValueError(
            f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions."
        )
    if orthogonal_map is None:
        square = weight.size(-2) == weight.size(-1)
        orthogonal_map = "matrix_exp" if square or weight.is_complex() else "householder"
    kind = getattr(_OrthMaps, orthogonal_map, None)
    if kind is None:
        raise ValueError(
            'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". '
            f"Got: {orthogonal_map}"
        )
    made = _Orthogonal(weight, kind, use_trivialization=use_trivialization)
    return register_parametrization(module, name, made, unsafe=True)


# -- weight normalisation -------------------------------------------------------------------------


class _WeightNorm(Module):
    """Length and direction of each slice along dim are separate parameters."""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return scaled_to(weight_v, weight_g, self.dim)

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return flambeau.norm_except_dim(weight, 2, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int = 0):
    """Write a weight as g * v / |v|, each slice along dim by itself (dim=None: all together)."""
    register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def rename(state_dict, prefix, *_):  # names that the older hook of weight_norm.py used
        old = [f"{prefix}{name}_g", f"{prefix}{name}_v"]
        if all(key in state_dict for key in old):
            for k, key in enumerate(old):
                state_dict[f"{prefix}parametrizations.{name}.original{k}"] = state_dict.pop(key)

    module._register_load_state_dict_pre_hook(rename)
    return module


# -- spectral normalisation -----------------------------------------------------------------------


class _SpectralNorm(Module):
    """Divides a weight by its largest singular value, which a few steps of iteration follow."""

    def __init__(
        self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        super().__init__()
        ndim = weight.ndim
        if not -ndim <= dim < ndim:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [-{ndim}, {ndim - 1}] but got "
                f"{dim})"
            )
        if n_power_iterations <= 0:
            raise ValueError(
                "Expected n_power_iterations to be positive, but got "
                f"n_power_iterations={n_power_iterations}"
            )
        self.dim = dim % ndim
        self.eps = eps
        if ndim > 1:
            self.n_power_iterations = n_power_iterations
            matrix = as_matrix(weight, self.dim)
            height, width = matrix.size()
            u = matrix.new_empty(height).normal_(0, 1)
            v = matrix.new_empty(width).normal_(0, 1)
            self.register_buffer("_u", F.normalize(u, dim=0, eps=eps))
            self.register_buffer("_v", F.normalize(v, dim=0, eps=eps))
            self._power_method(matrix, 15)

    @no_grad()
    def _power_method(self, matrix, steps):
        """Turn u and v towards the first singular vectors."""
        for _ in range(steps):
            F.normalize(flambeau.mv(matrix, self._v), dim=0, eps=self.eps, out=self._u)
            F.normalize(flambeau.mv(matrix.H, self._u), dim=0, eps=self.eps, out=self._v)

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = as_matrix(weight, self.dim)
        if self.training:
            self._power_method(matrix, self.n_power_iterations)
        # copies, since the next forward writes to u and v before this backward may have run
        u, v = self._u.clone(), self._v.clone()
        return weight / flambeau.vdot(u, flambeau.mv(matrix, v))

    def right_inverse(self, value: Tensor) -> Tensor:
        return value


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """Keep the largest singular value of a weight at one."""
    weight = _tensor_of(module, name)
    dim = channel_dim(module) if dim is None else dim
    made = _SpectralNorm(weight, n_power_iterations, dim, eps)
    return register_parametrization(module, name, made)
