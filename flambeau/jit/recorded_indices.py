"""Indices in recordings: selections, slices and new dimensions, one after the other."""

from typing import Any

import flambeau
from flambeau import _dtype, interposing
from flambeau._tensor import Tensor
from flambeau.jit import types as T
from flambeau.jit.building import Building
from flambeau.jit.ir import Value
from flambeau.jit.traced_numbers import untraced


class RecordedIndices(Building):
    """The part of a recorder that knows square brackets."""

    known: Any
    track: Any
    value_for: Any
    _mine: Any

    def _index(self, key, function, args, kwargs):
        plain = untraced(args)
        if not self.known(args):
            return function(*plain, **kwargs)
        tensor, index = args[0], args[1]
        if key == "__getitem__":
            result = function(*plain, **kwargs)
            self.track(result, self._indexed(tensor, index))
            return result
        self._write(tensor, index, args[2])
        return function(*plain, **kwargs)

    def _steps(self, tensor, index):
        """(the value after selections and slices, indices that are tensors)"""
        items = list(index) if isinstance(index, tuple) else [index]
        used = sum(item is not None and item is not ... for item in items)
        used += sum(item.ndim - 1 for item in items if _is_mask(item))
        value, dim, indices = self.value_for(tensor), 0, []
        for item in items:
            if item is ...:
                skipped = tensor.ndim - used
                dim += skipped
                indices.extend([None] * skipped)
            elif item is None:
                value = self._apply("aten::unsqueeze", value, dim)
                dim += 1
                indices.append(None)
            elif isinstance(item, int) and not isinstance(item, bool):
                value = self._apply("aten::select", value, dim, item)
            elif isinstance(item, slice):
                if item != slice(None):
                    step = 1 if item.step is None else item.step
                    value = self._apply("aten::slice", value, dim, item.start, item.stop, step)
                dim += 1
                indices.append(None)
            else:
                indices.append(self._index_tensor(item))
                dim += item.ndim if _is_mask(item) else 1
        return value, indices

    def _index_tensor(self, item):
        if isinstance(item, Tensor):
            return self.value_for(item)
        with interposing.switched_off(*self._mine()):
            made = flambeau.tensor(untraced(item))
        return self.value_for(made)

    def _apply(self, op, *parts):
        values = [p if isinstance(p, Value) else self.value_for(p) for p in parts]
        return self.value_of(self.builtin(op, None, values), None)

    def _indexed(self, tensor, index):
        value, indices = self._steps(tensor, index)
        if not any(i is not None for i in indices):
            return self._apply("aten::alias", value) if value is self.value_for(tensor) else value
        return self._apply("aten::index", value, self._listed_indices(indices))

    def _listed_indices(self, indices):
        given = [self.constant(None) if i is None else i for i in indices]
        return self.node("prim::ListConstruct", given, T.ListOf(T.OptionalOf(T.TENSOR)), None)

    def _write(self, tensor, index, found):
        value, indices = self._steps(tensor, index)
        given = self.value_for(found)
        if not any(i is not None for i in indices):
            op = "aten::copy_" if given.type_ == T.TENSOR else "aten::fill_"
            self.builtin(op, None, [value, given])
            return
        if given.type_ != T.TENSOR:
            with interposing.switched_off(*self._mine()):
                given = self.value_for(flambeau.tensor(found, dtype=tensor.dtype))
        self.builtin("aten::index_put_", None, [value, self._listed_indices(indices), given])


def _is_mask(item):
    return isinstance(item, Tensor) and item.dtype is _dtype.bool_
