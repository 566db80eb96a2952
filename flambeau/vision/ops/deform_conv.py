"""Deformable convolution: a kernel whose elements read at places of their own (Dai et al. 2017).

The places are a grid that `grid_sample` reads; a matrix product with the weights does the rest. So
values and all gradients come from kernels that are there.
"""

import flambeau
from flambeau import Tensor, nn
from flambeau.nn import functional as F

from ._utils import pair


def deform_conv2d(
    input: Tensor,
    offset: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | tuple[int, int] = (1, 1),
    padding: int | tuple[int, int] = (0, 0),
    dilation: int | tuple[int, int] = (1, 1),
    mask: Tensor | None = None,
) -> Tensor:
    """Convolution of (N, C, H, W) with offsets for every element of the kernel at every place.

    Args:
        offset: (N, 2 * offset groups * kernel height * kernel width, out height, out width): how
            far down and to the right of its place each element reads.
        weight: (out channels, C / groups, kernel height, kernel width).
        mask: (N, offset groups * kernel height * kernel width, out height, out width); what is
            read is multiplied by it (version 2).
    """
    strides, paddings, dilations = pair(stride), pair(padding), pair(dilation)
    high, wide = weight.shape[-2:]
    taps = high * wide
    count, channels, height, width = input.shape
    parts = offset.shape[1] // (2 * taps)
    if parts == 0:
        raise RuntimeError(
            "the shape of the offset tensor at dimension 1 is not valid. It should be a multiple "
            f"of 2 * weight.size[2] * weight.size[3].\nGot offset.shape[1]={offset.shape[1]}, "
            f"while 2 * weight.size[2] * weight.size[3]={2 * taps}"
        )
    groups = channels // weight.shape[1]
    rows, columns = (
        (n + 2 * pad - (step * (k - 1) + 1)) // jump + 1
        for n, pad, step, k, jump in zip(
            (height, width), paddings, dilations, (high, wide), strides, strict=True
        )
    )
    _check(input, offset, weight, mask, groups, parts, (rows, columns))
    moved = offset.view(count, parts, high, wide, 2, rows, columns)
    y = _places(rows, strides[0], paddings[0], high, dilations[0], input).view(high, 1, rows, 1)
    x = _places(columns, strides[1], paddings[1], wide, dilations[1], input).view(
        1, wide, 1, columns
    )
    y, x = moved[..., 0, :, :] + y, moved[..., 1, :, :] + x
    grid = flambeau.stack([(2 * x + 1) / width - 1, (2 * y + 1) / height - 1], -1)
    read = F.grid_sample(
        input.reshape(count * parts, channels // parts, height, width),
        grid.reshape(count * parts, taps * rows, columns, 2),
        align_corners=False,
    ).view(count, parts, channels // parts, taps, rows * columns)
    if mask is not None:
        read = read * mask.view(count, parts, 1, taps, rows * columns)
    read = read.reshape(count, groups, channels // groups * taps, rows * columns)
    found = weight.reshape(groups, weight.shape[0] // groups, -1) @ read
    found = found.reshape(count, weight.shape[0], rows, columns)
    return found if bias is None else found + bias.view(-1, 1, 1)


def _places(results: int, stride: int, padding: int, kernel: int, dilation: int, like: Tensor):
    """Where each element of the kernel reads for each result, in one direction."""
    start = flambeau.arange(results, dtype=like.dtype, device=like.device) * stride - padding
    return flambeau.arange(kernel, dtype=like.dtype, device=like.device)[:, None] * dilation + start


def _check(
    input: Tensor,
    offset: Tensor,
    weight: Tensor,
    mask: Tensor | None,
    groups: int,
    parts: int,
    size: tuple[int, int],
) -> None:
    taps = weight.shape[2] * weight.shape[3]
    if weight.shape[1] * groups != input.shape[1]:
        raise RuntimeError(
            f"weight.size(1) * groups must be equal to input channels, got {weight.shape[1]} * "
            f"{groups} and {input.shape[1]}"
        )
    if weight.shape[0] % groups or input.shape[1] % parts:
        raise RuntimeError("channels must be divisible by their groups")
    if offset.shape[1] != parts * 2 * taps:
        raise RuntimeError(
            f"offset.shape[1] is not valid: got: {offset.shape[1]} expected: {parts * 2 * taps}"
        )
    if offset.shape[0] != input.shape[0]:
        raise RuntimeError("invalid batch size of offset")
    if tuple(offset.shape[2:]) != size:
        raise RuntimeError(
            f"offset output dims: ({offset.shape[2]}, {offset.shape[3]}) - computed output dims: "
            f"{size}"
        )
    if mask is not None and tuple(mask.shape) != (input.shape[0], parts * taps, *size):
        raise RuntimeError(
            f"mask.shape[1] is not valid: got: {mask.shape[1]} expected: {parts * taps}"
            if mask.shape[1] != parts * taps
            else f"invalid shape of mask: {tuple(mask.shape)}"
        )


class DeformConv2d(nn.Module):
    """The module of `deform_conv2d`; `forward` gets offsets, and a mask perhaps."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, int],
        stride: int | tuple[int, int] = 1,
        padding: int | tuple[int, int] = 0,
        dilation: int | tuple[int, int] = 1,
        groups: int = 1,
        bias: bool = True,
    ) -> None:
        for name, channels in (("in_channels", in_channels), ("out_channels", out_channels)):
            if channels % groups:
                raise ValueError(f"{name} must be divisible by groups")
        super().__init__()
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size, self.stride = pair(kernel_size), pair(stride)
        self.padding, self.dilation = pair(padding), pair(dilation)
        shape = out_channels, in_channels // groups, *self.kernel_size
        self.weight = nn.Parameter(flambeau.empty(shape))
        own = nn.Parameter(flambeau.empty(out_channels)) if bias else None
        self.register_parameter("bias", own)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw what an ordinary convolution starts with."""
        fan = self.weight[0].numel()
        nn.init.kaiming_uniform_(self.weight, a=5**0.5)
        if self.bias is not None:
            nn.init.uniform_(self.bias, -(fan**-0.5), fan**-0.5)

    def forward(self, input: Tensor, offset: Tensor, mask: Tensor | None = None) -> Tensor:
        learned = self.weight, self.bias
        spread = self.stride, self.padding, self.dilation
        return deform_conv2d(input, offset, *learned, *spread, mask)

    def __repr__(self) -> str:
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}"
        text += f", stride={self.stride}"
        for name, default in (("padding", (0, 0)), ("dilation", (1, 1)), ("groups", 1)):
            if getattr(self, name) != default:
                text += f", {name}={getattr(self, name)}"
        return f"{type(self).__name__}({text}{', bias=False' if self.bias is None else ''})"
