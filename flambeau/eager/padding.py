"""Launching pad in all its modes, and the gradients of those that read edges.

Tensors in memory order (channels last too) are padded row by row
(`codegen/templates/padding.py`); others as boxes of strided copies. The gradient of an edge mode
sums what was read from each place: tables and kernels of `resampling.py`. Table rows:
`ops/padding.py`.
"""

import itertools
import struct
from math import prod

from flambeau import _dtype, errors
from flambeau._layout import dense_layout
from flambeau.autograd.grad_mode import modes
from flambeau.codegen.descriptions_places import Pad, PaddedSide
from flambeau.eager.copying import CHANNELS_LAST
from flambeau.eager.launching import launches
from flambeau.eager.planned import idle, launch, planned
from flambeau.eager.rearranging import arranged, memory_order_of, place_of, shaped_like
from flambeau.eager.resampling import READERS, by_tables
from flambeau.eager.rows import has_work
from flambeau.ops import padding_geometry as geometry
from flambeau.ops.indexing import check_fits
from flambeau.ops.padding import edge_gradient
from flambeau.ops.views import ints

CHUNK = 1 << 16  # elements written by a chunk, about


# -- rows ------------------------------------------------------------------------------------------


def _by_boxes(input, pad, mode, value, bits):
    if mode != "constant":
        return arranged(_edge_boxes, input, pad, mode)
    return arranged(_constant_boxes, input, pad, fill=value if max(pad, default=0) > 0 else None)


@planned(
    None, "input: tensor, pad, mode, value: number, bits: number", order="result input bits",
    otherwise=_by_boxes,
)  # fmt: skip
def _pad(layout, pad, mode):
    """Pad by rows, or by boxes where that is not a matter of rows."""
    widths = geometry.widths(layout.ndim, pad)
    if mode == "constant":
        out = _constant_layout(layout, pad, widths)
    else:
        out = _edge_layout(layout, pad, widths, mode)
    if not has_work(out):
        return idle(out)
    words = _rows(layout, out, widths) if layout.numel and layout.itemsize <= 8 else None
    if words is None:
        return out, None, None
    return launch(out, words, "pad", "padding:build_pad", 8 * layout.itemsize, mode)


