"""The graph of a model as TensorBoard reads it; how it comes about is in tracing.py."""

from collections.abc import Mapping
from typing import Any

from tensorboard.compat.proto.attr_value_pb2 import AttrValue
from tensorboard.compat.proto.config_pb2 import RunMetadata
from tensorboard.compat.proto.graph_pb2 import GraphDef
from tensorboard.compat.proto.node_def_pb2 import NodeDef
from tensorboard.compat.proto.step_stats_pb2 import DeviceStepStats, StepStats
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.compat.proto.versions_pb2 import VersionDef

from flambeau._tensor import Tensor
from flambeau.utils.tensorboard.tracing import Node, record


def node_proto(node: Node) -> NodeDef:
    """A node, with the shapes of its results."""
    shapes = [
        TensorShapeProto(dim=[TensorShapeProto.Dim(size=size) for size in shape])
        for shape in node.shapes
    ]
    attributes = {
        "attr": AttrValue(s=node.attributes.encode()),
        "_output_shapes": AttrValue(list=AttrValue.ListValue(shape=shapes)),
    }
    return NodeDef(name=node.name, op=node.kind, input=node.inputs, attr=attributes)


def _arguments(given):
    """What a model is called with, as a tuple."""
    if given is None:
        raise RuntimeError(
            "example_kwarg_inputs should be a dict: add_graph runs the model, so it needs "
            "input_to_model, a tensor or a tuple of arguments"
        )
    return (given,) if isinstance(given, (Tensor, Mapping)) else tuple(given)


def graph(
    model: Any, args: Any, verbose: bool = False, use_strict_trace: bool = True
) -> tuple[GraphDef, RunMetadata]:
    """A model, called with args, as a GraphDef; beside it the device that TensorBoard shows."""
    try:
        nodes = record(model, _arguments(args))
    except RuntimeError as error:
        print(error)
        print("Error occurs, No graph saved")
        raise
    if verbose:
        print("\n".join(map(str, nodes)))
    proto = GraphDef(node=[node_proto(node) for node in nodes], versions=VersionDef(producer=22))
    profile = StepStats(dev_stats=[DeviceStepStats(device="/device:CPU:0")])
    return proto, RunMetadata(step_stats=profile)
