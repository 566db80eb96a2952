"""Operators that summarise windows."""

import math
from typing import Any

import numpy as np

import flambeau as torch
from flambeau import Tensor
from flambeau.nn import functional as F
from flambeau.onnx.operators.products import edges, flat_edges
from flambeau.onnx.operators.table import op
from flambeau.onnx.operators.values import ints


class Windows:
    """Where the windows of a pooling op lie, in each dimension."""

    def __init__(
        self,
        x: Tensor,
        kernel: list[int],
        strides: list[int] | None,
        dilations: list[int] | None,
        pads: list[int] | None,
        auto_pad: str,
        ceil_mode: int,
    ) -> None:
        rank = len(kernel)
        self.kernel = kernel
        self.strides = strides or [1] * rank
        self.dilations = dilations or [1] * rank
        sizes = list(x.shape[2:])
        self.before, self.after = edges(auto_pad, pads, sizes, kernel, self.strides, self.dilations)
        # What ceil_mode adds is beyond the padding that the file speaks of.
        self.beyond = [0] * rank
        self.counts = []
        for i in range(rank):
            reach = (kernel[i] - 1) * self.dilations[i] + 1
            room = sizes[i] + self.before[i] + self.after[i] - reach
            count = room // self.strides[i] + 1
            # One more window must begin inside the input or the padding before it.
            inside = count * self.strides[i] < sizes[i] + self.before[i]
            if ceil_mode and room % self.strides[i] and inside:
                count += 1
                self.beyond[i] = (count - 1) * self.strides[i] - room
            self.counts.append(count)

    def views(self, x: Tensor, fill: float) -> Tensor:
        """The elements of each window in a last dimension of their own."""
        edge = flat_edges(self.before, [a + b for a, b in zip(self.after, self.beyond)])
        x = F.pad(x, edge, value=fill)
        index: list[Any] = [slice(None), slice(None)]
        rank = len(self.kernel)
        for i in range(rank):
            starts = torch.arange(self.counts[i]) * self.strides[i]
            taps = torch.arange(self.kernel[i]) * self.dilations[i]
            shape = [1] * (2 * rank)
            shape[i], shape[rank + i] = self.counts[i], self.kernel[i]
            index.append((starts[:, None] + taps).reshape(shape))
        return x[tuple(index)].flatten(2 + rank)

    def plain(self) -> bool:
        """Can the ops of nn.functional do it?"""
        rank = len(self.kernel)
        halves = all(2 * b <= k for b, k in zip(self.before, self.kernel))
        return rank in (1, 2, 3) and self.before == self.after and halves and not any(self.beyond)


MAXIMA = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
AVERAGES = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}


