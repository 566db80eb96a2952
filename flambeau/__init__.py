"""flambeau: PyTorch's API in pure Python, with machine code generated through LLVM.

The front door. Names come from the op table (`ops/`), the creation functions (`eager/creation.py`), the
modes of autograd and the dtypes. Ops and subpackages load when first touched, so importing is cheap.
"""

import importlib as _importlib
import math as _math

from flambeau import ops as _ops
from flambeau._device import default_device as get_default_device
from flambeau._device import device, set_default_device
from flambeau._dtype import (
    ALIASES as _ALIASES,
)
from flambeau._dtype import (
    BY_NAME as _BY_NAME,
)
from flambeau._dtype import (
    can_cast as _can_cast,
)
from flambeau._dtype import (
    default_dtype as get_default_dtype,
)
from flambeau._dtype import (
    dtype,
    finfo,
    iinfo,
    promote_types,
    set_default_dtype,
)
from flambeau._layout import Size
from flambeau._memory_format import (
    channels_last,
    channels_last_3d,
    contiguous_format,
    layout,
    memory_format,
    preserve_format,
    strided,
)
from flambeau._tensor import Tensor
from flambeau.autograd.grad_mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from flambeau.eager import creation as _creation
from flambeau.eager import launchers as _launchers
from flambeau.eager import legacy as _legacy
from flambeau.eager import methods as _methods
from flambeau.eager import public as _public
from flambeau.eager import random_tensors as _random_tensors
from flambeau.eager import tensor_methods as _tensor_methods
from flambeau.eager import windows as _windows
from flambeau.eager.kernels import get_num_threads, set_num_threads
from flambeau.printing import set_printoptions

__version__ = "0.1.0"

inf, nan, pi, e, newaxis = _math.inf, _math.nan, _math.pi, _math.e, None

globals().update(_BY_NAME)
globals().update(_ALIASES)
globals().update(_legacy.TYPED)
for _name in _creation.PUBLIC:
    globals()[_name] = getattr(_creation, _name)
for _name in _random_tensors.PUBLIC:
    globals()[_name] = getattr(_random_tensors, _name)
for _name in _windows.PUBLIC:
    globals()[_name] = getattr(_windows, _name)
for _name in _public.NAMES:
    globals()[_name] = getattr(_public, _name)
globals()["range"] = _creation.range_

_methods.attach()
_tensor_methods.attach_methods()
Tensor.__new__ = _legacy.tensor_new
Tensor.__module__ = "torch"

_SUBPACKAGES = {
    "autograd",
    "nn",
    "optim",
    "utils",
    "random",
    "viz",
    "special",
    "linalg",
    "fft",
    "jit",
    "onnx",
    "cuda",
    "vision",
    "distributed",
    "return_types",
    "testing",
    "storage",
    "amp",
    "func",
    "backends",
    "version",
    "types",
    "multiprocessing",
}
_RANDOM = {
    "Generator",
    "default_generator",
    "manual_seed",
    "seed",
    "initial_seed",
    "get_rng_state",
    "set_rng_state",
}


def __getattr__(name):
    if name in _SUBPACKAGES:
        return _importlib.import_module("flambeau." + name)
    if name in _RANDOM:
        value = getattr(_importlib.import_module("flambeau.random"), name)
    elif _methods.is_function(name):
        value = _methods.function(name)
    elif name.endswith("_") and _methods.is_inplace(name[:-1]):
        value = _methods.inplace_function(name[:-1])
    else:
        raise AttributeError(f"module 'flambeau' has no attribute '{name}'")
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *_methods.public_names(), *_RANDOM})
