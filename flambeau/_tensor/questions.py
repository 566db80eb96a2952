"""Public functions that ask about tensors rather than compute: is_tensor, numel, result_type."""

import warnings
from collections.abc import Sequence

from flambeau import _device, _dtype, errors
from flambeau._tensor import Tensor
from flambeau._tensor.legacy import TYPED
from flambeau.autograd.grad_mode import modes
from flambeau.eager import creation
from flambeau.eager.arguments import argument, asked_tensor, is_int
from flambeau.eager.arguments import number as in_range
from flambeau.interposing.overriding import answerable
from flambeau.runtime.switches import switches


def is_tensor(obj):
    """Is obj a tensor?"""
    return isinstance(obj, Tensor)


def is_storage(obj):
    return type(obj).__name__ in ("UntypedStorage", "TypedStorage")


def numel(input):
    """The number of elements."""
    return input._layout.numel


def _assert(condition, message):
    """`assert` as a function, which is recorded where values are not known."""
    answers = getattr(type(condition), "__torch_function__", None)
    if answers is not None and not isinstance(condition, Tensor):
        return answers(_assert, (type(condition),), (condition, message), {})
    assert condition, message


def is_floating_point(input):
    return input.dtype.is_floating_point


def is_complex(input):
    return input.dtype.is_complex


def is_nonzero(input):
    return bool(asked_tensor("is_nonzero", input))


def is_same_size(input, other):
    return input.shape == argument("is_same_size", "other", 2, "Tensor", other).shape


def is_inference(input):
    return asked_tensor("is_inference", input).is_inference()


def is_signed(input):
    return input.dtype.is_signed


def detach(input):
    """The same memory outside the graph."""
    return asked_tensor("detach", input).detach()


def detach_(input):
    return asked_tensor("detach_", input).detach_()


def zero_(input):
    return asked_tensor("zero_", input).zero_()


def resize_as_(input, the_template, *, memory_format=None):
    argument("resize_as_", "the_template", 2, "Tensor", the_template)
    return asked_tensor("resize_as_", input).resize_as_(the_template, memory_format=memory_format)


def is_anomaly_enabled():
    return modes.anomaly


def is_anomaly_check_nan_enabled():
    return modes.anomaly_check_nan


def get_float32_matmul_precision():
    return switches.precision


def set_float32_matmul_precision(precision):
    """Below "highest" GPUs may compute float32 products in TF32; the host always uses float32."""
    if precision not in ("highest", "high", "medium"):
        raise RuntimeError(f"{precision} is not one of 'highest', 'high', or 'medium'.")
    switches.change(precision=precision)


def unravel_index(indices, shape):
    """Coordinates of flat indices in a shape."""
    if indices.dtype.category != _dtype.INTEGER:
        raise TypeError(f"expected 'indices' to be integer dtype, but got {indices.dtype}")
    if is_int(shape) and not isinstance(shape, Tensor):
        shape = (shape,)
    if not isinstance(shape, Sequence):
        raise TypeError(f"expected 'shape' to be int or sequence of ints, but got {type(shape)}")
    for size in shape:
        if isinstance(size, Tensor) or not (is_int(size) or type(size) is bool):
            raise TypeError(f"expected 'shape' sequence to only contain ints, but got {type(size)}")
    if any(size < 0 for size in shape):
        raise ValueError(f"'shape' cannot have negative values, but got {tuple(shape)}")
    indices = indices.to(_dtype.int64)
    found = []
    for size in reversed(shape):
        found.append(indices % size)
        indices = indices // size
    return tuple(reversed(found))


def empty_permuted(
    size, physical_layout, *, dtype=None, layout=None, device=None, requires_grad=False
):
    """Uninitialised memory whose dimensions lie in the given order."""
    size = argument("empty_permuted", "size", 1, "int list", size)
    order = argument("empty_permuted", "physical_layout", 2, "int list", physical_layout)
    argument("empty_permuted", "requires_grad", 0, "bool", requires_grad)
    if len(order) != len(size):
        raise RuntimeError(
            "Number of dimensions in size does not match the length of the physical_layout; i.e. "
            f"len(size) = {len(size)} is not equal to len(physical_layout) = {len(order)}"
        )
    for place, k in enumerate(order):
        if not 0 <= k < len(size):
            raise RuntimeError(
                f"Dimension out of range (expected to be between 0 and {len(size) - 1}, but got "
                f"{k} at index {place})."
            )
        if order.count(k) > 1:
            raise RuntimeError("Duplicate dim not allowed")
    t = creation.empty([size[k] for k in order], dtype=dtype, device=device)
    return t.permute([order.index(k) for k in range(len(size))]).requires_grad_(requires_grad)


def compiled_with_cxx11_abi():
    return True


def is_warn_always_enabled():
    """Do warnings that come once in a program come every time?"""
    return errors.warns_always()


