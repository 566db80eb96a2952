"""Methods of Tensor that are not ops: access, conversion, gradients and hooks, copying and pickling.

Plain functions here become methods by `attach_methods`; the op table supplies all the rest.
"""

import copy
import warnings
import weakref
from collections import OrderedDict

from flambeau import _device, _dtype, printing
from flambeau._layout import Size, contiguous_strides, make_layout, wrap_dim
from flambeau._memory_format import (
    channels_last,
    contiguous_format,
    strided,
)
from flambeau._tensor import Tensor, alias, extra_of, make_tensor, new_storage
from flambeau.autograd import backward as autograd_backward
from flambeau.autograd import views
from flambeau.autograd.grad_mode import modes
from flambeau.autograd.node import add_hook, current_grad_fn
from flambeau.eager import creation, dlpack, interchange
from flambeau.eager.binding import as_number
from flambeau.eager.copying import CHANNELS_LAST, copy_, fill_into, formatted_layout
from flambeau.eager.methods import function
from flambeau.eager.nested import from_numbers
from flambeau.runtime.cpu import buffer_at
from flambeau.storage import Kept, root_of, twin

_methods: dict = {}
_properties: dict = {}


def method(f):
    _methods[
        f.__name__.rstrip("_")
        if f.__name__ in ("bool_", "float_", "int_", "type_", "is_contiguous_")
        else f.__name__
    ] = f
    return f


def prop(f):
    _properties[f.__name__] = property(f)
    return f


def attach_methods():
    for name, f in _methods.items():
        setattr(Tensor, name, f)
    for name, p in _properties.items():
        setattr(Tensor, name, p)
    for name in creation.METHODS:
        setattr(Tensor, name, getattr(creation, name))
    Tensor.copy_ = copy_
    for name, d in {**_dtype.BY_NAME, **_dtype.ALIASES}.items():
        if name in _CASTS:
            setattr(Tensor, _CASTS[name], _caster(d))


_CASTS = {
    "float": "float",
    "double": "double",
    "half": "half",
    "bfloat16": "bfloat16",
    "int": "int",
    "long": "long",
    "short": "short",
    "int8": "char",
    "uint8": "byte",
    "bool": "bool",
    "cfloat": "cfloat",
    "cdouble": "cdouble",
}


def _caster(d):
    def cast(self, memory_format=None):
        return self if self._layout.dtype is d else convert(self, d, None, False, memory_format)

    return cast


# -- shape and memory ------------------------------------------------------------------------------


@method
def size(self, dim=None):
    """The shape, or its length in one dimension."""
    return self._layout.shape if dim is None else self._layout.shape[_dim(self, dim, "size")]


@method
def stride(self, dim=None):
    """Steps between neighbours in each dimension, or in one, counted in elements."""
    return self._layout.strides if dim is None else self._layout.strides[_dim(self, dim, "stride")]


def _dim(self, dim, name):
    if not hasattr(dim, "__index__"):
        raise TypeError(
            f"{name}(): argument 'dim' (position 1) must be int, not {type(dim).__name__}"
        )
    if not self._layout.ndim:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    return wrap_dim(dim, self._layout.ndim)


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
    return self.shape == other.shape


@method
def is_set_to(self, tensor):
    return (
        self._storage.pointer == tensor._storage.pointer
        and self._layout is tensor._layout
        and self._offset == tensor._offset
    )


@method
def get_device(self):
    return -1


@method
def is_pinned(self):
    return False


@method
def pin_memory(self):
    return self


@method
def is_shared(self):
    return False


@method
def is_inference(self):
    return self._extra is not None and self._extra.inference


@method
def is_conj(self):
    return False


@method
def is_neg(self):
    return False


@method
def dim_order(self):
    return tuple(sorted(range(self.ndim), key=lambda d: -self._layout.strides[d]))


@prop
def is_cuda(self):
    return self._layout.device.type == "cuda"


@prop
def is_meta(self):
    return self._layout.device.type == "meta"


@prop
def is_cpu(self):
    return self._layout.device.type == "cpu"


for _name in (
    "is_sparse",
    "is_sparse_csr",
    "is_quantized",
    "is_mkldnn",
    "is_mps",
    "is_xpu",
    "is_nested",
):
    _properties[_name] = property(lambda self: False)


@prop
def layout(self):
    return strided


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


# -- numbers ---------------------------------------------------------------------------------------


@method
def item(self):
    return interchange.item(self)


@method
def tolist(self):
    return interchange.tolist(self)


