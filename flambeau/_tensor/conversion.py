"""Methods of Tensor that convert: to other dtypes and devices, and to other memory."""

import warnings

from flambeau import _device, _dtype
from flambeau._layout import Size, contiguous_strides, make_layout, suggests_channels_last
from flambeau._memory_format import channels_last, channels_last_3d, preserve_format
from flambeau._memory_format import memory_format as MemoryFormat
from flambeau._tensor import Tensor, empty_tensor
from flambeau._tensor.access import is_contiguous
from flambeau._tensor.admission import reach
from flambeau._tensor.attachment import METHODS, method
from flambeau._typed_storage import NAMES, TypedStorage, UntypedStorage, typed
from flambeau.autograd import views
from flambeau.autograd.grad_mode import modes
from flambeau.autograd.node import Node, edge_of, init_node
from flambeau.eager import creation
from flambeau.eager.arguments import argument
from flambeau.eager.copying import WHOLE, copy_, fill_into, formatted_layout
from flambeau.eager.methods import function
from flambeau.runtime.switches import switches
from flambeau.storage import grow_storage, root_of

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
    "chalf": "chalf",
    "cfloat": "cfloat",
    "cdouble": "cdouble",
}


def _caster(d):
    def cast(self, memory_format=None):
        return self if self._layout.dtype is d else convert(self, d, None, False, memory_format)

    return cast


def convert(self, dtype=None, device=None, copy=False, memory_format=None):
    """The tensor with another dtype or device; itself if nothing changes."""
    own = self._layout
    dtype = dtype or own.dtype
    device = device or own.device
    nothing_new = dtype is own.dtype and device is own.device
    if nothing_new and not copy and _has_format(self, memory_format):
        return self
    if own.dtype.is_complex and dtype.category in (_dtype.INTEGER, _dtype.FLOATING):
        warnings.warn(
            "Casting complex values to real discards the imaginary part", UserWarning, stacklevel=3
        )
    if nothing_new:
        return function("clone")(self, memory_format=memory_format)
    return function("_to_copy")(self, dtype, device, memory_format)


def _has_format(self, memory_format):
    return (
        memory_format is None
        or is_contiguous(self, memory_format)
        or memory_format.name == "preserve_format"
    )


_TO_OPTIONS = (
    "bool non_blocking = False, bool copy = False, *, torch.memory_format memory_format = None)"
)


@method
def to(self, *args, dtype=None, device=None, non_blocking=False, copy=False, memory_format=None):
    """to(dtype), to(device), to(device, dtype), to(other): convert dtype and device."""
    if copy is not False:
        argument("to", "copy", 0, "bool", copy)
    if len(args) == 1 and dtype is device is memory_format is None and not copy:
        (wanted,) = args  # mostly the device that the tensor is on
        here = self._layout.device
        if wanted is here or (type(wanted) is str and wanted == "cpu" and here is _device.cpu):
            return self
    for arg in args:
        if _dtype.meant(arg) is not None:
            dtype = arg
        elif isinstance(arg, Tensor):
            dtype, device = arg.dtype, arg.device
        elif isinstance(arg, (str, _device.device)) or type(arg) is int:
            device = arg
        elif isinstance(arg, bool) or arg is None:
            continue
        else:
            raise _no_target(args, {})
    if dtype is not None:
        found = _dtype.meant(dtype)
        if found is None:
            raise _no_target(args, {"dtype": dtype})
        dtype = found
    if memory_format is not None and not isinstance(memory_format, MemoryFormat):
        raise _no_target(args, {"memory_format": memory_format})
    if not (device is None or isinstance(device, (str, _device.device)) or type(device) is int):
        raise _no_target(args, {"device": device})
    device = None if device is None else _device.resolve(device)
    if non_blocking and memory_format is None and dtype in (None, self._layout.dtype):
        found = _started_copy(self, device)
        if found is not None:
            return found
    return convert(self, dtype, device, copy, memory_format)


def _no_target(args, kwargs):
    """The complaint about arguments of `to` that are neither dtypes nor devices."""
    got = ", ".join(type(a).__name__ for a in args)
    if kwargs:
        got += ", " * bool(args) + "".join(f"{n}={type(v).__name__}, " for n, v in kwargs.items())
    return TypeError(
        f"to() received an invalid combination of arguments - got ({got}), but expected one of:\n"
        f" * (torch.device device = None, torch.dtype dtype = None, {_TO_OPTIONS}\n"
        f" * (torch.dtype dtype, {_TO_OPTIONS}\n * (Tensor tensor, {_TO_OPTIONS}"
    )


