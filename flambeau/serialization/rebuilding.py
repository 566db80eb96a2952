"""The names that files speak of, and what stands for them here.

A file names PyTorch's functions and types: `torch._utils._rebuild_tensor_v2`,
`torch.FloatStorage`. `ALLOWED` maps every name that may appear in a file of weights to ours. What
a file claims about a tensor is checked against its storage before a tensor is made of it.
"""

import codecs
import sys
from collections import Counter, OrderedDict
from pickle import UnpicklingError, whichmodule  # type: ignore[attr-defined]

from flambeau import _dtype, _qscheme
from flambeau._device import device, meta
from flambeau._layout import Size, dense_layout, make_layout
from flambeau._memory_format import LAYOUTS, sparse_coo, strided
from flambeau._tensor import Tensor, make_tensor
from flambeau._tensor.admission import admit
from flambeau._tensor.pickling import give_attributes, give_state
from flambeau._typed_storage import TypedStorage, UntypedStorage
from flambeau.storage import new_storage

LARGEST = 2**63 - 1
MOST_DIMS = 64


class StorageKind:
    """What a file calls the type of a storage, e.g. torch.FloatStorage."""

    __slots__ = ("module", "name", "dtype")

    def __init__(self, module, name, dtype):
        self.module, self.name, self.dtype = module, name, dtype


# the unsigned integers came later and have no storages of their own; nor has complex32
KINDS = {
    d: StorageKind("torch", f"{d.scalar_name}Storage", d)
    for d in _dtype.ALL
    if d.name not in ("uint16", "uint32", "uint64", "complex32")
}
KINDS |= {d: StorageKind("torch", f"{d.scalar_name}Storage", d) for d in _dtype.QUANTIZED}
UNTYPED = StorageKind("torch.storage", "UntypedStorage", None)


class MetaStorage:
    """A storage of which only the size is known."""

    __slots__ = ("nbytes", "dtype")

    def __init__(self, nbytes, dtype):
        self.nbytes, self.dtype = nbytes, dtype


def wrong(what):
    return UnpicklingError(f"the file is corrupted: {what}")


def brief(value):
    """A value in an error; a file can make one whose whole text would take years to write."""
    if isinstance(value, (str, bytes)):
        return repr(value[:40])
    if isinstance(value, int) and value.bit_length() < 200:
        return repr(value)
    return f"of type {type(value).__name__}"


def _whole_numbers(values, what):
    if not isinstance(values, (tuple, list)) or len(values) > MOST_DIMS:
        raise wrong(f"{what} must be a tuple of at most {MOST_DIMS} numbers")
    for value in values:
        if type(value) is not int or not 0 <= value <= LARGEST:
            raise wrong(f"{what} has an element {brief(value)}")
    return tuple(values)


def _checked(size, stride, offset, itemsize):
    """Size and strides as tuples, and how many bytes of storage they reach."""
    size, stride = _whole_numbers(size, "size"), _whole_numbers(stride, "stride")
    if len(size) != len(stride):
        raise wrong(f"a tensor has {len(size)} sizes and {len(stride)} strides")
    if type(offset) is not int or not 0 <= offset <= LARGEST:
        raise wrong(f"storage offset {brief(offset)}")
    numel = 1
    for count in size:
        numel *= count
    if numel == 0:
        return size, stride, offset * itemsize
    reach = offset + 1 + sum((n - 1) * s for n, s in zip(size, stride))
    if numel * itemsize > LARGEST or reach * itemsize > LARGEST:
        raise wrong("a tensor is larger than memory can be")
    return size, stride, reach * itemsize


def _tensor(storage, offset, size, stride, dtype):
    if not isinstance(storage, (TypedStorage, UntypedStorage, MetaStorage)):
        raise wrong(f"a tensor over {type(storage).__name__}")
    if not isinstance(dtype, _dtype.dtype):
        raise wrong("a tensor without a dtype")
    itemsize = dtype.itemsize
    size, stride, reach = _checked(size, stride, offset, itemsize)
    nbytes = storage.nbytes if isinstance(storage, MetaStorage) else storage.nbytes()
    if reach > nbytes and 0 not in size:
        raise wrong(
            f"a tensor of sizes {list(size)}, strides {list(stride)} and storage offset {offset} "
            f"needs {reach} bytes, but its storage has {nbytes}"
        )
    if isinstance(storage, MetaStorage):
        held = new_storage(reach if nbytes == LARGEST else nbytes, meta)
        return make_tensor(make_layout(Size(size), stride, dtype, meta), held, offset * itemsize)
    block = storage.untyped() if isinstance(storage, TypedStorage) else storage
    layout = make_layout(Size(size), stride, dtype, block.device)
    return admit(layout, block._storage, min(offset * itemsize, nbytes))


