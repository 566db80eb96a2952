"""`torch._C`: the few names of PyTorch's compiled part that libraries call by it."""

import importlib
from typing import Any

from flambeau import interposing
from flambeau._device import default_device, device
from flambeau._tensor import Tensor
from flambeau.autograd.function import Error, UndefinedGrad
from flambeau.autograd.grad_mode import modes, set_grad_enabled
from flambeau.autograd.node import AccumulateGrad, SavedTensor
from flambeau.backends.gpu_libraries import _BlasBackend as _BlasBackend
from flambeau.backends.gpu_libraries import _LinalgBackend as _LinalgBackend
from flambeau.cuda._devices import devices as cuda_devices
from flambeau.interposing.overriding import ARGUMENTS, answerable, disabled
from flambeau.library.registered import below_autograd as _AutoDispatchBelowAutograd  # noqa: F401
from flambeau.nn import functional
from flambeau.nn.modules.traversal import _parse_to
from flambeau.overrides import DisableTorchFunction as DisableTorchFunction
from flambeau.overrides import DisableTorchFunctionSubclass as DisableTorchFunctionSubclass
from flambeau.overrides import _get_current_function_mode
from flambeau.overrides import has_torch_function as _has_torch_function
from flambeau.overrides import has_torch_function_unary as _has_torch_function_unary
from flambeau.overrides import has_torch_function_variadic as _has_torch_function_variadic
from flambeau.random import Generator as Generator
from flambeau.runtime.switches import switches
from flambeau.transforms.levels import running


class _Functions:
    """Functions by the names that PyTorch's builtins have; graphs of `torch.fx` say them."""

    def __init__(self, space: str, prefix: str = "", **others: Any) -> None:
        self._space = space
        self._prefix = prefix
        vars(self).update(others)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith(self._prefix):
            raise AttributeError(name)
        space = importlib.import_module(self._space)
        found = getattr(space, name.removeprefix(self._prefix), None)
        return getattr(_aten(), name) if found is None else found


def _aten() -> Any:
    """Ops by the names of aten, which those of `torch._C._nn` are among."""
    return importlib.import_module("flambeau").ops.aten


_OPERATORS = ("__and__", "__or__", "__xor__", "__lshift__", "__rshift__")
_VariableFunctions = _Functions("flambeau", **{name: getattr(Tensor, name) for name in _OPERATORS})
_nn = _Functions(
    "flambeau.nn.functional", _parse_to=answerable(_parse_to), log_sigmoid=functional.logsigmoid
)
_linalg, _fft, _special = (
    _Functions(f"flambeau.{space}", f"{space}_") for space in ("linalg", "fft", "special")
)
_autograd = _Functions(
    "flambeau.autograd",
    SavedTensor=SavedTensor,
    _saved_tensors_hooks_is_enabled=lambda: modes.saved_hooks_refused is None,
)
_functions = _Functions(
    "flambeau.autograd",
    AccumulateGrad=AccumulateGrad,
    DelayedError=Error,
    UndefinedGrad=lambda: UndefinedGrad.apply,
)
_TensorMeta = type(Tensor)
_disabled_torch_function_impl = disabled  # for classes: `__torch_function__ = ...`
_OF_GRAPHS = ("Block", "Graph", "Node", "Value")  # of compiled functions
_OF_ALL = ("ScriptMethod", "StorageBase")  # public names that PyTorch takes from here
_has_mps = _has_xpu = False
_OVERRIDES = (_has_torch_function, _has_torch_function_unary, _has_torch_function_variadic)


def _is_torch_function_enabled() -> bool:
    """Are subclasses of Tensor asked?"""
    return interposing.is_on(ARGUMENTS) or not interposing.is_pushed(ARGUMENTS)


def _is_torch_function_mode_enabled() -> bool:
    """Is there a mode that is told of functions?"""
    return _get_current_function_mode() is not None


def _set_grad_enabled(mode: bool) -> None:
    """Record what is computed from here on, or not; graphs of compiled functions say it."""
    set_grad_enabled(mode)


def _log_api_usage_once(event: str) -> None:
    """Libraries announce themselves to a listener that PyTorch's builds leave out, as here."""


# -- what programs tell PyTorch's compilers and ask about devices ----------------------------------


def _get_tracing_state() -> Any:
    """What records for `torch.jit.trace` just now, if anything does."""
    found = importlib.import_module("flambeau.jit.state").state.tracers
    return found[-1] if found else None


def _is_tracing() -> bool:
    """Is `torch.jit.trace` recording?"""
    return importlib.import_module("flambeau.jit").is_tracing()


def _get_default_device() -> str:
    """The device of new tensors, by its name."""
    return str(default_device())


def _get_accelerator(check: bool | None = None) -> device:
    """The kind of accelerator there is, or the CPU."""
    return device("cuda" if cuda_devices() else "cpu")


def _get_privateuse1_backend_name() -> str:
    """The name of a device that a program would register."""
    return "privateuseone"


def _is_alias_of(a: Tensor, b: Tensor) -> bool:
    """Do two tensors look at the same block of memory?"""
    return a._storage is b._storage


def _are_functorch_transforms_active() -> bool:
    """Is a function being transformed?"""
    return bool(running.levels)


def _set_math_sdp_allow_fp16_bf16_reduction(enabled: bool) -> None:
    """Sums of attention are always kept in float32."""


def _get_deterministic_fill_uninitialized_memory() -> bool:
    """The switch of `torch.utils.deterministic`."""
    return switches.fill


def _set_deterministic_fill_uninitialized_memory(mode: bool) -> None:
    """The switch of `torch.utils.deterministic`."""
    switches.change(fill=bool(mode))


def _no_fuser(enabled: bool = False) -> bool:
    """A switch of a compiler that is not here: it was off, and stays off."""
    return False


_jit_set_profiling_mode = _jit_set_profiling_executor = _jit_set_texpr_fuser_enabled = _no_fuser
_jit_set_nvfuser_enabled = _jit_set_nvfuser_guard_mode = _no_fuser
_jit_override_can_fuse_on_cpu = _jit_override_can_fuse_on_gpu = _no_fuser
_jit_can_fuse_on_cpu = _jit_can_fuse_on_gpu = _no_fuser


def __getattr__(name: str) -> Any:
    if name in _OF_GRAPHS:
        return getattr(importlib.import_module("flambeau.jit.ir"), name)
    if name in _OF_ALL or name.endswith("Type"):
        return getattr(importlib.import_module("flambeau"), name)
    raise AttributeError(f"module 'torch._C' has no attribute {name!r}")
