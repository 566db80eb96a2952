"""Launching interpolation: sizes are checked, tables computed once per side, kernels chosen.

Forward and gradient are the same kernels (`codegen/templates/resampling.py`) with tables
(`resampling_tables.py`) that are turned around. Tensors are contiguous or channels last; others are
copied first, as PyTorch does. Table rows: `ops/resampling.py`.
"""

from array import array

from flambeau import _dtype
from flambeau._layout import Size, contiguous_strides, make_layout, ordered_strides
from flambeau._tensor import empty_like_layout, empty_tensor
from flambeau.eager.launching import launches
from flambeau.eager.copying import CHANNELS_LAST, copy_into
from flambeau.eager.kernels import load_kernel, pool
from flambeau.eager.plan import MAX_PLANS
from flambeau.eager.resampling_tables import blocked, quantised, table, turned
from flambeau.runtime.cpu import words

_kernels: dict = {}
_plans: dict = {}
_tables: dict = {}
CHUNK = 1 << 15  # elements read and written by a chunk, about
MOST = 64  # chunks, because each has a row of scratch memory
MOST_TABLES = 1024  # remembered ones
_WIDE = (_dtype.float64.code, _dtype.uint8.code)  # sums are kept in double


def _kernel(name, *pattern):
    found = _kernels.get((name, pattern))
    if found is None:
        from flambeau.codegen.templates import resampling  # with llvmlite, on first need

        ir = getattr(resampling, "build_" + name)(*pattern)
        found = _kernels[name, pattern] = load_kernel(ir, f"resample_{name}")
    return found


class _Plan:
    """What a call will do; `memory` owns tables and description."""

    __slots__ = ("source", "out", "last", "run", "description", "scratch", "memory")

    def __init__(self, layout, shape, last):
        order = CHANNELS_LAST[layout.ndim] if last else None

        def dense(shape):
            strides = ordered_strides(shape, order) if last else contiguous_strides(shape)
            return make_layout(shape, strides, layout.dtype, layout.device)

        self.last, self.out = last, dense(shape)
        self.run = self.description = self.scratch = self.memory = None
        computed = self.out.numel and layout.device.type == "cpu"
        direct = layout.is_contiguous or last or not computed
        self.source = layout if direct else dense(layout.shape)

    def fill(self, layout, tables):
        """Choose a kernel and write its tables, one per spatial dimension."""
        dims = len(tables)
        missing = 3 - dims
        tables = [_Taps(lambda: [[(0, 1.0)]])] * missing + tables
        here = (1,) * missing + tuple(layout.shape[-dims:])
        there = (1,) * missing + tuple(self.out.shape[-dims:])
        is_double = layout.dtype.code in _WIDE
        (_lines if self.last else _planes)(self, tables, here, there, layout, is_double)


@launches("resample")
def resample(input, output_size, align_corners, scales, kind):
    if input._layout.dtype is _dtype.uint8 and not kind.startswith("nearest"):
        return _resample_bytes(input, output_size, align_corners, scales, kind)
    return _run(input, kind, output_size, align_corners, scales, None)


def _resample_bytes(input, output_size, align_corners, scales, kind):
    """Columns, then rows: images of bytes are rounded in between."""
    width, (h_scale, w_scale) = output_size[1], scales or (None, None)
    shape = input._layout.shape
    if width != shape[3]:
        between = (shape[2], width)
        input = _run(input, kind, between, align_corners, (None, w_scale), None)
    return _run(input, kind, output_size, align_corners, (h_scale, None), None)


@launches("resample_backward")
def resample_backward(grad_output, output_size, align_corners, scales, input_size, kind):
    return _run(grad_output, kind, output_size, align_corners, scales, input_size)


def by_tables(input, key, build):
    """The gradient of anything that reads by tables.

    build() gives the turned table of every spatial dimension, and the shape of the result. Results
    are channels last where the input is.
    """
    layout = input._layout
    plan = _plans.get((layout, key))
    if plan is None:
        tables, shape = build()
        plan = _remembered(layout, key, _Plan(layout, Size(shape), _is_channels_last(layout)))
        plan.fill(layout, [_Taps(lambda rows=rows: rows) for rows in tables])
    return _launch(plan, input)


def _run(input, *facts):
    layout = input._layout
    plan = _plans.get((layout, facts))
    if plan is None:
        plan = _remembered(layout, facts, _plan(layout, *facts))
    return _launch(plan, input)


def _remembered(layout, key, plan):
    if len(_plans) > MAX_PLANS:
        _plans.clear()
    _plans[layout, key] = plan
    return plan


def _launch(plan, input):
    if plan.source is not input._layout:
        dense = empty_like_layout(plan.source)
        copy_into(dense, input)
        input = dense
    out = empty_like_layout(plan.out)
    if plan.run is not None:
        source = input._storage.pointer + input._offset
        if plan.scratch is None:
            plan.run(plan.description, out._storage.pointer, source, 0)
        else:
            scratch = empty_like_layout(plan.scratch)
            plan.run(plan.description, out._storage.pointer, source, scratch._storage.pointer)
    return out


def _is_channels_last(layout):
    order = CHANNELS_LAST.get(layout.ndim)
    if order is None or layout.is_contiguous or layout.numel == 0:
        return False
    expected = ordered_strides(layout.shape, order)
    pairs = zip(layout.shape, layout.strides, expected)
    return all(n == 1 or a == b for n, a, b in pairs)