def _rows(layout, out, widths):
    """The words of a launch, or None if this is not a matter of rows.

    That is padding of the last three dimensions in memory.
    """
    sizes, sides = layout.sizes, widths
    if not layout.is_contiguous:
        if memory_order_of(layout) is None or out.strides[1] != 1:
            return None
        order = CHANNELS_LAST[layout.ndim]
        sizes, sides = [sizes[k] for k in order], [widths[k] for k in order]
    if any(side != (0, 0) for side in sides[:-3]) or not sizes:
        return None
    words, rows = [], prod(sizes[:-3])
    for k in range(-3, 0):
        n, (low, high) = (sizes[k], sides[k]) if len(sizes) >= -k else (1, (0, 0))
        words += PaddedSide(n + low + high, n, low, n + min(0, low) + min(0, high))
        if k != -1:
            rows *= n + low + high
    per_chunk = -(-rows // max(1, min(rows, out.numel // CHUNK)))
    return (*Pad(-(-rows // per_chunk), rows, per_chunk), *words)


def bits_of(value, dtype):
    """A number as the integer that its element is in memory."""
    code = dtype.code
    if code == "bool":
        return 1
    if code == "bf16":
        (bits,) = struct.unpack("I", struct.pack("f", value))
        # to nearest, ties to even; a nan stays one
        return 0x7FC0 if value != value else (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    if code == "c64":
        value = complex(value)
        return struct.unpack("q", struct.pack("ff", value.real, value.imag))[0]
    if code == "c32":
        value = complex(value)
        low, high = bits_of(value.real, _dtype.float16), bits_of(value.imag, _dtype.float16)
        return low & 0xFFFF | high << 16
    if dtype.is_floating_point:
        letter = {"f16": "e", "f32": "f", "f64": "d"}[code]
        size = {"e": "h", "f": "i", "d": "q"}[letter]
        try:
            return struct.unpack(size, struct.pack(letter, value))[0]
        except OverflowError:  # more than the type holds
            return struct.unpack(size, struct.pack(letter, float("inf") * value))[0]
    value = int(value)
    return value - (1 << 64) if value >= 1 << 63 else value


# -- modes -----------------------------------------------------------------------------------------


def _constant_layout(layout, pad, widths):
    pad = ints("constant_pad_nd", "pad", pad)
    if len(pad) % 2:
        raise RuntimeError(f"Length of pad must be even but instead it equals {len(pad)}")
    shape = []
    for n, (low, high) in zip(layout.sizes, widths):
        if n + min(0, low) + min(0, high) < 0:
            raise RuntimeError("narrow(): length must be non-negative.")
        shape.append(n + low + high)
    return shaped_like(layout, shape)


def _constant_boxes(layout, pad):
    widths = geometry.widths(layout.ndim, pad)
    out = _constant_layout(layout, pad, widths)
    sizes = [n + min(0, low) + min(0, high) for n, (low, high) in zip(layout.sizes, widths)]
    place = place_of([max(0, low) for low, _ in widths], out.strides)
    start = place_of([max(0, -low) for low, _ in widths], layout.strides)
    return out, [(sizes, out.strides, place, layout.strides, start)]


@launches("constant_pad")
def constant_pad(input, pad, value):
    if len(pad) > 2 * input._layout.ndim:
        raise RuntimeError(
            "Length of pad should be no more than twice the number of dimensions of the input. "
            f"Pad length is {len(pad)} while the input has {input._layout.ndim} dimensions."
        )
    nothing = max(pad, default=0) <= 0  # is filled
    if nothing or (value == 0 and type(value) in (int, float)):
        return _pad(input, pad, "constant", 0, 0)
    dtype = input._layout.dtype
    value = _number(value, dtype)
    bits = bits_of(value, dtype) if value != 0 and dtype.itemsize <= 8 else 0
    return _pad(input, pad, "constant", value, bits)


def _number(value, dtype):
    value = value.item() if hasattr(value, "item") else value
    check_fits(value, dtype)
    return int(value) if dtype.category == _dtype.INTEGER else value


def _edge_layout(layout, pad, widths, mode):
    geometry.check_edges(layout, pad, mode)
    if layout.dtype in (_dtype.bool_, _dtype.complex32) and mode != "circular":
        name = "replication" if mode == "replicate" else "reflection"
        raise errors.not_implemented(f"{name}_pad{len(pad) // 2}d", layout.dtype)
    shape = tuple([n + low + high for n, (low, high) in zip(layout.sizes, widths)])
    if mode == "circular":
        return dense_layout(shape, layout.dtype, layout.device)
    return shaped_like(layout, shape)


def _edge_boxes(layout, pad, mode):
    widths = geometry.widths(layout.ndim, pad)
    out = _edge_layout(layout, pad, widths, mode)
    sides = [geometry.sides(n, low, high, mode) for n, (low, high) in zip(layout.sizes, widths)]
    boxes = []
    for box in itertools.product(*sides):
        source, steps, target, sizes = zip(*box)
        strides = [a * s for a, s in zip(steps, layout.strides)]
        places = place_of(target, out.strides), place_of(source, layout.strides)
        boxes.append((sizes, out.strides, places[0], strides, places[1]))
    return out, boxes


@launches("edge_pad")
def edge_pad(input, pad, mode):
    return _pad(input, pad, mode, 0, 0)


# -- gradients -------------------------------------------------------------------------------------


@launches("edge_pad_backward")
def edge_pad_backward(grad_output, input_shape, pad, mode):
    layout = grad_output._layout
    if not layout.dtype.is_floating_point or not layout.numel or not layout.device.runtime.computes:
        previous, modes.grad = modes.grad, False
        try:
            return edge_gradient(grad_output, input_shape, pad, mode)
        finally:
            modes.grad = previous

    return by_tables(grad_output, "pad", (tuple(input_shape), pad, mode))


READERS["pad"] = geometry.edge_maps