@method
def numpy(self, *, force=False):
    return interchange.to_numpy(self, force)


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
        return bool(interchange.item(self))
    if numel == 0:
        raise RuntimeError("Boolean value of Tensor with no values is ambiguous")
    raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous")


@method
def is_nonzero(self):
    return __bool__(self)


def _one(self, kind, dtype):
    if self._layout.numel != 1:
        raise ValueError("only one element tensors can be converted to Python scalars")
    value = interchange.item(self)
    if type(value) is complex and kind is not complex:
        value = _dtype.check_fits(value, dtype).real
    return kind(value)


@method
def __float__(self):
    return _one(self, float, _dtype.float64)


@method
def __int__(self):
    return _one(self, int, _dtype.int64)


@method
def __complex__(self):
    return _one(self, complex, _dtype.complex128)


@method
def __index__(self):
    if self._layout.dtype.category >= _dtype.FLOATING or self._layout.numel != 1:
        raise TypeError("only integer tensors of a single element can be converted to an index")
    return int(interchange.item(self))


@method
def __repr__(self, *, tensor_contents=None):
    return printing.tensor_repr(self, tensor_contents=tensor_contents)


@method
def __format__(self, spec):
    if self._layout.ndim == 0 and not self.is_meta and type(self) is Tensor:
        return format(interchange.item(self), spec)
    return object.__format__(self, spec)


@method
def __dir__(self):
    return sorted(set(object.__dir__(self)))


# -- conversion ------------------------------------------------------------------------------------


def convert(self, dtype=None, device=None, copy=False, memory_format=None):
    """The tensor with another dtype or device; itself if nothing changes."""
    own = self._layout
    dtype = dtype or own.dtype
    device = device or own.device
    if dtype is own.dtype and device is own.device and not copy:
        if (
            memory_format is None
            or is_contiguous(self, memory_format)
            or memory_format.name == "preserve_format"
        ):
            return self
    if own.dtype.is_complex and dtype.category in (_dtype.INTEGER, _dtype.FLOATING):
        warnings.warn(
            "Casting complex values to real discards the imaginary part", UserWarning, stacklevel=3
        )
    if dtype is own.dtype and device is own.device:
        return function("clone")(self, memory_format=memory_format)
    return function("_to_copy")(self, dtype, device, memory_format)


@method
def to(self, *args, dtype=None, device=None, non_blocking=False, copy=False, memory_format=None):
    """to(dtype), to(device), to(device, dtype), to(other): convert dtype and device."""
    for arg in args:
        if isinstance(arg, _dtype.dtype):
            dtype = arg
        elif isinstance(arg, Tensor):
            dtype, device = arg.dtype, arg.device
        elif isinstance(arg, (str, _device.device)) or type(arg) is int:
            device = arg
        elif isinstance(arg, bool) or arg is None:
            continue
        elif isinstance(arg, type) and arg in (float, int, bool, complex):
            dtype = creation.dtype_of(arg)
        else:
            raise TypeError(
                "to() received an invalid combination of arguments - got "
                f"({', '.join(type(a).__name__ for a in args)}), but expected one of:\n"
                " * (torch.device device = None, torch.dtype dtype = None, bool non_blocking = False, bool copy = False, *, "
                "torch.memory_format memory_format = None)\n"
                " * (torch.dtype dtype, bool non_blocking = False, bool copy = False, *, torch.memory_format memory_format = None)\n"
                " * (Tensor tensor, bool non_blocking = False, bool copy = False, *, torch.memory_format memory_format = None)"
            )
    return convert(
        self, dtype, None if device is None else _device.resolve(device), copy, memory_format
    )


@method
def cpu(self, memory_format=None):
    return convert(self, None, _device.cpu, False, memory_format)


@method
def cuda(self, device=None, non_blocking=False, memory_format=None):
    return convert(self, None, _device.resolve("cuda" if device is None else device))


TYPE_NAMES = {f"torch.{d.scalar_name}Tensor": d for d in _dtype.ALL if not d.is_complex}


@method
def type_(self, dtype=None, non_blocking=False, **kwargs):
    if dtype is None:
        return f"torch.{self.dtype.scalar_name}Tensor"
    if isinstance(dtype, str):
        if dtype not in TYPE_NAMES:
            raise ValueError(f"invalid type: '{dtype}'")
        dtype = TYPE_NAMES[dtype]
    elif isinstance(dtype, type) and hasattr(dtype, "dtype"):
        dtype = dtype.dtype
    return convert(self, dtype)


