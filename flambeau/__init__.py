"""flambeau: PyTorch's API in pure Python, with machine code generated through LLVM.

The front door. Names come from the op table (`ops/`), the creation functions
(`eager/creation.py`), the modes of autograd and the dtypes. Ops and subpackages load when first
touched, so importing is cheap.
"""

import importlib as _importlib
import math as _math

from flambeau import _device as _devices
from flambeau import _dtype as _dtypes
from flambeau import ops as _ops
from flambeau._device import device as device
from flambeau._device import set_default_device as set_default_device
from flambeau._dtype import dtype as dtype
from flambeau._dtype import finfo as finfo
from flambeau._dtype import iinfo as iinfo
from flambeau._dtype import promote_types as promote_types
from flambeau._dtype import set_default_dtype as set_default_dtype
from flambeau._layout import Size as Size
from flambeau._memory_format import LAYOUTS as _LAYOUTS
from flambeau._memory_format import channels_last as channels_last
from flambeau._memory_format import channels_last_3d as channels_last_3d
from flambeau._memory_format import contiguous_format as contiguous_format
from flambeau._memory_format import contiguous_format as legacy_contiguous_format  # noqa: F401
from flambeau._memory_format import layout as layout
from flambeau._memory_format import memory_format as memory_format
from flambeau._memory_format import preserve_format as preserve_format
from flambeau._memory_format import strided as strided
from flambeau._qscheme import ALL as _SCHEMES
from flambeau._qscheme import qscheme as qscheme
from flambeau._tensor import Tensor as Tensor
from flambeau._tensor import legacy as _legacy
from flambeau._tensor import members as _members
from flambeau._tensor import questions as _questions
from flambeau._tensor.attachment import attach_methods as _attach_methods
from flambeau.autograd.grad_mode import enable_grad as enable_grad
from flambeau.autograd.grad_mode import inference_mode as inference_mode
from flambeau.autograd.grad_mode import is_grad_enabled as is_grad_enabled
from flambeau.autograd.grad_mode import is_inference_mode_enabled as is_inference_mode_enabled
from flambeau.autograd.grad_mode import no_grad as no_grad
from flambeau.autograd.grad_mode import set_grad_enabled as set_grad_enabled
from flambeau.eager import creation as _creation
from flambeau.eager import foreach as _foreach
from flambeau.eager import launchers as _launchers
from flambeau.eager import methods as _methods
from flambeau.eager import random_tensors as _random_tensors
from flambeau.eager import windows as _windows
from flambeau.eager.kernels import get_num_threads as get_num_threads
from flambeau.eager.kernels import set_num_threads as set_num_threads
from flambeau.eager.stub_signatures import sign as _sign
from flambeau.errors import AcceleratorError as AcceleratorError
from flambeau.errors import OutOfMemoryError as OutOfMemoryError
from flambeau.printing import set_printoptions as set_printoptions

# importing these filled the table and the methods of Tensor
_REGISTERED = (_ops.FAMILIES, _launchers, _members)

__version__ = "0.1.0"
__array_api_version__ = "2024.12"

has_lapack, has_mkl, has_openmp, has_spectral = True, False, False, True
inf, nan, pi, e, newaxis = _math.inf, _math.nan, _math.pi, _math.e, None
get_default_device, get_default_dtype = _devices.default_device, _dtypes.default_dtype

globals().update(_dtypes.BY_NAME)
globals().update(_dtypes.ALIASES)
globals().update(_dtypes.WITHOUT_KERNELS)
globals().update(_SCHEMES)
globals().update({_kind.name: _kind for _kind in _LAYOUTS})
globals().update(_legacy.TYPED)
for _module in (_creation, _random_tensors, _windows, _questions):
    for _name in _module.PUBLIC:
        globals()[_name] = _sign(getattr(_module, _name), _name)
globals()["range"] = _creation.range_

_methods.attach()
_attach_methods()
Tensor.__module__ = "torch"

