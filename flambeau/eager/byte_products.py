"""Launching products of bytes: packed weights, and what is done with them.

`Packed` holds the weights of a layer in the order in which tiles read them
(`codegen/templates/byte_products.py`), made once. `levels` and `numbers` multiply: by activations
that are quantized already, or by floats that become bytes on the way.
"""

import struct

from flambeau import _dtype as d
from flambeau._device import cpu
from flambeau._layout import dense_layout
from flambeau._tensor import empty_like_layout
from flambeau.codegen.descriptions_quantized import ByteProduct, ByteRange
from flambeau.eager.kernels import pool
from flambeau.eager.plans import Plans
from flambeau.eager.rows import address
from flambeau.ops.table import public
from flambeau.runtime.cpu import packed
from flambeau.runtime.processor import matrices_allowed

WORK = 1 << 18  # products worth a chunk
BLOCK = 1 << 17  # bytes of activations that a chunk goes over again and again


LEAST_DEPTH = 8  # words of a run that fill half of a matrix register's line


def has_matrices():
    """Are bytes multiplied in matrix registers?"""
    from flambeau.codegen.templates import squares  # with llvmlite

    return squares.available("int8") and matrices_allowed()


def lanes():
    """Columns in a vector."""
    from flambeau.codegen.templates import byte_products  # with llvmlite

    return byte_products.lanes()


