"""Layouts: shape, strides, dtype and device as one interned value, and pure functions on them.

Two tensors of the same kind share the very object, so plans can be keyed by identity. A layout has
no offset and no memory: those belong to the tensor.
"""

import math
import operator
from itertools import accumulate, chain

from flambeau import errors
from flambeau._natively import natively


def _whole(place_and_value):
    place, value = place_and_value
    if getattr(value, "is_symbolic_int", False):  # a size that is being recorded
        return value
    try:
        return operator.index(value)
    except TypeError:
        name = type(value).__name__
        raise TypeError(
            f"torch.Size() takes an iterable of 'int' (item {place} is '{name}')"
        ) from None


class Size(tuple):
    """The shape of a tensor: a tuple with a number of elements."""

    __slots__ = ()

    def __new__(cls, sizes=()):
        self = tuple.__new__(cls, sizes)
        for s in self:
            if type(s) is not int:
                return tuple.__new__(cls, map(_whole, enumerate(self)))
        return self

    def numel(self):
        return math.prod(self)

    def __repr__(self):
        return f"torch.Size([{', '.join(map(str, self))}])"

    def __add__(self, other):
        if not isinstance(other, tuple):
            theirs = getattr(type(other), "__radd__", None)
            found = NotImplemented if theirs is None else theirs(other, self)
            if found is not NotImplemented:
                return found
            name = type(other).__name__
            raise TypeError(f"can only concatenate tuple (not {name}) to torch.Size")
        return Size(tuple.__add__(self, other))

    def __radd__(self, other):
        return Size(tuple(other) + tuple(self)) if isinstance(other, tuple) else NotImplemented

    def __mul__(self, times):
        return Size(tuple(self) * times)

    __rmul__ = __mul__

    def __getitem__(self, index):
        item = tuple.__getitem__(self, index)
        return Size(item) if type(index) is slice else item

    def __reduce__(self):
        return Size, (tuple(self),)


class Layout:
    """How a tensor's elements are arranged; compare with `is`. Strides count elements.

    sizes: the shape as a plain tuple, which is quicker to take apart than a Size. is_contiguous:
    are elements side by side in row-major order? is_dense: and do strides say so letter for letter
    (those of dimensions of size 1 could be anything)? sort: one layout that stands for all of this
    dtype and device that hold something and fill their memory without gaps, in whatever order of
    dimensions; None for the others. pool: where memory for it comes from.

    There is no __getattr__ that would fill fields in when they are asked for: with one, CPython
    reads every field three times as slowly.
    """

    __slots__ = (
        "shape",
        "sizes",
        "strides",
        "dtype",
        "device",
        "ndim",
        "numel",
        "nbytes",
        "itemsize",
        "is_contiguous",
        "is_dense",
        "sort",
        "pool",
    )

    def __repr__(self):
        return (
            f"Layout({tuple(self.shape)}, strides={self.strides}, {self.dtype.name}, {self.device})"
        )

    def __reduce__(self):
        return make_layout, (self.sizes, self.strides, self.dtype, self.device)


class SparseLayout(Layout):
    """The layout of a tensor that has no strides: others hold its elements (flambeau/_sparse/).

    kind: PyTorch's layout, such as sparse_coo. No kernel can be planned for it.
    """

    __slots__ = ("kind",)

    def __repr__(self):
        return f"SparseLayout({tuple(self.shape)}, {self.kind}, {self.dtype.name}, {self.device})"

    def __reduce__(self):
        return sparse_layout, (self.sizes, self.dtype, self.device, self.kind)


_sparse: dict = {}  # facts -> sparse layout, by first use


def sparse_layout(shape, dtype, device, kind):
    """The layout of a sparse tensor with these facts."""
    facts = tuple(shape), dtype, device, kind
    found = _sparse.get(facts)
    if found is None:
        found = _sparse[facts] = _new(SparseLayout)
        found.shape, found.sizes, found.strides = Size(shape), tuple(shape), None
        found.dtype, found.device, found.kind = dtype, device, kind
        found.ndim, found.numel, found.itemsize = len(shape), math.prod(shape), dtype.itemsize
        found.nbytes = 0
        found.is_contiguous = found.is_dense = False
        found.sort = found.pool = None
        if min(shape, default=0) < 0 or found.numel > errors.LARGEST:
            del _sparse[facts]
            raise RuntimeError("numel: integer multiplication overflow")
        if len(_sparse) > ROOM:
            del _sparse[next(iter(_sparse))]
    return found