def _started_copy(self, device):
    """A copy on a GPU that is under way when this returns; None where that cannot be."""
    layout = self._layout
    if device is None or device.type != "cuda" or layout.device is not _device.cpu:
        return None
    if self._requires_grad or not layout.is_contiguous or not self.is_pinned():
        return None
    out = empty_tensor(layout.shape, layout.dtype, device)
    start = self._storage.pointer + self._offset
    _device.runtimes_of(device).start_copy(device, out._storage.pointer, start, layout.nbytes, self)
    return out


@method
def to_device(self, device, /, *, stream=None):
    """The array API standard's name of `to`; streams are those that devices have by themselves."""
    if stream is not None:
        raise ValueError("to_device takes no stream: the current one of the device is used")
    return self.to(device)


@method
def to_padded_tensor(self, padding, output_size=None):
    """Nested tensors have one of their own; others have no pieces to fill up."""
    raise NotImplementedError(
        "Could not run 'aten::to_padded_tensor' with arguments from the "
        f"'{self.device.type.upper()}' backend. It is there for nested tensors."
    )


@method
def cpu(self, memory_format=None):
    return convert(self, None, _device.cpu, False, memory_format)


@method
def cuda(self, device=None, non_blocking=False, memory_format=None):
    device = _device.resolve("cuda" if device is None else device)
    found = _started_copy(self, device) if non_blocking and memory_format is None else None
    return convert(self, None, device, False, memory_format) if found is None else found


TYPE_NAMES = {f"torch.{d.scalar_name}Tensor": d for d in _dtype.ALL}
TYPE_NAMES |= {f"torch.{d.scalar_name}Tensor": d for d in _dtype.FLOAT8.values()}


@method
def type_(self, dtype=None, non_blocking=False, **kwargs):
    if dtype is None:
        place = "cuda." if self.is_cuda else ""
        return f"torch.{place}{self.dtype.scalar_name}Tensor"
    if isinstance(dtype, str):
        if dtype not in TYPE_NAMES:
            raise ValueError(f"invalid type: '{dtype}'")
        dtype = TYPE_NAMES[dtype]
    elif dtype is Tensor:
        dtype = _dtype.default_dtype()
    elif isinstance(dtype, type) and hasattr(dtype, "dtype"):
        dtype = dtype.dtype
    if not isinstance(dtype, _dtype.dtype):
        raise ValueError(f"invalid type: '{getattr(dtype, '__name__', dtype)}'")
    return convert(self, dtype)


@method
def type_as(self, other):
    return convert(self, other.dtype, other.device)


# -- memory


@method
def zero_(self):
    """Set every element to zero."""
    if self._requires_grad and modes.grad:
        return fill_checked(self, 0)
    layout, st = self._layout, self._storage
    if layout.sort is None:
        fill_into(self, 0)
    else:
        kernel, description = WHOLE[layout.sort, int]
        kernel(description, st.pointer + self._offset, 0, layout.numel)
    st.version += 1
    return self


def fill_checked(self, value):
    if modes.grad and self._requires_grad:
        views.check_inplace(self)
        return _fill_recorded(self, value)
    fill_into(self, value)
    self._storage.version += 1
    return self


class ZeroBackward0(Node):
    """History of a fill with a number: nothing of the old value is left."""

    __slots__ = ()

    def apply(self, grads, create_graph):
        return (grads[0].new_zeros(grads[0].shape),)


def _fill_recorded(self, value):
    node = init_node(object.__new__(ZeroBackward0), (edge_of(self),), ())
    fill_into(self, value)
    self._storage.version += 1
    views.rebase(self, node)
    return self


