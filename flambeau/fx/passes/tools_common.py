"""What passes share."""

from flambeau.fx.passes.operator_support import (
    CALLABLE_NODE_OPS,
    get_node_target,
    is_node_output_tensor,
)

__all__ = ["CALLABLE_NODE_OPS", "get_node_target", "is_node_output_tensor"]
