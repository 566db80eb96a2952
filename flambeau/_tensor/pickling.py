"""Copying and pickling of tensors: deepcopy, pickle, and what rebuilds a tensor from its parts."""

import copy
import copyreg

from flambeau import _device, _dtype
from flambeau._layout import Size, make_layout
from flambeau._tensor import Tensor, make_tensor
from flambeau._tensor.admission import admit
from flambeau._tensor.attachment import method
from flambeau.interposing.overriding import notice_tensor
from flambeau.runtime.cpu import address_of, place_of
from flambeau.storage import new_storage


def _slots(kind):
    """The names of the slots that a subclass adds."""
    return () if kind is Tensor else set(copyreg._slotnames(kind)) - set(Tensor.__slots__)


def attributes_of(t):
    """What a tensor has besides numbers: a dict, or a pair of it and what is in slots."""
    slots = {name: getattr(t, name) for name in _slots(type(t)) if hasattr(t, name)}
    return (t.__dict__, slots) if slots else t.__dict__


def give_attributes(t, attributes):
    """The inverse; names of slots that the class does not have are refused."""
    own, slots = attributes if isinstance(attributes, tuple) else (attributes, {})
    t.__dict__.update(own)
    for name, value in slots.items():
        if name not in _slots(type(t)):
            raise AttributeError(f"{type(t).__name__} has no slot {name!r}")
        setattr(t, name, value)


_USUAL_STATE = getattr(Tensor, "__getstate__", None)  # that of all objects, in newer Pythons


def state_of(t):
    """What pickles say of a tensor besides numbers; classes may say it by themselves."""
    own = getattr(type(t), "__getstate__", None)
    return attributes_of(t) if own is _USUAL_STATE else t.__getstate__()


def give_state(t, state):
    """The inverse."""
    if type(t).__setstate__ is Tensor.__setstate__:
        give_attributes(t, state)
    else:
        t.__setstate__(state)


@method
def __copy__(self):
    """Another tensor over the same memory, with the same attributes."""
    out = make_tensor(self._layout, self._storage, self._offset, type(self))
    out._requires_grad = self.requires_grad
    give_attributes(out, attributes_of(self))
    return out


@method
def __deepcopy__(self, memo):
    if not self.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy "
            "protocol at the moment.  If you were attempting to deepcopy a module, this may be "
            "because of a torch.nn.utils.weight_norm usage, see "
            "https://github.com/pytorch/pytorch/pull/103001"
        )
    if id(self) in memo:
        return memo[id(self)]
    storage = memo.get(("storage", id(self._storage)))
    if storage is None:
        own, device = self._storage, self._layout.device
        storage = new_storage(own.nbytes if device.runtime.computes else 0, device)
        device.runtime.copy(storage.pointer, own.pointer, storage.nbytes)
        quantizer = getattr(own, "quantizer", None)
        if quantizer is not None:
            storage.quantizer = quantizer
        memo["storage", id(self._storage)] = storage
    out = make_tensor(self._layout, storage, self._offset, type(self))
    out._requires_grad = self._requires_grad
    memo[id(self)] = out
    if self._grad is not None:
        out._grad = copy.deepcopy(self._grad, memo)
    attributes = attributes_of(self)
    if attributes:
        give_attributes(out, copy.deepcopy(attributes, memo))
    return out


def rebuild(
    cls, shape, strides, dtype, offset, data, requires_grad, attributes, device="cpu", parts=None
):
    """The inverse of pickling; parts describe the quantizer of a quantized tensor."""
    device = _device.resolve(device)
    storage = new_storage(len(data), device)
    device.runtime.write(storage.pointer, place_of(data), len(data))
    layout = make_layout(Size(shape), tuple(strides), _dtype.named(dtype), device)
    # the class is None for plain tensors, which are known under several names
    out = admit(layout, storage, offset, cls or Tensor)
    notice_tensor(type(out))
    out._requires_grad = requires_grad
    give_state(out, attributes)
    if parts is not None:
        from flambeau.eager import quantized  # with the first quantized tensor

        quantized.give_quantizer(storage, quantized.quantizer_from(parts, shape))
    return out


@method
def __reduce_ex__(self, protocol):
    data, t = b"", self
    runtime = self._layout.device.runtime
    if runtime.computes and self._storage.nbytes:
        if self._storage.nbytes > 2 * self.nbytes + 64:
            t = self.detach().clone()  # a small part of a large storage travels alone
        block = bytearray(t._storage.nbytes)
        runtime.read(address_of(block), t._storage.pointer, len(block))
        data = bytes(block)
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
        state_of(self),
        str(self.device),
    )
    if self.is_quantized:
        from flambeau.eager import quantized

        state = (*state, quantized.parts_of(self))
    return rebuild, state


@method
def __setstate__(self, state):
    raise RuntimeError("tensors are restored by their rebuild function")
