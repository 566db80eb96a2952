"""Fused float modules."""

from flambeau.ao.nn.intrinsic.modules.fused import *  # noqa: F403
from flambeau.ao.nn.intrinsic.modules.fused import _FusedModule as _FusedModule
