"""a[...] and a[...] = b: what stands between the brackets, taken apart.

Integers, slices, None and Ellipsis give a view; one pass over them works out its shape, strides and
offset. If gradients are wanted, the view is made item by item with the view rows instead, so that
the graph shows what PyTorch's does. Tensors, masks and sequences then index that view
(eager/indexing.py). As in call.py, speed outranks prose in the paths without gradients.
"""

import operator
import warnings

from flambeau import _dtype as d
from flambeau._layout import make_layout
from flambeau._tensor import Tensor
from flambeau._tensor.attachment import METHODS
from flambeau.autograd.grad_mode import modes
from flambeau.eager import creation
from flambeau.eager.copying import copy_, copy_into, fill_into
from flambeau.eager.formula import recorder
from flambeau.eager.fragments import follow_makers
from flambeau.eager.indexing import (
    beside,
    index,
    index_put,
    number_tensor,
    warn_bytes,
    whole_mask,
    write_row,
)
from flambeau.eager.methods import function
from flambeau.eager.overlaps import check_overlap
from flambeau.ops.indexing import check_fits
from flambeau.ops.table import TABLE

_LAST = 2**63 - 1  # the largest step

SCALARS = (bool, int, float, complex)


# -- errors --------------------------------------------------------------------------------------


def _outside(index, dim, size):
    if not -_LAST - 1 <= index <= _LAST:
        return ValueError("Overflow when unpacking long long")
    return IndexError(f"index {index} is out of bounds for dimension {dim} with size {size}")


def _too_many(ndim):
    return IndexError(f"too many indices for tensor of dimension {ndim}")


def _no_dims():
    return IndexError(
        "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in "
        "C++ to convert a 0-dim tensor to a number"
    )


def _no_slice():
    return IndexError("slice() cannot be applied to a 0-dim tensor.")


def _invalid(item):
    kind = type(item)
    name = (
        kind.__name__
        if kind.__module__ in ("builtins", "__main__")
        else f"{kind.__module__}.{kind.__name__}"
    )
    return IndexError(
        "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are "
        f"valid indices (got {name})"
    )


# -- views -----------------------------------------------------------------------------------------


follow_makers(globals())


def _view(input, layout, offset):
    """A tensor over the memory of input, without history."""
    out = _share(input, layout, offset, modes.grad)  # noqa: F821
    if input._requires_grad:
        out._requires_grad = True
    return out


