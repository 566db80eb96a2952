"""Spectral normalisation by a hook: the older way, kept for programs and files that use it.

`weight_orig` is the parameter; before every forward the hook divides it by an estimate of its
largest singular value, which one or more steps of power iteration on `weight_u` and `weight_v`
follow from call to call. The newer way is `parametrizations.spectral_norm`.
"""

from typing import Any

import flambeau
from flambeau import linalg
from flambeau._tensor import Tensor
from flambeau.autograd.grad_mode import no_grad
from flambeau.nn import functional as F
from flambeau.nn.modules.module import Module
from flambeau.nn.parameter import Parameter, is_lazy

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
        if n_power_iterations <= 0:
            raise ValueError(
                "Expected n_power_iterations to be positive, but got "
                f"n_power_iterations={n_power_iterations}"
            )
        self.name, self.dim, self.eps = name, dim, eps
        self.n_power_iterations = n_power_iterations

    def reshape_weight_to_matrix(self, weight: Tensor) -> Tensor:
        """The weight as a matrix, output channels first."""
        return as_matrix(weight, self.dim)

    def compute_weight(self, module: Module, do_power_iteration: bool) -> Tensor:
        """The weight over its largest singular value."""
        weight = getattr(module, self.name + "_orig")
        u, v = getattr(module, self.name + "_u"), getattr(module, self.name + "_v")
        matrix = as_matrix(weight, self.dim)
        if do_power_iteration:
            with no_grad():
                for _ in range(self.n_power_iterations):  # in place: DataParallel shares u and v
                    F.normalize(flambeau.mv(matrix.t(), u), dim=0, eps=self.eps, out=v)
                    F.normalize(flambeau.mv(matrix, v), dim=0, eps=self.eps, out=u)
                # copies, since the next forward writes to u and v before this backward has run
                u, v = u.clone(), v.clone()
        return weight / flambeau.dot(u, flambeau.mv(matrix, v))

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
        inverse = weight_mat.t().mm(weight_mat).pinverse()
        v = linalg.multi_dot([inverse, weight_mat.t(), u.unsqueeze(1)]).squeeze(1)
        return v.mul_(target_sigma / flambeau.dot(u, flambeau.mv(weight_mat, v)))

    @staticmethod
    def apply(
        module: Module, name: str, n_power_iterations: int, dim: int, eps: float
    ) -> "SpectralNorm":
        """Rename the parameter, draw u and v, register the hooks."""
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, SpectralNorm) and hook.name == name:
                raise RuntimeError(
                    f"Cannot register two spectral_norm hooks on the same parameter {name}"
                )
        made = SpectralNorm(name, n_power_iterations, dim, eps)
        weight = module._parameters[name]
        if weight is None:
            raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
        if is_lazy(weight):
            raise ValueError(
                "The module passed to `SpectralNorm` can't have uninitialized parameters. Make "
                "sure to run the dummy forward before applying spectral normalization"
            )
        with no_grad():
            height, width = as_matrix(weight, dim).size()
            u = F.normalize(weight.new_empty(height).normal_(0, 1), dim=0, eps=eps)
            v = F.normalize(weight.new_empty(width).normal_(0, 1), dim=0, eps=eps)
        delattr(module, name)
        module.register_parameter(name + "_orig", weight)
        setattr(module, name, weight.data)  # something to read before the first forward
        module.register_buffer(name + "_u", u)
        module.register_buffer(name + "_v", v)
        module.register_forward_pre_hook(made)
        module._register_state_dict_hook(SpectralNormStateDictHook(made))
        module._register_load_state_dict_pre_hook(SpectralNormLoadStateDictPreHook(made))
        return made


class SpectralNormLoadStateDictPreHook:
    """Files from before version 1 have no v: it is solved for."""

    def __init__(self, fn: SpectralNorm) -> None:
        self.fn = fn

    def __call__(
        self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    ) -> None:
        hook = self.fn
        version = local_metadata.get("spectral_norm", {}).get(hook.name + ".version")
        key = prefix + hook.name
        if version is not None and version >= 1:
            return
        complete = all(key + end in state_dict for end in ("_orig", "_u", "_v"))
        if version is None and complete and key not in state_dict:
            return  # a state without notes on versions, but of the new kind
        missing = [key + end for end in ("_orig", "", "_u") if key + end not in state_dict]
        if missing:
            if strict:
                missing_keys.extend(missing)
            return
        with no_grad():
            original = state_dict[key + "_orig"]
            sigma = (original / state_dict.pop(key)).mean()
            matrix = as_matrix(original, hook.dim)
            state_dict[key + "_v"] = hook._solve_v_and_rescale(
                matrix, state_dict[key + "_u"], sigma
            )


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
    for number, hook in module._forward_pre_hooks.items():
        if isinstance(hook, SpectralNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[number]
            break
    else:
        raise ValueError(f"spectral_norm of '{name}' not found in {module}")
    _drop(module._state_dict_hooks, SpectralNormStateDictHook, name)
    _drop(module._load_state_dict_pre_hooks, SpectralNormLoadStateDictPreHook, name)
    return module


def _drop(hooks, kind, name):
    for number, hook in hooks.items():
        if isinstance(hook, kind) and hook.fn.name == name:
            del hooks[number]
            return
