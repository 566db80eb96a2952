"""Operators that move, cut and join elements."""

import math
from typing import Any

import numpy as np

import flambeau as torch
from flambeau import Tensor
from flambeau.nn import functional as F
from flambeau.onnx.operators.table import op
from flambeau.onnx.operators.values import (
    array_of,
    dtype_of,
    ints,
    number,
    optional_ints,
    tensor_of,
)


@op("Shape")
def shape(x: Any, *, start: int = 0, end: int | None = None) -> Tensor:
    return torch.tensor(list(x.shape)[start:end], dtype=torch.int64)


@op("Size")
def size(x: Any) -> Tensor:
    return torch.tensor(math.prod(x.shape), dtype=torch.int64)


@op("Reshape", 5, static=(1,))
def reshape(x: Any, shape: Any, *, allowzero: int = 0) -> Any:
    """A zero stands for the size that the input has there, unless zeros are allowed."""
    target = ints(shape)
    if not allowzero:
        for position, wanted in enumerate(target):
            if isinstance(wanted, int) and wanted == 0:
                target[position] = x.shape[position]
    return x.reshape(target)


@op("Reshape", 1)
def reshape_legacy(x: Any, *, shape: list[int]) -> Any:
    return reshape(x, shape)


@op("Flatten")
def flatten(x: Any, *, axis: int = 1) -> Any:
    if axis < 0:
        axis += x.ndim
    return x.reshape([math.prod(x.shape[:axis]), math.prod(x.shape[axis:])])


@op("Squeeze", 13, static=(1,))
def squeeze(x: Any, axes: Any = None) -> Any:
    dimensions = optional_ints(axes)
    if isinstance(x, np.ndarray):
        return np.squeeze(x, None if dimensions is None else tuple(dimensions))
    return torch.squeeze(x) if dimensions is None else torch.squeeze(x, tuple(dimensions))


@op("Squeeze", 1)
def squeeze_legacy(x: Any, *, axes: list[int] | None = None) -> Any:
    return squeeze(x, axes)


@op("Unsqueeze", 13, static=(1,))
def unsqueeze(x: Any, axes: Any) -> Any:
    dimensions = ints(axes)
    if isinstance(x, np.ndarray):
        return np.expand_dims(x, tuple(dimensions))
    rank = x.dim() + len(dimensions)
    for axis in sorted(axis % rank for axis in dimensions):
        x = torch.unsqueeze(x, axis)
    return x


@op("Unsqueeze", 1)
def unsqueeze_legacy(x: Any, *, axes: list[int]) -> Any:
    return unsqueeze(x, axes)


@op("Transpose")
def transpose(x: Any, *, perm: list[int] | None = None) -> Any:
    order = list(range(x.ndim))[::-1] if perm is None else perm
    return x.transpose(order) if isinstance(x, np.ndarray) else x.permute(order)


@op("Concat", 4)
def concat(*tensors: Any, axis: int) -> Any:
    if isinstance(tensors[0], np.ndarray):
        return np.concatenate(tensors, axis)
    return torch.cat(tensors, axis)


@op("Concat", 1)
def concat_legacy(*tensors: Any, axis: int = 1) -> Any:
    return torch.cat(tensors, axis)


