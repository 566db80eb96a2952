"""Collating: a list of samples becomes a batch.

`default_collate` looks at the first sample. Tensors are stacked, numbers become a tensor, texts
stay a list, and containers are taken apart and collated part by part. Which function handles which
class stands in `default_collate_fn_map`, which programs may extend. Samples that need no batch are
converted in `convert.py`.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import flambeau
from flambeau import Tensor

from .convert import holds_no_numbers, is_named_tuple, rebuilt_mapping, rebuilt_sequence

CollateMap = dict[type | tuple[type, ...], Callable[..., Any]]

default_collate_err_msg_format = (
    "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"
)


SMALL_ARRAY = 1 << 17  # bytes; larger ones are copied by several threads


def collate(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    """Make a batch of samples, by the rules of a map from classes to functions.

    Args:
        batch: the samples; all should be of the kind of the first.
        collate_fn_map: functions `fn(samples, *, collate_fn_map)` by the class, or tuple of
            classes, of samples. The exact class counts first, then the first entry that is a base
            of it. Containers that no entry handles are taken apart.

    Example:
        >>> from flambeau.utils.data._utils.collate import collate
        >>> def joined(batch, *, collate_fn_map=None):
        ...     return "".join(batch)
        >>> collate([("a", "x"), ("b", "y")], collate_fn_map={str: joined})
        ['ab', 'xy']
    """
    first = batch[0]
    kind = type(first)
    if collate_fn_map is not None:
        if kind in collate_fn_map:
            return collate_fn_map[kind](batch, collate_fn_map=collate_fn_map)
        for handled, function in collate_fn_map.items():
            if isinstance(first, handled):
                return function(batch, collate_fn_map=collate_fn_map)

    def part(samples):
        return collate(samples, collate_fn_map=collate_fn_map)

    if isinstance(first, Mapping):
        return rebuilt_mapping(first, lambda key: part([sample[key] for sample in batch]))
    if is_named_tuple(first):
        return kind(*map(part, zip(*batch)))
    if isinstance(first, Sequence):
        if any(len(sample) != len(first) for sample in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        columns = list(zip(*batch))
        if isinstance(first, tuple):
            return [part(samples) for samples in columns]
        return rebuilt_sequence(first, lambda: map(part, columns))
    raise TypeError(default_collate_err_msg_format.format(kind))


def collate_tensor_fn(
    batch: Sequence[Tensor], *, collate_fn_map: CollateMap | None = None
) -> Tensor:
    """Stack tensors."""
    first = batch[0]
    for kind, found in (("nested", first.is_nested), ("sparse", first._layout.strides is None)):
        if found:
            raise RuntimeError(
                f"Batches of {kind} tensors are not currently supported by the default collate_fn; "
                "please provide a custom collate_fn to handle them appropriately."
            )
    return flambeau.stack(batch, 0)


def collate_numpy_array_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    """Stack NumPy arrays of numbers."""
    first = batch[0]
    if holds_no_numbers(first):
        raise TypeError(default_collate_err_msg_format.format(first.dtype))
    plain = collate_fn_map is not None and collate_fn_map.get(Tensor) is collate_tensor_fn
    if plain and first.nbytes < SMALL_ARRAY:
        stacked = _stacked(batch)
        if stacked is not None:
            return stacked
    tensors = [flambeau.as_tensor(array) for array in batch]
    return collate(tensors, collate_fn_map=collate_fn_map)


def _stacked(batch: Any) -> Tensor | None:
    """Arrays of one dtype and shape, copied side by side; None for any others.

    The same as stacking a tensor of each. NumPy has a cheaper way to many small arrays, and gets
    our memory to copy into.
    """
    first = batch[0]
    kind, dtype, shape = type(first), first.dtype, first.shape
    for array in batch:
        if (
            type(array) is not kind
            or array.dtype != dtype
            or array.shape != shape
            or not array.flags.carray
        ):
            return None
    sample = flambeau.as_tensor(first)  # where the default device and the dtype show
    if sample.device.type != "cpu":
        return None
    out = flambeau.empty((len(batch), *shape), dtype=sample.dtype)
    sys.modules["numpy"].stack(batch, out=out.numpy())
    return out


def collate_numpy_scalar_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Tensor:
    """A tensor of NumPy's numbers, of their dtype."""
    return flambeau.as_tensor(batch)


def collate_float_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Tensor:
    """A float64 tensor: Python's numbers keep their precision."""
    return flambeau.tensor(batch, dtype=flambeau.float64)


def collate_int_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Tensor:
    """A tensor of integers or truth values."""
    return flambeau.tensor(batch)


def collate_str_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    """Texts stay as they are."""
    return batch


default_collate_fn_map: CollateMap = {
    Tensor: collate_tensor_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}
_as_delivered = dict(default_collate_fn_map)  # what gathering.py can do without


def know_numpy() -> None:
    """Enter NumPy's classes into the map, right after Tensor.

    They wait until somebody has imported NumPy, since until then no sample can hold any.
    """
    numpy = sys.modules["numpy"]
    entries = {
        numpy.ndarray: collate_numpy_array_fn,
        (numpy.bool_, numpy.number, numpy.object_): collate_numpy_scalar_fn,
    }
    for table in (default_collate_fn_map, _as_delivered):
        others = {key: table.pop(key) for key in [*table] if key is not Tensor}
        table.update({**entries, **others})


def is_as_delivered() -> bool:
    """Whether nobody has changed how default_collate treats a class."""
    return default_collate_fn_map == _as_delivered


def default_collate(batch: Any) -> Any:
    """Make a batch of samples: tensors and numbers along a new first dimension.

    Args:
        batch: a list of samples of one kind: tensors, NumPy arrays or numbers, Python numbers,
            texts, or dicts, tuples, lists and named tuples of these. Tuples give lists.

    Example:
        >>> flambeau.utils.data.default_collate([(0, "a"), (1, "b")])
        [tensor([0, 1]), ('a', 'b')]
        >>> flambeau.utils.data.default_collate([{"x": 1.5}, {"x": 2.5}])
        {'x': tensor([1.5000, 2.5000], dtype=torch.float64)}
    """
    if "numpy" in sys.modules and sys.modules["numpy"].ndarray not in default_collate_fn_map:
        know_numpy()
    return collate(batch, collate_fn_map=default_collate_fn_map)