@method
def type_as(self, other):
    return convert(self, other.dtype, other.device)


@method
def zero_(self):
    """Set every element to zero."""
    return fill_checked(self, 0)


def fill_checked(self, value):
    if modes.grad and self._requires_grad:
        views.check_inplace(self)
        return _fill_recorded(self, value)
    fill_into(self, value)
    self._storage.version += 1
    return self


def _fill_recorded(self, value):
    from flambeau.autograd.node import Node, edge_of, init_node

    class ZeroBackward0(Node):
        __slots__ = ()

        def apply(self, grads, create_graph):
            return (grads[0].new_zeros(grads[0].shape),)

    node = init_node(object.__new__(ZeroBackward0), (edge_of(self),), ())
    fill_into(self, value)
    self._storage.version += 1
    views.rebase(self, node)
    return self


_C_TYPES = {
    "float32": "float",
    "float64": "double",
    "float16": "c10::Half",
    "bfloat16": "c10::BFloat16",
    "int64": "long int",
    "int32": "int",
    "int16": "short int",
    "int8": "signed char",
    "uint8": "unsigned char",
    "uint16": "short unsigned int",
    "uint32": "unsigned int",
    "uint64": "long unsigned int",
    "bool": "bool",
    "complex64": "c10::complex<float>",
    "complex128": "c10::complex<double>",
}