def _changed(out, change):
    """A tensor with other elements; no more of them are computed than its storage holds."""
    layout, count = out._layout, out._storage.nbytes // out.itemsize
    if out.numel() <= count or layout.device is meta:
        return change(out)
    whole = admit(dense_layout((count,), layout.dtype, layout.device), out._storage, 0)
    return admit(layout, change(whole)._storage, out._offset)


def _marked(out, requires_grad, metadata, storage=None):
    if type(requires_grad) is not bool or not isinstance(metadata, (dict, type(None))):
        raise wrong("a tensor with unknown marks")
    if metadata:
        fill = getattr(storage, "fill", None)
        if fill is not None:
            fill()  # files are read after their pickle, and here values are needed
        # lazily conjugated or negated there; here the values themselves are
        if metadata.get("conj") is True:
            out = _changed(out, lambda t: t.conj().resolve_conj())
        if metadata.get("neg") is True:
            out = _changed(out, lambda t: -t)
    if requires_grad and (out.is_floating_point() or out.is_complex()):
        out._requires_grad = True
    return out


def rebuild_tensor(storage, storage_offset, size, stride):
    return _tensor(storage, storage_offset, size, stride, storage.dtype)


def rebuild_tensor_v2(storage, offset, size, stride, requires_grad, hooks, metadata=None):
    dtype = getattr(storage, "dtype", None)
    return _marked(_tensor(storage, offset, size, stride, dtype), requires_grad, metadata, storage)


def rebuild_tensor_v3(storage, offset, size, stride, requires_grad, hooks, dtype, metadata=None):
    return _marked(_tensor(storage, offset, size, stride, dtype), requires_grad, metadata, storage)


def rebuild_quantized(storage, offset, size, stride, parts, requires_grad, hooks):
    """A quantized tensor; parts: scheme, scales, zero points and the axis of channels."""
    from flambeau.eager import quantized  # few files have such tensors

    dtype = getattr(storage, "dtype", None)
    if dtype not in _dtype.QUANTIZED or not isinstance(parts, tuple) or not parts:
        raise wrong("a quantized tensor of an unknown kind")
    out = _tensor(storage, offset, size, stride, dtype)
    for part in parts:
        if isinstance(part, Tensor):
            fill = getattr(getattr(part, "_storage", None), "fill", None)
            if fill is not None:
                fill()
    try:
        quantized.give_quantizer(out._storage, quantized.quantizer_from(parts, out.shape))
    except ValueError as error:
        raise wrong(str(error)) from None
    return out


def rebuild_meta_tensor(dtype, size, stride, requires_grad):
    return _marked(
        _tensor(MetaStorage(LARGEST, dtype), 0, size, stride, dtype), requires_grad, None
    )


def _parameter(data, requires_grad):
    from flambeau.nn.parameter import Parameter  # nn is large, and most files hold plain tensors

    if not isinstance(data, Tensor) or type(requires_grad) is not bool:
        raise wrong("a parameter without a tensor")
    return Parameter(data, requires_grad)


def rebuild_parameter(data, requires_grad, backward_hooks):
    return _parameter(data, requires_grad)


def rebuild_parameter_with_state(data, requires_grad, backward_hooks, state):
    return set_state(_parameter(data, requires_grad), state)


def rebuild_from_type(function, cls, arguments, state):
    """A tensor of a class, or with attributes."""
    if function is rebuild_jagged and len(arguments) == 1:  # all that it has is in its arguments
        return rebuild_jagged(*arguments)
    known = any(function is other for other in _TENSOR_FUNCTIONS)
    if not known or not (isinstance(cls, type) and issubclass(cls, Tensor)):
        raise wrong("a tensor of an unknown kind")
    out = function(*arguments)
    if cls is not Tensor:
        requires_grad = out._requires_grad
        out = make_tensor(out._layout, out._storage, out._offset, cls)
        out._requires_grad = requires_grad
    if type(out).__setstate__ is not Tensor.__setstate__:
        give_state(out, state)
        return out
    return set_state(out, state)