_SUBPACKAGES = {
    "autograd",
    "debug",
    "nn",
    "optim",
    "utils",
    "random",
    "quasirandom",
    "viz",
    "special",
    "linalg",
    "fft",
    "jit",
    "onnx",
    "package",
    "cpu",
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
    "serialization",
    "hub",
    "profiler",
    "distributions",
    "mps",
    "xpu",
    "accelerator",
    "compiler",
    "fx",
    "export",
    "_subclasses",
    "_decomp",
    "_tensor_str",
    "_utils",
    "_functorch",
    "_guards",
    "__config__",
    "functional",
    "futures",
    "monitor",
    "mtia",
    "torch_version",
    "overrides",
    "_C",
    "_dynamo",
    "_inductor",
    "_logging",
    "library",
    "_higher_order_ops",
    "_ops",
    "signal",
    "__future__",
    "ao",
    "quantization",
    "sparse",
    "masked",
    "nested",
}
_STORAGES = {"UntypedStorage", "TypedStorage", "StorageBase"}
_ELSEWHERE = {
    "_amp_foreach_non_finite_check_and_unscale_": "amp.grad_scaler",
    "_amp_update_scale_": "amp.grad_scaler",
    "PyTorchFileReader": "serialization.record_reader",
    "ScriptModule": "jit",
    **dict.fromkeys(
        "TensorType IntType FloatType BoolType StringType ComplexType NoneType NumberType "
        "DeviceObjType StreamObjType AnyType".split(),
        "jit.types",
    ),
    "Future": "futures",
    "_assert_async": "_checks",
    "_assert_tensor_metadata": "_checks",
    "compile_to_object": "compiler.ahead",
    "Event": "accelerator.events",
    "Stream": "accelerator.events",
    "get_device_module": "accelerator",
    "_scaled_mm": "eager.float8",
    "Tag": "library.tags",
    "set_vital": "monitor",
    "thread_safe_generator": "random",
    "cond": "_higher_order_ops",
    "GradScaler": "amp",
    "ScriptFunction": "jit",
    "ScriptMethod": "jit.modules",
    "fork": "jit",
    "wait": "jit",
    "from_file": "_tensor.files",
    **dict.fromkeys(
        "quantize_per_tensor quantize_per_channel quantize_per_tensor_dynamic dequantize int_repr "
        "q_scale q_zero_point q_per_channel_scales q_per_channel_zero_points q_per_channel_axis "
        "_choose_qparams_per_tensor _make_per_tensor_quantized_tensor "
        "_make_per_channel_quantized_tensor _empty_affine_quantized "
        "_empty_per_channel_affine_quantized".split(),
        "eager.quantized",
    ),
    **dict.fromkeys(
        "quantized_batch_norm quantized_max_pool1d quantized_max_pool2d".split(),
        "ao.quantized_ops.older_names",
    ),
    **dict.fromkeys(
        "fake_quantize_per_tensor_affine fake_quantize_per_channel_affine "
        "_fake_quantize_learnable_per_tensor_affine _fake_quantize_learnable_per_channel_affine "
        "fused_moving_avg_obs_fake_quant".split(),
        "eager.fake_quantization",
    ),
    "vmap": "func",
    **dict.fromkeys(
        "sparse_coo_tensor sparse_compressed_tensor sparse_csr_tensor sparse_csc_tensor "
        "sparse_bsr_tensor sparse_bsc_tensor _sparse_coo_tensor_unsafe "
        "_validate_sparse_coo_tensor_args _validate_sparse_compressed_tensor_args "
        "_validate_sparse_csr_tensor_args _validate_sparse_csc_tensor_args "
        "_validate_sparse_bsr_tensor_args _validate_sparse_bsc_tensor_args "
        "_validate_compressed_sparse_indices".split(),
        "_sparse.creation",
    ),
    **dict.fromkeys(
        "spmm dsmm smm hspmm hsmm sspaddmm saddmm _sparse_broadcast_to "
        "_convert_indices_from_coo_to_csr "
        "_convert_indices_from_csr_to_coo".split(),
        "_sparse.functions",
    ),
    **dict.fromkeys(
        "_nested_tensor_from_mask _nested_tensor_from_mask_left_aligned _nested_from_padded "
        "_nested_from_padded_and_nested_example".split(),
        "nested.padding",
    ),
    **dict.fromkeys(("SymInt", "SymFloat", "SymBool"), "fx.experimental.symbolic_shapes"),
    **dict.fromkeys(
        "sym_float sym_int sym_ite sym_max sym_min sym_not sym_sum".split(),
        "fx.experimental.sym_functions",
    ),
    # only the array API standard has these
    **dict.fromkeys(
        "__array_namespace_info__ astype isdtype permute_dims expand_dims matrix_transpose unstack "
        "broadcast_arrays repeat bitwise_invert take_along_axis vecdot cumulative_sum "
        "cumulative_prod unique_values unique_counts unique_inverse unique_all".split(),
        "_array_api",
    ),
}
# ops of aten without a row, which PyTorch binds in its namespace as well
_ATEN = set(
    "_native_batch_norm_legit _unsafe_masked_index _unsafe_masked_index_put_accumulate "
    "_chunk_cat _convolution".split()
)
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
    if name == "torch":  # PyTorch's package has itself under this name
        return _importlib.import_module("flambeau")
    if name == "__all__":  # what `import *` takes
        return _starred()
    if name in _SUBPACKAGES:
        return _importlib.import_module("flambeau." + name)
    if name == "Storage":  # which it is depends on the default dtype
        return _importlib.import_module("flambeau._storage_kinds").usual()
    if name in _RANDOM:
        value = getattr(_importlib.import_module("flambeau.random"), name)
    elif name in _STORAGES:
        value = getattr(_importlib.import_module("flambeau._typed_storage"), name)
    elif name == "_storage_classes" or name.endswith("Storage"):
        value = _importlib.import_module("flambeau._storage_kinds").found(name)
    elif name == "compile":
        value = _importlib.import_module("flambeau.compiler").compile
    elif name in _ELSEWHERE:
        value = getattr(_importlib.import_module("flambeau." + _ELSEWHERE[name]), name)
    elif name in _ATEN:
        value = getattr(_namespace_of_ops("aten"), name)
    elif name in ("save", "load"):
        value = getattr(_importlib.import_module("flambeau.serialization"), name)
    elif _methods.is_function(name):
        value = _methods.torch_function(name)
    elif name.startswith("_foreach_") and (found := _foreach.function(name)):
        value = found
    elif name.startswith("_check"):
        value = getattr(_importlib.import_module("flambeau._checks"), name)
    elif "autocast" in name:
        value = getattr(_importlib.import_module("flambeau.amp.autocast_mode"), name)
    elif name.endswith("_") and _methods.is_inplace(name[:-1]):
        value = _methods.inplace_function(name[:-1])
    else:
        raise AttributeError(f"module 'flambeau' has no attribute '{name}'")
    globals()[name] = value
    return value


def _namespace_of_ops(name):
    if name == "quantized":
        found = _importlib.import_module("flambeau.ao.quantized_ops").quantized
        _importlib.import_module("flambeau.ops").quantized = found  # found at once from now on
        return found
    if name == "quantized_decomposed":
        _importlib.import_module("flambeau.ao.quantized_ops.decomposed")
    if name in ("load_library", "loaded_libraries"):
        return getattr(_importlib.import_module("flambeau.library.compiled"), name)
    if (
        name.startswith("__")
        or _importlib.import_module("importlib.util").find_spec("flambeau.ops." + name) is not None
    ):
        raise AttributeError(f"module 'flambeau.ops' has no attribute '{name}'")
    return _importlib.import_module("flambeau._ops").namespace(name)


# torch.ops.aten; the table of ops itself knows no tensors
_ops.__getattr__ = _namespace_of_ops  # type: ignore[method-assign]


def _starred():
    """The public names without modules and without ops that have a namespace of their own."""
    return [
        name
        for name in __dir__()
        if not name.startswith(("_", "fft_", "special_"))
        and not isinstance(globals().get(name), type(_importlib))
    ]


def __dir__():
    return sorted({*globals(), *_methods.public_names(), *_RANDOM, "save", "load"})
