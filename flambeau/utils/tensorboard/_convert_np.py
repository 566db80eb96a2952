"""What callers hand over, as NumPy arrays and Python numbers."""

from typing import Any

import numpy as np

from flambeau import _dtype
from flambeau._tensor import Tensor


def make_np(x: Any) -> np.ndarray:
    """An array, a tensor or one number as an array; numbers have one element."""
    if isinstance(x, Tensor):
        return _of_tensor(x)
    if np.isscalar(x):
        return np.array([x])
    if isinstance(x, np.ndarray):
        return x
    raise NotImplementedError(
        f"Got {type(x)}, but numpy array or torch tensor are expected. "
        "torch.tensor(...) or numpy.array(...) makes one of a list."
    )


def _of_tensor(x):
    x = x.detach()
    if x.dtype is _dtype.bfloat16:
        # PyTorch goes through float16; what does not fit in there stays as it is.
        half, single = x.to(_dtype.float16), x.to(_dtype.float32)
        x = half if bool((half == x).logical_or(x != x).all()) else single
    return x.numpy()


def make_float(x: Any) -> float:
    """One number, out of anything that holds just one."""
    kind = type(x)
    if kind is float or kind is int:
        return float(x)
    if isinstance(x, Tensor) and x.numel() == 1 and not x.is_complex():
        return float(x.item())
    array = make_np(x).squeeze()
    if array.ndim != 0:
        raise AssertionError(
            "Tensor should contain one element (0 dimensions). "
            f"Was given size: {array.size} and {array.ndim} dimensions."
        )
    return float(array)


def make_list(x: Any) -> list:
    """The elements of an array, a tensor or a sequence as Python numbers."""
    return x.detach().tolist() if isinstance(x, Tensor) else np.asarray(x).tolist()