def set_state(out, state):
    """Attributes of a tensor; a pair holds those of its slots too."""
    own, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
    parts = tuple(part if isinstance(part, dict) else {} for part in (own, slots))
    if not all(isinstance(name, str) for part in parts for name in part):
        raise wrong("an attribute whose name is not a string")
    give_attributes(out, parts)
    return out


_LAYOUTS = {repr(kind): kind for kind in LAYOUTS}


def get_layout(name):
    if not isinstance(name, str) or name not in _LAYOUTS:
        raise wrong(f"layout {brief(name)} is not supported")
    return _LAYOUTS[name]


def rebuild_sparse(kind, data):
    """A sparse tensor from its parts, whose numbers may not have been read yet."""
    from flambeau._sparse import creation  # with the first sparse tensor

    if not isinstance(data, tuple) or kind not in LAYOUTS or kind is strided:
        raise wrong("a sparse tensor of an unknown kind")
    *tensors, size = data if kind is not sparse_coo else data[:3]
    if not all(isinstance(t, Tensor) for t in tensors) or not isinstance(size, tuple):
        raise wrong("a sparse tensor that is made of something else than tensors")
    if any(t.dtype not in (_dtype.int64, _dtype.int32) for t in tensors[:-1]):
        raise wrong("a sparse tensor whose places are no integers")
    try:  # numbers are read later: kernels check the places they are given
        if kind is sparse_coo:
            coalesced = len(data) > 3 and data[3] is True
            return creation.sparse_coo_tensor(
                *tensors, size, check_invariants=False, is_coalesced=coalesced
            )
        return creation.sparse_compressed_tensor(
            *tensors, size, layout=kind, check_invariants=False
        )
    except (RuntimeError, TypeError, IndexError) as error:
        raise wrong(f"a sparse tensor that is none: {error}") from None


def rebuild_nested(memory, sizes, strides, offsets):
    """A nested tensor of pieces in one memory."""
    from flambeau.nested.strided import PiecewiseTensor  # few files have such tensors

    parts = (memory, sizes, strides, offsets)
    if not all(type(t) is Tensor for t in parts) or memory.dim() != 1:
        raise wrong("a nested tensor that is none")
    try:
        places = zip(sizes.tolist(), strides.tolist(), offsets.tolist())
        held = memory.detach()
        pieces = [held.as_strided(*place) for place in places]
        return PiecewiseTensor.of(pieces).requires_grad_(memory.requires_grad)
    except (RuntimeError, TypeError, ValueError) as error:
        raise wrong(f"a nested tensor that is none: {error}") from None


def rebuild_jagged(state):
    """A jagged tensor; PyTorch keeps the sizes of pieces as those of empty tensors."""
    from flambeau.nested.jagged import from_values  # few files have such tensors

    try:
        values, offsets, lengths = state["values"], state["offsets"], state["lengths"]
        ragged, sizes = state["_ragged_idx"], state["_metadata_cache"]
        parts = (values, offsets) if lengths is None else (values, offsets, lengths)
        if not all(type(t) is Tensor for t in parts) or type(ragged) is not int:
            raise TypeError
        if any(t.is_floating_point() or t.dim() != 1 for t in parts[1:]):
            raise TypeError
        starts, extent = offsets.tolist(), values.shape[ragged - 1]
        counts = [] if lengths is None else lengths.tolist()
        ends = [*starts[-1:], *(start + count for start, count in zip(starts, counts))]
        if min(starts[0], *counts, 0) < 0 or starts != sorted(starts) or max(ends) > extent:
            raise ValueError
        known = {name: t.shape[0] for name, t in sizes.items() if type(t) is Tensor}
        out = from_values(values.detach(), offsets, lengths, ragged, known)
        return out.requires_grad_(state["requires_grad"])
    except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError):
        raise wrong("a jagged tensor that is none") from None


class DimRange:
    """What PyTorch's compiler notes beside tensors of a jagged one: nothing here."""

    def __setstate__(self, state):
        pass


def encode(text, encoding="latin1"):
    """How old pickles write bytes."""
    known = isinstance(encoding, str) and encoding in ("latin1", "latin-1", "utf-8")
    if not isinstance(text, str) or not known:
        raise wrong("bytes in an unknown encoding")
    return codecs.encode(text, encoding)


def make_bytearray(data=b"", *encoding):
    if encoding:
        data = encode(data, *encoding)
    if not isinstance(data, (bytes, bytearray)):
        raise wrong("a bytearray made of something else than bytes")
    return bytearray(data)


