"""Which functions handlers can stand around, and what their calls are called.

Rows come by themselves: methods.py offers each public function when it is built. Here is the rest:
methods and properties of Tensor that are no rows, functions that create tensors, updates. The kinds
of calls are

    op        ops, under PyTorch's names
    python    functions that PyTorch writes in Python, out of ops
    data      between tensors and lists, arrays and other memory
    method    methods of Tensor that do not compute, such as dim()
    property  what reads and writes attributes, such as shape
    asking    functions out of ops of which only arguments and modes are told

and those that others offer: node, leaf, module, optimizer, loader, function.
"""

import inspect
import sys
import types
from typing import Any

from flambeau import autograd
from flambeau._tensor import Tensor, questions
from flambeau._tensor.attachment import METHODS, PROPERTIES, shown
from flambeau.aten.names import CREATION, DATA, function_name, update_name
from flambeau.aten.names import METHODS as METHOD_NAMES
from flambeau.eager import creation, methods, random_tensors, updating, windows
from flambeau.interposing import offer
from flambeau.interposing.overriding import TELLING

# not even __torch_function__ is asked about these
IGNORED = frozenset(
    "__new__ __init__ __setstate__ __hash__ __dir__ __torch_function__ __init_subclass__ "
    "_make_subclass _make_wrapper_subclass _resize_output as_subclass const_data_ptr __iter__ "
    "_is_view is_shared".split()
)

# nor about these: they make tensors of sizes or tell and change settings
IGNORED_FUNCTIONS = {
    "": frozenset(
        "arange are_deterministic_algorithms_enabled as_strided as_tensor asarray bartlett_window "
        "blackman_window broadcast_shapes can_cast compiled_with_cxx11_abi empty empty_permuted "
        "empty_strided eye fill from_dlpack from_file from_numpy frombuffer full "
        "get_default_device get_default_dtype get_deterministic_debug_mode "
        "get_float32_matmul_precision get_num_interop_threads get_num_threads get_rng_state "
        "hamming_window hann_window init_num_threads initial_seed is_anomaly_check_nan_enabled "
        "is_anomaly_enabled is_deterministic_algorithms_warn_only_enabled is_grad_enabled "
        "is_inference_mode_enabled is_storage is_tensor is_warn_always_enabled kaiser_window "
        "linspace load logspace manual_seed normal ones promote_types rand rand_like randint "
        "randint_like randn randn_like randperm range result_type save scalar_tensor seed "
        "set_default_device set_default_dtype set_default_tensor_type set_deterministic_debug_mode "
        "set_float32_matmul_precision set_flush_denormal set_num_interop_threads set_num_threads "
        "set_printoptions set_rng_state set_warn_always sparse_bsc_tensor sparse_bsr_tensor "
        "sparse_compressed_tensor sparse_coo_tensor sparse_csc_tensor sparse_csr_tensor tensor "
        "to_dlpack tril_indices triu_indices typename "
        "use_deterministic_algorithms vander vmap zeros".split()
    ),
    "nn.functional": frozenset(
        "grouped_mm hardsigmoid hardswish upsample upsample_bilinear upsample_nearest".split()
    ),
    "fft": frozenset(("fftfreq", "rfftfreq")),
}

# functions of tensors that do not compute
_QUESTIONS = (
    "numel is_floating_point is_complex is_nonzero is_same_size is_inference is_signed detach "
    "detach_ zero_ resize_as_ unravel_index result_type is_conj is_neg"
).split()


def resolve(key: str) -> tuple[str, str, str]:
    """(kind, shown name, row) of a row's public function."""
    row = methods.OPERATORS.get(key) or methods.COMMUTING.get(key) or key
    shown, row = function_name(row, methods._aliases)
    return ("python", "flambeau::" + key, row) if shown is None else ("op", shown, row)


def offer_all() -> None:
    """Offer every function that exists by now."""
    for name, spoken in METHOD_NAMES.items():
        if name in METHODS:
            offer(METHODS[name], spoken, key=name)
    for module in (creation, random_tensors, windows):
        for name in module.PUBLIC:
            function = getattr(module, name)
            if name in CREATION:
                offer(function, "aten::" + name, key=name)
            elif name in DATA:
                offer(function, DATA[name], "data", key=name)
    for name, spoken in DATA.items():
        if name in METHODS:
            offer(METHODS[name], spoken, "data", key=name)
    offer(updating.update, update_name)
    for name in _QUESTIONS:
        offer(getattr(questions, name), "torch." + name, "method")
    for function in (autograd.backward, autograd.grad):
        offer(function, "torch.autograd." + function.__name__, "python")
    TELLING[autograd.grad] = _gradients_told
    _offer_members()
    _offer_wrappers()


def _gradients_told(args, kwargs):
    """Outputs and inputs as tuples, the rest by name."""
    bound = inspect.signature(autograd.grad).bind(*args, **kwargs)
    bound.apply_defaults()
    rest = dict(bound.arguments)
    both = (rest.pop("outputs"), rest.pop("inputs"))
    return tuple(tuple(v) if isinstance(v, (list, tuple)) else (v,) for v in both), rest


def _offer_members():
    """Methods and properties of Tensor that are neither ops nor data; none that programs added."""
    for name, member in list(Tensor.__dict__.items()):
        member = shown(member)
        # A program that replaces a method may keep ours under a name of its own.
        if {name, getattr(member, "__name__", name)} & IGNORED or not _is_ours(member):
            continue
        if isinstance(member, types.FunctionType):
            offer(member, "Tensor." + name, "method", key=name)
        elif isinstance(member, property) and (name in PROPERTIES or name[0] != "_"):
            for access in ("get", "set", "del"):
                _offer_access(member, name, access)


def _is_ours(member):
    function = member.fget if isinstance(member, property) else member
    return (getattr(function, "__module__", None) or "").partition(".")[0] in ("flambeau", "torch")


def _offer_access(member: Any, name: str, access: str) -> None:
    function = getattr(member, "f" + access)
    written = {("data", "set"): "aten::set_data", ("data", "get"): "aten::data"}
    shown = written.get((name, access), f"Tensor.{name}.__{access}__")
    offer(function, shown, "property", key=f"{name}.__{access}__")


def _offer_wrappers():
    """Functions of nn.functional that choose between two forms of a row."""
    functional = sys.modules.get("flambeau.nn.functional")
    for name, value in list(vars(functional).items()) if functional is not None else ():
        if isinstance(value, types.FunctionType) and name[0] != "_":  # rows are known already
            offer(value, "torch.nn.functional." + name, "python", key=name)