@method
def set_(self, source=None, storage_offset=0, size=None, stride=None):
    """Take over the memory of another tensor or storage."""
    if source is None:
        source = creation.empty(0, dtype=self.dtype, device=self.device)
    if isinstance(source, Tensor):
        if source.dtype is not self.dtype:
            raise RuntimeError(
                f"Could not set tensor of type {_C_TYPES[source.dtype.name]} to a tensor of type "
                f"{_C_TYPES[self.dtype.name]}"
            )
        self._storage, self._offset, self._layout = source._storage, source._offset, source._layout
        if size is not None:
            self._layout = make_layout(
                Size(size), tuple(stride or contiguous_strides(size)), self.dtype, self.device
            )
            self._offset = storage_offset * self.itemsize
        return self
    inner = source._untyped_storage if hasattr(source, "_untyped_storage") else source
    self._storage, self._offset = inner._storage, storage_offset * self.itemsize
    size = Size(size) if size is not None else Size((inner.nbytes() // self.itemsize,))
    self._layout = make_layout(
        size, tuple(stride or contiguous_strides(size)), self.dtype, self.device
    )
    return self


@method
def _resize_output(self, shape):
    """Give an out= tensor its shape."""
    if self._layout.numel:
        warnings.warn(
            f"An output with one or more elements was resized since it had shape {list(self.shape)}, which does not "
            f"match the required output shape {list(shape)}. This behavior is deprecated, and in a future PyTorch "
            "release outputs will not be resized unless they have zero elements. You can explicitly reuse an out tensor "
            "t by resizing it, inplace, to zero elements with t.resize_(0).",
            UserWarning,
            stacklevel=4,
        )
    return resize_(self, shape)


@method
def resize_(self, *shape, memory_format=None):
    """Change the shape; memory grows if needed, old elements stay."""
    try:
        shape = creation.size_from(shape, "resize_")
    except RuntimeError:
        raise RuntimeError("numel: integer multiplication overflow") from None
    if self._requires_grad:
        raise RuntimeError("cannot resize variables that require grad")
    layout = make_layout(shape, contiguous_strides(shape), self.dtype, self.device)
    if memory_format is not None:
        layout = formatted_layout(layout, memory_format)
    grow_storage(self._storage, self._offset + layout.nbytes)
    self._layout = layout
    self._storage.version += 1
    return self


def grow_storage(storage, nbytes):
    """Make a storage at least nbytes large; its old content stays."""
    if nbytes <= storage.nbytes:
        return
    owner = getattr(storage, "owner", None)
    if owner is not None and type(owner) is not Kept:
        raise RuntimeError("Trying to resize storage that is not resizable")
    bigger = new_storage(nbytes)
    if storage.nbytes and storage.pointer:
        from flambeau.runtime.cpu import copy_bytes

        copy_bytes(bigger.pointer, storage.pointer, storage.nbytes)
    # swap the blocks: the old one is freed with `bigger`
    storage.pointer, bigger.pointer = bigger.pointer, storage.pointer
    storage.give, bigger.give = bigger.give, storage.give
    storage.nbytes, bigger.nbytes = bigger.nbytes, storage.nbytes
    if owner is not None:
        owner.append(bigger)


@method
def resize_as_(self, other, memory_format=None):
    """Change the shape to that of another tensor."""
    return resize_(self, other.shape, memory_format=memory_format)


@method
def untyped_storage(self):
    from flambeau._typed_storage import UntypedStorage

    return UntypedStorage(root_of(self._storage))


@method
def storage(self):
    from flambeau._typed_storage import TypedStorage

    return TypedStorage(self._storage, self.dtype)


# -- autograd --------------------------------------------------------------------------------------


_NO_GRAD_HERE = (
    "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad "
    "attribute won't be populated during autograd.backward(). If you indeed want the .grad field to "
    "be populated for a non-leaf Tensor, use .retain_grad() on the non-leaf Tensor. If you access "
    "the non-leaf Tensor by mistake, make sure you access the leaf Tensor instead. See "
    "github.com/pytorch/pytorch/pull/30531 for more information."
)
_CPP_NAMES = {
    "float16": "c10::Half",
    "bfloat16": "c10::BFloat16",
    "float32": "float",
    "float64": "double",
    "complex64": "c10::complex<float>",
    "complex128": "c10::complex<double>",
    "int64": "long int",
    "int32": "int",
    "int16": "short int",
    "int8": "signed char",
    "uint8": "unsigned char",
}


def _get_grad(self):
    grad = self._grad
    if grad is None and self._grad_fn is not None and self._requires_grad:
        if self._extra is None or not self._extra.retains_grad:
            warnings.warn(_NO_GRAD_HERE, UserWarning, stacklevel=2)
    return grad


def _set_grad(self, value):
    if value is not None:
        if not isinstance(value, Tensor):
            raise TypeError(
                f"assigned grad expected to be a Tensor or None but got grad of type {type(value).__name__}"
            )
        if value is self:
            raise RuntimeError("can't assign Variable as its own grad")
        if value.dtype is not self.dtype:
            raise RuntimeError(
                "attempting to assign a gradient with dtype "
                f"'{_CPP_NAMES.get(value.dtype.name, value.dtype.name)}' to a tensor with grad_dtype "
                f"'{self.dtype.scalar_name}'. The gradient must match the tensor's grad_dtype (defaults "
                "to the tensor's dtype). You can set the tensor's grad_dtype attribute with a specific "
                "dtype, or None to allow any dtype. Set grad_dtype with caution. Diverging the dtypes "
                "of a tensor and its gradient may break downstream systems that assume they match."
            )
        if value.shape != self.shape:
            raise RuntimeError(
                f"attempting to assign a gradient of size '{list(value.shape)}' to a tensor of size '{list(self.shape)}'. "
                "Please ensure that the gradient and the tensor are the same size"
            )
    self._grad = value


def _del_grad(self):
    self._grad = None


_properties["grad"] = property(_get_grad, _set_grad, _del_grad)


def _set_requires_grad(self, value):
    if value and self._layout.dtype.category < _dtype.FLOATING:
        raise RuntimeError("only Tensors of floating point and complex dtype can require gradients")
    requires_grad_(self, value)


_properties["requires_grad"] = property(lambda self: self._requires_grad, _set_requires_grad)


@method
def requires_grad_(self, requires_grad=True):
    """Record (or stop recording) operations on this leaf."""
    value = bool(requires_grad)
    if value == self._requires_grad:
        return self
    if not value and current_grad_fn(self) is not None:
        raise RuntimeError(
            "you can only change requires_grad flags of leaf variables. If you want to use a computed variable in a "
            "subgraph that doesn't require differentiation use var_no_grad = var.detach()."
        )
    if value and self._layout.dtype.category < _dtype.FLOATING:
        raise RuntimeError("only Tensors of floating point dtype can require gradients")
    self._requires_grad = value
    return self


_properties["grad_fn"] = property(lambda self: current_grad_fn(self))


def _get_data(self):
    """The same memory outside the graph; writes to it are not counted."""
    return make_tensor(self._layout, twin(self._storage), self._offset)


def _set_data(self, value):
    if not isinstance(value, Tensor):
        raise TypeError(f"Variable data has to be a tensor, but got {type(value).__name__}")
    if self._requires_grad and value._layout.dtype.category < _dtype.FLOATING:
        raise RuntimeError(
            "data set to a tensor that requires gradients must be floating point or complex dtype"
        )
    if root_of(value._storage) is not root_of(self._storage):
        self._storage = twin(value._storage, self._storage.version)
    self._layout, self._offset = value._layout, value._offset


_properties["data"] = property(_get_data, _set_data)


@method
def detach(self):
    """The same memory outside the graph."""
    return alias(self, self._layout, self._offset)


@method
def detach_(self):
    """Leave the graph."""
    if self._view is not None:
        raise RuntimeError(
            "Can't detach views in-place. Use detach() instead. If you are using "
            "DistributedDataParallel (DDP) for training, and gradient_as_bucket_view is set as True, "
            "gradients are views of DDP buckets, and hence detach_() cannot be called on these "
            "gradients. To fix this error, please refer to the Optimizer.zero_grad() function in "
            "torch/optim/optimizer.py as a solution."
        )
    self._grad_fn, self._requires_grad, self._output_nr = None, False, 0
    return self


@method
def backward(self, gradient=None, retain_graph=None, create_graph=False, inputs=None):
    """Gradients of this tensor with respect to the leaves of its graph."""
    autograd_backward(self, gradient, retain_graph, create_graph, inputs=inputs)


@method
def retain_grad(self):
    """Keep .grad for this non-leaf tensor."""
    if not self._requires_grad:
        raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
    fn = current_grad_fn(self)
    if fn is None:
        return
    extra_of(self).retains_grad = True
    fn._hooks().retain[self._output_nr] = weakref.ref(self)


_properties["retains_grad"] = property(
    lambda self: self._extra is not None and self._extra.retains_grad
)


@method
def register_hook(self, hook):
    """hook(grad) when the gradient of this tensor is known; may return another gradient."""
    if not self._requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    fn = current_grad_fn(self)
    if fn is None:
        extra = extra_of(self)
        if extra.hooks is None:
            extra.hooks = OrderedDict()
        return add_hook(extra.hooks, hook)
    table = fn._hooks().tensor.setdefault(self._output_nr, OrderedDict())
    return add_hook(table, hook)


@method
def register_post_accumulate_grad_hook(self, hook):
    """hook(tensor) after .grad of this leaf has been updated."""
    if not self._requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if current_grad_fn(self) is not None:
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    extra = extra_of(self)
    if extra.post_hooks is None:
        extra.post_hooks = OrderedDict()
    return add_hook(extra.post_hooks, hook)


# -- copying and pickling --------------------------------------------------------------------------


@method
def __deepcopy__(self, memo):
    if not self.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment.  "
            "If you were attempting to deepcopy a module, this may be because of a torch.nn.utils.weight_norm usage, see "
            "https://github.com/pytorch/pytorch/pull/103001"
        )
    if id(self) in memo:
        return memo[id(self)]
    storage = memo.get(("storage", id(self._storage)))
    if storage is None:
        storage = new_storage(self._storage.nbytes if not self.is_meta else 0)
        if storage.pointer:
            buffer_at(storage.pointer, self._storage.nbytes)[:] = buffer_at(
                self._storage.pointer, self._storage.nbytes
            )
        memo["storage", id(self._storage)] = storage
    out = make_tensor(self._layout, storage, self._offset, type(self))
    out._requires_grad = self._requires_grad
    memo[id(self)] = out
    if self._grad is not None:
        out._grad = copy.deepcopy(self._grad, memo)
    if self.__dict__:
        out.__dict__.update(copy.deepcopy(self.__dict__, memo))
    return out


def rebuild(cls, shape, strides, dtype, offset, data, requires_grad, attributes, device="cpu"):
    """The inverse of pickling."""
    device = _device.device(device)
    storage = new_storage(len(data))
    if data:
        buffer_at(storage.pointer, len(data))[:] = data
    layout = make_layout(Size(shape), tuple(strides), _dtype.BY_NAME[dtype], device)
    # the class is None for plain tensors, which are known under several names
    out = make_tensor(layout, storage, offset, cls or Tensor)
    out._requires_grad = requires_grad
    out.__dict__.update(attributes)
    return out


@method
def __reduce_ex__(self, protocol):
    if current_grad_fn(self) is not None and self._requires_grad:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment"
        )
    data, t = b"", self
    if not self.is_meta and self._storage.nbytes:
        if self._storage.nbytes > 2 * self.nbytes + 64:
            t = self.detach().clone()  # a small part of a large storage travels alone
        data = bytes(buffer_at(t._storage.pointer, t._storage.nbytes))
    cls = None if type(self) is Tensor else type(self)
    layout = t._layout
    state = (
        cls,
        tuple(layout.shape),
        layout.strides,
        layout.dtype.name,
        t._offset,
        data,
        self._requires_grad,
        self.__dict__,
        self.device.type,
    )
    return rebuild, state


