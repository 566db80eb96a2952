"""Sequences of several lengths: padded to one, or packed without padding.

A packed sequence holds the rows of the first step of all sequences, then those of the second, and
so on, longest sequence first; `batch_sizes` says how many are still running at each step. Both
directions are one indexing with the mask of places that hold something, so they differentiate by
themselves.
"""

import itertools
from collections.abc import Iterable
from typing import Any, NamedTuple

from flambeau import _dtype as d
from flambeau._tensor import Tensor
from flambeau.eager import creation
from flambeau.eager.methods import function
from flambeau.eager.ranges import arange

__all__ = [
    "PackedSequence",
    "invert_permutation",
    "pack_padded_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpad_sequence",
    "pack_sequence",
    "unpack_sequence",
]


class PackedSequence_(NamedTuple):
    """The fields of a packed sequence."""

    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


class PackedSequence(PackedSequence_):
    """Rows of all sequences, step after step; made by pack_padded_sequence and pack_sequence.

    data: the rows. batch_sizes: how many belong to each step. sorted_indices, unsorted_indices: how
    sequences were sorted by length, and back (None where they were sorted already).
    """

    def __new__(
        cls,
        data: Any,
        batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ):
        if batch_sizes is not None and batch_sizes.device.type != "cpu":
            raise ValueError(
                "batch_sizes should always be on CPU. Instances of PackedSequence should never be "
                "created manually. They should be instantiated by functions like pack_sequence and "
                "pack_padded_sequences in nn.utils.rnn. "
                "https://pytorch.org/docs/stable/nn.html#torch.nn.utils.rnn.pack_sequence"
            )
        both = data if batch_sizes is None else (data, batch_sizes)
        if not isinstance(both, (list, tuple)) or len(both) != 2:
            raise AssertionError("Expected data to be a list or tuple of length 2")
        back = unsorted_indices
        if back is None:
            back = invert_permutation(sorted_indices)
        rows, sizes = both
        return super().__new__(cls, rows, sizes, sorted_indices, back)

    def _with(self, data, change):
        order, back = self.sorted_indices, self.unsorted_indices
        return type(self)(
            data,
            self.batch_sizes,
            None if order is None else change(order),
            None if back is None else change(back),
        )

    def pin_memory(self):
        """A copy in page-locked memory."""
        return self._with(self.data.pin_memory(), lambda t: t.pin_memory())

    def to(self, *args: Any, **kwargs: Any):
        """With data of another dtype or on another device, as Tensor.to says it."""
        moved = self.data.to(*args, **kwargs)
        same = moved is self.data
        return self if same else self._with(moved, lambda t: t.to(moved.device))

    def cuda(self, *args: Any, **kwargs: Any):
        """On a GPU."""
        return self.to(*args, **{"device": "cuda", **kwargs})

    def cpu(self, *args: Any, **kwargs: Any):
        """On the CPU."""
        return self.to(*args, **{"device": "cpu", **kwargs})

    def double(self):
        """With data of dtype float64."""
        return self.to(dtype=d.float64)

    def float(self):
        """With data of dtype float32."""
        return self.to(dtype=d.float32)

    def half(self):
        """With data of dtype float16."""
        return self.to(dtype=d.float16)

    def long(self):
        """With data of dtype int64."""
        return self.to(dtype=d.int64)

    def int(self):
        """With data of dtype int32."""
        return self.to(dtype=d.int32)

    def short(self):
        """With data of dtype int16."""
        return self.to(dtype=d.int16)

    def char(self):
        """With data of dtype int8."""
        return self.to(dtype=d.int8)

    def byte(self):
        """With data of dtype uint8."""
        return self.to(dtype=d.uint8)

    @property
    def is_cuda(self):
        """Is the data on a GPU?"""
        return self.data.is_cuda

    def is_pinned(self):
        """Is the data in page-locked memory?"""
        return self.data.is_pinned()


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The permutation that undoes another."""
    if permutation is None:
        return None
    places = arange(0, permutation.numel(), device=permutation.device)
    return creation.empty_like(permutation).scatter_(0, permutation, places)


def _held(lengths, steps, device):
    """Which of (step, sequence) hold something."""
    return (arange(steps).unsqueeze(1) < lengths).to(device)


def _turned(counts):
    """From lengths of sequences to sizes of steps and back: how many counts are above 0, 1, ...

    Counts never grow.
    """
    found, above = [], len(counts)
    for k in range(counts[0]):
        while counts[above - 1] <= k:
            above -= 1
        found.append(above)
    return found


def _check_lengths(input, lengths, batch_first):
    if input.numel() == 0:
        raise RuntimeError("Cannot pack empty tensors.")
    if lengths.ndim != 1:
        raise RuntimeError(
            "'lengths' argument should be a 1D CPU int64 tensor, but got "
            f"{lengths.ndim}D {lengths.device} Long tensor"
        )
    batch = input.shape[0 if batch_first else 1]
    values = lengths.tolist()
    if len(values) != batch:
        raise RuntimeError(
            "Expected `len(lengths)` to be equal to batch_size, but got "
            f"{len(values)} (batch_size={batch})"
        )
    if values[-1] <= 0:
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' "
            "that is <= 0"
        )
    if any(a < b for a, b in itertools.pairwise(values)):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You "
            "can pass `enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to "
            "sidestep this requirement if you do not need ONNX exportability."
        )
    steps = input.shape[1 if batch_first else 0]
    if values[0] > steps:
        raise RuntimeError(
            f"Expected all lengths to be at most {steps}, the length of the padded sequences, but "
            f"got {values[0]}"
        )
    return values


def pack_padded_sequence(
    input: Tensor,
    lengths: Tensor | list[int],
    batch_first: bool = False,
    enforce_sorted: bool = True,
) -> PackedSequence:
    """The sequences of a padded tensor (T, B, *), or (B, T, *) with batch_first, without padding.

    Args:
        lengths: of each sequence, on the CPU.
        enforce_sorted: refuse lengths that grow; else sequences are sorted here.
    """
    if not isinstance(input, Tensor):
        raise TypeError(
            "_pack_padded_sequence(): argument 'input' (position 1) must be Tensor, not "
            f"{type(input).__name__}"
        )
    if isinstance(lengths, Tensor):
        lengths = lengths.to(dtype=d.int64)
    else:
        lengths = creation.as_tensor(lengths, dtype=d.int64, device="cpu")
    order = None
    if not enforce_sorted:
        lengths, order = function("sort")(lengths, descending=True)
        order = order.to(input.device)
        input = input.index_select(0 if batch_first else 1, order)
    if input.ndim < 2:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-input.ndim}, "
            f"{input.ndim - 1}], but got 1)"
        )
    values = _check_lengths(input, lengths, batch_first)
    steps_first = input.transpose(0, 1) if batch_first else input
    data = steps_first[_held(lengths, steps_first.shape[0], input.device)]
    return PackedSequence(data, creation.tensor(_turned(values)), order)


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """A packed sequence as a padded tensor (T, B, *), or (B, T, *), and the lengths."""
    data, batch_sizes, _, back = sequence
    sizes = batch_sizes.tolist()
    if not sizes:
        raise RuntimeError("batch_sizes can not be empty")
    steps = len(sizes)
    if total_length is not None:
        if total_length < steps:
            raise ValueError(
                "Expected total_length to be at least the length of the longest sequence in input, "
                f"but got total_length={total_length} and max sequence length being {steps}"
            )
        steps = total_length
    lengths = creation.tensor(_turned(sizes))
    padded = data.new_full((steps, sizes[0], *data.shape[1:]), padding_value)
    padded.index_put_((_held(lengths, steps, data.device),), data)
    padded = padded.transpose(0, 1) if batch_first else padded
    if back is None:
        return padded, lengths
    return padded.index_select(0 if batch_first else 1, back), lengths[back.cpu()]


def pad_sequence(
    sequences: Tensor | list[Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Tensors (L, *) of several lengths as one (T, B, *), or (B, T, *) with batch_first."""
    if type(sequences) is not list:
        if not isinstance(sequences, Iterable):
            raise RuntimeError(
                "pad_sequence: Expected iterable for input sequences, but got arg of type: "
                f"{type(sequences)}"
            )
        sequences = list(sequences)
    if not sequences:
        raise RuntimeError("received an empty list of sequences")
    if padding_side not in ("left", "right"):
        raise RuntimeError(
            f"Expected padding_side to be one of left or right, but got {padding_side}."
        )
    if _differ(sequences) or (padding_value and sequences[0]._layout.itemsize > 8):
        return _padded_apart(sequences, batch_first, padding_value, padding_side)
    return function("pad_sequence")(sequences, batch_first, padding_value, padding_side)


