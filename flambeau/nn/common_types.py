"""Types of arguments that are one value for all dimensions or one for each, for annotations."""

from typing import TypeAlias as _TypeAlias
from typing import TypeVar

from flambeau._tensor import Tensor

T = TypeVar("T")

# one value, or as many as the name says; the types below are these with something put in for T
_scalar_or_tuple_any_t: _TypeAlias = tuple[T, ...] | T
_scalar_or_tuple_1_t: _TypeAlias = tuple[T] | T
_scalar_or_tuple_2_t: _TypeAlias = tuple[T, T] | T
_scalar_or_tuple_3_t: _TypeAlias = tuple[T, T, T] | T
_scalar_or_tuple_4_t: _TypeAlias = tuple[T, T, T, T] | T
_scalar_or_tuple_5_t: _TypeAlias = tuple[T, T, T, T, T] | T
_scalar_or_tuple_6_t: _TypeAlias = tuple[T, T, T, T, T, T] | T

# any number of dimensions: sizes, sizes that may be left open (adaptive pooling), factors, tensors
_size_any_t: _TypeAlias = _scalar_or_tuple_any_t[int]
_size_any_opt_t: _TypeAlias = _scalar_or_tuple_any_t[int | None]
_ratio_any_t: _TypeAlias = _scalar_or_tuple_any_t[float]
_tensor_list_t: _TypeAlias = _scalar_or_tuple_any_t[Tensor]

# two and three dimensions; a result with or without indices
_size_2_t: _TypeAlias = _scalar_or_tuple_2_t[int]
_size_2_opt_t: _TypeAlias = _scalar_or_tuple_2_t[int | None]
_ratio_2_t: _TypeAlias = _scalar_or_tuple_2_t[float]
_maybe_indices_t: _TypeAlias = _scalar_or_tuple_2_t[Tensor]
_size_3_t: _TypeAlias = _scalar_or_tuple_3_t[int]
_size_3_opt_t: _TypeAlias = _scalar_or_tuple_3_t[int | None]
_ratio_3_t: _TypeAlias = _scalar_or_tuple_3_t[float]

# sides of windows: one dimension has two of them, three have six
_size_1_t: _TypeAlias = _scalar_or_tuple_1_t[int]
_size_4_t: _TypeAlias = _scalar_or_tuple_4_t[int]
_size_5_t: _TypeAlias = _scalar_or_tuple_5_t[int]
_size_6_t: _TypeAlias = _scalar_or_tuple_6_t[int]
