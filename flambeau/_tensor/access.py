"""Methods of Tensor that look: at shapes, strides and flags, and at elements as numbers."""

import sys

from flambeau import _device, _dtype, errors, printing
from flambeau._layout import dense_layout, wrap_dim
from flambeau._memory_format import (
    channels_last,
    contiguous_format,
    memory_format,
    sparse_coo,
    sparse_csr,
    strided,
)
from flambeau._tensor import Tensor, interchange, make_tensor
from flambeau._tensor.attachment import METHODS, PROPERTIES, method, prop
from flambeau._tensor.interchange import item
from flambeau.eager import creation
from flambeau.eager.arguments import argument
from flambeau.eager.copying import CHANNELS_LAST
from flambeau.storage import is_uncounted


@method
def size(self, dim=None):
    """The shape, or its length in one dimension."""
    return self._layout.shape if dim is None else self._layout.shape[_dim(self, dim, "size")]


@method
def stride(self, dim=None):
    """Steps between neighbours in each dimension, or in one, counted in elements."""
    return self._layout.strides if dim is None else self._layout.strides[_dim(self, dim, "stride")]


def _dim(self, dim, name):
    dim = argument(name, "dim", 1, "int", dim)
    if not self._layout.ndim:
        raise errors.no_dimensions(dim)
    return wrap_dim(dim, self._layout.ndim)


@method
def __array_namespace__(self, /, *, api_version=None):
    """The module with the functions of the array API standard: flambeau itself."""
    if api_version not in (None, "2021.12", "2022.12", "2023.12", "2024.12"):
        raise ValueError(f"Unsupported version of the array API standard: {api_version!r}")
    return sys.modules[__name__.partition(".")[0]]


@method
def is_contiguous(self, memory_format=None):
    """Do the elements lie side by side, in the order of the format?"""
    if memory_format is None or memory_format is contiguous_format:
        return self._layout.is_contiguous
    name = getattr(memory_format, "name", None)
    if name == "preserve_format":
        return self._layout.is_contiguous
    order = CHANNELS_LAST.get(self._layout.ndim)
    if order is None or (memory_format is channels_last) != (self._layout.ndim == 4):
        return False
    expected = 1
    for d in reversed(order):
        size = self._layout.shape[d]
        if size != 1:
            if self._layout.strides[d] != expected:
                return False
            expected *= size
    return True


@method
def is_floating_point(self):
    return self._layout.dtype.is_floating_point


@method
def is_complex(self):
    return self._layout.dtype.is_complex


@method
def is_signed(self):
    return self._layout.dtype.is_signed


@method
def is_same_size(self, other):
    return self.shape == argument("is_same_size", "other", 1, "Tensor", other).shape


@method
def is_set_to(self, tensor):
    argument("is_set_to", "tensor", 1, "Tensor", tensor)
    return (
        self._storage.pointer == tensor._storage.pointer != 0
        and self._layout is tensor._layout
        and self._offset == tensor._offset
    )


@method
def get_device(self):
    """The number of the GPU; -1 on the host."""
    index = self._layout.device.index
    return -1 if index is None else index


@method
def is_pinned(self, device=None):
    """Is this memory of the host that a GPU copies from without help?"""
    found = self._layout.device.runtimes.get("cuda")
    return found is not None and found.is_pinned(self._storage.pointer)


@method
def pin_memory(self, device=None):
    """The tensor in memory of the host that a GPU copies from by itself, while programs go on."""
    if self._layout.device is not _device.cpu:
        name = f"torch.cuda.{self.dtype.scalar_name}Tensor"
        raise RuntimeError(f"cannot pin '{name}' only dense CPU tensors can be pinned")
    if self.is_pinned():
        return self
    if not _device.is_there("cuda"):
        raise RuntimeError("Cannot access accelerator device when none is available.")
    storage = _device.runtimes_of(_device.device("cuda")).pinned(self._layout.nbytes)
    out = make_tensor(dense_layout(self._layout.shape, self.dtype, _device.cpu), storage, 0)
    return out.copy_(self.detach())


@method
def record_stream(self, stream):
    """A stream uses this memory, too: it is not given to others before that work is done."""
    device = self._layout.device
    if device.type != "cuda":
        raise NotImplementedError(
            "Could not run 'aten::record_stream' with arguments from the 'CPU' backend."
        )
    device.runtime.allocator.used_by(self._storage, stream.cuda_stream)


@method
def is_shared(self):
    """Does the memory belong to several processes?"""
    return self.untyped_storage().is_shared()


@method
def share_memory_(self):
    """Move the whole storage to memory that other processes see when they are sent the tensor."""
    if self._layout.device.type == "cuda":
        return self  # memory of GPUs is shared when it is sent
    if self._layout.device is not _device.cpu:
        raise RuntimeError("_share_fd_: only available on CPU")
    from flambeau.runtime import shared_storage  # most programs share nothing

    shared_storage.share(self._storage)
    return self


@method
def is_inference(self):
    return is_uncounted(self._storage)


@method
def is_conj(self):
    return False


@method
def is_neg(self):
    return False


