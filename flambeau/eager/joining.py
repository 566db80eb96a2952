"""Launchers of what joins and rearranges tensors: strided copies into a fresh output.

What goes where depends on layouts and arguments only, so it is worked out once and kept: a list of
boxes, each copied by the pointwise copy kernel whatever its strides (negative ones too: a flip).
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
from flambeau.autograd.grad_mode import modes
from flambeau.autograd.node import edge_of, init_node
from flambeau.codegen import scalar
from flambeau.eager.launching import FRONTS, launches
from flambeau.eager.copying import CHANNELS_LAST, as_bits, fill_into, preserved_layout
from flambeau.eager.formula import node_class
from flambeau.eager.kernels import load_kernel
from flambeau.eager.plan import MAX_PLANS, plan_nest
from flambeau.ops.rearranging import distinct_dims
from flambeau.ops.views import ints
from flambeau.runtime.cpu import words


def place_of(starts, strides):
    """Where the box that begins at starts lies, in elements."""
    return sum(a * s for a, s in zip(starts, strides))


def memory_order_of(layout):
    """The order of dimensions that outputs take over: channels last, or plain."""
    order = CHANNELS_LAST.get(layout.ndim)
    if (
        order is None
        or layout.is_contiguous
        or layout.strides != ordered_strides(layout.shape, order)
    ):
        return None
    return order


def shaped_like(layout, shape):
    """A dense layout of another shape, channels last if the given one is."""
    order = memory_order_of(layout)
    strides = contiguous_strides(shape) if order is None else ordered_strides(shape, order)
    return make_layout(Size(shape), strides, layout.dtype, layout.device)


# -- cat and stack --------------------------------------------------------------------------------

_cats: dict = {}


def _common_dtype(layouts):
    return _dtype.result_dtype([(layout.dtype, 2 if layout.ndim else 1) for layout in layouts])


def _check_devices(layouts):
    first = layouts[0].device
    for layout in layouts[1:]:
        if layout.device is not first:
            raise RuntimeError(
                f"Tensor on device {layout.device} is not on the expected device {first}!"
            )


def _plan_cat(layouts, dim):
    """(output layout, copies): see _plan_copies."""
    if not layouts:
        raise ValueError("torch.cat(): expected a non-empty list of Tensors")
    for k, layout in enumerate(layouts):
        if not layout.ndim:
            raise RuntimeError(f"zero-dimensional tensor (at position {k}) cannot be concatenated")
    used = [(k, layout) for k, layout in enumerate(layouts) if layout.shape != (0,)] or [
        (0, layouts[0])
    ]
    first = used[0][1]
    _check_devices(layouts)
    dim = wrap_dim(dim, first.ndim)
    for k, layout in used[1:]:
        if layout.ndim != first.ndim:
            raise RuntimeError(
                f"Tensors must have same number of dimensions: got {first.ndim} and {layout.ndim}"
            )
        for j, (a, b) in enumerate(zip(first.shape, layout.shape)):
            if a != b and j != dim:
                raise RuntimeError(
                    f"Sizes of tensors must match except in dimension {dim}. Expected size {a} but "
                    f"got size {b} for tensor number {k} in the list."
                )
    shape = (
        *first.shape[:dim],
        sum(layout.shape[dim] for _, layout in used),
        *first.shape[dim + 1 :],
    )
    orders = {memory_order_of(layout) for _, layout in used}
    order = orders.pop() if len(orders) == 1 else None
    strides = contiguous_strides(shape) if order is None else ordered_strides(shape, order)
    out = make_layout(Size(shape), strides, _common_dtype(layouts), first.device)
    return out, _plan_copies(out, layouts, _places(used, strides, dim))


def _places(used, strides, dim):
    """(number of input, its shape, where it goes) of everything that is not empty."""
    found, start = [], 0
    for k, layout in used:
        if layout.numel:
            found.append((k, layout.shape, start * strides[dim]))
        start += layout.shape[dim]
    return found


def _plan_copies(out, layouts, places):
    """(number of input, byte offset in the output, kernel, description, its owner) per copy."""
    found = []
    for k, shape, place in places if out.device.type == "cpu" else ():
        target = make_layout(Size(shape), out.strides, out.dtype, out.device)
        source, code = layouts[k], layouts[k].dtype.code
        if target.dtype is source.dtype:
            target, source = as_bits(target), as_bits(source)
            code = source.dtype.code
        _, kernel, desc = plan_nest(
            ("copy", code), lambda x: (x,), [source], "", (target.dtype,), (target,), target.shape
        )
        found.append((k, place * out.itemsize, kernel, desc))
    return found


def _run_copies(out, tensors, copies):
    target = out._storage.pointer + out._offset
    for k, offset, kernel, desc in copies:
        t = tensors[k]
        kernel(desc, target + offset, t._storage.pointer + t._offset)
    return out


def joined(plan, tensors, dim):
    """Run a join; plan(layouts, dim) works it out on first sight of these layouts."""
    key = (plan, dim, *[t._layout for t in tensors])
    found = _cats.get(key)
    if found is None:
        found = plan(key[2:], dim)
        if len(_cats) > MAX_PLANS:
            _cats.clear()
        _cats[key] = found
    return _run_copies(empty_like_layout(found[0]), tensors, found[1])


@launches("cat")
def cat(tensors, dim):
    return joined(_plan_cat, tensors, dim)


def _join_front(plan):
    """A quicker public function for joins of layouts that were joined before."""

    def build(op, general):
        cls = node_class(op)

        def join(tensors, dim=0, *, out=None, **kwargs):
            try:
                found = _cats[(plan, dim, *[t._layout for t in tensors])]
            except (KeyError, TypeError, AttributeError):
                found = None
            if found is None or out is not None or kwargs or type(tensors) not in (list, tuple):
                kwargs = kwargs if out is None else kwargs | {"out": out}
                return (
                    general(tensors, **kwargs)
                    if "axis" in kwargs
                    else general(tensors, dim, **kwargs)
                )
            result = _run_copies(empty_like_layout(found[0]), tensors, found[1])
            for t in tensors:
                if t._requires_grad:
                    if modes.grad:
                        _record_join(cls, result, tensors, dim)
                    break
            return result

        return join

    return build


def _record_join(cls, out, tensors, dim):
    """What record_formula does, for a node that saves only dim."""
    node = object.__new__(cls)
    edges = tuple([edge_of(t) if t._requires_grad else None for t in tensors])
    node.layouts = {"tensors": tuple([t._layout for t in tensors])}
    node.out_layouts = (out._layout,)
    init_node(node, edges, (dim,))
    out._grad_fn, out._requires_grad = node, True


def _plan_stack(layouts, dim):
    if not layouts:
        raise RuntimeError("stack expects a non-empty TensorList")
    first = layouts[0]
    dim = wrap_dim(dim, first.ndim + 1)
    _check_devices(layouts)
    for k, layout in enumerate(layouts):
        if layout.shape != first.shape:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(first.shape)} at entry "
                f"0 and {list(layout.shape)} at entry {k}"
            )
    shape = Size((*first.shape[:dim], len(layouts), *first.shape[dim:]))
    out = dense_layout(shape, _common_dtype(layouts), first.device)
    slot = make_layout(
        first.shape, out.strides[:dim] + out.strides[dim + 1 :], out.dtype, out.device
    )
    places = (
        [(k, slot.shape, k * out.strides[dim]) for k in range(len(layouts))] if out.numel else []
    )
    return out, _plan_copies(slot, layouts, places)


@launches("stack")
def stack(tensors, dim):
    return joined(_plan_stack, tensors, dim)


FRONTS["cat"], FRONTS["stack"] = _join_front(_plan_cat), _join_front(_plan_stack)


@launches("block_diag")
def block_diag(tensors):
    if not tensors:
        return empty_tensor(Size((1, 0)), _dtype.default_dtype(), _device.cpu)
    key = (_plan_block_diag, *[t._layout for t in tensors])
    found = _cats.get(key) or _cats.setdefault(key, _plan_block_diag(key[1:]))
    return _run_copies(fill_into(empty_like_layout(found[0]), 0), tensors, found[1])


def _plan_block_diag(layouts):
    shapes = []
    for k, layout in enumerate(layouts):
        if layout.ndim > 2:
            raise RuntimeError(
                "torch.block_diag: Input tensors must have 2 or fewer dimensions. Input "
                f"{k} has {layout.ndim} dimensions"
            )
        shapes.append((1,) * (2 - layout.ndim) + tuple(layout.shape))
    size = Size((sum(s[0] for s in shapes), sum(s[1] for s in shapes)))
    out = dense_layout(size, _common_dtype(layouts), layouts[0].device)
    places, row, column = [], 0, 0
    for k, (height, width) in enumerate(shapes):
        if height and width:
            places.append((k, (height, width), place_of((row, column), out.strides)))
        row, column = row + height, column + width
    lifted = [
        make_layout(Size(s), (0,) * (2 - x.ndim) + x.strides, x.dtype, x.device)
        for x, s in zip(layouts, shapes)
    ]
    return out, _plan_copies(out, lifted, places)


# -- copies by plan -------------------------------------------------------------------------------

_arrangements: dict = {}


def arranged(plan, input, *args, fill=None):
    """A new tensor made of boxes of input.

    plan(layout, *args) gives the output's layout and boxes: (shape, strides and place in the
    output, strides and place in the input). Where boxes leave gaps, fill says what is there.
    """
    key = (plan, input._layout, args)
    found = _arrangements.get(key)
    if found is None:
        if len(_arrangements) > MAX_PLANS:
            _arrangements.clear()
        layout, boxes = plan(input._layout, *args)
        found = _arrangements[key] = layout, _plan_boxes(layout, input._layout, boxes)
    out = empty_like_layout(found[0])
    if fill is not None and found[0].numel:
        fill_into(out, fill)
    target, source = out._storage.pointer, input._storage.pointer + input._offset
    for to, start, kernel, desc in found[1]:
        kernel(desc, target + to, source + start)
    return out


def _plan_boxes(out, input, boxes):
    out, input, found = as_bits(out), as_bits(input), []
    for shape, strides, place, source_strides, start in boxes if out.device.type == "cpu" else ():
        if 0 in shape:
            continue
        target = make_layout(Size(shape), tuple(strides), out.dtype, out.device)
        source = make_layout(Size(shape), tuple(source_strides), out.dtype, out.device)
        _, kernel, desc = plan_nest(
            ("copy", out.dtype.code),
            lambda x: (x,),
            [source],
            "",
            (out.dtype,),
            (target,),
            target.shape,
        )
        found.append((place * out.itemsize, start * out.itemsize, kernel, desc))
    return found


def _plan_flip(layout, dims):
    dims = distinct_dims(ints("flip", "dims", dims), layout.ndim)
    out = preserved_layout(layout)
    strides = [-s if k in dims else s for k, s in enumerate(layout.strides)]
    last = sum((layout.shape[k] - 1) * layout.strides[k] for k in dims if layout.ndim)
    return out, [(layout.shape, out.strides, 0, strides, last)]


@launches("flip")
def flip(input, dims):
    return arranged(_plan_flip, input, dims)


def _plan_roll(layout, shifts, dims):
    shifts, dims = ints("roll", "shifts", shifts), ints("roll", "dims", dims)
    if not shifts:
        raise RuntimeError("`shifts` required")
    if len(shifts) != len(dims):
        raise RuntimeError(
            f"shifts and dimensions must align. shifts: {len(shifts)}, dims:{len(dims)}"
        )
    if not layout.ndim:
        raise IndexError(f"Dimension specified as {dims[0]} but tensor has no dimensions")
    shape, total = layout.shape, [0] * layout.ndim
    out = dense_layout(shape, layout.dtype, layout.device)
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
    if dims == () and (type(shifts) is int or len(shifts) == 1):
        flat = input.contiguous()
        line = dense_layout(Size((flat.numel(),)), flat.dtype, flat.device)
        found = arranged(_plan_roll, alias(flat, line, flat._offset), shifts, 0)
        shape = input._layout.shape
        return alias(
            found, make_layout(shape, contiguous_strides(shape), flat.dtype, flat.device), 0
        )
    return arranged(_plan_roll, input, shifts, dims)


def _plan_repeat(layout, repeats):
    repeats = ints("repeat", "repeats", repeats)
    missing = len(repeats) - layout.ndim
    if missing < 0:
        raise RuntimeError(
            "Number of dimensions of repeat dims can not be smaller than number of dimensions of "
            "tensor"
        )
    sizes = (1,) * missing + tuple(layout.shape)
    shape = [r * s for r, s in zip(repeats, sizes)]
    if min(shape, default=0) < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(shape)}: {shape}")
    out = dense_layout(Size(shape), layout.dtype, layout.device)
    pairs = [n for pair in zip(repeats, sizes) for n in pair]
    source = [n for s in (0,) * missing + layout.strides for n in (0, s)]
    target = [n for s, st in zip(sizes, out.strides) for n in (s * st, st)]
    return out, [(pairs, target, 0, source, 0)]


@launches("repeat")
def repeat(input, repeats):
    return arranged(_plan_repeat, input, repeats)


# -- triangles and diagonals ----------------------------------------------------------------------

_triangles: dict = {}


@launches("triangle")
def triangle(input, diagonal, lower):
    layout = input._layout
    if layout.ndim < 2:
        raise RuntimeError(
            f"{'tril' if lower else 'triu'}: input tensor must have at least 2 dimensions"
        )
    out = empty_tensor(layout.shape, layout.dtype, layout.device)
    source, target = layout, out._layout
    if layout.ndim > 3 and layout.is_contiguous and layout.numel:
        # one kernel for every number of batch dimensions
        shape = Size((layout.numel // (layout.shape[-1] * layout.shape[-2]), *layout.shape[-2:]))
        source = target = dense_layout(shape, layout.dtype, layout.device)
    found = _triangles.get((source, lower))
    if found is None:
        if len(_triangles) > MAX_PLANS:
            _triangles.clear()
        found = _triangles[source, lower] = plan_nest(
            ("tril" if lower else "triu", source.dtype.code),
            _triangle_trace(lower),
            [source],
            "i",
            (source.dtype,),
            (target,),
            target.shape,
            collapsing=False,
        )
    found[1](found[2], out._storage.pointer, input._storage.pointer + input._offset, diagonal)
    return out


def _triangle_trace(lower):
    def trace(x, diagonal):
        distance = scalar.coordinate(0) - scalar.coordinate(1)
        inside = distance <= diagonal if lower else distance >= diagonal
        return (scalar.select(inside, x, 0),)

    return trace


@launches("triangle_places")
def triangle_places(row, col, offset, dtype, device, layout, lower):
    name = "tril_indices" if lower else "triu_indices"
    for label, n in (("row", row), ("col", col)):
        if n < 0:
            raise RuntimeError(f"{label} must be non-negative, got{n}")
    if dtype not in (_dtype.int32, _dtype.int64):
        raise errors.not_implemented(name, dtype)
    below = _count_below(row, col, offset if lower else offset - 1)
    count = below if lower else row * col - below
    device = _device.device(device) if device is not None else _device.default_device()
    out = empty_tensor(Size((2, count)), dtype, device)
    if count and device.type == "cpu":
        kernel = _place_kernel("i64" if dtype is _dtype.int64 else "i32")
        owner, address = words([1, row, col, offset, int(lower), count])
        kernel(address, out._storage.pointer)
        del owner
    return out


_place_kernels: dict = {}


def _place_kernel(type):
    from flambeau.codegen.templates.joining import build_triangle  # with llvmlite, on first need

    found = _place_kernels.get(type)
    if found is None:
        found = _place_kernels[type] = load_kernel(build_triangle(type), "triangle")
    return found


def _count_below(rows, columns, offset):
    """How many elements lie on or below a diagonal."""
    first = max(0, -offset)  # rows above it have none
    full = min(rows, max(0, columns - offset))  # rows from here on have all
    partial = sum(range(first + offset + 1, full + offset + 1)) if full > first else 0
    return partial + max(0, rows - max(full, first)) * columns


def _plan_diag_embed(layout, offset, dim1, dim2):
    ndim = layout.ndim + 1
    a, b = wrap_dim(dim1, ndim), wrap_dim(dim2, ndim)
    if a == b:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    length, rest = layout.shape[-1], iter(layout.shape[:-1])
    shape = Size(length + abs(offset) if k in (a, b) else next(rest) for k in range(ndim))
    out = dense_layout(shape, layout.dtype, layout.device)
    strides = out.strides
    place = offset * strides[b] if offset >= 0 else -offset * strides[a]
    kept = [strides[k] for k in range(ndim) if k not in (a, b)]
    return out, [(layout.shape, [*kept, strides[a] + strides[b]], place, layout.strides, 0)]


@launches("diag_embed")
def diag_embed(input, offset, dim1, dim2):
    return arranged(_plan_diag_embed, input, offset, dim1, dim2, fill=0)
