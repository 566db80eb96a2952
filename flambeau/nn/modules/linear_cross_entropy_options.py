"""Options of linear_cross_entropy: how its work may be cut into chunks of the batch.

They are checked and kept; here they change no value, and chunks are chosen by the kernels.
"""

import dataclasses
from typing import Any

from flambeau import _dtype as d

__all__ = ["LinearCrossEntropyOptions"]

_POLICIES = ("auto", "accurate", "balanced", "compact")
_DTYPES = (None, d.float16, d.bfloat16, d.float32, d.float64)


def _is_method(method):
    """None, "auto", "aspect_ratio" or "aspect_ratio:N"."""
    if method is None or method == "auto":
        return True
    name, colon, factor = method.partition(":")
    factor = factor if colon else "1"
    return name == "aspect_ratio" and factor.isdigit() and int(factor) > 0


@dataclasses.dataclass(slots=True, frozen=True)
class LinearCrossEntropyOptions:
    """How linear_cross_entropy may be computed.

    allow_retain_graph: keep gradients for a second backward. batch_chunk_size, chunking_method:
    rows per chunk, or a rule for their number. acc_policy, acc_dtype: what is accumulated in which
    dtype.
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: Any = None

    def __post_init__(self):
        if self.acc_policy not in _POLICIES:
            raise ValueError(f"invalid acc_policy: {self.acc_policy!r}")
        if not _is_method(self.chunking_method):
            raise ValueError(f"invalid chunking_method: {self.chunking_method!r}")
        size = self.batch_chunk_size
        if size is not None and not (isinstance(size, int) and size > 0):
            raise ValueError(f"batch_chunk_size must be positive int or None, got {size!r}")
        if self.acc_dtype not in _DTYPES:
            raise ValueError(
                "acc_dtype must be one of {None, torch.float16, torch.bfloat16, torch.float32, "
                f"torch.float64}}, got {self.acc_dtype!r}. Pass acc_dtype=None to let the op pick "
                "automatically."
            )