@method
def dim_order(self, *, ambiguity_check=False):
    """The dimensions from the outermost in memory to the innermost.

    ambiguity_check: refuse what lies in memory in several orders at once; a list of memory formats
    says which orders are meant.
    """
    formats = ambiguity_check if isinstance(ambiguity_check, list) else None
    if not isinstance(ambiguity_check, (bool, list)) or not all(
        isinstance(f, memory_format) for f in formats or ()
    ):
        raise TypeError("The ambiguity_check argument must be a bool or a list of memory formats.")
    strides = self._layout.strides
    if strides is None:
        raise AttributeError(f"Can't get dim order on sparse type: {self.type()}")
    order = tuple(sorted(range(self.ndim), key=lambda d: -strides[d]))
    if not ambiguity_check or (len(set(strides)) == len(strides) and 1 not in self.shape):
        return order
    fitting = [f for f in formats or () if self.is_contiguous(memory_format=f)]
    if len(fitting) == 1:
        last = fitting[0] is not contiguous_format
        return (0, *range(2, self.ndim), 1) if last else tuple(range(self.ndim))
    raise RuntimeError(
        "The tensor does not have unique dim order, or cannot map to exact one of the given "
        "memory formats."
    )


@prop
def __cuda_array_interface__(self):
    from flambeau._tensor import cuda_arrays  # asked for by other libraries

    return cuda_arrays.described(self)


@prop
def is_cuda(self):
    return self._layout.device.type == "cuda"


@prop
def is_meta(self):
    return self._layout.device.type == "meta"


@prop
def is_cpu(self):
    return self._layout.device.type == "cpu"


for _name in ("is_mkldnn", "is_mps", "is_xpu", "is_nested"):
    PROPERTIES[_name] = property(lambda self: False)


@prop
def is_sparse(self):
    return layout_of(self) is sparse_coo


@prop
def is_sparse_csr(self):
    return layout_of(self) is sparse_csr


@prop
def is_quantized(self):
    return type(self._layout.dtype) is _dtype.QuantizedDtype


def _asked_later(name):
    """A question about quantized tensors; what answers loads when somebody asks."""

    def asked(self):
        from flambeau.eager import quantized

        return getattr(quantized, name)(self)

    asked.__name__ = name
    return asked


METHODS.update(
    {
        name: _asked_later(name)
        for name in (
            "dequantize int_repr q_scale q_zero_point q_per_channel_scales "
            "q_per_channel_zero_points q_per_channel_axis qscheme"
        ).split()
    }
)


def layout_of(t):
    """How a tensor holds its elements: strided, or the kind of a sparse layout."""
    return strided if t._layout.strides is not None else t._layout.kind


PROPERTIES["layout"] = property(lambda self: layout_of(self))


@prop
def name(self):
    return None


@method
def __len__(self):
    if not self._layout.ndim:
        raise TypeError("len() of a 0-d tensor")
    return self._layout.shape[0]


@method
def __iter__(self):
    if not self._layout.ndim:
        raise TypeError("iteration over a 0-d tensor")
    return iter(self.unbind(0))


@method
def __contains__(self, element):
    if isinstance(element, (Tensor, int, float, complex)):
        return bool((self == element).any())
    raise RuntimeError(
        f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(element)}."
    )


# -- elements


METHODS |= {
    "item": interchange.item,
    "tolist": interchange.tolist,
    "numpy": interchange.to_numpy,
}


@method
def __array__(self, dtype=None, copy=None):
    array = interchange.to_numpy(self.detach() if not self._requires_grad else self)
    if dtype is not None and array.dtype != dtype:
        return array.astype(dtype)
    return array.copy() if copy else array


@method
def __array_wrap__(self, array, context=None, return_scalar=False):
    if array.dtype == bool:
        array = array.astype("uint8")  # as PyTorch does, from the days before boolean tensors
    return creation.from_numpy(array if array.ndim else array.reshape(()).copy())


@method
def __bool__(self):
    numel = self._layout.numel
    if numel == 1:
        return bool(item(self))
    if numel == 0:
        raise RuntimeError("Boolean value of Tensor with no values is ambiguous")
    raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous")


@method
def is_nonzero(self):
    return __bool__(self)


def _one(self, kind, dtype):
    if self._layout.numel != 1:
        raise ValueError("only one element tensors can be converted to Python scalars")
    value = item(self)
    if type(value) is complex and kind is not complex:
        value = _dtype.check_fits(value, dtype).real
    return kind(value)


@method
def __float__(self):
    if self._layout.numel == 1:
        value = item(self)
        if type(value) is float:
            return value
    return _one(self, float, _dtype.float64)


@method
def __int__(self):
    if self._layout.numel == 1:
        value = item(self)
        if type(value) is int:
            return value
    return _one(self, int, _dtype.int64)


@method
def __complex__(self):
    return _one(self, complex, _dtype.complex128)


@method
def __index__(self):
    if self._layout.dtype.category >= _dtype.FLOATING or self._layout.numel != 1:
        raise TypeError("only integer tensors of a single element can be converted to an index")
    return int(item(self))


@method
def __repr__(self, *, tensor_contents=None):
    return printing.tensor_repr(self, tensor_contents=tensor_contents)


@method
def __format__(self, spec):
    if self._layout.ndim == 0 and not self.is_meta and type(self) is Tensor:
        return format(item(self), spec)
    return object.__format__(self, spec)


@method
def __dir__(self):
    return sorted(set(object.__dir__(self)))
