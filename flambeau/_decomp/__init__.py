"""`torch._decomp`: ops of aten in terms of others.

`composites` are those that PyTorch's dispatcher itself makes of others, which `make_fx` never sees;
`core` is the rest of the way to the ops that tools are expected to know.
"""

from collections.abc import Callable, Sequence
from typing import Any

from flambeau._decomp import composite_views, composites, core, core_losses, recurrence
from flambeau._decomp.registry import COMPOSITE, CORE, register_decomposition
from flambeau.aten.overloads import OpOverload, OpOverloadPacket

__all__ = [
    "composite_decompositions",
    "core_aten_decompositions",
    "decomposition_table",
    "get_decompositions",
    "register_decomposition",
]

decomposition_table: dict[Any, Callable] = CORE
_FILES = (
    composite_views,
    composites,
    core,
    core_losses,
    recurrence,
)  # loaded for what they register


def composite_decompositions() -> dict[Any, Callable]:
    """Ops that PyTorch's dispatcher makes of others."""
    return dict(COMPOSITE)


def core_aten_decompositions() -> dict[Any, Callable]:
    """All there is, on the way to core aten."""
    return {**COMPOSITE, **CORE}


def get_decompositions(
    aten_ops: Sequence[OpOverload | OpOverloadPacket], type: str = "post_autograd"
) -> dict[Any, Callable]:
    """The functions that take some ops apart."""
    known = core_aten_decompositions()
    found: dict[Any, Callable] = {}
    for op in aten_ops:
        if isinstance(op, OpOverloadPacket):
            mine = [k for k in known if k.overloadpacket is op]
        else:
            mine = [op] if op in known else []
        found |= {k: known[k] for k in mine}
    return found