@natively
def contiguous_strides(shape: tuple):
    """Strides of a dense row-major tensor."""
    strides = [1 for _ in shape]
    step = 1
    for k in range(len(shape) - 1, -1, -1):
        strides[k] = step
        step *= max(shape[k], 1)
    return tuple(strides)


_new = object.__new__
_new_size = tuple.__new__


def make_layout(shape, strides, dtype, device):
    """The layout with these facts; the same facts give the same object while it is in use.

    Native code remembers some thousand layouts (codegen/templates/objects_layouts.py). One that was
    not asked for while many others were is forgotten there. Somebody may still hold it, so two
    layouts may have the same facts: plans are merely made again, and who must know asks
    `same_layout`.
    """
    return _found(shape, strides, dtype, device) or _odd(shape, strides, dtype, device)


def _odd(shape, strides, dtype, device):
    """The same for numbers that native code does not know: True, integers of NumPy."""
    shape, strides = tuple(Size(shape)), tuple(strides)
    return _found(shape, strides, dtype, device) or worked_out((shape, strides, dtype, device))


def dense_layout(shape, dtype, device):
    """A row-major layout."""
    return _dense(shape, dtype, device) or make_layout(
        shape, contiguous_strides(shape), dtype, device
    )


ROOM = 1 << 10
_first: dict = {}  # facts -> layout until there is native code, by last use


def _found(*facts):
    found = _first[facts] = _first.pop(facts, None) or worked_out(facts)
    if len(_first) > ROOM:
        del _first[next(iter(_first))]
    return found


def _dense(shape, dtype, device):
    return None


def make_natively(layout, dense, enter):
    """Let native code find and make layouts."""
    global _found, _dense
    for known in _first.values():
        enter(known)
    _first.clear()
    _found, _dense = layout, dense


def same_layout(a, b):
    """Do two layouts state the same facts?"""
    return a is b or (
        a.shape == b.shape
        and a.strides == b.strides
        and a.dtype is b.dtype
        and a.device is b.device
    )


POOLS: dict = {}  # device -> pools of small blocks, by 64 bytes; for those that have such a list
_sorts: dict = {}  # device -> dtype -> the layout that stands for dense ones


def worked_out(facts):
    """A new layout from its facts (sizes, strides, dtype, device)."""
    sizes, strides, dtype, device = facts
    self = _new(Layout)
    for s in sizes:
        if type(s) is not int:
            sizes = Size(sizes)
            break
    self.shape = sizes if type(sizes) is Size else _new_size(Size, sizes)
    sizes = tuple(sizes)
    if type(strides) is not tuple:
        strides = tuple(strides)
    self.sizes, self.strides, self.dtype, self.device = sizes, strides, dtype, device
    self.ndim = ndim = len(sizes)
    self.itemsize = itemsize = dtype.itemsize
    if ndim == 1:
        (numel,) = sizes
        is_dense = strides == (1,)
        is_contiguous = is_dense or numel < 2
    else:
        numel, is_contiguous, is_dense = 1, True, True
        for size, stride in zip(sizes[::-1], strides[::-1]):
            if size != 1:
                if stride != numel:
                    is_contiguous = is_dense = False
                numel *= size
            elif stride != numel:
                is_dense = False
        if not numel:
            is_contiguous, is_dense = True, strides == contiguous_strides(sizes)
    self.numel, self.is_contiguous, self.is_dense = numel, is_contiguous, is_dense
    self.nbytes = numel * itemsize
    _check_sizes(self)
    self.sort = _sort_of(self)
    return complete(self)


def _check_sizes(layout):
    """No layout has numbers that native code could not hold: such sizes are refused here."""
    sizes, strides, largest = layout.sizes, layout.strides, errors.LARGEST
    if len(sizes) != len(strides):
        raise RuntimeError("mismatch in length of strides and shape")
    if min(sizes, default=0) < 0:
        raise errors.negative_dimension(sizes)
    if max(accumulate(sizes, operator.mul), default=0) > largest or layout.nbytes > largest:
        if layout.is_contiguous:
            raise errors.storage_overflow(sizes)
        if layout.numel > largest:
            raise RuntimeError("numel: integer multiplication overflow")
    for size, stride in zip(sizes, strides):
        if abs(stride) * (layout.itemsize if size > 1 else 1) > largest:
            raise RuntimeError("Stride calculation overflowed")


DEVICES: set = set()  # where there are layouts


def complete(layout):
    """Fill in what native code does not know: a pool for much memory."""
    DEVICES.add(layout.device)
    layout.pool = layout.device.runtime.pool_for(layout.nbytes)
    return layout


