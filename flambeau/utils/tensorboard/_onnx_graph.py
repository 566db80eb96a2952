"""The graph of an ONNX file."""

from itertools import chain
from typing import Any

from tensorboard.compat.proto.attr_value_pb2 import AttrValue
from tensorboard.compat.proto.graph_pb2 import GraphDef
from tensorboard.compat.proto.node_def_pb2 import NodeDef
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.compat.proto.versions_pb2 import VersionDef


def load_onnx_graph(fname: Any) -> GraphDef:
    """The graph in an ONNX file."""
    try:
        import onnx
    except ImportError as error:
        raise ImportError(
            "add_onnx_graph needs the package onnx; install it with `pip install flambeau[onnx]`"
        ) from error
    return parse(onnx.load(fname).graph)


def parse(graph: Any) -> GraphDef:
    """Inputs and outputs as variables; ops by the names of their first results."""
    nodes = [_variable(value) for value in chain(graph.input, graph.output)]
    nodes += [_op(node) for node in graph.node]
    return GraphDef(node=nodes, versions=VersionDef(producer=22))


def _variable(value):
    kind = value.type.tensor_type
    shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=d.dim_value) for d in kind.shape.dim])
    attributes = {"dtype": AttrValue(type=kind.elem_type), "shape": AttrValue(shape=shape)}
    return NodeDef(name=value.name, op="Variable", attr=attributes)


def _op(node):
    texts = (
        " = ".join(str(content) for _, content in attribute.ListFields())
        for attribute in node.attribute
    )
    attributes = {"parameters": AttrValue(s=", ".join(texts).encode())}
    return NodeDef(name=node.output[0], op=node.op_type, input=node.input, attr=attributes)
