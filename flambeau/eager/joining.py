"""Launching joins: cat, stack, pad_sequence and block_diag.

A join is rows of bytes, each with a run of every piece (`codegen/templates/joining.py`): one native
call, however many pieces there are. Pieces of other dtypes or scattered strides are copied box by
box. Table rows: `ops/joining.py`.
"""

from math import prod
from struct import unpack

from flambeau import _device, _dtype, errors
from flambeau._layout import (
    contiguous_strides,
    dense_layout,
    make_layout,
    ordered_strides,
    suggests_channels_last,
    wrap_dim,
)
from flambeau._memory_format import contiguous_format
from flambeau._tensor import empty_like_layout, empty_tensor
from flambeau.codegen.descriptions_places import Join, PaddedPiece, Piece, Run
from flambeau.eager.copying import CHANNELS_LAST, fill_into, to_copy
from flambeau.eager.launching import launches
from flambeau.eager.padding import bits_of
from flambeau.eager.plan import NO_WORK
from flambeau.eager.plans import Plans
from flambeau.eager.rearranging import place_of, plan_box
from flambeau.eager.rows import address, chunks_of
from flambeau.runtime.base import nothing
from flambeau.runtime.cpu import packed, packer

CHUNK = 1 << 18  # bytes worth a thread's while
MANY, NARROW = 1 << 12, 32  # so many runs of fewer bytes are better copied piece by piece


def _join(out, pieces, row, name, kind=Piece):
    """(layout, kernel, description, what packs the addresses of pieces): rows of so many bytes.

    pieces: words, those of a Piece (or another kind) each. The kernel wants the description, the
    address of the result, the packed addresses of the pieces and what fills gaps.
    """
    runtime, total, count = out.device.runtime, out.nbytes, len(pieces) // len(kind._fields)
    if not total or not runtime.computes:
        return out, nothing, NO_WORK, packer(count)
    chunks, per_chunk = (1, total) if total <= CHUNK else _cut(total, row)
    kernel = runtime.kernel(name, "joining:build_join", kind)
    join = Join(chunks, per_chunk, total, row, count)
    return out, kernel, packed((*join, *pieces)), packer(count)


