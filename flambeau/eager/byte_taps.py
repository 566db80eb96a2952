"""Launching depthwise convolutions of bytes (`codegen/templates/byte_taps.py`)."""

from flambeau import _dtype as d
from flambeau._device import cpu
from flambeau.codegen.descriptions_quantized import Taps
from flambeau.eager.byte_products import _FACTS, BOUNDS, Packed, lanes
from flambeau.eager.kernels import pool
from flambeau.eager.plans import Plans
from flambeau.eager.rows import address, chunks_of
from flambeau.ops.table import public
from flambeau.runtime.cpu import packed

WORK = 1 << 16  # products worth a chunk


class DepthwisePacked(Packed):
    """Taps of channels: [channels, taps] signed bytes with scales."""

    def __init__(self, weights, scales, bias):
        channels, taps = weights.shape
        self.groups, self.columns, self.taps, self.run = 1, channels, taps, 1
        self.padded = -(-channels // lanes()) * lanes()
        self.weights = public("zeros")((taps, self.padded), dtype=d.int32)
        self.weights[:, :channels] = weights.t()
        self.sums = self._spread(weights.sum(1, dtype=d.int32).view(1, -1))
        self.scales = self._spread(scales.float().expand(channels).reshape(1, -1))
        self.bias = None if bias is None else self._spread(bias.detach().float().view(1, -1))
        self.tables: dict = {}
        self.plans = Plans(self._plan)

    def _plan(self, key):
        g, low, high, out_zero, _ = key
        kernel = cpu.runtime.kernel("byte_taps", "byte_taps:build_taps")
        lines = g.pictures * g.height
        per_line = g.width * self.columns * self.taps
        per_chunk = max(1, WORK // per_line)
        words = Taps(
            chunks_of(lines, per_chunk), lines, per_chunk, g.width, g.height, self.columns,
            g.pixel_step, g.line_step, g.picture_step, g.taps_down, g.taps_across, g.tap_down,
            g.tap_across, self.padded, low, high, out_zero,
        )  # fmt: skip
        return kernel, packed(words)


def depthwise(weights, geometry, activations, zero_point, scale, out, out_scale, out_zero, relu):
    """Levels of the output into `out`; activations: the address of bytes."""
    low, high = BOUNDS[out._layout.dtype]
    low = max(low, out_zero) if relu else low
    key = (geometry, low, high, out_zero, pool().get_num_threads())
    kernel, words = weights.plans[key]
    table = weights.level_table(scale, out_scale)
    kernel(words, address(out), activations, address(weights.weights), address(table),
           _FACTS.pack(zero_point, 0.0))  # fmt: skip
    return out
