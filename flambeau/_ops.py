"""`torch._ops`, by name; the code is in aten/overloads.py."""

from flambeau.aten.overloads import OpOverload, OpOverloadPacket, namespace

__all__ = ["OpOverload", "OpOverloadPacket", "namespace"]
