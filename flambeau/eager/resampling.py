"""Launching interpolation: sizes are checked, tables found per side, kernels chosen.

Forward and gradient are the same kernels (`codegen/templates/resampling.py`) with tables
(`resampling_tables.py`) that are turned around. Tensors are contiguous or channels last; others are
copied first, as PyTorch does. Table rows: `ops/resampling.py`.
"""

import math

from flambeau import _dtype
from flambeau._device import cpu
from flambeau._layout import dense_layout, make_layout, ordered_strides, suggests_channels_last
from flambeau._natively import natively
from flambeau._tensor import check_room
from flambeau.codegen.descriptions_images import Resampling
from flambeau.eager import rows
from flambeau.eager.copying import CHANNELS_LAST
from flambeau.eager.kernels import pool
from flambeau.eager.launching import launches
from flambeau.eager.planned import idle, planned
from flambeau.eager.plans import Plans
from flambeau.eager.resampling_tables import (
    REMEMBERED,
    SIDES,
    WIDE,
    in_blocks,
    listed,
    moved,
    rows_kernel,
    turned,
)
from flambeau.eager.rows import dense_like, has_work, vector_layout
from flambeau.runtime.cpu import packed

CHUNK = 1 << 14  # elements read and written by a chunk, about
ROW = 16  # elements that would take as long as beginning a row does
MOST = 64  # chunks, because each has a row of scratch memory


@launches("resample")
def resample(input, output_size, align_corners, scales, kind):
    """Images of bytes are rounded between columns and rows."""
    layout = input._layout
    if layout.dtype is _dtype.uint8 and not kind.startswith("nearest"):
        (height, own), (h_scale, w_scale) = layout.sizes[-2:], scales or (None, None)
        if output_size[1] != own:
            input = _resample(
                input, kind, (height, output_size[1]), align_corners, (None, w_scale), None
            )
        scales = h_scale, None
    return _resample(input, kind, output_size, align_corners, scales, None)


@launches("resample_backward")
def resample_backward(grad_output, output_size, align_corners, scales, input_size, kind):
    return _resample(grad_output, kind, output_size, align_corners, scales, input_size)


READERS: dict = {}  # name -> function that says what is read, see by_tables


# -- plans -----------------------------------------------------------------------------------------


def _layouts(layout, sizes, dims, last):
    """(layout of the input as it is read, its step from plane to plane, layout of the result).

    last: are channels last? Then planes are images, pixel by pixel.
    """
    if last:
        source, out = [
            make_layout(n, ordered_strides(n, CHANNELS_LAST[len(n)]), layout.dtype, layout.device)
            for n in (layout.sizes, sizes)
        ]
        return source, source.strides[0], out
    out = dense_layout(sizes, layout.dtype, layout.device)
    step = rows.plane_step(layout.sizes, layout.strides, dims)
    if step < 0:
        layout = dense_like(layout)
        step = math.prod(layout.sizes[-dims:])
    return layout, step, out


@planned(
    None, "input: fitted, kind, output_size, align_corners, scales, input_size",
    room=True, keeps=True, remembered=REMEMBERED,
)  # fmt: skip
def _resample(layout, kind, output_size, align_corners, scales, input_size):
    """(layout of the result, kernel, description, layout of the source, scratch, tables)."""
    backward, given = input_size is not None, layout.sizes
    sizes = tuple(input_size)[2:] if backward else given[2:]
    if backward and given[2:] != output_size:
        wanted = [*input_size[:2], *output_size]
        raise RuntimeError(
            f"Expected grad_output to have the same shape as output; output.size = {wanted} but "
            f"got grad_output.size = {list(layout.shape)}"
        )
    # the gradients of bicubic, and of all antialiased modes, come back contiguous
    last = suggests_channels_last(layout) and not (
        backward and ("cubic" in kind or "smooth" in kind)
    )
    shape = given[:2] + (sizes if backward else output_size)
    source, step, out = _layouts(layout, shape, len(sizes), last)
    if not has_work(out):
        return *idle(out), layout, None, None
    check_room(out)  # before tables are made for it
    known = SIDES[layout.device, layout.dtype, kind, align_corners, backward]
    sides = list(zip(sizes, output_size, scales or (None,) * len(sizes)))
    if known.is_regular and len(sides) == 2 and not last:
        columns = known.columns[sides[1]]
        kernel, high = known.without_table(sides[0], columns)
        return _by_rows(source, step, out, None, high, columns, kernel)
    tables = [known.tables[side] for side in sides]
    if last or not layout.device.runtime.is_host:
        return _by_pixels(source, step, out, tables, last)
    columns = known.columns[sides[-1]]
    return _by_rows(source, step, out, tables, None, columns, known.kernel(columns.facts))


