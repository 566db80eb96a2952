"""Convolutions of quantized tensors: `torch.ops.quantized.conv2d` and its kin.

Pictures are read with channels last, and given back so. Where there are edges to add, the picture
is copied into a larger one filled with its zero point; then a patch is a few runs of bytes at fixed
distances, and the convolution a product of bytes (`eager/byte_products.py`). conv1d is conv2d of
one line. A transposed convolution is an ordinary one with its taps turned round, over a picture
that is spread out. Volumes go through exact float64 sums. Depthwise convolutions have a kernel of
their own. Dynamic convolutions are the same products, with floats as results.
"""

from typing import Any

import flambeau as torch
from flambeau import Tensor
from flambeau._layout import dense_layout, make_layout
from flambeau._tensor import alias, empty_like_layout
from flambeau.ao.quantized_ops.linear import (
    _PLAIN,
    ScriptObject,
    centred,
    check_quantized,
    column_scales,
    is_centred,
    unsigned,
)
from flambeau.eager import byte_products
from flambeau.eager.byte_products import Geometry
from flambeau.eager.byte_taps import DepthwisePacked, depthwise
from flambeau.eager.quantized import (
    PerChannel,
    PerTensor,
    integers_of,
    is_quantized,
    quantized_over,
    quantizer_of,
)
from flambeau.eager.rows import address

PUBLIC = (
    "conv1d_prepack conv2d_prepack conv3d_prepack conv1d_unpack conv2d_unpack conv3d_unpack "
    "conv_prepack conv_unpack conv1d conv2d conv3d conv1d_relu conv2d_relu conv3d_relu "
    "conv1d_dynamic conv2d_dynamic conv3d_dynamic conv2d_add conv2d_add_relu conv2d_stride "
    "conv2d_padding conv2d_dilation conv2d_groups"
).split()


def tuple_of(value: Any, dims: int) -> tuple:
    """One number per dimension."""
    found = tuple(value) if isinstance(value, (list, tuple)) else (value,)
    return found * dims if len(found) == 1 else found