def _vectors_for(columns, width):
    """Vectors of a strip: as wide as can be without much waste."""
    needed = -(-columns // width)
    costs = {v: -(-needed // v) * v * (1 + 0.12 * (4 - v)) for v in (4, 3, 2, 1)}
    return min(costs, key=lambda v: costs[v])


class Packed:
    """Weights of a layer, packed: [groups, columns, taps, run] signed bytes with scales.

    taps: runs of a patch, each of `run` bytes. scales: one per column, or one for all.
    """

    def __init__(self, weights, scales, bias):
        groups, columns, taps, run = weights.shape
        width = lanes()
        self.groups, self.columns, self.taps, self.run = groups, columns, taps, run
        self.vectors = _vectors_for(columns, width)
        self.strips = -(-columns // (self.vectors * width))
        self.padded = self.strips * self.vectors * width
        self.depth = -(-run // 4)
        self.weights = self._packed(weights, width)
        self.sums = self._spread(weights.sum((2, 3), dtype=d.int32))
        self.scales = self._spread(scales.float().expand(groups * columns).reshape(groups, -1))
        self.bias = (
            None if bias is None else self._spread(bias.detach().float().reshape(groups, -1))
        )
        self.tables: dict = {}
        self.plans = Plans(self._plan)
        self.number_plans = Plans(self._number_plan)

    def _packed(self, weights, width):
        more = public("zeros")((self.groups, self.padded, self.taps, 4 * self.depth), dtype=d.int8)
        more[:, : self.columns, :, : self.run] = weights
        split = (self.groups, self.strips, self.vectors * width, self.taps, self.depth, 4)
        found = more.reshape(split).permute(0, 1, 3, 4, 2, 5).contiguous()
        # tiles of matrices read whole ones, times zeros where the weights have ended
        spare = public("zeros")((LEAST_DEPTH * 2 * self.vectors * 4 * width,), dtype=d.int8)
        return public("cat")((found.flatten(), spare))

    def _spread(self, numbers):
        """Numbers of columns, padded to whole strips."""
        more = public("zeros")((self.groups, self.padded), dtype=numbers.dtype)
        more[:, : self.columns] = numbers
        return more

    def _table(self, factors, bias):
        empty = public("zeros")((self.groups, self.padded), dtype=d.float32)
        parts = (self.sums, factors.view(d.int32), (empty if bias is None else bias).view(d.int32))
        return public("stack")(parts, 1).contiguous()

    def level_table(self, scale, out_scale):
        """Multipliers and biases for levels, as fbgemm rounds them."""
        key = (scale, out_scale)
        found = self.tables.get(key)
        if found is None:
            both = self.scales * scale
            bias = None
            if self.bias is not None:
                bias = public("where")(both == 0, both, self.bias / both)
            found = self.tables[key] = self._table(both / out_scale, bias)
            if len(self.tables) > 8:
                del self.tables[next(iter(self.tables))]
        return found

    def number_table(self):
        """The same for numbers: the scale of the input comes with the launch."""
        found = self.tables.get(None)
        if found is None:
            found = self.tables[None] = self._table(self.scales, self.bias)
        return found

    def _plan(self, key):
        result, geometry, low, high, out_zero, _ = key
        facts = result, self.vectors, self.depth >= LEAST_DEPTH and has_matrices()
        kernel = cpu.runtime.kernel("byte_product", "byte_products:build_product", *facts)
        return kernel, packed(self._words(geometry, low, high, out_zero))

    def _number_plan(self, key):
        """Two kernels, and where their results lie: floats to bytes, and the product."""
        layout, relu, reduce_range, threads = key
        count = layout.numel
        rows = count // self.run
        out = dense_layout((*layout.sizes[:-1], self.columns), d.float32, layout.device)
        if not rows:
            return None, None, out, None, None, None, None
        product = self.plans["f32", rows_of(rows, self.run), 0 if relu else 1, 0, 0, threads]
        to_bytes = cpu.runtime.kernel("byte_range", "byte_ranges:build_range")
        words = packed(ByteRange(1, count, 127 if reduce_range else 255))
        space = dense_layout((count + 4,), d.uint8, layout.device)
        return *product, out, to_bytes, words, space, dense_layout((2,), d.int32, layout.device)

    def _words(self, geometry, low, high, out_zero):
        g = geometry
        pixels = g.pictures * g.height * g.width
        workers = pool().get_num_threads()
        per_pixel = self.taps * 4 * self.depth
        work = pixels * per_pixel * self.padded * self.groups
        per_chunk, strips = pixels, self.strips
        if work > WORK and workers > 1:
            strips, per_chunk = self._cut(pixels, per_pixel, workers)
        elif pixels * per_pixel > BLOCK:
            per_chunk = max(48, BLOCK // per_pixel)
        strip_chunks = -(-self.strips // strips)
        pixel_chunks = -(-pixels // per_chunk)
        chunks = self.groups * strip_chunks * pixel_chunks
        if chunks > 1:
            pool().ensure_workers()
        return ByteProduct(
            chunks=chunks,
            pixels=pixels,
            per_chunk=per_chunk,
            pixel_chunks=pixel_chunks,
            strips=self.strips,
            strips_per_chunk=strips,
            strip_chunks=strip_chunks,
            columns=self.columns,
            width=g.width,
            height=g.height,
            pixel_step=g.pixel_step,
            line_step=g.line_step,
            picture_step=g.picture_step,
            taps=g.taps_down,
            taps_across=g.taps_across,
            tap_down=g.tap_down,
            tap_across=g.tap_across,
            depth=self.depth,
            group_step=g.group_step,
            out_pixel=self.groups * self.columns,
            padded=self.padded,
            low=low,
            high=high,
            out_zero=out_zero,
        )

    def _cut(self, pixels, per_pixel, workers):
        """(strips, pixels) of a chunk: even shares, small enough for a cache."""
        per_chunk = min(pixels, max(48, BLOCK // per_pixel))
        tall = -(-pixels // per_chunk)
        if tall >= 2 * workers or self.groups >= workers:
            even = -(-tall // workers) * workers
            return self.strips, -(-pixels // even)
        if self.strips >= workers:
            return -(-self.strips // workers), per_chunk
        return self.strips, -(-pixels // (2 * workers)) if pixels >= 24 * workers else pixels


class Geometry:
    """Where patches lie; a value that plans are found by. Distances in bytes."""

    __slots__ = (
        "group_step", "height", "key", "line_step", "picture_step", "pictures", "pixel_step",
        "tap_across", "tap_down", "taps_across", "taps_down", "width",
    )  # fmt: skip

    def __init__(self, **facts):
        for name, value in facts.items():
            setattr(self, name, value)
        self.key = tuple(facts.values())

    def __hash__(self):
        return hash(self.key)

    def __eq__(self, other):
        return self.key == other.key


_rows: dict = {}


def rows_of(count, length):
    """The geometry of a matrix: rows side by side, each one run."""
    found = _rows.get((count, length))
    if found is None:
        found = Geometry(
            pictures=1, height=1, width=count, pixel_step=length, line_step=0, picture_step=0,
            taps_down=1, taps_across=1, tap_down=0, tap_across=0, group_step=0,
        )  # fmt: skip
        if len(_rows) > 256:
            _rows.clear()
        _rows[count, length] = found
    return found


_FACTS = struct.Struct("if")
BOUNDS = {d.uint8: (0, 255), d.int8: (-128, 127)}


def levels(weights, geometry, activations, zero_point, scale, out, out_scale, out_zero, relu):
    """Levels of the output into `out`, a tensor of bytes; activations: the address of bytes."""
    low, high = BOUNDS[out._layout.dtype]
    low = max(low, out_zero) if relu else low
    result = out._layout.dtype.code
    key = (result, geometry, low, high, out_zero, pool().get_num_threads())
    kernel, words = weights.plans[key]
    table = weights.level_table(scale, out_scale)
    kernel(words, address(out), activations, address(weights.weights), address(table),
           _FACTS.pack(zero_point, 0.0))  # fmt: skip
    return out


def floats(weights, geometry, activations, zero_point, scale, out):
    """Numbers of the output into `out`, a float tensor; activations: the address of bytes."""
    kernel, words = weights.plans["f32", geometry, 1, 0, 0, pool().get_num_threads()]
    kernel(words, address(out), activations, address(weights.weights),
           address(weights.number_table()), _FACTS.pack(zero_point, scale))  # fmt: skip
    return out


def numbers(weights, input, relu, reduce_range):
    """input @ weights.T + bias for floats, by way of bytes; input is dense, [..., run]."""
    plan = weights.number_plans[input._layout, relu, reduce_range, pool().get_num_threads()]
    kernel, words, layout, to_bytes, range_words, bytes_layout, facts_layout = plan
    out = empty_like_layout(layout)
    if kernel is None:
        return out
    activations, facts = empty_like_layout(bytes_layout), empty_like_layout(facts_layout)
    to_bytes(range_words, address(activations), address(input), address(facts))
    kernel(words, address(out), address(activations), address(weights.weights),
           address(weights.number_table()), address(facts))  # fmt: skip
    return out