@planned(
    None, "input: fitted, name, facts", room=True, keeps=True, remembered=REMEMBERED,
)  # fmt: skip
def by_tables(layout, name, facts):
    """The gradient of anything that reads by tables; channels last where the input is.

    READERS[name](*facts) says which input every output reads along each spatial dimension, and the
    shape of the result.
    """
    maps, shape = READERS[name](*facts)
    last = suggests_channels_last(layout)
    source, step, out = _layouts(layout, shape, len(maps), last)
    if not has_work(out):
        return *idle(out), layout, None, None
    wide, device = layout.dtype.code in WIDE, layout.device
    inputs = shape[-len(maps) :]
    host = device if device.runtime.is_host else cpu
    tables = [turned(host, listed([[(i, 1.0)] for i in m], wide), n) for m, n in zip(maps, inputs)]
    if host is not device:
        tables = [moved(table, device) for table in tables]
    if last or host is not device:
        return _by_pixels(source, step, out, tables, last)
    columns = in_blocks(device, tables[-1], layout.dtype.code)
    kernel = rows_kernel(device, columns.facts)
    return _by_rows(source, step, out, tables, None, columns, kernel)


@natively
def _described(
    planes, here: tuple, there: tuple, work, step, line, count, places: tuple
):  # fmt: skip
    """(chunks, description): how rows are cut, by sizes alone.

    here, there: depth, height and width of input and output; line: elements of scratch per chunk,
    or channels; count: taps of a column in blocks; places: of three tables.
    """
    rows = planes * there[0] * there[1]
    wanted = (work + rows * ROW) // CHUNK & -2
    per_chunk = -(-rows // min(MOST, rows, max(1, wanted)))
    chunks = -(-rows // per_chunk)
    head = [chunks, rows, per_chunk, *there, *here, step, line, count]
    return chunks, packed([*head, *places])


assert Resampling._fields[3:13:9] == ("depth", "deep_pointers") and len(Resampling._fields) == 21


def _three(source, out, tables):
    """Tables, input sizes and output sizes of three dimensions; missing ones have size 1."""
    dims = len(tables)
    here, there = source.sizes[-dims:], out.sizes[-dims:]
    if dims < 3:
        ones = (1,) * (3 - dims)
        one = ONE[source.device, source.dtype]
        return [*[one] * len(ones), *tables], ones + here, ones + there
    return tables, here, there


# the table of a dimension of size 1, by device and dtype
ONE = Plans(lambda key: SIDES[*key, "nearest", False, False].tables[1, 1, None], by_default=False)


def _by_rows(source, step, out, tables, regular, columns, kernel):
    """Planes of rows, the width last; regular: what stands in place of a table of the height."""
    if tables is None:
        deep, high = ONE[source.device, source.dtype], None
        here, there = (1, *source.sizes[-2:]), (1, *out.sizes[-2:])
    else:
        (deep, high, _), here, there = _three(source, out, tables)
        regular = high.places
    # a register that starts at the last column reads this far past the end
    room = (here[2] + 4 * columns.lanes) & -16
    count, places = columns.taps, deep.places + regular + columns.places
    planes, work = source.numel // (here[0] * here[1] * here[2]), source.numel + out.numel
    chunks, desc = _described(planes, here, there, work, step, room, count, places)
    if chunks > 1:
        pool().ensure_workers()
    scratch = vector_layout(chunks * room * (2 if deep.wide else 1), _dtype.float32, source.device)
    return out, kernel, desc, source, scratch, (deep, high, columns)


def _by_pixels(source, step, out, tables, last):
    """Rows of pixels, channels last; planes of rows have one channel."""
    tables, here, there = _three(source, out, tables)
    images, channels = source.sizes[:2]
    if not last:
        images, channels = source.numel // math.prod(here), 1
    places = tuple([place for table in tables for place in table.places])
    facts = ("resampling:build_pixels", source.dtype.code)
    kernel = source.device.runtime.kernel("resample_pixels", *facts)
    work = source.numel + out.numel
    chunks, desc = _described(images, here, there, work, step, channels, 0, places)
    if chunks > 1:
        pool().ensure_workers()
    return out, kernel, desc, source, None, tuple(tables)
