"""Comparing results and making inputs for tests, under PyTorch's path `torch.testing`.

`assert_close` walks nested containers and says what differs, where and by how much
(`comparison.py`, which also says how far apart two values may be); `make_tensor` draws tensors of
any dtype in a range (`creation.py`).
"""

from flambeau.testing.comparison import assert_allclose, assert_close
from flambeau.testing.creation import make_tensor

__all__ = ["assert_allclose", "assert_close", "make_tensor"]