class ConvPackedParams(ScriptObject):
    """A quantized weight, a float bias, and how the kernel moves."""

    def __init__(self, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any,
                 dilation: Any, groups: int, output_padding: Any = 0, transpose: bool = False
                 ) -> None:  # fmt: skip
        if not is_quantized(weight) or weight.dtype is not torch.qint8:
            raise RuntimeError("The weight of a quantized convolution must be of dtype qint8")
        dims = weight.dim() - 2
        self.weight, self.bias, self.dims, self.groups = weight, bias, dims, groups
        self.stride, self.padding = tuple_of(stride, dims), tuple_of(padding, dims)
        self.dilation, self.transpose = tuple_of(dilation, dims), transpose
        self.output_padding = tuple_of(output_padding, dims)
        self._kind = f"quantized.Conv{dims}dPackedParamsBase"
        self._made: Any = None
        self._turned: Any = None
        self._geometries: dict = {}
        self.results: dict = {}  # layouts of inputs -> those of results
        self.has_tiles = dims < 3 and is_centred(weight)
        rows, per_group = weight.shape[:2]
        self.is_depthwise = groups > 1 and per_group == 1 and rows == groups

    def remember(self, layout: Any, found: Any) -> Any:
        """What a result looks like; a few are kept."""
        if len(self.results) > 64:
            self.results.clear()
        self.results[layout] = found
        return found

    def unpack(self) -> tuple:
        return self.weight, self.bias

    def __reduce__(self) -> tuple:
        return ConvPackedParams, (
            self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups,
            self.output_padding, self.transpose,
        )  # fmt: skip

    def __deepcopy__(self, memo: dict) -> "ConvPackedParams":
        return self  # nothing in it ever changes

    @property
    def made(self) -> Any:
        """The weight as the kernel wants it."""
        if self._made is None:
            self._made = self._make()
        return self._made

    def _make(self):
        integers, scales = integers_of(self.weight), column_scales(self.weight)
        while integers.dim() < 4:
            integers = integers.unsqueeze(2)
        rows, channels, high, wide = integers.shape
        if self.is_depthwise:
            return DepthwisePacked(integers.reshape(rows, high * wide), scales, self.bias)
        last = integers.permute(0, 2, 3, 1)
        if self.joins_taps:
            runs = last.reshape(rows, high, wide * channels)
        else:
            runs = last.reshape(rows, high * wide, channels)
        grouped = runs.reshape(self.groups, rows // self.groups, *runs.shape[1:]).contiguous()
        return byte_products.Packed(grouped, scales, self.bias)

    @property
    def turned(self) -> "ConvPackedParams":
        """The ordinary convolution that does the same to a picture that is spread out."""
        if self._turned is None:
            rows, columns, *kernel = self.weight.shape
            taps = integers_of(self.weight).flip(list(range(2, self.dims + 2)))
            taps = taps.reshape(self.groups, rows // self.groups, columns, *kernel).transpose(1, 2)
            scales = column_scales(self.weight, 1)
            if len(scales) > 1:
                scales = scales.repeat(self.groups)
            else:
                scales = scales.expand(self.groups * columns)
            quantizer = PerChannel(scales, torch.zeros_like(scales, dtype=torch.int64), 0)
            taps = taps.reshape(self.groups * columns, rows // self.groups, *kernel)
            weight = quantized_over(taps.contiguous(), torch.qint8, quantizer)
            self._turned = ConvPackedParams(weight, self.bias, 1, 0, self.dilation, self.groups)
        return self._turned

    @property
    def joins_taps(self) -> bool:
        """Do the taps of a line lie side by side, so that they are one run?"""
        return self.groups == 1 and self.dilation[-1] == 1


def conv2d_prepack(weight, bias, stride, padding, dilation, groups):
    """A weight of dtype qint8 and its bias, packed."""
    return ConvPackedParams(weight, bias, stride, padding, dilation, groups)


conv_prepack = conv2d_prepack


def conv1d_prepack(weight, bias, stride, padding, dilation, groups):
    return ConvPackedParams(weight, bias, stride, padding, dilation, groups)


def conv3d_prepack(weight, bias, stride, padding, dilation, groups):
    return ConvPackedParams(weight, bias, stride, padding, dilation, groups)


def conv2d_unpack(packed_weights):
    return packed_weights.unpack()


def conv_unpack(packed_weights):
    return packed_weights.unpack()


def conv1d_unpack(packed_weights):
    return packed_weights.unpack()


def conv3d_unpack(packed_weights):
    return packed_weights.unpack()


def conv2d_stride(packed_weights):
    return list(packed_weights.stride)


def conv2d_padding(packed_weights):
    return list(packed_weights.padding)


def conv2d_dilation(packed_weights):
    return list(packed_weights.dilation)


def conv2d_groups(packed_weights):
    return packed_weights.groups


def _check_quantized(x, packed, relu):
    words = f"conv{'_transpose' * packed.transpose}{packed.dims}d{'_relu' * relu}"
    check_quantized(x, words if packed.transpose or packed.dims == 1 else words + ".new")


def _check(x, packed):
    if x.dim() != packed.dims + 2:
        raise RuntimeError(
            f"conv{packed.dims}d(): Expected activation to be {packed.dims + 2}-dimensional."
        )
    rows, per_group = packed.weight.shape[:2]
    channels = rows if packed.transpose else per_group * packed.groups
    if x.shape[1] != channels:
        raise RuntimeError(
            f"[QConv{packed.dims}D] Given groups={packed.groups}, weight of size "
            f"{list(packed.weight.shape)}, expected input (NCHW) {list(x.shape)} to have "
            f"{channels} channels, but got {x.shape[1]} channels instead"
        )


def channels_last(integers: Tensor, pads: tuple, fill: int) -> Tensor:
    """Pictures as [pictures, lines, places, channels], dense, with edges; a little can be read
    beyond the last.
    """
    channels, high, wide = integers.shape[1:]
    moved = integers.permute(0, 2, 3, 1)
    if not any(pads) and moved.is_contiguous() and channels % 4 == 0:
        return moved
    up, left = pads
    lines, places = slice(up, up + high), slice(left, left + wide)
    return _in_larger(moved, (high + 2 * up, wide + 2 * left), lines, places, fill)


def _in_larger(moved, size, lines, places, fill):
    """Pictures with channels last as a part of larger ones."""
    count, high, wide, channels = moved.shape
    block = torch.empty(count * size[0] * size[1] * channels + 4, dtype=torch.uint8)
    out = block[:-4].view(count, *size, channels)
    if size != (high, wide):
        block.fill_(fill)
    out[:, lines, places].copy_(moved)
    return out


def _spread_out(integers, packed, fill):
    """Pictures for the convolution that a transposed one is: `stride` apart, with the edges that
    its taps reach over.
    """
    size, parts = [], []
    facts = (packed.stride, packed.padding, packed.dilation, packed.output_padding)
    kernel = packed.weight.shape[2:]
    rows = list(zip(integers.shape[2:], kernel, *facts))
    for length, taps, step, pad, spread, more in [(1, 1, 1, 0, 1, 0)] * (2 - len(rows)) + rows:
        begin, reach = spread * (taps - 1) - pad, (length - 1) * step + 1
        if begin < 0:
            return None
        size.append(reach + 2 * begin + more)
        parts.append(slice(begin, begin + reach, step))
    if integers.dim() == 3:
        integers = integers.unsqueeze(2)
    return _in_larger(integers.permute(0, 2, 3, 1), tuple(size), *parts, fill)


def _geometry(packed, shape, out_size):
    """Where patches lie in padded pictures of a shape."""
    key = (shape, out_size)
    found = packed._geometries.get(key)
    if found is not None:
        return found
    count, high, wide, channels = shape
    (down, across), (spread_down, spread_across) = _two(packed.stride), _two(packed.dilation)
    kernel_high, kernel_wide = _two(packed.weight.shape[2:])
    line = wide * channels
    joined = packed.joins_taps
    pictures, (lines, places) = count, out_size
    pixel_step, line_step, picture_step = across * channels, down * line, high * line
    if (down, across) == (1, 1) and (lines, places) == (high, wide):  # kernels of 1 x 1
        pictures, lines, places = 1, 1, count * high * wide
    found = Geometry(
        pictures=pictures, height=lines, width=places, pixel_step=pixel_step, line_step=line_step,
        picture_step=picture_step, taps_down=kernel_high,
        taps_across=1 if joined else kernel_wide, tap_down=spread_down * line,
        tap_across=spread_across * channels, group_step=channels // packed.groups,
    )  # fmt: skip
    if len(packed._geometries) > 64:
        packed._geometries.clear()
    packed._geometries[key] = found
    return found


def _two(numbers):
    return tuple(numbers) if len(numbers) == 2 else (1, *numbers)


def _padding(packed):
    return tuple(packed.padding) if packed.dims == 2 else (0, *packed.padding)


def out_sizes(sizes, packed):
    """The size of the result along each dimension."""
    found = []
    for size, kernel, step, pad, spread in zip(
        sizes, packed.weight.shape[2:], packed.stride, packed.padding, packed.dilation
    ):
        found.append((size + 2 * pad - spread * (kernel - 1) - 1) // step + 1)
    if min(found) < 1:
        raise RuntimeError(
            f"[QConv{packed.dims}D] each dimension of output tensor should be greater than 0"
        )
    return tuple(found)


def _source(integers, packed, fill):
    """(convolution, pictures as bytes, sizes of the result), or None where no tiles fit."""
    if not packed.has_tiles:
        return None
    if packed.transpose:
        source = _spread_out(integers, packed, fill)
        if source is None:
            return None
        packed = packed.turned
        sizes = out_sizes(source.shape[3 - packed.dims : 3], packed)
    else:
        sizes = out_sizes(integers.shape[2:], packed)
        lines = integers.unsqueeze(2) if packed.dims == 1 else integers
        source = channels_last(lines, _padding(packed), fill)
    return packed, source, sizes if packed.dims == 2 else (1, *sizes)


def _channels_first(out, packed):
    out = out.permute(0, 3, 1, 2)
    return out.squeeze(2) if packed.dims == 1 else out


def convolved(x, packed, scale, zero_point, relu):
    """A quantized convolution, quantized again."""
    known = packed.results.get(x._layout)
    if known is None:
        _check_quantized(x, packed, relu)
        _check(x, packed)
    scale, zero_point = float(scale), int(zero_point)
    integers, quantizer = unsigned(x)
    found = _source(integers, packed, quantizer.zero_point)
    if found is None:
        return _by_numbers(x, packed, scale, zero_point, relu)
    tiled, source, sizes = found
    if known is None:
        known = packed.remember(x._layout, _results(x._layout, tiled, sizes))
    written, given = known
    out = empty_like_layout(written)
    run = depthwise if tiled.is_depthwise else byte_products.levels
    if written.numel:
        run(
            tiled.made, _geometry(tiled, source._layout.sizes, sizes), address(source),
            quantizer.zero_point, quantizer.scale, out, scale, zero_point, relu,
        )  # fmt: skip
    out = alias(out, given, out._offset)
    out._storage.quantizer = PerTensor(scale, zero_point)
    return out


def _results(layout, packed, sizes):
    """Layouts of a result: as kernels write it, channels last, and as it is given back."""
    plain, device = _PLAIN[layout.dtype], layout.device
    written = dense_layout((layout.sizes[0], *sizes, packed.weight.shape[0]), plain, device)
    first = _channels_first(empty_like_layout(written), packed)._layout
    return written, make_layout(first.sizes, first.strides, layout.dtype, device)


def _by_numbers(x, packed, scale, zero_point, relu):
    """The same sums, exact in float64, rounded the same way."""
    quantizer = quantizer_of(x)
    integers = integers_of(x).double() - quantizer.zero_point
    weight = centred(packed.weight).double()
    function = _FLOAT[packed.dims, packed.transpose]
    more = (packed.output_padding,) if packed.transpose else ()
    rest = (
        (packed.groups, packed.dilation) if packed.transpose else (packed.dilation, packed.groups)
    )
    sums = function(integers, weight, None, packed.stride, packed.padding, *more, *rest).float()
    both = column_scales(packed.weight, 1 if packed.transpose else 0) * quantizer.scale
    shape = (-1, *[1] * packed.dims)
    if packed.bias is not None:
        sums = sums + (packed.bias.detach() / both).reshape(shape)
    levels = (sums * (both / scale).reshape(shape)).round() + zero_point
    low, high = (0, 255) if x.dtype is torch.quint8 else (-128, 127)
    levels = levels.clamp(max(low, zero_point) if relu else low, high).to(_PLAIN[x.dtype])
    form = {2: torch.channels_last, 3: torch.channels_last_3d}.get(packed.dims)
    if form is not None:
        levels = levels.contiguous(memory_format=form)
    return quantized_over(levels, x.dtype, PerTensor(scale, zero_point))


_F = torch.nn.functional
_FLOAT: dict = {
    (1, False): _F.conv1d,
    (2, False): _F.conv2d,
    (3, False): _F.conv3d,
    (1, True): _F.conv_transpose1d,
    (2, True): _F.conv_transpose2d,
    (3, True): _F.conv_transpose3d,
}


def conv2d(qx, packed_weight, output_scale, output_zero_point):
    """A quantized convolution of pictures."""
    return convolved(qx, packed_weight, output_scale, output_zero_point, False)


def conv2d_relu(qx, packed_weight, output_scale, output_zero_point):
    return convolved(qx, packed_weight, output_scale, output_zero_point, True)


def conv1d(qx, packed_weight, output_scale, output_zero_point):
    return convolved(qx, packed_weight, output_scale, output_zero_point, False)


def conv1d_relu(qx, packed_weight, output_scale, output_zero_point):
    return convolved(qx, packed_weight, output_scale, output_zero_point, True)


def conv3d(qx, packed_weight, output_scale, output_zero_point):
    return convolved(qx, packed_weight, output_scale, output_zero_point, False)


def conv3d_relu(qx, packed_weight, output_scale, output_zero_point):
    return convolved(qx, packed_weight, output_scale, output_zero_point, True)


def conv2d_add(qx, qaccum, packed_weight, output_scale, output_zero_point):
    """A convolution to which another tensor is added before it is quantized."""
    return _with_sum(qx, qaccum, packed_weight, output_scale, output_zero_point, False)


def conv2d_add_relu(qx, qaccum, packed_weight, output_scale, output_zero_point):
    return _with_sum(qx, qaccum, packed_weight, output_scale, output_zero_point, True)


def _with_sum(x, other, packed, scale, zero_point, relu):
    total = _in_floats(x.dequantize(), packed) + other.dequantize()
    total = total.relu() if relu else total
    return torch.quantize_per_tensor(total, scale, zero_point, x.dtype)


def _in_floats(x, packed):
    function = _FLOAT[packed.dims, packed.transpose]
    weight = packed.weight.dequantize()
    bias = None if packed.bias is None else packed.bias.detach()
    if packed.transpose:
        return function(x, weight, bias, packed.stride, packed.padding, packed.output_padding,
                        packed.groups, packed.dilation)  # fmt: skip
    return function(x, weight, bias, packed.stride, packed.padding, packed.dilation, packed.groups)


def dynamic(x, packed, reduce_range):
    """Floats, quantized by their own range, convolved; gives floats."""
    _check(x, packed)
    q = torch.quantize_per_tensor_dynamic(x.detach(), torch.quint8, reduce_range)
    quantizer = quantizer_of(q)
    found = _source(integers_of(q), packed, quantizer.zero_point)
    if found is None or found[0].is_depthwise:
        return _in_floats(q.dequantize(), packed)
    packed, source, sizes = found
    out = torch.empty((x.shape[0], *sizes, packed.weight.shape[0]))
    if out.numel():
        geometry = _geometry(packed, tuple(source.shape), sizes)
        byte_products.floats(
            packed.made, geometry, address(source), quantizer.zero_point, quantizer.scale, out
        )
    return _channels_first(out, packed)


def conv1d_dynamic(qx, packed_weight, reduce_range=False):
    return dynamic(qx, packed_weight, reduce_range)


def conv2d_dynamic(qx, packed_weight, reduce_range=False):
    return dynamic(qx, packed_weight, reduce_range)


def conv3d_dynamic(qx, packed_weight, reduce_range=False):
    return dynamic(qx, packed_weight, reduce_range)