@op("MaxPool")
def max_pool(
    x: Tensor,
    *,
    kernel_shape: list[int],
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: list[int] | None = None,
    pads: list[int] | None = None,
    storage_order: int = 0,
    strides: list[int] | None = None,
    n_outputs: int,
) -> Any:
    windows = Windows(x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    if n_outputs == 1 and windows.plain() and x.is_floating_point():
        return MAXIMA[len(kernel_shape)](
            x, kernel_shape, windows.strides, windows.before, windows.dilations
        )
    low = -math.inf if x.is_floating_point() else torch.iinfo(x.dtype).min
    best, taps = windows.views(x, low).max(-1)
    if n_outputs == 1:
        return best
    return best, flat_places(x, windows, taps, bool(storage_order))


def flat_places(x: Tensor, windows: Windows, taps: Tensor, column_major: bool) -> Tensor:
    """The place of each maximum in the whole input, whichever way it is counted."""
    sizes = list(x.shape[2:])
    rank = len(sizes)
    offsets = np.unravel_index(taps.numpy(), windows.kernel)
    place = np.zeros(taps.shape, dtype=np.int64)
    stride = 1
    order = range(rank) if column_major else reversed(range(rank))
    for i in order:
        shape = [1] * (2 + rank)
        shape[2 + i] = -1
        starts = (np.arange(windows.counts[i]) * windows.strides[i]).reshape(shape)
        place += (starts + offsets[i] * windows.dilations[i] - windows.before[i]) * stride
        stride *= sizes[i]
    planes = np.arange(x.shape[0] * x.shape[1]).reshape([*x.shape[:2]] + [1] * rank)
    return torch.from_numpy(place + planes * math.prod(sizes))


@op("AveragePool")
def average_pool(
    x: Tensor,
    *,
    kernel_shape: list[int],
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    dilations: list[int] | None = None,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    windows = Windows(x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    if windows.plain() and set(windows.dilations) == {1}:
        return AVERAGES[len(kernel_shape)](
            x,
            kernel_shape,
            windows.strides,
            windows.before,
            count_include_pad=bool(count_include_pad),
        )
    ones = torch.ones_like(x)
    if count_include_pad:
        ones = F.pad(ones, flat_edges(windows.before, windows.after), value=1.0)
        counted = Windows(ones, kernel_shape, strides, dilations, None, "NOTSET", ceil_mode)
        counted.counts, counted.beyond = windows.counts, windows.beyond
    else:
        counted = windows
    return windows.views(x, 0.0).sum(-1) / counted.views(ones, 0.0).sum(-1)


@op("LpPool", 2)
def lp_pool(
    x: Tensor,
    *,
    kernel_shape: list[int],
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: list[int] | None = None,
    p: float = 2,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    windows = Windows(x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    return windows.views(torch.abs(x), 0.0).pow(p).sum(-1).pow(1 / p)


@op("GlobalAveragePool")
def global_average_pool(x: Tensor) -> Tensor:
    return torch.mean(x, list(range(2, x.dim())), keepdim=True)


@op("GlobalMaxPool")
def global_max_pool(x: Tensor) -> Tensor:
    return torch.amax(x, list(range(2, x.dim())), keepdim=True)


@op("GlobalLpPool")
def global_lp_pool(x: Tensor, *, p: float = 2) -> Tensor:
    return torch.abs(x).pow(p).sum(list(range(2, x.dim())), keepdim=True).pow(1 / p)


@op("MaxUnpool", 9, static=(2,))
def max_unpool(
    x: Tensor,
    places: Tensor,
    output_shape: Any = None,
    *,
    kernel_shape: list[int],
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    """Maxima go back to their places in the whole input; all else is zero."""
    rank = len(kernel_shape)
    step, edge = strides or [1] * rank, pads or [0] * (2 * rank)
    sizes = [
        (x.shape[2 + i] - 1) * step[i] + kernel_shape[i] - edge[i] - edge[i + rank]
        for i in range(rank)
    ]
    shape = [*x.shape[:2], *sizes]
    result = torch.zeros(math.prod(shape), dtype=x.dtype)
    result = result.scatter(0, places.reshape(-1), x.reshape(-1)).reshape(shape)
    if output_shape is None:
        return result
    missing = [want - have for want, have in zip(ints(output_shape), shape)]
    return F.pad(result, flat_edges([0] * len(missing), missing))


@op("MaxRoiPool")
def max_roi_pool(
    x: Tensor, regions: Tensor, *, pooled_shape: list[int], spatial_scale: float = 1.0
) -> Tensor:
    """The largest element in each cell of a grid over each region."""
    rows, columns = pooled_shape
    found = []
    for batch, *corners in regions.tolist():
        left, top, right, bottom = (round(c * spatial_scale) for c in corners)
        height, width = max(1, bottom - top + 1), max(1, right - left + 1)
        cells = []
        for cell in range(rows * columns):
            r, c = divmod(cell, columns)
            first = min(max(top + math.floor(r * height / rows), 0), x.shape[2])
            last = min(max(top + math.ceil((r + 1) * height / rows), 0), x.shape[2])
            start = min(max(left + math.floor(c * width / columns), 0), x.shape[3])
            stop = min(max(left + math.ceil((c + 1) * width / columns), 0), x.shape[3])
            window = x[int(batch), :, first:last, start:stop]
            empty = first >= last or start >= stop
            cells.append(torch.zeros(x.shape[1]) if empty else torch.amax(window, (1, 2)))
        found.append(torch.stack(cells, -1).reshape(-1, rows, columns))
    return torch.stack(found)