def _sort_of(layout):
    if not layout.numel:
        return None
    if not layout.is_dense and (layout.is_contiguous or not is_dense_in_some_order(layout)):
        return None
    if not layout.ndim:
        return layout
    known = _sorts.setdefault(layout.device, {})
    found = known.get(layout.dtype)
    if found is None:
        stands = layout.sizes == (2,) and layout.is_dense
        found = layout if stands else make_layout((2,), (1,), layout.dtype, layout.device)
        known[layout.dtype] = found
    return found


NEEDED = {  # by native code
    "Layout": Layout,
    "Size": Size,
    "sorts": _sorts,
    "pools": POOLS,
    "worked_out": worked_out,
    "complete": complete,
}


def is_dense_in_some_order(layout):
    """Do the elements fill a block without gaps or overlaps, in whatever order of dimensions?"""
    if layout.is_contiguous or layout.numel < 2:
        return True
    if 0 in layout.strides:
        return False
    if layout.ndim == 2:
        return layout.strides == (1, layout.sizes[0])
    pairs = sorted([(st, s) for s, st in zip(layout.sizes, layout.strides) if s != 1])
    expected = 1
    for stride, size in pairs:
        if stride != expected:
            return False
        expected *= size
    return True


def suggests_channels_last(layout):
    """Does PyTorch take this layout for one with channels last?

    Dimensions of size one leave it open, and are read as PyTorch reads them.
    """
    if layout.is_contiguous or layout.ndim not in (4, 5) or layout.numel == 0:
        return False
    return bool(_channels_inside(layout.sizes, layout.strides))


@natively
def _channels_inside(sizes: tuple, strides: tuple):
    if strides[1] == 0:
        return False
    least = 0
    ndim = len(sizes)
    for k in range(ndim):  # channels, then from the width outwards, images last
        d = ndim - k if 0 < k < ndim - 1 else 1 if k == 0 else 0
        if strides[d] < least or (d == 0 and least == strides[1]):
            return False
        least = strides[d] * sizes[d]
    return True


def overlaps_itself(layout):
    """Do several index tuples surely name the same element, as in an expanded dimension?"""
    return (
        any(st == 0 and s > 1 for s, st in zip(layout.shape, layout.strides)) and layout.numel > 0
    )


def maybe_overlaps(shape, strides):
    """May several index tuples name the same element? False is sure."""
    if 0 in shape:
        return False
    reach = 0
    for stride, size in sorted((st, s) for s, st in zip(shape, strides) if s != 1):
        if stride <= reach:
            return True
        reach += (size - 1) * stride
    return False


def span(layout):
    """Elements between the first and one past the last reached."""
    if layout.numel == 0:
        return 0
    return 1 + sum((s - 1) * st for s, st in zip(layout.shape, layout.strides))


def wrap_dim(dim, ndim, scalar_ok=True):
    """A dimension counted from either end as one counted from the front."""
    if type(dim) is not int:
        dim = operator.index(dim)
    n = ndim if ndim or not scalar_ok else 1
    if -n <= dim < n:
        return dim + n if dim < 0 else dim
    raise errors.dimension_out_of_range(dim, ndim)


def broadcast_shape(*shapes):
    """The common shape, by PyTorch's rules."""
    return Size(broadcast_sizes(shapes))


def broadcast_sizes(shapes):
    """The same of plain tuples, as one."""
    out = shapes[0]
    for shape in shapes:
        if shape != out:
            turned = len(out) < len(shape)
            out = broadcast_pair(shape, out, True) if turned else broadcast_pair(out, shape, False)
    return tuple(out)


@natively
def broadcast_pair(wide: tuple, narrow: tuple, turned):
    """Two shapes, the longer one first."""
    found = list(wide)
    shift = len(wide) - len(narrow)
    for k in range(len(narrow) - 1, -1, -1):
        a = found[shift + k]
        b = narrow[k]
        if a == 1:
            found[shift + k] = b
        elif b not in (1, a):
            raise errors.not_broadcastable(b if turned else a, a if turned else b, shift + k)
    return tuple(found)


def expanded_strides(layout, shape):
    """Strides of a tensor spread over a larger shape: 0 where it repeats."""
    own = layout.sizes
    return layout.strides if own == shape else _expanded(own, layout.strides, shape)


@natively
def _expanded(own: tuple, strides: tuple, shape: tuple):
    missing = len(shape) - len(own)
    found = [0 for _ in range(missing)]
    for k in range(len(own)):
        found.append(0 if own[k] == 1 and shape[missing + k] != 1 else strides[k])
    return tuple(found)