def _differ(tensors):
    """Are there shapes that differ in more than their lengths?"""
    rest = None
    for k, t in enumerate(tensors):
        if not isinstance(t, Tensor):
            raise TypeError(
                f"expected Tensor as element {k} in argument 0, but got {type(t).__name__}"
            )
        sizes = t._layout.sizes
        if rest is None:
            rest = sizes[1:]
        if sizes[1:] != rest or not sizes:
            if not tensors[0].ndim:
                raise RuntimeError("ArrayRef: invalid slice, N = 1; size = 0")
            return True
    return False


def _padded_apart(sequences, batch_first, padding_value, padding_side):
    """pad_sequence for shapes that differ: those that broadcast to the first are copied."""
    lengths = [len(t) for t in sequences]
    steps = max(lengths)
    shape = (len(lengths), steps) if batch_first else (steps, len(lengths))
    padded = sequences[0].new_full((*shape, *sequences[0].shape[1:]), padding_value)
    lines = padded if batch_first else padded.transpose(0, 1)
    for k, (t, n) in enumerate(zip(sequences, lengths)):
        lines[k].narrow(0, steps - n if padding_side == "left" else 0, n).copy_(t)
    return padded


def unpad_sequence(
    padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False
) -> list[Tensor]:
    """The sequences of a padded tensor, each of its own length."""
    if not batch_first:
        padded_sequences = padded_sequences.transpose(0, 1)
    if len(padded_sequences) != len(lengths):
        longer = len(lengths) > len(padded_sequences)
        raise ValueError(f"zip() argument 2 is {'longer' if longer else 'shorter'} than argument 1")
    return [t[:length].clone() for t, length in zip(padded_sequences, lengths.tolist())]


def pack_sequence(sequences: list[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Tensors (L, *) of several lengths, packed."""
    lengths = [len(t) for t in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The tensors that pack_sequence packed."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
