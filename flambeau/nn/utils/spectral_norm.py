"""Spectral normalisation by a hook: the older way, kept for programs and files that use it.

`weight_orig` is the parameter; before every forward the hook divides it by an estimate of its
largest singular value, which one or more steps of power iteration on `weight_u` and `weight_v`
follow from call to call. The newer way is `parametrizations.spectral_norm`.
"""

from typing import Any

from flambeau._tensor import Tensor
from flambeau.autograd.grad_mode import no_grad
from flambeau.nn import functional as F
from flambeau.nn.modules.module import Module
from flambeau.nn.parameter import Parameter
from flambeau.nn.utils.forward_hooks import refuse_lazy, refuse_second, take_off

__all__ = [
    "SpectralNorm",
    "SpectralNormLoadStateDictPreHook",
    "SpectralNormStateDictHook",
    "remove_spectral_norm",
    "spectral_norm",
]


def as_matrix(weight: Tensor, dim: int) -> Tensor:
    """A weight as a matrix whose rows are its slices along dim."""
    if dim != 0:
        weight = weight.permute(dim, *(d for d in range(weight.dim()) if d != dim))
    return weight.flatten(1)


def check_steps(n_power_iterations: int) -> None:
    """At least one step of iteration."""
    if n_power_iterations <= 0:
        raise ValueError(
            f"Expected n_power_iterations to be positive, but got {n_power_iterations=}"
        )


def unit_vectors(matrix: Tensor, eps: float) -> list[Tensor]:
    """Random vectors of length one: of the height and of the width of a matrix."""
    drawn = [matrix.new_empty(size).normal_(0, 1) for size in matrix.shape]
    return [F.normalize(vector, dim=0, eps=eps) for vector in drawn]


@no_grad()
def turn(steps: int, eps: float, *moves: tuple[Tensor, Tensor, Tensor]) -> None:
    """Power iteration: each move (matrix, x, y) writes the direction of matrix @ x to y."""
    for matrix, x, y in moves * steps:
        F.normalize(matrix.mv(x), dim=0, eps=eps, out=y)


def channel_dim(module: Module) -> int:
    """Along which dimension of its weight the output channels of a module lie."""
    from flambeau.nn.modules.conv import _ConvTransposeNd

    return 1 if isinstance(module, _ConvTransposeNd) else 0