def set_warn_always(mode):
    """Let warnings that come once in a program come every time, or not."""
    errors.warn_always(argument("set_warn_always", "mode", 1, "bool", mode))


def is_conj(input):
    asked_tensor("is_conj", input)
    return False


def is_neg(input):
    asked_tensor("is_neg", input)
    return False


def can_cast(from_, to):
    """May a value of dtype from_ be cast to dtype to under the promotion rules?"""
    return _dtype.can_cast(from_, to)


def result_type(tensor1, tensor2):
    """The dtype of an operation on both, Python numbers included."""
    pairs = []
    for t in (tensor1, tensor2):
        if isinstance(t, Tensor):
            pairs.append((t.dtype, 2 if t._layout.ndim else 1))
            continue
        kind = next((k for k in (bool, int, float, complex) if isinstance(t, k)), None)
        if kind is None:
            kinds = ", ".join(type(x).__name__ for x in (tensor1, tensor2))
            raise TypeError(
                f"result_type() received an invalid combination of arguments - got ({kinds}), but "
                "expected tensors and numbers"
            )
        in_range(t)
        pairs.append((_dtype.scalar_dtype(kind), 0))
    return _dtype.result_dtype(pairs)


def typename(obj):
    """The name of a tensor's type, of a class or function, or of any object's class."""
    if isinstance(obj, Tensor):
        return obj.type()
    kind = obj if hasattr(obj, "__qualname__") else type(obj)
    home = getattr(kind, "__module__", None)
    return kind.__qualname__ if home in (None, "builtins") else f"{home}.{kind.__qualname__}"


_warn_only = False  # what the program said: kernels here never have a reason to warn


def is_deterministic_algorithms_warn_only_enabled():
    return _warn_only


def are_deterministic_algorithms_enabled():
    return switches.exact


def use_deterministic_algorithms(mode, *, warn_only=False):
    """Our own kernels always are; libraries of GPUs are told."""
    global _warn_only
    if type(mode) is not bool:
        raise TypeError(
            "_set_deterministic_algorithms(): argument 'mode' (position 1) must be bool, not "
            + type(mode).__name__
        )
    switches.change(exact=mode)
    _warn_only = bool(warn_only)


_DEBUG_MODES = ("default", "warn", "error")


def get_deterministic_debug_mode():
    """0, 1 (warn) or 2 (raise) where an algorithm is not deterministic."""
    return 0 if not switches.exact else 1 if _warn_only else 2


def set_deterministic_debug_mode(debug_mode):
    """use_deterministic_algorithms, as one number or word."""
    if not isinstance(debug_mode, (int, str)):
        raise TypeError(f"debug_mode must be str or int, but got {type(debug_mode)}")
    if isinstance(debug_mode, str):
        if debug_mode not in _DEBUG_MODES:
            raise RuntimeError(
                "invalid value of debug_mode, expected one of `default`, `warn`, `error`, but got "
                f"{debug_mode}"
            )
        debug_mode = _DEBUG_MODES.index(debug_mode)
    if debug_mode not in (0, 1, 2):
        raise RuntimeError(
            f"invalid value of debug_mode, expected 0, 1, or 2, but got {debug_mode}"
        )
    use_deterministic_algorithms(debug_mode > 0, warn_only=debug_mode == 1)


def init_num_threads():
    """Nothing to do: the pool starts with the first large kernel."""


@answerable
def detach_copy(input, *, out=None):
    """A copy without a history."""
    asked_tensor("detach_copy", input)
    found = input.detach().clone()
    return found if out is None else out._resize_output(found.shape).copy_(found)


def set_flush_denormal(mode):
    """Denormals are always kept: False says that the mode cannot be changed."""
    return False


def get_num_interop_threads():
    return 1


def set_num_interop_threads(count):
    """Accepted: there is one queue of kernels."""


def set_default_tensor_type(t):
    """Set the default dtype by the name or class of a tensor type."""
    warnings.warn(
        "torch.set_default_tensor_type() is deprecated as of PyTorch 2.1, please use "
        "torch.set_default_dtype() and torch.set_default_device() as alternatives.",
        UserWarning,
        stacklevel=2,
    )
    if getattr(t, "__module__", None) == "torch.cuda":
        t = f"torch.cuda.{t.__name__}"
    if isinstance(t, str) and t.startswith("torch.cuda."):
        if not _device.is_there("cuda"):
            raise TypeError(f"type {t} not available. Torch not compiled with CUDA enabled.")
        _device.set_default_device("cuda")
        t = t.removeprefix("torch.cuda.")
    found = TYPED.get(t.removeprefix("torch.")) if isinstance(t, str) else t
    if found not in TYPED.values():
        raise TypeError(
            "invalid type object: only floating-point types are supported as the default type"
        )
    _dtype.set_default_dtype(found.dtype)


PUBLIC = [
    n
    for n, v in list(globals().items())
    if callable(v) and getattr(v, "__module__", None) == __name__
]
