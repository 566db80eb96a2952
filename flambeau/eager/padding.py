"""Launching pad in all its modes, and the gradients of those that read edges.

Tensors in memory order (channels last too) are padded row by row
(`codegen/templates/padding.py`); others as boxes of strided copies. The gradient of an edge mode
sums what was read from each place: tables and kernels of `resampling.py`. Table rows:
`ops/padding.py`.
"""

import itertools
import struct
from array import array

from flambeau import _dtype, errors
from flambeau._layout import Size, dense_layout
from flambeau._tensor import empty_like_layout
from flambeau.autograd.grad_mode import modes
from flambeau.eager.copying import CHANNELS_LAST
from flambeau.eager.kernels import load_kernel, pool
from flambeau.eager.launching import launches
from flambeau.eager.plan import MAX_PLANS
from flambeau.eager.rearranging import arranged, memory_order_of, place_of, shaped_like
from flambeau.eager.resampling import READERS, by_tables
from flambeau.ops.padding import edge_gradient
from flambeau.ops.views import ints
from flambeau.runtime.cpu import words

_kernels: dict = {}
_plans: dict = {}
CHUNK = 1 << 16  # elements written by a chunk, about


def _widths(ndim, pad):
    """(before, after) per dimension, from the first on."""
    found = [(0, 0)] * ndim
    for k in range(len(pad) // 2):
        found[ndim - 1 - k] = (pad[2 * k], pad[2 * k + 1])
    return found


def _map(size, low, high, mode):
    """Which input every output of a dimension is; -1 for the constant."""
    places = range(-low, size + high)
    if mode == "constant":
        return [k if 0 <= k < size else -1 for k in places]
    if mode == "replicate":
        return [min(max(k, 0), size - 1) for k in places]
    if mode == "reflect":
        return [size - 1 - abs(size - 1 - abs(k)) for k in places]
    start = max(0, -low)  # circular: what is left after cutting, over and over
    kept = size - start - max(0, -high)
    return [start + (k - start) % kept for k in places]


# -- rows ------------------------------------------------------------------------------------------


def _rows(layout, out, widths, mode):
    """(kernel, description, memory it needs), or None if this is not a matter of rows."""
    if layout.is_contiguous:
        order = tuple(range(layout.ndim))
    elif memory_order_of(layout) is not None and out.strides[1] == 1:
        order = CHANNELS_LAST[layout.ndim]
    else:
        return None
    sizes, sides = [layout.shape[k] for k in order], [widths[k] for k in order]
    padded = [k for k, pair in enumerate(sides) if pair != (0, 0)]
    if not sizes or layout.itemsize > 8 or (padded and padded[0] < len(sizes) - 3):
        return None
    missing = max(0, 3 - len(sizes))
    sizes = [1] * missing + sizes
    sides = [(0, 0)] * missing + sides
    planes = 1
    for n in sizes[:-3]:
        planes *= n
    sizes, sides = sizes[-3:], sides[-3:]
    maps = [_map(n, *side, mode) for n, side in zip(sizes, sides)]
    left, right = (max(0, side) for side in sides[2])
    length = len(maps[2]) - left - right
    if length <= 0:
        left, length = len(maps[2]), 0
    ends = maps[2][:left] + maps[2][left + length :]
    start = maps[2][left] if length else 0
    memory = [array("q", m or [0]) for m in (maps[0], maps[1], ends)]
    rows = planes * len(maps[0]) * len(maps[1])
    chunks = max(1, min(rows, out.numel // CHUNK))
    per_chunk = -(-rows // chunks)
    chunks = -(-rows // per_chunk)
    owner, at = words(
        [chunks, rows, per_chunk, *map(len, maps), *sizes, left, start, length]
        + [a.buffer_info()[0] for a in memory]
    )
    if chunks > 1:
        pool().ensure_workers()
    return _kernel(f"i{8 * layout.itemsize}"), at, (owner, memory)


def _kernel(integer):
    found = _kernels.get(integer)
    if found is None:
        from flambeau.codegen.templates.padding import build_pad  # with llvmlite, on first need

        found = _kernels[integer] = load_kernel(build_pad(integer), "pad")
    return found


def _padded(input, pad, mode, plan, value):
    """Run a plan by rows, or by boxes where there is none."""
    key = (input._layout, pad, mode)
    found = _plans.get(key)
    if found is None:
        if len(_plans) > MAX_PLANS:
            _plans.clear()
        layout = input._layout
        out = plan(layout, pad, mode)[0]
        rows = None
        if out.numel and layout.numel and out.device.runtime.computes:
            rows = _rows(layout, out, _widths(layout.ndim, pad), mode)
        found = _plans[key] = out, rows
    layout, rows = found
    if rows is None:
        is_filled = mode == "constant" and max(pad, default=0) > 0
        return arranged(plan, input, pad, mode, fill=value if is_filled else None)
    out = empty_like_layout(layout)
    bits = bits_of(value, layout.dtype) if mode == "constant" and value != 0 else 0
    rows[0](rows[1], out._storage.pointer, input._storage.pointer + input._offset, bits)
    return out


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


def _plan_constant_pad(layout, pad, mode):
    pad = ints("constant_pad_nd", "pad", pad)
    if len(pad) % 2:
        raise RuntimeError(f"Length of pad must be even but instead it equals {len(pad)}")
    widths = _widths(layout.ndim, pad)
    sizes = [n + min(0, low) + min(0, high) for n, (low, high) in zip(layout.shape, widths)]
    if min(sizes, default=0) < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    out = shaped_like(layout, [n + low + high for n, (low, high) in zip(layout.shape, widths)])
    place = place_of([max(0, low) for low, _ in widths], out.strides)
    start = place_of([max(0, -low) for low, _ in widths], layout.strides)
    return out, [(sizes, out.strides, place, layout.strides, start)]


@launches("constant_pad")
def constant_pad(input, pad, value):
    value = _number(value, input._layout.dtype)
    return _padded(input, pad, "constant", _plan_constant_pad, value)


def _number(value, dtype):
    value = value.item() if hasattr(value, "item") else value
    if dtype.category != _dtype.INTEGER:
        return value
    value = int(value)
    low, high = _limits(dtype)
    if not low <= value <= high:
        name = f"{dtype.name}_t"
        raise RuntimeError(f"value cannot be converted to type {name} without overflow")
    return value


def _limits(dtype):
    bits = 8 * dtype.itemsize
    if dtype.code[0] == "u":
        return -(1 << bits) + 1, (1 << bits) - 1
    return -(1 << bits - 1), (1 << bits - 1) - 1


def _check_edges(layout, pad, mode):
    shape, dims = layout.shape, len(pad) // 2
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
                f"dimension, but got: padding ({low}, {high}) at dimension {dim} of input "
                f"{list(shape)}"
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


def _plan_edge_pad(layout, pad, mode):
    _check_edges(layout, pad, mode)
    if layout.dtype is _dtype.bool_ and mode != "circular":
        name = "replication" if mode == "replicate" else "reflection"
        raise errors.not_implemented(f"{name}_pad{len(pad) // 2}d", layout.dtype)
    widths = _widths(layout.ndim, pad)
    shape = Size(n + low + high for n, (low, high) in zip(layout.shape, widths))
    if mode == "circular":
        out = dense_layout(shape, layout.dtype, layout.device)
    else:
        out = shaped_like(layout, shape)
    sides = [_sides(n, low, high, mode) for n, (low, high) in zip(layout.shape, widths)]
    boxes = []
    for box in itertools.product(*sides):
        source, steps, target, sizes = zip(*box)
        strides = [a * s for a, s in zip(steps, layout.strides)]
        places = place_of(target, out.strides), place_of(source, layout.strides)
        boxes.append((sizes, out.strides, places[0], strides, places[1]))
    return out, boxes


@launches("edge_pad")
def edge_pad(input, pad, mode):
    return _padded(input, pad, mode, _plan_edge_pad, 0)


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

    return by_tables(grad_output, "pad", tuple(input_shape), pad, mode)


def _edge_maps(input_shape, pad, mode):
    """What every output reads along the padded dimensions, and the shape of the gradient."""
    dims = len(pad) // 2
    widths = _widths(len(input_shape), pad)[-dims:]
    return [_map(n, *side, mode) for n, side in zip(input_shape[-dims:], widths)], input_shape


READERS["pad"] = _edge_maps