@natively
def memory_order(shape: tuple, strides: tuple):
    """Dimensions from the outermost to the innermost, by PyTorch's rule for elementwise results.

    strides: those of all operands, one after the other. Earlier operands speak first; a zero stride
    or equal strides leave the question to the next one.
    """
    ndim = len(shape)
    order = list(range(ndim - 1, -1, -1))  # innermost first
    for i in range(1, ndim):
        k = i
        for j in range(i - 1, -1, -1):
            answer = _is_outside(order[j], order[k], shape, strides)
            if answer > 0:
                order[j], order[k] = order[k], order[j]
                k = j
            elif answer < 0:
                break
    return tuple(order[::-1])


@natively
def _is_outside(d0, d1, shape: tuple, strides: tuple):
    """Does one dimension belong outside another? 1, -1 or, where nobody can say, 0."""
    for at in range(0, len(strides), len(shape)):
        s0 = strides[at + d0]
        s1 = strides[at + d1]
        if s0 == 0 or s1 == 0:
            continue
        if s0 != s1:
            return 1 if s0 > s1 else -1
        if shape[d0] > shape[d1]:
            return 1
    return 0


@natively
def ordered_strides(shape: tuple, order: tuple):
    """Dense strides for the given order of dimensions (outermost first)."""
    strides = [0 for _ in shape]
    step = 1
    for d in order[::-1]:
        strides[d] = step
        step *= max(shape[d], 1)
    return tuple(strides)


def collapse(shape, strides):
    """Merge dimensions that every operand walks in one run.

    shape: sizes from outermost to innermost; strides: per operand, same order. Returns both,
    shorter.
    """
    sizes, steps = merged(tuple(shape), tuple(chain(*strides)), len(strides))
    return [*sizes], [[*steps[t :: len(strides)]] for t in range(len(strides))]


@natively
def merged(shape: tuple, strides: tuple, count):
    """`collapse` of strides of `count` operands, one after the other.

    Returned are strides of all operands along the first dimension, then along the next.
    """
    rank = len(shape)
    sizes: list[int] = []
    steps: list[int] = []
    for d in range(rank):
        size = shape[d]
        if size == 1:
            continue
        last = len(steps) - count
        merges = len(sizes) > 0
        if merges:
            for t in range(count):
                if steps[last + t] != strides[t * rank + d] * size:
                    merges = False
        if merges:
            sizes[-1] *= size
            for t in range(count):
                steps[last + t] = strides[t * rank + d]
        else:
            sizes.append(size)
            for t in range(count):
                steps.append(strides[t * rank + d])
    return tuple(sizes), tuple(steps)


def infer_size(shape, numel):
    """Replace one -1 by what is left of numel."""
    known, unknown = 1, None
    for k, s in enumerate(shape):
        if s == -1:
            if unknown is not None:
                raise RuntimeError("only one dimension can be inferred")
            unknown = k
        elif s < 0:
            raise RuntimeError(f"invalid shape dimension {s} at index {k} of shape {list(shape)}")
        else:
            known *= s
    if unknown is not None and known > 0 and numel % known == 0:
        return (*shape[:unknown], numel // known, *shape[unknown + 1 :])
    if unknown is not None and known == 0 and numel == 0:
        raise RuntimeError(
            f"cannot reshape tensor of 0 elements into shape {list(shape)} because the unspecified "
            "dimension size -1 can be any value and is ambiguous"
        )
    if unknown is None and known == numel:
        return tuple(shape)
    raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {numel}")


def view_strides(shape, strides, new_shape):
    """Strides that show the same memory in another shape, or None if a copy is needed."""
    if math.prod(shape) == 0:
        return tuple(strides) if tuple(shape) == tuple(new_shape) else contiguous_strides(new_shape)
    if not shape:
        return (1,) * len(new_shape)
    out = [0] * len(new_shape)
    view_d = len(new_shape) - 1
    chunk_stride, chunk, view_chunk = strides[-1], 1, 1
    for d in range(len(shape) - 1, -1, -1):
        chunk *= shape[d]
        if d == 0 or (shape[d - 1] != 1 and strides[d - 1] != chunk * chunk_stride):
            while view_d >= 0 and (view_chunk < chunk or new_shape[view_d] == 1):
                out[view_d] = view_chunk * chunk_stride
                view_chunk *= new_shape[view_d]
                view_d -= 1
            if view_chunk != chunk:
                return None
            if d > 0:
                chunk_stride, chunk, view_chunk = strides[d - 1], 1, 1
    return tuple(out) if view_d == -1 else None
