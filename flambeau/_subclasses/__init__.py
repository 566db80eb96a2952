"""`torch._subclasses`: tensors without values."""

from flambeau._subclasses.fake_tensor import FakeTensor

__all__ = ["FakeTensor"]