class SpectralNorm:
    """The hook."""

    _version: int = 1
    name: str
    dim: int
    n_power_iterations: int
    eps: float

    def __init__(
        self, name: str = "weight", n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        check_steps(n_power_iterations)
        self.name, self.dim, self.eps = name, dim, eps
        self.n_power_iterations = n_power_iterations

    def reshape_weight_to_matrix(self, weight: Tensor) -> Tensor:
        """The weight as a matrix, output channels first."""
        return as_matrix(weight, self.dim)

    def compute_weight(self, module: Module, do_power_iteration: bool) -> Tensor:
        """The weight over its largest singular value."""
        original, u, v = (getattr(module, self.name + end) for end in ("_orig", "_u", "_v"))
        matrix = as_matrix(original, self.dim)
        if do_power_iteration:
            # in place, since DataParallel shares u and v
            turn(self.n_power_iterations, self.eps, (matrix.t(), u, v), (matrix, v, u))
            # copies, since the next forward writes to them before this backward has run
            u, v = u.detach().clone(), v.detach().clone()
        largest = u.dot(matrix.mv(v))
        return original / largest

    def remove(self, module: Module) -> None:
        """Make the weight an ordinary parameter again."""
        with no_grad():
            weight = self.compute_weight(module, do_power_iteration=False)
        for name in ("", "_u", "_v", "_orig"):
            delattr(module, self.name + name)
        module.register_parameter(self.name, Parameter(weight.detach()))

    def __call__(self, module: Module, inputs: Any) -> None:
        weight = self.compute_weight(module, do_power_iteration=module.training)
        setattr(module, self.name, weight)

    def _solve_v_and_rescale(self, weight_mat, u, target_sigma):
        """The v with u = W v up to scale, and u . W v = target_sigma."""
        across = weight_mat.t()
        v = (across @ weight_mat).pinverse() @ across.mv(u)
        return v * (target_sigma / u.dot(weight_mat.mv(v)))

    @staticmethod
    def apply(
        module: Module, name: str, n_power_iterations: int, dim: int, eps: float
    ) -> "SpectralNorm":
        """Rename the parameter, draw u and v, register the hooks."""
        refuse_second(module, SpectralNorm, name, "spectral_norm")
        made = SpectralNorm(name, n_power_iterations, dim, eps)
        weight = module._parameters[name]
        if weight is None:
            raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
        refuse_lazy(weight, SpectralNorm, "spectral")
        vectors = unit_vectors(as_matrix(weight.detach(), dim), eps)
        del module._parameters[name]
        module.register_parameter(name + "_orig", weight)
        setattr(module, name, weight.data)  # something to read before the first forward
        for end, vector in zip(("_u", "_v"), vectors):
            module.register_buffer(name + end, vector)
        made._attach(module)
        return made

    def _attach(self, module):
        module.register_forward_pre_hook(self)
        module._register_state_dict_hook(SpectralNormStateDictHook(self))
        module._register_load_state_dict_pre_hook(SpectralNormLoadStateDictPreHook(self))


class SpectralNormLoadStateDictPreHook:
    """Files from before version 1 have no v: it is solved for."""

    def __init__(self, fn: SpectralNorm) -> None:
        self.fn = fn

    def __call__(
        self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    ) -> None:
        name, key = self.fn.name, prefix + self.fn.name
        version = local_metadata.get("spectral_norm", {}).get(f"{name}.version")
        if version is not None and version >= 1:
            return
        found = [end for end in ("_orig", "", "_u", "_v") if key + end in state_dict]
        if version is None and found == ["_orig", "_u", "_v"]:
            return  # a state without notes on versions, but of the new kind
        missing = [key + end for end in ("_orig", "", "_u") if end not in found]
        if not missing:
            self._add_v(state_dict, key)
        elif strict:
            missing_keys += missing

    @no_grad()
    def _add_v(self, state_dict, key):
        original, u = state_dict[key + "_orig"], state_dict[key + "_u"]
        largest = (original / state_dict.pop(key)).mean()
        matrix = as_matrix(original, self.fn.dim)
        state_dict[key + "_v"] = self.fn._solve_v_and_rescale(matrix, u, largest)


class SpectralNormStateDictHook:
    """Notes the version of the hook beside the saved state."""

    def __init__(self, fn: SpectralNorm) -> None:
        self.fn = fn

    def __call__(self, module, state_dict, prefix, local_metadata) -> None:
        notes = local_metadata.setdefault("spectral_norm", {})
        key = self.fn.name + ".version"
        if key in notes:
            raise RuntimeError(f"Unexpected key in metadata['spectral_norm']: {key}")
        notes[key] = self.fn._version


def spectral_norm(
    module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
):
    """Keep the largest singular value of a weight at one."""
    dim = channel_dim(module) if dim is None else dim
    SpectralNorm.apply(module, name, n_power_iterations, dim, eps)
    return module


def remove_spectral_norm(module, name: str = "weight"):
    """Undo spectral_norm; the weight keeps its value."""
    take_off(module, SpectralNorm, name, "spectral_norm")
    _drop(module._state_dict_hooks, SpectralNormStateDictHook, name)
    _drop(module._load_state_dict_pre_hooks, SpectralNormLoadStateDictPreHook, name)
    return module


def _drop(hooks, kind, name):
    own = [n for n, hook in hooks.items() if isinstance(hook, kind) and hook.fn.name == name]
    for number in own[:1]:
        del hooks[number]