@method
def __setstate__(self, state):
    raise RuntimeError("tensors are restored by their rebuild function")


@method
def apply_(self, f):
    """Apply a Python function to each element, in place (slow; CPU only)."""
    flat = [f(x) for x in self.flatten().tolist()]
    return copy_(self, from_numbers(flat, self.shape, self.dtype))


@method
def map_(self, other, f):
    """Combine two tensors elementwise by a Python function, in place (slow)."""
    pairs = zip(self.flatten().tolist(), other.expand(self.shape).flatten().tolist())
    return copy_(self, from_numbers([f(a, b) for a, b in pairs], self.shape, self.dtype))


@method
def fill_diagonal_(self, fill_value, wrap=False):
    """Write a value on the main diagonal."""
    if self.ndim < 2:
        raise RuntimeError("dimensions must larger than 1")
    if self.ndim > 2 and len(set(self.shape)) > 1:
        raise RuntimeError("all dimensions of input must be of equal length")
    strides, shape = self._layout.strides, self.shape
    count = min(shape)
    step = sum(strides)
    self.as_strided((count,), (step,), self.storage_offset()).fill_(fill_value)
    if wrap and self.ndim == 2 and shape[0] > shape[1] + 1:
        width = shape[1]
        for start in range(width + 1, shape[0], width + 1):
            rest = min(width, shape[0] - start)
            self[start : start + rest].as_strided(
                (rest,), (step,), self.storage_offset() + start * strides[0]
            ).fill_(fill_value)
    return self


