"""`torch._higher_order_ops`: functions of functions and tensors."""

from flambeau._higher_order_ops.associative_scan import associative_scan
from flambeau._higher_order_ops.cond import cond

__all__ = ["associative_scan", "cond"]
