"""`torch._ops`, by name; the code is in eager/overloads.py."""

from flambeau.eager.overloads import OpOverload, OpOverloadPacket, namespace

__all__ = ["OpOverload", "OpOverloadPacket", "namespace"]
