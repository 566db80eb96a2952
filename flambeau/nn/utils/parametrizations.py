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
from flambeau.nn.utils.spectral_norm import (
    as_matrix,
    channel_dim,
    check_steps,
    turn,
    unit_vectors,
)
from flambeau.nn.utils.weight_norm import scaled_to

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


def _tensor_of(module, name):
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    return weight


# -- orthogonal -----------------------------------------------------------------------------------


def _is_orthogonal(Q):
    products = Q.mH @ Q
    unit = flambeau.eye(products.shape[-1], dtype=Q.dtype, device=Q.device)
    rounding = flambeau.finfo(Q.dtype).eps * Q.shape[-2]
    return flambeau.allclose(products, unit, atol=10 * rounding)


def _make_orthogonal(A):
    """The Q of A = QR whose R has positive numbers on the diagonal: then Q is unique."""
    X, tau = flambeau.geqrf(A)
    return linalg.householder_product(X, tau) * X.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


def _whole(tall):
    """A square orthogonal matrix that begins with the columns of a tall one."""
    n, k = tall.shape[-2:]
    if n == k:
        return tall.clone() if _is_orthogonal(tall) else _make_orthogonal(tall)
    more = flambeau.randn(*tall.shape[:-2], n, n - k, dtype=tall.dtype, device=tall.device)
    return _make_orthogonal(flambeau.cat([tall, more], dim=-1))


def _reflections(tall):
    """What _householder takes to this matrix: reflections below the diagonal, signs on it."""
    packed, tau = flambeau.geqrf(tall)
    signs = packed.diagonal(dim1=-2, dim2=-1)
    signs.sign_()
    signs[tau == 0.0] *= -1  # a reflection by nothing counts the other way
    return packed


def _is_wide(matrix):
    return matrix.shape[-2] < matrix.shape[-1]


# -- maps from tall free matrices to those with orthonormal columns


def _householder(X):
    below = X.tril(-1)
    tau = 2.0 / (below.square().sum(dim=-2) + 1.0)
    signs = X.diagonal(dim1=-2, dim2=-1).int()  # they are not learned
    return linalg.householder_product(below, tau) * signs.unsqueeze(-2)


def _by_skew(mapped):
    """From the lower triangle to a skew matrix, which the map takes to an orthogonal one."""

    def columns(X):
        n, k = X.shape[-2:]
        lower = F.pad(X.tril(), (0, n - k))
        return mapped(lower - lower.mH)[..., :k]

    return columns


def _cayley(skew):
    unit = flambeau.eye(skew.shape[-1], dtype=skew.dtype, device=skew.device)
    return linalg.solve(unit - skew / 2, unit + skew / 2)


class _OrthMaps(Enum):
    matrix_exp = auto()
    cayley = auto()
    householder = auto()


_MAPS = {
    _OrthMaps.matrix_exp: _by_skew(lambda skew: flambeau.matrix_exp(skew)),
    _OrthMaps.cayley: _by_skew(_cayley),
    _OrthMaps.householder: _householder,
}


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
        self.shape, self.orthogonal_map = weight.shape, orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: Tensor) -> Tensor:
        wide = _is_wide(X)
        Q = _MAPS[self.orthogonal_map](X.mT if wide else X)
        if "base" in self._buffers:
            Q = self.base @ Q
        return Q.mT if wide else Q

    @no_grad()
    def right_inverse(self, Q: Tensor) -> Tensor:
        if Q.shape != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of "
                f"shape {Q.shape}."
            )
        wide = _is_wide(Q)
        tall = Q.mT if wide else Q
        if "base" in self._buffers:
            self.base = _whole(tall)
            # every map takes minus one on the diagonal to (minus) the unit matrix or to signs only
            start = flambeau.zeros_like(Q)
            start.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
            return start
        if self.orthogonal_map != _OrthMaps.householder:
            raise NotImplementedError(
                "It is not possible to assign to the matrix exponential or the Cayley "
                "parametrizations when use_trivialization=False."
            )
        reflections = _reflections(tall)
        return reflections.mT if wide else reflections


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
    rows, columns = weight.shape[-2:]
    plain = rows != columns and not weight.is_complex()  # where householder is the quicker one
    orthogonal_map = orthogonal_map or ("householder" if plain else "matrix_exp")
    if orthogonal_map not in _OrthMaps.__members__:
        raise ValueError(
            'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". '
            f"Got: {orthogonal_map}"
        )
    kind = _OrthMaps[orthogonal_map]
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
        rank = weight.ndim
        if dim not in range(-rank, rank):
            raise IndexError(
                f"Dimension out of range (expected to be in range of [-{rank}, {rank - 1}] but got "
                f"{dim})"
            )
        check_steps(n_power_iterations)
        self.dim, self.eps = dim % rank, eps
        if rank > 1:  # the only singular value of a vector is its length
            self.n_power_iterations = n_power_iterations
            matrix = as_matrix(weight, self.dim)
            for name, vector in zip(("_u", "_v"), unit_vectors(matrix, eps)):
                self.register_buffer(name, vector)
            self._power_method(matrix, 15)

    def _power_method(self, matrix, steps):
        """Turn u and v towards the first singular vectors."""
        u, v = self._u, self._v
        turn(steps, self.eps, (matrix, v, u), (matrix.H, u, v))

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
