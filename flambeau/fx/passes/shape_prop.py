"""ShapeProp runs a graph and notes shapes and dtypes of all values with its nodes."""

from typing import Any, NamedTuple

import flambeau
from flambeau._tensor import Tensor
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.interpreter import Interpreter
from flambeau.fx.node import Node, map_aggregate

__all__ = ["ShapeProp", "TensorMetadata"]


class TensorMetadata(NamedTuple):
    """What is known of a tensor without its values."""

    shape: Any
    dtype: Any
    requires_grad: bool
    stride: tuple[int, ...]
    memory_format: Any
    is_quantized: bool
    qparams: dict[str, Any]


_FORMATS = (flambeau.contiguous_format, flambeau.channels_last, flambeau.channels_last_3d)


def _format_of(tensor):
    for wanted in _FORMATS:
        dims = {flambeau.channels_last: 4, flambeau.channels_last_3d: 5}.get(wanted)
        if dims in (None, tensor.ndim) and tensor.is_contiguous(memory_format=wanted):
            return wanted
    return None


def _extract_tensor_metadata(
    result: Tensor, include_contiguity: bool = True, is_meta_tensor: bool = False
) -> TensorMetadata:
    return TensorMetadata(
        result.shape, result.dtype, result.requires_grad, result.stride(),
        _format_of(result) if include_contiguity else None, False, {},
    )  # fmt: skip


class ShapeProp(Interpreter):
    """Runs a module; afterwards nodes have meta["tensor_meta"] and meta["type"].

    Example:
        >>> from flambeau import fx, nn
        >>> from flambeau.fx.passes.shape_prop import ShapeProp
        >>> gm = fx.symbolic_trace(nn.Sequential(nn.Linear(3, 4), nn.ReLU()))
        >>> _ = ShapeProp(gm).propagate(flambeau.ones(2, 3))
        >>> [tuple(n.meta["tensor_meta"].shape) for n in gm.graph.nodes]
        [(2, 3), (2, 4), (2, 4), (2, 4)]
    """

    def __init__(self, gm: GraphModule, fake_mode: Any = None) -> None:
        super().__init__(gm)
        self.fake_mode = fake_mode

    def run_node(self, n: Node) -> Any:
        """Run a node and note what it gives."""
        try:
            result = super().run_node(n)
        except Exception as error:
            raise RuntimeError(
                f"ShapeProp error for: node={n.format_node()} with meta={n.meta}"
            ) from error
        found = []

        def note(leaf):
            if isinstance(leaf, Tensor):
                found.append(leaf)
                return _extract_tensor_metadata(leaf)
            return leaf

        meta = map_aggregate(_as_tuple(result), note)
        if found:
            n.meta["tensor_meta"] = meta
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: Any) -> Any:
        """Run the module on some arguments."""
        return super().run(*args)


def _as_tuple(value):
    """Named results, whose fields may hold more than tensors, as plain tuples."""
    return tuple(value) if isinstance(value, tuple) else value