def _cut(total, row):
    """(chunks, bytes per chunk): an even number of equal parts, of whole rows or cache lines."""
    chunks = -(-total // CHUNK)
    per_chunk = -(-total // (chunks + chunks % 2))
    per_chunk += -per_chunk % (row if row < CHUNK >> 3 else 64)
    return chunks_of(total, per_chunk), per_chunk


def _boxes(out, layouts, places):
    """The same plan for any pieces; places: (number of piece, shape, strides, place) each."""
    found = []
    for k, shape, strides, place in places:
        kernel, desc = plan_box(shape, out, strides, layouts[k], layouts[k].strides)
        found.append((k, place * out.itemsize, kernel, desc))
    return out, _copy_boxes, found, packer(len(layouts))


def _copy_boxes(boxes, target, places, fill):
    """What the kernel of a join does, piece by piece."""
    places = memoryview(places).cast("q")
    for k, offset, kernel, desc in boxes:
        kernel(desc, target + offset, places[k])


def _step(sizes, strides, at):
    """From row to row, if dimensions from `at` on lie side by side and those before it are one.

    None if they are not.
    """
    expected = 1
    for size, stride in zip(sizes[at:][::-1], strides[at:][::-1]):
        if size != 1:
            if stride != expected:
                return None
            expected *= size
    step = None
    for size, stride in zip(sizes[:at][::-1], strides[:at][::-1]):
        if size != 1:
            if step is None:
                step = expected = stride
            elif stride != expected:
                return None
            expected *= size
    return 0 if step is None else step


def _common_dtype(layouts):
    return _dtype.result_dtype([(layout.dtype, 2 if layout.ndim else 1) for layout in layouts])


# -- cat -------------------------------------------------------------------------------------------


def _joined(layout, kernel, desc, pack, tensors, fill=0):
    """A new tensor with a plan's pieces."""
    out = empty_like_layout(layout)
    kernel(desc, out._storage.pointer, pack(*[address(t) for t in tensors]), fill)
    return out


@launches("cat")
def cat(tensors, dim):
    return _joined(*CATS[(dim, *[t._layout for t in tensors])], tensors)


def _plan_cat(key):
    dim, *layouts = key
    if dim == 0 and layouts and layouts[0].ndim:
        found = _plan_runs(layouts)
        if found is not None:
            return found
    first = _first_piece(layouts)
    shape, ndim = first.sizes, first.ndim
    if shape == (0,):  # so are all pieces: nothing, along any dimension
        dim = 0
    dim = wrap_dim(dim, ndim)
    head, tail, sizes, plain = shape[:dim], shape[dim + 1 :], [], True
    for k, layout in enumerate(layouts):
        shape = layout.sizes
        if len(shape) == ndim and shape[:dim] == head and shape[dim + 1 :] == tail:
            sizes.append(shape[dim])
        elif shape == (0,):  # an empty vector may stand anywhere
            sizes.append(0)
        else:
            raise _mismatch(first, layout, dim, k)
        if layout.device is not first.device:
            raise errors.different_devices(first.device, layout.device)
        plain = plain and layout.is_contiguous and layout.dtype is first.dtype
    shape, rows = (*head, sum(sizes), *tail), prod(head)
    row = shape[dim] * prod(tail) * first.itemsize
    if plain and rows and _is_fine(len(sizes), row // len(sizes), rows):
        out = dense_layout(shape, first.dtype, first.device)
        pieces = [layout.nbytes // rows for layout in layouts for _ in Piece._fields]
        return _join(out, pieces, row, "cat")
    return _plan_pieces(layouts, sizes, shape, dim)


def _plan_runs(layouts):
    """Pieces side by side one after the other: one row. None if they are not that."""
    first = layouts[0]
    ndim, rest, dtype, device = first.ndim, first.sizes[1:], first.dtype, first.device
    total, widths = 0, []
    for layout in layouts:
        if (
            not layout.is_dense
            or layout.dtype is not dtype
            or layout.device is not device
            or layout.ndim != ndim
            or layout.sizes[1:] != rest
        ):
            return None
        total += layout.sizes[0]
        widths.append(layout.nbytes)
    out = make_layout((total, *rest), first.strides, dtype, device)
    return _join(out, widths, out.nbytes, "cat", Run)


def _first_piece(layouts):
    """The piece that says what the others must look like."""
    if not layouts:
        raise ValueError("torch.cat(): expected a non-empty list of Tensors")
    first = None
    for k, layout in enumerate(layouts):
        if not layout.ndim:
            raise RuntimeError(f"zero-dimensional tensor (at position {k}) cannot be concatenated")
        if first is None and (layout.numel or layout.ndim > 1):
            first = layout
    return first or layouts[0]


def _mismatch(first, layout, dim, k):
    if layout.ndim != first.ndim:
        return RuntimeError(
            f"Tensors must have same number of dimensions: got {first.ndim} and {layout.ndim}"
        )
    a, b = next(
        (a, b) for j, (a, b) in enumerate(zip(first.shape, layout.sizes)) if a != b and j != dim
    )
    return RuntimeError(
        f"Sizes of tensors must match except in dimension {dim}. Expected size {a} but got size "
        f"{b} for tensor number {k} in the list."
    )


def _is_fine(count, width, rows):
    """Are runs few, or long? So many pieces have so many bytes of a row on average."""
    return rows * count <= MANY or width >= NARROW


def _plan_pieces(layouts, sizes, shape, dim):
    """Checked pieces. The result is channels last if all of them are."""
    order = CHANNELS_LAST.get(len(shape)) if all(map(suggests_channels_last, layouts)) else None
    strides = contiguous_strides(shape) if order is None else ordered_strides(shape, order)
    dtypes = {layout.dtype for layout in layouts}
    dtype = _common_dtype(layouts) if len(dtypes) > 1 else layouts[0].dtype
    out = make_layout(shape, strides, dtype, layouts[0].device)
    order = order or tuple(range(len(shape)))
    at, size = order.index(dim), out.itemsize
    rows = prod([shape[k] for k in order[:at]])
    inner = prod([shape[k] for k in order[at + 1 :]]) * size
    if len(dtypes) > 1 or not _is_fine(len(sizes), shape[dim] * inner // len(sizes), rows):
        return _boxes_of_cat(out, layouts, sizes, dim)
    pieces = []
    for layout, n in zip(layouts, sizes):
        step = 0
        if n:
            own = layout.sizes
            step = _step([own[k] for k in order], [layout.strides[k] for k in order], at)
        if step is None:
            return _boxes_of_cat(out, layouts, sizes, dim)
        pieces += (n * inner, step * size)
    return _join(out, pieces, shape[dim] * inner, "cat")


def _boxes_of_cat(out, layouts, sizes, dim):
    places, start = [], 0
    for k, n in enumerate(sizes):
        if n:
            places.append((k, layouts[k].shape, out.strides, start * out.strides[dim]))
        start += n
    return _boxes(out, layouts, places)


CATS = cat.plans = Plans(_plan_cat, mixed=True)
cat.stacks = False


# -- stack -----------------------------------------------------------------------------------------


@launches("stack")
def stack(tensors, dim):
    return _joined(*STACKS[(dim, *[t._layout for t in tensors])], tensors)


def _plan_stack(key):
    dim, *layouts = key
    if not layouts:
        raise RuntimeError("stack expects a non-empty TensorList")
    first, count, plain = layouts[0], len(layouts), dim == 0
    sizes, dtype = first.sizes, first.dtype
    dim = wrap_dim(dim, len(sizes) + 1)
    for k, layout in enumerate(layouts):
        if layout is first:
            plain = plain and layout.is_contiguous
            continue
        if layout.device is not first.device:
            raise errors.different_devices(first.device, layout.device)
        if layout.sizes != sizes:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(sizes)} at entry 0 "
                f"and {list(layout.sizes)} at entry {k}"
            )
        if layout.dtype is not dtype:
            plain, dtype = False, _common_dtype(layouts)
        plain = plain and layout.is_contiguous
    out = dense_layout((*sizes[:dim], count, *sizes[dim:]), dtype, first.device)
    if plain:
        return _join(out, [first.nbytes] * count, out.nbytes, "stack", Run)
    inner, rows, size, pieces = prod(sizes[dim:]), prod(sizes[:dim]), out.itemsize, []
    if _is_fine(count, inner * size, rows):
        for layout in layouts:
            step = inner if layout.is_contiguous else _step(sizes, layout.strides, dim)
            if step is None or layout.dtype is not dtype:
                break
            pieces += (inner * size, step * size)
        else:
            return _join(out, pieces, count * inner * size, "stack")
    slot = out.strides[:dim] + out.strides[dim + 1 :]
    places = [(k, sizes, slot, k * out.strides[dim]) for k in range(count)] if out.numel else []
    return _boxes(out, layouts, places)


STACKS = stack.plans = Plans(_plan_stack, mixed=True)
stack.stacks = True


# -- pad_sequence ----------------------------------------------------------------------------------


@launches("pad_sequence")
def pad_sequence(tensors, batch_first, padding_value, padding_side):
    """Tensors of one shape but for their lengths, elements of at most eight bytes."""
    dtype = tensors[0]._layout.dtype
    for t in tensors:
        if t._layout.dtype is not dtype or not t._layout.is_contiguous:
            tensors = [to_copy(t, dtype, None, contiguous_format) for t in tensors]
            break
    layouts = [t._layout for t in tensors]
    fill = 0
    if padding_value:
        size = dtype.itemsize
        fill = bits_of(padding_value, dtype) & (1 << 8 * size) - 1
        (fill,) = unpack("q", fill.to_bytes(size, "little") * (8 // size))
    return _joined(*PADDED[(batch_first, padding_side, *layouts)], tensors, fill)


def _plan_padded(key):
    batch_first, side, first, *layouts = key
    lengths = [first.sizes[0], *[layout.sizes[0] for layout in layouts]]
    rest, steps, count = first.sizes[1:], max(lengths), len(lengths)
    shape = (count, steps, *rest) if batch_first else (steps, count, *rest)
    out = dense_layout(shape, first.dtype, first.device)
    inner = prod(rest) * out.itemsize
    whole = steps * inner
    width = whole if batch_first else inner
    pieces = []
    for n in lengths:
        begin = whole - n * inner if side == "left" else 0
        pieces += (width, width, begin, begin + n * inner)
    return _join(out, pieces, width * count, "pad_sequence", PaddedPiece)


PADDED = Plans(_plan_padded)


# -- block_diag ------------------------------------------------------------------------------------


@launches("block_diag")
def block_diag(tensors):
    if not tensors:
        return empty_tensor((1, 0), _dtype.default_dtype(), _device.cpu)
    layout, copy, boxes, pack = BLOCKS[tuple([t._layout for t in tensors])]
    out = fill_into(empty_like_layout(layout), 0)
    copy(boxes, out._storage.pointer, pack(*map(address, tensors)), 0)
    return out


def _plan_block_diag(layouts):
    shapes = []
    for k, layout in enumerate(layouts):
        if layout.ndim > 2:
            raise RuntimeError(
                "torch.block_diag: Input tensors must have 2 or fewer dimensions. Input "
                f"{k} has {layout.ndim} dimensions"
            )
        shapes.append((1,) * (2 - layout.ndim) + layout.sizes)
    size = (sum([s[0] for s in shapes]), sum([s[1] for s in shapes]))
    out = dense_layout(size, _common_dtype(layouts), layouts[0].device)
    lifted, places, row, column = [], [], 0, 0
    for k, (layout, shape) in enumerate(zip(layouts, shapes)):
        strides = (0,) * (2 - layout.ndim) + layout.strides
        lifted.append(make_layout(shape, strides, layout.dtype, layout.device))
        if layout.numel:
            places.append((k, shape, out.strides, place_of((row, column), out.strides)))
        row, column = row + shape[0], column + shape[1]
    return _boxes(out, lifted, places)


BLOCKS = Plans(_plan_block_diag)
