"""`make_tensor`: random tensors of any dtype within a range, for tests.

Each family of dtypes has its usual range, the widest one it can hold and its way to draw; drawing
takes the same random numbers as PyTorch, so a seed gives the same tensor.
"""

import math
import warnings
from collections.abc import Sequence

import flambeau


def make_tensor(
    *shape: int | flambeau.Size | list[int] | tuple[int, ...],
    dtype: flambeau.dtype,
    device: str | flambeau.device,
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: flambeau.memory_format | None = None,
) -> flambeau.Tensor:
    """A tensor with values drawn uniformly from [low, high), by default within -9 and 9.

    `noncontiguous` leaves gaps between the elements of the last dimension; `exclude_zero` puts
    the smallest positive value where a zero was drawn.
    """
    sizes: Sequence = shape[0] if is_one_sequence(shape) else shape  # type: ignore[assignment]
    floating = dtype.is_floating_point or dtype.is_complex
    if requires_grad and not floating:
        raise ValueError(
            "`requires_grad=True` is not supported for boolean and integral dtypes, "
            f"but got dtype={dtype}"
        )
    if noncontiguous and memory_format is not None:
        raise ValueError(
            "The parameters `noncontiguous` and `memory_format` are mutually exclusive, "
            f"but got noncontiguous={noncontiguous} and memory_format={memory_format}"
        )
    gaps = noncontiguous and math.prod(sizes) > 1
    drawn = (*sizes[:-1], 2 * sizes[-1]) if gaps else tuple(sizes)
    low, high = interval(dtype, low, high)
    narrow = floating and dtype.itemsize == 1
    if narrow:  # nothing is drawn in 8 bits, and PyTorch gives no gradients to it here
        result = flambeau.empty(drawn, device=device, dtype=flambeau.float32)
        result = result.uniform_(low, high).to(dtype)
    elif floating:
        result = flambeau.empty(drawn, dtype=dtype, device=device)
        fill_uniformly(flambeau.view_as_real(result) if dtype.is_complex else result, low, high)
    else:
        result = flambeau.randint(low, high, drawn, dtype=dtype, device=device)  # type: ignore[arg-type]
    if gaps:
        result = result[..., 1::2]
    elif memory_format is not None:
        result = result.clone(memory_format=memory_format)
    if exclude_zero:
        result[result == 0] = flambeau.finfo(dtype).tiny if floating else 1
    return result.requires_grad_() if requires_grad and not narrow else result


def is_one_sequence(shape) -> bool:
    return len(shape) == 1 and isinstance(shape[0], (list, tuple))


def limits(dtype) -> tuple[float, float, float, float]:
    """The usual range of a dtype and the widest, both with their end left out."""
    if dtype is flambeau.bool:
        return 0, 2, 0, 2
    if dtype.is_floating_point or dtype.is_complex:
        info = flambeau.finfo(dtype)
        return -9, 9, info.min, info.max
    whole = flambeau.iinfo(dtype)
    # randint takes its end as int64, which cannot hold one more than its own greatest value
    end = min(whole.max + 1, 2**63 - 1)
    return (-9 if whole.min < 0 else 0), 10, whole.min, end


def interval(dtype, low, high):
    """The range to draw from: what was asked for, as far as the dtype reaches."""
    usual_low, usual_high, least, greatest = limits(dtype)
    low = usual_low if low is None else low
    high = usual_high if high is None else high
    if low != low or high != high:  # math.isnan refuses integers beyond all floats
        raise ValueError(f"`low` and `high` cannot be NaN, but got low={low} and high={high}")
    floating = dtype.is_floating_point or dtype.is_complex
    if low == high and floating and dtype.itemsize > 1:
        warnings.warn(
            "Passing `low==high` to `torch.testing.make_tensor` for floating or complex types is "
            "deprecated since 2.1 and will be removed in 2.3. Use `torch.full(...)` instead.",
            FutureWarning,
            stacklevel=3,
        )
    elif low >= high:
        raise ValueError(f"`low` must be less than `high`, but got {low} >= {high}")
    elif high < least or low >= greatest:
        raise ValueError(
            f"The value interval specified by `low` and `high` is [{low}, {high}), "
            f"but {dtype} only supports [{least}, {greatest})"
        )
    low, high = (min(max(end, least), greatest) for end in (low, high))
    return (low, high) if floating else (math.ceil(low), math.ceil(high))


def fill_uniformly(values, low, high) -> None:
    if low == high:
        values.fill_(low)
    elif high - low > flambeau.finfo(values.dtype).max:
        values.uniform_(low / 2, high / 2).mul_(2)  # a range wider than any value it holds
    else:
        values.uniform_(low, high)
