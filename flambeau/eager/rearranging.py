"""Launching what rearranges a tensor: boxes of it, copied with strides into a fresh output.

What goes where depends on layouts and arguments only: a list of boxes, each copied by the pointwise
copy kernel whatever its strides (negative ones too: a flip).
"""

import itertools

from flambeau import _device, _dtype, errors
from flambeau._layout import (
    Size,
    contiguous_strides,
    dense_layout,
    make_layout,
    ordered_strides,
    wrap_dim,
)
from flambeau._tensor import alias, empty_like_layout, empty_tensor
from flambeau.codegen import scalar
from flambeau.codegen.descriptions_places import Triangle
from flambeau.eager.copying import CHANNELS_LAST, COPIES, fill_into, preserved_layout
from flambeau.eager.launching import LAUNCHERS, launches
from flambeau.eager.plan import plan_nest
from flambeau.eager.planned import planned
from flambeau.eager.plans import Plans
from flambeau.ops.rearranging import distinct_dims
from flambeau.ops.views import ints
from flambeau.runtime.cpu import packed


def place_of(starts, strides):
    """Where the box that begins at starts lies, in elements."""
    return sum(a * s for a, s in zip(starts, strides))


def memory_order_of(layout):
    """The order of dimensions that outputs take over: channels last, or plain."""
    order = None if layout.is_contiguous else CHANNELS_LAST.get(layout.ndim)
    if order is None or layout.strides != ordered_strides(layout.sizes, order):
        return None
    return order


def shaped_like(layout, shape):
    """A dense layout of another shape, channels last if the given one is."""
    shape, order = tuple(shape), memory_order_of(layout)
    strides = contiguous_strides(shape) if order is None else ordered_strides(shape, order)
    return make_layout(shape, strides, layout.dtype, layout.device)


# -- boxes ----------------------------------------------------------------------------------------


def plan_box(shape, target, strides, source, source_strides):
    """(kernel, description) of a copy between boxes of a shape in two layouts."""
    shape = tuple(shape)
    to = make_layout(shape, tuple(strides), target.dtype, target.device)
    source = make_layout(shape, tuple(source_strides), source.dtype, source.device)
    return COPIES.make((to, source))  # remembered by who asks


def arranged(plan, input, *args, fill=None):
    """A new tensor made of boxes of input.

    plan(layout, *args) gives the output's layout and boxes: (shape, strides and place in the
    output, strides and place in the input). Where boxes leave gaps, fill says what is there.
    """
    layout, boxes = ARRANGEMENTS[plan, input._layout, args]
    out = empty_like_layout(layout)
    if fill is not None:
        fill_into(out, fill)
    target, source = out._storage.pointer, input._storage.pointer + input._offset
    for to, start, kernel, desc in boxes:
        kernel(desc, target + to, source + start)
    return out


def _plan_arranged(key):
    """(output layout, (place in the output, place in the input, kernel, description) per box)."""
    plan, layout, args = key
    out, boxes = plan(layout, *args)
    size, found = out.itemsize, []
    for shape, strides, place, source_strides, start in boxes:
        kernel, desc = plan_box(shape, out, strides, layout, source_strides)
        found.append((place * size, start * size, kernel, desc))
    return out, found


ARRANGEMENTS = Plans(_plan_arranged)


def arranges(name, fill=None):
    """Register a plan of boxes as the launcher of a template."""

    def register(plan):
        LAUNCHERS[name] = lambda input, *args: arranged(plan, input, *args, fill=fill)
        return plan

    return register


def _refuse_flip(layout, dims):
    """PyTorch moves whole rows of complex32, and has no kernel that turns them around."""
    live = [k for k, n in enumerate(layout.sizes) if n > 1]
    if any(k in dims for k in live):
        inner = min(live, key=lambda k: layout.strides[k])
        if inner in dims or layout.strides[inner] != 1:
            raise errors.not_implemented("flip_cpu", layout.dtype)


@arranges("flip")
def flip(layout, dims):
    dims = distinct_dims(ints("flip", "dims", dims), layout.ndim)
    out = preserved_layout(layout)
    if layout.dtype is _dtype.complex32 and layout.numel:
        _refuse_flip(layout, dims)
    strides = [-s if k in dims else s for k, s in enumerate(layout.strides)]
    last = sum((layout.sizes[k] - 1) * layout.strides[k] for k in dims if layout.ndim)
    return out, [(layout.sizes, out.strides, 0, strides, last)]


def _plan_roll(layout, shifts, dims):
    shifts, dims = ints("roll", "shifts", shifts), ints("roll", "dims", dims)
    if not shifts:
        raise RuntimeError("`shifts` required")
    if len(shifts) != len(dims):
        raise RuntimeError(
            f"shifts and dimensions must align. shifts: {len(shifts)}, dims:{len(dims)}"
        )
    if not layout.ndim:
        raise errors.no_dimensions(dims[0])
    shape, total = layout.sizes, [0] * layout.ndim
    out = dense_layout(shape, layout.dtype, layout.device)
    if not layout.numel:
        return out, []
    for s, k in zip(shifts, (wrap_dim(k, layout.ndim) for k in dims)):
        total[k] = (total[k] + s) % max(shape[k], 1)
    # along each dimension two pieces change places: (start in input, start in output, length)
    pieces = [[(0, s, n - s), (n - s, 0, s)] if s else [(0, 0, n)] for n, s in zip(shape, total)]
    boxes = []
    for box in itertools.product(*pieces):
        source, target, sizes = zip(*box)
        places = place_of(target, out.strides), place_of(source, layout.strides)
        boxes.append((sizes, out.strides, places[0], layout.strides, places[1]))
    return out, boxes


