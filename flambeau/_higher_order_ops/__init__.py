"""`torch._higher_order_ops`: functions of functions and tensors."""

from flambeau._higher_order_ops.associative_scan import associative_scan
from flambeau._higher_order_ops.cond import cond
from flambeau._higher_order_ops.map import map
from flambeau._higher_order_ops.scan import scan
from flambeau._higher_order_ops.while_loop import while_loop

__all__ = ["associative_scan", "cond", "map", "scan", "while_loop"]
