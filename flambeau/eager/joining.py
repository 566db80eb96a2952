"""Launchers of what joins, pads and rearranges tensors: strided copies into a fresh output.

`part` names a block of a tensor by shape, strides and place; `copy_into` moves elements between
blocks, whatever their strides (negative ones too: a flip). `cat` keeps plans, because it is called
often.
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
from flambeau.eager.binding import launches
from flambeau.eager.copying import CHANNELS_LAST, copy_into, fill_into, preserved_layout
from flambeau.eager.kernels import load_kernel
from flambeau.eager.plan import MAX_PLANS, plan_nest
from flambeau.ops.rearranging import distinct_dims
from flambeau.ops.views import ints
from flambeau.runtime.cpu import words


def part(t, shape, strides, place):
    """A block of a tensor's memory; place counts elements from the tensor's first."""
    layout = make_layout(Size(shape), tuple(strides), t.dtype, t.device)
    return alias(t, layout, t._offset + place * layout.itemsize)


def block(t, starts, sizes):
    """The box of a tensor that begins at starts."""
    strides = t._layout.strides
    return part(t, sizes, strides, sum(a * s for a, s in zip(starts, strides)))


def _format(layout):
    """The order of dimensions that outputs take over: channels last, or plain."""
    order = CHANNELS_LAST.get(layout.ndim)
    if (
        order is None
        or layout.is_contiguous
        or layout.strides != ordered_strides(layout.shape, order)
    ):
        return None
    return order


def _shaped_like(layout, shape):
    """A dense layout of another shape, channels last if the given one is."""
    order = _format(layout)
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
                    f"got size {b} for "
                    f"tensor number {k} in the list."
                )
    shape = (
        *first.shape[:dim],
        sum(layout.shape[dim] for _, layout in used),
        *first.shape[dim + 1 :],
    )
    orders = {_format(layout) for _, layout in used}
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
            target, source = _moved(target), _moved(source)
            code = source.dtype.code
        _, kernel, desc, owner = plan_nest(
            ("copy", code), lambda x: (x,), [source], "", (target.dtype,), (target,), target.shape
        )
        found.append((k, place * out.itemsize, kernel, desc, owner))
    return found


_BITS = {"f16": _dtype.int16, "bf16": _dtype.int16}


def _moved(layout):
    stand_in = _BITS.get(layout.dtype.code)
    return (
        layout
        if stand_in is None
        else make_layout(layout.shape, layout.strides, stand_in, layout.device)
    )


def _run_copies(out, tensors, copies):
    target = out._storage.pointer + out._offset
    for k, offset, kernel, desc, _ in copies:
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
                "0 and "
                f"{list(layout.shape)} at entry {k}"
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


@launches("block_diag")
def block_diag(tensors):
    for k, t in enumerate(tensors):
        if t.ndim > 2:
            raise RuntimeError(
                f"torch.block_diag: Input tensors must have 2 or fewer dimensions. Input {k} has "
                f"{t.ndim} dimensions"
            )
    if not tensors:
        return empty_tensor(Size((1, 0)), _dtype.default_dtype(), _device.cpu)
    shapes = [(1,) * (2 - t.ndim) + tuple(t.shape) for t in tensors]
    size = Size((sum(s[0] for s in shapes), sum(s[1] for s in shapes)))
    out = empty_tensor(size, _common_dtype([t._layout for t in tensors]), tensors[0].device)
    fill_into(out, 0)
    row = column = 0
    for t, (height, width) in zip(tensors, shapes):
        strides = (0,) * (2 - t.ndim) + t._layout.strides
        copy_into(block(out, (row, column), (height, width)), part(t, (height, width), strides, 0))
        row, column = row + height, column + width
    return out


# -- other places ---------------------------------------------------------------------------------


@launches("flip")
def flip(input, dims):
    layout = input._layout
    dims = distinct_dims(ints("flip", "dims", dims), layout.ndim)
    out = empty_like_layout(preserved_layout(layout))
    if layout.numel:
        strides = [-s if k in dims else s for k, s in enumerate(layout.strides)]
        last = sum((layout.shape[k] - 1) * layout.strides[k] for k in dims if layout.ndim)
        copy_into(out, part(input, layout.shape, strides, last))
    return out


@launches("roll")
def roll(input, shifts, dims):
    shifts, dims = ints("roll", "shifts", shifts), ints("roll", "dims", dims)
    if not shifts:
        raise RuntimeError("`shifts` required")
    if not dims and len(shifts) == 1:
        flat = input.contiguous()
        found = _rolled(part(flat, (flat.numel(),), (1,), 0), shifts, [0])
        return part(found, input.shape, contiguous_strides(input.shape), 0)
    if len(shifts) != len(dims):
        raise RuntimeError(
            f"shifts and dimensions must align. shifts: {len(shifts)}, dims:{len(dims)}"
        )
    if not input.ndim:
        raise IndexError(f"Dimension specified as {dims[0]} but tensor has no dimensions")
    return _rolled(input, shifts, [wrap_dim(k, input.ndim) for k in dims])


def _rolled(input, shifts, dims):
    shape = input.shape
    out = empty_tensor(shape, input.dtype, input.device)
    if not out.numel():
        return out
    total = [0] * len(shape)
    for s, k in zip(shifts, dims):
        total[k] = (total[k] + s) % shape[k]
    # along each dimension two pieces change places: (start in input, start in output, length)
    pieces = [[(0, s, n - s), (n - s, 0, s)] if s else [(0, 0, n)] for n, s in zip(shape, total)]
    for box in itertools.product(*pieces):
        sizes = [b[2] for b in box]
        copy_into(block(out, [b[1] for b in box], sizes), block(input, [b[0] for b in box], sizes))
    return out


@launches("repeat")
def repeat(input, repeats):
    repeats = ints("repeat", "repeats", repeats)
    missing = len(repeats) - input.ndim
    if missing < 0:
        raise RuntimeError(
            "Number of dimensions of repeat dims can not be smaller than number of dimensions of "
            "tensor"
        )
    sizes = (1,) * missing + tuple(input.shape)
    shape = [r * s for r, s in zip(repeats, sizes)]
    if min(shape, default=0) < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(shape)}: {shape}")
    out = empty_tensor(Size(shape), input.dtype, input.device)
    if out.numel():
        pairs = [n for pair in zip(repeats, sizes) for n in pair]
        source = [n for s in (0,) * missing + input._layout.strides for n in (0, s)]
        target = [n for s, st in zip(sizes, out._layout.strides) for n in (s * st, st)]
        copy_into(part(out, pairs, target, 0), part(input, pairs, source, 0))
    return out


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


@launches("diag_embed")
def diag_embed(input, offset, dim1, dim2):
    ndim = input.ndim + 1
    a, b = wrap_dim(dim1, ndim), wrap_dim(dim2, ndim)
    if a == b:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    length = input.shape[-1]
    rest = iter(input.shape[:-1])
    shape = [length + abs(offset) if k in (a, b) else next(rest) for k in range(ndim)]
    out = empty_tensor(Size(shape), input.dtype, input.device)
    fill_into(out, 0)
    strides = out._layout.strides
    place = offset * strides[b] if offset >= 0 else -offset * strides[a]
    if out.numel():
        kept = [k for k in range(ndim) if k not in (a, b)]
        copy_into(
            part(out, input.shape, [*[strides[k] for k in kept], strides[a] + strides[b]], place),
            input,
        )
    return out


# -- padding --------------------------------------------------------------------------------------


def _widths(ndim, pad):
    """(before, after) per dimension, from the first on."""
    found = [(0, 0)] * ndim
    for k in range(len(pad) // 2):
        found[ndim - 1 - k] = (pad[2 * k], pad[2 * k + 1])
    return found


@launches("constant_pad")
def constant_pad(input, pad, value):
    pad = ints("constant_pad_nd", "pad", pad)
    layout = input._layout
    if len(pad) % 2:
        raise RuntimeError(f"Length of pad must be even but instead it equals {len(pad)}")
    widths = _widths(layout.ndim, pad)
    shape = [n + low + high for n, (low, high) in zip(layout.shape, widths)]
    starts = [max(0, -low) for low, _ in widths]
    sizes = [n + min(0, low) + min(0, high) for n, (low, high) in zip(layout.shape, widths)]
    if min(sizes, default=0) < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    out = empty_like_layout(_shaped_like(layout, shape))
    if not out.numel():
        return out
    if any(low > 0 or high > 0 for low, high in widths):
        fill_into(out, _number(value, layout.dtype))
    if 0 not in sizes:
        inner = block(out, [max(0, low) for low, _ in widths], sizes)
        copy_into(inner, block(input, starts, sizes))
    return out


def _number(value, dtype):
    value = value.item() if hasattr(value, "item") else value
    return int(value) if dtype.category == _dtype.INTEGER and type(value) is float else value


def _check_edges(input, pad, mode):
    shape, dims = input.shape, len(pad) // 2
    ndim = len(shape)
    batched = ndim == dims + 2
    if 0 in shape[1 if batched else 0 :] and mode != "circular":
        kinds = f"{dims + 1}D or {dims + 2}D (batch mode)"
        raise RuntimeError(
            f"Expected {kinds} tensor with possibly 0 batch size and other non-zero dimensions for "
            f"input, but got: {list(shape)}"
        )
    letters = "DHW"[3 - dims :]
    for k in range(dims):
        dim, low, high = ndim - 1 - k, pad[2 * k], pad[2 * k + 1]
        if mode == "reflect" and (low >= shape[dim] or high >= shape[dim]):
            raise RuntimeError(
                f"Argument #{4 + 2 * k}: Padding size should be less than the corresponding input "
                "dimension, but got: padding "
                f"({low}, {high}) at dimension {dim} of input {list(shape)}"
            )
        if mode == "circular":
            if low > shape[dim] or high > shape[dim]:
                raise RuntimeError("Padding value causes wrapping around more than once.")
            if shape[dim] + low + high < 0:
                raise RuntimeError("Negative padding value is resulting in an empty dimension")
    out = [shape[ndim - dims + k] + pad[-2 * k - 2] + pad[-2 * k - 1] for k in range(dims)]
    if min(out) < 1 and mode != "circular":
        old = ", ".join(f"{c}: {n}" for c, n in zip(letters, shape[-dims:]))
        new = " ".join(f"{c}: {n}" for c, n in zip(letters, out))
        raise RuntimeError(f"input ({old}) is too small. Calculated output {new}")


def _sides(size, low, high, mode):
    """Pieces of one padded dimension: (start in input, step, start in output, length)."""
    cut_low, cut_high = max(0, -low), max(0, -high)
    length = size - cut_low - cut_high
    pieces = [(cut_low, 1, max(0, low), length)]
    end = max(0, low) + length
    if mode == "circular":
        before, after = (size - cut_high - low, 1), (cut_low, 1)
    elif mode == "replicate":
        before, after = (0, 0), (size - 1, 0)
    else:
        before, after = (low, -1), (size - 2, -1)
    if low > 0:
        pieces.append((*before, 0, low))
    if high > 0:
        pieces.append((*after, end, high))
    return [p for p in pieces if p[3] > 0]


@launches("edge_pad")
def edge_pad(input, pad, mode):
    _check_edges(input, pad, mode)
    layout = input._layout
    if layout.dtype is _dtype.bool_ and mode != "circular":
        raise errors.not_implemented(
            f"{'replication' if mode == 'replicate' else 'reflection'}_pad{len(pad) // 2}d",
            layout.dtype,
        )
    widths = _widths(layout.ndim, pad)
    shape = [n + low + high for n, (low, high) in zip(layout.shape, widths)]
    out = empty_like_layout(
        dense_layout(Size(shape), layout.dtype, layout.device)
        if mode == "circular"
        else _shaped_like(layout, shape)
    )
    if not out.numel():
        return out
    sides = [_sides(n, low, high, mode) for n, (low, high) in zip(layout.shape, widths)]
    for box in itertools.product(*sides):
        sizes = [b[3] for b in box]
        strides = [b[1] * s for b, s in zip(box, layout.strides)]
        start = sum(b[0] * s for b, s in zip(box, layout.strides))
        copy_into(block(out, [b[2] for b in box], sizes), part(input, sizes, strides, start))
    return out