_TENSOR_FUNCTIONS = (
    rebuild_tensor,
    rebuild_tensor_v2,
    rebuild_tensor_v3,
    rebuild_meta_tensor,
    rebuild_quantized,
    rebuild_sparse,
)

ALLOWED = {
    "torch._utils._rebuild_tensor": rebuild_tensor,
    "torch._utils._rebuild_tensor_v2": rebuild_tensor_v2,
    "torch._utils._rebuild_tensor_v3": rebuild_tensor_v3,
    "torch._utils._rebuild_meta_tensor_no_storage": rebuild_meta_tensor,
    "torch._utils._rebuild_qtensor": rebuild_quantized,
    "torch._utils._rebuild_sparse_tensor": rebuild_sparse,
    "torch._utils._rebuild_nested_tensor": rebuild_nested,
    "torch.nested._internal.nested_tensor._rebuild_njt": rebuild_jagged,
    "torch._dynamo.decorators._DimRange": DimRange,
    "torch._utils._rebuild_parameter": rebuild_parameter,
    "torch._utils._rebuild_parameter_with_state": rebuild_parameter_with_state,
    "torch._tensor._rebuild_from_type_v2": rebuild_from_type,
    "torch.serialization._get_layout": get_layout,
    "torch.Size": Size,
    "torch.Tensor": Tensor,
    "torch.device": device,
    "torch.storage.UntypedStorage": UNTYPED,
    "collections.OrderedDict": OrderedDict,
    "collections.Counter": Counter,
    "builtins.set": set,
    "builtins.complex": complex,
    "builtins.bytearray": make_bytearray,
    "_codecs.encode": encode,
}
ALLOWED.update({f"torch.{d.name}": d for d in _dtype.ALL})
ALLOWED.update({f"torch.{d.name}": d for d in _dtype.FLOAT8.values()})
ALLOWED.update({f"torch.{d.name}": d for d in (*_dtype.QUANTIZED, *_dtype.SMALL_INTEGERS.values())})
ALLOWED.update({f"torch.{name}": scheme for name, scheme in _qscheme.ALL.items()})
ALLOWED.update({f"torch.{kind.name}": kind for kind in KINDS.values()})
ALLOWED.update({f"torch.cuda.{kind.name}": kind for kind in KINDS.values()})

_SPOKEN_AS_THEY_ARE = (Counter, OrderedDict, set, complex, make_bytearray, encode)
# ours -> (module, name) that a file shall say
SPOKEN = {
    value: tuple(name.rsplit(".", 1))
    for name, value in ALLOWED.items()
    if value not in _SPOKEN_AS_THEY_ARE and "cuda" not in name
}

# files of ours that are one file in PyTorch
_HOMES = {
    "flambeau.nested.jagged": "torch.nested._internal.nested_tensor",
    "flambeau.nn.modules.attention": "torch.nn.modules.activation",
    "flambeau.nn.modules.loss_margin": "torch.nn.modules.loss",
    "flambeau.nn.modules.parameter_containers": "torch.nn.modules.container",
    "flambeau.nn.modules.rnn_cells": "torch.nn.modules.rnn",
    "flambeau.nn.modules.transformer_layers": "torch.nn.modules.transformer",
}
_SCHEDULERS = "flambeau.optim.lr_scheduler"


def spoken_name(obj, name=None):
    """(module, name) that a file says for an object of ours; None for the objects of others."""
    try:
        found = SPOKEN.get(obj)
    except TypeError:  # it has no hash
        found = None
    if found is not None:
        return found
    name = name or getattr(obj, "__qualname__", None) or getattr(obj, "__name__", "")
    module = whichmodule(obj, name)
    if module.partition(".")[0] in ("torch", "torchvision"):  # as classes say under the runner
        module = getattr(sys.modules.get(module), "__name__", module)
        module = "flambeau" if module == "torch" else module
    if module.partition(".")[0] != "flambeau" or not _resolves(module, name, obj):
        return None
    if module.startswith(_SCHEDULERS) and _resolves(_SCHEDULERS, name, obj):
        module = _SCHEDULERS
    if module.startswith("flambeau.vision"):
        return "torchvision" + module.removeprefix("flambeau.vision"), name
    return _HOMES.get(module) or "torch" + module.removeprefix("flambeau"), name


def _resolves(module, path, obj):
    found = sys.modules.get(module)
    for part in path.split("."):
        found = getattr(found, part, None)
    return found is obj
