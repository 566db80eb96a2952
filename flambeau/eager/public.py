"""Public functions that ask about tensors rather than compute: is_tensor, numel, result_type."""

import warnings

from flambeau import _dtype
from flambeau._tensor import Tensor
from flambeau.autograd.grad_mode import modes
from flambeau.eager import creation
from flambeau.eager.legacy import TYPED


def is_tensor(obj):
    """Is obj a tensor?"""
    return isinstance(obj, Tensor)


def is_storage(obj):
    return type(obj).__name__ in ("UntypedStorage", "TypedStorage")


def numel(input):
    """The number of elements."""
    return input._layout.numel


def _assert(condition, message):
    """`assert` as a function, for code that is traced elsewhere."""
    assert condition, message


def is_floating_point(input):
    return input.dtype.is_floating_point


def is_complex(input):
    return input.dtype.is_complex


def is_nonzero(input):
    return bool(input)


def is_same_size(input, other):
    return input.shape == other.shape


def is_inference(input):
    return input.is_inference()


def is_signed(input):
    return input.dtype.is_signed


def detach(input):
    """The same memory outside the graph."""
    return input.detach()


def detach_(input):
    return input.detach_()


def zero_(input):
    return input.zero_()


def resize_as_(input, the_template, *, memory_format=None):
    return input.resize_as_(the_template)


def is_anomaly_enabled():
    return modes.anomaly


def is_anomaly_check_nan_enabled():
    return modes.anomaly_check_nan


def get_float32_matmul_precision():
    return "highest"


def set_float32_matmul_precision(precision):
    """Accepted: float32 products are computed in float32."""
    if precision not in ("highest", "high", "medium"):
        raise RuntimeError(f"{precision} is not one of 'highest', 'high', or 'medium'.")


def unravel_index(indices, shape):
    """Coordinates of flat indices in a shape."""
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    if indices.dtype.category != _dtype.INTEGER:
        raise TypeError(f"expected 'indices' to be integer dtype, but got {indices.dtype}")
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
    t = creation.empty([size[k] for k in physical_layout], dtype=dtype, device=device)
    inverse = sorted(range(len(size)), key=lambda k: physical_layout[k])
    return t.permute(inverse).requires_grad_(requires_grad)


def compiled_with_cxx11_abi():
    return True


def is_warn_always_enabled():
    return False


def set_warn_always(mode):
    """Accepted: Python's own filters decide how often a warning shows."""


def is_conj(input):
    return False


def is_neg(input):
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
        pairs.append((_dtype.scalar_dtype(kind), 0))
    return _dtype.result_dtype(pairs)


def typename(obj):
    """The name of a tensor's type, of a class or function, or of any object's class."""
    if isinstance(obj, Tensor):
        return obj.type()
    kind = obj if hasattr(obj, "__qualname__") else type(obj)
    home = getattr(kind, "__module__", None)
    return kind.__qualname__ if home in (None, "builtins") else f"{home}.{kind.__qualname__}"


def is_deterministic_algorithms_warn_only_enabled():
    return False


def are_deterministic_algorithms_enabled():
    return True


def use_deterministic_algorithms(mode, *, warn_only=False):
    """Accepted: every algorithm here is deterministic."""


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
    name = t.removeprefix("torch.") if isinstance(t, str) else t.__name__
    _dtype.set_default_dtype(TYPED[name].dtype)


PUBLIC = [
    n
    for n, v in list(globals().items())
    if callable(v) and getattr(v, "__module__", None) == __name__
]