def _basic(layout, items):
    """(layout, byte offset) for integers, slices, None and Ellipsis; None for other items."""
    shape, strides, ndim = layout.sizes, layout.strides, layout.ndim
    sizes, steps, dim, offset = [], [], 0, 0
    for n, item in enumerate(items):
        kind = type(item)
        if kind is int:
            if dim >= ndim:
                raise _too_many(ndim)
            size = shape[dim]
            if item < 0:
                item += size
            if not 0 <= item < size:
                raise _outside(item if item >= size else item - size, dim, size)
            offset += item * strides[dim]
            dim += 1
        elif kind is slice:
            if dim >= ndim:
                raise _too_many(ndim) if ndim or len(items) > 1 else _no_slice()
            start, stop, step = item.indices(shape[dim])
            stride = strides[dim]
            if step == 1:
                sizes.append(stop - start if stop > start else 0)
                steps.append(stride)
            elif step > 0:
                sizes.append((stop - start + step - 1) // step if stop > start else 0)
                steps.append(min(stride * step, _LAST))  # nothing is there to step to, if so
            else:
                _bad_step(item)
            # an empty slice starts where it says, as long as that is inside
            offset += start * stride
            dim += 1
        elif item is None:
            sizes.append(1)
            steps.append(shape[dim] * strides[dim] if dim < ndim else 1)
        elif item is Ellipsis:
            skip = ndim - dim
            for other in items[n + 1 :]:
                if other is Ellipsis:
                    return None
                if other is not None:
                    skip -= 1
            if skip < 0:
                raise _too_many(ndim)
            sizes.extend(shape[dim : dim + skip])
            steps.extend(strides[dim : dim + skip])
            dim += skip
        else:
            return None
    if dim < ndim:
        sizes.extend(shape[dim:])
        steps.extend(strides[dim:])
    return make_layout(
        tuple(sizes), tuple(steps), layout.dtype, layout.device
    ), offset * layout.itemsize


def _bad_step(item):
    try:
        operator.index(item.step)
    except TypeError:
        raise TypeError(
            "slice indices must be integers or None or have an __index__ method"
        ) from None
    if item.step == 0:
        raise ValueError("slice step cannot be zero")
    raise ValueError("step must be greater than zero")


# -- anything between brackets ---------------------------------------------------------------------


def _as_tuple(key):
    """The items between the brackets. PyTorch reads some sequences as tuples."""
    kind = type(key)
    if kind is tuple:
        return key
    if kind is int or kind is slice or key is None or key is Ellipsis or isinstance(key, Tensor):
        return (key,)
    if isinstance(key, tuple):
        return tuple(key)
    if kind is list and len(key) < 32:
        for item in key:
            if (
                item is None
                or item is Ellipsis
                or isinstance(item, (Tensor, slice, list, tuple, range, str))
                or _is_array(item)
            ):
                warnings.warn(
                    "Using a non-tuple sequence for multidimensional indexing is deprecated and "
                    "will be changed in pytorch 2.9; use x[tuple(seq)] instead of x[seq]. In "
                    "pytorch 2.9 this will be interpreted as tensor index, x[torch.tensor(seq)], "
                    "which will result either in an error or a different result",
                    stacklevel=4,
                )
                return tuple(key)
    return (key,)


def _is_array(item):
    return hasattr(item, "__array__") and getattr(item, "shape", ()) != ()


def _item(item):
    """An item as int, slice, None, Ellipsis, bool or Tensor."""
    kind = type(item)
    if kind is int or kind is slice or kind is bool or item is None or item is Ellipsis:
        return item
    if isinstance(item, Tensor):
        layout = item._layout
        if layout.ndim == 0 and layout.dtype.category == d.INTEGER and layout.dtype is not d.uint8:
            return item.item()
        return item
    if isinstance(item, (list, tuple, range, str)) or _is_array(item):
        return _sequence(item)
    if isinstance(item, float) or kind.__name__ in ("bool", "bool_"):
        raise _invalid(item)
    try:
        return operator.index(item)
    except TypeError:
        raise _invalid(item) from None


def _sequence(item):
    if isinstance(item, str):
        raise TypeError("new(): invalid data type 'str'")
    found = creation.tensor(list(item) if isinstance(item, (range, tuple)) else item)
    return (
        found.to(d.int64)
        if not found._layout.numel and found.dtype.category == d.FLOATING
        else found
    )


def _specified(items):
    """How many dimensions items speak of."""
    count = 0
    for i in items:
        if isinstance(i, Tensor):
            count += i._layout.ndim if i._layout.dtype in (d.bool_, d.uint8) else 1
        elif i is not None and i is not Ellipsis and type(i) is not bool:
            count += 1
    return count


def _take_apart(input, key):
    """(view of input, index tensors per dimension or None): slices and integers are applied."""
    items = [_item(i) for i in _as_tuple(key)]
    ndim = input._layout.ndim
    if len(items) == 1 and not ndim:
        if type(items[0]) is int and not isinstance(key, Tensor):
            raise _no_dims()
        if type(items[0]) is slice:
            raise _no_slice()
    specified = _specified(items)
    if specified > ndim:
        raise _too_many(ndim)
    select, unsqueeze = function("select"), function("unsqueeze")
    result, dim, tensors = input, 0, {}
    original = 0  # the dimension of the input, for messages
    for item in items:
        kind = type(item)
        if kind is int:
            size = result._layout.shape[dim]
            if not -size <= item < size:
                raise _outside(item, original, size)
            result = select(result, dim, item)
            original += 1
        elif kind is slice:
            result = _slice(result, dim, item)
            dim, original = dim + 1, original + 1
        elif item is None:
            result = unsqueeze(result, dim)
            dim += 1
        elif item is Ellipsis:
            skip = ndim - specified
            dim, original = dim + skip, original + skip
        elif kind is bool or item._layout.ndim == 0:
            result = unsqueeze(result, dim)
            tensors[dim] = _flag(item)
            dim += 1
        else:
            tensors[dim] = item
            used = item._layout.ndim if item._layout.dtype in (d.bool_, d.uint8) else 1
            dim, original = dim + used, original + used
    if not tensors:
        return (result if result is not input else function("alias")(input)), None
    return result, _in_order(tensors)


def _in_order(tensors):
    """Index tensors as a list, None for the dimensions between them; a mask speaks for several."""
    found, at = [], 0
    for dim, t in sorted(tensors.items()):
        found += [None] * (dim - at)
        found.append(t)
        at = dim + (t._layout.ndim if t._layout.dtype in (d.bool_, d.uint8) else 1)
    return tuple(found)


def _flag(item):
    """A bool scalar (or 0-d mask) as an index for a dimension of size 1."""
    if isinstance(item, Tensor):
        if item.dtype not in (d.bool_, d.uint8):
            raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
        item = bool(item.item())
    return creation.tensor([0] if item else [], dtype=d.int64)


def _slice(input, dim, item):
    size = input._layout.shape[dim]
    if item.step is not None and item.step <= 0:
        _bad_step(item)
    start, stop, step = item.indices(size)
    if start == 0 and stop == size and step == 1:
        return input
    return function("slice")(input, dim, start, max(start, stop), min(step, _LAST))


def get_item(self, key):
    """A view for integers, slices, None and Ellipsis; with tensors, a copy of what they name."""
    layout = self._layout
    if not self._requires_grad or not modes.grad:
        out = _subscript(self, key, modes.grad)  # noqa: F821
        if out is not None:
            return out
        kind = type(key)
        if kind is tuple or kind is int or kind is slice or key is None or key is Ellipsis:
            if kind is int and not layout.ndim:
                raise _no_dims()
            found = _basic(layout, key if kind is tuple else (key,))
            if found is not None:
                return _view(self, found[0], self._offset + found[1])
    elif type(key) is int and layout.ndim:
        size = layout.shape[0]
        if not -size <= key < size:
            raise _outside(key, 0, size)
        return function("select")(self, 0, key)
    if isinstance(key, Tensor):
        found = key._layout
        if found.ndim and (
            (found.dtype is d.int64 and layout.ndim)
            or (found.dtype is d.bool_ and found.shape == layout.shape)
        ):
            return _indexed(self, (key,))
    elif type(key) is tuple and len(key) <= layout.ndim and _are_places(key):
        return _indexed(self, key)
    result, indices = _take_apart(self, key)
    if indices is None:
        return result
    return _indexed(result, _without_bytes(indices))


def _are_places(items):
    """Are these tensors of integers, one for each of the first dimensions?"""
    for i in items:
        if type(i) is not Tensor or i._layout.dtype is not d.int64 or not i._layout.ndim:
            return False
    return len(items) > 0


def _indexed(input, indices):
    """The elements that index tensors name, recorded if somebody wants gradients."""
    out = index(input, indices)
    if input._requires_grad and modes.grad:
        recorder(TABLE["index"])((out,), input, indices)
    return out


def _without_bytes(indices):
    """Index tensors with masks of bytes as masks of bools, which is said."""
    if not any(t is not None and t._layout.dtype is d.uint8 for t in indices):
        return indices
    found = []
    for t in indices:
        if t is not None and t._layout.dtype is d.uint8:
            warn_bytes(4)
            t = t != 0
        found.append(t)
    return tuple(found)


def _value(input, value):
    """What is assigned, as a tensor or a number."""
    if isinstance(value, Tensor):
        return value
    if type(value) in SCALARS:
        return value
    item = getattr(value, "item", None)
    if item is not None and getattr(value, "shape", None) == () and not isinstance(value, str):
        return item()
    kind = type(value)
    name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
    raise TypeError(f"can't assign a {name} to a torch.{input.dtype.scalar_name}Tensor")


def set_item(self, key, value):
    """Write a tensor or a number over the elements that key names."""
    value = _value(self, value)
    plain = not modes.grad or not (
        self._requires_grad or (isinstance(value, Tensor) and value._requires_grad)
    )
    if plain:
        kind = type(key)
        if kind is tuple or kind is int or kind is slice or key is None or key is Ellipsis:
            if kind is int and not self._layout.ndim:
                raise _no_dims()
            found = _basic(self._layout, key if kind is tuple else (key,))
            if found is not None:
                return _assign_plain(_view(self, found[0], self._offset + found[1]), value)
    if (
        isinstance(key, Tensor)
        and key._layout.ndim
        and key._layout.dtype in (d.int64, d.bool_)
        and self._layout.ndim
    ):
        if plain and _is_whole_mask(self._layout, key._layout) and not isinstance(value, Tensor):
            self.masked_fill_(key, value)
            return None
        return _put(self, (key,), value)
    if type(key) is bool:
        return _assign(function("unsqueeze")(self, 0), value) if key else None
    part, indices = _take_apart(self, key)
    if indices is None:
        return _assign(part, value)
    return _put(part, _without_bytes(indices), value)


def _is_whole_mask(layout, mask):
    return mask.dtype is d.bool_ and mask.sizes == layout.sizes and mask.device is layout.device


def _put(part, indices, value):
    """part[indices] = value, through index_put_."""
    plain = not modes.grad or not (
        part._requires_grad or (isinstance(value, Tensor) and value._requires_grad)
    )
    if plain and not isinstance(value, Tensor) and whole_mask(part, indices) is not None:
        part.masked_fill_(*beside(part, indices), value)
        return None
    if not isinstance(value, Tensor):
        check_fits(value, part.dtype)
        value = number_tensor(value, part.dtype, part.device)
    elif value.device is not part.device and not value._layout.ndim:
        value = value.to(part.device)
    if plain and part._layout.is_contiguous and value._storage.pointer != part._storage.pointer:
        index_put(part, indices, _without_ones(value), False)
        part._storage.version += 1
        return None
    bound = {"input": part, "indices": indices, "values": _without_ones(value), "accumulate": False}
    write_row(TABLE["index_put"], bound)
    return None


def _assign_plain(part, value):
    """Memory alone: nobody differentiates."""
    if isinstance(value, Tensor):
        if (
            value._layout.shape != part._layout.shape
            or value._storage.pointer == part._storage.pointer
            or value.device is not part.device
        ):
            return _assign(part, value)
        if not part._layout.is_contiguous:
            check_overlap(part, ())
        copy_into(part, value)
    else:
        check_fits(value, part._layout.dtype)
        if not part._layout.is_contiguous:
            check_overlap(part, ())
        fill_into(part, value)
    part._storage.version += 1
    return None


def _without_ones(value):
    """The value without leading dimensions of size 1."""
    shape = value._layout.shape
    k = 0
    while k < len(shape) and shape[k] == 1:
        k += 1
    return value.reshape(shape[k:]) if k else value


def _assign(part, value):
    """part.copy_(value), with PyTorch's broadcasting of what is assigned."""
    if not isinstance(value, Tensor):
        check_fits(value, part.dtype)
        part.fill_(value)
        return None
    shape = part._layout.shape
    if value._layout.shape != shape:
        if value._layout.ndim > len(shape):
            value = _without_ones(value)
        _check_expand(value, shape)
        if value._storage is part._storage:  # copy_ would refuse a part of what it writes
            value = value.expand(shape)
    copy_(part, value)
    return None


def _check_expand(value, shape):
    own = value._layout.shape
    if len(own) > len(shape):
        raise RuntimeError(
            f"expand(torch.{value.dtype.scalar_name}Tensor{{{list(own)}}}, size={list(shape)}): "
            f"the number of sizes provided ({len(shape)}) must be greater or equal to the number "
            f"of dimensions in the tensor ({len(own)})"
        )
    missing = len(shape) - len(own)
    for k in range(len(own) - 1, -1, -1):
        if own[k] != 1 and own[k] != shape[missing + k]:
            raise RuntimeError(
                f"The expanded size of the tensor ({shape[missing + k]}) must match the existing "
                f"size ({own[k]}) at non-singleton dimension {missing + k}.  "
                f"Target sizes: {list(shape)}.  Tensor sizes: {list(own)}"
            )


def delete_item(self, key):
    """PyTorch's words for `del a[...]`."""
    raise TypeError("Tensor does not support deleting items")


METHODS["__getitem__"], METHODS["__setitem__"] = get_item, set_item
METHODS["__delitem__"] = delete_item
