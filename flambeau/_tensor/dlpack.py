"""Tensors to and from DLPack capsules: which dtype and device is which, and what is refused.

Memory is shared, never copied unless that is asked for. The structures and their lives are in
runtime/dlpack.py; the public names are in utils/dlpack.py.
"""

from flambeau import _device, _dtype
from flambeau._layout import Size, contiguous_strides, make_layout
from flambeau._tensor.admission import admit, reach
from flambeau.runtime import dlpack
from flambeau.storage import borrowed_storage, lend

CUDA = 2
CPU, CPU_PINNED_BY_CUDA, CPU_PINNED_BY_ROCM = 1, 3, 11
_HOST = (CPU, CPU_PINNED_BY_CUDA, CPU_PINNED_BY_ROCM)

# codes: 0 integer, 1 unsigned, 2 float, 4 bfloat, 5 complex, 6 bool, from 10 on floats of 8 bits
_CODES = {
    d: ({"u": 1, "i": 0, "f": 2, "c": 5}[d.code[0]], 8 * d.itemsize, 1)
    for d in _dtype.ALL
    if d not in (_dtype.bool_, _dtype.bfloat16)
} | {_dtype.bool_: (6, 8, 1), _dtype.bfloat16: (4, 16, 1)}
_FLOAT8_CODES = {"e4m3fn": 10, "e4m3fnuz": 11, "e5m2": 12, "e5m2fnuz": 13, "e8m0fnu": 14}
_CODES |= {_dtype.FLOAT8[f"float8_{name}"]: (code, 8, 1) for name, code in _FLOAT8_CODES.items()}
_DTYPES = {code: d for d, code in _CODES.items()}

_INVALID = (
    "from_dlpack received an invalid capsule. Note that DLTensor capsules can be consumed only "
    "once, so you might have already constructed a tensor from it once."
)


def capsule(t, versioned=False, flags=0):
    """A capsule over the memory of a tensor."""
    layout = t._layout
    if layout.device.type not in ("cpu", "cuda"):
        raise BufferError(f"Cannot pack tensors on {layout.device}")
    if layout.dtype not in _CODES:
        raise BufferError("QUInt/QInt types are not supported by dlpack")
    place = device_of(t)
    address = t._storage.pointer + t._offset if layout.numel else 0
    described = dlpack.Described(
        address, place, _CODES[layout.dtype], tuple(layout.shape), layout.strides, flags
    )
    lend(t._storage)
    return dlpack.capsule_of(described, t._storage, versioned)


def export(t, stream=None, max_version=None, dl_device=None, copy=None):
    """What Tensor.__dlpack__ does."""
    if t._requires_grad:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    if t._layout.strides is None:
        raise BufferError("Can't export tensors with layout other than torch.strided")
    if stream is not None and type(stream) is not int:
        raise TypeError("stream must be ``int`` or ``none``")
    on_gpu = t._layout.device.type == "cuda"
    if on_gpu and stream != -1:
        t._layout.device.runtime.wait_for(stream)
    elif stream not in (None, -1):
        raise AssertionError("stream should be None on cpu.")
    if dl_device is not None and not on_gpu and dl_device[0] not in _HOST:
        raise BufferError(
            f"Unsupported device_type: {int(dl_device[0])}: the tensor is on {t.device}"
        )
    flags = dlpack.IS_COPIED if copy else 0
    versioned = max_version is not None and max_version[0] >= 1
    return capsule(t.clone() if copy else t, versioned, flags)


def device_of(t):
    device = t._layout.device
    if device.type == "cuda":
        return CUDA, device.index
    if device is not _device.cpu:
        raise ValueError(f"Unknown device type {device} for Dlpack")
    return CPU, 0


def adopt(given):
    """A tensor over the memory of a capsule, which is used up."""
    taken = dlpack.take(given)
    if taken is None:
        raise RuntimeError(_INVALID)
    described, owner = taken
    kind, index = described.device
    if kind not in (*_HOST, CUDA):
        raise RuntimeError(f"Unsupported device_type: {kind}")
    device = _device.device("cuda", index) if kind == CUDA else _device.cpu
    dtype = _DTYPES.get(described.dtype)
    if dtype is None:
        code, bits, lanes = described.dtype
        if lanes != 1:
            raise RuntimeError("ATen does not support lanes != 1")
        raise RuntimeError(f"Unsupported DLPack dtype: code {code}, {bits} bits")
    strides = described.strides or contiguous_strides(described.shape)
    nbytes = reach(described.shape, strides, 0, dtype.itemsize)
    layout = make_layout(Size(described.shape), tuple(strides), dtype, device)
    return admit(layout, borrowed_storage(described.address, nbytes, owner), 0)


def from_dlpack(ext_tensor, *, device=None, copy=None):
    """A tensor that shares the memory of another library's tensor, or of a DLPack capsule.

    Args:
        ext_tensor: an object with `__dlpack__` (a NumPy array, a tensor of another framework), or a
            capsule, which can be used once.
        device: where the result is to live; None for where it is.
        copy: True for a copy, False to insist on sharing, None to share if possible.

    Example:
        >>> import numpy as np
        >>> a = np.arange(3)
        >>> t = torch.from_dlpack(a)
        >>> a[0] = 7
        >>> t
        tensor([7, 1, 2])
    """
    if device is not None:
        device = _device.resolve(device)
        if device is not _device.cpu and device.type != "cuda":
            raise BufferError(f"Cannot pack tensors on {device}")
        found = from_dlpack(ext_tensor, copy=copy)
        return found if found.device is device else found.to(device)
    if not hasattr(ext_tensor, "__dlpack__"):
        t = adopt(ext_tensor)
        return t.clone() if copy else t
    options = {"max_version": dlpack.VERSION}
    if copy is not None:
        options["copy"] = copy
    try:
        given = ext_tensor.__dlpack__(**options)
    except TypeError:
        given = ext_tensor.__dlpack__()  # from before version 1: knows neither versions nor copies
        if copy:
            return adopt(given).clone()
    return adopt(given)


def to_dlpack(tensor):
    """A DLPack capsule (of version 0) that shares the memory of a tensor."""
    return capsule(tensor)
