"""Memory of GPUs shared with other libraries by `__cuda_array_interface__`, both ways."""

from flambeau import _device, _dtype
from flambeau._layout import Size, contiguous_strides, make_layout
from flambeau._tensor.admission import admit, reach
from flambeau.storage import borrowed_storage

_TEXTS = {
    "float16": "<f2",
    "float32": "<f4",
    "float64": "<f8",
    "uint8": "|u1",
    "int8": "|i1",
    "int16": "<i2",
    "uint16": "<u2",
    "int32": "<i4",
    "uint32": "<u4",
    "int64": "<i8",
    "uint64": "<u8",
    "bool": "|b1",
    "complex64": "<c8",
    "complex128": "<c16",
    "bfloat16": "<f2",
}
_DTYPES = {text: _dtype.BY_NAME[name] for name, text in reversed(_TEXTS.items())}


def described(self):
    """Where a tensor's memory is, for libraries that read `__cuda_array_interface__`."""
    layout = self._layout
    if layout.device.type != "cuda":
        raise AttributeError(
            f"Can't get __cuda_array_interface__ on non-CUDA tensor type: {self.type()} "
            "If CUDA data is required use tensor.cuda() to copy tensor to device memory."
        )
    if self._requires_grad:
        raise RuntimeError(
            "Can't get __cuda_array_interface__ on Variable that requires grad. If gradients "
            "aren't required, use var.detach() to get Variable that doesn't require grad."
        )
    strides = None
    if not layout.is_contiguous:
        strides = tuple(s * layout.itemsize for s in layout.strides)
    return {
        "typestr": _TEXTS[layout.dtype.name],
        "shape": tuple(layout.shape),
        "strides": strides,
        "data": (self.data_ptr() if layout.numel else 0, False),
        "version": 2,
    }


def adopted(owner):
    """A tensor over the memory of an object that has `__cuda_array_interface__`."""
    facts = owner.__cuda_array_interface__
    dtype = _DTYPES.get(facts["typestr"])
    if dtype is None:
        raise TypeError(f"cannot read a CUDA array of type {facts['typestr']!r}")
    shape = Size(facts["shape"])
    strides = facts.get("strides")
    if strides is None:
        strides = contiguous_strides(shape)
    elif any(s % dtype.itemsize for s in strides):
        raise ValueError("given array strides not a multiple of the element byte size.")
    else:
        strides = tuple(s // dtype.itemsize for s in strides)
    device = _device.resolve("cuda")
    nbytes = reach(shape, strides, 0, dtype.itemsize)
    layout = make_layout(shape, tuple(strides), dtype, device)
    return admit(layout, borrowed_storage(facts["data"][0], nbytes, owner), 0)