@op("Split", 13, static=(1,))
def split(
    x: Tensor, sizes: Any = None, *, axis: int = 0, num_outputs: int | None = None, n_outputs: int
) -> Any:
    """Pieces of the sizes that are given, or of equal ones, of which the last may be smaller."""
    count = n_outputs if num_outputs is None else num_outputs
    if sizes is None:
        length = x.shape[axis]
        piece = -(-length // count)
        wanted = [piece] * (count - 1) + [length - piece * (count - 1)]
    else:
        wanted = ints(sizes)
    pieces = torch.split(x, wanted, axis)
    return tuple(pieces) if n_outputs > 1 else pieces[0]


@op("Split", 1)
def split_legacy(
    x: Tensor, sizes: Any = None, *, axis: int = 0, split: list[int] | None = None, n_outputs: int
) -> Any:
    return globals()["split"](x, split or sizes, axis=axis, n_outputs=n_outputs)


@op("Slice", 10, static=(1, 2, 3, 4))
def slice_(x: Any, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> Any:
    """Bounds count from the end where negative, and are cut off where out of range."""
    firsts, lasts = ints(starts), ints(ends)
    dimensions = list(range(len(firsts))) if axes is None else ints(axes)
    strides = [1] * len(firsts) if steps is None else ints(steps)
    index: list[Any] = [slice(None)] * x.ndim
    backwards = []
    for axis, first, last, step in zip(dimensions, firsts, lasts, strides, strict=True):
        axis %= x.ndim
        if step > 0:
            index[axis] = slice(first, last, step)
        elif isinstance(x, np.ndarray):
            index[axis] = slice(first, None if last <= -x.shape[axis] - 1 else last, step)
        else:
            backwards.append((axis, first, last, step))
    result = x[tuple(index)]
    for axis, first, last, step in backwards:
        picked = range(x.shape[axis])[first : None if last <= -x.shape[axis] - 1 else last : step]
        result = result.index_select(axis, torch.tensor(list(picked), dtype=torch.int64))
    return result


@op("Slice", 1)
def slice_legacy(
    x: Any, *, starts: list[int], ends: list[int], axes: list[int] | None = None
) -> Any:
    return slice_(x, starts, ends, axes)


@op("Expand", 8, static=(1,))
def expand(x: Any, shape: Any) -> Any:
    """Both shapes are broadcast; a 1 leaves the input's size."""
    target = ints(shape)
    if isinstance(x, np.ndarray):
        return x * np.ones(target, x.dtype) if x.dtype.kind != "O" else np.broadcast_to(x, target)
    rank = max(len(target), x.dim())
    sizes = [1] * (rank - x.dim()) + list(x.shape)
    target = [1] * (rank - len(target)) + target
    return x.expand(
        [have if isinstance(want, int) and want == 1 else want for have, want in zip(sizes, target)]
    )


@op("Tile", 6, static=(1,))
def tile(x: Tensor, repeats: Any) -> Tensor:
    return x.repeat(ints(repeats))


@op("Tile", 1)
def tile_legacy(x: Tensor, tiles: Any, axis: Any) -> Tensor:
    counts = [1] * x.dim()
    counts[int(number(axis))] = int(number(tiles))
    return x.repeat(counts)


@op("Pad", 11, static=(1, 3))
def pad(
    x: Tensor, pads: Any, value: Any = None, axes: Any = None, *, mode: str = "constant"
) -> Any:
    """`pads` holds all begins, then all ends; negative ones cut off."""
    amounts = ints(pads)
    half = len(amounts) // 2
    dimensions = list(range(half)) if axes is None else ints(axes)
    before, after = [0] * x.dim(), [0] * x.dim()
    for axis, first, last in zip(dimensions, amounts[:half], amounts[half:]):
        before[axis % x.dim()], after[axis % x.dim()] = first, last
    if mode == "constant":
        fill = 0 if value is None else number(value)
        flat = [n for pair in zip(reversed(before), reversed(after)) for n in pair]
        return F.pad(x, flat, value=fill)
    for axis in range(x.dim()):
        x = pad_dimension(x, axis, before[axis], after[axis], mode)
    return x


def pad_dimension(x: Tensor, axis: int, before: int, after: int, mode: str) -> Tensor:
    """One dimension with elements of its own: reflected, repeated at the edge, or wrapped."""
    if before == 0 and after == 0:
        return x
    length = x.shape[axis]
    kept = range(max(0, -before), length - max(0, -after))
    wanted = range(-max(0, before), len(kept) + max(0, after))
    if mode == "edge":
        picked = [kept[min(max(i, 0), len(kept) - 1)] for i in wanted]
    elif mode == "wrap":
        picked = [kept[i % len(kept)] for i in wanted]
    elif mode == "reflect":
        period = max(1, 2 * (len(kept) - 1))
        picked = [kept[min(i % period, -i % period)] for i in wanted]
    else:
        raise ValueError(f"Pad has no mode {mode!r}")
    return x.index_select(axis, torch.tensor(picked, dtype=torch.int64))


@op("Pad", 2)
def pad_legacy(x: Tensor, *, pads: list[int], mode: str = "constant", value: float = 0.0) -> Any:
    return pad(x, pads, value, mode=mode)


@op("Pad", 1)
def pad_first(x: Tensor, *, paddings: list[int], mode: str = "constant", value: float = 0.0) -> Any:
    return pad(x, paddings, value, mode=mode)


@op("CenterCropPad", 18, static=(1,))
def center_crop_pad(x: Tensor, shape: Any, *, axes: list[int] | None = None) -> Tensor:
    dimensions = range(x.dim()) if axes is None else axes
    for axis, wanted in zip(dimensions, ints(shape)):
        have = x.shape[axis]
        if wanted <= have:
            x = x.narrow(axis, (have - wanted) // 2, wanted)
        else:
            missing = wanted - have
            x = pad(x, [missing // 2, missing - missing // 2], axes=[axis])
    return x


@op("DepthToSpace", 1)
def depth_to_space(x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    n, c, h, w = x.shape
    b, depth = blocksize, c // blocksize**2
    if mode == "DCR":
        x = x.reshape(n, b, b, depth, h, w).permute(0, 3, 4, 1, 5, 2)
    else:
        x = x.reshape(n, depth, b, b, h, w).permute(0, 1, 4, 2, 5, 3)
    return x.reshape(n, depth, h * b, w * b)


@op("SpaceToDepth", 1)
def space_to_depth(x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    n, c, h, w = x.shape
    b = blocksize
    x = x.reshape(n, c, h // b, b, w // b, b)
    x = x.permute(0, 3, 5, 1, 2, 4) if mode == "DCR" else x.permute(0, 1, 3, 5, 2, 4)
    return x.reshape(n, c * b * b, h // b, w // b)


@op("Trilu", 14, static=(1,))
def trilu(x: Tensor, k: Any = None, *, upper: int = 1) -> Tensor:
    diagonal = 0 if k is None else int(number(k))
    return torch.triu(x, diagonal) if upper else torch.tril(x, diagonal)


@op("EyeLike", 9)
def eye_like(x: Tensor, *, dtype: int | None = None, k: int = 0) -> Tensor:
    rows, columns = x.shape
    kind = x.dtype if dtype is None else dtype_of(dtype)
    band = torch.arange(columns) - torch.arange(rows)[:, None] == k
    return band.to(kind)


@op("Constant")
def constant(
    *,
    value: Any = None,
    value_float: float | None = None,
    value_floats: list[float] | None = None,
    value_int: int | None = None,
    value_ints: list[int] | None = None,
    value_string: str | None = None,
    value_strings: list[str] | None = None,
    sparse_value: Any = None,
) -> Any:
    """A value that is written in the file. The importer keeps tensors as buffers."""
    for given, dtype in (
        (value_float, torch.float32),
        (value_floats, torch.float32),
        (value_int, torch.int64),
        (value_ints, torch.int64),
    ):
        if given is not None:
            return torch.tensor(given, dtype=dtype)
    for text in (value_string, value_strings):
        if text is not None:
            return np.array(text, dtype=object)
    return value if sparse_value is None else sparse_value


@op("ConstantOfShape", 9, static=(0,))
def constant_of_shape(shape: Any, *, value: Any = None) -> Any:
    if isinstance(value, np.ndarray):
        return np.full(ints(shape), value.reshape(())[()], dtype=value.dtype)
    if value is None:
        return torch.zeros(ints(shape))
    return value.reshape([]).expand(ints(shape)).contiguous()


@op("Range", 11, static=(0, 1, 2))
def arange(start: Any, limit: Any, delta: Any) -> Tensor:
    kind = torch.int64 if isinstance(start, (int, list)) else None
    for bound in (start, limit, delta):
        kind = bound.dtype if isinstance(bound, torch.Tensor) else kind
    if kind in (torch.bfloat16, torch.float16):
        first, last, step = (float(number(v)) for v in (start, limit, delta))
        count = max(0, math.ceil((last - first) / step))
        return (first + torch.arange(count, dtype=torch.float32) * step).to(kind)
    return torch.arange(number(start), number(limit), number(delta), dtype=kind)


@op("Col2Im", 18, static=(1, 2))
def col2im(
    x: Tensor,
    image_shape: Any,
    block_shape: Any,
    *,
    dilations: list[int] | None = None,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    """Blocks of any number of dimensions are added where they came from."""
    sizes, block = ints(image_shape), ints(block_shape)
    rank = len(sizes)
    dilation, step = dilations or [1] * rank, strides or [1] * rank
    edges = pads or [0] * (2 * rank)
    padded = [n + edges[i] + edges[i + rank] for i, n in enumerate(sizes)]
    counts = [(padded[i] - dilation[i] * (block[i] - 1) - 1) // step[i] + 1 for i in range(rank)]
    batch, channels = x.shape[0], x.shape[1] // math.prod(block)
    offsets = np.indices(block).reshape(rank, -1, 1) * np.reshape(dilation, (rank, 1, 1))
    starts = np.indices(counts).reshape(rank, 1, -1) * np.reshape(step, (rank, 1, 1))
    flat = np.ravel_multi_index(tuple(offsets + starts), padded)
    places = torch.from_numpy(flat.reshape(-1).astype(np.int64))
    result = torch.zeros([batch, channels, math.prod(padded)], dtype=x.dtype)
    result = result.index_add(2, places, x.reshape(batch, channels, -1))
    result = result.reshape([batch, channels, *padded])
    for i in range(rank):
        result = result.narrow(2 + i, edges[i], sizes[i])
    return result


@op("ReverseSequence", 10)
def reverse_sequence(x: Any, lengths: Any, *, batch_axis: int = 1, time_axis: int = 0) -> Any:
    """The first `lengths[b]` steps of entry b are turned round."""
    counts = torch.as_tensor(array_of(lengths)).reshape(-1, 1)
    steps = torch.arange(x.shape[time_axis]).reshape(1, -1)
    order = torch.where(steps < counts, counts - 1 - steps, steps)
    if isinstance(x, np.ndarray):
        moved = np.moveaxis(x, (batch_axis, time_axis), (0, 1))
        picked = moved[np.arange(len(counts))[:, None], order.numpy()]
        return tensor_of(np.moveaxis(picked, (0, 1), (batch_axis, time_axis)))
    moved = torch.movedim(x, (batch_axis, time_axis), (0, 1))  # type: ignore[assignment]
    picked = moved[torch.arange(len(counts))[:, None], order]
    return torch.movedim(picked, (0, 1), (batch_axis, time_axis))
