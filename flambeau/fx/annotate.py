"""`torch.fx.annotate`: a type for a value that is being recorded."""

from typing import Any

from flambeau.fx.proxy import Proxy

__all__ = ["annotate"]


def annotate(val: Any, type: Any) -> Any:
    """Note the type of a value; values that are not recorded come back as they are."""
    if isinstance(val, Proxy):
        if val.node.type:
            raise RuntimeError(
                f"Tried to annotate a value that already had a type on it! Existing type is "
                f"{val.node.type} and new type is {type}."
            )
        val.node.type = type
    return val