def _plan(layout, kind, output_size, align_corners, scales, input_size):
    backward = input_size is not None
    sizes = tuple(input_size[2:]) if backward else tuple(layout.shape[2:])
    if backward and tuple(layout.shape[2:]) != tuple(output_size):
        wanted = [*input_size[:2], *output_size]
        raise RuntimeError(
            f"Expected grad_output to have the same shape as output; output.size = {wanted} but "
            f"got grad_output.size = {list(layout.shape)}"
        )
    # the gradients of bicubic, and of all antialiased modes, come back contiguous
    last = _is_channels_last(layout) and not (backward and ("cubic" in kind or "smooth" in kind))
    shape = Size((*layout.shape[:2], *(sizes if backward else output_size)))
    plan = _Plan(layout, shape, last)
    if not plan.out.numel or layout.device.type != "cpu":
        return plan
    is_bytes = layout.dtype is _dtype.uint8
    exact = layout.dtype is _dtype.float64 or (is_bytes and not kind.startswith("nearest"))
    scales = scales or (None,) * len(sizes)
    tables = [
        _taps(kind, n, wanted, align_corners, scale, exact, is_bytes, backward)
        for n, wanted, scale in zip(sizes, output_size, scales)
    ]
    plan.fill(layout, tables)
    return plan


class _Taps:
    """A table along one dimension; it is made only if what kernels read is not remembered.

    Images of many sizes share the tables of their sides: crops, say, that are resized to one size.
    """

    def __init__(self, rows, facts=None):
        self.rows, self.facts = rows, facts

    def packed(self, is_double):
        return self._remembered(_packed, is_double)

    def blocked(self, code):
        return self._remembered(_blocked, code)

    def _remembered(self, make, fact):
        if self.facts is None:
            return make(self.rows(), fact)
        key = (self.facts, make, fact)
        found = _tables.get(key)
        if found is None:
            if len(_tables) > MOST_TABLES:
                _tables.clear()
            found = _tables[key] = make(self.rows(), fact)
        return found


def _taps(*facts):
    kind, size, wanted, align_corners, scale, exact, is_bytes, backward = facts

    def rows():
        found = table(kind, size, wanted, align_corners, scale, exact)
        if is_bytes:
            same = size == wanted
            found = [[(k, 1.0)] for k in range(size)] if same else quantised(found)
        return turned(found, size) if backward else found

    return _Taps(rows, facts)


def _blocked(rows, code):
    """`blocked` in native memory, for the registers of a dtype."""
    from flambeau.codegen.templates.resampling import lanes, reach

    way, count, ragged, bases, indices, weights = blocked(rows, lanes(code), reach(code))
    is_double = code in _WIDE
    arrays = [
        array("q", bases),
        array("q" if is_double else "i", indices),
        array("d" if is_double else "f", weights),
    ]
    return way, count, ragged, arrays


def _packed(taps, is_double):
    """(pointers, indices, weights) of a table in native memory."""
    pointers, indices, weights = [0], [], []
    for row in taps:
        indices += [i for i, _ in row]
        weights += [v for _, v in row]
        pointers.append(len(indices))
    # a place without taps is asked for its first one, which counts for nothing
    indices.append(0)
    weights.append(0.0)
    return array("q", pointers), array("q", indices), array("d" if is_double else "f", weights)


def _addresses(arrays):
    return [a.buffer_info()[0] for a in arrays]


def _cut(rows, work):
    """(chunks, rows per chunk) by sizes alone."""
    chunks = min(MOST, rows, max(1, work // CHUNK))
    per_chunk = -(-rows // chunks)
    chunks = -(-rows // per_chunk)
    if chunks > 1:
        pool().ensure_workers()
    return chunks, per_chunk


def _planes(plan, tables, here, there, layout, is_double):
    from flambeau.codegen.templates.resampling import STRAIGHT, lanes

    code = layout.dtype.code
    rows = layout.numel // (here[0] * here[1] * here[2]) * there[0] * there[1]
    chunks, per_chunk = _cut(rows, layout.numel + plan.out.numel)
    way, count, ragged, in_blocks = tables[2].blocked(code)
    arrays = [*tables[0].packed(is_double), *tables[1].packed(is_double), *in_blocks]
    # a register that starts at the last column reads this far past the end
    room = (here[2] + 4 * lanes(code)) & -16
    plan.run = _kernel("rows", code, count if count <= STRAIGHT else 0, way, ragged)
    owner, plan.description = words(
        [chunks, rows, per_chunk, *there, *here, room, *_addresses(arrays), count]
    )
    plan.memory = (owner, arrays)
    plan.scratch = empty_tensor(
        Size((chunks * room * (2 if is_double else 1),)), _dtype.float32, layout.device
    )._layout


def _lines(plan, tables, here, there, layout, is_double):
    rows = layout.shape[0] * there[0] * there[1]
    chunks, per_chunk = _cut(rows, layout.numel + plan.out.numel)
    arrays = [a for t in tables for a in t.packed(is_double)]
    plan.run = _kernel("pixels", layout.dtype.code)
    owner, plan.description = words(
        [chunks, rows, per_chunk, *there, *here, layout.shape[1], *_addresses(arrays)]
    )
    plan.memory = (owner, arrays)