@method
def set_(self, source=None, storage_offset=None, size=None, stride=None):
    """Take over the memory of another tensor or storage, which grows if it is too small."""
    if storage_offset is not None and size is None:
        raise TypeError("set_() received an invalid combination of arguments; a size is missing")
    if self._requires_grad and modes.grad:
        views.check_inplace(self)
    if source is None:
        source = creation.empty(0, dtype=self.dtype, device=self.device)
    memory, dtype, start = _source(source)
    if dtype is not None and dtype is not self.dtype:
        raise _other_type(source, self.dtype)
    if memory is not self._storage:  # who saved this tensor must see that it is another one now
        memory.version = max(memory.version, self._storage.version + 1)
    if isinstance(source, Tensor) and size is None:
        self._storage, self._offset, self._layout = memory, source._offset, source._layout
        return self
    itemsize, sizes = self.itemsize, size
    if size is None:
        sizes = (memory.nbytes // itemsize,)
    sizes = creation.size_tuple(sizes, "set_") if size is not None else sizes
    strides = tuple(stride or contiguous_strides(sizes))
    if len(strides) != len(sizes):
        raise RuntimeError(f"unequal size length ({len(sizes)}) and stride length ({len(strides)})")
    start += (storage_offset or 0) * itemsize
    needed = reach(sizes, strides, start, itemsize)
    same = memory is self._storage and not isinstance(source, Tensor)
    if needed > memory.nbytes and same and sizes == self.shape and strides == self.stride():
        raise RuntimeError(
            f"setStorage: sizes {list(sizes)}, strides {list(strides)}, storage offset "
            f"{storage_offset}, and itemsize {itemsize} requiring a storage size of {needed} are "
            f"out of bounds for storage of size {memory.nbytes}"
        )
    if needed > memory.nbytes and self.device.runtime.computes:
        memory = root_of(memory)
        grow_storage(memory, needed, self.device)
    layout = make_layout(Size(sizes), strides, self.dtype, self.device)
    self._storage, self._offset, self._layout = memory, start, layout
    return self


def _source(source):
    """(storage, dtype if it has one, first byte) of what set_ takes over."""
    if isinstance(source, Tensor):
        return source._storage, source.dtype, source._offset
    if isinstance(source, TypedStorage):
        return source.untyped()._storage, source.dtype, 0
    if isinstance(source, UntypedStorage):
        return source._storage, None, 0
    raise TypeError(
        f"set_() received an invalid combination of arguments - got ({type(source).__name__})"
    )


def _other_type(source, dtype):
    if isinstance(source, Tensor):
        return RuntimeError(
            f"Could not set tensor of type {source.dtype.cpp_name} to a tensor of type "
            f"{dtype.cpp_name}"
        )
    return RuntimeError(
        f"Expected a Storage of type {dtype.cpp_name} or an UntypedStorage, but got type "
        f"{source.dtype.scalar_name} for argument 1 'storage'"
    )


@method
def _resize_output(self, shape):
    """Give an out= tensor its shape."""
    if self._layout.numel:
        warnings.warn(
            "An output with one or more elements was resized since it had shape "
            f"{list(self.shape)}, which does not match the required output shape {list(shape)}. "
            "This behavior is deprecated, and in a future PyTorch release outputs will not be "
            "resized unless they have zero elements. You can explicitly reuse an out tensor t by "
            "resizing it, inplace, to zero elements with t.resize_(0).",
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
    if memory_format is preserve_format:
        raise RuntimeError("Unsupported memory formatPreserve")
    if shape == self.shape and memory_format is None:
        return self
    layout = make_layout(shape, contiguous_strides(shape), self.dtype, self.device)
    if memory_format is not None:
        layout = formatted_layout(layout, memory_format)
    before = self._storage.nbytes
    grow_storage(self._storage, self._offset + layout.nbytes, layout.device)
    self._layout = layout
    if switches.fills:
        creation.unwritten(self, before)
    self._storage.version += 1
    return self


@method
def resize_as_(self, other, memory_format=None):
    """Change the shape to that of another tensor; preserve_format keeps its channels last."""
    if memory_format is preserve_format:
        last = suggests_channels_last(other._layout)
        memory_format = {4: channels_last, 5: channels_last_3d}[other.ndim] if last else None
    return resize_(self, other.shape, memory_format=memory_format)


@method
def untyped_storage(self):
    return UntypedStorage(root_of(self._storage), device=self._layout.device)


@method
def storage_type(self):
    """The class of older typed storages, such as torch.FloatStorage."""
    from flambeau._storage_kinds import CLASSES, CUDA_CLASSES  # few programs ask

    return (CUDA_CLASSES if self.is_cuda else CLASSES)[NAMES[self.dtype]]


@method
def storage(self):
    return typed(root_of(self._storage), self.dtype, self._layout.device)


METHODS["_typed_storage"] = storage


for _name, _type in {**_dtype.BY_NAME, **_dtype.ALIASES}.items():
    if _name in _CASTS:
        METHODS[_CASTS[_name]] = _caster(_type)
for _name in creation.METHODS:
    METHODS[_name] = getattr(creation, _name)
METHODS["copy_"] = copy_