@method
def __reversed__(self):
    return self if self.ndim == 0 else self.flip(0)


@method
def as_subclass(self, cls):
    out = make_tensor(self._layout, self._storage, self._offset, cls)
    out._requires_grad, out._grad_fn, out._output_nr = (
        self._requires_grad,
        self._grad_fn,
        self._output_nr,
    )
    return out


@method
def share_memory_(self):
    return self


@method
def const_data_ptr(self):
    return self.data_ptr()


@method
def __dlpack__(self, *, stream=-1, max_version=None, dl_device=None, copy=None):
    """A DLPack capsule over the same memory."""
    return dlpack.export(self, stream, max_version, dl_device, copy)


@method
def __dlpack_device__(self):
    return dlpack.device_of(self)


def reflected(name, compute):
    """A method such as __rsub__: for numbers and tensors; strangers may try for themselves."""

    def operate(self, other):
        if not isinstance(other, (int, float, complex, Tensor)):
            other = as_number(other)
            if other is None:
                return NotImplemented
        return compute(self, other)

    operate.__name__ = operate.__qualname__ = name
    _methods[name] = operate


def _tensor_of(number, like):
    return creation.tensor(number, device=like.device)


reflected("__rsub__", lambda self, x: function("rsub")(self, x))
reflected("__rtruediv__", lambda self, x: self.reciprocal() * x)
reflected("__rdiv__", lambda self, x: self.reciprocal() * x)
reflected("__rpow__", lambda self, x: function("pow")(x, self))
reflected("__rmod__", lambda self, x: function("remainder")(x, self))
reflected("__rfloordiv__", lambda self, x: function("floor_divide")(_tensor_of(x, self), self))
reflected("__rlshift__", lambda self, x: function("bitwise_left_shift")(_tensor_of(x, self), self))
reflected("__rrshift__", lambda self, x: function("bitwise_right_shift")(_tensor_of(x, self), self))


@method
def __matmul__(self, other):
    return function("matmul")(self, other) if isinstance(other, Tensor) else NotImplemented


@method
def __rmatmul__(self, other):
    return function("matmul")(other, self) if isinstance(other, Tensor) else NotImplemented


@method
def __pos__(self):
    return self


@method
def sum_to_size(self, *size):
    """Sum over the dimensions in which this tensor is larger than size."""
    size = creation.size_from(size, "sum_to_size")
    shape = self.shape
    extra = len(shape) - len(size)
    if extra < 0 or any(n not in (1, s) for n, s in zip(size, shape[extra:])):
        raise RuntimeError(f"size {{{list(size)}}} is not expandable to size {{{list(shape)}}}.")
    dims = list(range(extra)) + [
        extra + k for k, n in enumerate(size) if n == 1 and shape[extra + k] != 1
    ]
    if not dims:
        return self if not extra else self.reshape(size)
    summed = self.sum(dims, keepdim=True)
    return summed.view(size) if extra else summed