@launches("roll")
def roll(input, shifts, dims):
    dims = () if dims is None else dims
    if dims == () and (type(shifts) is int or len(shifts) == 1):
        flat = input.contiguous()
        line = dense_layout((flat.numel(),), flat.dtype, flat.device)
        found = arranged(_plan_roll, alias(flat, line, flat._offset), shifts, 0)
        return alias(found, dense_layout(input._layout.sizes, flat.dtype, flat.device), 0)
    return arranged(_plan_roll, input, shifts, dims)


@arranges("repeat")
def repeat(layout, repeats):
    repeats = ints("repeat", "repeats", repeats)
    missing = len(repeats) - layout.ndim
    if missing < 0:
        raise RuntimeError(
            "Number of dimensions of repeat dims can not be smaller than number of dimensions of "
            "tensor"
        )
    sizes = (1,) * missing + layout.sizes
    shape = [r * s for r, s in zip(repeats, sizes)]
    if min(shape, default=0) < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(shape)}: {shape}")
    out = dense_layout(Size(shape), layout.dtype, layout.device)
    pairs = [n for pair in zip(repeats, sizes) for n in pair]
    source = [n for s in (0,) * missing + layout.strides for n in (0, s)]
    target = [n for s, st in zip(sizes, out.strides) for n in (s * st, st)]
    return out, [(pairs, target, 0, source, 0)]


# -- triangles and diagonals ----------------------------------------------------------------------


@planned("triangle", "input: tensor, diagonal: number, lower")
def triangle(layout, lower):
    name = "tril" if lower else "triu"
    if layout.ndim < 2:
        raise RuntimeError(f"{name}: input tensor must have at least 2 dimensions")
    out = source = target = dense_layout(layout.sizes, layout.dtype, layout.device)
    if not layout.is_contiguous:
        source = layout
    elif layout.ndim > 3 and layout.numel:
        # one kernel for every number of batch dimensions
        *_, rows, columns = layout.sizes
        shape = (layout.numel // (rows * columns), rows, columns)
        source = target = dense_layout(shape, layout.dtype, layout.device)
    trace, dtype = _inside_lower if lower else _inside_upper, source.dtype
    facts = (name, dtype.code), trace, [source], "i", (dtype,), (target,), target.shape
    return out, *plan_nest(*facts, collapsing=False)[1:]


def _inside_lower(x, diagonal):
    return (scalar.select(scalar.coordinate(0) - scalar.coordinate(1) <= diagonal, x, 0),)


def _inside_upper(x, diagonal):
    return (scalar.select(scalar.coordinate(0) - scalar.coordinate(1) >= diagonal, x, 0),)


@launches("triangle_places")
def triangle_places(row, col, offset, dtype, device, layout, lower):
    name = "tril_indices" if lower else "triu_indices"
    for label, n in (("row", row), ("col", col)):
        if n < 0:
            raise RuntimeError(f"{label} must be non-negative, got{n}")
    dtype = dtype or _dtype.int64
    device = _device.device(device) if device is not None else _device.default_device()
    if dtype not in (_dtype.int32, _dtype.int64):
        raise errors.not_implemented(name, dtype)
    below = _count_below(row, col, offset if lower else offset - 1)
    count = below if lower else row * col - below
    out = empty_tensor(Size((2, count)), dtype, device)
    if count and device.runtime.computes:
        # rows without elements are not walked, and a diagonal outside is one at the corner
        offset = max(-row, min(offset, col))
        first, rows = (max(0, -offset), row) if lower else (0, min(row, max(0, col - offset)))
        kernel = device.runtime.kernel("triangle", "joining:build_triangle", dtype.code)
        kernel(
            packed(Triangle(1, first, rows, col, offset, int(lower), count)), out._storage.pointer
        )
    return out


def _count_below(rows, columns, offset):
    """How many elements lie on or below a diagonal."""
    first = max(0, -offset)  # rows above it have none
    full = min(rows, max(0, columns - offset))  # rows from here on have all
    # each row has one more than the one above it
    partial = (full - first) * (first + full + 2 * offset + 1) // 2 if full > first else 0
    return partial + max(0, rows - max(full, first)) * columns


@arranges("diag_embed", fill=0)
def diag_embed(layout, offset, dim1, dim2):
    ndim = layout.ndim + 1
    a, b = wrap_dim(dim1, ndim), wrap_dim(dim2, ndim)
    if a == b:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    length, rest = layout.sizes[-1], iter(layout.sizes[:-1])
    shape = Size(length + abs(offset) if k in (a, b) else next(rest) for k in range(ndim))
    out = dense_layout(shape, layout.dtype, layout.device)
    strides = out.strides
    place = offset * strides[b] if offset >= 0 else -offset * strides[a]
    kept = [strides[k] for k in range(ndim) if k not in (a, b)]
    return out, [(layout.sizes, [*kept, strides[a] + strides[b]], place, layout.strides, 0)]
